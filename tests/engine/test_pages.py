"""The pages that a write leaves: one for each column of a partition's new file, however small the batches come."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from lance_flight.backend_values import IfExists
from lance_flight.catalog.commits import writer
from lance_flight.catalog.commits.writer import WriteMemory
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes.ingest import IngestOptions, TableProperties
from lance_flight.errors import DataError

from tests.engine.database import open_engine
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # every write with every kind of row ids

ROWS, BATCH_ROWS, CHUNK_ROWS = 60_000, 1_000, 7_000
NAME = TableName("public", "t")


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteMemory]:
    """The budget of the writers, and chunks that are much smaller than a partition."""
    budget = WriteMemory()
    monkeypatch.setattr(writer, "write_memory", budget)
    monkeypatch.setattr(writer, "CHUNK_ROWS", CHUNK_ROWS)
    # Lance would make one page of several small pieces.
    monkeypatch.setattr(writer, "CACHED_BYTES", 1)
    yield budget
    assert budget.taken == 0


def rows(first: int = 0) -> pa.Table:
    """Rows of three partitions, no two of them in order."""
    ids = np.arange(first, first + ROWS)
    columns = {"id": ids, "p": ids % 3, "x": ids * 0.5, "s": [f"row {number}" for number in ids]}
    return pa.Table.from_batches(pa.table(columns).to_batches(BATCH_ROWS))


def ingest(engine: Engine, table: pa.Table, *, stable_row_ids: bool = False) -> None:
    properties = TableProperties.by("p").with_options({"stable_row_ids": stable_row_ids})
    engine.ingest(
        NAME,
        table.to_reader(),
        create_missing=True,
        existing=IfExists.APPEND,
        options=IngestOptions(properties=properties),
    )


def pages(root: Path) -> dict[str, tuple[int, ...]]:
    """How many pages each column of every data file at a pin has."""
    return {
        file.path: tuple(len(column.pages) for column in reader(stored.dataset.uri, file.path).metadata().columns)
        for stored in stored_tables(root / "t")
        for fragment in stored.dataset.get_fragments()
        for file in fragment.metadata.files
    }


def reader(place: str, name: str) -> LanceFileReader:
    return LanceFileReader(f"{place}/data/{name}")


WRITES = [
    pytest.param("INSERT INTO t SELECT id + 100000, p, x, s FROM t", id="insert"),
    pytest.param("UPDATE t SET x = x + 1", id="update"),
    pytest.param("UPDATE t SET p = p + 3", id="update that moves"),
    pytest.param(
        "MERGE INTO t USING (SELECT id + 30000 AS id, p, x, s FROM t) n ON t.id = n.id"
        " WHEN MATCHED THEN UPDATE SET x = n.x WHEN NOT MATCHED THEN INSERT (id, p, x, s) VALUES (n.id, n.p, n.x, n.s)",
        id="merge",
    ),
    pytest.param("INSERT OVERWRITE t SELECT id, p, x + 1, s FROM t", id="overwrite"),
    pytest.param("ALTER TABLE t SET PARTITIONED BY (bucket(2, id)); ALTER TABLE t REWRITE PARTITIONS", id="rewrite"),
    pytest.param("INSERT INTO t SELECT id + 100000, p, x, s FROM t; ALTER TABLE t COMPACT", id="compact"),
]


@pytest.mark.parametrize("stable_row_ids", [pytest.param(False, id="addresses"), pytest.param(True, id="stable ids")])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_leaves_one_page_for_each_column(
    tmp_path: Path, memory: WriteMemory, write: str, *, stable_row_ids: bool
) -> None:
    engine = open_engine(tmp_path)
    ingest(engine, rows(), stable_row_ids=stable_row_ids)
    loaded = pages(tmp_path)
    assert list(loaded.values()) == 3 * [(1, 1, 1, 1)]
    for statement in write.split("; "):
        engine.query(statement) if engine.describe(statement).schema else engine.update(statement)
    written = {name: found for name, found in pages(tmp_path).items() if name not in loaded}
    assert set(written.values()) == {(1, 1, 1, 1)}


BUDGETS = [
    pytest.param(WriteMemory(total=0, least=0), 9, id="none"),
    pytest.param(WriteMemory(total=1 << 20, least=0), 2, id="a part of the rows"),
    pytest.param(WriteMemory(per_write=1 << 20), 2, id="a part of the rows for each write"),
    pytest.param(WriteMemory(total=0), 1, id="what each write may have"),
    pytest.param(WriteMemory(), 1, id="more than the rows"),
]


@pytest.mark.parametrize(("budget", "each"), BUDGETS)
def test_no_more_is_held_than_the_budget(
    tmp_path: Path, memory: WriteMemory, monkeypatch: pytest.MonkeyPatch, budget: WriteMemory, each: int
) -> None:
    most: list[int] = []
    table = rows()

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.to_batches():
            most.append(budget.taken)
            yield batch

    monkeypatch.setattr(writer, "write_memory", budget)
    engine = open_engine(tmp_path)
    reader = pa.RecordBatchReader.from_batches(table.schema, batches())
    engine.ingest(
        NAME,
        reader,
        create_missing=True,
        existing=IfExists.APPEND,
        options=IngestOptions(properties=TableProperties.by("p")),
    )
    assert max(most) <= (budget.per_write or max(budget.total, budget.least))
    assert budget.taken == 0
    assert list(pages(tmp_path).values()) == 3 * [(each, each, each, each)]
    assert engine.query("SELECT * FROM t ORDER BY id") == table.combine_chunks()


def test_a_partition_with_many_rows_is_written_while_more_come(
    tmp_path: Path, memory: WriteMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PIECE_ROWS", ROWS // 6)
    engine = open_engine(tmp_path)
    ingest(engine, rows())
    assert set(pages(tmp_path).values()) == {(2, 2, 2, 2)}
    assert engine.query("SELECT * FROM t ORDER BY id") == rows().combine_chunks()


def test_what_a_failed_write_held_is_free_again(tmp_path: Path, memory: WriteMemory) -> None:
    engine = open_engine(tmp_path)
    ingest(engine, rows())
    taken: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows(ROWS).to_batches()
        taken.append(memory.taken)
        raise DataError("no more")

    stream = pa.RecordBatchReader.from_batches(rows().schema, batches())
    with pytest.raises(DataError, match="no more"):
        engine.ingest(NAME, stream, create_missing=False, existing=IfExists.APPEND)
    assert taken[0] > memory.taken == 0
    assert engine.query("SELECT count(*) AS n FROM t").to_pylist() == [{"n": ROWS}]
