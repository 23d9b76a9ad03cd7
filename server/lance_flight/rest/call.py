"""One request as its operation sees it: whose it is, what it names and brings, and the statements that it runs on the backend."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypeAlias
from uuid import uuid4

import pyarrow as pa

from lance_flight.backend_values import TablePlace
from lance_flight.errors import InvalidInput, LimitExceeded, NotFound, Refused
from lance_flight.flight.backend import Answered, Backend, Caller, IngestTarget, TableEntry
from lance_flight.flight.calls import Call
from lance_flight.flight.rows import InputRules, read_rows
from lance_flight.lru_cache import IDLE_SECONDS, LruCache
from lance_flight.rest.names import TableId, expression

Read = Callable[[int], bytes | bytearray]
Declared: TypeAlias = LruCache[tuple[str, TableId], tuple[str, TableId, str]]
"""Tables that somebody has declared, with their locations, until they are seen."""
JSON = "application/json"
MOST_DECLARED = 1_024
MOST_ON_PAGE, _LONGEST_LIMIT = 10_000, 9
"""Names on a page, and digits of a limit."""


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """Answer to a request: its status, and its body as JSON or as chunks of another type."""

    value: Any = None
    chunks: Iterator[bytes] | None = None
    content_type: str = JSON
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> Iterator[bytes]:
        """Return the bytes of the body."""
        return iter((json.dumps(self.value, separators=(",", ":")).encode(),)) if self.chunks is None else self.chunks


class _Reading:
    """File of a body for Arrow, which reads it once from the beginning to the end, and each part of a message at once."""

    closed = False

    def __init__(self, read: Read, rules: InputRules) -> None:
        self._read, self._rules = read, rules
        self.has_schema = False

    def read(self, size: int = -1) -> bytes | bytearray:
        """Return at most so many bytes of the body; none at its end. A part that is too large is refused before it comes."""
        if not self.has_schema and size > self._rules.parameter_limit:
            most = f"at most {self._rules.parameter_limit} (parameter_limit)"
            raise InvalidInput(f"the body is no Arrow IPC stream: its schema would have {size} bytes; expected {most}")
        if size > self._rules.batch_limit:
            most = f"at most {self._rules.batch_limit} (batch_limit)"
            raise LimitExceeded(f"a message of {size} bytes in the body; expected {most}")
        return self._read(size)

    def readable(self) -> bool:
        """Tell Arrow that this is to read."""
        return True

    def close(self) -> None:
        """Leave the body to the server."""


def declarations() -> Declared:
    """Return a memory of declarations: an engine writes a table right after it has declared it."""
    return LruCache(MOST_DECLARED, idle_seconds=IDLE_SECONDS)


@dataclass(frozen=True)
class RestCall:
    """Request of a caller: the names of its identifier, the parameters of its address and path, and its body.

    The body is `json`, or a stream that `read` reads. `repeated` has all values of each parameter of the address. `known` keeps the columns of the table, once they are asked for; `declared` is
    what callers have declared at this server.
    """

    backend: Backend
    caller: Caller
    rules: InputRules
    parts: tuple[str, ...] = ()
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    repeated: Mapping[str, Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = "$"
    json: Mapping[str, Any] = field(default_factory=dict)
    read: Read = lambda _: b""
    known: list[pa.Schema] = field(default_factory=list)
    declared: Declared = field(default_factory=declarations)

    @property
    def table(self) -> TableId:
        """The table that the identifier names, at the version, branch or tag that the request says."""
        version = self.json.get("version")
        if version is not None and (type(version) is not int or not 0 <= version < 1 << 63):
            raise InvalidInput(f"version {version!r}; expected a whole number")
        return self.newest.pin(version, self.branch)

    @property
    def newest(self) -> TableId:
        """The table that the identifier names."""
        return TableId.of(self.parts)

    @property
    def target(self) -> TableId:
        """The table that the request changes, on the branch that it says."""
        return self.newest.pin(None, self.branch)

    def declarations(self) -> list[tuple[TableId, str]]:
        """Return the tables that the caller has declared, and whose engine has not written them, with their locations."""
        return [(table, place) for owner, table, place in self.declared.values() if owner == self.caller.principal]

    def declare(self, table: TableId, location: str) -> None:
        """Remember a table that the caller has declared."""
        owner = self.caller.principal
        self.declared.put((owner, table), (owner, table, location), owner=owner)

    def forget_declaration(self, table: TableId) -> str | None:
        """Forget a table that the caller has declared, and return its location; None for any other."""
        found = self.declared.pop((self.caller.principal, table))
        return None if found is None else found[2]

    @property
    def branch(self) -> str | None:
        """The branch that the request says."""
        found = self.json.get("branch") or self.query.get("branch")
        if found is not None and not isinstance(found, str):
            raise InvalidInput(f"branch {found!r}; expected a text")
        return found

    @property
    def limit(self) -> int | None:
        """The most entries of a list that the request asks for; None for all."""
        text = self.query.get("limit", "0")
        if not text.isdecimal() or len(text) > _LONGEST_LIMIT:
            raise InvalidInput(f"limit {text[:40]!r}; expected a whole number")
        return int(text) or None

    def page(self, names: Iterable[str], most: int = MOST_ON_PAGE) -> tuple[list[str], str | None]:
        """Return the names after the page token of the request, at most its limit, and the token of the next page; None after the last one."""
        limit, after = min(self.limit or most, most), self.query.get("page_token", "")
        rest = sorted(name for name in names if name > after)
        return rest[:limit], rest[limit - 1] if len(rest) > limit else None

    def value(self, name: str, kind: type, default: Any = None) -> Any:
        """Return a value of the body; `InvalidInput` for one of another type, or a missing one without a default."""
        found = self.json.get(name, default)
        if found is None:
            found = default
        if found is None:
            raise InvalidInput(f"the body has no {name!r}; expected {kind.__name__}")
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            raise InvalidInput(f"{name} is {found!r}; expected {kind.__name__}")
        return found

    def answer(self, sql: str, parameters: pa.RecordBatch | None = None) -> Answered:
        """Run a query, or a statement for its report, whose rows are read once."""
        return self.backend.answer(self.caller, sql, parameters=parameters)

    def rows(self, sql: str, parameters: pa.RecordBatch | None = None) -> pa.Table:
        """Return all rows of a query with few of them."""
        return fetch(self.answer(sql, parameters))

    def run(self, sql: str, parameters: pa.RecordBatch | None = None) -> int:
        """Run a statement; return the number of rows that it affected."""
        return self.backend.update(self.caller, sql, parameters=parameters)

    def ingest(self, target: IngestTarget, rows: pa.RecordBatchReader | None = None) -> int:
        """Store the rows of the body in one commit, those of `open_rows` if they are open already."""
        what = f"the rows for table {target.table!r}"
        return self.backend.ingest(self.caller, target, self.check_rows(rows or self.open_rows(), what))

    def open_rows(self) -> pa.RecordBatchReader:
        """Return the rows of the body, read as they come; `InvalidInput` if it does not begin with a schema."""
        body = _Reading(self.read, self.rules)
        try:
            rows = pa.ipc.open_stream(pa.PythonFile(body, mode="r"))
        except (OSError, pa.ArrowException) as error:
            raise InvalidInput(f"the body is no Arrow IPC stream: {error}") from error
        body.has_schema = True
        return rows

    def check_rows(self, rows: pa.RecordBatchReader, what: str) -> pa.RecordBatchReader:
        """Return rows that are validated as they are read, each batch within the bounds of the server."""
        return read_rows(rows, Call(caller=self.caller, is_cancelled=self.caller.is_gone), self.rules, what)

    def version(self, table: TableId | None = None) -> int:
        """Return the newest version of the table; 0, which clients take for unknown, if the caller may not read it."""
        try:
            return self.describe(table or self.target)[1]
        except Refused:
            return 0

    def describe(self, table: TableId) -> tuple[pa.Schema, int]:
        """Return the columns of a table that the caller may read, and the version that it has."""
        found = self.answer(f"SELECT * FROM {table.sql} LIMIT 0")  # noqa: S608 - a quoted name
        fetch(found)
        return found.schema, snapshot_of(found)

    def with_metadata(self, schema: pa.Schema, table: TableId) -> pa.Schema:
        """Return the columns of a table with what is said of them and of it, as far as the caller may know."""
        said = self._columns(table)
        known = {column.name: column.metadata for column in said}
        return pa.schema([column.with_metadata(known.get(column.name)) for column in schema], said.metadata)

    def columns(self) -> pa.Schema:
        """Return the columns of the table that the request reads, as the caller may know of them."""
        if not self.known:
            self.known.append(self._columns(self.table))
        return self.known[0]

    def _columns(self, table: TableId) -> pa.Schema:
        with suppress(NotFound):  # a view, which a query describes
            entry = TableEntry(catalog="", db_schema=table.db_schema, name=table.name)
            return self.backend.table_schema(self.caller, entry, table.at)
        return self.describe(table)[0]

    def expression(self, text: object, relation: str = "", *, is_condition: bool = False) -> str:
        """Return an expression of the request in SQL, with the names of the table's columns as they are written."""
        return expression(text, self.columns().names, relation, is_condition=is_condition)

    def condition(self, text: object) -> str:
        """Return the WHERE clause for a condition of the request; nothing without one."""
        return "" if text is None else f" WHERE {self.expression(text, is_condition=True)}"

    def entry(self, table: TableId) -> TableEntry:
        """Return the table or view as the backend lists it; `NotFound` if the caller sees none of this name."""
        for entry in self.backend.tables(self.caller):
            if (entry.db_schema, entry.name) == (table.db_schema, table.name):
                return entry
        raise NotFound(f"no table {table.name!r}")

    def places(self, table: TableId) -> Sequence[TablePlace]:
        """Return the places of the partition tables of a table, or its own."""
        return self.backend.places(self.caller, self.entry(table))

    def is_partitioned(self, table: TableId) -> bool:
        """Return whether a table has partitions."""
        return (table.db_schema, table.name) in self.backend.partitioned_tables(self.caller)

    @property
    def is_lancedb(self) -> bool:
        """True if LanceDB's own client asks, which reads some answers in another form than the catalog's."""
        return is_lancedb(self.headers.get("user-agent", ""))

    @contextmanager
    def alone(self) -> Iterator[RestCall]:
        """Run a block in a session of its own, which may have temporary tables."""
        caller = replace(self.caller, session=f"rest {uuid4()} {self.caller.principal}", is_connection=False)
        try:
            yield replace(self, caller=caller)
        finally:
            self.backend.close_session(caller)


def is_lancedb(agent: str) -> bool:
    """Return whether the name of a client is that of LanceDB's own."""
    return agent.lower().startswith("lancedb")


def batches_of(answered: Answered) -> Iterator[pa.RecordBatch]:
    """Return the rows of a query, counted as held for its client."""
    rows = answered.rows
    return iter(rows) if isinstance(rows, pa.RecordBatchReader) else rows.send(each for each in rows)


def fetch(answered: Answered) -> pa.Table:
    """Return all rows of a query."""
    return pa.Table.from_batches(batches_of(answered), answered.schema)


def snapshot_of(answered: Answered) -> int:
    """Return the version of the one table that a query reads; 0 if it reads several, or none."""
    return next(iter(answered.snapshots.values())) if len(answered.snapshots) == 1 else 0
