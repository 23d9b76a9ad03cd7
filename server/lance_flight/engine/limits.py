"""What one server gives to its clients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of what statements and sessions may take; each is described by the server's setting of the same name.

    `memory` is in bytes, None for no bound; times are in seconds.
    """

    memory: int | None = None
    statement_timeout: float = 0.0
    ticket_lifetime: float = 600.0
