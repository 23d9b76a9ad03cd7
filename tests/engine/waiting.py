"""Waiting for what another thread does."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest


def until(holds: Callable[[], object]) -> None:
    """Wait for what comes true by itself."""
    waiting = threading.Event()
    for _ in range(1000):
        if holds():
            return
        waiting.wait(0.01)
    pytest.fail("it did not come true")
