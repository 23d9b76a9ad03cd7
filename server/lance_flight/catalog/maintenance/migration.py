"""Migration of the specs and the schema of a namespace to the place that the spec demands, in one commit.

What stands in the other places is left there, and counts no more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_flight.catalog.manifests.properties import Misplaced
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.storage.retries import COMMIT, retry
from lance_flight.errors import Conflict, Unsupported

MIGRATION_SCHEMA = pa.schema(
    [
        pa.field("key", pa.utf8(), nullable=False),
        pa.field("found_in", pa.utf8(), nullable=False),
        pa.field("value", pa.utf8(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationReport:
    """Report of a migration: properties for the table metadata, and where each was; with `dry_run` nothing changed."""

    dry_run: bool
    moved: tuple[Misplaced, ...]

    @property
    def rows(self) -> pa.Table:
        """One row for each key."""
        rows = [{"key": p.key, "found_in": p.place.value, "value": compact(p.text)} for p in self.moved]
        return pa.Table.from_pylist(rows, schema=MIGRATION_SCHEMA)


def migrate(namespace: PartitionedNamespace, *, dry_run: bool = False) -> MigrationReport:
    """Move specs and schema into the table metadata, unless they are there; raise `Corrupt` if they cannot be read.

    A concurrent migration wins or loses as a whole.
    """
    if namespace.branch is not None:
        raise Unsupported(f"branch {namespace.branch.name!r} is not migrated by itself; only its table can be")

    def migrated(_: int) -> MigrationReport:
        snapshot = namespace.snapshot()
        moved = snapshot.misplaced
        if moved and not dry_run:
            namespace.manifest.update_metadata(snapshot, _values(moved))
        return MigrationReport(dry_run=dry_run, moved=moved)

    return retry(COMMIT, namespace.store.name, migrated, on=Conflict)


def compact(text: str) -> str:
    """Return JSON as it is stored: without spaces, and without members that are `null`.

    >>> compact('{"id": 1, "fields": [{"transform": {"type": "year", "width": null}}]}')
    '{"id":1,"fields":[{"transform":{"type":"year"}}]}'
    """
    return json.dumps(_without_nulls(json.loads(text)), separators=(",", ":"), ensure_ascii=False)


def _values(moved: Sequence[Misplaced]) -> dict[str, str | None]:
    return {prop.key: compact(prop.text) for prop in moved}


def _without_nulls(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_nulls(member) for key, member in value.items() if member is not None}
        case list():
            return [_without_nulls(member) for member in value]
        case _:
            return value
