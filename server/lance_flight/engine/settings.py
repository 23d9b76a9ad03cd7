"""SET: the settings of a client's session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from lance_flight.engine.clients import ClientSession, Isolation
from lance_flight.engine.statements import SetOption
from lance_flight.engine.transactions import SqlTransaction
from lance_flight.errors import InvalidInput, NotFound, Unsupported
from lance_flight.model.naming import check_label

MAIN = "main"


def set_option(statement: SetOption, session: ClientSession | None, transaction: SqlTransaction | None) -> int:
    """Change a setting of a session: of its open transaction while that is untouched, and of the next ones."""
    if session is None:
        raise Unsupported("SET needs a session, and this statement came without one")
    if statement.name not in _SETTINGS:
        raise NotFound.named("setting", statement.name, _SETTINGS)
    _SETTINGS[statement.name](statement.value, session)
    if transaction is not None and transaction.is_untouched:
        transaction.serializable = session.is_serializable
        transaction.move_to_branch(session.branch)
    return 0


def _isolation(value: str, session: ClientSession) -> None:
    known = {isolation.value: isolation for isolation in Isolation}
    if value.lower() not in known:
        raise InvalidInput(f"isolation is {value!r}; expected {' or '.join(map(repr, known))}")
    session.isolation = known[value.lower()]


def _branch(value: str, session: ClientSession) -> None:
    session.branch = None if value == MAIN else check_label("branch", value)


def _switch(name: str) -> Callable[[str, ClientSession], None]:
    """Turn one way of running queries on or off."""

    def choose(value: str, session: ClientSession) -> None:
        if value.lower() not in _SWITCHED:
            raise InvalidInput(f"{name} is {value!r}; expected 'on' or 'off'")
        session.execution = replace(session.execution, **{name: _SWITCHED[value.lower()]})

    return choose


def _group_rows(value: str, session: ClientSession) -> None:
    if not value.isdecimal():
        raise InvalidInput(f"group_rows is {value!r}; expected a number of rows")
    session.execution = replace(session.execution, group_rows=int(value))


_SWITCHED = MappingProxyType({"on": True, "true": True, "off": False, "false": False})
_SETTINGS: Mapping[str, Callable[[str, ClientSession], None]] = MappingProxyType(
    {
        "isolation": _isolation,
        "branch": _branch,
        "partition_wise_join": _switch("partition_wise_join"),
        "dynamic_pruning": _switch("dynamic_pruning"),
        "group_rows": _group_rows,
    }
)
