"""Lookup of the commit of a write that had a `commit_id`."""

from __future__ import annotations

from collections.abc import Mapping

from lance_flight.catalog.commits.once import CommitToken, named_commit
from lance_flight.catalog.roots.directory import Root, TableName

from lance_flight_client.dataset.portions import store_of
from lance_flight_client.spark.options import WriteOptions


def find_commit(
    root: str, table: str, commit_id: str, *, storage: Mapping[str, str] | None = None
) -> CommitToken | None:
    """Return the commit that was made under an id, with rows and time; None where it is not known, or not any more."""
    options = WriteOptions.of(root, table, storage or {})
    found = Root(store_of(options.root, options.storage)).find(TableName(*options.table))
    return None if found is None else named_commit(found.snapshot(), commit_id)
