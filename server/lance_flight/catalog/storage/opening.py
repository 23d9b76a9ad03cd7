"""Work on many tables of a namespace at a time: opening one waits for its storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")

OPENERS = 8
"""Threads of one piece of work that open tables at once."""


def map_tables(work: Callable[[S], T], tables: Iterable[S], name: str) -> list[T]:
    """Call `work` with each table, `OPENERS` at a time in threads of a `name`, and return the results in order."""
    context = copy_context()
    with ThreadPoolExecutor(OPENERS, thread_name_prefix=name) as pool:
        return list(pool.map(lambda table: context.copy().run(work, table), tables))
