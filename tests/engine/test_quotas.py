"""Quotas of roles: how a policy file gives them, which of several counts, and how they are used up and free again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from lance_flight.engine.query.policy_file import Policies, PolicyFile
from lance_flight.engine.runtime import admission as counting
from lance_flight.engine.runtime.admission import HOUR, Allowance, Limits, Quota, QuotaBook, Resource
from lance_flight.engine.runtime.memory import Memory, Pool
from lance_flight.errors import InvalidInput, QuotaExceeded

MINUTE = 60.0


@dataclass
class Clock:
    """Time that passes when it is told to."""

    now: float = 10_000.0

    def __call__(self) -> float:
        return self.now


def policies(quotas: str = "", default: str = "") -> Policies:
    """Three roles: of Ann, of Ann and Bob, and of everybody; `quotas` are lines of their tables."""
    default = f"quota = {default}\n" if default else ""
    roles = {"own": '["ann"]', "both": '["ann", "bob"]', "all": '["*"]'}
    of_role = dict(line.split(": ", 1) for line in quotas.splitlines())
    return Policies.parse(
        default
        + "".join(
            f"[roles.{name}]\nmembers = {members}\ngrants = []\n"
            + (f"quota = {of_role[name]}\n" if name in of_role else "")
            for name, members in roles.items()
        )
    )


def allowance(principal: str, quotas: str = "", default: str = "", *, shares: int = 1) -> Allowance:
    parsed = policies(quotas, default)
    return parsed.quotas.allowance(principal, parsed.roles_of(principal), shares=shares)


def shown(allowed: Allowance) -> dict[str, tuple[str | None, int, str | None]]:
    return {quota.resource.value: (quota.role, quota.limit, quota.principal) for quota in allowed.quotas}


CHOICES: dict[str, tuple[str, str, str, dict[str, tuple[str | None, int, str | None]]]] = {
    "none": ("ann", "", "", {}),
    "one role": ("bob", "both: { statements = 4 }", "", {"statements": ("both", 4, None)}),
    "not a member": ("bob", "own: { statements = 4 }", "", {}),
    "the most generous of two": (
        "ann",
        "own: { statements = 4 }\nboth: { statements = 5 }",
        "",
        {"statements": ("both", 5, None)},
    ),
    "each resource by itself": (
        "ann",
        'own: { statements = 4, memory = "2GiB" }\nboth: { statements = 2, bytes_per_hour = "5MB", memory = 7 }',
        "",
        {
            "statements": ("own", 4, None),
            "memory": ("own", 2 << 30, None),
            "bytes_per_hour": ("both", 5_000_000, None),
        },
    ),
    "unlimited by one role": ("ann", 'own: { statements = "unlimited" }\nall: { statements = 1 }', "", {}),
    "a role without a quota lifts none": ("ann", "all: { statements = 1 }", "", {"statements": ("all", 1, None)}),
    "the default": ("bob", "own: { statements = 9 }", "{ statements = 2 }", {"statements": (None, 2, None)}),
    "a role before the default": (
        "ann",
        "own: { statements = 1 }",
        "{ statements = 2 }",
        {"statements": ("own", 1, None)},
    ),
    "the default for another resource": (
        "ann",
        "own: { statements = 1 }",
        "{ bytes_per_hour = 8 }",
        {"statements": ("own", 1, None), "bytes_per_hour": (None, 8, None)},
    ),
    "unlimited before the default": ("ann", 'own: { statements = "unlimited" }', "{ statements = 2 }", {}),
    "for each principal": (
        "bob",
        "",
        "{ statements = 2, per_principal = true }",
        {"statements": (None, 2, "bob")},
    ),
}


@pytest.mark.parametrize(("principal", "quotas", "default", "expected"), CHOICES.values(), ids=CHOICES)
def test_a_principal_has_the_quotas(
    principal: str, quotas: str, default: str, expected: dict[str, tuple[str | None, int, str | None]]
) -> None:
    assert shown(allowance(principal, quotas, default)) == expected


WRONG: dict[str, tuple[str, str]] = {
    "no table": ("4", "the quota of role 'own' is 4; expected a table of statements, memory, bytes_per_hour"),
    "nothing": ("{}", "the quota of role 'own' is {}"),
    "an unknown resource": ("{ rows = 4 }", "the quota of role 'own' is {'rows': 4}"),
    "none at all": ("{ statements = 0 }", "statements = 0; expected a number of statements, 1 or more, or 'unlimited'"),
    "a text": ('{ statements = "4" }', "statements = '4'; expected a number"),
    "a truth": ("{ statements = true }", "statements = True; expected a number"),
    "a fraction": ("{ statements = 1.5 }", "statements = 1.5; expected a number"),
    "no size": ('{ memory = "much" }', "memory = 'much'; expected a number of bytes, such as"),
    "a size of nothing": ('{ bytes_per_hour = "0GiB" }', "bytes_per_hour = '0GiB'; expected a number of bytes"),
    "no truth": ('{ statements = 1, per_principal = "yes" }', "per_principal = 'yes'; expected true or false"),
    "memory for each": ('{ memory = "1GiB", per_principal = true }', "memory for each principal"),
}


@pytest.mark.parametrize(("quota", "why"), WRONG.values(), ids=WRONG)
def test_a_wrong_quota_is_refused_with_the_reason(quota: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(why)):
        policies(f"own: {quota}")
    with pytest.raises(InvalidInput, match=re.escape(why.replace("role 'own'", "everybody"))):
        policies(default=quota)


SHARES = [
    pytest.param(1, 5, 1001, id="alone"),
    pytest.param(2, 3, 501, id="rounded up"),
    pytest.param(8, 1, 126, id="more servers than statements"),
]


@pytest.mark.parametrize(("shares", "statements", "size"), SHARES)
def test_servers_of_one_machine_have_equal_parts(tmp_path: Any, shares: int, statements: int, size: int) -> None:
    file = tmp_path / "policies"
    file.write_text('[roles.r]\nmembers = ["*"]\ngrants = []\nquota = { statements = 5, bytes_per_hour = 1001 }')
    roles, allowed = PolicyFile(str(file), shares=shares).allowance("ann", ())
    assert roles == ("r",)
    assert shown(allowed) == {"statements": ("r", statements, None), "bytes_per_hour": ("r", size, None)}


BYTES = Quota(role="r", resource=Resource.BYTES_PER_HOUR, limit=100)


def test_bytes_are_counted_for_an_hour() -> None:
    clock = Clock()
    book = QuotaBook(clock)
    meter = book.meter(Allowance(bytes_per_hour=BYTES), "ann")
    meter.charge(60)
    clock.now += 10 * MINUTE
    meter.charge(60)
    with pytest.raises(
        QuotaExceeded, match=r"role 'r' has a quota of bytes_per_hour = 100, and 120 are used;.*from 20\d\d-"
    ):
        meter.charge(1)
    clock.now += HOUR - 10 * MINUTE
    with pytest.raises(QuotaExceeded):
        meter.charge(0)
    clock.now += MINUTE
    meter.charge(0)
    meter.charge(40)
    assert [usage.used for usage in book.usage({}, "ann")] == [100]


def test_the_error_says_when_the_quota_is_free_again() -> None:
    clock = Clock(now=1000 * MINUTE)
    book = QuotaBook(clock)
    for size in (10, 50, 50):
        book.check_bytes(BYTES, size)
        clock.now += MINUTE
    book.meter(Allowance(bytes_per_hour=BYTES), "ann")
    (usage,) = book.usage({}, None)
    assert usage.free_at is not None
    # When the ten bytes of the first minute are an hour old 100 are left, which are still as many as may be.
    expected = {101: 3 * MINUTE, 100: 2 * MINUTE, 60: 2 * MINUTE, 50: MINUTE}
    window = book._windows[BYTES.account]
    assert {limit: HOUR + MINUTE - window.seconds_until_below(clock.now, limit) for limit in expected} == expected
    assert window.seconds_until_below(clock.now, 111) == 0


def test_members_share_a_quota_unless_it_is_for_each() -> None:
    book = QuotaBook()
    ann, bob = (book.meter(Allowance(bytes_per_hour=BYTES), name) for name in ("ann", "bob"))
    ann.charge(100)
    with pytest.raises(QuotaExceeded):
        bob.charge(1)
    each = [Quota(role="r", resource=Resource.BYTES_PER_HOUR, limit=100, principal=name) for name in ("ann", "bob")]
    ann, bob = (book.meter(Allowance(bytes_per_hour=quota), str(quota.principal)) for quota in each)
    ann.charge(100)
    bob.charge(1)
    with pytest.raises(QuotaExceeded, match="for 'ann'"):
        ann.charge(1)


def test_what_was_not_used_for_an_hour_is_forgotten() -> None:
    clock = Clock()
    book = QuotaBook(clock)
    book.meter(Allowance(bytes_per_hour=BYTES), "ann").charge(7)
    assert [usage.used for usage in book.usage({}, "ann")] == [7]
    assert book.usage({}, "bob") == []
    clock.now += HOUR + 2 * MINUTE
    assert book.usage({}, None) == []
    assert book._windows == {}


def test_the_accounts_of_many_principals_are_forgotten_without_being_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_KNOWN", 10)
    clock = Clock()
    book = QuotaBook(clock)
    for number in range(100):
        quota = Quota(role="r", resource=Resource.BYTES_PER_HOUR, limit=100, principal=f"user {number}")
        book.check_bytes(quota, 7)
        assert book._windows[quota.account].total == 7
        clock.now += HOUR
    assert len(book._windows) <= 12


MEMORY = Quota(role="r", resource=Resource.MEMORY, limit=400)
POOLS: dict[str, tuple[Limits, Allowance, Pool]] = {
    "no limits": (Limits(), Allowance(), Pool()),
    "a quota alone": (Limits(), Allowance(memory=MEMORY, reserved=400), Pool(400, MEMORY.account)),
    "the server's": (Limits(server_memory=1000), Allowance(), Pool(1000)),
    "what quotas leave": (Limits(server_memory=1000), Allowance(reserved=600), Pool(400)),
    "a fourth at least": (Limits(server_memory=1000), Allowance(reserved=5000), Pool(250)),
    "a quota of the server's": (
        Limits(server_memory=1000),
        Allowance(memory=MEMORY, reserved=600),
        Pool(400, MEMORY.account),
    ),
    "in proportion": (Limits(server_memory=1000), Allowance(memory=MEMORY, reserved=1500), Pool(200, MEMORY.account)),
    "without the share of writes": (Limits(server_memory=1000, write_memory=200), Allowance(reserved=100), Pool(700)),
    "one for each statement": (Limits(server_memory=1000, statement_memory=50), Allowance(memory=MEMORY), Pool(50)),
    "a quota of less": (Limits(server_memory=1000, statement_memory=500), Allowance(memory=MEMORY), Pool(400)),
}


@pytest.mark.parametrize(("limits", "allowed", "expected"), POOLS.values(), ids=POOLS)
def test_statements_take_memory_from_the_pool(limits: Limits, allowed: Allowance, expected: Pool) -> None:
    memory = Memory(limits)
    assert memory.pool(allowed) == expected
    is_shared = limits.statement_memory is None and expected.size is not None
    assert (memory.runtime(expected) is memory.runtime(expected)) is is_shared


AT_ONCE, OF_ANOTHER = (Quota(role=role, resource=Resource.STATEMENTS, limit=3) for role in ("r", "s"))
SLOTS: dict[str, tuple[Allowance, int | None, list[tuple[str | None, int]]]] = {
    "no quota": (Allowance(), 150, []),
    "memory that all share": (Allowance(memory=MEMORY), None, []),
    "memory of each": (Allowance(memory=MEMORY), 150, [("r", 2)]),
    "one statement at least": (Allowance(memory=MEMORY), 500, [("r", 1)]),
    "fewer than may run": (Allowance(memory=MEMORY, statements=AT_ONCE), 150, [("r", 2)]),
    "more than may run": (Allowance(memory=MEMORY, statements=AT_ONCE), 100, [("r", 3)]),
    "of two roles": (Allowance(memory=MEMORY, statements=OF_ANOTHER), 150, [("s", 3), ("r", 2)]),
}


@pytest.mark.parametrize(("allowed", "statement_memory", "expected"), SLOTS.values(), ids=SLOTS)
def test_statements_are_as_many_as_fit_into_the_memory_of_a_quota(
    allowed: Allowance, statement_memory: int | None, expected: list[tuple[str | None, int]]
) -> None:
    quotas = allowed.slot_quotas(statement_memory)
    assert [(quota.role, quota.limit) for quota in quotas] == expected
    assert {quota.resource for quota in quotas} <= {Resource.STATEMENTS}
