"""One Spark for each process that runs tests, started by the first that needs it, and a server over the root of theirs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from lance_flight_client.spark.connector.jars import jar
from lance_flight_client.spark.connector.sessions import CATALOG_CLASS, PLANNING
from lance_flight_client.spark.machine import prepare
from pyspark.sql import SparkSession

from tests.service.server_process import Server, serving

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    # Tests are short: what the compilers of Java and of Spark take is never won back.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.python.daemon.module": "lance_flight_client.spark.daemon",
    "spark.jars": str(jar()),
}
"""A session as small as it can be, in a zone that is not the one that rows are stored in."""

LONG = (
    "test_pipelines.py::test_the_documented_pipelines_run_as_they_stand",
    "test_sql_page.py::test_a_wheel_is_enough",
    "test_sql_page.py::test_the_settings",
    "test_connect.py",
    "test_stream_read.py",
    "test_maintain_program.py",
    "test_cluster.py::test_a_task_that_is_run_twice_at_once",
    "test_write_faults.py::test_a_driver_that_is_killed_is_run_again",
    "test_stream_write.py::test_a_driver_that_is_killed_is_started_again",
)
"""What starts a Spark of its own, and is run by LANCE_FLIGHT_TESTS=full; the sample keeps one of each kind of fault."""

_NUMBERS = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    if os.environ.get("LANCE_FLIGHT_TESTS") == "full":
        return
    left = [item for item in items if any(f"tests/spark/{name}" in item.nodeid for name in LONG)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    place = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    prepare()
    builder = SparkSession.builder.master("local[2,2]").appName("tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.local.dir", str(place)).config("spark.sql.warehouse.dir", str(place / "warehouse"))
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("spark-root") / "root") as running:
        yield running


@pytest.fixture(scope="session")
def root(server: Server) -> Path:
    """What the server serves."""
    return server.root


@pytest.fixture(scope="session")
def sql(spark: SparkSession, server: Server) -> SparkSession:
    """A session with the connector's catalog `lake` over the root and `far` over its server."""
    session = spark.newSession()
    for name, value in PLANNING.items():
        session.conf.set(name, value)
    for catalog, place in {"lake": ("root", str(server.root)), "far": ("uri", server.uri)}.items():
        session.conf.set(f"spark.sql.catalog.{catalog}", CATALOG_CLASS)
        for option, value in (place, ("python", sys.executable)):
            session.conf.set(f"spark.sql.catalog.{catalog}.{option}", value)
    return session


@pytest.fixture
def table() -> str:
    """A table name that no other test uses."""
    return f"t{next(_NUMBERS)}"
