"""Comparisons that DataFusion 55 answers wrongly: of floats by their bits, and those that its optimiser folds into others.

**Floats** have one zero and one NaN in SQL. DataFusion tells zeros apart in IN with a list, `CASE f WHEN 0`, nullif, and in windows; `=`, GROUP BY, DISTINCT and joins take them for one value.
`f - (-0.0)` is `f` without the sign of a zero, and a text that no client writes, so that names of columns can leave it out.
A NaN with a sign is another value everywhere, and less than all. x86 computes one, as 0 / 0: rows are stored without
(`catalog.tables.rows.with_one_nan`), and computed values become `nanvl(f, '+NaN')` (`operand_types.with_one_nan`).

**Folded comparisons**: their calls are hidden from its optimiser.
`extract(year FROM ts) < 3000` becomes a comparison of the column with the first moment of the year, which overflows where the
column has nanoseconds. Unnecessary with a release of https://github.com/apache/datafusion/pull/25140.
`try_cast(x AS INT) > 1` becomes `x > 1`, which is true where the cast overflows and gives NULL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from lance_flight.engine.sql.clause_words import QUERIES
from lance_flight.engine.sql.tokens import (
    STRINGS,
    Edit,
    Kind,
    Token,
    closing_places,
    edit_text,
    fold_name,
    literals,
    tokenize,
)

DOUBLE, REAL = " - (-0.0)", " - CAST(-0.0 AS REAL)"
"""What removes the sign of a zero, by the type of a column."""
UNSIGNED_NAN = ", CAST('+NaN' AS {}))"
"""What ends a call of `nanvl` that removes the sign of NaN, in a text that no client writes."""
_WORDS = re.compile(r"\b(?:IN|CASE|NULLIF|OVER|WINDOW|DISTINCT)\b", re.IGNORECASE)
_BOTH_ZEROS = ", 0.0, -0.0"
_SHOWN = re.compile(r" - (?:Float64\(-0\)|CAST\(Float64\(-0\) AS Float32\))|, Float64\(0\), Float64\(-0\)")
_SHOWN_NAN = re.compile(r', ?(?:CAST\()?Utf8\("\+NaN"\)(?: AS Float(?:32|64)\))?\)')
_LIST = re.compile(r" IN \(\[(?P<items>[^\]]*)\]\)")
_FLOATING_ZERO = re.compile(r"Float(?:32|64)\((-?0)\)")
_ZERO = re.compile(r"0*\.?0*(?:[eE][+-]?\d+)?")
_NUMBER = re.compile(r"-?\d*\.?\d*(?:[eE][+-]?\d+)?(?<=[\d.])")
_EXACT = 2**53
_BEFORE_NAME = {"CASE": (1, "WHEN"), "NULLIF": (2, ","), "DISTINCT": (1, ")")}
"""How many tokens after a word the name begins whose bits count, and what follows it."""
_AFTER_KEY = frozenset(["ASC", "DESC", "NULLS", "ORDER", "ROWS", "RANGE", "GROUPS"])


def may_compare_bits(sql: str) -> bool:
    """Return whether a query may compare the bits of numbers."""
    return _WORDS.search(sql) is not None


def compares_bits(plan: str) -> bool:
    """Return whether an optimised plan, as DataFusion shows it, looks for one of the zeros in a list of doubles."""
    lists = (match["items"] for match in _LIST.finditer(plan))
    return any(len({*_FLOATING_ZERO.findall(items)}) == 1 for items in lists)


def without_signed_zeros(
    sql: str, columns: Mapping[str, str], values: Mapping[str, object], *, is_any: bool = False
) -> str:
    """Return a query that takes zero and minus zero for one value, in these columns, each with what removes the sign.

    `values` are those of its parameters, by `$n`; `is_any`: lists of other operands too, if a double holds all of their numbers.

    >>> query = "SELECT nullif(f, 0), rank() OVER (ORDER BY t.f) FROM t WHERE f IN (0, 2.5)"
    >>> without_signed_zeros(query, {"f": DOUBLE}, {})
    'SELECT nullif(f - (-0.0), (0) - (-0.0)), rank() OVER (ORDER BY t.f - (-0.0)) FROM t WHERE f IN (0, 2.5, 0.0, -0.0)'
    """
    tokens = tokenize(sql)
    closing = closing_places(tokens)
    edits = _second_arguments(tokens, closing, columns)
    for place in _keys(tokens, closing):
        name = fold_name(tokens[place])
        if tokens[place].kind in {Kind.WORD, Kind.NAME} and name in columns:
            edits.append((tokens[place].stop, tokens[place].stop, columns[name]))
            edits += _other_argument(tokens, place, closing, columns[name])
    for place, token in enumerate(tokens):
        closed = closing.get(place + 1, 0)
        if token.word != "IN" or not closed or tokens[place + 2].word in QUERIES or tokens[place + 2].is_sign("("):
            continue
        items = tokens[place + 2 : closed]
        edits += _member_edits(tokens, place, closed, columns)
        is_compared = _is_compared(tokens, place, columns) or (is_any and _are_doubles(items, values))
        if is_compared and _has_zero(items, values):
            edits.append((tokens[closed].start, tokens[closed].start, _BOTH_ZEROS))
    return edit_text(sql, edits)


def without_unsigned(name: str) -> str:
    """Return the name of a column as the client's query makes it.

    >>> without_unsigned("rank() ORDER BY [t.f - Float64(-0) ASC NULLS LAST]")
    'rank() ORDER BY [t.f ASC NULLS LAST]'
    """
    while (match := _SHOWN_NAN.search(name)) is not None:
        depth, start = 1, match.start()
        while depth and start:
            start -= 1
            depth += (name[start] in ")]}") - (name[start] in "([{")
        name = name[: start - len("nanvl")] + name[start + 1 : match.start()] + name[match.end() :]
    return _SHOWN.sub("", name)


def _keys(tokens: Sequence[Token], closing: Mapping[int, int]) -> Iterator[int]:
    """Yield the last place of each name whose bits count: alone as a key of a window, in CASE, nullif, count(DISTINCT …)."""
    for place, token in enumerate(tokens[:-1]):
        if token.is_sign("(") and (tokens[place - 1].word == "OVER" or _is_named_window(tokens, place)):
            yield from _window_keys(tokens, place, closing.get(place, place))
        elif token.word in _BEFORE_NAME:
            opening, following = _BEFORE_NAME[token.word]
            is_called = tokens[place + 1 if opening > 1 else place - 1].is_sign("(") or token.word == "CASE"
            last = _name(tokens, place + opening)
            if is_called and (tokens[last + 1].word or tokens[last + 1].text) == following:
                yield last


def _second_arguments(tokens: Sequence[Token], closing: Mapping[int, int], columns: Mapping[str, str]) -> list[Edit]:
    """Return the edits of the columns that nullif compares with something else than such a column."""
    edits = []
    for place, token in enumerate(tokens[:-2]):
        last = closing.get(place + 1, 0) - 1
        if token.word == "NULLIF" and last > 0 and tokens[last].kind in {Kind.WORD, Kind.NAME}:
            first = last
            while tokens[first - 1].is_sign("."):
                first -= 2
            compared = _name(tokens, place + 2)
            is_column = tokens[compared + 1].is_sign(",") and fold_name(tokens[compared]) in columns
            if tokens[first - 1].is_sign(",") and fold_name(tokens[last]) in columns and not is_column:
                edits.append((tokens[last].stop, tokens[last].stop, columns[fold_name(tokens[last])]))
    return edits


def _other_argument(tokens: Sequence[Token], place: int, closing: Mapping[int, int], unsigned: str) -> list[Edit]:
    """Return the edits of what nullif compares with its first argument, a name that ends at a place."""
    first = place
    while tokens[first - 1].is_sign("."):
        first -= 2
    if tokens[first - 2].word != "NULLIF":
        return []
    start, stop = tokens[place + 2].start, tokens[closing[first - 1]].start
    return [(start, start, "("), (stop, stop, f"){unsigned}")]


def _name(tokens: Sequence[Token], first: int) -> int:
    """Return the last place of the name, with its qualifiers, that begins at a place."""
    last = first
    while last + 3 < len(tokens) and tokens[last + 1].is_sign("."):
        last += 2
    return min(last, len(tokens) - 2)


def _is_named_window(tokens: Sequence[Token], place: int) -> bool:
    return (
        place >= len(("WINDOW", "w", "AS"))
        and tokens[place - 1].word == "AS"
        and (tokens[place - 3].word == "WINDOW" or tokens[place - 3].is_sign(","))
    )


def _window_keys(tokens: Sequence[Token], opened: int, closed: int) -> Iterator[int]:
    for place in range(opened + 1, closed - 1):
        if tokens[place].word == "BY" or tokens[place].is_sign(","):
            last = _name(tokens, place + 1)
            following = tokens[last + 1]
            if last < closed and (following.text in {",", ")"} or following.word in _AFTER_KEY):
                yield last


def _member_edits(tokens: Sequence[Token], place: int, closed: int, columns: Mapping[str, str]) -> list[Edit]:
    """Return the edits of the columns in a list, and of the column or literal that is compared with them.

    Those of integers have no sign, but may be the zero that a column with one is compared with.
    """
    last = place - 1 - (tokens[place - 1].word == "NOT")
    members = [
        tokens[at]
        for at in range(place + 2, closed)
        if tokens[at].kind in {Kind.WORD, Kind.NAME} and tokens[at + 1].text in {",", ")"}
    ]
    compared = tokens[last]
    if not members or compared.kind not in {Kind.WORD, Kind.NAME, Kind.NUMBER} or compared.word == "END":
        return []
    return [
        (token.stop, token.stop, columns[fold_name(token)])
        for token in [compared, *members]
        if token.kind is not Kind.NUMBER and fold_name(token) in columns
    ]


def _is_compared(tokens: Sequence[Token], place: int, columns: Collection[str]) -> bool:
    """Return whether a column alone is compared with the list of the IN at a place."""
    last = place - 1 - (tokens[place - 1].word == "NOT")
    return last >= 0 and tokens[last].kind in {Kind.WORD, Kind.NAME} and fold_name(tokens[last]) in columns


def _are_doubles(items: Sequence[Token], values: Mapping[str, object]) -> bool:
    """Return whether a list is of numbers alone, and doubles hold each."""
    texts = [text for token in items for text in (literals(token) if token.kind is Kind.LITERALS else [token.text])]
    numbers = [str(values.get(text, text)) for text in texts if text not in {",", "-"}]
    return all(_NUMBER.fullmatch(number) and abs(float(number)) < _EXACT for number in numbers)


def _has_zero(items: Sequence[Token], values: Mapping[str, object]) -> bool:
    """Return whether a list has a zero among its numbers and parameters."""
    for token in items:
        match token.kind:
            case Kind.NUMBER if _ZERO.fullmatch(token.text):
                return True
            case Kind.LITERALS if any(_ZERO.fullmatch(text.lstrip("-")) for text in literals(token)):
                return True
            case Kind.PARAMETER if values.get(token.text) == 0:
                return True
    return False


_FIRST, _LAST = 1678, 2261
"""The years that nanoseconds reach from beginning to end."""
_COMPARISONS = frozenset("<>=!")
_SUSPECTS = ("try_cast", "year")
_YEAR = frozenset(["YEAR", "YEARS", "ISOYEAR"])


def with_hidden_calls(sql: str, parameters: pa.RecordBatch | None) -> str:
    """Return a query whose comparisons DataFusion computes as they are written.

    >>> with_hidden_calls("SELECT extract(year FROM a) < 3000, extract(year FROM a) < 2000", None)
    'SELECT nullif(extract(year FROM a), -2147483648) < 3000, extract(year FROM a) < 2000'
    >>> with_hidden_calls("SELECT TRY_CAST(a AS INT) > 1, TRY_CAST(a AS INT)", None)
    'SELECT nullif(TRY_CAST(a AS INT), NULL) > 1, TRY_CAST(a AS INT)'
    """
    lowered = sql.lower()
    if not any(word in lowered for word in _SUSPECTS):
        return sql
    columns = {} if parameters is None else {f"${place}": column for place, column in enumerate(parameters.columns, 1)}
    tokens = tokenize(sql)
    closing = closing_places(tokens)
    edits: list[Edit] = []
    for start, stop, is_year in _calls(tokens, closing):
        compared = list(_compared_tokens(tokens, start, stop, closing))
        if any(_is_distant(token, columns) for token in compared) if is_year else compared:
            first, last = tokens[start].start, tokens[stop].stop
            edits += [(first, first, "nullif("), (last, last, ", -2147483648)" if is_year else ", NULL)")]
    return edit_text(sql, edits)


def _calls(tokens: Sequence[Token], closing: Mapping[int, int]) -> Iterator[tuple[int, int, bool]]:
    """Yield the first and the last place of each call that gives a year, and of each TRY_CAST; whether it is a year."""
    for place in range(len(tokens) - 3):
        part, stop = tokens[place + 2], closing.get(place + 1)
        is_extract = tokens[place].word == "EXTRACT" and part.word in _YEAR
        is_part = (
            tokens[place].word in {"DATE_PART", "DATEPART"} and part.kind in STRINGS and part.text.upper() in _YEAR
        )
        if stop is not None and (is_extract or is_part):
            yield place, stop, True
        elif stop is not None and tokens[place].word == "TRY_CAST":
            yield place, stop, False


def _compared_tokens(tokens: Sequence[Token], start: int, stop: int, closing: Mapping[int, int]) -> Iterator[Token]:
    """Yield the tokens that a call is compared with."""
    before = start - 1
    while before >= 0 and tokens[before].text in _COMPARISONS:
        before -= 1
    if before < start - 1:
        yield tokens[before]
    after = stop + 1 + (stop + 1 < len(tokens) and tokens[stop + 1].word == "NOT")
    if after < len(tokens) and tokens[after].word == "BETWEEN":
        yield from tokens[after + 1 : after + 4]
    elif after < len(tokens) and tokens[after].word == "IN":
        yield from tokens[after + 1 : closing.get(after + 1, after)]
    else:
        while after < len(tokens) and tokens[after].text in _COMPARISONS:
            after += 1
        yield from tokens[after : after + 2] if after > stop + 1 else ()


def _is_distant(token: Token, columns: Mapping[str, pa.Array]) -> bool:
    """Return whether a token is, or may be, a number that is no year of nanoseconds."""
    match token.kind:
        case Kind.NUMBER:
            return not _is_near(token.text)
        case Kind.LITERALS | Kind.COMPARISONS:
            return not all(map(_is_near, literals(token)))
        case Kind.PARAMETER:
            return token.text not in columns or not _is_near(str(columns[token.text][0].as_py()))
    return token.kind in {Kind.PARAMETERS, Kind.STRING} or token.is_sign("-")


def _is_near(year: str) -> bool:
    return year.isdigit() and _FIRST <= int(year) <= _LAST
