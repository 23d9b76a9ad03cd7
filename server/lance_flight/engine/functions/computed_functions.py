"""Functions of the table that are computed here, by kernels of Arrow and numpy over whole columns.

Those over the list of an aggregate (`mode_of(array_agg(a))`) are what Python's aggregates of DataFusion would be, which run row by row and
count no memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha1
from itertools import repeat
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from rapidfuzz.distance import Jaro, JaroWinkler
from rapidfuzz.process import cdist, cpdist

from lance_flight.engine.functions import date_spans
from lance_flight.engine.functions.bounded_functions import (
    LEAST_BYTES,
    MOST_BYTES,
    MOST_BYTES_OF_A_ROW,
    MOST_ELEMENTS,
    MOST_SHORT,
    MOST_SOUGHT,
    Made,
)
from lance_flight.engine.functions.date_functions import moment_type
from lance_flight.engine.functions.readable_texts import READABLE
from lance_flight.engine.functions.value_texts import (
    ELEMENT_TEXTS,
    VALUE_TEXT,
    element_texts,
    has_own_text,
    value_texts,
)
from lance_flight.errors import LimitExceeded, SqlError
from lance_flight.model.arrow_types import is_bytes, is_list, is_number, is_string
from lance_flight.model.type_names import type_name

MOST_BIGINT = 2.0**63 * (1 - 1e-9)
"""Doubles from which on a sum, whose additions were rounded, may leave BIGINT."""
Columns: TypeAlias = Sequence[pa.Array]
_Result: TypeAlias = pa.DataType | Callable[[Sequence[pa.DataType]], pa.DataType]
_MOMENTS = pa.timestamp("us")


@dataclass(frozen=True, slots=True)
class ArgumentKind:
    """Kind of an argument: which types it may have, and the type that they are cast to."""

    name: str
    fits: Callable[[pa.DataType], bool]
    cast: Callable[[pa.DataType], pa.DataType]


def _as(kind: pa.DataType) -> Callable[[pa.DataType], pa.DataType]:
    return lambda _: kind


def _countable(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a text, binary or list is counted."""
    return pa.utf8() if types.is_null(kind) or is_string(kind) else kind


def _is_of_numbers(kind: pa.DataType) -> bool:
    """Return whether a type is that of lists of numbers; one without elements may be any list."""
    return is_list(kind) and (is_number(kind.value_type) or types.is_null(kind.value_type))


def _printable(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a value is printed: a whole number, a double, its own, or the text of anything else."""
    if types.is_integer(kind):
        return kind if types.is_uint64(kind) else pa.int64()
    if types.is_floating(kind) or types.is_decimal(kind):
        return pa.float64()
    return kind if has_own_text(kind) else pa.utf8()


_ANY = ArgumentKind("a value", lambda _: True, lambda kind: kind)
_PRINTED = ArgumentKind("a value", lambda kind: not types.is_nested(kind) and not is_bytes(kind), _printable)
_TEXT = ArgumentKind("a text", is_string, _as(pa.utf8()))
_WHOLE = ArgumentKind("a whole number", types.is_integer, _as(pa.int64()))
_INTEGER = ArgumentKind("a whole number", types.is_integer, lambda kind: pa.int64() if types.is_null(kind) else kind)
_NUMBER = ArgumentKind("a number", is_number, _as(pa.float64()))
_SHARES = ArgumentKind(
    "a share from 0 to 1, or a list of shares",
    lambda kind: is_number(kind) or _is_of_numbers(kind),
    lambda kind: pa.list_(pa.float64()) if is_list(kind) else pa.float64(),
)
_FACTOR = ArgumentKind(
    "a number", is_number, lambda kind: pa.int64() if types.is_integer(kind) or types.is_null(kind) else pa.float64()
)
_MOMENT = ArgumentKind(
    "a date or timestamp",
    lambda kind: moment_type(kind) is not None and not types.is_time(kind),
    lambda kind: _MOMENTS if types.is_null(kind) else kind,
)
_MOMENT_OR_NUMBER = ArgumentKind(
    "a timestamp or a whole number", lambda kind: types.is_integer(kind) or _MOMENT.fits(kind), _MOMENT.cast
)
_MOMENT_OR_TIME = ArgumentKind("a date, time or timestamp", lambda kind: moment_type(kind) is not None, _MOMENT.cast)
_DAYS = ArgumentKind(
    "a whole number of days or an interval",
    lambda kind: types.is_integer(kind) or types.is_interval(kind),
    lambda kind: date_spans.INTERVAL if types.is_interval(kind) or types.is_null(kind) else pa.int64(),
)
_SPAN = ArgumentKind(
    "an interval",
    lambda kind: types.is_interval(kind) or types.is_duration(kind),
    lambda kind: date_spans.INTERVAL if types.is_interval(kind) or types.is_null(kind) else kind,
)
_DATE_OR_SPAN = ArgumentKind(
    "a date, timestamp or interval",
    lambda kind: _MOMENT.fits(kind) or _SPAN.fits(kind),
    lambda kind: _SPAN.cast(kind) if types.is_interval(kind) or types.is_duration(kind) else _MOMENT.cast(kind),
)
_MOMENT_OR_SPAN = ArgumentKind(
    "a date, time, timestamp or interval",
    lambda kind: moment_type(kind) is not None or _SPAN.fits(kind),
    lambda kind: _SPAN.cast(kind) if _SPAN.fits(kind) else _MOMENT.cast(kind),
)
_LIST = ArgumentKind(
    "a list", is_list, lambda kind: pa.list_(pa.null()) if types.is_null(kind) else pa.list_(kind.value_type)
)
_COMPARED = ArgumentKind(
    "values that are no lists or structs (write CAST(a AS VARCHAR) of these)",
    lambda kind: is_list(kind) and not types.is_nested(kind.value_type),
    _LIST.cast,
)
_NUMBERS = ArgumentKind(
    "a list of numbers", lambda kind: is_list(kind) and is_number(kind.value_type), _as(pa.list_(pa.float64()))
)
_SUMMED = ArgumentKind(
    "a list of numbers",
    _is_of_numbers,
    lambda kind: pa.list_(_summed(kind.value_type if is_list(kind) else pa.int64())),
)
_COUNTED = ArgumentKind(
    "a text, binary or list", lambda kind: is_string(kind) or is_bytes(kind) or is_list(kind), _countable
)
_BINARY = ArgumentKind(
    "a text or binary",
    lambda kind: is_string(kind) or is_bytes(kind),
    lambda kind: kind if is_bytes(kind) else pa.utf8(),
)
_BYTES = ArgumentKind(
    "a text, binary or whole number",
    lambda kind: is_string(kind) or is_bytes(kind) or types.is_integer(kind),
    lambda kind: pa.int64() if types.is_integer(kind) else kind if is_bytes(kind) else pa.utf8(),
)


@dataclass(frozen=True, slots=True)
class ComputedFunction:
    """A function: the kinds of its arguments (with `repeats` any number of the last one), the type of what it gives, and its values.

    One that `grows` gives values that are longer than its arguments, which count with those of the statement's other calls.
    """

    kinds: tuple[ArgumentKind, ...]
    gives: _Result
    values: Callable[[Columns], pa.Array]
    repeats: bool = False
    grows: bool = False

    def compute(self, word: str, columns: Columns, made: Made) -> pa.Array:
        """Return its values, counted among those of the statement."""
        values = self.values(columns)
        made.check_bytes(word, values.nbytes, len(values))
        return values

    def result(self, word: str, given: Sequence[pa.DataType]) -> pa.DataType:
        """Return the type of what it gives; `SqlError` where it takes no arguments of these types."""
        kinds = self._kinds(len(given))
        if len(kinds) != len(given) or not all(
            types.is_null(kind) or argument.fits(kind) for argument, kind in zip(kinds, given, strict=True)
        ):
            got = ", ".join(type_name(kind) for kind in given) or "nothing"
            raise SqlError(
                f"{word} takes {', '.join(argument.name for argument in self.kinds)}{', …' * self.repeats}, got {got}"
            )
        pairs = zip(given, kinds, strict=True)
        zones = {
            getattr(argument, "tz", None) for argument, kind in pairs if kind is _MOMENT and not types.is_null(argument)
        }
        if len(zones) > 1:
            named = " and ".join(sorted(zone or "none" for zone in zones))
            raise SqlError(f"{word} takes moments of one zone, got those of {named}; write AT TIME ZONE behind one")
        return self.gives(given) if callable(self.gives) else self.gives

    def signature(self, given: Sequence[pa.DataType]) -> Sequence[pa.DataType]:
        """Return the types that arguments are cast to."""
        kinds = self._kinds(len(given))
        if len(kinds) != len(given) or any(types.is_struct(kind) for kind in given):
            return given
        fits = [types.is_null(kind) or argument.fits(kind) for argument, kind in zip(kinds, given, strict=True)]
        return [argument.cast(kind) if fit else kind for argument, kind, fit in zip(kinds, given, fits, strict=True)]

    def _kinds(self, count: int) -> tuple[ArgumentKind, ...]:
        *first, last = self.kinds
        return (*first, *[last] * max(0, count - len(first))) if self.repeats else self.kinds


# --- texts


def _length(columns: Columns) -> pa.Array:
    (column,) = columns
    if is_list(column.type):
        return pc.list_value_length(column).cast(pa.int64())
    return (pc.utf8_length(column) if types.is_string(column.type) else pc.binary_length(column)).cast(pa.int64())


def _by_pattern(columns: Columns, compute: Callable[[pa.Array, str, int], pa.Array], kind: pa.DataType) -> pa.Array:
    """Compute a function of texts and patterns, which are one in most columns, and numbers of groups."""
    texts, patterns, *groups = columns
    numbers = groups[0] if groups else pa.array(np.zeros(len(texts), np.int64))
    keys = pa.table({"pattern": patterns, "group": numbers}).group_by(["pattern", "group"]).aggregate([]).to_pylist()
    if len(keys) == 1:
        pattern, group = keys[0]["pattern"], keys[0]["group"]
        return pa.nulls(len(texts), kind) if None in {pattern, group} else _check(compute, texts, pattern, group)
    found = pa.nulls(len(texts), kind)
    for key in keys:
        among = pc.and_(pc.equal(patterns, key["pattern"]), pc.equal(numbers, key["group"])).fill_null(fill_value=False)
        if pc.any(among).as_py():
            made = _check(compute, texts.filter(among), key["pattern"], key["group"])
            found = pa.concat_arrays([found.filter(pc.invert(among)), made]).take(_places(among))
    return found


def _places(among: pa.Array) -> pa.Array:
    """Return where each row is, once those that are marked stand behind all others."""
    marked = among.to_numpy(zero_copy_only=False)
    return pa.array(np.where(marked, np.cumsum(marked) - 1 + (~marked).sum(), np.cumsum(~marked) - 1))


def _check(compute: Callable[[pa.Array, str, int], pa.Array], texts: pa.Array, pattern: str, group: int) -> pa.Array:
    try:
        return compute(texts, pattern, group)
    except pa.ArrowInvalid as exc:
        raise SqlError(f"the pattern {pattern[:60]!r}: {exc}") from exc


_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?!\?)|\(\?P?<\w+>", re.DOTALL)


def _with_one_group(pattern: str, group: int) -> str:
    """Return a pattern whose group of a number, or which itself for 0, is its only group."""
    number = 0

    def rewritten(found: re.Match[str]) -> str:
        nonlocal number
        if not found[0].startswith("("):
            return found[0]
        number += 1
        return "(?P<part>" if number == group else "(?:"

    new = _GROUP.sub(rewritten, pattern)
    if not 0 <= group <= number:
        raise SqlError(f"the pattern {pattern[:60]!r} has {number} groups, got number {group}")
    return new if group else f"(?P<part>{new})"


def _extract(texts: pa.Array, pattern: str, group: int) -> pa.Array:
    found = pc.struct_field(pc.extract_regex(texts, _with_one_group(pattern, group)), "part")
    return pc.if_else(texts.is_null(), pa.scalar(None, pa.utf8()), found.fill_null(""))


_BEGIN, _END = "\x01", "\x02"
_MAY_BE_EMPTY = re.compile(r"[*?|^${]|\(\)|\\[bBAzQ]|\A\Z")
"""Matches a pattern that may match nothing at a place."""


def _with_marks(texts: pa.Array, pattern: str, group: int) -> pa.Array:
    """Return texts with all matches between marks."""
    _check_parts(texts)
    if pc.any(pc.match_substring_regex(texts, f"[{_BEGIN}{_END}]")).as_py():
        raise SqlError("texts with the characters 1 and 2 are not searched for all matches of a pattern")
    return pc.replace_substring_regex(texts, _with_one_group(pattern, group), f"{_BEGIN}\\1{_END}")


def _all_extracted(texts: pa.Array, pattern: str, group: int) -> pa.Array:
    """Return all matches: they are put between marks, at which the texts are split."""
    marked = _with_marks(texts, pattern, group)
    parts = pc.split_pattern(marked, _BEGIN)
    counts = pc.list_value_length(parts).fill_null(1).to_numpy() - 1
    flat = parts.flatten()
    lengths = np.maximum(pc.list_value_length(parts).fill_null(0).to_numpy(), 0)
    is_first = np.zeros(len(flat), bool)
    is_first[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    matches = pc.list_element(pc.split_pattern(flat.filter(pa.array(~is_first)), _END, max_splits=1), 0)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), matches, mask=texts.is_null())


def _split(texts: pa.Array, pattern: str, _: int) -> pa.Array:
    """Return the parts between matches. Arrow 25 never ends where a match is empty: it splits at marks there, of which those at the ends go."""
    if _MAY_BE_EMPTY.search(pattern) is None:
        _check_parts(texts)
        return pc.split_pattern_regex(texts, pattern)
    marked = _with_marks(texts, pattern, 0)
    within = pc.replace_substring_regex(marked, f"^{_BEGIN}{_END}|{_BEGIN}{_END}$", "")
    return pc.split_pattern_regex(within, f"{_BEGIN}[^{_END}]*{_END}")


def _check_parts(texts: pa.Array) -> None:
    """Refuse texts each character of which may become an item of a list, if they are too long together."""
    size, most = pc.sum(pc.binary_length(texts)).as_py() or 0, max(MOST_ELEMENTS // 4, len(texts) * MOST_SHORT)
    if size > most:
        raise LimitExceeded(f"texts of {size} bytes at once are searched for all matches; expected at most {most}")


def _without_accents(columns: Columns) -> pa.Array:
    apart = pc.utf8_normalize(columns[0], "NFD")
    return pc.utf8_normalize(pc.replace_substring_regex(apart, r"\p{Mn}", ""), "NFC")


_SAFE = np.zeros(256, bool)
_SAFE[[ord(sign) for sign in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"]] = True
_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def _buffers(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes of texts, and their offsets."""
    column = pa.concat_arrays([column])
    offsets = np.frombuffer(column.buffers()[1] or b"\0\0\0\0", np.int32)[
        column.offset : column.offset + len(column) + 1
    ]
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets.astype(np.int64) - offsets[0]


def _of_bytes(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], column: pa.Array) -> pa.Array:
    valid = None if not column.null_count else pa.array(column.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.utf8(), len(column), buffers)


def _in_halves(compute: Callable[[pa.Array], pa.Array], columns: Columns) -> pa.Array:
    """Compute a function of bytes, whose arrays of numbers take many times their memory, for some rows at a time."""
    (column,) = columns
    size = 0 if types.is_integer(column.type) else pc.sum(pc.binary_length(column)).as_py() or 0
    if size > max(LEAST_BYTES, len(column) * MOST_BYTES_OF_A_ROW) // _MOST_SIGNS:
        raise LimitExceeded(f"texts of {size} bytes at once; expected shorter ones")
    if size <= _HALVED or len(column) == 1:
        return compute(column)
    half = len(column) // 2
    return pa.concat_arrays([_in_halves(compute, [part]) for part in (column[:half], column[half:])])


_MOST_SIGNS, _HALVED = 3, 1 << 22
"""Characters that are written for one byte, and bytes that are computed at once."""


def _url_encoded(column: pa.Array) -> pa.Array:
    data, offsets = _buffers(column)
    unsafe = ~_SAFE[data]
    places = np.flatnonzero(unsafe)
    made = np.repeat(data, 1 + 2 * unsafe.view(np.uint8))
    signs, at = data[places], places + 2 * np.arange(len(places))
    made[at], made[at + 1], made[at + 2] = ord("%"), _HEX[signs >> 4], _HEX[signs & 15]
    return _of_bytes(made, offsets + 2 * np.searchsorted(places, offsets), column)


def _url_decoded(column: pa.Array) -> pa.Array:
    data, offsets = _buffers(column)
    begins = np.zeros(len(data) + 3, bool)
    begins[offsets] = True
    padded = np.concatenate([data, np.zeros(2, np.uint8)])
    places = np.flatnonzero(data == ord("%"))
    first, second = _VALUES[padded[places + 1]], _VALUES[padded[places + 2]]
    is_coded = (first >= 0) & (second >= 0) & ~begins[places + 1] & ~begins[places + 2]
    places = places[is_coded]
    kept = np.ones(len(data), bool)
    kept[places + 1] = kept[places + 2] = False
    made = data.copy()
    made[places] = (first * 16 + second)[is_coded]
    found = _of_bytes(made[kept], offsets - 2 * np.searchsorted(places, offsets), column)
    try:
        found.validate(full=True)
    except pa.ArrowInvalid as exc:
        raise SqlError(f"url_decode gives no text: {exc}") from exc
    return found


_VALUES = np.full(256, -1, np.int16)
_VALUES[[*b"0123456789ABCDEFabcdef"]] = [*range(16), *range(10, 16)]


def _hexadecimal(column: pa.Array) -> pa.Array:
    if types.is_integer(column.type):
        numbers = column.fill_null(0).to_numpy().astype(">i8").view(np.uint8).reshape(len(column), 8)
        numbers = numbers[:, np.append(numbers.any(0)[:7], True).argmax() :]
        width = 2 * numbers.shape[1]
        digits = np.stack([numbers >> 4, numbers & 15], 2).reshape(len(column), width)
        first = np.where(digits.any(1), (digits > 0).argmax(1), width - 1)
        shown = np.arange(width) >= first[:, None]
        return _of_bytes(_HEX[digits[shown]], np.concatenate([[0], np.cumsum(width - first)]), column)
    data, offsets = _buffers(column.cast(pa.binary()))
    return _of_bytes(np.stack([_HEX[data >> 4], _HEX[data & 15]], 1).reshape(-1), offsets * 2, column)


def _sha1(columns: Columns) -> pa.Array:
    hashed = [
        None if value is None else sha1(value, usedforsecurity=False).hexdigest()
        for value in columns[0].cast(pa.binary()).to_pylist()
    ]
    return pa.array(hashed, pa.utf8())


def _format_values(write: Callable[[str, Sequence[Any]], str], columns: Columns) -> pa.Array:
    """Return values written by a pattern of Python, which `function_table` has checked; NULL where a value is."""
    patterns, *values = columns
    kept = pc.unique(patterns).to_pylist()
    rows = [
        (
            column if types.is_floating(column.type) or not has_own_text(column.type) else value_texts([column])
        ).to_pylist()
        for column in values
    ]
    made: list[str | None]
    try:
        if len(kept) == 1 and kept[0] is not None and not any(column.null_count for column in values):
            made = (
                [write(kept[0], row) for row in zip(*rows, strict=True)]
                if rows
                else [write(kept[0], ())] * len(patterns)
            )
        else:
            made = [
                None if pattern is None or None in row else write(pattern, row)
                for pattern, row in zip(
                    patterns.to_pylist(), zip(*rows, strict=True) if rows else repeat(()), strict=bool(rows)
                )
            ]
    except (TypeError, ValueError, IndexError, OverflowError) as exc:
        raise SqlError(f"the values do not fit the pattern {kept[0]!r}: {exc}") from exc
    if sum(len(text) for text in made if text) > MOST_BYTES:
        raise LimitExceeded(f"texts of more than {MOST_BYTES} characters at once; expected fewer")
    return pa.array(made, pa.utf8())


def _codes(column: pa.Array) -> npt.NDArray[Any]:
    """Return the characters of texts as rows of a matrix, 0 behind their ends."""
    width = _longest(column)
    padded = pc.utf8_rpad(column.fill_null(""), width, "\0") if width else column
    joined = "".join(padded.to_pylist()) if width else ""
    codes = np.frombuffer(joined.encode("utf-32-le"), np.int32).reshape(len(column), width)
    return codes.astype(np.int16) if codes.max(initial=0) < 1 << 15 else codes


def _longest(column: pa.Array) -> int:
    return pc.max(pc.utf8_length(column)).as_py() or 0


def _in_parts(compute: Callable[[Columns], pa.Array], columns: Columns) -> pa.Array:
    """Compute a function of characters for so many rows at a time as a matrix of a bounded size has."""
    widths = [_longest(column) for column in columns]
    if max(widths) > MOST_SOUGHT or len(columns[0]) * widths[0] * widths[-1] > _MOST_PAIRS:
        raise LimitExceeded(
            f"{len(columns[0])} texts of up to {max(widths)} characters; expected at most {MOST_SOUGHT}, and shorter ones of many"
        )
    rows = max(1, _CODES // (max(widths) + 1))
    parts = [compute([column.slice(start, rows) for column in columns]) for start in range(0, len(columns[0]), rows)]
    return pa.chunked_array(parts).combine_chunks() if parts else compute(columns)


_CODES, _MOST_PAIRS = 1 << 16, 4_000_000_000
"""Characters of a matrix, and pairs of characters that one call compares in one batch."""


def _soundex(columns: Columns) -> pa.Array:
    (column,) = columns
    letters = _codes(pc.replace_substring_regex(pc.ascii_upper(column), "[^A-Z]", ""))
    digits = _SOUNDS[np.where(letters > 0, letters - ord("A"), 26)]
    made = np.full((len(column), 4), ord("0"), np.uint8)
    filled = np.zeros(len(column), np.int64)
    before = np.zeros(len(column), np.int8)
    for place in range(letters.shape[1]):
        digit = digits[:, place]
        is_first = (filled == 0) & (letters[:, place] > 0)
        made[is_first, 0] = letters[is_first, place]
        is_new = ~is_first & (digit > 0) & (digit != before) & (filled < 4) & (filled > 0)  # noqa: PLR2004 - the code's letters
        made[is_new, filled[is_new]] = digit[is_new] + ord("0")
        filled += is_first | is_new
        before = digit
    texts = [row.tobytes().decode() for row in made]
    found = pa.array(["" if not count else text for text, count in zip(texts, filled.tolist(), strict=True)], pa.utf8())
    return pc.if_else(column.is_null(), pa.scalar(None, pa.utf8()), found)


_SOUNDS = np.array([int(sign) for sign in "01230120022455012623010202"] + [0], np.int8)


def _alike(columns: Columns, likeness: Callable[..., float]) -> pa.Array:
    """Compute how alike the texts of each row are; empty ones are alike to none."""
    known = pc.and_(*(column.is_valid() for column in columns))
    texts = [column.fill_null("") for column in columns]
    others = pc.unique(texts[1])
    if len(others) == 1:
        (found,) = cdist(others.to_pylist(), texts[0].to_pylist(), scorer=likeness, dtype=np.float64)
    else:
        found = cpdist(*(column.to_pylist() for column in texts), scorer=likeness, dtype=np.float64)
    is_empty = pc.or_(*(pc.equal(column, "") for column in texts))
    return pc.if_else(known, pc.if_else(is_empty, 0.0, pa.array(found)), pa.scalar(None, pa.float64()))


# --- lists of aggregates


def _flat(column: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the elements of lists that are not NULL, the list of each, and how many each list has."""
    elements = pc.list_flatten(column)
    if not elements.null_count:
        return elements, _owners(column), pc.list_value_length(column).fill_null(0).cast(pa.int64()).to_numpy()
    known = elements.is_valid()
    elements, owners = elements.filter(known), _owners(column)[known.to_numpy(zero_copy_only=False)]
    return elements, owners, np.bincount(owners, minlength=len(column))


def _owners(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the list of each element of lists that are not NULL; Arrow's own function counts elements behind a NULL too."""
    sizes = pc.list_value_length(column).fill_null(0).to_numpy()
    return np.repeat(np.arange(len(column)), sizes)


def _count_elements(column: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the different elements of each list in their order, the list of each, and how often it is there."""
    elements, owners, _ = _flat(column)
    groups = pa.table({"owner": owners, "value": elements}).group_by(["owner", "value"]).aggregate([([], "count_all")])
    groups = groups.sort_by([("owner", "ascending"), ("value", "ascending")]).combine_chunks()
    value = groups["value"].combine_chunks() if groups.num_rows else elements
    return value, groups["owner"].to_numpy(), groups["count_all"].to_numpy()


def _mode(columns: Columns) -> pa.Array:
    values, owners, counts = _count_elements(columns[0])
    order = np.lexsort((np.arange(len(owners)), -counts, owners))
    firsts = order[np.unique(owners[order], return_index=True)[1]]
    places = np.full(len(columns[0]), -1)
    places[owners[firsts]] = firsts
    return values.take(pa.array(places, mask=places < 0))


def _only(columns: Columns) -> pa.Array:
    """Return the one element of each list; `SqlError` for a list of several."""
    (column,) = columns
    sizes = pc.list_value_length(column).fill_null(0).to_numpy()
    if (sizes > 1).any():
        raise SqlError(
            f"a subquery in the place of a value gave {sizes.max()} rows; expected one at most: write an aggregate, as (SELECT max(v) …)"
        )
    places = np.cumsum(sizes) - 1
    return pc.list_flatten(column).take(pa.array(places, mask=sizes == 0))


def _histogram(columns: Columns) -> pa.Array:
    values, owners, counts = _count_elements(columns[0])
    sizes = np.bincount(owners, minlength=len(columns[0]))
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    offsets = pc.if_else(pa.array([*(sizes == 0), False]), pa.scalar(None, pa.int32()), offsets)
    return pa.MapArray.from_arrays(offsets, values, pa.array(counts, pa.int64()))


def _histogram_type(given: Sequence[pa.DataType]) -> pa.DataType:
    kind = _value_type(given)
    return kind if types.is_null(kind) else pa.map_(kind, pa.int64())


def _value_type(given: Sequence[pa.DataType]) -> pa.DataType:
    return given[0].value_type if is_list(given[0]) else pa.null()


def _of_shares(value: Callable[[Sequence[pa.DataType]], pa.DataType], given: Sequence[pa.DataType]) -> pa.DataType:
    return pa.list_(value(given)) if is_list(given[1]) else value(given)


def _at_shares(columns: Columns, find: Callable[[pa.Array, Any, Any, Any], pa.Array]) -> pa.Array:
    """Return what `find` makes of the sorted elements of all lists, where each list begins, its size, and a share; or of each of several shares."""
    elements, owners, sizes = _flat(columns[0])
    starts, given = np.cumsum(sizes) - sizes, columns[1]
    has_several = is_list(given.type)
    asking = _owners(given) if has_several else np.arange(len(given))
    shares = pc.list_flatten(given) if has_several else given
    numbers = shares.fill_null(0).to_numpy(zero_copy_only=False)
    if not ((numbers >= 0) & (numbers <= 1)).all():
        raise SqlError("quantile takes a share of the rows from 0 to 1")
    is_known = shares.is_valid().to_numpy(zero_copy_only=False) & (sizes[asking] > 0)
    asked = asking[is_known]
    places = np.full(len(asking), -1)
    places[is_known] = np.arange(len(asked))
    ordered = _sort_lists(elements, owners, sizes, numbers[is_known])
    values = find(ordered, starts[asked], sizes[asked], numbers[is_known])
    values = values.take(pa.array(places, mask=places < 0))
    if not has_several:
        return values
    is_missing = (sizes == 0) | given.is_null().to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(asking, minlength=len(given)))])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=pa.array(is_missing))


_FEW_LISTS, _FEW_SHARES = 1_000, 8
"""Lists whose numbers are sorted one by one, and shares around which alone they are: a fifth of the time of sorting all together."""


def _sort_lists(
    elements: pa.Array,
    owners: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    shares: npt.NDArray[np.float64],
) -> pa.Array:
    """Sort the elements of each list, which stand together, at least in the places around some shares; NaN comes last."""
    kind = elements.type
    if len(sizes) > _FEW_LISTS or not (types.is_integer(kind) or types.is_floating(kind)):
        lists = pa.table({"owner": owners, "value": elements})
        return elements.take(pc.sort_indices(lists, [("owner", "ascending"), ("value", "ascending")]))
    values, asked = elements.to_numpy().copy(), np.unique(shares)
    for part in np.split(values, np.cumsum(sizes)[:-1]):
        if len(asked) > _FEW_SHARES:
            part.sort()
        elif len(part):
            around = np.floor(asked * len(part)).astype(np.int64)[:, np.newaxis] + [-1, 0, 1]
            part.partition(np.unique(around.clip(0, len(part) - 1)))
    return pa.array(values, kind)


def _quantile(columns: Columns) -> pa.Array:
    def find(elements: pa.Array, starts: Any, sizes: Any, shares: Any) -> pa.Array:
        place = np.maximum(np.ceil(np.round(shares * sizes, 9)).astype(np.int64) - 1, 0)
        return elements.take(pa.array(starts + place))

    return _at_shares(columns, find)


def _interpolate(columns: Columns) -> pa.Array:
    def find(elements: pa.Array, starts: Any, sizes: Any, shares: Any) -> pa.Array:
        values, place = elements.to_numpy(zero_copy_only=False), shares * (sizes - 1)
        low = np.floor(place).astype(np.int64)
        below, above = values[starts + low], values[starts + np.ceil(place).astype(np.int64)]
        return pa.array(np.where(below == above, below, below + (above - below) * (place - low)), pa.float64())

    return _at_shares(columns, find)


def _sum_type(given: Sequence[pa.DataType]) -> pa.DataType:
    return _summed(_value_type(given))


def _summed(kind: pa.DataType) -> pa.DataType:
    """Return the type of sums of numbers of a type."""
    if types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    return pa.float64() if types.is_floating(kind) else pa.int64()


def _sum(columns: Columns) -> pa.Array:
    elements, owners, sizes = _flat(columns[0])
    kind = elements.type
    if not types.is_decimal(kind):
        values, is_some = elements.to_numpy(), sizes > 0
        if types.is_integer(kind) and np.abs(np.bincount(owners, values, 1)).max(initial=0) >= MOST_BIGINT:
            raise SqlError("the sum of a list leaves BIGINT; write list_sum of a list of DECIMAL(38, 0)")
        found = np.zeros(len(sizes), values.dtype)
        if len(values):
            found[is_some] = np.add.reduceat(values, (np.cumsum(sizes) - sizes)[is_some])
        return pa.array(found, kind, mask=~is_some)
    sums = (
        pa.table({"owner": owners, "value": elements})
        .group_by("owner", use_threads=False)
        .aggregate([("value", "sum")])
    )
    places = np.full(len(sizes), -1)
    places[sums["owner"].to_numpy()] = np.arange(sums.num_rows)
    return sums["value_sum"].combine_chunks().take(pa.array(places, mask=places < 0)).cast(kind)


def _moments_of(columns: Columns, power: int, compute: Callable[..., Any]) -> pa.Array:
    """Compute a statistic of each list from the number of its elements and the sums of squares and third or fourth powers of their differences to the mean."""
    elements, _, sizes = _flat(columns[0])
    count = sizes.astype(float)
    starts = (np.cumsum(sizes) - sizes)[sizes > 0]
    values = elements.to_numpy(zero_copy_only=False)

    def sums(array: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        found = np.zeros(len(sizes))
        found[sizes > 0] = np.add.reduceat(array, starts) if len(starts) else 0
        return found

    with np.errstate(divide="ignore", invalid="ignore"):
        centred = values - np.repeat(sums(values) / count, sizes)
        square = centred * centred
        found = compute(count, sums(square), sums(square * (centred if power % 2 else square)))
    return pa.array(found, mask=(sizes < power) | ~np.isfinite(found))


def _skewness(n: Any, second: Any, third: Any) -> Any:
    return np.sqrt(n * (n - 1)) / (n - 2) * (third / n) / (second / n) ** 1.5


def _kurtosis(n: Any, second: Any, fourth: Any) -> Any:
    variance = second / (n - 1)
    return n * (n + 1) / ((n - 1) * (n - 2) * (n - 3)) * fourth / variance**2 - 3 * (n - 1) ** 2 / ((n - 2) * (n - 3))


def _entropy(columns: Columns) -> pa.Array:
    _, owners, counts = _count_elements(columns[0])
    sizes = np.bincount(owners, counts, len(columns[0]))
    shares = counts / sizes[owners]
    return pa.array(np.bincount(owners, -shares * np.log2(shares), len(sizes)) + 0.0)


def _type_names(columns: Columns) -> pa.Array:
    kind = pa.binary() if is_bytes(columns[0].type) else columns[0].type
    name = type_name(kind).replace("TIMESTAMP(6)", "TIMESTAMP").replace("TIMESTAMPTZ(6)", "TIMESTAMPTZ")
    return pa.repeat(pa.scalar(name, pa.utf8()), len(columns[0]))


def _bit_counts(columns: Columns) -> pa.Array:
    (column,) = columns
    numbers = column.fill_null(0).to_numpy()
    bits = np.bitwise_count(numbers.view(f"u{numbers.itemsize}"))
    return pa.array(bits.astype(np.int32), mask=column.is_null().to_numpy(zero_copy_only=False))


COMPUTED: Mapping[str, ComputedFunction] = MappingProxyType(
    {
        "date_diff": ComputedFunction((_TEXT, _MOMENT, _MOMENT), pa.int64(), date_spans.compute_date_diff),
        "date_span": ComputedFunction((_TEXT, _MOMENT, _MOMENT), pa.int64(), date_spans.spans),
        "age": ComputedFunction((_MOMENT, _MOMENT), date_spans.INTERVAL, date_spans.ages),
        "last_day": ComputedFunction((_MOMENT,), pa.date32(), date_spans.last_days),
        date_spans.INTERVAL_LENGTH: ComputedFunction((_SPAN,), pa.int64(), date_spans.interval_lengths),
        date_spans.INTERVAL_OF: ComputedFunction((_SPAN,), date_spans.INTERVAL, date_spans.intervals_of),
        date_spans.LOCAL_MOMENT: ComputedFunction(
            (_MOMENT, _TEXT), date_spans.moments_in_utc, date_spans.moments_of_local_times
        ),
        VALUE_TEXT: ComputedFunction((_ANY,), pa.utf8(), value_texts, grows=True),
        ELEMENT_TEXTS: ComputedFunction((_LIST,), pa.list_(pa.utf8()), element_texts, grows=True),
        **{name: ComputedFunction((_TEXT,), pa.utf8(), compute) for name, compute in READABLE.items()},
        "months_between": ComputedFunction((_MOMENT, _MOMENT), pa.float64(), date_spans.months_between),
        "days_of": ComputedFunction((_DAYS,), date_spans.INTERVAL, date_spans.days_of),
        date_spans.PRODUCT: ComputedFunction(
            (_FACTOR, _WHOLE, _WHOLE, _WHOLE), date_spans.INTERVAL, date_spans.multiply_intervals
        ),
        **{
            name: ComputedFunction((_DATE_OR_SPAN,), pa.int64(), partial(date_spans.count_years, size))
            for name, size in {"century": 100, "millennium": 1_000}.items()
        },
        "epoch": ComputedFunction((_MOMENT_OR_SPAN,), pa.float64(), date_spans.seconds_since_1970),
        **{
            name: ComputedFunction((_MOMENT,), pa.int64(), partial(date_spans.since_1970, size))
            for name, size in date_spans.UNITS.items()
        },
        **{
            name: ComputedFunction((_MOMENT_OR_SPAN,), pa.int64(), partial(date_spans.within_minute, size))
            for name, size in {"millisecond": 10**3, "microsecond": 10**6, "nanosecond": 10**9}.items()
        },
        "epoch_ms": ComputedFunction(
            (_MOMENT_OR_NUMBER,),
            lambda given: _MOMENTS if types.is_integer(given[0]) else pa.int64(),
            partial(date_spans.since_1970, 1_000),
        ),
        "make_timestamp": ComputedFunction((_WHOLE,) * 5 + (_NUMBER,), _MOMENTS, date_spans.made_timestamps),
        "moment_text": ComputedFunction((_MOMENT_OR_TIME, _TEXT), pa.utf8(), date_spans.moment_texts, grows=True),
        "parse_moment": ComputedFunction(
            (_TEXT, _TEXT), _MOMENTS, partial(date_spans.compute_strptime, is_strict=True)
        ),
        "try_parse_moment": ComputedFunction(
            (_TEXT, _TEXT), _MOMENTS, partial(date_spans.compute_strptime, is_strict=False)
        ),
        "typeof": ComputedFunction((_ANY,), pa.utf8(), _type_names),
        "bit_count": ComputedFunction((_INTEGER,), pa.int32(), _bit_counts),
        "len": ComputedFunction((_COUNTED,), pa.int64(), _length),
        "octet_length": ComputedFunction(
            (_BINARY,), pa.int32(), lambda columns: pc.binary_length(columns[0]).cast(pa.int32())
        ),
        "utf8_bytes": ComputedFunction((_BINARY,), pa.binary(), lambda columns: columns[0].cast(pa.binary())),
        "extract_regex": ComputedFunction(
            (_TEXT, _TEXT, _WHOLE), pa.utf8(), lambda columns: _by_pattern(columns, _extract, pa.utf8())
        ),
        "extract_all_regex": ComputedFunction(
            (_TEXT, _TEXT, _WHOLE),
            pa.list_(pa.utf8()),
            lambda columns: _by_pattern(columns, _all_extracted, pa.list_(pa.utf8())),
        ),
        "split_regex": ComputedFunction(
            (_TEXT, _TEXT), pa.list_(pa.utf8()), lambda columns: _by_pattern(columns, _split, pa.list_(pa.utf8()))
        ),
        "strip_accents": ComputedFunction((_TEXT,), pa.utf8(), _without_accents),
        "nfc_normalize": ComputedFunction((_TEXT,), pa.utf8(), lambda columns: pc.utf8_normalize(columns[0], "NFC")),
        "url_encode": ComputedFunction((_TEXT,), pa.utf8(), partial(_in_halves, _url_encoded), grows=True),
        "url_decode": ComputedFunction((_TEXT,), pa.utf8(), partial(_in_halves, _url_decoded)),
        "hex": ComputedFunction((_BYTES,), pa.utf8(), partial(_in_halves, _hexadecimal), grows=True),
        "format_text": ComputedFunction(
            (_TEXT, _PRINTED),
            pa.utf8(),
            partial(_format_values, lambda pattern, row: pattern.format(*row)),
            repeats=True,
            grows=True,
        ),
        "print_text": ComputedFunction(
            (_TEXT, _PRINTED),
            pa.utf8(),
            partial(_format_values, lambda pattern, row: pattern % tuple(row)),
            repeats=True,
            grows=True,
        ),
        "sha1": ComputedFunction((_BINARY,), pa.utf8(), _sha1),
        "soundex": ComputedFunction((_TEXT,), pa.utf8(), partial(_in_parts, _soundex)),
        "jaro_similarity": ComputedFunction(
            (_TEXT, _TEXT), pa.float64(), partial(_in_parts, partial(_alike, likeness=Jaro.similarity))
        ),
        "jaro_winkler_similarity": ComputedFunction(
            (_TEXT, _TEXT), pa.float64(), partial(_in_parts, partial(_alike, likeness=JaroWinkler.similarity))
        ),
        "mode_of": ComputedFunction((_COMPARED,), _value_type, _mode),
        "only_value": ComputedFunction((_LIST,), _value_type, _only),
        "histogram_of": ComputedFunction((_COMPARED,), _histogram_type, _histogram),
        "quantile_of": ComputedFunction((_LIST, _SHARES), partial(_of_shares, _value_type), _quantile),
        "quantile_cont_of": ComputedFunction((_NUMBERS, _SHARES), partial(_of_shares, _as(pa.float64())), _interpolate),
        "sum_of": ComputedFunction((_SUMMED,), _sum_type, _sum),
        "skewness_of": ComputedFunction((_NUMBERS,), pa.float64(), partial(_moments_of, power=3, compute=_skewness)),
        "kurtosis_of": ComputedFunction((_NUMBERS,), pa.float64(), partial(_moments_of, power=4, compute=_kurtosis)),
        "entropy_of": ComputedFunction((_COMPARED,), pa.float64(), _entropy),
    }
)
"""Functions by the names that macros, or clients, call them by."""
