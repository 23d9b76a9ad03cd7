"""Handles: values of this process that the JVM keeps, and brings along with its later requests."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, cast

from lance_flight_client.spark.connector.reading.portions import PICKLER
from lance_flight_client.spark.connector.reading.relations import Relation

Arguments = Mapping[str, Any]
"""Arguments of a request, as JSON has them."""


def pickled(value: Any) -> str:
    """Return a value for the JVM to keep."""
    return base64.b64encode(PICKLER.dumps(value)).decode()


def unpickled(handle: str) -> Any:
    """Return the value of a handle, which this process or one like it has made."""
    return PICKLER.loads(base64.b64decode(handle))


def relation_of(given: Arguments) -> Relation:
    """Return the relation that a request names by its handle."""
    return cast("Relation", unpickled(given["handle"]))
