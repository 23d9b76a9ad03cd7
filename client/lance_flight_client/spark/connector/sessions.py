"""`configure`: a Spark session with the connector's jar and a catalog."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from lance_flight.errors import Unsupported
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lance_flight_client.spark.machine import PYTHON, prepare

JARS = Path(__file__).with_name("jars")
VERSIONS = ("4.1", "4.2", "4.3")
"""Versions of Spark that have a jar; it uses classes inside Spark, which change with each of them."""


def jar_name(version: str) -> str:
    """Return the name of the jar for a version of Spark.

    >>> jar_name("4.3.0")
    'lance-flight-spark-4.3.jar'
    """
    return f"lance-flight-spark-{'.'.join(version.split('.')[:2])}.jar"


def jar(version: str = pyspark.__version__) -> Path:
    """Return the jar for a version of Spark (PySpark's); `Unsupported` for one without."""
    if ".".join(version.split(".")[:2]) not in VERSIONS:
        raise Unsupported(
            f"Spark {version} has no connector; expected {', '.join(VERSIONS)}, or spark.read.format('lance_flight') without it"
        )
    return JARS / jar_name(version)


CATALOG_CLASS = "lanceflight.spark.LanceFlightCatalog"
EXTENSIONS = "lanceflight.spark.Extensions"
_JARS = "spark.jars"
_EXTENSIONS = "spark.sql.extensions"
_WORKER_PYTHON = "spark.pyspark.python"
_DAEMON, DAEMON_MODULE = "spark.python.daemon.module", "lance_flight_client.spark.daemon"

PLANNING: Mapping[str, str] = {
    # Joins of tables that are partitioned alike, or of which one is partitioned more finely, need no exchange.
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowCompatibleTransforms.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}
"""Settings of Spark's planner that the connector is made for."""


def settings(lake: str, *, catalog: str = "lake", **options: str) -> dict[str, str]:
    """Return the settings of a session with a catalog over a root or a server; `options` are the catalog's others.

    >>> settings("/data", catalog="c")["spark.sql.catalog.c.root"]
    '/data'
    """
    place = "uri" if lake.startswith(("grpc://", "grpc+")) else "root"
    name = f"spark.sql.catalog.{catalog}"
    given = {place: lake, "python": sys.executable, **options}
    return {
        _JARS: str(jar()),
        _EXTENSIONS: EXTENSIONS,
        **PLANNING,
        name: CATALOG_CLASS,
        **{f"{name}.{option}": value for option, value in given.items()},
    }


def configure(
    builder: SparkSession.Builder, *, lake: str, catalog: str = "lake", **options: str
) -> SparkSession.Builder:
    """Give a builder the connector's jar, a catalog over `lake` (a root, or `grpc://host:port`), and the settings they need.

    Python workers that run on this interpreter get the daemon that spares them imports, unless the builder has one.
    `options` are options of the catalog, `token="…"` for example; those with a dot are given as `**{"storage.aws_region": "…"}`.
    `Unsupported` beside a Spark that runs without the jar, and would take no notice of it.
    """
    prepare()
    _check_running(str(jar()))
    # PySpark offers no way to read what a builder was given, and jars and extensions are added to those of others.
    known = dict(getattr(builder, "_options", {}))
    if _DAEMON not in known and _WORKER_PYTHON not in known and os.environ[PYTHON] == sys.executable:
        builder = builder.config(_DAEMON, DAEMON_MODULE)
    for name, value in settings(lake, catalog=catalog, **options).items():
        others = known.get(name) if name in {_JARS, _EXTENSIONS} else None
        builder = builder.config(name, f"{others},{value}" if others and value not in others.split(",") else value)
    return builder


def _check_running(jar_path: str) -> None:
    running = SparkContext._active_spark_context  # noqa: SLF001 - PySpark offers no other way to ask
    if running is not None and jar_path not in (running.getConf().get(_JARS) or "").split(","):
        raise Unsupported(
            f"a Spark session is running without the connector, and takes no jar any more; expected spark.stop() before, or {_JARS}={jar_path}"
            " among the settings that it is started with"
        )
