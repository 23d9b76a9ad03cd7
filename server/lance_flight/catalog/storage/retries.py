"""Retry policies against concurrent writers, Lance's errors for them, and answers of an object store that a statement remembers.

The steps are nested, so that their bounds multiply in the worst case: a statement that finds its rows again after a
serialization failure (`STATEMENT`) commits each time (`COMMIT`), and each attempt of a commit stages its partition tables
(`STAGE`). What is lost in a round is the race for one version, so that some writer goes on in every round.

Answers that are remembered say whether something lies in a place, and which version is the newest. Each answer is of the moment at which the store was asked. A statement takes an answer that was asked for after it began: it could have asked
at that moment itself, so it sees whatever was committed before it began. Outside of a statement the store is asked every time. What this
process changes by itself is never answered from before the change.
"""

from __future__ import annotations

import logging
import math
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from lance.commit import CommitConflictError

from lance_flight.errors import Conflict, SerializationFailure
from lance_flight.lru_cache import LruCache

REMEMBERED_SECONDS = 1.0
"""Age of an answer from which on a statement asks again, so that a long one meets other writers early."""
LISTED_SECONDS = 5.0
"""The same for lists of all tables and their columns, which may be so much behind what other processes do."""
LONGEST_SECONDS = 10.0
"""Age from which on an answer is good for nothing."""
_MOST_ANSWERS, _MOST_CHANGES = 16_384, 4_096


@dataclass(eq=False, slots=True)
class _Block:
    """A block that takes answers which were asked for after a moment, up to an age in seconds; `outer` is the block around it."""

    moment: float
    longest: float
    outer: _Block | None
    is_over: bool = False


_innermost: ContextVar[_Block | None] = ContextVar("_innermost", default=None)


@contextmanager
def looking_since(moment: float | None = None, *, longest: float | None = None) -> Iterator[None]:
    """Take answers that were asked for after a moment of the monotonic clock (None: now), as long as the block runs.

    They are `longest` seconds old, or `REMEMBERED_SECONDS`.
    """
    moment = time.monotonic() if moment is None else moment
    block = _Block(moment, REMEMBERED_SECONDS if longest is None else longest, _current())
    _innermost.set(block)
    try:
        yield
    finally:
        # A statement may end on another thread than it began on, and before one that began within it: blocks of generators.
        block.is_over = True
        _innermost.set(_current())


@contextmanager
def listing() -> Iterator[None]:
    """Take answers that are good for a list of tables, as long as the block runs."""
    with looking_since(time.monotonic() - LISTED_SECONDS, longest=LISTED_SECONDS):
        yield


def look_again() -> None:
    """Take no answer from before this moment for the rest of the block: what was met says that they are out of date."""
    block = _current()
    if block is not None:
        block.moment = time.monotonic()


def _current() -> _Block | None:
    """Return the innermost block that still runs; None outside of a statement."""
    block = _innermost.get()
    while block is not None and block.is_over:
        block = block.outer
    return block


class Looks:
    """Answers about places, each with the moment at which it was asked for. Safe to share among threads."""

    def __init__(self) -> None:
        self._answers = LruCache[tuple[str, str], tuple[Any, float]](_MOST_ANSWERS, idle_seconds=LONGEST_SECONDS)
        self._changed: dict[str, float] = {}
        self._replaced: dict[str, float] = {}
        self._lock = Lock()

    def find(self, place: str, what: str, ask: Callable[[], T], *, within: float = 0.0) -> T:
        """Return an answer about a place: a remembered one of this statement, or of the last `within` seconds, or what `ask` returns."""
        known = self.recall(place, what, within=within)
        if known is not None:
            answer: T = known[0]
            return answer
        asked = time.monotonic()
        answer = ask()
        self._answers.put((place, what), (answer, asked))
        return answer

    def recall(self, place: str, what: str, *, within: float = 0.0) -> tuple[Any] | None:
        """Return a remembered answer, alone in a tuple; None where the store has to be asked."""
        known, now = self._answers.get((place, what)), time.monotonic()
        if known is None:
            return None
        block = _current()
        is_of_statement = block is not None and known[1] >= block.moment and now - known[1] <= block.longest
        if not (is_of_statement or now - known[1] <= within) or not self._holds(place, known[1]):
            return None
        return (known[0],)

    def change(self, place: str) -> None:
        """Forget the answers about a place whose newest version this process has changed."""
        with self._lock:
            self._mark(self._changed, place)

    def replace(self, place: str) -> None:
        """Forget the answers about a place that this process has made, filled or removed, about all below it, and those of the places above it."""
        with self._lock:
            self._mark(self._replaced, place)
            for above in _above(place):
                self._mark(self._changed, above)

    def _holds(self, place: str, asked: float) -> bool:
        """Return whether this process has changed nothing since that an answer is about."""
        never = -math.inf
        with self._lock:
            return asked > self._changed.get(place, never) and all(
                asked > self._replaced.get(path, never) for path in (place, *_above(place))
            )

    def _mark(self, marks: dict[str, float], place: str) -> None:
        now = time.monotonic()
        marks[place] = now
        if len(marks) > _MOST_CHANGES:
            # Answers that are older than that are good for nothing anyway.
            for old in [mark for mark, moment in marks.items() if now - moment > 2 * LONGEST_SECONDS]:
                del marks[old]


def _above(place: str) -> Iterator[str]:
    """Yield the places that a place lies in, the nearest first.

    >>> list(_above("s3://bucket/root/t"))
    ['s3://bucket/root', 's3://bucket']
    """
    scheme, _, path = place.partition("://")
    while "/" in path:
        path = path.rpartition("/")[0]
        yield f"{scheme}://{path}"


looks = Looks()
"""Those of this process."""


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
