"""Results and plans of the connector's catalogs, in forms that tests compare."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame

from tests.selection import IS_FULL

CATALOGS = ("lake", "far")
"""The catalogs of the fixture `sql`: over the root, and over its server."""

IN_SPARK = CATALOGS if IS_FULL else CATALOGS[:1]
"""Those that statements are run over in Spark: what differs between them is planned in Python, and tested without a JVM."""


def texts(rows: Iterable[Sequence[object]]) -> list[str]:
    """Rows in an order, as texts: a NaN is no other value than itself there."""
    return sorted(repr(tuple(row)) for row in rows)


def values(found: DataFrame) -> list[str]:
    return texts(found.collect())


def plan_of(found: DataFrame) -> str:
    return str(found._jdf.queryExecution().executedPlan().toString())


def pushed(found: DataFrame) -> str:
    (filters,) = re.findall(r"filters=\[(.*?)\] ", plan_of(found))
    return str(filters)
