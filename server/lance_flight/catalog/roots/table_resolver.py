"""Names: which tables and schemas a root has, plain and partitioned, and where each of them lies.

Directory-namespace spec (V1 listing, V2 manifest, the manifest taking precedence); architecture, Names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from enum import StrEnum
from functools import partial
from threading import RLock
from typing import Protocol, Self, TypeVar

from lance_flight.catalog.manifests.manifest import has_lost_manifest, is_left_over
from lance_flight.catalog.plain_table import TRANSACTIONS, PlainTable, has_lost_versions
from lance_flight.catalog.roots.listings import NOTHING, DirectoryManifest, Listed, Listing, Path, ViewDefinition, Views
from lance_flight.catalog.storage.formats import RootFormats
from lance_flight.catalog.storage.retries import LISTED_SECONDS, look_again, looks
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import map_tables
from lance_flight.catalog.storage.whole_files import VERSIONS, is_version_name
from lance_flight.catalog.table import PartitionedNamespace, Table
from lance_flight.errors import Corrupt, LanceFlightError, NotFound, OutsideRoot, nearest
from lance_flight.model.naming import LONGEST_FILE_NAME, MANIFEST, PLAIN_SUFFIX, PUBLIC, TableName, is_table_directory

T = TypeVar("T")

BRANCH_SIGN = "@"
_MISSPELT = 0.8
"""Least similarity of a suggested name, before other schemas are searched."""
_MOST_SCHEMAS = 20
_KIND = "is a namespace"
_SHAPE_SECONDS = 1.0
"""Time for which a root in an object store that had no `__manifest` is taken to have none, for tables that are found in their directories."""
OF_A_LANCE_TABLE = frozenset({"_versions", "_transactions", "_indices", "_deletions", "_refs", "data", "tree"})


class PlainTables(StrEnum):
    """Ways of finding plain tables right below a root: `manifest_enabled` and `dir_listing_enabled` of the directory-namespace spec.

    `BOTH` finds those that the `__manifest` of the root lists, and those whose directory is there.
    """

    BOTH = "both"
    LISTED = "listed"
    DIRECTORIES = "directories"


class Visibility(Protocol):
    """Permissions of a caller on the tables of a root: what it may see, and do to their names."""

    def sees(self, table: TableName) -> bool:
        """Return whether the caller may see a table of this name."""
        ...

    def sees_schema(self, db_schema: str) -> bool:
        """Return whether the caller may see a schema."""
        ...

    def check_definition(self, table: TableName) -> None:
        """Raise `Refused` if the caller may not make, rename or drop a table of this name."""
        ...


class TableResolver:
    """The tables of one directory as they are found. Safe to share among threads."""

    def __init__(self, store: Store, plain_tables: PlainTables = PlainTables.BOTH) -> None:
        self.store = store
        self.branch: str | None = None
        self.guard: Visibility | None = None
        self.formats = RootFormats(store)
        self.temporary: Self | None = None
        self.temporary_names: frozenset[TableName] = frozenset()
        self._manifest = DirectoryManifest(store, is_read=plain_tables is not PlainTables.DIRECTORIES)
        self._lists_directories = plain_tables is not PlainTables.LISTED
        self._views = Views(store)
        self._opened: dict[str, Table] = {}
        self._by_sql_name: tuple[Listing, Mapping[TableName, Listed]] = NOTHING, {}
        self._lock = RLock()

    def on_branch(self, name: str | None) -> Self:
        """Return the same root as a branch shows it: tables that have it are read and written there; None is the main branch."""
        if name == self.branch:
            return self
        view = copy(self)
        view.branch = name
        return view

    def guard_with(self, guard: Visibility) -> Self:
        """Return the same root with the tables that `guard` lets its caller see."""
        view = copy(self)
        view.guard = guard
        return view

    def with_temporary(self, tables: Self | None, names: frozenset[TableName]) -> Self:
        """Return the same root with temporary tables, whose names mean them and no lasting ones; they are their session's, unguarded.

        Without `tables` they cannot be reached from here.
        """
        view = copy(self)
        view.temporary, view.temporary_names = tables, names
        return view

    def is_temporary(self, name: TableName) -> bool:
        """Return whether a name means a temporary table."""
        return name in self.temporary_names

    def has_temporary(self, table: Table) -> bool:
        """Return whether a table is a temporary one of this root."""
        return self.temporary is not None and table.store.uri.startswith(f"{self.temporary.store.uri}/")

    def governing_table(self, name: TableName) -> TableName:
        """Return the table whose grants count for a name: of a branch `t@b` it is `t`."""
        table, sign, _ = name.name.rpartition(BRANCH_SIGN)
        return TableName(name.db_schema, table) if sign and self._find(name) is None else name

    def find(self, name: TableName) -> Table | None:
        """Return the table of this name, or the branch `t@b` of one, if there is one.

        `Corrupt` where its place cannot be known.
        """
        if self.branch is not None:
            branched = self._find_branch(TableName(name.db_schema, f"{name.name}{BRANCH_SIGN}{self.branch}"))
            if branched is not None:
                return branched
        table = self._find(name)
        if table is None and self.store.is_remote:
            # A `__manifest` that the root has only just got may list it.
            table = self._find(name) if self.store.has(MANIFEST) else None
        elif table is None:
            # It may be absent for just the moment in which another one takes its place.
            with self._lock:
                table = self._find(name)
        return table or self._find_branch(name)

    def read(self, name: TableName, read: Callable[[Table], T]) -> T:
        """Return what `read` makes of a table; of the one that took its place, if that happened meanwhile."""
        table = self.table(name)
        try:
            return read(table)
        except (NotFound, Corrupt):
            # A table that goes away while it is read looks like one that is broken.
            with self._lock:
                look_again()
                return read(self.table(name))

    def table(self, name: TableName) -> Table:
        """Return the table of this name, or `NotFound` with the nearest names."""
        table = self.find(name)
        if table is None:
            raise self._why_missing(name)
        return table

    def view(self, name: TableName) -> ViewDefinition | None:
        """Return the view of this name, if there is one."""
        return self._views.find(name) if self._sees(name) else None

    def views(self) -> list[ViewDefinition]:
        """Return all views, sorted by name."""
        return sorted((view for view in self._views.list_views() if self._sees(view.name)), key=lambda view: view.name)

    def unreadable_views(self) -> list[LanceFlightError]:
        """Return an error for each view that cannot be read; no list has it."""
        return self._views.unreadable()

    def _why_missing(self, name: TableName) -> NotFound:
        """Return why there is no table of a name, as far as its asker may know."""
        if self.view(name) is not None:
            return NotFound(
                f"{name.name!r} is a view, which has no rows, versions or files of its own; expected a table"
            )
        names = self._names(name.db_schema)
        if name.name in names:
            return NotFound(
                f"no table {name.name!r}: there is a place for it in schema {name.db_schema!r}, and no table in it that can"
                " be read; one that is being made or dropped looks like this, too"
            )
        cased = next((other for other in names if other.lower() == name.name.lower()), None)
        if cased is not None:
            return NotFound(
                f"no table {name.name!r}; there is {cased!r}: names are folded to lower case unless they are in quotes,"
                f' as in "{cased}"'
            )
        # Names of functions come here, too: they are not worth many requests.
        is_settled = self.store.is_remote or nearest(name.name, names, _MISSPELT)
        schemas = [] if is_settled else self.schemas()[:_MOST_SCHEMAS]
        elsewhere = [schema for schema in schemas if self.has(TableName(schema, name.name))]
        if elsewhere:
            return NotFound(
                f"no table {name.name!r} in schema {name.db_schema!r}; did you mean {elsewhere[0]}.{name.name}?"
            )
        return NotFound.named("table", name.name, names)

    def has(self, name: TableName) -> bool:
        """Return whether there is a table of this name, be it a broken one."""
        try:
            return self.find(name) is not None
        except OutsideRoot:
            raise
        except Corrupt:
            return True

    def tables(self) -> list[TableName]:
        """Return all tables, sorted."""
        return sorted(self.kinds())

    def schemas(self) -> list[str]:
        """Return all SQL schemas, sorted; `public` is always there."""
        if self._is_namespace(self.store):
            return [PUBLIC]
        schemas = {PUBLIC, *self._listed_schemas(), *self._sub_directories()}
        return sorted(name for name in schemas if self.guard is None or self.guard.sees_schema(name))

    def has_namespace(self, db_schema: str) -> bool:
        """Return whether a visible schema is a namespace that the `__manifest` lists."""
        listing = self._manifest.listing()
        is_listed = listing.path_of_schema(db_schema) in listing.namespaces
        return is_listed and (self.guard is None or self.guard.sees_schema(db_schema))

    def kinds(self) -> dict[TableName, bool]:
        """Return all tables, broken ones too, and whether each of them is partitioned."""
        with self._lock:
            kinds = self._kinds()
        lasting = {name: partitioned for name, partitioned in kinds.items() if self._sees(name)}
        if self.temporary is None:
            return lasting
        temporary = self.temporary.kinds()
        return lasting | {name: temporary[name] for name in self.temporary_names & temporary.keys()}

    def _find_branch(self, name: TableName) -> Table | None:
        table, sign, branch = name.name.rpartition(BRANCH_SIGN)
        if not sign:
            return None
        resolved = self._find(TableName(name.db_schema, table))
        if resolved is None or branch not in [known.name for known in resolved.branches]:
            return None
        return resolved.on_branch(branch)

    def _sees(self, name: TableName) -> bool:
        return self.guard is None or self.guard.sees(name)

    def _find(self, name: TableName) -> Table | None:
        if name in self.temporary_names:
            return self._find_temporary(name)
        self.formats.check()
        if not self._sees(name):
            return None
        listing = NOTHING
        if self.store.has(MANIFEST, within=_SHAPE_SECONDS):
            if self._is_namespace(self.store):
                if name == TableName(PUBLIC, self.store.name):
                    return self._namespace(self.store)
                # A __manifest that cannot be read may list any name.
                self._namespace(self.store).snapshot()
                return None
            listing, named = self._named_listing()
            if name in named:
                return self._plain(self._listed_place(name, named[name]))
        if not _is_safe(name.name) or not _is_safe(name.db_schema):
            return None
        place = self._directory(name.db_schema)
        whole, plain = place.child(name.name), place.child(name.name + PLAIN_SUFFIX)
        if whole.is_link or plain.is_link:
            raise _follow_link("table", name.name)
        if self._is_namespace(whole, within=_SHAPE_SECONDS if self._was_read(plain) else 0.0):
            return self._namespace(whole)
        return self._find_plain(name, plain, listing) or (self._namespace(whole) if has_lost_manifest(whole) else None)

    def _find_plain(self, name: TableName, place: Store, listing: Listing) -> PlainTable | None:
        """Return the plain table in a directory, if that counts under this name."""
        is_there = self._is_there_still(place) or _is_table(place)
        is_found = is_there and not self._has_row(place, listing) and self._finds_directories(name.db_schema)
        return self._plain(place) if is_found else None

    def _was_read(self, place: Store) -> bool:
        """Return whether a plain table in an object store was read before, at this place."""
        return place.is_remote and place.uri in self._opened and self._plain(place).log.was_read

    def _is_there_still(self, place: Store) -> bool:
        """Return whether a plain table that was read before has a newest version, which is what is asked next anyway."""
        if not self._was_read(place):
            return False
        try:
            self._plain(place).snapshot()
        except NotFound:
            return False
        except Corrupt:
            return True
        return True

    def _finds_directories(self, db_schema: str) -> bool:
        """Return whether a plain table is there without a row: below the root itself a setting decides."""
        return db_schema != PUBLIC or self._lists_directories

    def _find_temporary(self, name: TableName) -> Table | None:
        """Return a temporary table; a dropped one leads to no lasting table, which may be guarded."""
        if self.temporary is None:
            raise NotFound(
                f"table {name.name!r} was a temporary one of another session, or of one that has ended; expected what"
                " reads it to come from that session, and to the server that has it"
            )
        return self.temporary.find(name)

    def _kinds(self) -> dict[TableName, bool]:
        self.formats.check()
        if self._is_namespace(self.store):
            return {TableName(PUBLIC, self.store.name): True}
        kinds = {}
        listing, named = self._named_listing()
        for db_schema in [PUBLIC, *self._sub_directories()]:
            place = self._directory(db_schema)
            for directory in self._names_in(place):
                name = directory.removesuffix(PLAIN_SUFFIX)
                if not _is_safe(name) or place.child(directory).is_link:
                    continue
                lies_there = place.child(directory)
                if self._is_listed_namespace(lies_there):
                    kinds[TableName(db_schema, directory)] = True
                elif (
                    name != directory
                    and self._finds_directories(db_schema)
                    and self._is_listed_table(lies_there)
                    and not self._has_row(lies_there, listing)
                ):
                    kinds.setdefault(TableName(db_schema, name), False)
                elif name == directory and has_lost_manifest(place.child(directory)):
                    kinds[TableName(db_schema, directory)] = True
        return kinds | dict.fromkeys(named, False)

    def left_over(self) -> list[Store]:
        """Return the directories that hold nothing but files of writes into tables that were dropped."""
        tables = self.kinds()
        places = [
            (db_schema, self._directory(db_schema).child(name))
            for db_schema in [PUBLIC, *self._sub_directories()]
            for name in self._directory(db_schema).directories()
            if _is_safe(name.removesuffix(PLAIN_SUFFIX))
        ]
        return [
            place
            for db_schema, place in places
            if TableName(db_schema, place.name.removesuffix(PLAIN_SUFFIX)) not in tables and is_left_over(place)
        ]

    def _sub_directories(self) -> list[str]:
        """Return the plain sub-directories: neither tables nor namespaces nor private."""
        taken = self._reserved_directories()
        return [name for name in self._names_in(self.store) if name not in taken and self._is_plain(name)]

    def _names_in(self, place: Store) -> list[str]:
        """Return the names of the directories in one; in an object store they are listed once in a statement, and examined together."""
        if not place.is_remote:
            return place.directories()
        names = _directories(place)
        candidates = [place.child(name) for name in names if _is_safe(name)]
        unknown = [store for store in candidates if looks.recall(store.uri, _KIND, within=LISTED_SECONDS) is None]
        if unknown:
            map_tables(self._listed_kind, unknown, "kinds")
        return names

    def _listed_kind(self, place: Store) -> bool | None:
        """Return whether a table in a directory of an object store is partitioned, None for no table; one that was there a moment ago is.

        That the directory is there was just seen.
        """
        known = looks.recall(place.uri, _KIND, within=LISTED_SECONDS)
        if known is not None and known[0] is not None:
            return bool(known[0])
        return looks.find(place.uri, _KIND, partial(self._kind, place))

    def _kind(self, place: Store) -> bool | None:
        if not place.name.endswith(PLAIN_SUFFIX):
            return self._namespace(place).log.is_namespace() or None
        if MANIFEST in _directories(place) and self._is_namespace(place):
            return True
        return False if _is_table(place) else None

    def _is_listed_namespace(self, place: Store) -> bool:
        """Return whether a partitioned namespace lies in a directory that was just listed."""
        return self._listed_kind(place) is True if place.is_remote else self._is_namespace(place)

    def _is_listed_table(self, place: Store) -> bool:
        """Return whether a plain table lies in a directory that was just listed."""
        return self._listed_kind(place) is False if place.is_remote else _is_table(place)

    def _is_directory(self, db_schema: str) -> bool:
        """Return whether a schema is the root or a plain sub-directory of it, and not merely listed."""
        if db_schema == PUBLIC:
            return True
        return (
            _is_safe(db_schema)
            and self.store.has(db_schema)
            and db_schema not in self._reserved_directories()
            and self._is_plain(db_schema)
        )

    def _has_row(self, place: Store, listing: Listing) -> bool:
        """Return whether a directory is a listed table's, which has the name that is listed and no other."""
        return place.uri.removeprefix(f"{self.store.uri.rstrip('/')}/") in listing.locations

    def _reserved_directories(self) -> frozenset[str | None]:
        """Sub-directories that belong to a table, whatever they look like."""
        listed = self._manifest.listing().locations
        if self.store.is_remote and VERSIONS not in _directories(self.store):
            return listed
        return listed | OF_A_LANCE_TABLE if _has_versions(self.store) else listed

    def _is_plain(self, name: str) -> bool:
        if not _is_safe(name) or name.endswith(PLAIN_SUFFIX) or name == PUBLIC or self.store.child(name).is_link:
            return False
        place = self.store.child(name)
        if place.is_remote:
            if looks.recall(place.uri, _KIND, within=LISTED_SECONDS) == (True,):
                return False
            inside = _directories(place)
        else:
            inside = place.directories()
        is_table = MANIFEST in inside or any(map(is_table_directory, inside))
        return not is_table and (VERSIONS not in inside or not _has_versions(place))

    def _names(self, db_schema: str) -> list[str]:
        """Return what look like the names of tables in a schema, without opening any."""
        names = [name.name for name in self._listed_tables() if name.db_schema == db_schema]
        if _is_safe(db_schema):
            place = self._directory(db_schema)
            tables = [d for d in place.directories() if d.endswith(PLAIN_SUFFIX) or place.child(d).has(MANIFEST)]
            names += [name for name in (d.removesuffix(PLAIN_SUFFIX) for d in tables) if _is_safe(name)]
        temporary = [name.name for name in self.temporary_names if name.db_schema == db_schema]
        return [*temporary, *(name for name in names if self._sees(TableName(db_schema, name)))]

    def _directory(self, db_schema: str) -> Store:
        if db_schema == PUBLIC:
            return self.store
        place = self.store.child(db_schema)
        if place.is_link:
            raise _follow_link("schema", db_schema)
        return place

    def _listed_tables(self) -> Mapping[TableName, Listed]:
        """Return the tables that a `__manifest` of the directory namespace (V2) lists."""
        return self._named_listing()[1]

    def _named_listing(self) -> tuple[Listing, Mapping[TableName, Listed]]:
        """Return what it lists, and the tables among that by the names that SQL has for them."""
        listing, named = self._manifest.listing(), self._by_sql_name
        if named[0] is not listing:
            self._by_sql_name = named = listing, _by_sql_name(listing)
        return named

    def _listed_schemas(self) -> set[str]:
        """Return the namespaces that it lists, those without tables too."""
        listing, named = self._named_listing()
        return {".".join(path) for path in listing.namespaces}.union(name.db_schema for name in named)

    def _listed_place(self, name: TableName, listed: Listed) -> Store:
        """Return where a listed table lies; one that cannot be reached is the fault of its own row alone."""
        if not listed.location:
            raise Corrupt(f"table {name.name!r} is listed without a location")
        try:
            place = self.store.child(listed.location)
            place.check_way()
        except Corrupt as exc:
            raise Corrupt(f"table {name.name!r} is listed wrongly: {exc}") from exc
        return place

    def _namespace(self, place: Store) -> PartitionedNamespace:
        table = self._opened.get(place.uri)
        if not isinstance(table, PartitionedNamespace):
            table = self._opened[place.uri] = PartitionedNamespace(place)
        return table

    def _plain(self, place: Store) -> PlainTable:
        table = self._opened.get(place.uri)
        if not isinstance(table, PlainTable):
            table = self._opened[place.uri] = PlainTable(place)
        return table

    def _is_namespace(self, place: Store, *, within: float = 0.0) -> bool:
        """Return whether a partitioned namespace lies at `place`: a `__manifest` with at least one partition spec.

        A broken one is listed with the others, and opening it raises the reason.
        """
        if place.is_remote and self._namespace(place).log.was_read:
            # Where it was, its newest version says in one request whether it still is.
            return self._namespace(place).log.is_namespace()
        return place.has(MANIFEST, within=within) and self._namespace(place).log.is_namespace()


def _by_sql_name(listing: Listing) -> dict[TableName, Listed]:
    """Return the listed tables by the names that SQL has for them.

    Where two paths make one name, the shorter one has it.
    """
    paths = sorted(listing.tables, key=lambda path: (-len(path), path))
    return {_name(path): listing.tables[path] for path in paths}


def _name(path: Path) -> TableName:
    return TableName(".".join(path[:-1]) or PUBLIC, path[-1])


def _follow_link(what: str, name: str) -> OutsideRoot:
    return OutsideRoot(
        f"{what} {name!r} is a symbolic link, and no link below a root is followed; expected the directory itself"
    )


def _is_table(place: Store) -> bool:
    if not place.is_remote:
        return place.has(VERSIONS) or has_lost_versions(place)
    names = _directories(place)  # by one request, whatever is there
    return VERSIONS in names or (TRANSACTIONS in names and has_lost_versions(place))


def _directories(place: Store) -> list[str]:
    """Return the names of the directories in a place in an object store, listed once in a statement."""
    return looks.find(place.uri, "directories", place.directories)


def _has_versions(place: Store) -> bool:
    """Return whether a Lance table lies right at `place`, as opposed to a table or schema called `_versions` below it."""
    return any(is_version_name(name) for name in place.child(VERSIONS).files())


def _is_safe(name: str) -> bool:
    """Return whether a name can be one directory below another: it leads nowhere else, and into no table's inside."""
    if not name or len(name.encode()) + len(PLAIN_SUFFIX) > LONGEST_FILE_NAME:
        return False
    return not any(part in name for part in "/\\\0") and name[0] != "." and name != MANIFEST
