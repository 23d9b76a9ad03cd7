"""Temporary tables: those of one session, in a private place of the root, which goes away with the session."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from weakref import finalize

from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.storage.staging_area import private_place
from lance_flight.errors import Unsupported

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

    def known(self) -> Temporary:
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
