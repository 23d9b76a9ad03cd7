"""The S3 server of these tests answers as moto does, which is written by others; what befalls a request is what its fault says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pyarrow.fs as pafs
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from lance_flight.catalog.storage.filesystems import put_client
from moto.server import ThreadedMotoServer

from tests.object_store.bucket import REGION, Bucket
from tests.object_store.s3_server import Fault, Rule, S3Server

Client = Callable[..., Any]
KEPT = {"Body", "ETag", "ContentLength", "ContentType", "ContentRange", "Key", "KeyCount", "IsTruncated", "Contents"}
KEPT |= {"CommonPrefixes", "Prefix", "Size", "Deleted", "Code", "CopyObjectResult"}
KEYS = ["a/1", "a/2 ü&<'\">%", "a/b/3", "a/b/4", "ab", "ä/5", "🦆"]


def client(endpoint: str) -> Any:
    return boto3.client(
        "s3", endpoint_url=endpoint, region_name=REGION, aws_access_key_id="key", aws_secret_access_key="secret",  # noqa: S106 - nobody's
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )  # fmt: skip


@pytest.fixture(scope="module")
def moto() -> Iterator[Any]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    found = client(f"http://{host}:{port}")
    found.create_bucket(Bucket="bucket")
    yield found
    server.stop()


def kept(answer: Any) -> Any:
    """What clients look at."""
    if isinstance(answer, dict):
        return {name: kept(value) for name, value in answer.items() if name in KEPT}
    if isinstance(answer, list):
        return [kept(value) for value in answer]
    return answer.read() if hasattr(answer, "read") else answer


def steps(s3: Any, bucket: str) -> Iterator[Any]:
    """Ask for everything that Lance, Arrow and boto3 ask for; yield the answers."""

    def ask(method: str, **arguments: Any) -> Any:
        try:
            return kept(getattr(s3, method)(Bucket=bucket, **arguments))
        except ClientError as error:
            return error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]

    for number, key in enumerate(KEYS):
        yield ask("put_object", Key=key, Body=bytes([65 + number]) * (number + 1), ContentType=f"text/{number}")
        yield ask("get_object", Key=key)
    for asked in ("bytes=1-2", "bytes=2-", "bytes=-3", "bytes=0-0", "bytes=2-900", "bytes=900-"):
        yield ask("get_object", Key="🦆", Range=asked)
    for method in ("get_object", "head_object", "delete_object"):
        yield ask(method, Key="none")
        yield ask(method, Key="ab")
    yield ask("put_object", Key="ab", Body=b"first", IfNoneMatch="*")
    tag = ask("head_object", Key="ab")["ETag"]
    yield ask("put_object", Key="ab", Body=b"second", IfNoneMatch="*")
    yield ask("put_object", Key="ab", Body=b"third", IfMatch='"other"')
    yield ask("put_object", Key="ab", Body=b"fourth", IfMatch=tag)
    yield ask("get_object", Key="ab", IfMatch=tag)
    yield ask("get_object", Key="ab")
    for listed in (
        *({}, {"Prefix": "a"}, {"Prefix": "a/", "Delimiter": "/"}, {"Delimiter": "/"}, {"Prefix": "none"}),
        *({"Prefix": "a/b"}, {"MaxKeys": 2}, {"StartAfter": "a/b/3"}, {"MaxKeys": 2, "Delimiter": "/"}),
    ):
        answer = s3.list_objects_v2(Bucket=bucket, **listed)
        yield kept(answer)
        while answer["IsTruncated"]:
            answer = s3.list_objects_v2(Bucket=bucket, ContinuationToken=answer["NextContinuationToken"], **listed)
            yield kept(answer)
    yield ask("copy_object", Key="copied", CopySource={"Bucket": bucket, "Key": KEYS[1]})
    yield ask("get_object", Key="copied")
    yield ask("delete_objects", Delete={"Objects": [{"Key": KEYS[1]}, {"Key": "none"}]})
    yield ask("head_object", Key=KEYS[1])
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    tags = [
        ask("upload_part", Key="parts", UploadId=upload, PartNumber=n, Body=b"%d" % n * (5 << 20))["ETag"]
        for n in (1, 2)
    ]
    yield tags
    yield ask("head_object", Key="parts")
    parts = {"Parts": [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]}
    yield ask("complete_multipart_upload", Key="parts", UploadId=upload, MultipartUpload=parts)
    yield ask("head_object", Key="parts")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="given up")["UploadId"]
    yield ask("abort_multipart_upload", Key="given up", UploadId=upload)
    yield ask("head_object", Key="given up")


def test_answers_are_those_of_moto(moto: Any, s3: S3Server) -> None:
    for number, (ours, theirs) in enumerate(
        zip(steps(client(s3.endpoint), Bucket.made(s3).name), steps(moto, "bucket"), strict=True)
    ):
        assert ours == theirs, number
    for asked in (client(s3.endpoint), moto):
        with pytest.raises(ClientError, match="NoSuchBucket"):
            asked.list_objects_v2(Bucket="none")


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name)
def test_a_fault_is_what_it_says(s3: S3Server, fault: Fault) -> None:
    bucket = Bucket.made(s3)
    asked = client(s3.endpoint)
    asked.put_object(Bucket=bucket.name, Key="k", Body=b"old")
    bucket.faults.set(Rule(fault=fault, method="PUT|GET", path="/k", times=2))
    answers = {Fault.SLOW_DOWN: "SlowDown", Fault.INTERNAL: "InternalError", Fault.LATE_ERROR: "InternalError"}
    is_answered = fault in {Fault.DELAY, Fault.TRUNCATED}
    for ask in (
        lambda: asked.put_object(Bucket=bucket.name, Key="k", Body=b"new"),
        lambda: kept(asked.get_object(Bucket=bucket.name, Key="k")),
    ):
        try:
            ask()
        except ClientError as error:
            assert error.response["Error"]["Code"] == answers[fault]  # noqa: PT017 - whether it is raised depends on the fault
        except (BotoCoreError, OSError):
            assert fault in {Fault.RESET, Fault.TRUNCATED, Fault.LOST_ANSWER}
        else:
            assert is_answered
    assert bucket.faults.injected == {fault: 2}
    is_carried_out = fault not in {Fault.SLOW_DOWN, Fault.INTERNAL, Fault.RESET}
    assert asked.get_object(Bucket=bucket.name, Key="k")["Body"].read() == (b"new" if is_carried_out else b"old")


def test_arrow_finds_directories(s3: S3Server) -> None:
    bucket = Bucket.made(s3)
    files = pafs.S3FileSystem(
        scheme="http",
        endpoint_override=s3.endpoint,
        region=REGION,
        access_key="a",
        secret_key="b",  # noqa: S106
    )
    files.create_dir(f"{bucket.name}/a/b")
    with files.open_output_stream(f"{bucket.name}/a/b/c") as stream:
        stream.write(b"x" * (11 << 20))
    files.copy_file(f"{bucket.name}/a/b/c", f"{bucket.name}/a/d")
    found = {
        each.path.partition("/")[2]: (each.type.name, each.size)
        for each in files.get_file_info(pafs.FileSelector(f"{bucket.name}/a", recursive=True))
    }
    assert found == {"a/b": ("Directory", None), "a/b/c": ("File", 11 << 20), "a/d": ("File", 11 << 20)}
    files.delete_dir(f"{bucket.name}/a/b")
    assert [
        each.path
        for each in files.get_file_info(pafs.FileSelector(bucket.name, recursive=True))
        if each.type.name == "File"
    ] == [f"{bucket.name}/a/d"]


def test_moto_stores_a_version_once(moto: Any, s3: S3Server) -> None:
    """What is put under a condition, by the client that the product has for that."""
    options = {**Bucket.made(s3).options, "aws_endpoint": moto.meta.endpoint_url}
    reached = put_client("s3://bucket/root", options)
    assert reached is not None
    client, key = reached
    assert client.read(f"{key}/a") is None
    assert client.make(f"{key}/a", b"mine")
    assert client.make(f"{key}/a", b"mine"), "it arrived twice"
    assert not client.make(f"{key}/a", b"another one's")
    client.write(f"{key}/b", b"1")
    client.write(f"{key}/b", b"2")
    assert (client.read(f"{key}/a"), client.read(f"{key}/b")) == (b"mine", b"2")
    lost = put_client("s3://none/root", options)
    assert lost is not None
    with pytest.raises(OSError, match="NoSuchBucket"):
        lost[0].read("root/a")
