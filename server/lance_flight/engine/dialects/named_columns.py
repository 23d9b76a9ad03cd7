"""Columns that a SELECT list names by a pattern or a star: `COLUMNS(…)`, `* RENAME`, `* LIKE`, `struct.*`, `* EXCLUDE`, `* REPLACE`.

Only a plan of their FROM tells which columns the first four stand for: `columns_of` plans `SELECT * FROM …` for each SELECT list, once
what it reads has none of them.

DataFusion 55 plans EXCLUDE, EXCEPT and REPLACE itself, with the names as they are written. It drops what REPLACE says of a column that is
not there, or that EXCLUDE leaves out, and keeps the last of two for one column: these are folded and looked up here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.engine.sql.bounds import queries_before
from lance_flight.engine.sql.clause_words import AFTER_FROM, SET_OPERATORS
from lance_flight.engine.sql.references import quote_parts, text_literal
from lance_flight.engine.sql.select_lists import items
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
