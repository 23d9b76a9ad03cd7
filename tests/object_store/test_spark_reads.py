"""A bucket is read from Spark as a directory is, with storage options of its own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight_client.spark.options import STORAGE, ReadOptions
from lance_flight_client.spark.reading.direct import plan

from tests.object_store.bucket import Bucket

ROWS = pa.table({"id": range(20), "p": [None if n % 5 == 0 else n % 5 for n in range(20)]})


@pytest.mark.parametrize("partition_by", [None, "p"], ids=["plain", "partitioned"])
def test_a_bucket_is_read_directly(bucket: Bucket, tmp_path: Path, partition_by: str | None) -> None:
    with bucket.serving(tmp_path) as server:
        server.ingest("t", ROWS, partition_by=partition_by)
        server.run("DELETE FROM t WHERE id = 3")
    storage = {STORAGE + name: value for name, value in bucket.options.items()}
    options = ReadOptions.parse({"root": bucket.store.uri, "table": "t", "filter": "p IS NULL OR id < 5", **storage})
    planned = plan(options)
    portions = planned.portions()
    found = [number for portion in portions for batch in portion.batches() for number in batch.column("id").to_pylist()]
    assert sorted(found) == [0, 1, 2, 4, 5, 10, 15]
    assert bucket.options["aws_secret_access_key"] not in repr((options, planned, portions))
