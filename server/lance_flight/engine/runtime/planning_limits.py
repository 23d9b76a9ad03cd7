"""Time limit of DataFusion's planning, which cannot be interrupted.

A statement that may be costly to plan (`bounds.is_costly`) is planned in threads of their own. They keep its turn until they end,
also where its client was answered before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from datafusion import DataFrame

from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.errors import LimitExceeded, StatementTimeout

T = TypeVar("T")

MOST_SECONDS = 3.0
"""Most seconds of one core that planning may take, for which all other clients may have to wait."""


@dataclass(slots=True)
class PlanningLimits:
    """Plans one statement within `timeout` seconds (0: any number), in a thread of its own where it `is_costly`.

    It `is_linear` if what makes it so are lists of literals in a single query.
    """

    cancellation: Cancellation
    timeout: float
    is_costly: bool = False
    is_linear: bool = True

    def run(self, plan: Callable[[], T]) -> T:
        """Run `plan` and return its result; raise `Cancelled` or `StatementTimeout` as soon as the statement is cancelled or times out."""
        self.cancellation.check()
        if not self.is_costly:
            return plan()
        try:
            return self.cancellation.awaited(plan, self.timeout)
        except TimeoutError as exc:
            raise StatementTimeout(
                f"planning the statement took more than {self.timeout:g} s, the setting planning_timeout"
            ) from exc

    def check_cost(self, frame: DataFrame) -> None:
        """Refuse a query whose optimisation takes long.

        DataFusion's `optimized_logical_plan` holds Python's lock, and with it every other client; `execution_plan` does not, and
        does as much and more.
        """

        def measured() -> float:
            began = time.thread_time()
            frame.execution_plan()
            return time.thread_time() - began

        seconds = self.run(measured)
        if seconds > MOST_SECONDS:
            raise LimitExceeded(
                f"planning the statement took {seconds:.1f} s of a core; expected at most {MOST_SECONDS:g}:"
                " calls over constants are computed while planning, so send their values, and long lists as a table"
            )
