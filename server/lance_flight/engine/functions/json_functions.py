"""Functions over documents with Lance's names, and PostgreSQL's operators `doc -> 'a' ->> 'b'`.

Lance's own functions end a query at the first value of another kind (`json_get_int` of "x"). A number keeps the text that it has in its
document, so that what is read of it is the same here and there.

They belong to the column, call or brackets before them, whatever stands before that.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NoReturn

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.engine.functions.json_columns import Step, values_at_once
from lance_flight.engine.sql.clause_words import BEFORE_OPERAND
from lance_flight.engine.sql.references import text_literal
from lance_flight.engine.sql.tokens import Edit, Kind, Token, closing_places
from lance_flight.errors import LimitExceeded, SqlError
from lance_flight.model.json_documents import MOST_CHARACTERS, is_document
from lance_flight.threads import DOCUMENTS

_SHOWN = 60
_KEPT_PATHS = 256
_KEY, _PATH = "a key", "a path"
_WHOLE = re.compile(r"[+-]?[0-9]+")
_FRACTION = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_NO_NUMBER = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
_STEP = re.compile(
    r"""\.(?P<name>\w+)|\.(?P<quoted>"(?:[^"\\]|\\.)*")|\[(?:(?P<key>"(?:[^"\\]|\\.)*")|(?P<place>[0-9]{1,9}))\]"""
)
_KEY_ALONE = re.compile(r"[^\W\d]\w*")
_INTEGERS = range(-(2**63), 2**63)


class _Number(str):
    """A number as its document writes it."""

    __slots__ = ()


def _no_value(word: str) -> NoReturn:
    raise ValueError(f"{word} is no value of JSON")


def _number(text: str) -> _Number:
    """Return a number; as a function of Python, it gives other threads their turn while a long document is read."""
    return _Number(text)


_READER = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_no_value)


def _as_text(value: Any) -> str | None:
    return value if value is None or type(value) is str else _write(value)


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


def _write(value: Any) -> str:
    """Return the text of a value as Lance writes it."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(map(_write, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{_write(key)}:{_write(inner)}' for key, inner in sorted(value.items()))}}}"
    return json.dumps(value, ensure_ascii=False)


@lru_cache(_KEPT_PATHS)
def path_steps(path: str) -> tuple[Step, ...]:
    """Return the steps of a path: `$`, then `.key`, `."any key"`, `["any key"]` and `[0]`, or a key alone; `SqlError` for any other.

    >>> path_steps('$.a."b c"[0]["d"]'), path_steps("a")
    (('a', 'b c', 0, 'd'), ('a',))
    """
    if _KEY_ALONE.fullmatch(path) is not None:
        return (path,)
    at, steps = 1, list[Step]()
    while at < len(path) and path.startswith("$") and (match := _STEP.match(path, at)):
        quoted = match["quoted"] or match["key"]
        steps.append(int(match["place"]) if match["place"] else json.loads(quoted) if quoted else match["name"])
        at = match.end()
    if not path.startswith("$") or at < len(path):
        raise SqlError(
            f'{path[:_SHOWN]!r} is no path into a document; expected $ with .key, ."any key", ["any key"] and [0] after it'
        )
    return tuple(steps)


def _key_steps(key: str) -> tuple[Step, ...]:
    return (key,)


_MISSING = object()


def _find(value: Any, steps: Sequence[Step]) -> Any:
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
    if len(text) > MOST_CHARACTERS:
        raise LimitExceeded(
            f"a document of {len(text)} characters; expected at most {MOST_CHARACTERS} in functions over documents"
        )
    try:
        # Read, a document takes a hundred times its length.
        with DOCUMENTS.turn(len(text)):
            return _READER.decode(text)
    except ValueError as exc:
        raise SqlError(f"{text[:_SHOWN]!r} is no JSON: {exc}") from exc


def _is_json(text: str) -> bool:
    try:
        _read(text)
    except SqlError:
        return False
    return True


def _value(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is _MISSING else convert(value)


def _exists(value: Any) -> bool:
    return value is not _MISSING


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, list) else 0


def _keys(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def _kind(value: Any) -> str:
    if isinstance(value, _Number):
        return "DOUBLE" if not _WHOLE.fullmatch(value) else "BIGINT" if value.startswith("-") else "UBIGINT"
    return _KINDS[type(value)]


_KINDS = MappingProxyType(
    {dict: "OBJECT", list: "ARRAY", str: "VARCHAR", bool: "BOOLEAN", type(None): "NULL"},
)


_Function = tuple[pa.DataType, str | None, Callable[[Any], Any]]
_FUNCTIONS: Mapping[str, _Function] = MappingProxyType(
    {
        "json_get_string": (pa.utf8(), _KEY, partial(_value, _as_text)),
        "json_get_int": (pa.int64(), _KEY, partial(_value, _as_integer)),
        "json_get_float": (pa.float64(), _KEY, partial(_value, _as_number)),
        "json_get_bool": (pa.bool_(), _KEY, partial(_value, _as_boolean)),
        "json_extract": (pa.utf8(), _PATH, partial(_value, _write)),
        "json_exists": (pa.bool_(), _PATH, _exists),
        "json_extract_string": (pa.utf8(), _PATH, partial(_value, _as_text)),
        "json_array_length": (pa.int64(), _PATH, partial(_value, _length)),
        "json_keys": (pa.list_(pa.utf8()), _PATH, partial(_value, _keys)),
        "json_type": (pa.utf8(), _PATH, partial(_value, _kind)),
        "json_valid": (pa.bool_(), None, _is_json),
    }
)
"""Each function: the type of what it gives, what its second argument is, and what it makes of the value that it finds, or of the text itself."""


def json_type(word: str, types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of what a function gives; `SqlError` where it takes no arguments of these types."""
    kind, second, _ = _FUNCTIONS[word]
    expected = "a document" if second is None else f"a document and {second}"
    if len(types) != 1 + (second is not None):
        raise SqlError(f"{word} takes {expected}, got {len(types)} arguments")
    for type_ in types:
        if not (is_document(type_) or pa.types.is_null(type_)):
            raise SqlError(f"{word} is not defined for {type_}; expected {expected}, which are texts")
    return kind


def json_signature(types: Sequence[pa.DataType]) -> Sequence[pa.DataType]:
    """Return the types that the arguments are cast to."""
    return [pa.utf8() if is_document(type_) else type_ for type_ in types]


def json_values(word: str, columns: Sequence[pa.Array]) -> pa.Array:
    """Return what a function gives for documents, and keys or paths."""
    kind, second, convert = _FUNCTIONS[word]
    steps_of = _key_steps if second == _KEY else path_steps
    if all(pa.types.is_string(column.type) for column in columns):
        steps = () if second is None else _one_path(columns[1], steps_of)
        found = None if steps is None else values_at_once(word, columns[0], steps, partial(_of_text, convert), kind)
        if found is not None:
            return found
    texts = columns[0].to_pylist()
    try:
        if second is None:
            values = [None if text is None else convert(text) for text in texts]
        else:
            values = [
                None if text is None or path is None else convert(_find(_read(text), steps_of(path)))
                for text, path in zip(texts, columns[1].to_pylist(), strict=True)
            ]
    except RecursionError as exc:
        raise SqlError(f"{word} reads no document with so many arrays and objects inside each other") from exc
    return pa.array(values, kind)


def _one_path(paths: pa.Array, steps_of: Callable[[str], tuple[Step, ...]]) -> tuple[Step, ...] | None:
    """Return the steps of a key or path, if it is one for all rows."""
    if paths.null_count or not len(paths) or not pc.all(pc.equal(paths, paths[0])).as_py():
        return None
    return steps_of(paths[0].as_py())


NAMES = tuple(_FUNCTIONS)

# --- many documents at once

_WORDS = MappingProxyType({b"t": True, b"f": False, b"n": None})


def _of_text(convert: Callable[[Any], Any], text: bytes) -> Any:
    return convert(_of_raw(text))


def _of_raw(text: bytes) -> Any:
    """Return the value of a text, as `_read` does."""
    first = text[:1]
    if first in _WORDS:
        return _WORDS[first]
    if first in b"{[":
        return _read(text.decode())
    return msgspec.json.decode(text) if first == b'"' else _Number(text.decode())


_TEXT, _VALUE = "->>", "->"


def json_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    r"""Return the edits that write `->>`, and each `->` that leads to one, as calls.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT v.doc->'a b'->0->>'c' = $1 FROM v"
    >>> edit_text(text, json_edits(text, tokenize(text)))
    'SELECT json_extract_string(v.doc,\'$["a b"][0]["c"]\') = $1 FROM v'
    """
    if _VALUE not in text:
        return []
    places = [
        at for at in range(len(tokens)) if _is_operator(text, tokens, at, _TEXT) or _is_last_value(text, tokens, at)
    ]
    closing = closing_places(tokens, "([", ")]") if places else {}
    opened = {end: start for start, end in closing.items()}
    return sorted((edit for at in places for edit in _chain(text, tokens, at, opened)), key=itemgetter(0))


def _is_operator(text: str, tokens: Sequence[Token], at: int, sign: str) -> bool:
    if not (0 <= at <= len(tokens) - len(sign) and tokens[at].is_sign("-")):
        return False
    start, stop = tokens[at].start, tokens[at + len(sign) - 1].stop
    return text[start:stop] == sign and not text.startswith(">", stop) and not text.startswith("<", start - 1)


def _is_last_value(text: str, tokens: Sequence[Token], at: int) -> bool:
    """Return whether a `->` stands at a place that leads to no other operator."""
    after = at + len(_VALUE)
    return (
        _is_operator(text, tokens, at, _VALUE)
        and after < len(tokens)
        and tokens[after].kind in _STEPS
        and not any(_is_operator(text, tokens, after + 1, sign) for sign in (_TEXT, _VALUE))
    )


def _chain(text: str, tokens: Sequence[Token], at: int, opened: Mapping[int, int]) -> Iterator[Edit]:
    """Yield the edits of an operator, with each `->` before it in one chain: what they lead to is one path."""
    key = at + len(_TEXT if _is_operator(text, tokens, at, _TEXT) else _VALUE)
    if key >= len(tokens) or tokens[key].kind not in _KEYS:
        raise SqlError(f"->> at character {tokens[at].start + 1} has no key; expected a text, a number or a parameter")
    is_text, stop, last = key == at + len(_TEXT), tokens[key].stop, tokens[key]
    steps = list[Token]()
    while _is_operator(text, tokens, at - 1 - len(_VALUE), _VALUE) and tokens[at - 1].kind in _STEPS:
        steps.append(tokens[at - 1])
        at -= 1 + len(_VALUE)
    path = "$" + "".join(map(_step, reversed(steps)))
    if not is_text:
        calls, arguments = "json_extract(", f",{text_literal(path + _step(last))})"
    elif last.kind is Kind.PARAMETER:
        calls = "json_get_string(" + "json_extract(" * bool(steps)
        arguments = f",{text_literal(path)})" * bool(steps) + f",{last.text})"
    elif steps or _is_path(last):
        calls, arguments = "json_extract_string(", f",{text_literal(path + _quoted(last))})"
    else:
        calls, arguments = "json_get_string(", f",{text_literal(last.text)})"
    yield tokens[at].start, stop, arguments
    first = _first(tokens, at - 1, opened)
    if first >= at or any(_is_operator(text, tokens, first - len(sign), sign) for sign in (_TEXT, _VALUE)):
        raise SqlError(
            f"the operator at character {tokens[at].start + 1} has no document before it; expected doc -> 'a' ->> 'b'"
        )
    yield tokens[first].start, tokens[first].start, calls


def _step(key: Token) -> str:
    """Return what a key behind `->` adds to a path: a number is a place."""
    return _quoted(key) if key.kind is Kind.STRING else f"[{key.text}]"


def _quoted(key: Token) -> str:
    """Return what a key behind `->>` adds to a path: a number is a place in an array, and a key of an object."""
    return key.text[1:] if _is_path(key) else f"[{json.dumps(key.text, ensure_ascii=False)}]"


def _is_path(key: Token) -> bool:
    """Return whether a key is a path, as DuckDB and MySQL take it."""
    return key.kind is Kind.STRING and key.text.startswith(("$.", "$["))


def _first(tokens: Sequence[Token], at: int, opened: Mapping[int, int]) -> int:
    """Return the first token of the column, call, brackets or text that ends at a place; the one after it without any."""
    begins = at + 1
    while at >= 0:
        if at in opened:
            is_index = tokens[at].is_sign("]")
            begins = opened[at]
            at = begins - 1
            if at < 0 or not (is_index or _is_named(tokens[at])):
                break
        elif tokens[at].kind is Kind.STRING or _is_named(tokens[at]):
            begins = at
            if at < 1 or not tokens[at - 1].is_sign("."):
                break
            at -= len((".", "name"))
        else:
            break
    return begins


def _is_named(token: Token) -> bool:
    """Return whether a token is the name of a column or a function: no word that an expression follows."""
    return token.kind in _NAMES and token.word not in BEFORE_OPERAND


_NAMES = frozenset([Kind.WORD, Kind.NAME])
_STEPS = frozenset([Kind.STRING, Kind.NUMBER])
_KEYS = _STEPS | {Kind.PARAMETER}
