"""Checks of the rows that a write of Spark left."""

from __future__ import annotations

from tests.service.server_process import Server
from tests.stock import stored_rows


def check(server: Server, table: str, ids: list[int]) -> None:
    """These rows are there, each once: to a server, and to stock Lance."""
    assert [number for (number,) in server.rows(f"SELECT id FROM {table} ORDER BY id")] == sorted(ids)
    assert sorted(stored_rows(server.root / table)["id"].to_pylist()) == sorted(ids)
