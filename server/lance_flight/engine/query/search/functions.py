"""Search functions: each call of a query becomes a table, which is searched when it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import pyarrow as pa

from lance_flight.catalog.search.searching import AnySearch, VectorSearch
from lance_flight.catalog.search.text_search import TextSearch
from lance_flight.catalog.tables.lineage import ROW_ID
from lance_flight.catalog.tables.scan import ADDRESS_NAMES
from lance_flight.engine.query.search.advice import advice
from lance_flight.engine.query.search.arguments import MOST_ROWS, Arguments
from lance_flight.engine.query.search.calls import (
    DISTANCES,
    FULL_TEXT_SEARCH,
    HYBRID_SEARCH,
    NUMBERS,
    SWITCHES,
    VECTOR_SEARCH,
    SearchCall,
    calls,
)
from lance_flight.engine.query.search.fusion import FUSED, fusion
from lance_flight.engine.query.search.running import SearchRun, result_of
from lance_flight.engine.query.search.search_target import SearchTarget, check_free
from lance_flight.engine.query.search.statement_searches import SEARCHES, Planner
from lance_flight.engine.query.search.table import SearchResult, SearchTable
from lance_flight.engine.query.search.targets import target
from lance_flight.engine.query.search.texts import matching
from lance_flight.engine.query.search.vector_calls import described, vector_search
from lance_flight.engine.query.search.vectors import nearest
from lance_flight.engine.sql.highlights import with_highlights
from lance_flight.engine.sql.parameters import parameter_count
from lance_flight.engine.sql.references import CATALOG, enclosed, quoted
from lance_flight.engine.sql.tokens import edited
from lance_flight.errors import SqlError
from lance_flight.model.index_kinds import OptionValue

_LEAST_DEPTH, _DEEPER = 64, 4


def with_searches(planner: Planner, sql: str, parameters: pa.RecordBatch | None, *, is_bound: bool) -> str:
    """Replace each call of a search by the name of a table among those of the statement's searches."""
    tables, edits = planner.searches.tables, []
    options: dict[str, Mapping[str, OptionValue]] = {}
    for call in calls(sql):
        if "after" in call.arguments:
            planner.reveal(frozenset([ROW_ID]))
        arguments = Arguments(
            call.function, call.arguments, partial(_evaluate, planner, parameters), is_bound, parameters
        )
        condition = arguments.text("filter")
        searched = target(planner, arguments.name("table"), condition, parameters)
        found = _FUNCTIONS[call.function](planner, searched, arguments)
        planner.searches.parameter_types.update(_parameter_types(call, searched, arguments))
        name = f"{call.function}_{len(tables) + 1}"
        tables[name] = SearchTable(found, planner.log)
        edits.append((call.start, call.stop, quoted(CATALOG, SEARCHES, name)))
        options = {**searched.texts, **options}
    return with_highlights(edited(sql, edits), options)


def _parameter_types(
    call: SearchCall, searched: SearchTarget, arguments: Arguments
) -> Iterator[tuple[str, pa.DataType]]:
    """The types of arguments that are parameters."""
    for text, kind in zip(arguments.parts("after"), (pa.float64(), pa.utf8()), strict=False):
        if text.startswith("$"):
            yield text, kind
    for name, text in call.arguments.items():
        if text.startswith("$") and parameter_count(text):
            if name == "vector":
                column = arguments.name("vector_column" if call.function == HYBRID_SEARCH else "column")
                yield text, searched.vectors(column).type
            elif name == "queries":
                yield text, pa.list_(searched.vectors(arguments.name("column")).type)
            else:
                yield text, _type_of(name)


def _type_of(argument: str) -> pa.DataType:
    """Return the type of an argument that is no vector."""
    if argument in NUMBERS:
        return pa.int64()
    if argument == "weights":
        return pa.list_(pa.float64())
    if argument in DISTANCES:
        return pa.float64()
    return pa.bool_() if argument in SWITCHES else pa.utf8()


def _evaluate(planner: Planner, parameters: pa.RecordBatch | None, text: str) -> pa.Scalar:
    """Evaluate an expression, or a query in brackets, to one value."""
    frame = planner.frame(f"SELECT {enclosed(text)} AS value", parameters)
    planner.prepare(frame)
    rows = [row for batch in planner.stream(frame) for row in batch.column(0)]
    if len(rows) != 1:
        raise SqlError(f"{text} gives {len(rows)} rows; expected one value")
    return rows[0]


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
        columns = [*(name for name in names if name not in made), *ADDRESS_NAMES]
        lists = [run.best(search, [*columns, search.result.name]) for search in searches]
        return fuses.fused(lists, first, count).select(names)

    described = "; ".join(_describe(search, searched) for search in searches)
    return SearchResult(
        schema=pa.schema([*searched.columns, *FUSED]),
        find=find,
        report=f"{described}\n  fused: {fuses.name}, weights {fuses.weights[0]:g} and {fuses.weights[1]:g}",
        failure=searched.failure,
        advise=lambda: [line for search in searches for line in advice(search, searched)],
        hidden=searched.hidden,
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
    return result_of(planner, searched, search, _describe(search, searched))


def _describe(search: AnySearch, searched: SearchTarget) -> str:
    """Return what EXPLAIN tells of a search."""
    match search:
        case VectorSearch():
            what = described(search)
        case TextSearch():
            columns = (f"{each.name}^{each.boost:g}" if each.boost != 1 else each.name for each in search.columns)
            what = f"{search.count} best matches of {', '.join(columns)}"
    return f"search: {what}\n{searched.report}"


_FUNCTIONS: Mapping[str, Callable[[Planner, SearchTarget, Arguments], SearchResult]] = MappingProxyType(
    {VECTOR_SEARCH: vector_search, FULL_TEXT_SEARCH: _full_text_search, HYBRID_SEARCH: _hybrid_search}
)
