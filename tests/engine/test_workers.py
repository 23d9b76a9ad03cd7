"""Awaited work: at once, however much there is, in threads that stay for the next and keep nothing of it."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar

import pytest
from lance_flight.engine.runtime.cancellation import IDLE, Cancellation, Workers
from lance_flight.errors import Cancelled

from tests.engine.waiting import until

number: ContextVar[int] = ContextVar("number", default=0)


def done(workers: Workers, work: Callable[[], object]) -> object:
    """What work gives, once its thread is idle again."""
    found: list[object] = []
    is_over = threading.Event()

    def run() -> None:
        found.append((work(), threading.current_thread()))
        is_over.set()

    workers.run(run)
    assert is_over.wait(30)
    value, thread = found[0]  # type: ignore[misc]
    until(lambda: thread.name == IDLE or not thread.is_alive())
    return value


def test_a_thread_takes_the_next_work() -> None:
    workers = Workers()
    assert len({done(workers, threading.get_ident) for _ in range(20)}) == 1


def test_all_work_runs_at_once_and_few_threads_stay() -> None:
    workers, together, ended = Workers(most_idle=2), threading.Barrier(9), list[threading.Thread]()

    def meet() -> None:
        ended.append(threading.current_thread())
        together.wait(30)

    for _ in range(8):
        workers.run(meet)
    together.wait(30)
    until(lambda: sum(thread.is_alive() for thread in ended) == 2)
    assert {thread.name for thread in ended if thread.is_alive()} == {IDLE}


def test_work_sees_nothing_of_the_work_before() -> None:
    workers = Workers()
    done(workers, lambda: number.set(7))
    assert done(workers, number.get) == 0


def test_an_idle_thread_holds_nothing_of_its_work() -> None:
    class Rows:
        """What a statement holds."""

    workers, rows = Workers(), Rows()
    kept = weakref.ref(rows)
    done(workers, lambda rows=rows: rows is None)  # type: ignore[misc]
    del rows
    gc.collect()
    assert kept() is None


def test_a_statement_ends_before_the_work_that_it_waits_for() -> None:
    cancellation, begun, may_end = Cancellation(), threading.Event(), threading.Event()
    after = threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(30)

    threading.Thread(target=lambda: begun.wait(30) and cancellation.cancel(lambda: Cancelled("enough"))).start()
    with pytest.raises(Cancelled, match="enough"):
        cancellation.run_in_thread(work)
    cancellation.after_abandoned(after.set)
    assert not after.is_set()
    may_end.set()
    assert after.wait(30)


def test_work_that_takes_too_long_is_given_up() -> None:
    cancellation, may_end = Cancellation(), threading.Event()
    with pytest.raises(TimeoutError):
        cancellation.run_in_thread(lambda: may_end.wait(30), seconds=0.01)
    may_end.set()
    assert cancellation.run_in_thread(lambda: 5) == 5


def test_the_error_of_awaited_work_is_raised_where_it_is_awaited() -> None:
    with pytest.raises(ZeroDivisionError):
        Cancellation().run_in_thread(lambda: 1 // 0)
