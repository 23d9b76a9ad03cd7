"""Statements that have ended, made up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lance_flight.engine.runtime.running_statement import Record, State, StatementKind

RECORD = Record(
    id="0123456789abcdef",
    kind=StatementKind.QUERY,
    sql="SELECT 1",
    principal="alice",
    session="s1",
    peer="ipv4:127.0.0.1:4000",
    began=datetime(2026, 1, 31, 12, tzinfo=UTC),
    state=State.STREAMING,
    snapshots={"public.t": 7},
    partitions_scanned=3,
    partitions_total=1200,
    rows=10,
    size=80,
    queued_seconds=0.001,
    planning_seconds=0.0125,
    seconds=1.5,
    outcome="ok",
)


def record(**changes: Any) -> Record:
    """One that differs in some members."""
    return replace(RECORD, **changes)
