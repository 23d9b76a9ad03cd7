"""The policy file: roles, their members, grants and quotas, and the changes between two of its states.

```toml
quota = { statements = 2, per_principal = true }     # of everybody, where no role says otherwise

[roles.tenant_a]
members = ["group:tenant-a"]
grants = ["SELECT ON events WHERE tenant = 'a'"]
quota = { statements = 4, memory = "2GiB", bytes_per_hour = "50GiB" }
```

```toml
[roles.tenant_a]
members = ["anna", "group:tenant-a"]     # principals; groups of a token; "*" is everybody
grants = [
    "SELECT, INSERT ON events WHERE tenant = 'a'",
    "SELECT ON reference.*",
    "SELECT (id, name, concat('***', right(phone, 4)) AS phone) ON customers",
]
quota = { statements = 4 }               # see `quotas`
```
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

from lance_flight import audit
from lance_flight.audit import AuditEvent, Decision, EventKind
from lance_flight.catalog.roots.directory import PUBLIC
from lance_flight.engine.query.access import (
    OF_ROWS,
    Access,
    Condition,
    Grant,
    GrantedColumn,
    GrantedTables,
    Privilege,
)
from lance_flight.engine.runtime.admission import Allowance, Quota, Resource
from lance_flight.engine.sql.references import Cursor
from lance_flight.engine.translation.evaluation import unsteady
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.errors import InvalidInput, Refused, SqlError
from lance_flight.file_reloading import Watched
from lance_flight.quantities import SIZE_EXPECTED, parse_bytes

DEFAULTS = "the file"
"""Object of a change of what is outside of roles."""

Stated = Mapping[str, Any]
"""What stands in a policy file, as TOML reads it."""


def record_changes(before: Stated, after: Stated | InvalidInput) -> None:
    """Record what a policy file says otherwise than before, an event for each role; or that it is invalid."""
    if not audit.trail.is_on:
        return
    if isinstance(after, InvalidInput):
        reason = f"{after}; every statement is refused until it is valid"
        audit.record(
            AuditEvent(
                kind=EventKind.POLICY,
                decision=Decision.REFUSED,
                action="invalid",
                object=DEFAULTS,
                reason=reason,
                error=after.code,
            )
        )
        return
    for event in changes(before, after):
        audit.record(event)


def changes(before: Stated, after: Stated) -> Iterator[AuditEvent]:
    """Yield an event for each role that was added, changed or removed, with what it says more (`added`) and no longer (`removed`)."""
    earlier, later = _by_object(before), _by_object(after)
    for name in dict.fromkeys([*earlier, *later]):
        old, new = _statements(earlier.get(name, {})), _statements(later.get(name, {}))
        added, removed = _beyond(new, old), _beyond(old, new)
        if added or removed:
            action = "changed" if name in earlier and name in later else "removed" if name in earlier else "added"
            yield AuditEvent(
                kind=EventKind.POLICY,
                action=action,
                object=name,
                reason="the policy file was read",
                details={"added": added, "removed": removed},
            )


def _by_object(stated: Stated) -> dict[str, Stated]:
    rest = {key: value for key, value in stated.items() if key != "roles"}
    return {**stated.get("roles", {}), **({DEFAULTS: rest} if rest else {})}


def _statements(role: Stated) -> dict[str, list[str]]:
    """Return what a role says as texts: its members, its grants, its quotas."""
    return {key: list(_texts(value)) for key, value in role.items()}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (f"{key} = {inner}" for key, inner in value.items())
    elif isinstance(value, list):
        yield from map(str, value)
    else:
        yield str(value)


def _beyond(one: Mapping[str, list[str]], other: Mapping[str, list[str]]) -> dict[str, list[str]]:
    more = {key: [text for text in texts if text not in other.get(key, ())] for key, texts in one.items()}
    return {key: texts for key, texts in more.items() if texts}


UNLIMITED = "unlimited"
PER_PRINCIPAL = "per_principal"
_QUOTA_KEYS = (*(resource.value for resource in Resource), PER_PRINCIPAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleQuota:
    """Quota of a role: the limit of each resource that it names, infinite for an unlimited one.

    It is one for all members of the role, or (`per_principal`) one for each.

    >>> RoleQuota.parse("the default", {"statements": 2, "bytes_per_hour": "1kB"}).limits[Resource.BYTES_PER_HOUR]
    1000
    """

    limits: Mapping[Resource, float] = field(default_factory=dict)
    per_principal: bool = False

    @classmethod
    def parse(cls, owner: str, table: Any) -> Self:
        """Parse the `quota` of a role; raise `InvalidInput` that names the `owner`, the value and what is expected."""
        if not isinstance(table, dict) or not table or table.keys() - set(_QUOTA_KEYS):
            raise InvalidInput(f"the quota of {owner} is {table!r}; expected a table of {', '.join(_QUOTA_KEYS)}")
        per_principal = table.get(PER_PRINCIPAL, False)
        if not isinstance(per_principal, bool):
            raise InvalidInput(f"the quota of {owner} has {PER_PRINCIPAL} = {per_principal!r}; expected true or false")
        limits = {
            resource: _limit(owner, resource, table[resource.value]) for resource in Resource if resource.value in table
        }
        if per_principal and math.isfinite(limits.get(Resource.MEMORY, math.inf)):
            raise InvalidInput(
                f"the quota of {owner} bounds memory for each principal, of which any number may come; expected memory in"
                f" a quota without {PER_PRINCIPAL}, where the members of the role share it"
            )
        return cls(limits=limits, per_principal=per_principal)


NO_QUOTA = RoleQuota()
"""Quota of a role that says nothing of any resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """Quotas of all roles of a policy file, and the `default` where no role of a principal says anything of a resource."""

    of_role: Mapping[str, RoleQuota] = field(default_factory=dict)
    default: RoleQuota = NO_QUOTA

    def allowance(self, principal: str, roles: Iterable[str], *, shares: int = 1) -> Allowance:
        """Return the quotas of a principal with some roles: of each resource the most generous one.

        `shares` servers of one machine have equal parts of each.
        """
        mine = [(role, self.of_role[role]) for role in roles if role in self.of_role]
        quotas = {resource.value: self._quota(resource, mine, principal, shares) for resource in Resource}
        memory = (quota.limits.get(Resource.MEMORY, math.inf) for quota in (*self.of_role.values(), self.default))
        return Allowance(**quotas, reserved=sum(_share(limit, shares) for limit in memory if math.isfinite(limit)))

    def _quota(
        self, resource: Resource, mine: Iterable[tuple[str, RoleQuota]], principal: str, shares: int
    ) -> Quota | None:
        stated: list[tuple[str | None, RoleQuota]] = [each for each in mine if resource in each[1].limits]
        if not stated and resource in self.default.limits:
            stated = [(None, self.default)]
        if not stated:
            return None
        role, quota = max(stated, key=lambda pair: pair[1].limits[resource])
        limit = quota.limits[resource]
        if math.isinf(limit):
            return None
        owner = principal if quota.per_principal else None
        return Quota(role=role, resource=resource, limit=_share(limit, shares), principal=owner)


def _share(limit: float, shares: int) -> int:
    """Return one of so many equal parts of a limit, rounded up: no server is without any."""
    return -(-int(limit) // shares)


def _limit(owner: str, resource: Resource, value: Any) -> float:
    if value == UNLIMITED:
        return math.inf
    is_size = resource is not Resource.STATEMENTS
    limit = value
    if is_size and isinstance(value, str):
        try:
            limit = parse_bytes(value)
        except InvalidInput:
            limit = 0
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        expected = SIZE_EXPECTED if is_size else "a number of statements, 1 or more"
        raise InvalidInput(
            f"the quota of {owner} has {resource.value} = {value!r}; expected {expected}, or {UNLIMITED!r}"
        )
    return limit


EVERYBODY = "*"
GROUP = "group:"
QUOTA = "quota"

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
    """All roles of a policy file, with their quotas; a principal without any has no privileges.

    >>> policies = Policies.parse('roles.r = { members = ["ann"], grants = ["SELECT ON events WHERE tenant = 1"] }')
    >>> policies.access("ann").grants[0].condition
    Condition(text='tenant = 1')
    """

    roles: Mapping[str, Role]
    quotas: Quotas = field(default_factory=Quotas)
    stated: Stated = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a policy file; raise `InvalidInput` that names the role and its error."""
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as exc:
            raise InvalidInput(f"the policy file is no TOML: {exc}") from exc
        stated = dict(table)
        roles, default = table.pop("roles", {}), table.pop(QUOTA, None)
        if table or not isinstance(roles, dict):
            raise InvalidInput(
                f"the policy file has {min(table, default='roles')!r}; expected nothing but [roles.<name>] and {QUOTA}"
            )
        parsed = {name: _role(name, role) for name, role in roles.items()}
        of_role = {name: _quota(f"role {name!r}", role.get(QUOTA)) for name, role in roles.items()}
        return cls(parsed, Quotas(of_role=of_role, default=_quota("everybody", default)), stated)

    def access(self, principal: str, groups: Collection[str] = ()) -> Access:
        """Return the rights of a principal: all grants of the roles that it or one of its groups has."""
        granted = (self.roles[name].grants for name in self.roles_of(principal, groups))
        return Access(principal, tuple(grant for grants in granted for grant in grants))

    def roles_of(self, principal: str, groups: Collection[str] = ()) -> tuple[str, ...]:
        """Return the names of the roles that a principal or one of its groups has."""
        names = {EVERYBODY, *(GROUP + group for group in groups)}
        if not principal.startswith(GROUP):
            names.add(principal)
        return tuple(name for name, role in self.roles.items() if role.members & names)


class PolicyFile:
    """Policies of a file, read again whenever it changes. Safe to share among threads.

    While the file is invalid the rights that it gave before stay. `shares` servers of one machine have equal parts of each quota.
    """

    def __init__(self, path: str, *, shares: int = 1) -> None:
        self._shares = shares
        self._stated: Stated = {}
        self._invalid = ""
        self._file = Watched(path, Policies.parse, what="policy file", is_secret=False, on_read=self._record)

    def access(self, principal: str, groups: Collection[str]) -> Access:
        """Return the current rights of a principal."""
        return self._file.value.access(principal, groups)

    def allowance(self, principal: str, groups: Collection[str]) -> tuple[tuple[str, ...], Allowance]:
        """Return the current roles of a principal, and its quotas."""
        policies = self._file.value
        roles = policies.roles_of(principal, groups)
        return roles, policies.quotas.allowance(principal, roles, shares=self._shares)

    def _record(self, policies: Policies | InvalidInput) -> None:
        """Record what the file says otherwise than when it was last valid."""
        if isinstance(policies, InvalidInput):
            if str(policies) != self._invalid:
                record_changes({}, policies)
            self._invalid = str(policies)
        else:
            record_changes(self._stated, policies.stated)
            self._stated, self._invalid = policies.stated, ""


def _role(name: str, role: Any) -> Role:
    what = f"role {name!r} of the policy file"
    if not isinstance(role, dict) or role.keys() - _KEYS - {QUOTA} or not role.keys() >= _KEYS:
        raise InvalidInput(f"{what} has {sorted(role)}; expected members and grants, and {QUOTA} where there is one")
    for key in sorted(_KEYS):
        if not isinstance(role[key], list) or not all(isinstance(limit, str) and limit for limit in role[key]):
            raise InvalidInput(f"{what} has {key} {role[key]!r}; expected a list of texts")
    return Role(frozenset(role["members"]), tuple(grant for text in role["grants"] for grant in _grants(what, text)))


def _quota(owner: str, table: Any) -> RoleQuota:
    return NO_QUOTA if table is None else RoleQuota.parse(owner, table)


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
    columns = [_column(cursor)]
    while cursor.accept(","):
        columns.append(_column(cursor))
    cursor.expect(")")
    names = [column.name for column in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Refused(f"column {twice!r} is listed twice")
    return tuple(columns)


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
