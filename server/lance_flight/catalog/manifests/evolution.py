"""Changes of specs and schema: one commit of `__manifest` rows, together with the pins that go with them.

Spec: Partition Evolution, Schema; decision 19a. New manifest columns come first, where nobody looks at them; the commit
point notes the new metadata in the guard row (`pending.py`); the table metadata follows.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field

import pyarrow as pa

from lance_flight.catalog.manifests.guard_notes import with_note
from lance_flight.catalog.manifests.manifest import Manifest, partition_columns
from lance_flight.catalog.manifests.new_partitions import guard_row, version_rows
from lance_flight.catalog.manifests.pending import noted
from lance_flight.catalog.manifests.properties import SCHEMA_KEY
from lance_flight.catalog.manifests.reservations import reserved, wait_for_release
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.storage.retries import COMMIT, retry
from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.errors import Conflict, LanceFlightError
from lance_flight.faults import failpoint
from lance_flight.model.naming import spec_namespace
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionSpec

UNRESERVED_ATTEMPTS = 2
"""After so many attempts that came too late others are asked to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolution:
    """Metadata changes of one commit: specs, another schema, notes of the guard row, and rows of `__manifest`.

    `specs` are new ones, and those whose fields get other result types; the columns of `__manifest` get them too.
    """

    operation: str
    specs: tuple[PartitionSpec, ...] = ()
    schema: NamespaceSchema | None = None
    rows: pa.Table | None = None
    removed: tuple[str, ...] = ()
    notes: Mapping[str, object] = field(default_factory=dict)
    further: Mapping[str, str] = field(default_factory=dict)
    """Further keys of table metadata that change in the same commit."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """What is said of the commit beside its operation."""

    @property
    def metadata(self) -> dict[str, str]:
        """The keys of table metadata that change, with their new values."""
        changed = {**self.further, **{spec.key: spec.to_text() for spec in self.specs}}
        return changed if self.schema is None else changed | {SCHEMA_KEY: schema_text(self.schema)}


Change = Callable[[Snapshot], Evolution | None]


@dataclass(frozen=True, slots=True)
class Evolutions:
    """Carries changes out on one namespace; `newest` gives a snapshot that is ready for our writes."""

    manifest: Manifest
    newest: Callable[[], Snapshot] = field(repr=False)

    def commit(self, change: Change) -> int:
        """Commit what `change` makes of the newest snapshot, and return the version in which it is visible.

        It is worked out again on each newer snapshot after a conflict; None changes nothing. Beside others who are always
        first it reserves the namespace (`reservations.py`).
        """
        mark = secrets.token_hex(16)
        seconds = 0.0

        def committed(attempt: int) -> int | None:
            nonlocal seconds
            wait_for_release(self.manifest)
            began = time.monotonic()
            with reserved(self.manifest, 2 * seconds) if attempt >= UNRESERVED_ATTEMPTS else nullcontext():
                version = self._attempt(change, mark)
            seconds = time.monotonic() - began
            return version

        return retry(COMMIT, self.manifest.store.parent.name, committed)

    def _attempt(self, change: Change, mark: str) -> int | None:
        """Return the version in which the change is visible; None where another writer was first."""
        snapshot = self.newest()
        evolution = change(snapshot)
        if evolution is not None and self._add_columns(snapshot, evolution.specs):
            snapshot = self.newest()
            evolution = change(snapshot)
        if evolution is None:
            return snapshot.version
        version = self._commit(snapshot, evolution, mark)
        if version is not None:
            self._follow()
        return version

    def _follow(self) -> None:
        # The change is committed, whatever comes of this: the next writer finds what is still missing.
        with suppress(LanceFlightError, *UNREADABLE):
            failpoint("evolved")
            self.manifest.follow(self.manifest.snapshot())

    def _add_columns(self, snapshot: Snapshot, specs: Sequence[PartitionSpec]) -> bool:
        missing = [each for name, each in partition_columns(specs).items() if name not in snapshot.rows.column_names]
        if missing:
            try:
                self.manifest.add_columns(missing)
            except Conflict:
                # What is missing still shows in the next snapshot.
                return True
            failpoint("columns_added")
        return bool(missing)

    def _commit(self, snapshot: Snapshot, evolution: Evolution, mark: str) -> int | None:
        schema = snapshot.rows.schema
        columns = partition_columns(evolution.specs)
        if not set(columns) <= set(schema.names):
            return None
        if snapshot.pending:
            # The guard row has room for one note.
            return None
        changed = [schema.empty_table()]
        head = guard_row(snapshot)
        for key, note in evolution.notes.items():
            head = with_note(head, key, note)
        if evolution.metadata:
            head = noted(head, snapshot.metadata, evolution.metadata)
        if evolution.metadata or evolution.notes:
            changed.append(head)
        new = [spec for spec in evolution.specs if not snapshot.row(spec_namespace(spec.id)).num_rows]
        changed.append(version_rows(new, schema))
        if evolution.rows is not None:
            changed.append(evolution.rows)
        retyped = pa.schema([each.with_type(columns.get(each.name, each).type) for each in schema], schema.metadata)
        rows = pa.concat_tables([each.cast(retyped) for each in changed])
        return self.manifest.make_visible(
            snapshot,
            rows,
            evolution.operation,
            [mark],
            removed=evolution.removed,
            properties=evolution.properties,
        )


def schema_text(schema: NamespaceSchema) -> str:
    """Return the schema as it stands in table metadata: compact JSON."""
    return json.dumps(schema.to_json(), separators=(",", ":"), ensure_ascii=False)


def namespace_metadata(spec: PartitionSpec, schema: NamespaceSchema) -> Mapping[str, str]:
    """Return what the table metadata of a new namespace says of its spec and schema."""
    return Evolution(operation="create", specs=(spec,), schema=schema).metadata
