"""Rows of a `__manifest`: rewritten by a commit, of new partitions, with new column types; and the notes on its guard row.

A snapshot knows the address of every row, so nothing has to be searched. Small fragments are folded into the new one
in the same commit, as in a log-structured merge: their number stays logarithmic, each row is written again a
logarithmic number of times, and no compaction runs beside the commits.

Lance's own `alter_columns` is a commit by itself, and an overwrite conflicts with no writer. A merge takes a schema and
fragments, conflicts with every commit of rows, and wants to see each fragment that is there with the new columns: they are
handed over as deleted whole, and Lance leaves such ones out of the version.

Every commit writes the guard row back, so that a note on it changes together with rows.

Specs and schema stand in table metadata and pins in rows, which are two operations of Lance (decision 19a). A change of
both is committed as rows: the new values are written into the guard row, beside what they replace, and count from then
on. As soon as the table metadata has them the note in the row means nothing any more; whoever finds them missing there
puts them in.

Spec: Physical Layout and Naming, Appendix C; decisions 4 and 6.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance.fragment import DeletionFile
from lance.schema import LanceSchema

from lance_flight.catalog.manifests.snapshot import Pin, Snapshot
from lance_flight.catalog.storage.lance_columns import (
    Layout,
    chosen_numbers,
    least_number,
    numbers,
    walk,
    with_numbers,
    write_file,
)
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import OFFSET_BITS, OFFSETS, sealed_deletions
from lance_flight.errors import InvalidInput
from lance_flight.model.hashing import match
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import SEPARATOR, TABLE, namespace_name, spec_namespace
from lance_flight.model.spec import PartitionSpec

FREE_ROWS = 1 << 10
"""Written again in the time that one deletion file takes."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Changes of one commit to the table: `rows` for a new fragment, with the remaining rows of `folded` among them.

    `gone` marks the rows of the base that are replaced or removed; `kept` those that stay where they are.
    One that `is_retyped` gives columns other types, and folds all fragments.
    """

    rows: pa.Table
    folded: frozenset[int]
    gone: dict[int, np.ndarray]
    kept: np.ndarray
    is_retyped: bool = False

    @classmethod
    def of(cls, base: Snapshot, changed: pa.Table, removed: Sequence[str] = ()) -> Rewrite:
        """Return the rewrite that replaces the rows of `base` with the object ids of `changed`, and takes `removed` out."""
        if base.addresses is None:
            raise AssertionError("a snapshot that was never stored")
        ids = [*changed["object_id"].to_pylist(), *removed]
        replaced = pc.is_in(base.rows["object_id"], value_set=pa.array(ids, pa.utf8())).to_numpy()
        fragments = base.addresses >> OFFSET_BITS
        is_retyped = changed.schema.types != base.rows.schema.types
        if is_retyped or len(fragments) <= FREE_ROWS:
            kept = base.rows.filter(pa.array(~replaced)).cast(changed.schema)
            rows = pa.concat_tables([kept, changed]).combine_chunks()
            none = np.zeros(len(fragments), np.bool_)
            return cls(rows, frozenset(np.unique(fragments).tolist()), {}, none, is_retyped)
        folded = _choose_folded(fragments[~replaced], changed.num_rows)
        in_folded = np.isin(fragments, list(folded))
        moved = base.rows.filter(pa.array(in_folded & ~replaced))
        deleted = replaced & ~in_folded
        gone = {
            int(number): base.addresses[deleted & (fragments == number)] & OFFSETS
            for number in np.unique(fragments[deleted])
        }
        # A fragment without any row left goes away with those that are folded.
        empty = {number for number in gone if not np.any((fragments == number) & ~replaced)}
        return cls(
            pa.concat_tables([moved, changed]).combine_chunks(),
            frozenset(folded | empty),
            {number: offsets for number, offsets in gone.items() if number not in empty},
            ~(replaced | in_folded),
        )

    def operation(self, dataset: LanceDataset, place: str, written: FragmentMetadata) -> LanceOperation.Update:
        """Return the operation that Lance commits to the table at a place, and write its deletion files."""
        left = [dataset.get_fragment(number).delete_rows(offsets.tolist()) for number, offsets in self.gone.items()]
        updated = sealed_deletions(place, left)
        return LanceOperation.Update(
            removed_fragment_ids=sorted(self.folded), updated_fragments=updated, new_fragments=[written]
        )

    def apply(self, base: Snapshot, committed: LanceDataset) -> Snapshot:
        """Return the snapshot after the commit, without reading anything."""
        if base.addresses is None:
            raise AssertionError("a snapshot that was never stored")
        newest = max(fragment.fragment_id for fragment in committed.get_fragments())
        rows, addresses = self.rows, (newest << OFFSET_BITS) + np.arange(self.rows.num_rows, dtype=np.uint64)
        if self.kept.any():
            rows = pa.concat_tables([base.rows.filter(pa.array(self.kept)), rows]).combine_chunks()
            addresses = np.concatenate([base.addresses[self.kept], addresses])
        return replace(
            base,
            version=int(committed.version),
            committed_at=committed.get_version()["timestamp"].astimezone(UTC),
            rows=rows,
            addresses=addresses,
        )


def _choose_folded(fragments: np.ndarray, changed: int) -> set[int]:
    """Return the fragments to fold into the new one, smallest first.

    These are no larger than what is written anyway, or cheaper to write again than to delete from.
    """
    numbers, sizes = np.unique(fragments, return_counts=True)
    folded: set[int] = set()
    total = changed
    for place in np.argsort(sizes, kind="stable"):
        if sizes[place] > max(total, FREE_ROWS):
            break
        folded.add(int(numbers[place]))
        total += int(sizes[place])
    return folded


def write_retyped(place: Store, dataset: LanceDataset, rows: pa.Table) -> LanceOperation.Merge:
    """Write all `rows` of the next version of a table at a place, in columns of other types, and return its operation."""
    schema = _schema(dataset, rows.schema)
    layout = Layout.of(rows.schema, str(dataset.data_storage_version))
    written = write_file(place, layout.with_field_numbers(numbers(schema)), rows)
    known = [fragment.metadata for fragment in dataset.get_fragments()]
    # An index may list fragments that are gone: their numbers are not given again.
    segments = (segment for index in dataset.describe_indices() for segment in index.segments)
    indexed = {number for segment in segments for number in segment.fragment_ids}
    new = replace(written, id=max([*indexed, *(field.id for field in known)], default=-1) + 1)
    deleted = [_delete_all_rows(field, written, dataset) for field in known]
    return LanceOperation.Merge([*deleted, new], schema)


def _schema(dataset: LanceDataset, columns: pa.Schema) -> LanceSchema:
    """Return the columns with Lance's numbers for them, and new ones where the type is another."""
    changed = {(None, field.name) for field in dataset.schema if columns.field(field.name).type != field.type}
    stored = zip(walk(list(dataset.schema)), numbers(dataset.lance_schema), strict=True)
    known = {key: number for (key, _), number in stored if key not in changed}
    return with_numbers(columns, known | chosen_numbers(columns, known, least_number(dataset)))


def _delete_all_rows(fragment: FragmentMetadata, written: FragmentMetadata, dataset: LanceDataset) -> FragmentMetadata:
    """Return a fragment all of whose rows are deleted, by a file that Lance does not read."""
    file = DeletionFile(int(dataset.version), secrets.randbits(32), "array", fragment.physical_rows, None)
    return replace(fragment, files=written.files, deletion_file=file)


class NewPartitions:
    """Names partitions under one spec version, below the namespaces that a snapshot has already.

    An existing namespace is found by its values, never by its name; a new one is named with the key.
    """

    def __init__(self, snapshot: Snapshot, spec: PartitionSpec, key: bytes) -> None:
        self._snapshot = snapshot
        self._spec = spec
        self._key = key

    def object_ids(self, values: pa.Table) -> list[str]:
        """Return the object id of the partition table for each row of `values`."""
        return [parent + SEPARATOR + TABLE for parent in self._namespaces(values, {})]

    def rows(self, values: pa.Table, locations: Sequence[str], pins: Sequence[Pin]) -> pa.Table:
        """Make manifest rows for partitions `values` stored at `locations`: namespaces, tables, a missing `v<N>` row."""
        made: dict[str, dict[str, Any]] = {}
        for place, parent in enumerate(self._namespaces(values, made)):
            object_id = parent + SEPARATOR + TABLE
            made[object_id] = {
                **_object(object_id, "table"),
                **_row(values, place),
                **pins[place].columns._asdict(),
                "location": locations[place],
            }
        return pa.concat_tables([self._version_row(), _table(list(made.values()), self._snapshot.rows.schema)])

    def _namespaces(self, values: pa.Table, made: dict[str, dict[str, Any]]) -> list[str]:
        """Return the object id of each partition's innermost namespace; rows of new ones are put into `made`."""
        parents = [spec_namespace(self._spec.id)] * values.num_rows
        for level in range(1, values.num_columns + 1):
            parents = self._level(level, values, parents, made)
        return parents

    def _level(self, level: int, values: pa.Table, parents: list[str], made: dict[str, dict[str, Any]]) -> list[str]:
        prefix = values.select(values.column_names[:level])
        existing = self._snapshot.namespaces_of(self._spec.id, level)
        ids = []
        for place, row in enumerate(match(prefix, existing.select(prefix.column_names))):
            if row >= 0:
                ids.append(existing["object_id"][int(row)].as_py())
                continue
            scalars = [column[place] for column in prefix.columns]
            ids.append(parents[place] + SEPARATOR + namespace_name(self._key, self._spec.id, scalars))
            made[ids[-1]] = {**_object(ids[-1], "namespace"), **_row(prefix, place)}
        return ids

    def _version_row(self) -> pa.Table:
        name = spec_namespace(self._spec.id)
        missing = [] if self._snapshot.row(name).num_rows else [_object(name, "namespace")]
        return _table(missing, self._snapshot.rows.schema)


def guard_row(snapshot: Snapshot) -> pa.Table:
    """Return the row of the oldest spec, made if it is missing.

    Every commit writes it back, so that any two commits conflict.
    """
    row = snapshot.oldest_spec
    return row if row.num_rows else version_rows(snapshot.specs[:1], snapshot.rows.schema)


def version_rows(specs: Sequence[PartitionSpec], schema: pa.Schema) -> pa.Table:
    """Return the `v<N>` rows of a new namespace."""
    return _table([_object(spec_namespace(spec.id), "namespace") for spec in specs], schema)


def _object(object_id: str, object_type: str) -> dict[str, Any]:
    return {"object_id": object_id, "object_type": object_type, "metadata": "{}"}


def _row(values: pa.Table, place: int) -> Mapping[str, pa.Scalar]:
    return {name: values[name][place] for name in values.column_names}


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows of a manifest; columns that a row does not name, ours or foreign, are NULL."""
    return pa.Table.from_arrays([pa.array([r.get(f.name) for r in rows], f.type) for f in schema], schema=schema)


NOTES = "lance_flight:notes"
"""The key under which a plain table, which has no guard row, keeps what stands there: in its metadata, or in a commit's properties."""


def notes_text(head: pa.Table) -> str:
    """Return all that a guard row says, as it stands there."""
    return head["metadata"][0].as_py() or "{}"


def notes_of(head: pa.Table) -> dict[str, Any]:
    """Return all notes of a guard row; nothing where there is none, or where its metadata has foreign content."""
    text = head["metadata"][0].as_py() if head.num_rows and "metadata" in head.column_names else None
    notes = read_json(text) if text else {}
    return notes if isinstance(notes, dict) else {}


def entries_of(head: pa.Table, key: str) -> list[Any]:
    """Return the entries of a note that is a list; none where it is not there, or is something else."""
    entries = notes_of(head).get(key)
    return entries if isinstance(entries, list) else []


def with_note(head: pa.Table, key: str, note: object) -> pa.Table:
    """Return the guard row with the note under one key replaced."""
    place = head.schema.get_field_index("metadata")
    text = json.dumps(notes_of(head) | {key: note}, separators=(",", ":"), ensure_ascii=False)
    return head.set_column(place, head.schema.field(place), pa.array([text], head.schema.field(place).type))


PENDING = "lance_flight:pending"
_DIGEST_BYTES = 16


def note_values(head: pa.Table, metadata: Mapping[str, str], values: Mapping[str, str]) -> pa.Table:
    """Return the guard row with a note that `values` take the place of what `metadata` says.

    A value that stays the same, such as a spec whose exact types its JSON cannot say, would never be seen to have followed.
    """
    changed = {key: value for key, value in values.items() if metadata.get(key) != value}
    note = {key: {"was": _digest(metadata.get(key)), "now": value} for key, value in changed.items()}
    return with_note(head, PENDING, json.dumps(note, separators=(",", ":"), ensure_ascii=False))


def pending_values(head: pa.Table, metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what the guard row says and `metadata` has still the old values of."""
    text = notes_of(head).get(PENDING)
    note = read_json(text) if isinstance(text, str) else {}
    if not isinstance(note, dict) or not all(_is_change(entry) for entry in note.values()):
        raise InvalidInput(f"{PENDING} is {text!r}; expected what was and what is now for each key")
    return {key: entry["now"] for key, entry in note.items() if entry["was"] == _digest(metadata.get(key))}


def _is_change(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("was", "now"))


def _digest(text: str | None) -> str:
    return "" if text is None else hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()
