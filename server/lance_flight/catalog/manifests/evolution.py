"""Commits of specs, schema and properties: numbers reserved for them, and a namespace rolled back.

Work that takes long from its snapshot to its commit never is the first one beside a writer that commits all the time. It reserves
the namespace instead: writers that see the note begin no commit until it has gone, or its time is over. A reservation promises
nothing: who does not know of it, or has waited for long enough, commits all the same, and conflicts are found as ever.

Spec: Partition Evolution, Schema; decision 19a. New manifest columns come first, where nobody looks at them; the commit
point notes the new metadata in the guard row (`pending.py`); the table metadata follows.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.manifests.guard_notes import noted, notes_of, with_note
from lance_flight.catalog.manifests.manifest import Manifest, partition_columns
from lance_flight.catalog.manifests.manifest_rows import guard_row, version_rows
from lance_flight.catalog.manifests.row_commits import Difference, commit_rows
from lance_flight.catalog.manifests.snapshot import SCHEMA_KEY, Snapshot
from lance_flight.catalog.manifests.version_log import VersionLog
from lance_flight.catalog.storage.retries import COMMIT, retry
from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.errors import Conflict, LanceFlightError, Unsupported
from lance_flight.faults import failpoint
from lance_flight.model.naming import spec_namespace
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionField, PartitionSpec

NOTE = "lance_flight:reserved"
LEAST_SECONDS = 1.0
MOST_SECONDS = 30.0
"""A holder that dies has others wait for that long at most; one that lives releases it as soon as it has committed."""
TICK = 0.05
"""Seconds between two looks of a writer that waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Reservation of a namespace: its holder, its begin (seconds since 1970), and its length in seconds."""

    holder: str
    since: float
    seconds: float


@contextmanager
def reserved(manifest: Manifest, seconds: float) -> Iterator[str]:
    """Keep other writers from beginning commits during the block; yields the name by which commits in the block pass.

    The reservation lasts for about `seconds`, `LEAST_SECONDS` to `MOST_SECONDS`, and no longer than the block.
    """
    holder = secrets.token_hex(8)
    bounded = min(max(seconds, LEAST_SECONDS), MOST_SECONDS)
    note = asdict(Reservation(holder=holder, since=time.time(), seconds=bounded))
    commit_rows(manifest, lambda snapshot: _with_reservation(snapshot, note), "reserve the next commit")
    try:
        yield holder
    finally:
        # Where it stays, writers wait until its time is over.
        with suppress(LanceFlightError, *UNREADABLE):
            commit_rows(manifest, partial(_released, holder), "release the reservation")


def reservation_of(snapshot: Snapshot) -> Reservation | None:
    """Return the reservation that a snapshot tells of."""
    note = notes_of(guard_row(snapshot)).get(NOTE)
    match note:
        case {"holder": str(holder), "since": int() | float() as since, "seconds": int() | float() as seconds}:
            return Reservation(holder=holder, since=since, seconds=min(seconds, MOST_SECONDS))
    return None


def wait_for_release(log: VersionLog, holder: str | None = None) -> None:
    """Wait while another writer than `holder` has reserved the namespace, and no longer than the reservation lasts."""
    began = time.monotonic()
    while True:
        found = reservation_of(log.snapshot())
        if found is None or found.holder == holder:
            return
        age = time.time() - found.since
        # The clock of the holder may be another one: one that is far ahead would keep others waiting after it has died.
        if not -MOST_SECONDS <= age <= found.seconds or time.monotonic() > began + found.seconds:
            return
        time.sleep(TICK)


def _with_reservation(snapshot: Snapshot, note: object) -> Difference:
    return Difference(with_note(guard_row(snapshot), NOTE, note), ())


def _released(holder: str, snapshot: Snapshot) -> Difference:
    found = reservation_of(snapshot)
    if found is None or found.holder != holder:
        return Difference(snapshot.rows.slice(0, 0), ())
    return _with_reservation(snapshot, None)


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


def back_to(old: Snapshot) -> Callable[[Snapshot], Evolution | None]:
    """Return the change that makes the newest snapshot equal to `old` (`evolution.Change`).

    Partitions created since then go.

    Its columns come back with it, and the result types of partition fields over them. Specs are never taken back: those
    that are newer stay. What others commit at the same
    moment comes after it: appends go on top of the old pins.
    """

    def change(newest: Snapshot) -> Evolution | None:
        specs = _retyped(old, newest)
        _check_specs(old, specs)
        _check_values(old, newest)
        difference = Difference.between(newest, old)
        _refuse_floating(difference, old)
        is_same = newest.schema.is_described_as(old.schema)
        if is_same and not difference.object_ids:
            return None
        return Evolution(
            operation=f"rollback to {old.version}",
            specs=tuple(spec for spec, now in zip(specs, newest.specs, strict=True) if spec != now),
            schema=None if is_same else old.schema.after(newest.schema),
            rows=difference.rows,
            removed=difference.removed,
        )

    return change


def _retyped(old: Snapshot, newest: Snapshot) -> tuple[PartitionSpec, ...]:
    """Return the newest specs with the result types that their fields have over the old columns."""
    known = {each.field_id: each.result_type for spec in old.specs for each in spec.fields}

    def retyped(field: PartitionField) -> PartitionField:
        kind = known.get(field.field_id)
        return field.following(newest.schema, old.schema) if kind is None else replace(field, result_type=kind)

    return tuple(replace(spec, fields=tuple(map(retyped, spec.fields))) for spec in newest.specs)


def _check_specs(old: Snapshot, specs: Sequence[PartitionSpec]) -> None:
    """Refuse a snapshot under specs that are none of the newest ones: its rows may mean something else there."""
    if old.specs != specs[: len(old.specs)]:
        then, now = (", ".join(spec.to_text() for spec in found) for found in (old.specs, specs))
        raise Unsupported(
            f"snapshot {old.version} cannot be brought back: its partition specs were {then}; the newest are {now}"
        )


def _check_values(old: Snapshot, newest: Snapshot) -> None:
    """Refuse a snapshot whose rows may lie under other values than theirs, where the newest one promises that none does."""
    if old.doubtful_fields and not newest.doubtful_fields:
        raise Unsupported(
            f"snapshot {old.version} cannot be brought back: rows of it may be in partitions of other values"
            f" ({', '.join(sorted(old.doubtful_fields))}), which the table has been migrated away from; expected its rows to be read from it and"
            " written anew"
        )


def _refuse_floating(difference: Difference, old: Snapshot) -> None:
    """Refuse tables without a pin: they are read at the newest version, which may differ from that of the time."""
    rows = difference.rows
    floats = pc.and_(
        pc.equal(rows["object_type"], "table"), pc.and_(rows["read_version"].is_null(), rows["read_tag"].is_null())
    )
    floating = rows["object_id"].filter(floats)
    if len(floating):
        raise Unsupported(
            f"snapshot {old.version} cannot be brought back: partition table {floating[0].as_py()!r} had no fixed version in it"
        )
