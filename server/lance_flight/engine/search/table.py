"""What a search gives, as DataFusion reads it: a table that is found when it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.engine.computed_tables import ComputedTable, Lane
from lance_flight.engine.provider import ScanLog
from lance_flight.errors import LanceFlightError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """The rows of a search: their `schema`, how they are found (some columns of them), and what EXPLAIN says of that."""

    schema: pa.Schema
    find: Callable[[list[str]], pa.Table]
    report: str
    failure: Callable[[Exception], LanceFlightError]


class SearchTable(ComputedTable):
    """The rows of one call, in one lane: their search has as many as it likes."""

    def __init__(self, found: Found, log: ScanLog) -> None:
        def rows(names: list[str]) -> Iterator[pa.RecordBatch]:
            with log.noting(found.failure):
                yield from found.find(names).to_batches()

        super().__init__(found.schema, [rows])
        self._report = found.report
        self._log = log

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Lane]:
        self._log.reports.append(self._report)
        return super().get_fragments(filter)
