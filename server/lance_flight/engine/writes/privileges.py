"""What INSERT, UPDATE, DELETE, MERGE and TRUNCATE do to rows, as privileges on them."""

from __future__ import annotations

from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.writes.row_changes import Delete, Insert, Matched, Merge, RowChange, Truncate, Update

_OVERWRITING = frozenset({Privilege.INSERT, Privilege.DELETE, Privilege.SELECT})
"""The rows that go are those of the partitions that come, and are counted."""


def changing(statement: RowChange) -> frozenset[Privilege]:
    """What a statement does to rows that are there."""
    match statement:
        case Update():
            return frozenset({Privilege.UPDATE})
        case Delete() | Truncate():
            return frozenset({Privilege.DELETE})
        case Merge():
            on_the_target = [clause for clause in statement.clauses if clause.matched is not Matched.SOURCE_ONLY]
            deletes = {Privilege.DELETE for clause in on_the_target if clause.assignments is None}
            updates = {Privilege.UPDATE for clause in on_the_target if clause.assignments is not None}
            return frozenset(deletes | updates)


def writing(statement: RowChange | Insert) -> frozenset[Privilege]:
    """What a statement does to rows that come."""
    match statement:
        case Insert():
            return _OVERWRITING if statement.overwrite else frozenset({Privilege.INSERT})
        case Merge():
            inserts = any(clause.matched is Matched.SOURCE_ONLY for clause in statement.clauses)
            return (changing(statement) - {Privilege.DELETE}) | ({Privilege.INSERT} if inserts else frozenset())
        case Update():
            return frozenset({Privilege.UPDATE})
        case Delete() | Truncate():
            return frozenset()
