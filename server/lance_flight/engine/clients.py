"""What the server remembers of its clients: how their transactions are to be isolated, and which ones are open."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum

from lance_flight.catalog.directory import PUBLIC, Root
from lance_flight.engine.execution import Execution
from lance_flight.engine.transactions import SqlTransaction
from lance_flight.errors import Conflict, InvalidInput, NotFound, OutcomeUnknown

ID_BYTES = 16
MOST_SESSIONS = 10_000
IDLE_SECONDS = 3600.0


class Isolation(Enum):
    """What a transaction is kept from."""

    SNAPSHOT = "snapshot"
    SERIALIZABLE = "serializable"


@dataclass(slots=True, eq=False)
class ClientSession:
    """The settings of one client, and its open transactions.

    `is_introduced` says that its client has begun it itself, so that nothing of it is another one's.
    """

    isolation: Isolation = Isolation.SNAPSHOT
    branch: str | None = None
    db_schema: str = PUBLIC
    execution: Execution = field(default_factory=Execution)
    open: dict[bytes, OpenTransaction] = field(default_factory=dict)
    is_introduced: bool = False

    @property
    def is_serializable(self) -> bool:
        """Whether its next transaction is."""
        return self.isolation is Isolation.SERIALIZABLE


@dataclass(slots=True, eq=False)
class OpenTransaction:
    """A transaction that a client has begun; its statements run one after another.

    Once a commit has failed, or a statement half-way, nothing but a rollback is left.
    """

    id: bytes
    session: ClientSession
    sql: SqlTransaction
    used: float
    failure: Exception | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def statement(self) -> Iterator[SqlTransaction]:
        """The transaction, for one statement."""
        with self._lock:
            if self.failure is not None:
                raise Conflict(f"the transaction has failed and can only be rolled back: {self.failure}")
            try:
                yield self.sql
            finally:
                if self.sql.torn is not None:
                    self.failure = self.sql.torn
                    self.sql.rollback()

    def end(self, *, commit: bool) -> None:
        """Commit, or roll back, which a commit that fails does as well."""
        with self._lock:
            if self.failure is not None:
                if commit:
                    raise Conflict(f"the transaction has failed and can only be rolled back: {self.failure}")
                return
            if not commit:
                self.sql.rollback()
                return
            try:
                self.sql.commit()
            except Exception as exc:
                self.failure = exc
                if not isinstance(exc, OutcomeUnknown):
                    self.sql.rollback()
                raise


class Clients:
    """The sessions and open transactions of one server. Safe to share among threads.

    A transaction that nobody has used for `idle_seconds` is rolled back: its client has gone.
    """

    def __init__(
        self, root: Root, *, idle_seconds: float = IDLE_SECONDS, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._root = root
        self._idle_seconds = idle_seconds
        self._now = now
        self._sessions: OrderedDict[str, ClientSession] = OrderedDict()
        self._open: dict[bytes, OpenTransaction] = {}
        self._lock = threading.Lock()

    def session(self, key: str) -> ClientSession:
        """The session of a client, by whatever tells it apart."""
        with self._lock:
            session = self._sessions.setdefault(key, ClientSession())
            self._sessions.move_to_end(key)
            for oldest in list(self._sessions)[: max(len(self._sessions) - MOST_SESSIONS, 0)]:
                if not self._sessions[oldest].open:
                    del self._sessions[oldest]
            return session

    def renew(self, key: str) -> None:
        """Begin a session anew: its settings are the default ones, and no open transaction belongs to it."""
        with self._lock:
            self._sessions[key] = ClientSession(is_introduced=True)

    def begin(self, session: ClientSession) -> bytes:
        """Begin a transaction and return its id."""
        self._end_idle()
        transaction = OpenTransaction(
            secrets.token_bytes(ID_BYTES),
            session,
            SqlTransaction(self._root.on_branch(session.branch), explicit=True, serializable=session.is_serializable),
            self._now(),
        )
        with self._lock:
            self._open[transaction.id] = session.open[transaction.id] = transaction
        return transaction.id

    def transaction(self, transaction_id: bytes) -> OpenTransaction:
        """The open transaction with this id."""
        with self._lock:
            found = self._open.get(transaction_id)
            if found is None:
                raise NotFound(
                    "the transaction is not open: it was ended, was idle for too long, or is another server's"
                )
            found.used = self._now()
            return found

    def current(self, session: ClientSession, transaction_id: bytes) -> bytes:
        """The same transaction while it is known, then the open one of the session."""
        with self._lock:
            known = transaction_id in self._open
        following = None if known else self.joined(session)
        return transaction_id if following is None else following.id

    def joined(self, session: ClientSession) -> OpenTransaction | None:
        """The open transaction of a session, for what comes without an id; refused where there are several."""
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
        """Commit a transaction or roll it back; after a commit that failed a rollback is still taken."""
        transaction = self.transaction(transaction_id)
        try:
            transaction.end(commit=commit)
        finally:
            with self._lock:
                # Some drivers forget a transaction whose commit failed: it is in nobody's way.
                transaction.session.open.pop(transaction_id, None)
                if transaction.failure is None or not commit:
                    self._open.pop(transaction_id, None)

    def _end_idle(self) -> None:
        with self._lock:
            idle = [t for t in self._open.values() if t.used < self._now() - self._idle_seconds]
        for transaction in idle:
            with suppress(NotFound):  # it was ended at the same moment
                self.end(transaction.id, commit=False)
