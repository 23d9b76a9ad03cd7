"""Interleaved rounds: every case once in each, so that whatever else the machine does falls on all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from types import TracebackType


class Stopwatch:
    """Runs within `with`; what a case does outside of it (checks, cleaning up) does not count."""

    def __init__(self, *, is_warm_up: bool) -> None:
        self.is_warm_up = is_warm_up
        self.seconds = 0.0

    def __enter__(self) -> None:
        self.seconds -= time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds += time.perf_counter()


Case = Callable[[Stopwatch], object]


def timed(call: Callable[..., object], *arguments: object) -> Case:
    """A case that is on the clock from end to end."""

    def case(watch: Stopwatch) -> None:
        with watch:
            call(*arguments)

    return case


def interleaved(cases: Mapping[str, Case], rounds: int) -> dict[str, float]:
    """The median seconds of each case, after one round that does not count.

    Every other round runs backwards: no case always comes after the same one.
    """
    times: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        order = list(cases.items())
        for name, case in order if number % 2 else reversed(order):
            watch = Stopwatch(is_warm_up=number == 0)
            case(watch)
            if not watch.is_warm_up:
                times[name].append(watch.seconds)
    return {name: statistics.median(taken) for name, taken in times.items()}
