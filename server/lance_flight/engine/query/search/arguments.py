"""Calls of search functions in a query, and their arguments: literals, parameters, or the results of queries.

Their arguments are texts of SQL: first those that have a place, then `name => value` in any order.

A vector search has a column and a metric, one query vector or many, and pages of its results.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.search.row_ranking import DISTANCE
from lance_flight.catalog.search.searching import VectorSearch
from lance_flight.catalog.tables.rows import ROW_ID
from lance_flight.engine.query.search.search_target import Planner, SearchTarget
from lance_flight.engine.sql.references import Cursor
from lance_flight.engine.sql.tokens import QUOTED, Kind, Token, tokenize
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.errors import LimitExceeded, SqlError
from lance_flight.lru_cache import for_short_texts
from lance_flight.model.arrow_types import is_list, is_multivector, is_vector, vector_type
from lance_flight.model.index_kinds import KINDS, IndexKind, fitting_metric, metrics_of

MOST_ROWS = 10_000
DEFAULT_ROWS = 10
_KNOWN, _LONGEST_KNOWN = 128, 64 << 10
"""Number of literals whose values are cached, and the longest of them in characters."""
_AFTER = 2
"""Values of `after`."""

_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_PARAMETER = re.compile(r"\$[1-9]\d{0,4}")
_LIST = rf"\[\s*{_NUMBER}(?:\s*,\s*{_NUMBER})*\s*\]"
_NUMBERS = re.compile(_LIST)
_LISTS = re.compile(rf"\[\s*{_LIST}(?:\s*,\s*{_LIST})*\s*\]")

Evaluate = Callable[[str], pa.Scalar]
"""Function that evaluates an expression to its one value."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of one call; an unbound parameter has no value yet."""

    function: str
    texts: Mapping[str, str]
    evaluate: Evaluate
    is_bound: bool
    parameters: pa.RecordBatch | None = None

    def value(self, name: str) -> pa.Scalar | None:
        """Return the value of an argument; None if it was not given, is NULL, or is not known yet."""
        text = self.texts.get(name)
        value = None if text is None else self._compute(text)
        return value if value is not None and value.is_valid else None

    def _compute(self, text: str) -> pa.Scalar | None:
        """Return the value of an expression; None if it is not known yet."""
        if not self.is_bound and parameter_count(text) > 0:
            return None
        if self.parameters is not None and _PARAMETER.fullmatch(text):
            return self.parameters.column(int(text[1:]) - 1)[0]
        return _literal_value(text) or self.evaluate(text)

    def text(self, name: str) -> str | None:
        """Return the value of a text argument."""
        value = self.value(name)
        if value is None:
            return None
        if not isinstance(value, pa.StringScalar | pa.LargeStringScalar | pa.StringViewScalar):
            raise self.error(name, value.as_py(), "a text")
        return str(value.as_py())

    def name(self, name: str) -> str:
        """Return an argument that names what to search, which must be known before parameters are bound."""
        text = self.text(name)
        if not text:
            raise SqlError(f"{name} of {self.function} is {self.texts[name]}; expected a name, as a text in quotes")
        return text

    def names(self, name: str) -> list[str]:
        """Return an argument that is one name or an array of names."""
        value = self.value(name)
        if value is None or not pa.types.is_nested(value.type):
            return [self.name(name)]
        names = value.as_py()
        if not isinstance(names, list) or not names or not all(isinstance(value, str) and value for value in names):
            raise self.error(name, names, "a name, or an array of names: ['title^2', 'body']")
        return names

    def numbers(self, name: str) -> list[float] | None:
        """Return the value of an argument that is an array of numbers."""
        value = self.value(name)
        if value is None:
            return None
        numbers = value.as_py()
        if not isinstance(numbers, list) or not all(map(_is_number, numbers)):
            raise self.error(name, numbers, "an array of numbers")
        return [float(value) for value in numbers]

    def number(self, name: str, *, least: int = 1, most: int = 2**31 - 1) -> int | None:
        """Return the value of an argument that is a whole number."""
        value = self.value(name)
        if value is None:
            return None
        number = value.as_py()
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise self.error(name, number, f"a whole number from {least} to {most}")
        return number

    def decimal(self, name: str) -> float | None:
        """Return the value of an argument that is a finite number, as the nearest float32, which distances are."""
        value = self.value(name)
        if value is None:
            return None
        return self._distance(name, value.as_py())

    def after(self, name: str) -> tuple[float, str] | None:
        """Return the two values of an argument like `(0.25, 'v1$a$dataset#7')`: a distance and the name of a row."""
        parts = self.parts(name)
        values = [self._compute(part) for part in parts]
        if not values or None in values:
            return None
        distance, row = (value.as_py() for value in values if value is not None)
        if row is None and distance is None:
            return None
        if not isinstance(row, str):
            raise self.error(name, (distance, row), "a distance and the name of a row: (_distance, _rowid)")
        return self._distance(name, distance), row

    def parts(self, name: str) -> list[str]:
        """Return the texts of the two values in the brackets of an argument; none if it was not given or is NULL."""
        text = self.texts.get(name)
        if text is None or text.upper() == "NULL":
            return []
        cursor, parts = Cursor.over(text), []
        if cursor.accept("("):
            parts.append(cursor.until(","))
            while cursor.accept(","):
                parts.append(cursor.until(","))
            cursor.expect(")")
            cursor.end()
        if len(parts) != _AFTER or not all(parts):
            raise self.error(name, text, "a distance and the name of a row in brackets: (_distance, _rowid)")
        return parts

    def _distance(self, name: str, value: object) -> float:
        distance = math.nan
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            with np.errstate(over="ignore"):
                distance = float(np.float32(float(value)))
        if not math.isfinite(distance):
            raise self.error(name, value, "a distance, which is a number")
        return distance

    @property
    def count(self) -> int:
        """Return the number of rows to find."""
        return self.number("k", most=MOST_ROWS) or DEFAULT_ROWS

    @property
    def offset(self) -> int:
        """Return the number of rows to leave out before those to find."""
        offset = self.number("offset", least=0, most=MOST_ROWS) or 0
        if offset + self.count > MOST_ROWS:
            raise self.error("offset", offset, f"{MOST_ROWS - self.count:,} at most where k is {self.count:,}")
        return offset

    def switch(self, name: str, *, default: bool) -> bool:
        """Return the value of an argument that is true or false."""
        value = self.value(name)
        if value is None:
            return default
        switch = value.as_py()
        if not isinstance(switch, bool):
            raise self.error(name, switch, "true or false")
        return switch

    def error(self, name: str, value: object, expected: str) -> SqlError:
        """Return an error about the value of an argument."""
        shown = str(value) if isinstance(value, Decimal) else repr(value)
        return SqlError(f"{name} of {self.function} is {shown}; expected {expected}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and math.isfinite(value)


@for_short_texts(_KNOWN, _LONGEST_KNOWN)
def _literal_value(text: str) -> pa.Scalar | None:
    """Return the value of a literal, or a list of numbers, of lists of numbers, or of texts; None for an expression that has to be computed.

    It is cached: GetFlightInfo reads a vector, and DoGet again.
    """
    if _NUMBERS.fullmatch(text):
        return pa.scalar(json.loads(text), pa.list_(pa.float64()))
    if _LISTS.fullmatch(text):
        return pa.scalar(json.loads(text), pa.list_(pa.list_(pa.float64())))
    match tokenize(text):
        case [Token(kind=Kind.STRING, text=inside)]:
            return pa.scalar(inside)
        case [Token(is_whole=True, text=digits)]:
            return pa.scalar(int(digits))
        case [Token() as first, *inside, Token() as last] if first.is_sign("[") and last.is_sign("]"):
            return _literal_texts(inside)
    return None


def _literal_texts(tokens: Sequence[Token]) -> pa.Scalar | None:
    """Return the value of a list of texts; None for any other list."""
    texts, commas = tokens[::2], tokens[1::2]
    if len(texts) != len(commas) + 1 or not all(comma.is_sign(",") for comma in commas):
        return None
    if any(token.kind is not Kind.STRING for token in texts):
        return None
    return pa.scalar([token.text for token in texts], pa.list_(pa.utf8()))


_KNOWN_QUERIES, _LONGEST_QUERY = 32, 64 << 10
"""Number of texts whose calls are cached, and the longest of them in characters."""

VECTOR_SEARCH, FULL_TEXT_SEARCH, HYBRID_SEARCH = "vector_search", "full_text_search", "hybrid_search"


@dataclass(frozen=True, slots=True)
class Signature:
    """Signature of a search function: `placed` (positional, required) and `named` (optional) arguments.

    In place of some that are required there may be one of those that are `instead`.
    """

    placed: tuple[str, ...]
    named: tuple[str, ...]
    instead: Mapping[str, str] = field(default_factory=dict)


# Possessive quantifiers: a list that is none must not be tried in every other way.
_VECTOR_TEXT = re.compile(r"\[(?:[\s\d.eE+-]++,){7,}+[\s\d.eE+-]++\]")
"""A list of many numbers."""

_VECTOR = ("metric", "nprobes", "refine", "ef", "min_distance", "max_distance")
_TEXT = ("mode", "fuzziness", "slop", "syntax", "statistics", "offset")

NUMBERS = frozenset({"k", "nprobes", "refine", "ef", "fuzziness", "slop", "depth", "offset"})
"""Arguments that are whole numbers."""

DISTANCES = frozenset({"min_distance", "max_distance"})
"""Arguments that are distances."""

SWITCHES = frozenset({"use_index", "fast_search"})
"""Arguments that are true or false."""

SIGNATURES: Mapping[str, Signature] = MappingProxyType(
    {
        VECTOR_SEARCH: Signature(
            ("table", "column", "vector"),
            ("k", "filter", *_VECTOR, "use_index", "fast_search", "after", "queries"),
            MappingProxyType({"vector": "queries"}),
        ),
        FULL_TEXT_SEARCH: Signature(("table", "column", "query"), ("k", "filter", *_TEXT)),
        HYBRID_SEARCH: Signature(
            ("table", "vector_column", "vector", "text_column", "query"),
            ("k", "filter", "depth", "fusion", "weights", *_VECTOR, *_TEXT),
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCall:
    """One call: its function, where it stands in the text, and the texts of its arguments by name."""

    function: str
    start: int
    stop: int
    arguments: Mapping[str, str]


def calls(sql: str) -> tuple[SearchCall, ...]:
    """The outermost calls of search functions, in order; `SqlError` for arguments that they do not take.

    >>> [dict(call.arguments) for call in calls("SELECT * FROM vector_search('t', 'v', [1, 2], k => 3)")]
    [{'table': "'t'", 'column': "'v'", 'vector': '[1, 2]', 'k': '3'}]
    """
    if not _may_search(sql):
        return ()
    return _known_calls(sql)


@for_short_texts(_KNOWN_QUERIES, _LONGEST_QUERY)
def _known_calls(sql: str) -> tuple[SearchCall, ...]:
    """Return the calls of a text, cached: it is read by GetFlightInfo, and again by DoGet."""
    return tuple(_calls(sql))


def _calls(sql: str) -> Iterator[SearchCall]:
    cursor = Cursor(sql, tokenize(sql))
    while not cursor.done:
        token = cursor.tokens[cursor.at]
        function = token.text.lower()
        cursor.at += 1
        if function in SIGNATURES and token.kind not in QUOTED and cursor.peek("("):
            cursor.expect("(")
            arguments = _arguments(cursor, function)
            yield SearchCall(
                function=function, start=token.start, stop=cursor.tokens[cursor.at - 1].stop, arguments=arguments
            )


def without_vectors(sql: str) -> str:
    """Return a text with its lists of many numbers left out if it may have searches, which differ in them alone.

    >>> without_vectors("SELECT * FROM vector_search('t', 'v', [1, 2, 3, 4, 5, 6, 7, 8], k => 3)")
    "SELECT * FROM vector_search('t', 'v', [], k => 3)"
    """
    return _VECTOR_TEXT.sub("[]", sql) if _may_search(sql) else sql


def _may_search(sql: str) -> bool:
    lower = sql.lower()
    return any(function in lower for function in SIGNATURES)


def _arguments(cursor: Cursor, function: str) -> Mapping[str, str]:
    signature = SIGNATURES[function]
    arguments: dict[str, str] = {}
    while not cursor.accept(")"):
        if arguments:
            cursor.expect(",")
        name = _name(cursor)
        if name is None:
            if len(arguments) >= len(signature.placed):
                raise SqlError(
                    f"{function} takes {_format_signature(signature)}; expected no other value without a name"
                )
            name = signature.placed[len(arguments)]
        elif name not in (*signature.placed, *signature.named):
            raise SqlError(f"{function} takes no {name!r}; expected {_format_signature(signature)}")
        if name in arguments:
            raise SqlError(f"{function} is given {name!r} twice")
        text = cursor.until(",", ")")
        if not text:
            raise cursor.error(f"a value for {name!r} of {function}")
        arguments[name] = text
    _check_given(function, signature, arguments)
    return arguments


def _check_given(function: str, signature: Signature, arguments: Mapping[str, str]) -> None:
    for name, other in signature.instead.items():
        if name in arguments and other in arguments:
            raise SqlError(f"{function} is given {name!r} and {other!r}; expected one of them")
    missing = [
        name for name in signature.placed if name not in arguments and signature.instead.get(name) not in arguments
    ]
    if missing:
        raise SqlError(f"{function} has no {', '.join(missing)}; expected {_format_signature(signature)}")


def _name(cursor: Cursor) -> str | None:
    """Return the name of an argument that is given by name; None for a positional one."""
    at = cursor.at
    if at + 2 < len(cursor.tokens) and cursor.tokens[at + 1].is_sign("=") and cursor.tokens[at + 2].is_sign(">"):
        name = cursor.name("the name of an argument")
        cursor.expect("=", ">")
        return name
    return None


def _format_signature(signature: Signature) -> str:
    return ", ".join([*signature.placed, *(f"{name} => …" for name in signature.named)])


MULTIVECTOR_REFINE = 16
"""What `refine` is for multivectors where nothing is said: an index alone gives no distances of these, but estimates."""
STORED_REFINE = 1
"""What `refine` is for an index that stores vectors as they are: rows that it is not about, with the same vectors, are measured alike."""
_DOT = "dot"
MOST_VECTORS = 1_000
"""Vectors of one query of multivectors, at most."""


def nearest(searched: SearchTarget, arguments: Arguments, column: str, count: int) -> VectorSearch:
    """The search for the `count` vectors that are nearest to the one of a call, in the column that its argument `column` names."""
    name = arguments.name(column)
    field = column_of_vectors(searched.vectors(name))
    given = arguments.text("metric")
    metric = _usual_metric(searched, field) if given is None else fitting_metric(field, given)
    refine, use_index = arguments.number("refine"), arguments.switch("use_index", default=True)
    index = searched.vector_indices(name).get(metric)
    kind = None if index is None else index.kind
    are_bounded = bounds_exactly(kind, refine)
    if is_multivector(field.type) and kind is not None:
        refine = refine or MULTIVECTOR_REFINE
    elif refine is None and kind is not None and KINDS[kind].stores_vectors and _has_roundings(field):
        # A dot product near zero may differ by any part of itself.
        refine, are_bounded = STORED_REFINE, are_bounded and metric != _DOT
    return VectorSearch(
        column=name,
        vector=_query_vector(field, arguments),
        count=count,
        metric=metric,
        nprobes=arguments.number("nprobes"),
        refine=refine,
        ef=arguments.number("ef"),
        least=arguments.decimal("min_distance"),
        most=arguments.decimal("max_distance"),
        bounds_exactly=are_bounded,
        indexed_by=_indexed_by(searched, arguments, name, metric, use_index=use_index),
        use_index=use_index,
    )


def _usual_metric(searched: SearchTarget, field: pa.Field) -> str:
    """Return the metric of a search that states none: that of the column's indices; `SqlError` if these have several."""
    metrics = sorted(searched.vector_indices(field.name))
    if len(metrics) > 1:
        stated = " or ".join(f"metric => '{metric}'" for metric in metrics)
        raise SqlError(f"column {field.name!r} has indices by {' and '.join(metrics)}; write {stated}")
    # Tables without an index must measure as those with one.
    return metrics[0] if metrics else metrics_of(field.type)[0]


def _has_roundings(field: pa.Field) -> bool:
    """Return whether the distance of a vector may be another by the order in which Lance adds it up."""
    return bool(pa.types.is_floating(field.type.value_type))


def bounds_exactly(kind: str | None, refine: int | None = None) -> bool:
    """Return whether Lance finds all that lies beyond a distance by itself, with an index of a kind (None: there is no index).

    A graph is searched from the nearest on. With `refine` Lance also bounds the distances before they are compared by stored vectors.
    """
    return kind is None or (refine is None and "hnsw" not in kind)


def _indexed_by(
    searched: SearchTarget, arguments: Arguments, column: str, metric: str, *, use_index: bool
) -> IndexKind | None:
    """Return the kind of the index that is alone looked into (`fast_search`); None if all rows are searched."""
    if not arguments.switch("fast_search", default=False):
        return None
    indices = searched.vector_indices(column)
    # Of several indices Lance looks into the oldest, by whatever metric that is.
    if list(indices) == [metric] and use_index:
        return indices[metric].of_kind
    if not indices:
        there = "there is no index"
    elif len(indices) > 1:
        there = f"it has indices by {' and '.join(sorted(indices))}"
    else:
        there = f"the index is by {min(indices)}" if use_index else "use_index is false"
    given, expected = True, f"an index of {column!r} by the metric of the search, and use_index; {there}"
    raise arguments.error("fast_search", given, expected)


def column_of_vectors(field: pa.Field) -> pa.Field:
    """Return the column if it holds vectors; raise `SqlError` otherwise."""
    kind = field.type
    if pa.types.is_fixed_size_list(kind) and pa.types.is_int8(kind.value_type):
        raise SqlError(
            f"column {field.name!r} is {kind}, which Lance does not search; expected floats (HALF[{kind.list_size}],"
            f" FLOAT[{kind.list_size}]), or ORDER BY array_distance({field.name}, …) LIMIT k"
        )
    if not is_vector(vector_type(kind)):
        raise SqlError(
            f"column {field.name!r} is {kind}; expected vectors: lists of a fixed size (FLOAT[128]) of floats or bytes, or lists of"
            " such vectors (FLOAT[128][])"
        )
    return field


def _query_vector(field: pa.Field, arguments: Arguments) -> pa.Array | None:
    """Convert the query vector to the column's type; None if it is a parameter that is not bound yet, or there are many (`queries`)."""
    if "vector" not in arguments.texts:
        return None
    value = arguments.value("vector")
    if value is None:
        if arguments.is_bound:
            expected = f"{vector_type(field.type).list_size} numbers"
            raise SqlError(f"vector of {arguments.function} is NULL; expected {expected}")
        return None
    bound = _as_it_is(field, value)
    return converted_query(field, value.as_py(), f"vector of {arguments.function}") if bound is None else bound


def _as_it_is(field: pa.Field, value: pa.Scalar) -> pa.Array | None:
    """Return the numbers of a vector that is bound in just the type of its column; None for any other value, and for a wrong one."""
    kind = field.type
    if not is_vector(kind) or not pa.types.is_floating(kind.value_type) or not is_list(value.type):
        return None
    numbers = value.values
    if not numbers.type.equals(kind.value_type) or len(numbers) != kind.list_size or numbers.null_count:
        return None
    return numbers if np.isfinite(numbers.to_numpy()).all() else None


def converted_query(field: pa.Field, given: object, what: str) -> pa.Array:
    """Convert what a column is searched by to the type of the column; raise `SqlError` about `what` if it does not fit.

    It is one vector, or for multivectors a list of vectors, of which one may stand by itself.
    """
    if not is_multivector(field.type):
        return converted_vector(field, given, what)
    vectors = given if isinstance(given, list) and given and isinstance(given[0], list) else [given]
    if len(vectors) > MOST_VECTORS:
        raise LimitExceeded(f"{what} has {len(vectors)} vectors; expected at most {MOST_VECTORS}")
    each = field.with_type(field.type.value_type)
    converted = [
        converted_vector(each, one, f"{what}, number {place}," if len(vectors) > 1 else what)
        for place, one in enumerate(vectors, 1)
    ]
    return pa.array([vector.to_pylist() for vector in converted], field.type.value_type)


def converted_vector(field: pa.Field, given: object, what: str) -> pa.Array:
    """Convert a vector to the type of a column of vectors; raise `SqlError` about `what` if it does not fit."""
    kind = field.type
    wrong = _wrong(given, kind.list_size)
    if wrong is not None:
        raise SqlError(f"{what} has {wrong}; expected {kind.list_size} numbers, as column {field.name!r} has")
    numbers = pa.array(given, pa.float64())
    if not pa.types.is_floating(kind.value_type):
        try:
            return numbers.cast(kind.value_type)
        except pa.ArrowInvalid as exc:
            raise SqlError(f"{what} does not fit {kind}: {exc}") from exc
    with np.errstate(over="ignore"):
        vector = numbers.to_numpy().astype(kind.value_type.to_pandas_dtype())
    if not np.isfinite(vector).all():
        raise SqlError(f"{what} does not fit {kind}: a number of it is too large")
    return pa.array(vector)


def _wrong(vector: object, size: int) -> str | None:
    """Return why a value is no vector of so many numbers; None if it is one."""
    if not isinstance(vector, list):
        return repr(vector)
    if len(vector) != size:
        return f"{len(vector)} values"
    if set(map(type, vector)) <= {int, float} and all(map(math.isfinite, vector)):
        return None
    return next(
        (f"{value!r} at place {place}" for place, value in enumerate(vector, 1) if not _is_plain_number(value)), None
    )


def _is_plain_number(value: Any) -> bool:
    return type(value) in {int, float} and math.isfinite(value)


QUERY = "_query"
"""Column with the key, or the number from 1 on, of the vector that a row was found for."""
MOST_QUERIES, MOST_FOUND, MOST_VECTORS_TOGETHER = 1_000, 100_000, 10_000
_PLACE_TYPE = pa.int64()
_KEYED = 2
_QUERY_STARTS = ("SELECT", "WITH", "VALUES")


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """Vectors to search by, in the type of the column, and the keys of those that there are (None: no parameter has a value yet)."""

    key: pa.DataType
    keys: pa.Array
    vectors: Sequence[pa.Array]

    @property
    def field(self) -> pa.Field:
        """Return the column of the result that has the keys."""
        return pa.field(QUERY, self.key)

    def check(self, count: int) -> None:
        """Refuse to find so many rows for each where that is too many together, and too many vectors of multivectors."""
        vectors = sum(len(vector) for vector in self.vectors if pa.types.is_nested(vector.type))
        if vectors > MOST_VECTORS_TOGETHER:
            raise LimitExceeded(
                f"queries of vector_search has multivectors of {vectors} vectors; expected at most {MOST_VECTORS_TOGETHER} together"
            )
        if len(self.vectors) * count > MOST_FOUND:
            raise LimitExceeded(
                f"queries of vector_search has {len(self.vectors)} vectors and k is {count}; expected at most {MOST_FOUND} rows together"
            )


def query_vectors(planner: Planner, field: pa.Field, arguments: Arguments) -> QueryVectors:
    """Read the vectors of the argument `queries`, for a column; those that are NULL are left out."""
    text = arguments.texts["queries"]
    query = _query_in(text)
    if query is not None:
        key, keys, column = _of_query(planner, query, arguments.parameters)
    else:
        value = arguments.value("queries")
        if value is None and arguments.is_bound:
            raise SqlError(
                "queries of vector_search is NULL; expected vectors: a list of lists of numbers, or a query in brackets"
            )
        key, keys, column = _PLACE_TYPE, None, pa.nulls(0) if value is None else _items(value)
    given = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    keys = pa.array(np.arange(1, len(column) + 1), _PLACE_TYPE) if keys is None else keys
    if len(column) > MOST_QUERIES:
        raise LimitExceeded(f"queries of vector_search has more than {MOST_QUERIES} vectors; expected at most so many")
    return QueryVectors(key, keys.take(pa.array(given)), _vectors(field, column.take(pa.array(given))))


def _query_in(text: str) -> str | None:
    """Return the query that is written in brackets; None for any other expression."""
    cursor = Cursor.over(text)
    if not cursor.peek("("):
        return None
    inside = cursor.read_bracket()[1:-1]
    return inside if cursor.done and any(Cursor.over(inside).peek(word) for word in _QUERY_STARTS) else None


def _of_query(
    planner: Planner, text: str, parameters: pa.RecordBatch | None
) -> tuple[pa.DataType, pa.Array | None, pa.Array]:
    """Return the type of the keys, the keys (None: numbers) and the vectors of the rows of a query."""
    frame = planner.frame(text, parameters).limit(MOST_QUERIES + 1)
    schema = frame.schema()
    if len(schema) > _KEYED:
        raise SqlError(
            f"queries of vector_search has {len(schema)} columns; expected one of vectors, or two: a key and a vector"
        )
    key = schema.field(0).type if len(schema) == _KEYED else _PLACE_TYPE
    if parameters is None and parameter_count(text):
        planner.searches.parameter_types.update(planner.wanted_types())
        return key, pa.nulls(0, key), pa.nulls(0)
    planner.prepare(frame)
    rows = pa.Table.from_batches(planner.stream(frame), schema).combine_chunks()
    columns = [column.combine_chunks() for column in rows.columns]
    return key, columns[0] if len(columns) == _KEYED else None, columns[-1]


def _items(value: pa.Scalar) -> pa.Array:
    if not hasattr(value, "values"):
        raise SqlError(f"queries of vector_search is {value.as_py()!r}; expected vectors: a list of lists of numbers")
    return value.values


def _vectors(field: pa.Field, column: pa.Array) -> list[pa.Array]:
    """Convert a column without NULL to vectors of the type of a column."""
    kind = field.type
    if pa.types.is_fixed_size_list(column.type) and column.type.equals(kind):
        numbers = column.flatten()
        if not numbers.null_count and bool(pc.all(pc.is_finite(numbers)).as_py() is not False):
            return [numbers.slice(place * kind.list_size, kind.list_size) for place in range(len(column))]
    return [
        converted_query(field, value, f"vector {place} of queries of vector_search")
        for place, value in enumerate(column.to_pylist(), 1)
    ]


_SPARE, _MORE = 16, 8
"""Rows beyond a page that are asked for, since some may be as near as its first one, and times as many where these are too few."""
_ULPS = 4
"""Distances of one row may differ by so many units in the last place, by which way it was found."""

Best = Callable[[VectorSearch, list[str]], pa.Table]
"""Function that returns some columns of the best rows of a search."""


@dataclass(frozen=True, slots=True)
class After:
    """The row that a page follows: its distance and its name (`_rowid`)."""

    distance: float
    row: str

    def page(self, best: Best, search: VectorSearch, names: list[str]) -> pa.Table:
        """Return some columns of the rows that follow; `SqlError` if the search does not find the row."""
        count, least = search.count + _SPARE, self._least(search)
        while True:
            vector_search = replace(search, count=count, least=least)
            rows = best(vector_search, list(dict.fromkeys([*names, DISTANCE.name, ROW_ID])))
            is_all = rows.num_rows < count
            place = pc.index(rows[ROW_ID], self.row).as_py()
            if place >= 0 and (is_all or rows.num_rows > place + search.count):
                return rows.slice(place + 1, search.count).select(names)
            is_behind = rows.num_rows > 0 and rows[DISTANCE.name][-1].as_py() > _next_float(self.distance, _ULPS)
            if place < 0 and (is_all or is_behind):
                raise self._unknown()
            count *= _MORE

    def _least(self, search: VectorSearch) -> float:
        nearest = _next_float(self.distance, -_ULPS)
        return nearest if search.least is None else max(nearest, search.least)

    def _unknown(self) -> SqlError:
        return SqlError(
            f"after of vector_search is row {self.row!r} at a distance of {np.float32(self.distance)}, which the search does not find; expected"
            " _distance and _rowid of a row of the page before, with the same arguments and at the same version of the table (docs@12)"
        )


def _next_float(distance: float, units: int) -> float:
    """Return a float32 so many units in the last place further."""
    return float(np.float32(distance) + np.float32(units) * np.spacing(np.float32(abs(distance))))
