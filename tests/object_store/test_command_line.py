"""Commands that work on a root by themselves, in an object store that the environment says how to reach."""

from __future__ import annotations

import os
import subprocess

import pytest
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.engine.sql.functions import evaluate

from tests.catalog.small_table import SCHEMA, SPEC, rows
from tests.object_store.bucket import Bucket
from tests.service.server_process import COMMAND

COMMANDS = {
    "inspect": (("t",), "2 partitions, 2 rows"),
    "verify": ((), "t: "),
    "repair": ((), "t: "),
    "vacuum": (("--dry-run",), "t: "),
}
"""Every other one opens its root by the same function."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_reaches_a_root_by_the_storage_options_of_the_environment(bucket: Bucket, name: str) -> None:
    PartitionedNamespace.create(bucket.store.child("t"), SCHEMA, SPEC).append([rows((1, "a"), (2, "b"))], evaluate)
    arguments, says = COMMANDS[name]
    options = ",".join(f"{key}={value}" for key, value in bucket.options.items())
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    ended = subprocess.run(
        [COMMAND, name.split(maxsplit=1)[0], bucket.store.uri, *arguments],
        env={**environment, "LANCE_FLIGHT_STORAGE_OPTIONS": options},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.returncode, says in ended.stdout) == (0, True), ended.stdout + ended.stderr
