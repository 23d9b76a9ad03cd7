"""Rows of several partitions are sorted by any key: the table of keys and of the places of a key, against keys that a subquery names."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.compat.sort_keys import sort_key_edits
from lance_flight.engine.engine import Engine
from lance_flight.engine.sql.tokens import edit_text, tokenize
from lance_flight.engine.writes.ingest import TableProperties, create

from tests.engine.database import open_engine

ROWS = 12
TABLE = pa.table(
    {
        "p": ["a" if n % 3 else "b" for n in range(ROWS)],
        "id": pa.array([n * 5 % ROWS - 4 for n in range(ROWS)], pa.int64()),
        "x": [None if n == 7 else float(n * 7 % ROWS) for n in range(ROWS)],
        "s": ["x" * (n * 5 % ROWS) for n in range(ROWS)],
        "raw": [bytes([n * 5 % ROWS]) for n in range(ROWS)],
        "v": pa.array([[float(n * 7 % ROWS), 1.0] for n in range(ROWS)], pa.list_(pa.float32(), 2)),
    },
    schema=pa.schema(
        [
            pa.field("p", pa.utf8()),
            pa.field("id", pa.int64(), nullable=False),
            pa.field("x", pa.float64()),
            pa.field("s", pa.utf8()),
            pa.field("raw", pa.binary()),
            pa.field("v", pa.list_(pa.float32(), 2)),
        ]
    ),
)

KEYS = {
    "the negative of a function": "-length(s)",
    "the negative of a product without NULL": "-(id * id)",
    "the negative of a remainder": "-(id % 5)",
    "a function of a function": "abs(abs(id))",
    "a function of a product": "exp(x * x / 100)",
    "a root": "sqrt(x)",
    "a logarithm": "ln(x + 1)",
    "a root of a distance": "sqrt(v <-> [3.0, 1.0])",
    "a comparison": "abs(id) < 3",
    "a range": "id BETWEEN -2 AND abs(id) - 1",
    "a negated comparison": "NOT length(s) > 3 AND id > 0",
    "a CASE without NULL": "CASE WHEN length(s) > 5 THEN 0 ELSE 1 END",
    "a CASE of bytes": "CASE WHEN abs(id) > 2 THEN raw END",
    "a key of several kinds": "sqrt(abs(-id)) * -1 + CASE WHEN -length(s) < -3 THEN 100 ELSE 0 END",
    "a column": "x",
    "the negative of a column": "-t.id",
}
SHAPES = {
    "rows": "SELECT id FROM {t} ORDER BY {k}, id",
    "rows, the last first": "SELECT id FROM {t} ORDER BY {k} DESC NULLS FIRST, id DESC",
    "the first rows": "SELECT id FROM {t} ORDER BY p, {k} NULLS FIRST, id LIMIT 5 OFFSET 1",
    "the key among the columns": "SELECT {k} AS k, id FROM {t} ORDER BY {k}, id",
    "a window": (
        "SELECT id, row_number() OVER (ORDER BY {k} DESC, id ROWS UNBOUNDED PRECEDING) AS n FROM {t} ORDER BY id"
    ),
    "a window of parts": "SELECT id, sum(id) OVER (PARTITION BY {k} ORDER BY id ROWS 1 PRECEDING) AS n FROM {t} ORDER BY id",
    "an aggregate": "SELECT p, array_agg(id ORDER BY {k}, id) AS ids FROM {t} GROUP BY p ORDER BY p",
    "groups": "SELECT {k} AS g, count(*) AS n FROM {t} GROUP BY {k} ORDER BY {k}",
    "different rows": "SELECT {d} id, x, s, raw, v FROM {t} ORDER BY {k}, id LIMIT 7",
    "a pipe": "FROM {t} |> ORDER BY {k}, id |> SELECT id",
    "a subquery": "SELECT id FROM (SELECT * FROM {t} ORDER BY {k}, id LIMIT 4) ORDER BY id",
    "a join": "SELECT t.id FROM {t} JOIN (SELECT id AS other FROM t) o ON t.id = o.other ORDER BY {k}, t.id",
}
"""Queries by a key `{k}`; `{d}` is DISTINCT where the key is an expression."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = open_engine(tmp_path_factory.mktemp("root"))
    create(engine.root, TableName("public", "t"), TABLE.schema, TableProperties.by("p"), [TABLE])
    return engine


@pytest.mark.slow  # every key in every query
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("query", SHAPES.values(), ids=SHAPES)
def test_rows_of_several_partitions_are_sorted_by_any_key(engine: Engine, query: str, key: str) -> None:
    named = query.format(k="k", d="", t=f"(SELECT *, {key} AS k FROM t) AS t")
    assert engine.query(query.format(k=key, d="DISTINCT", t="t")).equals(engine.query(named))


UNIONS = {
    "all": ("UNION ALL", lambda one, other: one + other),
    "different": ("UNION", lambda one, other: list({*one, *other})),
    "both": ("INTERSECT", lambda one, other: list({*one} & {*other})),
    "one": ("EXCEPT", lambda one, other: list({*one} - {*other})),
}


@pytest.mark.parametrize(("operator", "oracle"), UNIONS.values(), ids=UNIONS)
def test_sets_are_sorted_by_their_columns(
    engine: Engine, operator: str, oracle: Callable[[list[int], list[int]], list[int]]
) -> None:
    ids = TABLE["id"].to_pylist()
    got = engine.query(f"SELECT id FROM t {operator} SELECT id + 3 FROM t ORDER BY -abs(id), id")["id"].to_pylist()
    assert got == sorted(oracle(ids, [each + 3 for each in ids]), key=lambda each: (-abs(each), each))


UNTOUCHED = (
    "SELECT a FROM t ORDER BY a, 1, t.a, \"A\", -a, -1, 'x', $1 DESC, length(a), a + 1, a - 1, lower(upper(a))",
    "SELECT a FROM t ORDER BY data->'a', data->>'b' DESC NULLS LAST LIMIT 3",
    "SELECT DISTINCT ON (-abs(a)) b FROM t ORDER BY -abs(a)",
    "SELECT array_agg(DISTINCT -abs(a) ORDER BY -abs(a)) FROM t",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY -abs(a)) FROM t",
    "SELECT a FROM t ORDER BY -random(), -(SELECT max(b) FROM u), -murmur3(a)",
    'SELECT -abs(a), "order", t.partition FROM t WHERE -abs(a) < 2 GROUP BY -abs(a)',
)
"""Keys that DataFusion sorts by, or that must not be written twice."""


@pytest.mark.parametrize("text", UNTOUCHED)
def test_other_keys_are_left_as_they_are(text: str) -> None:
    assert sort_key_edits(text, tokenize(text), ["murmur3"]) == []


def test_keys_within_keys_are_written_twice_once() -> None:
    text = "-abs(a)"
    for _ in range(200):
        text = f"-sum(b) OVER (PARTITION BY sqrt(b) ORDER BY {text})"
    text = f"SELECT a FROM t ORDER BY {text}"
    assert len(edit_text(text, sort_key_edits(text, tokenize(text)))) < 2 * len(text)
