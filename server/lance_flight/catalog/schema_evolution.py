"""A new schema for a namespace and all its tables, in one commit.

Every partition table gets a version with the new schema first, which nobody sees; the commit moves the pins and says
the schema. A table that somebody has written to meanwhile is done again, the others are not.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa

from lance_flight.catalog import partitions
from lance_flight.catalog.evolution import Evolution
from lance_flight.catalog.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.staging import repinned
from lance_flight.catalog.store import Store
from lance_flight.catalog.table_schemas import SchemaStep, stage_schema
from lance_flight.errors import DataError, SpecError
from lance_flight.faults import reached
from lance_flight.model.pins import FixedPin
from lance_flight.model.schema import NamespaceSchema

WORKERS = 8

Decide = Callable[[Snapshot], tuple[SchemaStep, str]]
"""What becomes of the schema of a snapshot, and what to call it in the history."""


class SchemaEvolution:
    """One change of schema, made on one snapshot after another until it is committed (`evolution.Change`)."""

    def __init__(self, root: Store, decide: Decide) -> None:
        self._root = root
        self._decide = decide
        self._after: NamespaceSchema | None = None
        self._staged: dict[tuple[str, FixedPin], FixedPin] = {}

    def __call__(self, snapshot: Snapshot) -> Evolution | None:
        """The rows and the metadata that make the change visible; None where there is nothing to change."""
        step, operation = self._decide(snapshot)
        if step.before == step.after:
            return None
        check_specs(snapshot, step)
        if step.after != self._after:
            self._after, self._staged = step.after, {}
        tables = [table for tables in snapshot.tables for table in tables.tables()]
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="schema") as pool:
            pins = list(pool.map(partial(self._stage, step), tables))
        rows: pa.Table | None = None
        if tables:
            rows = repinned(snapshot.rows_of([table.object_id for table in tables]), pins)
        return Evolution(operation=operation, schema=step.after, rows=rows)

    def _stage(self, step: SchemaStep, table: PartitionTable) -> FixedPin:
        base = partitions.resolve(self._root.child(table.location), table.pin)
        key = table.location, base
        if key not in self._staged:
            try:
                self._staged[key] = stage_schema(self._root, table.location, base, step)
            except DataError as exc:
                raise DataError(f"partition table {table.object_id!r}: {exc}") from exc
            reached("table_staged")
        return self._staged[key]


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
