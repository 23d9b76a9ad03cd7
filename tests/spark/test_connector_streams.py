"""Streams of the connector's tables: what is added to one of them is there once in another one, whatever is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest
from lance_flight.catalog.commits.once import last_batches
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.service.server_process import Server
from tests.spark.connector_results import IN_SPARK
from tests.spark.written_rows import check


class Copy:
    """A query that copies the rows of one table of a catalog into another one."""

    def __init__(self, spark: SparkSession, server: Server, table: str, place: Path, catalog: str) -> None:
        self._spark, self._server, self._source, self.catalog = spark, server, table, catalog
        self.target, self.checkpoint = f"{table}_copy", place / "checkpoint"
        for name, fields in ((table, "p"), (self.target, "bucket(2, id)")):
            server.run(f"CREATE TABLE {name} (id BIGINT, p BIGINT, label VARCHAR) PARTITIONED BY ({fields})")
        self.insert(1, 2, 3)

    def insert(self, *ids: int) -> None:
        """One snapshot more."""
        rows = ", ".join(f"({number}, {number % 3}, 'n{number}')" for number in ids)
        self._server.run(f"INSERT INTO {self._source} VALUES {rows}")

    def rows(self, of: str = "", **options: str) -> DataFrame:
        return self._spark.readStream.options(**options).table(f"{self.catalog}.{self._source}{of}")

    def run(self, rows: DataFrame | None = None, mode: str = "append", **options: str) -> list[int]:
        """Write what there is; return the rows of each batch."""
        writer = (self.rows() if rows is None else rows).writeStream.outputMode(mode).trigger(availableNow=True)
        to = {"checkpointLocation": str(self.checkpoint)} | options
        return self._run(writer.options(**to).toTable(f"{self.catalog}.{self.target}"))

    def run_formats(self, **options: str) -> list[int]:
        """The same by the format, without a catalog."""
        place = {"root": str(self._server.root)}
        rows = self._spark.readStream.format("lance_flight").options(**place, table=self._source, **options).load()
        to = {**place, "table": f"{self.target}_2", "stream": "copy", "partition_by": "bucket(2, id)"}
        writer = rows.writeStream.format("lance_flight").trigger(availableNow=True)
        return self._run(writer.options(checkpointLocation=f"{self.checkpoint}-2", **to).start())

    def _run(self, query: StreamingQuery) -> list[int]:
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    def forget(self, batch: int) -> None:
        """What a driver leaves that dies after a commit: Spark does not know that the batch is done."""
        (self.checkpoint / "commits" / str(batch)).unlink()
        (self.checkpoint / "commits" / f".{batch}.crc").unlink()

    @property
    def batches(self) -> list[tuple[int, int]]:
        """The last batch of each stream that the target knows, with its rows."""
        snapshot = Root(Store(str(self._server.root))).table(TableName("public", self.target)).snapshot()
        return [(each.batch, each.rows) for each in last_batches(snapshot)]


@pytest.fixture
def copy(sql: SparkSession, server: Server, table: str, tmp_path: Path, request: pytest.FixtureRequest) -> Copy:
    return Copy(sql, server, table, tmp_path, getattr(request, "param", "lake"))


@pytest.mark.parametrize("copy", IN_SPARK, indirect=True)
def test_rows_that_are_added_are_copied_once_and_a_batch_that_spark_repeats_counts_once(
    copy: Copy, server: Server, tmp_path: Path
) -> None:
    assert copy.run() == [3]
    check(server, copy.target, [1, 2, 3])
    changes = copy.rows(".changes").selectExpr("_commit_version AS id", "p", "_change_type AS label")
    copy.run(changes, checkpointLocation=str(tmp_path / "changes"))
    assert server.value(f"SELECT count(*) FROM {copy.target} WHERE label = 'insert'") == 3
    server.run(f"DELETE FROM {copy.target} WHERE label = 'insert'")
    copy.insert(4, 5)
    copy.insert(6)
    assert copy.run(copy.rows(versions_per_trigger="1")) == [2, 1]
    check(server, copy.target, [1, 2, 3, 4, 5, 6])
    copy.forget(2)
    assert copy.run(copy.rows(versions_per_trigger="1")) == [1]
    check(server, copy.target, [1, 2, 3, 4, 5, 6])
    assert copy.batches[-1] == (2, 1)
    copy.run(checkpointLocation=str(tmp_path / "named"), stream="named")
    check(server, copy.target, [*range(1, 7), *range(1, 7)])
    with pytest.raises(StreamingQueryException, match=r"stream 'named' is that of query .*another name"):
        copy.run(checkpointLocation=str(tmp_path / "lost"), stream="named")


def test_a_query_of_a_stream_is_written(copy: Copy, server: Server, sql: SparkSession, tmp_path: Path) -> None:
    counted = copy.rows().filter("id > 1").groupBy("p").count().selectExpr("count AS id", "p", "'counted' AS label")
    copy.run(counted, mode="complete")
    check(server, copy.target, [1, 1])
    copy.insert(5, 8)
    copy.run(counted, mode="complete")
    check(server, copy.target, [1, 3])
    query = copy.rows().writeStream.partitionBy("p").option("checkpointLocation", str(tmp_path / "new"))
    with pytest.raises(PySparkException, match=r'expected USING lance_flight, or \.format\("lance_flight"\)'):
        query.toTable(f"lake.{copy.target}_new")
    query.format("lance_flight").trigger(availableNow=True).toTable(f"lake.{copy.target}_new").awaitTermination()
    check(server, f"{copy.target}_new", [1, 2, 3, 5, 8])
    assert sql.table(f"lake.{copy.target}_new.specs").filter("is_current AND position >= 0").count() == 1


@pytest.mark.parametrize("copy", IN_SPARK, indirect=True)
def test_deltas_option_reads_the_changes_from_a_version_on_in_batches_and_streams(
    copy: Copy, server: Server, sql: SparkSession, tmp_path: Path
) -> None:
    source = copy.target.removesuffix("_copy")
    first = int(server.value(f'SELECT max(version) FROM "{source}$snapshots"')) + 1
    copy.insert(4)
    server.run(f"DELETE FROM {source} WHERE id = 1")
    copy.insert(7)
    changes = [(1, "delete"), (4, "insert"), (7, "insert")]

    def streamed(place: str, **bounds: str) -> list[tuple[int, str]]:
        feed = copy.rows(readChangeFeed="true", **bounds).selectExpr("id", "p", "_change_type AS label")
        copy.run(feed, checkpointLocation=str(tmp_path / place))
        found = server.rows(f"SELECT id, label FROM {copy.target} ORDER BY id, label")
        server.run(f"DELETE FROM {copy.target}")
        return found

    assert streamed("from", startingVersion=str(first), versions_per_trigger="1") == changes
    assert streamed("whole") == [(2, "insert"), (3, "insert"), (4, "insert"), (7, "insert")]
    assert streamed("latest", startingVersion="latest") == []
    with pytest.raises(Exception, match=r"endingversion=9.*does not end"):
        copy.rows(readChangeFeed="true", startingVersion="1", endingVersion="9")

    def batch(**options: object) -> list[tuple[int, str]]:
        found = sql.read.options(**options).table(f"{copy.catalog}.{source}")  # type: ignore[arg-type]
        return [tuple(row) for row in found.select("id", "_change_type").orderBy("id").collect()]  # type: ignore[misc]

    assert batch(readChangeFeed="true", startingVersion=first) == changes
    assert batch(readChangeFeed="true", startingVersion=first, endingVersion=first + 1) == changes[:2]
    (moment,) = server.rows(f'SELECT committed_at FROM "{source}$snapshots" WHERE version = {first}')[0]
    assert batch(readChangeData="true", startingTimestamp=moment.isoformat(), endingVersion=first) == changes[1:2]
    for wrong in ({}, {"startingVersion": "x"}, {"startingVersion": 1, "startingTimestamp": "2026-01-01"}):
        with pytest.raises(Exception, match=r"readChangeFeed with .*: expected"):
            batch(readChangeFeed="true", **wrong)


def test_the_format_copies_every_row_once(copy: Copy, server: Server, spark: SparkSession) -> None:
    """What ends such a stream, and how it goes on, is in `test_stream_planning`."""
    target, source = f"{copy.target}_2", copy.target.removesuffix("_copy")
    copy.insert(4, 5)
    copy.insert(6)
    options = {"starting": "earliest", "versions_per_trigger": "2", "filter": "id <> 2", "columns": "label, id"}
    assert sum(copy.run_formats(**options)) == 5
    check(server, target, [1, 3, 4, 5, 6])
    assert server.rows(f"SELECT label FROM {target} WHERE id > 4 ORDER BY id") == [("n5",), ("n6",)]
    with pytest.raises(PySparkException, match=r"'starting' goes with \.readStream"):
        spark.read.format("lance_flight").options(root=str(server.root), table=source, starting="latest").load().count()
