"""Rows written anew where the current spec has them, and migration of tables: from stock namespaces, and from one version of our formats.

Rows that lie under older partition specs, or other values than their own, are moved some tables at a time: they are written under the
current spec and the tables themselves taken away, in one commit. So a run that is stopped has done a part, and another one goes on with
the rest. Where others change one of the tables meanwhile the next step is half as large, and reserves the namespace after some
(`manifests/version_log.py`).

Migration goes from version to version, each step in one commit that every concurrent writer conflicts with; what a step demands of the
rows is done before it. What stands in the other places is left there, and counts no more. A run that dies leaves each table at one
version, and the next run goes on from there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from lance_flight.catalog.bulk.pieces import BY_THREADS, PieceWork, Progress
from lance_flight.catalog.bulk.shared_writes import SharedWrite, WrittenFiles
from lance_flight.catalog.commits.transaction import Transaction
from lance_flight.catalog.commits.writer import combine_edits, table_dropped
from lance_flight.catalog.maintenance import OperationReport
from lance_flight.catalog.maintenance.verification import RewrittenTables, move_misplaced
from lance_flight.catalog.manifests.snapshot import DERIVED_VALUES, NAMESPACE_KEY, Misplaced, PartitionTable, Snapshot
from lance_flight.catalog.manifests.version_log import Change, Revision, commit, reserve_turn
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.formats import FORMAT_KEY, FORMATS, TABLE, version_of
from lance_flight.catalog.storage.retries import MOVE_ROWS, retry
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.sources import PinnedTable, TablePart, divide_rows, row_counts
from lance_flight.errors import SerializationFailure, Unsupported
from lance_flight.faults import failpoint
from lance_flight.model.operations import check_least
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Evaluate

"""So often others may change the same tables first, one time after another."""
UNRESERVED_ATTEMPTS = 3
"""After so many others are asked to wait."""

Choose = Callable[[Snapshot], Sequence[PartitionTable]]
"""Function that selects the tables of a snapshot to move; those of its current spec are left where they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritingRules:
    """Limits of one rewriting commit: tables, and rows in all of them (more where one table alone has more).

    The work is divided into pieces of about `rows_per_piece` (None: one piece), each of which writes files of its own.
    """

    tables: int = 256
    rows: int = 4 << 20
    rows_per_piece: int | None = None

    def check(self) -> RewritingRules:
        """Return these rules, or `InvalidInput` that names the one that cannot be."""
        check_least(1, tables=self.tables, rows=self.rows, rows_per_piece=self.rows_per_piece)
        return self


REWRITING_SCHEMA = pa.schema(
    [
        pa.field("snapshot", pa.int64(), nullable=False),
        pa.field("tables_before", pa.int64(), nullable=False),
        pa.field("tables_after", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class RewritingReport(OperationReport):
    """Report of a rewriting, commit by commit."""

    commits: tuple[RewrittenTables, ...]

    @property
    def as_table(self) -> pa.Table:
        """One row for each commit."""
        return pa.Table.from_pylist([asdict(commit) for commit in self.commits], schema=REWRITING_SCHEMA)

    def __str__(self) -> str:
        before, after = sum(c.tables_before for c in self.commits), sum(c.tables_after for c in self.commits)
        return (
            f"{sum(c.rows for c in self.commits):,} rows of {before:,} partition tables under older specs moved"
            f" into {after:,}, in {len(self.commits):,} commits"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Rows of some tables, to be written under the current spec as a part of a shared write."""

    write: SharedWrite
    parts: tuple[TablePart, ...]
    schema: NamespaceSchema
    evaluate: Evaluate

    def run(self) -> WrittenFiles:
        """Write the rows of the parts as files that are not visible yet."""
        scan = Scan(source=self.schema.plain, schema=self.schema.plain, ids=self.schema.ids)
        batches = scan.read(part.sources for part in self.parts)
        return self.write.write((pa.Table.from_batches([batch]) for batch in batches), self.evaluate, is_stored=True)

    def undo(self, result: WrittenFiles) -> None:
        """Delete the files that were written."""
        self.write.discard(result)


def rewrite(
    namespace: PartitionedNamespace,
    evaluate: Evaluate,
    choose: Choose | None = None,
    rules: RewritingRules | None = None,
    work: PieceWork = BY_THREADS,
) -> RewritingReport:
    """Move the rows of tables under older specs to the current one, and return what was done.

    Where an older release computed fields of the current spec otherwise, its rows move to the values that they have now, too.

    `SerializationFailure` where others keep changing the same tables; what was moved before stays so.
    """
    rules = (rules or RewritingRules()).check()
    rewriting = _Rewriting(namespace, evaluate, choose, work)
    done: list[RewrittenTables] = []
    tables, seconds = rules.tables, 0.0

    def step(attempt: int) -> list[RewrittenTables]:
        nonlocal tables, seconds
        began, moved = time.monotonic(), sum(commit.tables_before for commit in done)
        reserving = reserve_turn(namespace.log, 2 * seconds) if attempt >= UNRESERVED_ATTEMPTS else nullcontext()
        try:
            with reserving as reservation:
                commit = rewriting.step(replace(rules, tables=tables), moved, reservation)
        except SerializationFailure:
            tables, seconds = max(tables // 2, 1), time.monotonic() - began
            raise
        return [] if commit is None else [commit]

    while commits := retry(MOVE_ROWS, namespace.store.name, step, on=SerializationFailure):
        done += commits
        tables = min(2 * tables, rules.tables)
    done += move_misplaced(namespace, evaluate) if choose is None else []
    return RewritingReport(tuple(done))


@dataclass(frozen=True, slots=True)
class _Rewriting:
    """The arguments of a rewrite, which all of its steps have in common."""

    namespace: PartitionedNamespace
    evaluate: Evaluate
    choose: Choose | None
    work: PieceWork

    def step(self, rules: RewritingRules, moved: int, reservation: str | None) -> RewrittenTables | None:
        """Move the next tables in one commit, after so many that were `moved`; None where none is left."""
        transaction = self.namespace.begin()
        transaction.reservation = reservation
        old = _old(transaction.base, self.choose)
        if self.work.progress is not None:
            self.work.progress(moved, moved + len(old))
        if not old:
            return None
        batch = _batch(self.namespace.store, transaction.base, old, rules)
        moves = _moves(self.namespace, transaction.base, batch, self.evaluate, rules.rows_per_piece)
        tables = [table for table, _ in batch]
        run = partial(self.work.do, before=moved, tables=len(batch), total=moved + len(old))
        return _move(self.namespace, transaction, tables, moves, run)


def _old(snapshot: Snapshot, choose: Choose | None) -> list[PartitionTable]:
    tables = snapshot.all_tables() if choose is None else choose(snapshot)
    return [table for table in tables if table.spec_id != snapshot.current_spec.id]


def _batch(
    root: Store, snapshot: Snapshot, old: Sequence[PartitionTable], rules: RewritingRules
) -> list[tuple[PartitionTable, int]]:
    """Return the first tables that make up what one commit may move, with how many rows each has; one at least."""
    first = old[: rules.tables]
    counts = row_counts([_pin_table(root, snapshot, table) for table in first])
    fitting = sum(total <= rules.rows for total in accumulate(counts))
    return list(zip(first, counts, strict=True))[: max(fitting, 1)]


def _moves(
    namespace: PartitionedNamespace,
    snapshot: Snapshot,
    batch: Sequence[tuple[PartitionTable, int]],
    evaluate: Evaluate,
    rows_per_piece: int | None,
) -> list[Move]:
    """Return the rows of some tables in pieces of about one size, tables that lie side by side in one."""
    write = SharedWrite.of(namespace, snapshot)
    total = max(sum(rows for _, rows in batch), 1)
    pieces = 1 if rows_per_piece is None else -(-total // rows_per_piece)
    dealt: dict[int, list[TablePart]] = {}
    before = 0
    for table, rows in batch:
        for part, rows_of_part in divide_rows(
            _pin_table(namespace.store, snapshot, table), rows, rows_per_piece or total
        ):
            dealt.setdefault(min(pieces * before // total, pieces - 1), []).append(part)
            before += rows_of_part
    return [Move(write=write, parts=tuple(p), schema=snapshot.schema, evaluate=evaluate) for p in dealt.values()]


def _move(
    namespace: PartitionedNamespace,
    transaction: Transaction,
    tables: Sequence[PartitionTable],
    moves: Sequence[Move],
    run: Callable[[Sequence[Move]], list[WrittenFiles]],
) -> RewrittenTables:
    root, snapshot = namespace.store, transaction.base
    try:
        written = combine_edits(part for parts in run(moves) for part in parts)
    except BaseException:
        moves[0].write.discard(())
        raise
    with namespace.discarding(snapshot, written):
        gone = [table_dropped(root, snapshot, table) for table in tables]
    rows = sum(edit.rows for edit in written)
    transaction.add([*gone, *written], f"rewrite {rows} rows of {len(tables)} partitions into {len(written)}")
    with namespace.changing(transaction):
        version = namespace.commits.commit(transaction)
    return RewrittenTables(snapshot=version, tables_before=len(tables), tables_after=len(written), rows=rows)


def _pin_table(root: Store, snapshot: Snapshot, table: PartitionTable) -> PinnedTable:
    store = root.child(table.location)
    return PinnedTable(store, partitions.resolve(store, table.pin), context=snapshot.context_of(table))


MIGRATION_SCHEMA = pa.schema(
    [
        pa.field("key", pa.utf8(), nullable=False),
        pa.field("found_in", pa.utf8(), nullable=False),
        pa.field("value", pa.utf8(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationReport(OperationReport):
    """Report of a migration: properties for the table metadata, where each was, and steps of formats; with `dry_run` nothing changed."""

    dry_run: bool
    moved: tuple[Misplaced, ...]
    changes: tuple[FormatChange, ...] = ()

    @property
    def as_table(self) -> pa.Table:
        """One row for each key."""
        rows = [{"key": p.key, "found_in": p.place.value, "value": compact(p.text)} for p in self.moved]
        rows += [
            {"key": FORMAT_KEY, "found_in": f"{change.place}, format {change.found}", "value": str(change.step.to)}
            for change in self.changes
        ]
        return pa.Table.from_pylist(rows, schema=MIGRATION_SCHEMA)

    @property
    def lines(self) -> list[str]:
        goes, migrated = ("would go", "would be migrated") if self.dry_run else ("went", "migrated")
        lines = [] if self.moved else ["everything is in the table metadata of its __manifest"]
        for misplaced in self.moved:
            lines += [
                f"{misplaced.key} {goes} from {misplaced.place.value} into its table metadata",
                f"  {compact(misplaced.text)}",
            ]
        return [*lines, *(f"{migrated}: {change}" for change in self.changes)]


def migrate(namespace: PartitionedNamespace, *, dry_run: bool = False) -> MigrationReport:
    """Move specs and schema into the table metadata, unless they are there; raise `Corrupt` if they cannot be read.

    A concurrent migration wins or loses as a whole.
    """
    if namespace.branch is not None:
        raise Unsupported(f"branch {namespace.branch.name!r} is not migrated by itself; only its table can be")
    moved: tuple[Misplaced, ...] = ()

    def moving(snapshot: Snapshot) -> Revision | None:
        nonlocal moved
        moved = snapshot.misplaced
        return Revision(operation="migrate", stated=_values(moved)) if moved and not dry_run else None

    commit(namespace.log, moving, namespace.snapshot)
    return MigrationReport(dry_run=dry_run, moved=moved)


def compact(text: str) -> str:
    """Return JSON as it is stored: without spaces, and without members that are `null`.

    >>> compact('{"id": 1, "fields": [{"transform": {"type": "year", "width": null}}]}')
    '{"id":1,"fields":[{"transform":{"type":"year"}}]}'
    """
    return json.dumps(_without_nulls(json.loads(text)), separators=(",", ":"), ensure_ascii=False)


def _values(moved: Sequence[Misplaced]) -> dict[str, str]:
    return {prop.key: compact(prop.text) for prop in moved}


def _without_nulls(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_nulls(member) for key, member in value.items() if member is not None}
        case list():
            return [_without_nulls(member) for member in value]
        case _:
            return value


@dataclass(frozen=True, slots=True)
class FormatStep:
    """One step of a table to the version `to`: what it promises, how that is brought about, and what the table metadata says then."""

    to: int
    promise: str
    prepare: Callable[[PartitionedNamespace, Evaluate, Progress | None], None]
    metadata: Mapping[str, str]


def _move_rows(namespace: PartitionedNamespace, evaluate: Evaluate, progress: Progress | None) -> None:
    if namespace.snapshot().doubtful_fields:
        rewrite(namespace, evaluate, work=PieceWork(progress=progress))


STEPS: tuple[FormatStep, ...] = (
    FormatStep(
        to=2,
        promise="all rows are in the partitions of their values",
        prepare=_move_rows,
        metadata=MappingProxyType({DERIVED_VALUES: str(True)}),
    ),
)
"""Every step, in the order of their versions: the last one is to the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatChange:
    """A step that a branch of a table has made, or would make: None for the main branch."""

    branch: str | None
    found: int
    step: FormatStep

    @property
    def place(self) -> str:
        """The table, or the branch, that has made it."""
        return "the table" if self.branch is None else f"branch {self.branch!r}"

    def __str__(self) -> str:
        where = "" if self.branch is None else f"{self.place}: "
        return f"{where}table format {self.found} to {self.step.to} ({self.step.promise})"


def migrate_table(
    namespace: PartitionedNamespace, evaluate: Evaluate, progress: Progress | None = None, *, dry_run: bool = False
) -> Iterator[FormatChange]:
    """Bring a table and its branches to the newest table format, and yield each step when it is done.

    A table that only other writers have written has no format of ours yet. Branches come first: main alone is published to.
    """
    if NAMESPACE_KEY not in namespace.snapshot().metadata:
        return
    for partitioned_namespace in [*(namespace.on_branch(branch.name) for branch in namespace.branches), namespace]:
        if not dry_run:
            partitioned_namespace.log.follow(partitioned_namespace.snapshot())  # of a run that died after its commit
        for step in STEPS:
            version = TABLE.check(version_of(partitioned_namespace.snapshot().metadata), f"table {namespace.name!r}")
            if version >= step.to:
                continue
            if not dry_run:
                step.prepare(partitioned_namespace, evaluate, progress)
                failpoint("format_rows_moved")
                partitioned_namespace.evolve(_change_to(step))
                failpoint("format_raised")
            change = FormatChange(
                branch=None if partitioned_namespace.branch is None else partitioned_namespace.branch.name,
                found=step.to - 1,
                step=step,
            )
            yield change


def migrate_record(root: Root, *, dry_run: bool = False) -> Mapping[str, int]:
    """Let new things in a root have the newest versions, and return those that its record did not say, by format.

    After all tables: an unfinished migration leaves the record as it was.
    """
    known = root.formats.versions()
    missing = {
        name: kind.newest
        for name, kind in FORMATS.items()
        if name != "backup" and _is_below(known.get(name), kind.newest)
    }
    if missing and not dry_run:
        root.formats.check_now()
        root.formats.write(missing)
        failpoint("formats_recorded")
    return missing


def _change_to(step: FormatStep) -> Change:
    def change(snapshot: Snapshot) -> Revision | None:
        if TABLE.check(version_of(snapshot.metadata), "the table") >= step.to:
            return None  # another run was first
        return Revision(
            operation=f"migrate to table format {step.to}", further={FORMAT_KEY: str(step.to), **step.metadata}
        )

    return change


def _is_below(recorded: object, newest: int) -> bool:
    return not isinstance(recorded, int) or recorded < newest
