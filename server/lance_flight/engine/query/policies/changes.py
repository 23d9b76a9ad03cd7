"""Changes between two states of a policy file, for the audit log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lance_flight import audit
from lance_flight.audit import AuditEvent, Decision, EventKind
from lance_flight.errors import InvalidInput

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
    found = {key: [text for text in texts if text not in other.get(key, ())] for key, texts in one.items()}
    return {key: texts for key, texts in found.items() if texts}
