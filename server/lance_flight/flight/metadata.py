"""Builders of the metadata commands' results, SqlInfo among them: `schema()` is the schema of a result, `build()` fills it.

Everything that comes from a client is compared here with names that the backend lists; none of it becomes SQL.

Each value of SqlInfo is in the child of the union that the proto assigns to it, keywords and functions too. The last line of each list of functions has those that are known in the escape `{fn …}` of ODBC and JDBC alone.

Result schemas of the metadata commands, as the comments of FlightSql.proto define them, and the LIKE patterns that filter results.

Order, names, types and nullability are those of the proto: servers and clients that are in use differ from it and from
each other. Where all of Arrow's implementations differ from it in the same way, and compare, theirs count: `key_sequence`
comes before `key_name`, and nothing in SqlInfo is nullable.

`%` stands for any run of characters, `_` for one character, and a backslash before `%`, `_` or a backslash takes its
meaning away; any other backslash stands for itself.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lance_flight.errors import Corrupt, NewerFormat, NotFound
from lance_flight.flight import sql_types, wire
from lance_flight.flight.backend import TABLE_TYPES, Backend, Caller, PrimaryKey, TableEntry
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.rows import client_schema
from lance_flight.flight.sql_types import describe_column
from lance_flight.flight.wire import MetadataCommand, optional


def _field(name: str, of: pa.DataType, *, null: bool = True) -> pa.Field:
    return pa.field(name, of, nullable=null)


NO_ROWS = pa.schema([])

CATALOGS = pa.schema([_field("catalog_name", pa.utf8(), null=False)])

DB_SCHEMAS = pa.schema(
    [
        _field("catalog_name", pa.utf8()),
        _field("db_schema_name", pa.utf8(), null=False),
    ]
)

TABLES = pa.schema(
    [
        _field("catalog_name", pa.utf8()),
        _field("db_schema_name", pa.utf8()),
        _field("table_name", pa.utf8(), null=False),
        _field("table_type", pa.utf8(), null=False),
    ]
)

TABLES_WITH_SCHEMA = TABLES.append(_field("table_schema", pa.binary(), null=False))

TABLE_TYPES_SCHEMA = pa.schema([_field("table_type", pa.utf8(), null=False)])

PRIMARY_KEYS = pa.schema(
    [
        _field("catalog_name", pa.utf8()),
        _field("db_schema_name", pa.utf8()),
        _field("table_name", pa.utf8(), null=False),
        _field("column_name", pa.utf8(), null=False),
        _field("key_sequence", pa.int32(), null=False),
        _field("key_name", pa.utf8()),
    ]
)

FOREIGN_KEYS = pa.schema(
    [
        _field("pk_catalog_name", pa.utf8()),
        _field("pk_db_schema_name", pa.utf8()),
        _field("pk_table_name", pa.utf8(), null=False),
        _field("pk_column_name", pa.utf8(), null=False),
        _field("fk_catalog_name", pa.utf8()),
        _field("fk_db_schema_name", pa.utf8()),
        _field("fk_table_name", pa.utf8(), null=False),
        _field("fk_column_name", pa.utf8(), null=False),
        _field("key_sequence", pa.int32(), null=False),
        _field("fk_key_name", pa.utf8()),
        _field("pk_key_name", pa.utf8()),
        _field("update_rule", pa.uint8(), null=False),
        _field("delete_rule", pa.uint8(), null=False),
    ]
)

SQL_INFO_VALUE = pa.dense_union(
    [
        _field("string_value", pa.utf8(), null=False),
        _field("bool_value", pa.bool_(), null=False),
        _field("bigint_value", pa.int64(), null=False),
        _field("int32_bitmask", pa.int32(), null=False),
        _field("string_list", pa.list_(pa.utf8()), null=False),
        _field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32())), null=False),
    ]
)

SQL_INFO = pa.schema(
    [
        _field("info_name", pa.uint32(), null=False),
        _field("value", SQL_INFO_VALUE, null=False),
    ]
)

XDBC_TYPE_INFO = pa.schema(
    [
        _field("type_name", pa.utf8(), null=False),
        _field("data_type", pa.int32(), null=False),
        _field("column_size", pa.int32()),
        _field("literal_prefix", pa.utf8()),
        _field("literal_suffix", pa.utf8()),
        _field("create_params", pa.list_(_field("item", pa.utf8(), null=False))),
        _field("nullable", pa.int32(), null=False),
        _field("case_sensitive", pa.bool_(), null=False),
        _field("searchable", pa.int32(), null=False),
        _field("unsigned_attribute", pa.bool_()),
        _field("fixed_prec_scale", pa.bool_(), null=False),
        _field("auto_increment", pa.bool_()),
        _field("local_type_name", pa.utf8()),
        _field("minimum_scale", pa.int32()),
        _field("maximum_scale", pa.int32()),
        _field("sql_data_type", pa.int32(), null=False),
        _field("datetime_subcode", pa.int32()),
        _field("num_prec_radix", pa.int32()),
        _field("interval_precision", pa.int32()),
    ]
)


ESCAPE = "\\"

_TOKEN = re.compile(r"\\[%_\\]|.", re.DOTALL)
_WILDCARDS = {"%": ".*", "_": "."}


def like(pattern: str | None) -> Callable[[str], bool]:
    r"""Return a function that matches names against `pattern`, case-sensitively; without a pattern every name matches.

    >>> like("fl%")("flights"), like("a_b")("axb"), like(r"a\_b")("axb")
    (True, True, False)
    """
    if pattern is None:
        return lambda _: True
    matches = re.compile("".join(map(_regex, _TOKEN.findall(pattern))), re.DOTALL).fullmatch
    return lambda name: matches(name) is not None


def _regex(token: str) -> str:
    return _WILDCARDS.get(token) or re.escape(token[-1])


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


KEYWORDS = _words("""
    ALL ALTER ANALYZE AND ANTI ANY AS ASC BETWEEN BY CASE CAST COLUMN COPY CREATE CROSS CUBE CURRENT DELETE DESC
    DESCRIBE DISTINCT DROP ELSE END ESCAPE EXCEPT EXISTS EXPLAIN EXTRACT FALSE FETCH FILTER FIRST FOLLOWING FOR FROM
    FULL GROUP GROUPING HAVING ILIKE IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN LAST LATERAL LEFT LIKE LIMIT
    NATURAL NOT NULL NULLS OFFSET ON OR ORDER OUTER OVER PARTITION PARTITIONED PRECEDING QUALIFY RANGE RECURSIVE
    RIGHT ROLLUP ROW ROWS SCHEMA SELECT SEMI SET SETS SHOW SIMILAR TABLE THEN TO TRUE TRY_CAST UNBOUNDED UNION UNNEST
    UPDATE USING VALUES VIEW WHEN WHERE WINDOW WITH
""")

NUMERIC_FUNCTIONS = _words("""
    abs acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh cot degrees exp factorial floor gcd isnan iszero lcm
    ln log log10 log2 nanvl pi pow power radians random round signum sin sinh sqrt tan tanh trunc
    ceiling mod rand sign truncate
""")

STRING_FUNCTIONS = _words("""
    ascii bit_length btrim char_length character_length chr concat concat_ws contains ends_with find_in_set initcap
    instr left length levenshtein lower lpad ltrim octet_length overlay position regexp_count regexp_instr regexp_like
    regexp_match regexp_replace repeat replace reverse right rpad rtrim split_part starts_with strpos substr substring
    substring_index to_hex translate trim upper
    char insert lcase locate space ucase
""")

SYSTEM_FUNCTIONS = _words("""
    arrow_cast arrow_typeof coalesce greatest ifnull least nullif nvl nvl2 version
    convert database user
""")

DATETIME_FUNCTIONS = _words("""
    current_date current_time current_timestamp date_bin date_format date_part date_trunc from_unixtime make_date
    make_time now to_char to_date to_local_time to_time to_timestamp to_timestamp_micros to_timestamp_millis
    to_timestamp_nanos to_timestamp_seconds to_unixtime today
    curdate curtime dayofmonth dayofweek dayofyear extract hour minute month quarter second timestampadd timestampdiff week year
""")


Values: TypeAlias = Mapping[int, Any]


def _bits(*positions: int) -> int:
    return sum(1 << position for position in positions)


TRANSACTION_IDLE_MILLISECONDS = 3_600_000

_STRINGS: Values = {
    pb.FLIGHT_SQL_SERVER_NAME: "lance-flight",
    pb.FLIGHT_SQL_SERVER_VERSION: importlib.metadata.version("lance-flight"),
    pb.FLIGHT_SQL_SERVER_ARROW_VERSION: pa.__version__,
    pb.FLIGHT_SQL_SERVER_SUBSTRAIT_MIN_VERSION: None,
    pb.FLIGHT_SQL_SERVER_SUBSTRAIT_MAX_VERSION: None,
    pb.SQL_IDENTIFIER_QUOTE_CHAR: '"',
    pb.SQL_SEARCH_STRING_ESCAPE: ESCAPE,
    pb.SQL_EXTRA_NAME_CHARACTERS: "",
    pb.SQL_SCHEMA_TERM: "schema",
    pb.SQL_PROCEDURE_TERM: "procedure",
    pb.SQL_CATALOG_TERM: "catalog",
}

_BOOLEANS: Values = {
    pb.FLIGHT_SQL_SERVER_READ_ONLY: False,
    pb.FLIGHT_SQL_SERVER_SQL: True,
    pb.FLIGHT_SQL_SERVER_SUBSTRAIT: False,
    pb.FLIGHT_SQL_SERVER_CANCEL: True,
    pb.FLIGHT_SQL_SERVER_BULK_INGESTION: True,
    pb.FLIGHT_SQL_SERVER_INGEST_TRANSACTIONS_SUPPORTED: True,
    pb.SQL_DDL_CATALOG: False,
    pb.SQL_DDL_SCHEMA: False,
    pb.SQL_DDL_TABLE: True,
    pb.SQL_ALL_TABLES_ARE_SELECTABLE: True,
    pb.SQL_SUPPORTS_COLUMN_ALIASING: True,
    pb.SQL_NULL_PLUS_NULL_IS_NULL: True,
    pb.SQL_SUPPORTS_TABLE_CORRELATION_NAMES: True,
    pb.SQL_SUPPORTS_DIFFERENT_TABLE_CORRELATION_NAMES: False,
    pb.SQL_SUPPORTS_EXPRESSIONS_IN_ORDER_BY: True,
    pb.SQL_SUPPORTS_ORDER_BY_UNRELATED: True,
    pb.SQL_SUPPORTS_LIKE_ESCAPE_CLAUSE: True,
    pb.SQL_SUPPORTS_NON_NULLABLE_COLUMNS: True,
    pb.SQL_SUPPORTS_INTEGRITY_ENHANCEMENT_FACILITY: False,
    pb.SQL_CATALOG_AT_START: True,
    pb.SQL_SELECT_FOR_UPDATE_SUPPORTED: False,
    pb.SQL_STORED_PROCEDURES_SUPPORTED: False,
    pb.SQL_CORRELATED_SUBQUERIES_SUPPORTED: True,
    pb.SQL_MAX_ROW_SIZE_INCLUDES_BLOBS: True,
    pb.SQL_TRANSACTIONS_SUPPORTED: True,
    pb.SQL_DATA_DEFINITION_CAUSES_TRANSACTION_COMMIT: False,
    pb.SQL_DATA_DEFINITIONS_IN_TRANSACTIONS_IGNORED: False,
    pb.SQL_BATCH_UPDATES_SUPPORTED: True,
    pb.SQL_SAVEPOINTS_SUPPORTED: False,
    pb.SQL_NAMED_PARAMETERS_SUPPORTED: False,
    pb.SQL_LOCATORS_UPDATE_COPY: True,
    pb.SQL_STORED_FUNCTIONS_USING_CALL_SYNTAX_SUPPORTED: False,
}

_UNLIMITED = (
    pb.SQL_MAX_BINARY_LITERAL_LENGTH,
    pb.SQL_MAX_CHAR_LITERAL_LENGTH,
    pb.SQL_MAX_COLUMN_NAME_LENGTH,
    pb.SQL_MAX_COLUMNS_IN_GROUP_BY,
    pb.SQL_MAX_COLUMNS_IN_INDEX,
    pb.SQL_MAX_COLUMNS_IN_ORDER_BY,
    pb.SQL_MAX_COLUMNS_IN_SELECT,
    pb.SQL_MAX_COLUMNS_IN_TABLE,
    pb.SQL_MAX_CONNECTIONS,
    pb.SQL_MAX_CURSOR_NAME_LENGTH,
    pb.SQL_MAX_INDEX_LENGTH,
    pb.SQL_DB_SCHEMA_NAME_LENGTH,
    pb.SQL_MAX_PROCEDURE_NAME_LENGTH,
    pb.SQL_MAX_CATALOG_NAME_LENGTH,
    pb.SQL_MAX_ROW_SIZE,
    pb.SQL_MAX_STATEMENT_LENGTH,
    pb.SQL_MAX_STATEMENTS,
    pb.SQL_MAX_TABLE_NAME_LENGTH,
    pb.SQL_MAX_TABLES_IN_SELECT,
    pb.SQL_MAX_USERNAME_LENGTH,
)
_BIGINTS: Values = {
    **dict.fromkeys(_UNLIMITED, 0),
    # The proto gives it no type; the JDBC and the ODBC driver read 64 bits.
    pb.SQL_DEFAULT_TRANSACTION_ISOLATION: pb.SQL_TRANSACTION_REPEATABLE_READ,
}

_INTEGERS: Values = {
    pb.FLIGHT_SQL_SERVER_TRANSACTION: pb.SQL_SUPPORTED_TRANSACTION_TRANSACTION,
    pb.FLIGHT_SQL_SERVER_STATEMENT_TIMEOUT: 0,
    pb.FLIGHT_SQL_SERVER_TRANSACTION_TIMEOUT: TRANSACTION_IDLE_MILLISECONDS,
    pb.SQL_IDENTIFIER_CASE: pb.SQL_CASE_SENSITIVITY_LOWERCASE,
    pb.SQL_QUOTED_IDENTIFIER_CASE: pb.SQL_CASE_SENSITIVITY_UNKNOWN,
    pb.SQL_NULL_ORDERING: pb.SQL_NULLS_SORTED_HIGH,
    pb.SQL_SUPPORTED_GROUP_BY: _bits(pb.SQL_GROUP_BY_UNRELATED, pb.SQL_GROUP_BY_BEYOND_SELECT),
    pb.SQL_SUPPORTED_GRAMMAR: _bits(pb.SQL_MINIMUM_GRAMMAR, pb.SQL_CORE_GRAMMAR),
    pb.SQL_ANSI92_SUPPORTED_LEVEL: _bits(pb.ANSI92_ENTRY_SQL),
    pb.SQL_OUTER_JOINS_SUPPORT_LEVEL: pb.SQL_FULL_OUTER_JOINS,
    pb.SQL_SCHEMAS_SUPPORTED_ACTIONS: 0,
    pb.SQL_CATALOGS_SUPPORTED_ACTIONS: 0,
    pb.SQL_SUPPORTED_POSITIONED_COMMANDS: 0,
    pb.SQL_SUPPORTED_SUBQUERIES: _bits(
        pb.SQL_SUBQUERIES_IN_COMPARISONS,
        pb.SQL_SUBQUERIES_IN_EXISTS,
        pb.SQL_SUBQUERIES_IN_INS,
        pb.SQL_SUBQUERIES_IN_QUANTIFIEDS,
    ),
    pb.SQL_SUPPORTED_UNIONS: _bits(pb.SQL_UNION, pb.SQL_UNION_ALL),
    pb.SQL_SUPPORTED_TRANSACTIONS_ISOLATION_LEVELS: _bits(
        pb.SQL_TRANSACTION_REPEATABLE_READ, pb.SQL_TRANSACTION_SERIALIZABLE
    ),
    pb.SQL_SUPPORTED_RESULT_SET_TYPES: _bits(pb.SQL_RESULT_SET_TYPE_FORWARD_ONLY),
    pb.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_UNSPECIFIED: 0,
    pb.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_FORWARD_ONLY: _bits(pb.SQL_RESULT_SET_CONCURRENCY_READ_ONLY),
    pb.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_SCROLL_SENSITIVE: 0,
    pb.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_SCROLL_INSENSITIVE: 0,
}

_LISTS: Values = {
    pb.SQL_KEYWORDS: KEYWORDS,
    pb.SQL_NUMERIC_FUNCTIONS: NUMERIC_FUNCTIONS,
    pb.SQL_STRING_FUNCTIONS: STRING_FUNCTIONS,
    pb.SQL_SYSTEM_FUNCTIONS: SYSTEM_FUNCTIONS,
    pb.SQL_DATETIME_FUNCTIONS: DATETIME_FUNCTIONS,
}

_BINARY_NUMBERS = (
    pb.SQL_CONVERT_TINYINT,
    pb.SQL_CONVERT_SMALLINT,
    pb.SQL_CONVERT_INTEGER,
    pb.SQL_CONVERT_BIGINT,
    pb.SQL_CONVERT_REAL,
    pb.SQL_CONVERT_FLOAT,
)
_DECIMALS = (pb.SQL_CONVERT_DECIMAL, pb.SQL_CONVERT_NUMERIC)
_NUMBERS = _BINARY_NUMBERS + _DECIMALS
_TEXT = (pb.SQL_CONVERT_CHAR, pb.SQL_CONVERT_VARCHAR, pb.SQL_CONVERT_LONGVARCHAR)
_BINARY = (pb.SQL_CONVERT_BINARY, pb.SQL_CONVERT_VARBINARY, pb.SQL_CONVERT_LONGVARBINARY)
_MOMENTS = (pb.SQL_CONVERT_DATE, pb.SQL_CONVERT_TIME, pb.SQL_CONVERT_TIMESTAMP)
_INTERVALS = (pb.SQL_CONVERT_INTERVAL_DAY_TIME, pb.SQL_CONVERT_INTERVAL_YEAR_MONTH)
_CONVERSIONS: Mapping[tuple[int, ...], tuple[int, ...]] = {
    (pb.SQL_CONVERT_BIT,): (pb.SQL_CONVERT_BIT, *_BINARY_NUMBERS, *_TEXT),
    _BINARY_NUMBERS: (pb.SQL_CONVERT_BIT, *_NUMBERS, *_TEXT),
    _DECIMALS: _NUMBERS + _TEXT,
    _TEXT: (pb.SQL_CONVERT_BIT, *_NUMBERS, *_TEXT, *_BINARY, *_MOMENTS, *_INTERVALS),
    _BINARY: _BINARY + _TEXT,
    (pb.SQL_CONVERT_DATE,): (pb.SQL_CONVERT_DATE, pb.SQL_CONVERT_TIMESTAMP, *_TEXT),
    (pb.SQL_CONVERT_TIME,): (pb.SQL_CONVERT_TIME, *_TEXT),
    (pb.SQL_CONVERT_TIMESTAMP,): (*_MOMENTS, *_TEXT),
    _INTERVALS: _INTERVALS + _TEXT,
}
_MAPS: Values = {
    pb.SQL_SUPPORTS_CONVERT: [
        (source, sorted(targets)) for sources, targets in _CONVERSIONS.items() for source in sources
    ]
}

OF_JAVA: Values = {
    pb.SQL_TRANSACTIONS_SUPPORTED: False,
    pb.SQL_DEFAULT_TRANSACTION_ISOLATION: pb.SQL_TRANSACTION_NONE,
    pb.SQL_OUTER_JOINS_SUPPORT_LEVEL: _bits(pb.SQL_LIMITED_OUTER_JOINS, pb.SQL_FULL_OUTER_JOINS),
}
"""Values for clients in Java: `commit()` and `rollback()` of the JDBC driver (18.3) send nothing, which JDBC calls no support; and it
takes the level of outer joins for a set of bits."""

_CHILDREN: Sequence[Values] = (_STRINGS, _BOOLEANS, _BIGINTS, _INTEGERS, _LISTS, _MAPS)
"""Values by code, in the order of the union's children."""

_CHILD_OF: Mapping[int, int] = {code: child for child, values in enumerate(_CHILDREN) for code in values}


def known_codes(asked: Sequence[int]) -> list[int]:
    """Return the codes of `asked` that have a value, in ascending order; all known codes if none are given."""
    return sorted(_CHILD_OF.keys() & set(asked) if asked else _CHILD_OF)


def sql_info_values(codes: Sequence[int], own: Values) -> pa.UnionArray:
    """Return the value of each of `codes`, each in its child of `SQL_INFO_VALUE`; `own` values override the defaults."""
    children: list[list[Any]] = [[] for _ in _CHILDREN]
    offsets = []
    for code in codes:
        child = children[_CHILD_OF[code]]
        offsets.append(len(child))
        child.append(own.get(code, _CHILDREN[_CHILD_OF[code]][code]))
    # `UnionArray.from_dense` takes no fields, and its children could be null.
    types, places = pa.array([_CHILD_OF[code] for code in codes], pa.int8()), pa.array(offsets, pa.int32())
    return pa.Array.from_buffers(
        SQL_INFO_VALUE,
        len(codes),
        [None, types.buffers()[1], places.buffers()[1]],
        children=[pa.array(child, field.type) for child, field in zip(children, SQL_INFO_VALUE, strict=True)],
    )


_COMMENT = b"comment"
"""Key of a column's remark in the metadata of its Arrow field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Builder of one metadata command's result: its schema, and its columns, whose rows have the order of the proto."""

    schema: Callable[[Any], pa.Schema]
    columns: Callable[[Any, Backend, Caller], Sequence[Sequence[Any] | pa.Array]]

    def build(self, command: MetadataCommand, backend: Backend, caller: Caller) -> pa.Table:
        """Build the result of `command`, with exactly `schema(command)`."""
        schema = self.schema(command)
        columns = self.columns(command, backend, caller)
        return pa.Table.from_arrays(
            [
                column if isinstance(column, pa.Array) else pa.array(column, field.type)
                for column, field in zip(columns, schema, strict=True)
            ],
            schema=schema,
        )


def schema_of(command: MetadataCommand) -> pa.Schema:
    """Return the schema of the result of `command`."""
    return _BUILDERS[type(command)].schema(command)


def build(command: MetadataCommand, backend: Backend, caller: Caller) -> pa.Table:
    """Build the result of `command` as `caller` may see it."""
    return _BUILDERS[type(command)].build(command, backend, caller)


def _catalogs(_: wire.GetCatalogs, backend: Backend, caller: Caller) -> Sequence[Sequence[Any]]:
    return [sorted(name for name in backend.catalogs(caller) if name)]


def _db_schemas(command: wire.GetDbSchemas, backend: Backend, caller: Caller) -> Sequence[Sequence[Any]]:
    matches, wanted = like(optional(command, "db_schema_filter_pattern")), optional(command, "catalog")
    schemas = sorted(
        (catalog, db_schema)
        for catalog, db_schema in backend.db_schemas(caller)
        if _same(wanted, catalog) and matches(db_schema)
    )
    return [[catalog or None for catalog, _ in schemas], [db_schema for _, db_schema in schemas]]


def _tables(command: wire.GetTables, backend: Backend, caller: Caller) -> Sequence[Sequence[Any]]:
    wanted = optional(command, "catalog")
    in_schema, named = (
        like(optional(command, "db_schema_filter_pattern")),
        like(optional(command, "table_name_filter_pattern")),
    )
    entries = sorted(
        (
            table
            for table in backend.tables(caller)
            if _same(wanted, table.catalog)
            and in_schema(table.db_schema)
            and named(table.name)
            and (not command.table_types or table.type in command.table_types)
        ),
        key=lambda table: (table.catalog, table.db_schema, table.name, table.type),
    )
    if not command.include_schema:
        return _table_columns(entries)
    described = [(table, _serialise(table, backend, caller)) for table in entries]
    present = [(table, schema) for table, schema in described if schema is not None]
    return [*_table_columns([table for table, _ in present]), [schema for _, schema in present]]


def _table_columns(tables: Sequence[TableEntry]) -> Sequence[Sequence[Any]]:
    return [
        [table.catalog or None for table in tables],
        [table.db_schema or None for table in tables],
        [table.name for table in tables],
        [table.type for table in tables],
    ]


def _serialise(table: TableEntry, backend: Backend, caller: Caller) -> bytes | None:
    try:
        plain = client_schema(backend.table_schema(caller, table))
    except NotFound:  # dropped since it was listed
        return None
    except (Corrupt, NewerFormat):  # its own error comes with its first use; the others are listed with it
        plain = pa.schema([])
    fields = [describe_column(field, _where(field, table)) for field in plain]
    message: bytes = pa.schema(fields, metadata=plain.metadata).serialize().to_pybytes()
    return message


def _where(field: pa.Field, table: TableEntry) -> Mapping[str, object]:
    """Return the names of a column's table, and its remark."""
    return {
        "CATALOG_NAME": table.catalog,
        "DB_SCHEMA_NAME": table.db_schema,
        # The proto says DB_SCHEMA_NAME, the clients that are in use read SCHEMA_NAME.
        "SCHEMA_NAME": table.db_schema,
        "TABLE_NAME": table.name,
        "REMARKS": (field.metadata or {}).get(_COMMENT, b"").decode() or None,
    }


def _table_types(_: wire.GetTableTypes, backend: Backend, caller: Caller) -> Sequence[Sequence[Any]]:
    return [sorted(TABLE_TYPES | {table.type for table in backend.tables(caller)})]


def _primary_keys(command: wire.GetPrimaryKeys, backend: Backend, caller: Caller) -> Sequence[Sequence[Any]]:
    catalog, db_schema = optional(command, "catalog"), optional(command, "db_schema")
    keys = [
        (table, key, place, column)
        for table in sorted(backend.tables(caller), key=lambda table: (table.catalog, table.db_schema))
        if table.name == command.table and _same(catalog, table.catalog) and _same(db_schema, table.db_schema)
        if (key := _primary_key(table, backend, caller)) is not None
        for place, column in enumerate(key.columns, start=1)
    ]
    return [
        [table.catalog or None for table, *_ in keys],
        [table.db_schema or None for table, *_ in keys],
        [table.name for table, *_ in keys],
        [column for *_, column in keys],
        [place for *_, place, _ in keys],
        [key.name for _, key, *_ in keys],
    ]


def _primary_key(table: TableEntry, backend: Backend, caller: Caller) -> PrimaryKey | None:
    try:
        return backend.primary_key(caller, table)
    except NotFound:  # dropped since it was listed
        return None


def _sql_info(command: wire.GetSqlInfo, backend: Backend, caller: Caller) -> Sequence[Sequence[Any] | pa.Array]:
    codes = known_codes(command.info)
    own = {**backend.sql_info(), **(OF_JAVA if caller.is_java else {})}
    return [codes, sql_info_values(codes, own)]


def _xdbc_type_info(command: wire.GetXdbcTypeInfo, _backend: Backend, _caller: Caller) -> Sequence[Sequence[Any]]:
    types = sorted(
        (row for row in sql_types.SQL_TYPES if not command.HasField("data_type") or command.data_type == row.data_type),
        key=lambda row: (row.data_type, row.type_name),
    )
    return [[getattr(row, name) for row in types] for name in XDBC_TYPE_INFO.names]


def _same(wanted: str | None, name: str) -> bool:
    return wanted is None or wanted == name


def _of(schema: pa.Schema, columns: Callable[[Any, Backend, Caller], Sequence[Sequence[Any] | pa.Array]]) -> Builder:
    return Builder(schema=lambda _: schema, columns=columns)


def _empty(schema: pa.Schema) -> Builder:
    return _of(schema, lambda _command, _backend, _caller: [[] for _ in schema])


_BUILDERS: Mapping[type[MetadataCommand], Builder] = {
    wire.GetCatalogs: _of(CATALOGS, _catalogs),
    wire.GetDbSchemas: _of(DB_SCHEMAS, _db_schemas),
    wire.GetTables: Builder(
        schema=lambda command: TABLES_WITH_SCHEMA if command.include_schema else TABLES,
        columns=_tables,
    ),
    wire.GetTableTypes: _of(TABLE_TYPES_SCHEMA, _table_types),
    wire.GetPrimaryKeys: _of(PRIMARY_KEYS, _primary_keys),
    # Lance tables have no foreign keys.
    wire.GetExportedKeys: _empty(FOREIGN_KEYS),
    wire.GetImportedKeys: _empty(FOREIGN_KEYS),
    wire.GetCrossReference: _empty(FOREIGN_KEYS),
    wire.GetSqlInfo: _of(SQL_INFO, _sql_info),
    wire.GetXdbcTypeInfo: _of(XDBC_TYPE_INFO, _xdbc_type_info),
}
