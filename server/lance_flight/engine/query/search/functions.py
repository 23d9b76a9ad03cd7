"""Search functions: each call of a query becomes a table, which is searched when it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lance_flight.catalog.search.search_results import ADDRESS, SCORE
from lance_flight.catalog.search.searching import AnySearch, VectorSearch, best
from lance_flight.catalog.search.text_queries import MOST_FUZZINESS, Mode, TextQuery
from lance_flight.catalog.search.text_search import TextSearch
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS
from lance_flight.engine.query.provider import ScanLog
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
from lance_flight.engine.query.search.table import SearchResult, SearchTable
from lance_flight.engine.query.search.targets import Planner, SearchTarget, check_free, target
from lance_flight.engine.query.search.vectors import nearest
from lance_flight.engine.sql.parameters import parameter_count
from lance_flight.engine.sql.references import CATALOG, enclosed, quoted
from lance_flight.engine.sql.tokens import edited
from lance_flight.errors import SqlError

_STATISTICS = ("global", "local")
_LEAST_DEPTH, _DEEPER = 64, 4

RANK_CONSTANT = 60.0
"""Constant of reciprocal rank fusion: a row scores 1 / (60 + its rank) in each of its lists (Cormack et al., 2009)."""


def with_searches(
    planner: Planner, tables: dict[str, pads.Dataset], sql: str, parameters: pa.RecordBatch | None, *, is_bound: bool
) -> str:
    """Replace each call of a search by the name of a table, and put these tables into `tables`."""
    edits = []
    for call in calls(sql):
        arguments = Arguments(call.function, call.arguments, partial(_evaluate, planner, parameters), is_bound)
        condition = arguments.text("filter")
        searched = target(planner, arguments.name("table"), condition, parameters)
        found = _FUNCTIONS[call.function](planner, searched, arguments)
        planner.parameter_types.update(_parameter_types(call, searched, arguments))
        name = f"{call.function}_{len(tables) + 1}"
        tables[name] = SearchTable(found, planner.log)
        edits.append((call.start, call.stop, quoted(CATALOG, SEARCHES, name)))
    return edited(sql, edits)


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
    return _run_search(planner, searched, _text(searched, arguments, "column", arguments.count))


def _hybrid_search(planner: Planner, searched: SearchTarget, arguments: Arguments) -> SearchResult:
    """The best of two lists, by what place rows have in them."""
    count = arguments.count
    depth = arguments.number("depth", most=MOST_ROWS) or _depth(count)
    searches = (nearest(searched, arguments, "vector_column", depth), _text(searched, arguments, "text_column", depth))
    check_free(searched, SCORE)
    # A row that both find is known by its place: they must look at the same tables together.
    run = SearchRun(planner.log, planner.target_partitions, searched, all(search.is_merging for search in searches))

    def find(names: list[str]) -> pa.Table:
        columns = [*(name for name in names if name != SCORE.name), *_ADDRESSES]
        return _fuse([run.best(search, columns) for search in searches], count).select(names)

    return SearchResult(
        schema=pa.schema([*searched.columns, SCORE]),
        find=find,
        report="; ".join(_describe(search, searched) for search in searches),
        failure=searched.failure,
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


def _fuse(lists: list[pa.Table], count: int) -> pa.Table:
    """Merge several lists of rows, each best first, by the sums of their reciprocal ranks."""
    ranks = [np.arange(1, rows.num_rows + 1) for rows in lists]
    rows = pa.concat_tables(lists).combine_chunks()
    scores = pa.array(np.concatenate([1.0 / (RANK_CONSTANT + rank) for rank in ranks]))
    place = pa.array(np.arange(rows.num_rows))
    keyed = pa.table([rows[_ADDRESSES[0]], rows[_ADDRESSES[1]], scores, place], [*_ADDRESSES, "score", "place"])
    both = keyed.group_by(list(_ADDRESSES)).aggregate([("score", "sum"), ("place", "min")])
    order = pc.sort_indices(both, [("score_sum", "descending"), ("place_min", "ascending")])[:count]
    chosen = both.take(order)
    return rows.take(chosen["place_min"]).append_column(SCORE, chosen["score_sum"].cast(SCORE.type))


def _run_search(planner: Planner, searched: SearchTarget, search: AnySearch) -> SearchResult:
    check_free(searched, search.result)
    return SearchResult(
        schema=pa.schema([*searched.columns, search.result]),
        find=partial(SearchRun(planner.log, planner.target_partitions, searched, search.is_merging).best, search),
        report=_describe(search, searched),
        failure=searched.failure,
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


def _text(searched: SearchTarget, arguments: Arguments, column: str, count: int) -> TextSearch:
    name = arguments.name(column)
    kind = searched.column(name).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise SqlError(f"column {name!r} is {kind}; expected text")
    words = arguments.text("query")
    if words is None and arguments.is_bound:
        raise SqlError(f"query of {arguments.function} is NULL; expected a text")
    query = TextQuery(
        words=words or "",
        mode=Mode.named(arguments.text("mode") or Mode.ANY.value),
        fuzziness=arguments.number("fuzziness", least=0, most=MOST_FUZZINESS) or 0,
        slop=arguments.number("slop", least=0) or 0,
    )
    if query.only_excludes:
        raise arguments.error("query", words, "a word or a phrase that is to be there, beside those with -")
    return TextSearch(
        column=name,
        query=query,
        count=count,
        options=searched.texts.get(name, {}),
        is_global=_is_global(arguments),
    )


def _is_global(arguments: Arguments) -> bool:
    """Return whether the weights of words are computed over all that is searched, rather than for each partition."""
    given = arguments.text("statistics") or _STATISTICS[0]
    if given.lower() not in _STATISTICS:
        raise arguments.error("statistics", given, " or ".join(_STATISTICS))
    return given.lower() == _STATISTICS[0]


def _describe(search: AnySearch, searched: SearchTarget) -> str:
    """Return what EXPLAIN tells of a search."""
    match search:
        case VectorSearch():
            what = f"{search.count} nearest by {search.metric or 'the metric of the index'} of {search.column}"
        case TextSearch():
            what = f"{search.count} best matches of {search.column}"
    return f"search: {what}\n{searched.report}"


_FUNCTIONS: Mapping[str, Callable[[Planner, SearchTarget, Arguments], SearchResult]] = MappingProxyType(
    {VECTOR_SEARCH: _vector_search, FULL_TEXT_SEARCH: _full_text_search, HYBRID_SEARCH: _hybrid_search}
)
