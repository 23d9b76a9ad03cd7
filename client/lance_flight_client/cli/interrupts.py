"""Work that an interrupt cancels: it runs beside the main thread, where libraries would take the signal for their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Begins: TypeAlias = Callable[[Callable[[], None]], None]
"""Function that is given what cancels the work."""

_TICK = 0.5


def cancellable(
    work: Callable[[Begins], T], each_tick: Callable[[], None] | None = None, *, has_effect: bool = True
) -> T:
    """Return the result of `work`; a KeyboardInterrupt while it runs cancels it, waits for its end, and goes on.

    `each_tick` is called every half a second until then. Work that changes nothing is left alone rather than waited for.
    """
    done: Future[T] = Future()
    cancels: list[Callable[[], None]] = []

    def run() -> None:
        try:
            done.set_result(work(cancels.append))
        except BaseException as exc:  # noqa: BLE001 - it is raised again where the work is waited for
            done.set_exception(exc)

    threading.Thread(target=run, daemon=True).start()
    try:
        while not wait([done], timeout=_TICK).done:
            if each_tick is not None:
                each_tick()
    except KeyboardInterrupt:
        # What is cancelled before it has reached the server goes on: it is cancelled again.
        while has_effect and not wait([done], timeout=_TICK / 5).done:
            for cancel in cancels:
                cancel()
        raise
    return done.result()
