"""Bounds on functions that produce large values from small ones, checked before they run.

DataFusion computes `repeat('x', 2000000000)` while it plans, and counts none of the memory of such values. `LISTS` are those that are
computed here instead, since what they make depends on all of their arguments; of the others one argument is enough, which a guard
(an identity that refuses too much) is put around. The calls of a statement count together (`Budget`): `make_array` and `concat` hold what
all of their arguments make.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import SessionContext, udf

from lance_flight.engine.sql.tokens import STRINGS, Edit, Kind, Token
from lance_flight.errors import LimitExceeded, SqlError
from lance_flight.model.arrow_types import is_string
from lance_flight.model.type_names import type_name

MOST_BYTES, MOST_BYTES_OF_A_ROW = 256 << 20, 4 << 10
"""Bytes of the values that all calls of a statement make of one batch, and bytes of each row of it."""
LEAST_BYTES = 32 << 20
"""Bytes that they may make of a batch of few rows."""
MOST_ELEMENTS, LEAST_ELEMENTS = 1 << 24, 1 << 22
"""Elements of the lists that all calls make of one batch, and of one of few rows; characters that all calls pad a batch to."""
_FREE_COPIES = 4
MOST_SHORT = 1_000
"""Characters of a replacement or separator that is no literal."""
MOST_SOUGHT = 1_000
"""Characters that are compared with each place of a text."""
MOST_COMPARED, MOST_COMPARED_ONCE = 20_000_000_000, 500_000_000
"""Pairs of characters that one levenshtein call compares in one batch, and in one row: constants are computed while planning."""

MOST_DIGITS = 30
"""Digits to which a number is rounded."""

ResultType = Callable[[str, Sequence[pa.DataType]], pa.DataType]
Compute = Callable[[Sequence[pa.Array], "Made"], pa.Array]


class Budget:
    """Bounds the values that the calls of one statement make of a batch together; each counts with its largest batch.

    `copies` is how often the statement writes a value side by side with itself and others: its bytes count so often. `calls` says how many
    calls have a name.
    """

    def __init__(self, copies: int = 1, calls: Mapping[str, int] = MappingProxyType({})) -> None:
        self._copies, self._calls = max(1, copies // _FREE_COPIES), calls
        self._made: dict[str, dict[str, float]] = {}

    def of(self, call: str) -> Made:
        """Return the share of one call."""
        return Made(self, call)

    def count(self, call: str, unit: str, count: float) -> float:
        """Count what a call has made of a batch, and return what all calls have together."""
        made = self._made.setdefault(unit, {})
        made[call] = max(made.get(call, 0), count * self._copies * self._calls.get(call, 1))
        return sum(made.values())


@dataclass(frozen=True, slots=True)
class Made:
    """Share of one call in a statement's budget."""

    budget: Budget
    call: str

    def check(self, what: str, count: float, most: int, unit: str) -> None:
        """Refuse what is too much by itself, or together with what the other calls of the statement make."""
        _check(what, count, most, unit)
        together = self.budget.count(self.call, unit, count)
        if together > most:
            raise LimitExceeded(
                f"the calls of {what} and its like would make {int(together)} {unit} at once, together and as often as the statement"
                f" writes them side by side; expected at most {most}"
            )

    def check_bytes(self, what: str, size: float, rows: int) -> None:
        """Refuse values of too many bytes for a batch of so many rows."""
        self.check(what, size, min(MOST_BYTES, max(LEAST_BYTES, rows * MOST_BYTES_OF_A_ROW)), "bytes")

    def check_elements(self, what: str, count: float, rows: int) -> None:
        """Refuse lists of too many elements for a batch of so many rows."""
        self.check(what, count, min(MOST_ELEMENTS, max(LEAST_ELEMENTS, rows * MOST_SHORT)), "elements")


def _check(what: str, count: float, most: int, unit: str) -> None:
    if count > most:
        raise LimitExceeded(f"{what} would make {int(count)} {unit} at once; expected at most {most}")


# --- computed here


def _repeated_text(columns: Sequence[pa.Array], made: Made) -> pa.Array:
    texts, counts = columns[0].cast(pa.utf8()), pc.max_element_wise(columns[1].cast(pa.int64()), 0, skip_nulls=False)
    size = pc.sum(pc.multiply(pc.binary_length(texts).cast(pa.float64()), counts.cast(pa.float64()))).as_py() or 0
    made.check_bytes("repeat", size, len(texts))
    return pc.binary_repeat(texts, counts)


def _repeated_element(columns: Sequence[pa.Array], made: Made) -> pa.Array:
    values, counts = columns[0], columns[1].cast(pa.int64())
    wanted = np.maximum(counts.fill_null(0).to_numpy(zero_copy_only=False), 0)
    each = max(values.nbytes // max(len(values), 1), 1)
    total = float(wanted.astype(np.float64).sum())
    made.check_elements("array_repeat", total, len(values))
    if not pa.types.is_primitive(values.type):
        made.check_bytes("array_repeat", total * each, len(values))
    repeated = values.take(pa.array(np.repeat(np.arange(len(values)), wanted)))
    return _lists(wanted, repeated, counts.is_null())


def _series(columns: Sequence[pa.Array], made: Made, *, inclusive: bool) -> pa.Array:
    kind = _bound_type([column.type for column in columns])
    columns = [*(column.cast(kind) for column in columns[:2]), *columns[2:]]
    if len(columns) == 1:
        columns = [pa.array([0] * len(columns[0]), pa.int64()), columns[0]]
    rows = zip(
        *(column.to_pylist() if pa.types.is_integer(column.type) else _ticks(column) for column in columns), strict=True
    )
    parts, counts, missing = [], [], []
    left = MOST_ELEMENTS
    for row in rows:
        part = np.array([], np.int64)
        if None not in row:
            start, stop, *step = row
            part = _steps(start, stop, step[0] if step else 1, left, kind, inclusive=inclusive)
            left -= len(part)
        parts.append(part)
        counts.append(len(part))
        missing.append(None in row)
    made.check_elements("range", sum(counts), len(counts))
    values = pa.array(np.concatenate(parts) if parts else [], pa.int64())
    return _lists(np.array(counts, np.int64), _of_ticks(values, kind), pa.array(missing, pa.bool_()))


def _steps(start: int, stop: int, step: Any, left: int, kind: pa.DataType, *, inclusive: bool) -> np.ndarray[Any, Any]:
    """Compute the numbers, or ticks of a temporal type, of one row."""
    if step == 0 or (not isinstance(step, int) and tuple(step) == (0, 0, 0)):
        raise SqlError("step can't be 0 for function range(start [, stop, step])")
    if isinstance(step, int):
        return _even_steps(start, stop, step, left, inclusive=inclusive)
    if step[2] * _per_day(kind) % _DAY_NANOS:
        raise SqlError(
            f"a series of {type_name(kind)} has no such parts as its step; write CAST(… AS TIMESTAMP) for the start"
        )
    left, is_up = min(left, MOST_BYTES >> 8), step > (0, 0, 0)
    each = _later(0, step, _per_day(kind)) if step[0] == 0 else 0
    if each and is_up == (each > 0):
        return _even_steps(start, stop, each, left, inclusive=inclusive)
    found, at = [], start
    while (at < stop if is_up else at > stop) or (inclusive and at == stop):
        found.append(at)
        _check("range", len(found), left, "elements")
        at = _later(at, step, _per_day(kind))
    return np.array(found, np.int64)


def _even_steps(start: int, stop: int, step: int, left: int, *, inclusive: bool) -> np.ndarray[Any, Any]:
    """Compute the numbers of one row with a constant step; their count is checked before they are allocated."""
    sign = 1 if step > 0 else -1
    count = max(0, (stop - start + inclusive * sign + step - sign) // step)
    _check("range", count, left, "elements")
    return start + step * np.arange(count, dtype=np.int64)


def _per_day(kind: pa.DataType) -> int:
    """Return the ticks of a temporal type in a day."""
    return 1 if pa.types.is_date32(kind) else _PER_SECOND[kind.unit] * 86_400


def _later(at: int, step: Any, per_day: int) -> int:
    """Add an interval of months, days and nanoseconds to a tick count; a day that a month lacks becomes its last one."""
    months, days, nanos = step
    day, rest = divmod(at, per_day)
    if months:
        old = date.fromordinal(day + _EPOCH)
        year, month = divmod(old.year * 12 + old.month - 1 + months, 12)
        day = date(year, month + 1, min(old.day, monthrange(year, month + 1)[1])).toordinal() - _EPOCH
    later: int = (day + days) * per_day + rest + nanos * per_day // _DAY_NANOS
    return later


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_NANOS = 86_400 * 10**9
_EPOCH = date(1970, 1, 1).toordinal()


def _ticks(column: pa.Array) -> list[Any]:
    if pa.types.is_date32(column.type):
        return list(column.cast(pa.int32()).to_pylist())
    return list(column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist())


def _of_ticks(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else values.cast(kind)


def _lists(counts: Any, values: pa.Array, missing: pa.Array) -> pa.Array:
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, values, mask=missing)


def _text_type(word: str, types: Sequence[pa.DataType]) -> pa.DataType:
    _check_types(word, types, "a text and a number", [is_string, _is_whole])
    return pa.utf8()


def _element_type(word: str, types: Sequence[pa.DataType]) -> pa.DataType:
    _check_types(word, types, "an element and a number", [lambda _: True, _is_whole])
    return pa.list_(types[0])


def _series_type(word: str, types: Sequence[pa.DataType]) -> pa.DataType:
    if types and all(_is_whole(kind) for kind in types) and len(types) <= 3:  # noqa: PLR2004 - start, stop, step
        return pa.list_(pa.int64())
    _check_types(
        word, types, "whole numbers, or two dates or timestamps and an interval", [_is_moment, _is_moment, _is_interval]
    )
    return pa.list_(_bound_type(types))


def _bound_type(types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type that the bounds of a series have together: of timestamps, and of one and a date, that of the finer unit."""
    units = [kind.unit for kind in types[:2] if pa.types.is_timestamp(kind)]
    if units:
        return pa.timestamp(max(units, key=_PER_SECOND.__getitem__))
    return pa.date32() if any(map(_is_interval, types)) else pa.int64()


def _check_types(
    word: str, types: Sequence[pa.DataType], expected: str, kinds: Sequence[Callable[[pa.DataType], bool]]
) -> None:
    if len(types) != len(kinds) or not all(
        fits(kind) or pa.types.is_null(kind) for fits, kind in zip(kinds, types, strict=True)
    ):
        raise SqlError(f"{word} takes {expected}, got {', '.join(map(type_name, types)) or 'nothing'}")


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_null(kind))


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.tz is None))


def _is_interval(kind: pa.DataType) -> bool:
    return bool(pa.types.is_interval(kind))


LISTS: Mapping[str, tuple[ResultType, Compute]] = MappingProxyType(
    {
        "repeat": (_text_type, _repeated_text),
        "array_repeat": (_element_type, _repeated_element),
        "list_repeat": (_element_type, _repeated_element),
        "range": (_series_type, partial(_series, inclusive=False)),
        "generate_series": (_series_type, partial(_series, inclusive=True)),
    }
)

# --- guarded


def _check_count(made: Made, values: pa.Array) -> pa.Array:
    """Check the counts that a batch of lists is padded to, and return them."""
    wanted = np.maximum(values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64), 0)
    made.check("padding", float(wanted.sum()), MOST_ELEMENTS, "characters or elements")
    return values


def _check_width(made: Made, values: pa.Array) -> pa.Array:
    """Check the widths that a batch of texts is padded to, and return them: 0 for negative ones, in which DataFusion 55 panics."""
    return pc.max_element_wise(_check_count(made, values), 0, skip_nulls=False)


def _check_items(made: Made, values: pa.Array) -> pa.Array:
    """Check texts each character of which may become an item of a list, and return them."""
    size = pc.sum(pc.binary_length(values)).as_py() or 0
    made.check("splitting", size, max(MOST_ELEMENTS // 4, len(values) * MOST_SHORT), "items")
    return values


def _check_short(_: Made, values: pa.Array) -> pa.Array:
    """Return replacements and separators."""
    _check(
        "a replacement or separator that is no literal",
        pc.max(pc.utf8_length(values)).as_py() or 0,
        MOST_SHORT,
        "characters",
    )
    return values


def _check_sought(_: Made, values: pa.Array) -> pa.Array:
    """Return texts that are looked for, or whose characters are, at each place of another text."""
    _check("a text that is sought", pc.max(pc.utf8_length(values)).as_py() or 0, MOST_SOUGHT, "characters")
    return values


def _check_compared(_: Made, values: pa.Array) -> pa.Array:
    """Check texts whose comparison costs the product of two lengths, and return them; the sum of squares bounds that of products."""
    lengths = pc.utf8_length(values).cast(pa.float64())
    most = MOST_COMPARED if len(values) > 1 else MOST_COMPARED_ONCE
    _check("levenshtein", pc.sum(pc.multiply(lengths, lengths)).as_py() or 0, most, "pairs of characters")
    return values


def _check_digits(_: Made, values: pa.Array) -> pa.Array:
    """Return numbers of digits to which a number is rounded: DataFusion 55 gives NaN where ten to their power is beyond DOUBLE."""
    digits = pc.min_max(pc.abs(values))["max"].as_py() or 0
    if digits > MOST_DIGITS:
        raise SqlError(f"round and trunc take up to {MOST_DIGITS} digits, got {digits}")
    return values


_GUARDS: Mapping[str, tuple[Callable[[Made, pa.Array], pa.Array], pa.DataType]] = MappingProxyType(
    {
        "__bounded_count": (_check_count, pa.int64()),
        "__bounded_width": (_check_width, pa.int64()),
        "__bounded_text": (_check_short, pa.utf8()),
        "__bounded_sought": (_check_sought, pa.utf8()),
        "__bounded_pairs": (_check_compared, pa.utf8()),
        "__bounded_items": (_check_items, pa.utf8()),
        "__bounded_digits": (_check_digits, pa.int64()),
    }
)
_COUNT, _WIDTH, _TEXT, _SOUGHT, _PAIRS, _ITEMS, _DIGITS = _GUARDS
_GUARD_CALL = re.compile(rf"(?:{'|'.join(_GUARDS)})\d*\(")
GUARDS: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "lpad": {1: _WIDTH},
        "rpad": {1: _WIDTH},
        "array_resize": {1: _COUNT},
        "list_resize": {1: _COUNT},
        "replace": {2: _TEXT},
        "regexp_replace": {2: _TEXT},
        "array_to_string": {1: _TEXT},
        "list_to_string": {1: _TEXT},
        "array_join": {1: _TEXT},
        "list_join": {1: _TEXT},
        "concat_ws": {0: _TEXT},
        **{name: {1: _SOUGHT} for name in ("strpos", "instr", "ltrim", "rtrim", "btrim", "trim")},
        "position": {},
        "levenshtein": {0: _PAIRS, 1: _PAIRS},
        "string_to_array": {0: _ITEMS},
        "string_to_list": {0: _ITEMS},
        "round": {1: _DIGITS},
        "trunc": {1: _DIGITS},
    }
)
"""The guard of each argument, by the name of the function and the place of the argument."""
_WORDS = MappingProxyType({"trim": "FROM", "position": "IN"})
"""Words that may stand between what is sought and the text: TRIM(BOTH a FROM b), POSITION(a IN b)."""
_SIDES = frozenset(["BOTH", "LEADING", "TRAILING"])


def register_guards(context: SessionContext, names: Iterable[str], budget: Budget) -> None:
    """Register guards in a context, each under the name that it has in the text."""
    for name in names:
        guard, kind = _GUARDS[name.rstrip("0123456789")]
        context.register_udf(udf(partial(guard, budget.of(name)), [kind], kind, "immutable", name))


def guard_edits(text: str, tokens: Sequence[Token], alike: Callable[[int], Hashable]) -> tuple[list[Edit], list[str]]:
    """Return the edits that insert guards into the calls of a text, and their names; arguments that are short literals need none.

    Calls for whose places `alike` returns the same have one name, which is there once for each of them.
    """
    edits: list[Edit] = []
    names: list[str] = []
    shared: dict[Hashable, str] = {}
    for place, token in enumerate(tokens[:-1]):
        guards = GUARDS.get(token.text.lower()) if token.kind not in STRINGS else None
        if guards is None or not tokens[place + 1].is_sign("("):
            continue
        word = _WORDS.get(token.text.lower(), "")
        arguments = list(_arguments(tokens, place + 1, word))
        if word and len(arguments) > 1 and tokens[arguments[0][1]].word == word:
            guards = {0: _SOUGHT}
        for number, (first, stop) in enumerate(arguments):
            start = first + (tokens[first].word in _SIDES)
            if (
                number in guards
                and start < stop
                and not _is_small(tokens[start:stop], MOST_DIGITS if guards[number] == _DIGITS else MOST_SHORT)
            ):
                names.append(shared.setdefault((alike(place), number), f"{guards[number]}{len(names)}"))
                edits.append((tokens[start].start, tokens[start].start, f"{names[-1]}("))
                edits.append((tokens[stop - 1].stop, tokens[stop - 1].stop, ")"))
    return edits, names


def _arguments(tokens: Sequence[Token], opened: int, word: str) -> Iterator[tuple[int, int]]:
    """Yield the token range of each argument of a call whose bracket opens at a place; a `word` stands between them too."""
    depth, start = 0, opened + 1
    for place in range(opened, len(tokens)):
        sign = tokens[place].text if tokens[place].kind is Kind.SIGN else ""
        depth += (sign in ("(", "[", "{")) - (sign in (")", "]", "}"))
        if depth == 0 or (depth == 1 and (sign == "," or (word and tokens[place].word == word))):
            if place > start:
                yield start, place
            start = place + 1
        if depth == 0:
            return


def _is_small(argument: Sequence[Token], most: int) -> bool:
    """Return whether an argument is a single literal, of a text or a number that is at most so large."""
    if len(argument) != 1:
        return False
    (token,) = argument
    if token.kind is Kind.NUMBER:
        return not token.text.isdigit() or int(token.text) <= most
    return token.kind in STRINGS and len(token.text) <= most


def without_guards(name: str) -> str:
    """Return the name of a result column without the calls of guards in it.

    >>> without_guards("lpad(a,__bounded_count0(b + (c)))")
    'lpad(a,b + (c))'
    """
    while match := _GUARD_CALL.search(name):
        depth = 0
        for stop in range(match.end() - 1, len(name)):
            depth += (name[stop] == "(") - (name[stop] == ")")
            if depth == 0:
                break
        name = name[: match.start()] + name[match.end() : stop] + name[stop + 1 :]
    return name
