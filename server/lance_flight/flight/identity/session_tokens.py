"""Session tokens that a Handshake issues for passwords: signed, so that every server with the same key accepts them.

Servers keep no state for a token. It holds a mark of the password that it was issued for, and becomes invalid once its user has
another password, or is removed.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass

from lance_flight.errors import TicketError
from lance_flight.flight.tickets import TicketSealer

PREFIX = "lfs_"
"""Prefix of session tokens, which distinguishes them from tokens of other issuers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenClaims:
    """Claims of a session token about its user; each token is a session of its own."""

    user: str
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTokens:
    """Issues and verifies session tokens, which are valid for `lifetime` seconds."""

    sealer: TicketSealer
    lifetime: float
    now: Callable[[], float] = time.time

    def give(self, session: TokenClaims) -> str:
        """Make a new token."""
        value = [session.mark, int(self.now() + self.lifetime), secrets.token_hex(8)]
        sealed = self.sealer.session(session.user, json.dumps(value, separators=(",", ":")).encode())
        return PREFIX + urlsafe_b64encode(sealed).decode().rstrip("=")

    def take(self, token: str) -> TokenClaims | None:
        """Return whose a token is; None for one that was not given under this key, or has expired."""
        encoded = token.removeprefix(PREFIX)
        try:
            sealed = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
            user, said = self.sealer.open_session(sealed)
        except (ValueError, TicketError):
            return None
        mark, expires, _ = json.loads(said)
        return TokenClaims(user=user, mark=mark) if self.now() < expires else None


def mark_of(stored: str) -> str:
    """Return a mark that distinguishes one stored password from another, and reveals neither."""
    return hashlib.sha256(b"session token\0" + stored.encode()).hexdigest()[:32]
