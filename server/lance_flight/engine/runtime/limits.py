"""Limits of one server on its clients' use of resources."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on the resources of statements and sessions; each is described by the server's setting of a like name.

    Sizes are in bytes, None for no bound; times are in seconds, 0 for no bound.
    """

    server_memory: int | None = None
    write_memory: int = 0
    """Share of `server_memory` for rows that are being written into tables, in bytes."""
    process_memory: int | None = None
    """Memory of the whole server, beyond which the statement that it grew with most is ended, in bytes."""
    statement_memory: int | None = None
    spill_directory: str | None = None
    statement_timeout: float = 0.0
    planning_timeout: float = 30.0
    statement_text: int | None = None
    ticket_lifetime: float = 600.0
    running_statements: int = 1_000
    waiting_statements: int = 1_000
    ingest_idle_timeout: float = 0.0
    stream_memory: int | None = None
    stream_idle_timeout: float = 0.0
    sessions: int = 10_000
    sessions_per_principal: int = 0
    session_idle_timeout: float = 3600.0


NO_LIMITS = Limits()
