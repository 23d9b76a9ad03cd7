"""`spark.readStream.format("lance_flight")`: the rows that a table gets, in batches, from one table into another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from tests.service.server_process import Server
from tests.spark.written_rows import check


class Copy:
    """A query that copies the rows of one table into another one."""

    def __init__(self, spark: SparkSession, server: Server, table: str, place: Path) -> None:
        self._spark, self._server, self._source, self._checkpoint = spark, server, table, place
        self.target = f"{table}_copy"
        server.run(f"CREATE TABLE {table} (id BIGINT, p BIGINT, label VARCHAR) PARTITIONED BY (p)")
        self.insert(1, 2, 3)

    def insert(self, *ids: int) -> None:
        """One snapshot more."""
        rows = ", ".join(f"({number}, {number % 3}, 'n{number}')" for number in ids)
        self._server.run(f"INSERT INTO {self._source} VALUES {rows}")

    def run(self, **options: str) -> list[int]:
        """Copy what there is; the rows of each batch."""
        reader = self._spark.readStream.format("lance_flight").options(root=str(self._server.root), table=self._source)
        writer = reader.options(**options).load().writeStream.format("lance_flight").trigger(availableNow=True)
        to = {"root": str(self._server.root), "table": self.target, "stream": "copy", "partition_by": "bucket(2, id)"}
        query = writer.options(checkpointLocation=str(self._checkpoint), **to).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    def forget(self) -> None:
        """What a driver leaves that dies after its last commit."""
        last = max(int(path.name) for path in (self._checkpoint / "commits").iterdir() if path.name.isdecimal())
        (self._checkpoint / "commits" / str(last)).unlink()
        (self._checkpoint / "commits" / f".{last}.crc").unlink()

    @property
    def ends(self) -> list[int]:
        """The snapshots that the batches ended with."""
        logs = sorted(
            (path for path in (self._checkpoint / "offsets").iterdir() if path.name.isdecimal()),
            key=lambda path: int(path.name),
        )
        return [json.loads(path.read_text().splitlines()[2])["version"] for path in logs]


@pytest.fixture
def copy(spark: SparkSession, server: Server, table: str, tmp_path: Path) -> Copy:
    return Copy(spark, server, table, tmp_path)


def test_every_row_is_copied_once_until_rows_change(copy: Copy, server: Server) -> None:
    options = {"versions_per_trigger": "1", "filter": "id <> 2", "columns": "label, id"}
    assert copy.run(**options) == [2]
    check(server, copy.target, [1, 3])
    copy.insert(4, 5)
    copy.insert(6)
    assert server.rows(f"ALTER TABLE {copy._source} COMPACT")
    copy.forget()
    assert copy.run(**options) == [2, 2, 1]
    check(server, copy.target, [1, 3, 4, 5, 6])
    assert copy.ends == list(range(copy.ends[0], copy.ends[0] + 4))
    assert server.rows(f"SELECT label FROM {copy.target} WHERE id > 4 ORDER BY id") == [("n5",), ("n6",)]
    server.run(f"UPDATE {copy._source} SET id = 10 WHERE id = 1")
    with pytest.raises(
        StreamingQueryException, match=r"QueryFailed: snapshot \d+ of .*: update 1 rows.*'changes' = 'new_rows'"
    ):
        copy.run(**options)
    check(server, copy.target, [1, 3, 4, 5, 6])


def test_options_of_a_stream_are_refused_where_there_is_none(spark: SparkSession, server: Server, copy: Copy) -> None:
    place = {"root": str(server.root), "table": copy._source}
    with pytest.raises(PySparkException, match=r"'starting' goes with \.readStream"):
        spark.read.format("lance_flight").options(**place, starting="latest").load().count()
