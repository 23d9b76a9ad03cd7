"""Commands that work on a root by themselves, in an object store that the environment says how to reach."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight_client.cli import main

from tests.catalog.small_table import SCHEMA, SPEC, rows
from tests.object_store.bucket import Bucket

COMMANDS = {
    "inspect": (("t",), "2 partitions, 2 rows"),
    "verify": ((), "t: "),
    "repair": ((), "t: "),
    "vacuum": (("--dry-run",), "t: "),
}
"""Every other one opens its root by the same function."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_reaches_a_root_by_the_storage_options_of_the_environment(
    bucket: Bucket, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    PartitionedNamespace.create(bucket.store.child("t"), SCHEMA, SPEC).append([rows((1, "a"), (2, "b"))], evaluate)
    arguments, says = COMMANDS[name]
    monkeypatch.setenv("LANCE_FLIGHT_STORAGE_OPTIONS", bucket.options_text)
    assert main([name, bucket.store.uri, *arguments]) == 0
    assert says in capsys.readouterr().out


@pytest.mark.parametrize("command", [["config", "--check", "--root"], ["serve"], ["inspect"]])
def test_a_bucket_that_is_not_there_is_named(bucket: Bucket, command: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "lance_flight", *command, "s3://nobucket/lake"],
        env={**os.environ, "LANCE_FLIGHT_STORAGE_OPTIONS": bucket.options_text, "LANCE_FLIGHT_ALLOW_ANONYMOUS": "true"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "the bucket of the root does not exist" in ended.stdout + ended.stderr
    assert ended.returncode == 1
