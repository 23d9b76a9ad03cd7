"""What DataFusion decides only when it optimises a plan: what it refuses then is an error of the statement."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.table_properties import PLAIN, TableProperties
from lance_flight.errors import SqlError

ROWS = pa.table({"id": [1, 2], "at": pa.array([1, 2], pa.time64("us"))})


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A partitioned table `t` and a plain one `p` of the same rows."""
    engine = Engine(Root(Store(str(tmp_path_factory.mktemp("root")))), target_partitions=2)
    ingest.create(engine.root, TableName("public", "t"), ROWS.schema, TableProperties.by("id"), [ROWS])
    ingest.create(engine.root, TableName("public", "p"), ROWS.schema, PLAIN, [ROWS])
    return engine


REFUSED = [
    pytest.param("SELECT id FROM {t} WHERE at < TIME '00:00:01'", id="in the filter"),
    pytest.param("SELECT id FROM {t} WHERE id = (SELECT max(id) FROM {t} WHERE at < TIME '00:00:01')", id="below it"),
    pytest.param("EXPLAIN SELECT id FROM {t} WHERE at < TIME '00:00:01'", id="explained"),
]


@pytest.mark.parametrize("table", ["t", "p"])
@pytest.mark.parametrize("sql", REFUSED)
def test_types_that_do_not_compare_are_an_error_of_the_statement(engine: Engine, sql: str, table: str) -> None:
    with pytest.raises(SqlError, match="Time64"):
        engine.query(sql.format(t=table))


@pytest.mark.parametrize("sql", REFUSED)
def test_they_are_before_the_statement_is_split(engine: Engine, sql: str) -> None:
    with pytest.raises(SqlError, match="Time64"):
        engine.plan(sql.format(t="t"), endpoints=4)
