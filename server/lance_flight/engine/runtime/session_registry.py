"""Registry of client sessions and open transactions: lookup by key, and expiry."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.roots.temporary import TemporaryTables
from lance_flight.engine.runtime.client_sessions import (
    ANONYMOUS,
    KnownSession,
    OpenTransaction,
    Session,
    new_session_id,
)
from lance_flight.engine.runtime.limits import NO_LIMITS, Limits
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.errors import Conflict, InvalidInput, LimitExceeded, NotFound, Refused

ID_BYTES = 16
_COOKIE = "session "
"""Prefix of cookies among the keys of sessions; other keys begin differently."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """Session with the time when it was last looked up by one of its keys."""

    session: Session
    used: float


class SessionRegistry:
    """The sessions and open transactions of one server. Safe to share among threads.

    A session that was not used for a while ends with its transactions: its client has disconnected. Of too many sessions those
    without open transactions end that have not been used for longest.
    """

    def __init__(self, root: Root, limits: Limits = NO_LIMITS, *, now: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._limits = limits
        self._idle_seconds = limits.session_idle_timeout
        self._now = now
        self._sessions: OrderedDict[str, _Kept] = OrderedDict()
        self._offered: OrderedDict[str, Session] = OrderedDict()
        self._open: dict[bytes, OpenTransaction] = {}
        self._lock = threading.Lock()

    def session(self, key: str, principal: str = ANONYMOUS) -> Session:
        """Return the session of a client by its key; create one if the principal has none there."""
        self._forget_idle()
        with self._lock:
            kept = self._sessions.get(key)
            is_there = kept is not None and kept.session.principal == principal
            return self._keep(key, kept.session if kept and is_there else Session(principal=principal))

    def renew(self, key: str, principal: str = ANONYMOUS) -> None:
        """Reset a session: its settings are the default ones, and no open transaction belongs to it."""
        with self._lock:
            self._keep(key, Session(is_introduced=True, principal=principal))

    def offer(self, key: str, cookie: str, *, is_own: bool, principal: str = ANONYMOUS) -> None:
        """Register a cookie for a client's session, for its next call; `is_own`: the session certainly belongs to that client alone."""
        session = self.session(key, principal)
        with self._lock:
            session.is_introduced = session.is_introduced or is_own
            self._offered[cookie] = session
            while len(self._offered) > self._limits.sessions:
                self._offered.popitem(last=False)

    def knows(self, cookie: str) -> bool:
        """Return whether a session is registered under a cookie."""
        self._forget_idle()
        with self._lock:
            return _COOKIE + cookie in self._sessions or cookie in self._offered

    def session_of(self, cookie: str, principal: str = ANONYMOUS) -> Session:
        """Return the session of a cookie; `Conflict` if it has ended, `Refused` if it belongs to another principal."""
        self._forget_idle()
        with self._lock:
            kept = self._sessions.get(_COOKIE + cookie)
            found = self._offered.get(cookie) if kept is None else kept.session
            if found is None:
                raise Conflict("the session of this cookie has just ended")
            if found.principal != principal:
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
                    is_introduced=True,
                    origin=offered,
                )
            return self._keep(_COOKIE + cookie, offered)

    def close(self, session: Session, *, is_own: bool) -> None:
        """End a session, so that nothing finds it any longer.

        If they are its own, its transactions are rolled back, and its temporary tables removed.
        """
        ended = (session, session.origin)
        with self._lock:
            for key in [key for key, kept in self._sessions.items() if kept.session in ended]:
                del self._sessions[key]
            for cookie in [cookie for cookie, offered in self._offered.items() if offered in ended]:
                del self._offered[cookie]
            ending = list(session.open) if is_own else []
        for transaction_id in ending:
            with suppress(NotFound):  # it was ended at the same moment
                self.end(transaction_id, commit=False)
        if is_own:
            session.temporary.close()

    def begin(self, session: Session) -> bytes:
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
        """Return the open transaction with this id; raise `NotFound` without one."""
        with self._lock:
            found = self._open.get(transaction_id)
            if found is None:
                raise NotFound(
                    "the transaction is not open: it was ended, was idle for too long, or is another server's"
                )
            found.used = self._now()
            return found

    def own(self, principal: str, transaction_id: bytes) -> OpenTransaction:
        """Return the open transaction with this id; raise `Refused` if it belongs to another principal."""
        found = self.transaction(transaction_id)
        if found.session.principal != principal:
            raise Refused("the transaction belongs to another principal")
        return found

    def current(self, session: Session, transaction_id: bytes) -> bytes:
        """Return the same transaction while it is known, then the open one of the session."""
        with self._lock:
            known = transaction_id in self._open
        following = None if known else self.joined(session)
        return transaction_id if following is None else following.id

    def joined(self, session: Session) -> OpenTransaction | None:
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
                    self._open.pop(transaction_id, None)

    def counted(self) -> tuple[int, int]:
        """Return the numbers of sessions and of open transactions."""
        with self._lock:
            return len({id(kept.session) for kept in self._sessions.values()}), len(self._open)

    def known(self) -> list[KnownSession]:
        """Return the state of every session, the most recently used one last."""
        self._forget_idle()
        with self._lock:
            # One that is found by several keys was used when any of them was.
            kept = {each.session.id: each for each in self._sessions.values()}
        now = self._now()
        return [
            KnownSession(
                id=session.id,
                principal=session.principal,
                began=session.began,
                idle_seconds=now - each.used,
                schema=session.db_schema,
                branch=session.branch,
                isolation=session.isolation.value,
                open_transactions=len(session.open),
            )
            for each in kept.values()
            for session in [each.session]
        ]

    def roll_back_open(self) -> int:
        """Roll back every open transaction without a running statement, and return their number.

        It is the end of all sessions: their temporary tables are removed.
        """
        with self._lock:
            open_ = list(self._open.values())
            sessions = {*(kept.session for kept in self._sessions.values()), *self._offered.values()}
        count = sum(transaction.roll_back_idle() for transaction in open_)
        for session in sessions:
            session.temporary.close()
        return count

    def _keep(self, key: str, session: Session) -> Session:
        """Let a key find a session, which is in use; `LimitExceeded` where there are too many that cannot be forgotten."""
        if key not in self._sessions:
            self._make_room(session.principal)
        self._sessions[key] = _Kept(session, self._now())
        self._sessions.move_to_end(key)
        return session

    def _make_room(self, principal: str) -> None:
        """Forget the oldest sessions, of a principal or overall, if there is no room for another one."""
        if len(self._sessions) >= self._limits.sessions_per_principal:
            own = [key for key, kept in self._sessions.items() if kept.session.principal == principal]
            self._forget_oldest(own, self._limits.sessions_per_principal, f"{principal!r} has")
        if len(self._sessions) >= self._limits.sessions:
            self._forget_oldest(list(self._sessions), self._limits.sessions, "the server has")

    def _forget_oldest(self, keys: Sequence[str], most: int, whose: str) -> None:
        too_many = len(keys) - most + 1
        forgettable = (key for key in keys if not self._sessions[key].session.open)
        forgotten = [self._sessions.pop(key).session for key in list(islice(forgettable, max(too_many, 0)))]
        for session in self._without_keys(forgotten):
            session.temporary.forget()
        too_many -= len(forgotten)
        if too_many > 0:
            raise LimitExceeded(f"{whose} {most} sessions with open transactions; expected one of them to end first")

    def _without_keys(self, forgotten: Sequence[Session]) -> list[Session]:
        """Return the sessions among some that no key refers to any longer."""
        known = {id(kept.session) for kept in self._sessions.values()} if forgotten else set()
        return [session for session in forgotten if id(session) not in known]

    def _forget_idle(self) -> None:
        """Forget idle sessions with their transactions."""
        limit = self._now() - self._idle_seconds
        with self._lock:
            idle = list(takewhile(lambda key: self._sessions[key].used < limit, self._sessions))
            forgotten = [self._sessions.pop(key).session for key in idle]
            ended = self._without_keys(forgotten)
        for session in ended:
            session.temporary.forget()
        if idle:
            self._end_idle()

    def _end_idle(self) -> None:
        with self._lock:
            idle = [t for t in self._open.values() if t.used < self._now() - self._idle_seconds]
        for transaction in idle:
            with suppress(NotFound):  # it was ended at the same moment
                self.end(transaction.id, commit=False)
