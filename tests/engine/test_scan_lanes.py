"""Into how many lanes a scan is dealt, which partitions it filters, and that its answer is the same whatever it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.sources import Source
from lance_flight.engine.engine import Engine

from tests.engine.database import open_engine

MONTHS, ROWS = 12, 10


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """`t`: ten rows in each month of 2024, one of them at its first moment, and one row without a month."""
    made = open_engine(tmp_path_factory.mktemp("root"))
    made.update("CREATE TABLE t (id BIGINT, part BIGINT, at TIMESTAMP) PARTITIONED BY (year(at), month(at))")
    rows = [
        f"({month * ROWS + row}, {row % 3}, TIMESTAMP '2024-{month + 1:02}-{1 + 2 * row:02}')"
        for month in range(MONTHS)
        for row in range(ROWS)
    ]
    made.update(f"INSERT INTO t VALUES {', '.join(rows)}")
    made.update("INSERT INTO t VALUES (1000, NULL, NULL)")
    made.update("CREATE INDEX by_id ON t (id) USING BTREE WITH (min_rows = 1)")
    made.update("CREATE INDEX by_part ON t (part) USING BITMAP WITH (min_rows = 1)")
    return made


def ask(engine: Engine, sql: str) -> pa.Table:
    (task,) = engine.execute(sql).tasks
    return engine.run(task).read_all()


@pytest.mark.parametrize(
    ("condition", "lanes"),
    [
        pytest.param("id = 7", 1, id="one value of a BTREE"),
        pytest.param("id = 7 AND part = 1", 1, id="and more"),
        pytest.param("id > 7", 2, id="a range of a BTREE"),
        pytest.param("id = 7 OR part = 1", 2, id="one value, or others"),
        pytest.param("part = 1", 2, id="a BITMAP"),
        pytest.param("id + 0 = 7", 2, id="no column"),
    ],
)
def test_a_lookup_is_one_lane(engine: Engine, condition: str, lanes: int) -> None:
    plans = "\n".join(ask(engine, f"EXPLAIN SELECT count(*), sum(part) FROM t WHERE {condition}")["plan"].to_pylist())
    assert re.findall(r"number_of_fragments=(\d+)", plans) == [str(lanes)]
    whole = ask(engine, "SELECT id, part FROM t")
    assert whole.num_rows == MONTHS * ROWS + 1
    matching = ask(engine, f"SELECT id FROM t WHERE {condition}")["id"].to_pylist()
    expected = ask(engine, f"SELECT id FROM t WHERE coalesce({condition}, FALSE)")["id"].to_pylist()
    assert sorted(matching) == sorted(expected)


@pytest.fixture
def filtered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """How many tables each scan read as one, and whether it filtered their rows."""
    seen: list[tuple[int, bool]] = []
    start = Scan._start

    def noting(self: Scan, source: Source) -> Iterator[pa.RecordBatch]:
        seen.append((len(source.tables) or 1, self.filter is not None))
        return start(self, source)

    monkeypatch.setattr(Scan, "_start", noting)
    return seen


@pytest.mark.parametrize(
    ("condition", "without", "within"),
    [
        pytest.param("at >= TIMESTAMP '2024-03-02'", 9, 1, id="from within a month"),
        pytest.param("at >= TIMESTAMP '2024-03-01' AND at < TIMESTAMP '2024-08-01'", 5, 0, id="whole months"),
        pytest.param("at >= TIMESTAMP '2024-03-02' AND at < TIMESTAMP '2024-04-03'", 0, 2, id="parts of two months"),
        pytest.param("(at < TIMESTAMP '2024-03-01' OR at IS NULL)", 3, 0, id="whole months and NULL"),
        pytest.param("at >= TIMESTAMP '2024-03-01' AND part = 1", 0, 10, id="and another column"),
    ],
)
def test_only_partitions_with_other_rows_are_filtered(
    engine: Engine, filtered: list[tuple[int, bool]], condition: str, without: int, within: int
) -> None:
    sql = f"SELECT id FROM t WHERE {condition}"
    for _ in range(2):
        filtered.clear()
        found = sorted(ask(engine, sql)["id"].to_pylist())
        assert sum(count for count, is_filtered in filtered if not is_filtered) == without
        assert sum(count for count, is_filtered in filtered if is_filtered) == within
    everything = ask(engine, f"SELECT id, coalesce({condition}, FALSE) AS counts FROM t")
    assert found == sorted(everything.filter(pc.field("counts"))["id"].to_pylist())


def test_a_scan_that_was_planned_before_sees_what_was_added(engine: Engine) -> None:
    sql = "SELECT count(*) AS n FROM t WHERE at >= TIMESTAMP '2024-03-02'"
    before = [ask(engine, sql)["n"][0].as_py() for _ in range(2)]
    engine.update("INSERT INTO t VALUES (2000, 1, TIMESTAMP '2024-06-05'), (2001, 1, TIMESTAMP '2024-03-01')")
    after = ask(engine, sql)["n"][0].as_py()
    assert (before[0], after) == (before[1], before[0] + 1)
