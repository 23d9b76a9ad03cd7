"""Files of an object store: loaded into tables, and written from them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import lance_flight
import pytest
from lance_flight_client.cli import main

from tests.object_store.bucket import REGION, Bucket

CREDENTIALS = {"aws_access_key_id": "key", "aws_secret_access_key": "very-secret"}
CONTENT = {
    "in/site=Oslo/a.csv": b"id\n1\n2\n",
    "in/site=Lima/b.csv": b"id\n3\n",
    "in/_SUCCESS": b"",
    "in/.hidden/c.csv": b"id\n9\n",
}
ARGUMENTS = {
    "file": ("s3://{0}/in/site=Oslo/a.csv", [(1, None), (2, None)]),
    "directory": ("s3://{0}/in", [(1, "Oslo"), (2, "Oslo"), (3, "Lima")]),
    "glob": ("s3://{0}/in/*/b.csv", [(3, "Lima")]),
}


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

    status: int
    stdout: str
    stderr: str


Command = Callable[..., Ended]


@pytest.fixture
def command(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command with the bucket's address in the environment, as Arrow and Lance read it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_ENDPOINT_URL": bucket.endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": bucket.options["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": bucket.options["aws_secret_access_key"],
        "LANCE_FLIGHT_STORAGE_OPTIONS": bucket.options_text,
    }.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> Ended:
        status = main(arguments)
        return Ended(status, *capsys.readouterr())

    return run


def client_of(bucket: Bucket) -> Any:
    return boto3.client("s3", endpoint_url=bucket.endpoint, region_name=REGION, **CREDENTIALS)


@pytest.fixture
def files(bucket: Bucket) -> Bucket:
    client = client_of(bucket)
    for name, content in CONTENT.items():
        client.put_object(Bucket=bucket.name, Key=name, Body=content)
    return bucket


@pytest.mark.parametrize(("argument", "expected"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_files_become_a_table(
    files: Bucket, command: Command, tmp_path: Path, argument: str, expected: list[tuple[int, str | None]]
) -> None:
    ended = command("ingest", argument.format(files.name), "--table", "t", "--root", str(tmp_path / "lake"))
    assert ended.status == 0, ended.stderr
    stored = lance_flight.dataset(tmp_path / "lake", "t").to_table().to_pylist()
    assert sorted((row["id"], row.get("site")) for row in stored) == sorted(expected)


def test_a_table_of_the_store_becomes_files_of_it_and_comes_back(
    files: Bucket, command: Command, tmp_path: Path
) -> None:
    steps = (
        ("ingest", f"s3://{files.name}/in", "--table", "t", "--root", files.store.uri, "--partition-by", "site"),
        ("export", "t", "-o", f"s3://{files.name}/out/t.parquet", "--root", files.store.uri),
        ("export", "t", "-o", f"s3://{files.name}/by", "--format", "csv", "--by", "site", "--root", files.store.uri),
        ("ingest", f"s3://{files.name}/out/t.parquet", "--table", "one", "--root", str(tmp_path)),
        ("ingest", f"s3://{files.name}/by", "--table", "many", "--root", str(tmp_path)),
    )
    for step in steps:
        ended = command(*step)
        assert ended.status == 0, (step, ended.stderr)
        assert "3 rows" in ended.stdout
    keys = [each["Key"] for each in client_of(files).list_objects_v2(Bucket=files.name, Prefix="by/")["Contents"]]
    assert [key for key in keys if not key.endswith("/")] == [
        "by/_SUCCESS",
        "by/site=Lima/part-0.csv",
        "by/site=Oslo/part-0.csv",
    ]
    for name in ("one", "many"):
        stored = lance_flight.dataset(tmp_path, name).to_table().to_pylist()
        assert sorted((row["id"], row["site"]) for row in stored) == [(1, "Oslo"), (2, "Oslo"), (3, "Lima")]


def test_files_that_are_not_there_are_named(files: Bucket, command: Command, tmp_path: Path) -> None:
    for argument in (f"s3://{files.name}/none", f"s3://{files.name}/in/*.parquet", "s3://no-such-bucket/in"):
        ended = command("ingest", argument, "--table", "t", "--root", str(tmp_path))
        assert (ended.status, ended.stderr.count("\n"), argument in ended.stderr) == (1, 1, True), ended.stderr


def test_an_export_that_fails_leaves_no_directory(files: Bucket, command: Command) -> None:
    assert command("ingest", f"s3://{files.name}/in", "--table", "t", "--root", files.store.uri).status == 0
    sql = "SELECT site, CASE WHEN id < 3 THEN id ELSE CAST(site AS BIGINT) END AS n FROM t ORDER BY id"
    target = ["-o", f"s3://{files.name}/failed", "--format", "csv", "--by", "site", "--root", files.store.uri]
    ended = command("export", sql, *target)
    assert (ended.status, ended.stderr.count("\n")) == (1, 1), ended.stderr
    assert client_of(files).list_objects_v2(Bucket=files.name, Prefix="failed")["KeyCount"] == 0
