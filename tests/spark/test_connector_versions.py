"""The connector in the other versions of Spark that it has jars for: tests of its own, run there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FULL = os.environ.get("LANCE_FLIGHT_TESTS") == "full"
EVERY = (
    "reads",
    "definitions",
    "new_tables",
    "planning",
    "portions",
    "pushdown",
    "writes",
    "procedures",
    "streams",
    "views",
)
MODULES = EVERY if FULL else ("writes",)
CHOSEN = "" if FULL else "merge or dynamic"


@pytest.mark.timeout(1800 if FULL else 300)
@pytest.mark.parametrize("version", ["4.1.4", "4.2.1"])
def test_the_connector_does_the_same_in_another_spark(version: str) -> None:
    uv = ["uv", "run", "--no-sync", "--with", f"pyspark=={version}", "python"]
    said = subprocess.run(
        [*uv, "-c", "import pyspark; print(pyspark.__version__)"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == version
    modules = [f"tests/spark/test_connector_{name}.py" for name in MODULES]
    command = [*uv, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", CHOSEN, *modules]
    run = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:]
