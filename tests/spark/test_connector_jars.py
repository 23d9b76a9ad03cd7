"""The connector's jars: built from the sources that are here, for every version that is supported, and again the same."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from lance_flight.errors import Unsupported
from lance_flight_client.spark import configure
from lance_flight_client.spark.connector.build import build, built_from, digest
from lance_flight_client.spark.connector.sessions import DAEMON_MODULE, VERSIONS, jar, settings
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.selection import IS_FULL


@pytest.mark.parametrize("version", VERSIONS)
def test_a_jar_is_built_from_the_sources_that_are_here(version: str) -> None:
    assert built_from(jar(f"{version}.0")) == digest(), "run python -m lance_flight_client.spark.connector.build"


@pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK")
def test_the_jar_of_this_spark_is_built_again_the_same(tmp_path: Path) -> None:
    def classes(path: Path) -> dict[str, bytes]:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    first, *others = (build(tmp_path / str(number)) for number in range(2 if IS_FULL else 1))
    assert all(first.read_bytes() == other.read_bytes() for other in others)
    assert classes(first).keys() == classes(jar()).keys()
    if "17.0" in subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True).stdout:
        assert classes(first) == classes(jar())


@pytest.mark.parametrize("version", ["4.0.1", "5.0.0"])
def test_a_version_without_a_jar_is_refused(version: str) -> None:
    with pytest.raises(Unsupported, match=f"Spark {version} has no connector"):
        jar(version)


def test_a_builder_is_given_all_that_a_session_needs() -> None:
    builder = SparkSession.Builder().config("spark.jars", "/mine.jar")
    configure(builder, lake="grpc://host:1", catalog="c", username="u")
    given = builder._options
    assert given["spark.jars"] == f"/mine.jar,{jar()}"
    assert given["spark.sql.catalog.c.uri"] == "grpc://host:1"
    assert given["spark.sql.catalog.c.username"] == "u"
    assert given["spark.sql.catalog.c.python"] == sys.executable
    assert settings("s3://b/t", catalog="c")["spark.sql.catalog.c.root"] == "s3://b/t"


WORKERS: dict[str, tuple[dict[str, str], str | None, str | None]] = {
    "this Python": ({}, None, DAEMON_MODULE),
    "another Python of the environment": ({}, "/other/python", None),
    "another Python of the builder": ({"spark.pyspark.python": "/other/python"}, None, None),
    "another daemon": ({"spark.python.daemon.module": "mine"}, None, "mine"),
}
"""What a builder and `PYSPARK_PYTHON` say, and the daemon that workers get."""


@pytest.mark.parametrize(("given", "python", "daemon"), WORKERS.values(), ids=WORKERS)
def test_workers_on_this_python_get_the_daemon(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], python: str | None, daemon: str | None
) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setenv("PYSPARK_PYTHON", python or sys.executable)
    builder = SparkSession.Builder()
    for name, value in given.items():
        builder.config(name, value)
    assert configure(builder, lake="/lake")._options.get("spark.python.daemon.module") == daemon


def test_a_spark_that_runs_without_the_jar_is_not_configured(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark.sparkContext.getConf().get("spark.jars") == str(jar())
    configure(SparkSession.Builder(), lake="/lake")
    monkeypatch.setattr("lance_flight_client.spark.connector.sessions.jar", lambda: Path("/other.jar"))
    with pytest.raises(Unsupported, match=r"running without the connector.*spark\.stop\(\).*/other\.jar"):
        configure(SparkSession.Builder(), lake="/lake")
