"""One version of a `__manifest` read as a snapshot: its rows, specs and schema, wherever its writer has put them.

Spec: Manifest Table Schema, Metadata Definition; decisions 1 and 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from lance_flight.catalog.manifests.guard_notes import PENDING, pending
from lance_flight.catalog.manifests.snapshot import SCHEMA_KEY, Snapshot, misplaced
from lance_flight.catalog.storage.formats import check_table
from lance_flight.catalog.storage.names import ROW_ADDRESS
from lance_flight.catalog.storage.store import UNREADABLE, Store, unreadable
from lance_flight.errors import Corrupt, InvalidInput
from lance_flight.model.arrow_types import is_string
from lance_flight.model.json_documents import read_json
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import SPEC_KEY, PartitionSpec, check_any_spec, specs_from_metadata


def read_snapshot(dataset: LanceDataset, place: Store, table_branch: str | None = None) -> Snapshot | None:
    """Parse one version of the `__manifest` at `place`; None where it is no partitioned namespace.

    `Corrupt` where it is broken, `NewerFormat` where only newer releases read it.
    """
    name = place.name
    # Before its rows, which may mean something else in a newer one; the next line of a commit may say so as well.
    stated = dataset.metadata
    check_table(stated, place)
    rows, addresses = _rows(dataset, place)
    try:
        waiting = _pending(rows, stated)
        metadata = {**stated, **waiting}
        check_table(metadata, place)
        elsewhere = misplaced(metadata, dataset.schema, rows)
        found = {prop.key: prop.text for prop in elsewhere} | metadata
        if not any(key.startswith(SPEC_KEY) for key in found):
            return None
        check_any_spec(found)
        _check_columns(name, rows.schema)
        if SCHEMA_KEY not in found:
            raise Corrupt(f"namespace {name!r} has partition specs and no {SCHEMA_KEY!r} in its metadata")
        specs = [spec.with_stored_types(rows.schema) for spec in specs_from_metadata(found)]
        schema = NamespaceSchema.from_json(read_json(found[SCHEMA_KEY]))
    except (InvalidInput, ValueError) as exc:
        raise Corrupt(f"namespace {name!r} has metadata that cannot be read: {exc}") from exc
    _check_fields(name, specs, rows.column_names)
    return Snapshot(
        version=int(dataset.version),
        committed_at=dataset.get_version()["timestamp"].astimezone(UTC),
        rows=rows.combine_chunks(),
        metadata=metadata,
        specs=tuple(specs),
        schema=schema,
        addresses=addresses,
        table_branch=table_branch,
        pending=waiting,
        misplaced=elsewhere,
    )


def _rows(dataset: LanceDataset, place: Store) -> tuple[pa.Table, np.ndarray]:
    """Return all rows, and where each of them lies."""
    try:
        addressed = dataset.scanner(with_row_address=True).to_table()
    except UNREADABLE as exc:
        raise unreadable(
            exc, f"namespace {place.name!r} has a __manifest that cannot be read: {place.words(exc)}"
        ) from exc
    return addressed.drop_columns([ROW_ADDRESS]), addressed[ROW_ADDRESS].to_numpy()


def _pending(rows: pa.Table, metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what the guard row says of the metadata, whichever of the `v<N>` rows it is."""
    if "metadata" not in rows.column_names or not is_string(rows.schema.field("metadata").type):
        return {}
    heads = rows.filter(pc.match_substring(rows["metadata"], PENDING))
    return pending(heads.slice(0, 1), metadata)


def _check_columns(name: str, schema: pa.Schema) -> None:
    """Raise `Corrupt` unless the columns that list the tables and their locations are there as text."""
    for column in ("object_id", "object_type", "location"):
        if column not in schema.names:
            raise Corrupt(f"namespace {name!r} has a __manifest without the column {column!r}")
        if not is_string(schema.field(column).type):
            raise Corrupt(
                f"namespace {name!r} has a __manifest whose column {column!r} is {schema.field(column).type}, not text"
            )


def _check_fields(name: str, specs: Sequence[PartitionSpec], columns: Sequence[str]) -> None:
    """Raise `Corrupt` unless every field of every spec has its column."""
    missing = [f.column for spec in specs for f in spec.fields if f.column not in columns]
    if missing:
        raise Corrupt(
            f"namespace {name!r} lost the columns {', '.join(missing)} of its __manifest (a writer that knows no"
            " partitions?); `lance-flight repair` restores them from an older version"
        )
