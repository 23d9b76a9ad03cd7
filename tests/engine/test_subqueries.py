"""A scalar subquery reads all of its table, whatever the query around it asks for."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.table_properties import TableProperties

ROWS = pa.table({"id": [1, 2, 3, 4, 5], "n": ["a", "b", "c", "z", None]})


@pytest.fixture(autouse=True)
def tables(engine: Engine) -> None:
    ingest.create(engine.root, TableName("public", "t"), ROWS.schema, TableProperties.by("n"), [ROWS])


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id, (SELECT min(id) FROM t) m FROM t WHERE n LIKE 'z%'", [{"id": 4, "m": 1}]),
        ("SELECT id, (SELECT count(*) FROM t) m FROM t WHERE n IS NOT DISTINCT FROM 'a'", [{"id": 1, "m": 5}]),
        ("SELECT id FROM t WHERE n LIKE 'z%' AND id > (SELECT avg(id) FROM t)", [{"id": 4}]),
    ],
)
def test_a_filter_outside_does_not_prune_the_table_inside(engine: Engine, sql: str, expected: list[object]) -> None:
    assert engine.query(sql).to_pylist() == expected


def test_a_query_with_a_subquery_is_not_split_into_endpoints(engine: Engine) -> None:
    plan = engine.plan("SELECT id FROM t WHERE id = (SELECT max(id) FROM t)", endpoints=4)
    assert plan is not None
    assert [row for task in plan.tasks for row in engine.run(task).read_all()["id"].to_pylist()] == [5]
