"""Table of search results for DataFusion, computed when it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.engine.query.computed_tables import ComputedTable, Lane
from lance_flight.engine.query.provider import ScanLog
from lance_flight.errors import LanceFlightError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchResult:
    """The rows of a search: their `schema`, how they are found (some columns of them), and what EXPLAIN says and advises of that.

    Of its columns `*` does not show those that are `hidden`.
    """

    schema: pa.Schema
    find: Callable[[list[str]], pa.Table]
    report: str
    failure: Callable[[Exception], LanceFlightError]
    hidden: tuple[str, ...] = ()
    advise: Callable[[], Sequence[str]] = tuple

    def explain(self) -> str:
        """Return what EXPLAIN says of the search."""
        return "\n".join([self.report, *self.advise()])


class SearchTable(ComputedTable):
    """Table of the results of one call, in one lane; the search itself may use several."""

    def __init__(self, found: SearchResult, log: ScanLog) -> None:
        super().__init__(found.schema, [self._rows])
        self._found = found
        self._log = log

    def read(self, other: SearchTable) -> None:
        """Return the results of another call from here on, which has the same columns."""
        self._found, self._log = other._found, other._log

    def go_on(self, log: ScanLog) -> None:
        """Return the same results in another run, which has this log."""
        self._log = log

    @property
    def hidden(self) -> list[str]:
        """Return the columns that `*` does not show."""
        return list(self._found.hidden)

    def _rows(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        with self._log.noting(self._found.failure):
            yield from self._found.find(names).to_batches()

    def _read_outside(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows to a reader outside DataFusion, which may end its statement before the search ends."""
        yield from self._log.cancellation.awaited(partial(list, self._rows(names)))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Lane]:
        self._log.reports.append(self._found.explain)
        if filter is None:
            self._log.searches.append(self._read_outside)
        return super().get_fragments(filter)
