"""Principals: who calls, and how that was proven."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Proof(Enum):
    """What has proven a principal."""

    NOTHING = "nothing"
    PASSWORD = "password"  # noqa: S105 - the kind, not one of them
    SESSION_TOKEN = "session token"  # noqa: S105
    STATIC_TOKEN = "static token"  # noqa: S105
    JSON_WEB_TOKEN = "JSON web token"  # noqa: S105
    CERTIFICATE = "certificate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Somebody by name, whatever has proven it: what belongs to a principal is found again with another proof."""

    name: str
    groups: tuple[str, ...] = ()
    proof: Proof = Proof.NOTHING


ANONYMOUS = Principal(name="anonymous")
"""Everybody who need not say who he is; nobody can prove to be of this name."""
