"""Cache of query plans, for the next statement of the same text.

A plan is found in two steps. What decides how a text is planned, beside its tables, is its key (`PlanKey`): parsing, names, rewriting
and the optimised plan are those of the key. Its tables are resolved anew by each statement that takes a plan (`PlannedQuery.again`):
where one has other columns, or is not there, the plan is no good and another one is made; where all are at the snapshots that they were
at, what their prunings found is known as well.

One plan runs one statement at a time: statements that run beside each other have one each. A statement that was planned waits for its
ticket: its plan is the first that the ticket gets, and the last that another statement does, because what it has found stays good.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from threading import Lock

import pyarrow as pa

from lance_flight.engine.functions.routines import calls_of, mutable_functions
from lance_flight.engine.query.names.statement_context import StatementContext
from lance_flight.engine.query.planned_query import PlanKey, PlannedQuery
from lance_flight.engine.runtime.running_statement import RunningStatement
from lance_flight.engine.sql.tokens import token_count
from lance_flight.engine.translation import substrait
from lance_flight.errors import LanceFlightError

MOST_PLANS = 256
MOST_BYTES = 64 << 20
LONGEST_TEXT = 2 << 20
_LONG_TEXT = 64 << 10
"""Characters from which on what is in a text decides about the size of its plan, not its length alone."""
_OF_A_PLAN = 96 << 10
"""Estimated bytes of DataFusion's context and a plan of a few nodes."""
_OF_A_CHARACTER = 256
"""Estimated bytes of a plan for each character of its text: lists of keys take 190, long select lists 250."""
_OF_A_TOKEN = 512
"""Estimated bytes of a plan for each token of a long text: lists of keys take 330, which are long texts if the keys are."""
_OF_A_PARTITION = 256
"""Estimated bytes of a snapshot for each of its partition tables."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A cached plan with its estimated `size`; one that `is_awaited` waits for the ticket of the statement that it was planned for."""

    key: PlanKey
    planned: PlannedQuery
    size: int
    is_awaited: bool


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """Counts of a cache: hits, misses, kept plans, and their bytes."""

    hits: int
    misses: int
    plans: int
    size: int


class PlanCache:
    """Least-recently-used cache of one server's plans that no statement is running. Safe to share among threads."""

    def __init__(self, *, most_plans: int = MOST_PLANS, most_bytes: int = MOST_BYTES) -> None:
        self._most_plans, self._most_bytes = most_plans, most_bytes
        self._plans: OrderedDict[int, _Kept] = OrderedDict()
        self._of_key: dict[PlanKey, list[int]] = {}
        self._lock = Lock()
        self._next = self._hits = self._misses = self._size = 0

    @property
    def counts(self) -> CacheCounts:
        """Return the counts of the cache."""
        with self._lock:
            return CacheCounts(self._hits, self._misses, len(self._plans), self._size)

    def take(
        self, key: PlanKey, text: str, context: StatementContext, parameters: pa.RecordBatch | None
    ) -> PlannedQuery | None:
        """Take a cached plan and begin it again for a statement; None if no plan is valid for it."""
        taken = None
        while taken is None and (kept := self._pop(key, context.running)) is not None:
            holds = [] if context.holds is None else list(context.holds)
            with suppress(LanceFlightError):  # planning it anew says what is the matter
                taken = kept.again(context, text, parameters)
            if taken is None and context.holds is not None:
                context.holds[:] = holds
        with self._lock:
            self._hits += taken is not None
            self._misses += taken is None
        return taken

    def keep(self, key: PlanKey, planned: PlannedQuery, *, is_awaited: bool = False) -> None:
        """Return a plan that is not running any more to the cache, if it may run again; `is_awaited` by the ticket of its statement."""
        planned.session.end()
        texts = [key.text, *planned.session.view_texts]
        if not all(map(is_steady, texts)) or not planned.session.is_steady:
            return
        size = _size(key, planned)
        if size > self._most_bytes:
            return
        with self._lock:
            number = self._next = self._next + 1
            self._plans[number] = _Kept(key, planned, size, is_awaited)
            self._of_key.setdefault(key, []).append(number)
            self._size += size
            while len(self._plans) > self._most_plans or self._size > self._most_bytes:
                self._drop(next(iter(self._plans)))

    def _pop(self, key: PlanKey, running: RunningStatement | None) -> PlannedQuery | None:
        """Remove and return the plan of a key that was made for this statement, else the last of those that no ticket awaits, else the first."""
        with self._lock:
            numbers = self._of_key.get(key)
            if not numbers:
                return None
            kept = [(number, self._plans[number]) for number in reversed(numbers)]
            own = (number for number, entry in kept if entry.planned.was_begun_for(running))
            free = (number for number, entry in kept if not entry.is_awaited)
            return self._drop(next(chain(own, free), numbers[0]))

    def _drop(self, number: int) -> PlannedQuery:
        kept = self._plans.pop(number)
        numbers = self._of_key[kept.key]
        numbers.remove(number)
        if not numbers:
            del self._of_key[kept.key]
        self._size -= kept.size
        return kept.planned


def is_steady(text: str) -> bool:
    """Return whether a text means the same whenever it is planned: planning computes `now()`, and a Substrait plan shows no calls.

    >>> is_steady("SELECT 1"), is_steady("SELECT now()")
    (True, False)
    """
    if len(text) > _LONG_TEXT:
        return len(text) <= LONGEST_TEXT and _find_steady(text)
    return _is_steady(text)


def _find_steady(text: str) -> bool:
    return substrait.plan_in(text) is None and not any(calls_of(text, mutable_functions()))


_is_steady = lru_cache(MOST_PLANS)(_find_steady)


def _size(key: PlanKey, planned: PlannedQuery) -> int:
    partitions = sum(view.snapshot.table_count for view in planned.session.views.values())
    bound = 0 if planned.parameters is None else planned.parameters.get_total_buffer_size()
    return _OF_A_PLAN + _size_of_text(key.text) + _OF_A_PARTITION * partitions + bound


def _size_of_text(text: str) -> int:
    return _OF_A_CHARACTER * len(text) if len(text) <= _LONG_TEXT else len(text) + _OF_A_TOKEN * token_count(text)
