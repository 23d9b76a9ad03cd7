"""Statements of Spark whose planning is tested without a JVM, with what the connector makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tests.spark.offers import DEFINED

PRUNED: Mapping[str, Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "nulls": {
            "part = 'p1'": ("whole whole", "3 / 15"),
            "3 < id": ("part part", "15 / 15"),
            "id BETWEEN 20 AND 40": ("part part part", "15 / 15"),
            "part IN ('p1', 'p3')": ("whole", "6 / 15"),
            "part IN ('p1', NULL)": ("none", "15 / 15"),
            "part NOT IN ('p1', 'p3')": ("whole", "6 / 15"),
            "part IS NULL": ("whole", "3 / 15"),
            "part IS NOT NULL AND id < 50": ("part part part", "12 / 15"),
            "part <=> 'p2' OR part <=> NULL": ("part", "6 / 15"),
            "NOT (part <=> 'p2')": ("part", "15 / 15"),
            "at >= TIMESTAMP '2025-01-20 07:00:00' AND at < TIMESTAMP '2025-02-01'": ("part part part", "10 / 15"),
            "part LIKE 'p%' AND part NOT LIKE 'p_'": ("part part", "12 / 15"),
            "startswith(part, 'p1')": ("part part", "3 / 15"),
            "part LIKE '%2%' OR part LIKE '%4'": ("part", "15 / 15"),
            "(part = 'p1' AND id > 100) OR (part = 'p2' AND NOT id > 100)": ("part", "6 / 15"),
            "x > 12.25": ("part none", "15 / 15"),
            "x = double('NaN')": ("part none", "15 / 15"),
            "upper(part) = 'P2' AND id = 7": ("part part none part", "12 / 15"),
            "id % 7 = 3 AND part = 'p4'": ("part part none part", "3 / 15"),
            "part = 'none'": ("whole whole", "0 / 15"),
            "part = 'it''s' OR part = '\\\\'": ("whole", "0 / 15"),
        },
        "typed": {
            "month = 2": ("whole whole", "10 / 30"),
            "region IN ('r1', 'r2')": ("whole", "12 / 30"),
            "region IS NULL": ("whole", "6 / 30"),
            "day > DATE '2025-01-01' AND month <= 1": ("whole whole whole whole", "10 / 30"),
            "NOT (region = 'r1' OR month = 1)": ("whole whole whole whole", "12 / 30"),
            "region = 'none'": ("whole whole", "0 / 30"),
            "month = 1 AND id > 20": ("part part part part", "10 / 30"),
        },
        "months_local": {"year(local) = 2025 AND month(local) = 2": ("part part part", "1 / 4")},
        "months_day": {
            "2 < month(day) OR year(day) < 2025": ("part", "2 / 4"),
            "NOT (month(day) = 1)": ("part part", "3 / 4"),
            "day(day) <> 1 AND dayofmonth(day) < 3": ("part part part", "4 / 4"),
        },
        "months_at": {"month(at) = 2": ("whole none", "4 / 4")},
        "days": {
            "day >= DATE '2025-02-01' AND day < DATE '2025-03-01'": ("whole whole whole", "1 / 3"),
            "day >= DATE '2025-02-01' AND day < DATE '2025-04-01'": ("whole whole whole", "2 / 3"),
            "day >= DATE '2025-01-01' AND day <= DATE '2025-12-31'": ("whole whole whole", "3 / 3"),
            "day > DATE '2025-01-31' AND day <= DATE '2025-02-28'": ("whole whole whole", "1 / 3"),
            "day >= DATE '2025-02-01' AND day <> DATE '2025-02-07'": ("part part part", "2 / 3"),
        },
    }
)
"""Conditions by the table that they are over: what a root's scan makes of each predicate, and the partitions that it reads."""

TAKEN = (
    *("tiny > -1", "tiny = 127", "NOT tiny < 0", "tiny NOT IN (0, 1)"),
    *("long <= -9223372036854775808", "long <> 0", "long <=> 9223372036854775807"),
    *("u8 < -1", "u8 >= 128", "u8 = 255"),
    *("u32 > -1", "u32 > 2147483647", "u32 IN (4294967295, -1)", "u32 < long"),
    *("u64 > 9223372036854775807", "u64 = 18446744073709551615", "u64 <> 0"),
    *("word > 'a'", "word <= 'ä'", "word = ''", "word IN ('A', 'x')", "word LIKE 'ä%'", "word LIKE '%'"),
    *("word > 'z'", "wide < 'a'", "wide LIKE '%a%'", "wide = word", "endswith(wide, 'A')"),
    *("coded >= 'a'", "NOT (coded <=> 'a')", "coded IN ('', 'a')", "coded LIKE 'a%'"),
    *("flag", "NOT flag", "flag <=> false", "flag < true", "NOT (flag AND tiny > 0)", "flag OR tiny > 100"),
    *("day < DATE '1970-01-01'", "day = DATE '2199-12-31'", "day > DATE '1700-01-01'"),
    "day <> DATE '2025-03-09'",
    "at > TIMESTAMP '2025-03-09 02:30:00Z'",
    "at = TIMESTAMP '2025-03-09 02:30:00Z'",
    "at < TIMESTAMP '1970-01-01 00:00:00Z'",
    "plain_at = TIMESTAMP_NTZ '2025-03-09 02:30:00'",
    "plain_at > TIMESTAMP_NTZ '1969-12-31 23:59:58.999999'",
    "at_s >= TIMESTAMP_NTZ '1969-12-31 23:59:59'",
    "at_s > TIMESTAMP_NTZ '1969-12-31 23:59:58'",
    "at_ms <= TIMESTAMP '2025-03-09 02:30:00.000Z'",
    "at_ms < TIMESTAMP '2025-03-09 02:30:00Z'",
    "at_ns <= TIMESTAMP_NTZ '2025-03-09 02:30:00'",
    "at_ns >= TIMESTAMP_NTZ '2199-12-31 23:59:59.999999'",
    "at_ns = plain_at",
    *("price > 0.01", "price = -99999999.99", "price NOT IN (0, 0.01)", "price <= 0"),
    *("raw > X'7F'", "raw = X''", "raw IN (X'00', X'FF')", "raw <> X'61'"),
    *("items IS NULL", "items IS NOT NULL AND tiny > 0"),
)
"""Conditions over `extremes` that SQL evaluates as Spark does."""

LEFT = (
    "at_home >= TIMESTAMP '2025-03-09 02:30:00Z'",
    "at_home <> at",
    "at <> at_home",
    "at_s > TIMESTAMP_NTZ '1969-12-31 23:59:58.999999'",
    "at_s < TIMESTAMP_NTZ '2025-03-09 02:30:00.5'",
    "at_ms < TIMESTAMP '2025-03-09 02:30:00.000001Z'",
    "at_ms > TIMESTAMP '1969-12-31 23:59:58.999999Z'",
    "long > tiny",
    "at_s < at_ms",
)
"""Conditions over `extremes` that Spark evaluates itself, since SQL compares otherwise."""

IMPLIED: Mapping[str, int] = MappingProxyType(
    {
        "year(at) = 2024": 3,
        "2024 >= year(at)": 3,
        "year(at) > 2025": 0,
        "year(at) < 2024": 0,
    }
)
"""Conditions over `months_at` that depend on the zone of a session, and how many rows a scan reads for them."""

INSIDE: Mapping[str, list[int]] = MappingProxyType(
    {
        "o.a = 2": [2],
        "o.in.t LIKE 'x%'": [1, 3],
        "o.in IS NOT NULL AND o.a IN (1, 3)": [1],
        "NOT (o.a <=> 1) AND o.in.t <> 'y'": [3],
    }
)
"""Conditions over `inside`, and the ids of the rows that fulfil them."""

FROM_METADATA = (
    "SELECT count(*) FROM typed",
    "SELECT count(1), count(*) + 1 FROM typed",
    "SELECT count(region), count(raw), count(month) FROM typed",
    "SELECT count(DISTINCT region), count(DISTINCT day) FROM typed",
    "SELECT min(region), min(month), min(day), min(at), min(plain_at), min(price), min(raw), min(small), min(flag) FROM typed",
    "SELECT max(region), max(month), max(day), max(at), max(plain_at), max(price), max(raw), max(small), max(flag) FROM typed",
    "SELECT max(month) - min(month) AS span FROM typed",
    "SELECT count(*), min(region) FROM typed WHERE month = 2",
    "SELECT count(*), max(day) FROM typed WHERE region IN ('r1', 'r2')",
    "SELECT count(*), count(region) FROM typed WHERE region IS NULL",
    "SELECT count(*) FROM typed WHERE region <=> 'r3'",
    "SELECT count(*) FROM typed WHERE NOT (region = 'r1' OR month = 1)",
    "SELECT count(*) FROM typed WHERE day >= DATE '2025-01-02' AND price < 0.2",
    "SELECT count(*), min(month), count(DISTINCT region) FROM typed WHERE region = 'none'",
    "SELECT region, count(*) FROM typed GROUP BY region",
    "SELECT month + 1 AS next, day, count(raw), max(region) FROM typed WHERE month > 0 GROUP BY month, day",
    "SELECT region, count(*) FROM typed WHERE region = 'none' GROUP BY region",
    "SELECT DISTINCT region, flag FROM typed",
    "SELECT region FROM typed GROUP BY region HAVING count(*) > 5 ORDER BY region DESC",
    "SELECT count(*) FROM typed WHERE month = 1 UNION ALL SELECT max(month) FROM typed",
    "SELECT count(*) FROM days WHERE day >= DATE '2025-02-01' AND day < DATE '2025-03-01'",
)
"""Aggregates that the connector answers while Spark plans."""

BY_THE_SERVER = (
    "SELECT min(id), max(id) FROM typed",
    "SELECT count(id) FROM typed",
    "SELECT count(*) FROM typed WHERE id > 20",
    "SELECT count(*), max(region) FROM typed WHERE month = 1 AND id > 20",
    "SELECT count(*) FROM typed WHERE month = 1 OR id > 20",
)
"""Aggregates that a server computes, and that Spark computes of the rows of a root."""

BY_SPARK = (
    "SELECT min(x), max(x), count(DISTINCT x) FROM typed",
    "SELECT max(s), max(s.a) FROM typed",
    "SELECT sum(month), count(*) FROM typed",
    "SELECT avg(month), count(*) FROM typed",
    "SELECT count(*) FILTER (WHERE region = 'r1') FROM typed",
    "SELECT max(month + 1), count(*) FROM typed",
    "SELECT count(*) FROM typed WHERE x > 3",
    "SELECT count(*) FROM typed WHERE upper(region) = 'R1'",
    "SELECT month % 2, count(*) FROM typed GROUP BY month % 2",
    "SELECT id, count(*) FROM typed GROUP BY id",
    "SELECT x, count(*) FROM typed GROUP BY x",
    "SELECT region, month, count(*) FROM typed GROUP BY ROLLUP (region, month)",
)
"""Aggregates that Spark computes itself."""

FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "s": ("s",),
        "bucket(16, id), year(ts)": ("bucket(16, id)", "year(ts)"),
        "year(ts), month(ts), day(ts), hour(ts)": ("year(ts)", "month(ts)", "day(ts)", "hour(ts)"),
        "years(ts)": ("year(ts)",),
        "days(ts)": ("year(ts)", "month(ts)", "day(ts)"),
        "hours(n), s": ("year(n)", "month(n)", "day(n)", "hour(n)", "s"),
        "truncate(3, id)": ("truncate(3, id)",),
        "expr('col0 % 4', id)": ("expr('col0 % 4', id)",),
        "multi_bucket(4, id, s)": ("multi_bucket(4, id, s)",),
        "": (),
    }
)
"""PARTITIONED BY of Spark, and the partition fields of the service."""

REFUSED_TABLES: Mapping[str, str] = MappingProxyType(
    {
        "(id BIGINT) USING parquet": "expected USING lance_flight",
        "(id BIGINT) TBLPROPERTIES ('write.distribution-mode' = 'x')": "'distribution' is 'x'; expected hash, range, none",
        "(id BIGINT) USING lance_flight OPTIONS (root 'x')": "option 'root' is not one of a table",
        "(id BIGINT) OPTIONS (file_version '2.1')": "option 'file_version'; expected TBLPROPERTIES",
        "(s STRUCT<x: STRUCT<y: INT NOT NULL>>)": "column 's.x.y' inside 's' is NOT NULL",
        "(c VARCHAR(3))": r"varchar\(3\).*expected STRING",
        "(c ARRAY<STRING COLLATE UTF8_LCASE>)": "texts have no collation",
        "(id BIGINT UNIQUE)": "UNIQUE.*expected PRIMARY KEY",
        "(i INTERVAL YEAR)": "interval year: no column has it; expected INT, a number of months",
        "(id BIGINT) PARTITIONED BY (nonsense(id))": "nonsense",
    }
)
"""Rest of a CREATE TABLE, and the error that it ends with."""

ALTERATIONS: Mapping[str, str] = MappingProxyType(
    {
        "ADD COLUMN c INT": "id bigint, s string, o struct<a:int>, c int",
        "ADD COLUMNS (c INT COMMENT 'x', d STRING DEFAULT 'y')": "id bigint, s string, o struct<a:int>, c int, d string",
        "ADD COLUMN o.b BIGINT": "id bigint, s string, o struct<a:int,b:bigint>",
        "RENAME COLUMN s TO t": "id bigint, t string, o struct<a:int>",
        "DROP COLUMN s": "id bigint, o struct<a:int>",
        "DROP COLUMNS (s, o)": "id bigint",
        "ADD COLUMNS (c INT NOT NULL DEFAULT 3, o.b INT, d INT COMMENT 'it''s d')": (
            "id bigint, s string, o struct<a:int,b:int>, c int, d int"
        ),
        "ALTER COLUMN s COMMENT 'text', o.a TYPE BIGINT, id DROP NOT NULL": "id bigint, s string, o struct<a:bigint>",
        "ALTER COLUMN o.a TYPE BIGINT": "id bigint, s string, o struct<a:bigint>",
        "ALTER COLUMN s COMMENT 'text'": "id bigint, s string, o struct<a:int>",
        "ALTER COLUMN id DROP NOT NULL": "id bigint, s string, o struct<a:int>",
        "ADD COLUMN c INT FIRST": "c int, id bigint, s string, o struct<a:int>",
        "ADD COLUMNS (c INT, d INT AFTER s)": "id bigint, s string, d int, o struct<a:int>, c int",
        "ALTER COLUMN s SET DEFAULT 'x'": "id bigint, s string, o struct<a:int>",
        "ALTER COLUMN s COMMENT 'x', o FIRST": "o struct<a:int>, id bigint, s string",
        "SET TBLPROPERTIES ('comment' = 'x')": "id bigint, s string, o struct<a:int>",
        "SET TBLPROPERTIES ('partitioned_by' = 'bucket(8, id)')": "id bigint, s string, o struct<a:int>",
        "SET TBLPROPERTIES ('x' = '1', 'write.distribution-mode' = 'range')": "id bigint, s string, o struct<a:int>",
        "CLUSTER BY (s)": "id bigint, s string, o struct<a:int>",
    }
)
"""Changes of a table, and the columns that it has then."""

REFUSED_ALTERATIONS = (
    "ADD COLUMNS (c INT, d STRUCT<x: INT NOT NULL>)",
    "ADD COLUMNS (c INT, d INTERVAL YEAR)",
    "ADD COLUMNS (c INT, d INT NOT NULL)",
    "SET TBLPROPERTIES ('delta.appendOnly' = 'true')",
    "SET TBLPROPERTIES ('comment' = 'x', 'y' = '1')",
    "SET TBLPROPERTIES ('comment' = 'x', 'partitioned_by' = 's')",
    "UNSET TBLPROPERTIES ('comment', 'partitioned_by')",
    "ALTER COLUMN s COMMENT 'x', o.a SET DEFAULT 3",
    "DROP COLUMN id",
    "DROP COLUMNS (s, id)",
    "REPLACE COLUMNS (id BIGINT, c INT)",
    "REPLACE COLUMNS (c INT)",
    "CLUSTER BY (o.a)",
)
"""Changes of a table that are refused, and leave it as it was."""


def created(fields: str) -> str:
    """Return a CREATE TABLE with these partition fields."""
    partitioned = f" PARTITIONED BY ({fields})" * bool(fields)
    return f"CREATE TABLE made ({DEFINED}) USING lance_flight{partitioned} COMMENT 'made'"


CHANGES: Mapping[str, str] = MappingProxyType(
    {
        "delete by a partition": "DELETE FROM changed WHERE k = 2",
        "delete by a column": "DELETE FROM changed WHERE id IN (1, 5, 33) OR s IS NULL",
        "delete by an expression": "DELETE FROM changed WHERE id % 5 = 3",
        "delete nothing": "DELETE FROM changed WHERE id % 5 = 7",
        "delete all": "DELETE FROM changed",
        "update": "UPDATE changed SET s = 'changed', x = x + 1 WHERE k = 1 AND id % 3 = 0",
        "update the partition": "UPDATE changed SET k = k + 10 WHERE k >= 2",
        "update to NULL": "UPDATE changed SET s = NULL WHERE x > 7.5",
        "update all": "UPDATE changed SET x = 0",
        "overwrite a partition": "INSERT OVERWRITE changed PARTITION (k = 3) SELECT 5L, 'y', NULL, 0D",
    }
)
"""Changes of rows, in Spark's SQL and in that of the service."""

EVERY = (
    *(f"SELECT * FROM {table} WHERE {each}" for table, conditions in PRUNED.items() for each in conditions),
    *(f"SELECT * FROM extremes WHERE {each}" for each in (*TAKEN, *LEFT)),
    *(f"SELECT * FROM months_at WHERE {each}" for each in IMPLIED),
    *(f"SELECT * FROM inside WHERE {each}" for each in INSIDE),
    *(*FROM_METADATA, *BY_THE_SERVER, *BY_SPARK),
    *map(created, FIELDS),
    *(f"CREATE TABLE refused {each}" for each in REFUSED_TABLES),
    *(f"ALTER TABLE altered {each}" for each in (*ALTERATIONS, *REFUSED_ALTERATIONS)),
    *CHANGES.values(),
)
