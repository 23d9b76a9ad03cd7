"""Two that create one table at the same moment: one of them is first, and the other finds a table there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots import directory
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.storage.staging_area import StagingArea, private_place
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes.ingest import IngestOptions, TableProperties
from lance_flight.errors import SchemaError

from tests.engine.database import open_engine

T = TableName("public", "t")
LAYOUTS = pytest.mark.parametrize(
    "layouts", [("", ""), ("id", "id"), ("", "bucket(3, id)")], ids=["plain", "partitioned", "one of each"]
)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Operations in it wait for a second one when they have looked, and found no table."""
    both = threading.Barrier(2, timeout=60)

    @contextmanager
    def waiting(root: Store) -> Iterator[StagingArea]:
        both.wait()
        with private_place(root) as place:
            yield place

    monkeypatch.setattr(directory, "private_place", waiting)
    return open_engine(tmp_path)


def at_once(*tasks: Callable[[], int]) -> list[Any]:
    """What each of the tasks returns or raises; they run at the same time."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        running = [pool.submit(task) for task in tasks]
        return [task.result() if task.exception() is None else task.exception() for task in running]


def ingest(engine: Engine, data: pa.Table, layout: str, existing: IfExists) -> Callable[[], int]:
    by = IngestOptions(properties=TableProperties.by(layout))
    return lambda: engine.ingest(T, data.to_reader(1), create_missing=True, existing=existing, options=by)


def ids(engine: Engine) -> list[object]:
    return sorted(engine.query("SELECT id FROM t")["id"].to_pylist())


def left(engine: Engine) -> list[Path]:
    return list((Path(engine.root.store.uri) / ".lance-flight").iterdir())


@LAYOUTS
@pytest.mark.parametrize("query", ["(id INT){by}", "{by} AS SELECT 7 AS id"])
def test_create_if_not_exists_succeeds_for_both(engine: Engine, layouts: tuple[str, str], query: str) -> None:
    clauses = [f" PARTITIONED BY ({layout})" if layout else "" for layout in layouts]
    tasks = [partial(engine.update, "CREATE TABLE IF NOT EXISTS t " + query.format(by=clause)) for clause in clauses]
    assert sorted(map(str, at_once(*tasks))) in (["0", "0"], ["0", "1"])
    assert ids(engine) in ([], [7])
    assert (engine.root.tables(), left(engine)) == ([T], [])


@LAYOUTS
def test_create_without_it_succeeds_for_one(engine: Engine, layouts: tuple[str, str]) -> None:
    clauses = [f" PARTITIONED BY ({layout})" if layout else "" for layout in layouts]
    tasks = [partial(engine.update, f"CREATE TABLE t (id INT){clause}") for clause in clauses]
    assert sorted(type(outcome).__name__ for outcome in at_once(*tasks)) == ["AlreadyExists", "int"]


@LAYOUTS
@pytest.mark.parametrize("existing", [IfExists.APPEND, IfExists.REPLACE])
def test_of_two_ingests_that_append_both_stay_and_of_two_that_replace_the_later_one(
    engine: Engine, layouts: tuple[str, str], existing: IfExists
) -> None:
    data = [pa.table({"id": range(start, start + 50), "n": ["x"] * 50}) for start in (0, 50)]
    tasks = [ingest(engine, rows, by, existing) for rows, by in zip(data, layouts, strict=True)]
    assert at_once(*tasks) == [50, 50]
    expected = [range(100)] if existing is IfExists.APPEND else [range(50), range(50, 100)]
    assert ids(engine) in map(list, expected)
    assert (engine.root.tables(), left(engine)) == ([T], [])


@LAYOUTS
def test_rows_that_do_not_fit_the_table_that_came_first_are_refused(engine: Engine, layouts: tuple[str, str]) -> None:
    data = [pa.table({"id": [1, 2]}), pa.table({"id": ["a", "b"]})]
    tasks = [ingest(engine, rows, by, IfExists.APPEND) for rows, by in zip(data, layouts, strict=True)]
    outcomes = at_once(*tasks)
    (refused,) = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert isinstance(refused, SchemaError)
    assert "'t'" in str(refused)
    assert ids(engine) == data[outcomes.index(2)]["id"].to_pylist()
    assert left(engine) == []


@LAYOUTS
def test_of_two_ingests_that_only_create_one_fails(engine: Engine, layouts: tuple[str, str]) -> None:
    data = [pa.table({"id": [n]}) for n in (1, 2)]
    outcomes = at_once(*(ingest(engine, rows, by, IfExists.FAIL) for rows, by in zip(data, layouts, strict=True)))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AlreadyExists", "int"]
    assert ids(engine) == [outcomes.index(1) + 1]
