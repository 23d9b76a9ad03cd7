"""A root: its tables are found, made, renamed and dropped.

The first commit claims the place, for one of several who want it; the last one shows the table, whole. The temporary tables of
a session are a root of their own, in a private place that goes away with the session.

Directory-namespace spec; architecture, Names.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from threading import Lock
from weakref import finalize

from lance_flight.catalog.manifests.manifest import Manifest, create_table, remove_left_over
from lance_flight.catalog.manifests.version_log import commit
from lance_flight.catalog.plain_table import PlainTable, write_plain
from lance_flight.catalog.roots.listings import Listed, Listing, ViewDefinition, path_of
from lance_flight.catalog.roots.table_resolver import BRANCH_SIGN, TableResolver, Visibility
from lance_flight.catalog.storage.durability import flush
from lance_flight.catalog.storage.formats import FIRST, FORMAT_KEY, TABLE
from lance_flight.catalog.storage.retries import looks
from lance_flight.catalog.storage.staging_area import StagingArea, place_of_removal, private_place
from lance_flight.catalog.storage.store import UNREADABLE, Store, has_branches
from lance_flight.catalog.table import PartitionedNamespace, Table
from lance_flight.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    InvalidInput,
    LanceFlightError,
    NewerFormat,
    NotFound,
    OutsideRoot,
    Unsupported,
    storage_error,
)
from lance_flight.faults import failpoint
from lance_flight.model.naming import (
    LONGEST_FILE_NAME,
    MANIFEST,
    PLAIN_SUFFIX,
    PUBLIC,
    SEPARATOR,
    TableName,
    check_directory_name,
    is_same_text,
)
from lance_flight.model.schema import check_schema


def publish_copy(table: Table, place: Store) -> None:
    """Copy a table to `place`; raise `Conflict` where another writer has claimed it."""
    match table:
        case PlainTable():
            write_plain(place, table.open().schema, table.rows())
        case PartitionedNamespace():
            snapshot = table.snapshot()
            claimed = create_table(place.child(MANIFEST), snapshot.rows.schema)
            for partition in snapshot.all_tables():
                table.store.child(partition.location).copy_to(place.child(partition.location))
            claimed.merge_insert("object_id").when_not_matched_insert_all().execute(snapshot.rows)
            claimed.update_metadata(dict(snapshot.metadata))
            looks.replace(place.uri)
            Manifest(place.child(MANIFEST)).snapshot()


__all__ = [
    "BRANCH_SIGN",
    "NO_TABLES",
    "PUBLIC",
    "Root",
    "StagedTable",
    "Table",
    "TableName",
    "Temporary",
    "TemporaryTables",
    "Visibility",
]

_OF_URLS = frozenset("#?%")


def _nothing() -> None:
    """Let a change begin."""


def _accept(_: Store) -> None:
    """Let a table go."""


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A whole table without a name, `count` rows in it; it goes away when it is closed before it was published."""

    name: TableName
    table: Table
    count: int
    publish: Callable[[], None]
    _held: ExitStack

    def close(self) -> None:
        """Release its private place."""
        self._held.close()


class Root(TableResolver):
    """The tables of one directory. Safe to share among threads."""

    def create(
        self,
        name: TableName,
        build: Callable[[Store], int],
        *,
        partitioned: bool,
        replace: bool = False,
        on_conflict: Callable[[Store], int] | None = None,
    ) -> int:
        """Return a new table, made by `build` in a private place and moved into its own when it is whole.

        With `replace` the table that is there under this name goes away in the same moment. Without, and where another
        one took the name while this one was built, `on_conflict` does with the whole private table what is to be done.
        """
        with closing(self.draft(name, build, partitioned=partitioned, replace=replace)) as draft:
            try:
                draft.publish()
            except AlreadyExists:
                if on_conflict is None or not self.has(name):
                    raise
                return on_conflict(draft.table.store)
            return draft.count

    def draft(
        self, name: TableName, build: Callable[[Store], int], *, partitioned: bool, replace: bool = False
    ) -> StagedTable:
        """Return a new table, made by `build` in a private place, that has no name until it is published."""
        self._check_new(name, partitioned=partitioned, replace=replace)
        place = self._new_place(name, partitioned=partitioned)
        with ExitStack() as held:
            private = held.enter_context(private_place(self.store))
            count = build(private.new)
            table = self._record_version(PartitionedNamespace(private.new)) if partitioned else PlainTable(private.new)
            publish = partial(self._publish, table, private, name, place, replace=replace)
            return StagedTable(name, table, count, publish, held.pop_all())

    def declare(self, name: TableName) -> str:
        """Return where another engine is to write a new plain table; the table is there once it has done so."""
        self._check_new(name, partitioned=False, replace=False)
        if self.has(name):
            raise AlreadyExists(f"table {name.name!r} is there already")
        if not (self._is_directory(name.db_schema) and self._finds_directories(name.db_schema)):
            raise Unsupported(f"table {name.name!r} is found by its row in __manifest; expected rows to make it with")
        return self._new_place(name, partitioned=False).uri

    def _check_new(self, name: TableName, *, partitioned: bool, replace: bool) -> None:
        """Refuse a table that may not be made, or whose name may not be."""
        if self.is_temporary(name):
            raise AlreadyExists(
                f"table {name.name!r} is a temporary one of this session, which would hide a lasting one"
            )
        self.check_main(name)
        check_directory_name("table", name.name)
        if self.store.is_remote and set(name.name) & _OF_URLS:
            raise InvalidInput(
                f"table name {name.name!r} is not allowed; expected none of # ? % in an object store, where Lance reads them as"
                " parts of a URL"
            )
        self._check_definition(name)
        self._check_alike(name)
        self._check_no_view(name)
        self.check_other_tables()
        is_replaced = replace and not partitioned and name in self._listed_tables()
        if not is_replaced:
            self._check_schema(name, partitioned=partitioned)

    def drop(
        self,
        name: TableName,
        begin: Callable[[], None] = _nothing,
        check: Callable[[Store], None] = _accept,
    ) -> None:
        """Remove a table and all its data, for every reader at once; `begin` is called before anything is removed, and may refuse it.

        `check` is called with the table when no name leads to it any more, so that nobody writes to it, and may refuse it, too; in an
        object store before that, where nothing can be moved.
        """
        if self.temporary is not None and self.is_temporary(name):
            self.temporary.drop(name)
            return
        self.check_main(name)
        self._check_definition(name)
        if self._is_namespace(self.store) and self.has(name):
            raise Unsupported(f"table {name.name!r} is the root itself; remove the directory instead")
        self._place(name)
        # What was taken is deleted when the lock is free again.
        with place_of_removal(self.store) as gone, self._lock:
            place = self._place(name)
            begin()
            if place is not None:
                self._opened.pop(place.uri, None)
                if place.is_remote:
                    check(place)
                    place.remove_table()
                else:
                    self._take_checked(name, place, gone, check)
                failpoint("table_dropped")
            self._forget_row(name)
            flush(self.store.uri)

    def _take_checked(self, name: TableName, place: Store, gone: Store, check: Callable[[Store], None]) -> None:
        """Move a table to where no name leads, and back where its check refuses that."""
        listed = self._listed_tables().get(name)
        # A row never leads to where nothing is.
        self._forget_row(name)
        try:
            place.move_to(gone)
        except FileNotFoundError:
            return
        try:
            check(gone)
        except BaseException:
            gone.move_to(place)
            if listed is not None:
                self._list([listed])
            raise

    def rename(self, name: TableName, new: str) -> None:
        """Rename a table within its schema, in one step; readers and writers of the old name fail as after a drop.

        A listed table keeps its directory.
        """
        if self.temporary is not None and self.is_temporary(name):
            self.temporary.rename(name, new)
            return
        self.check_main(name)
        target = TableName(name.db_schema, check_directory_name("table", new))
        for table_name in (name, target):
            self._check_definition(table_name)
        self._check_alike(target)
        self._check_no_view(target)
        if self._is_namespace(self.store) and self.has(name):
            raise Unsupported(f"table {name.name!r} is the root itself; rename the directory instead")
        with self._lock:
            place, listed = self._place(name), self._listed_tables().get(name)
            if self.has(target):
                raise AlreadyExists(f"table {new!r} is there already")
            if listed is not None:
                self._manifest.rename(listed, (*path_of(listed.object_id)[:-1], new))
            elif place is not None:
                self._move(name, place, new + PLAIN_SUFFIX * place.name.endswith(PLAIN_SUFFIX))

    def create_schema(self, db_schema: str, begin: Callable[[], None] = _nothing) -> None:
        """Make a schema: a directory, or for a name with dots (`a.b`) a namespace of the `__manifest`, with those that it lies in."""
        self.check_other_tables()
        path = db_schema.split(".")
        for part in path:
            check_directory_name("schema", part)
        self._check_definition(TableName(db_schema, "*"))
        with self._lock:
            if db_schema in self.schemas():
                raise AlreadyExists(f"schema {db_schema!r} is there already")
            begin()
            if len(path) > 1:
                self._manifest.create_namespace(tuple(path))
                return
            self.store.child(db_schema).make()
            flush(self.store.uri)

    def drop_schema(self, db_schema: str, begin: Callable[[], None] = _nothing) -> None:
        """Remove a schema that has no tables and no views."""
        if db_schema == PUBLIC:
            raise InvalidInput("schema 'public' is the root itself and stays; expected another one")
        self._check_definition(TableName(db_schema, "*"))
        with self._lock:
            if db_schema not in self.schemas():
                raise NotFound.named("schema", db_schema, self.schemas())
            for error in self._views.unreadable():
                raise error  # its schema may be this one
            view = next((view.name.name for view in self._views.list_views() if view.name.db_schema == db_schema), None)
            if view is not None:
                raise InvalidInput(f"schema {db_schema!r} is not empty: it has view {view!r}; expected DROP VIEW first")
            path = self._manifest.listing().path_of_schema(db_schema)
            self._manifest.check_empty(path)
            begin()
            if self._is_directory(db_schema):
                self._directory(db_schema).remove_empty()
                flush(self.store.uri)
            if path in self._manifest.listing().namespaces:
                self._manifest.drop_namespace(path)

    def properties(self, db_schema: str) -> Mapping[str, str]:
        """Return the properties of a namespace that the `__manifest` lists."""
        return self._manifest.properties(self._manifest.listing().path_of_schema(db_schema))

    def create_view(self, view: ViewDefinition, *, replace: bool, begin: Callable[[], None] = _nothing) -> None:
        """Store a view in one step; `AlreadyExists` for a table of its name, or a view unless it is to be replaced."""
        name = view.name
        self.check_main(name)
        check_directory_name("view", name.name)
        check_schema(view.columns)
        self._check_definition(name)
        self.check_other_tables()
        if name.db_schema not in self.schemas():
            raise NotFound.named("schema", name.db_schema, self.schemas())
        with self._lock:
            if self.has(name):
                raise AlreadyExists(f"table {name.name!r} is there already")
            begin()
            self._views.put(view, replace=replace)

    def drop_view(self, name: TableName, begin: Callable[[], None] = _nothing) -> None:
        """Remove a view; the tables that it reads stay."""
        self.check_main(name)
        self._check_definition(name)
        if self.has(name) and not self._views.has(name):
            raise NotFound(f"{name.name!r} is a table, not a view; expected DROP TABLE")
        begin()
        self._views.drop(name)

    def list_unregistered(self) -> list[Listed]:
        """Return the plain tables right below the root (V1) that its `__manifest` (V2) could list and does not, as rows."""
        if self._is_namespace(self.store):
            raise Unsupported(
                f"the root {self.store.name!r} is itself a partitioned namespace and contains only partitions"
            )
        known = self._listed_tables()
        v1 = [name.name for name, partitioned in self.kinds().items() if name.db_schema == PUBLIC and not partitioned]
        return [
            Listed(name, name + PLAIN_SUFFIX)
            for name in sorted(v1)
            if TableName(PUBLIC, name) not in known and SEPARATOR not in name
        ]

    def register(self, tables: Sequence[Listed]) -> None:
        """List plain tables in the `__manifest` of the root, in one commit."""
        if tables:
            with self._lock:
                self._list(tables)

    def check_main(self, name: TableName) -> None:
        """Refuse to make, rename or drop a table while on a branch."""
        if self.branch is not None:
            raise Unsupported(
                f"table {name.name!r} can be created, renamed and dropped on the main branch only, and the session is on"
                f" {self.branch!r}; SET branch = 'main' first"
            )

    def check_other_tables(self) -> None:
        """Refuse another table where the root is itself one."""
        if self._is_namespace(self.store):
            raise Unsupported(
                f"the root {self.store.name!r} is itself a partitioned namespace and holds no other table"
            )

    def _check_definition(self, name: TableName) -> None:
        self.formats.check_now()
        if self.guard is not None:
            self.guard.check_definition(name)

    def _check_no_view(self, name: TableName) -> None:
        if self._views.find(name) is not None:
            raise AlreadyExists(f"{name.name!r} is a view; expected another name, or DROP VIEW first")

    def _check_alike(self, name: TableName) -> None:
        """Refuse a name that differs from another table's in its Unicode form alone."""
        if name.name.isascii():
            return
        for other in self._names(name.db_schema):
            if other != name.name and is_same_text(other, name.name):
                raise AlreadyExists(
                    f"table {name.name!r} is there already under the same text in another Unicode form, {other!a};"
                    f" expected that one, not {name.name!a}"
                )

    def _check_schema(self, name: TableName, *, partitioned: bool) -> None:
        """Refuse a schema that is not there, and a partitioned table in a listed namespace, whose rows mean plain tables."""
        db_schema = name.db_schema
        if self._is_directory(db_schema):
            check_directory_name("schema", db_schema)
            return
        if db_schema not in self._listed_schemas():
            for part in db_schema.split("."):
                check_directory_name("schema", part)
            raise NotFound.named("schema", db_schema, self.schemas())
        if partitioned:
            raise Unsupported(
                f"schema {db_schema!r} is a namespace of the root's __manifest, which lists plain tables; expected a partitioned"
                f" table {name.name!r} in public or in a schema that is a directory (CREATE SCHEMA)"
            )

    def _new_place(self, name: TableName, *, partitioned: bool) -> Store:
        """Return where a new table is to lie: in a listed namespace under a hash and its object id (spec: Manifest Table Directory)."""
        if self._is_directory(name.db_schema):
            return self._directory(name.db_schema).child(name.name + PLAIN_SUFFIX * (not partitioned))
        directory = f"{secrets.token_hex(4)}_{self._object_id(name)}"
        if len(directory.encode()) > LONGEST_FILE_NAME:
            raise InvalidInput(
                f"table {name.name!r} in schema {name.db_schema!r} needs a directory name of {len(directory.encode())} bytes;"
                f" expected at most {LONGEST_FILE_NAME}"
            )
        return self.store.child(directory)

    def _record_version(self, namespace: PartitionedNamespace) -> PartitionedNamespace:
        """Return a new namespace, once it has the version that new tables of this root have."""
        version = self.formats.version_for_new(TABLE)
        if version > FIRST:
            namespace.log.update_metadata(namespace.snapshot(), {FORMAT_KEY: str(version)})
        return namespace

    def _list_row(self, name: TableName, place: Store) -> None:
        """List a new table in the `__manifest` if that is how it is found: its row is what makes it visible."""
        if self._is_directory(name.db_schema) and self._finds_directories(name.db_schema):
            return
        location = place.uri.removeprefix(f"{self.store.uri.rstrip('/')}/")
        try:
            self._list([Listed(self._object_id(name), location)])
        except (AlreadyExists, Conflict):
            # Another writer has the name: nobody has seen this table.
            place.remove()
            raise

    def _list(self, tables: Sequence[Listed]) -> None:
        """List those of some tables that are not listed yet, in one commit."""

        def missing(listing: Listing) -> list[Listed] | None:
            return [table for table in tables if listing.tables.get(path_of(table.object_id)) != table] or None

        commit(self._manifest, missing, self._manifest.listing)

    def _publish(self, table: Table, private: StagingArea, name: TableName, place: Store, *, replace: bool) -> None:
        failpoint("namespace_made")
        with self._lock:
            if self.store.is_remote:
                self._put_remote(table, place, name, replace=replace)
            else:
                place = self._put(table, private, name, place, replace=replace)
            if not table.is_partitioned:
                self._list_row(name, place)
            flush(self.store.uri)

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

    def _put(self, table: Table, private: StagingArea, name: TableName, place: Store, *, replace: bool) -> Store:
        """Move a new table into its place, where nothing lies, and return that; the one that it replaces stays if that fails."""
        there = self.has(name)
        if there and not replace:
            raise AlreadyExists(f"table {name.name!r} is there already")
        old, row = self._place(name) if there else None, self._listed_tables().get(name)
        if old is not None:
            self._take(private, old)
            failpoint("table_replaced")
            if row is not None and not table.is_partitioned:
                place = old
        flush(private.new.uri)
        remove_left_over(place)
        try:
            private.new.move_to(place)
        except OSError as exc:
            private.give_back()
            if storage_error(exc) is not None or not place.exists():
                raise
            raise AlreadyExists(f"table {name.name!r} has no room: {place.name!r} lies there already") from exc
        failpoint("table_moved")
        if place != old and row is not None:
            # A row that came meanwhile is another writer's table.
            self._manifest.forget(row)
        return place

    def _place(self, name: TableName) -> Store | None:
        """Return where a table lies; None for one whose row in the directory namespace's manifest leads nowhere."""
        try:
            table = self.table(name)
        except OutsideRoot:
            raise
        except Corrupt:
            return None
        if table.branch is not None:
            raise Unsupported(f"{name.name!r} is a branch: ALTER TABLE … DROP BRANCH is what forgets it")
        _check_format(table)
        return table.store

    def _move(self, name: TableName, place: Store, directory: str) -> None:
        """Rename the directory of a table to a name that is not in use."""
        if place.is_remote:
            raise Unsupported(
                f"table {name.name!r} lies in an object store, where nothing is renamed in one step; CREATE TABLE … AS"
                " makes a copy under another name"
            )
        if has_branches(place):
            raise Unsupported(
                f"table {name.name!r} has branches, or tables that were written on one, and Lance knows those by their"
                " absolute place: it cannot be renamed"
            )
        to = place.parent.child(directory)
        if to.exists():
            raise AlreadyExists(f"table {name.name!r} has no room: {directory!r} lies there already")
        place.move_to(to)
        flush(self.store.uri)
        self._opened.pop(place.uri, None)
        self._opened.pop(to.uri, None)

    def _take(self, private: StagingArea, place: Store) -> None:
        self._opened.pop(place.uri, None)
        if place.is_remote:
            place.remove_table()
        else:
            private.take(place)

    def _forget_row(self, name: TableName) -> None:
        """Remove a table from the directory namespace's manifest, if it is listed there."""
        listed = self._listed_tables().get(name)
        if listed is not None:
            self._manifest.forget(listed)

    def _object_id(self, name: TableName) -> str:
        """Return the object id of a table (spec: Manifest Table Schema)."""
        path = () if name.db_schema == PUBLIC else self._manifest.listing().path_of_schema(name.db_schema)
        return SEPARATOR.join((*path, name.name))


def _check_format(table: Table) -> None:
    """Refuse to drop, replace or rename a table that only newer releases read; a broken one may be dropped."""
    try:
        table.snapshot()
    except NewerFormat:
        raise
    except (LanceFlightError, *UNREADABLE):
        return


TEMPORARY = "temporary"


@dataclass(frozen=True, slots=True)
class Temporary:
    """The temporary tables that one statement knows: their names, chosen once, and the root that they are in.

    Without a `root` they were those of another session, or of one that has ended.
    """

    names: frozenset[TableName] = frozenset()
    root: Root | None = None

    def over(self, root: Root) -> Root:
        """Return a root in which these names mean these tables."""
        return root.with_temporary(self.root, self.names) if self.names else root


NO_TABLES = Temporary()


class TemporaryTables:
    """The temporary tables of one session: a root of their own. Safe to share among threads.

    Its place is made with the first table, and removed when this is closed, or once neither the session nor any statement
    knows it; that of a process that died is settled as every private place.
    """

    def __init__(self) -> None:
        self._root: Root | None = None
        self._removal: finalize[[], Root] | None = None
        self._lock = Lock()

    @property
    def has_begun(self) -> bool:
        """True once a table was made, until all are forgotten."""
        return self._root is not None

    def list_tables(self) -> Temporary:
        """Return the tables that are there now."""
        root = self._root
        return NO_TABLES if root is None else Temporary(frozenset(root.tables()), root)

    def root_for(self, name: TableName, root: Root) -> Root:
        """Return where a temporary table of this name is made, beside the lasting ones of `root`."""
        if name.db_schema != PUBLIC:
            raise Unsupported(
                f"temporary table {name.name!r} would be in schema {name.db_schema!r}; expected {PUBLIC!r}"
            )
        root.check_other_tables()
        with self._lock:
            if self._root is None:
                held = ExitStack()
                place = held.enter_context(private_place(root.store))
                self._root = Root(place.store.child(TEMPORARY))
                self._removal = finalize(self._root, held.close)
            return self._root

    def forget(self) -> None:
        """Forget all temporary tables; they are removed when the last statement that reads one has ended."""
        with self._lock:
            self._root = self._removal = None

    def close(self) -> None:
        """Remove all temporary tables at once."""
        removal = self._removal
        self.forget()
        if removal is not None:
            removal()
