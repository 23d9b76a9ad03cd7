"""Compilation of SQLAlchemy's statements, DDL, identifiers and types to the SQL of the server."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from sqlalchemy import types as sqltypes
from sqlalchemy.exc import CompileError
from sqlalchemy.sql import compiler
from sqlalchemy.sql.type_api import TypeEngine

_MICROSECONDS = 6
_SINGLE_BITS = 24
_ARRAY = re.compile(r"^(?P<item>.*)\[(?P<size>\d*)\]$", re.DOTALL)
_WITH_NUMBERS = re.compile(r"^(?P<name>[A-Z]+)\((?P<numbers>[\d, ]+)\)$")


class NamedType(sqltypes.UserDefinedType[Any]):
    """Type that SQLAlchemy has no class for, by the name that the server gives it."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        """Return the name as DDL."""
        return self.name


class Struct(NamedType):
    """`STRUCT<…>`; its values are dictionaries."""


class Binary(sqltypes.LargeBinary):
    """Bytes, which need no wrapper where they are bound."""

    def bind_processor(self, dialect: Any) -> None:
        return None


class Decimals(sqltypes.Numeric[Any]):
    """Decimal numbers, bound as such whatever the application has: rows of one column have one type."""

    def bind_processor(self, dialect: Any) -> Any:
        return lambda value: Decimal(str(value)) if isinstance(value, float) else value


class Floats(sqltypes.Float[Any]):
    """Binary floating-point numbers, bound as such."""

    def bind_processor(self, dialect: Any) -> Any:
        return lambda value: float(value) if isinstance(value, Decimal) else value


class _SizedInteger(sqltypes.Integer):
    def __init__(self, name: str) -> None:
        self.name = name


class Timestamp(sqltypes.TIMESTAMP):
    """`TIMESTAMP(precision)` or `TIMESTAMPTZ(precision)`: 0, 3, 6 or 9 digits of a second."""

    def __init__(self, timezone: bool = False, precision: int = _MICROSECONDS) -> None:  # noqa: FBT001, FBT002 - SQLAlchemy's signature
        super().__init__(timezone=timezone)
        self.precision = precision


_PLAIN: Mapping[str, Callable[[], TypeEngine[Any]]] = MappingProxyType(
    {
        "BOOLEAN": sqltypes.BOOLEAN,
        "TINYINT": lambda: _SizedInteger("TINYINT"),
        "SMALLINT": sqltypes.SMALLINT,
        "INTEGER": sqltypes.INTEGER,
        "BIGINT": sqltypes.BIGINT,
        **{
            f"{size} UNSIGNED": lambda size=size: _SizedInteger(f"{size} UNSIGNED")  # type: ignore[misc]
            for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
        },
        "REAL": sqltypes.REAL,
        "DOUBLE": sqltypes.DOUBLE,
        "VARCHAR": sqltypes.VARCHAR,
        "VARBINARY": sqltypes.VARBINARY,
        "DATE": sqltypes.DATE,
        "TIME": sqltypes.TIME,
    }
)
_NUMBERED: Mapping[str, Callable[..., TypeEngine[Any]]] = MappingProxyType(
    {
        "DECIMAL": sqltypes.DECIMAL,
        "TIMESTAMP": lambda precision: Timestamp(precision=precision),
        "TIMESTAMPTZ": lambda precision: Timestamp(timezone=True, precision=precision),
    }
)


def reflect_type(name: str) -> TypeEngine[Any]:
    """Return the SQLAlchemy type of a `data_type`.

    >>> reflect_type("DECIMAL(9, 2)"), reflect_type("BIGINT[]"), reflect_type("TIMESTAMPTZ(6)").timezone, reflect_type("BIGINT UNSIGNED").name
    (DECIMAL(precision=9, scale=2), ARRAY(BIGINT()), True, 'BIGINT UNSIGNED')
    """
    if name in _PLAIN:
        return _PLAIN[name]()
    array = _ARRAY.match(name)
    if array is not None:
        return NamedType(name) if array["size"] else _array(reflect_type(array["item"]))
    if name.startswith("STRUCT<"):
        return Struct(name)
    numbered = _WITH_NUMBERS.match(name)
    if numbered is not None and numbered["name"] in _NUMBERED:
        return _NUMBERED[numbered["name"]](*map(int, numbered["numbers"].split(",")))
    return NamedType(name)


def _array(item: TypeEngine[Any]) -> sqltypes.ARRAY[Any]:
    """Return the type of lists; lists of lists are one more dimension of the same type."""
    if isinstance(item, sqltypes.ARRAY):
        return sqltypes.ARRAY(item.item_type, dimensions=(item.dimensions or 1) + 1)
    return sqltypes.ARRAY(item)


class TypeCompiler(compiler.GenericTypeCompiler):
    """Writes types as CREATE TABLE and CAST read them."""

    def visit_string(self, type_: Any, **kw: Any) -> str:
        return "VARCHAR"

    visit_VARCHAR = visit_NVARCHAR = visit_CHAR = visit_NCHAR = visit_TEXT = visit_CLOB = visit_string  # noqa: N815
    visit_unicode = visit_text = visit_unicode_text = visit_enum = visit_JSON = visit_uuid = visit_UUID = visit_string  # noqa: N815

    def visit_large_binary(self, type_: Any, **kw: Any) -> str:
        return "VARBINARY"

    visit_BINARY = visit_VARBINARY = visit_BLOB = visit_large_binary  # noqa: N815

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:  # noqa: N802 - SQLAlchemy's name
        return "REAL" if type_.precision is not None and type_.precision <= _SINGLE_BITS else "DOUBLE"

    def visit_DOUBLE(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "DOUBLE"

    visit_DOUBLE_PRECISION = visit_DOUBLE  # noqa: N815

    def visit_DECIMAL(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "DECIMAL" if type_.precision is None else f"DECIMAL({type_.precision}, {type_.scale or 0})"

    visit_NUMERIC = visit_DECIMAL  # noqa: N815

    def visit_integer(self, type_: Any, **kw: Any) -> str:
        return type_.name if isinstance(type_, _SizedInteger) else "INTEGER"

    def visit_datetime(self, type_: Any, **kw: Any) -> str:
        zone = "TZ" if type_.timezone else ""
        return f"TIMESTAMP{zone}({getattr(type_, 'precision', _MICROSECONDS)})"

    visit_DATETIME = visit_TIMESTAMP = visit_datetime  # noqa: N815

    def visit_TIME(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "TIME"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return self.process(type_.item_type, **kw) + "[]" * (type_.dimensions or 1)


class LanceFlightWarning(UserWarning):
    """Warning of something that SQLAlchemy offers and the server does not do."""


_DIALECT, _PREFIX = "lance", "flight_"
"""`Table(…, lance_flight_partitioned_by="day(ts)")` is the option `flight_partitioned_by` of a dialect `lance` to SQLAlchemy, which splits
the name at its first underscore."""


def declare_options(*names: str) -> dict[str, None]:
    """Return options of the dialect as `construct_arguments` declares them.

    >>> declare_options("using")
    {'flight_using': None}
    """
    return {_PREFIX + name: None for name in names}


def _given_options(element: Any, *names: str) -> dict[str, Any]:
    """Return those of the dialect's options that a table or an index has."""
    options = element.dialect_options[_DIALECT]
    return {name: options[_PREFIX + name] for name in names if options[_PREFIX + name] is not None}


class LanceFlightCompiler(compiler.SQLCompiler):
    """Writes statements."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """Return LIMIT and OFFSET, each of which may be absent."""
        text = ""
        if select._limit_clause is not None:  # noqa: SLF001 - what every dialect reads
            text += "\n LIMIT " + self.process(select._limit_clause, **kw)  # noqa: SLF001
        if select._offset_clause is not None:  # noqa: SLF001
            text += "\n OFFSET " + self.process(select._offset_clause, **kw)  # noqa: SLF001
        return text

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        """Return nothing: readers and writers do not wait for each other."""
        return ""

    def visit_like_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._like("LIKE", binary, **kw)

    def visit_not_like_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._like("NOT LIKE", binary, **kw)

    def visit_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._like("ILIKE", binary, **kw)

    def visit_not_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._like("NOT ILIKE", binary, **kw)

    def _like(self, word: str, binary: Any, **kw: Any) -> str:
        """Return a LIKE; the pattern of another escape character is rewritten to the backslash, the only one that there is."""
        left, right = (side._compiler_dispatch(self, **kw) for side in (binary.left, binary.right))  # noqa: SLF001
        escape = binary.modifiers.get("escape")
        if escape is not None and escape != "\\":
            escaped = _literal(f"(?s){re.escape(escape)}(.)")
            right = f"regexp_replace(replace({right}, '\\', '\\\\'), {escaped}, '\\\\\\1', 'g')"
        return f"{left} {word} {right}"

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._regexp("regexp_like", binary, **kw)

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return "NOT " + self._regexp("regexp_like", binary, **kw)

    def visit_regexp_replace_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._regexp("regexp_replace", binary, **kw)

    def _regexp(self, function: str, binary: Any, **kw: Any) -> str:
        left, right = self.process(binary.left, **kw), self.process(binary.right, **kw)
        flags = binary.modifiers["flags"]
        return f"{function}({left}, {right}{'' if flags is None else ', ' + _literal(flags)})"

    def visit_empty_set_expr(self, element_types: Any, **kw: Any) -> str:
        columns = ", ".join(f"NULL AS c{place}" for place in range(len(element_types) or 1))
        return f"SELECT {columns} WHERE 1 != 1"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class LanceFlightDDLCompiler(compiler.DDLCompiler):
    """Writes DDL; constraints that the server does not have are left out with a warning."""

    def get_column_specification(self, column: Any, **kwargs: Any) -> str:
        for given, what, instead in (
            (column.computed, "Computed", "a column that the application fills"),
            (column.identity, "Identity", "default=, such as uuid.uuid4"),
            (column.server_default, "server_default", "default="),
        ):
            if given is not None:
                raise CompileError(
                    f"column {column.name!r} has a {what}, which the server does not store; use {instead}"
                )
        return super().get_column_specification(column, **kwargs) + _comment(column)

    def post_create_table(self, table: Any) -> str:
        partitioned = _given_options(table, "partitioned_by").values()
        clauses = [f" PARTITIONED BY ({fields})" for fields in partitioned]
        return "".join([*clauses, _with(_given_options(table, "file_version", "stable_row_ids")), _comment(table)])

    def visit_primary_key_constraint(self, constraint: Any, **kw: Any) -> Any:
        columns = ", ".join(map(self.preparer.format_column, constraint.columns))
        return f"PRIMARY KEY ({columns})" if columns else None

    def visit_foreign_key_constraint(self, constraint: Any, **kw: Any) -> Any:
        return None

    def visit_unique_constraint(self, constraint: Any, **kw: Any) -> Any:
        return _left_out("UNIQUE", constraint)

    def visit_check_constraint(self, constraint: Any, **kw: Any) -> Any:
        return _left_out("CHECK", constraint)

    visit_column_check_constraint = visit_check_constraint

    def visit_create_index(self, create: Any, *args: Any, **kw: Any) -> str:
        index = create.element
        if index.unique:
            raise CompileError(f"index {index.name!r} is unique, which no index of the server is")
        text: str = super().visit_create_index(create, *args, **kw)  # type: ignore[no-untyped-call]
        using = "".join(f" USING {kind}" for kind in _given_options(index, "using").values())
        return text + using + _with(_given_options(index, "with").get("with", {}))

    def visit_drop_index(self, drop: Any, **kw: Any) -> str:
        index = drop.element
        exists = "IF EXISTS " if drop.if_exists else ""
        return f"DROP INDEX {exists}{self._prepared_index_name(index)} ON {self.preparer.format_table(index.table)}"


def _left_out(kind: str, constraint: Any) -> None:
    warnings.warn(
        f"{kind} constraint of table {constraint.table.name!r} is left out: the server would not enforce it",
        LanceFlightWarning,
        stacklevel=2,
    )


def _comment(element: Any) -> str:
    return "" if element.comment is None else f" COMMENT {_literal(element.comment)}"


def _with(options: Mapping[str, object]) -> str:
    """Return a WITH clause; nothing without options."""
    chosen = ", ".join(f"{name} = {_option(value)}" for name, value in options.items())
    return f" WITH ({chosen})" if chosen else ""


def _option(value: object) -> str:
    return str(value).lower() if isinstance(value, (bool, int, float)) else _literal(str(value))


class LanceFlightIdentifierPreparer(compiler.IdentifierPreparer):
    """Quotes what DataFusion reads as a word of SQL."""

    reserved_words = compiler.RESERVED_WORDS | {
        "anti", "cube", "exclude", "except", "fetch", "filter", "global", "group", "groups", "intersect", "lateral", "limit", "minus",
        "natural", "offset", "order", "pivot", "qualify", "rollup", "sample", "semi", "settings", "sort", "start", "tablesample",
        "top", "unpivot", "view", "window", "with", "values", "partition", "by", "interval", "row", "rows", "range", "exists",
        "timestamp", "date", "time", "struct", "array", "map", "cluster", "distribute", "connect", "for", "prewhere", "format",
    }  # fmt: skip
