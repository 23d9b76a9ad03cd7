"""Numbers that no double has: they are decimals, and DataFusion would round them to doubles.

A number that is the shortest text of a double stays one, unless it is beside a decimal (`query.decimal_numbers`), and so do the numbers of a vector.
"""

from __future__ import annotations

import re
from decimal import Decimal

from lance_flight.engine.sql.tokens import Edit, Kind, Token, spelled_out

MOST_EXACT = 15
"""Most digits of a number that a double always keeps."""
MOST_DECIMAL = 76
"""Most digits of a decimal; a longer number stays a double."""
_MOST_WHOLE = 2**64
_LONG = re.compile(rf"\d[\d.]{{{MOST_EXACT}}}")


def decimal_edits(text: str) -> list[Edit]:
    """Return the edits that make decimals of numbers that a double would round.

    >>> decimal_edits("SELECT 1.5, 1234567890123456.78, 0.30000000000000004")
    [(12, 31, "CAST('1234567890123456.78' AS DECIMAL(18, 2))")]
    """
    if _LONG.search(text) is None:
        return []
    edits, depth = [], 0
    for token in spelled_out(text):
        if token.kind is Kind.SIGN:
            depth += (token.text == "[") - (token.text == "]")
        elif token.kind is Kind.NUMBER and depth == 0 and _is_decimal(token.text):
            edits.append((token.start, token.stop, _decimal(token.text)))
    return edits


def row_edits(text: str) -> list[Edit]:
    """Return the same edits for rows of literals, where a column with one such number has decimals alone: beside doubles they lose digits.

    >>> row_edits("VALUES (0.1, 0.1), (0.2, 1234567890123456.78)")
    [(13, 16, "CAST('0.1' AS DECIMAL(1, 1))"), (25, 44, "CAST('1234567890123456.78' AS DECIMAL(18, 2))")]
    """
    if _LONG.search(text) is None:
        return []
    columns: dict[int, list[Token]] = {}
    depth = vectors = column = 0
    for token in spelled_out(text):
        if token.kind is Kind.SIGN:
            depth += (token.text == "(") - (token.text == ")")
            vectors += (token.text == "[") - (token.text == "]")
            column = 0 if depth == 0 else column + (token.text == "," and depth == 1 and vectors == 0)
        elif token.kind is Kind.NUMBER and vectors == 0:
            columns.setdefault(column, []).append(token)
    return [
        (token.start, token.stop, _decimal(token.text))
        for numbers in columns.values()
        if any(_is_decimal(token.text) for token in numbers)
        for token in numbers
        if _is_decimal(token.text) or _is_fraction(token.text)
    ]


def _is_fraction(number: str) -> bool:
    digits, scale = _size(number)
    return scale > 0 and digits <= MOST_DECIMAL and number.replace(".", "").isdigit()


def _decimal(number: str) -> str:
    digits, scale = _size(number)
    return f"CAST('{number}' AS DECIMAL({digits}, {scale}))"


def _is_decimal(number: str) -> bool:
    """Return whether a number is a decimal: no double has its text, and no integer of 64 bits."""
    digits, scale = _size(number)
    if not (number.replace(".", "").isdigit() and MOST_EXACT < digits <= MOST_DECIMAL):
        return False
    return (scale > 0 or int(number) >= _MOST_WHOLE) and Decimal(number) != Decimal(repr(float(number)))


def _size(number: str) -> tuple[int, int]:
    """Return the digits of a number, and those behind its point."""
    whole, _, fraction = number.partition(".")
    return max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction)
