"""Commits that are made to meet."""

from __future__ import annotations

import threading

import pytest
from lance_flight.catalog.table import PartitionedNamespace


def together(monkeypatch: pytest.MonkeyPatch, namespace: PartitionedNamespace, number: int) -> None:
    """Let commits of a namespace begin when so many wait for their turn."""
    turn, all_there = threading.Lock(), threading.Barrier(number, timeout=60)

    class Turn:
        def __enter__(self) -> None:
            all_there.wait()
            turn.acquire()

        def __exit__(self, *_: object) -> None:
            turn.release()

    monkeypatch.setattr(namespace.commits, "_turn", Turn())
