"""Tables as DataFusion sees them: a `pyarrow.dataset.Dataset` that prunes, pins and fans out (decision 20).

DataFusion asks for fragments once per scan, with the filters of that scan; each fragment is one lane, which reads its
tables one after another. These callbacks run on DataFusion's own threads and never call DataFusion (decision 25).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lance_flight.catalog.scan import BATCH_ROWS, Open, Scan
from lance_flight.catalog.store import UNREADABLE
from lance_flight.errors import LanceFlightError, Unsupported
from lance_flight.planning.arrow_expression import predicate_from_arrow, to_arrow
from lance_flight.planning.predicates import ALWAYS, And, Constant, Opaque, Or, Predicate

MOST_DEPTH = 5
"""Lance's work on a filter doubles with each level of AND and OR (as Substrait); a deeper one is applied to what it returns."""


@dataclass(slots=True)
class ScanLog:
    """What the scans of one statement did: a report for EXPLAIN, and the error that ended one of them."""

    reports: list[str] = field(default_factory=list)
    scans: list[PlannedRead] = field(default_factory=list)
    tables_read: int = 0
    error: LanceFlightError | None = None


class ScanPlan(Protocol):
    """One scan, planned: groups of tables that need the same filter, dealt out to lanes."""

    @property
    def lanes(self) -> Sequence[Sequence[tuple[Predicate | None, Sequence[Open]]]]:
        """For each lane its (residual filter, tables) pairs; a residual of None filters nothing."""
        ...


class Readable(Protocol):
    """What a provider reads: a schema, and how a scan of it is planned."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        ...

    @property
    def ids(self) -> dict[str, int]:
        """Their field ids by name; none where columns are known by name alone."""
        ...

    def plan(self, predicate: Predicate) -> ScanPlan:
        """Which tables to read for rows where `predicate` is TRUE."""
        ...

    def failure(self, exc: Exception) -> LanceFlightError:
        """What to say of an exception that ended a scan, or its planning."""
        ...


class Provider(pads.Dataset):
    """A readable table of any kind, as DataFusion wants it."""

    def __init__(self, readable: Readable, log: ScanLog) -> None:
        self._readable = readable
        self._log = log

    @property
    def schema(self) -> pa.Schema:
        return self._readable.schema

    def scanner(self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> _Projection:
        return _Projection(_projected(self.schema, columns))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[_Lane]:
        predicate = ALWAYS if filter is None else _read(filter)
        try:
            plan = self._readable.plan(predicate)
        except LanceFlightError as exc:
            self._log.error = self._readable.failure(exc)
            raise self._log.error from exc
        planned = PlannedRead(self._readable, plan, filter, self._log)
        self._log.scans.append(planned)
        return iter([_Lane(planned, lane) for lane in plan.lanes or [[]]])


@dataclass(frozen=True, slots=True)
class _Projection:
    """What DataFusion asks of a scanner while it plans: the schema of the columns it wants."""

    projected_schema: pa.Schema


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """One scan as it was planned: what is read, in which lanes, under which filter of DataFusion's."""

    readable: Readable
    plan: ScanPlan
    condition: pc.Expression | None
    log: ScanLog

    def batches(
        self,
        work: Sequence[tuple[Predicate | None, Sequence[Open]]],
        columns: Sequence[str] | None,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of some tables, with these columns (None: all)."""
        schema = _projected(self.readable.schema, columns)
        try:
            for residual, tables in work:
                yield from self._scan(residual, schema, batch_rows).read(tables)
        except (LanceFlightError, *UNREADABLE) as exc:
            self.log.error = self.readable.failure(exc)
            raise self.log.error from exc

    def _scan(self, residual: Predicate | None, schema: pa.Schema, batch_rows: int) -> Scan:
        source = self.readable.schema
        condition = _condition(residual, self.condition, source)
        return Scan(
            source=source,
            schema=schema,
            filter=condition.expression,
            rest=condition.rest,
            filter_columns=condition.columns,
            pushable=condition.pushable,
            ids=self.readable.ids,
            batch_rows=batch_rows,
        )


@dataclass(frozen=True, slots=True)
class _Lane:
    """One partition of DataFusion's plan: some tables, read one after another."""

    planned: PlannedRead
    work: Sequence[tuple[Predicate | None, Sequence[Open]]]

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> _LaneScanner:
        return _LaneScanner(self, _projected(self.planned.readable.schema, columns), batch_size)


@dataclass(frozen=True, slots=True)
class _LaneScanner:
    lane: _Lane
    projected_schema: pa.Schema
    batch_size: int

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The lane's rows."""
        return self.lane.planned.batches(self.lane.work, self.projected_schema.names, self.batch_size)


def arrow_filter(filter: pc.Expression, source: pa.Schema) -> tuple[pc.Expression | None, tuple[str, ...]]:
    """A pushed filter as Arrow runs it, floats compared as SQL does, and the columns of `source` that it speaks of."""
    condition = _condition(_read(filter), filter, source)
    return condition.rest, condition.columns


def _read(filter: pc.Expression) -> Predicate:
    """A pushed filter as a predicate: one nested too deeply to be read prunes nothing, and filters all the same."""
    try:
        return predicate_from_arrow(filter)
    except RecursionError:
        return Opaque("the filter", "it is nested too deeply")


class _Condition(NamedTuple):
    """A filter as Lance runs it and as Arrow does, the columns it speaks of, and whether Lance may be given it."""

    expression: pc.Expression | None
    rest: pc.Expression | None
    columns: tuple[str, ...]
    pushable: bool


def _condition(residual: Predicate | None, pushed: pc.Expression | None, source: pa.Schema) -> _Condition:
    """The residual; where it cannot be said, the whole filter as DataFusion gave it."""
    if residual is None or residual == ALWAYS:
        return _Condition(None, None, (), pushable=True)
    try:
        said, rest = _arrow(residual, to_arrow), _arrow(residual, partial(to_arrow, sql_floats=True))
        return _Condition(said, rest, _columns(residual), _depth(residual) <= MOST_DEPTH)
    except Unsupported:
        return _Condition(pushed, pushed, tuple(source.names), pushable=False)


def _arrow(predicate: Predicate, leaf: Callable[[Predicate], pc.Expression]) -> pc.Expression:
    match predicate:
        case And(parts):
            return _balanced([_arrow(part, leaf) for part in parts], operator.and_)
        case Or(parts):
            return _balanced([_arrow(part, leaf) for part in parts], operator.or_)
    return leaf(predicate)


def _balanced(parts: Sequence[pc.Expression], join: Callable[[Any, Any], pc.Expression]) -> pc.Expression:
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(_balanced(parts[:middle], join), _balanced(parts[middle:], join))


def _depth(predicate: Predicate) -> int:
    """How deep the expression of `_arrow` is nested."""
    if isinstance(predicate, And | Or):
        return (len(predicate.parts) - 1).bit_length() + max(map(_depth, predicate.parts))
    return 0


def _columns(predicate: Predicate) -> tuple[str, ...]:
    """The columns that a predicate without opaque parts speaks of."""
    match predicate:
        case And(parts) | Or(parts):
            return tuple(dict.fromkeys(name for part in parts for name in _columns(part)))
        case Constant():
            return ()
        case Opaque():
            raise Unsupported(str(predicate))
        case leaf:
            return (leaf.term.name,)


def _projected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])
