"""Columns of documents that are read at once: values at one path of each, as texts of one column, and what functions give for them.

`json_functions` says what a function gives; here is what kernels compute of it. Documents are read one behind the other, since no document has
two brackets side by side that close and open a value. What is not asked for is passed over, and not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Step: TypeAlias = str | int
"""Key of an object, or place in an array."""
OfText: TypeAlias = Callable[[bytes], Any]
"""What a function gives for the text of one value."""

_MOST_AT_ONCE, _LONGEST_AT_ONCE = 4 << 20, 64 << 10
"""Bytes of documents, and of one, that are read without a turn for other threads."""
_MOST_OPEN = 128
"""Brackets of a document that is an array: deep ones are refused where they are read one by one."""
_KEPT_PATHS = 256
_KEPT_TEXTS, _LONGEST_KEPT, _OFTEN_EQUAL = 4_096, 256, 64
_NOTHING = msgspec.Raw(b"")
_OBJECT, _ARRAY = "{", "["
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NOT_AS_WRITTEN = r"\\|\d[.eE]|-0|\d{18}"
"""Matches what may be written otherwise once it is read: escapes, and numbers that are no short integers."""
_SPACED = r"\s[]{}[,:]|[]{}[,:]\s"
"""Matches spaces outside of texts, and some inside."""


class _UnreadError(Exception):
    """Documents have to be read one by one."""


def values_at_once(
    word: str, texts: pa.Array, steps: Sequence[Step], of_text: OfText, kind: pa.DataType
) -> pa.Array | None:
    """Return what a function gives for the values at a path of documents that are all objects or arrays; None for any others."""
    lengths = pc.binary_length(texts)
    if len(texts) == texts.null_count or pc.max(lengths).as_py() > _LONGEST_AT_ONCE:
        return None
    is_object = pc.and_(pc.starts_with(texts, _OBJECT), pc.ends_with(texts, "}"))
    are_objects = pc.all(is_object).as_py()
    if not are_objects:
        is_array = pc.and_(pc.starts_with(texts, _ARRAY), pc.ends_with(texts, "]"))
        if (
            not pc.all(pc.or_(is_object, is_array)).as_py()
            or pc.max(pc.count_substring(texts, "[")).as_py() > _MOST_OPEN
        ):
            return None
    rows = max(1, len(texts) * _MOST_AT_ONCE // (pc.sum(lengths).as_py() + 1))
    parts = []
    try:
        for start in range(0, len(texts), rows):
            part = texts.slice(start, rows)
            keys = tuple(step for step in steps if isinstance(step, str)) if are_objects else ()
            plain = _plain_values(word, part, keys, kind) if keys and len(keys) == len(steps) else None
            if plain is not None:
                parts.append(plain)
                continue
            if not (are_objects and steps and isinstance(steps[0], str)):
                _decode(_OBJECTS if are_objects else _VALUES, part)
            parts.append(_OF_COLUMN.get(word, _of_values)(_find(part, tuple(steps)), of_text, kind))
    except (_UnreadError, msgspec.MsgspecError, ValueError, RecursionError):
        return None
    found = pa.concat_arrays(parts)
    return pc.if_else(texts.is_valid(), found, pa.scalar(None, kind)) if texts.null_count else found


def _decode(decoder: msgspec.json.Decoder[Any], texts: pa.Array) -> list[Any]:
    """Return what each text is read as, all of which are objects, arrays or NULL, for which there is nothing."""
    texts = pa.concat_arrays([texts])
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    first, last = offsets[[0, -1]].tolist()
    if pc.sum(pc.binary_length(texts)).as_py() not in {last - first, None}:
        raise _UnreadError  # there is something between them
    found: list[Any] = decoder.decode_lines((texts.buffers()[2] or pa.py_buffer(b""))[first:last])
    if len(found) != len(texts) - texts.null_count:
        raise _UnreadError
    return found


def _among(texts: pa.Array, marked: pa.Array) -> pa.Array:
    return texts if pc.sum(marked).as_py() == len(texts) - texts.null_count else texts.filter(marked)


def _spread(values: pa.Array, among: pa.Array) -> pa.Array:
    """Return values as the rows that are marked, and NULL as the others."""
    if len(values) == len(among):
        return values
    places = pc.subtract(pc.cumulative_sum(among.cast(pa.int64())), 1)
    return values.take(pc.if_else(among, places, pa.scalar(None, pa.int64())))


# --- values at a path


def _find(texts: pa.Array, steps: tuple[Step, ...]) -> pa.Array:
    """Return the texts of the values at a path, NULL where there is none."""
    if not steps:
        return texts
    if isinstance(steps[0], int):
        return _find(_at_place(texts, steps[0]), steps[1:])
    keys = tuple(takewhile(lambda step: isinstance(step, str), steps))
    try:
        return _find(_at_keys(texts, keys), steps[len(keys) :])
    except msgspec.ValidationError:  # an inner value is no object
        if len(keys) == 1:
            raise
        return _find(_at_keys(texts, keys[:1]), steps[1:])


def _at_keys(texts: pa.Array, keys: tuple[Step, ...]) -> pa.Array:
    among = pc.starts_with(texts, _OBJECT).fill_null(fill_value=False)
    if any(_WHOLE.fullmatch(str(key)) for key in keys) and pc.any(pc.starts_with(texts, _ARRAY)).as_py():
        raise _UnreadError  # such a key is a place in an array
    first, *others = keys
    found = _decode(_decoder((first, *others)), _among(texts, among))
    return _spread(_column_of(_innermost(found, len(keys), _NOTHING)), among)


def _innermost(documents: list[Any], depth: int, nothing: Any) -> list[Any]:
    """Return the values at the end of a path of keys, and `nothing` behind a null."""
    try:
        return list(map(attrgetter(".".join(["value"] * depth)), documents))
    except AttributeError:
        for _ in range(depth):
            documents = [nothing if each is None or each is nothing else each.value for each in documents]
        return documents


@lru_cache(_KEPT_PATHS)
def _decoder(keys: tuple[Step, ...], word: str = "") -> msgspec.json.Decoder[Any]:
    kind, nothing = _PLAIN.get(word, (msgspec.Raw, _NOTHING))
    for place, key in enumerate(reversed(keys)):
        inner, default = (kind, nothing) if place == 0 else (kind | None, kind())
        kind = msgspec.defstruct(
            "Document", [("value", inner, default)], rename={"value": str(key)}, gc=False, frozen=True
        )
    return msgspec.json.Decoder(kind)


_PLAIN: Mapping[str, tuple[Any, Any]] = MappingProxyType(
    {
        **dict.fromkeys(["json_get_string", "json_extract_string"], (str | int | None, None)),
        "json_get_int": (int | None, None),
        "json_get_float": (float | None, None),
        "json_exists": (str | int | float | bool | msgspec.UnsetType | None, msgspec.UNSET),
    }
)
"""Types of values that functions take as msgspec reads them, in less time than texts of values, and what stands for none."""


def _plain_values(word: str, texts: pa.Array, keys: tuple[str, ...], kind: pa.DataType) -> pa.Array | None:
    """Return what a function gives for values of objects that are all of one plain type; None for any others."""
    if word not in _PLAIN:
        return None
    try:
        nothing = _PLAIN[word][1]
        found = _innermost(_decode(_decoder(keys, word), texts), len(keys), nothing)
        if nothing is msgspec.UNSET:
            return _spread(pa.array([each is not nothing for each in found]), texts.is_valid())
        is_text = pa.types.is_string(kind) and not isinstance(next((n for n in found if n is not None), 0), int)
        values = pa.array(found, pa.int64() if pa.types.is_string(kind) and not is_text else kind)
    except (msgspec.MsgspecError, pa.ArrowException, OverflowError):
        return None
    if not is_text and pc.any(pc.equal(values, 0)).as_py() and pc.any(pc.match_substring(texts, "-0")).as_py():
        return None  # its sign is lost
    return _spread(values.cast(kind), texts.is_valid())


def _at_place(texts: pa.Array, place: int) -> pa.Array:
    values, codes = _distinct(texts)
    among = pc.starts_with(values, _ARRAY).fill_null(fill_value=False)
    lists = _decode(_LISTS, values.filter(among))
    found = [each[place] if place < len(each) else _NOTHING for each in lists]
    return _spread(_column_of(found), among).take(codes)


_VALUES, _LISTS = msgspec.json.Decoder(msgspec.Raw), msgspec.json.Decoder(list[msgspec.Raw])
_OBJECTS = msgspec.json.Decoder(msgspec.defstruct("Object", [], gc=False))
_Skipped = msgspec.defstruct("Skipped", [], gc=False)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PLAIN_MEMBERS = msgspec.json.Decoder(dict[str, str | int | float | bool | _Skipped | None])  # type: ignore[valid-type]


def _column_of(values: list[msgspec.Raw]) -> pa.Array:
    """Return the texts of values as a column, NULL for what is not there."""
    joined = b"\0".join([*values, _NOTHING])
    ends = np.flatnonzero(np.frombuffer(joined, np.uint8) == 0)
    if len(ends) != len(values):
        raise _UnreadError
    offsets = np.concatenate([[0], ends - np.arange(len(ends))]).astype(np.int32)
    lengths = np.diff(offsets)
    valid = None if lengths.all() else pa.array(lengths > 0).buffers()[1]
    data = pa.py_buffer(joined.replace(b"\0", b""))
    return pa.Array.from_buffers(pa.utf8(), len(values), [valid, pa.py_buffer(offsets), data])


def _distinct(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the different texts, and the place of each row's among them."""
    encoded = texts.dictionary_encode()
    return encoded.dictionary, encoded.indices


# --- what functions give for the texts of values


def _of_values(texts: pa.Array, of_text: OfText, kind: pa.DataType) -> pa.Array:
    """Return what a function gives for each value, computed once for those that are equal."""
    values, codes = _distinct(texts)
    return pa.array(map(of_text, values.cast(pa.binary()).to_pylist()), kind).take(codes)


def _except(texts: pa.Array, sure: pa.Array, rest: pa.Array, of_text: OfText) -> pa.Array:
    """Return what is sure, with what a function gives for the rest of the values in their places."""
    rest = rest.fill_null(fill_value=False)
    if not pc.any(rest).as_py():
        return sure
    return pc.replace_with_mask(sure, rest, _of_values(texts.filter(rest), of_text, sure.type))


def _first_bytes(texts: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the first byte of each text, 0 for NULL."""
    filled = pa.concat_arrays([texts.fill_null("\0")])
    offsets = np.frombuffer(filled.buffers()[1], np.int32)[filled.offset : filled.offset + len(filled)]
    return np.frombuffer(filled.buffers()[2], np.uint8)[offsets]


def _matching(texts: pa.Array, sign: str) -> pa.Array:
    """Return which texts have a sign, which few columns have anywhere."""
    texts = pa.concat_arrays([texts])
    if sign.encode() not in memoryview(texts.buffers()[2] or b"").tobytes():
        return pa.array(np.zeros(len(texts), bool))
    return pc.match_substring(texts, sign).fill_null(fill_value=False)


def _written(texts: pa.Array, of_text: OfText, _: pa.DataType) -> pa.Array:
    """Return values with the text that Lance writes for them; of objects with several keys the order is to be looked at."""
    values, codes = _distinct(texts) if np.isin(_first_bytes(texts), [*b"{["]).any() else (texts, None)
    found = _written_values(values, of_text)
    return found if codes is None else found.take(codes)


def _written_values(texts: pa.Array, of_text: OfText) -> pa.Array:
    first = _first_bytes(texts)
    is_text, is_nested = first == ord('"'), np.isin(first, [*b"{["])
    odd = _matching(texts, "\\")
    if not (is_text | (first == 0)).all():
        odd = pc.or_(odd, pc.and_(pc.match_substring_regex(texts, _NOT_AS_WRITTEN), pa.array(~is_text)))
    found = _except(texts, texts, odd, of_text)
    if not is_nested.any():
        return found
    several = pc.and_(pc.match_substring(texts, _OBJECT), pc.match_substring(texts, ","))
    loose = pc.and_(pc.or_(several, pc.match_substring_regex(texts, _SPACED)), pa.array(is_nested))
    loose = pc.and_not(loose, odd.fill_null(fill_value=False))
    return _except(texts, found, loose, lambda text: (_sort if len(text) <= _LONGEST_KEPT else _sort.__wrapped__)(text))


@lru_cache(_KEPT_TEXTS)
def _sort(text: bytes) -> str:
    return _SORTED.encode(_ANY.decode(text)).decode()


_ANY, _SORTED = msgspec.json.Decoder(), msgspec.json.Encoder(order="sorted")


def _as_texts(texts: pa.Array, of_text: OfText, _: pa.DataType) -> pa.Array:
    first = _first_bytes(texts)
    quoted = first == ord('"')
    sure = texts
    if quoted.any():
        cut = pc.binary_slice(texts.cast(pa.binary()), 1, -1).cast(pa.utf8())
        sure = cut if (quoted | (first == 0)).all() else pc.if_else(pa.array(quoted), cut, texts)
    return _except(texts, sure, pc.or_(_matching(texts, "\\"), pa.array(_OTHERS[first])), of_text)


_OTHERS = np.isin(np.arange(256), [*b"{[n"])
"""First bytes of arrays, objects and null."""


def _as_integers(texts: pa.Array, of_text: OfText, kind: pa.DataType) -> pa.Array:
    return _as_numbers(texts, r"^-?[0-9]{1,17}$", of_text, kind)


def _as_floats(texts: pa.Array, of_text: OfText, kind: pa.DataType) -> pa.Array:
    return _as_numbers(texts, r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$", of_text, kind)


def _as_numbers(texts: pa.Array, plain: str, of_text: OfText, kind: pa.DataType) -> pa.Array:
    is_plain = pc.match_substring_regex(texts, plain)
    sure = pc.if_else(is_plain, texts, pa.scalar(None, pa.utf8())).cast(kind)
    return _except(texts, sure, pc.invert(is_plain), of_text)


def _exist(texts: pa.Array, _: OfText, __: pa.DataType) -> pa.Array:
    return texts.is_valid()


def _lengths(texts: pa.Array, of_text: OfText, kind: pa.DataType) -> pa.Array:
    texts, codes = _distinct(texts)
    flat = pc.match_substring_regex(texts, r'^\[[^"\[{]*[0-9a-z][^"\[{]*\]$')
    sure = pc.if_else(flat, pc.add(pc.count_substring(texts, ",").cast(kind), 1), pa.scalar(0, kind))
    return _except(texts, sure, pc.and_(pc.starts_with(texts, _ARRAY), pc.invert(flat)), of_text).take(codes)


def _keys(texts: pa.Array, _: OfText, kind: pa.DataType) -> pa.Array:
    """Return lists of keys, of which most documents of a column have the same."""
    if len(texts) > texts.null_count and pc.mean(pc.binary_length(texts)).as_py() <= _OFTEN_EQUAL:
        values, codes = _distinct(texts)
        return _listed_keys(values, kind).take(codes)
    return _listed_keys(texts, kind)


def _listed_keys(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    among = pc.starts_with(texts, _OBJECT).fill_null(fill_value=False)
    seen: dict[tuple[str, ...], int] = {}
    objects = _among(texts, among)
    try:
        members = _decode(_PLAIN_MEMBERS, objects)
    except msgspec.MsgspecError:  # some are lists
        members = _decode(_MEMBERS, objects)
    codes = [seen.setdefault(tuple(each), len(seen)) for each in members]
    lists = pa.array([*map(list, seen), []], kind)
    places = _spread(pa.array(codes, pa.int64()), among).fill_null(len(seen))
    return lists.take(pc.if_else(texts.is_valid(), places, pa.scalar(None, pa.int64())))


def _kinds(texts: pa.Array, _: OfText, kind: pa.DataType) -> pa.Array:
    codes = _SIGNS[_first_bytes(texts)]
    numbers = np.isin(codes, [_NAMES.index("UBIGINT"), _NAMES.index("BIGINT")])
    if numbers.any() and any(pc.any(_matching(texts, sign)).as_py() for sign in ".eE"):
        fractions = pc.match_substring_regex(texts, "[.eE]").fill_null(fill_value=False)
        codes = np.where(numbers & fractions.to_numpy(zero_copy_only=False), _NAMES.index("DOUBLE"), codes)
    return pa.array(_NAMES, kind).take(pa.array(codes))


_NAMES = ("OBJECT", "ARRAY", "VARCHAR", "BOOLEAN", "NULL", "UBIGINT", "BIGINT", "DOUBLE", None)
_SIGNS = np.full(256, _NAMES.index("UBIGINT"))
_SIGNS[[*b'{["tfn-\0']] = [0, 1, 2, 3, 3, 4, 6, 8]

_OF_COLUMN: Mapping[str, Callable[[pa.Array, OfText, pa.DataType], pa.Array]] = MappingProxyType(
    {
        "json_valid": lambda texts, _, __: pa.array(np.ones(len(texts), bool)),
        "json_exists": _exist,
        "json_extract": _written,
        "json_extract_string": _as_texts,
        "json_get_string": _as_texts,
        "json_get_int": _as_integers,
        "json_get_float": _as_floats,
        "json_array_length": _lengths,
        "json_keys": _keys,
        "json_type": _kinds,
    }
)
"""Functions of a column of texts; any other, as `json_get_bool`, is computed for each different value."""
