"""Runners of SQL for a catalog: an engine over its root in this process, or a server."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any, Protocol

import pyarrow as pa
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes.column_changes import ColumnChanges
from lance_flight.errors import InvalidInput

from lance_flight_client.adbc import Credentials, connect, execute
from lance_flight_client.dataset.portions import store_of
from lance_flight_client.flight import certificates
from lance_flight_client.spark.options import split_options

_LANES = 2
_CATALOGS = 16
"""Most catalogs whose connections and caches a process keeps."""


class SqlRunner(Protocol):
    """Something that runs SQL statements over the tables of a catalog."""

    def rows(self, sql: str) -> pa.Table:
        """Run a statement that returns rows."""
        ...

    def run(self, sql: str) -> None:
        """Run a statement that returns none."""
        ...


class RootBackend:
    """Runs SQL in this process over the tables of a root."""

    def __init__(self, options: Mapping[str, str]) -> None:
        plain, storage = split_options(options)
        self.root = Root(store_of(plain["root"], storage))
        self._engine = Engine(self.root, target_partitions=_LANES)

    def column_changes(self, name: TableName, sql: str) -> ColumnChanges | None:
        """Return what an ALTER TABLE makes of the columns of a table; None for one that changes something else."""
        return self._engine.column_changes(name, sql)

    def rows(self, sql: str) -> pa.Table:
        return self._engine.query(sql)

    def run(self, sql: str) -> None:
        self._engine.update(sql)


class ServerBackend:
    """Has a server run SQL, over one connection."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options, _ = split_options(options)
        self._lock = Lock()

    @cached_property
    def _connection(self) -> Any:
        trusted = self._options.get("tls_roots")
        credentials = Credentials(
            user=self._options.get("username"),
            password=self._options.get("password"),
            token=self._options.get("token"),
            tls_ca=None if trusted is None else certificates(trusted).decode(),
        )
        return connect(self._options["uri"], credentials)

    def rows(self, sql: str) -> pa.Table:
        with self._lock:
            found = execute(self._connection, sql).rows
        return pa.table({}) if found is None else found

    def run(self, sql: str) -> None:
        with self._lock:
            execute(self._connection, sql)


def backend_of(options: Mapping[str, str]) -> SqlRunner:
    """Return what runs SQL for a catalog with these options; `InvalidInput` unless they name a root or a server."""
    return _backend(tuple(sorted(options.items())))


@lru_cache(maxsize=_CATALOGS)
def _backend(given: tuple[tuple[str, str], ...]) -> SqlRunner:
    options = dict(given)
    if ("root" in options) == ("uri" in options):
        raise InvalidInput(
            "options of the catalog: expected one of 'root' (read directly) and 'uri' (through a server)"
        )
    return RootBackend(options) if "root" in options else ServerBackend(options)
