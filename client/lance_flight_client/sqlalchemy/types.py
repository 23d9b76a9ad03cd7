"""SQL types of the server in SQLAlchemy: their DDL, and what reflection makes of `information_schema.columns.data_type`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from sqlalchemy import types as sqltypes
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


def reflected(name: str) -> TypeEngine[Any]:
    """Return the SQLAlchemy type of a `data_type`.

    >>> reflected("DECIMAL(9, 2)"), reflected("BIGINT[]"), reflected("TIMESTAMPTZ(6)").timezone, reflected("BIGINT UNSIGNED").name
    (DECIMAL(precision=9, scale=2), ARRAY(BIGINT()), True, 'BIGINT UNSIGNED')
    """
    if name in _PLAIN:
        return _PLAIN[name]()
    array = _ARRAY.match(name)
    if array is not None:
        return NamedType(name) if array["size"] else _array(reflected(array["item"]))
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
