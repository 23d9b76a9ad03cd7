"""The connector in the other versions of Spark that it has jars for: the tests of its session, run there."""

from __future__ import annotations

import subprocess

import pytest

from tests.spark.processes import PROJECT, said_by_python, with_pyspark

MODULES = ("reads", "definitions", "planning", "pushdown", "writes", "sql_options", "streams")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", ["4.1.4", "4.2.1"])
def test_the_connector_does_the_same_in_another_spark(version: str) -> None:
    python = with_pyspark(version)
    assert said_by_python(python, "import pyspark; print(pyspark.__version__)") == version
    modules = [f"tests/spark/test_connector_{name}.py" for name in MODULES]
    command = [*python, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *modules]
    run = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:]
