"""Rows of a plain Lance table that go and come, in one commit on top of exactly the version that was read."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from lance import LanceDataset, LanceOperation

from lance_flight.catalog.commits.removals import by_fragment
from lance_flight.catalog.commits.table_updates import Removal
from lance_flight.catalog.storage.conflicts import conflicts
from lance_flight.catalog.storage.location_guard import LocationGuard
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.lineage import by_ids, conform, keeping
from lance_flight.errors import Conflict, SerializationFailure


def replace_rows(store: Store, version: int, gone: np.ndarray | None, come: Iterable[pa.Table]) -> int:
    """Take the rows at some addresses away (None: all of them), add others, and return how many went.

    Those that come may have `lineage.ORIGIN_FIELDS`, with 0 for the number of the table.

    `SerializationFailure` if anybody has changed the same rows' fragments since `version`; rows that were only added
    since stay beside the new ones.
    """
    dataset, standing = store.open(version), LocationGuard.of(store, version)
    added = [conform(table, dataset.schema) for table in come]
    # From here on files are written.
    removal = Removal.everything(dataset) if gone is None else Removal.of(dataset, by_fragment(gone))
    new = [
        fragment
        for part, ids in (() if not added else by_ids(pa.concat_tables(added), dataset.schema, 0))
        for fragment in keeping(partitions.write_files(store, version, part), ids)
    ]
    if not removal.rows and not new:
        return 0
    operation = LanceOperation.Update(
        removed_fragment_ids=list(removal.removed), updated_fragments=list(removal.updated), new_fragments=new
    )
    try:
        with conflicts(f"another writer changed table {store.name!r} first"):
            LanceDataset.commit(
                dataset, operation, read_version=version, max_retries=0, storage_options=store.options or None
            )
    except Conflict as exc:
        raise SerializationFailure(str(exc)) from exc
    standing.check(store.name)
    return removal.rows
