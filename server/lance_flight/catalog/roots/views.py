"""Definitions of views, each in a file of its own in the private directory of a root (`.lance-flight/view-….json`).

Files, and no directory: servers of older versions take directories there for abandoned staging areas.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lance_flight.catalog.storage.durability import flush
from lance_flight.catalog.storage.formats import FIRST, VIEW
from lance_flight.catalog.storage.names import PRIVATE
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import AlreadyExists, Corrupt, LanceFlightError, NewerFormat, NotFound
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import TableName

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
