"""Events that signal handlers set in the thread that waits for them."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from lance_flight.threads import SignalEvent

PATIENCE = 60
ROUNDS = 5_000
INTERRUPTED = f"""
import signal
from lance_flight.threads import SignalEvent
event = SignalEvent()
signal.signal(signal.SIGALRM, lambda *_: event.set())
signal.setitimer(signal.ITIMER_REAL, 0.0004, 0.0004)
for _ in range({ROUNDS}):
    if event.wait(0.0003):
        event.set()
    event.clear()
signal.setitimer(signal.ITIMER_REAL, 0)
print("done")
"""


def test_a_handler_sets_it_at_any_moment_of_the_thread_that_waits() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], timeout=PATIENCE, capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr) == ("done\n", "")


def test_all_that_wait_are_woken_and_later_ones_do_not_wait() -> None:
    event, waiting = SignalEvent(), threading.Barrier(9)

    def wait() -> bool:
        waiting.wait(PATIENCE)
        return event.wait(PATIENCE)

    with ThreadPoolExecutor(8) as pool:
        woken = [pool.submit(wait) for _ in range(8)]
        waiting.wait(PATIENCE)
        event.set()
        assert [each.result(PATIENCE) for each in woken] == [True] * 8
    assert event.wait()
    assert event.is_set()


def test_it_waits_again_once_it_was_cleared() -> None:
    event = SignalEvent()
    assert not event.wait(0.001)
    for _ in range(3):
        event.set()
        event.set()
        assert event.wait(0)
        event.clear()
        assert not event.is_set()
        assert not event.wait(0.001)
