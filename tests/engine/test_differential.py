"""Whatever the partitioning, a query over partitions answers what it answers over the same rows in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.ingest import TableProperties

from tests.engine.random_conditions import (
    CONDITIONS,
    FIELDS,
    SCHEMA,
    VALUES,
    conditions,
    in_memory,
    rows,
)
from tests.examples import examples

pytestmark = pytest.mark.slow  # a long property

specs = st.lists(st.sampled_from(FIELDS), min_size=1, max_size=3, unique=True)


def partitioned(root: Path, table: pa.Table, spec: list[str]) -> Engine:
    engine = Engine(Root(Store(str(root))), target_partitions=2)
    fields = TableProperties.by(", ".join(spec))
    ingest.create(engine.root, TableName("public", "t"), SCHEMA, fields, [table])
    return engine


@given(rows, specs, st.lists(conditions, min_size=1, max_size=4))
@examples(15)
def test_partitions_never_change_an_answer(data: list[dict[str, object]], spec: list[str], wheres: list[str]) -> None:
    table = pa.Table.from_pylist([{"n": n, **row} for n, row in enumerate(data)], schema=SCHEMA)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        engine = partitioned(Path(root), table, spec)
        for where in wheres:
            found = engine.query(f"SELECT n FROM t WHERE {where} ORDER BY n")["n"].to_pylist()
            assert found == in_memory(table, where), (spec, where)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    table = every_value()
    return partitioned(tmp_path_factory.mktemp("root"), table, ["bucket(3, n)", "s"])


def every_value() -> pa.Table:
    """Each value of each column once beside NULLs, and a row of NULLs."""
    data = [{"n": 0}]
    for name, values in VALUES.items():
        data += [{"n": len(data) + at, name: value} for at, value in enumerate(values)]
    return pa.Table.from_pylist(data, schema=SCHEMA)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_keeps_the_rows_that_it_keeps_in_memory(engine: Engine, condition: str) -> None:
    found = engine.query(f"SELECT n FROM t WHERE {condition} ORDER BY n")["n"].to_pylist()
    assert found == in_memory(every_value(), condition)


FLOATS = [
    *(f"f {op} {value}" for op in ("=", "<>", "<", "<=", ">", ">=") for value in ("0.0", "-0.0", "1.5", "'NaN'")),
    *("f IN (0.0, 7)", "f NOT IN (-0.0, 7)", "f IN ('NaN', 7, 8, 9)", "f NOT IN ('NaN', 7, 8, 9)"),
    *("f BETWEEN 0 AND 2", "f NOT BETWEEN 0 AND 2", "NOT (f > 1)", "f > 1 OR f < 0"),
]


BESIDE = pytest.mark.parametrize(
    "beside", ["n >= 0", "(tn IS NULL OR tn < '2199-01-01')"], ids=["by Lance", "by Arrow"]
)


@BESIDE
@pytest.mark.parametrize("condition", FLOATS)
def test_floats_compare_alike_whoever_filters(engine: Engine, condition: str, beside: str) -> None:
    where = f"({condition}) AND {beside}"
    found = engine.query(f"SELECT n FROM t WHERE {where} ORDER BY n")["n"].to_pylist()
    assert found == in_memory(every_value(), where)


@BESIDE
@pytest.mark.parametrize("zero", ["0.0", "-0.0"])
def test_a_long_list_with_a_zero_has_both(engine: Engine, zero: str, beside: str) -> None:
    # DataFusion itself finds both with `=` and in a short list, and the same one only in a list of more than three.
    for negation in ("", "NOT "):
        found, expected = (
            engine.query(f"SELECT n FROM t WHERE f {negation}IN ({values}) AND {beside} ORDER BY n")["n"].to_pylist()
            for values in (f"{zero}, 7, 8, 9", f"{zero}, 7")
        )
        assert found == expected != []
