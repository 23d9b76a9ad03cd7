"""Survey: what maintenance would do for a table, by thresholds and the options of the table.

What was chosen stands in a note of the guard row, so that it changes in one commit and follows the table wherever it goes; the rest are defaults.

No row is read: the manifest of each version lists its files with their sizes, and how many of their rows are deleted. A partition table is looked
at once for each version of it.

The cost model, which `benchmarks/maintenance.py` measures: a scan spends `FILE_SECONDS` on each file before its first row, and `ROW_SECONDS` on a
row that was deleted, or that an index would have spared it; a rewrite reads and writes `REWRITE_BYTES` in a second.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any

from lance import LanceDataset, LanceFragment

from lance_flight.catalog.maintenance.compaction import CompactionRules
from lance_flight.catalog.maintenance.vacuum import FLOOR_HOURS, HOUR, TRANSACTION_HOURS, TableFiles
from lance_flight.catalog.manifests.manifest_rows import guard_row, notes_of
from lance_flight.catalog.manifests.snapshot import NAMESPACE_KEY, PartitionTable, Pin, Snapshot
from lance_flight.catalog.manifests.version_log import Revision
from lance_flight.catalog.storage.leases import GRACE
from lance_flight.catalog.storage.table_versions import map_tables
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.indices import Coverage, IndexDefinition, indices_of
from lance_flight.catalog.tables.schema_adapter import identify_columns, path_within
from lance_flight.errors import LanceFlightError

POLICY = "lance_flight:maintenance"
"""The key of the note: each option that was chosen, by its name; times in seconds."""

PolicyValue = bool | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """Thresholds of one table: each option that ALTER TABLE … SET takes, with its default.

    A partition table is compacted when it has more than `compact_files` files more than its rows need, or more than the part
    `compact_deleted` of its rows deleted; indices are brought up to date when more than the part `reindex_missing` of the rows is in no
    segment of one; snapshots go `retain` seconds after another one has replaced them, and with them what was written `transactions` seconds
    ago and never committed. Without `maintenance` nothing is done.
    """

    maintenance: bool = True
    compact_files: int = 8
    compact_deleted: float = 0.1
    reindex_missing: float = 0.1
    retain: float = FLOOR_HOURS * HOUR
    transactions: float = TRANSACTION_HOURS * HOUR


DEFAULTS = MaintenancePolicy()


def chosen_options(snapshot: Snapshot) -> Mapping[str, PolicyValue]:
    """Return the options that were chosen for a table, in the order of the policy; those of newer releases are left out."""
    note = notes_of(guard_row(snapshot)).get(POLICY)
    chosen = note if isinstance(note, dict) else {}
    known = (
        field.name for field in fields(MaintenancePolicy) if isinstance(chosen.get(field.name), bool | int | float)
    )
    return MappingProxyType({name: chosen[name] for name in known})


def policy_of(snapshot: Snapshot) -> MaintenancePolicy:
    """Return the policy of a table as a snapshot has it."""
    options: Mapping[str, Any] = chosen_options(snapshot)
    return replace(DEFAULTS, **options)


def policy_for_server(snapshot: Snapshot) -> MaintenancePolicy | None:
    """Return the policy of a table that a server maintains; None where it is to be left alone.

    That is one whose policy says so, and one that this library has never written: maintenance is no reason to add to it.
    """
    policy = policy_of(snapshot)
    return None if snapshot.misplaced or NAMESPACE_KEY not in snapshot.metadata or not policy.maintenance else policy


def set_policy(table: Table, changes: Mapping[str, PolicyValue | None]) -> int:
    """Set options of a table's policy in one commit (None: back to the default), and return the version that has them."""
    table.refuse_on_branch("be given a maintenance policy")

    def change(snapshot: Snapshot) -> Revision | None:
        before = notes_of(guard_row(snapshot)).get(POLICY)
        known = before if isinstance(before, dict) else {}
        after = {name: value for name, value in {**known, **changes}.items() if value is not None}
        if after == known:
            return None
        return Revision(operation=f"set {', '.join(changes)}", notes={POLICY: after})

    return table.evolve(change)


FILE_SECONDS = 0.0003
"""What a scan spends on one more file."""
ROW_SECONDS = 2e-8
"""What a scan spends on one more row."""
REWRITE_BYTES = 100e6
"""Bytes that a rewrite reads and writes in a second."""
WORTH_SCANS = 100
"""A rewrite pays when so many scans have saved what it cost: it keeps a large file from being rewritten for each few small ones beside it."""
CROWDED = 16
"""A table of many partitions may have so many times `compact_files` files too many in all, or as many as it needs: a sum of it takes twice as long then."""
TABLE_SECONDS = 0.01
"""What it costs to rewrite a partition table, whatever is in it."""
LATE = 1 / 7
"""Part of the retention by which snapshots may be too old before a vacuum: of seven days, one."""

_Moment = tuple[int, datetime]
"""The version and the time of a snapshot, which also tell a table from another one that has taken its place."""
_UNSEEN: _Moment = (-1, datetime.min.replace(tzinfo=UTC))
_Key = tuple[str, Pin, tuple[str, ...]]
"""The place of a partition table, its version, and the names of the indices that it may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """Files and rows of one version of a partition table, deleted ones among them; `bytes` are those of the files that a rewrite would join.

    `files_after` is how many files it would have then, `unindexed` how many rows no segment of some index is about.
    """

    files: int
    files_after: int
    bytes: int
    rows: int
    deleted: int
    unindexed: int = 0

    @property
    def spared_files(self) -> int:
        """Files that a rewrite would spare."""
        return max(self.files - self.files_after, 0)

    @property
    def gain(self) -> float:
        """Seconds that a rewrite spares a scan of the whole table."""
        return self.spared_files * FILE_SECONDS + self.deleted * ROW_SECONDS

    def is_due(self, policy: MaintenancePolicy) -> bool:
        """Return whether a policy asks for a rewrite, and it pays."""
        if self.deleted > policy.compact_deleted * self.rows:
            return True
        return self.spared_files > policy.compact_files and self.pays

    @property
    def pays(self) -> bool:
        """True if some scans spend as much on the files that a rewrite spares as the rewrite would."""
        cost = TABLE_SECONDS + self.bytes / REWRITE_BYTES
        return WORTH_SCANS * self.spared_files * FILE_SECONDS >= cost


EMPTY = TableState(files=0, files_after=0, bytes=0, rows=0, deleted=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSurvey:
    """Needs of one table at a snapshot: partition tables to compact, those with most to gain first, and rows that are in no index.

    `backlog` is how many files the compaction would spare.
    """

    policy: MaintenancePolicy
    due: tuple[PartitionTable, ...] = ()
    gain: float = 0.0
    backlog: int = 0
    unindexed: int = 0
    rows: int = 0

    @property
    def is_index_due(self) -> bool:
        """True if the indices lack more of the rows than the policy allows."""
        return self.unindexed > self.policy.reindex_missing * self.rows

    @property
    def index_gain(self) -> float:
        """Seconds that up-to-date indices would spare a search."""
        return self.unindexed * ROW_SECONDS


class Surveyor:
    """Surveys tables, and remembers what it has seen of each version of their partition tables. For one thread."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[_Moment, TableSurvey, dict[_Key, TableState]]] = {}

    def survey(self, table: Table) -> TableSurvey | None:
        """Return what a table needs; None where it is to be left alone (`policy_for_server`)."""
        snapshot = table.snapshot()
        known = self._seen.get(table.place)
        if known is not None and known[0] == (snapshot.version, snapshot.committed_at):
            return known[1]
        policy = policy_for_server(snapshot)
        if policy is None:
            self._seen.pop(table.place, None)
            return None
        states = _states(table, snapshot, {} if known is None else known[2])
        names = _names_of(snapshot)
        survey = _survey_of(
            policy,
            [(partition_table, states[_key(partition_table, names)]) for partition_table in snapshot.all_tables()],
        )
        self._seen[table.place] = (snapshot.version, snapshot.committed_at), survey, states
        return survey

    def settle(self, table: Table, tried: Collection[PartitionTable]) -> None:
        """Take partition tables for compacted that stayed as they were: their files are kept apart for other reasons than their size."""
        known = self._seen.get(table.place)
        if known is None:
            return
        snapshot = table.snapshot()
        now, names = (
            snapshot.tables_named([partition_table.object_id for partition_table in tried]),
            _names_of(snapshot),
        )
        _, survey, states = known
        for partition_table in tried:
            state = states.get(_key(partition_table, names))
            if state is not None and now.get(partition_table.object_id) == partition_table:
                states[_key(partition_table, names)] = replace(state, files_after=state.files, deleted=0)
        self._seen[table.place] = _UNSEEN, survey, states

    def settle_indices(self, table: Table) -> None:
        """Take the indices of a table for up to date: there is nothing that the rest could be built of."""
        known = self._seen.get(table.place)
        if known is not None:
            states = {key: replace(state, unindexed=0) for key, state in known[2].items()}
            self._seen[table.place] = _UNSEEN, known[1], states

    def forget_others(self, tables: Collection[Table]) -> None:
        """Forget what was seen of all but some tables."""
        places = {table.place for table in tables}
        self._seen = {place: seen for place, seen in self._seen.items() if place in places}


def _states(table: Table, snapshot: Snapshot, known: Mapping[_Key, TableState]) -> dict[_Key, TableState]:
    """Return the state of each partition table; only those are opened that are not `known`."""
    names = _names_of(snapshot)
    fresh = [partition_table for partition_table in snapshot.all_tables() if _key(partition_table, names) not in known]
    states = map_tables(partial(_state, table, snapshot, indices_of(snapshot)), fresh, "survey")
    looked_at = dict(zip((_key(partition_table, names) for partition_table in fresh), states, strict=True))
    keys = (_key(partition_table, names) for partition_table in snapshot.all_tables())
    return {key: looked_at[key] if key in looked_at else known[key] for key in keys}


def expired_snapshots(table: Table, policy: MaintenancePolicy, now: float | None = None) -> int:
    """Return how many snapshots of the main branch a vacuum would remove; 0 while none of them is `LATE`.

    Those with tags and those that are read are among them.
    """
    moment = time.time() if now is None else now
    chain = TableFiles(table.log.store.tree()).chains.get(None, [])
    replaced = [moment - successor.modified for _, successor in pairwise(chain)]
    retain = max(policy.retain, GRACE)
    if not any(age > retain * (1 + LATE) for age in replaced):
        return 0
    return sum(age > retain for age in replaced)


def _key(table: PartitionTable, names: tuple[str, ...]) -> _Key:
    return table.location, table.pin, names


def _names_of(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the names of the indices of a snapshot."""
    return tuple(sorted(definition.name for definition in indices_of(snapshot)))


def _survey_of(policy: MaintenancePolicy, states: list[tuple[PartitionTable, TableState]]) -> TableSurvey:
    """Return what is due: partition tables that are by themselves, and those with most files of a table that has too many in all."""
    first = sorted(states, key=lambda pair: -pair[1].gain)
    due = [pair for pair in first if pair[1].is_due(policy)]
    rest = [pair for pair in first if not pair[1].is_due(policy) and pair[1].spared_files and pair[1].pays]
    too_many = sum(state.spared_files for _, state in rest)
    allowed = max(CROWDED * policy.compact_files, sum(state.files_after for _, state in states))
    if too_many > allowed:
        # To the half of it, so that the next few commits are no reason to begin again.
        before = accumulate((state.spared_files for _, state in rest), initial=0)
        due += [pair for pair, spared in zip(rest, before, strict=False) if too_many - spared > allowed / 2]
    return TableSurvey(
        policy=policy,
        due=tuple(table for table, _ in due),
        gain=sum(state.gain for _, state in due),
        backlog=sum(state.spared_files for _, state in due),
        unindexed=sum(state.unindexed for _, state in states),
        rows=sum(state.rows for _, state in states),
    )


def _state(
    table: Table, snapshot: Snapshot, definitions: list[IndexDefinition], partition_table: PartitionTable
) -> TableState:
    """Return what the metadata of one partition table says; one that cannot be opened has nothing to do."""
    try:
        dataset = partitions.open_table(table.store, partition_table)
    except LanceFlightError:
        return EMPTY
    fragments = dataset.get_fragments()
    target = CompactionRules().target_rows
    small = [fragment for fragment in fragments if fragment.physical_rows < target]
    joined = math.ceil(sum(map(_live_rows, small)) / target)
    rows = {fragment.fragment_id: _live_rows(fragment) for fragment in fragments}
    return TableState(
        files=sum(len(fragment.metadata.files) for fragment in fragments),
        files_after=sum(len(f.metadata.files) for f in fragments if f.physical_rows >= target) + joined,
        bytes=sum(file.file_size_bytes or 0 for fragment in small for file in fragment.metadata.files),
        rows=sum(fragment.physical_rows for fragment in fragments),
        deleted=sum(fragment.num_deletions for fragment in fragments),
        unindexed=max(_count_unindexed(dataset, snapshot, definitions, rows), default=0),
    )


def _live_rows(fragment: LanceFragment) -> int:
    return int(fragment.physical_rows - fragment.num_deletions)


def _count_unindexed(
    dataset: LanceDataset, snapshot: Snapshot, definitions: list[IndexDefinition], rows: dict[int, int]
) -> Iterator[int]:
    """Yield how many rows each index lacks that is made of a table of this size."""
    for definition in definitions:
        columns = identify_columns(dataset, snapshot.schema)
        path = path_within(columns, snapshot.schema, definition.field_id)
        if path is not None and sum(rows.values()) >= max(definition.min_rows, 1):
            missing = Coverage.of(dataset, definition.name, ".".join(path[0]), definition.of_kind).missing
            yield sum(rows[number] for number in missing)
