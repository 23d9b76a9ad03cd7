"""Context of a statement, and what a client's call gives to it, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from datafusion import RuntimeEnvBuilder

from lance_flight.audit import Subject
from lance_flight.catalog.manifests.snapshot import FixedPin
from lance_flight.catalog.roots.directory import NO_TABLES, PUBLIC, Root, TableName, Temporary, TemporaryTables
from lance_flight.catalog.storage.leases import SnapshotLease
from lance_flight.connections import ANONYMOUS
from lance_flight.engine.query.access import UNLIMITED, Access, Privilege
from lance_flight.engine.query.tables.system_tables import SystemTables
from lance_flight.engine.query.tables.table_view import Split
from lance_flight.engine.runtime.memory import Pool
from lance_flight.engine.runtime.running_statement import Issuer, RunningStatement
from lance_flight.engine.runtime.session_registry import Isolation, QueryOptions, Session
from lance_flight.engine.runtime.transactions import SqlTransaction


@dataclass(frozen=True, slots=True)
class TableVersion:
    """At which version a statement reads a table, and what that means for the rows without a fixed pin that it reads.

    `committed_at` distinguishes the version from that of another table which has taken the name. `step` counts the statements of
    the transaction that had changed the table by then.
    """

    version: int
    resolved: Mapping[str, FixedPin] = field(default_factory=dict)
    committed_at: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementContext:
    """Context of one statement: its view of the root, its principal, its options and its limits.

    `root` is the root as the statement sees it, and inside a `transaction` its tables are read as that sees them. Names without a
    schema are tables of `db_schema`. `readings` fixes the versions of tables (from a ticket); others are read at their newest
    snapshot, unless `execution` says another. `views` are the digests that views must have (from a ticket). `isolation` is that of the
    session's next transaction. `share` restricts every scan to one part, `target_partitions` is the number of its lanes.

    The rows of `target` have addresses under the name `t$rows`; on them the `changing` privileges are needed beside SELECT, which
    `access` grants on the rows of all tables. Leases that keep the snapshots from being vacuumed are put into `holds`. `runtime` bounds what
    DataFusion holds for the statement, by its `pool`, `spill_directory` is where it may keep rows, and `planning_timeout` says how many seconds it plans. `running` is the statement's entry
    in the registry; None if it cannot be cancelled. `subject` says to the audit trail who runs it.
    """

    root: Root
    target_partitions: int
    transaction: SqlTransaction | None = None
    db_schema: str = PUBLIC
    readings: Mapping[str, TableVersion] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    execution: QueryOptions = field(default_factory=QueryOptions)
    isolation: Isolation = Isolation.SNAPSHOT
    share: Split = field(default_factory=Split)
    target: TableName | None = None
    changing: frozenset[Privilege] = frozenset()
    access: Access = UNLIMITED
    holds: list[SnapshotLease] | None = None
    runtime: RuntimeEnvBuilder | None = None
    spill_directory: str | None = None
    pool: Pool = field(default_factory=Pool)
    planning_timeout: float = 0.0
    running: RunningStatement | None = None
    system: SystemTables | None = None
    subject: Subject = field(default_factory=Subject)

    @property
    def tables(self) -> Root | SqlTransaction:
        """Return the tables that the statement sees."""
        return self.root if self.transaction is None else self.transaction.seen_with(self.root)


@dataclass(frozen=True, slots=True)
class Scope:
    """Context of a statement: the session of its client, its transaction, its issuer and the issuer's rights.

    `is_identified` says that a token or a cookie tells the session, so that no other client's statements come to it.
    `temporary` are the temporary tables that existed when the statement arrived; new ones are made in `own_tables`. `named_schema` is
    the schema of names without one where the call itself says it, instead of the session.
    """

    session: Session | None = None
    transaction: bytes | None = None
    issuer: Issuer = field(default_factory=Issuer)
    access: Access = UNLIMITED
    temporary: Temporary = NO_TABLES
    own_tables: TemporaryTables | None = None
    is_identified: bool = False
    named_schema: str | None = None

    def with_own_tables(self) -> Scope:
        """Return the scope with the session's temporary tables, for a session that certainly belongs to its client alone."""
        if self.session is None:
            return self
        known = self.session.temporary.list_tables()
        return replace(
            self,
            access=self.access.with_temporary_tables(known.names),
            temporary=known,
            own_tables=self.session.temporary,
        )

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
        if self.named_schema is not None:
            return self.named_schema
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
