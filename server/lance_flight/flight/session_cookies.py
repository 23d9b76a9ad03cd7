"""Session cookies: signed, so that every server with the same key can begin a session as it was on another one.

```text
cookie = base64url of a sealed JSON: [format, key, home, generation, settings, kept]
```

`key` finds the session on the server `home`. Another server begins one under the same key, with the settings; what is kept on
`home` alone (a transaction, temporary tables) is missed there once, with an error.
"""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass

from lance_flight.backend_values import SessionState
from lance_flight.errors import TicketError
from lance_flight.flight.tickets import TicketSealer

OF_A_COOKIE = "arrow_flight_session_id"
"""Name of the cookie that tells a session apart, the same as in Arrow's own servers."""
OF_A_TOKEN = "lance_flight_session"  # noqa: S105 - a name
"""Name of the cookie that has the settings of a session which is told apart by a token."""
KEY_BYTES = 16
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCookie:
    """Content of a cookie: the principal and the key of its session, the server that has it, and the state that it was in."""

    principal: str
    key: str
    home: str
    state: SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCookies:
    """Writes and reads the cookies of the server `home`."""

    sealer: TicketSealer
    home: str

    def write(self, principal: str, key: str, state: SessionState) -> str:
        """Return the value of a cookie for a session of this server."""
        value = [_FORMAT, key, self.home, state.generation, dict(state.settings), list(state.kept)]
        sealed = self.sealer.cookie(principal, json.dumps(value, separators=(",", ":")).encode())
        return urlsafe_b64encode(sealed).decode().rstrip("=")

    def read(self, text: str) -> SessionCookie | None:
        """Return what a cookie says; None for one that was not written under this key, or in another format."""
        try:
            principal, payload = self.sealer.open_cookie(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except (ValueError, TicketError):
            return None
        format, *said = json.loads(payload)
        if format != _FORMAT:
            return None
        key, home, generation, settings, kept = said
        return SessionCookie(
            principal=principal,
            key=key,
            home=home,
            state=SessionState(generation=generation, settings=settings, kept=tuple(kept)),
        )


def new_key() -> str:
    """Return a random key for a session."""
    return secrets.token_urlsafe(KEY_BYTES)
