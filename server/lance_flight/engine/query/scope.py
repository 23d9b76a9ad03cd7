"""Context that a client's call gives its statement."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lance_flight.catalog.roots.directory import PUBLIC
from lance_flight.catalog.roots.temporary import NO_TABLES, Temporary, TemporaryTables
from lance_flight.engine.query.policies.access import UNLIMITED, Access
from lance_flight.engine.runtime.client_sessions import Isolation, Session
from lance_flight.engine.runtime.query_options import QueryOptions
from lance_flight.engine.runtime.running_statement import Issuer
from lance_flight.shares import ANONYMOUS


@dataclass(frozen=True, slots=True)
class Scope:
    """Context of a statement: the session of its client, its transaction, its issuer and the issuer's rights.

    `is_identified` says that a token or a cookie tells the session, so that no other client's statements come to it.
    `temporary` are the temporary tables that existed when the statement arrived; new ones are made in `own_tables`.
    """

    session: Session | None = None
    transaction: bytes | None = None
    issuer: Issuer = field(default_factory=Issuer)
    access: Access = UNLIMITED
    temporary: Temporary = NO_TABLES
    own_tables: TemporaryTables | None = None
    is_identified: bool = False

    def with_own_tables(self) -> Scope:
        """Return the scope with the session's temporary tables, for a session that certainly belongs to its client alone."""
        if self.session is None:
            return self
        known = self.session.temporary.known()
        return replace(self, access=self.access.owning(known.names), temporary=known, own_tables=self.session.temporary)

    @property
    def branch(self) -> str | None:
        """Return the branch of the session."""
        return None if self.session is None else self.session.branch

    @property
    def principal(self) -> str:
        """Return the principal that the statement runs for."""
        return ANONYMOUS if self.session is None else self.session.principal

    @property
    def db_schema(self) -> str:
        """Return the schema of table names without one."""
        return PUBLIC if self.session is None else self.session.db_schema

    @property
    def isolation(self) -> Isolation:
        """Return the isolation level of the next transaction of the session."""
        return Isolation.SNAPSHOT if self.session is None else self.session.isolation

    @property
    def execution(self) -> QueryOptions:
        """Return the options for running its queries."""
        return QueryOptions() if self.session is None else self.session.execution


ALONE = Scope()
"""Scope without a client session; its statements run in transactions of their own."""
