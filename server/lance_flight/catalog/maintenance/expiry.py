"""Expiry of snapshots: selects those of a namespace that stay, and the versions of partition tables that they pin."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from lance_flight.catalog.maintenance.sweep import TableFiles
from lance_flight.catalog.storage.branches import open_branch
from lance_flight.catalog.storage.durability import flush
from lance_flight.catalog.storage.leases import (
    CONFIRMED,
    EXPIRING,
    GRACE,
    LEASES,
    SUFFIX,
    SnapshotId,
    leased,
    leases,
    make_private,
    put,
    snapshots_in,
)
from lance_flight.catalog.storage.private_directory import PRIVATE
from lance_flight.catalog.storage.store import Store
from lance_flight.model.naming import MANIFEST

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
    """Snapshots to keep and snapshots to remove."""

    kept: frozenset[SnapshotId]
    expired: frozenset[SnapshotId]


@contextmanager
def expire(namespace: Store, manifest: Store, *, retain: float, now: float, announce: bool) -> Iterator[Expiry]:
    """Select the snapshots to expire, and announce them while the block runs; resume a run that died.

    `manifest` is the Lance table whose versions are the snapshots.

    A snapshot goes once it has not been the newest one of its branch for `retain` seconds (and `leases.GRACE` at
    least). Never the newest, one with a tag, one that a branch begins at, or one that a reader holds.
    """
    chains = TableFiles(manifest.tree()).chains
    everything = {version.id for versions in chains.values() for version in versions}
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
    candidates = (((old | begun) & everything) - newest - _anchored(manifest)) | confirmed
    name = secrets.token_hex(8)
    if announce and candidates:
        make_private(namespace, EXPIRING)
        put(place, name + SUFFIX, candidates)
    # Only after the announcement: a reader leases an old snapshot, or tags it, first and then looks at the announcement.
    in_use = leased(namespace, now) | leases.held(namespace)
    expired = (candidates - in_use - _anchored(manifest)) | confirmed
    if announce and expired:
        put(place, name + CONFIRMED, expired)
    if announce:
        place.remove_files([name + SUFFIX])
        # Nothing is deleted before what replaces it is durable, nor before it is known as half removed.
        flush(namespace.uri)
    yield Expiry(frozenset(everything - expired), frozenset(expired))
    if announce:
        flush(namespace.uri)
        # What another run has announced and not confirmed keeps readers away from what it is about to take, be it stopped for long.
        over = [f.path for f in announced if f.path.endswith(CONFIRMED) or f.modified < now - STOPPED_SECONDS]
        place.remove_files([name + CONFIRMED, *over])
        held = namespace.child(PRIVATE, LEASES)
        held.remove_files([file.path for file in held.tree() if file.modified < now - FORGOTTEN_SECONDS])


def pins_of(namespace: Store, snapshots: Iterable[SnapshotId], *, are_expired: bool = False) -> Pins:
    """Return everything that these snapshots pin.

    Of those that are expired a vacuum which died may have removed files: what these said is left out, and goes by its age.
    """
    manifest = namespace.child(MANIFEST)
    present = TableFiles(manifest.tree()).loose(inf).keys() if are_expired else None
    seen: set[tuple[str, ...]] = set()
    parts = [_PINNED.empty_table()]
    rows = 0
    for branch, version in sorted(snapshots, key=lambda each: (each[0] or "", each[1])):
        dataset = manifest.open(version) if branch is None else open_branch(manifest, branch, version)
        parts.append(_unseen(dataset, seen, present))
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


def _anchored(manifest: Store) -> set[SnapshotId]:
    """Return what tags refer to, and where branches begin."""
    dataset = manifest.open()
    tags = {(tag.get("branch"), int(tag["version"])) for tag in dataset.tags.list().values()}
    return tags | {
        (branch.get("parent_branch"), int(branch["parent_version"])) for branch in dataset.branches.list().values()
    }


def _unseen(dataset: LanceDataset, seen: set[tuple[str, ...]], present: AbstractSet[str] | None) -> pa.Table:
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
    return _distinct([pa.table(columns, schema=_PINNED)])


def _distinct(parts: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts).group_by(_PINNED.names).aggregate([]).select(_PINNED.names)
