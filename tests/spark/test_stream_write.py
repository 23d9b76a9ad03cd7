"""`df.writeStream.format("lance_flight")`: the rows of each batch are there once, whatever was repeated."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.catalog.commits.once import last_batches
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.selection import IS_FULL
from tests.service.server_process import Server
from tests.spark.faulty import FORMAT
from tests.spark.written_rows import check

Change = Callable[[DataFrame], DataFrame]


class Stream:
    """Files of ids that come one after another, and a query that writes them; each file is a batch."""

    def __init__(self, spark: SparkSession, root: Path, table: str, place: Path) -> None:
        self.spark, self.root, self.table = spark, root, table
        self.checkpoint, self._files = place / "checkpoint", place / "files"
        self._files.mkdir()

    def arrive(self, ids: Sequence[int]) -> None:
        """Let rows arrive."""
        number = len(list(self._files.iterdir()))
        file = self._files / f"{number:03}.json"
        file.write_text("\n".join(json.dumps({"id": each, "p": each % 3}) for each in ids))
        # Spark takes the oldest first.
        os.utime(file, (number, number))

    def run(self, change: Change = lambda frame: frame, mode: str = "append", **options: str) -> None:
        """Write what has arrived, to its end."""
        rows = (
            self.spark.readStream.schema("id BIGINT, p BIGINT").option("maxFilesPerTrigger", 1).json(str(self._files))
        )
        given = {"root": str(self.root), "table": self.table, "stream": "numbers", "partition_by": "p"} | options
        writer = change(rows).writeStream.format(FORMAT).outputMode(mode).trigger(availableNow=True)
        query = writer.options(**{"checkpointLocation": str(self.checkpoint)} | given).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def forget(self, batch: int) -> None:
        """What a driver leaves that dies after a commit: Spark does not know that the batch is done."""
        (self.checkpoint / "commits" / str(batch)).unlink()
        (self.checkpoint / "commits" / f".{batch}.crc").unlink()

    @property
    def namespace(self) -> PartitionedNamespace:
        table = Root(Store(str(self.root))).table(TableName("public", self.table))
        assert isinstance(table, PartitionedNamespace)
        return table

    @property
    def batches(self) -> list[tuple[str, int, int]]:
        """The last batches that the table knows, with their rows."""
        return [(each.stream, each.batch, each.rows) for each in last_batches(self.namespace.snapshot())]


@pytest.fixture
def stream(faulty: SparkSession, server: Server, table: str, tmp_path: Path) -> Stream:
    return Stream(faulty, server.root, table, tmp_path)


def test_each_batch_is_one_commit_and_one_that_spark_repeats_counts_once(stream: Stream, server: Server) -> None:
    for ids in ([1, 2, 3], [4]):
        stream.arrive(ids)
    stream.run()
    check(server, stream.table, [1, 2, 3, 4])
    done = stream.namespace.log.operations().values()
    assert [text for text in done if text.startswith("append")] == [
        "append 1 rows into 1 partitions",
        "append 3 rows into 3 partitions",
    ]
    # Before the driver knew of the last batch it was killed; so nothing is written twice, and the stream goes on.
    files = set(stream.root.joinpath(stream.table).rglob("*.lance"))
    stream.forget(1)
    stream.run()
    assert set(stream.root.joinpath(stream.table).rglob("*.lance")) == files
    stream.arrive([5])
    stream.run()
    check(server, stream.table, [1, 2, 3, 4, 5])
    assert stream.batches == [("numbers", 2, 1)]
    with pytest.raises(StreamingQueryException, match=r"stream 'numbers' is that of query .*another name"):
        stream.run(checkpointLocation=str(stream.checkpoint / "new"))
    check(server, stream.table, [1, 2, 3, 4, 5])


FAULTS = [
    ("committed", True),
    *(
        [
            ("manifest_written", False),
            ("first attempts are killed after writing", True),
            ("the last task fails", False),
        ]
        if IS_FULL
        else []
    ),
]


@pytest.mark.parametrize(("fault", "is_done"), FAULTS)
def test_a_batch_that_fails_is_done_or_not_and_then_done(
    stream: Stream, server: Server, fault: str, *, is_done: bool
) -> None:
    server.ingest(stream.table, pa.table({"id": [100], "p": [0]}), partition_by="p")
    stream.arrive([1, 2, 3])
    with suppress(StreamingQueryException):
        stream.run(lambda frame: frame.repartition(2), fault=fault)
    check(server, stream.table, [100, 1, 2, 3] if is_done else [100])
    stream.run()
    check(server, stream.table, [100, 1, 2, 3])
    assert stream.batches == [("numbers", 0, 3)]


def test_what_is_complete_replaces_the_table_and_an_update_is_refused(stream: Stream, server: Server) -> None:
    stream.arrive([1])
    with pytest.raises(StreamingQueryException, match="does not support Update mode"):
        stream.run(lambda frame: frame.groupBy("p").count(), "update", checkpointLocation=str(stream.checkpoint / "no"))
    assert not (stream.root / stream.table).exists()
    for ids in ([2, 3], [4, 5]):
        stream.arrive(ids)
        stream.run(lambda frame: frame.groupBy("p").count(), "complete", partition_by="p")
    assert server.rows(f"SELECT p, count FROM {stream.table} ORDER BY p") == [(0, 1), (1, 2), (2, 2)]
