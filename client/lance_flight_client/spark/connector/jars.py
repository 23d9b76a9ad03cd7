"""Jars of the connector: one for each minor version of Spark that it is built for."""

from __future__ import annotations

from pathlib import Path

import pyspark
from lance_flight.errors import Unsupported

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
