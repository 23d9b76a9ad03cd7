"""SET and USE: the settings of a client's session."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.statements.kinds import Server, SessionStatement
from lance_flight.engine.statements.settings import adopt, assign
from lance_flight.errors import Unsupported


@dataclass(frozen=True, slots=True)
class SetOption(SessionStatement):
    """SET option = 'value', SET option = 30, SET option TO 'value', or USE schema: a setting of the client's session."""

    forms = ("SET", "USE")

    option: str
    value: str

    @classmethod
    def read(cls, cursor: Cursor) -> SetOption:
        if cursor.last == "USE":
            return cls("schema", references.schema(cursor))
        option = cursor.name("the name of a setting")
        if not cursor.accept("="):
            cursor.expect("TO")
        what = f"the value of {option}"
        return cls(option, cursor.literal(what) if cursor.at_literal else cursor.name(what))

    def run(self, server: Server) -> int:
        """Change the setting of the open transaction if it is untouched, and of the following ones."""
        with server.transaction() as transaction:
            session = server.scope.session
            if session is None:
                raise Unsupported("SET needs a session, and this statement came without one")
            assign(session, self.option, self.value)
            if transaction is not None:
                adopt(session, transaction)
        return 0
