"""What a search gives, as DataFusion reads it: a table that is found when it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lance_flight.catalog.store import UNREADABLE
from lance_flight.engine.provider import ScanLog, arrow_filter
from lance_flight.errors import LanceFlightError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """The rows of a search: their `schema`, how they are found (some columns of them), and what EXPLAIN says of that."""

    schema: pa.Schema
    find: Callable[[list[str]], pa.Table]
    report: str
    failure: Callable[[Exception], LanceFlightError]


class SearchTable(pads.Dataset):
    """The rows of one call, in one lane: their search has as many as it likes."""

    def __init__(self, found: Found, log: ScanLog) -> None:
        self._found = found
        self._log = log

    @property
    def schema(self) -> pa.Schema:
        return self._found.schema

    def scanner(self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> pads.Scanner:
        return pads.dataset(self.schema.empty_table()).scanner(columns=columns)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[_Lane]:
        self._log.reports.append(self._found.report)
        return iter([_Lane(self._found, self._log)])


@dataclass(frozen=True, slots=True)
class _Lane:
    """The whole of it."""

    found: Found
    log: ScanLog

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> _LaneScanner:
        return _LaneScanner(self, self.found.schema.names if columns is None else columns, filter)


@dataclass(frozen=True, slots=True)
class _LaneScanner:
    lane: _Lane
    names: list[str]
    filter: pc.Expression | None

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns that are returned."""
        return pa.schema([self.lane.found.schema.field(name) for name in self.names])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows; a filter of the query chooses among those that were found."""
        found, log = self.lane.found, self.lane.log
        condition, columns = (None, ()) if self.filter is None else arrow_filter(self.filter, found.schema)
        try:
            rows = found.find(list(dict.fromkeys([*self.names, *columns])))
        except (LanceFlightError, *UNREADABLE) as exc:
            log.error = found.failure(exc)
            raise log.error from exc
        kept = rows if condition is None else rows.filter(condition)
        yield from kept.select(self.names).to_batches()
