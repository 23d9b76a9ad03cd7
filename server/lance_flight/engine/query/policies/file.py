"""Parser of the policy file: roles, their members, and their grants.

```toml
[roles.tenant_a]
members = ["anna", "group:tenant-a"]     # principals; groups of a token; "*" is everybody
grants = [
    "SELECT, INSERT ON events WHERE tenant = 'a'",
    "SELECT ON reference.*",
    "SELECT (id, name, concat('***', right(phone, 4)) AS phone) ON customers",
]
```
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

from lance_flight.catalog.roots.directory import PUBLIC
from lance_flight.engine.query.policies.access import OF_ROWS, Access, Grant, GrantedTables, Privilege
from lance_flight.engine.query.policies.columns import GrantedColumn
from lance_flight.engine.query.policies.conditions import Condition
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.functions import unsteady
from lance_flight.engine.sql.parameters import parameter_count
from lance_flight.errors import InvalidInput, Refused, SqlError
from lance_flight.file_reloading import Watched

EVERYBODY = "*"
GROUP = "group:"

_WORDS: Mapping[str, frozenset[Privilege]] = MappingProxyType(
    {
        **{privilege.value: frozenset({privilege}) for privilege in Privilege},
        "READ": frozenset({Privilege.SELECT}),
        "WRITE": OF_ROWS - {Privilege.SELECT},
        "ALL": frozenset(Privilege),
    }
)
_KEYS = frozenset({"members", "grants"})


@dataclass(frozen=True, slots=True)
class Role:
    """Role of a policy file: its members, and the grants to them."""

    members: frozenset[str]
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True)
class Policies:
    """All roles of a policy file; a principal without any has no privileges.

    >>> policies = Policies.parse('roles.r = { members = ["ann"], grants = ["SELECT ON events WHERE tenant = 1"] }')
    >>> policies.access("ann").grants[0].condition
    Condition(text='tenant = 1')
    """

    roles: Mapping[str, Role]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a policy file; raise `InvalidInput` that names the role and its error."""
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as exc:
            raise InvalidInput(f"the policy file is no TOML: {exc}") from exc
        roles = table.pop("roles", {})
        if table or not isinstance(roles, dict):
            raise InvalidInput(
                f"the policy file has {min(table, default='roles')!r}; expected nothing but [roles.<name>]"
            )
        return cls({name: _role(name, role) for name, role in roles.items()})

    def access(self, principal: str, groups: Collection[str] = ()) -> Access:
        """Return the rights of a principal: all grants of the roles that it or one of its groups has."""
        names = {EVERYBODY, *(GROUP + group for group in groups)}
        if not principal.startswith(GROUP):
            names.add(principal)
        granted = (role.grants for role in self.roles.values() if role.members & names)
        return Access(principal, tuple(grant for grants in granted for grant in grants))


class PolicyFile:
    """Policies of a file, read again whenever it changes. Safe to share among threads.

    While the file is invalid no principal has any rights: those that the change was to revoke are not known.
    """

    def __init__(self, path: str) -> None:
        self._file = Watched(path, Policies.parse, what="policy file", is_secret=False, closed=Refused)

    def access(self, principal: str, groups: Collection[str]) -> Access:
        """Return the current rights of a principal."""
        return self._file.value.access(principal, groups)


def _role(name: str, role: Any) -> Role:
    what = f"role {name!r} of the policy file"
    if not isinstance(role, dict) or role.keys() - _KEYS or not role.keys() >= _KEYS:
        raise InvalidInput(f"{what} has {sorted(role)}; expected members and grants")
    for key in sorted(_KEYS):
        if not isinstance(role[key], list) or not all(isinstance(each, str) and each for each in role[key]):
            raise InvalidInput(f"{what} has {key} {role[key]!r}; expected a list of texts")
    return Role(frozenset(role["members"]), tuple(grant for text in role["grants"] for grant in _grants(what, text)))


def _grants(what: str, text: str) -> Iterator[Grant]:
    """Yield the grants of a text: one of privileges on whole rows, and one for each list of columns."""
    try:
        cursor = Cursor.over(text)
        listed = [_privileges(cursor)]
        while cursor.accept(","):
            listed.append(_privileges(cursor))
        cursor.expect("ON")
        tables = _tables(cursor)
        condition = Condition.parse(cursor.rest()) if cursor.accept("WHERE") else None
        cursor.end()
    except SqlError as exc:
        raise InvalidInput(
            f"{what} grants {text!r}: {exc}; expected PRIVILEGE, … ON table [WHERE condition], privileges being"
            f" {', '.join(_WORDS)}, and SELECT (column, expression AS column, …)"
        ) from exc
    except Refused as exc:
        raise InvalidInput(f"{what} grants {text!r}: {exc}") from exc
    of_rows = frozenset[Privilege]().union(*(privileges for privileges, columns in listed if columns is None))
    if condition is not None and not of_rows <= OF_ROWS:
        words = ", ".join(sorted(privilege.value for privilege in of_rows - OF_ROWS))
        raise InvalidInput(f"{what} grants {text!r}: {words} is granted for whole tables; expected no WHERE")
    if of_rows:
        yield Grant(privileges=of_rows, tables=tables, condition=condition)
    for privileges, columns in listed:
        if columns is not None:
            yield Grant(privileges=privileges, tables=tables, condition=condition, columns=columns)


def _privileges(cursor: Cursor) -> tuple[frozenset[Privilege], tuple[GrantedColumn, ...] | None]:
    for word, privileges in _WORDS.items():
        if cursor.accept(word):
            if not cursor.accept("("):
                return privileges, None
            if privileges != {Privilege.SELECT}:
                raise Refused(f"{word} is granted for whole rows; expected columns behind SELECT alone")
            return privileges, _columns(cursor)
    raise cursor.error("a privilege")


def _columns(cursor: Cursor) -> tuple[GrantedColumn, ...]:
    """Read `column, expression AS column, …)`."""
    found = [_column(cursor)]
    while cursor.accept(","):
        found.append(_column(cursor))
    cursor.expect(")")
    names = [column.name for column in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Refused(f"column {twice!r} is listed twice")
    return tuple(found)


def _column(cursor: Cursor) -> GrantedColumn:
    start = cursor.at
    expression = cursor.until(",", ")", "AS")
    if expression and cursor.accept("AS"):
        name = cursor.name("the column that the expression stands for")
        parameters = ["a parameter may not stand in it"] if parameter_count(expression) else []
        for problem in [*parameters, *unsteady(expression)]:
            raise Refused(f"the mask {expression} of column {name!r}: {problem}")
        return GrantedColumn(name, expression)
    cursor.at = start
    return GrantedColumn(cursor.name("a column, or an expression AS column"))


def _tables(cursor: Cursor) -> GrantedTables:
    if cursor.accept("*"):
        return GrantedTables()
    name = cursor.name("a table, schema.* or *")
    if not cursor.accept("."):
        return GrantedTables(PUBLIC, name)
    return GrantedTables(name) if cursor.accept("*") else GrantedTables(name, cursor.name("a table or *"))
