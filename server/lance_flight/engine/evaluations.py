"""Values of custom expressions, which may not be computed while DataFusion plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lance_flight.engine.functions import evaluate
from lance_flight.planning.enumeration import Unresolved


@dataclass(slots=True)
class Evaluations:
    """Values of custom expressions: computed between two rounds of planning, never inside one (decision 25)."""

    known: dict[Any, pa.Array] = field(default_factory=dict)
    wanted: dict[Any, tuple[str, Sequence[pa.Array], pa.DataType]] = field(default_factory=dict)

    def __call__(self, expression: str, columns: Sequence[pa.Array], result_type: pa.DataType) -> pa.Array:
        key = expression, str(result_type), tuple((str(c.type), tuple(map(str, c.to_pylist()))) for c in columns)
        if key not in self.known:
            self.wanted[key] = expression, columns, result_type
            raise Unresolved(f"{expression!r} is computed before the next round of planning")
        return self.known[key]

    def compute(self) -> bool:
        """Compute what was wanted; whether there was anything."""
        wanted, self.wanted = self.wanted, {}
        for key, (expression, columns, result_type) in wanted.items():
            self.known[key] = evaluate(expression, columns, result_type)
        return bool(wanted)
