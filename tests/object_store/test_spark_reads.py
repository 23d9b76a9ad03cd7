"""A bucket is read from Spark as a directory is, with storage options of its own."""

from __future__ import annotations

import pytest
from lance_flight.catalog.roots.directory import Root
from lance_flight.engine.engine import Engine
from lance_flight_client.spark.options import STORAGE, ReadOptions
from lance_flight_client.spark.reading import plan_direct

from tests.object_store.bucket import Bucket

ROWS = "SELECT value AS id, CASE WHEN value % 5 <> 0 THEN value % 5 END AS p FROM range(20)"


@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def test_a_bucket_is_read_directly(bucket: Bucket, layout: str) -> None:
    engine = Engine(Root(bucket.store), target_partitions=1)
    engine.update(f"CREATE TABLE t {layout} AS {ROWS}")
    engine.update("DELETE FROM t WHERE id = 3")
    storage = {STORAGE + name: value for name, value in bucket.options.items()}
    options = ReadOptions.parse({"root": bucket.store.uri, "table": "t", "filter": "p IS NULL OR id < 5", **storage})
    planned = plan_direct(options)
    portions = planned.portions()
    found = [number for portion in portions for batch in portion.batches() for number in batch.column("id").to_pylist()]
    assert sorted(found) == [0, 1, 2, 4, 5, 10, 15]
    assert bucket.options["aws_secret_access_key"] not in repr((options, planned, portions))
