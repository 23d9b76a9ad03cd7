"""Principals, and the proofs of their identity."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Proof(Enum):
    """Kind of credential that has proven a principal."""

    NOTHING = "nothing"
    PASSWORD = "password"  # noqa: S105 - the kind, not one of them
    SESSION_TOKEN = "session token"  # noqa: S105
    STATIC_TOKEN = "static token"  # noqa: S105
    JSON_WEB_TOKEN = "JSON web token"  # noqa: S105
    CERTIFICATE = "certificate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Principal by name, independent of its proof: what belongs to it is found again with another kind of credential."""

    name: str
    groups: tuple[str, ...] = ()
    proof: Proof = Proof.NOTHING


ANONYMOUS = Principal(name="anonymous")
"""Principal of callers that need no authentication; no credential can prove this name."""
