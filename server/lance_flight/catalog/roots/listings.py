"""Lists of a root beside its directories: tables and namespaces in its `__manifest`, and views.

The `__manifest` of a directory namespace (V2) has tables that may be called otherwise than their directories, and namespaces
(Directory-namespace spec, Manifest Table Schema). Rows of partitions are `manifests/manifest.py`'s. Columns that we do not know stay.

Each view is a file of its own in the private directory of the root (`.lance-flight/view-….json`). Files, and no directory: servers of
older versions take directories there for abandoned staging areas.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from lance_flight.catalog.manifests.manifest import BASE_FIELDS, FENCE_KEY, create_table
from lance_flight.catalog.storage.durability import committing, flush, settle
from lance_flight.catalog.storage.formats import FIRST, VIEW
from lance_flight.catalog.storage.retries import conflicts, looks
from lance_flight.catalog.storage.staging_area import private_place
from lance_flight.catalog.storage.store import UNREADABLE, Store, unreadable
from lance_flight.catalog.storage.whole_files import PRIVATE
from lance_flight.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    InvalidInput,
    LanceFlightError,
    NewerFormat,
    NotFound,
    Unsupported,
)
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import MANIFEST, SEPARATOR, TableName

Path = tuple[str, ...]
"""The parts of an object id: the namespaces from the outermost on, and a name."""


class Listed(NamedTuple):
    """A table as it stands there."""

    object_id: str
    location: str | None


@dataclass(frozen=True, slots=True)
class Listing:
    """Listing of one version: tables and namespaces by their paths, and the tables' locations below the root."""

    tables: Mapping[Path, Listed]
    namespaces: frozenset[Path]
    locations: frozenset[str | None]
    version: int = 0

    def path_of_schema(self, db_schema: str) -> Path:
        """Return the path of the namespace that is a schema, the shortest of several; of one that is not listed, its parts."""
        paths = {*self.namespaces, *(path[:-1] for path in self.tables)}
        matching = [path for path in paths if ".".join(path) == db_schema]
        return min(matching, key=len, default=tuple(db_schema.split(".")))


NOTHING = Listing({}, frozenset(), frozenset())


class DirectoryManifest:
    """The `__manifest` in one directory, if there is one. Safe to share among threads."""

    def __init__(self, root: Store, *, is_read: bool = True) -> None:
        self.root = root
        self._is_read = is_read
        self._read: tuple[Any, Listing] = None, NOTHING

    def listing(self) -> Listing:
        """Return what it lists now; `Corrupt` where it cannot be read."""
        if not self._is_read or not self.root.has(MANIFEST):
            return NOTHING
        if self.root.is_remote:
            return looks.find(self.root.child(MANIFEST).uri, "listing", self._listing)
        return self._listing()

    def _listing(self) -> Listing:
        try:
            # Lance commits to it with the files of the rows, which a power cut may have left torn.
            settle(self.root.child(MANIFEST).uri)
            dataset = self.root.child(MANIFEST).open()
            key, known = dataset.get_version(), self._read
            if known[0] == key:
                return known[1]
            self.root.child(MANIFEST).check_files(dataset)
            table = dataset.to_table(columns=["object_id", "object_type", "location"])
        except UNREADABLE as exc:
            raise unreadable(
                exc, f"the __manifest of {self.root.name!r} cannot be read: {self.root.words(exc)}"
            ) from exc
        listing = _listing(table, int(dataset.version))
        self._read = key, listing
        return listing

    def forget(self, listed: Listed) -> None:
        """Remove a table from the list, but none that another writer has listed under its name since, in another place."""
        location = "IS NULL" if listed.location is None else f"= {_quote(listed.location)}"
        with self._changing() as dataset:
            dataset.delete(f"object_id = {_quote(listed.object_id)} AND location {location}")

    def rename(self, listed: Listed, path: Path) -> None:
        """Rename a table in one commit; raise `Conflict` where another writer gives or takes one of the two names first."""
        new, old = SEPARATOR.join(path), f"object_id = {_quote(listed.object_id)}"
        with self._changing() as dataset:
            row = dataset.to_table(filter=old)
            if not row.num_rows:
                raise NotFound(f"no table {listed.object_id!r} in the __manifest of {self.root.name!r}")
            if dataset.count_rows(f"object_id = {_quote(new)}"):
                raise AlreadyExists(f"{new!r} is in the __manifest of {self.root.name!r} already")
            place = row.schema.get_field_index("object_id")
            renamed = row.set_column(place, row.schema.field(place), [[new]])
            _merge(dataset).when_not_matched_by_source_delete(old).execute(renamed)

    def make_visible(self, base: Listing, revision: Iterable[Listed], mark: str) -> int:
        """List tables that lie in the directory, in one commit, and make the list where there is none.

        `AlreadyExists` for a name that is listed, `Conflict` where another writer lists one of the names first.
        """
        self._insert([{**listed._asdict(), "object_type": "table"} for listed in revision])
        return base.version + 1

    def create_namespace(self, path: Path) -> None:
        """List a namespace, and those that it lies in and that are not listed, in one commit."""
        known = self.listing().namespaces
        missing = [path[:depth] for depth in range(1, len(path) + 1) if path[:depth] not in known]
        self._insert([{"object_id": SEPARATOR.join(parts), "object_type": "namespace"} for parts in missing])

    def drop_namespace(self, path: Path) -> None:
        """Remove a namespace from the list; `InvalidInput` for one with tables or namespaces in it."""
        with self._changing() as dataset:
            self.check_empty(path)
            dataset.delete(f"object_id = {_quote(SEPARATOR.join(path))} AND object_type = 'namespace'")

    def check_empty(self, path: Path) -> None:
        """Raise `InvalidInput` for a namespace with tables or namespaces in it."""
        listing = self.listing()
        inside = [
            namespace
            for namespace in (*listing.tables, *listing.namespaces)
            if namespace != path and namespace[: len(path)] == path
        ]
        if inside:
            raise InvalidInput(
                f"schema {'.'.join(path)!r} is not empty: it has {'.'.join(min(inside))!r}; expected DROP of what is in it first"
            )

    def properties(self, path: Path) -> Mapping[str, str]:
        """Return the properties of a listed namespace."""
        object_id = f"object_id = {_quote(SEPARATOR.join(path))} AND object_type = 'namespace'"
        rows = self.root.child(MANIFEST).open().to_table(columns=["metadata"], filter=object_id)["metadata"].to_pylist()
        if not rows:
            raise NotFound(f"no namespace {SEPARATOR.join(path)!r} in the __manifest of {self.root.name!r}")
        try:
            properties = read_json(rows[0] or "{}")
        except ValueError as exc:
            raise Corrupt(f"the properties of namespace {SEPARATOR.join(path)!r} are no JSON: {exc}") from exc
        return {str(name): str(value) for name, value in properties.items()}

    def _insert(self, rows: Sequence[Mapping[str, str | None]]) -> None:
        """Insert rows whose object ids are in no row, in one commit, and make the list where there is none."""
        if not self.root.has(MANIFEST):
            self._create()
        with self._changing() as dataset:
            for row in rows:
                if dataset.count_rows(f"object_id = {_quote(str(row['object_id']))}"):
                    raise AlreadyExists(f"{row['object_id']!r} is in the __manifest of {self.root.name!r} already")
            schema = pa.schema([dataset.schema.field(name) for name in dataset.schema.names])
            _merge(dataset).execute(pa.Table.from_pylist([dict(row) for row in rows], schema=schema))

    def _create(self) -> None:
        """Make an empty list: in a directory it is moved into its place when it is whole."""
        if self.root.is_remote:
            create_table(self.root.child(MANIFEST), pa.schema(BASE_FIELDS))
            return
        with private_place(self.root) as private:
            create_table(private.new, pa.schema(BASE_FIELDS))
            flush(private.new.uri)
            try:
                private.new.move_to(self.root.child(MANIFEST))
            except OSError as exc:
                if not self.root.has(MANIFEST):
                    raise
                raise Conflict(f"{self.root.name!r} is a namespace already") from exc

    @contextmanager
    def _changing(self) -> Iterator[LanceDataset]:
        """Yield the newest version for one commit, which is durable at the end; `Conflict` where another writer commits first."""
        dataset = self._writable()
        conflict = f"another writer changed the __manifest of {self.root.name!r} first"
        with committing(self.root.child(MANIFEST).uri, int(dataset.version)), conflicts(conflict):
            yield dataset

    def _writable(self) -> LanceDataset:
        """Return the newest version, unless its writer asks for more than we know."""
        dataset = self.root.child(MANIFEST).open()
        asked = dataset.metadata.get(FENCE_KEY, "0")
        if asked != "0":
            raise Unsupported(
                f"the __manifest of {self.root.name!r} asks its writers for features that are not known here: {asked}"
            )
        return dataset


def path_of(object_id: str) -> Path:
    """Return the path of an object id.

    >>> path_of("ns1$ns2$table")
    ('ns1', 'ns2', 'table')
    """
    return tuple(object_id.split(SEPARATOR))


def _listing(rows: pa.Table, version: int) -> Listing:
    tables, namespaces = (rows.filter(pc.equal(rows["object_type"], kind)) for kind in ("table", "namespace"))
    listed = list(map(Listed, tables["object_id"].to_pylist(), tables["location"].to_pylist()))
    return Listing(
        {path_of(entry.object_id): entry for entry in listed},
        frozenset(path_of(name) for name in namespaces["object_id"].to_pylist()),
        frozenset(entry.location for entry in listed),
        version,
    )


def _merge(dataset: LanceDataset) -> Any:
    """Return a commit of new rows; with an index two of them that insert one key would both succeed."""
    return (
        dataset.merge_insert("object_id").when_not_matched_insert_all().conflict_retries(0).use_index(use_index=False)
    )


def _quote(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


_PREFIX, _SUFFIX = "view-", ".json"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view: its name, its query (`sql`), and its columns.

    The query names every table with its schema, and its columns one by one: what tables get later is not part of the view.
    """

    name: TableName
    sql: str
    columns: pa.Schema

    @property
    def digest(self) -> str:
        """Return what tells this definition from another one of the same name."""
        return hashlib.sha256(self.sql.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Views:
    """The views of the root at `store`."""

    store: Store

    def find(self, name: TableName) -> ViewDefinition | None:
        """Return the view of this name; None if there is none."""
        file = _file_of(name)
        # In an object store one request says that there is none.
        return self._read(file) if self._place.is_remote or self._place.has(file) else None

    def list_views(self) -> Iterator[ViewDefinition]:
        """Yield all views but those that cannot be read, whose own use says so."""
        for view in map(self._read_or_error, self.files()):
            if isinstance(view, ViewDefinition):
                yield view

    def files(self) -> list[str]:
        """Return the names of the files of all views."""
        return [file for file in self._place.files() if file.startswith(_PREFIX) and file.endswith(_SUFFIX)]

    def unreadable(self) -> list[LanceFlightError]:
        """Return an error for each view that cannot be read: it is of a newer format, damaged, or a link."""
        return [
            definition
            for definition in map(self._read_or_error, self.files())
            if isinstance(definition, LanceFlightError)
        ]

    def put(self, view: ViewDefinition, *, replace: bool) -> None:
        """Store a view in one step; `AlreadyExists` for one of this name, unless it is to be replaced.

        In an object store two that are made at the same time may both succeed; the later one is stored.
        """
        content = json.dumps(
            {
                "version": FIRST,
                "schema": view.name.db_schema,
                "name": view.name.name,
                "sql": view.sql,
                "columns": base64.b64encode(view.columns.serialize()).decode(),
            }
        ).encode()
        file, place = _file_of(view.name), self._place
        if place.is_remote and not replace and place.has(file):
            raise _is_taken(view.name)
        try:
            place.put(file, content, replace=replace)
        except FileExistsError:
            raise _is_taken(view.name) from None

    def drop(self, name: TableName) -> None:
        """Remove a view; `NotFound` if there is none of this name."""
        if not self.has(name):
            raise NotFound.named("view", name.name, [view.name.name for view in self.list_views()])
        self._place.remove_files([_file_of(name)])
        flush(self.store.uri)

    def has(self, name: TableName) -> bool:
        """Return whether there is a view of this name, be it a damaged one."""
        try:
            return self.find(name) is not None
        except Corrupt:
            return True

    @property
    def _place(self) -> Store:
        return self.store.child(PRIVATE)

    def _read_or_error(self, file: str) -> ViewDefinition | LanceFlightError | None:
        try:
            return self._read(file)
        except (NewerFormat, Corrupt) as exc:
            log.debug("not listed: %s", exc)
            return exc

    def _read(self, file: str) -> ViewDefinition | None:
        try:
            content = read_json(self._place.read(file))
            VIEW.check(content["version"], f"the view in {file} of root {self.store.name!r}")
            name = TableName(content["schema"], content["name"])
            columns = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["columns"])))
            sql = content["sql"]
        except FileNotFoundError:  # dropped meanwhile
            return None
        except (ValueError, KeyError, TypeError) as exc:
            raise Corrupt(
                f"the view in {file} cannot be read: {exc!r}; expected DROP VIEW, or the file of a backup"
            ) from exc
        if _file_of(name) != file or not isinstance(sql, str):
            raise Corrupt(
                f"the view in {file} is another one, {name}, or has no query; expected DROP VIEW, or the file of a backup"
            )
        return ViewDefinition(name, sql, columns)


def _file_of(name: TableName) -> str:
    """Return the name of the file of a view: a hash, since any text may be the name of a view."""
    digest = hashlib.sha256(f"{name.db_schema}\0{name.name}".encode()).hexdigest()[:32]
    return f"{_PREFIX}{digest}{_SUFFIX}"


def _is_taken(name: TableName) -> AlreadyExists:
    return AlreadyExists(f"view {name.name!r} is there already; expected CREATE OR REPLACE VIEW, or IF NOT EXISTS")
