"""Names of a query that DataFusion does not know where they stand, written out: of many columns, of windows, items and joined columns.

**Many columns** are named by a pattern or a star: `COLUMNS(…)`, `* RENAME`, `* LIKE`, `struct.*`, `* EXCLUDE`, `* REPLACE`.
Only a plan of their FROM tells which columns the first four stand for: `columns_of` plans `SELECT * FROM …` for each SELECT list, once
what it reads has none of them.

DataFusion 55 plans EXCLUDE, EXCEPT and REPLACE itself, with the names as they are written. It drops what REPLACE says of a column that is
not there, or that EXCLUDE leaves out, and keeps the last of two for one column: these are folded and looked up here.

**Windows** of a WINDOW clause: DataFusion 55 takes `OVER w` in SELECT lists alone, and no `OVER (w …)`.

**Items** of a SELECT list that are named elsewhere in their query, as in `SELECT a + 1 AS b, b * 2`: DataFusion knows only columns there.

**Joined columns** in WHERE and ON without a table: DataFusion 55 takes such a name for an ambiguous one.
A column of USING, or one that a NATURAL JOIN finds on both sides, is one column of the join. DataFusion knows that in SELECT lists, in
GROUP BY and in ORDER BY alone. Elsewhere the name of a table is written before it, whose column the join keeps: RIGHT and FULL JOIN
are not offered with USING. Unnecessary with a release of DataFusion that looks names up in conditions as it does in SELECT lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.engine.functions.routines import calls_of, mutable_functions
from lance_flight.engine.sql.bounds import queries_before
from lance_flight.engine.sql.clause_words import AFTER_FROM, QUERIES, SET_OPERATORS, WINDOW_WORDS
from lance_flight.engine.sql.references import is_alias, quote_parts, relation_places, text_literal
from lance_flight.engine.sql.select_lists import is_without_alias, items, own_places
from lance_flight.engine.sql.tokens import (
    Edit,
    Kind,
    TextPlaces,
    Token,
    TokenPlaces,
    closing_places,
    edit_text,
    fold_name,
    tokenize,
)
from lance_flight.errors import LimitExceeded, SqlError, Unsupported

MOST_LISTS, LONGEST = 32, 1 << 20
"""SELECT lists that are written, each of which costs a planning, and characters of the text that they make."""
_SUSPECTS = re.compile(r"\bCOLUMNS\s*\(|\bRENAME\b|\*\s*(?:NOT\s+)?I?LIKE\b", re.IGNORECASE)
_OPTIONS = frozenset(["EXCLUDE", "EXCEPT", "REPLACE", "RENAME"])
_LEAST = {"EXCLUDE": 1, "EXCEPT": 1, "RENAME": 3, "REPLACE": 3}
"""Fewest tokens of what each option says of a column."""
_NO_FIELDS = re.compile(r"^(?P<name>\S+)\.\* takes all columns of a table, and there is none of that name")
_NAMES = frozenset([Kind.WORD, Kind.NAME])
_WRITE = "write the columns by their names"

Columns = Mapping[str, pa.DataType]
ColumnsOf = Callable[[str], pa.Schema]
"""Function that returns the columns of a query."""


def with_named_columns(text: str, columns_of: ColumnsOf) -> str:
    """Write the columns that `COLUMNS(…)` and options of `*` stand for.

    >>> columns = pa.schema({"id": pa.int64(), "price": pa.float64(), "cost": pa.float64()})
    >>> with_named_columns("SELECT * RENAME (id AS n), max(COLUMNS('c')) FROM t", lambda _: columns)
    'SELECT "id" AS "n", "price", "cost", max("price"), max("cost") FROM t'
    """
    for _ in range(MOST_LISTS):
        if _SUSPECTS.search(text) is None:
            return text
        written = _with_one_list(text, columns_of)
        if written is None or written == text:
            return text
        if len(written) > LONGEST:
            raise LimitExceeded(f"the columns of the statement take more than {LONGEST:,} characters; {_WRITE}")
        text = written
    raise LimitExceeded(f"more than {MOST_LISTS} SELECT lists have COLUMNS or RENAME; {_WRITE}")


def with_fields(text: str, refusal: str, columns_of: ColumnsOf) -> str | None:
    """Write the fields of a struct for the `s.*` that DataFusion refuses; None where it is something else."""
    match = _NO_FIELDS.match(refusal)
    if match is None:
        return None
    name, tokens = fold_name(tokenize(match["name"])[-1]), tokenize(text)
    for start in (at + 1 for at, token in enumerate(tokens) if token.word == "SELECT"):
        for item in items(tokens, start):
            is_star = len(item) > 2 and item[-1].is_sign("*") and item[-2].is_sign(".")  # noqa: PLR2004 - s, a dot and *
            if is_star and fold_name(item[-3]) == name:
                kind = _columns(_List(text, tokens, start).query("*"), columns_of).get(name)
                if kind is None or not pa.types.is_struct(kind):
                    return None
                struct = text[item[0].start : item[-3].stop]
                fields = ", ".join(
                    f"{struct}[{text_literal(field.name)}] AS {quote_parts(field.name)}" for field in kind
                )
                return edit_text(text, [(item[0].start, item[-1].stop, fields)])
    return None


def _columns(query: str, columns_of: ColumnsOf) -> Columns:
    schema = columns_of(query)
    repeated = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if repeated is not None:
        raise Unsupported(f"several columns are called {repeated!r}; {_WRITE}")
    return dict(zip(schema.names, schema.types, strict=True))


def _with_one_list(text: str, columns_of: ColumnsOf) -> str | None:
    """Write the last SELECT list that reads no such query; None if there is none."""
    tokens = tokenize(text)
    for start in (at + 1 for at in range(len(tokens) - 1, -1, -1) if tokens[at].word == "SELECT"):
        listed = _List(text, tokens, start)
        stars = [item for item in items(tokens, start) if _stands_for_columns(item)]
        if not stars or _SUSPECTS.search(listed.query("*")):
            continue
        return edit_text(
            text, [(item[0].start, item[-1].stop, ", ".join(listed.write_items(item, columns_of))) for item in stars]
        )
    return None


def _star(item: Sequence[Token]) -> int | None:
    """Return the place of the star of `*` or `t.*`; None in another item."""
    star = next((at for at, token in enumerate(item) if token.is_sign("*")), None)
    return star if star is not None and (star == 0 or item[star - 1].is_sign(".")) else None


def _stands_for_columns(item: Sequence[Token]) -> bool:
    star = _star(item)
    if star is not None:
        return any(token.word in {"RENAME", "LIKE", "ILIKE"} for token in item[star:])
    return any(one.word == "COLUMNS" and after.is_sign("(") for one, after in pairwise(item))


class _List(TextPlaces):
    """A SELECT list, and what it is read from."""

    def __init__(self, text: str, tokens: Sequence[Token], start: int) -> None:
        super().__init__(text, tokens)
        self._start = start

    def query(self, listed: str) -> str:
        """Return a query of other columns of the same FROM, with the queries of WITH before it."""
        at = self._start
        while at < len(self.tokens) and not self._ends(at) and (self.word_at(at) != "FROM" or self.is_comparison(at)):
            at = self._closing.get(at, at) + 1
        stop = at + 1
        while stop < len(self.tokens) and not self._ends(stop):
            stop = self._closing.get(stop, stop) + 1
        source = (
            self._text[self.tokens[at].start : self.tokens[min(stop, len(self.tokens)) - 1].stop]
            if at < stop - 1
            else ""
        )
        return f"{queries_before(self._text, self.tokens, self._start)}SELECT {listed} {source}"

    def _ends(self, at: int) -> bool:
        word = self.word_at(at)
        is_word = word in AFTER_FROM | SET_OPERATORS and not self.is_name(at)
        return is_word or (self.kind(at) is Kind.SIGN and self.text(at) in {")", ";", "|"})

    def write_items(self, item: Sequence[Token], columns_of: ColumnsOf) -> Iterator[str]:
        """Yield the items that one stands for."""
        text = self._text[item[0].start : item[-1].stop]
        star = _star(item)
        if star is not None:
            yield from self._star(item, star, columns_of)
            return
        places = [at for at, token in enumerate(item[:-1]) if token.word == "COLUMNS" and item[at + 1].is_sign("(")]
        closing = closing_places(item)
        spans = [(item[at].start - item[0].start, item[closing[at + 1]].stop - item[0].start, at) for at in places]
        if len({text[start:stop] for start, stop, _ in spans}) > 1:
            raise Unsupported(f"COLUMNS is read in SELECT lists, once in an item; {_WRITE}")
        inner = item[spans[0][2] + 2 : closing[spans[0][2] + 1]]
        for name in self._choose_columns(inner, columns_of):
            yield edit_text(text, [(start, stop, quote_parts(name)) for start, stop, _ in spans])

    def _choose_columns(self, inner: Sequence[Token], columns_of: ColumnsOf) -> list[str]:
        """Return the columns that the argument of COLUMNS names."""
        texts = [token.text for token in inner if token.kind is Kind.STRING]
        if inner and inner[0].is_sign("*"):
            rest = self._text[inner[0].start : inner[-1].stop]
            return list(_columns(self.query(rest), columns_of))
        columns = list(_columns(self.query("*"), columns_of))
        if len(inner) == 1 and texts:
            try:
                chosen = pc.match_substring_regex(pa.array(columns, pa.utf8()), texts[0]).to_pylist()
            except pa.ArrowInvalid as exc:
                raise SqlError(f"COLUMNS does not read the pattern {texts[0]!r}: {exc}") from exc
            if not any(chosen):
                raise SqlError(f"COLUMNS finds no column like {texts[0]!r}; expected some of {', '.join(columns)}")
            return [name for name, is_chosen in zip(columns, chosen, strict=True) if is_chosen]
        if not (
            inner and inner[0].is_sign("[") and all(token.kind is Kind.STRING or token.text in "[,]" for token in inner)
        ):
            raise Unsupported(f"COLUMNS takes *, a pattern or a list of names in quotes; {_WRITE}")
        missing = [name for name in texts if name not in columns]
        if missing:
            raise SqlError(f"No field named {missing[0]}; COLUMNS chooses among {', '.join(columns)}")
        return texts

    def _star(self, item: Sequence[Token], star: int, columns_of: ColumnsOf) -> Iterator[str]:
        """Yield the columns of `*` with its options: a name for each that has another one, a value for each that is replaced."""
        wildcard = self._text[item[0].start : item[star].stop]
        qualifier = wildcard[:-1]
        columns = dict.fromkeys(_columns(self.query(wildcard), columns_of), "")
        values = {name: f"{qualifier}{quote_parts(name)}" for name in columns}
        at, closing = star + 1, closing_places(item)
        while at < len(item) and (word := item[at].word) in _OPTIONS:
            closed = closing.get(at + 1)
            stop = at + (1 if word in {"EXCLUDE", "EXCEPT"} else len(("a", "AS", "b"))) if closed is None else closed
            for one in [list(item[at + 1 : stop + 1])] if closed is None else items(item, at + 2):
                name = fold_name(one[0 if word != "REPLACE" else -1])
                if name not in columns or one[-1].kind not in _NAMES or len(one) < _LEAST[word]:
                    raise SqlError(f"No field named {name}; the columns of * are {', '.join(columns)}")
                if word == "RENAME":
                    columns[name] = fold_name(one[-1])
                elif word == "REPLACE":
                    columns[name] = name
                    values[name] = f"({self._text[one[0].start : one[-3].stop]})"
                else:
                    columns.pop(name)
            at = stop + 1
        columns = dict(self._alike(item[at:], columns))
        for name, alias in columns.items():
            yield f"{values[name]} AS {quote_parts(alias)}" if alias else values[name]

    def _alike(self, rest: Sequence[Token], columns: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        is_not, words = bool(rest) and rest[0].word == "NOT", [token.word for token in rest]
        is_pattern = words[is_not : is_not + 1] in (["LIKE"], ["ILIKE"]) and rest[-1].kind is Kind.STRING
        if rest and not is_pattern:
            raise Unsupported(f"* takes EXCLUDE, REPLACE, RENAME and LIKE; {_WRITE}")
        for name, alias in columns.items():
            is_alike = not rest or pc.match_like(pa.scalar(name), rest[-1].text, ignore_case="ILIKE" in words).as_py()
            if not rest or is_alike != is_not:
                yield name, alias


_PLANNED = _OPTIONS - {"RENAME"}
"""Options that DataFusion plans itself."""


def wildcard_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that fold the names of such options, and have the columns of REPLACE looked up.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> query = "SELECT * EXCLUDE (B) REPLACE (a + 1 AS A) FROM t"
    >>> edit_text(query, wildcard_edits(query, tokenize(query)))
    'SELECT * EXCLUDE ("b") REPLACE (CASE WHEN TRUE OR "a" IS NULL THEN a + 1 END AS "a") FROM t'
    """
    if not any(token.word in _PLANNED for token in tokens):
        return []
    places, closing = TokenPlaces(tokens), closing_places(tokens)
    stars = (at for at, token in enumerate(tokens) if token.is_sign("*") and places.ends_operand(at))
    return [edit for star in stars for edit in _Wildcard(text, tokens, closing, star).edits()]


class _Wildcard(TokenPlaces):
    def __init__(self, text: str, tokens: Sequence[Token], closing: dict[int, int], star: int) -> None:
        super().__init__(tokens)
        self.sql, self.closing, self.star = text, closing, star
        self.named: set[str] = set()

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of all options of one wildcard."""
        at = self.star + 1
        while (word := self.word_at(at)) in _PLANNED:
            closed = self.closing.get(at + 1)
            for item in items(self.tokens, at + 2) if closed is not None else [list(self.tokens[at + 1 : at + 2])]:
                if not item or item[-1].kind not in _NAMES:
                    return  # DataFusion says what is wrong
                yield from self._replace(item) if word == "REPLACE" else self._exclude(item)
            at = (at + 1 if closed is None else closed) + 1

    def _exclude(self, item: Sequence[Token]) -> Iterator[Edit]:
        if len(item) == 1:
            self.named.add(fold_name(item[0]))
            yield from _folded_name(item[0])

    def _replace(self, item: Sequence[Token]) -> Iterator[Edit]:
        name = fold_name(item[-1])
        if name in self.named:
            raise SqlError(f"the options of * name the column {name!r} twice; expected once in EXCLUDE or REPLACE")
        self.named.add(name)
        value = item[: -2 if item[-2].word == "AS" else -1]
        if not value:
            return
        column = f"{self._qualifier()}{quote_parts(name)}"
        yield value[0].start, value[0].start, f"CASE WHEN TRUE OR {column} IS NULL THEN "
        yield value[-1].stop, value[-1].stop, " END"
        yield from _folded_name(item[-1])

    def _qualifier(self) -> str:
        first = self.star
        while self.is_sign(first - 1, "."):
            first -= 2
        return self.sql[self.tokens[first].start : self.tokens[self.star].start]


def _folded_name(token: Token) -> Iterator[Edit]:
    if token.text != fold_name(token):
        yield token.start, token.stop, quote_parts(fold_name(token))


_MOST_WITHIN = 20
"""Most windows that are named within one another."""


def named_window_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that write the windows of WINDOW clauses where they are named.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT sum(a) OVER w, max(a) OVER (v ROWS 1 PRECEDING) FROM t WINDOW w AS (PARTITION BY b), v AS (w ORDER BY c)"
    >>> edit_text(text, named_window_edits(text, tokenize(text)))
    'SELECT sum(a) OVER (PARTITION BY b), max(a) OVER (PARTITION BY b ORDER BY c ROWS 1 PRECEDING) FROM t '
    """
    return list(_WindowReader(text, tokens).edits()) if any(token.word == "WINDOW" for token in tokens) else []


@dataclass(frozen=True, slots=True)
class _Clause:
    """WINDOW clause: the bracket around its query, its first and last token, and the brackets of each window."""

    scope: int
    first: int
    last: int
    windows: Mapping[str, int]


class _WindowReader(TextPlaces):
    def edits(self) -> Iterator[Edit]:
        """Yield the edits of the whole text."""
        clauses: list[_Clause] = []
        named: list[tuple[int, list[int]]] = []
        opened = [-1]
        for at, token in enumerate(self.tokens):
            if at in self._closing:
                opened.append(at)
            elif at == self._closing.get(opened[-1]):
                opened.pop()
            elif token.word == "WINDOW" and not self.is_name(at) and self._begins_window(at + 1):
                clauses.append(self._read_clause(at, opened[-1]))
            elif token.word == "OVER" and self._names_window(at + 1 + self.is_sign(at + 1, "(")):
                named.append((at, opened[::-1]))
        for clause in clauses:
            yield self.tokens[clause.first].start, self.tokens[clause.last].stop, ""
        for at, scopes in named:
            yield from self._over(at, scopes, clauses)

    def _begins_window(self, at: int) -> bool:
        return self.kind(at) in _NAMES and self.word_at(at + 1) == "AS" and self.is_sign(at + 2, "(")

    def _names_window(self, at: int) -> bool:
        return self.kind(at) in _NAMES and self.word_at(at) not in WINDOW_WORDS

    def _read_clause(self, first: int, scope: int) -> _Clause:
        windows, at = {}, first + 1
        while True:
            opened = at + 2
            windows[fold_name(self.tokens[at])] = opened
            last = self._closing.get(opened, opened)
            if not (self.is_sign(last + 1, ",") and self._begins_window(last + 2)):
                return _Clause(scope, first, last, windows)
            at = last + 2

    def _over(self, at: int, scopes: Sequence[int], clauses: Sequence[_Clause]) -> Iterator[Edit]:
        """Yield the edit of one OVER: its window is of the next clause of its query, or of a query around it."""
        place = at + 1 + self.is_sign(at + 1, "(")
        name = fold_name(self.tokens[place])
        known = [clause for scope in scopes for clause in clauses if clause.scope == scope and name in clause.windows]
        if not known:
            return  # which DataFusion says
        clause = next((clause for clause in known if clause.scope == known[0].scope and clause.first > at), known[0])
        inside = self._window(clause, name, 0)
        token = self.tokens[place]
        yield token.start, token.stop, inside if place > at + 1 else f"({inside})"

    def _window(self, clause: _Clause, name: str, within: int) -> str:
        opened = clause.windows[name]
        start, stop = self.tokens[opened].stop, self.tokens[self._closing[opened]].start
        base = fold_name(self.tokens[opened + 1])
        if not (self._names_window(opened + 1) and base in clause.windows):
            return self._text[start:stop]
        if within == _MOST_WITHIN:
            raise SqlError(f"the window {name!r} names windows that name it, or more than {_MOST_WITHIN} others")
        return self._window(clause, base, within + 1) + self._text[self.tokens[opened + 1].stop : stop]


MOST_REUSED = 32
"""Names of a query that are replaced one after another."""
LONGEST_BY_NAME = 30_000
"""Characters of a query that names are replaced in, and that it has afterwards: names of names double it each time."""
_UNKNOWN = re.compile(r"No field named (?P<name>\"(?:[^\"]|\"\")+\"|\w+)\.")


def with_reused_alias(text: str, refusal: str) -> str | None:
    """Put the expression of a select item where its query names it, for a name that DataFusion does not know; None where it can't.

    >>> with_reused_alias("SELECT a + 1 AS b, b * 2 FROM t WHERE b > 3", "No field named b. Valid fields are t.a.")
    'SELECT a + 1 AS b, (a + 1) * 2 FROM t WHERE (a + 1) > 3'
    """
    match = _UNKNOWN.search(refusal)
    if match is None or len(text) > LONGEST_BY_NAME:
        return None
    name, tokens = fold_name(tokenize(match["name"])[0]), tokenize(text)
    closing = closing_places(tokens)
    for start in (place + 1 for place, token in enumerate(tokens) if token.word == "SELECT"):
        edits = list(_edits(text, tokens, closing, start, name))
        if edits:
            reused = edit_text(text, edits)
            return reused if len(reused) <= LONGEST_BY_NAME else None
    return None


def _edits(text: str, tokens: Sequence[Token], closing: Mapping[int, int], start: int, name: str) -> Iterator[Edit]:
    """Yield the edits of the query whose select list begins at `start`."""
    listed = [item for item in items(tokens, start) if item and not is_without_alias(item)]
    called = next(
        (item for item in listed if len(item) > 1 and item[-1].kind in _NAMES and fold_name(item[-1]) == name), None
    )
    if called is None:
        return
    value = called[: -2 if called[-2].word == "AS" else -1]
    expression = text[value[0].start : value[-1].stop]
    is_own = any(token.kind in _NAMES and fold_name(token) == name for token in value)
    if is_own or next(calls_of(expression, mutable_functions()), None) is not None:
        return
    aliases = {item[-1].start for item in listed}
    for token in (tokens[at] for at in own_places(tokens, closing, start) if _is_column(tokens, at, name)):
        if token.start > called[-1].start and token.start not in aliases:
            yield token.start, token.stop, f"({expression})"


def _is_column(tokens: Sequence[Token], place: int, name: str) -> bool:
    """Return whether a token is this name, and no part of a longer one, no function and no alias of a table."""
    token, before = tokens[place], tokens[place - 1]
    after = tokens[place + 1] if place + 1 < len(tokens) else None
    is_part = before.is_sign(".") or before.word in {"AS", "FROM", "JOIN"}
    is_followed = after is not None and (after.is_sign("(") or after.is_sign("."))
    return token.kind in _NAMES and fold_name(token) == name and not is_part and not is_followed


MOST_RELATIONS = 4
"""First tables of a FROM that are tried before a name."""
MOST_NAMES = 8
"""Names of a query that are written with a table, one after another."""
_AMBIGUOUS = re.compile(r"Ambiguous reference to unqualified field (?P<name>\"(?:[^\"]|\"\")+\"|\w+)")
_CONDITIONS = frozenset(["WHERE", "ON"])
_CLAUSES = _CONDITIONS | {"SELECT", "FROM", "JOIN", "USING", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT"}


def with_joined_name(text: str, refusal: str, place: int) -> str | None:
    """Write a table before the name that a refusal calls ambiguous, where tables are joined by it; None where none are.

    `place` is that of the table in its FROM.

    >>> with_joined_name("SELECT k FROM a JOIN b USING (k) WHERE k = 1", "Ambiguous reference to unqualified field k", 0)
    'SELECT k FROM a JOIN b USING (k) WHERE "a".k = 1'
    """
    match = _AMBIGUOUS.search(refusal)
    if match is None or len(text) > LONGEST_BY_NAME:
        return None
    name, reader = fold_name(tokenize(match["name"])[0]), _JoinedNameReader(tokenize(text))
    edits = []
    for at, token in enumerate(reader.tokens):
        if token.word == "SELECT" and not reader.is_name(at):
            select = reader.read(at, name)
            if select.is_joined_by_name and place < len(select.relations):
                table = f"{quote_parts(select.relations[place])}."
                edits += [(named.start, named.start, table) for named in select.named]
    return edit_text(text, sorted(edits)) if edits else None


def with_named_relations(text: str, refusal: str) -> str | None:
    """Write a name behind each query in FROM that has none, where a refusal tells of two columns of one table; None where none is added.

    DataFusion calls the columns of such a query by the tables in it.

    >>> with_named_relations("SELECT * FROM t, (SELECT a FROM t)", "t stands twice in FROM; name each of them")
    'SELECT * FROM t, (SELECT a FROM t) AS "query 1"'
    """
    if "stands twice in FROM" not in refusal or len(text) > LONGEST_BY_NAME:
        return None
    tokens = tokenize(text)
    places, closing = TokenPlaces(tokens), closing_places(tokens)
    ends = [closing.get(at + 1) for at in sorted(relation_places(places)) if places.first_word(at + 1) in QUERIES]
    unnamed = [end for end in ends if end is not None and not (end + 1 < len(tokens) and (is_alias(tokens[end + 1])))]
    edits = [(tokens[end].stop, tokens[end].stop, f' AS "query {n}"') for n, end in enumerate(unnamed, 1)]
    return edit_text(text, edits) if edits else None


_ROWS_OF_CALLS = frozenset(["generate_series", "range", "unnest"])
"""Functions in FROM that give one column."""
_MISSED = re.compile(r"^(?P<table>\w+) is a table, and no column|No field named (?:\w+\.)?(?P<column>\w+)\.")


def with_named_series(text: str, refusal: str) -> str | None:
    """Return a query whose series and lists in FROM give a column of their alias, or else of their function, where a refusal misses it.

    >>> with_named_series("SELECT g FROM generate_series(1, 3) AS g", "g is a table, and no column; write g.*")
    'SELECT g FROM generate_series(1, 3) AS g(g)'
    >>> with_named_series("SELECT range FROM range(3)", "No field named range. Valid fields are value.")
    'SELECT range FROM range(3) AS range(range)'
    """
    found = _MISSED.search(refusal)
    name = (found["table"] or found["column"]).lower() if found is not None else ""
    if found is None or (found["column"] and name not in _ROWS_OF_CALLS):
        return None
    tokens = tokenize(text)
    closing, edits = closing_places(tokens), list[Edit]()
    for at in (place + 1 for place in relation_places(TokenPlaces(tokens))):
        end = closing.get(at + 1) if at + 1 < len(tokens) else None
        if end is None or tokens[at].text.lower() not in _ROWS_OF_CALLS:
            continue
        alias = end + 1 + (end + 1 < len(tokens) and tokens[end + 1].word == "AS")
        has_alias = alias < len(tokens) and is_alias(tokens[alias])
        if has_alias and alias + 1 < len(tokens) and tokens[alias + 1].is_sign("("):
            continue
        if has_alias and (found["column"] or fold_name(tokens[alias]) == name):
            edits.append((tokens[alias].stop, tokens[alias].stop, f"({name})"))
        elif not has_alias and tokens[at].text.lower() == name:
            edits.append((tokens[end].stop, tokens[end].stop, f" AS {name}({name})"))
    return edit_text(text, sorted(edits)) if edits else None


@dataclass(slots=True)
class _Select:
    """Tables of a SELECT by their aliases, whether it joins by a name, and where its conditions have that without a table."""

    relations: list[str] = field(default_factory=list)
    is_joined_by_name: bool = False
    named: list[Token] = field(default_factory=list)


class _JoinedNameReader(TokenPlaces):
    def __init__(self, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self._closing = closing_places(tokens)

    def read(self, select: int, name: str) -> _Select:
        """Read the SELECT that begins at a place, without the queries in it."""
        read, clause, is_natural = _Select(), "SELECT", False
        for at in own_places(self.tokens, self._closing, select + 1):
            word = "" if self.is_name(at) else self.word_at(at)
            if word in _CLAUSES and not self.is_comparison(at):
                clause = word
                is_natural |= word == "JOIN" and "NATURAL" in {self.word_at(at - 1), self.word_at(at - 2)}
                if word in {"FROM", "JOIN"}:
                    read.relations.append(self._alias(at + 1))
            elif clause == "FROM" and self.is_sign(at, ","):
                read.relations.append(self._alias(at + 1))
            elif self.kind(at) in _NAMES and fold_name(self.tokens[at]) == name and self._is_alone(at):
                read.is_joined_by_name |= clause == "USING"
                read.named += [self.tokens[at]] if clause in _CONDITIONS else []
        read.is_joined_by_name |= is_natural and len(read.relations) == len(("left", "right"))
        return read

    def _alias(self, at: int) -> str:
        """Return the name by which a relation is called whose tokens begin at a place; an empty text where it has none."""
        last = at
        if self.is_sign(at, "("):
            at = self._closing.get(at, at)
        else:
            while self.is_sign(at + 1, "."):
                at += 2
            last, at = at, self._closing.get(at + 1, at)
        following = at + 1 + (self.word_at(at + 1) == "AS")
        if following < len(self.tokens) and is_alias(self.tokens[following]):
            return fold_name(self.tokens[following])
        return fold_name(self.tokens[last]) if self.kind(last) in _NAMES else ""

    def _is_alone(self, at: int) -> bool:
        return not (self.is_sign(at - 1, ".") or self.is_sign(at + 1, ".") or self.is_sign(at + 1, "("))
