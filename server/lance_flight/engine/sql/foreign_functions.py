"""Functions of other systems, each with what to write here: by what it computes, never by how it is spelled."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lance_flight.engine.sql.routines import window_functions

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
