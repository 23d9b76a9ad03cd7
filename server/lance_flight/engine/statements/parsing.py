"""SQL text → one closed union of statements.

DataFusion only ever sees queries: its `ctx.sql` would run DDL while planning it (decision 22). Everything else is
read here, token by token, and carried out by us.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lance_flight.engine.sql import references, substrait, with_options
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.habits import instead_of
from lance_flight.engine.sql.long_values import LONG, insert_head
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.sql.rewriting import numbered
from lance_flight.engine.sql.select_lists import with_distinct_names
from lance_flight.engine.writes import index_statements, maintenance, partition_fields, row_changes
from lance_flight.engine.writes.alterations import Alteration, alteration
from lance_flight.engine.writes.definitions import ColumnDef
from lance_flight.engine.writes.index_statements import IndexChange
from lance_flight.engine.writes.maintenance import Maintenance
from lance_flight.engine.writes.partition_fields import PartitionDef
from lance_flight.engine.writes.row_changes import Delete, Insert, Merge, RowChange, Update
from lance_flight.engine.writes.table_properties import PLAIN, TableProperties
from lance_flight.errors import SqlError
from lance_flight.model.naming import SEPARATOR


@dataclass(frozen=True, slots=True)
class Query:
    """Anything that returns rows and goes to DataFusion as it is."""

    sql: str


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN [ANALYZE] of a query, or EXPLAIN of a `change`: how its rows are found."""

    sql: str
    analyze: bool
    change: Update | Delete | Merge | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE [TEMPORARY] TABLE, with columns or from a query (`query`), partitioned or not."""

    table: TableRef
    columns: tuple[ColumnDef, ...] = ()
    properties: TableProperties = PLAIN
    if_not_exists: bool = False
    query: str | None = None
    is_temporary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """DROP TABLE [IF EXISTS]."""

    table: TableRef
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ShowTables:
    """SHOW TABLES."""


@dataclass(frozen=True, slots=True)
class ShowMetadata:
    """SHOW PARTITIONS t, SHOW INDEXES FROM t: what a metadata table of t has, [WHERE condition over its columns]."""

    table: TableRef
    metadata: str
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE t."""

    table: TableRef


@dataclass(frozen=True, slots=True)
class DescribeNamespace:
    """DESCRIBE NAMESPACE t[.v1[.name …]] ['v1$name…']: `parts` begin with the table, `path` is what the text says."""

    parts: tuple[str, ...]
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE t …: what is altered, and how."""

    table: TableRef
    alteration: Alteration


@dataclass(frozen=True, slots=True)
class SetOption:
    """SET name = 'value', or USE schema: a setting of the client's session."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Kill:
    """KILL 'id': ends a statement."""

    statement: str


RowsStatement = Query | Explain | ShowTables | ShowMetadata | Describe | DescribeNamespace
"""What runs when its rows are read, as often as they are."""
ChangeStatement = CreateTable | DropTable | Insert | RowChange | AlterTable | IndexChange
SessionStatement = SetOption | Kill
"""What concerns the server and its sessions, and no table."""
Statement = RowsStatement | Maintenance | ChangeStatement | SessionStatement
"""`Maintenance` runs once, like a change, and returns rows all the same."""


def parse(sql: str, db_schema: str | None = None, sent: str | None = None, first: int = 0) -> Statement:
    """Read one statement, whose tables without a schema are those of `db_schema`; `sent` and `first` are as those of `Cursor`.

    >>> parse("DROP TABLE IF EXISTS flights")
    DropTable(table=TableRef(name='flights', db_schema=None), if_exists=True)
    """
    text = numbered(sql)
    head = insert_head(text)
    cursor = (
        Cursor.over(text, db_schema, sent or sql, first) if head is None else Cursor(text, head, db_schema=db_schema)
    )
    instead = instead_of(cursor.tokens)
    if instead is not None:
        raise SqlError(f"'{cursor.source(0, min(2, len(cursor.tokens)))}' begins no statement here: {instead}")
    read = _STATEMENTS.get(cursor.tokens[0].text.upper())
    if read is None:
        expected = ", ".join(word for word in _STATEMENTS if word != "(")
        raise SqlError(f"a statement may not begin with {cursor.tokens[0].text!r}; expected one of {expected}")
    cursor.at = 1
    return read(cursor)


def _query(cursor: Cursor) -> Statement:
    return Query(cursor.source(0, len(cursor.tokens)))


def _substrait(cursor: Cursor) -> Statement:
    text = cursor.source(0, len(cursor.tokens))
    if substrait.plan_in(text) is None:
        raise cursor.error("a plan in base64, in quotes")
    return Query(text)


def _explain(cursor: Cursor) -> Statement:
    analyze = cursor.accept("ANALYZE")
    cursor.accept("VERBOSE")
    first = 0 if cursor.sent is None else cursor.first + cursor.at
    text = cursor.rest()
    match parse(text, cursor.db_schema, cursor.sent, first):
        case Query(sql):
            return Explain(sql, analyze)
        case Update() | Delete() | Merge() as change if not analyze:
            return Explain(text, analyze, change)
        case inner:
            what = (
                "EXPLAIN ANALYZE takes a query" if analyze else "EXPLAIN takes a query, an UPDATE, a DELETE or a MERGE"
            )
            raise SqlError(f"{what}, got {type(inner).__name__}")


def _create(cursor: Cursor) -> Statement:
    if cursor.accept("INDEX"):
        return index_statements.read_create(cursor)
    is_temporary = cursor.accept("TEMPORARY") or cursor.accept("TEMP")
    cursor.expect("TABLE")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    table = references.table(cursor)
    columns = _columns(cursor) if cursor.peek("(") else ()
    partitioned_by: tuple[PartitionDef, ...] = ()
    if cursor.accept("PARTITIONED", "BY"):
        partitioned_by = partition_fields.in_brackets(cursor)
    options = with_options.in_brackets(cursor) if cursor.accept("WITH") else {}
    query = _query_text(cursor) if cursor.accept("AS") else None
    cursor.end()
    if (query is None) == (not columns):
        raise SqlError(f"CREATE TABLE {table.name} takes either columns or AS SELECT")
    return CreateTable(
        table=table,
        columns=columns,
        properties=TableProperties(partitioned_by=partitioned_by).having(options),
        if_not_exists=if_not_exists,
        query=query,
        is_temporary=is_temporary,
    )


def _drop(cursor: Cursor) -> Statement:
    if cursor.accept("INDEX"):
        return index_statements.read_drop(cursor)
    cursor.expect("TABLE")
    if_exists = cursor.accept("IF", "EXISTS")
    table = references.table(cursor)
    cursor.end()
    return DropTable(table=table, if_exists=if_exists)


def _alter(cursor: Cursor) -> Statement:
    cursor.expect("TABLE")
    table = references.table(cursor)
    maintained = maintenance.read_altering(table, cursor)
    if maintained is not None:
        return maintained
    return AlterTable(table, alteration(cursor))


def _insert(cursor: Cursor) -> Statement:
    overwrite = cursor.accept("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    elif not cursor.accept("INTO"):
        cursor.accept("TABLE")
    table = references.table(cursor)
    columns: tuple[str, ...] | None = None
    if cursor.peek("(") and not cursor.peek("(", "SELECT") and not cursor.peek("(", "WITH"):
        columns = references.names(cursor)
    query = _query_text(cursor)
    if len(query) < LONG:
        query = with_distinct_names(query)
    return Insert(table=table, columns=columns, query=query, overwrite=overwrite)


def _set(cursor: Cursor) -> Statement:
    name = cursor.name("the name of a setting")
    if not cursor.accept("="):
        cursor.expect("TO")
    value = cursor.text_or_name(f"the value of {name}")
    cursor.end()
    return SetOption(name, value)


def _use(cursor: Cursor) -> Statement:
    schema = cursor.name("the name of a schema")
    if cursor.accept("."):
        if schema != references.CATALOG:
            raise SqlError(f"catalog {schema!r} is not there; expected USE [{references.CATALOG}.]schema")
        schema = cursor.name("the name of a schema")
    cursor.end()
    return SetOption("schema", schema)


def _kill(cursor: Cursor) -> Statement:
    statement = cursor.string("the id of a statement, as in system.queries")
    cursor.end()
    return Kill(statement)


_SHOWN = ("PARTITIONS", "INDEXES")


def _show(cursor: Cursor) -> Statement:
    if cursor.accept("TABLES"):
        cursor.end()
        return ShowTables()
    for metadata in _SHOWN:
        if cursor.accept(metadata):
            cursor.accept("FROM")
            table = references.table(cursor)
            where = cursor.rest() if cursor.accept("WHERE") else None
            cursor.end()
            return ShowMetadata(table, metadata.lower(), where)
    raise cursor.error(f"TABLES, {' or '.join(_SHOWN)}")


def _describe(cursor: Cursor) -> Statement:
    # A table may be called namespace, too.
    if cursor.peek("NAMESPACE") and not cursor.peek("NAMESPACE", ".") and len(cursor.tokens) > cursor.at + 1:
        cursor.expect("NAMESPACE")
        return _describe_namespace(cursor)
    cursor.accept("TABLE")
    table = references.table(cursor)
    cursor.end()
    return Describe(table)


def _describe_namespace(cursor: Cursor) -> Statement:
    parts = [cursor.name("a table name")]
    while cursor.accept("."):
        parts.append(cursor.name("the name of a namespace"))
    path = () if cursor.done else tuple(cursor.string("the path of a namespace, 'v1$…'").split(SEPARATOR))
    cursor.end()
    return DescribeNamespace(tuple(parts), path)


_STATEMENTS: Mapping[str, Callable[[Cursor], Statement]] = MappingProxyType(
    {
        "SELECT": _query,
        "WITH": _query,
        "VALUES": _query,
        "FROM": _query,
        "(": _query,
        substrait.WORD: _substrait,
        "EXPLAIN": _explain,
        "SHOW": _show,
        "DESCRIBE": _describe,
        "DESC": _describe,
        "CREATE": _create,
        "DROP": _drop,
        "INSERT": _insert,
        "SET": _set,
        "USE": _use,
        "KILL": _kill,
        "ALTER": _alter,
        "UPDATE": row_changes.update,
        "DELETE": row_changes.delete,
        "MERGE": row_changes.merge,
        "TRUNCATE": row_changes.truncate,
        "VACUUM": maintenance.read_vacuum,
        "REPAIR": maintenance.read_repair,
        "MIGRATE": maintenance.read_migrate,
        "VERIFY": maintenance.read_verify,
        "REINDEX": index_statements.read_reindex,
    }
)


def _query_text(cursor: Cursor) -> str:
    if not any(cursor.peek(word) for word in ("SELECT", "WITH", "VALUES", "(")):
        raise cursor.error("a query (SELECT, VALUES, WITH)")
    return cursor.rest()


def _columns(cursor: Cursor) -> tuple[ColumnDef, ...]:
    cursor.expect("(")
    columns = [_column(cursor)]
    while cursor.accept(","):
        columns.append(_column(cursor))
    cursor.expect(")")
    return tuple(columns)


def _column(cursor: Cursor) -> ColumnDef:
    name = cursor.name("a column name")
    kind = cursor.type(",", "NOT", "NULL")
    if not kind:
        raise cursor.error(f"the type of column {name!r}")
    nullable = not cursor.accept("NOT", "NULL")
    if nullable:
        cursor.accept("NULL")
    if not (cursor.peek(",") or cursor.peek(")")):
        raise cursor.error("NOT NULL, a comma or the closing bracket")
    return ColumnDef(name=name, type=kind, nullable=nullable)
