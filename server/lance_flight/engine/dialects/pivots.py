"""PIVOT and UNPIVOT as queries that DataFusion plans: an aggregate for each value, and a row for each column.

Both are read behind their source, which stays where it is in the text: `begin` comes before it, `end` in place of the clause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import quote_parts, text_literal
from lance_flight.engine.sql.tokens import Kind, TokenPlaces, closing_places, tokenize
from lance_flight.errors import Unsupported

PIVOTS = frozenset({"PIVOT", "UNPIVOT"})
_AFTER = ("ORDER", "LIMIT", "UNION", ")")
MOST_COLUMNS = 1_000
"""Columns that a PIVOT makes, or that an UNPIVOT takes."""


@dataclass(frozen=True, slots=True)
class Around:
    """Text before a source of rows, and text behind it."""

    begin: str
    end: str


@dataclass(frozen=True, slots=True)
class _Named:
    text: str
    name: str | None


def pivot_clause(cursor: Cursor) -> Around:
    r"""Read `(aggregate [AS a], … FOR column IN (value [AS name], …) [GROUP BY column, …])`.

    >>> around = pivot_clause(Cursor.over("(sum(v) FOR p IN ('x', 'y'))"))
    >>> around.begin
    '(SELECT * EXCLUDE ("v", "p"), sum(v) FILTER (WHERE "p" = \'x\') AS "x", sum(v) FILTER (WHERE "p" = \'y\') AS "y" FROM '
    >>> around.end
    ' GROUP BY ALL)'
    """
    cursor.expect("(")
    aggregates = _aggregates(cursor, "FOR")
    cursor.expect("FOR")
    column = cursor.name("the column whose values become columns")
    cursor.expect("IN")
    values = _values(cursor)
    groups = _groups(cursor, ")")
    cursor.expect(")")
    around = _pivot(column, values, aggregates, groups)
    return Around(f"({around.begin}", f"{around.end})")


def begins_pivot(places: TokenPlaces, at: int) -> bool:
    """Return whether a word PIVOT or UNPIVOT begins a query, and is no name: a source of rows and ON follow."""
    if places.word_at(at) not in PIVOTS:
        return False
    after = at + 1
    if places.is_sign(after, "("):
        after = closing_places(places.tokens).get(after, after)
    else:
        while places.is_sign(after + 1, "."):
            after += 2
    return places.word_at(after + 1) == "ON"


def pivot_query(cursor: Cursor) -> tuple[int, int, Around]:
    """Read `PIVOT source ON …` or `UNPIVOT source ON …`; return the places where its source begins and ends, too."""
    read = pivot_statement if cursor.accept("PIVOT") else unpivot_statement
    cursor.accept("UNPIVOT")
    first = cursor.at
    if cursor.peek("("):
        cursor.read_bracket()
    else:
        cursor.name("a table")
        while cursor.accept("."):
            cursor.name("a table")
    stop = cursor.at
    return first, stop, read(cursor)


def pivot_statement(cursor: Cursor) -> Around:
    """Read `ON column IN (value [AS name], …) USING aggregate [AS a], … [GROUP BY column, …]`."""
    cursor.expect("ON")
    column = cursor.name("the column whose values become columns")
    if not cursor.accept("IN"):
        raise cursor.error("IN and the values in brackets, each of which becomes a column")
    values = _values(cursor)
    cursor.expect("USING")
    aggregates = _aggregates(cursor, "GROUP", *_AFTER)
    return _pivot(column, values, aggregates, _groups(cursor, *_AFTER))


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


def unpivot_statement(cursor: Cursor) -> Around:
    """Read `ON column [AS 'text'], … INTO NAME name VALUE value`."""
    cursor.expect("ON")
    columns = _columns(cursor)
    cursor.expect("INTO", "NAME")
    name = cursor.name("a name for the names of the columns")
    cursor.expect("VALUE")
    return _unpivot(columns, name, cursor.name("a name for the values"), keeps_nulls=False)


def _pivot(column: str, values: Sequence[_Named], aggregates: Sequence[_Named], groups: Sequence[str] | None) -> Around:
    if len(values) * len(aggregates) > MOST_COLUMNS:
        raise Unsupported(f"PIVOT makes {len(values) * len(aggregates)} columns; expected at most {MOST_COLUMNS}")
    made = []
    for value in values:
        sign = "IS NOT DISTINCT FROM" if value.text.upper() == "NULL" else "="
        for aggregate in aggregates:
            suffix = aggregate.name or (aggregate.text if len(aggregates) > 1 else None)
            name = value.name if suffix is None else f"{value.name}_{suffix}"
            made.append(
                f"{aggregate.text} FILTER (WHERE {quote_parts(column)} {sign} {value.text}) AS {quote_parts(name or '')}"
            )
    if groups is None:
        used = dict.fromkeys([*(name for aggregate in aggregates for name in _columns_of(aggregate.text)), column])
        kept, by = f"* EXCLUDE ({', '.join(map(quote_parts, used))})", "ALL"
    else:
        kept = by = ", ".join(groups)
    return Around(f"SELECT {kept}, {', '.join(made)} FROM ", f" GROUP BY {by}")  # noqa: S608 - the client's own text


def _unpivot(columns: Sequence[_Named], name: str, value: str, *, keeps_nulls: bool) -> Around:
    texts = ", ".join(text_literal(column.name or column.text) for column in columns)
    taken = ", ".join(quote_parts(column.text) for column in columns)
    inner = f"SELECT * EXCLUDE ({taken}), unnest([{texts}]) AS {quote_parts(name)}, unnest([{taken}]) AS {quote_parts(value)} FROM "  # noqa: S608 - the client's own text
    condition = "" if keeps_nulls else f" WHERE {quote_parts(value)} IS NOT NULL"
    return Around(f"SELECT * FROM ({inner}", f"){condition}")  # noqa: S608 - the client's own text


def _aggregates(cursor: Cursor, *stops: str) -> list[_Named]:
    aggregates = [_aggregate(cursor, *stops)]
    while cursor.accept(","):
        aggregates.append(_aggregate(cursor, *stops))
    return aggregates


def _aggregate(cursor: Cursor, *stops: str) -> _Named:
    start = cursor.at
    cursor.name("an aggregate, like sum(a)")
    cursor.read_bracket()
    text = cursor.source(start, cursor.at)
    if cursor.accept("AS"):
        return _Named(text, cursor.name("a name"))
    if not (cursor.done or cursor.peek(",") or any(map(cursor.peek, stops))):
        raise cursor.error(f"',' or {' or '.join(stops)} behind one call of an aggregate")
    return _Named(text, None)


def _columns_of(aggregate: str) -> list[str]:
    """Return the columns in a call of an aggregate; `Unsupported` where not each word is plainly one."""
    tokens = tokenize(aggregate)[2:-1]
    names = [token for token in tokens if token.kind in {Kind.WORD, Kind.NAME} and token.word != "DISTINCT"]
    plain = {Kind.WORD, Kind.NAME, Kind.NUMBER}
    if any(token.kind not in plain and token.text not in {"*", "+", "-", "/"} for token in tokens):
        raise Unsupported(
            f"PIVOT does not know which columns {aggregate} takes; write GROUP BY and the columns to keep"
        )
    return [token.text if token.kind is Kind.NAME else token.text.lower() for token in names]


def _values(cursor: Cursor) -> list[_Named]:
    cursor.expect("(")
    values = [_value(cursor)]
    while cursor.accept(","):
        values.append(_value(cursor))
    cursor.expect(")")
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


def _groups(cursor: Cursor, *stops: str) -> list[str] | None:
    """Read `[GROUP BY column, …]`; None without."""
    if not cursor.accept("GROUP", "BY"):
        return None
    groups = [cursor.until(",", *stops)]
    while cursor.accept(","):
        groups.append(cursor.until(",", *stops))
    return groups
