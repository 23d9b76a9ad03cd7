"""Results as people read them: aligned, or a line for each value, with NULL visible."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from lance_flight_client.output import NULL, aligned, cell, document, is_document


def taken(batches: Iterable[pa.RecordBatch], schema: pa.Schema, limit: int | None) -> tuple[pa.Table, bool]:
    """Return the first rows of a result, and whether there are more; no further batch is asked for."""
    found: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        found.append(batch)
        count += batch.num_rows
        if limit is not None and count > limit:
            break
    rows = pa.Table.from_batches(found, schema)
    return (rows, False) if limit is None or count <= limit else (rows.slice(0, limit), True)


def shown(rows: pa.Table, *, expanded: bool, has_more: bool = False) -> str:
    """Return rows as text, with their number.

    >>> print(shown(pa.table({"origin": ["EWR", None], "n": [12, 345]}), expanded=False))
    origin    n
    EWR      12
    NULL    345
    (2 rows)
    >>> print(shown(pa.table({"origin": ["EWR"], "n": [12]}), expanded=True, has_more=True))
    row 1
      origin  EWR
      n       12
    (the first row; there are more)
    """
    if is_document(rows.schema):
        return document(rows)
    text = _expanded(rows) if expanded else aligned(rows, null=NULL)
    plural = "" if rows.num_rows == 1 else "s"
    count = f"the first {rows.num_rows:,} rows" if rows.num_rows > 1 else "the first row"
    return f"{text}\n({count}; there are more)" if has_more else f"{text}\n({rows.num_rows:,} row{plural})"


def _expanded(rows: pa.Table) -> str:
    width = max(map(len, rows.schema.names), default=0)
    lines = []
    for number, row in enumerate(zip(*(column.to_pylist() for column in rows.columns), strict=True), start=1):
        lines.append(f"row {number:,}")
        lines += [
            f"  {name:{width}}  {cell(value, NULL, None)}" for name, value in zip(rows.schema.names, row, strict=True)
        ]
    return "\n".join(lines)
