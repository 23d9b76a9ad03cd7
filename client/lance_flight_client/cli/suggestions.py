"""Partition fields for files, shown with what each costs: `lance-flight ingest --suggest`."""

from __future__ import annotations

import pyarrow as pa
from lance_flight.engine.writes.partition_suggestions import (
    FEWEST_ROWS,
    MOST_TABLES,
    PartitionSuggestion,
    suggestions,
)

from lance_flight_client.cli.partition_notes import month_note
from lance_flight_client.files.sources import RowSource
from lance_flight_client.output import align_table
from lance_flight_client.terminal import Meter, counted, readable


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
