"""Distances of vectors in SQL, and pgvector's operators for them: values, NULL, types, precedence, and errors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.engine.engine import Engine
from lance_flight.engine.functions.vector_functions import DISTANCES, ROWS_AT_ONCE, operator_edits
from lance_flight.engine.sql.tokens import edit_text, tokenize
from lance_flight.engine.translation.evaluation import compute
from lance_flight.errors import InvalidInput, LanceFlightError

from tests.engine.database import open_engine

VALUES = [
    ("array_distance([1, 2], [4, 6])", 5.0),
    ("list_distance([1.5], [1])", 0.5),
    ("cosine_distance([1, 0], [0, 2])", 1.0),
    ("cosine_distance([1, 1], [2.0, 2.0])", 0.0),
    ("inner_product([1, 2], [3, 4])", 11.0),
    ("negative_inner_product([1, 2], [3, 4])", -11.0),
    ("-inner_product([1, 2], [3, 4])", -11.0),
    ("1 -inner_product([1, 2], [3, 4])", -10.0),
    ("array_distance('[1, 2]', [4, 6])", 5.0),
    ("array_distance(arrow_cast([1, 2], 'FixedSizeList(2 x Float16)'), arrow_cast([4, 6], 'LargeList(Float32)'))", 5.0),
    ("array_distance(arrow_cast([1, 2], 'FixedSizeList(2 x UInt8)'), [CAST(4 AS DECIMAL(5, 2)), 6])", 5.0),
    ("array_distance([], [])", 0.0),
    ("array_distance(NULL, [1])", None),
    ("cosine_distance([1], NULL)", None),
    ("inner_product(NULL, NULL)", None),
    ("array_distance([1, NULL], [1, 2])", None),
    ("array_distance(arrow_cast(NULL, 'FixedSizeList(2 x Float32)'), [1])", None),
    ("cosine_distance([0, 0], [1, 1])", math.nan),
    ("inner_product([1, 2], [1, CAST('NaN' AS DOUBLE)])", math.nan),
    ("[1, 2] <-> [4, 6]", 5.0),
    ("[1, 0]<=>[0, 1]", 1.0),
    ("[1, 2] <#> '[3, 4]'", -11.0),
    ("1 - ([1, 0] <=> [1, 0])", 1.0),
    ("[1, 2] <-> [4, 6] > 4 + 2", False),
    ("NOT [1, 2] <-> [4, 6] = 5 OR FALSE", False),
    ("[1, 2] <-> [4, 6] BETWEEN 4 AND 6", True),
    ("5 IN ([1, 2] <-> [4, 6], 1)", True),
    ("CASE WHEN [1] <-> [2] < 2 THEN [1] <-> [4] ELSE 0.0 END", 3.0),
    ("greatest([1] <-> [2], [1] <-> [5])", 4.0),
    ("[[1] <-> [2]] <-> [[1] <-> [5]]", 3.0),
    ("CAST([1] <-> [2] AS BIGINT)", 1),
    ("([1] <-> [2])::BIGINT", 1),
    ("[1] <-> arrow_cast([2], 'List(Int8)')", 1.0),
    # Of what is no vector, <=> compares as IS NOT DISTINCT FROM.
    ("1 <=> 1", True),
    ("NULL <=> NULL", True),
    ("1 <=> NULL AND TRUE", False),
    ("'a' <=> lower('A')", True),
    ("DATE '2024-01-01' <=> DATE '2024-01-02' OR 1 + 1 <=> 2", True),
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    root = tmp_path_factory.mktemp("vectors") / "root"
    root.mkdir()
    found = open_engine(root)
    found.update(
        "CREATE TABLE t (id BIGINT, k BIGINT, fixed FLOAT[2], double DOUBLE[2], list FLOAT[]) PARTITIONED BY (k)"
    )
    found.update(
        "INSERT INTO t VALUES (1, 1, [0, 0], [0, 0], [3, 4]), (2, 1, [3, 4], [1, 1], [6, 8]), (3, 2, NULL, [2, 2], [0, 0]),"
        " (4, 2, [6, 8], NULL, [1, 2])"
    )
    return found


@pytest.mark.parametrize(("expression", "expected"), VALUES, ids=[expression for expression, _ in VALUES])
def test_values(engine: Engine, expression: str, expected: Any) -> None:
    found = engine.query(f"SELECT {expression} AS value")["value"][0].as_py()
    assert found == pytest.approx(expected, nan_ok=True) if isinstance(expected, float) else found == expected


def test_columns_of_every_kind_of_list(engine: Engine) -> None:
    sql = "SELECT fixed <-> double AS a, fixed <-> list AS b, list <#> fixed AS c, fixed <-> [3, 4] AS d FROM t ORDER BY id"
    assert engine.query(sql).to_pydict() == {
        "a": [0.0, pytest.approx(math.sqrt(13)), None, None],
        "b": [5.0, 5.0, None, pytest.approx(math.sqrt(61))],
        "c": [0.0, -50.0, None, -22.0],
        "d": [5.0, 0.0, None, 5.0],
    }


def test_two_calls_that_are_written_alike_may_be_of_different_types(engine: Engine) -> None:
    sql = (
        "SELECT e <-> [3, 4] AS d FROM (SELECT fixed AS e FROM t WHERE id = 1) UNION ALL"
        " SELECT e <-> [3, 4] FROM (SELECT list AS e FROM t WHERE id = 2)"
    )
    assert sorted(engine.query(sql)["d"].to_pylist()) == [5.0, 5.0]
    assert engine.query("SELECT (fixed <=> fixed) IS NULL AS a, k <=> k AS b FROM t WHERE id = 3").to_pylist() == [
        {"a": True, "b": True}
    ]


@given(st.data())
def test_any_vectors_of_any_lengths(data: st.DataObject) -> None:
    numbers = st.integers(-50, 50).map(lambda n: n / 8)
    lengths = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=6))
    one, other = (
        [data.draw(st.none() | st.lists(numbers | st.none(), min_size=n, max_size=n)) for n in lengths]
        for _ in range(2)
    )
    columns = pa.record_batch(
        {"a": pa.array(one, pa.list_(pa.float32())), "b": pa.array(other, pa.list_(pa.float64()))}
    )
    for name, value in [
        ("array_distance", lambda x, y: math.sqrt(((x - y) ** 2).sum())),
        ("inner_product", lambda x, y: x @ y),
    ]:
        expected = [
            None if x is None or y is None or None in x or None in y else value(np.array(x), np.array(y))
            for x, y in zip(one, other, strict=True)
        ]
        assert compute(f"{name}(a, b)", columns, pa.float64()).to_pylist() == pytest.approx(expected)


def test_more_rows_than_are_computed_at_once() -> None:
    count = 2 * ROWS_AT_ONCE + 3
    vectors = pa.array([[n, 0.0] if n % 7 else None for n in range(count)], pa.list_(pa.float32(), 2))
    found = DISTANCES["array_distance"].compute([vectors, pa.array([[0.0, 0.0]] * count)])
    assert found.to_pylist() == [float(n) if n % 7 else None for n in range(count)]


WRITTEN = {
    "a.e <-> $1": "array_distance(a.e , $1)",
    "x + y <-> z - 1 <= 2": "array_distance(x + y , z - 1) <= 2",
    "SELECT e <-> $1 d FROM t": "SELECT array_distance(e , $1) d FROM t",
    "SELECT e <-> $1 AS d": "SELECT array_distance(e , $1) AS d",
    "a = 1 AND e <#> '[1]' < 2": "a = 1 AND negative_inner_product(e , '[1]') < 2",
    "f(a <-> b, c<->d)": "f(array_distance(a , b), array_distance(c,d))",
    "ORDER BY e <-> ARRAY[1, 2] DESC": "ORDER BY array_distance(e , ARRAY[1, 2]) DESC",
    "CASE a WHEN 1 THEN b END <-> c": "array_distance(CASE a WHEN 1 THEN b END , c)",
    "e <-> x::DOUBLE PRECISION[] LIMIT 3": "array_distance(e , x::DOUBLE PRECISION[]) LIMIT 3",
    "e <-> -x": "array_distance(e , -x)",
    "'a <-> b', \"c <-> d\" -- <->": "'a <-> b', \"c <-> d\" -- <->",
    "a < - b, a <- b": "a < - b, a <- b",
    "3 - inner_product(a, b), -inner_product(a, b)": "3 - inner_product(a, b), negative_inner_product(a, b)",
}


@pytest.mark.parametrize(("written", "expected"), WRITTEN.items(), ids=WRITTEN)
def test_operators_are_written_as_calls(written: str, expected: str) -> None:
    assert edit_text(written, operator_edits(written, tokenize(written))) == expected


PARAMETERS = [
    ("SELECT id FROM t ORDER BY fixed <=> $1 LIMIT $2", [pa.list_(pa.float32(), 2), pa.int64()]),
    ("SELECT id FROM t WHERE array_distance($1, list) < $2", [pa.list_(pa.float32()), pa.float64()]),
    ("SELECT id FROM t WHERE id <=> ?", [pa.int64()]),
]


@pytest.mark.parametrize(("sql", "types"), PARAMETERS, ids=[sql for sql, _ in PARAMETERS])
def test_a_parameter_has_the_type_of_the_vectors_that_it_is_compared_with(
    engine: Engine, sql: str, types: list[pa.DataType]
) -> None:
    assert engine.describe(sql).parameters.types == types


def test_distances_stand_in_changes_and_conditions(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    engine = open_engine(root)
    engine.update("CREATE TABLE t (id BIGINT, e FLOAT[2], d DOUBLE) PARTITIONED BY (id)")
    engine.update("INSERT INTO t VALUES (1, [0, 0], [1] <-> [3]), (2, [3, 4], 0), (3, NULL, 0)")
    assert engine.update("UPDATE t SET d = e <-> [0, 0] WHERE e <-> [0, 0] > 1") == 1
    assert engine.update("DELETE FROM t WHERE (e <#> [1, 1]) IS NULL") == 1
    assert engine.query("SELECT id, d FROM t ORDER BY id").to_pylist() == [{"id": 1, "d": 2.0}, {"id": 2, "d": 5.0}]
    with pytest.raises((InvalidInput, LanceFlightError), match="has 2 numbers and argument 2 has 1"):
        engine.update("DELETE FROM t WHERE e <-> [0] > 1")
