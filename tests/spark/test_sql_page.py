"""The page of Spark's SQL, followed in a new directory by its commands alone; its SQL prints what the page shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lance_flight_client.spark.connector.sessions import settings
from lance_flight_client.spark.program import main, parser
from lance_flight_client.spark.program.sql import catalog_options
from pyspark.sql import SparkSession

from tests.documents import TOP
from tests.spark.sql_page import Reader, check_programs, check_sql, printed_by


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return Reader(sys.executable, tmp_path_factory.mktemp("reader"))


def test_the_sql_of_the_page_prints_what_it_shows(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    for name, value in settings(str(tmp_path)).items():
        if name not in {"spark.jars", "spark.sql.extensions"}:
            session.conf.set(name, value)
    check_sql(printed_by(session))


def test_spark_sql_is_started_with_the_settings_of_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Here with a program in its place that prints what it is given."""
    program = tmp_path / "bin" / "spark-sql"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncat "$2"\nshift 2\necho "$@"\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "options").write_text("token = secret\n\n")
    secret = ["--options-file", str(tmp_path / "options")]
    assert main(["settings", *secret, "grpc://host:1"]) == 0
    told = capfd.readouterr().out
    assert dict(line.split(" ", 1) for line in told.splitlines()) == settings("grpc://host:1", token="secret")  # noqa: S106
    assert main(["sql", *secret, "grpc://host:1", "-e", "SELECT 1"]) == 3
    *given, arguments = capfd.readouterr().out.splitlines()
    assert set(told.splitlines()) < set(given)
    assert "spark.sql.catalogImplementation in-memory" in given
    assert arguments == "--load-spark-defaults -e SELECT 1"


@pytest.mark.parametrize(
    ("flags", "environment", "options"),
    [
        ([], {"LANCE_FLIGHT_TOKEN": "t\n"}, {"token": "t"}),
        (
            ["--option", "username=u"],
            {"LANCE_FLIGHT_TOKEN": "t", "LANCE_FLIGHT_PASSWORD": "p"},
            {"username": "u", "password": "p"},
        ),
        (["--option", "username=u"], {}, {"username": "u"}),
    ],
)
def test_the_environment_has_what_a_catalog_logs_in_with(
    flags: list[str], environment: dict[str, str], options: dict[str, str]
) -> None:
    assert catalog_options(parser().parse_args(["sql", *flags, "grpc://host:1"]), environment) == options
    assert "token" not in catalog_options(parser().parse_args(["sql", *flags, "lake"]), environment)


@pytest.mark.parametrize("option", ["token=x", "password=x", "storage.aws_secret_access_key=x", "uri=grpc://u:p@host"])
def test_no_secret_stands_among_arguments(option: str, capfd: pytest.CaptureFixture[str]) -> None:
    for command in ("sql", "settings"):
        assert main([command, "--option", option, "lake"]) == 1
        said = capfd.readouterr().err
        assert "--options-file" in said
        assert "=x" not in said


def test_the_shell_prints_what_the_page_shows(reader: Reader) -> None:
    check_sql(reader.sql(reader.install()))


def test_the_settings_of_the_page_are_those_of_other_programs(reader: Reader) -> None:
    check_programs(reader)


@pytest.mark.timeout(900)
def test_a_wheel_is_enough(tmp_path: Path) -> None:
    """The page by a new environment that has nothing but the wheel and its extra, and by the Java that comes with it."""
    for command in (
        ["uv", "build", "--quiet", "--wheel", "--out-dir", str(tmp_path / "dist"), str(TOP)],
        ["uv", "venv", "--quiet", "--python", sys.executable, str(tmp_path / "venv")],
    ):
        subprocess.run(command, check=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, f"{wheel}[spark]"], check=True)
    new = Reader(python, tmp_path, JAVA_HOME=str(tmp_path / "none"))
    check_sql(new.sql(new.install()))
