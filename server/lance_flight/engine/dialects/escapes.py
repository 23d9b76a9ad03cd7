"""Escapes of ODBC and JDBC, `{fn …}`, `{d '…'}` and the like, rewritten in the words of DataFusion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from lance_flight.engine.sql.tokens import Kind, Token, closing_places, edit_text, tokenize
from lance_flight.errors import LimitExceeded, SqlError

MOST_DEPTH = 32
"""Most escapes within one another."""
MOST_GROWTH = 1 << 20
"""Most characters of an escape in the words of DataFusion: some of these say an argument twice."""
_LITERALS = MappingProxyType({"D": "DATE", "T": "TIME", "TS": "TIMESTAMP", "ESCAPE": "ESCAPE"})
_WORDS = frozenset({*_LITERALS, "FN", "OJ"})


def without_escapes(sql: str) -> str:
    """Return a statement whose escapes are in the words of DataFusion; braces that begin none are left alone.

    >>> without_escapes("SELECT {fn TRUNCATE(a, 1)} FROM t WHERE d = {d '2024-01-31'}")
    "SELECT trunc(a, 1) FROM t WHERE d = DATE '2024-01-31'"
    """
    if "{" not in sql:
        return sql
    tokens = tokenize(sql)
    opened: list[tuple[int, bool]] = []
    # Inner escapes come first: an outer one is made of what they have become.
    for place, token in enumerate(tokens):
        if token.is_sign("{"):
            opened.append((place, _is_escape(tokens, place)))
            if sum(is_escape for _, is_escape in opened) > MOST_DEPTH:
                raise LimitExceeded(f"there are more than {MOST_DEPTH} escapes within one another; expected fewer")
        elif token.is_sign("}") and opened:
            opened.pop()
    return _Text(sql, tokens).between(0, len(tokens), 0, len(sql))


def _is_escape(tokens: Sequence[Token], place: int) -> bool:
    word, after = (tokens[at] if at < len(tokens) else None for at in (place + 1, place + 2))
    if word is None or after is None or word.word not in _WORDS:
        return False
    return (
        after.kind is Kind.STRING
        if word.word in _LITERALS
        else after.kind in {Kind.WORD, Kind.NAME} or after.is_sign("(")
    )


class _Text:
    """A statement with escapes, and its tokens."""

    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        self.sql = sql
        self.tokens = tokens
        self.closing = closing_places(tokens, "{", "}")

    def between(self, first: int, last: int, start: int, stop: int) -> str:
        """Return the text from `start` to `stop`, which the tokens from `first` up to before `last` lie in, without escapes."""
        parts, place = [], first
        while place < last:
            end = self.closing.get(place)
            if end is None or not _is_escape(self.tokens, place):
                place += 1
                continue
            parts += [self.sql[start : self.tokens[place].start], self._escape(place, end)]
            start, place = self.tokens[end].stop, end + 1
        return "".join([*parts, self.sql[start:stop]])

    def _escape(self, place: int, end: int) -> str:
        word = self.tokens[place + 1]
        inside = self.between(place + 2, end, self.tokens[place + 2].start, self.tokens[end].start).strip()
        if word.word in _LITERALS:
            return f"{_LITERALS[word.word]} {inside}"
        rewritten = inside if word.word == "OJ" else _function(inside)
        if len(rewritten) > MOST_GROWTH:
            raise LimitExceeded(f"the escape at character {word.start} is longer than {MOST_GROWTH:,} characters")
        return rewritten


def _function(call: str) -> str:
    """Return a call of a function of ODBC's in the words of DataFusion."""
    tokens = tokenize(call)
    name = tokens[0].word
    write = _FUNCTIONS.get(name)
    if write is None or len(tokens) < 3 or not tokens[1].is_sign("(") or not tokens[-1].is_sign(")"):  # noqa: PLR2004
        return call
    return write(name, _arguments(call, tokens))


def _arguments(call: str, tokens: Sequence[Token]) -> list[str]:
    """Return the arguments of a call, as they are written."""
    depth, starts = 0, [tokens[1].stop]
    stops = []
    for token in tokens[2:-1]:
        if token.kind is Kind.SIGN:
            depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0 and token.is_sign(","):
            stops.append(token.start)
            starts.append(token.stop)
    stops.append(tokens[-1].start)
    arguments = [call[start:stop].strip() for start, stop in zip(starts, stops, strict=True)]
    return [] if arguments == [""] else arguments


_Write = Callable[[str, Sequence[str]], str]


def _check(template: str, counts: tuple[int, ...], name: str, arguments: Sequence[str]) -> str:
    if len(arguments) not in counts:
        expected = " or ".join(map(str, counts))
        raise SqlError(f"{{fn {name}(…)}} has {len(arguments)} arguments; expected {expected}")
    # One pass: an argument may have braces of its own.
    return edit_text(template, [(at, at + 2, arguments[int(template[at + 1])]) for at in _marks(template)])


def _marks(template: str) -> list[int]:
    return [at for at, sign in enumerate(template) if sign == "#"]


def _as(template: str, *counts: int) -> _Write:
    """Write a function by a template with `#0`, `#1` … for its arguments."""
    return partial(_check, template, counts or (len(set(_numbers(template))),))


def _numbers(template: str) -> list[str]:
    return [template[at + 1] for at in _marks(template)]


def _rename(to: str) -> _Write:
    return lambda _, arguments: f"{to}({', '.join(arguments)})"


_CONVERTED: Mapping[str, str] = MappingProxyType(
    {
        **{
            name: name
            for name in (
                "BIGINT",
                "SMALLINT",
                "TINYINT",
                "INTEGER",
                "DOUBLE",
                "REAL",
                "FLOAT",
                "DATE",
                "TIME",
                "BOOLEAN",
            )
        },
        **dict.fromkeys(
            ("VARCHAR", "CHAR", "LONGVARCHAR", "WVARCHAR", "WCHAR", "WLONGVARCHAR", "NVARCHAR", "NCHAR"), "VARCHAR"
        ),
        **dict.fromkeys(("DECIMAL", "NUMERIC"), "DECIMAL(38, 10)"),
        **dict.fromkeys(("VARBINARY", "BINARY", "LONGVARBINARY"), "VARBINARY"),
        **dict.fromkeys(("TIMESTAMP", "TYPE_TIMESTAMP"), "TIMESTAMP"),
        "BIT": "BOOLEAN",
        "TYPE_DATE": "DATE",
        "TYPE_TIME": "TIME",
    }
)


def _convert(name: str, arguments: Sequence[str]) -> str:
    value, kind = arguments if len(arguments) == 2 else ("", "")  # noqa: PLR2004
    known = _CONVERTED.get(kind.upper().removeprefix("SQL_"))
    if known is None:
        listed = ", ".join(sorted(f"SQL_{each}" for each in _CONVERTED))
        raise SqlError(
            f"{{fn {name}(…)}} has the type {kind or 'of no argument'}; expected two arguments, the second one of {listed}"
        )
    return f"CAST({value} AS {known})"


_SECONDS = MappingProxyType({"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": 86_400, "WEEK": 604_800})
_MONTHS = MappingProxyType({"MONTH": 1, "QUARTER": 3, "YEAR": 12})


def _unit(name: str, arguments: Sequence[str]) -> str:
    unit = arguments[0].upper().removeprefix("SQL_TSI_") if len(arguments) == 3 else ""  # noqa: PLR2004
    if unit not in _SECONDS and unit not in _MONTHS:
        listed = ", ".join(f"SQL_TSI_{each}" for each in (*_SECONDS, *_MONTHS))
        raise SqlError(f"{{fn {name}(…)}} is not understood; expected three arguments, the first one of {listed}")
    return unit


def _timestamp_add(name: str, arguments: Sequence[str]) -> str:
    unit, (_, count, moment) = _unit(name, arguments), arguments
    days = _SECONDS.get(unit, 0) // _SECONDS["DAY"]
    number, step = (
        (_MONTHS[unit], "months") if unit in _MONTHS else (days or _SECONDS[unit], "days" if days else "seconds")
    )
    # A date has no seconds to add to.
    begin = f"CAST({moment} AS TIMESTAMP)" if step == "seconds" else moment
    return f"({begin} + CAST(CAST(CAST({count} AS BIGINT) * {number} AS VARCHAR) || ' {step}' AS INTERVAL))"


def _timestamp_diff(name: str, arguments: Sequence[str]) -> str:
    unit, (_, begin, end) = _unit(name, arguments), arguments
    if unit in _SECONDS:
        seconds = f"CAST(date_part('epoch', {end}) - date_part('epoch', {begin}) AS BIGINT)"
        return f"({seconds} / {_SECONDS[unit]})"
    months = [f"date_part('year', {value}) * 12 + date_part('month', {value}) - 1" for value in (end, begin)]
    return f"(({months[0]}) / {_MONTHS[unit]} - ({months[1]}) / {_MONTHS[unit]})"


_FUNCTIONS: Mapping[str, _Write] = MappingProxyType(
    {
        "DAYOFWEEK": _as("(date_part('dow', #0) + 1)"),
        "CURRENT_DATE": _as("current_date()", 0),
        "CURRENT_TIME": _as("current_time()", 0, 1),
        "CURRENT_TIMESTAMP": _as("now()", 0, 1),
        "TIMESTAMPADD": _timestamp_add,
        "TIMESTAMPDIFF": _timestamp_diff,
        "LENGTH": _rename("character_length"),
        "TRUNCATE": _rename("trunc"),
        "RAND": _as("random()", 0, 1),
        "LOG": _rename("ln"),
        "USER": _as("current_user", 0),
        "CONVERT": _convert,
    }
)
"""Functions of ODBC whose arguments or meaning are others in SQL here; all others are written as they are."""
