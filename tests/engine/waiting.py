"""Waiting for what another thread or process does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

PATIENCE = 60.0
_FIRST, _LONGEST = 0.005, 0.1


def until(holds: Callable[[], object]) -> None:
    """Wait for what comes true by itself: look soon at first, then less often, for a minute at the longest."""
    waiting, pause, ends = threading.Event(), _FIRST, time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > ends:
            pytest.fail("it did not come true")
        waiting.wait(pause)
        pause = min(2 * pause, _LONGEST)
