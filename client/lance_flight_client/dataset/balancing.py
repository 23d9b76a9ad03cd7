"""Work dealt out to tasks, so that each has about as many rows."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

ROWS_PER_TASK = 1_000_000


def tasks_for(rows: int, most: int | None) -> int:
    """Return how many tasks read so many rows: `most`, where it is given.

    >>> tasks_for(0, None), tasks_for(2_500_000, None), tasks_for(2_500_000, 8)
    (1, 3, 8)
    """
    return max(1, -(-rows // ROWS_PER_TASK)) if most is None else most


def balanced(pieces: Sequence[tuple[T, int]], tasks: int) -> list[list[T]]:
    """Pieces and their weights, dealt out to at most `tasks`, the heaviest first; no task without a piece.

    >>> balanced([("a", 1), ("b", 5), ("c", 2), ("d", 2)], 2)
    [['b'], ['c', 'd', 'a']]
    """
    dealt: list[list[T]] = [[] for _ in range(tasks)]
    loads = [(0, task) for task in range(tasks)]
    for piece, weight in sorted(pieces, key=lambda each: -each[1]):
        load, task = loads[0]
        dealt[task].append(piece)
        # What is empty counts too: a table costs something before its first row.
        heapq.heapreplace(loads, (load + max(weight, 1), task))
    return [task for task in dealt if task]
