"""A table that goes away under its readers: they are told so, and nothing of where it lay."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.planned_query import Task
from lance_flight.engine.writes.ingest import TableProperties, create
from lance_flight.errors import Conflict, Corrupt, LanceFlightError

from tests.engine.database import open_engine

pytestmark = pytest.mark.slow  # every query over every layout

T = TableName("public", "t")
LAYOUTS = pytest.mark.parametrize("layout", ["", "id", "bucket(2, id)"], ids=["plain", "by value", "by bucket"])
QUERIES = pytest.mark.parametrize(
    "sql",
    [
        pytest.param("SELECT id FROM t", id="straight from Lance"),
        pytest.param("SELECT id FROM t WHERE id > 1", id="filtered"),
        pytest.param("SELECT sum(id) AS id FROM t", id="aggregated"),
        pytest.param("SELECT a.id FROM t a JOIN t b ON a.id = b.id ORDER BY 1", id="joined"),
    ],
)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return open_engine(tmp_path, target_partitions=1)


def put(engine: Engine, layout: str, rows: int = 4) -> None:
    data = pa.table({"id": range(rows)})
    by = TableProperties.by(layout)
    create(engine.root, T, data.schema, by, [data], existing=IfExists.REPLACE)


def refused(reader: pa.RecordBatchReader) -> LanceFlightError:
    with pytest.raises(LanceFlightError) as raised:
        reader.read_all()
    return raised.value


@LAYOUTS
@QUERIES
@pytest.mark.parametrize("again", [False, True], ids=["dropped", "replaced"])
def test_a_reader_is_told_that_its_table_went_away(engine: Engine, layout: str, sql: str, again: bool) -> None:  # noqa: FBT001
    put(engine, layout)
    begun = engine.run(Task(sql=sql))
    if again:
        put(engine, layout)
    else:
        engine.update("DROP TABLE t")
    error = refused(begun)
    assert isinstance(error, Conflict)
    assert str(error) == "table 't' was dropped or replaced while it was read"


def test_a_reader_in_the_middle_is_told_too(engine: Engine) -> None:
    put(engine, "id", 300)
    begun = engine.run(Task(sql="SELECT id FROM t"))
    assert begun.read_next_batch().num_rows > 0
    engine.update("DROP TABLE t")
    assert isinstance(refused(begun), Conflict)


@LAYOUTS
@QUERIES
def test_data_that_is_gone_from_a_table_that_is_there_is_named(
    tmp_path: Path, engine: Engine, layout: str, sql: str
) -> None:
    put(engine, layout)
    for file in tmp_path.glob("t*/**/data/*.lance"):
        if "__manifest" not in file.parts:
            file.unlink()
    error = refused(engine.run(Task(sql=sql)))
    assert isinstance(error, Corrupt)
    assert str(error).startswith("reading 't' failed: LanceError(IO): Generic N/A error: Not found: ")
    assert str(tmp_path).lstrip("/") not in str(error)
