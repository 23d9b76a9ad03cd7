"""TOML files that name principals: `[users.alice]`, `[tokens.etl]`, each with its permitted settings."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lance_flight.errors import InvalidInput
from lance_flight.flight.identity.principal import ANONYMOUS

_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """One `[kind.name]` of a file; errors quote its name, and none of its values."""

    kind: str
    name: str
    values: Mapping[str, Any]

    def text(self, key: str, default: str | None = None) -> str:
        """Return a required text, or the default of a missing one."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(f"{key!r} is no text" if key in self.values else f"{key!r} is missing")
        return value

    def groups(self) -> tuple[str, ...]:
        """Return the names under `groups`."""
        value = self.values.get("groups", [])
        if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            raise self.wrong("'groups' is no list of names")
        return tuple(value)

    def wrong(self, why: str) -> InvalidInput:
        """Return an error about this entry."""
        return InvalidInput(f"[{self.kind}.{self.name}]: {why}")


def entries(text: str, kind: str, keys: frozenset[str]) -> Iterator[Entry]:
    """Yield every `[kind.name]` of a file; raise `InvalidInput` for any other content."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise InvalidInput(f"no TOML: {exc}") from None
    table = found.pop(kind, {})
    if found or not isinstance(table, dict):
        raise InvalidInput(f"{next(iter(found), kind)!r} stands in it; expected [{kind}.NAME]")
    for name, values in table.items():
        if not isinstance(values, dict):
            raise InvalidInput(f"{kind}.{name} is a value; expected [{kind}.{name}]")
        entry = Entry(kind, name, values)
        if unknown := values.keys() - keys:
            raise entry.wrong(f"{min(unknown)!r} is unknown; expected {', '.join(sorted(keys))}")
        yield entry


def heading(kind: str, name: str) -> str:
    """Return the line that begins an entry.

    >>> heading("users", "alice"), heading("users", "alice@example.com")
    ('[users.alice]', '[users."alice@example.com"]')
    """
    return f"[{kind}.{name if _BARE.fullmatch(name) else json.dumps(name)}]"


def principal_name(entry: Entry, name: str) -> str:
    """Return a name after checking that a principal may have it."""
    if name == ANONYMOUS.name or not name or any(not char.isprintable() for char in name):
        raise entry.wrong(f"no principal can be called {name!r}")
    return name
