"""Vacuum: old snapshots expire, and what no remaining snapshot needs is removed (decision 19).

In this order, so that a run that dies at any point leaves nothing half readable and the next one goes on: say which
snapshots expire, see who reads them, trim the partition tables, remove the directories of partitions that are gone,
remove the snapshots themselves.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial

import pyarrow as pa

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.commits.commit import OLD_SECONDS
from lance_flight.catalog.maintenance.reports import OperationReport
from lance_flight.catalog.maintenance.sweep import Expiry, Pins, Sweep, SweepTotals, expire, pins_of
from lance_flight.catalog.storage.leases import GRACE, INTERVAL, clock_of, leases
from lance_flight.catalog.storage.reserve import last_full, run_with_reserve
from lance_flight.catalog.storage.store import HERE, Store
from lance_flight.catalog.storage.version_files import LocationGuard
from lance_flight.catalog.table import Table
from lance_flight.errors import Conflict, LanceFlightError, Refused, StorageFull
from lance_flight.faults import failpoint
from lance_flight.model.naming import MANIFEST, is_table_directory
from lance_flight.model.operations import check_least

HOUR = 3600.0
FLOOR_HOURS = 7 * 24.0
TRANSACTION_HOURS = 24.0
TRANSACTION_FLOOR_HOURS = 2 * OLD_SECONDS / HOUR
"""Less only by force: a transaction looks for its files before it commits from half of this age on, and a commit takes some time."""
RENEWED_SECONDS = INTERVAL + 2
"""Within which each process renews its leases."""
WORKERS = 4

_A_LINK = "a symbolic link, which is not followed"
_FLOATS = "a snapshot reads whatever is its newest version"


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumRules:
    """Rules for what vacuum may remove.

    Snapshots that have not been the newest for `retain_hours`, and what was written `transaction_hours` ago and never became
    visible: no transaction may take longer. Less than `FLOOR_HOURS`, and than `TRANSACTION_FLOOR_HOURS`, only by `force`.
    """

    retain_hours: float = FLOOR_HOURS
    transaction_hours: float = TRANSACTION_HOURS
    force: bool = False
    dry_run: bool = False

    def check(self) -> VacuumRules:
        """Return these rules; `InvalidInput` or `Refused` for those that may not be."""
        check_least(0, retain_hours=self.retain_hours, transaction_hours=self.transaction_hours)
        if self.retain_hours < FLOOR_HOURS and not self.force:
            raise Refused(
                f"snapshots are kept for {FLOOR_HOURS:g} hours, got {self.retain_hours:g}: readers without a lease"
                " may need them; force it where there are none"
            )
        if self.transaction_hours < TRANSACTION_FLOOR_HOURS and not self.force:
            raise Refused(
                f"what is not committed is kept for {TRANSACTION_FLOOR_HOURS:g} hours, got {self.transaction_hours:g}:"
                " transactions in progress may commit it; force it where nothing is written"
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """One thing that went: `snapshots`, `versions` of a table with their files, or a `directory`."""

    kind: str
    name: str
    amount: SweepTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A table or directory that was left as it is."""

    name: str
    why: str


VACUUM_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.utf8(), nullable=False),
        pa.field("name", pa.utf8()),
        pa.field("versions", pa.int64()),
        pa.field("files", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("note", pa.utf8()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport(OperationReport):
    """Report of vacuum: what it removed, or would (`dry_run`), what it could not read, how many snapshots stay, and why nothing went ("": something did)."""

    dry_run: bool
    snapshots: int
    removed: tuple[Removed, ...]
    skipped: tuple[Skipped, ...] = ()
    why_nothing: str = ""

    @property
    def as_table(self) -> pa.Table:
        """One row for each thing that went, and for each that was left."""
        rows = [{"kind": entry.kind, "name": entry.name, **asdict(entry.amount)} for entry in self.removed]
        rows += [{"kind": "nothing", "note": self.why_nothing}] if self.why_nothing else []
        rows += [{"kind": "skipped", "name": entry.name, "note": entry.why} for entry in self.skipped]
        return pa.Table.from_pylist(rows, schema=VACUUM_SCHEMA)

    @property
    def without_counts(self) -> pa.Table:
        kinds = dict.fromkeys(self.as_table["kind"].to_pylist())
        return pa.Table.from_pylist([{"kind": kind} for kind in kinds], schema=VACUUM_SCHEMA)

    @property
    def lines(self) -> list[str]:
        expired = sum(entry.amount.versions for entry in self.removed if entry.kind == "snapshots")
        goes = "would go" if self.dry_run else "removed"
        total = f"{self.total.files:,} files with {self.total.bytes:,} bytes {goes}, {expired:,} snapshots among them"
        return [
            f"{total}; {self.snapshots:,} snapshots stay",
            *([f"  nothing     {self.why_nothing}"] if self.why_nothing else ()),
            *(
                f"  {entry.kind:9}  {entry.name}  {entry.amount.files:,} files, {entry.amount.bytes:,} bytes"
                for entry in (self.removed if self.dry_run else ())
            ),
            *(f"  left alone  {left.name}: {left.why}" for left in self.skipped),
        ]

    @property
    def total(self) -> SweepTotals:
        """All of it together."""
        return sum((entry.amount for entry in self.removed), SweepTotals())


def vacuum(
    namespace: Table,
    rules: VacuumRules | None = None,
    progress: Progress | None = None,
    *,
    now: float | None = None,
) -> VacuumReport:
    """Remove what the rules allow; readers of remaining snapshots, and holders of old ones, are not affected.

    `now` is in seconds since 1970, and compared to the times of files: the clock of what stores them, where none is given.
    A dry run, which writes nothing, takes this machine's.
    """
    rules = (rules or VacuumRules()).check()
    return run_with_reserve(namespace.store, partial(_vacuum, namespace, rules, progress, now), kept=0)


def _await_leases(store: Store, now: float) -> None:
    """Wait until readers have published what they read, if the disk had no room for that lately; `StorageFull` if it still has none."""
    last = last_full(store)
    if last < now - GRACE:
        return
    time.sleep(RENEWED_SECONDS)
    if last_full(store) > last:
        raise StorageFull(
            "no space is left for the root: readers cannot publish what they read; expected room to be made"
        )


def _vacuum(namespace: Table, rules: VacuumRules, progress: Progress | None, now: float | None) -> VacuumReport:
    # A manifest that lost its pins must not be taken for one that pins nothing.
    namespace.snapshot()
    leases.publish(namespace.store)
    history = namespace.log.store
    standing = LocationGuard.of(history, int(history.open().version))
    run = _Run(namespace.store, rules, standing, _now(namespace.store, rules) if now is None else now)
    retain = rules.retain_hours * HOUR
    if rules.force and not rules.dry_run:
        _await_leases(namespace.store, run.now)
    with expire(namespace.store, history, retain=retain, now=run.now, announce=not rules.dry_run) as expiry:
        failpoint("expiry_announced")
        if namespace.is_partitioned:
            run.tables(expiry, progress)
        failpoint("tables_trimmed")
        run.check()
        run.sweep("snapshots", MANIFEST if namespace.is_partitioned else HERE, expiry.kept, frozenset(expiry.expired))
        failpoint("snapshots_removed")
    return VacuumReport(
        dry_run=rules.dry_run,
        snapshots=len(expiry.kept),
        removed=tuple(sorted(run.removed, key=lambda item: (item.kind, item.name))),
        skipped=tuple(run.skipped),
        why_nothing="" if run.removed else _why_nothing(expiry, rules),
    )


def _why_nothing(expiry: Expiry, rules: VacuumRules) -> str:
    """Return why a vacuum has removed nothing: what keeps each snapshot, and files that nothing names."""
    reasons = [f"{count:,} snapshots {why}" for why, count in expiry.stay.items() if count]
    kept = "; ".join(reasons) or "there is no snapshot but the newest"
    return f"{kept}; no file is older than {rules.transaction_hours:g} hours (TRANSACTIONS) and part of no snapshot"


def _now(namespace: Store, rules: VacuumRules) -> float:
    return time.time() if rules.dry_run else clock_of(namespace)


@dataclass(slots=True)
class _Run:
    """One vacuum of one namespace."""

    store: Store
    rules: VacuumRules
    standing: LocationGuard
    now: float
    removed: list[Removed] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def before(self) -> float:
        return self.now - self.rules.transaction_hours * HOUR

    def check(self) -> None:
        """Refuse to continue if another table has the name by now: all of its partitions would be orphans."""
        if not self.standing.is_there:
            raise Conflict(f"table {self.store.name!r} was dropped or renamed by another writer")

    def tables(self, expiry: Expiry, progress: Progress | None) -> None:
        """Trim every partition table, and remove the directories of those that no snapshot knows any more."""
        kept = pins_of(self.store, expiry.kept)
        # What earlier ones pin goes by its age. Each is a version to be opened, and there may be very many.
        expired = pins_of(self.store, expiry.expired_since(self.before), are_expired=True)
        trimmed = list(self._locations_to_trim(kept))
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="vacuum") as pool:
            for number, _ in enumerate(pool.map(partial(self._trim, kept=kept, expired=expired), trimmed), 1):
                if progress is not None:
                    progress(number, len(trimmed))
        for name in self.store.directories():
            if name not in kept.locations and is_table_directory(name):
                self.directory(name, is_over=name in expired.locations)

    def sweep(
        self, kind: str, name: str, kept: frozenset[tuple[str | None, int]], over: frozenset[tuple[str | None, int]]
    ) -> None:
        """Trim one table, and record what was removed."""
        sweep = Sweep(store=self.store.child(name), kept=kept, over=over, before=self.before)
        amount = sweep.run(dry_run=self.rules.dry_run)
        if amount:
            self.removed.append(Removed(kind=kind, name=name, amount=amount))

    def directory(self, name: str, *, is_over: bool) -> None:
        """Remove a directory that is over, or in which nothing was written lately."""
        place = self.store.child(name)
        if place.is_link:
            self.skipped.append(Skipped(name=name, why=_A_LINK))
            return
        files = list(place.tree())
        if is_over or all(file.modified < self.before for file in files):
            amount = SweepTotals(files=len(files), bytes=sum(file.size for file in files))
            self.removed.append(Removed(kind="directory", name=name, amount=amount))
            if not self.rules.dry_run:
                self.check()
                place.remove()

    def _locations_to_trim(self, kept: Pins) -> Iterator[str]:
        for location in sorted(kept.locations):
            if location in kept.floating:
                self.skipped.append(Skipped(name=location, why=_FLOATS))
            elif self.store.child(location).is_link:
                self.skipped.append(Skipped(name=location, why=_A_LINK))
            else:
                yield location

    def _trim(self, location: str, *, kept: Pins, expired: Pins) -> None:
        stays = frozenset(kept.versions[location])
        try:
            self.sweep("versions", location, stays, frozenset(expired.versions.get(location, ())) - stays)
        except (LanceFlightError, OSError) as exc:
            # The others are none the worse for it, and what is left is found by the next run.
            self.skipped.append(Skipped(name=location, why=str(exc)))
