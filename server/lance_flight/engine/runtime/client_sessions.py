"""Session of one client: its settings, temporary tables and open transactions; and sessions in the order of their use."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum

from lance_flight.backend_values import SessionState
from lance_flight.catalog.bulk.shared_writes import SharedIngests
from lance_flight.catalog.roots.directory import PUBLIC, TemporaryTables
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.errors import Conflict, OutcomeUnknown
from lance_flight.shares import ANONYMOUS


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """Options for running queries, which a client may set.

    `partition_wise_join`: run joins in groups of partition tables where possible; small groups are merged, up to `group_rows` rows.
    `dynamic_pruning`: a join's few keys of one side prune the partitions of the other.
    `exact_search`: ORDER BY a distance with a LIMIT compares every vector, in place of those that an index finds.
    `snapshot`: the version, tag or time at which tables are read that are named without one; None: the newest.
    `target_partitions`: the number of lanes; 0: that of the server.
    `statement_timeout`: the seconds of work for a statement, at most those of the server; 0: those of the server.
    """

    partition_wise_join: bool = True
    dynamic_pruning: bool = True
    group_rows: int = 250_000
    exact_search: bool = False
    snapshot: str | None = None
    target_partitions: int = 0
    statement_timeout: float = 0.0


BEGUN = "a transaction that BEGIN began"
"""Name of an open transaction of a session's statements among what its server keeps."""

SHOWN_BYTES = 4


def new_session_id() -> str:
    """Return a random public id for a new session; the session cannot be accessed by it."""
    return secrets.token_hex(SHOWN_BYTES)


class Isolation(Enum):
    """Isolation level of a transaction."""

    SNAPSHOT = "snapshot"
    SERIALIZABLE = "serializable"


@dataclass(slots=True, eq=False)
class Session:
    """The settings of one client, its temporary tables, and its open transactions, which are its principal's alone.

    `is_introduced` says that its client has begun it itself, so that nothing of it is another one's. One that
    began as that of a connection whose client was not known has it as its `origin`. Its `id` may be shown to
    other clients, because it does not give access to the session.

    It counts for its `holder`. One that `reads_only` stays so. `told` is the state that its client's cookie has of it.

    `sql_transaction` is the transaction that BEGIN has begun: it stays until COMMIT or ROLLBACK, even if the transaction has ended
    before, so that no statement that was meant for it is committed by itself. `commit_failed` is true after a COMMIT
    that failed, which some clients send ROLLBACK after.
    """

    id: str = field(default_factory=new_session_id)
    isolation: Isolation = Isolation.SNAPSHOT
    branch: str | None = None
    db_schema: str = PUBLIC
    execution: QueryOptions = field(default_factory=QueryOptions)
    open: dict[bytes, OpenTransaction] = field(default_factory=dict)
    sql_transaction: bytes | None = None
    commit_failed: bool = False
    temporary: TemporaryTables = field(default_factory=TemporaryTables)
    shared: SharedIngests = field(default_factory=SharedIngests)
    is_introduced: bool = False
    reads_only: bool = False
    told: SessionState = field(default_factory=SessionState)
    origin: Session | None = None
    principal: str = ANONYMOUS
    holder: str = ANONYMOUS
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def is_serializable(self) -> bool:
        """True if the session's next transaction is serializable."""
        return self.isolation is Isolation.SERIALIZABLE

    @property
    def kept(self) -> tuple[str, ...]:
        """State that no other server has: open transactions, temporary tables and shared ingests; in words for an error."""
        kept = {
            BEGUN: self.sql_transaction is not None,
            "an open transaction": self.sql_transaction is None and bool(self.open),
            "temporary tables": self.temporary.has_begun,
            "a shared ingest": self.shared.has_begun,
        }
        return tuple(name for name, is_kept in kept.items() if is_kept)


@dataclass(slots=True, eq=False)
class OpenTransaction:
    """Transaction that a client has begun; its statements run one after another.

    Once a commit has failed, or a statement half-way, nothing but a rollback is left.
    """

    id: bytes
    session: Session
    sql: SqlTransaction
    used: float
    failure: Exception | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def statement(self) -> Iterator[SqlTransaction]:
        """Lock the transaction for one statement; a torn one is rolled back and remembered as failed."""
        with self._lock:
            self._check()
            try:
                yield self.sql
            finally:
                if self.sql.torn is not None:
                    self.failure = self.sql.torn
                    self.sql.rollback()

    def end(self, *, commit: bool) -> None:
        """Commit or roll back; a commit that fails is rolled back, unless its outcome is unknown."""
        with self._lock:
            if not commit:
                if self.failure is None:
                    self.sql.rollback()
                return
            self._check()
            try:
                self.sql.commit()
            except Exception as exc:
                self.failure = exc
                if not isinstance(exc, OutcomeUnknown):
                    self.sql.rollback()
                raise

    @property
    def is_running(self) -> bool:
        """True while a statement runs in the transaction."""
        return self._lock.locked()

    def roll_back_idle(self, reason: str) -> bool:
        """Roll back unless a statement is running in the transaction; return whether that was done."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self.failure is not None:
                return False
            self.failure = Conflict(reason)
            self.sql.rollback()
        finally:
            self._lock.release()
        return True

    def _check(self) -> None:
        if self.failure is not None:
            raise Conflict(f"the transaction has failed and can only be rolled back: {self.failure}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSession:
    """Snapshot of a session's state, for system tables."""

    id: str
    principal: str
    began: datetime
    idle_seconds: float
    schema: str
    branch: str | None
    isolation: str
    open_transactions: int


@dataclass(frozen=True, slots=True)
class Kept:
    """Session with the time when it was last looked up by one of its keys."""

    session: Session
    used: float


class KeptSessions:
    """Ordered index of sessions by their keys, of which one may have several; the one that was put last comes last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._keys: dict[Session, set[str]] = {}
        self._of_holder: dict[str, OrderedDict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys, those first that were not used for longest."""
        return iter(self._kept)

    def __getitem__(self, key: str) -> Kept:
        return self._kept[key]

    def get(self, key: str) -> Kept | None:
        """Return the session of a key with its last use; None without one."""
        return self._kept.get(key)

    def put(self, key: str, session: Session, used: float = 0.0) -> None:
        """Let a key find a session, as the last one that was used."""
        before = self._kept.get(key)
        if before is None or before.session is not session:
            if before is not None:
                self.pop(key)
            self._keys.setdefault(session, set()).add(key)
            self._of_holder.setdefault(session.holder, OrderedDict())[key] = None
        self._kept[key] = Kept(session, used)
        self._kept.move_to_end(key)
        self._of_holder[session.holder].move_to_end(key)

    def pop(self, key: str) -> Session:
        """Remove a key and return its session."""
        session = self._kept.pop(key).session
        keys = self._keys[session]
        keys.remove(key)
        if not keys:
            del self._keys[session]
        own = self._of_holder[session.holder]
        del own[key]
        if not own:
            del self._of_holder[session.holder]
        return session

    def remove(self, session: Session) -> None:
        """Remove all keys of a session."""
        for key in self.keys_of(session):
            self.pop(key)

    def keys_of(self, session: Session) -> list[str]:
        """Return the keys of a session; none of one that is not kept."""
        return list(self._keys.get(session, ()))

    def count_of(self, holder: str) -> int:
        """Return the number of keys of a holder's sessions."""
        return len(self._of_holder.get(holder, ()))

    def of_holder(self, holder: str) -> list[str]:
        """Return the keys of a holder's sessions, those first that were not used for longest."""
        return list(self._of_holder.get(holder, ()))

    @property
    def largest_holder(self) -> str:
        """Return the holder with the most keys; there must be one."""
        return max(self._of_holder, key=lambda holder: len(self._of_holder[holder]))

    @property
    def sessions(self) -> list[Session]:
        """Return every session, once."""
        return list(self._keys)

    @property
    def entries(self) -> list[Kept]:
        """Return every session as often as it has keys, the most recently used one last."""
        return list(self._kept.values())
