"""Schemas written before the names of tables, so that a text means the same in every session."""

from __future__ import annotations

from collections.abc import Sequence

from lance_flight.engine.sql.hidden_columns import RelationReader
from lance_flight.engine.sql.references import quoted
from lance_flight.engine.sql.tokens import Kind, edited


def qualified(sql: str, db_schema: str) -> str:
    """Write `db_schema` before each name of a table, or of a view, that has no schema.

    >>> qualified("WITH q AS (SELECT * FROM a) SELECT * FROM q JOIN s.b AS c USING (x)", "public")
    'WITH q AS (SELECT * FROM "public".a) SELECT * FROM q JOIN s.b AS c USING (x)'
    """
    reader = _NameReader(sql, db_schema)
    for _ in reader.selects():
        pass
    return edited(sql, sorted(set(reader.names)))


class _NameReader(RelationReader):
    """Collects the places of names without a schema as edits."""

    def __init__(self, sql: str, db_schema: str) -> None:
        super().__init__(sql, lambda *_: ())
        self._prefix = f"{quoted(db_schema)}."
        self.names: list[tuple[int, int, str]] = []

    def hidden(self, start: int, at: int, name: str) -> Sequence[str]:
        is_name = self.kind(at) in {Kind.WORD, Kind.NAME}
        if start == at and is_name and not self.names_query(at):
            self.names.append((self.tokens[at].start, self.tokens[at].start, self._prefix))
        return ()
