"""An S3 server in this process, and a bucket for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lance_flight.catalog.storage import filesystems
from pyarrow import fs

from tests.object_store.bucket import Bucket, BucketDatabase
from tests.object_store.s3_server import S3Server, s3_server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture(scope="package", autouse=True)
def _short_pauses() -> Iterator[None]:
    """A request is sent as often as otherwise, after pauses of 50 ms that double where those of the product begin at a second."""
    with pytest.MonkeyPatch.context() as patched:
        # Unlike the other one, this strategy does not count the first attempt.
        quick = fs.AwsDefaultS3RetryStrategy
        patched.setattr(fs, "AwsStandardS3RetryStrategy", lambda max_attempts: quick(max_attempts=max_attempts - 1))
        yield
    filesystems._s3.cache_clear()


@pytest.fixture
def bucket(s3: S3Server) -> Bucket:
    return Bucket.made(s3)


@pytest.fixture
def database(bucket: Bucket) -> BucketDatabase:
    """An engine over the bucket of the test."""
    return bucket.database
