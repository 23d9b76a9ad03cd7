"""A new schema for a namespace and all its tables, in one commit.

Every partition table gets a version with the new schema first, which nobody sees; the commit moves the pins and says
the schema. A table that somebody has written to meanwhile is done again, the others are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import islice

import pyarrow as pa

from lance_flight.catalog.bulk.pieces import THREADS, Progress, Runner, of_tables
from lance_flight.catalog.commits.staging import repinned
from lance_flight.catalog.evolving.new_columns import NewColumns, SchemaStep, Widened
from lance_flight.catalog.evolving.table_schemas import new_columns, stage_schema
from lance_flight.catalog.manifests.evolution import Evolution
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables import partitions
from lance_flight.errors import SpecError
from lance_flight.faults import reached
from lance_flight.model.pins import FixedPin
from lance_flight.model.schema import NamespaceSchema

WORKERS = 8

_Place = tuple[str, FixedPin]
"""A table by its location, and the version of it that is changed."""

Decide = Callable[[Snapshot], tuple[SchemaStep, str]]
"""What becomes of the schema of a snapshot, and what to call it in the history."""


class SchemaEvolution:
    """One change of schema, made on one snapshot after another until it is committed (`evolution.Change`).

    `run` is who writes the values of new columns.
    """

    def __init__(self, root: Store, decide: Decide, *, run: Runner = THREADS, progress: Progress | None = None) -> None:
        self._root = root
        self._decide = decide
        self._run = run
        self._progress = progress
        self._after: NamespaceSchema | None = None
        self._staged: dict[_Place, FixedPin] = {}

    def __call__(self, snapshot: Snapshot) -> Evolution | None:
        """The rows and the metadata that make the change visible; None where there is nothing to change."""
        step, operation = self._decide(snapshot)
        if step.before == step.after:
            return None
        check_specs(snapshot, step)
        if step.after != self._after:
            self._after, self._staged = step.after, {}
        tables = snapshot.all_tables()
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="schema") as pool:
            bases = list(pool.map(self._base, tables))
            todo = {
                (table.location, base): table
                for table, base in zip(tables, bases, strict=True)
                if (table.location, base) not in self._staged
            }
            widened = self._widened(pool, step, todo)
            list(pool.map(lambda key: self._stage(step, key, widened[key], todo[key]), todo))
        pins = [self._staged[table.location, base] for table, base in zip(tables, bases, strict=True)]
        rows: pa.Table | None = None
        if tables:
            rows = repinned(snapshot.rows_of([table.object_id for table in tables]), pins)
        return Evolution(operation=operation, schema=step.after, rows=rows)

    def _base(self, table: PartitionTable) -> FixedPin:
        return partitions.resolve(self._root.child(table.location), table.pin)

    def _widened(
        self, pool: Executor, step: SchemaStep, todo: Mapping[_Place, PartitionTable]
    ) -> dict[_Place, list[Widened]]:
        """The files with the new columns of each of these tables."""
        found = pool.map(lambda key: new_columns(self._root, todo[key], key[1], step), todo)
        pieces = dict(zip(todo, found, strict=True))
        work: list[NewColumns] = [piece for some in pieces.values() for piece in some]
        results = iter(self._run(work, of_tables(self._progress, 0, len(todo), len(todo))))
        return {key: list(islice(results, len(some))) for key, some in pieces.items()}

    def _stage(self, step: SchemaStep, key: _Place, widened: Sequence[Widened], table: PartitionTable) -> None:
        location, base = key
        self._staged[key] = stage_schema(self._root.child(location), base, step, widened, table.identity)
        reached("table_staged")


def check_specs(snapshot: Snapshot, step: SchemaStep) -> None:
    """`SpecError` names every partition field that a column's new type would break."""
    problems = [
        f"v{spec.id}, field {field.field_id!r}: {problem}"
        for spec in snapshot.specs
        for field in spec.fields
        for problem in field.problems_of_change(step.before, step.after)
    ]
    if problems:
        raise SpecError("partition specs", problems)
