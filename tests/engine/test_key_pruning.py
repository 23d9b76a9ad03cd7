"""The keys of one side of a join prune the other side only if they are all of them."""

from __future__ import annotations

import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.query import few_keys

from tests.engine.database import open_engine

MOST = 3
JOIN = "SELECT DISTINCT t.k FROM t JOIN d ON t.k = d.k WHERE d.label = '{}' ORDER BY t.k"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A table of 40 partitions, and labels of few keys and of too many, each with NULL among them."""
    engine = open_engine(tmp_path_factory.mktemp("keys"))
    engine.update("CREATE TABLE t (k BIGINT) PARTITIONED BY (k)")
    engine.update("INSERT INTO t SELECT v % 40 FROM (SELECT unnest(range(0, 400)) AS v) AS n")
    engine.update("CREATE TABLE d (k BIGINT, label VARCHAR)")
    rows = [f"({key}, '{name} {first}')" for first in range(10) for name, key in labelled(first)]
    engine.update(f"INSERT INTO d VALUES {', '.join(rows)}")
    return engine


def labelled(first: int) -> list[tuple[str, str]]:
    few = [("few", str(first + number)) for number in range(MOST - 1)]
    many = [("many", str(first + 3 * number)) for number in range(MOST + 1)]
    return [*few, ("few", "NULL"), ("many", "NULL"), *many]


@pytest.mark.parametrize("first", range(10))
@pytest.mark.parametrize(("name", "count"), [("few", MOST - 1), ("many", MOST + 1)])
def test_keys_that_a_limit_cuts_off_prune_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, count: int, first: int
) -> None:
    monkeypatch.setattr(few_keys, "MOST_KEYS", MOST)
    sql = JOIN.format(f"{name} {first}")
    assert engine.query(sql).num_rows == count
    plan = engine.query(f"EXPLAIN ANALYZE {sql}").to_pylist()
    (said,) = [row["plan"] for row in plan if row["plan_type"] == "dynamic pruning"]
    assert said.endswith("there are more than 10000" if name == "many" else "2 of 40 partitions are left")
