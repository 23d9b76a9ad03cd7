"""Vacuum: old snapshots expire, and what no remaining snapshot needs is removed (decision 19).

In this order, so that a run that dies at any point leaves nothing half readable and the next one goes on: say which
snapshots expire, see who reads them, trim the partition tables, remove the directories of partitions that are gone,
remove the snapshots themselves.

Lance itself removes versions and what only they refer to; it keeps tagged ones, those that branches begin at, and the
newest. What it takes for a write in progress, for a week, is decided here by the age of the files: rows, deletions, segments
of indices that a build has left which was killed, transactions without a version, and versions that never got their name.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from math import inf
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.commits.commit import OLD_SECONDS
from lance_flight.catalog.maintenance import OperationReport
from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.manifests.references import replacement_of
from lance_flight.catalog.manifests.snapshot import BranchVersion, Version
from lance_flight.catalog.storage.durability import flush, take_back
from lance_flight.catalog.storage.leases import (
    CONFIRMED,
    EXPIRING,
    GRACE,
    INTERVAL,
    LEASES,
    SUFFIX,
    SnapshotId,
    clock_of,
    leased_snapshots,
    leases,
    make_private,
    snapshots_in,
    to_bytes,
)
from lance_flight.catalog.storage.retries import conflicts
from lance_flight.catalog.storage.staging_area import last_full, run_with_reserve
from lance_flight.catalog.storage.store import (
    HERE,
    UNREADABLE,
    BranchRef,
    Store,
    StoredFile,
    TagRef,
    branches_of,
    is_table_branch,
    open_branch,
)
from lance_flight.catalog.storage.table_versions import LocationGuard
from lance_flight.catalog.storage.whole_files import BRANCHES, INDICES, PRIVATE, VERSIONS, is_detached, parse_version
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.indices import all_segments
from lance_flight.errors import Conflict, InvalidInput, LanceFlightError, NotFound, Refused, StorageFull
from lance_flight.faults import failpoint
from lance_flight.model.naming import MANIFEST, is_table_directory
from lance_flight.model.operations import check_least

TRANSACTIONS = "_transactions"
LOOSE_FILES = frozenset({"data", "_deletions"})
"""Directories of a table whose files are written before they are part of a version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTotals:
    """Number of versions, files and bytes that are removed, or would be."""

    versions: int = 0
    files: int = 0
    bytes: int = 0

    def __add__(self, other: SweepTotals) -> SweepTotals:
        return SweepTotals(
            versions=self.versions + other.versions, files=self.files + other.files, bytes=self.bytes + other.bytes
        )

    def __bool__(self) -> bool:
        return self.files > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """A version of a table, and when it was written, in seconds since 1970."""

    id: SnapshotId
    modified: float
    size: int


class TableFiles:
    """The files of one table at one moment."""

    def __init__(self, files: Iterable[StoredFile]) -> None:
        self.files = tuple(files)

    @cached_property
    def chains(self) -> dict[str | None, list[StoredVersion]]:
        """The versions of each branch (None: the main one), oldest first."""
        by_branch: dict[str | None, list[StoredVersion]] = {}
        for file, branch in self._in({VERSIONS}):
            version = parse_version(file.path.rpartition("/")[2])
            if version is not None:
                stored = StoredVersion(id=(branch, version), modified=file.modified, size=file.size)
                by_branch.setdefault(branch, []).append(stored)
        return {branch: sorted(versions, key=lambda v: v.id[1]) for branch, versions in by_branch.items()}

    @property
    def has_detached(self) -> bool:
        """True if there are versions outside any branch, which cannot be followed here."""
        return any(is_detached(file.path.rpartition("/")[2]) for file, _ in self._in({VERSIONS}))

    def below(self, branch: str) -> list[StoredFile]:
        """Return everything that lies in the directory of a branch."""
        return [file for file in self.files if file.path.startswith(f"{BRANCHES}/{branch}/")]

    def loose(self, before: float) -> dict[str, StoredFile]:
        """Return data and deletion files written before a moment, by their names, which are random and never reused."""
        return {f.path.rpartition("/")[2]: f for f, _ in self._in(LOOSE_FILES) if f.modified < before}

    def drafts(self, before: float) -> list[StoredFile]:
        """Return the files of versions that have not got their name."""
        return [file for file, _ in self._in({VERSIONS}) if "#" in file.path and file.modified < before]

    def loose_transactions(self, before: float) -> dict[str, StoredFile]:
        """Return the transactions that may have no version, by their names, which say the version that each one goes on top of.

        The only one on top of a version that has a next one is taken for that one's: each version would have to be read to know.
        """
        by_snapshot: dict[SnapshotId, list[StoredFile]] = {}
        for file, branch in self._in({TRANSACTIONS}):
            base = file.path.rpartition("/")[2].partition("-")[0]
            if base.isdecimal():
                by_snapshot.setdefault((branch, int(base) + 1), []).append(file)
        there = {version.id for versions in self.chains.values() for version in versions}
        return {
            file.path.rpartition("/")[2]: file
            for version, files in by_snapshot.items()
            for file in files
            if file.modified < before and (len(files) > 1 or version not in there)
        }

    def segments(self, before: float) -> dict[str, list[StoredFile]]:
        """Return the files of segments of indices, by their ids, of those whose files were all written before a moment."""
        by_segment: dict[str, list[StoredFile]] = {}
        for file in self.files:
            above, _, below = f"/{file.path}".partition(f"/{INDICES}/")
            segment, _, name = below.partition("/")
            if name and (not above or above.startswith(f"/{BRANCHES}/")):
                by_segment.setdefault(segment, []).append(file)
        return {
            segment: files for segment, files in by_segment.items() if all(file.modified < before for file in files)
        }

    def _in(self, directories: AbstractSet[str]) -> Iterable[tuple[StoredFile, str | None]]:
        """Yield the files right in directories of these names, each with the branch that it belongs to."""
        prefix = f"{BRANCHES}/"
        for file in self.files:
            # Text and no paths: there may be 100,000 files.
            above, _, directory = file.path.rpartition("/")[0].rpartition("/")
            if directory in directories and not above:
                yield file, None
            elif directory in directories and above.startswith(prefix):
                yield file, above.removeprefix(prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Removal of unneeded versions and files of the table at `store`.

    `kept` are versions that stay. Of the others those go that are `over`, because they were visible once and are no
    more, and those written `before` a moment: younger ones may belong to a transaction that is still to commit.
    """

    store: Store
    kept: AbstractSet[SnapshotId]
    over: AbstractSet[SnapshotId]
    before: float

    def run(self, *, dry_run: bool) -> SweepTotals:
        """Take it away, or only say how much it would be."""
        # What a link leads to is not listed, and its versions would not keep the files that they name.
        self.store.check_links()
        if not dry_run:
            self._settle()
        listing = TableFiles(self.store.tree())
        dead = self._dead_files(listing)
        total = SweepTotals(files=len(dead), bytes=sum(file.size for file in dead))
        for branch, versions in listing.chains.items():
            if branch is not None and not any(version.id in self.kept for version in versions):
                total += self._drop(branch, versions, listing, dry_run=dry_run)
            else:
                total += self._trim(branch, versions, listing, dry_run=dry_run)
        if not dry_run:
            self.store.remove_files(file.path for file in dead)
        return total

    def _settle(self) -> None:
        """Take back what was staged when the power was cut: it is newer than any version that a snapshot ever pinned."""
        pinned = [version for branch, version in self.kept | self.over if branch is None]
        if pinned and not self.store.is_remote:
            take_back(self.store.uri, max(pinned))

    def _may_go(self, version: StoredVersion) -> bool:
        return version.id not in self.kept and (version.id in self.over or version.modified < self.before)

    def _dead_files(self, listing: TableFiles) -> list[StoredFile]:
        """Old files that no version refers to, the newest versions asked first."""
        loose, segments = listing.loose(self.before), listing.segments(self.before)
        if listing.has_detached:
            return []
        dead = [*listing.drafts(self.before), *self._dead_transactions(listing)]
        for version in reversed([version for versions in listing.chains.values() for version in versions]):
            if not loose and not segments:
                break
            names = self._names(version)
            if names is None:
                return dead
            loose = {name: file for name, file in loose.items() if name not in names}
            for segment in all_segments(self._at(version)) if segments else ():
                segments.pop(segment.uuid, None)
        return [*dead, *loose.values(), *(file for files in segments.values() for file in files)]

    def _dead_transactions(self, listing: TableFiles) -> Iterable[StoredFile]:
        """Old transactions that no version comes from; none where one of them cannot be asked."""
        loose = listing.loose_transactions(self.before)
        for version in reversed([version for versions in listing.chains.values() for version in versions]):
            if not loose:
                break
            try:
                done = self._at(version).read_transaction(version.id[1])
            except UNREADABLE:
                return []
            if done is not None:
                loose.pop(f"{done.read_version}-{done.uuid}.txn", None)
        return loose.values()

    def _drop(self, branch: str, versions: list[StoredVersion], listing: TableFiles, *, dry_run: bool) -> SweepTotals:
        """Remove a branch that no snapshot refers to any more; one that is not named like ours belongs to another writer."""
        if not is_table_branch(branch) or not all(map(self._may_go, versions)):
            return SweepTotals()
        newest = self.store.open()
        if any(reference["parent_branch"] == branch for reference in newest.branches.list().values()):
            return SweepTotals()
        files = listing.below(branch)
        if not dry_run:
            newest.branches.delete(branch)
        return SweepTotals(versions=len(versions), files=len(files), bytes=sum(file.size for file in files))

    def _trim(
        self, branch: str | None, versions: list[StoredVersion], listing: TableFiles, *, dry_run: bool
    ) -> SweepTotals:
        """Remove the versions of one branch that may go."""
        *older, newest = versions
        going = [version for version in older if self._may_go(version)]
        extra = SweepTotals()
        base = next((version for version in reversed(older) if version.id in self.kept), None)
        if base is not None and self._may_go(newest):
            only = self._only_in(newest, base, listing)
            if only and dry_run:
                extra = SweepTotals(
                    versions=1, files=1 + len(only), bytes=newest.size + sum(file.size for file in only)
                )
            elif only and self._restore(base):
                flush(self.store.uri)
                going.append(newest)
        if not going:
            return extra
        numbers = [version.id[1] for version in going]
        head = self._open(branch)
        if dry_run:
            stats = head.explain_cleanup_old_versions(versions=numbers, error_if_tagged_old_versions=False).stats
        else:
            stats = head.cleanup_old_versions(versions=numbers, error_if_tagged_old_versions=False)
        files = (
            stats.old_versions
            + stats.data_files_removed
            + stats.deletion_files_removed
            + stats.index_files_removed
            + stats.transaction_files_removed
        )
        return extra + SweepTotals(versions=stats.old_versions, files=files, bytes=stats.bytes_removed)

    def _only_in(self, newest: StoredVersion, base: StoredVersion, listing: TableFiles) -> list[StoredFile]:
        """The files that a dead newest version adds to the one below it that stays."""
        names, kept = self._names(newest), self._names(base)
        if names is None or kept is None:
            return []
        return [file for name, file in listing.loose(float("inf")).items() if name in names - kept]

    def _restore(self, base: StoredVersion) -> bool:
        """Restore a version as the newest, which cannot be removed; return whether no other writer committed meanwhile."""
        dataset = self._at(base)
        before = int(dataset.latest_version)
        with conflicts(f"another writer staged on {self.store.name!r} first"):
            dataset.restore()
        return int(dataset.version) == before + 1

    def _names(self, version: StoredVersion) -> set[str] | None:
        """Return the names of the files that a version refers to; None where it has files of kinds unknown here."""
        names = set()
        for fragment in self._at(version).get_fragments():
            if fragment.metadata.overlays:
                return None
            names |= {PurePosixPath(file.path).name for file in fragment.metadata.files}
            deletions = fragment.deletion_file()
            if deletions is not None:
                names.add(PurePosixPath(deletions).name)
        return names

    def _at(self, version: StoredVersion) -> LanceDataset:
        branch, number = version.id
        return partitions.open_at(self.store, Version(number) if branch is None else BranchVersion(branch, number))

    def _open(self, branch: str | None) -> LanceDataset:
        return self.store.open() if branch is None else open_branch(self.store, branch, None)


_PINNED = pa.schema(
    [("location", pa.utf8()), ("read_version", pa.uint64()), ("read_branch", pa.utf8()), ("read_tag", pa.utf8())]
)
STOPPED_SECONDS = 10 * GRACE
"""Age from which on an announcement that was never confirmed is that of a vacuum which died."""
FORGOTTEN_SECONDS = 24 * 3600.0
"""Age from which on a lease is removed: its process has ended, or writes another one when it goes on."""
_DISTINCT_ABOVE = 1 << 20  # rows that are gathered before repeats are taken out


@dataclass(frozen=True, slots=True)
class Pins:
    """Pins of some snapshots: by location, the fixed versions, and the locations that some row leaves floating."""

    versions: dict[str, set[SnapshotId]]
    floating: frozenset[str]

    @property
    def locations(self) -> set[str]:
        """Every location that is named."""
        return set(self.versions) | self.floating


@dataclass(frozen=True, slots=True)
class Expiry:
    """Snapshots to keep and to remove, these with the times of their commits; `stay` says how many stay for which reason, the newest of each branch aside."""

    kept: frozenset[SnapshotId]
    expired: Mapping[SnapshotId, float]
    stay: Mapping[str, int]

    def expired_since(self, moment: float) -> list[SnapshotId]:
        """Return the snapshots to remove that were committed at a moment or later: all that others pin is older than it."""
        return [snapshot for snapshot, committed in self.expired.items() if committed >= moment]


@contextmanager
def expire(
    namespace: Store, manifest: Store, *, retain: float, now: float, announce: bool, over: Collection[str] = ()
) -> Iterator[Expiry]:
    """Select the snapshots to expire, and announce them while the block runs; resume a run that died.

    `manifest` is the Lance table whose versions are the snapshots; the tags `over` keep nothing.

    A snapshot goes once it has not been the newest one of its branch for `retain` seconds (and `leases.GRACE` at
    least). Never the newest, one with a tag, one that a branch begins at, or one that a reader holds.
    """
    chains = TableFiles(manifest.tree()).chains
    committed = {version.id: version.modified for versions in chains.values() for version in versions}
    everything = committed.keys()
    newest = {versions[-1].id for versions in chains.values()}
    limit = now - max(retain, GRACE)
    old = {
        version.id
        for versions in chains.values()
        for version, successor in pairwise(versions)
        if successor.modified < limit
    }
    place = namespace.child(PRIVATE, EXPIRING)
    announced = list(place.tree())
    # What is announced already may be half removed: it is not read any more, however young it is.
    begun = snapshots_in(place, announced)
    # A lease on that is one which was renewed too late, by a process that was stopped: it protects nothing any more.
    confirmed = snapshots_in(place, (file for file in announced if file.path.endswith(CONFIRMED)))
    confirmed &= everything - newest
    candidates = (((old | begun) & everything) - newest - _anchored_snapshots(manifest, over)) | confirmed
    name = secrets.token_hex(8)
    if announce and candidates:
        make_private(namespace, EXPIRING)
        place.put(name + SUFFIX, to_bytes(candidates))
    # Only after the announcement: a reader leases an old snapshot, or tags it, first and then looks at the announcement.
    in_use = leased_snapshots(namespace, now) | leases.held(namespace)
    anchored = _anchored_snapshots(manifest, over)
    expired = (candidates - in_use - anchored) | confirmed
    rest = everything - newest - expired
    stay = {
        "have a tag, or are where a branch begins": len(rest & anchored),
        "are being read": len(rest & in_use - anchored),
        f"were the newest within the last {_time(max(retain, GRACE))}": len(rest - anchored - in_use),
    }
    if announce and expired:
        place.put(name + CONFIRMED, to_bytes(expired))
    if announce:
        place.remove_files([name + SUFFIX])
        # Nothing is deleted before what replaces it is durable, nor before it is known as half removed.
        flush(namespace.uri)
    yield Expiry(frozenset(everything - expired), {version: committed[version] for version in expired}, stay)
    if announce:
        flush(namespace.uri)
        # What another run has announced and not confirmed keeps readers away from what it is about to take, be it stopped for long.
        over = [f.path for f in announced if f.path.endswith(CONFIRMED) or f.modified < now - STOPPED_SECONDS]
        place.remove_files([name + CONFIRMED, *over])
        held = namespace.child(PRIVATE, LEASES)
        held.remove_files([file.path for file in held.tree() if file.modified < now - FORGOTTEN_SECONDS])


def _time(seconds: float) -> str:
    return f"{seconds / 3600:g} hours" if seconds >= 3600 else f"{seconds:g} seconds"  # noqa: PLR2004 - an hour


def pins_of(namespace: Store, snapshots: Iterable[SnapshotId], *, are_expired: bool = False) -> Pins:
    """Return everything that these snapshots pin.

    Of those that are expired a vacuum which died may have removed files: what these said is left out, and goes by its age.
    """
    manifest = namespace.child(MANIFEST)
    present = TableFiles(manifest.tree()).loose(inf).keys() if are_expired else None
    seen: set[tuple[str, ...]] = set()
    parts = [_PINNED.empty_table()]
    rows = 0
    for branch, version in sorted(snapshots, key=lambda pair: (pair[0] or "", pair[1])):
        dataset = manifest.open(version) if branch is None else open_branch(manifest, branch, version)
        parts.append(_unseen_pins(dataset, seen, present))
        rows += parts[-1].num_rows
        if rows > _DISTINCT_ABOVE:
            parts, rows = [_distinct(parts)], 0
    versions: dict[str, set[SnapshotId]] = {}
    floating = set()
    for row in _distinct(parts).to_pylist():
        location = row["location"]
        if row["read_version"] is None:
            floating.add(location)
        else:
            versions.setdefault(location, set()).add((row["read_branch"], row["read_version"]))
    return Pins(versions, frozenset(floating))


def _anchored_snapshots(manifest: Store, over: Collection[str]) -> set[SnapshotId]:
    """Return what tags refer to, those `over` left out, and where branches begin."""
    dataset = manifest.open()
    tags = {(tag.get("branch"), int(tag["version"])) for name, tag in dataset.tags.list().items() if name not in over}
    begun = {
        (branch.get("parent_branch"), int(branch["parent_version"])) for branch in dataset.branches.list().values()
    }
    replaced = _replacements(manifest, branches_of(dataset).values()) if manifest.name == MANIFEST else ()
    return tags | begun | set(replaced)


def _replacements(manifest: Store, branches: Iterable[BranchRef]) -> Iterator[SnapshotId]:
    """Yield the snapshots of the main branch that branches were replaced by."""
    for branch in branches:
        with suppress(NotFound):
            replacement = replacement_of(Manifest(manifest, branch).snapshot())
            if replacement is not None:
                yield None, replacement.version


def _unseen_pins(dataset: LanceDataset, seen: set[tuple[str, ...]], present: AbstractSet[str] | None) -> pa.Table:
    """Return the pins in those fragments of a manifest that stand in no version read before, and whose files are `present` (None: all).

    Most stay the same for long.
    """
    names = [name for name in ("object_type", *_PINNED.names) if name in dataset.schema.names]
    if "location" not in names:
        return _PINNED.empty_table()
    fragments = []
    for fragment in dataset.get_fragments():
        key = (*(file.path for file in fragment.metadata.files), fragment.deletion_file() or "")
        names_of_files = {PurePosixPath(path).name for path in key if path}
        if key not in seen and (present is None or names_of_files <= present):
            seen.add(key)
            fragments.append(fragment)
    if not fragments:
        return _PINNED.empty_table()
    table = dataset.scanner(columns=names, fragments=fragments).to_table()
    table = table.filter(pc.and_(pc.equal(table["object_type"], "table"), pc.is_valid(table["location"])))
    columns = [table[f.name] if f.name in names else pa.nulls(table.num_rows, f.type) for f in _PINNED]
    return pa.table(columns, schema=_PINNED)


def _distinct(parts: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts).group_by(_PINNED.names).aggregate([]).select(_PINNED.names)


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
    visible: no transaction may take longer. Less than `FLOOR_HOURS`, and than `TRANSACTION_FLOOR_HOURS`, only by `force`, or by a
    `dry_run`, which removes nothing.
    """

    retain_hours: float = FLOOR_HOURS
    transaction_hours: float = TRANSACTION_HOURS
    force: bool = False
    dry_run: bool = False

    def check(self) -> VacuumRules:
        """Return these rules; `InvalidInput` or `Refused` for those that may not be."""
        check_least(0, retain_hours=self.retain_hours, transaction_hours=self.transaction_hours)
        if self.force or self.dry_run:
            return self
        if self.retain_hours < FLOOR_HOURS:
            raise Refused(
                f"snapshots are kept for {FLOOR_HOURS:g} hours, got {self.retain_hours:g}: readers without a lease"
                " may need them; force it where there are none"
            )
        if self.transaction_hours < TRANSACTION_FLOOR_HOURS:
            raise Refused(
                f"what is not committed is kept for {TRANSACTION_FLOOR_HOURS:g} hours, got {self.transaction_hours:g}:"
                " transactions in progress may commit it; force it where nothing is written"
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """One thing that went: a `tag` or `branch` whose time is over, `snapshots`, `versions` of a table with their files, or a `directory`."""

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
    over = run.references(namespace)
    with expire(namespace.store, history, retain=retain, now=run.now, announce=not rules.dry_run, over=over) as expiry:
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

    def references(self, namespace: Table) -> list[str]:
        """Drop the tags and branches whose time is over, and return the names of these tags."""
        over = [each.ref for each in namespace.references() if each.ends is not None and each.ends < self.now]
        for ref in over:
            try:
                if not self.rules.dry_run:
                    namespace.drop_reference(ref)
            except (InvalidInput, NotFound) as exc:
                self.skipped.append(Skipped(name=ref.name, why=str(exc)))
            else:
                kind = "tag" if isinstance(ref, TagRef) else "branch"
                self.removed.append(Removed(kind=kind, name=ref.name, amount=SweepTotals()))
        return [ref.name for ref in over if isinstance(ref, TagRef)]

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
