"""Queries of the editor: each runs in a thread of its own and is fetched up to a limit; and their plans as a tree."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from lance_flight.model.type_names import type_name

from lance_flight_client.adbc import StatementAnswer
from lance_flight_client.console.partitions import PartitionGrid
from lance_flight_client.console.tables import (
    OWN,
    ConsoleServer,
    ConsoleTable,
    newest_spec,
    partitions_at,
    snapshot_of,
    tables_of,
)
from lance_flight_client.errors import ServerError
from lance_flight_client.parameters import text_literal
from lance_flight_client.values import texts

MOST_QUERIES = 10
MOST_RUNNING = 4
MOST_TEXT = 2_000
"""Most characters that are shown of one value."""
MOST_RESULT = 16 << 20
"""Most characters that are kept of one result."""
_MOST_NESTED = 64 << 10
"""Bytes of a nested value above which it is told by its size alone."""
MOST_VALUE = 1 << 20
"""Most characters of one value that a viewer shows."""
_VALUE = 8
"""Characters that a value counts besides its text."""
_STEP = 500
"""Rows that are made into texts at once."""
_WAIT = 0.25


class TooManyQueries(Exception):
    """A browser has as many running queries as it may have."""


@dataclass(slots=True)
class ConsoleQuery:
    """A query that runs, or has ended; its rows as texts. It may change tables only with `writes`, where the console may.

    One with a `view` explains a query; of one that is measured the `session` tells what its operators do.
    """

    sql: str
    writes: bool = False
    before: Sequence[str] = ()
    parameters: pa.RecordBatch | None = None
    view: str | None = None
    session: str | None = None
    ended: list[dict[str, int | None]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    columns: list[dict[str, str]] | None = None
    rows: list[list[str | None]] = field(default_factory=list)
    affected: int = -1
    is_cut: bool = False
    error: str | None = None
    seconds: float | None = None
    _size: int = 0
    _long: dict[tuple[int, int], str] = field(default_factory=dict)
    _long_size: int = 0
    _cancel: Callable[[], None] = lambda: None
    _is_cancelled: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self, server: ConsoleServer) -> None:
        """Run it to its end, on the thread of the caller."""
        # It ends without an error only where nothing was raised.
        failure = "the console failed"
        try:
            with self.answer(server, self._begins, writes=self.writes) as answer:
                kinds = [{"name": field.name, "type": type_name(field.type)} for field in answer.schema]
                with self._changed:
                    self.columns, self.affected = kinds, answer.affected
                    self._changed.notify_all()
                for batch in answer.batches:
                    if not self._take(batch, server.limits.rows):
                        break
            failure = ""
        except ServerError as exc:
            failure = str(exc)
        finally:
            with self._changed:
                self.error = "cancelled" if self._is_cancelled else failure or None
                self.seconds = time.monotonic() - self.began
                self._changed.notify_all()

    def answer(
        self, server: ConsoleServer, begins: Callable[[Callable[[], None]], None] | None = None, *, writes: bool
    ) -> AbstractContextManager[StatementAnswer]:
        """Return its answer, after the statements before it have run in the same session."""
        return server.answer(
            self.sql,
            begins,
            writes=writes,
            parameters=self.parameters,
            before=self.before,
            session=self._finds_session if self.view == "measure" and begins else None,
            ended=lambda rows, affected: self.ended.append({"rows": rows, "affected": affected}) if begins else None,
        )

    def state(self, after: int) -> dict[str, Any]:
        """Return what there is beyond so many rows, and wait for a moment if there is nothing."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.rows) > after or self.seconds is not None, _WAIT)
            return {
                "columns": self.columns,
                "rows": self.rows[after:],
                "count": len(self.rows),
                "affected": self.affected,
                "before": list(self.ended),
                "cut": self.is_cut,
                "error": self.error,
                "done": self.seconds is not None,
                "seconds": time.monotonic() - self.began if self.seconds is None else self.seconds,
            }

    def texts(self) -> list[tuple[str, str]]:
        """Return the rows of an EXPLAIN: kinds and texts, in full."""
        return [(kind or "", self.value(place, 1) or text or "") for place, (kind, text) in enumerate(self.rows)]

    def value(self, row: int, column: int) -> str | None:
        """Return a value in full that a row shows cut; None where it was not kept."""
        return self._long.get((row, column))

    def cancel(self) -> None:
        """Have the server end it."""
        self._is_cancelled = True
        # It may have ended at this moment.
        with suppress(Exception):
            self._cancel()

    def _begins(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        if self._is_cancelled:
            raise ServerError("cancelled")

    def _finds_session(self, session: str) -> None:
        self.session = session

    def _take(self, batch: pa.RecordBatch, most: int) -> bool:
        """Add rows, as far as they are shown, and return whether more are wanted."""
        for start in range(0, batch.num_rows, _STEP):
            room = min(_STEP, most - len(self.rows))
            part = batch.slice(start, room)
            columns = [shown_texts(column) for column in part.columns]
            rows = [list(row) for row in zip(*columns, strict=True)]
            self._keep_long(part, columns)
            self._size += sum(_VALUE + len(text or "") for row in rows for text in row)
            with self._changed:
                self.rows += rows
                self.is_cut = room < min(_STEP, batch.num_rows - start) or self._size > MOST_RESULT
                self._changed.notify_all()
            if self.is_cut or self._is_cancelled:
                return False
        return True

    def _keep_long(self, part: pa.RecordBatch, columns: Sequence[Sequence[str | None]]) -> None:
        """Keep the values that are shown cut for a viewer, as far as there is room."""
        for place, shown in enumerate(columns):
            for step, text in enumerate(shown):
                if text is None or not _CUT.search(text) or self._long_size > MOST_RESULT:
                    continue
                one = part.column(place).slice(step, 1)
                if one.nbytes > MOST_VALUE:
                    continue
                whole = (texts(one)[0] or "")[:MOST_VALUE]
                self._long[len(self.rows) + step, place] = whole
                self._long_size += len(whole)


_CUT = re.compile(r"… \([\d,]+ more\)\Z|\A\([\d,]+ bytes\)\Z")


def shown_texts(column: pa.Array) -> list[str | None]:
    """Return the values of a column as they are shown; long ones are cut, nested ones that are large are told by their sizes.

    >>> shown_texts(pa.array([[1, 2], [0] * 100_000]))
    ['[1, 2]', '(800,004 bytes)']
    >>> shown_texts(pa.array(["x" * 3000]))[0][-14:], shown_texts(pa.array([2**62, None], pa.timestamp("s")))
    ('… (1,000 more)', ['146138514283-06-19 07:45:04', None])
    """
    if not pa.types.is_nested(column.type):
        return [_shorten(text) for text in texts(column)]
    parts = [column.slice(place, 1) for place in range(len(column))]
    return [f"({part.nbytes:,} bytes)" if part.nbytes > _MOST_NESTED else _shorten(texts(part)[0]) for part in parts]


def _shorten(text: str | None) -> str | None:
    if text is None or len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}… ({len(text) - MOST_TEXT:,} more)"


class ConsoleQueries:
    """The queries of one browser, the oldest of which are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, ConsoleQuery] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, server: ConsoleServer, query: ConsoleQuery) -> str:
        """Run a query in the background, and return its id; `TooManyQueries` beside as many as may run."""
        number = secrets.token_urlsafe(12)
        with self._lock:
            if sum(console_query.seconds is None for console_query in self._known.values()) >= MOST_RUNNING:
                raise TooManyQueries(f"{MOST_RUNNING} queries of this browser run; expected one of them to end first")
            self._known[number] = query
            while len(self._known) > MOST_QUERIES:
                self._known.popitem(last=False)[1].cancel()
        threading.Thread(target=query.run, args=(server,), name="console query", daemon=True).start()
        return number

    def find(self, number: str) -> ConsoleQuery | None:
        """Return a query by its id."""
        with self._lock:
            return self._known.get(number)

    def close(self) -> None:
        """Cancel all that run."""
        with self._lock:
            running = [query for query in self._known.values() if query.seconds is None]
        for query in running:
            query.cancel()


_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(ANALYZE\s+)?(VERBOSE\s+)?", re.IGNORECASE)
VIEWS = {"plan": "EXPLAIN ", "measure": "EXPLAIN ANALYZE "}
"""What the editor shows of a query in place of its rows, and the words that ask for it."""
_SCAN = re.compile(r"^\s*TableScan: (?P<name>.+?)(@(?P<at>[^@ ]+))?(?= projection=|, |$)", re.MULTILINE)
_REPORT = re.compile(r"partitions: \d+ / \d+  table (?P<name>.+), snapshot \d+")
_TREES = {"operators": "Operators, as they ran", "physical_plan": "Operators", "logical_plan": "Logical plan"}
_PROJECTION = re.compile(r"projection=\[(.*?)\](?=, |$)", re.MULTILINE)
_MEASURED = re.compile(
    r"  \[rows: (?P<rows>\d+), seconds: (?P<seconds>[\d.]+)(, partitions: (?P<read>\d+) / (?P<of>\d+))?"
    r"(, plans: (?P<plans>\d+))?\]$"
)
_COUNT = re.compile(r"partitions: (\d+) / (\d+)")


@dataclass(frozen=True, slots=True)
class PlanNode:
    """An operator of a plan, with those that it reads from; its rows and seconds if it ran, and what its scan leaves out."""

    name: str
    details: str
    inputs: list[PlanNode] = field(default_factory=list)
    rows: int | None = None
    seconds: float | None = None
    scanned: str = ""

    @classmethod
    def of(cls, text: str, *, plans: int = 1, **counts: Any) -> PlanNode:
        """Return the operator that a line of a plan says, for so many like plans."""
        name, _, details = text.partition(":")
        return cls(name, details.strip() + (f" ({plans} plans)" if plans > 1 else ""), **counts)


@dataclass(frozen=True, slots=True)
class ScannedTable:
    """A table that a query reads: its map with the partitions that are read lit (None where the user may not see them), and why."""

    label: str
    grid: PartitionGrid | None
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class ConsolePlan:
    """A plan: its tables, its trees by their titles, and what else the server says of it."""

    tables: Sequence[ScannedTable]
    trees: dict[str, list[PlanNode]]
    notes: Sequence[str]

    @property
    def is_measured(self) -> bool:
        """True if the first tree has run."""
        return bool(self.trees[_TREES["operators"]])

    @property
    def slowest(self) -> float:
        """The seconds of the operator that computed longest."""
        return slowest([node for roots in self.trees.values() for node in roots])


def explained(sql: str, view: str) -> str:
    """Return the statement that shows a view of a query, which may begin with EXPLAIN already.

    >>> explained("explain SELECT 1", "measure")
    'EXPLAIN ANALYZE SELECT 1'
    """
    return VIEWS[view] + _EXPLAIN.sub("", sql, count=1)


def operators_of(server: ConsoleServer, query: ConsoleQuery) -> list[PlanNode]:
    """Return the operators of a query that is measured, as far as they have come; none before it begins and after its end."""
    if query.session is None:
        return []
    rows = server.rows(
        "SELECT depth, operator, plans, rows, seconds, table_name, partitions_scanned, partitions_total"
        f" FROM system.operators WHERE session = {text_literal(query.session)} ORDER BY number"
    )
    return _tree(
        (
            row["depth"],
            PlanNode.of(
                row["operator"],
                rows=row["rows"],
                seconds=row["seconds"],
                plans=row["plans"],
                scanned=_scanned(row["partitions_scanned"], row["partitions_total"], row["table_name"]),
            ),
        )
        for row in rows.to_pylist()
    )


def plan_of(server: ConsoleServer, explanation: ConsoleQuery) -> ConsolePlan:
    """Return the plan that a query has explained."""
    query, parts = _EXPLAIN.sub("", explanation.sql, count=1), explanation.texts()
    logical = "\n".join(text for kind, text in parts if kind == "logical_plan")
    reasons = [text for kind, text in parts if kind == "partitions"]
    known = {table.label: table for table in tables_of(server)}
    scanned = dict.fromkeys((found["name"].removeprefix("public."), found["at"]) for found in _SCAN.finditer(logical))
    tables = [
        ScannedTable(
            name if at is None else f"{name}@{at}",
            _grid_of(server, known[name], at, replace(explanation, sql=query)),
            _about(known[name], reasons),
        )
        for name, at in sorted(scanned, key=lambda pair: (pair[0], pair[1] or ""))
        if name in known and known[name].is_partitioned
    ]
    said = {line for table in tables for line in table.reasons}
    notes = [text for kind, text in parts if kind not in _TREES and text not in said]
    scans = _scans(logical, reasons)
    trees = {
        title: tree_of("\n".join(text for found, text in parts if found == kind), scans)
        for kind, title in _TREES.items()
    }
    return ConsolePlan(tables, trees, notes)


def _scanned(read: object, of: object, name: str | None) -> str:
    return "" if of is None else f"{read} of {of} partitions" + (f" of {name}" if name else "")


def _scans(logical: str, reasons: Sequence[str]) -> dict[str, str]:
    """Return what scans leave out, by the columns that they read: those of one table alone, which is scanned once."""
    counts = {match["name"]: _COUNT.match(text) for text in reasons if (match := _REPORT.match(text))}
    lines = [(found["name"].rpartition(".")[2], line) for line in logical.splitlines() if (found := _SCAN.match(line))]
    columns = [(name, match[1]) for name, line in lines if (match := _PROJECTION.search(line))]
    names, projections = Counter(name for name, _ in lines), Counter(projection for _, projection in columns)
    return {
        projection: _scanned(count[1], count[2], name)
        for name, projection in columns
        if names[name] == projections[projection] == 1 and (count := counts.get(name))
    }


def _about(table: ConsoleTable, reasons: Sequence[str]) -> list[str]:
    """Return the reasons of the scans of a table, whose schema they do not name."""
    return [text for text in reasons if (match := _REPORT.match(text)) and match["name"] == table.name]


def _grid_of(server: ConsoleServer, table: ConsoleTable, at: str | None, query: ConsoleQuery) -> PartitionGrid | None:
    scanned = table if at is None else replace(table, name=f"{table.name}@{at}")
    try:
        asked = replace(query, sql=f"{OWN}SHOW PARTITIONS {scanned.sql()} READ BY QUERY {query.sql}")
        with asked.answer(server, writes=False) as answer:
            read = [each for batch in answer.batches for each in batch.column("object_id").to_pylist()]
        partitions = (
            partitions_at(server, table, snapshot_of(server, table))
            if at is None
            else server.rows(f"SELECT * FROM {scanned.sql(metadata='partitions')}")
        )
    except ServerError:
        return None
    return PartitionGrid.of(newest_spec(partitions), read=frozenset(read)) if partitions.num_rows else None


def slowest(roots: Sequence[PlanNode]) -> float:
    """Return the seconds of the operator that computed longest."""
    return max((max(node.seconds or 0.0, slowest(node.inputs)) for node in roots), default=0.0)


def tree_of(text: str, scans: Mapping[str, str] = MappingProxyType({})) -> list[PlanNode]:
    r"""Return the operators of a plan, which are indented below what reads from them; `scans` describes some by their columns.

    >>> (node,) = tree_of("Filter: a  [rows: 2, seconds: 0.5]\n  Scan: projection=[b]", {"b": "1 of 3 partitions of t"})
    >>> node.name, node.details, node.rows, node.seconds, node.inputs[0].scanned
    ('Filter', 'a', 2, 0.5, '1 of 3 partitions of t')
    """
    return _tree(_nodes(text, scans))


def _nodes(text: str, scans: Mapping[str, str]) -> Iterator[tuple[int, PlanNode]]:
    for line in filter(str.strip, text.splitlines()):
        measured = _MEASURED.search(line)
        shown = line[: measured.start()] if measured else line
        name = shown.partition(":")[0].strip()
        projection = _PROJECTION.search(shown) if "Scan" in name or name == "DatasetExec" else None
        scanned = scans.get(projection[1], "") if projection else ""
        yield (
            len(line) - len(line.lstrip()),
            PlanNode.of(
                shown.strip(),
                rows=int(measured["rows"]) if measured else None,
                seconds=float(measured["seconds"]) if measured else None,
                plans=int(measured["plans"] or 1) if measured else 1,
                scanned=scanned or (_scanned(measured["read"], measured["of"], None) if measured else ""),
            ),
        )


def _tree(nodes: Iterable[tuple[int, PlanNode]]) -> list[PlanNode]:
    """Return the roots of nodes with their depths, each before those that it reads from."""
    roots: list[PlanNode] = []
    path: list[tuple[int, PlanNode]] = []
    for depth, node in nodes:
        path = [(above, parent) for above, parent in path if above < depth]
        (path[-1][1].inputs if path else roots).append(node)
        path.append((depth, node))
    return roots
