"""Numbers that no double has: they are decimals, and DataFusion would round them to doubles.

A number that is the shortest text of a double stays one, and so do the numbers of a vector. DataFusion 55 has an option,
`datafusion.sql_parser.parse_float_as_decimal`, which would make decimals of all others too, whose quotients have few digits.
"""

from __future__ import annotations

import re
from decimal import Decimal

from lance_flight.engine.sql.tokens import Kind, spelled_out

MOST_EXACT = 15
"""Most digits of a number that a double always keeps."""
MOST_DECIMAL = 76
"""Most digits of a decimal; a longer number stays a double."""
_MOST_WHOLE = 2**64
_LONG = re.compile(rf"\d[\d.]{{{MOST_EXACT}}}")


def decimal_edits(text: str) -> list[tuple[int, int, str]]:
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
            digits, scale = _size(token.text)
            edits.append((token.start, token.stop, f"CAST('{token.text}' AS DECIMAL({digits}, {scale}))"))
    return edits


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
