"""`configure`: a session of Spark's with the connector and a catalog."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from lance_flight_client.spark.connector.jars import jar
from lance_flight_client.spark.machine import prepare

CATALOG_CLASS = "lanceflight.spark.LanceFlightCatalog"
_JARS = "spark.jars"

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
        **PLANNING,
        name: CATALOG_CLASS,
        **{f"{name}.{option}": value for option, value in given.items()},
    }


def configure(
    builder: SparkSession.Builder, *, lake: str, catalog: str = "lake", **options: str
) -> SparkSession.Builder:
    """Give a builder the connector's jar, a catalog over `lake` (a root, or `grpc://host:port`), and the settings they need.

    `options` are options of the catalog, `token="…"` for example; those with a dot are given as `**{"storage.aws_region": "…"}`.
    """
    prepare()
    # PySpark offers no way to read what a builder was given, and jars are added to those of others.
    jars = getattr(builder, "_options", {}).get(_JARS)
    for name, value in settings(lake, catalog=catalog, **options).items():
        builder = builder.config(name, f"{jars},{value}" if name == _JARS and jars else value)
    return builder
