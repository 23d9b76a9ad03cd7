"""Answers of an object store that are remembered within a statement, and never outside of one."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

from lance_flight.catalog.storage.retries import Looks, look_again, looking_since


def asked(looks: Looks, count: list[int]) -> int:
    """How often the store has been asked once this has its answer."""
    looks.find("s3://b/t", "is there", lambda: bool(count.append(1)) or True)
    return len(count)


def statement() -> Iterator[None]:
    with looking_since():
        yield


def test_an_answer_is_remembered_within_a_statement_alone() -> None:
    looks, count = Looks(), list[int]()
    with looking_since():
        assert [asked(looks, count), asked(looks, count)] == [1, 1]
        look_again()
        assert asked(looks, count) == 2
    assert [asked(looks, count), asked(looks, count)] == [3, 4]


def test_statements_that_end_in_any_order_and_on_any_thread_leave_nothing() -> None:
    looks, count = Looks(), list[int]()
    first, second = statement(), statement()
    next(first), next(second)
    asked(looks, count)
    next(first, None)
    assert asked(looks, count) == 1, "the second one goes on"
    ending = Thread(target=lambda: next(second, None))
    ending.start()
    ending.join()
    assert [asked(looks, count), asked(looks, count)] == [2, 3]
