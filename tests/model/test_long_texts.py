"""Turns of long texts: one is read at a time, and a statement that is over waits for none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from lance_flight.errors import Cancelled
from lance_flight.threads import Turns


def _cancelled() -> None:
    raise Cancelled("it is over")


def test_a_thread_takes_its_turn_again_and_others_leave_once_they_are_over() -> None:
    turns = Turns(10)

    def read(length: int) -> int:
        with turns.turn(length, _cancelled):
            return length

    with ThreadPoolExecutor(1) as other, turns.turn(10), turns.turn(10):
        assert other.submit(read, 9).result() == 9
        with pytest.raises(Cancelled, match="it is over"):
            other.submit(read, 10).result()
