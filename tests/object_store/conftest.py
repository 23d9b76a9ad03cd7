"""An S3 server in this process, and a bucket for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer

from tests.object_store.bucket import Bucket, BucketDatabase


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str) -> Bucket:
    return Bucket.made(endpoint)


@pytest.fixture
def database(bucket: Bucket) -> BucketDatabase:
    """An engine over the bucket of the test."""
    return bucket.database
