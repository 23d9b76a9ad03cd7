"""A root: which tables lie in a directory, plain and partitioned, and under which schema and name.

Directory-namespace spec (V1 listing, V2 manifest, the manifest taking precedence); architecture, Names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from copy import copy
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import Any, NamedTuple, TypeVar

import pyarrow.compute as pc

from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.plain import PlainTable
from lance_flight.catalog.private import PrivatePlace, private_place
from lance_flight.catalog.publishing import publish_copy
from lance_flight.catalog.store import UNREADABLE, VERSIONS, Store
from lance_flight.errors import AlreadyExists, Conflict, Corrupt, LanceFlightError, NotFound, Unsupported
from lance_flight.faults import reached
from lance_flight.model.naming import MANIFEST, SEPARATOR, check_sql_name

T = TypeVar("T")

PUBLIC = "public"
PLAIN_SUFFIX = ".lance"
BRANCH_SIGN = "@"
OF_A_LANCE_TABLE = frozenset({"_versions", "_transactions", "_indices", "_deletions", "_refs", "data", "tree"})


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table of a root: the SQL schema it is in and its name."""

    db_schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.db_schema}.{self.name}"


Table = PartitionedNamespace | PlainTable


class _Listed(NamedTuple):
    """A table that a `__manifest` of the directory namespace (V2) lists, as it stands there."""

    object_id: str
    location: str | None


@dataclass(frozen=True, slots=True)
class Draft:
    """A whole table without a name, `count` rows in it; it goes away when it is closed before it was published."""

    name: TableName
    table: Table
    count: int
    publish: Callable[[], None]
    _held: ExitStack

    def close(self) -> None:
        """Let go of its private place."""
        self._held.close()


class Root:
    """The tables of one directory. Safe to share among threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._opened: dict[str, PartitionedNamespace] = {}
        self._listing: tuple[Any, Mapping[TableName, _Listed]] = None, {}
        self._lock = RLock()
        self.branch: str | None = None

    def on_branch(self, name: str | None) -> Root:
        """The same root as a branch shows it: tables that have it are read and written there; None is the main branch."""
        if name == self.branch:
            return self
        view = copy(self)
        view.branch = name
        return view

    def find(self, name: TableName) -> Table | None:
        """The table of this name, or the branch `t@b` of one, if there is one; `Corrupt` where its place cannot be known."""
        if self.branch is not None:
            branched = self._find_branch(TableName(name.db_schema, f"{name.name}{BRANCH_SIGN}{self.branch}"))
            if branched is not None:
                return branched
        found = self._find(name)
        if found is None:
            # It may be absent for just the moment in which another one takes its place.
            with self._lock:
                found = self._find(name)
        return found or self._find_branch(name)

    def read(self, name: TableName, read: Callable[[Table], T]) -> T:
        """What `read` makes of a table; of the one that took its place, if that happened meanwhile."""
        table = self.table(name)
        try:
            return read(table)
        except (NotFound, Corrupt):
            # A table that goes away while it is read looks like one that is broken.
            with self._lock:
                return read(self.table(name))

    def table(self, name: TableName) -> Table:
        """The table of this name, or `NotFound` with the nearest names."""
        found = self.find(name)
        if found is None:
            raise NotFound.named("table", name.name, self._names(name.db_schema))
        return found

    def has(self, name: TableName) -> bool:
        """Whether there is a table of this name, be it a broken one."""
        try:
            return self.find(name) is not None
        except Corrupt:
            return True

    def tables(self) -> list[TableName]:
        """All tables, sorted."""
        return sorted(self.kinds())

    def schemas(self) -> list[str]:
        """All SQL schemas, sorted; `public` is always there."""
        if self._is_namespace(self.store):
            return [PUBLIC]
        return sorted({PUBLIC, *(name.db_schema for name in self._listed()), *self._sub_directories()})

    def kinds(self) -> dict[TableName, bool]:
        """All tables, broken ones too, and whether each of them is partitioned."""
        with self._lock:
            return self._kinds()

    def create(
        self,
        name: TableName,
        build: Callable[[Store], int],
        *,
        partitioned: bool,
        replace: bool = False,
        beaten: Callable[[Store], int] | None = None,
    ) -> int:
        """A new table, made by `build` in a private place and moved into its own when it is whole.

        With `replace` the table that is there under this name goes away in the same moment. Without, and where another
        one took the name while this one was built, `beaten` does with the whole private table what is to be done.
        """
        with closing(self.draft(name, build, partitioned=partitioned, replace=replace)) as draft:
            try:
                draft.publish()
            except AlreadyExists:
                if beaten is None or not self.has(name):
                    raise
                return beaten(draft.table.store)
            return draft.count

    def draft(
        self, name: TableName, build: Callable[[Store], int], *, partitioned: bool, replace: bool = False
    ) -> Draft:
        """A new table, made by `build` in a private place, that has no name until it is published."""
        self.check_main(name)
        check_sql_name("table", name.name)
        check_sql_name("schema", name.db_schema)
        if self._is_namespace(self.store):
            raise Unsupported(
                f"the root {self.store.name!r} is itself a partitioned namespace and holds no other table"
            )
        if not self._has_schema(name.db_schema):
            raise NotFound.named("schema", name.db_schema, self.schemas())
        place = self._directory(name.db_schema).child(name.name + PLAIN_SUFFIX * (not partitioned))
        with ExitStack() as held:
            private = held.enter_context(private_place(self.store))
            count = build(private.new)
            table = PartitionedNamespace(private.new) if partitioned else PlainTable(private.new)
            publish = partial(self._publish, table, private, name, place, replace=replace)
            return Draft(name, table, count, publish, held.pop_all())

    def drop(self, name: TableName) -> None:
        """Remove a table and all its data; it is gone for every reader at once."""
        self.check_main(name)
        if self._is_namespace(self.store) and self.has(name):
            raise Unsupported(f"table {name.name!r} is the root itself; remove the directory instead")
        self._place(name)
        # What was taken is deleted when the lock is free again.
        with private_place(self.store) as private, self._lock:
            place = self._place(name)
            if place is not None:
                self._take(private, place)
                reached("table_dropped")
            self._forget_row(name)

    def check_main(self, name: TableName) -> None:
        """Refuse to make or drop a table while on a branch."""
        if self.branch is not None:
            raise Unsupported(
                f"table {name.name!r} is made and dropped on the main branch alone, and the session is on"
                f" {self.branch!r}; SET branch = 'main' first"
            )

    def _publish(self, table: Table, private: PrivatePlace, name: TableName, place: Store, *, replace: bool) -> None:
        reached("namespace_made")
        with self._lock:
            if self.store.is_remote:
                self._put_remote(table, place, name, replace=replace)
                return
            self._put(private, name, place, replace=replace)

    def _put_remote(self, table: Table, place: Store, name: TableName, *, replace: bool) -> None:
        """Make a private table public where nothing can be renamed: the place is claimed, filled, and then shown."""
        if self.has(name):
            if not replace:
                raise AlreadyExists(f"table {name.name!r} is there already")
            raise Unsupported(
                f"table {name.name!r} lies in an object store and cannot be replaced in one step; DROP it first"
            )
        try:
            publish_copy(table, place)
        except Conflict as exc:
            raise AlreadyExists(f"table {name.name!r} has no room: {place.name!r} lies there already") from exc

    def _put(self, private: PrivatePlace, name: TableName, place: Store, *, replace: bool) -> None:
        """Move a new table into its place, where nothing lies; the one that it replaces stays if that fails."""
        there = self.has(name)
        if there and not replace:
            raise AlreadyExists(f"table {name.name!r} is there already")
        old = self._place(name) if there else None
        if old is not None:
            self._take(private, old)
            reached("table_replaced")
            if name in self._listed() and place.name.endswith(PLAIN_SUFFIX):
                place = old
        try:
            private.new.move_to(place)
        except OSError as exc:
            private.give_back()
            if not place.exists():
                raise
            raise AlreadyExists(f"table {name.name!r} has no room: {place.name!r} lies there already") from exc
        reached("table_moved")
        if place != old:
            self._forget_row(name)

    def _place(self, name: TableName) -> Store | None:
        """Where a table lies; None for one whose row in the directory namespace's manifest leads nowhere."""
        try:
            table = self.table(name)
        except Corrupt:
            return None
        if isinstance(table, PartitionedNamespace) and table.branch is not None:
            raise Unsupported(f"{name.name!r} is a branch: ALTER TABLE … DROP BRANCH is what forgets it")
        return table.store

    def _take(self, private: PrivatePlace, place: Store) -> None:
        self._opened.pop(place.uri, None)
        if place.is_remote:
            place.remove_table()
        else:
            private.take(place)

    def _find_branch(self, name: TableName) -> PartitionedNamespace | None:
        table, sign, branch = name.name.rpartition(BRANCH_SIGN)
        if not sign:
            return None
        found = self._find(TableName(name.db_schema, table))
        if not isinstance(found, PartitionedNamespace) or branch not in [known.name for known in found.branches]:
            return None
        return found.on_branch(branch)

    def _find(self, name: TableName) -> Table | None:
        if self._is_namespace(self.store):
            if name == TableName(PUBLIC, self.store.name):
                return self._namespace(self.store)
            # A __manifest that cannot be read may list any name.
            self._namespace(self.store).snapshot()
            return None
        listed = self._listed().get(name)
        if listed is not None:
            return PlainTable(self._listed_place(name, listed))
        if not _is_safe(name.name) or not _is_safe(name.db_schema):
            return None
        place = self._directory(name.db_schema)
        if self._is_namespace(place.child(name.name)):
            return self._namespace(place.child(name.name))
        plain = place.child(name.name + PLAIN_SUFFIX)
        return PlainTable(plain) if _is_table(plain) else None

    def _kinds(self) -> dict[TableName, bool]:
        if self._is_namespace(self.store):
            return {TableName(PUBLIC, self.store.name): True}
        found = {}
        for db_schema in [PUBLIC, *self._sub_directories()]:
            place = self._directory(db_schema)
            for directory in place.directories():
                name = directory.removesuffix(PLAIN_SUFFIX)
                if not _is_safe(name):
                    continue
                if self._is_namespace(place.child(directory)):
                    found[TableName(db_schema, directory)] = True
                elif name != directory and _is_table(place.child(directory)):
                    found.setdefault(TableName(db_schema, name), False)
        return found | dict.fromkeys(self._listed(), False)

    def _sub_directories(self) -> list[str]:
        """The plain sub-directories: neither tables nor namespaces nor private."""
        taken = self._taken()
        return [name for name in self.store.directories() if name not in taken and self._is_plain(name)]

    def _has_schema(self, name: str) -> bool:
        if name == PUBLIC or any(table.db_schema == name for table in self._listed()):
            return True
        return self.store.has(name) and name not in self._taken() and self._is_plain(name)

    def _taken(self) -> set[str | None]:
        """Sub-directories that belong to a table, whatever they look like."""
        listed = {listed.location for listed in self._listed().values()}
        return listed | OF_A_LANCE_TABLE if _has_versions(self.store) else listed

    def _is_plain(self, name: str) -> bool:
        if not _is_safe(name) or name.endswith(PLAIN_SUFFIX) or name == PUBLIC:
            return False
        return not self.store.child(name).has(MANIFEST) and not _has_versions(self.store.child(name))

    def _names(self, db_schema: str) -> list[str]:
        """What look like the names of tables in a schema, without opening any."""
        listed = [name.name for name in self._listed() if name.db_schema == db_schema]
        if not _is_safe(db_schema):
            return listed
        place = self._directory(db_schema)
        tables = [d for d in place.directories() if d.endswith(PLAIN_SUFFIX) or place.child(d).has(MANIFEST)]
        return listed + [name for name in (d.removesuffix(PLAIN_SUFFIX) for d in tables) if _is_safe(name)]

    def _directory(self, db_schema: str) -> Store:
        return self.store if db_schema == PUBLIC else self.store.child(db_schema)

    def _listed(self) -> Mapping[TableName, _Listed]:
        """The tables that a `__manifest` of the directory namespace (V2) lists."""
        if not self.store.has(MANIFEST):
            return {}
        try:
            dataset = self.store.child(MANIFEST).open()
            key, known = dataset.get_version(), self._listing
            if known[0] == key:
                return known[1]
            table = dataset.to_table(columns=["object_id", "object_type", "location"])
        except UNREADABLE as exc:
            raise Corrupt(f"the __manifest of {self.store.name!r} cannot be read: {self.store.words(exc)}") from exc
        rows = table.filter(pc.equal(table["object_type"], "table")).select(["object_id", "location"])
        found = {}
        for listed in map(_Listed, *(column.to_pylist() for column in rows.columns)):
            *path, name = listed.object_id.split(SEPARATOR)
            found[TableName(".".join(path) or PUBLIC, name)] = listed
        self._listing = key, found
        return found

    def _listed_place(self, name: TableName, listed: _Listed) -> Store:
        """Where a listed table lies; one that cannot be reached is the fault of its own row alone."""
        if not listed.location:
            raise Corrupt(f"table {name.name!r} is listed without a location")
        try:
            return self.store.child(listed.location)
        except Corrupt as exc:
            raise Corrupt(f"table {name.name!r} is listed wrongly: {exc}") from exc

    def _namespace(self, place: Store) -> PartitionedNamespace:
        return self._opened.setdefault(place.uri, PartitionedNamespace(place))

    def _is_namespace(self, place: Store) -> bool:
        """Whether a partitioned namespace lies at `place`: a `__manifest` with at least one partition spec."""
        if not place.has(MANIFEST):
            return False
        try:
            self._namespace(place).snapshot()
        except NotFound:
            return False
        except (LanceFlightError, OSError):
            # It is there, and broken: it is listed with the others, and whoever opens it is told why.
            return True
        return True

    def _forget_row(self, name: TableName) -> None:
        """Take a table out of the directory namespace's manifest, if it is listed there."""
        listed = self._listed().get(name)
        if listed is not None:
            escaped = listed.object_id.replace("'", "''")
            self.store.child(MANIFEST).open().delete(f"object_id = '{escaped}'")


def _is_table(place: Store) -> bool:
    return place.has(VERSIONS)


def _has_versions(place: Store) -> bool:
    """Whether a Lance table lies right at `place`, as opposed to a table or schema called `_versions` below it."""
    return any(name.endswith(".manifest") for name in place.child(VERSIONS).files())


def _is_safe(name: str) -> bool:
    """Whether a name can be one directory below another: it leads nowhere else, and into no table's inside."""
    return bool(name) and not any(part in name for part in "/\\\0") and name[0] != "." and name != MANIFEST
