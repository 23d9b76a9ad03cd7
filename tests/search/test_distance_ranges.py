"""Ranges of a distance in WHERE and further keys after it: what a search answers is what sorting every row gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.engine.engine import Engine
from lance_flight.engine.functions.vector_functions import DISTANCES
from lance_flight.engine.query.search.distance_ranges import DistanceRange, Interval, Wanted

from tests.examples import examples
from tests.search.collection import DIMENSIONS, EXACTLY, VECTOR, Documents, literal, made, query, searches

pytestmark = pytest.mark.slow  # a long property

NEAR = literal(VECTOR)
INDICES = {
    "no index": None,
    "flat": "ivf_flat WITH (min_rows = 1, num_partitions = 1)",
    "some": "ivf_flat WITH (min_rows = 60, num_partitions = 1, metric = 'cosine')",
    "dot": "ivf_flat WITH (min_rows = 1, num_partitions = 1, metric = 'dot')",
    "graph": "ivf_hnsw_flat WITH (min_rows = 1, num_partitions = 1)",
}


@dataclass(frozen=True)
class Key:
    """A key in SQL, the order of the nearest, the distance in it, and what is made of that."""

    sql: str
    order: str
    distance: str
    made: Callable[[float], float] = float

    def values(self, documents: Documents, vector: list[float]) -> dict[int, float | None]:
        """The key of each row, by its id, to the last bit."""
        column = documents.table["embedding"].combine_chunks()
        found = DISTANCES[self.distance].compute([column, pa.array([vector] * len(column), pa.list_(pa.float64()))])
        pairs = zip(documents.rows, found.to_pylist(), strict=True)
        return {row["id"]: None if value is None else self.made(value) for row, value in pairs}


KEYS = [
    Key("embedding <-> {v}", "ASC", "array_distance"),
    Key("cosine_distance(embedding, {v})", "ASC", "cosine_distance"),
    Key("1 - (embedding <=> {v})", "DESC", "cosine_distance", lambda d: 1 - d),
    Key("inner_product(embedding, {v})", "DESC", "inner_product"),
    Key("embedding <#> {v}", "ASC", "negative_inner_product"),
    Key("2 * (embedding <-> {v}) + 3", "ASC", "array_distance", lambda d: 2 * d + 3),
]


@cache
def documents() -> Documents:
    """Rows of which many have the same vector as others."""
    found = Documents.random(400, seed=3)
    for row in found.rows[::3]:
        if row["embedding"] is not None:
            row["embedding"] = [1.0 + row["price"] % 3] * DIMENSIONS
    return found


@pytest.fixture(scope="module", params=INDICES)
def docs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return made(tmp_path_factory.mktemp("docs") / "root", documents(), vector_index=INDICES[request.param])


Holds = Callable[[float, float, float, dict[str, Any]], bool]
CONDITIONS: dict[str, Holds] = {
    "{d} < {high}": lambda d, _, high, __: d < high,
    "{d} <= {high} AND price < 7": lambda d, _, high, row: d <= high and row["price"] < 7,
    "{d} > {low}": lambda d, low, _, __: d > low,
    "{low} <= {d} AND body LIKE '%lance%'": lambda d, low, _, row: low <= d and "lance" in (row["body"] or ""),
    "{d} BETWEEN {low} AND {high}": lambda d, low, high, _: low <= d <= high,
    "{d} > {low} OR ({d} = {low} AND id > 200)": lambda d, low, _, row: d > low or (d == low and row["id"] > 200),
    "({d} > {high} OR {d} < {low}) AND tenant = 'a'": lambda d, low, high, row: (
        (d > high or d < low) and row["tenant"] == "a"
    ),
    "{d} < {low} OR price = 3": lambda d, low, _, row: d < low or row["price"] == 3,
    "{d} = {low}": lambda d, low, _, __: d == low,
    "{d} > {low} AND price % 2 = 0": lambda d, low, _, row: d > low and row["price"] % 2 == 0,
    "NOT {d} > {high}": lambda d, _, high, __: d <= high,
}


@given(st.data())
@examples(12, full=400)
def test_a_range_in_where_answers_as_sorting_every_row(docs: Engine, data: st.DataObject) -> None:
    form, condition = data.draw(st.sampled_from(KEYS)), data.draw(st.sampled_from(list(CONDITIONS)))
    vector = data.draw(st.sampled_from([VECTOR, [1.0] * DIMENSIONS, [0.5] * DIMENSIONS]))
    known = form.values(documents(), vector)
    ordered = sorted(each for each in known.values() if each is not None)
    gaps = [(a + b) / 2 for a, b in pairwise(ordered) if b - a > 1e-4]
    low, high = sorted((data.draw(st.sampled_from(gaps)), data.draw(st.sampled_from(gaps))))
    count, skipped = data.draw(st.sampled_from([1, 10, 150])), data.draw(st.sampled_from([0, 5]))
    call = form.sql.format(v=literal(vector))
    where = condition.format(d=call, low=repr(low), high=repr(high))
    sql = (
        f"SELECT id FROM docs WHERE {where} ORDER BY {call} {form.order} NULLS LAST, id LIMIT {count} OFFSET {skipped}"
    )
    holds = CONDITIONS[condition]
    kept = [row for row in documents().rows if known[row["id"]] is not None and holds(known[row["id"]], low, high, row)]
    kept += [row for row in documents().rows if known[row["id"]] is None and "price = 3" in where and row["price"] == 3]
    sign = -1 if form.order == "DESC" else 1

    def key(row: dict[str, object]) -> tuple[bool, float, object]:
        value = known[row["id"]]  # type: ignore[index]
        return value is None, 0.0 if value is None else sign * value, row["id"]

    expected = [row["id"] for row in sorted(kept, key=key)]
    found = [row["id"] for row in query(docs, sql)]
    assert found == expected[skipped : skipped + count], sql
    assert [each.split(":")[0] for each in searches(docs, sql)] == ["search"], (sql, searches(docs, sql))


def test_the_next_page_by_keys_of_ones_own(docs: Engine) -> None:
    """`(distance, id) > (…)`, written out, as pages are asked for in SQL; rows with equal distances cross the border of pages."""
    whole = query(
        docs, f"SELECT id, embedding <-> {NEAR} AS d FROM docs WHERE embedding IS NOT NULL ORDER BY d, id LIMIT 1000"
    )
    sql = (
        f"SELECT id, embedding <-> {NEAR} AS d FROM docs WHERE embedding <-> {NEAR} > $1 OR (embedding <-> {NEAR} = $1 AND id > $2)"
        " ORDER BY d, id LIMIT 40"
    )
    found = query(docs, f"SELECT id, embedding <-> {NEAR} AS d FROM docs ORDER BY d, id LIMIT 40")
    while True:
        page = query(docs, sql, pa.record_batch({"1": [found[-1]["d"]], "2": [found[-1]["id"]]}))
        found += page
        if len(page) < 40:
            break
    assert found == whole
    assert len({row["d"] for row in whole}) < len(whole)


@pytest.mark.parametrize("order", ["d, id", "d, id DESC", "d, price DESC, id", "d ASC, tenant NULLS FIRST, id"])
@pytest.mark.parametrize("count", [1, 20, 133, 390])
def test_further_keys_sort_rows_that_are_as_near(docs: Engine, order: str, count: int) -> None:
    sql = (
        f"SELECT id, embedding <-> {literal([1.0] * DIMENSIONS)} AS d FROM docs WHERE price < 9 ORDER BY {order} LIMIT "
    )
    whole = query(docs, f"{sql}20000")
    assert query(docs, f"{sql}{count}") == whole[:count]
    (told,) = searches(docs, f"{sql}{count}")
    assert "rows as near as the last of them, which further keys sort" in told
    assert searches(docs, f"{sql}20000")[0].startswith("no search")


TOLD = {
    "up to": ("flat", "WHERE {d} < 2", "10 nearest by l2 of embedding, by index v (ivf_flat)"),
    "from": ("flat", "WHERE {d} > 2", "10 nearest by l2 of embedding from a distance of 3.99"),
    "from, by index": ("flat", "WHERE {d} > 2", "by index v (ivf_flat)"),
    "from, by a graph": ("graph", "WHERE {d} > 2", "every vector is compared, since index v (ivf_hnsw_flat) is searched from the nearest on"),
    "up to, by a graph": ("graph", "WHERE {d} < 2", "by index v (ivf_hnsw_flat)"),
    "from, quantised": ("pq", "WHERE {d} BETWEEN 1 AND 2", "every vector is compared, since index v (ivf_pq)"),
    "up to, quantised": ("pq", "WHERE {d} < 2", "by index v (ivf_pq), approximately"),
}  # fmt: skip


@pytest.mark.parametrize(("index", "where", "says"), TOLD.values(), ids=TOLD)
def test_explain_says_how_a_range_is_searched(tmp_path: Path, index: str, where: str, says: str) -> None:
    kinds = {
        **INDICES,
        "pq": "ivf_pq WITH (min_rows = 1, num_partitions = 1, num_sub_vectors = 4, num_bits = 4)",
    }
    docs = made(tmp_path / "root", documents())
    docs.update(f"CREATE INDEX v ON docs (embedding) USING {kinds[index]}")
    call = f"embedding <-> {NEAR}"
    sql = f"SELECT id, {call} AS d FROM docs {where.format(d=call)} ORDER BY {call} LIMIT 10"
    (told,) = searches(docs, sql)
    assert says in told
    assert "every vector is compared (exact_search)" in searches(docs, sql, EXACTLY)[0]
    distances = [row["d"] for row in query(docs, sql)]
    expected = sorted(value for value in KEYS[0].values(documents(), VECTOR).values() if value is not None)
    low, high = (2, math.inf) if ">" in where else (1 if "BETWEEN" in where else 0, 2)
    expected = [each for each in expected if low <= each <= high][:10]
    # An index of codes may miss some of the nearest.
    assert len(expected) - 2 <= len(distances) <= len(expected)
    assert all(low <= each <= high for each in distances)
    if index != "pq" or "compared" in says:
        assert np.allclose(distances, expected, atol=1e-5)


BOUNDS = st.one_of(
    st.none(), st.floats(-5, 5).map(lambda low: DistanceRange.between(low=low)), st.floats(-5, 5).map(lambda high: DistanceRange.between(high=high))
)  # fmt: skip


@given(st.lists(BOUNDS, min_size=1, max_size=4), st.lists(st.booleans(), min_size=3, max_size=3), st.floats(-6, 6))
def test_a_range_is_possible_where_its_condition_is_true_and_certain_where_it_must_be(
    parts: list[DistanceRange | None], joins: list[bool], distance: float
) -> None:
    """Parts that say nothing of the distance (None) may be true or not."""
    unknown = DistanceRange(Interval(), Interval(math.inf, -math.inf))
    found = parts[0] or unknown

    def holds(part: DistanceRange | None, *, otherwise: bool) -> bool:
        return otherwise if part is None else part.possible.low <= distance <= part.possible.high

    truths = {otherwise: holds(parts[0], otherwise=otherwise) for otherwise in (False, True)}
    for part, is_and in zip(parts[1:], joins, strict=False):
        found = found.both(part or unknown) if is_and else found.either(part or unknown)
        for otherwise, so_far in truths.items():
            mine = holds(part, otherwise=otherwise)
            truths[otherwise] = (so_far and mine) if is_and else (so_far or mine)
    if truths[True]:
        assert found.possible.low <= distance <= found.possible.high
    if found.certain.low <= distance <= found.certain.high:
        assert truths[False]


@pytest.mark.parametrize("name", ["array_distance", "cosine_distance", "inner_product", "negative_inner_product"])
def test_a_search_is_asked_from_below_the_bound_on(name: str) -> None:
    """Lance's distances are squares of lengths, and 1 - the product."""
    distance = DISTANCES[name]
    said = DistanceRange.between(high=0.25) if name == "inner_product" else DistanceRange.between(low=0.25)
    wanted = Wanted.of(distance, 3, 1.0, said, is_tied=False)
    expected = {
        "array_distance": 0.0625,
        "cosine_distance": 0.25,
        "inner_product": 0.75,
        "negative_inner_product": 1.25,
    }
    assert wanted.least is not None
    assert wanted.least < expected[name]
    assert wanted.least == pytest.approx(expected[name], abs=2e-4)
    far = np.array([expected[name]] * 2 + [expected[name] + 0.1] * 3, np.float32)
    assert not wanted.is_met(far[:4])
    assert wanted.is_met(far)
