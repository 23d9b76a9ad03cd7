"""An engine over a directory, asked as `tests.service.server_process.Server` is asked, without a server process.

What a statement means is tested with it; what the wire adds is tested with a server.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.query_plans import QueryPlan
from lance_flight.engine.query.scope import ALONE, Scope
from lance_flight.engine.writes.ingest_options import IngestOptions
from lance_flight.errors import LanceFlightError
from lance_flight.flight.status import flight_error

Parameters = Sequence[Any] | pa.RecordBatch | None

# ADBC's modes of ingest → whether a missing table is created, and the action where there is one.
MODES = {
    "create": (True, IfExists.FAIL),
    "append": (False, IfExists.APPEND),
    "create_append": (True, IfExists.APPEND),
    "replace": (True, IfExists.REPLACE),
}


@dataclass(frozen=True)
class Database:
    """A root, and an engine that runs statements over it in this process."""

    root: Path
    scope: Scope = ALONE

    @cached_property
    def engine(self) -> Engine:
        return Engine(Root(Store(str(self.root))), target_partitions=2)

    def query(self, sql: str, parameters: Parameters = None) -> pa.Table:
        """All rows of a query."""
        outcome = self.engine.execute(sql, bound(parameters), scope=self.scope)
        if not isinstance(outcome, QueryPlan):
            return pa.table({})
        batches = [batch for task in outcome.tasks for batch in self.engine.run(task)]
        return pa.Table.from_batches(batches, outcome.schema)

    def rows(self, sql: str, parameters: Parameters = None) -> list[tuple[Any, ...]]:
        """All rows of a query, as tuples."""
        return list(zip(*(column.to_pylist() for column in self.query(sql, parameters).columns), strict=True))

    def value(self, sql: str, parameters: Parameters = None) -> Any:
        """The one value of a query."""
        ((value,),) = self.rows(sql, parameters)
        return value

    def run(self, sql: str, parameters: Parameters = None) -> int:
        """Run a statement that returns no rows; return how many it affected."""
        return self.engine.update(sql, bound(parameters), self.scope)

    def ingest(
        self,
        table: str,
        data: Any,
        mode: str = "create",
        *,
        partition_by: str | None = None,
        db_schema_name: str = PUBLIC,
        **options: str,
    ) -> int:
        """Store rows in one commit; return their number."""
        create_missing, existing = MODES[mode]
        if partition_by is not None:
            options["partition_by"] = partition_by
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        return self.engine.ingest(
            TableName(db_schema_name, table),
            data.to_reader() if isinstance(data, pa.Table) else data,
            create_missing=create_missing,
            existing=existing,
            options=IngestOptions.of(options),
            scope=self.scope,
        )

    def copy(self, table: str, name: str) -> str:
        """Put a copy of a partitioned table beside it, which is quicker than writing it again; return its name."""
        shutil.copytree(self.root / table, self.root / name)
        return name

    def refuses(self, sql: str, parameters: Parameters = None) -> str:
        """Run a statement that must fail; return its error as a client reads it."""
        with pytest.raises(LanceFlightError) as raised:
            self.rows(sql, parameters)
        return str(flight_error(raised.value))


def bound(parameters: Parameters) -> pa.RecordBatch | None:
    """The values of one execution, as a client binds them."""
    if parameters is None or isinstance(parameters, pa.RecordBatch):
        return parameters
    return pa.RecordBatch.from_arrays(
        [pa.array([value]) for value in parameters], [str(n) for n in range(len(parameters))]
    )
