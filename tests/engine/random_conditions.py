"""Random conditions over columns of every type, and rows to try them on."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
from datafusion import SessionContext
from hypothesis import strategies as st
from lance_flight.engine.sql.functions import session_config

SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "i": pa.int64(),
        "s": pa.utf8(),
        "f": pa.float64(),
        "d": pa.date32(),
        "ts": pa.timestamp("us"),
        "tn": pa.timestamp("ns"),
        "tz": pa.timestamp("us", "UTC"),
        "dec": pa.decimal128(9, 2),
        "b": pa.bool_(),
    }
)

MOMENTS = [datetime(1969, 12, 31, 23), datetime(2024, 2, 29, 12), datetime(2025, 1, 1), datetime(2025, 12, 10, 10, 30)]

VALUES = {
    "i": [-17, -7, 0, 3, 10, 25, 2**40],
    "s": ["", "a", "ab", "abc", "b", "é", "Zed"],
    "f": [float("nan"), 0.0, -0.0, 1.5, -2.5, float("inf")],
    "d": [date(1960, 3, 1), date(2024, 2, 29), date(2025, 1, 1), date(2025, 12, 31)],
    "ts": MOMENTS,
    "tn": MOMENTS,
    "tz": MOMENTS,
    "dec": [Decimal("-14.20"), Decimal("0.00"), Decimal("3.50")],
    "b": [True, False],
}

FIELDS = [
    *("i", "s", "f", "d", "dec", "b", "bucket(3, i)", "bucket(4, s)", "bucket(2, f)", "multi_bucket(5, i, s)"),
    *("truncate(10, i)", "truncate(1, s)", "year(ts)", "month(d)", "day(tn)", "hour(tz)", "year(d)"),
    "expr('upper(col0)', s) AS up",
    "expr('i % 3', i) AS never".replace("'i ", "'col0 "),
]

CONDITIONS = [
    *("i = 3", "i > -7", "i IN (0, 3, 99)", "i NOT IN (0, 3)", "i IS NULL", "i BETWEEN -10 AND 10", "i <> 10"),
    *("s = 'ab'", "s LIKE 'a%'", "s NOT LIKE 'a%'", "s IN ('a', 'é', NULL)", "s NOT IN ('a', 'b')", "s > 'ab'"),
    *("s IS NOT DISTINCT FROM 'a'", "s IS DISTINCT FROM 'a'", "upper(s) = 'AB'", "f = 0.0", "f > 1.0", "f <> 1.5"),
    *(
        "f IS NOT NULL",
        "d = '2024-02-29'",
        "d >= '2024-06-01'",
        "date_part('month', d) = 2",
        "date_part('year', d) < 2025",
    ),
    *(
        "ts >= '2025-01-01' AND ts < '2025-12-11'",
        "date_part('year', ts) = 1969",
        "tn = '2025-01-01'",
        "tn < '2024-12-01'",
    ),
    *(
        "date_part('day', tn) IN (10, 29)",
        "date_part('hour', tz) = 10",
        "tz > '2024-02-29T00:00:00Z'",
        "dec < 1",
        "b",
        "NOT b",
    ),
    *("b IS NOT TRUE", "dec = -14.20", "tn NOT IN ('2025-01-01T00:00:00')"),
]

rows = st.lists(
    st.fixed_dictionaries({name: st.none() | st.sampled_from(values) for name, values in VALUES.items()}), max_size=25
)

simple = st.sampled_from(CONDITIONS)

conditions = st.recursive(
    simple,
    lambda inner: (
        st.builds(lambda a, op, b: f"({a}) {op} ({b})", inner, st.sampled_from(["AND", "OR"]), inner)
        | st.builds(lambda a: f"NOT ({a})", inner)
    ),
    max_leaves=4,
)


def in_memory(table: pa.Table, condition: str) -> list[int]:
    context = SessionContext(session_config())
    context.register_record_batches("t", [table.to_batches() or [pa.RecordBatch.from_pylist([], schema=SCHEMA)]])
    found = context.sql(f"SELECT n FROM t WHERE {condition} ORDER BY n").to_arrow_table()
    return [] if found.num_rows == 0 else found["n"].to_pylist()
