"""Arrow types ⇄ text with every detail.

One form is written. Read is also what others write (`Timestamp[us, tz=UTC]`, `decimal(10, 2)`): in any case, with or
without underscores, with either bracket. `SchemaError` says where a text stops being a type.

```text
type  = name ["[" argument {"," argument} "]"] ["<" [field {"," field}] ">"]
field = (word | JSON string) ":" type ["not null"] [JSON object: its metadata]

timestamp[ns, tz=Europe/Paris]     dictionary[ordered]<indices: int8, values: utf8>
decimal128[9, 2]                   list_view<item: float32 not null {"unit":"m"}>
```
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from lance_flight.errors import SchemaError
from lance_flight.model.arrow_fields import make_field, metadata_from_json, metadata_to_json
from lance_flight.model.arrow_types import TYPE_NAMES, TypeParts, build_type, parts_of

_T = TypeVar("_T")

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARGUMENT = re.compile(r"[A-Za-z0-9_+\-/:]+")
_JSON = json.JSONDecoder()


def type_to_text(kind: pa.DataType) -> str:
    """Return an Arrow type as canonical text with every detail; its grammar stands at the top of this module.

    >>> type_to_text(pa.struct([pa.field("a b", pa.time32("ms"), nullable=False)]))
    'struct<"a b": time32[ms] not null>'
    """
    name, arguments, children = parts_of(kind)
    bracketed = f"[{', '.join(map(_argument_to_text, arguments))}]" if arguments else ""
    inner = f"<{', '.join(map(_field_to_text, children))}>" if children else ""
    return name + bracketed + inner


def type_from_text(text: str) -> pa.DataType:
    """Return the Arrow type that a text names; `SchemaError` says where the text stops being one.

    >>> type_from_text("dictionary<indices: int8, values: utf8>")
    DictionaryType(dictionary<values=string, indices=int8, ordered=0>)
    """
    return build_type(parts_from_text(text))


def parts_from_text(text: str) -> TypeParts:
    """Return the parts of the type that a text names, not yet built: JSON has arguments and children beside the name.

    >>> parts_from_text("Timestamp[MS, tz=UTC]")
    TypeParts(name='timestamp', arguments=('ms', 'tz=UTC'), children=())
    """
    reader = _Reader(text)
    parts = reader.parts()
    if reader.at < len(text):
        raise reader.error("the end")
    return parts


def _field_to_text(field: pa.Field) -> str:
    name = field.name if _BARE.fullmatch(field.name) else json.dumps(field.name, ensure_ascii=False)
    metadata = metadata_to_json(field.metadata)
    noted = " " + json.dumps(metadata, ensure_ascii=False, separators=(",", ":")) if metadata else ""
    return f"{name}: {type_to_text(field.type)}{'' if field.nullable else ' not null'}{noted}"


def _argument_to_text(argument: str) -> str:
    key, sign, value = argument.rpartition("=") if argument.startswith("tz=") else ("", "", argument)
    return key + sign + (value if _ARGUMENT.fullmatch(value) else json.dumps(value, ensure_ascii=False))


class _Reader:
    """A reader of the type grammar; `at` is how far it has come."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def parts(self) -> TypeParts:
        """Return the parts of one type."""
        word = self.match(_BARE)
        name = TYPE_NAMES.get(word.lower().replace("_", ""))
        if name is None:
            raise SchemaError("type", [f"unknown type {word or self.text!r}"])
        arguments = self.listed("[", "]", self.argument) or self.listed("(", ")", self.argument)
        return TypeParts(name, arguments, self.listed("<", ">", self.field))

    def field(self) -> pa.Field:
        """Return one field: name, type, whether it may be null, metadata."""
        name = self.json() if self.follows('"') else self.match(_BARE)
        if not self.skip(":"):
            raise self.error("':'")
        kind = build_type(self.parts())
        nullable = not self.skip("not null")
        metadata = metadata_from_json(self.json() if self.follows("{") else None)
        return make_field(name, kind, metadata, nullable=nullable)

    def argument(self) -> str:
        """Return one argument, without its quotes."""
        key = "tz=" if self.skip("tz=") else ""
        value = self.json() if self.follows('"') else self.match(_ARGUMENT)
        return key + (value if key else value.lower())

    def listed(self, opening: str, closing: str, item: Callable[[], _T]) -> tuple[_T, ...]:
        """Parse comma-separated items between two brackets; return an empty tuple if the opening one is absent."""
        if not self.skip(opening):
            return ()
        items: list[_T] = []
        while not self.skip(closing):
            if items and not self.skip(","):
                raise self.error(f"',' or {closing!r}")
            items.append(item())
        return tuple(items)

    def match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.error("a name or value")
        return self.advance(found.end(), found[0])

    def json(self) -> Any:
        try:
            value, end = _JSON.raw_decode(self.text, self.at)
        except json.JSONDecodeError as exc:
            raise self.error("JSON") from exc
        return self.advance(end, value)

    def follows(self, literal: str) -> bool:
        return self.text.startswith(literal, self.at)

    def skip(self, literal: str) -> bool:
        found = self.follows(literal)
        self.advance(self.at + len(literal) * found, None)
        return found

    def advance(self, to: int, value: _T) -> _T:
        """Return `value`, having come to the first character from `to` on that is no blank."""
        self.at = to + len(self.text[to:]) - len(self.text[to:].lstrip())
        return value

    def error(self, expected: str) -> SchemaError:
        return SchemaError("type", [f"{self.text!r} is not a type: expected {expected} at character {self.at}"])
