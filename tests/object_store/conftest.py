"""An S3 server in this process, and a bucket for each test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.object_store.bucket import REGION, Bucket

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str) -> Bucket:
    made = Bucket(endpoint=endpoint, name=f"bucket-{next(_NUMBERS)}")
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=made.options["aws_access_key_id"],
        aws_secret_access_key=made.options["aws_secret_access_key"],
    )
    client.create_bucket(Bucket=made.name)
    return made
