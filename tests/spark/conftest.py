"""One Spark for each process that runs tests, and a server over the root of their tables.

Tests of planning ask the connector's Python as its JVM asks (`planner`, `offers`) and start no JVM. Those that need one share
the session of the fixture `spark`; each looks at one kind of thing. The default run leaves two things to LANCE_FLIGHT_TESTS=full,
both by `tests.selection.IS_FULL`: rows of a table, written `[*always, *(more if IS_FULL else [])]`, and the tests in `OWN_SPARK`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest
from lance_flight.catalog.bulk.pieces import Threads
from lance_flight_client.spark import activate, maintenance
from lance_flight_client.spark.connector.sessions import CATALOG_CLASS, EXTENSIONS, PLANNING, jar
from lance_flight_client.spark.machine import prepare
from pyspark.sql import SparkSession

from tests.engine.database import Database
from tests.selection import IS_FULL, SPARK_SESSION
from tests.service.server_process import Server, serving
from tests.spark.faulty import FaultySource
from tests.spark.offers import Offers, make_tables
from tests.spark.planner import Catalog
from tests.spark.tables import SHAPES

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
    "spark.jars": str(jar()),
    "spark.sql.extensions": EXTENSIONS,
}
"""A session as small as it can be, in a zone that is not the one that rows are stored in."""

OWN_SPARK = (
    "test_cluster.py",
    "test_connect.py",
    "test_connector_jars.py::test_the_jar_of_this_spark_is_built_again_the_same",
    "test_connector_suites.py",
    "test_connector_versions.py",
    "test_pipelines.py::test_the_documented_pipelines_run_as_they_stand",
    "test_sql_page.py::test_a_wheel_is_enough",
    "test_sql_page.py::test_the_settings",
    "test_sql_page.py::test_the_shell",
)
"""Tests that start a Spark or a compiler of their own; they run only with `IS_FULL`."""

_NUMBERS = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    modules = {item.nodeid.partition("::")[0] for item in items if "spark" in getattr(item, "fixturenames", ())}
    if not modules <= SPARK_SESSION:
        raise pytest.UsageError(f"tests.selection.SPARK_SESSION lacks {sorted(modules - SPARK_SESSION)}")
    if IS_FULL:
        return
    left = [item for item in items if any(f"tests/spark/{name}" in item.nodeid for name in OWN_SPARK)]
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


@pytest.fixture(scope="module")
def faulty(spark: SparkSession) -> SparkSession:
    """The same session with the faulty source, and active: what writes looks for sources in the session that is."""
    activate(spark)
    spark.dataSource.register(FaultySource)
    return spark


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("spark-root") / "root") as running:
        yield running


@pytest.fixture(scope="session")
def root(server: Server) -> Path:
    """What the server serves."""
    return server.root


@pytest.fixture(scope="session")
def database(server: Server) -> Database:
    """The same root, by an engine in this process."""
    return Database(server.root)


@pytest.fixture(scope="session")
def shapes(database: Database) -> Mapping[str, str]:
    """The name of a table of each shape, which stays as it is."""
    for name, shape in SHAPES.items():
        shape.make(database, name)
    return {name: name for name in SHAPES}


@pytest.fixture(scope="session")
def offered(database: Database, shapes: Mapping[str, str]) -> Database:
    """The root, with the tables that recorded statements are over."""
    del shapes
    make_tables(database)
    return database


@pytest.fixture(scope="session")
def offers() -> Offers:
    """What Spark offers for statements."""
    return Offers.recorded()


@pytest.fixture(scope="session")
def catalogs(server: Server) -> Mapping[str, Catalog]:
    """The catalogs `lake` over the root and `far` over its server, without a JVM."""
    return {"lake": Catalog({"root": str(server.root)}), "far": Catalog({"uri": server.uri})}


@pytest.fixture(scope="session", params=["lake", "far"])
def catalog(request: pytest.FixtureRequest, catalogs: Mapping[str, Catalog]) -> Catalog:
    """One of them after the other."""
    return catalogs[request.param]


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


@pytest.fixture(scope="session")
def shop(database: Database) -> dict[str, dict[str, str]]:
    """Options of orders in 16 buckets and of customers in 8, with keys that are missing, NULL, and alone; and of the same without partitions."""
    numbers = "FROM (SELECT unnest(range({}, {})) AS v) AS n"
    orders = f"SELECT v AS id, CASE WHEN v % 9 = 0 THEN NULL ELSE CAST(v % 50 AS INT) END AS customer, v * 10 AS total {numbers.format(0, 200)}"
    customers = (
        f"SELECT CASE WHEN v % 11 = 0 THEN NULL ELSE v END AS customer, concat('c', v) AS name {numbers.format(20, 70)}"
    )
    database.run(f"CREATE TABLE shop_orders PARTITIONED BY (bucket(16, customer)) AS {orders}")
    database.run(f"CREATE TABLE shop_customers PARTITIONED BY (bucket(8, customer)) AS {customers}")
    database.run("DELETE FROM shop_orders WHERE id % 13 = 0")
    for name in ("orders", "customers"):
        database.run(f"CREATE TABLE shop_plain_{name} AS SELECT * FROM shop_{name}")
    names = ("orders", "customers", "plain_orders", "plain_customers")
    return {name: {"root": str(database.root), "table": f"shop_{name}"} for name in names}


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maintenance does its pieces in threads of this process, as the service does, and needs no session."""
    monkeypatch.setattr(maintenance, "Executors", lambda _, doing: Threads(2) if doing else None)


@pytest.fixture
def table() -> str:
    """A table name that no other test uses."""
    return f"t{next(_NUMBERS)}"


@pytest.fixture
def held(server: Server, table: str) -> str:
    """A table of the server's, with a row in each of its three partitions."""
    server.run(f"CREATE TABLE {table} (id BIGINT, p BIGINT) PARTITIONED BY (p)")
    server.run(f"INSERT INTO {table} VALUES (100, 0), (101, 1), (102, 2)")
    return table
