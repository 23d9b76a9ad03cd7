"""Tables that a statement of Spark's makes with rows in them, which are visible from their publication on, whole."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.statements.unpublished_table import UnpublishedTable
from lance_flight.errors import Conflict, Unsupported

from lance_flight_client.spark.connector.backends import RootBackend, SqlRunner
from lance_flight_client.spark.options import NamedTable
from lance_flight_client.spark.source import ReadPlan


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table of a root that is being made, in a private place (`relations.Relation`)."""

    name: str
    store: Store
    source: pa.Schema

    @property
    def takes_conditions(self) -> bool:
        return False

    def scan(self, columns: Sequence[str], condition: str | None) -> ReadPlan:
        raise Unsupported(f"table {self.name!r} is being made and cannot be read yet")


_STAGED: dict[str, UnpublishedTable] = {}
"""Tables that this process is making, by the keys that the JVM knows them by."""


def stage(backend: SqlRunner, name: NamedTable, statement: str) -> tuple[str, NewTable]:
    """Make a table by its CREATE TABLE, without its name; return the key by which it is ended, and what its rows are written to."""
    if not isinstance(backend, RootBackend):
        raise Unsupported(
            f"table {name.name!r} cannot be made with rows through a server; expected CREATE TABLE, and rows written to it afterwards"
        )
    key, made = secrets.token_hex(8), UnpublishedTable(backend.root, statement)
    _STAGED[key] = made
    return key, NewTable(name.name, made.table.store, made.table.snapshot().schema.plain)


def end(given: Mapping[str, Any]) -> None:
    """Publish a table, or discard it, as a request says; `Conflict` for the publication of one that this process does not know."""
    key, commit = given["staged"], given["commit"]
    made = _STAGED.get(key)
    if commit and made is None:
        raise Conflict("the connector's Python was started again while a table was made; run the statement again")
    if made is not None:
        # One that cannot be published stays until Spark has it discarded.
        (made.publish if commit else made.discard)()
        del _STAGED[key]
