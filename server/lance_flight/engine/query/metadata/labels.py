"""`t$tags` and `t$branches`: the tags and the branches of a table."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow as pa

from lance_flight.catalog.table import Table
from lance_flight.engine.query.metadata.table import MetadataTable


def tags_table(table: Table) -> MetadataTable:
    """Return `t$tags`: one row per tag of a table, with its name and the version that it refers to."""
    schema = pa.schema(
        [
            pa.field("name", pa.utf8(), nullable=False),
            pa.field("version", pa.int64(), nullable=False),
            pa.field("branch", pa.utf8()),
        ]
    )
    return MetadataTable(schema, lambda _: pa.Table.from_pylist([asdict(tag) for tag in table.tags], schema=schema))


def branches_table(table: Table) -> MetadataTable:
    """Return `t$branches`: one row per branch, with its name, the main branch's version that it forked from, and its newest version."""
    schema = pa.schema(
        [
            pa.field("name", pa.utf8(), nullable=False),
            pa.field("forked_at", pa.int64(), nullable=False),
            pa.field("version", pa.int64(), nullable=False),
        ]
    )

    def build(_: list[str]) -> pa.Table:
        rows = [
            {
                "name": branch.name,
                "forked_at": branch.forked_at,
                "version": int(table.on_branch(branch.name).log.open().version),
            }
            for branch in table.branches
        ]
        return pa.Table.from_pylist(rows, schema=schema)

    return MetadataTable(schema, build)
