"""What Arrow's integration scenarios want to be answered, as backends for the dispatch that ships.

The scenarios are those of the integration clients of Arrow's implementations (`flight_integration` in arrow-go,
`test_integration.cc` in arrow). Commands that are not of Flight SQL come as SQL text, see `server`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from lance_flight.backend_values import CancelStatus, Description
from lance_flight.errors import InvalidInput
from lance_flight.flight.backend import Caller, IngestTarget, Planned, SqlInfoValue, SqlOrPlan
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import SubstraitPlan

from tests.flight.flight_backend import CannedBackend
from tests.flight.slow_backend import PATIENCE, SlowBackend

NUMBERS = pa.schema([pa.field("number", pa.int32())])
UNSIGNED = pa.schema([pa.field("number", pa.uint32())])
NOTHING = pa.schema([])

_COLUMN = {
    "TABLE_NAME": "test",
    "IS_AUTO_INCREMENT": "1",
    "IS_CASE_SENSITIVE": "0",
    "TYPE_NAME": "type_test",
    "SCHEMA_NAME": "schema_test",
    "IS_SEARCHABLE": "1",
    "CATALOG_NAME": "catalog_test",
    "PRECISION": "100",
    "REMARKS": "test column",
}
_METADATA = {f"ARROW:FLIGHT:SQL:{key}": value for key, value in _COLUMN.items()}
QUERY = pa.schema([pa.field("id", pa.int64(), metadata=_METADATA)])
QUERY_IN_TRANSACTION = pa.schema([pa.field("pkey", pa.int32(), metadata=_METADATA)])

TRANSACTION, SAVEPOINT, SAVEPOINT_NAME = b"transaction_id", b"savepoint_id", "savepoint_name"
PLAN = SubstraitPlan(plan=b"plan", version="version")
QUERIES = ("SELECT STATEMENT", "SELECT PREPARED STATEMENT", PLAN)


@dataclass(slots=True)
class Ordered(CannedBackend):
    """`ordered`: three endpoints, whose order counts only where it is asked for."""

    def execute(self, caller: Caller, statement: SqlOrPlan, **_: object) -> Planned:
        return Planned(schema=NUMBERS, payloads=(b"1", b"10", b"100"), ordered=statement == "ordered")

    def read(self, caller: Caller, payload: bytes) -> pa.RecordBatchReader:
        rows = pa.table([pa.array([int(payload) * n for n in (1, 2, 3)], pa.int32())], schema=NUMBERS)
        return rows.to_reader()


@dataclass(slots=True)
class Polled(SlowBackend):
    """`poll_flight_info` and `location:reuse_connection`: a heavy query is not done before it is polled again."""

    def execute(self, caller: Caller, statement: SqlOrPlan, **_: object) -> Planned:
        if statement == "heavy query":
            assert self.go.wait(PATIENCE)
        return Planned(schema=UNSIGNED, payloads=(b"",))


@dataclass(slots=True)
class Middleware(CannedBackend):
    """`middleware`: one command succeeds, any other fails, and the answer of both carries the header of the call."""

    def execute(self, caller: Caller, statement: SqlOrPlan, **_: object) -> Planned:
        if statement != "success":
            raise InvalidInput(f"{statement!r}; expected success")
        return Planned(schema=NOTHING, payloads=(b"",))


@dataclass(slots=True)
class AppMetadata(CannedBackend):
    """`app_metadata_flight_info_endpoint`: the command comes back as metadata of the whole and of its endpoint."""

    def execute(self, caller: Caller, statement: SqlOrPlan, **_: object) -> Planned:
        said = str(statement).encode()
        return Planned(schema=UNSIGNED, payloads=(b"",), app_metadata=said, endpoint_metadata=said)


EXPIRATIONS = (None, timedelta(seconds=5), timedelta(seconds=6))
RENEWED = timedelta(seconds=10)


@dataclass(slots=True)
class ExpirationTime(CannedBackend):
    """`expiration_time:…`: results that can be read for as long as `EXPIRATIONS` says, one for each statement `0`, `1`, `2`."""

    stopped: set[bytes] = field(default_factory=set)

    def execute(self, caller: Caller, statement: SqlOrPlan, **_: object) -> Planned:
        number = int(str(statement))
        until = EXPIRATIONS[number]
        expires = None if until is None else datetime.now(UTC) + until
        return Planned(schema=UNSIGNED, payloads=(str(number).encode(),), expires=expires)

    def read(self, caller: Caller, payload: bytes) -> pa.RecordBatchReader:
        if payload in self.stopped:
            raise InvalidInput("this result was cancelled")
        return pa.table([pa.array([int(payload)], pa.uint32())], schema=UNSIGNED).to_reader()

    def cancel(self, caller: Caller, payloads: Sequence[bytes]) -> CancelStatus:
        self.stopped.update(payloads)
        return CancelStatus.CANCELLED

    def renew(self, caller: Caller, payload: bytes) -> datetime:
        return datetime.now(UTC) + RENEWED


@dataclass(slots=True)
class SessionOptions(CannedBackend):
    """`session_options`: any option can be set, but for one name and one value."""

    unknown_option: str = "lol_invalid"
    wrong_value: str = "lol_invalid"


@dataclass(slots=True)
class Ingestion(CannedBackend):
    """`flight_sql:ingestion`: every field of the command has come through, and the rows."""

    def ingest(
        self, caller: Caller, target: IngestTarget, reader: pa.RecordBatchReader, *, transaction: bytes | None = None
    ) -> int:
        _expect(reader.schema, pa.schema([pa.field("test_field", pa.int64())]))
        _expect(transaction, b"123")
        _expect(
            (target.catalog, target.schema, target.table, target.temporary, target.options),
            ("test_catalog", "test_schema", "test_table", True, (("key1", "val1"), ("key2", "val2"))),
        )
        _expect((target.if_not_exists.value, target.if_exists.value), ("create", "replace"))
        return CannedBackend.ingest(self, caller, target, reader, transaction=transaction)


@dataclass(slots=True)
class FlightSql(CannedBackend):
    """`flight_sql` and `flight_sql:extension`: statements and plans, bare, prepared and in a transaction."""

    is_prepared: bool = False
    """Whether the plan was described right before, which is all that tells whether it is prepared."""

    def describe(self, caller: Caller, statement: SqlOrPlan, *, transaction: bytes | None = None) -> Description:
        self.is_prepared = True
        return Description(schema=_schema(transaction) if statement in QUERIES else None)

    def execute(
        self,
        caller: Caller,
        statement: SqlOrPlan,
        *,
        parameters: pa.RecordBatch | None = None,
        endpoints: int = 1,
        transaction: bytes | None = None,
    ) -> Planned:
        self.is_prepared = False
        if statement not in QUERIES:
            raise InvalidInput(f"{statement!r}; expected one of {QUERIES}")
        if parameters is not None:
            _expect(parameters.to_pydict(), {"id": [1]})
        schema = _schema(transaction)
        return Planned(schema=schema, payloads=(schema.serialize().to_pybytes(),))

    def update(
        self,
        caller: Caller,
        statement: SqlOrPlan,
        *,
        parameters: pa.RecordBatch | None = None,
        transaction: bytes | None = None,
    ) -> int:
        in_transaction = 5_000 if transaction == TRANSACTION else 0
        is_prepared, self.is_prepared = self.is_prepared, False
        match statement:
            case "UPDATE STATEMENT":
                return 10_000 + in_transaction
            case "UPDATE PREPARED STATEMENT":
                return 20_000 + in_transaction
            case SubstraitPlan():
                _expect(statement, PLAN)
                return (20_000 if is_prepared else 10_000) + in_transaction
        raise InvalidInput(f"{statement!r}; expected UPDATE")

    def read(self, caller: Caller, payload: bytes) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(pa.ipc.read_schema(pa.py_buffer(payload)), [])

    def begin(self, caller: Caller) -> bytes:
        return TRANSACTION

    def end(self, caller: Caller, transaction: bytes, *, commit: bool) -> None:
        _expect(transaction, TRANSACTION)

    def begin_savepoint(self, caller: Caller, transaction: bytes, name: str) -> bytes:
        _expect((transaction, name), (TRANSACTION, SAVEPOINT_NAME))
        return SAVEPOINT

    def end_savepoint(self, caller: Caller, savepoint: bytes, *, release: bool) -> None:
        _expect(savepoint, SAVEPOINT)

    def sql_info(self) -> Mapping[int, SqlInfoValue]:
        return {
            pb.FLIGHT_SQL_SERVER_SQL: False,
            pb.FLIGHT_SQL_SERVER_SUBSTRAIT: True,
            pb.FLIGHT_SQL_SERVER_SUBSTRAIT_MIN_VERSION: "min_version",
            pb.FLIGHT_SQL_SERVER_SUBSTRAIT_MAX_VERSION: "max_version",
            pb.FLIGHT_SQL_SERVER_TRANSACTION: pb.SQL_SUPPORTED_TRANSACTION_SAVEPOINT,
            pb.FLIGHT_SQL_SERVER_CANCEL: True,
            pb.FLIGHT_SQL_SERVER_STATEMENT_TIMEOUT: 42,
            pb.FLIGHT_SQL_SERVER_TRANSACTION_TIMEOUT: 7,
        }


def _schema(transaction: bytes | None) -> pa.Schema:
    return QUERY if transaction is None else QUERY_IN_TRANSACTION


def _expect(actual: object, expected: object) -> None:
    if actual != expected:
        raise InvalidInput(f"{actual!r}; expected {expected!r}")
