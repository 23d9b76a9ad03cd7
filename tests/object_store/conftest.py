"""An S3 server in this process, and a bucket for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.object_store.bucket import Bucket, BucketDatabase
from tests.object_store.s3_server import S3Server, s3_server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def bucket(s3: S3Server) -> Bucket:
    return Bucket.made(s3)


@pytest.fixture
def database(bucket: Bucket) -> BucketDatabase:
    """An engine over the bucket of the test."""
    return bucket.database
