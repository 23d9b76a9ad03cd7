"""SqlInfo codes and their values, each in the child of the union that the proto assigns to it; with keywords and functions.

The last line of each list of functions has those that are known in the escape `{fn …}` of ODBC and JDBC alone.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from lance_flight.flight.metadata import schemas
from lance_flight.flight.metadata.schemas import ESCAPE
from lance_flight.flight.protocol import flight_sql_pb2 as pb


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


def values(codes: Sequence[int], own: Values) -> pa.UnionArray:
    """Return the value of each of `codes`, each in its child of `schemas.SQL_INFO_VALUE`; `own` values override the defaults."""
    children: list[list[Any]] = [[] for _ in _CHILDREN]
    offsets = []
    for code in codes:
        child = children[_CHILD_OF[code]]
        offsets.append(len(child))
        child.append(own.get(code, _CHILDREN[_CHILD_OF[code]][code]))
    # `UnionArray.from_dense` takes no fields, and its children could be null.
    types, places = pa.array([_CHILD_OF[code] for code in codes], pa.int8()), pa.array(offsets, pa.int32())
    return pa.Array.from_buffers(
        schemas.SQL_INFO_VALUE,
        len(codes),
        [None, types.buffers()[1], places.buffers()[1]],
        children=[pa.array(child, field.type) for child, field in zip(children, schemas.SQL_INFO_VALUE, strict=True)],
    )
