"""The connector in the other versions of Spark that it has jars for: the tests of its session, run there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
MODULES = ("reads", "definitions", "planning", "pushdown", "writes", "sql_options", "streams")


@pytest.mark.timeout(1800)
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
    command = [*uv, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *modules]
    run = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:]
