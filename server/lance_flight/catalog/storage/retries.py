"""Retry policies against concurrent writers, and Lance's errors for them.

The steps are nested, so that their bounds multiply in the worst case: a statement that finds its rows again after a
serialization failure (`STATEMENT`) commits each time (`COMMIT`), and each attempt of a commit stages its partition tables
(`STAGE`). What is lost in a round is the race for one version, so that some writer goes on in every round.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from lance.commit import CommitConflictError

from lance_flight.catalog.storage.looks import look_again
from lance_flight.errors import Conflict, SerializationFailure

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Number of attempts, and the pauses between them: random, up to `first_pause` seconds and twice as long each time.

    `why` is what the log says of a further attempt.
    """

    attempts: int
    first_pause: float = 0.01
    longest_pause: float = 0.5
    why: str = "it met another writer"

    def pause(self, attempt: int) -> None:
        """Wait after an attempt, for a random time, so that writers that met do not meet again."""
        if self.first_pause:
            longest = min(self.longest_pause, self.first_pause * 2**attempt)
            time.sleep(random.uniform(0, longest))  # noqa: S311 - jitter, no secret


COMMIT = RetryPolicy(100, longest_pause=0.25)
"""Of a change of `__manifest`, which is worked out again on the newest snapshot."""
STAGE = RetryPolicy(20, first_pause=0)
"""Of a version of one partition table on top of its pin; writers that have not committed yet are overwritten."""
ADOPT = RetryPolicy(10, first_pause=0, why="something was added, or it met another writer")
"""Of adding to a namespace of another writer what our writes need."""
MOVE_ROWS = RetryPolicy(10)
"""Of moving the rows of some partition tables, which are read again each time."""
STATEMENT = RetryPolicy(40)
"""Of a statement outside of a transaction whose rows a concurrent writer has changed."""
ANSWER = RetryPolicy(6, first_pause=0.05, longest_pause=1.0, why="a request was not answered")
"""Of what sends a conditional put to an object store, which Lance does not send again where its connection breaks."""
ONCE = RetryPolicy(1)
"""Of what cannot be read a second time."""


_SENT_ONCE = re.compile(r"Error performing PUT \S+ in [^ ]+ - ")


def was_sent_once(exc: BaseException) -> bool:
    """Return whether a request broke that Lance has not sent again; one that it gave up says how often it was sent.

    >>> was_sent_once(OSError("LanceError(IO): Generic S3 error: Error performing PUT http://s3/b/k in 174µs - HTTP error: error sending request"))
    True
    >>> was_sent_once(OSError("LanceError(IO): Generic S3 error: Error performing PUT http://s3/b/k in 9s, after 6 retries, max_retries: 6 - 503"))
    False
    """
    return isinstance(exc, OSError) and _SENT_ONCE.search(str(exc)) is not None


def until_answered(work: Callable[[], T]) -> T:
    """Return the result of work that does the same when it is done again, wherever it was stopped; begin again where a request broke."""
    for attempt in range(ANSWER.attempts - 1):
        try:
            return work()
        except OSError as exc:
            if not was_sent_once(exc):
                raise
        log.info("attempt %d: %s", attempt + 1, ANSWER.why)
        ANSWER.pause(attempt)
    return work()


def retry(
    policy: RetryPolicy, name: str, work: Callable[[int], T | None], *, on: type[Exception] | tuple[()] = ()
) -> T:
    """Return the result of the first attempt that gives one; `work` is called with the number of the attempt, from 0.

    An attempt that gives None, or raises an exception that `on` names, has met another writer. After the last attempt its
    `SerializationFailure` is raised, or else `Conflict` with the `name` of the table.
    """
    met: Exception | None = None
    for attempt in range(policy.attempts):
        if attempt:
            log.info("attempt %d on %s: %s", attempt, name, policy.why)
            policy.pause(attempt - 1)
            look_again()
        try:
            result = work(attempt)
        except on as exc:
            met = exc
        else:
            if result is not None:
                return result
            met = None
    if isinstance(met, SerializationFailure):
        raise met
    raise Conflict(
        f"{name!r}: gave up after {policy.attempts} attempts against other writers; nothing was stored"
    ) from met


_WORDS = ("conflict", "concurrent")


@contextmanager
def conflicts(message: str) -> Iterator[None]:
    """Turn a commit that Lance refused because another one came first into `Conflict`; other errors pass."""
    try:
        yield
    except CommitConflictError as exc:
        raise Conflict(message) from exc
    except OSError as exc:
        # Some conflicts come as plain I/O errors, which only their text tells from a full disk.
        if not any(word in str(exc).lower() for word in _WORDS):
            raise
        raise Conflict(message) from exc
