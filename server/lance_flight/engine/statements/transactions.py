"""BEGIN, START TRANSACTION, COMMIT and ROLLBACK: the transaction of a session, for clients without one of their driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lance_flight.engine.runtime.client_sessions import Isolation, Session
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.statements.kinds import Server, SessionStatement
from lance_flight.errors import InvalidTransactionState, SqlError

_LEVELS: Mapping[tuple[str, ...], Isolation] = MappingProxyType(
    {
        ("SERIALIZABLE",): Isolation.SERIALIZABLE,
        ("SNAPSHOT",): Isolation.SNAPSHOT,
        ("REPEATABLE", "READ"): Isolation.SNAPSHOT,
        ("READ", "COMMITTED"): Isolation.SNAPSHOT,
        ("READ", "UNCOMMITTED"): Isolation.SNAPSHOT,
    }
)
"""Isolation that a transaction gets for each level of the SQL standard: the level itself, or a stricter one."""


@dataclass(frozen=True, slots=True)
class Begin(SessionStatement):
    """BEGIN [WORK | TRANSACTION] or START TRANSACTION, with [ISOLATION LEVEL …] and [READ ONLY | READ WRITE]; begins the session's transaction.

    Without an isolation level it has that of the session.
    """

    forms = ("BEGIN", "START TRANSACTION")

    isolation: Isolation | None = None
    is_read_only: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> Begin:
        if cursor.last == "BEGIN":
            _skip_noise(cursor)
        isolation, is_read_only = None, False
        while not cursor.done:
            if cursor.accept("ISOLATION", "LEVEL"):
                isolation = _level(cursor)
            elif cursor.accept("READ", "ONLY"):
                is_read_only = True
            elif cursor.accept("READ", "WRITE"):
                is_read_only = False
            else:
                raise cursor.error("ISOLATION LEVEL, READ ONLY, READ WRITE or the end of the statement")
            cursor.accept(",")
        return cls(isolation, is_read_only)

    def run(self, server: Server) -> int:
        """Begin the session's transaction; raise `InvalidTransactionState` if one is open, or the session is not the client's own."""
        session = _session(server, "BEGIN")
        isolation = self.isolation or session.isolation
        server.clients.begin_sql(
            session, serializable=isolation is Isolation.SERIALIZABLE, is_read_only=self.is_read_only
        )
        return 0


@dataclass(frozen=True, slots=True)
class EndTransaction(SessionStatement):
    """COMMIT or END [WORK | TRANSACTION], or ROLLBACK or ABORT [WORK | TRANSACTION]: ends the session's transaction."""

    forms = ("COMMIT", "ROLLBACK", "END", "ABORT")

    commit: bool

    @classmethod
    def read(cls, cursor: Cursor) -> EndTransaction:
        commit = cursor.last in ("COMMIT", "END")
        _skip_noise(cursor)
        if cursor.peek("TO"):
            raise SqlError(
                "ROLLBACK TO needs a savepoint, and there are none; expected ROLLBACK of the whole transaction"
            )
        return cls(commit)

    def run(self, server: Server) -> int:
        """Commit the session's transaction or roll it back; in either case it is over."""
        session = _session(server, "COMMIT" if self.commit else "ROLLBACK")
        with server.cancellation.committing():
            server.clients.end_sql(session, commit=self.commit)
        return 0


def _skip_noise(cursor: Cursor) -> None:
    """Read the optional WORK or TRANSACTION."""
    if not cursor.accept("WORK"):
        cursor.accept("TRANSACTION")


def _level(cursor: Cursor) -> Isolation:
    for words, isolation in _LEVELS.items():
        if cursor.accept(*words):
            return isolation
    raise cursor.error(", ".join(map(" ".join, _LEVELS)))


def _session(server: Server, statement: str) -> Session:
    """Return the session of a client; raise `InvalidTransactionState` if only its connection or its driver tells transactions apart."""
    scope = server.scope
    if scope.session is not None and scope.transaction not in (None, scope.session.sql_transaction):
        raise InvalidTransactionState(
            f"{statement} inside a transaction that the driver has begun (BeginTransaction);"
            " expected commit() or rollback() of the connection, or autocommit=True for transactions in SQL"
        )
    if scope.session is None or not scope.is_identified:
        raise InvalidTransactionState(
            f"{statement} needs a session, which is known by a cookie (arrow_flight_session_id) or by the token of a"
            " Handshake, and this call came with neither; expected a client that keeps cookies (ADBC:"
            " adbc.flight.sql.rpc.with_cookie_middleware='true'), or transactions of the driver (ADBC: autocommit=False)"
        )
    return scope.session
