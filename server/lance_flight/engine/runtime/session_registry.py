"""Sessions of clients, each with its settings, temporary tables and open transactions; and their registry, with lookup and expiry."""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from itertools import takewhile

from lance_flight.backend_values import SessionState
from lance_flight.catalog.bulk.shared_writes import SharedIngests
from lance_flight.catalog.roots.directory import PUBLIC, Root, TemporaryTables
from lance_flight.connections import ANONYMOUS, release
from lance_flight.engine.runtime.admission import NO_LIMITS, Limits
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.errors import (
    Conflict,
    InvalidInput,
    InvalidTransactionState,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Refused,
)
from lance_flight.lru_cache import LruCache


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


ID_BYTES, REGISTRY_BYTES = 12, 4
ELSEWHERE = bytes(REGISTRY_BYTES + ID_BYTES)
"""Id of the transaction that BEGIN has begun at another server: its statements are refused here until COMMIT or ROLLBACK."""
SESSIONS_PER_HOLDER = 4
"""Divisor: a quarter of all sessions is for one holder, unless a setting says otherwise."""
LEFT_SECONDS = 60.0
"""Time without a use after which a session with an open transaction makes room for a new one of its holder."""
_COOKIE = "session "
"""Prefix of cookies among the keys of sessions; other keys begin differently."""


class SessionRegistry:
    """The sessions and open transactions of one server. Safe to share among threads.

    A session that was not used for a while ends with its transactions: its client has disconnected. A new session beyond the share of its
    holder takes the place of the oldest one of that holder, and one beyond the bound on all that of the oldest one of the holder that has
    most. Open transactions of a holder are bounded likewise. The `limits` may be replaced.
    """

    def __init__(self, root: Root, limits: Limits = NO_LIMITS, *, now: Callable[[], float] = time.monotonic) -> None:
        self.root = root
        self.limits = limits
        self._now = now
        self._sessions = KeptSessions()
        self._offered = KeptSessions()
        self._interrupted = LruCache[str, bytes](limits.sessions)
        self._open: OrderedDict[bytes, OpenTransaction] = OrderedDict()
        """The transactions that are open, those first that were not used for longest."""
        self._open_of: Counter[str] = Counter()
        self._displaced: list[Session] = []
        """Sessions whose places others have taken, and that are still to end."""
        self._id = secrets.token_bytes(REGISTRY_BYTES)
        self._lock = threading.Lock()

    def session(self, key: str, principal: str = ANONYMOUS, *, holder: str | None = None) -> Session:
        """Return the session of a client by its key; create one, which counts for a holder, if the principal has none there."""
        self._forget_idle()
        with self._changing():
            kept = self._sessions.get(key)
            is_there = kept is not None and kept.session.principal == principal
            if kept is not None and is_there:
                return self._keep(key, kept.session)
            return self._keep(
                key,
                Session(principal=principal, holder=holder or principal, sql_transaction=self._interrupted.pop(key)),
            )

    def renew(self, key: str, principal: str = ANONYMOUS, *, holder: str | None = None) -> None:
        """Reset a session: its settings are the default ones, and no open transaction belongs to it."""
        with self._changing():
            self._keep(key, Session(is_introduced=True, principal=principal, holder=holder or principal))

    def offer(
        self, key: str, cookie: str, *, is_own: bool, principal: str = ANONYMOUS, holder: str | None = None
    ) -> None:
        """Register a cookie for a client's session, for its next call; `is_own`: the session certainly belongs to that client alone."""
        session = self.session(key, principal, holder=holder)
        with self._lock:
            session.is_introduced = session.is_introduced or is_own
            self._offered.put(cookie, session)
            while self._offered.count_of(session.holder) > self._share:
                self._offered.pop(self._offered.of_holder(session.holder)[0])
            while len(self._offered) > self.limits.sessions:
                self._offered.pop(self._offered.of_holder(self._offered.largest_holder)[0])

    def knows(self, cookie: str) -> bool:
        """Return whether a session is registered under the key of a cookie."""
        self._forget_idle()
        with self._lock:
            return _COOKIE + cookie in self._sessions or cookie in self._offered

    def find(self, key: str, cookie: str | None = None) -> Session | None:
        """Return the session of a cookie, or without one of another key, as it is; None if there is none."""
        with self._lock:
            kept = self._sessions.get(key if cookie is None else _COOKIE + cookie)
            if kept is None and cookie is not None:
                kept = self._offered.get(cookie)
            return None if kept is None else kept.session

    def session_of(
        self, cookie: str, principal: str = ANONYMOUS, *, may_begin: bool = False, holder: str | None = None
    ) -> Session:
        """Return the session of a cookie; `Conflict` if it has ended, `Refused` if it belongs to another principal.

        With `may_begin` one that is not here is begun: it was another server's.
        """
        self._forget_idle()
        with self._changing():
            kept = self._sessions.get(_COOKIE + cookie)
            session = self._offered.get(cookie) if kept is None else kept
            if session is None:
                if may_begin:
                    begun = Session(principal=principal, holder=holder or principal, is_introduced=True)
                    return self._keep(_COOKIE + cookie, begun)
                raise Conflict("the session of this cookie has just ended")
            if session.session.principal != principal:
                raise Refused("the session of this cookie belongs to another principal")
            if kept is not None:
                return self._keep(_COOKIE + cookie, kept.session)
            offered = self._offered.pop(cookie)
            if not offered.is_introduced:
                # An earlier client at the same address may have begun its transactions.
                offered = replace(
                    offered,
                    id=new_session_id(),
                    open={},
                    temporary=TemporaryTables(),
                    shared=SharedIngests(),
                    is_introduced=True,
                    origin=offered,
                )
            return self._keep(_COOKIE + cookie, offered)

    def close(self, session: Session, *, is_own: bool) -> None:
        """End a session, so that nothing finds it any longer.

        If they are its own, its transactions are rolled back, and its temporary tables and shared ingests removed.
        """
        ended = (session, session.origin)
        with self._lock:
            for each in ended:
                if each is not None:
                    self._sessions.remove(each)
                    self._offered.remove(each)
            ending = list(session.open) if is_own else []
        for transaction_id in ending:
            with suppress(NotFound):  # it was ended at the same moment
                self.end(transaction_id, commit=False)
        if is_own:
            session.temporary.close()
            session.shared.close()

    def begin(self, session: Session) -> bytes:
        """Begin a transaction of the driver and return its id; raise `InvalidTransactionState` inside one that SQL has begun."""
        transaction = self._new(session, serializable=session.is_serializable)
        with self._lock:
            if session.sql_transaction is not None:
                raise InvalidTransactionState(
                    "a transaction that BEGIN has begun is open in this session; expected COMMIT or ROLLBACK first"
                )
            self._add(transaction)
        return transaction.id

    def begin_sql(self, session: Session, *, serializable: bool, is_read_only: bool) -> None:
        """Begin the transaction of all statements of a session; raise `InvalidTransactionState` if another one is open."""
        transaction = self._new(session, serializable=serializable, is_read_only=is_read_only)
        with self._lock:
            if session.sql_transaction is not None:
                raise InvalidTransactionState("BEGIN inside a transaction; expected COMMIT or ROLLBACK first")
            if session.open:
                raise InvalidTransactionState(
                    "BEGIN in a session in which its driver has begun a transaction (BeginTransaction);"
                    " expected commit() or rollback() of the connection first"
                )
            self._add(transaction)
            session.sql_transaction, session.commit_failed = transaction.id, False

    def end_sql(self, session: Session, *, commit: bool) -> None:
        """End the transaction of a session's statements: a failed commit is rolled back; `InvalidTransactionState` without one."""
        ended = session.sql_transaction
        if ended is None:
            if commit or not session.commit_failed:
                raise InvalidTransactionState(
                    f"{'COMMIT' if commit else 'ROLLBACK'} without a transaction: each statement was committed by itself;"
                    " expected BEGIN before the first one (setAutoCommit(false) of the JDBC driver sends nothing)"
                )
            session.commit_failed = False
            return
        has_failed = commit
        try:
            self.end(ended, commit=commit)
            has_failed = False
        except (NotFound, Conflict):  # it was idle for too long, and rolled back then, or is another server's
            if commit:
                raise
        finally:
            with suppress(NotFound, Conflict):  # one whose commit has failed is kept for a rollback
                self.end(ended, commit=False)
            session.sql_transaction, session.commit_failed = None, has_failed

    def abandon_sql(self, session: Session) -> None:
        """Roll back the transaction of a session's statements, whose client has gone on at another server without it."""
        abandoned, session.sql_transaction = session.sql_transaction, None
        if abandoned is not None:
            with suppress(NotFound, Conflict):  # it has ended, or is another server's
                self.end(abandoned, commit=False)

    def _new(self, session: Session, *, serializable: bool, is_read_only: bool = False) -> OpenTransaction:
        """Make a transaction of a session, which `_open` does not list yet."""
        self._end_idle()
        root = self.root.on_branch(session.branch)
        sql = SqlTransaction(root, explicit=True, serializable=serializable, is_read_only=is_read_only)
        return OpenTransaction(self._id + secrets.token_bytes(ID_BYTES), session, sql, self._now())

    def _add(self, transaction: OpenTransaction) -> None:
        """List a transaction as open; `LimitExceeded` where its holder has as many as it may."""
        holder = transaction.session.holder
        own, most = self._open_of[holder], self._share
        if own >= most:
            raise LimitExceeded(
                f"{holder!r} has {own} open transactions, of {most} (sessions_per_principal); expected COMMIT or ROLLBACK of one"
            )
        self._open_of[holder] += 1
        self._open[transaction.id] = transaction.session.open[transaction.id] = transaction

    def _remove(self, transaction: OpenTransaction) -> None:
        """List a transaction as open no longer."""
        if self._open.pop(transaction.id, None) is not None:
            release(self._open_of, transaction.session.holder)

    def transaction(self, transaction_id: bytes) -> OpenTransaction:
        """Return the open transaction with this id; raise `NotFound` without one, `Conflict` if another server has begun it."""
        with self._lock:
            open_transaction = self._open.get(transaction_id)
            is_of_another = len(transaction_id) == REGISTRY_BYTES + ID_BYTES and not transaction_id.startswith(self._id)
            if open_transaction is None and is_of_another:
                raise Conflict(
                    "the transaction was begun on another server, or before this one was started again, and ends there without"
                    " any effect; expected a new one"
                )
            if open_transaction is None:
                raise NotFound(
                    "the transaction is not open: it was ended, was idle for too long, or has made room for others; expected a new one,"
                    " after ROLLBACK of one that BEGIN began"
                )
            open_transaction.used = self._now()
            self._open.move_to_end(transaction_id)
            return open_transaction

    def own(self, principal: str, transaction_id: bytes) -> OpenTransaction:
        """Return the open transaction with this id; raise `Refused` if it belongs to another principal."""
        transaction = self.transaction(transaction_id)
        if transaction.session.principal != principal:
            raise Refused("the transaction belongs to another principal")
        return transaction

    def current(self, session: Session, transaction_id: bytes) -> bytes:
        """Return the same transaction while it is known, then the open one of the session."""
        with self._lock:
            known = transaction_id in self._open
        following = None if known else self.find_transaction(session)
        return transaction_id if following is None else following.id

    def find_transaction(self, session: Session) -> OpenTransaction | None:
        """Return the open transaction of a session, for calls without a transaction id; raise `InvalidInput` if there are several."""
        match list(session.open):
            case []:
                return None
            case [only]:
                return self.transaction(only)
            case several:
                raise InvalidInput(
                    f"{len(several)} transactions are open in this session and the rows do not say which they belong to"
                )

    def end(self, transaction_id: bytes, *, commit: bool) -> None:
        """Commit a transaction or roll it back; after a failed commit a rollback is still accepted."""
        transaction = self.transaction(transaction_id)
        try:
            transaction.end(commit=commit)
        finally:
            with self._lock:
                # Some drivers forget a transaction whose commit failed: it blocks no other one.
                transaction.session.open.pop(transaction_id, None)
                if transaction.failure is None or not commit:
                    self._remove(transaction)

    def count(self) -> tuple[int, int]:
        """Return the numbers of sessions and of open transactions."""
        with self._lock:
            return len(self._sessions.sessions), len(self._open)

    def places_in_transactions(self) -> set[str]:
        """Return the places of the tables that open transactions have read or changed, and may change still."""
        with self._lock:
            return {place for transaction in self._open.values() for place in transaction.sql.places}

    def list_sessions(self) -> list[KnownSession]:
        """Return the state of every session, the most recently used one last."""
        self._forget_idle()
        with self._lock:
            # One that is found by several keys was used when any of them was.
            kept = {session.session.id: session for session in self._sessions.entries}
        now = self._now()
        return [
            KnownSession(
                id=session.id,
                principal=session.principal,
                began=session.began,
                idle_seconds=now - entry.used,
                schema=session.db_schema,
                branch=session.branch,
                isolation=session.isolation.value,
                open_transactions=len(session.open),
            )
            for entry in kept.values()
            for session in [entry.session]
        ]

    def roll_back_open(self) -> int:
        """Roll back every open transaction without a running statement, and return their number.

        It is the end of all sessions: their temporary tables and shared ingests are removed.
        """
        with self._lock:
            open_ = list(self._open.values())
            sessions = {*self._sessions.sessions, *self._offered.sessions}
        count = sum(transaction.roll_back_idle("the server was stopped") for transaction in open_)
        for session in sessions:
            session.temporary.close()
            session.shared.close()
        return count

    @property
    def _share(self) -> int:
        """Return how many sessions one holder may have."""
        return self.limits.sessions_per_principal or max(1, self.limits.sessions // SESSIONS_PER_HOLDER)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change the sessions that are kept; those that have lost their places end after that, which may take its time."""
        with self._lock:
            try:
                yield
            finally:
                ended, self._displaced = self._displaced, []
        for session in ended:
            session.temporary.forget()
            for transaction in list(session.open.values()):
                if transaction.roll_back_idle("its session has made room for others"):
                    with suppress(NotFound):  # it was ended at the same moment
                        self.end(transaction.id, commit=False)

    def _keep(self, key: str, session: Session) -> Session:
        """Let a key find a session, which is in use; `LimitExceeded` where there are too many that cannot be forgotten."""
        if key not in self._sessions:
            self._make_room(session.holder)
        self._sessions.put(key, session, self._now())
        return session

    def _make_room(self, holder: str) -> None:
        """Forget the oldest session of a holder, or of the one that has most, if there is no room for another one."""
        own, most = self._sessions.count_of(holder), self._share
        for _ in range(own - most + 1):
            self._displace(holder, f"{own} sessions with open transactions, of {most} (sessions_per_principal)")
        for _ in range(len(self._sessions) - self.limits.sessions + 1):
            largest = self._sessions.largest_holder
            if self._sessions.count_of(largest) > self._sessions.count_of(holder):
                self._displace(largest)
            else:
                why = f"{own} sessions with open transactions, and the server all of {self.limits.sessions} (sessions)"
                self._displace(holder, why)

    def _displace(self, holder: str, refusal: str | None = None) -> None:
        """Forget the oldest session of a holder: without open transactions, else one that is left, else any unless a `refusal` says why not."""
        keys, left = self._sessions.of_holder(holder), self._now() - LEFT_SECONDS

        def is_running(key: str) -> bool:
            return any(transaction.is_running for transaction in self._sessions[key].session.open.values())

        chosen = next((key for key in keys if not self._sessions[key].session.open), None)
        if chosen is None:
            idle = (key for key in keys if not is_running(key))
            chosen = next(idle, None)
            if refusal is not None and (chosen is None or self._sessions[chosen].used >= left):
                raise LimitExceeded(f"{holder!r} has {refusal}; expected one of them to end first")
        session = self._forget(keys[0] if chosen is None else chosen)
        if not self._sessions.keys_of(session):
            self._displaced.append(session)

    def _forget(self, key: str) -> Session:
        """Forget the session of a key, and remember the transaction in it that BEGIN began: later statements under the key were meant for it."""
        session = self._sessions.pop(key)
        if session.sql_transaction is not None and not key.startswith(_COOKIE):  # the cookie is refused anyway
            self._interrupted.put(key, session.sql_transaction, owner=session.holder)
        return session

    def _without_keys(self, forgotten: Sequence[Session]) -> list[Session]:
        """Return the sessions among some that no key refers to any longer."""
        return [session for session in forgotten if not self._sessions.keys_of(session)]

    def _forget_idle(self) -> None:
        """Forget idle sessions with their transactions."""
        limit = self._now() - self.limits.session_idle_timeout
        with self._lock:
            old = list(takewhile(lambda key: self._sessions[key].used < limit, self._sessions))
            # A transaction is used a moment after its session was looked up.
            idle = [
                key
                for key in old
                if all(transaction.used < limit for transaction in self._sessions[key].session.open.values())
            ]
            forgotten = [self._forget(key) for key in idle]
            ended = self._without_keys(forgotten)
        for session in ended:
            session.temporary.forget()
        if idle:
            self._end_idle()

    def _end_idle(self) -> None:
        with self._lock:
            limit = self._now() - self.limits.session_idle_timeout
            idle = list(takewhile(lambda item: item.used < limit, self._open.values()))
        for transaction in idle:
            with suppress(NotFound):  # it was ended at the same moment
                self.end(transaction.id, commit=False)
