"""Moving rows that lie under older partition specs to the current one.

Some tables at a time: their rows are written under the current spec and the tables themselves taken away, in one
commit. So a run that is stopped has done a part, and another one goes on with the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from lance_flight.catalog import partitions
from lance_flight.catalog.maintenance.compaction import Progress
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.removals import table_dropped
from lance_flight.catalog.retries import pause
from lance_flight.catalog.scan import Scan, Source
from lance_flight.catalog.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.transaction import Transaction
from lance_flight.errors import InvalidInput, SerializationFailure
from lance_flight.model.spec import Evaluate

ATTEMPTS = 10

Choose = Callable[[Snapshot], Sequence[PartitionTable]]
"""Which tables of a snapshot to move; those of its current spec are left where they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritingRules:
    """How much is moved in one commit: tables, and rows in all of them (more where one table alone has more)."""

    tables: int = 256
    rows: int = 4 << 20

    def checked(self) -> RewritingRules:
        """These rules, or `InvalidInput` that names the one that cannot be."""
        for name in ("tables", "rows"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} is {getattr(self, name)}; expected 1 or more")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenTables:
    """One commit: the snapshot that it made, the tables that it took away, those that have their rows now, and how many."""

    snapshot: int
    tables_before: int
    tables_after: int
    rows: int


REWRITING_SCHEMA = pa.schema(
    [
        pa.field("snapshot", pa.int64(), nullable=False),
        pa.field("tables_before", pa.int64(), nullable=False),
        pa.field("tables_after", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class RewritingReport:
    """What was moved, commit by commit."""

    commits: tuple[RewrittenTables, ...]

    @property
    def rows(self) -> pa.Table:
        """One row for each commit."""
        return pa.Table.from_pylist([asdict(commit) for commit in self.commits], schema=REWRITING_SCHEMA)


def rewrite(
    namespace: PartitionedNamespace,
    evaluate: Evaluate,
    choose: Choose | None = None,
    rules: RewritingRules | None = None,
    progress: Progress | None = None,
) -> RewritingReport:
    """Move the rows of tables under older specs to the current one, and return what was done.

    `SerializationFailure` where others keep changing the same tables; what was moved before stays so.
    """
    rules = (rules or RewritingRules()).checked()
    done: list[RewrittenTables] = []
    moved = failures = 0
    while True:
        transaction = namespace.begin()
        old = _old(transaction.base, choose)
        if progress is not None:
            progress(moved, moved + len(old))
        if not old:
            return RewritingReport(tuple(done))
        batch = _batch(namespace, old, rules)
        try:
            done.append(_move(namespace, transaction, batch, evaluate))
        except SerializationFailure:
            failures += 1
            if failures == ATTEMPTS:
                raise
            pause(failures)
        else:
            moved, failures = moved + len(batch), 0


def _old(snapshot: Snapshot, choose: Choose | None) -> list[PartitionTable]:
    tables = [t for tables in snapshot.tables for t in tables.tables()] if choose is None else choose(snapshot)
    return [table for table in tables if table.spec_id != snapshot.current_spec.id]


def _batch(
    namespace: PartitionedNamespace, old: Sequence[PartitionTable], rules: RewritingRules
) -> list[PartitionTable]:
    """The first tables that make up what one commit may move; one at least."""
    batch: list[PartitionTable] = []
    rows = 0
    for table in old[: rules.tables]:
        rows += int(partitions.open_at(namespace.store.child(table.location), table.pin).count_rows())
        if batch and rows > rules.rows:
            break
        batch.append(table)
    return batch


def _move(
    namespace: PartitionedNamespace, transaction: Transaction, batch: Sequence[PartitionTable], evaluate: Evaluate
) -> RewrittenTables:
    snapshot = transaction.base
    with namespace.changing(transaction):
        written = namespace.written(snapshot, _rows(namespace, snapshot, batch), evaluate)
        with namespace.discarding(snapshot, written):
            gone = [table_dropped(namespace.store, snapshot, table) for table in batch]
        rows = sum(edit.rows for edit in written)
        what = f"rewrite {rows} rows of {len(batch)} partitions into {len(written)}"
        transaction.add([*gone, *written], what)
        version = namespace.commits.commit(transaction)
    return RewrittenTables(snapshot=version, tables_before=len(batch), tables_after=len(written), rows=rows)


def _rows(namespace: PartitionedNamespace, snapshot: Snapshot, batch: Sequence[PartitionTable]) -> Iterator[pa.Table]:
    schema = snapshot.schema
    scan = Scan(source=schema.plain, schema=schema.plain, filter=None, rest=None, ids=schema.ids)
    opened = (
        lambda table=table: [Source(partitions.open_at(namespace.store.child(table.location), table.pin))]
        for table in batch
    )
    return (pa.Table.from_batches([found]) for found in scan.read(opened))
