"""The loop that every step against concurrent writers is tried in, and its end."""

from __future__ import annotations

import pytest
from lance_flight.catalog.storage.retries import ADOPT, ONCE, RetryPolicy, retry
from lance_flight.errors import Conflict, NotFound, SerializationFailure

THRICE = RetryPolicy(3, first_pause=0)


def test_the_first_result_ends_it() -> None:
    assert retry(THRICE, "t", lambda attempt: None if attempt < 2 else [attempt]) == [2]


def test_an_empty_result_is_one() -> None:
    assert retry(ONCE, "t", lambda _: []) == []


@pytest.mark.parametrize(
    ("raised", "on", "expected"),
    [
        pytest.param(None, (), Conflict, id="nothing"),
        pytest.param(Conflict("met"), Conflict, Conflict, id="a conflict"),
        pytest.param(SerializationFailure("met"), Conflict, SerializationFailure, id="rows that were changed"),
    ],
)
def test_it_gives_up_after_the_last_attempt(
    raised: Exception | None, on: type[Exception] | tuple[()], expected: type[Exception]
) -> None:
    attempts: list[int] = []

    def work(attempt: int) -> int | None:
        attempts.append(attempt)
        if raised is not None:
            raise raised
        return None

    with pytest.raises(Conflict) as failure:
        retry(THRICE, "t", work, on=on)
    assert type(failure.value) is expected
    assert attempts == [0, 1, 2]
    if expected is Conflict:
        assert str(failure.value) == "'t': gave up after 3 attempts against other writers; nothing was stored"
        assert failure.value.__cause__ is raised


def test_what_it_does_not_wait_for_is_raised_at_once() -> None:
    attempts: list[int] = []

    def work(attempt: int) -> None:
        attempts.append(attempt)
        raise NotFound("no table 't'")

    with pytest.raises(NotFound):
        retry(THRICE, "t", work, on=Conflict)
    assert attempts == [0]


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        pytest.param(THRICE, "it met another writer", id="a race"),
        pytest.param(ADOPT, "something was added, or it met another writer", id="one step after another"),
    ],
)
def test_each_further_attempt_is_logged_with_why_it_is_made(
    caplog: pytest.LogCaptureFixture, policy: RetryPolicy, why: str
) -> None:
    with caplog.at_level("INFO"):
        retry(policy, "t", lambda attempt: None if attempt == 0 else attempt)
    assert caplog.messages == [f"attempt 1 on t: {why}"]
