"""Search functions: each call of a query becomes a table, which is searched when it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import pyarrow as pa
import pyarrow.dataset as pads

from lance_flight.catalog.search.search_results import ADDRESS
from lance_flight.catalog.search.searching import AnySearch, VectorSearch, best
from lance_flight.catalog.search.text_search import TextSearch
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS
from lance_flight.engine.query.provider import ScanLog
from lance_flight.engine.query.search.advice import advice
from lance_flight.engine.query.search.arguments import MOST_ROWS, Arguments
from lance_flight.engine.query.search.calls import (
    FULL_TEXT_SEARCH,
    HYBRID_SEARCH,
    NUMBERS,
    VECTOR_SEARCH,
    SearchCall,
    calls,
)
from lance_flight.engine.query.search.choosing import SEARCHES
from lance_flight.engine.query.search.fusion import FUSED, fusion
from lance_flight.engine.query.search.table import SearchResult, SearchTable
from lance_flight.engine.query.search.targets import Planner, SearchTarget, check_free, target
from lance_flight.engine.query.search.texts import matching
from lance_flight.engine.query.search.vectors import nearest
from lance_flight.engine.sql.highlights import with_highlights
from lance_flight.engine.sql.parameters import parameter_count
from lance_flight.engine.sql.references import CATALOG, enclosed, quoted
from lance_flight.engine.sql.tokens import edited
from lance_flight.errors import SqlError
from lance_flight.model.index_kinds import OptionValue

_LEAST_DEPTH, _DEEPER = 64, 4


def with_searches(
    planner: Planner, tables: dict[str, pads.Dataset], sql: str, parameters: pa.RecordBatch | None, *, is_bound: bool
) -> str:
    """Replace each call of a search by the name of a table, and put these tables into `tables`."""
    edits = []
    options: dict[str, Mapping[str, OptionValue]] = {}
    for call in calls(sql):
        arguments = Arguments(call.function, call.arguments, partial(_evaluate, planner, parameters), is_bound)
        condition = arguments.text("filter")
        searched = target(planner, arguments.name("table"), condition, parameters)
        found = _FUNCTIONS[call.function](planner, searched, arguments)
        planner.parameter_types.update(_parameter_types(call, searched, arguments))
        name = f"{call.function}_{len(tables) + 1}"
        tables[name] = SearchTable(found, planner.log)
        edits.append((call.start, call.stop, quoted(CATALOG, SEARCHES, name)))
        options = {**searched.texts, **options}
    return with_highlights(edited(sql, edits), options)


def _parameter_types(
    call: SearchCall, searched: SearchTarget, arguments: Arguments
) -> Iterator[tuple[str, pa.DataType]]:
    """The types of arguments that are parameters."""
    for name, text in call.arguments.items():
        if text.startswith("$") and parameter_count(text):
            if name == "vector":
                column = arguments.name("vector_column" if call.function == HYBRID_SEARCH else "column")
                yield text, searched.vectors(column).type
            elif name in NUMBERS:
                yield text, pa.int64()
            elif name == "weights":
                yield text, pa.list_(pa.float64())
            else:
                yield text, pa.bool_() if name == "use_index" else pa.utf8()


def _evaluate(planner: Planner, parameters: pa.RecordBatch | None, text: str) -> pa.Scalar:
    """Evaluate an expression, or a query in brackets, to one value."""
    frame = planner.frame(f"SELECT {enclosed(text)} AS value", parameters)
    planner.prepare(frame)
    rows = [row for batch in planner.stream(frame) for row in batch.column(0)]
    if len(rows) != 1:
        raise SqlError(f"{text} gives {len(rows)} rows; expected one value")
    return rows[0]


def _vector_search(planner: Planner, searched: SearchTarget, arguments: Arguments) -> SearchResult:
    return _run_search(planner, searched, nearest(searched, arguments, "column", arguments.count))


def _full_text_search(planner: Planner, searched: SearchTarget, arguments: Arguments) -> SearchResult:
    first = arguments.offset
    search = matching(searched, arguments, "column", first + arguments.count)
    found = _run_search(planner, searched, search)
    return replace(found, find=lambda names: found.find(names).slice(first)) if first else found


def _hybrid_search(planner: Planner, searched: SearchTarget, arguments: Arguments) -> SearchResult:
    """The best of two lists, by what place or score rows have in them."""
    count, first = arguments.count, arguments.offset
    depth = arguments.number("depth", most=MOST_ROWS)
    if first and depth is None and arguments.is_bound:
        raise arguments.error("offset", first, "depth => n beside it, the same for all pages: it changes the order")
    depth = depth or _depth(count)
    searches = (
        nearest(searched, arguments, "vector_column", depth),
        matching(searched, arguments, "text_column", depth),
    )
    fuses = fusion(arguments)
    for result in FUSED:
        check_free(searched, result)
    # A row that both find is known by its place: they must look at the same tables together.
    run = SearchRun(planner.log, planner.target_partitions, searched, all(search.is_merging for search in searches))
    made = frozenset(field.name for field in FUSED)

    def find(names: list[str]) -> pa.Table:
        columns = [*(name for name in names if name not in made), *_ADDRESSES]
        lists = [run.best(search, [*columns, search.result.name]) for search in searches]
        return fuses.fused(lists, first, count).select(names)

    described = "; ".join(_describe(search, searched) for search in searches)
    return SearchResult(
        schema=pa.schema([*searched.columns, *FUSED]),
        find=find,
        report=f"{described}\n  fused: {fuses.name}, weights {fuses.weights[0]:g} and {fuses.weights[1]:g}",
        failure=searched.failure,
        advise=lambda: [line for search in searches for line in advice(search, searched)],
    )


def _depth(count: int) -> int:
    """Return how many rows of each list are fused for a count: at least four times as many, in steps that several counts share.

    The lengths of the lists change the ranks, and thereby the order of the first rows.

    >>> _depth(1), _depth(16), _depth(17)
    (64, 64, 256)
    """
    depth = _LEAST_DEPTH
    while depth < _DEEPER * count:
        depth *= _DEEPER
    return min(depth, MOST_ROWS)


def _run_search(planner: Planner, searched: SearchTarget, search: AnySearch) -> SearchResult:
    check_free(searched, search.result)
    return SearchResult(
        schema=pa.schema([*searched.columns, search.result]),
        find=partial(SearchRun(planner.log, planner.target_partitions, searched, search.is_merging).best, search),
        report=_describe(search, searched),
        failure=searched.failure,
        advise=partial(advice, search, searched),
    )


@dataclass(frozen=True, slots=True)
class SearchRun:
    """State that a search needs at run time; it must not reference the statement, because DataFusion keeps it."""

    log: ScanLog
    target_partitions: int
    searched: SearchTarget
    is_merging: bool

    def best(self, search: AnySearch, names: list[str]) -> pa.Table:
        """Return some columns of the best rows, those of `ADDRESS_FIELDS` among them if they are requested."""
        made = {field.name: field for field in (search.result, *ADDRESS_FIELDS)}
        vectors = [search.root] if isinstance(search, VectorSearch) else []
        wanted = list(dict.fromkeys([*names, search.result.name, ADDRESS.name, *vectors]))
        schema = pa.schema([made[name] if name in made else self.searched.columns.field(name) for name in wanted])
        work = self.searched.work(search, schema, merging=self.is_merging)
        if not work:
            return schema.empty_table().select(names)
        if self.searched.chosen is not None:
            search = replace(search, among=self.searched.chosen.rows)
        return best(search, work, self.target_partitions, self.log.cancellation.check).select(names)


_ADDRESSES = tuple(field.name for field in ADDRESS_FIELDS)


def _describe(search: AnySearch, searched: SearchTarget) -> str:
    """Return what EXPLAIN tells of a search."""
    match search:
        case VectorSearch():
            what = f"{search.count} nearest by {search.metric or 'the metric of the index'} of {search.column}"
        case TextSearch():
            columns = (f"{each.name}^{each.boost:g}" if each.boost != 1 else each.name for each in search.columns)
            what = f"{search.count} best matches of {', '.join(columns)}"
    return f"search: {what}\n{searched.report}"


_FUNCTIONS: Mapping[str, Callable[[Planner, SearchTarget, Arguments], SearchResult]] = MappingProxyType(
    {VECTOR_SEARCH: _vector_search, FULL_TEXT_SEARCH: _full_text_search, HYBRID_SEARCH: _hybrid_search}
)
