"""Comparisons that DataFusion 55 folds into wrong ones: their calls are hidden from its optimiser.

`extract(year FROM ts) < 3000` becomes a comparison of the column with the first moment of the year, which overflows where the
column has nanoseconds. Unnecessary with a release of https://github.com/apache/datafusion/pull/25140.
`try_cast(x AS INT) > 1` becomes `x > 1`, which is true where the cast overflows and gives NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lance_flight.engine.sql.tokens import STRINGS, Edit, Kind, Token, closing_places, edit_text, literals, tokenize

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
