"""Diagnosis of a root: what keeps a server from working well over it, and what to do about each finding."""

from __future__ import annotations

import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from lance_flight.catalog.maintenance.vacuum import HOUR, TRANSACTION_HOURS, TableFiles, pins_of
from lance_flight.catalog.manifests.manifest import FENCE, FENCE_KEY
from lance_flight.catalog.manifests.snapshot import DERIVED_VALUES, PartitionTable
from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.storage.formats import PLAIN_TABLE, TABLE, check_table
from lance_flight.catalog.storage.leases import EXPIRING, GRACE, LEASES, SUFFIX
from lance_flight.catalog.storage.staging_area import private_places
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.catalog.storage.table_versions import map_tables
from lance_flight.catalog.storage.whole_files import PRIVATE
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import partitions
from lance_flight.errors import LanceFlightError, NewerFormat
from lance_flight.model.naming import KEY_BYTES, is_table_directory

LIBRARIES = ("pylance", "datafusion", "pyarrow")
SKEW_SECONDS, WORST_SKEW_SECONDS = 5.0, GRACE / 2
"""Differences of clocks that are worth a word, and from which on leases are not to be relied on."""
LEAST_FREE, WORST_FREE = 0.1, 0.02
"""Shares of a device that should be free."""
SMALL_BYTES, MANY_FILES = 8 << 20, 8
"""A partition table with more data files than this, whose mean size is below that many bytes, is worth compacting."""
MOST_NAMES = 3
_NEWER = "start servers and commands of the newer release; the other tables are served as ever"
_BROKEN = "lance-flight verify and repair, or a restore from a backup"


class Level(StrEnum):
    """Weight of a finding: to know, to look after, or to end before anything else."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class RootFinding:
    """Something that was looked at: a subject, what is true of it, and what to do ("" for nothing)."""

    level: Level
    subject: str
    text: str
    advice: str = ""


def diagnose(root: Root, now: Callable[[], float] = time.time) -> Iterator[RootFinding]:
    """Yield findings about a root, then about each of its tables; nothing is changed but for a file that is written and removed."""
    yield _versions()
    try:
        root.store.check()
    except (LanceFlightError, *UNREADABLE) as exc:
        yield RootFinding(
            Level.ERROR,
            "root",
            f"cannot be listed: {root.store.words(exc)}",
            "look at its path, permissions and credentials",
        )
        return
    yield from _check_clock(root.store, now)
    if not root.store.is_remote:
        yield _space(Path(root.store.uri))
        yield from _key(Path(root.store.uri) / PRIVATE / "ticket.key")
        yield from _left_over(root.store, now())
    formats = list(_formats(root))
    yield from formats
    if any(finding.subject == "root" for finding in formats):
        return  # what lies in a newer root may mean something else
    yield from _left_by_writers(root, now())
    for name in root.tables():
        yield from _of_table(root, name, now())


def _formats(root: Root) -> Iterator[RootFinding]:
    """Yield what only newer releases read: the root itself, or views in it."""
    try:
        root.formats.check_now()
    except LanceFlightError as exc:
        yield RootFinding(Level.ERROR, "root", str(exc), _NEWER if isinstance(exc, NewerFormat) else _BROKEN)
        return
    with suppress(*UNREADABLE):  # what cannot be listed is said of the root
        for error in root.unreadable_views():
            yield RootFinding(Level.ERROR, "views", str(error), _NEWER if isinstance(error, NewerFormat) else _BROKEN)


def _versions() -> RootFinding:
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    return RootFinding(Level.OK, "libraries", versions)


def _check_clock(store: Store, now: Callable[[], float]) -> Iterator[RootFinding]:
    """Write a file, compare its time with the clock here, and remove it."""
    place, name = store.child(PRIVATE), f"doctor-{secrets.token_hex(8)}"
    try:
        if not store.is_remote:
            Path(place.uri).mkdir(mode=0o700, exist_ok=True)
        before = now()
        place.write(name, b"")
        after = now()
        (written,) = [file.modified for file in place.tree() if file.path == name]
        place.remove_files([name])
    except (LanceFlightError, *UNREADABLE) as exc:
        advice = "give the server's user the right to write, or serve reads alone (policies)"
        yield RootFinding(Level.ERROR, "root", f"cannot be written: {store.words(exc)}", advice)
        return
    yield RootFinding(Level.OK, "root", "can be listed and written")
    skew = max(before - 1 - written, written - after - 1, 0.0)
    level = Level.ERROR if skew > WORST_SKEW_SECONDS else Level.WARNING if skew > SKEW_SECONDS else Level.OK
    yield RootFinding(
        level,
        "clock",
        f"differs from that of the storage by {skew:.0f} s",
        ""
        if level is Level.OK
        else f"set both by NTP: vacuum takes a lease for ended that is {GRACE:.0f} s old by the storage's time",
    )


def _space(path: Path) -> RootFinding:
    usage = shutil.disk_usage(path)
    share = usage.free / usage.total
    level = Level.ERROR if share < WORST_FREE else Level.WARNING if share < LEAST_FREE else Level.OK
    advice = (
        ""
        if level is Level.OK
        else "make room, or run lance-flight vacuum: a full device refuses commits, and loses none"
    )
    return RootFinding(level, "space", f"{usage.free / 1e9:,.1f} GB of {usage.total / 1e9:,.1f} GB are free", advice)


def _key(file: Path) -> Iterator[RootFinding]:
    if file.exists() and file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        yield RootFinding(
            Level.ERROR,
            "ticket.key",
            "other users may read it, and could make tickets",
            f"chmod 600 {PRIVATE}/{file.name}",
        )
    if file.exists() and file.stat().st_size != KEY_BYTES:
        yield RootFinding(
            Level.ERROR,
            "ticket.key",
            f"has {file.stat().st_size} bytes; expected {KEY_BYTES}, and no server starts",
            f"rm {PRIVATE}/{file.name}: the next server makes one, and refuses tickets and tokens that were issued before",
        )


def _left_over(store: Store, now: float) -> Iterator[RootFinding]:
    """Yield what operations of processes that died have left in the root."""
    if not Path(store.child(PRIVATE).uri).is_dir():
        return
    old = [place for place in private_places(store) if place.is_unclaimed(now)]
    if old:
        yield RootFinding(
            Level.WARNING,
            "root",
            f"{len(old)} tables that were being made are left in {PRIVATE}",
            "the next start of a server removes them",
        )


def _left_by_writers(root: Root, now: float) -> Iterator[RootFinding]:
    """Yield directories with files of writes that met a dropped table and never ended; those of running writes are young."""
    with suppress(LanceFlightError, *UNREADABLE):  # said of the root, or of the table
        old = [store for store in root.left_over() if all(file.modified < now - GRACE for file in store.tree())]
        names = ", ".join(sorted(repr(store.uri.removeprefix(f"{root.store.uri.rstrip('/')}/")) for store in old))
        if old:
            yield RootFinding(
                Level.WARNING,
                "root",
                f"{names} hold nothing but files of writes into tables that were dropped",
                "remove these directories, or make tables of their names",
            )


def _of_table(root: Root, name: TableName, now: float) -> Iterator[RootFinding]:
    label = name.name if name.db_schema == PUBLIC else str(name)
    try:
        table = root.table(name)
        snapshot = table.snapshot()
        tables = list(snapshot.all_tables())
    except (LanceFlightError, *UNREADABLE) as exc:
        advice = _NEWER if isinstance(exc, NewerFormat) else _BROKEN
        yield RootFinding(Level.ERROR, label, f"cannot be opened: {root.store.words(exc)}", advice)
        return
    kind = TABLE if table.is_partitioned else PLAIN_TABLE
    stored = table.log.open(snapshot.version).metadata
    version = check_table(stored, table.store, kind)
    # Of what this release made, a migration would change the number alone.
    is_old = version < kind.newest and DERIVED_VALUES not in stored
    newer = f"; lance-flight migrate makes it {kind.newest}" if is_old else ""
    yield RootFinding(
        Level.OK, label, f"snapshot {snapshot.version}, {len(tables):,} tables, {kind.what} {version}{newer}"
    )
    if table.is_partitioned and table.log.open(snapshot.version).metadata.get(FENCE_KEY) != FENCE:
        yield RootFinding(
            Level.WARNING,
            label,
            "has no fence: a stock writer of directory namespaces would destroy its partition columns",
            "write it by this service or Spark alone",
        )
    yield from _orphans(label, table, tables, now)
    yield from _small_files(label, table, tables)
    yield from _leases(label, table, now)


def _orphans(label: str, table: Table, tables: list[PartitionTable], now: float) -> Iterator[RootFinding]:
    """Yield directories like those of partition tables that no snapshot names; those of running writes are young."""
    if not table.is_partitioned:
        return
    known = {partition_table.location for partition_table in tables}
    before = now - TRANSACTION_HOURS * HOUR
    sizes = {}
    for name in table.store.directories():
        if name not in known and is_table_directory(name) and not table.store.child(name).is_link:
            files = list(table.store.child(name).tree())
            if all(file.modified < before for file in files):
                sizes[name] = sum(file.size for file in files)
    if sizes:
        # Each snapshot is opened, so only where something is not in the newest.
        chains = TableFiles(table.log.store.tree()).chains.values()
        named = pins_of(table.store, {version.id for chain in chains for version in chain}).locations
        orphans = sorted(sizes.keys() - named)
        if orphans:
            what = ", ".join(map(repr, orphans[:MOST_NAMES])) + (", …" if len(orphans) > MOST_NAMES else "")
            size = sum(sizes[name] for name in orphans)
            text = f"{len(orphans):,} directories with {size:,} bytes are named by no snapshot: {what}"
            yield RootFinding(Level.WARNING, label, text, f"lance-flight vacuum ROOT {label} removes them")


def _small_files(label: str, table: Table, tables: list[PartitionTable]) -> Iterator[RootFinding]:
    unreadable: list[str] = []

    def files(partition_table: PartitionTable) -> tuple[int, int]:
        try:
            dataset = partitions.open_table(table.store, partition_table)
        except LanceFlightError as exc:
            unreadable.append(str(exc))
            return 0, 0
        _, size, _ = partitions.dataset_summary(dataset)
        return int(dataset.get_version()["metadata"]["total_data_files"]), size or 0

    sizes = map_tables(files, tables, "sizes")
    if unreadable:
        what = f"{len(unreadable):,} of {len(tables):,} tables are missing or cannot be read: {min(unreadable)}"
        yield RootFinding(Level.ERROR, label, what, _BROKEN)
    small = [count for count, size in sizes if count > MANY_FILES and size < count * SMALL_BYTES]
    if small:
        yield RootFinding(
            Level.WARNING,
            label,
            f"{len(small):,} of {len(tables):,} tables have {sum(small):,} small data files",
            f"lance-flight compact ROOT {label}",
        )


def _leases(label: str, table: Table, now: float) -> Iterator[RootFinding]:
    """Yield leases of processes that died, and snapshots whose removal did not end."""
    private = table.store.child(PRIVATE)
    for kind, text, advice in (
        (LEASES, "leases of processes that have ended", "nothing: they no longer count"),
        (EXPIRING, "removals of snapshots that did not end", f"lance-flight vacuum ROOT {label}"),
    ):
        old = [
            file
            for file in private.child(kind).tree()
            if file.path.endswith(SUFFIX) and file.modified < now - 2 * GRACE
        ]
        if old:
            yield RootFinding(Level.WARNING if kind == EXPIRING else Level.OK, label, f"{len(old)} {text}", advice)
