"""Checks of the rows that a Spark write left, and how many faults a sample tries."""

from __future__ import annotations

import os

from tests.service.server_process import Server
from tests.stock import stored_rows


def sample(*always: tuple[object, ...], full: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """What is always tried, and what only by LANCE_FLIGHT_TESTS=full."""
    return [*always, *(full if os.environ.get("LANCE_FLIGHT_TESTS") == "full" else [])]


def check(server: Server, table: str, ids: list[int]) -> None:
    """These rows are there, each once: to a server, and to stock Lance."""
    assert [number for (number,) in server.rows(f"SELECT id FROM {table} ORDER BY id")] == sorted(ids)
    assert sorted(stored_rows(server.root / table)["id"].to_pylist()) == sorted(ids)
