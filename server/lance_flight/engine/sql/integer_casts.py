"""Casts of doubles and decimals to integers round, as in PostgreSQL and DuckDB: DataFusion 55 cuts what is behind the point.

Decimals, and numbers with a point, are rounded half away from zero, doubles to the even one of two integers. The types of what is
cast are asked by planning (`engine.sql.operand_types`). A double is rounded by a typed function, a decimal by `round(round(a))`, which
names of columns leave out. Unnecessary with a release of DataFusion that rounds there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.engine.sql.checked_arithmetic import ROUNDED
from lance_flight.engine.sql.comparisons import Operands
from lance_flight.engine.sql.operand_types import OPERAND, Span, named_alike, wrap_spans
from lance_flight.engine.sql.text_lengths import first_of_operand
from lance_flight.engine.sql.tokens import Kind, tokenize

_INTEGERS = frozenset(["TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "INT2", "INT4", "INT8", "INT64"])
_CASTS = frozenset(["CAST", "TRY_CAST"])
_MAY_CAST = re.compile(rf"(?:\bAS\s+|::\s*)(?:{'|'.join(sorted(_INTEGERS))})\b", re.IGNORECASE)
_WHOLE = frozenset(["ROUND", "FLOOR", "CEIL", "CEILING", "TRUNC", "COUNT", "LENGTH", "STRPOS"])
"""Functions whose values have nothing behind the point, unless they are given a number of digits."""
_POINT = re.compile(r"\d*\.(?P<fraction>\d{1,18})")
_ROUND = "round(round("


def may_cast_to_integers(text: str) -> bool:
    """Return whether a query may have a cast to an integer."""
    return _MAY_CAST.search(text) is not None


def with_cast_operands(text: str) -> tuple[str, list[str]]:
    """Return a text with what is cast to integers in functions that tell its type, and the names of the functions.

    >>> with_cast_operands("SELECT CAST(a * 2 AS INT), b::BIGINT, CAST(round(c) AS INT), CAST(d AS REAL) FROM t")[0]
    'SELECT CAST(__operand_call0(a * 2) AS INT), __operand_call1(b)::BIGINT, CAST(round(c) AS INT), CAST(d AS REAL) FROM t'
    """
    operands = Operands(tokenize(text))
    return named_alike(text, operands, list(_cast(operands)))


def with_rounded_casts(
    text: str, names: Sequence[str], types: Mapping[str, pa.DataType]
) -> tuple[str, dict[str, pa.DataType]]:
    """Return the text with what is cast rounded, and the type of the argument of each typed function by its name."""
    operands = Operands(tokenize(text))
    around: dict[Span, tuple[str, str]] = {}
    rounded: dict[str, pa.DataType] = {}
    for span, name in zip(_cast(operands), names, strict=True):
        kind, number = types.get(name), _POINT.fullmatch(operands.text(span[1] - 1))
        if number is not None and span[1] - span[0] <= len("-1"):
            around[span] = f"{_ROUND}CAST(", f" AS DECIMAL(38, {len(number['fraction'])}))))"
        elif kind is not None and pa.types.is_floating(kind):
            function = name.replace(OPERAND, ROUNDED)
            rounded[function] = kind
            around[span] = f"{function}(", ")"
        elif kind is not None and pa.types.is_decimal(kind) and kind.scale > 0:
            around[span] = _ROUND, "))"
    return wrap_spans(text, around), rounded


def round_doubles(columns: Sequence[pa.Array]) -> pa.Array:
    """Round floats to whole ones."""
    return pc.round(columns[0], 0, round_mode="half_to_even")


def without_rounds(name: str) -> str:
    """Return the name of a column as it is without the rounding of what is cast to an integer.

    >>> without_rounds("round(round(t.m * Int64(2))) + Int64(1)")
    't.m * Int64(2) + Int64(1)'
    """
    while (start := name.find(_ROUND)) >= 0:
        depth, stop = 2, start + len(_ROUND)
        while stop < len(name) and depth > 1:
            depth += (name[stop] == "(") - (name[stop] == ")")
            stop += 1
        name = name[:start] + name[start + len(_ROUND) : stop - 1] + name[stop + 1 :]
    return name


def _cast(operands: Operands) -> Iterator[Span]:
    """Yield what is cast to an integer, but for whole numbers and texts that are written there, and values that are whole."""
    tokens = operands.tokens
    for at, token in enumerate(tokens):
        if token.word not in _INTEGERS or at < len("a::"):
            continue
        if tokens[at - 1].is_sign("::"):
            span = first_of_operand(tokens, at - 2, operands.partners), at - 1
        elif tokens[at - 1].word == "AS":
            closed = at + 1 + (operands.word_at(at + 1) in {"UNSIGNED", "SIGNED"})
            opened = operands.partners.get(closed, -1)
            if not operands.is_sign(closed, ")") or operands.word_at(opened - 1) not in _CASTS:
                continue
            span = opened + 1, at - 1
        else:
            continue
        if span[0] < span[1] and not _is_whole(operands, *span):
            yield span


def _is_whole(operands: Operands, start: int, stop: int) -> bool:
    token, is_last = operands.tokens[start], operands.partners.get(start + 1) == stop - 1
    if stop - start == 1 and (token.kind is Kind.STRING or (token.kind is Kind.NUMBER and token.is_whole)):
        return True
    return token.word in _WHOLE and is_last and not any(each.is_sign(",") for each in operands.tokens[start:stop])
