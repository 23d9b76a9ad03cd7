"""Statements of a session: its settings by SET and USE, and by the session options of Flight; its transaction; and KILL.

BEGIN, START TRANSACTION, COMMIT and ROLLBACK are for clients whose driver has no transactions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType

from lance_flight.backend_values import CancelStatus, SessionState, SettingValue
from lance_flight.engine.query.information_schema import INFORMATION_SCHEMA
from lance_flight.engine.runtime.session_registry import BEGUN, ELSEWHERE, Isolation, Session
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql import references
from lance_flight.engine.sql.references import CATALOG, SYSTEM, Cursor
from lance_flight.engine.statements.kinds import Server, SessionStatement
from lance_flight.errors import (
    Conflict,
    InvalidInput,
    InvalidTransactionState,
    NotFound,
    Refused,
    SqlError,
    Unsupported,
)
from lance_flight.model.naming import check_label
from lance_flight.quantities import parse_seconds

MAIN, NEWEST = "main", "newest"
MOST_LANES = 256
MOST_TEXT = 255
"""Most characters of a name: settings travel in a cookie, and headers are bounded."""


def adopt(session: Session, transaction: SqlTransaction) -> None:
    """Give a transaction the settings of its session, if it is untouched."""
    if transaction.is_untouched:
        transaction.serializable = session.is_serializable
        transaction.move_to_branch(session.branch)


def assign(session: Session, name: str, value: SettingValue | None) -> None:
    """Give a setting a value, None: the one that it has by default.

    Raises `NotFound` for a name that no setting has, and `InvalidInput` for a value that it cannot have.
    """
    _check_known(name)
    setting = _SETTINGS[name]
    setting.write(session, setting.read(Session()) if value is None else value)


def _check_known(name: str) -> None:
    if name not in _SETTINGS:
        advice = _ELSEWHERE.get(name)
        raise (
            NotFound.named("setting", name, _SETTINGS) if advice is None else NotFound(f"no setting {name!r}: {advice}")
        )


def options(session: Session) -> dict[str, SettingValue]:
    """Return every setting of a session with its value, in the form that `assign` takes."""
    return {name: setting.read(session) for name, setting in _SETTINGS.items()}


def state(session: Session) -> SessionState:
    """Return the state of a session for its client's cookie, with another generation than before if it has changed.

    Generations are times, in milliseconds: where an answer of one server was lost, what its client has set at another one later counts.
    """
    values = {name: value for name, value in options(session).items() if value != _DEFAULTS[name]}
    session_state = session.told
    if (values, session.kept) != (session_state.settings, session_state.kept):
        generation = max(session_state.generation + 1, round(time.time() * 1000))
        session.told = SessionState(generation=generation, settings=values, kept=session.kept)
    return session.told


def resume(session: Session, state: SessionState) -> None:
    """Give a session the newer state that it has reached on another server; `Conflict` if that kept more than settings.

    A transaction that BEGIN has begun there is not in this error: statements are refused until it is ended. A session that reads only
    stays so.
    """
    for name, value in {**_DEFAULTS, **state.settings}.items():
        # One that a newer server has is not known here.
        is_other = name in _SETTINGS and _SETTINGS[name].read(session) != value
        if is_other and not (name == "access" and session.reads_only):
            assign(session, name, value)
    if BEGUN in state.kept:
        session.sql_transaction = ELSEWHERE
    session.told = SessionState(generation=state.generation, settings=state.settings, kept=session.kept)
    missed = [name for name in state.kept if name != BEGUN]
    if missed:
        raise Conflict(
            f"the session goes on at another server, and had {' and '.join(missed)} at the one before, which {'are' if len(missed) > 1 else 'is'}"
            " not to be had here; expected a new beginning of what was done with it: the settings are as they were"
        )


@dataclass(frozen=True, slots=True)
class _Setting:
    """Accessors of a session setting: read its value, and write a new one after validating it."""

    read: Callable[[Session], SettingValue]
    write: Callable[[Session, SettingValue], None]


def _text(name: str, value: SettingValue) -> str:
    if isinstance(value, str) and len(value) > MOST_TEXT:
        raise InvalidInput(f"{name} has {len(value):,} characters; expected at most {MOST_TEXT}")
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{name} is {value!r}; expected a name")
    return value


def _set_catalog(session: Session, value: SettingValue) -> None:
    if value != CATALOG:
        raise InvalidInput(f"catalog is {value!r}; expected {CATALOG!r}, the only one")


def _set_schema(session: Session, value: SettingValue) -> None:
    session.db_schema = _text("schema", value)


def _set_isolation(session: Session, value: SettingValue) -> None:
    known = {isolation.value: isolation for isolation in Isolation}
    if not isinstance(value, str) or value.lower() not in known:
        raise InvalidInput(f"isolation is {value!r}; expected {' or '.join(map(repr, known))}")
    session.isolation = known[value.lower()]


def _set_branch(session: Session, value: SettingValue) -> None:
    if not isinstance(value, str):
        raise InvalidInput(f"branch is {value!r}; expected a name")
    session.branch = None if value == MAIN else check_label("branch", value)


def _switch(name: str) -> _Setting:
    """Return the setting of an execution option that is on or off."""

    def choose(session: Session, value: SettingValue) -> None:
        chosen = _SWITCHED.get(value.lower()) if isinstance(value, str) else value
        if not isinstance(chosen, bool):
            raise InvalidInput(f"{name} is {value!r}; expected 'on' or 'off'")
        session.execution = replace(session.execution, **{name: chosen})  # type: ignore[arg-type]  # one of the switches

    return _Setting(lambda session: bool(getattr(session.execution, name)), choose)


def _as_text(value: SettingValue) -> SettingValue:
    """Convert a whole number to text, the form in which SET gives it; return other values unchanged."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _number(name: str, value: SettingValue, expected: str, most: float = math.inf) -> int:
    text = _as_text(value)
    # isdecimal() takes digits of any script, as int() does.
    if not isinstance(text, str) or not text.isdecimal() or int(text) > most:
        raise InvalidInput(f"{name} is {value!r}; expected {expected}")
    return int(text)


def _set_access(session: Session, value: SettingValue) -> None:
    if value not in ("read", "write"):
        raise InvalidInput(f"access is {value!r}; expected 'read' or 'write'")
    if session.reads_only and value == "write":
        raise InvalidInput("access is 'write'; expected 'read', which a session keeps: begin another one to write")
    session.reads_only = value == "read"


def _set_group_rows(session: Session, value: SettingValue) -> None:
    rows = _number("group_rows", value, "a number of rows")
    session.execution = replace(session.execution, group_rows=rows)


def _set_snapshot(session: Session, value: SettingValue) -> None:
    chosen = _text("snapshot", _as_text(value))
    session.execution = replace(session.execution, snapshot=None if chosen == NEWEST else chosen)


def _set_target_partitions(session: Session, value: SettingValue) -> None:
    expected = f"a number of lanes up to {MOST_LANES}, 0 for those of the server"
    lanes = _number("target_partitions", value, expected, MOST_LANES)
    session.execution = replace(session.execution, target_partitions=lanes)


def _set_statement_timeout(session: Session, value: SettingValue) -> None:
    seconds = math.nan
    if isinstance(value, str):
        with suppress(InvalidInput):
            seconds = parse_seconds(value)
    elif not isinstance(value, bool) and isinstance(value, int | float):
        seconds = float(value)
    if not 0 <= seconds < math.inf:
        raise InvalidInput(
            f"statement_timeout is {value!r}; expected a number of seconds, as 30 or '5min', 0 for that of the server"
        )
    session.execution = replace(session.execution, statement_timeout=seconds)


_ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ["timezone", "time_zone"], "leave it out: times are in UTC; write ts AT TIME ZONE 'Europe/Berlin'"
        ),
        **dict.fromkeys(["application_name", "client_encoding", "client_min_messages", "datestyle"], "leave it out"),
        **dict.fromkeys(["search_path", "current_schema"], "write SET schema = 's', or USE s"),
        **dict.fromkeys(["work_mem", "memory_limit", "threads"], "write SET target_partitions; memory is the server's"),
    }
)
"""What to write in place of settings of other systems."""
_SWITCHED = MappingProxyType({"on": True, "true": True, "off": False, "false": False})
_SETTINGS: Mapping[str, _Setting] = MappingProxyType(
    {
        "catalog": _Setting(lambda _: CATALOG, _set_catalog),
        "schema": _Setting(lambda session: session.db_schema, _set_schema),
        "isolation": _Setting(lambda session: session.isolation.value, _set_isolation),
        "access": _Setting(lambda session: "read" if session.reads_only else "write", _set_access),
        "branch": _Setting(lambda session: session.branch or MAIN, _set_branch),
        "partition_wise_join": _switch("partition_wise_join"),
        "dynamic_pruning": _switch("dynamic_pruning"),
        "exact_search": _switch("exact_search"),
        "group_rows": _Setting(lambda session: session.execution.group_rows, _set_group_rows),
        "snapshot": _Setting(lambda session: session.execution.snapshot or NEWEST, _set_snapshot),
        "target_partitions": _Setting(lambda session: session.execution.target_partitions, _set_target_partitions),
        "statement_timeout": _Setting(lambda session: session.execution.statement_timeout, _set_statement_timeout),
    }
)

_DEFAULTS: Mapping[str, SettingValue] = MappingProxyType(options(Session()))


def check_schema(server: Server, name: SettingValue) -> None:
    """Raise `NotFound` unless there is a schema of this name that the principal may know of."""
    known = [*server.clients.root.guard_with(server.scope.access).schemas(), INFORMATION_SCHEMA, SYSTEM]
    if _text("schema", name) not in known:
        raise NotFound.named("schema", str(name), known)


@dataclass(frozen=True, slots=True)
class SetOption(SessionStatement):
    """SET [SESSION] option = value, SET option TO value, USE schema, RESET option, RESET ALL: settings of the client's session.

    A `value` of None, of RESET and DEFAULT, stands for the one by default, and an `option` of None for all.
    """

    forms = ("SET", "USE", "RESET")

    option: str | None
    value: str | None

    @classmethod
    def read(cls, cursor: Cursor) -> SetOption:
        if cursor.last == "USE":
            return cls("schema", references.schema(cursor))
        if cursor.last == "RESET":
            return cls(None if cursor.accept("ALL") else cursor.name("the name of a setting, or ALL"), None)
        if _is_scope(cursor, "LOCAL"):
            raise Unsupported("SET LOCAL is not offered; write SET name = value, and RESET name after the transaction")
        cursor.at += _is_scope(cursor, "SESSION")
        option = cursor.name("the name of a setting")
        if option in _ELSEWHERE:
            _check_known(option)
        if not cursor.accept("="):
            cursor.expect("TO")
        what = f"the value of {option}"
        if cursor.accept("DEFAULT"):
            return cls(option, None)
        return cls(option, cursor.literal(what) if cursor.at_literal else cursor.name(what))

    def run(self, server: Server) -> int:
        """Change the setting of the open transaction if it is untouched, and of the following ones."""
        with server.transaction() as transaction:
            session = server.scope.session
            if session is None:
                raise Unsupported("SET needs a session, and this statement came without one")
            if self.option == "schema" and self.value is not None:
                check_schema(server, self.value)
            for option in _DEFAULTS if self.option is None else [self.option]:
                # A session that reads only stays so.
                if self.option is not None or not (option == "access" and session.reads_only):
                    assign(session, option, self.value)
            if transaction is not None:
                adopt(session, transaction)
        return 0


def _is_scope(cursor: Cursor, word: str) -> bool:
    """Return whether a word before the name of a setting comes next, and not a setting of that name."""
    return cursor.peek(word) and not cursor.peek(word, "=") and not cursor.peek(word, "TO")


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
