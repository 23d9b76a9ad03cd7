"""Keywords and functions that CommandGetSqlInfo lists, as DataFusion defines them.

The last line of each list of functions has those that are known in the escape `{fn …}` of ODBC and JDBC alone.
"""

from __future__ import annotations


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
