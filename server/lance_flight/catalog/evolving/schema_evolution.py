"""A new schema for a namespace and all its tables, in one commit.

Every partition table gets a version with the new schema first, which nobody sees; the commit moves the pins and says
the schema. A table that somebody has written to meanwhile is staged again, with new columns for its new files alone; the others
are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pyarrow as pa

from lance_flight.catalog.bulk.pieces import THREADS, Progress, Runner, of_tables
from lance_flight.catalog.commits.staging import repinned
from lance_flight.catalog.evolving.new_columns import NewColumns, SchemaStep
from lance_flight.catalog.evolving.table_schemas import new_columns, stage_schema
from lance_flight.catalog.evolving.written_columns import WrittenColumns
from lance_flight.catalog.manifests.evolution import Evolution
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.manifests.version_log import said_of
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables import partitions
from lance_flight.errors import SpecError
from lance_flight.faults import failpoint
from lance_flight.model.pins import FixedPin
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionSpec

WORKERS = 8
INSTEAD = "a new column (ADD COLUMN … AS) can have the wider type, and be partitioned by"

_Place = tuple[str, FixedPin]
"""A table by its location, and the version of it that is changed."""

Decide = Callable[[Snapshot], tuple[SchemaStep, str]]
"""Function from a snapshot to the step of its schema, and the name of the operation in the history."""


class StagedSchemas:
    """Versions of partition tables with another schema, staged on their pins; what one attempt has staged the next one finds.

    `run` is who writes the values of new columns.
    """

    def __init__(self, root: Store, *, run: Runner = THREADS, progress: Progress | None = None) -> None:
        self._root = root
        self._run = run
        self._progress = progress
        self._after: NamespaceSchema | None = None
        self._staged: dict[_Place, FixedPin] = {}
        self._written = WrittenColumns()

    def pins(
        self, step: SchemaStep, tables: Sequence[PartitionTable], branch: str | None, operation: str
    ) -> list[FixedPin]:
        """Return a pin to a version of each table with the columns after a step, on a Lance branch where writes go to one."""
        if step.after != self._after:
            self._after, self._staged, self._written = step.after, {}, WrittenColumns()
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="schema") as pool:
            bases = list(pool.map(partial(self._base, branch), tables))
            todo = {
                (table.location, base): table
                for table, base in zip(tables, bases, strict=True)
                if (table.location, base) not in self._staged
            }
            self._write(pool, step, todo)
            said = said_of(operation, ())
            list(pool.map(lambda key: self._stage(step, key, todo[key], said), todo))
        return [self._staged[table.location, base] for table, base in zip(tables, bases, strict=True)]

    def _base(self, branch: str | None, table: PartitionTable) -> FixedPin:
        return partitions.base_of(self._root.child(table.location), table.pin, branch)

    def _write(self, pool: Executor, step: SchemaStep, todo: Mapping[_Place, PartitionTable]) -> None:
        """Write what the files of these tables lack of new columns; an earlier attempt may have written most of it."""
        found = pool.map(lambda key: new_columns(self._root, todo[key], key[1], step, self._written), todo)
        work: list[NewColumns] = [piece for pieces in found for piece in pieces]
        results = self._run(work, of_tables(self._progress, 0, len(todo), len(todo)))
        for piece, result in zip(work, results, strict=True):
            self._written.add(piece, result)

    def _stage(self, step: SchemaStep, key: _Place, table: PartitionTable, said: Mapping[str, str]) -> None:
        location, base = key
        self._staged[key] = stage_schema(
            self._root.child(location), base, step, self._written, table.identity, said=said
        )
        failpoint("table_staged")


class SchemaEvolution:
    """One change of schema, made on one snapshot after another until it is committed (`evolution.Change`)."""

    def __init__(self, root: Store, decide: Decide, *, run: Runner = THREADS, progress: Progress | None = None) -> None:
        self._decide = decide
        self._tables = StagedSchemas(root, run=run, progress=progress)

    def __call__(self, snapshot: Snapshot) -> Evolution | None:
        """Return the rows and the metadata that make the change visible; None where there is nothing to change."""
        step, operation = self._decide(snapshot)
        if step.before == step.after:
            return None
        check_specs(snapshot, step)
        if snapshot.is_partitioned and step.before.table.equals(step.after.table, check_metadata=True):
            return Evolution(operation=operation, schema=step.after)
        tables = snapshot.all_tables()
        pins = self._tables.pins(step, tables, snapshot.table_branch, operation)
        rows: pa.Table | None = None
        if tables:
            rows = repinned(snapshot.rows_of([table.object_id for table in tables]), pins)
        return Evolution(operation=operation, specs=retyped_specs(snapshot, step), schema=step.after, rows=rows)


def retyped_specs(snapshot: Snapshot, step: SchemaStep) -> tuple[PartitionSpec, ...]:
    """Return the specs of a snapshot whose fields get other result types from a change of columns, with these."""
    if not snapshot.is_partitioned:
        return ()
    retyped = (
        replace(spec, fields=tuple(field.following(step.before, step.after) for field in spec.fields))
        for spec in snapshot.specs
    )
    return tuple(spec for spec, known in zip(retyped, snapshot.specs, strict=True) if spec != known)


def check_specs(snapshot: Snapshot, step: SchemaStep) -> None:
    """Raise `SpecError`, naming every partition field that a column's new type would break."""
    problems = [
        f"v{spec.id}, field {field.field_id!r}: {problem}; {INSTEAD}"
        for spec in snapshot.specs
        for field in spec.fields
        for problem in field.problems_of_change(step.before, step.after)
    ]
    if problems:
        raise SpecError("partition specs", problems)
