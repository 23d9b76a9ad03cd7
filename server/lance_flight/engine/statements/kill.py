"""KILL."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.backend_values import CancelStatus
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.statements.kinds import Server, SessionStatement
from lance_flight.errors import Conflict, NotFound, Refused


@dataclass(frozen=True, slots=True)
class Kill(SessionStatement):
    """KILL 'id': cancels a statement."""

    forms = ("KILL",)

    statement: str

    @classmethod
    def read(cls, cursor: Cursor) -> Kill:
        statement = cursor.string("the id of a statement, as in system.queries")
        return cls(statement)

    def run(self, server: Server) -> int:
        if server.scope.access.reads_only:
            raise Refused(
                "the session reads only (SET access = 'read'), and KILL ends the work of others; expected another session"
            )
        principal = None if server.scope.access.is_admin else server.scope.issuer.principal
        try:
            outcome = server.running.kill(self.statement, principal)
        except NotFound:
            elsewhere = server.peers.kill(self.statement, principal)
            if elsewhere is None:
                raise
            outcome = elsewhere
        if outcome is CancelStatus.NOT_CANCELLABLE:
            raise Conflict(f"statement {self.statement!r} is committing and cannot be ended any more")
        return 1
