"""SET: the settings of a client's session."""

from __future__ import annotations

from lance_flight.engine.clients import ClientSession, Isolation
from lance_flight.engine.statements import SetOption
from lance_flight.engine.transactions import SqlTransaction
from lance_flight.errors import InvalidInput, NotFound, Unsupported

SETTINGS = ("isolation",)


def set_option(statement: SetOption, session: ClientSession | None, transaction: SqlTransaction | None) -> int:
    """Change a setting of a session: of its open transaction while that is untouched, and of the next ones."""
    if session is None:
        raise Unsupported("SET needs a session, and this statement came without one")
    if statement.name != "isolation":
        raise NotFound.named("setting", statement.name, SETTINGS)
    known = {isolation.value: isolation for isolation in Isolation}
    if statement.value.lower() not in known:
        raise InvalidInput(f"isolation is {statement.value!r}; expected {' or '.join(map(repr, known))}")
    session.isolation = known[statement.value.lower()]
    if transaction is not None and transaction.is_untouched:
        transaction.serializable = session.is_serializable
    return 0
