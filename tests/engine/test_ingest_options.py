"""Options of an ingest: what its rows replace, and ids under which rows are stored once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes.ingest_options import IngestOptions
from lance_flight.errors import AlreadyCommitted, InvalidInput, LanceFlightError, SchemaError

T = TableName("public", "t")
LAYOUTS = {"plain": "", "identity": "p", "bucket": "bucket(3, id)"}


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(Root(Store(str(tmp_path))), target_partitions=2)


def rows(*pairs: tuple[int, str]) -> pa.Table:
    return pa.table({"id": pa.array([n for n, _ in pairs], pa.int64()), "p": [p for _, p in pairs]})


OLD = rows((1, "a"), (2, "b"), (3, "b"))
NEW = rows((7, "b"), (8, "c"))


def ingest(
    engine: Engine, data: pa.Table | pa.RecordBatchReader, existing: IfExists = IfExists.APPEND, **options: str
) -> int:
    reader = data.to_reader(1) if isinstance(data, pa.Table) else data
    given = IngestOptions.of({name: text for name, text in options.items() if text})
    return engine.ingest(T, reader, create_missing=True, existing=existing, options=given)


def stored(engine: Engine) -> list[int]:
    return engine.query("SELECT id FROM t ORDER BY id").column(0).to_pylist()


def versions(engine: Engine) -> int:
    return engine.query('SELECT count(*) FROM "t$snapshots"').column(0)[0].as_py()


OVERWRITES = {
    "nothing": ("p", "nothing", [1, 2, 3, 7, 8]),
    "partitions": ("p", "partitions", [1, 7, 8]),
    "partitions-of-a-plain-table": ("", "partitions", [7, 8]),
    "table": ("p", "table", [7, 8]),
    "plain-table": ("", "table", [7, 8]),
    "buckets-of-a-table": ("bucket(3, id)", "table", [7, 8]),
}


@pytest.mark.parametrize(("layout", "overwrite", "expected"), OVERWRITES.values(), ids=OVERWRITES)
def test_rows_replace_what_they_are_said_to(
    engine: Engine, layout: str, overwrite: str, expected: Sequence[int]
) -> None:
    ingest(engine, OLD, partition_by=layout)
    assert ingest(engine, NEW, overwrite=overwrite, partition_by=layout) == 2
    assert stored(engine) == list(expected)


def test_an_overwrite_is_one_version_and_leaves_the_table_if_it_fails(engine: Engine) -> None:
    ingest(engine, OLD, partition_by="p")
    before = versions(engine)
    broken = pa.RecordBatchReader.from_batches(NEW.schema, _failing())
    with pytest.raises(OSError, match="broken"):
        ingest(engine, broken, overwrite="table")
    assert (stored(engine), versions(engine)) == ([1, 2, 3], before)
    ingest(engine, NEW, overwrite="table")
    assert versions(engine) == before + 1


def _failing() -> pa.RecordBatch:
    yield from NEW.to_batches()
    raise OSError("broken")


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("existing", [IfExists.APPEND, IfExists.FAIL, IfExists.REPLACE], ids=lambda each: each.value)
def test_rows_with_an_id_are_stored_once(engine: Engine, layout: str, existing: IfExists) -> None:
    assert ingest(engine, OLD, existing, partition_by=layout, commit_id="first") == 3
    with pytest.raises(AlreadyCommitted, match=r"commit_id 'first' was committed at .* with 3 rows"):
        ingest(engine, OLD, existing, partition_by=layout, commit_id="first")
    assert stored(engine) == [1, 2, 3]
    assert ingest(engine, NEW, partition_by=layout, commit_id="second") == 2
    with pytest.raises(AlreadyCommitted, match="second"):
        ingest(engine, NEW, overwrite="table", commit_id="second")
    assert stored(engine) == [1, 2, 3, 7, 8]


def test_no_rows_with_an_id_are_stored_once_too(engine: Engine) -> None:
    ingest(engine, OLD, partition_by="p")
    assert ingest(engine, OLD.slice(0, 0), commit_id="none") == 0
    with pytest.raises(AlreadyCommitted):
        ingest(engine, OLD, commit_id="none")


REFUSED: dict[str, tuple[dict[str, str], type[LanceFlightError], str]] = {
    "overwrite": ({"overwrite": "rows"}, InvalidInput, "overwrite is 'rows'; expected nothing, partitions, table"),
    "long-id": ({"commit_id": "x" * 201}, InvalidInput, "commit_id has 201 characters"),
    "unknown": (
        {"overwrit": "table"},
        InvalidInput,
        "expected partition_by, stable_row_ids, file_version, overwrite or",
    ),
    "columns": ({"overwrite": "table"}, SchemaError, "other"),
}


@pytest.mark.parametrize(("options", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_before_a_row_is_read(
    engine: Engine, options: dict[str, str], error: type[LanceFlightError], message: str
) -> None:
    ingest(engine, OLD, partition_by="p")
    with pytest.raises(error, match=message):
        ingest(engine, pa.table({"other": [1]}), **options)
    assert stored(engine) == [1, 2, 3]
