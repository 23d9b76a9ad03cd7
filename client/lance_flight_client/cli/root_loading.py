"""Loading into a root, in this process, and what a load asks of the engine before: types, new tables, and partition fields (`--suggest`)."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from lance_flight.backend_values import IfExists
from lance_flight.catalog.commits.writer import write_memory
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.formats import root_store
from lance_flight.config import storage_from_environment
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.planned_query import Task
from lance_flight.engine.runtime.running_statement import Issuer
from lance_flight.engine.statements.create_table import columns_of
from lance_flight.engine.writes.definitions import (
    FEWEST_ROWS,
    MOST_TABLES,
    PartitionSuggestion,
    suggestions,
)
from lance_flight.engine.writes.ingest import (
    COMMIT_ID,
    OVERWRITE,
    PARTITION_BY,
    IngestOptions,
    TableProperties,
    check_new,
)

from lance_flight_client.cli.arguments import MODES, month_note
from lance_flight_client.cli.connecting import Begins
from lance_flight_client.cli.loading import FileLoad
from lance_flight_client.files.sources import RowSource
from lance_flight_client.output import align_table
from lance_flight_client.terminal import Meter, counted, readable

__all__ = ["cancel_statements", "check_load", "columns_of", "engine_over", "root_target", "rows_of_root", "suggest"]

_LANES = 2
_WRITE_BYTES = 128 << 20
"""Memory for rows on their way into files: with what reads and encodes them, a load of any size stays below 1 GiB."""


def root_target(root: str) -> RootTarget:
    """Return a root as a target of rows, which is made where it is missing."""
    write_memory.total = _WRITE_BYTES
    return RootTarget(engine_over(root, create=True))


def check_load(load: FileLoad) -> None:
    """Refuse a table that could not be made for a load, and note partition fields that are often meant otherwise."""
    check_new(TableName(load.db_schema, load.name), load.schema, TableProperties.by(load.partition_by))
    note = month_note(load.partition_by or "")
    if note is not None:
        print(note, file=sys.stderr)


def engine_over(root: str, *, create: bool = False) -> Engine:
    """Return an engine over a root, in this process; one that is missing is made with `create` alone."""
    store = root_store(root, storage_from_environment(os.environ), create=create)
    return Engine(Root(store), target_partitions=_LANES)


def rows_of_root(root: str, sql: str, begins: Begins) -> pa.RecordBatchReader:
    """Run a query over a root, in this process; `begins` is given what cancels it."""
    engine = engine_over(root)
    begins(partial(cancel_statements, engine))
    return engine.run(Task(sql=sql))


def cancel_statements(engine: Engine) -> None:
    """Cancel what runs in an engine of this process; what is committing goes on."""
    for record in engine.running.records():
        engine.running.cancel(record.id, Issuer(), seconds=0)


@dataclass(frozen=True, slots=True)
class RootTarget:
    """Tables of a root, written by this process (`LoadTarget`)."""

    engine: Engine

    def columns(self, db_schema: str, name: str) -> pa.Schema | None:
        table = self.engine.root.find(TableName(db_schema, name))
        return None if table is None else table.snapshot().schema.plain

    def check_new(self, load: FileLoad) -> None:
        check_load(load)

    def ingest(self, load: FileLoad, rows: pa.RecordBatchReader, begins: Begins) -> int:
        given = {PARTITION_BY: load.partition_by, OVERWRITE: MODES[load.mode].overwrite, COMMIT_ID: load.commit_id}
        begins(partial(cancel_statements, self.engine))
        return self.engine.ingest(
            TableName(load.db_schema, load.name),
            rows,
            create_missing=True,
            existing=IfExists[MODES[load.mode].existing],
            options=IngestOptions.of({name: text for name, text in given.items() if text is not None}),
        )


def suggest(source: RowSource, given: str | None) -> int:
    """Count the rows of files by candidate partition fields, and show them, the best first."""
    meter = Meter("counting", source.size)
    read = [0, 0]

    def seen(size: int, rows: int) -> None:
        read[:] = size, rows
        meter(size, rows)

    try:
        partition_suggestions = suggestions(source.schema, source.batches(source.schema, seen), given)
    finally:
        meter.close()
    size, rows = read
    print(
        f"{counted(rows)}, {readable(size)}. A load writes each table, and a query opens those that its WHERE leaves:\n"
    )
    print(
        align_table(
            pa.Table.from_pylist(
                [_row(suggestion, size / max(rows, 1)) for suggestion in partition_suggestions], schema=_COLUMNS
            )
        )
    )
    best = next((suggestion for suggestion in partition_suggestions if suggestion.is_fit), None)
    if rows < 2 * FEWEST_ROWS or best is None:
        print(
            f"\nSuggested: no partition fields; none makes several tables of typically {FEWEST_ROWS:,} rows and more."
        )
    else:
        print(f"\nSuggested: --partition-by {_quote(best.fields)}, or another line whose columns your queries name.")
    note = month_note(given or "")
    if note is not None:
        print(f"\n{note}")
    return 0


_ROWS = ("tables", "rows of the smallest", "typical", "largest")
_COLUMNS = pa.schema(
    [("partition by", pa.utf8()), *((name, pa.int64()) for name in _ROWS), ("size of a typical one", pa.utf8())]
)


def _row(suggestion: PartitionSuggestion, row_size: float) -> dict[str, str | int]:
    if suggestion.tables is None:
        return {"partition by": f"{suggestion.fields}: over {MOST_TABLES:,} tables"}
    counts = dict(
        zip(_ROWS, (suggestion.tables, suggestion.smallest, suggestion.typical, suggestion.largest), strict=True)
    )
    return {
        "partition by": suggestion.fields,
        **counts,
        "size of a typical one": readable(int(suggestion.typical * row_size)),
    }


def _quote(fields: str) -> str:
    return f"'{fields}'" if '"' in fields else f'"{fields}"'
