"""Adapter of the engine to the `Backend` interface."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

import pyarrow as pa

from lance_flight import audit
from lance_flight.arrow_streams import encode_rows
from lance_flight.audit import AuditEvent, EventKind, Subject
from lance_flight.backend_values import (
    CancelStatus,
    Description,
    PeerOperation,
    PeerRequest,
    SessionState,
    SettingValue,
    TablePlace,
)
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import Access
from lance_flight.engine.query.planned_query import QueryPlan, Task
from lance_flight.engine.query.policy_file import PolicyFile
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.admission import NO_QUOTAS, Limits
from lance_flight.engine.runtime.running_statement import Issuer
from lance_flight.engine.runtime.session_registry import Session
from lance_flight.engine.sql.references import CATALOG
from lance_flight.engine.statements import sessions
from lance_flight.engine.translation import substrait
from lance_flight.engine.writes.ingest import IngestOptions
from lance_flight.errors import Conflict, NotFound, Refused, Unsupported
from lance_flight.flight.backend import (
    LOCAL_TEMPORARY,
    TABLE,
    VIEW,
    Answered,
    Caller,
    IfNotExists,
    IngestTarget,
    Planned,
    PrimaryKey,
    Rows,
    SqlInfoValue,
    SqlOrPlan,
    TableEntry,
)
from lance_flight.flight.protocol import flight_sql_pb2 as pb


class EngineBackend:
    """Backend that runs statements on the engine (`flight.backend.Backend`); without `policies` every caller has all rights."""

    def __init__(self, engine: Engine, policies: PolicyFile | None = None) -> None:
        self._engine = engine
        self._policies = policies

    @property
    def limits(self) -> Limits:
        """The limits of the engine, as they are now."""
        return self._engine.limits

    def describe(self, caller: Caller, statement: SqlOrPlan, *, transaction: bytes | None = None) -> Description:
        return self._engine.describe(_sql(statement), self._scope(caller, transaction))

    def begin_session(self, caller: Caller) -> None:
        if caller.is_connection:
            self._engine.clients.renew(caller.session, caller.principal, holder=caller.holder)

    def offer(self, caller: Caller, cookie: str) -> None:
        self._engine.clients.offer(
            caller.session,
            cookie,
            is_own=not caller.is_connection,
            principal=caller.principal,
            holder=caller.holder,
        )

    def state(self, caller: Caller) -> SessionState | None:
        session = self._engine.clients.find(caller.session, caller.cookie)
        return None if session is None else sessions.state(session)

    def knows(self, cookie: str) -> bool:
        return self._engine.clients.knows(cookie)

    def set_option(self, caller: Caller, name: str, value: SettingValue | None) -> None:
        session = self._session(caller)
        sessions.assign(session, name, value)
        if _is_own(session, caller):
            for transaction in list(session.open.values()):
                with (
                    suppress(Conflict),
                    transaction.statement() as begun,
                ):  # one that has failed is left to its rollback
                    sessions.adopt(session, begun)

    def options(self, caller: Caller) -> Mapping[str, SettingValue]:
        return sessions.options(self._session(caller))

    def close_session(self, caller: Caller) -> None:
        session = self._session(caller)
        self._engine.clients.close(session, is_own=_is_own(session, caller))

    def begin(self, caller: Caller) -> bytes:
        return self._engine.clients.begin(self._session(caller))

    def current(self, caller: Caller, transaction: bytes) -> bytes:
        return self._engine.clients.current(self._session(caller), transaction)

    def end(self, caller: Caller, transaction: bytes, *, commit: bool) -> None:
        self._engine.clients.own(caller.principal, transaction)
        self._engine.clients.end(transaction, commit=commit)

    def begin_savepoint(self, caller: Caller, transaction: bytes, name: str) -> bytes:
        raise Unsupported(f"savepoint {name!r}: savepoints are not offered; begin another transaction")

    def end_savepoint(self, caller: Caller, savepoint: bytes, *, release: bool) -> None:
        raise Unsupported("savepoints are not offered")

    def roll_back_open(self) -> int:
        return self._engine.clients.roll_back_open()

    def execute(
        self,
        caller: Caller,
        statement: SqlOrPlan,
        *,
        parameters: pa.RecordBatch | None = None,
        endpoints: int = 1,
        transaction: bytes | None = None,
    ) -> Planned | int:
        sql, scope = _sql(statement), self._scope(caller, transaction)
        plan = self._engine.execute(sql, parameters, endpoints=endpoints, scope=scope)
        if isinstance(plan, int):
            return plan
        return Planned(
            schema=plan.schema,
            payloads=tuple(task.to_bytes() for task in plan.tasks),
            expires=plan.expires,
            ordered=plan.ordered,
            app_metadata=json.dumps(_said_of(plan)).encode(),
        )

    def answer(self, caller: Caller, sql: str, *, parameters: pa.RecordBatch | None = None) -> Answered:
        plan, rows = self._engine.answer(sql, parameters, self._scope(caller, None))
        return Answered(schema=plan.schema, snapshots=plan.snapshots, rows=rows)

    def update(
        self,
        caller: Caller,
        statement: SqlOrPlan,
        *,
        parameters: pa.RecordBatch | None = None,
        transaction: bytes | None = None,
    ) -> int:
        return self._engine.update(_sql(statement), parameters, self._scope(caller, transaction))

    def read(self, caller: Caller, payload: bytes) -> Rows:
        session = self._session(caller)
        return self._engine.stream(
            Task.from_bytes(payload), self._issuer(caller, session), self._access(caller, session), session
        )

    def cancel(self, caller: Caller, payloads: Sequence[bytes]) -> CancelStatus:
        issuer = Issuer(principal=caller.principal, session=self._session(caller).id, peer=caller.peer)
        tasks = [Task.from_bytes(payload) for payload in payloads]
        statements = {task.statement for task in tasks if task.report is None}
        outcomes = [self._engine.running.cancel(statement, issuer) for statement in statements]
        for statement in statements:
            outcomes += self._engine.peers.cancel(statement, issuer.principal)
        done = [CancelStatus.NOT_CANCELLABLE for task in tasks if task.report is not None]
        return max([*outcomes, *done], key=list(CancelStatus).index)

    def renew(self, caller: Caller, payload: bytes) -> datetime:
        session = self._session(caller)
        return self._engine.renew(
            Task.from_bytes(payload), self._issuer(caller, session), self._access(caller, session), session
        )

    def ingest(
        self,
        caller: Caller,
        target: IngestTarget,
        reader: pa.RecordBatchReader,
        *,
        transaction: bytes | None = None,
    ) -> int:
        session = self._session(caller)
        if transaction is None and session.sql_transaction is None and _is_own(session, caller):
            joined = self._engine.clients.find_transaction(session)
            transaction = None if joined is None else joined.id
        if target.catalog not in (None, "", CATALOG):
            raise NotFound.named("catalog", str(target.catalog), [CATALOG])
        scope = self._scope(caller, transaction)
        db_schema = target.schema or (PUBLIC if target.temporary else scope.db_schema)
        return self._engine.ingest(
            TableName(db_schema, target.table),
            reader,
            create_missing=target.if_not_exists is IfNotExists.CREATE,
            existing=target.if_exists,
            options=IngestOptions.of(dict(target.options)),
            scope=scope,
            temporary=target.temporary,
        )

    def _session(self, caller: Caller) -> Session:
        clients = self._engine.clients
        if caller.cookie is None:
            session = clients.session(caller.session, caller.principal, holder=caller.holder)
        else:
            begins = caller.is_from_elsewhere
            session = clients.session_of(caller.cookie, caller.principal, may_begin=begins, holder=caller.holder)
        if caller.state is not None and caller.state.generation > session.told.generation:
            clients.abandon_sql(session)
            sessions.resume(session, caller.state)
        if audit.trail.is_on:
            self._enter(caller, session)
        return session

    def _enter(self, caller: Caller, session: Session) -> None:
        """Say to the audit trail whose call this is, and record the first one of a principal over a connection as its login."""
        roles: tuple[str, ...] = ()
        # Nobody has a role while the policy file is invalid; sessions and cancellation need none.
        with suppress(Refused):
            roles = () if self._policies is None else self._policies.allowance(caller.principal, caller.groups)[0]
        subject = Subject(principal=caller.principal, roles=roles, client=caller.peer, session=session.id)
        audit.enter(subject)
        reason = "first call of the principal over its connection"
        audit.trail.record_once(
            AuditEvent(kind=EventKind.LOGIN, subject=subject, action=caller.proof, reason=reason),
            caller.principal,
            caller.proof,
            caller.peer,
        )

    def _scope(self, caller: Caller, transaction: bytes | None) -> Scope:
        session = self._session(caller)
        if transaction is None and not caller.is_connection:
            transaction = session.sql_transaction
        scope = Scope(
            session,
            transaction,
            self._issuer(caller, session),
            self._access(caller, session),
            is_identified=not caller.is_connection,
            named_schema=caller.db_schema,
        )
        return scope.with_own_tables() if _is_own(session, caller) else scope

    def _issuer(self, caller: Caller, session: Session) -> Issuer:
        roles, allowance = (
            ((), NO_QUOTAS) if self._policies is None else self._policies.allowance(caller.principal, caller.groups)
        )
        return Issuer(
            principal=caller.principal,
            session=session.id,
            peer=caller.peer,
            connection=caller.connection,
            roles=roles,
            allowance=allowance,
            trace=caller.trace,
            is_gone=caller.is_gone,
            progressed=caller.progressed,
        )

    def _access(self, caller: Caller, session: Session) -> Access:
        granted = (
            Access(caller.principal)
            if self._policies is None
            else self._policies.access(caller.principal, caller.groups)
        )
        return granted.for_reading() if session.reads_only else granted

    def answer_peer(self, request: PeerRequest) -> bytes:
        peers = self._engine.peers.local(request)
        if peers is None:
            return b""
        match request.operation:
            case PeerOperation.ROWS:
                return encode_rows(self._engine.sessions.system_rows(request.subject, request.principal, peers))
            case PeerOperation.KILL:
                try:
                    killed: CancelStatus | None = self._engine.running.kill(request.subject, request.principal)
                except NotFound:
                    killed = peers.kill(request.subject, request.principal)
                return b"" if killed is None else killed.value.encode()
            case PeerOperation.CANCEL:
                principal = request.principal or ""
                outcomes = [self._engine.running.cancel(request.subject, Issuer(principal=principal))]
                outcomes += peers.cancel(request.subject, principal)
                return max(outcomes, key=list(CancelStatus).index).value.encode()

    def sql_info(self) -> Mapping[int, SqlInfoValue]:
        limits = self._engine.limits
        return {
            pb.FLIGHT_SQL_SERVER_STATEMENT_TIMEOUT: _milliseconds(limits.statement_timeout),
            pb.FLIGHT_SQL_SERVER_TRANSACTION_TIMEOUT: _milliseconds(limits.session_idle_timeout),
            pb.FLIGHT_SQL_SERVER_SUBSTRAIT: True,
            pb.FLIGHT_SQL_SERVER_SUBSTRAIT_MIN_VERSION: substrait.OLDEST,
            pb.FLIGHT_SQL_SERVER_SUBSTRAIT_MAX_VERSION: substrait.NEWEST,
        }

    def catalogs(self, caller: Caller) -> Iterable[str]:
        return [CATALOG]

    def db_schemas(self, caller: Caller) -> Iterable[tuple[str, str]]:
        return self._engine.schemas(self._access(caller, self._session(caller)))

    def tables(self, caller: Caller) -> Iterable[TableEntry]:
        scope = self._scope(caller, None)
        own = scope.temporary.names
        kinds = {
            **dict.fromkeys(self._engine.views(scope.access), VIEW),
            **{
                name: LOCAL_TEMPORARY if name in own else TABLE
                for name in self._engine.tables(scope.access, scope.temporary)
            },
        }
        return [
            TableEntry(catalog=CATALOG, db_schema=name.db_schema, name=name.name, type=kind)
            for name, kind in sorted(kinds.items())
        ]

    def table_schema(self, caller: Caller, table: TableEntry, at: str | None = None) -> pa.Schema:
        scope = self._scope(caller, None)
        if table.type == VIEW:
            return self._engine.columns_of_view(TableName(table.db_schema, table.name), scope.access)
        return self._engine.schema_of(TableName(table.db_schema, table.name), scope.access, scope.temporary, at)

    def primary_key(self, caller: Caller, table: TableEntry) -> PrimaryKey | None:
        scope = self._scope(caller, None)
        key = self._engine.primary_key(TableName(table.db_schema, table.name), scope.access, scope.temporary)
        return None if key is None else PrimaryKey(*key)

    def partitioned_tables(self, caller: Caller) -> Collection[tuple[str, str]]:
        names = self._engine.partitioned_tables(self._access(caller, self._session(caller)))
        return {(name.db_schema, name.name) for name in names}

    def declare(self, caller: Caller, db_schema: str, name: str) -> str:
        return self._engine.declare(TableName(db_schema, name), self._access(caller, self._session(caller)))

    def places(self, caller: Caller, table: TableEntry) -> Sequence[TablePlace]:
        scope = self._scope(caller, None)
        return self._engine.places(TableName(table.db_schema, table.name), scope.access)


def _sql(statement: SqlOrPlan) -> str:
    return statement if isinstance(statement, str) else substrait.statement_of(statement.plan)


def _milliseconds(seconds: float) -> int:
    """Convert seconds to milliseconds, limited to the 32 bits of SqlInfo."""
    return min(round(seconds * 1000), (1 << 31) - 1)


def _is_own(session: Session, caller: Caller) -> bool:
    """Return whether the open transactions of a session are certainly its caller's.

    A session of a mere connection may be an older one, of a client that disconnected and left its transaction.
    """
    return session.is_introduced or not caller.is_connection


def _said_of(plan: QueryPlan) -> dict[str, object]:
    """Return metadata of a planned query for its client, as far as it is known."""
    metadata: dict[str, object] = {"snapshots": dict(plan.snapshots)}
    if plan.partitions is not None:
        scanned, total = plan.partitions
        metadata["partitions"] = {"scanned": scanned, "total": total}
    return metadata if plan.rows is None else metadata | {"rows": plan.rows}
