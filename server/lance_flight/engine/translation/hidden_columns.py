"""Hidden columns of tables in SQL: `_partition` and `_rowid`, which only statements that name them see, and no `*` ever.

A statement that names one has it among the columns of its tables; each `*` over such a table is written out without it. The definition of a view gets the schemas of its tables in the same way, so that
its text means the same in every session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lance_flight.engine.dialects.clauses import read_version, versioned_name
from lance_flight.engine.sql.bounds import with_queries
from lance_flight.engine.sql.clause_words import AFTER_FROM, BEFORE_WILDCARD, QUERY_STARTS, SET_OPERATORS
from lance_flight.engine.sql.references import CATALOG, QUALIFIED_PARTS, Cursor, Point, is_alias, quote_parts
from lance_flight.engine.sql.tokens import Edit, Kind, TokenPlaces, closing_places, edit_text, fold_name, tokenize
from lance_flight.errors import LimitExceeded, NotFound, Unsupported

Revealed = Callable[[str | None, str], Sequence[str]]
"""Function that returns the hidden columns of a table, by its schema (None: the default one) and its name as written in SQL.

It raises `NotFound` for a name that is no table's.
"""

MOST_WILDCARDS = 10_000
"""Most wildcards that one SELECT is written out with."""
_HIDDEN = re.compile(r"\b_(?:partition|rowid)\b", re.IGNORECASE)
_FROM_ENDS = AFTER_FROM | SET_OPERATORS | {"SELECT", "FETCH"}
_BEFORE_LONE = SET_OPERATORS | {"ALL", "NAME"}
_OPTIONS = frozenset(["EXCEPT", "REPLACE", "RENAME", "ILIKE", "EXCLUDE"])


def hidden_columns_in(sql: str) -> frozenset[str]:
    """Return the hidden columns that a text names.

    >>> hidden_columns_in("SELECT _RowID FROM t WHERE note = '_partition'")
    frozenset({'_rowid'})
    """
    if _HIDDEN.search(sql) is None:
        return frozenset()
    names = (token.text for token in tokenize(sql) if token.kind in {Kind.WORD, Kind.NAME})
    return frozenset(name.lower() for name in names if _HIDDEN.fullmatch(name))


def with_visible_columns(sql: str, revealed: Revealed) -> str:
    """Rewrite each `*` over tables that show hidden columns, so that it leaves these out.

    >>> with_visible_columns("SELECT _rowid, * FROM t", lambda _, table: ["_rowid"])
    'SELECT _rowid, * EXCLUDE ("_rowid") FROM t'
    """
    try:
        return edit_text(sql, RelationReader(sql, revealed).edits())
    except NotFound:  # as planning will say
        return sql


@dataclass(frozen=True, slots=True)
class _Relation:
    """Table or query of a FROM: its alias as written (None: it has none), and the hidden columns that it shows."""

    alias: str | None
    name: str = ""
    hidden: Sequence[str] = ()


@dataclass(slots=True)
class _Select:
    """A SELECT: the places of the wildcards in its list, and what its FROM reads.

    `merges` tells that it joins by USING or NATURAL.
    """

    stars: list[int] = field(default_factory=list)
    relations: list[_Relation] = field(default_factory=list)
    merges: str = ""

    @property
    def is_revealing(self) -> bool:
        return any(relation.hidden for relation in self.relations)


class RelationReader(TokenPlaces):
    """Finds the SELECTs of a text, each at the level of brackets that it begins at."""

    def __init__(self, sql: str, revealed: Revealed) -> None:
        super().__init__(tokenize(sql))
        self._sql = sql
        self._revealed = revealed
        self._closing = closing_places(self.tokens)
        self._queries = {query.name: query.stop for query in reversed(list(with_queries(self.tokens)))}
        """Where the first query of WITH by each name ends."""

    def edits(self) -> list[Edit]:
        """Return the edits of all wildcards."""
        all_edits = [edit for select in self.selects() if select.is_revealing for edit in self._edits(select)]
        return sorted(all_edits)

    def selects(self) -> Iterator[_Select]:
        """Yield each SELECT with its FROM."""
        levels: list[_Select | None] = [None]
        for at, token in enumerate(self.tokens):
            select = levels[-1]
            if token.is_sign("("):
                levels.append(None)
            elif token.is_sign(")") and len(levels) > 1:
                levels.pop()
            elif token.is_sign("*") and select is not None and self._is_wildcard(at):
                select.stars.append(at)
            elif token.kind is Kind.WORD and not self.is_name(at):
                levels[-1] = self._after_word(select, at, token.word)
                if select is not None and select.relations and levels[-1] is None:
                    yield select

    def _after_word(self, select: _Select | None, at: int, word: str) -> _Select | None:
        """Read a word that may begin or end a SELECT list; return the SELECT whose list goes on behind it."""
        if word == "SELECT":
            return _Select()
        if word in SET_OPERATORS and not self.is_sign(at - 1, "*"):
            return None
        if word != "FROM" or self.is_comparison(at):
            return select
        if select is not None:
            self._read_from(select, at + 1)
        elif at == 0 or self.is_sign(at - 1, "(") or self.word_at(at - 1) in _BEFORE_LONE:
            self._check_lone(at)
        return None

    def _is_wildcard(self, at: int) -> bool:
        before = self.text(at - 1)
        following = self.word_at(at + 1)
        is_last = self.is_sign(at + 1, ",") or following == "FROM" or following in _OPTIONS
        is_first = self.word_at(at - 2) == "TOP" and self.kind(at - 1) is Kind.NUMBER
        return (
            is_first or before in {",", "."} or self.word_at(at - 1) in BEFORE_WILDCARD or (before == ")" and is_last)
        )

    def _check_lone(self, at: int) -> None:
        alone = _Select()
        self._read_from(alone, at + 1)
        if alone.is_revealing:
            raise Unsupported("FROM without SELECT shows no hidden columns (_partition, _rowid); write SELECT … FROM")

    # FROM.

    def _read_from(self, select: _Select, at: int) -> None:
        """Read the relations of a FROM, from the first one on, those in brackets of joins too."""
        is_expected, depth = True, 0
        while at < len(self.tokens):
            token, word = self.tokens[at], self.word_at(at)
            if is_expected and (word in {"LATERAL", "ONLY"} or self._opens_join(at)):
                depth += token.is_sign("(")
                at += 1
            elif is_expected:
                at, is_expected = self._read_relation(select, at), False
            elif token.is_sign("("):
                at = self._closing.get(at, len(self.tokens)) + 1
            elif token.is_sign(")") and depth:
                depth -= 1
                at += 1
            elif token.is_sign(")") or (word in _FROM_ENDS and not self.is_name(at)) or token.is_sign("|"):
                return
            else:
                is_expected = token.is_sign(",") or word == "JOIN"
                select.merges = word if word in {"USING", "NATURAL"} else select.merges
                at += 1

    def _opens_join(self, at: int) -> bool:
        """Return whether a bracket opens that joins tables, not one of a query."""
        return self.is_sign(at, "(") and self.first_word(at) not in QUERY_STARTS

    def _read_relation(self, select: _Select, at: int) -> int:
        """Read one relation and return the place behind it and its alias."""
        start = at
        if self.is_sign(at, "("):
            behind = self._closing.get(at, len(self.tokens) - 1) + 1
            return self._read_alias(select, behind, _Relation(None))
        while self.is_sign(at + 1, "."):
            at += 2
        if at >= len(self.tokens) or self.is_sign(at + 1, "("):
            return self._read_alias(select, self._closing.get(at + 1, at) + 1, _Relation(None))
        last, (behind, version) = self.tokens[at], self.version_at(at + 1)
        alias = None if version is not None else self.alias_at(behind)
        if alias is not None:  # a version may stand behind it, too
            behind, version = self.version_at(alias + 1)
        name = fold_name(last) if version is None else versioned_name(fold_name(last), version)
        called = self.tokens[at if alias is None else alias]
        relation = _Relation(
            self._sql[called.start : called.stop], fold_name(called), self.hidden_columns(start, at, name)
        )
        if alias is not None:
            select.relations.append(relation)
            return behind
        return self._read_alias(select, behind, relation)

    def version_at(self, at: int) -> tuple[int, Point | None]:
        """Read the version clause at a place, if there is one; return the place behind it, and the version."""
        cursor = Cursor(self._sql, self.tokens, at)
        version = read_version(cursor)
        return cursor.at, version

    def _read_alias(self, select: _Select, at: int, relation: _Relation) -> int:
        alias = self.alias_at(at)
        if alias is not None:
            token = self.tokens[alias]
            relation = _Relation(self._sql[token.start : token.stop], fold_name(token), relation.hidden)
        select.relations.append(relation)
        return at if alias is None else alias + 1

    def alias_at(self, at: int) -> int | None:
        """Return the place of the alias that follows a relation; None if it has none."""
        has_word = self.word_at(at) == "AS"
        place = at + has_word
        return place if place < len(self.tokens) and (has_word or is_alias(self.tokens[place])) else None

    def hidden_columns(self, start: int, at: int, name: str) -> Sequence[str]:
        """Return the hidden columns of the table whose name, at its version, has the tokens `start` to `at`."""
        parts = [*(fold_name(token) for token in self.tokens[start:at:2]), name]
        if self.kind(at) not in {Kind.WORD, Kind.NAME} or len(parts) > QUALIFIED_PARTS:
            return ()
        if len(parts) == QUALIFIED_PARTS and parts[0] != CATALOG:
            return ()
        if len(parts) == 1 and self.names_query(start):
            return ()
        return self._revealed(parts[-2] if len(parts) > 1 else None, parts[-1])

    def names_query(self, at: int) -> bool:
        """Return whether the name at a place is that of a query of WITH before it."""
        return self._queries.get(fold_name(self.tokens[at]), at) < at

    # Wildcards.

    def _edits(self, select: _Select) -> Iterator[Edit]:
        if select.merges == "NATURAL":
            raise Unsupported(
                "NATURAL JOIN beside hidden columns (_partition, _rowid) is not offered; write USING or ON"
            )
        if len(select.stars) * len(select.relations) > MOST_WILDCARDS:
            raise LimitExceeded(
                f"* stands for more than {MOST_WILDCARDS} tables in a SELECT that names hidden columns; expected columns"
            )
        by_name = {relation.name: relation.hidden for relation in select.relations}
        for star in select.stars:
            if self.is_sign(star - 1, "."):
                yield from self._excluding(star, by_name.get(fold_name(self.tokens[star - 2]), ()))
            elif len(select.relations) == 1:
                yield from self._excluding(star, select.relations[0].hidden)
            else:
                yield self._written_out(select, star)

    def _excluding(self, star: int, hidden: Sequence[str]) -> Iterator[Edit]:
        """Yield the edit that leaves hidden columns out of a wildcard, which may leave out others already."""
        if not hidden:
            return
        names = ", ".join(map(quote_parts, hidden))
        if self.word_at(star + 1) != "EXCLUDE":
            place = self.tokens[star].stop
            yield place, place, f" EXCLUDE ({names})"
        elif self.is_sign(star + 2, "("):
            place = self.tokens[star + 2].stop
            yield place, place, f"{names}, "
        else:
            token = self.tokens[star + 2]
            yield token.start, token.stop, f"({names}, {self._sql[token.start : token.stop]})"

    def _written_out(self, select: _Select, star: int) -> Edit:
        """Return the edit that replaces `*` by one wildcard for each relation."""
        is_plain = self.word_at(star + 1) not in _OPTIONS and not select.merges
        if not is_plain or any(relation.alias is None for relation in select.relations):
            raise Unsupported(
                "* beside hidden columns (_partition, _rowid) is not offered over a join with USING, with EXCLUDE or the like,"
                " or over what has no alias; write the columns, or a.*, b.*"
            )
        items = [
            f"{relation.alias}.*"
            + (f" EXCLUDE ({', '.join(map(quote_parts, relation.hidden))})" if relation.hidden else "")
            for relation in select.relations
        ]
        return self.tokens[star].start, self.tokens[star].stop, ", ".join(items)


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
