"""The pipelines of the documentation, run as they stand: real files, Spark's own programs, and a server."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from lance_flight_client.spark.program import OF_TABLES, PROGRAM, parser

from tests.service.server_process import serving
from tests.spark.conftest import SETTINGS

PAGE = (Path(__file__).parent.parent.parent / "client" / "docs" / "pipelines.md").read_text()
SMALLER = (
    ("--scale-factor 1 ", "--scale-factor 0.001 "),
    ('"$zip" data\n', '"$zip" data\nsed -i 10001q data/flights.csv\n'),
)
"""What makes the example quick: six thousand line items, and the first ten thousand flights."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Commands of this Python first, and a Spark as small as that of other tests."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in SETTINGS.items()))
    kept = {name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "SPARK_HOME")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1"}


def run(script: str, place: Path, environment: dict[str, str]) -> list[str]:
    """Run a script as a reader would; what it prints."""
    done = subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_documented_pipelines_run_as_they_stand(tmp_path: Path, environment: dict[str, str]) -> None:
    job, *_ = blocks("toml")
    load, query, _ = blocks("sh")
    for whole, some in SMALLER:
        assert whole in load
        load = load.replace(whole, some)
    (tmp_path / "flights.toml").write_text(job)
    said = [line for line in run(load, tmp_path, environment) if " partitions, version " in line]
    assert re.match(r"flights: (9,\d\d\d) rows in 3 partitions, version ", said[0])
    assert re.match(r"lineitem: 6,005 rows in 8 partitions, version ", said[1])
    with serving(tmp_path / "lake") as server:
        shown = run(query.replace("lance-flight sql", f"lance-flight sql --uri {server.uri}"), tmp_path, environment)
        flown = server.value("SELECT count(*) FROM flights")
        lines = server.value("SELECT count(*) FROM lineitem")
    assert [line.split()[0] for line in shown] == [*["origin", "EWR", "JFK", "LGA"], *["l_returnflag", "A", "N", "R"]]
    assert f"flights: {flown:,} rows" in said[0]
    assert lines == 6005


def test_the_documented_commands_of_maintenance_are_those_of_the_program() -> None:
    commands = [shlex.split(line.removeprefix(PROGRAM)) for line in blocks("sh")[2].splitlines()]
    assert sorted(parser().parse_args(command).command for command in commands) == sorted(OF_TABLES)
