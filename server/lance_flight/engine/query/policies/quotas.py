"""Parser of the quotas in a policy file, and the choice of those that apply to a principal.

```toml
quota = { statements = 2, per_principal = true }     # of everybody, where no role says otherwise

[roles.tenant_a]
members = ["group:tenant-a"]
grants = ["SELECT ON events WHERE tenant = 'a'"]
quota = { statements = 4, memory = "2GiB", bytes_per_hour = "50GiB" }
```
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from lance_flight.engine.runtime.quotas import Allowance, Quota, Resource
from lance_flight.errors import InvalidInput
from lance_flight.quantities import SIZE_EXPECTED, parse_bytes

UNLIMITED = "unlimited"
PER_PRINCIPAL = "per_principal"
_KEYS = (*(resource.value for resource in Resource), PER_PRINCIPAL)


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
        if not isinstance(table, dict) or not table or table.keys() - set(_KEYS):
            raise InvalidInput(f"the quota of {owner} is {table!r}; expected a table of {', '.join(_KEYS)}")
        per_principal = table.get(PER_PRINCIPAL, False)
        if not isinstance(per_principal, bool):
            raise InvalidInput(f"the quota of {owner} has {PER_PRINCIPAL} = {per_principal!r}; expected true or false")
        limits = {each: _limit(owner, each, table[each.value]) for each in Resource if each.value in table}
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
        found = {each.value: self._quota(each, mine, principal, shares) for each in Resource}
        memory = (each.limits.get(Resource.MEMORY, math.inf) for each in (*self.of_role.values(), self.default))
        return Allowance(**found, reserved=sum(_share(limit, shares) for limit in memory if math.isfinite(limit)))

    def _quota(
        self, resource: Resource, mine: Iterable[tuple[str, RoleQuota]], principal: str, shares: int
    ) -> Quota | None:
        stated: list[tuple[str | None, RoleQuota]] = [each for each in mine if resource in each[1].limits]
        if not stated and resource in self.default.limits:
            stated = [(None, self.default)]
        if not stated:
            return None
        role, quota = max(stated, key=lambda each: each[1].limits[resource])
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
