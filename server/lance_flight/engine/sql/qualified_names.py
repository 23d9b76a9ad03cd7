"""Schemas written before the names of tables, so that a text means the same in every session."""

from __future__ import annotations

from collections.abc import Sequence

from lance_flight.engine.sql.hidden_columns import RelationReader
from lance_flight.engine.sql.references import quote_parts
from lance_flight.engine.sql.tokens import Edit, Kind, edit_text, fold_name
from lance_flight.engine.sql.with_expansion import with_queries


def qualify_names(sql: str, db_schema: str) -> str:
    """Write `db_schema` before each name of a table, or of a view, that has no schema.

    A table without an alias gets its name for one, since `a.*` means it by that alone.

    >>> qualify_names("WITH q AS (SELECT * FROM a) SELECT * FROM q JOIN b AS c USING (x)", "s")
    'WITH q AS (SELECT * FROM "s".a AS a) SELECT * FROM q JOIN "s".b AS c USING (x)'
    >>> qualify_names('SELECT * FROM "a b"', "s")
    'SELECT * FROM "s"."a b" AS "a b"'
    """
    reader = _NameReader(sql, db_schema)
    for _ in reader.selects():
        pass
    return edit_text(sql, sorted(set(reader.names)))


class _NameReader(RelationReader):
    """Collects the places of names without a schema as edits."""

    def __init__(self, sql: str, db_schema: str) -> None:
        super().__init__(sql, lambda *_: ())
        self._prefix = f"{quote_parts(db_schema)}."
        self.names: list[Edit] = []
        is_recursive = any(token.word == "RECURSIVE" for token in self.tokens)
        self._recursive = list(with_queries(self.tokens)) if is_recursive else []

    def hidden_columns(self, start: int, at: int, name: str) -> Sequence[str]:
        is_name = self.kind(at) in {Kind.WORD, Kind.NAME}
        if start == at and is_name and not self.names_query(at) and not self._names_itself(at):
            token = self.tokens[at]
            self.names.append((token.start, token.start, self._prefix))
            behind, _ = self.version_at(at + 1)
            if self.alias_at(behind) is None:
                self.names.append((token.stop, token.stop, f" AS {self._sql[token.start : token.stop]}"))
        return ()

    def _names_itself(self, at: int) -> bool:
        """Return whether the name at a place is that of the recursive query of WITH that it stands in."""
        name = fold_name(self.tokens[at])
        return any(query.name == name and query.start <= at <= query.stop for query in self._recursive)
