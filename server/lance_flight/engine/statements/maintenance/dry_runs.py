"""Reads what several maintenance statements say."""

from __future__ import annotations

from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef


def table_dry_run(cursor: Cursor) -> tuple[TableRef, bool]:
    """Read `TABLE t [DRY RUN]`."""
    cursor.expect("TABLE")
    table = references.table(cursor)
    dry_run = cursor.accept("DRY", "RUN")
    return table, dry_run
