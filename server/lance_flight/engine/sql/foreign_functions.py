"""Functions and statements of other systems, each with what to write here."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType

from lance_flight.engine.sql.routines import window_functions
from lance_flight.engine.sql.tokens import QUOTED, Token

INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        **{
            part: f"date_part('{part}', ts)"
            for part in ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "epoch")
        },
        **dict.fromkeys(["dayofmonth", "day_of_month"], "date_part('day', ts)"),
        **dict.fromkeys(["dayofyear", "day_of_year"], "date_part('doy', ts)"),
        **dict.fromkeys(["dayofweek", "day_of_week", "weekday"], "date_part('dow', ts)"),
        **dict.fromkeys(["weekofyear", "week_of_year", "weekiso"], "date_part('week', ts)"),
        **dict.fromkeys(["unix_timestamp", "to_epoch", "unix_seconds"], "date_part('epoch', ts)"),
        **dict.fromkeys(["dayname", "datename", "date_name"], "to_char(ts, '%A')"),
        "monthname": "to_char(ts, '%B')",
        **dict.fromkeys(
            ["datediff", "date_diff", "timestampdiff", "timestamp_diff"], "CAST(ts AS DATE) - CAST(ts2 AS DATE)"
        ),
        "age": "ts - ts2",
        **dict.fromkeys(["dateadd", "date_add", "adddate", "timestampadd", "timestamp_add"], "ts + INTERVAL '1 day'"),
        **dict.fromkeys(["date_sub", "subdate", "datesub"], "ts - INTERVAL '1 day'"),
        "add_months": "ts + INTERVAL '1 month'",
        **dict.fromkeys(["last_day", "eomonth"], "date_trunc('month', ts) + INTERVAL '1 month' - INTERVAL '1 day'"),
        "time_bucket": "date_bin(INTERVAL '15 minutes', ts)",
        **dict.fromkeys(
            ["getdate", "sysdate", "getutcdate", "systimestamp", "sysdatetime", "localtimestamp", "clock_timestamp"],
            "now()",
        ),
        "curdate": "current_date",
        "curtime": "current_time",
        **dict.fromkeys(["date", "to_days"], "CAST(ts AS DATE)"),
        "time": "CAST(ts AS TIME)",
        **dict.fromkeys(["timestamp", "datetime", "to_timestamp_ntz", "to_timestamp_ltz"], "CAST(s AS TIMESTAMP)"),
        **dict.fromkeys(["strptime", "parse_timestamp", "parse_datetime"], "to_timestamp(s, '%Y-%m-%d')"),
        **dict.fromkeys(["str_to_date", "parse_date"], "to_date(s, '%Y-%m-%d')"),
        **dict.fromkeys(["strftime", "format_date", "format_timestamp", "time_format"], "to_char(ts, '%Y-%m-%d')"),
        **dict.fromkeys(["date_from_parts", "datefromparts", "makedate"], "make_date(2026, 1, 31)"),
        "make_interval": "INTERVAL '1 day' * a",
        **dict.fromkeys(["mod", "modulo"], "a % b"),
        "div": "trunc(a / b)",
        **dict.fromkeys(["sign", "sgn"], "signum(a)"),
        "ceiling": "ceil(a)",
        "truncate": "trunc(a)",
        "square": "a * a",
        "bitand": "a & b",
        "bitor": "a | b",
        **dict.fromkeys(["ifinf", "is_inf"], "abs(a) = CAST('inf' AS DOUBLE)"),
        "is_nan": "isnan(a)",
        "isnull": "s IS NULL, or coalesce(s, '')",
        **dict.fromkeys(["notnull", "isnotnull"], "s IS NOT NULL"),
        "zeroifnull": "coalesce(a, 0)",
        "nullifzero": "nullif(a, 0)",
        **dict.fromkeys(["if", "iff", "iif", "choose", "decode_case"], "CASE WHEN a > 1 THEN 'x' ELSE 'y' END"),
        **dict.fromkeys(["to_number", "to_decimal", "to_numeric"], "CAST(s AS DECIMAL(18, 2))"),
        **dict.fromkeys(["to_double", "to_float", "val"], "CAST(s AS DOUBLE)"),
        **dict.fromkeys(["to_varchar", "to_string", "str", "cstr"], "CAST(a AS VARCHAR)"),
        "to_boolean": "CAST(s AS BOOLEAN)",
        "to_binary": "CAST(s AS BYTEA)",
        "convert": "CAST(s AS INT)",
        "isnumeric": "TRY_CAST(s AS DOUBLE) IS NOT NULL",
        **dict.fromkeys(["group_concat", "listagg", "wm_concat", "strings_agg"], "string_agg(s, ',')"),
        **dict.fromkeys(["collect_list", "groupArray", "list", "array_aggregate"], "array_agg(s)"),
        "collect_set": "array_agg(DISTINCT s)",
        **dict.fromkeys(["count_if", "countif"], "count(*) FILTER (WHERE a > 1)"),
        **dict.fromkeys(["sum_if", "sumif"], "sum(a) FILTER (WHERE a > 1)"),
        "avg_if": "avg(a) FILTER (WHERE a > 1)",
        **dict.fromkeys(["approx_count_distinct", "ndv", "hll"], "approx_distinct(s)"),
        "count_distinct": "count(DISTINCT s)",
        "variance": "var_samp(a)",
        "varp": "var_pop(a)",
        "stdev": "stddev(a)",
        "stdevp": "stddev_pop(a)",
        **dict.fromkeys(
            ["quantile", "percentile", "percentile_disc"], "percentile_cont(0.5) WITHIN GROUP (ORDER BY a)"
        ),
        **dict.fromkeys(
            ["percentile_approx", "approx_quantile", "approx_percentile"], "approx_percentile_cont(a, 0.5)"
        ),
        **dict.fromkeys(["every", "logical_and", "booland_agg"], "bool_and(a > 1)"),
        **dict.fromkeys(["some", "logical_or", "boolor_agg"], "bool_or(a > 1)"),
        "first": "first_value(s ORDER BY a)",
        "last": "last_value(s ORDER BY a)",
        **dict.fromkeys(["arg_max", "max_by", "argmax"], "first_value(s ORDER BY a DESC)"),
        **dict.fromkeys(["arg_min", "min_by", "argmin"], "first_value(s ORDER BY a)"),
        "grouping_id": "grouping(s), for each column of GROUP BY",
        **dict.fromkeys(["len", "datalength"], "length(s)"),
        **dict.fromkeys(["lengthb", "byte_length"], "octet_length(s)"),
        **dict.fromkeys(["charindex", "locate"], "strpos(s, 'a'), with the text first"),
        "patindex": "regexp_instr(s, 'a+')",
        "ucase": "upper(s)",
        "lcase": "lower(s)",
        "proper": "initcap(s)",
        "mid": "substr(s, 1, 3)",
        "space": "repeat(' ', 3)",
        "replicate": "repeat(s, 3)",
        "stuff": "overlay(s PLACING 'x' FROM 1 FOR 1)",
        **dict.fromkeys(["char", "nchar"], "chr(65)"),
        **dict.fromkeys(["split", "string_split", "str_split", "splitbychar"], "string_to_array(s, ',')"),
        "startswith": "starts_with(s, 'a')",
        "endswith": "ends_with(s, 'a')",
        **dict.fromkeys(["regexp_extract", "regexp_substr"], "regexp_match(s, '(a+)')[1]"),
        **dict.fromkeys(["regexp_matches", "rlike", "regexp", "regexp_contains"], "regexp_like(s, 'a+')"),
        **dict.fromkeys(["editdist3", "edit_distance", "editdistance"], "levenshtein(s, 'a')"),
        "hex": "to_hex(a), or encode(CAST(s AS BYTEA), 'hex')",
        "unhex": "decode(s, 'hex')",
        **dict.fromkeys(["base64", "to_base64"], "encode(CAST(s AS BYTEA), 'base64')"),
        **dict.fromkeys(["unbase64", "from_base64"], "decode(s, 'base64')"),
        "sha2": "digest(s, 'sha256')",
        **dict.fromkeys(["newid", "gen_random_uuid", "generate_uuid", "uuid_string"], "uuid()"),
        **dict.fromkeys(["typeof", "pg_typeof"], "arrow_typeof(a)"),
        **dict.fromkeys(["array_size", "size"], "cardinality(list)"),
        **dict.fromkeys(["list_value", "array", "array_construct"], "[1, 2]"),
        **dict.fromkeys(["explode", "explode_outer", "posexplode"], "unnest(list)"),
        "sequence": "generate_series(1, 10)",
        **dict.fromkeys(["struct_pack", "object_construct"], "named_struct('a', 1)"),
        **dict.fromkeys(["json_value", "get_json_object", "json_extract_string"], "json_get_string(s, 'a')"),
        "database": "current_database()",
        "schema": "current_schema()",
    }
)
"""What to write in place of a function of another system, over columns `a`, `b`, `s`, `ts`, `ts2` and `list`."""


def function_advice(name: str) -> str:
    """Return what an error about a missing function adds; nothing for one whose meaning is not known.

    >>> function_advice("month"), function_advice("nope")
    ("; write date_part('month', ts)", '')
    """
    word = name.lower()
    if word in window_functions():
        return f"; a window function needs OVER: write {word}(…) OVER (ORDER BY …)"
    return f"; write {INSTEAD[word]}" if word in INSTEAD else ""


_CLIENT = (
    "files are read and written where the client is: lance-flight ingest FILE --table t, lance-flight export t -o FILE, \\copy at the"
    " prompt of lance-flight sql, or cursor.adbc_ingest('t', data) and cursor.fetch_arrow_table()"
)
_COLUMNS = "write DESCRIBE t, or SHOW COLUMNS FROM t"
_COMPACT = "write ALTER TABLE t COMPACT"
_HELP = "write SHOW TABLES, DESCRIBE t, SELECT …, INSERT INTO t …; server/docs/sql.md has every statement"
_MERGE = "write MERGE INTO t USING … ON … WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_NO_CACHE = "leave it out: every statement reads the newest version of its tables"
_NO_CODE = "it is not offered: the statement is sent by the client, each time"
_PARAMETERS = "write ? for each value, and let the client prepare the statement and bind them"
_QUIT = "close the connection in the client"
_RIGHTS = "rights are given in the server's file of policies"
_SCHEMAS = "write CREATE SCHEMA s, or DROP SCHEMA s; the catalog is always lance"
_SHOW_SCHEMAS = "write SHOW SCHEMAS; the catalog is always lance"
_STORED = "write CREATE TABLE t AS SELECT …, or CREATE OR REPLACE VIEW v AS SELECT …"
_TABLES = "write SHOW TABLES, which names their schemas, too"
_TRANSACTIONS = (
    "write BEGIN, then COMMIT or ROLLBACK; or turn autocommit off, then commit() or rollback() in the client"
)

_INSTEAD: Mapping[tuple[str, ...], str] = MappingProxyType(
    {
        **dict.fromkeys([("HELP",), ("\\", "$1"), ("\\", "H"), (".", "HELP"), ("$1",)], _HELP),
        **dict.fromkeys([("\\", "D"), (".", "SCHEMA"), ("PRAGMA", "TABLE_INFO")], _COLUMNS),
        **dict.fromkeys([("DESCRIBE", "EXTENDED"), ("DESCRIBE", "FORMATTED")], _COLUMNS),
        **dict.fromkeys([("\\", "DT"), ("\\", "L"), ("\\", "DN"), (".", "TABLES"), (".", "DATABASES")], _TABLES),
        **dict.fromkeys([("SHOW", "DATABASES"), ("SHOW", "NAMESPACES")], _SHOW_SCHEMAS),
        **dict.fromkeys([("COPY",), ("LOAD",), ("UNLOAD",), ("EXPORT",), ("IMPORT",), ("\\", "COPY")], _CLIENT),
        **dict.fromkeys([(".", "IMPORT"), ("CREATE", "EXTERNAL")], _CLIENT),
        **dict.fromkeys([("\\", "Q"), (".", "QUIT"), (".", "EXIT"), ("QUIT",), ("EXIT",), ("BYE",)], _QUIT),
        **dict.fromkeys([("END",), ("ABORT",)], _TRANSACTIONS),
        **dict.fromkeys([("GRANT",), ("REVOKE",), ("CREATE", "USER"), ("CREATE", "ROLE")], _RIGHTS),
        **dict.fromkeys([("OPTIMIZE",), ("ANALYZE",)], _COMPACT),
        **dict.fromkeys([("CREATE", "MATERIALIZED"), ("ALTER", "VIEW")], _STORED),
        **dict.fromkeys([("CREATE", "DATABASE"), ("DROP", "DATABASE"), ("ALTER", "SCHEMA")], _SCHEMAS),
        **dict.fromkeys([("REPLACE",), ("UPSERT",), ("INSERT", "OR"), ("INSERT", "IGNORE")], _MERGE),
        **dict.fromkeys([("PREPARE",), ("EXECUTE",), ("DEALLOCATE",), ("DECLARE",)], _PARAMETERS),
        **dict.fromkeys([("CACHE",), ("UNCACHE",), ("REFRESH",), ("INVALIDATE",), ("MSCK",), ("FLUSH",)], _NO_CACHE),
        **dict.fromkeys([("CALL",), ("DO",), ("CREATE", "FUNCTION"), ("CREATE", "PROCEDURE")], _NO_CODE),
        ("SAVEPOINT",): "it is not offered: a transaction is committed or rolled back as a whole",
        ("LOCK",): "leave it out: readers keep the snapshot that they began with, and writers are told of conflicts",
        ("TABLE",): "write SELECT * FROM t",
        ("RENAME",): "write ALTER TABLE t RENAME TO u",
        ("RESTORE",): "write ALTER TABLE t ROLLBACK TO point",
        ("RESET",): "write SET name = 'value'",
        ("SHOW", "INDEX"): "write SHOW INDEXES FROM t",
        ("SHOW", "PROCESSLIST"): "write SELECT * FROM system.queries",
        ("DESCRIBE", "HISTORY"): "write SELECT * FROM t$snapshots",
        ("CREATE", "UNIQUE"): "write CREATE INDEX: values that repeat are not refused",
    }
)
"""Replacements by the first words or signs of a statement; `?` has become `$1` by then."""
_FIRST = frozenset({"DESC", *(words[0] for words in _INSTEAD)})
LONGEST = max(map(len, _INSTEAD))
_DESCRIBED = 2
"""Words of DESCRIBE EXTENDED and the like, behind which the name of a table stands."""


_READS_FILE = re.compile(
    r"table function '((read|scan)_\w+|(parquet|csv|json|delta|iceberg|sqlite|postgres)_scan|glob|file|url|s3|gcs|hdfs)' not found"
    r"|no table '\S+\.(parquet|pq|csv|tsv|jsonl?|ndjson|arrow|feather|orc|xlsx?)(\.\w+)?'"
)
"""Errors about functions that read files elsewhere, and about files in place of tables."""


def file_advice(message: str) -> str:
    """Return what an error adds that was caused by a file in a query; nothing for any other.

    >>> file_advice("table function 'read_csv' not found")[:28], file_advice("no table 't'")
    ('; files are read and written', '')
    """
    return "" if _READS_FILE.search(message) is None else f"; {_CLIENT}"


def instead_of(tokens: Sequence[Token], ours: Container[tuple[str, ...]] = ()) -> str | None:
    """Return the suggested replacement for a statement of another system; None for any other, and for one that begins with words of `ours`.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> instead_of(tokenize("show databases"))
    'write SHOW SCHEMAS; the catalog is always lance'
    """
    if tokens[0].text.upper() not in _FIRST:
        return None
    said = tuple("" if token.kind in QUOTED else token.text.upper() for token in tokens[:LONGEST])
    said = ("DESCRIBE", *said[1:]) if said[0] == "DESC" else said
    if said[0] == "DESCRIBE" and (len(tokens) <= _DESCRIBED or tokens[_DESCRIBED].is_sign(".")):
        return None  # a table or a schema may have any of these names
    for count in range(LONGEST, 0, -1):
        words = said[:count]
        if words in ours:
            return None
        if words in _INSTEAD:
            return _INSTEAD[words]
    return None
