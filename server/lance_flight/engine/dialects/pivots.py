"""PIVOT and UNPIVOT as queries that DataFusion plans: an aggregate for each value, and a row for each column.

Both are read behind their source, which stays where it is in the text: `begin` comes before it, `end` in place of the clause. A PIVOT
without IN, and an UNPIVOT of COLUMNS(…), have them written first (`with_read_values`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from math import prod

import pyarrow as pa

from lance_flight.engine.functions.routines import is_aggregate
from lance_flight.engine.sql.bounds import queries_before
from lance_flight.engine.sql.clause_words import QUERY_STARTS
from lance_flight.engine.sql.references import Cursor, enclose, quote_parts, text_literal
from lance_flight.engine.sql.tokens import (
    PARAMETERS,
    Edit,
    Kind,
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
