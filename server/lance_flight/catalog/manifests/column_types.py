"""Commits that give columns of `__manifest` other types: all rows are written anew, beside the commit's other changes.

Lance's own `alter_columns` is a commit by itself, and an overwrite conflicts with no writer. A merge takes a schema and
fragments, conflicts with every commit of rows, and wants to see each fragment that is there with the new columns: they are
handed over as deleted whole, and Lance leaves such ones out of the version.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import replace

import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance.fragment import DeletionFile, write_fragments
from lance.schema import LanceSchema

from lance_flight.catalog.storage.further_files import FileLayout
from lance_flight.catalog.storage.lance_fields import chosen_numbers, least_number, numbers, walk, with_numbers
from lance_flight.catalog.storage.store import SMALL_BYTES, Store
from lance_flight.catalog.storage.whole_files import DATA, sealed


def retyped(place: Store, dataset: LanceDataset, rows: pa.Table) -> LanceOperation.Merge:
    """Write all `rows` of the next version of a table at a place, in columns of other types, and return its operation."""
    schema = _schema(dataset, rows.schema)
    written = _written(place, dataset, rows, schema)
    (written,) = sealed(place.uri, [written])
    known = [fragment.metadata for fragment in dataset.get_fragments()]
    # An index may list fragments that are gone: their numbers are not given again.
    segments = (segment for index in dataset.describe_indices() for segment in index.segments)
    indexed = {number for segment in segments for number in segment.fragment_ids}
    new = written.to_json() | {"id": max([*indexed, *(each.id for each in known)], default=-1) + 1}
    deleted = [_deleted(each, written, dataset) for each in known]
    return LanceOperation.Merge([*deleted, FragmentMetadata.from_json(json.dumps(new))], schema)


def _schema(dataset: LanceDataset, columns: pa.Schema) -> LanceSchema:
    """Return the columns with Lance's numbers for them, and new ones where the type is another."""
    changed = {(None, each.name) for each in dataset.schema if columns.field(each.name).type != each.type}
    stored = zip(walk(list(dataset.schema)), numbers(dataset.lance_schema), strict=True)
    known = {key: number for (key, _), number in stored if key not in changed}
    return with_numbers(columns, known | chosen_numbers(columns, known, least_number(dataset)))


def _written(place: Store, dataset: LanceDataset, rows: pa.Table, schema: LanceSchema) -> FragmentMetadata:
    """Write rows as one file that nothing refers to yet, laid out as Lance lays out the file of a new table."""
    sample = f"memory://{secrets.token_hex(8)}"
    version = dataset.data_storage_version
    (like,) = write_fragments(rows.slice(0, 1), sample, schema=rows.schema, mode="create", data_storage_version=version)
    name, layout = f"{secrets.token_hex(16)}.lance", FileLayout.of(like.files[0]).numbered(numbers(schema))
    writer = layout.writer(place.child(DATA, name), rows.schema, is_small=rows.nbytes <= SMALL_BYTES)
    writer.write_batch(rows)
    writer.close()
    return layout.fragment(name, writer.size_bytes, rows.num_rows)


def _deleted(fragment: FragmentMetadata, written: FragmentMetadata, dataset: LanceDataset) -> FragmentMetadata:
    """Return a fragment all of whose rows are deleted, by a file that Lance does not read."""
    file = DeletionFile(int(dataset.version), secrets.randbits(32), "array", fragment.physical_rows, None)
    return replace(fragment, files=written.files, deletion_file=file)
