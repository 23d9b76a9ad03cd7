"""What Spark's expressions mean, over rows in Python: an oracle for the SQL that the connector makes of them."""

from __future__ import annotations

import base64
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

Node = Mapping[str, Any]
Row = Mapping[str, Any]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TEXTS: Mapping[str, Callable[[str, str], bool]] = {
    "STARTS_WITH": str.startswith,
    "ENDS_WITH": str.endswith,
    "CONTAINS": operator.contains,
}


def plain(value: Any) -> Any:
    """Return a value as Spark holds it: days of a date, microseconds of a moment; whole numbers are alike, whatever their type."""
    if isinstance(value, Decimal):
        return value if value.as_tuple().exponent else int(value)
    if isinstance(value, datetime):
        return (value.replace(tzinfo=value.tzinfo or UTC) - EPOCH) // timedelta(microseconds=1)
    return (value - EPOCH.date()).days if isinstance(value, date) else value


def ordered(value: Any) -> Any:
    """Return a key of a value in Spark's order: NaN is the greatest, and equal to itself."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def literal(node: Node) -> Any:
    kind, text = node["type"].strip('"'), node["literal"]
    if text is None or kind == "string":
        return text
    if kind == "boolean":
        return text == "true"
    if kind == "binary":
        return base64.b64decode(text)
    if kind in {"double", "float"}:
        return float(text)
    return Decimal(text) if kind.startswith("decimal") else int(text)


def value(node: Node, row: Row) -> Any:
    """Evaluate an expression; None for NULL."""
    if "column" in node:
        (name,) = node["column"]
        return plain(row[name])
    if "literal" in node:
        return literal(node)
    name, arguments = node["function"], node["arguments"]
    if name in {"AND", "OR"}:
        found = [value(each, row) for each in arguments]
        decided = name == "OR"
        return decided if decided in found else None if None in found else not decided
    if name in {"IS_NULL", "IS_NOT_NULL"}:
        return (value(arguments[0], row) is None) == (name == "IS_NULL")
    values = [value(each, row) for each in arguments]
    if name == "<=>":
        return (None in values and values == [None, None]) or (None not in values and _compared("=", *values))
    if name == "IN":
        first, *others = values
        return None if first is None else True if first in others else None if None in others else False
    return None if None in values else _called(node, values)


def _called(node: Node, values: Sequence[Any]) -> Any:
    name = node["function"]
    if name in COMPARED:
        return _compared(name, *values)
    if name in TEXTS:
        return TEXTS[name](*values)
    if name == "NOT":
        return not values[0]
    if name == "CAST" and node["type"] == '"date"':
        return values[0] // 86_400_000_000
    if name == "EXTRACT":
        return getattr(date.fromordinal(EPOCH.toordinal() + values[0]), str(node["field"]).lower())
    raise NotImplementedError(node)


def _compared(sign: str, left: Any, right: Any) -> bool:
    return COMPARED[sign](ordered(left), ordered(right))


def matching(predicates: Iterable[Node], rows: Iterable[Row]) -> list[Row]:
    """Return the rows that fulfil all predicates."""
    wanted = list(predicates)
    return [row for row in rows if all(value(each, row) is True for each in wanted)]


def aggregated(rows: Sequence[Row], aggregates: Sequence[Node], keys: Sequence[Node]) -> list[list[Any]]:
    """Return a row for each group: its keys, and its aggregates."""
    groups: dict[tuple[Any, ...], list[Row]] = {} if keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(value(key, row) for key in keys), []).append(row)
    return [[*key, *(_aggregate(each, of) for each in aggregates)] for key, of in groups.items()]


def _aggregate(node: Node, rows: Sequence[Row]) -> Any:
    if node["function"] == "COUNT_STAR":
        return len(rows)
    (of,) = node["arguments"]
    found = [each for row in rows if (each := value(of, row)) is not None]
    if node["function"] == "COUNT":
        return len(set(found)) if node["distinct"] else len(found)
    least = min if node["function"] == "MIN" else max
    return least(found, key=ordered, default=None)
