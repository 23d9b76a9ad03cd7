"""PIVOT, UNPIVOT and lateral unnest as queries that DataFusion plans: aggregates for values, rows for columns and for elements.

The first two are read behind their source, which stays where it is in the text: `begin` comes before it, `end` in place of the clause. A PIVOT
without IN, and an UNPIVOT of COLUMNS(…), have them written first (`with_read_values`).

`FROM t, unnest(t.list) AS x(n)` becomes a query of `t` that unnests the list beside its columns: DataFusion 55 has no plan of it. The rows are those of `t` once for each element: `FROM (SELECT t.*, unnest(t.list) AS "n" FROM t) AS t`. Names of `x` become names of
that query. Unnecessary with a release that solves https://github.com/apache/datafusion/issues/10048.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, product
from math import prod

import pyarrow as pa

from lance_flight.engine.functions.routines import is_aggregate
from lance_flight.engine.sql.bounds import queries_before
from lance_flight.engine.sql.clause_words import QUERY_STARTS
from lance_flight.engine.sql.comparisons import OperandsOfText
from lance_flight.engine.sql.references import Cursor, enclose, quote_parts, text_literal
from lance_flight.engine.sql.tokens import (
    PARAMETERS,
    Edit,
    Kind,
    Token,
    TokenPlaces,
    closing_places,
    edit_text,
    fold_name,
    literals,
    tokenize,
)
from lance_flight.errors import LimitExceeded, SqlError, Unsupported
from lance_flight.model.arrow_types import is_string

PIVOTS = frozenset({"PIVOT", "UNPIVOT"})
MOST_COLUMNS = 1_000
"""Columns that a PIVOT makes, or that an UNPIVOT takes."""
MOST_READ, LONGEST = 16, 1 << 16
"""Pivots of a statement whose values are read, and characters of the values of one."""
_AFTER = ("ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT")
_NAMES = frozenset([Kind.WORD, Kind.NAME])
_NO_COLUMNS = frozenset(
    [
        *("CASE", "WHEN", "THEN", "ELSE", "END", "AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE", "DISTINCT"),
        "IN",
        "AS",
    ]
)
_SIGNS = frozenset(["+", "-", "*", "/", "%", "(", ")", ",", "|", "::", "=", "<", ">", "!"])
"""Signs beside which each word is plainly a function, a type or a column."""


@dataclass(frozen=True, slots=True)
class Around:
    """Text before a source of rows, and text behind it."""

    begin: str
    end: str


@dataclass(frozen=True, slots=True)
class _Named:
    text: str
    name: str | None


@dataclass(frozen=True, slots=True)
class _Element:
    """Expression, between the places of two tokens, whose `values` become columns; without them its rows tell them."""

    expression: str
    values: Sequence[_Named] | None
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class _Aggregate:
    """Text up to the end of the call of an aggregate, what follows it, and the name of both."""

    call: str
    rest: str = ""
    name: str | None = None

    @property
    def text(self) -> str:
        return f"{self.call}{self.rest}"


def pivot_clause(cursor: Cursor) -> Around:
    r"""Read `(aggregate [AS a], … FOR column IN (value [AS name], …) … [GROUP BY column, …])`.

    >>> around = pivot_clause(Cursor.over("(sum(v) FOR p IN ('x', 'y'))"))
    >>> around.begin
    '(SELECT * EXCLUDE ("v", "p"), sum(v) FILTER (WHERE "p" = \'x\') AS "x", sum(v) FILTER (WHERE "p" = \'y\') AS "y" FROM '
    >>> around.end
    ' GROUP BY ALL)'
    """
    cursor.expect("(")
    aggregates = _aggregates(cursor, "FOR")
    cursor.expect("FOR")
    elements: list[_Element] = []
    while not elements or not (cursor.done or cursor.peek(")") or cursor.peek("GROUP", "BY")):
        start = cursor.at
        column = quote_parts(cursor.name("the column whose values become columns"))
        cursor.expect("IN")
        elements.append(_Element(column, _values(cursor), start, cursor.at))
    groups = _groups(cursor)
    cursor.expect(")")
    around = _pivot(elements, aggregates, groups)
    return Around(f"({around.begin}", f"{around.end})")


def begins_pivot(places: TokenPlaces, at: int) -> bool:
    """Return whether a word PIVOT or UNPIVOT begins a query, and is no name: a source of rows and ON follow."""
    return places.word_at(at) in PIVOTS and places.word_at(_source_end(places, at + 1)) == "ON"


def _source_end(places: TokenPlaces, at: int) -> int:
    """Return the place behind a table, the call of a function or a query in brackets, with its alias; 0 for anything else."""
    stop = at
    if places.kind(at) not in _NAMES | {Kind.STRING}:
        if not (places.is_sign(at, "(") and places.first_word(at) in QUERY_STARTS | PIVOTS | {"TABLE"}):
            return 0
    else:
        while places.is_sign(stop + 1, "."):
            stop += 2
        stop += places.is_sign(stop + 1, "(")
    stop = places.closing_brackets.get(stop, stop) + 1
    stop += places.word_at(stop) == "AS"
    return stop + (places.kind(stop) in _NAMES and places.word_at(stop) != "ON")


def pivot_query(cursor: Cursor, places: TokenPlaces) -> tuple[int, int, Around]:
    """Read `PIVOT source ON …` or `UNPIVOT source ON …`; return the places where its source begins and ends, too."""
    read = _pivot_statement if cursor.accept("PIVOT") else _unpivot_statement
    cursor.accept("UNPIVOT")
    first = cursor.at
    cursor.at = stop = _source_end(places, first)
    return first, stop, read(cursor)


def _pivot_statement(cursor: Cursor) -> Around:
    """Read `ON expression [IN (value [AS name], …)], … [USING aggregate [AS a], …] [GROUP BY column, …]`."""
    elements = _elements(cursor)
    aggregates = _aggregates(cursor, "GROUP", *_AFTER) if cursor.accept("USING") else [_Aggregate("count(*)")]
    return _pivot(elements, aggregates, _groups(cursor))


def _elements(cursor: Cursor) -> list[_Element]:
    cursor.expect("ON")
    elements: list[_Element] = []
    while not elements or cursor.accept(","):
        start = cursor.at
        expression = cursor.until(",", "IN", "USING", "GROUP", *_AFTER)
        stop = cursor.at
        if not expression:
            raise cursor.error("a column whose values become columns")
        if stop == start + 1 and cursor.tokens[start].kind in _NAMES:
            expression = quote_parts(fold_name(cursor.tokens[start]))
        elements.append(_Element(expression, _values(cursor) if cursor.accept("IN") else None, start, stop))
    return elements


def unpivot_clause(cursor: Cursor) -> Around:
    r"""Read `[INCLUDE NULLS|EXCLUDE NULLS] (value FOR name IN (column [AS 'text'], …))`.

    >>> unpivot_clause(Cursor.over("(val FOR k IN (a, b AS 'second'))")).begin
    '(SELECT * FROM (SELECT * EXCLUDE ("a", "b"), unnest([\'a\', \'second\']) AS "k", unnest(["a", "b"]) AS "val" FROM '
    """
    keeps_nulls = cursor.accept("INCLUDE", "NULLS")
    if not keeps_nulls:
        cursor.accept("EXCLUDE", "NULLS")
    cursor.expect("(")
    value = cursor.name("a name for the values")
    cursor.expect("FOR")
    name = cursor.name("a name for the names of the columns")
    cursor.expect("IN")
    cursor.expect("(")
    columns = _columns(cursor)
    cursor.expect(")")
    cursor.expect(")")
    around = _unpivot(columns, name, value, keeps_nulls=keeps_nulls)
    return Around(f"({around.begin}", f"{around.end})")


def _unpivot_statement(cursor: Cursor) -> Around:
    """Read `ON column [AS 'text'], … [INTO NAME name VALUE value]`."""
    cursor.expect("ON")
    columns = _columns(cursor)
    name, value = "name", "value"
    if cursor.accept("INTO", "NAME"):
        name = cursor.name("a name for the names of the columns")
        cursor.expect("VALUE")
        value = cursor.name("a name for the values")
    elif not (cursor.done or any(map(cursor.peek, [*_AFTER, ")", ";"]))):
        raise cursor.error("columns by their names, and INTO NAME name VALUE value")
    return _unpivot(columns, name, value, keeps_nulls=False)


# --- values that rows tell


def with_read_values(text: str, read: Callable[[str], pa.Table]) -> str:
    r"""Write the values of each PIVOT without IN, and the columns of each UNPIVOT of COLUMNS(…) or `*`; `read` answers a query.

    >>> rows = pa.table({"v": ["x", "y"], "n": ["x", "y"]})
    >>> with_read_values("PIVOT t ON p USING sum(v)", lambda _: rows)
    'PIVOT t ON "p" IN (\'x\', \'y\') USING sum(v)'
    """
    for _ in range(MOST_READ + 1):
        edits = _edits_of_values(text, read) if "PIVOT" in text.upper() else []
        if not edits:
            return text
        text = edit_text(text, edits)
    raise LimitExceeded(f"the values of more than {MOST_READ} pivots are to be read; write ON column IN (…)")


def _edits_of_values(text: str, read: Callable[[str], pa.Table]) -> list[Edit]:
    """Return the edits that write the values of the last pivot that has none: pivots in its source stand behind its word."""
    tokens = tokenize(text)
    places = TokenPlaces(tokens)
    for at in range(len(tokens) - 1, -1, -1):
        if begins_pivot(places, at):
            cursor = Cursor(text, tokens, _source_end(places, at + 1))
            source = f"FROM {cursor.source(at + 1, cursor.at)}"
            write = _write_values if places.word_at(at) == "PIVOT" else _write_columns
            queries = partial(queries_before, text, tokens, at)
            has_parameters = any(token.kind in PARAMETERS for token in tokens[at : cursor.at])
            edits = list(write(cursor, source, partial(_answer, read, queries, has_parameters=has_parameters)))
            if edits:
                return edits
    return []


def _answer(
    read: Callable[[str], pa.Table], queries: Callable[[], str], query: str, *, has_parameters: bool
) -> pa.Table:
    if has_parameters:
        raise Unsupported(
            "the rows that a PIVOT reads decide which columns the query has, before values are bound: they depend on no"
            " parameters; write ON column IN (…)"
        )
    return read(f"{queries()}{query}")


def _write_values(cursor: Cursor, source: str, read: Callable[[str], pa.Table]) -> Iterator[Edit]:
    """Yield the edits that add IN with the values that the rows of a source have, in the order of their texts."""
    for element in _elements(cursor):
        if element.values is None:
            value = enclose(element.expression)
            rows = read(
                f"SELECT v, CAST(v AS VARCHAR) AS n FROM (SELECT DISTINCT {value} AS v {source} WHERE {value} IS NOT NULL"  # noqa: S608 - the client's own text
                f" LIMIT {MOST_COLUMNS + 1}) AS d ORDER BY n"
            )
            texts = rows["n"].to_pylist()
            if len(texts) > MOST_COLUMNS or sum(map(len, texts)) > LONGEST:
                raise LimitExceeded(
                    f"a PIVOT makes a column for each value of {element.expression}: expected at most {MOST_COLUMNS:,}, of"
                    f" {LONGEST:,} characters together; write ON {element.expression} IN (…), or a coarser expression"
                )
            kind = rows["v"].type
            start, stop = cursor.tokens[element.start].start, cursor.tokens[element.stop - 1].stop
            compared = element.expression if pa.types.is_integer(kind) or is_string(kind) else f"{value}::VARCHAR"
            listed = texts if pa.types.is_integer(kind) else map(text_literal, texts)
            yield start, stop, f"{compared} IN ({', '.join(listed)})"


def _write_columns(cursor: Cursor, source: str, read: Callable[[str], pa.Table]) -> Iterator[Edit]:
    """Yield the edit that names the columns which the list of an UNPIVOT stands for."""
    cursor.expect("ON")
    start = cursor.at
    listed = cursor.until("INTO", *_AFTER)
    taken = cursor.tokens[start : cursor.at]
    if any(token.word == "COLUMNS" or token.is_sign("*") for token in taken):
        names = read(f"SELECT {listed} {source} LIMIT 0").schema.names
        yield taken[0].start, taken[-1].stop, ", ".join(map(quote_parts, names))


# --- what DataFusion plans


def _pivot(elements: Sequence[_Element], aggregates: Sequence[_Aggregate], groups: Sequence[str] | None) -> Around:
    values = list(map(_conditions, elements))
    count = prod(map(len, values)) * len(aggregates)
    if count > MOST_COLUMNS:
        raise Unsupported(f"PIVOT makes {count} columns; expected at most {MOST_COLUMNS}")
    made = []
    for combination in product(*values):
        condition = " AND ".join(value.text for value in combination)
        for aggregate in aggregates:
            suffix = aggregate.name or (aggregate.text if len(aggregates) > 1 else None)
            name = "_".join(part for part in (*(value.name for value in combination), suffix) if part is not None)
            made.append(f"{aggregate.call} FILTER (WHERE {condition}){aggregate.rest} AS {quote_parts(name)}")
    if groups is None:
        texts = [*(aggregate.text for aggregate in aggregates), *(element.expression for element in elements)]
        used = dict.fromkeys(name for text in texts for name in _columns_of(text))
        kept, by = f"* EXCLUDE ({', '.join(map(quote_parts, used))})", "ALL"
    else:
        kept = by = ", ".join(groups)
    return Around(f"SELECT {', '.join([kept, *made])} FROM ", f" GROUP BY {by}")  # noqa: S608 - the client's own text


def _conditions(element: _Element) -> list[_Named]:
    """Return the condition of the rows of each value, with the name of its column."""
    if element.values is None:
        raise SqlError(
            f"expected IN and the values in brackets behind {element.expression}, each of which becomes a column"
        )
    return [
        _Named(
            f"{element.expression} {'IS NOT DISTINCT FROM' if value.text.upper() == 'NULL' else '='} {value.text}",
            value.name,
        )
        for value in element.values
    ]


def _unpivot(columns: Sequence[_Named], name: str, value: str, *, keeps_nulls: bool) -> Around:
    texts = ", ".join(text_literal(column.name or column.text) for column in columns)
    taken = ", ".join(quote_parts(column.text) for column in columns)
    inner = f"SELECT * EXCLUDE ({taken}), unnest([{texts}]) AS {quote_parts(name)}, unnest([{taken}]) AS {quote_parts(value)} FROM "  # noqa: S608 - the client's own text
    condition = "" if keeps_nulls else f" WHERE {quote_parts(value)} IS NOT NULL"
    return Around(f"SELECT * FROM ({inner}", f"){condition}")  # noqa: S608 - the client's own text


def _aggregates(cursor: Cursor, *stops: str) -> list[_Aggregate]:
    aggregates = [_aggregate(cursor, *stops)]
    while cursor.accept(","):
        aggregates.append(_aggregate(cursor, *stops))
    return aggregates


def _aggregate(cursor: Cursor, *stops: str) -> _Aggregate:
    """Read an expression with one call of an aggregate, or with one call alone, and its name."""
    start = cursor.at
    text = cursor.until(",", "AS", *stops)
    tokens = cursor.tokens[start : cursor.at]
    calls = [at for at, (one, after) in enumerate(pairwise(tokens)) if one.word and after.is_sign("(")]
    calls = [at for at in calls if len(calls) == 1 or is_aggregate(tokens[at].text)]
    if len(calls) != 1:
        raise SqlError(f"expected an expression with one aggregate, like sum(a), got {text or cursor.next_token()!r}")
    end = tokens[closing_places(tokens)[calls[0] + 1]].stop
    rest = cursor.text[end : tokens[-1].stop]
    return _Aggregate(cursor.text[tokens[0].start : end], rest, cursor.name("a name") if cursor.accept("AS") else None)


def _columns_of(text: str) -> list[str]:
    """Return the columns in an expression; `Unsupported` where not each word is plainly one."""
    tokens = tokenize(text)
    columns = []
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        is_name = token.kind is Kind.NAME or (token.word != "" and token.word not in _NO_COLUMNS)
        is_type = before is not None and (before.is_sign("::") or before.word == "AS")
        follows = is_name and after is not None and after.kind in _NAMES and after.word not in _NO_COLUMNS
        if follows or (token.kind is Kind.SIGN and token.text not in _SIGNS):
            raise Unsupported(f"PIVOT does not know which columns {text} takes; write GROUP BY and the columns to keep")
        if is_name and not is_type and not (after is not None and (after.is_sign("(") or after.kind is Kind.STRING)):
            columns.append(fold_name(token))
    return columns


def _values(cursor: Cursor) -> list[_Named]:
    cursor.expect("(")
    if cursor.peek("ANY") or cursor.peek("SELECT"):
        raise cursor.error("values in brackets; PIVOT t ON column USING sum(a) reads them first")
    values: list[_Named] = []
    while not cursor.accept(")"):
        if values:
            cursor.expect(",")
        if not cursor.done and cursor.tokens[cursor.at].kind is Kind.LITERALS:
            values += [_value(Cursor.over(text)) for text in literals(cursor.tokens[cursor.at])]
            cursor.at += 1
        else:
            values.append(_value(cursor))
    return values


def _value(cursor: Cursor) -> _Named:
    start = cursor.at
    name = "NULL" if cursor.accept("NULL") else cursor.literal("a number or a text in quotes")
    text = cursor.source(start, cursor.at)
    return _Named(text, cursor.name("a name") if cursor.accept("AS") else name)


def _columns(cursor: Cursor) -> list[_Named]:
    columns = [_column(cursor)]
    while cursor.accept(","):
        columns.append(_column(cursor))
    if len(columns) > MOST_COLUMNS:
        raise Unsupported(f"UNPIVOT takes {len(columns)} columns; expected at most {MOST_COLUMNS}")
    return columns


def _column(cursor: Cursor) -> _Named:
    name = cursor.name("a column")
    return _Named(name, cursor.text_or_name("a text in quotes") if cursor.accept("AS") else None)


def _groups(cursor: Cursor) -> list[str] | None:
    """Read `[GROUP BY column, …]`; None without."""
    if not cursor.accept("GROUP", "BY"):
        return None
    groups = [cursor.until(",", *_AFTER)]
    while cursor.accept(","):
        groups.append(cursor.until(",", *_AFTER))
    return groups


_QUERIES = frozenset(["SELECT", "WITH", "VALUES", "TABLE", "FROM"])
_ENDS = frozenset(
    [
        *("WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT"),
        *("INTERSECT", "SELECT"),
    ]
)
_NO_ALIAS = frozenset(
    ["ON", "USING", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "WITH", "AS", *_ENDS]
)
_MOST = 16
"""Most lists that one FROM unnests: each is a query around the one before it."""
_NESTED = "write it over a query of that table: FROM (SELECT *, unnest(list) AS n FROM t) AS t"


@dataclass(slots=True)
class _Table:
    """An item of FROM: its tokens with its alias, the name by which columns of it are called, and what is unnested of it."""

    start: int
    stop: int
    name: str | None
    join: frozenset[str]
    is_unnest: bool = False
    unnested: list[_Unnest] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Unnest:
    """A call of unnest in FROM: the tokens of its arguments, its alias, its columns, and whether rows without elements stay."""

    first: int
    last: int
    alias: str
    column: str
    is_outer: bool


def unnest_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that unnest lists of a table within a query of that table.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT t.id, x.n FROM t, unnest(t.list) AS x(n) WHERE n > 1"
    >>> edit_text(text, unnest_edits(text, tokenize(text)))
    'SELECT t.id, "t"."n" FROM (SELECT "t".*, unnest(t.list) AS "n" FROM t) AS "t" WHERE n > 1'
    """
    if not any(token.word == "UNNEST" for token in tokens):
        return []
    return _Reader(text, tokens).read()


class _Reader(OperandsOfText):
    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        super().__init__(sql, tokens)
        self.edits: list[Edit] = []

    def read(self) -> list[Edit]:
        """Return the edits of the whole text."""
        starts = [0]
        for at, token in enumerate(self.tokens):
            clause = starts[-1]
            if token.is_sign("("):
                starts.append(at + 1)
            elif token.is_sign(")") and len(starts) > 1:
                starts.pop()
            elif token.word == "SELECT" and not self.is_name(at):
                starts[-1] = at
            elif token.word == "FROM" and self.word_at(clause) == "SELECT" and not self.is_comparison(at):
                self._read_from(clause, at + 1)
        return self.edits

    def _read_from(self, select: int, at: int) -> None:
        """Read the FROM of one query, and rewrite what it unnests."""
        if not self._unnests(at):
            return
        tables, join = list[_Table](), frozenset[str]()
        while at < len(self.tokens):
            words = set[str]()
            while self.word_at(at) in {"CROSS", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "JOIN", "NATURAL"}:
                words.add(self.word_at(at))
                at += 1
            join = frozenset(words)
            at = self._read_item(tables, at, join)
            while at < len(self.tokens) and not self._ends_item(at):
                at = max(at, self.partners.get(at, at)) + 1
            if at >= len(self.tokens) or self.text(at) in {")", ";"} or self._is_end(at):
                break
            at += self.is_sign(at, ",")
        self._rewrite(select, at, tables)

    def _unnests(self, at: int) -> bool:
        """Return whether a FROM has a call of unnest after its first item."""
        place = at
        while place < len(self.tokens) and not self.is_sign(place, ")") and not self._is_end(place):
            if place > at and self.word_at(place) == "UNNEST" and self.is_sign(place + 1, "("):
                return True
            place = max(place, self.partners.get(place, place)) + 1
        return False

    def _ends_item(self, at: int) -> bool:
        is_join = self.word_at(at) in {"CROSS", "INNER", "LEFT", "RIGHT", "FULL", "JOIN", "NATURAL"}
        return self.text(at) in {",", ")", ";"} or (is_join and not self.is_name(at)) or self._is_end(at)

    def _is_end(self, at: int) -> bool:
        """Return whether a word ends FROM."""
        word = self.word_at(at)
        is_word = word in _ENDS or (word == "FROM" and not self.is_comparison(at))
        return is_word and not self.is_name(at)

    def _read_item(self, tables: list[_Table], at: int, join: frozenset[str]) -> int:
        """Read one item of FROM with its alias and its condition; return the token after it."""
        start = at
        if self.word_at(at) == "LATERAL" and self.word_at(at + 1) == "UNNEST":
            at += 1
        is_unnest = self.word_at(at) == "UNNEST" and self.is_sign(at + 1, "(")
        opening = at + 1 if is_unnest else at
        name, columns, stop = self._name_of_item(self._source_end(opening))
        if not (is_unnest and tables and any(map(self._is_column, range(opening + 1, self.partners.get(opening, 0))))):
            tables.append(_Table(start, stop, name, join, is_unnest))
            return stop
        is_outer, at = bool(join & {"LEFT", "RIGHT", "FULL"}), self._after_condition(stop, join)
        closing = self.partners[opening]
        if any(self.is_sign(place, ",") for place in self._outermost(opening + 1, closing)) or len(columns) > 1:
            raise Unsupported(f"unnest of several columns in FROM is not offered; {_NESTED}")
        column = columns[0] if columns else name if name is not None else "unnest"
        unnest = _Unnest(opening + 1, closing, name or "unnest", column, is_outer)
        self._owner(tables, unnest).unnested.append(unnest)
        if sum(len(table.unnested) for table in tables) > _MOST:
            raise LimitExceeded(
                f"a query unnests more than {_MOST} lists in FROM; expected fewer, in queries of their own"
            )
        self.edits.append((self._before(start, join), self.tokens[at - 1].stop, ""))
        return at

    def _source_end(self, at: int) -> int:
        """Return the token after the name of a table, a call or a query in brackets."""
        if self.is_sign(at, "("):
            return self.partners.get(at, at) + 1
        at += 1
        while self.is_sign(at, ".") or self.is_sign(at - 1, ".") or self.is_sign(at, "(") or self.is_sign(at, "@"):
            at = max(at, self.partners.get(at, at)) + 1
        return at

    def _name_of_item(self, at: int) -> tuple[str | None, list[str], int]:
        """Return the name of the item of FROM that ends before a token, those of its columns, and the token after its alias."""
        name = None if self.is_sign(at - 1, ")") else fold_name(self.tokens[at - 1])
        has_as = self.word_at(at) == "AS"
        if has_as or (self.kind(at) in {Kind.WORD, Kind.NAME} and self.word_at(at) not in _NO_ALIAS):
            at += has_as
            name, at = fold_name(self.tokens[min(at, len(self.tokens) - 1)]), at + 1
        if name is None or not self.is_sign(at, "("):
            return name, [], at
        closing = self.partners.get(at, at)
        return (
            name,
            [fold_name(token) for token in self.tokens[at + 1 : closing] if not token.is_sign(",")],
            closing + 1,
        )

    def _after_condition(self, at: int, join: frozenset[str]) -> int:
        """Return the token after the condition of a join with unnest, which is true."""
        is_true = self.word_at(at) == "ON" and self.word_at(at + 1) == "TRUE"
        is_true = is_true and (at + 2 >= len(self.tokens) or self._ends_item(at + 2))
        if join & {"LEFT", "RIGHT", "FULL"} and not (is_true and "LEFT" in join):
            raise Unsupported(
                f"unnest of a column in an outer join is not offered but for LEFT JOIN … ON true; {_NESTED}"
            )
        if self.word_at(at) == "ON" and not is_true:
            raise Unsupported(
                "unnest of a column in a join with a condition is not offered; write the condition in WHERE"
            )
        return at + 2 if is_true else at

    def _before(self, start: int, join: frozenset[str]) -> int:
        """Return where the text of an item begins, with the comma or the words of the join before it."""
        at = start - 1
        while join and self.word_at(at) in join:
            at -= 1
        return self.tokens[at].start if not join else self.tokens[at].stop

    def _outermost(self, start: int, stop: int) -> list[int]:
        places, at = list[int](), start
        while at < stop:
            places.append(at)
            at = max(at, self.partners.get(at, at)) + 1
        return places

    def _is_column(self, at: int) -> bool:
        kind = self.kind(at)
        if kind is Kind.NAME:
            return not self.is_sign(at + 1, "(")
        word = self.word_at(at)
        return (
            bool(word)
            and not self.is_sign(at + 1, "(")
            and word not in {"ARRAY", "NULL", "TRUE", "FALSE", "CAST", "AS", "CASE"}
        )

    def _owner(self, tables: Sequence[_Table], unnest: _Unnest) -> _Table:
        """Return the one table whose columns the argument of unnest names."""
        named = {
            fold_name(self.tokens[at])
            for at in range(unnest.first, unnest.last)
            if self.is_sign(at + 1, ".") and not self.is_sign(at - 1, ".") and self.kind(at) in {Kind.WORD, Kind.NAME}
        }
        owners = [table for table in tables if table.name in named]
        by_alias = [table for table in tables for list_ in table.unnested if list_.alias in named]
        owners += [table for table in by_alias if table not in owners]
        if not owners and len(tables) == 1:
            owners = list(tables)
        if len(owners) != 1 or owners[0].name is None or owners[0].is_unnest:
            raise Unsupported(f"unnest in FROM takes a list of one table, named before it as t.list; {_NESTED}")
        is_first = owners[0] is tables[0]
        if any(table.join & {"RIGHT", "FULL"} for table in tables) or (owners[0].join & {"LEFT"} and not is_first):
            raise Unsupported(f"unnest of a table of an outer join is not offered; {_NESTED}")
        return owners[0]

    def _rewrite(self, select: int, end: int, tables: Sequence[_Table]) -> None:
        unnests = {unnest.alias: (table, unnest) for table in tables for unnest in table.unnested}
        if not unnests:
            return
        moved = set[int]()
        for table in tables:
            if table.unnested:
                moved.update(
                    range(table.start, table.stop), *(range(unnest.first, unnest.last) for unnest in table.unnested)
                )
                self._wrap(table)
        last = self._last(end)
        is_in_order = all(not table.unnested for table in tables[:-1])
        self._check_names(select, last, unnests)
        wrapped = {table.name: table for table in tables if table.unnested}
        for at in range(select, last):
            if at in moved:
                continue
            if self._is_bare_star(at) and not is_in_order:
                raise Unsupported(
                    "* beside unnest of one of several tables is not offered; name the columns, or write t.*"
                )
            if self.kind(at) in {Kind.WORD, Kind.NAME} and self.is_sign(at + 1, ".") and not self.is_sign(at - 1, "."):
                self._rename(at, unnests, wrapped)

    def _rename(
        self, at: int, unnests: Mapping[str, tuple[_Table, _Unnest]], wrapped: Mapping[str | None, _Table]
    ) -> None:
        """Rewrite a name like `x.n` of an unnested column, or `t.*` of the table that it is unnested beside."""
        name = fold_name(self.tokens[at])
        if name in unnests:
            table, unnest = unnests[name]
            if not self.is_sign(at + 2, "*") and fold_name(self.tokens[at + 2]) not in {unnest.column, "unnest"}:
                raise SqlError(f"No field named {name}.{self.text(at + 2)}; the column of {name} is {unnest.column}")
            column = f"{quote_parts(table.name or '')}.{quote_parts(unnest.column)}"
            self.edits.append((self.tokens[at].start, self.tokens[at + 2].stop, column))
        elif name in wrapped and self.is_sign(at + 2, "*"):
            without = ", ".join(quote_parts(list_.column) for list_ in wrapped[name].unnested)
            stop = self.tokens[at + 2].stop
            self.edits.append((stop, stop, f" EXCLUDE ({without})"))

    def _check_names(self, select: int, last: int, unnests: Mapping[str, tuple[_Table, _Unnest]]) -> None:
        """Refuse a query within this one that gives the alias of an unnested list to something else."""
        at = select
        while at < last:
            closing = self.partners.get(at, at)
            if self.is_sign(at, "(") and self.first_word(at) in _QUERIES and not self._is_moved(at, unnests):
                for place in range(at, closing):
                    is_bare = not self.is_sign(place + 1, ".") and not self.is_sign(place - 1, ".")
                    if (
                        is_bare
                        and self.kind(place) in {Kind.WORD, Kind.NAME}
                        and fold_name(self.tokens[place]) in unnests
                    ):
                        raise Unsupported(
                            f"{self.text(place)!r} is the alias of unnest, and stands in a subquery; write another alias"
                        )
                at = closing
            at += 1

    def _is_moved(self, at: int, unnests: Mapping[str, tuple[_Table, _Unnest]]) -> bool:
        return any(table.start <= at < table.stop for table, _ in unnests.values())

    def _wrap(self, table: _Table) -> None:
        """Write the query that unnests beside the columns of a table: one list within the other, since those of one list are paired."""
        opens = closes = ""
        name = quote_parts(table.name or "")
        for place, unnest in enumerate(table.unnested):
            argument = self.sql[self.tokens[unnest.first].start : self.tokens[unnest.last - 1].stop]
            for other in table.unnested[:place]:
                if other.alias in {fold_name(self.tokens[at]) for at in range(unnest.first, unnest.last)}:
                    argument = quote_parts(other.column)
            if unnest.is_outer:
                argument = f"CASE WHEN cardinality({argument}) > 0 THEN {argument} ELSE [NULL] END"
            opens = f"(SELECT {name}.*, unnest({argument}) AS {quote_parts(unnest.column)} FROM {opens}"  # noqa: S608 - planned, not run
            closes += f") AS {name}"
        start, stop = self.tokens[table.start].start, self.tokens[table.stop - 1].stop
        self.edits += [(start, start, opens), (stop, stop, closes)]

    def _last(self, end: int) -> int:
        """Return the token after the clauses of a query whose FROM ends at a token."""
        at = end
        while at < len(self.tokens) and not self.is_sign(at, ")") and not self.is_sign(at, ";"):
            if self.word_at(at) in {"UNION", "EXCEPT", "INTERSECT"} and not self.is_name(at):
                break
            at = max(at, self.partners.get(at, at)) + 1
        return at

    def _is_bare_star(self, at: int) -> bool:
        return self.is_sign(at, "*") and self.text(at - 1).upper() in {"SELECT", ",", "DISTINCT", "ALL"}
