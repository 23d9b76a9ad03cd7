"""Storage options mean the same where a version is written without Lance: the requests differ in nothing, or they are left to Lance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments
from lance_flight.catalog.storage import filesystems
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import write_version
from lance_flight.catalog.storage.whole_files import version_name

from tests.object_store import s3_server
from tests.object_store.bucket import Bucket
from tests.object_store.s3_server import BucketContent, Fault, Request, Rule, S3Server

ROWS = pa.table({"x": [1]})
NAME = "0c569589_v1$nmncdr1u87hicy75$dataset"
KEYS = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
PLAIN = {**KEYS, "aws_endpoint": "SERVER", "aws_region": "r-1", "allow_http": "true"}
# Options, with SERVER and BUCKET for those of the test, and variables of the environment.
SAME: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "plain": (PLAIN, {}),
    "names without aws_": ({re.sub("^aws_", "", name): value for name, value in PLAIN.items()}, {}),
    "other names": (
        {**KEYS, "aws_endpoint_url": "SERVER", "AWS_Region": "r-1", "aws_allow_http": "true", "token": "t"},
        {},
    ),
    "a session": ({**PLAIN, "aws_session_token": "token"}, {}),
    "no keys": (
        {**{name: value for name, value in PLAIN.items() if name not in KEYS}, "aws_skip_signature": "true"},
        {},
    ),
    "names of hosts": ({**PLAIN, "aws_endpoint": "SERVER/BUCKET", "aws_virtual_hosted_style_request": "true"}, {}),
    "unsigned content": ({**PLAIN, "aws_unsigned_payload": "true"}, {}),
    "a checksum": ({**PLAIN, "aws_checksum_algorithm": "SHA256"}, {}),
    "who pays": ({**PLAIN, "aws_request_payer": "true"}, {}),
    "a name of the client": ({**PLAIN, "user_agent": "me"}, {}),
    "the environment": (
        {},
        {"AWS_ENDPOINT": "SERVER", "AWS_REGION": "r-2", "AWS_ALLOW_HTTP": "true", "AWS_SESSION_TOKEN": "t"}
        | {name.upper(): value for name, value in KEYS.items()},
    ),
    "variables without aws_": (PLAIN, {"TOKEN": "t", "TIMEOUT": "20s", "USER_AGENT": "me", "REQUEST_PAYER": "true"}),
    "variables of others": (
        PLAIN,
        {"AWS_ENDPOINT_URL_STS": "SERVER", "AWS_ROLE_ARN": "r", "AWS_DEFAULT_REGION": "r-3"},
    ),
    "a part of the environment": (PLAIN, {"AWS_SESSION_TOKEN": "t", "AWS_PROFILE": "none"}),
}
LEFT: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "no region": ({name: value for name, value in PLAIN.items() if name != "aws_region"}, {}),
    "no keys": ({name: value for name, value in PLAIN.items() if name not in KEYS}, {}),
    "half a key": ({name: value for name, value in PLAIN.items() if name != "aws_secret_access_key"}, {}),
    "no conditional puts": ({**PLAIN, "aws_conditional_put": "disabled"}, {}),
    "no conditional puts in the environment": (PLAIN, {"AWS_CONDITIONAL_PUT": "disabled"}),
    "another endpoint": (PLAIN, {"AWS_ENDPOINT_URL_S3": "SERVER"}),
    "express": ({**PLAIN, "s3_express": "true"}, {}),
    "another client": ({**PLAIN, "use_opendal": "true"}, {}),
    "encryption": ({**PLAIN, "aws_server_side_encryption": "aws:kms"}, {}),
    "two regions": ({**PLAIN, "region": "r-2"}, {}),
    "another region in the environment": (PLAIN, {"AWS_REGION": "r-2"}),
    "a wrong number": ({**PLAIN, "client_max_retries": "many"}, {}),
    "a wrong value": ({**PLAIN, "aws_virtual_hosted_style_request": "perhaps"}, {}),
    "an unknown option": ({**PLAIN, "base_1.aws_region": "r-2"}, {}),
}
ITS_OWN = {"x-amz-date", "x-amz-content-sha256", "content-length", "x-amz-checksum-sha256"}
"""Headers of which no two requests have the same."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The puts into tables of these tests that arrived; engines of others renew their leases meanwhile."""
    found: list[Request] = []
    real = BucketContent._put

    def put(content: BucketContent, request: Request, buckets: Mapping[str, BucketContent]) -> Any:
        if NAME in request.key:
            found.append(request)
        return real(content, request, buckets)

    monkeypatch.setattr(BucketContent, "_put", put)
    return found


@pytest.fixture
def table(s3: S3Server) -> Store:
    """A table of one version in a bucket of its own, by the options of the tests."""
    made = Bucket.made(s3).place(f"root/{NAME}")
    lance.write_dataset(ROWS, made.uri, storage_options=made.options, enable_v2_manifest_paths=True)
    return made


def said(text: Mapping[str, str], s3: S3Server, table: Store) -> dict[str, str]:
    bucket = table.uri.split("/")[2]
    return {name: value.replace("SERVER", s3.endpoint).replace("BUCKET", bucket) for name, value in text.items()}


def comparable(requests: list[Request]) -> list[tuple[object, ...]]:
    return [
        (
            each.method,
            re.sub("[0-9a-f]{8}-[0-9a-f-]{27}", "ID", each.key),
            each.query,
            {
                name: re.sub(r"Signature=\w+|/\d{8}/", "", value)
                for name, value in each.headers.items()
                if name not in ITS_OWN
            },
        )
        for each in requests
    ]


@pytest.mark.parametrize("case", SAME)
def test_requests_are_those_of_lance(
    s3: S3Server, table: Store, asked: list[Request], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fragments = write_fragments(ROWS, table.uri, mode="append", storage_options=table.options)
    versions = s3.buckets[table.uri.split("/")[2]].objects
    key = f"root/{NAME}/_versions/{version_name(2)}"
    options, environment = (said(each, s3, table) for each in SAME[case])
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    asked.clear()
    append = LanceOperation.Append(fragments)
    LanceDataset.commit(table.uri, append, read_version=1, max_retries=0, storage_options=options)
    by_lance = comparable(asked)
    del versions[key]
    asked.clear()
    assert write_version(Store(table.uri, options), 1, LanceOperation.Append(fragments))
    assert key in versions
    assert comparable(asked) == by_lance


@pytest.mark.parametrize("case", LEFT)
def test_what_options_do_not_say_alike_is_left_to_lance(
    s3: S3Server, table: Store, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fragments = write_fragments(ROWS, table.uri, mode="append", storage_options=table.options)
    options, environment = (said(each, s3, table) for each in LEFT[case])
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert not write_version(Store(table.uri, options), 1, LanceOperation.Append(fragments))
    assert not write_version(
        Store(table.uri.replace("s3:", "s3+ddb:"), table.options), 1, LanceOperation.Append(fragments)
    )


# Options and what befalls the put of a version → how often it is sent before it is given up.
GIVEN_UP = {
    "no retries": ({"client_max_retries": "0"}, Fault.SLOW_DOWN, 4),
    "retries": ({"client_max_retries": "1"}, Fault.INTERNAL, 8),
    "a broken connection": ({"client_max_retries": "2"}, Fault.RESET, 1),
    "an error": ({"client_max_retries": "0"}, Fault.INTERNAL, 1),
    "a time for all retries": ({"client_max_retries": "9", "client_retry_timeout": "0"}, Fault.SLOW_DOWN, 4),
}


@pytest.mark.parametrize("case", GIVEN_UP)
def test_a_request_is_given_up_when_lance_gives_it_up(s3: S3Server, case: str) -> None:
    options, fault, sent_times = GIVEN_UP[case]
    bucket = Bucket.made(s3)
    made = bucket.place(f"root/{NAME}")
    lance.write_dataset(ROWS, made.uri, storage_options=made.options, enable_v2_manifest_paths=True)
    fragments = write_fragments(ROWS, made.uri, mode="append", storage_options=made.options)
    table = Store(made.uri, {**made.options, **options})
    commit = partial(LanceDataset.commit, max_retries=0, storage_options=table.options)
    append = LanceOperation.Append(fragments)
    by_lance = partial(commit, table.uri, append, read_version=1)
    counts = []
    for write in (by_lance, partial(write_version, table, 1, append)):
        with bucket.failing(Rule(fault=fault, method="PUT", path="_versions/", times=10**6)):
            with pytest.raises(OSError, match="Generic S3 error"):
                write()
            counts.append(bucket.faults.injected[fault])
        s3.buckets[bucket.name].objects.pop(f"root/{NAME}/_versions/{version_name(2)}", None)
    assert counts == [sent_times, sent_times]


def test_a_late_answer_counts_as_none(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version that arrived all the same is found."""
    monkeypatch.setattr(s3_server, "DELAY_SECONDS", 1.0)
    bucket = Bucket.made(s3)
    made = bucket.place(f"root/{NAME}")
    lance.write_dataset(ROWS, made.uri, storage_options=made.options, enable_v2_manifest_paths=True)
    fragments = write_fragments(ROWS, made.uri, mode="append", storage_options=made.options)
    table = Store(made.uri, {**made.options, "timeout": "700ms"})
    late = Rule(fault=Fault.DELAY, method="PUT", path="_versions/")
    with bucket.failing(late), bucket.recorded() as sent:
        assert write_version(table, 1, LanceOperation.Append(fragments))
    assert [each.method for each in sent] == ["GET", "PUT", "PUT", "GET"]


def test_a_store_that_never_answered_is_left_to_lance_for_a_while(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy or a certificate may be known to Lance alone. Once a request was answered, an error is the store's."""
    bucket = Bucket.made(s3)
    made = bucket.place(f"root/{NAME}")
    lance.write_dataset(ROWS, made.uri, storage_options=made.options, enable_v2_manifest_paths=True)
    fragments = write_fragments(ROWS, made.uri, mode="append", storage_options=made.options)
    table = Store(made.uri, {**made.options, "client_max_retries": "0"})
    fault = Rule(fault=Fault.SLOW_DOWN, path="_(transactions|versions)/", times=10**6)
    with bucket.failing(fault):
        assert not write_version(table, 1, LanceOperation.Append(fragments))
        assert not write_version(table, 1, LanceOperation.Append(fragments))
        assert bucket.faults.injected[Fault.SLOW_DOWN] == filesystems.ROUNDS.attempts
    monkeypatch.setattr(filesystems, "_LEFT_SECONDS", -1.0)
    with bucket.failing(fault):
        filesystems._client.cache_clear()
        assert not write_version(table, 1, LanceOperation.Append(fragments))
    assert write_version(table, 1, LanceOperation.Append(fragments))
    with bucket.failing(fault), pytest.raises(OSError, match="SlowDown"):
        write_version(table, 2, LanceOperation.Append(fragments))
