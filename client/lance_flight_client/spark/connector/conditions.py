"""Predicates of Spark's as conditions in SQL: those that mean the same to both, whatever the values are.

Numbers with a fraction are left to Spark, whose NaN and zeros compare otherwise.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import pyarrow as pa
from pyarrow import types
from pyspark.sql.types import DataType, StructType

from lance_flight_client.parameters import quote_name
from lance_flight_client.spark.types import spark_schema

Node = Mapping[str, Any]
Path: TypeAlias = tuple[str, ...]
"""The name of a column, and those of the fields inside structs down to one of them."""

MOST_VALUES = 1_000
"""Of an IN that becomes a condition."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS = range(1700, 2200)
"""Those whose moments fit into nanoseconds."""
_MOST_DAYS = 100_000
"""Before and after 1970, within which those years lie."""
_DAY = 86_400_000_000
_COMPARISONS = MappingProxyType({"=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="})
_DATED = (pa.date32(), pa.timestamp("us"))
_PARTS = frozenset({"year", "month", "day"})
_STEPS = MappingProxyType({"s": 1_000_000, "ms": 1_000})


def _is_moment(kind: pa.DataType) -> bool:
    # DataFusion compares moments of two zones neither with each other nor with literals.
    return types.is_timestamp(kind) and kind.tz in {None, "UTC"}


_EXACT = (
    types.is_integer,
    types.is_string,
    types.is_large_string,
    types.is_boolean,
    types.is_date32,
    _is_moment,
    types.is_decimal,
    types.is_binary,
    types.is_large_binary,
)
"""Types whose values Spark and Arrow compare alike."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Predicates over the columns of a table and the fields inside its structs, by their paths; `fields` as Spark has them."""

    fields: Mapping[Path, str]
    compared: frozenset[Path]
    dated: frozenset[Path] = frozenset()
    """Columns of dates and of moments without a zone, as they are stored: Spark rounds finer ones."""
    steps: Mapping[Path, int] = field(default_factory=dict)
    """Microseconds between two moments that a column of seconds or milliseconds can hold."""

    @classmethod
    def over(cls, schema: pa.Schema) -> Conditions:
        """Return those over the columns of a table."""
        known: StructType = spark_schema(schema)
        kinds = dict(_walk(schema, ()))
        compared = (path for path, kind in kinds.items() if any(test(_value_type(kind)) for test in _EXACT))
        dated = (path for path, kind in kinds.items() if kind in _DATED)
        steps = {
            path: _STEPS[kind.unit] for path, kind in kinds.items() if types.is_timestamp(kind) and kind.unit in _STEPS
        }
        fields = {path: _inside(known, path).json() for path in kinds}
        return cls(fields, frozenset(compared), frozenset(dated), steps)

    def sql(self, node: Node) -> str | None:
        """Return a predicate as a condition that is TRUE for the same rows; None for one that has no such condition."""
        name, arguments = str(node.get("function")), node.get("arguments", [])
        if name in _COMPARISONS:
            return self._compare(_COMPARISONS[name], *arguments)
        known = _CALLS.get(name)
        return None if known is None else known(self, arguments)

    def all_of(self, nodes: Sequence[Node]) -> str | None:
        """Return the condition of those predicates that have one, or imply one; None where there is nothing to fulfil."""
        # What is NULL fulfils nothing here: `<=>` says no more than `=`, which prunes.
        plain = ({**node, "function": "="} if node.get("function") == "<=>" else node for node in nodes)
        found = [condition for node in plain if (condition := self.sql(node) or self.implied(node)) is not None]
        return " AND ".join(f"({condition})" for condition in found) or None

    def implied(self, node: Node) -> str | None:
        """Return a condition that holds wherever a predicate about the year of a moment with a zone does; None for another one.

        Spark does not say in which zone it sees the moment: no zone is a day away from UTC.
        """
        sign, arguments = _COMPARISONS.get(str(node.get("function"))), node.get("arguments", [])
        if sign is None:
            return None
        left, right = arguments
        if "literal" in left:
            left, right, sign = right, left, _TURNED[sign]
        days = _days(left, right)
        inner = left
        while inner.get("function") in {"CAST", "EXTRACT"}:
            (inner,) = inner["arguments"]
        column = self._column(inner)
        if days is None or column is None or self.fields[_path(inner)] != '"timestamp"' or not self._is_compared(inner):
            return None
        bounds = (days.stop if sign == ">" else days.start) - 1, (days.start if sign == "<" else days.stop) + 1
        first, last = (_moment(day * _DAY, "Z") for day in bounds)
        least = None if first is None or sign not in {"=", ">", ">="} else f"{column} >= {first}"
        most = None if last is None or sign not in {"=", "<", "<="} else f"{column} < {last}"
        return " AND ".join(filter(None, (least, most))) or None

    def _compare(self, sign: str, left: Node, right: Node) -> str | None:
        if "literal" in left and ("column" in right or right.get("function") == "EXTRACT"):
            return self._compare(_TURNED[sign], right, left)
        if left.get("function") == "EXTRACT":
            return self._part_compared(sign, left, right)
        column = self._column(left)
        other = self._column(right) if "column" in right else self._literal(left, right)
        if column is None or other is None or not all(map(self._is_compared, (left, right))):
            return None
        return f"{column} {sign} {other}"

    def _part_compared(self, sign: str, part: Node, value: Node) -> str | None:
        """Return a comparison of the year, month or day of a column with a number.

        Those of a moment with a zone are Spark's own: it does not say which zone it sees the moment in.
        """
        (source,) = part["arguments"]
        inner = source["arguments"][0] if source.get("function") == "CAST" and source["type"] == '"date"' else source
        column, field = self._column(inner), str(part["field"]).lower()
        if column is None or field not in _PARTS or _path(inner) not in self.dated:
            return None
        if value.get("type") != '"integer"' or value.get("literal") is None:
            return None
        return f"date_part('{field}', {column}) {sign} {value['literal']}"

    def _column(self, node: Node) -> str | None:
        path = _path(node)
        return ".".join(map(quote_name, path)) if path in self.fields else None

    def _is_compared(self, node: Node) -> bool:
        return "literal" in node or _path(node) in self.compared

    def _literal(self, column: Node, node: Node) -> str | None:
        """Return a literal of the type of a column; None for NULL and for what has no literal."""
        if node.get("literal") is None or self._column(column) is None:
            return None
        name = _path(column)
        if node["type"] != self.fields[name] or (name in self.steps and int(node["literal"]) % self.steps[name]):
            # A moment between two of a column's would be cut to one of them.
            return None
        return literal(node["type"], node["literal"])

    def _in(self, arguments: Sequence[Node]) -> str | None:
        column, *values = arguments
        if self._column(column) is None or not self._is_compared(column) or not 1 <= len(values) <= MOST_VALUES:
            return None
        found = [self._literal(column, value) for value in values]
        if None in found:
            return None
        return f"{self._column(column)} IN ({', '.join(map(str, found))})"

    def _null(self, arguments: Sequence[Node], words: str) -> str | None:
        column = self._column(arguments[0])
        return None if column is None else f"{column} {words}"

    def _join(self, arguments: Sequence[Node], word: str) -> str | None:
        parts = [self.sql(argument) for argument in arguments]
        return None if None in parts else f" {word} ".join(f"({part})" for part in parts)

    def _not(self, arguments: Sequence[Node]) -> str | None:
        part = self.sql(arguments[0])
        return None if part is None else f"NOT ({part})"

    def _same(self, arguments: Sequence[Node]) -> str | None:
        left, right = arguments
        equal = self._compare("=", left, right)
        if equal is None or ("column" in left and "column" in right):
            return None
        return f"coalesce({equal}, FALSE)"

    def _text(self, arguments: Sequence[Node], function: str) -> str | None:
        column, part = arguments
        text = self._literal(column, part)
        if text is None or part["type"] != '"string"':
            return None
        if function == "starts_with" and not set(part["literal"]) & set("%_\\"):
            return f"{self._column(column)} LIKE {text[:-1]}%'"
        return f"{function}({self._column(column)}, {text})"


def _path(node: Node) -> Path:
    return tuple(node.get("column", ()))


def _walk(fields: Iterable[pa.Field], above: Path) -> Iterator[tuple[Path, pa.DataType]]:
    for each in fields:
        yield (*above, each.name), each.type
        if types.is_struct(each.type):
            yield from _walk(each.type, (*above, each.name))


def _inside(known: StructType, path: Path) -> DataType:
    found: DataType = known
    for name in path:
        found = cast("StructType", found)[name].dataType
    return found


def _days(left: Node, right: Node) -> range | None:
    """Return the days since 1970 of the year that the year of something is compared with."""
    kind, text = right.get("type"), right.get("literal")
    if text is None:
        return None
    if left.get("function") == "EXTRACT" and str(left["field"]).upper() == "YEAR" and kind == '"integer"':
        year = int(text)
        if year in _YEARS:
            return range(*(date(each, 1, 1).toordinal() - _EPOCH.toordinal() for each in (year, year + 1)))
    return None


def literal(kind: str, text: str) -> str | None:
    """Return a value of Spark's as SQL; None for one that SQL cannot say, or not exactly.

    >>> literal('"date"', "20000"), literal('"string"', "it's")
    ("DATE '2024-10-04'", "'it''s'")
    """
    if kind in {'"long"', '"integer"', '"short"', '"byte"', '"boolean"'}:
        return text
    if kind == '"string"':
        return None if "\0" in text else "'" + text.replace("'", "''") + "'"
    if kind == '"date"':
        return _date(int(text))
    if kind in {'"timestamp"', '"timestamp_ntz"'}:
        return _moment(int(text), "Z" if kind == '"timestamp"' else "")
    if kind.startswith('"decimal('):
        return None if "E" in text else f"CAST('{text}' AS {kind.strip(chr(34)).upper()})"
    return f"X'{base64.b64decode(text).hex()}'" if kind == '"binary"' else None


def _date(days: int) -> str | None:
    if abs(days) > _MOST_DAYS:
        return None
    found = date.fromordinal(_EPOCH.toordinal() + days)
    return f"DATE '{found.isoformat()}'" if found.year in _YEARS else None


def _moment(microseconds: int, zone: str) -> str | None:
    if abs(microseconds) > _MOST_DAYS * _DAY:
        return None
    moment = _EPOCH + timedelta(microseconds=microseconds)
    text = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
    return f"TIMESTAMP '{text}{zone}'" if moment.year in _YEARS else None


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if types.is_dictionary(kind) else kind


_TURNED = MappingProxyType({"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="})

_CALLS: Mapping[str, Callable[[Conditions, Sequence[Node]], str | None]] = MappingProxyType(
    {
        "<=>": lambda self, given: self._same(given),
        "IN": lambda self, given: self._in(given),
        "IS_NULL": lambda self, given: self._null(given, "IS NULL"),
        "IS_NOT_NULL": lambda self, given: self._null(given, "IS NOT NULL"),
        "AND": lambda self, given: self._join(given, "AND"),
        "OR": lambda self, given: self._join(given, "OR"),
        "NOT": lambda self, given: self._not(given),
        "STARTS_WITH": lambda self, given: self._text(given, "starts_with"),
        "ENDS_WITH": lambda self, given: self._text(given, "ends_with"),
        "CONTAINS": lambda self, given: self._text(given, "contains"),
    }
)
"""Functions beside the comparisons, by the names that Spark gives them."""
