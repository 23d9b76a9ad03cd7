"""Definitions of tables: Spark's in the service's SQL, and the service's as Spark describes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, cast

import pyarrow as pa
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.engine.statements.alter_columns import AlterColumns
from lance_flight.engine.statements.create_table import CreateTable
from lance_flight.engine.statements.parsing import parse
from lance_flight.engine.writes.definitions import as_texts, chosen_texts
from lance_flight.errors import InvalidInput, Unsupported
from lance_flight.model.arrow_types import children, storage_of
from lance_flight.model.schema import MOMENTS, NamespaceSchema
from lance_flight.model.schema_changes import apply_changes
from lance_flight.model.spec import Expression
from pyspark.sql import types as spark

from lance_flight_client.errors import ServerError
from lance_flight_client.parameters import quote_name
from lance_flight_client.spark.connector.backends import SqlRunner
from lance_flight_client.spark.connector.conditions import Node, literal
from lance_flight_client.spark.connector.jvm import code_of
from lance_flight_client.spark.connector.properties import (
    DISTRIBUTION,
    PARTITIONED_BY,
    SORT_BY,
    of_new_table,
    sort_keys,
    sorting,
)
from lance_flight_client.spark.connector.properties import alterations as property_changes
from lance_flight_client.spark.connector.relations import DirectTable, Relation, ServerEvolution, ServerTable, text
from lance_flight_client.spark.options import NamedTable
from lance_flight_client.spark.types import EXPECTED

_PARTS = ("year", "month", "day", "hour")
CALENDAR: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {f"{part}s": _PARTS[: place + 1] for place, part in enumerate(_PARTS)}
)
"""Spark's transforms of moments, each of which is a year, or a year and a month …, as partition fields."""

_TYPES: Mapping[type[spark.DataType], str] = MappingProxyType(
    {
        spark.BooleanType: "BOOLEAN",
        spark.ByteType: "TINYINT",
        spark.ShortType: "SMALLINT",
        spark.IntegerType: "INT",
        spark.LongType: "BIGINT",
        spark.FloatType: "REAL",
        spark.DoubleType: "DOUBLE",
        spark.StringType: "VARCHAR",
        spark.BinaryType: "BYTEA",
        spark.DateType: "DATE",
        spark.TimestampType: "TIMESTAMPTZ",
        spark.TimestampNTZType: "TIMESTAMP",
        spark.DayTimeIntervalType: "DURATION",
    }
)
_INSTEAD = MappingProxyType({"VariantType": "STRING with JSON", "YearMonthIntervalType": "INT, a number of months"})
"""What is written for types of Spark's that no table has, by their classes: not every version has all of them."""


def create_table(table: str, given: Mapping[str, Any], kind: str = "TABLE") -> str:
    """Return the CREATE TABLE for columns, transforms and properties of Spark's; `table` is quoted, `kind` may be OR REPLACE TABLE."""
    properties: Mapping[str, str] = given["properties"]
    settings = of_new_table(properties, _clustering(given["partitioning"]))
    key = _primary_key(given.get("constraints", ()))
    columns = ", ".join(
        _column({**column, "nullable": column["nullable"] and column["name"] not in key}) for column in given["columns"]
    )
    fields = partition_fields(given["partitioning"])
    comment = properties.get("comment")
    return (
        f"CREATE {kind} {table} ({columns}"
        + f", PRIMARY KEY ({', '.join(map(quote_name, key))})" * bool(key)
        + ")"
        + f" PARTITIONED BY ({fields})" * bool(fields)
        + (f" COMMENT {text(comment)}" if comment is not None else "")
        + settings.clauses
    )


def create_like(table: str, given: Mapping[str, Any], like: NamedTable) -> str:
    """Return the CREATE TABLE for one with the definition of another; `Unsupported` for what a statement says beside it."""
    settings = of_new_table(given["properties"])
    if settings.options:
        raise Unsupported(
            f"CREATE TABLE … LIKE with {min(settings.options)!r}; expected ALTER TABLE … SET TBLPROPERTIES"
        )
    return f"CREATE TABLE {table} LIKE {quote_name(like.db_schema)}.{quote_name(like.name)}{settings.clauses}"


def _primary_key(constraints: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns of the primary key among constraints; `Unsupported` for any other one."""
    keys = [_key_columns(constraint) for constraint in constraints]
    if len(keys) > 1:
        raise Unsupported(f"{len(keys)} primary keys; expected one")
    return keys[0] if keys else []


def _key_columns(constraint: Mapping[str, Any]) -> list[str]:
    if "columns" not in constraint:
        raise Unsupported(
            f"{constraint['definition']}: rows are not compared with a condition; expected PRIMARY KEY, which nothing enforces, or a WHERE"
            " in INSERT … SELECT"
        )
    return [".".join(path) for path in constraint["columns"]]


def _column(column: Mapping[str, Any]) -> str:
    if column.get("generated"):
        raise Unsupported(
            f"column {column['name']!r} GENERATED: expected PARTITIONED BY (years(c), bucket(n, c), …) in place of a column to partition by,"
            " and a key in the INSERT, as uuid()"
        )
    default = _default_value(column) if column.get("default") is not None else None
    comment, kind = column.get("comment"), _parse_type(column)
    _check_inside((column["name"],), kind)
    return (
        f"{quote_name(column['name'])} {type_words(kind)}"
        + " NOT NULL" * (not column["nullable"])
        + (f" DEFAULT {default}" if default is not None else "")
        + (f" COMMENT {text(comment)}" if comment is not None else "")
    )


def _check_inside(path: tuple[str, ...], kind: spark.DataType) -> None:
    """Refuse NOT NULL inside a struct, which no type in SQL says."""
    for column in kind if isinstance(kind, spark.StructType) else ():
        inside = (*path, column.name)
        if not column.nullable:
            name = ".".join(inside)
            raise Unsupported(
                f"column {name!r} inside {path[0]!r} is NOT NULL; expected one that may be NULL, and ALTER COLUMN {name} SET NOT NULL by the"
                " service's SQL"
            )
        _check_inside(inside, column.dataType)
    if isinstance(kind, spark.ArrayType):
        _check_inside((*path, "element"), kind.elementType)
    if isinstance(kind, spark.MapType):
        _check_inside((*path, "value"), kind.valueType)


def _default_value(given: Mapping[str, Any]) -> str:
    """Return the default of a column: a moment, or a constant."""
    moment = str(given.get("sql") or "").strip().lower().removesuffix("()").replace("now", "current_timestamp")
    return moment.upper() if moment in MOMENTS else _value(given["default"])


def _value(node: Node) -> str:
    if not node or "function" in node:
        raise Unsupported("DEFAULT: expected a constant, current_timestamp() or current_date()")
    if node.get("literal") is None:
        return "NULL"
    found = literal(node["type"], node["literal"])
    if found is None and node["type"] in {'"double"', '"float"'}:
        return str(float(node["literal"]))
    if found is None:
        raise Unsupported(f"DEFAULT of type {node['type']}: expected a number, text, boolean, date or timestamp")
    return found


def _parse_type(column: Mapping[str, Any]) -> spark.DataType:
    if column.get("collated") is not None:
        raise Unsupported(
            f"type {column['collated']}: texts have no collation; expected STRING, and COLLATE or lower(…) in queries"
        )
    kind = json.loads(column["type"])
    return (
        spark.StructType.fromJson(
            {"type": "struct", "fields": [{"name": "x", "type": kind, "nullable": True, "metadata": {}}]}
        )
        .fields[0]
        .dataType
    )


def type_words(kind: spark.DataType) -> str:
    """Return a type of Spark's as CREATE TABLE writes it.

    >>> type_words(spark.ArrayType(spark.StructType([spark.StructField("a", spark.LongType())])))
    'ARRAY<STRUCT<"a" BIGINT>>'
    """
    match kind:
        case spark.CharType() | spark.VarcharType():
            raise Unsupported(
                f"type {kind.simpleString()}: the length of a text is not kept; expected STRING, or spark.sql.legacy.charVarcharAsString ="
                " true, which makes it one"
            )
        case spark.DecimalType():
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case spark.ArrayType():
            return f"ARRAY<{type_words(kind.elementType)}>"
        case spark.MapType():
            return f"MAP<{type_words(kind.keyType)}, {type_words(kind.valueType)}>"
        case spark.StructType():
            return f"STRUCT<{', '.join(f'{quote_name(column.name)} {type_words(column.dataType)}' for column in kind)}>"
    if type(kind).__name__ == "TimeType":
        return "TIME"
    words = _TYPES.get(type(kind))
    if words is None:
        raise Unsupported(
            f"type {kind.simpleString()}: no column has it; expected {_INSTEAD.get(type(kind).__name__, EXPECTED)}"
        )
    return words


def partition_fields(transforms: Sequence[Mapping[str, Any]]) -> str:
    """Return transforms of Spark's as partition fields; `days(ts)` is three of them, as `day` alone is that of a month."""
    return ", ".join(field for transform in transforms for field in _fields(transform))


def _fields(transform: Mapping[str, Any]) -> Iterator[str]:
    name, arguments = transform["transform"].lower(), [_argument(argument) for argument in transform["arguments"]]
    if name == "identity":
        yield from arguments
    elif name == "cluster_by":
        return
    elif name == "sorted_bucket":
        *columns, buckets = arguments[: transform["columns"]]
        yield f"bucket({', '.join([buckets, *columns])})"
    elif name in CALENDAR:
        yield from (f"{part}({', '.join(arguments)})" for part in CALENDAR[name])
    else:
        yield f"{name}({', '.join(arguments)})"


def _clustering(transforms: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the properties that say how the rows of CLUSTER BY and SORTED BY lie."""
    for transform in transforms:
        name, columns = transform["transform"].lower(), transform["arguments"][transform.get("columns", 0) :]
        if name in {"cluster_by", "sorted_bucket"}:
            keys = {SORT_BY: sort_keys([column["column"] for column in columns])}
            return keys | ({DISTRIBUTION: "range"} if name == "cluster_by" else {})
    return {}


def _argument(node: Node) -> str:
    if "column" in node:
        return ".".join(map(quote_name, node["column"]))
    found = None if node.get("literal") is None else literal(node["type"], node["literal"])
    if found is None:
        raise InvalidInput("PARTITIONED BY: expected columns, numbers and texts as arguments of a transform")
    return found


def describe_columns(columns: spark.StructType, known: Iterable[Mapping[str, str | None]]) -> spark.StructType:
    """Return columns with their comments, and with the default values that Spark puts into a row which names none for them.

    >>> columns = spark.StructType([spark.StructField("n", spark.LongType())])
    >>> describe_columns(columns, [{"name": "n", "default": "3", "comment": "few"}]).fields[0].metadata["CURRENT_DEFAULT"]
    "CAST('3' AS bigint)"
    """
    by_name = {schema["name"]: schema for schema in known}
    return spark.StructType([_describe_column(column, by_name.get(column.name, {})) for column in columns])


def _describe_column(column: spark.StructField, known: Mapping[str, str | None]) -> spark.StructField:
    metadata, default, comment = dict(column.metadata or {}), known.get("default"), known.get("comment")
    if default is not None and default.lower() in MOMENTS:
        # Rows that are there have their own values.
        metadata["CURRENT_DEFAULT"] = f"CAST({default}() AS {column.dataType.simpleString()})"
    elif default is not None:
        escaped = default.replace("\\", "\\\\").replace("'", "\\'")
        value = f"CAST('{escaped}' AS {column.dataType.simpleString()})"
        metadata |= {"CURRENT_DEFAULT": value, "EXISTS_DEFAULT": value}
    if comment is not None:
        metadata["comment"] = comment
    return spark.StructField(column.name, column.dataType, column.nullable, metadata)


def alterations(table: str, changes: Sequence[Mapping[str, Any]]) -> str:
    """Return the one statement that makes all changes of a table that Spark asks for; `Unsupported` where it takes several."""
    of_columns = ", ".join(_ACTIONS[change["change"]](change) for change in changes if change["change"] in _ACTIONS)
    statements = [f"ALTER TABLE {table} {of_columns}"] if of_columns else []
    statements += property_changes(table, [change for change in changes if change["change"] == "property"])
    statements += [_OTHERS[change["change"]](table, change) for change in changes if change["change"] in _OTHERS]
    if len(statements) != 1:
        raise Unsupported(
            f"a change of {' and of '.join(_kinds(changes))} is a commit each; expected a statement for each of them"
        )
    return statements[0]


def goes_with_rows(changes: Sequence[Mapping[str, Any]], partitioning: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a server commits changes of columns together with rows: not in a plain table, nor types of partition values."""
    sources = {source for described in partitioning for source in described["columns"]}
    retyped = {".".join(change["column"]) for change in changes if change["change"] == "type"}
    return bool(sources) and not sources & retyped and all(change["change"] in _ACTIONS for change in changes)


def evolved_at_server(relation: ServerTable, table: str, statement: str) -> ServerTable:
    """Return a table of a server with the columns after an ALTER TABLE, which a write is going to make with its rows."""
    parsed = cast("AlterColumns", parse(statement))
    after = apply_changes(
        NamespaceSchema.assign(relation.source), *(action.change().change for action in parsed.actions)
    )
    actions = statement.removeprefix(f"ALTER TABLE {table} ")
    return replace(relation, source=after.plain, evolution=ServerEvolution(actions, relation.source))


def list_dropped(changes: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return the paths of columns that changes drop."""
    return [tuple(change["column"]) for change in changes if change["change"] == "drop"]


def with_stored_paths(changes: Sequence[Mapping[str, Any]], source: pa.Schema) -> list[Mapping[str, Any]]:
    """Return changes with the names that the fields inside lists and maps have in a table; Spark calls them element, key and value."""
    return [
        {**change, "column": _stored_path(source, change["column"])} if "column" in change else change
        for change in changes
    ]


def _stored_path(source: pa.Schema, path: Sequence[str]) -> list[str]:
    found: list[str] = []
    fields = {field.name: field for field in source}
    for name in path:
        if name not in fields:
            break
        found.append(fields[name].name)
        kind = storage_of(fields[name].type)
        inner = children(kind)
        names = [column.name for column in inner] if pa.types.is_struct(kind) else _INSIDE.get(len(inner), ())
        fields = dict(zip(names, inner, strict=True))
    return [*found, *path[len(found) :]]


_INSIDE: Mapping[int, tuple[str, ...]] = MappingProxyType({1: ("element",), 2: ("key", "value")})
"""What Spark calls the field inside a list, and those inside a map."""


def check_sources(partitioning: Sequence[Mapping[str, Any]], paths: Sequence[tuple[str, ...]]) -> None:
    """Refuse to drop a column that a partition field of a table is computed from."""
    for described in partitioning:
        for source in described["columns"]:
            parts = tuple(source.split("."))
            for path in paths:
                if parts[: len(path)] == path:
                    raise Unsupported(
                        f"column {source!r} is the source of a partition field ({described['transform']}) and cannot be dropped; expected"
                        f" ALTER TABLE … SET TBLPROPERTIES ({text(PARTITIONED_BY)} = '…') without it before"
                    )


def _kinds(changes: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(
        dict.fromkeys("columns" if change["change"] in _ACTIONS else repr(change["name"]) for change in changes)
    )


def _add_column(change: Mapping[str, Any]) -> str:
    default = _default_value(change) if change.get("default") is not None else None
    comment, kind = change.get("comment"), _parse_type(change)
    _check_inside(tuple(change["column"]), kind)
    return (
        f"ADD COLUMN {_path(change)} {type_words(kind)}"
        + " NOT NULL" * (not change["nullable"])
        + (f" DEFAULT {default}" if default is not None else "")
        + (f" COMMENT {text(comment)}" if comment is not None else "")
        + (f", {_move_column(change)}" if "position" in change else "")
    )


def _move_column(change: Mapping[str, Any]) -> str:
    after = change["position"]["after"]
    return f"ALTER COLUMN {_path(change)} {'FIRST' if after is None else f'AFTER {quote_name(after)}'}"


def _default_column(change: Mapping[str, Any]) -> str:
    value = _default_value(change) if "default" in change else "NULL"
    return f"ALTER COLUMN {_path(change)} {'DROP DEFAULT' if value == 'NULL' else f'SET DEFAULT {value}'}"


def _comment_column(change: Mapping[str, Any]) -> str:
    return f"ALTER COLUMN {_path(change)} COMMENT {text(change['comment'])}"


def _rename_column(change: Mapping[str, Any]) -> str:
    return f"RENAME COLUMN {_path(change)} TO {quote_name(change['to'])}"


def _drop_column(change: Mapping[str, Any]) -> str:
    return f"DROP COLUMN {_path(change)}"


def _retype_column(change: Mapping[str, Any]) -> str:
    return f"ALTER COLUMN {_path(change)} TYPE {type_words(_parse_type(change))}"


def _nullable(change: Mapping[str, Any]) -> str:
    return f"ALTER COLUMN {_path(change)} {'DROP' if change['nullable'] else 'SET'} NOT NULL"


def _add_constraint(table: str, change: Mapping[str, Any]) -> str:
    constraint = change["constraint"]
    key = ", ".join(map(quote_name, _key_columns(constraint)))
    return f"ALTER TABLE {table} ADD CONSTRAINT {quote_name(constraint['name'])} PRIMARY KEY ({key})"


def _drop_constraint(table: str, change: Mapping[str, Any]) -> str:
    # A primary key does not keep the name that it was given.
    del change
    return f"ALTER TABLE {table} DROP PRIMARY KEY"


def _cluster_by(table: str, change: Mapping[str, Any]) -> str:
    keys = sort_keys(change["columns"])
    return sorting(table, "range" if keys else None, keys or None)


def _unknown(table: str, change: Mapping[str, Any]) -> str:
    raise Unsupported(
        f"ALTER TABLE {table}: {change['name']} is no change of a table; expected one of its columns, its name, its comment or its partition"
        " fields"
    )


def _path(change: Mapping[str, Any]) -> str:
    return ".".join(map(quote_name, change["column"]))


_ACTIONS: Mapping[str, Callable[[Mapping[str, Any]], str]] = MappingProxyType(
    {
        "add": _add_column,
        "comment": _comment_column,
        "default": _default_column,
        "drop": _drop_column,
        "move": _move_column,
        "nullable": _nullable,
        "rename": _rename_column,
        "type": _retype_column,
    }
)
"""Changes of columns as parts of one ALTER TABLE."""

_OTHERS: Mapping[str, Callable[[str, Mapping[str, Any]], str]] = MappingProxyType(
    {
        "add_constraint": _add_constraint,
        "drop_constraint": _drop_constraint,
        "cluster_by": _cluster_by,
        "other": _unknown,
    }
)
"""Changes that are statements of their own."""


@dataclass(frozen=True, slots=True)
class TableDescription:
    """The partition fields of a table's current spec as Spark's transforms have them, its comment, and `columns`.

    Fields whose columns were dropped are left out: Spark looks each of them up. `columns` are the default value and the comment, as texts,
    of each column that has one.
    """

    partitioning: list[dict[str, Any]] = field(default_factory=list)
    comment: str | None = None
    columns: list[dict[str, str | None]] = field(default_factory=list)
    key: Sequence[str] = ()
    """The columns of the primary key, in its order."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """What SHOW TBLPROPERTIES shows beside the provider."""


def describe(backend: SqlRunner, name: NamedTable, relation: Relation) -> TableDescription:
    """Describe what a name means."""
    if isinstance(relation, DirectTable):
        _, snapshot = relation.plan.open_table()
        return _of_snapshot(snapshot)
    if not isinstance(relation, ServerTable):
        return TableDescription(comment=_comment(backend, name), columns=_columns(backend, name))
    made = _definition(backend, name)
    partitioning = _partitioning(backend, name, made)
    properties = {**made.notes, **as_texts(made.properties.policy)}
    return TableDescription(partitioning, made.comment, _columns(backend, name), made.primary_key, properties)


def layout_at_server(session: SqlRunner, name: NamedTable) -> tuple[Mapping[str, str], list[dict[str, Any]]]:
    """Return the metadata and the partition fields of a table of a server, as they say where its rows come."""
    made = _definition(session, name)
    return made.notes, _partitioning(session, name, made)


def _definition(backend: SqlRunner, table: NamedTable) -> CreateTable:
    shown = backend.rows(f"SHOW CREATE TABLE {quote_name(table.db_schema)}.{quote_name(table.name)}")
    return cast("CreateTable", parse(shown.column("definition")[0].as_py()))


def _of_snapshot(snapshot: Snapshot) -> TableDescription:
    schema = snapshot.schema
    columns = [
        {"name": name, "default": default, "comment": comment}
        for name in schema.plain.names
        for default, comment in [(schema.shown_defaults.get(name), schema.comments.get(name))]
        if default is not None or comment is not None
    ]
    properties = {**schema.notes, **chosen_texts(snapshot)}
    return TableDescription(partitioning_of(snapshot), schema.comment, columns, schema.primary_key, properties)


def partitioning_of(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the partition fields of a snapshot's current spec whose columns are there, as Spark's transforms have them."""
    return _whole(_fields_of(snapshot)) if snapshot.is_partitioned else []


def _whole(fields: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [column for column in fields if None not in column["columns"]]


def _fields_of(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    paths = snapshot.schema.paths
    for partition_field in snapshot.current_spec.fields:
        columns = [paths[number][0] if number in paths else None for number in partition_field.source_ids]
        match partition_field.rule:
            case Expression(sql=sql):
                yield _field("expr", [sql], columns)
            case rule:
                yield _field(rule.type, list(rule.arguments.values()), columns)


def _columns(backend: SqlRunner, table: NamedTable) -> list[dict[str, str | None]]:
    sql = (
        'SELECT column_name AS name, column_default AS "default", column_comment AS comment FROM information_schema.columns'  # noqa: S608 - quoted
        f" WHERE table_schema = {text(table.db_schema)} AND table_name = {text(table.name)}"
        " AND (column_default IS NOT NULL OR column_comment IS NOT NULL)"
    )
    return cast("list[dict[str, str | None]]", backend.rows(sql).to_pylist())


def _comment(backend: SqlRunner, table: NamedTable) -> str | None:
    # Apart from the columns: a union of both now and then fails, as two scans of the schema tables at once.
    sql = (
        "SELECT table_comment FROM information_schema.tables"  # noqa: S608 - quoted
        f" WHERE table_schema = {text(table.db_schema)} AND table_name = {text(table.name)}"
    )
    return next(iter(backend.rows(sql).column(0).to_pylist()), None)


def _current_specs(backend: SqlRunner, table: NamedTable) -> list[dict[str, Any]]:
    sql = (
        "SELECT transform, expression, source_columns FROM"  # noqa: S608 - quoted
        f" {quote_name(table.db_schema)}.{quote_name(table.name + '$specs')} WHERE is_current AND position >= 0 ORDER BY position"
    )
    return cast("list[dict[str, Any]]", backend.rows(sql).to_pylist())


def _partitioning(backend: SqlRunner, table: NamedTable, made: CreateTable) -> list[dict[str, Any]]:
    if not made.properties.partitioned_by:
        return []
    try:
        return _whole(_parse_field(row) for row in _current_specs(backend, table))
    except ServerError as exc:
        if code_of(exc) != "refused":
            raise
        # Metadata tables tell of all rows: whoever may not read all of them plans without partitions, which the server prunes.
        return []


def _parse_field(row: Mapping[str, Any]) -> dict[str, Any]:
    if row["transform"] is None:
        return _field("expr", [row["expression"]], row["source_columns"])
    transform = json.loads(row["transform"])
    kind = transform.pop("type")
    return _field(kind, list(transform.values()), row["source_columns"])


def _field(transform: str, arguments: list[Any], columns: list[str | None]) -> dict[str, Any]:
    return {"transform": transform, "arguments": arguments, "columns": columns}
