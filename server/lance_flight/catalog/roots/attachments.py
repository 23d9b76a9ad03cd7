"""Plain tables that become partitions of a namespace, and partitions that become plain tables.

Whichever way, the new place is filled first, then one commit makes it visible, and what was there before goes last: a
process that dies between leaves both, and loses nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from os import link
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa
from lance import LanceDataset

from lance_flight.catalog.commits.transaction import TableUpdate, Transaction, namespace_key, removed_rows
from lance_flight.catalog.commits.writer import partition_values, table_dropped
from lance_flight.catalog.manifests.manifest_rows import NewPartitions
from lance_flight.catalog.manifests.snapshot import FixedPin, PartitionTable, Snapshot, Version
from lance_flight.catalog.plain_table import PlainTable
from lance_flight.catalog.storage.lance_columns import columns_of
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import VERSIONS
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.schema_adapter import readable
from lance_flight.catalog.tables.sources import Source, source_of
from lance_flight.errors import AlreadyExists, Conflict, DataError, SchemaError, SerializationFailure, Unsupported
from lance_flight.faults import failpoint
from lance_flight.model.hashing import match
from lance_flight.model.naming import COLUMN_PREFIX, directory_name
from lance_flight.model.schema import field_ids
from lance_flight.model.spec import Evaluate

REFERENCES = "_refs"
"""Tags and branches of a table are no business of the namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A plain table, at its newest version, on its way to become the partition of one row of `values`."""

    namespace: PartitionedNamespace
    table: PlainTable
    name: str
    values: pa.Table
    evaluate: Evaluate

    def commit(self, *, trusted: bool) -> tuple[int, int]:
        """Make it a partition in one commit, its rows checked unless `trusted`; how many they are, and its own version.

        Its files are linked (copied in an object store) into the namespace; the plain table is left as it was.
        """
        dataset = self.table.open()
        self._check_table(dataset)
        transaction = self.namespace.begin()
        snapshot = transaction.snapshot
        self._check_free(snapshot)
        problems = readable(snapshot.schema.plain, pa.schema(columns_of(dataset)))
        if problems:
            raise SchemaError(f"table {self.name!r} as a partition of {self.namespace.store.name!r}", problems)
        if not trusted:
            self._check_rows(dataset, snapshot)
        rows = int(dataset.count_rows())
        with self.namespace.changing(transaction):
            edit = self._edit(snapshot)
            pin = self._bring_files(dataset, snapshot, self.namespace.store.child(edit.location))
            transaction.attach(edit, pin, f"attach {self.name} with {rows} rows")
            self.namespace.commits.commit(transaction)
        return rows, int(dataset.version)

    def _check_table(self, dataset: LanceDataset) -> None:
        """Refuse what cannot be moved: links, tables with branches, tables that have files elsewhere."""
        store = self.table.store
        if self.namespace.branch is not None:
            raise Unsupported(f"branch {self.namespace.branch.name!r}: tables can be attached on the main branch only")
        if store.is_link:
            raise Unsupported(f"table {self.name!r} is a symbolic link; expected the directory itself")
        branches = sorted(dataset.branches.list())
        if branches:
            raise Unsupported(f"table {self.name!r} has the branch {branches[0]!r}, which cannot come along")
        here = {file.path for file in store.tree()}
        for fragment in dataset.get_fragments():
            for file in fragment.metadata.files:
                if file.base_id is not None or f"data/{file.path}" not in here:
                    raise Unsupported(f"table {self.name!r} has the file {file.path!r} in another place than its own")

    def _check_free(self, snapshot: Snapshot) -> None:
        """Refuse a second table for a value: writers find a table by the value, and would see only one of several."""
        if self.values.column_names != [field.column for field in snapshot.current_spec.fields]:
            raise SerializationFailure(f"table {self.namespace.store.name!r} has another partition spec by now")
        tables = snapshot.tables_of(snapshot.current_spec.id)
        if len(tables) and (match(self.values, tables.values) >= 0).any():
            raise AlreadyExists(
                f"the partition {show_values(self.values)} of {self.namespace.store.name!r} is there already;"
                " INSERT the rows, or DROP the partition first"
            )

    def _check_rows(self, dataset: LanceDataset, snapshot: Snapshot) -> None:
        """Raise `DataError` for the first row that is of another partition, or is no row of the namespace."""
        schema, fields = snapshot.schema, snapshot.current_spec.fields
        paths = schema.source_paths
        sources = {paths[number][0] for field in fields for number in field.source_ids if number in paths}
        needed = [
            field
            for field in schema.plain
            if not field.nullable
            or field.name in sources
            or field.name not in dataset.schema.names
            or dataset.schema.field(field.name).type != field.type
        ]
        columns = pa.schema(needed or schema.plain[:1])
        scan = Scan(source=schema.plain, schema=columns, ids={})
        before = 0
        for batch in scan.read([lambda: [Source(dataset)]]):
            rows = pa.Table.from_batches([batch])
            for field in columns:
                if not field.nullable and rows[field.name].null_count:
                    row = rows[field.name].is_null().index(True).as_py()
                    raise DataError(
                        f"column {field.name!r} is NOT NULL, and row {before + row + 1} of {self.name!r} is"
                    )
            values_of_rows = partition_values(rows, fields, paths, self.evaluate)
            wrong = np.flatnonzero(match(values_of_rows, self.values) < 0)
            if len(wrong):
                raise DataError(
                    f"row {before + int(wrong[0]) + 1} of {self.name!r} is of the partition"
                    f" {show_values(values_of_rows.slice(int(wrong[0]), 1))}, not {show_values(self.values)}"
                )
            before += batch.num_rows

    def _edit(self, snapshot: Snapshot) -> TableUpdate:
        spec = snapshot.current_spec
        object_id = NewPartitions(snapshot, spec, namespace_key(snapshot)).object_ids(self.values)[0]
        location = directory_name(object_id)
        return TableUpdate(
            spec=spec,
            schema=snapshot.schema.table,
            values=self.values,
            object_id=object_id,
            location=location,
            place=location,
            table=None,
            replaces=True,
        )

    def _bring_files(self, dataset: LanceDataset, snapshot: Snapshot, place: Store) -> FixedPin:
        """Return the files at their place in the namespace, and a version on top that says which columns they are."""
        with ExitStack() as failed:
            failed.callback(place.remove)
            _link(self.table.store, place)
            failpoint("table_linked")
            brought = place.open()
            if int(brought.version) != int(dataset.version):
                raise Conflict(f"table {self.name!r} was written while it was attached")
            brought.update_field_metadata(field_ids(brought.schema, snapshot.schema))
            failed.pop_all()
        return Version(int(brought.version))


def detached_rows(namespace: PartitionedNamespace, snapshot: Snapshot, table: PartitionTable) -> Iterator[pa.Table]:
    """Return the rows of one partition table in the columns of the namespace."""
    schema = snapshot.schema
    scan = Scan(source=schema.plain, schema=schema.plain, ids=schema.ids)
    batches = scan.read([lambda: [source_of(namespace.store, snapshot, table)]])
    return (pa.Table.from_batches([batch]) for batch in batches)


def detach(namespace: PartitionedNamespace, transaction: Transaction, table: PartitionTable, name: str) -> None:
    """Take one partition table out of the namespace in one commit; its directory stays for older snapshots."""
    edit = table_dropped(namespace.store, transaction.snapshot, table)
    rows = removed_rows([edit])
    transaction.add([edit], f"detach {name} with {rows} rows")
    with namespace.changing(transaction):
        namespace.commits.commit(transaction)


def _link(source: Store, target: Store) -> None:
    """Link all files of a table but its tags at another place: none of them ever changes.

    Its versions come first, and are copied: a directory in which nothing is new would be taken for a dead one.
    """
    if source.is_remote:
        source.copy_to(target)
        target.child(REFERENCES).remove()
        return
    files = [PurePosixPath(file.path) for file in source.tree()]
    for path in sorted(files, key=lambda path: path.parts[0] != VERSIONS):
        if path.parts[0] == REFERENCES:
            continue
        old, new = Path(source.uri, path), Path(target.uri, path)
        new.parent.mkdir(parents=True, exist_ok=True)
        if path.parts[0] != VERSIONS:
            # Not every file system has links.
            with suppress(OSError):
                link(old, new)
                continue
        shutil.copyfile(old, new)


def show_values(values: pa.Table) -> str:
    """Return one row of partition values as SQL says them."""
    row = values.to_pylist()[0]
    listed = (f"{name.removeprefix(COLUMN_PREFIX)} = {'NULL' if v is None else repr(v)}" for name, v in row.items())
    return "(" + ", ".join(listed) + ")"
