"""Results of planning a statement: its schema, its snapshots, and tasks, the work of one endpoint as data.

A task holds the statement, its parameters, the version of every table, and which part of the scan is its own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from types import MappingProxyType

import pyarrow as pa

from lance_flight.arrow_streams import decode_batch, encode_rows
from lance_flight.catalog.roots.directory import PUBLIC
from lance_flight.engine.query.names.statement_context import Scope, TableVersion
from lance_flight.engine.query.tables.table_view import Split
from lance_flight.engine.runtime.client_sessions import Isolation, QueryOptions
from lance_flight.engine.runtime.running_statement import RunningStatement
from lance_flight.errors import TicketError
from lance_flight.model.pins import BranchVersion, FixedPin, Version

_EXECUTION = tuple(field.name for field in fields(QueryOptions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Work of one endpoint for a `statement` that `began` at a moment; one inside a `transaction` can run on the server that holds it alone.

    `branch`, `db_schema` and `isolation` are those of its session. The names of `temporary` meant tables of that session, which it
    alone can read. `views` are the digests of the views that it was planned with. One with a `report` has been done: it gives
    the report alone (`engine.statements.answering`).
    """

    sql: str
    statement: str = ""
    began: datetime | None = None
    parameters: pa.RecordBatch | None = None
    readings: Mapping[str, TableVersion] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    share: Split = field(default_factory=Split)
    transaction: bytes | None = None
    branch: str | None = None
    db_schema: str = PUBLIC
    session: str = ""
    temporary: tuple[str, ...] = ()
    execution: QueryOptions = field(default_factory=QueryOptions)
    isolation: Isolation = Isolation.SNAPSHOT
    report: bytes | None = None

    def to_bytes(self) -> bytes:
        """Serialize the task as compact JSON."""
        value = {
            "sql": self.sql,
            "statement": self.statement,
            "began": None if self.began is None else self.began.isoformat(),
            "parameters": None if self.parameters is None else _to_text(encode_rows(self.parameters)),
            "readings": {
                name: [r.version, _pins_to_json(r.resolved), r.committed_at, r.step]
                for name, r in self.readings.items()
            },
            "views": dict(self.views),
            "share": [self.share.part, self.share.of],
            "branch": self.branch,
            "db_schema": self.db_schema,
            "session": self.session,
            "temporary": self.temporary,
            "execution": {name: getattr(self.execution, name) for name in _EXECUTION},
            "isolation": self.isolation.value,
            "transaction": None if self.transaction is None else self.transaction.hex(),
            "report": None if self.report is None else _to_text(self.report),
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Task:
        """Deserialize a task; raise `TicketError` for any other bytes."""
        try:
            value = json.loads(payload)
            if not isinstance(value, dict):
                raise TicketError("a ticket of another form")
            unknown = value.keys() - _KEYS
            if unknown:
                raise TicketError(f"a ticket with {', '.join(sorted(unknown))}, which a newer server has issued")
            return cls(
                sql=value["sql"],
                statement=value["statement"],
                began=None if value.get("began") is None else datetime.fromisoformat(value["began"]),
                parameters=None if value["parameters"] is None else decode_batch(base64.b64decode(value["parameters"])),
                readings={
                    name: TableVersion(version, _pins_from_json(pins), at, step)
                    for name, (version, pins, at, step) in value["readings"].items()
                },
                views=dict(value.get("views", {})),
                share=Split(*value["share"]),
                branch=value["branch"],
                db_schema=value["db_schema"],
                session=value["session"],
                temporary=tuple(value["temporary"]),
                execution=QueryOptions(**value["execution"]),
                isolation=Isolation(value["isolation"]),
                transaction=None if value["transaction"] is None else bytes.fromhex(value["transaction"]),
                report=None if value.get("report") is None else base64.b64decode(value["report"]),
            )
        except (ValueError, KeyError, TypeError, pa.ArrowInvalid) as exc:
            raise TicketError(f"a ticket that does not hold a task: {exc}") from exc


_KEYS = frozenset(field.name for field in fields(Task))
"""What a task says: a server that does not know one of them would give other rows than were asked for."""


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _pins_to_json(pins: Mapping[str, FixedPin]) -> dict[str, list[str | int | None]]:
    return {name: [pin.columns.read_branch, pin.version] for name, pin in pins.items()}


def _pins_from_json(value: Mapping[str, list[str | int | None]]) -> dict[str, FixedPin]:
    return {
        name: Version(int(version or 0)) if branch is None else BranchVersion(str(branch), int(version or 0))
        for name, (branch, version) in value.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """Query that is ready to run: its exact schema, one task for each endpoint, the snapshot of each table.

    The tasks can be run until it `expires`; in that order, if the rows are `ordered`. `rows` is the number of rows in the tables of
    a query with several endpoints, before any filter, and that of a report. `partitions` are the numbers of scanned tables and of all
    tables, if the plan gives them already.
    """

    schema: pa.Schema
    tasks: tuple[Task, ...]
    expires: datetime
    snapshots: Mapping[str, int] = field(default_factory=dict)
    rows: int | None = None
    ordered: bool = False
    partitions: tuple[int, int] | None = None


def tasks_of(
    running: RunningStatement,
    parameters: pa.RecordBatch | None,
    readings: Mapping[str, TableVersion],
    shares: int,
    scope: Scope,
    *,
    sql: str = "",
    views: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Task, ...]:
    """Return the tasks of a query, one for each endpoint; `sql` is its text where that is not the statement's own."""
    whole = Task(
        sql=sql or running.sql,
        statement=running.id,
        began=running.began,
        parameters=parameters,
        readings=readings,
        views=views,
        transaction=scope.transaction,
        branch=scope.branch,
        db_schema=scope.db_schema,
        session="" if scope.session is None else scope.session.id,
        temporary=tuple(sorted(name.name for name in scope.temporary.names)),
        execution=scope.execution,
        isolation=scope.isolation,
    )
    return tuple(replace(whole, share=Split(part, shares)) for part in range(shares))
