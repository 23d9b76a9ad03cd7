"""Versions of a Lance table as snapshots, their differences, and the loop by which every commit makes the next one.

A change is worked out on the newest snapshot, again and again until no other writer is first. Work that takes long from its snapshot to its
commit never is, beside a writer that commits all the time. It reserves the namespace instead: writers that see the note begin no commit until
it has gone, or its time is over. A reservation promises nothing: who does not know of it, or has waited for long enough, commits all the same,
and conflicts are found as ever.

Between two snapshots an object counts as changed on one side if its `__manifest` row is not that at the other. A namespace is rolled back
by what differs.

Spec: Partition Evolution, Schema; decision 19a.
"""

from __future__ import annotations

import json
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, Transaction

from lance_flight.catalog.manifests.manifest_rows import guard_row, notes_of
from lance_flight.catalog.manifests.snapshot import SCHEMA_KEY, Snapshot
from lance_flight.catalog.storage.durability import committing, flush, hold_place, settle
from lance_flight.catalog.storage.retries import COMMIT, conflicts, looks, retry
from lance_flight.catalog.storage.store import UNREADABLE, Store, unreadable
from lance_flight.catalog.storage.table_versions import LatestVersion, VersionFile
from lance_flight.errors import (
    Conflict,
    Corrupt,
    LanceFlightError,
    NotFound,
    OutcomeUnknown,
    SerializationFailure,
    Unsupported,
)
from lance_flight.faults import failpoint
from lance_flight.lru_cache import LruCache
from lance_flight.model.naming import BELOW_A_SPEC
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.schema_changes import widens
from lance_flight.model.spec import PartitionField, PartitionSpec

MOST_KEYS = 16
"""Of the snapshots of a table that were read last, each of which has one or two."""

Key: TypeAlias = tuple[int, datetime] | VersionFile
"""A version with the moment of its commit, or with its file: one of a table that was dropped and made again is another one."""


OPERATION = "lance_flight:operation"
TRANSACTIONS = "lance_flight:transactions"
_NEWEST = "newest version"
_MOST_NAMED = 10
"""Most versions that an error lists; of more it says the first and the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Changes of one commit to a snapshot: rows of `__manifest`, specs, another schema, notes of the guard row, metadata.

    `specs` are new ones, and those whose fields get other result types; the columns of `__manifest` get them too. The objects `removed` go.
    """

    operation: str
    rows: pa.Table | None = None
    removed: tuple[str, ...] = ()
    specs: tuple[PartitionSpec, ...] = ()
    schema: NamespaceSchema | None = None
    notes: Mapping[str, object] = field(default_factory=dict)
    further: Mapping[str, str] = field(default_factory=dict)
    """Further keys of table metadata that change in the same commit."""
    stated: Mapping[str, str] = field(default_factory=dict)
    """Table metadata that is set by itself, in a table whose rows cannot be written before it is."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """What is said of the commit beside its operation."""
    transactions: tuple[str, ...] = ()
    """Ids of the transactions in it, by which their commit is found again."""

    @property
    def metadata(self) -> dict[str, str]:
        """The keys of table metadata that change, with their new values."""
        changed = {**self.further, **{spec.key: spec.to_text() for spec in self.specs}}
        return changed if self.schema is None else changed | {SCHEMA_KEY: schema_text(self.schema)}

    def shown_on(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with these rows and this schema, which rows of the same commit are put on top of."""
        shown = snapshot if self.rows is None else snapshot.overlay(self.rows)
        return shown if self.schema is None else replace(shown, schema=self.schema)


Change = Callable[[Snapshot], Revision | None]
"""A change, worked out on the newest snapshot again and again until it is committed; None where there is nothing to do."""


def schema_text(schema: NamespaceSchema) -> str:
    """Return the schema as it stands in table metadata: compact JSON."""
    return json.dumps(schema.to_json(), separators=(",", ":"), ensure_ascii=False)


def namespace_metadata(spec: PartitionSpec, schema: NamespaceSchema) -> Mapping[str, str]:
    """Return what the table metadata of a new namespace says of its spec and schema."""
    return Revision(operation="create", specs=(spec,), schema=schema).metadata


class VersionLog(ABC):
    """The history of one table: each version of the Lance table at `store` is a snapshot. Safe to share among threads.

    `root` is the directory of the whole table, which messages name; `table_branch` the Lance branch of partition tables that
    writes go to. `place` is where the versions lie, if not at `store` itself.
    """

    def __init__(self, root: Store, store: Store, place: Store | None = None, table_branch: str | None = None) -> None:
        self.root = root
        self.store = store
        self.table_branch = table_branch
        self.place = store if place is None else place
        self._snapshots = LruCache[Key, Snapshot | NotFound](MOST_KEYS)
        self._newest = LatestVersion(self.place)

    @abstractmethod
    def parse(self, dataset: LanceDataset) -> Snapshot | NotFound:
        """Return what a version is: a snapshot, or why there is none."""

    @abstractmethod
    def make_visible(self, base: Snapshot, revision: Revision, mark: str) -> int | None:
        """Commit a revision of `base`, and return the version that shows it; it has the `mark` where it has no transactions.

        None where another writer was first, or something had to be added before; `OutcomeUnknown` where an object store did not say.
        """

    @abstractmethod
    def follow(self, snapshot: Snapshot) -> None:
        """Store in table metadata what a commit of rows recorded for it; a second caller has nothing to do."""

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Return the snapshot at `version`, or the newest one; parsed only when it is not in memory yet.

        `NotFound` where it is no table of this kind, which is kept in mind as well, `Corrupt` where it is broken.
        """
        if self.place.is_remote:
            return require_snapshot(self._remote_snapshot(version))
        self.store.check_links()
        file = self._newest.head() if version is None else self._newest.file(version)
        snapshot = None if file is None else self._snapshots.get(file)
        if snapshot is None:
            dataset = self._open_snapshot(version)
            snapshot = self._read(dataset)
            if file is not None and self._newest.file(int(dataset.version)) == file:
                self._snapshots.put(file, snapshot)
        return require_snapshot(snapshot)

    def _remote_snapshot(self, version: int | None) -> Snapshot | NotFound:
        """Return a version in an object store: the newest one is looked up once in a statement, and parsed when it is not in memory yet.

        Lance reads the names of the newest versions, with what tells each from one of a table that was made again in this place.
        """
        known = looks.recall(self.place.uri, _NEWEST)
        if version is None:
            key = looks.find(self.place.uri, _NEWEST, self._look) if known is None else known[0]
        elif known is not None and known[0][0] == version:
            key = known[0]
        else:
            key = None
        snapshot = None if key is None else self._snapshots.get(key)
        return self._read(self._open_snapshot(version)) if snapshot is None else snapshot

    @property
    def was_read(self) -> bool:
        """True once a version was read, so that one lies here unless the table was removed."""
        return len(self._snapshots) > 0

    def _look(self) -> Key:
        dataset = self._open_snapshot(None)
        self._read(dataset)
        return _key(dataset)

    def _open_snapshot(self, version: int | None) -> LanceDataset:
        """Return the Lance table of a snapshot; `NotFound` says which there are."""
        try:
            return self.open(version)
        except NotFound:
            known = [] if version is None else self._known_versions()
            if not known:
                raise
        there = f"those from {known[0]} to {known[-1]}" if len(known) > _MOST_NAMED else ", ".join(map(str, known))
        raise NotFound(f"table {self.root.name!r} has no snapshot of version {version}; expected one of {there}")

    def _known_versions(self) -> list[int]:
        """Return the versions that there are, for an error; none where one of them cannot be read."""
        try:
            return [number for number, _ in self.history()]
        except Corrupt:
            return []

    def open(self, version: int | None = None) -> LanceDataset:
        """Return the Lance table itself, at a version or at its newest."""
        return self._open_newest() if version is None else self.place.open(version)

    def open_known(self, version: int) -> LanceDataset:
        """Return the Lance table at the version that was the newest one a moment ago, for what it says of itself."""
        return self.place.open(version)

    def _open_newest(self) -> LanceDataset:
        known = self._newest.look()
        if known is not None:
            with suppress(NotFound):
                return self.open_known(known)
        began = self._newest.now()
        settle(self.place.uri)
        dataset = self.place.open()
        self._newest.saw(int(dataset.version), began)
        return dataset

    def _read(self, dataset: LanceDataset, read_before: Snapshot | NotFound | None = None) -> Snapshot | NotFound:
        """Return what a version is; `found`, or parsed, only when it is not in memory yet."""
        key = _key(dataset)
        known = self._snapshots.get(key)
        if known is None:
            known = read_before or self.parse(dataset)
            self._snapshots.put(key, known)
        return known

    def update_metadata(self, base: Snapshot, values: Mapping[str, str | None]) -> None:
        """Set table metadata, or raise `Conflict` if another writer set one of the same keys since `base`."""
        conflict = f"another writer changed the metadata of {self.root.name!r} first"
        with committing(self.place.uri, base.version), hold_place(self.store.uri), conflicts(conflict):
            self.open_same(base).update_metadata(dict(values))

    def open_same(self, base: Snapshot) -> LanceDataset:
        """Return the Lance table of a snapshot; `SerializationFailure` where another table has the place by now."""
        dataset = self.open(base.version)
        if dataset.get_version()["timestamp"].astimezone(UTC) != base.committed_at:
            raise SerializationFailure(f"table {self.root.name!r} was dropped or replaced by another writer")
        return dataset

    @contextmanager
    def changing_references(self, known: Snapshot) -> Iterator[LanceDataset]:
        """Yield the main branch for a change of its tags or branches, which is durable after the block; the table stays where it is.

        `SerializationFailure` where a snapshot that is `known` of it is not there: another table has the place by now.
        """
        with committing(self.store.uri, int(self.store.open().version)), hold_place(self.store.uri):
            self.open_same(known)
            yield self.store.open()

    def version_at(self, moment: datetime) -> int:
        """Return the newest version committed at `moment` (with a zone) or before."""
        known = [v for v, at in self.history() if at <= moment]
        if not known:
            raise NotFound(f"{self.root.name!r} has no snapshot as old as {moment.isoformat()}")
        return max(known)

    def history(self) -> list[tuple[int, datetime]]:
        """Return every version that is still there with the moment of its commit, oldest first."""
        try:
            versions = self.open().versions()
        except UNREADABLE as exc:
            place = self.root
            raise unreadable(
                exc, f"namespace {place.name!r} has a version that cannot be read: {place.words(exc)}"
            ) from exc
        return [(int(v["version"]), v["timestamp"].astimezone(UTC)) for v in versions]

    def operations(self, after: int = 0, until: int | None = None) -> dict[int, str]:
        """Return the operation of each version `after` one and `until` another (None: the newest), where it is recorded."""
        return {version: said[OPERATION] for version, said in self.properties(after, until) if OPERATION in said}

    def properties(self, after: int = 0, until: int | None = None) -> list[tuple[int, Mapping[str, str]]]:
        """Return the properties that writers gave the versions `after` one and `until` another, newest first."""
        return [
            (version, done.transaction_properties or {}) for version, done in transactions_of(self.open(until), after)
        ]

    def rows_at(self, version: int) -> pa.Table:
        """Return all rows of one version, whether or not it was a partitioned namespace by then."""
        return self.open(version).to_table()

    def note_commit(self, base: Snapshot, transaction: str) -> int | None:
        """Return the version after `base` that a transaction became visible in, durable by now: its answer was lost, or came twice.

        None where it did not. `OutcomeUnknown` where it cannot be known.
        """
        place = self.root
        try:
            committed = find_commit(self.open(), base.version, transaction)
            flush(self.place.uri)
        except NotFound:
            return None
        except (LanceFlightError, *UNREADABLE) as exc:
            raise OutcomeUnknown(
                f"a commit to {place.name!r} failed, and what came of it cannot be read: {place.words(exc)}"
            ) from exc
        return committed


def _key(dataset: LanceDataset) -> Key:
    return int(dataset.version), dataset.get_version()["timestamp"]


def transactions_of(head: LanceDataset, after: int) -> Iterator[tuple[int, Transaction]]:
    """Yield Lance's transactions of the versions `after` one, newest first, with their versions; those that are still known."""
    transactions = head.get_transactions(max(int(head.version) - after, 0))
    newest_first = zip(range(int(head.version), after, -1), transactions, strict=False)
    yield from ((version, done) for version, done in newest_first if done is not None)


def find_commit(head: LanceDataset, after: int, transaction: str) -> int | None:
    """Return the version `after` another whose commit has one of our transactions in it, if there is one."""
    for version, done in transactions_of(head, after):
        if transaction in (done.transaction_properties or {}).get(TRANSACTIONS, "").split(","):
            return version
    return None


def said_of(operation: str, transactions: Sequence[str]) -> dict[str, str]:
    """Return the properties of a commit that tell what it did, and which of our transactions are in it."""
    return {OPERATION: operation, TRANSACTIONS: ",".join(transactions)}


def require_snapshot(snapshot: Snapshot | NotFound) -> Snapshot:
    """Return a snapshot that is one; `NotFound` for a version that is none."""
    if isinstance(snapshot, NotFound):
        raise NotFound(str(snapshot))
    return snapshot


class Versioned(Protocol):
    """State that a change is worked out on: a snapshot, or the list of a root."""

    @property
    def version(self) -> int:
        """Its version, which a change that has nothing to do returns."""
        ...


State = TypeVar("State", bound=Versioned)
Revision_contra = TypeVar("Revision_contra", contravariant=True)
Base_contra = TypeVar("Base_contra", bound=Versioned, contravariant=True)
Revised = TypeVar("Revised")


class Log(Protocol[Base_contra, Revision_contra]):
    """Log that is committed to, version by version."""

    @property
    def root(self) -> Store:
        """The directory that errors name."""
        ...

    def make_visible(self, base: Base_contra, revision: Revision_contra, mark: str) -> int | None:
        """Commit on top of exactly `base`, and return the version in which it is visible, whatever answer came.

        None where another writer was first; `OutcomeUnknown` where an object store did not say.
        """
        ...


def commit(
    log: Log[State, Revised],
    change: Callable[[State], Revised | None],
    newest: Callable[[], State],
    attempting: Callable[[int], AbstractContextManager[object]] = nullcontext,
) -> int:
    """Commit what `change` makes of the `newest` state, and return the version in which it is visible.

    It is worked out again on each newer state after a `Conflict`. None changes nothing; `SerializationFailure` says that it cannot
    be worked out any more. Each attempt runs within `attempting`, which is called with its number.
    """
    mark = secrets.token_hex(16)

    def attempt(number: int) -> int | None:
        with attempting(number):
            base = newest()
            try:
                revision = change(base)
                return base.version if revision is None else log.make_visible(base, revision, mark)
            except SerializationFailure:
                raise
            except Conflict:
                return None

    return retry(COMMIT, log.root.name, attempt)


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
def reserve_turn(log: VersionLog, seconds: float) -> Iterator[str]:
    """Keep other writers from beginning commits during the block; yields the name by which commits in the block pass.

    The reservation lasts for about `seconds`, `LEAST_SECONDS` to `MOST_SECONDS`, and no longer than the block.
    """
    holder = secrets.token_hex(8)
    bounded = min(max(seconds, LEAST_SECONDS), MOST_SECONDS)
    note = asdict(Reservation(holder=holder, since=time.time(), seconds=bounded))
    commit(log, lambda _: Revision(operation="reserve the next commit", notes={NOTE: note}), log.snapshot)
    try:
        yield holder
    finally:
        # Where it stays, writers wait until its time is over.
        with suppress(LanceFlightError, *UNREADABLE):
            commit(log, partial(_release_turn, holder), log.snapshot)


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
        reservation = reservation_of(log.snapshot())
        if reservation is None or reservation.holder == holder:
            return
        age = time.time() - reservation.since
        # The clock of the holder may be another one: one that is far ahead would keep others waiting after it has died.
        if not -MOST_SECONDS <= age <= reservation.seconds or time.monotonic() > began + reservation.seconds:
            return
        time.sleep(TICK)


def _release_turn(holder: str, snapshot: Snapshot) -> Revision | None:
    reservation = reservation_of(snapshot)
    is_mine = reservation is not None and reservation.holder == holder
    return Revision(operation="release the reservation", notes={NOTE: None}) if is_mine else None


UNRESERVED_ATTEMPTS = 2
"""After so many attempts that came too late others are asked to wait."""


def evolve(log: VersionLog, change: Change, newest: Callable[[], Snapshot]) -> int:
    """Commit a change of specs, schema or notes, and return the version in which it is visible.

    `newest` gives a snapshot that is ready for our writes. Beside others who are always first the namespace is reserved.
    """
    seconds, is_changed = 0.0, False

    @contextmanager
    def attempting(number: int) -> Iterator[None]:
        nonlocal seconds
        wait_for_release(log)
        began = time.monotonic()
        with reserve_turn(log, 2 * seconds) if number >= UNRESERVED_ATTEMPTS else nullcontext():
            yield
        seconds = time.monotonic() - began

    def changed(snapshot: Snapshot) -> Revision | None:
        nonlocal is_changed
        revision = change(snapshot)
        is_changed = revision is not None
        return revision

    version = commit(log, changed, newest, attempting)
    if is_changed:
        # The change is committed, whatever comes of this: the next writer finds what is still missing.
        with suppress(LanceFlightError, *UNREADABLE):
            failpoint("evolved")
            log.follow(log.snapshot())
    return version


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of two snapshots: `rows` to insert, and the objects `removed`."""

    rows: pa.Table
    removed: tuple[str, ...]

    @classmethod
    def between(cls, before: Snapshot, after: Snapshot) -> Difference:
        """Return the difference from `before` to `after`, in the columns of `before`, without rows of objects below no spec.

        Columns that have a wider type in `after` have it here, too.
        """
        columns = pa.schema([_wider(field, after.rows.schema) for field in before.rows.schema])
        old, new = (conform_rows(_ours(snapshot.rows), columns) for snapshot in (before, after))
        place = pc.index_in(new["object_id"], value_set=old["object_id"])
        known = place.is_valid().to_numpy()
        differs = ~known
        differs[known] = _differing_rows(old.take(place.drop_null()), new.filter(pa.array(known)))
        gone = pc.invert(pc.is_in(old["object_id"], value_set=new["object_id"]))
        return cls(new.filter(pa.array(differs)), tuple(old["object_id"].filter(gone).to_pylist()))

    def only(self, object_ids: Collection[str]) -> Difference:
        """Return what there is to do to some objects."""
        mine = pc.is_in(self.rows["object_id"], value_set=pa.array(object_ids, pa.utf8()))
        return Difference(self.rows.filter(mine), tuple(name for name in self.removed if name in object_ids))

    @property
    def tables(self) -> list[str]:
        """The partition tables among the rows to insert."""
        ids: list[str] = self.rows.filter(pc.equal(self.rows["object_type"], "table"))["object_id"].to_pylist()
        return ids

    @property
    def object_ids(self) -> list[str]:
        """All objects that differ."""
        return [*self.rows["object_id"].to_pylist(), *self.removed]


def _ours(rows: pa.Table) -> pa.Table:
    """Return the rows below a spec: those of the specs themselves are never taken from one snapshot to another."""
    return rows.filter(pc.match_substring_regex(rows["object_id"], BELOW_A_SPEC)).combine_chunks()


def _wider(column: pa.Field, others: pa.Schema) -> pa.Field:
    """Return a column with the type that its namesake among others has, where that holds more values."""
    kind = others.field(column.name).type if column.name in others.names else column.type
    return column.with_type(kind) if widens(column.type, kind) else column


def conform_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with other columns: NULL where they lack one."""
    names = rows.column_names
    columns = [rows[f.name].cast(f.type) if f.name in names else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _differing_rows(left: pa.Table, right: pa.Table) -> np.ndarray:
    """Return where the rows of two tables differ in any column; NULL equals NULL."""
    differs = np.zeros(left.num_rows, bool)
    for a, b in zip(left.columns, right.columns, strict=True):
        if pa.types.is_nested(a.type):
            # Arrow compares none of these, and our own writes leave them NULL.
            differs |= np.array([x != y for x, y in zip(a.to_pylist(), b.to_pylist(), strict=True)], bool)
        else:
            same = pc.or_(pc.fill_null(pc.equal(a, b), fill_value=False), pc.and_(a.is_null(), b.is_null()))
            differs |= ~same.to_numpy()
    return differs


def back_to(old: Snapshot) -> Change:
    """Return the change that makes the newest snapshot equal to `old`.

    Partitions created since then go.

    Its columns come back with it, and the result types of partition fields over them. Specs are never taken back: those
    that are newer stay. What others commit at the same
    moment comes after it: appends go on top of the old pins.
    """

    def change(newest: Snapshot) -> Revision | None:
        specs = _retype_specs(old, newest)
        _check_specs(old, specs)
        _check_values(old, newest)
        difference = Difference.between(newest, old)
        _refuse_floating(difference, old)
        is_same = newest.schema.is_described_as(old.schema)
        if is_same and not difference.object_ids:
            return None
        return Revision(
            operation=f"rollback to {old.version}",
            specs=tuple(spec for spec, now in zip(specs, newest.specs, strict=True) if spec != now),
            schema=None if is_same else old.schema.after(newest.schema),
            rows=difference.rows,
            removed=difference.removed,
        )

    return change


def _retype_specs(old: Snapshot, newest: Snapshot) -> tuple[PartitionSpec, ...]:
    """Return the newest specs with the result types that their fields have over the old columns."""
    known = {field.field_id: field.result_type for spec in old.specs for field in spec.fields}

    def retyped(field: PartitionField) -> PartitionField:
        kind = known.get(field.field_id)
        return field.following(newest.schema, old.schema) if kind is None else replace(field, result_type=kind)

    return tuple(replace(spec, fields=tuple(map(retyped, spec.fields))) for spec in newest.specs)


def _check_specs(old: Snapshot, specs: Sequence[PartitionSpec]) -> None:
    """Refuse a snapshot under specs that are none of the newest ones: its rows may mean something else there."""
    if old.specs != specs[: len(old.specs)]:
        then, now = (", ".join(spec.to_text() for spec in partition_specs) for partition_specs in (old.specs, specs))
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
