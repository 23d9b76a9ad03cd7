"""Parser of WITH (name = value, …): the options of a new table or index."""

from __future__ import annotations

from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.tokens import MOST_DIGITS
from lance_flight.model.index_kinds import OptionValue


def in_brackets(cursor: Cursor) -> dict[str, OptionValue]:
    """Read bracketed options."""
    cursor.expect("(")
    found: dict[str, OptionValue] = {}
    while True:
        name = cursor.name("the name of an option")
        cursor.expect("=")
        found[name] = _value(cursor, name)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return found


def _value(cursor: Cursor, name: str) -> OptionValue:
    text = cursor.literal(f"the value of {name}") if cursor.at_literal else cursor.name(f"the value of {name}")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else text
