"""Functions over documents: Lance's names, with its values wherever it has one; where it fails, they give NULL.

Lance's own functions end a query at the first value of another kind (`json_get_int` of "x"). A number keeps the text that it has in its
document, so that what is read of it is the same here and there.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, NoReturn

import pyarrow as pa

from lance_flight.errors import SqlError
from lance_flight.model.json_documents import is_document

_SHOWN = 60
_KEPT_PATHS = 256
_KEY, _PATH = "a key", "a path"
_WHOLE = re.compile(r"[+-]?[0-9]+")
_FRACTION = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_NO_NUMBER = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
_STEP = re.compile(
    r"""\.(?P<name>\w+)|\.(?P<quoted>"(?:[^"\\]|\\.)*")|\[(?:(?P<key>"(?:[^"\\]|\\.)*")|(?P<place>[0-9]{1,9}))\]"""
)
_INTEGERS = range(-(2**63), 2**63)

Step = str | int
"""Key of an object, or place in an array."""


class _Number(str):
    """A number as its document writes it."""

    __slots__ = ()


def _no_value(word: str) -> NoReturn:
    raise ValueError(f"{word} is no value of JSON")


_READER = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_no_value)


def _as_text(value: Any) -> str | None:
    return value if value is None or type(value) is str else _written(value)


def _as_integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str):
        return None
    if _WHOLE.fullmatch(value):
        found = int(value) if len(value.lstrip("+-0")) < len(str(_INTEGERS.stop)) + 1 else _INTEGERS.stop
    elif _FRACTION.fullmatch(value) and math.isfinite(number := float(value)):
        found = math.trunc(number)
        found += int(math.copysign(abs(number - found) >= 1 / 2, number))
    else:
        return None
    return found if found in _INTEGERS else None


def _as_number(value: Any) -> float | None:
    if isinstance(value, bool):
        return float(value)
    is_number = isinstance(value, str) and (_FRACTION.fullmatch(value) or _NO_NUMBER.fullmatch(value))
    return float(value) if is_number else None


def _as_boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else _BOOLEANS.get(value.lower()) if type(value) is str else None


_BOOLEANS = MappingProxyType({"true": True, "false": False})


def _written(value: Any) -> str:
    """Return the text of a value as Lance writes it."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{_written(key)}:{_written(inner)}' for key, inner in sorted(value.items()))}}}"
    return json.dumps(value, ensure_ascii=False)


@lru_cache(_KEPT_PATHS)
def path_steps(path: str) -> tuple[Step, ...]:
    """Return the steps of a path: `$`, then `.key`, `."any key"`, `["any key"]` and `[0]`; `SqlError` for any other.

    >>> path_steps('$.a."b c"[0]["d"]')
    ('a', 'b c', 0, 'd')
    """
    at, steps = 1, list[Step]()
    while at < len(path) and path.startswith("$") and (found := _STEP.match(path, at)):
        quoted = found["quoted"] or found["key"]
        steps.append(int(found["place"]) if found["place"] else json.loads(quoted) if quoted else found["name"])
        at = found.end()
    if not path.startswith("$") or at < len(path):
        raise SqlError(
            f'{path[:_SHOWN]!r} is no path into a document; expected $ with .key, ."any key", ["any key"] and [0] after it'
        )
    return tuple(steps)


def _key_steps(key: str) -> tuple[Step, ...]:
    return (key,)


_MISSING = object()


def _found(value: Any, steps: Sequence[Step]) -> Any:
    for step in steps:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step, _MISSING)
        elif isinstance(value, list) and (isinstance(step, int) or _WHOLE.fullmatch(step)):
            place = int(step) if len(str(step)) <= len(str(len(value))) + 1 else len(value)
            value = value[place] if 0 <= place < len(value) else _MISSING
        else:
            return _MISSING
    return value


def _read(text: str) -> Any:
    try:
        return _READER.decode(text)
    except ValueError as exc:
        raise SqlError(f"{text[:_SHOWN]!r} is no JSON: {exc}") from exc


def _value(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is _MISSING else convert(value)


def _exists(value: Any) -> bool:
    return value is not _MISSING


_Function = tuple[pa.DataType, str, Callable[[Any], Any]]
_FUNCTIONS: Mapping[str, _Function] = MappingProxyType(
    {
        "json_get_string": (pa.utf8(), _KEY, partial(_value, _as_text)),
        "json_get_int": (pa.int64(), _KEY, partial(_value, _as_integer)),
        "json_get_float": (pa.float64(), _KEY, partial(_value, _as_number)),
        "json_get_bool": (pa.bool_(), _KEY, partial(_value, _as_boolean)),
        "json_extract": (pa.utf8(), _PATH, partial(_value, _written)),
        "json_exists": (pa.bool_(), _PATH, _exists),
    }
)
"""Each function: the type of what it gives, what its second argument is, and what it makes of the value that it finds."""


def json_type(word: str, types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of what a function gives; `SqlError` where it takes no arguments of these types."""
    kind, second, _ = _FUNCTIONS[word]
    if len(types) != len(("document", second)):
        raise SqlError(f"{word} takes a document and {second}, got {len(types)} arguments")
    for each in types:
        if not (is_document(each) or pa.types.is_null(each)):
            raise SqlError(f"{word} is not defined for {each}; expected a document and {second}, which are texts")
    return kind


def json_signature(types: Sequence[pa.DataType]) -> Sequence[pa.DataType]:
    """Return the types that the arguments are cast to."""
    return [pa.utf8() if is_document(each) else each for each in types]


def json_values(word: str, columns: Sequence[pa.Array]) -> pa.Array:
    """Return what a function gives for documents, and keys or paths."""
    kind, second, convert = _FUNCTIONS[word]
    steps_of = _key_steps if second == _KEY else path_steps
    texts, wanted = (column.to_pylist() for column in columns)
    try:
        values = [
            None if text is None or each is None else convert(_found(_read(text), steps_of(each)))
            for text, each in zip(texts, wanted, strict=True)
        ]
    except RecursionError as exc:
        raise SqlError(f"{word} reads no document with so many arrays and objects inside each other") from exc
    return pa.array(values, kind)


NAMES = tuple(_FUNCTIONS)
