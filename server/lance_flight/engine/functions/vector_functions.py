"""Distances of vectors in SQL: functions of two lists of numbers, and pgvector's operators.

A vector is a list of numbers of any kind and width, or a text like `'[1, 2.5]'` beside one. As pgvector has it, the result is NULL where
a vector is NULL (or has NULL inside), NaN for the cosine of a vector of zeros, and vectors of different lengths are refused.

They become calls of functions. Operators of this kind bind closer than comparisons and looser than arithmetic, as in PostgreSQL.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.engine.sql.bounds import CLAUSES
from lance_flight.engine.sql.comparisons import Operands
from lance_flight.engine.sql.references import Cursor
from lance_flight.engine.sql.tokens import Edit, Kind, Token, TokenPlaces, edit_text, tokenize
from lance_flight.errors import SqlError
from lance_flight.model.arrow_types import is_string

ROWS_AT_ONCE = 4096
"""Rows whose vectors are held as float64 at once."""
_VECTORS = 2

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Distance:
    """Measure of two vectors: its function, the metric of a search by it, and whether the nearest vectors have the lowest values."""

    name: str
    metric: str
    is_ascending: bool
    sums: Callable[[Floats, Floats, Callable[[Floats], Floats]], Floats]

    def check_types(self, types: Sequence[pa.DataType]) -> None:
        """Refuse arguments that are no two vectors of one length, as far as their types tell."""
        if len(types) != _VECTORS:
            raise SqlError(f"{self.name} takes two vectors, got {len(types)} arguments")
        for place, kind in enumerate(types, 1):
            if not (is_numbers(kind) or pa.types.is_null(kind) or is_string(kind)):
                raise SqlError(
                    f"argument {place} of {self.name} is {kind}; expected a vector: a list of numbers, as FLOAT[n] or [1.0, 2.0]"
                )
        if all(map(is_string, types)):
            raise SqlError(f"both arguments of {self.name} are texts; expected a vector: a list of numbers")
        sizes = [kind.list_size for kind in types if pa.types.is_fixed_size_list(kind)]
        if len(set(sizes)) > 1:
            raise self.other_length(*sizes)

    def other_length(self, first: int, second: int) -> SqlError:
        """Return the error of two vectors of different lengths."""
        return SqlError(
            f"argument 1 of {self.name} has {first} numbers and argument 2 has {second}; expected vectors of the same length"
        )

    def compute(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the distances of two columns of vectors, as float64."""
        vectors = [_as_lists(self.name, place, column) for place, column in enumerate(columns, 1)]
        count = len(columns[0])
        return pa.concat_arrays(
            [
                pa.array([], pa.float64()),
                *(self._of_rows(*(v.slice(at, ROWS_AT_ONCE) for v in vectors)) for at in range(0, count, ROWS_AT_ONCE)),
            ]
        )

    def _of_rows(self, left: pa.Array, right: pa.Array) -> pa.Array:
        known = pc.and_(left.is_valid(), right.is_valid())
        one, other = left.filter(known), right.filter(known)
        lengths = _lengths(one)
        differing = np.flatnonzero(lengths != _lengths(other))
        if len(differing):
            raise self.other_length(int(lengths[differing[0]]), int(_lengths(other)[differing[0]]))
        (x, no_x), (y, no_y) = (_numbers(operand) for operand in (one, other))
        add = _adder(lengths)
        with np.errstate(all="ignore"):
            values = self.sums(x, y, add)
        # 0 / 0 has a sign, and a negative NaN is sorted before all numbers.
        values[np.isnan(values)] = np.nan
        gaps = add((no_x | no_y).astype(np.float64)) > 0
        found = np.zeros(len(left))
        missing = np.ones(len(left), np.bool_)
        places = np.flatnonzero(known.to_numpy(zero_copy_only=False))
        found[places], missing[places] = values, gaps
        return pa.array(found, pa.float64(), mask=missing)


def _l2(x: Floats, y: Floats, add: Callable[[Floats], Floats]) -> Floats:
    root: Floats = np.sqrt(add((x - y) ** 2))
    return root


def _cosine(x: Floats, y: Floats, add: Callable[[Floats], Floats]) -> Floats:
    similarity: Floats = add(x * y) / (np.sqrt(add(x * x)) * np.sqrt(add(y * y)))
    return 1.0 - np.clip(similarity, -1.0, 1.0)


def _inner(x: Floats, y: Floats, add: Callable[[Floats], Floats]) -> Floats:
    return add(x * y)


def _negative_inner(x: Floats, y: Floats, add: Callable[[Floats], Floats]) -> Floats:
    return -add(x * y)


DISTANCES: Mapping[str, Distance] = MappingProxyType(
    {
        "array_distance": Distance("array_distance", "l2", is_ascending=True, sums=_l2),
        "list_distance": Distance("list_distance", "l2", is_ascending=True, sums=_l2),
        "cosine_distance": Distance("cosine_distance", "cosine", is_ascending=True, sums=_cosine),
        "inner_product": Distance("inner_product", "dot", is_ascending=False, sums=_inner),
        "negative_inner_product": Distance("negative_inner_product", "dot", is_ascending=True, sums=_negative_inner),
    }
)


def is_numbers(kind: pa.DataType) -> bool:
    """Return whether a type is that of lists of numbers.

    >>> is_numbers(pa.list_(pa.float16())), is_numbers(pa.list_(pa.int64(), 3)), is_numbers(pa.list_(pa.utf8()))
    (True, True, False)
    """
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not is_list:
        return False
    item = kind.value_type
    return bool(
        pa.types.is_floating(item) or pa.types.is_integer(item) or pa.types.is_decimal(item) or pa.types.is_null(item)
    )


def known_types(types: Sequence[pa.DataType]) -> Sequence[pa.DataType]:
    """Return the types of two vectors, with that of the other one for one without a type (NULL, a parameter without a value)."""
    lists = [kind for kind in types if is_numbers(kind)]
    return [lists[0] if lists and pa.types.is_null(kind) else kind for kind in types]


def vector_of(text: str) -> list[float] | None:
    """Return the vector that a text has; None for any other text.

    >>> vector_of("[1, 2.5]"), vector_of("[1, a]"), vector_of('["1"]')
    ([1.0, 2.5], None, None)
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(value, int | float) for value in found):
        return None
    try:
        numbers = [float(value) for value in found if not isinstance(value, bool)]
    except OverflowError:
        return None
    return numbers if len(numbers) == len(found) and all(map(math.isfinite, numbers)) else None


def _as_lists(name: str, place: int, column: pa.Array) -> pa.Array:
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.list_(pa.float64()))
    if not is_string(column.type):
        return column
    coded = column.dictionary_encode()
    vectors = [vector_of(text) for text in coded.dictionary.to_pylist()]
    if None in vectors:
        wrong = coded.dictionary[vectors.index(None)].as_py()
        raise SqlError(f"argument {place} of {name} is {wrong!r}; expected a vector, as '[1, 2.5]'")
    return pa.array(vectors, pa.list_(pa.float64())).take(coded.indices)


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_fixed_size_list(column.type):
        return np.full(len(column), column.type.list_size, np.int64)
    found: npt.NDArray[np.int64] = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _numbers(column: pa.Array) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the numbers of all vectors one after another, and which of them are NULL."""
    values: Any = column.flatten()
    if pa.types.is_decimal(values.type) or pa.types.is_null(values.type):
        values = values.cast(pa.float64())
    missing = values.is_null().to_numpy(zero_copy_only=False)
    return values.to_numpy(zero_copy_only=False).astype(np.float64), missing


def _adder(lengths: npt.NDArray[np.int64]) -> Callable[[Floats], Floats]:
    """Return a function that adds up the numbers of each vector, given those of all vectors one after another."""
    if len(lengths) and (lengths == lengths[0]).all():
        size = int(lengths[0])
        return lambda numbers: numbers.reshape(len(lengths), size).sum(axis=1)
    filled = np.flatnonzero(lengths)
    starts = (np.cumsum(lengths) - lengths)[filled]

    def add(numbers: Floats) -> Floats:
        sums = np.zeros(len(lengths))
        if len(filled):
            sums[filled] = np.add.reduceat(numbers, starts)
        return sums

    return add


COSINE_OR_SAME = "__cosine_or_same"
"""Function that `<=>` is called by until the types of its operands are known: of others than vectors it is IS NOT DISTINCT FROM."""
_OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "<->": "array_distance",
        "<=>": COSINE_OR_SAME,
        "<#>": "negative_inner_product",
        "@>": "arraycontains",
        "<@": "arraycontained",
        "&&": "arrayoverlap",
    }
)
"""The function of each operator on vectors and lists; those on lists are called so in PostgreSQL."""
_NEGATED = "inner_product"
_FIRST_SIGNS = frozenset(operator[0] for operator in _OPERATORS)
_LOOSER = frozenset(
    [
        *("AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "SIMILAR", "BETWEEN", "XOR", "ESCAPE"),
        *("SET", "RETURNING", "WHERE", "ON", "USING", "WINDOW", "PARTITION", "ROWS", "AS", "INTO", "OFFSET", "WITH"),
    ]
)
"""Words that no operand extends over, beside those of comparisons."""
_PARTS = frozenset(["PRECISION", "VARYING", "UNSIGNED"])
"""Words of types that follow another word of them."""


def operator_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that write these operators as calls.

    >>> text = "SELECT 1 - (e <=> $1), a.e <-> [1.0] < 2 FROM a"
    >>> edit_text(text, operator_edits(text, tokenize(text)))
    'SELECT 1 - (__cosine_or_same(e , $1)), array_distance(a.e , [1.0]) < 2 FROM a'
    """
    places = dict(_places(text, tokens)) if any(operator in text for operator in _OPERATORS) else {}
    is_negated = _NEGATED in text.lower()
    if not places and not is_negated:
        return []
    reader = _OperatorOperands(tokens)
    opened: list[Edit] = []
    closed: list[Edit] = []
    for at, operator in places.items():
        begun = at + len(operator)
        first, stop = reader.left(at - 1), reader.right_before(begun, places)
        if first >= at or stop <= begun:
            raise SqlError(
                f"{operator} at character {tokens[at].start + 1} has nothing on one side; expected a {operator} b"
            )
        if stop in places:
            raise SqlError(
                f"{operator} at character {tokens[at].start + 1} is followed by another one; expected brackets"
            )
        opened.append((tokens[first].start, tokens[first].start, f"{_OPERATORS[operator]}("))
        closed += [
            (tokens[at].start, tokens[begun - 1].stop, ","),
            (tokens[stop - 1].stop, tokens[stop - 1].stop, ")"),
        ]
    if is_negated:
        closed += _negated_edits(tokens, reader)
    return sorted([*opened, *closed], key=itemgetter(0, 1))


def same_instead(sql: str, name: str) -> str:
    """Return a query with IS NOT DISTINCT FROM in place of the call of a function of two arguments.

    >>> same_instead("SELECT f(a, (b)) FROM t", "f")
    'SELECT ((a) IS NOT DISTINCT FROM ((b))) FROM t'
    """
    tokens = tokenize(sql)
    at = next(place for place, token in enumerate(tokens) if token.text == name)
    cursor = Cursor(sql, tokens, at + 2)
    one = cursor.until(",")
    cursor.expect(",")
    other = cursor.until(")")
    new = f"(({one}) IS NOT DISTINCT FROM ({other}))"
    return edit_text(sql, [(tokens[at].start, tokens[cursor.at].stop, new)])


def _negated_edits(tokens: Sequence[Token], places: TokenPlaces) -> Iterator[Edit]:
    """Yield the edits of `-inner_product(…)`, by whose negative DataFusion 55 cannot sort rows of several partitions (SanityCheckPlan)."""
    for at in range(len(tokens) - 2):
        is_called = tokens[at + 1].word.lower() == _NEGATED and tokens[at + 2].is_sign("(")
        if tokens[at].is_sign("-") and is_called and not places.ends_operand(at - 1):
            yield tokens[at].start, tokens[at + 1].stop, f"negative_{_NEGATED}"


def _places(text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """Yield each operator, and the place of its first sign."""
    for at, token in enumerate(tokens):
        if token.kind is Kind.SIGN and token.text in _FIRST_SIGNS:
            for operator in _OPERATORS:
                last = tokens[min(at + len(operator), len(tokens)) - 1]
                if last.stop - token.start == len(operator) and text.startswith(operator, token.start):
                    yield at, operator


class _OperatorOperands(Operands):
    """Finds the bounds of the operands of an operator that binds closer than comparisons."""

    def right_before(self, at: int, operators: Container[int]) -> int:
        """Return the token after the operand that begins at `at`, which ends at the next one of some operators."""
        while at < len(self.tokens) and at not in operators:
            if self.kind(at) is Kind.SIGN and self.text(at) in ",;)]}<>=!":
                break
            word = "" if self.is_name(at) else self.word_at(at)
            if word in CLAUSES or (word and self.ends_operand(at - 1) and word not in _PARTS):
                break
            at = max(at, self.partners.get(at, at)) + 1
        return at

    def _starts_operand(self, at: int) -> bool:
        if self.kind(at) is Kind.SIGN:
            return self.text(at) in "([{,;:<>=!"
        return (self.word_at(at) in _LOOSER and not self.is_name(at)) or super()._starts_operand(at)
