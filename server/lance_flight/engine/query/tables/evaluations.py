"""Evaluation of custom partition expressions, outside of DataFusion's planning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import LanceFlightError
from lance_flight.planning.enumeration import Unresolved


@dataclass(slots=True)
class Evaluations:
    """Values of custom expressions: computed between two rounds of planning, never inside one (decision 25).

    A value that cannot be computed is an error for the caller: it prunes nothing, and the query runs.
    """

    known: dict[Any, pa.Array | LanceFlightError] = field(default_factory=dict)
    wanted: dict[Any, tuple[str, Sequence[pa.Array], pa.DataType]] = field(default_factory=dict)

    def __call__(self, expression: str, columns: Sequence[pa.Array], result_type: pa.DataType) -> pa.Array:
        key = expression, str(result_type), tuple((str(c.type), tuple(map(str, c.to_pylist()))) for c in columns)
        if key not in self.known:
            self.wanted[key] = expression, columns, result_type
            raise Unresolved(f"{expression!r} is computed before the next round of planning")
        known = self.known[key]
        if isinstance(known, LanceFlightError):
            raise known
        return known

    def compute(self) -> bool:
        """Compute the requested values; return whether there were any."""
        wanted, self.wanted = self.wanted, {}
        for key, (expression, columns, result_type) in wanted.items():
            try:
                self.known[key] = evaluate(expression, columns, result_type)
            except LanceFlightError as exc:
                self.known[key] = exc
        return bool(wanted)
