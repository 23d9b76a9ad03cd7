"""How often, and after which pauses, a commit is tried again against other writers."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator

from lance_flight.errors import Conflict

log = logging.getLogger(__name__)

COMMIT_ATTEMPTS = 40
MAX_PAUSE = 0.5
FIRST_PAUSE = 0.01


def pause(attempt: int) -> None:
    """Wait a random time, longer after each attempt, so that those who met do not meet again."""
    time.sleep(random.uniform(0, min(MAX_PAUSE, FIRST_PAUSE * 2**attempt)))  # noqa: S311 - jitter, no secret


def attempts(name: str) -> Iterator[int]:
    """Numbers of attempts, with growing random pauses between them; `Conflict`, naming the table, after the last one."""
    for attempt in range(COMMIT_ATTEMPTS):
        yield attempt
        log.info("commit to %s met another writer, attempt %d", name, attempt + 1)
        pause(attempt)
    raise Conflict(f"{name!r}: gave up after {COMMIT_ATTEMPTS} attempts against other writers; nothing was stored")
