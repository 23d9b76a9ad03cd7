"""A backend with canned answers, to be put under the dispatch that ships."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
from lance_flight.arrow_streams import decode_batch, encode_rows
from lance_flight.backend_values import CancelStatus, Description, PeerRequest, SessionState, SettingValue
from lance_flight.errors import InvalidInput, NotFound, SqlError
from lance_flight.flight.backend import Caller, IngestTarget, Planned, PrimaryKey, SqlInfoValue, SqlOrPlan, TableEntry
from lance_flight.flight.wire import SubstraitPlan

KEY = bytes(range(32))

NUMBERS = pa.table(
    {"n": pa.array([1, 2, 3, 4], pa.int64()), "word": pa.array(["one", "two", None, "four"], pa.string())}
)
FLIGHTS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("price", pa.decimal128(9, 2), metadata={"comment": "in euros"}),
        pa.field("carrier", pa.string_view()),
    ]
)

UNKNOWN_OPTION, WRONG_VALUE = "unknown", "wrong"
"""The name of an option that there is not, and a value that none can have, unless they are given."""

PLAN = SubstraitPlan(plan=b"numbers", version="0.37")
"""Answers the numbers, or as many rows as `updates` says of this text."""
PLAN_TEXT = "0.37: numbers"

ECHO = "ECHO $1, $2"
"""Answers its parameters."""
ECHO_PARAMETERS = pa.schema([pa.field("1", pa.int64()), pa.field("2", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One call of `Backend.execute`."""

    sql: str
    parameters: list[dict[str, object]] | None = None
    endpoints: int = 1
    transaction: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """One call of `Backend.ingest`."""

    target: IngestTarget
    rows: pa.Table
    transaction: bytes | None = None


@dataclass(slots=True)
class CannedBackend:
    """Answers from tables; remembers what it was asked to run."""

    queries: dict[str, pa.Table] = field(default_factory=lambda: {"SELECT numbers": NUMBERS, PLAN_TEXT: NUMBERS})
    updates: dict[str, int] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    listed: Mapping[tuple[str, str, str, str], pa.Schema] = field(default_factory=dict)
    keys: Mapping[str, PrimaryKey] = field(default_factory=dict)
    ran: list[Ran] = field(default_factory=list)
    described: list[str] = field(default_factory=list)
    ingested: list[Ingested] = field(default_factory=list)
    callers: list[Caller] = field(default_factory=list)
    begun: int = 0
    following: dict[bytes, bytes] = field(default_factory=dict)
    ended: list[tuple[bytes, bool]] = field(default_factory=list)
    savepoints: list[tuple[bytes, object]] = field(default_factory=list)
    info: dict[int, SqlInfoValue] = field(default_factory=dict)
    sessions: dict[str, dict[str, SettingValue]] = field(default_factory=dict)
    cookies: dict[str, dict[str, SettingValue]] = field(default_factory=dict)
    expires: datetime | None = None
    renewed: datetime | None = None
    cancelled: list[tuple[bytes, ...]] = field(default_factory=list)
    cancel_status: CancelStatus = CancelStatus.CANCELLED
    unknown_option: str = UNKNOWN_OPTION
    wrong_value: str = WRONG_VALUE

    def begin_session(self, caller: Caller) -> None:
        self.callers.append(caller)

    def offer(self, caller: Caller, cookie: str) -> None:
        self.cookies[cookie] = self.sessions.setdefault(caller.session, {})

    def state(self, caller: Caller) -> SessionState | None:
        options = self.sessions.get(caller.session) if caller.cookie is None else self.cookies.get(caller.cookie)
        return None if options is None else SessionState(generation=len(options), settings=options)

    def knows(self, cookie: str) -> bool:
        return cookie in self.cookies

    def set_option(self, caller: Caller, name: str, value: SettingValue | None) -> None:
        if name == self.unknown_option:
            raise NotFound(f"no option {name!r}")
        if value == self.wrong_value:
            raise InvalidInput(f"{name} is {value!r}")
        self._fail(name)
        options = self._options(caller)
        options.pop(name, None)
        if value is not None:
            options[name] = value

    def options(self, caller: Caller) -> Mapping[str, SettingValue]:
        return self._options(caller)

    def close_session(self, caller: Caller) -> None:
        self.callers.append(caller)
        ended = self._options(caller)
        self.cookies = {cookie: options for cookie, options in self.cookies.items() if options is not ended}
        self.sessions = {key: options for key, options in self.sessions.items() if options is not ended}

    def _options(self, caller: Caller) -> dict[str, SettingValue]:
        if caller.cookie is not None:
            return self.cookies[caller.cookie]
        return self.sessions.setdefault(caller.session, {})

    def begin(self, caller: Caller) -> bytes:
        self.callers.append(caller)
        self.begun += 1
        return b"tx %d" % self.begun

    def current(self, caller: Caller, transaction: bytes) -> bytes:
        return self.following.get(transaction, transaction)

    def end(self, caller: Caller, transaction: bytes, *, commit: bool) -> None:
        self.callers.append(caller)
        self._fail("commit" if commit else "rollback")
        self.ended.append((transaction, commit))

    def roll_back_open(self) -> int:
        return self.begun - len(self.ended)

    def begin_savepoint(self, caller: Caller, transaction: bytes, name: str) -> bytes:
        self.savepoints.append((transaction, name))
        return b"savepoint"

    def end_savepoint(self, caller: Caller, savepoint: bytes, *, release: bool) -> None:
        self.savepoints.append((savepoint, release))

    def answer_peer(self, request: PeerRequest) -> bytes:
        return f"{request.operation.value} {request.subject} {request.principal}".encode()

    def sql_info(self) -> Mapping[int, SqlInfoValue]:
        return self.info

    def describe(self, caller: Caller, statement: SqlOrPlan, *, transaction: bytes | None = None) -> Description:
        sql = _text(statement)
        self.callers.append(caller)
        self.described.append(sql)
        self._fail(sql)
        if sql == ECHO:
            return Description(schema=ECHO_PARAMETERS, parameters=ECHO_PARAMETERS)
        if sql in self.updates:
            return Description(schema=None, parameters=ECHO_PARAMETERS if "$1" in sql else pa.schema([]))
        return Description(schema=self._query(sql).schema)

    def execute(
        self,
        caller: Caller,
        statement: SqlOrPlan,
        *,
        parameters: pa.RecordBatch | None = None,
        endpoints: int = 1,
        transaction: bytes | None = None,
    ) -> Planned | int:
        sql = _text(statement)
        self.callers.append(caller)
        rows = None if parameters is None else parameters.to_pylist()
        self.ran.append(Ran(sql=sql, parameters=rows, endpoints=endpoints, transaction=transaction))
        self._fail(sql)
        if sql in self.updates:
            return self.updates[sql] * (1 if rows is None else len(rows))
        if sql == ECHO:
            assert parameters is not None
            return Planned(schema=ECHO_PARAMETERS, payloads=(b"echo:" + encode_rows(parameters),))
        payloads = tuple(f"{part}/{endpoints}:{sql}".encode() for part in range(endpoints))
        table = self._query(sql)
        return Planned(
            schema=table.schema,
            payloads=payloads,
            ordered=True,
            total_records=table.num_rows,
            expires=self.expires,
        )

    def update(
        self,
        caller: Caller,
        statement: SqlOrPlan,
        *,
        parameters: pa.RecordBatch | None = None,
        transaction: bytes | None = None,
    ) -> int:
        outcome = self.execute(caller, statement, parameters=parameters, transaction=transaction)
        if not isinstance(outcome, int):
            raise InvalidInput("a query was sent as an update")
        return outcome

    def read(self, caller: Caller, payload: bytes) -> pa.RecordBatchReader:
        head, _, rest = payload.partition(b":")
        if head == b"echo":
            rows = pa.table(decode_batch(rest).columns, schema=ECHO_PARAMETERS)
            return rows.to_reader()
        sql = rest.decode()
        if f"read {sql}" in self.failures:
            return pa.RecordBatchReader.from_batches(self._query(sql).schema, self._broken(sql))
        part, parts = map(int, head.split(b"/"))
        table = self._query(sql)
        size = -(-table.num_rows // parts)
        return table.slice(part * size, size).to_reader()

    def cancel(self, caller: Caller, payloads: Sequence[bytes]) -> CancelStatus:
        self.cancelled.append(tuple(payloads))
        return self.cancel_status

    def renew(self, caller: Caller, payload: bytes) -> datetime | None:
        return self.renewed

    def ingest(
        self, caller: Caller, target: IngestTarget, reader: pa.RecordBatchReader, *, transaction: bytes | None = None
    ) -> int:
        rows = reader.read_all()
        self._fail(target.table)
        self.ingested.append(Ingested(target=target, rows=rows, transaction=transaction))
        return rows.num_rows

    def catalogs(self, caller: Caller) -> Iterable[str]:
        return {catalog for catalog, *_ in self.listed}

    def db_schemas(self, caller: Caller) -> Iterable[tuple[str, str]]:
        return {(catalog, db_schema) for catalog, db_schema, *_ in self.listed}

    def tables(self, caller: Caller) -> Iterable[TableEntry]:
        for catalog, db_schema, name, kind in self.listed:
            yield TableEntry(catalog=catalog, db_schema=db_schema, name=name, type=kind)

    def table_schema(self, caller: Caller, table: TableEntry, at: str | None = None) -> pa.Schema:
        self._fail(table.name)
        return self.listed[table.catalog, table.db_schema, table.name, table.type]

    def primary_key(self, caller: Caller, table: TableEntry) -> PrimaryKey | None:
        self._fail(table.name)
        return self.keys.get(table.name)

    def _query(self, sql: str) -> pa.Table:
        if sql not in self.queries:
            raise SqlError(f"cannot plan {sql!r}")
        return self.queries[sql]

    def _fail(self, sql: str) -> None:
        if sql in self.failures:
            raise self.failures[sql]

    def _broken(self, sql: str) -> Iterator[pa.RecordBatch]:
        yield self._query(sql).to_batches()[0]
        raise self.failures[f"read {sql}"]


def _text(statement: SqlOrPlan) -> str:
    return statement if isinstance(statement, str) else f"{statement.version}: {statement.plan.decode()}"
