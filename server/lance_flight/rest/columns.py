"""Operations on the columns of a table: add, change and drop them."""

from __future__ import annotations

from lance_flight.engine.sql.references import quoted
from lance_flight.errors import InvalidInput, Unsupported
from lance_flight.rest.arrow_types import type_to_sql
from lance_flight.rest.call import RestAnswer, RestCall
from lance_flight.rest.names import column_sql


def add_columns(call: RestCall) -> RestAnswer:
    """Add columns that are computed from the others, once."""
    changes = []
    for entry in call.value("new_columns", list):
        name = entry.get("name") if isinstance(entry, dict) else None
        computed = entry.get("expression") if isinstance(entry, dict) else None
        if not isinstance(computed, str):
            raise Unsupported(f"column {name!r} without an expression: computed and virtual columns are not offered")
        probe = f"SELECT {call.expression(computed)} AS computed FROM {call.target.sql} LIMIT 0"  # noqa: S608 - a quoted name
        kind = type_to_sql(call.plan(probe).schema.field(0).type)
        changes.append(f"ADD COLUMN {column_sql(name)} {kind} AS {call.expression(computed)}")
    return _altered(call, changes)


def alter_columns(call: RestCall) -> RestAnswer:
    """Rename columns, and change their types and whether they may be NULL."""
    changes = []
    for entry in call.value("alterations", list):
        path = entry.get("path") if isinstance(entry, dict) else None
        column = column_sql(path)
        kind, nullable, rename = entry.get("data_type"), entry.get("nullable"), entry.get("rename")
        if kind is not None:
            changes.append(f"ALTER COLUMN {column} TYPE {type_to_sql(kind)}")
        if nullable is not None:
            changes.append(f"ALTER COLUMN {column} {'DROP' if nullable else 'SET'} NOT NULL")
        if rename is not None:
            changes.append(f"RENAME COLUMN {column} TO {quoted(rename)}")
    return _altered(call, changes)


def drop_columns(call: RestCall) -> RestAnswer:
    """Drop columns."""
    return _altered(call, [f"DROP COLUMN {column_sql(name)}" for name in call.value("columns", list)])


def _altered(call: RestCall, changes: list[str]) -> RestAnswer:
    if not changes:
        raise InvalidInput("the request changes no column; expected one at least")
    call.run(f"ALTER TABLE {call.target.sql} {', '.join(changes)}")
    return RestAnswer({"version": call.version()})
