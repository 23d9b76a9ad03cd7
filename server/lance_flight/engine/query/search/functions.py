"""Search functions: each call of a query becomes a table, by vectors, by texts, or by both fused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.search.row_ranking import DISTANCE, SCORE
from lance_flight.catalog.search.searching import AnySearch, VectorSearch
from lance_flight.catalog.search.text_search import TextColumn, TextSearch
from lance_flight.catalog.search.text_syntax import MOST_BOOST, MOST_FUZZINESS, MOST_SLOP, SYNTAXES, Mode, Node, parse
from lance_flight.catalog.tables.rows import ROW_ID
from lance_flight.catalog.tables.scan import ADDRESS_NAMES
from lance_flight.engine.functions.highlights import with_highlights
from lance_flight.engine.query.search.arguments import (
    DISTANCES,
    FULL_TEXT_SEARCH,
    HYBRID_SEARCH,
    MOST_ROWS,
    NUMBERS,
    SWITCHES,
    VECTOR_SEARCH,
    After,
    Arguments,
    SearchCall,
    calls,
    nearest,
    query_vectors,
)
from lance_flight.engine.query.search.running import SearchRun, advice, result_of, target
from lance_flight.engine.query.search.search_target import (
    SEARCHES,
    Planner,
    SearchResult,
    SearchTable,
    SearchTarget,
    check_free,
)
from lance_flight.engine.sql.references import CATALOG, enclose, quote_parts
from lance_flight.engine.sql.tokens import edit_text
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.errors import SqlError, Unsupported
from lance_flight.model.index_kinds import OptionValue


def vector_search(planner: Planner, searched: SearchTarget, arguments: Arguments) -> SearchResult:
    """The rows whose vectors are nearest to the one of a call, or to each of its many."""
    search = nearest(searched, arguments, "column", arguments.count)
    if "queries" in arguments.texts:
        return _search_each(planner, searched, search, arguments)
    report = f"search: {describe_search(search)}\n{searched.report}"
    result, after = result_of(planner, searched, search, report), arguments.after("after")
    if after is None:
        return result
    page = After(*after)
    if ROW_ID not in searched.hidden:
        raise Unsupported(f"after of a search of {searched.name!r} needs {ROW_ID}, which the table does not show")
    return replace(
        result,
        find=partial(page.page, SearchRun.of(planner, searched, search).best, search),
        report=f"{report}\n  behind row {page.row}, at a distance of {np.float32(page.distance)}",
    )


def _search_each(planner: Planner, searched: SearchTarget, search: VectorSearch, arguments: Arguments) -> SearchResult:
    if "after" in arguments.texts:
        raise arguments.error("after", arguments.texts["after"], "none beside queries: a page follows one row")
    queries = query_vectors(planner, searched.vectors(search.column), arguments)
    queries.check(search.count)
    check_free(searched, queries.field)
    report = f"search: {len(queries.vectors)} vectors, for each {describe_search(search)}\n{searched.report}"
    return replace(
        result_of(planner, searched, search, report),
        schema=pa.schema([*searched.columns, queries.field, search.result]),
        find=partial(SearchRun.of(planner, searched, search).best_of_each, search, queries),
    )


def describe_search(search: VectorSearch) -> str:
    """Return what EXPLAIN tells of a search by vectors."""
    by = f"{'MaxSim and ' * search.has_many_vectors}{search.metric or 'the metric of the index'}"
    what = f"{search.count} nearest by {by} of {search.column}"
    return "".join([what, *_restrictions(search)])


def _restrictions(search: VectorSearch) -> Iterator[str]:
    """Yield what EXPLAIN tells of the rows that do not count."""
    if search.least is not None:
        yield f", from a distance of {np.float32(search.least)}"
    if search.most is not None:
        yield f", up to a distance of {np.float32(search.most)}"
    if search.indexed_by is not None:
        yield f", of rows that the index ({search.indexed_by.name}) is about"


MOST_COLUMNS = 16
_STATISTICS: Mapping[str, bool] = MappingProxyType({"global": True, "local": False})


def matching(searched: SearchTarget, arguments: Arguments, column: str, count: int) -> TextSearch:
    """Return the search for the `count` rows that match the query of a call best, in the columns that its argument `column` names."""
    return TextSearch(
        columns=_columns(searched, arguments, column),
        query=_query(arguments),
        count=count,
        is_global=_choose_value(arguments, "statistics", _STATISTICS),
    )


def _columns(searched: SearchTarget, arguments: Arguments, argument: str) -> tuple[TextColumn, ...]:
    given = arguments.names(argument)
    columns = [_column(searched, arguments, argument, name) for name in given]
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise arguments.error(argument, given, "each column once")
    if len(names) > MOST_COLUMNS:
        raise arguments.error(argument, given, f"at most {MOST_COLUMNS} columns")
    return tuple(columns)


def _column(searched: SearchTarget, arguments: Arguments, argument: str, given: str) -> TextColumn:
    """Return a column that is given with a boost (`title^2`) or without one."""
    name, sign, factor = given.rpartition("^")
    if not sign or given in searched.columns.names:
        name, factor = given, "1"
    kind = searched.column(name).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise SqlError(f"column {name!r} is {kind}; expected text")
    try:
        boost = float(factor)
    except ValueError:
        boost = math.nan
    if not 0 < boost <= MOST_BOOST:
        raise arguments.error(argument, given, f"a column, ^ and a number above 0, {MOST_BOOST:g} at most (title^2)")
    return TextColumn(name=name, boost=boost, options=searched.texts.get(name, {}))


def _query(arguments: Arguments) -> Node | None:
    words = arguments.text("query")
    if words is None and arguments.is_bound:
        raise SqlError(f"query of {arguments.function} is NULL; expected a text")
    return parse(
        words or "",
        Mode.named(arguments.text("mode") or Mode.ANY.value),
        fuzziness=arguments.number("fuzziness", least=0, most=MOST_FUZZINESS) or 0,
        slop=arguments.number("slop", least=0, most=MOST_SLOP) or 0,
        is_plain=_choose_value(arguments, "syntax", SYNTAXES),
    )


def _choose_value(arguments: Arguments, name: str, meanings: Mapping[str, bool]) -> bool:
    """Return what the value of an argument means; the first of the values if it is not given."""
    given = arguments.text(name) or next(iter(meanings))
    if given.lower() not in meanings:
        raise arguments.error(name, given, " or ".join(meanings))
    return meanings[given.lower()]


RANK_CONSTANT = 60.0
"""Constant of reciprocal rank fusion: a row scores 1 / (60 + its rank) in each of its lists (Cormack et al., 2009)."""

TEXT_SCORE = pa.field("_text_score", SCORE.type)
VECTOR_RANK = pa.field("_vector_rank", pa.int32())
TEXT_RANK = pa.field("_text_rank", pa.int32())
FUSED = (SCORE, DISTANCE, VECTOR_RANK, TEXT_SCORE, TEXT_RANK)
"""Columns of a hybrid search: what rows are ordered by, and what they are worth and which they are in each list, NULL outside it."""

MOST_WEIGHT = 1e6
_LISTS = ((DISTANCE, DISTANCE, VECTOR_RANK), (SCORE, TEXT_SCORE, TEXT_RANK))
"""Of each list: what its rows are ordered by, and the names of that and of the ranks in the result."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fusion:
    """Fusion of two lists: `method` gives the worth of rows in one, which is multiplied by its weight and summed up."""

    name: str
    method: Callable[[Numbers], Numbers]
    weights: tuple[float, float] = (1.0, 1.0)

    def fuse(self, lists: Sequence[pa.Table], first: int, count: int) -> pa.Table:
        """Return `count` rows after the `first` ones, best first; equal ones in the order of the vectors, and of the texts then.

        The columns of each list have those of `ADDRESS_FIELDS` and its score among them; the result has `FUSED`.
        """
        parts = [self._row_keys(number, rows) for number, rows in enumerate(lists)]
        keyed = pa.concat_tables(parts, promote_options="default")
        keyed = keyed.append_column("place", pa.array(np.arange(keyed.num_rows)))
        taken = [field.name for field in FUSED[1:]]
        both = keyed.group_by(list(ADDRESS_NAMES)).aggregate(
            [("worth", "sum"), ("place", "min"), *((name, "max") for name in taken)]
        )
        order = pc.sort_indices(both, [("worth_sum", "descending"), ("place_min", "ascending")])
        chosen = both.take(order[first : first + count])
        rows = pa.concat_tables(
            [rows.drop_columns([score.name]) for rows, (score, *_) in zip(lists, _LISTS, strict=True)]
        )
        rows = rows.take(chosen["place_min"]).append_column(SCORE, chosen["worth_sum"].cast(SCORE.type))
        for field in FUSED[1:]:
            rows = rows.append_column(field, chosen[f"{field.name}_max"].cast(field.type))
        return rows

    def _row_keys(self, number: int, rows: pa.Table) -> pa.Table:
        score, named, rank = _LISTS[number]
        values = rows[score.name].to_numpy().astype(np.float64)
        # The best is the greatest.
        worth = self.method(-values if score is DISTANCE else values) * self.weights[number]
        ranks = np.arange(1, rows.num_rows + 1)
        columns = {name: rows[name] for name in ADDRESS_NAMES}
        made = {"worth": worth, named.name: rows[score.name], rank.name: pa.array(ranks, rank.type)}
        lacking = {field.name: pa.nulls(rows.num_rows, field.type) for field in FUSED[1:] if field.name not in made}
        return pa.table({**columns, **made, **lacking}).select(
            [*ADDRESS_NAMES, "worth", *(field.name for field in FUSED[1:])]
        )


def _by_rank(values: Numbers) -> Numbers:
    """Return the reciprocal ranks of a list that is in order."""
    return 1.0 / (RANK_CONSTANT + np.arange(1, len(values) + 1, dtype=np.float64))


def _by_score(values: Numbers) -> Numbers:
    """Return scores between those of the worst of a list, 0, and of the best, 1; values that do not compare are the worst.

    >>> _by_score(np.array([3.0, 2.0, 1.0])).tolist(), _by_score(np.array([7.0])).tolist()
    ([1.0, 0.5, 0.0], [1.0])
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return np.zeros(len(values))
    low, high = known.min(), known.max()
    spread = np.ones(len(values)) if high == low else (values - low) / (high - low)
    return np.where(np.isfinite(values), spread, 0.0)


_METHODS: Mapping[str, Callable[[Numbers], Numbers]] = MappingProxyType({"rrf": _by_rank, "linear": _by_score})


def fusion(arguments: Arguments) -> Fusion:
    """Return the fusion that the arguments of a call ask for."""
    name = (arguments.text("fusion") or next(iter(_METHODS))).lower()
    if name not in _METHODS:
        raise arguments.error("fusion", name, " or ".join(_METHODS))
    weights = arguments.numbers("weights")
    if weights is None:
        return Fusion(name, _METHODS[name])
    if len(weights) != len(_LISTS) or not all(0 <= weight <= MOST_WEIGHT for weight in weights) or not any(weights):
        raise arguments.error(
            "weights", weights, f"two numbers from 0 to {MOST_WEIGHT:g}, not both 0: of the vectors, and of the texts"
        )
    return Fusion(name, _METHODS[name], (weights[0], weights[1]))


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
        result = _FUNCTIONS[call.function](planner, searched, arguments)
        planner.searches.parameter_types.update(_parameter_types(call, searched, arguments))
        name = f"{call.function}_{len(tables) + 1}"
        tables[name] = SearchTable(result, planner.log)
        edits.append((call.start, call.stop, quote_parts(CATALOG, SEARCHES, name)))
        options = {**searched.texts, **options}
    return with_highlights(edit_text(sql, edits), options)


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
    frame = planner.frame(f"SELECT {enclose(text)} AS value", parameters)
    planner.prepare(frame)
    rows = [row for batch in planner.stream(frame) for row in batch.column(0)]
    if len(rows) != 1:
        raise SqlError(f"{text} gives {len(rows)} rows; expected one value")
    return rows[0]


def _full_text_search(planner: Planner, searched: SearchTarget, arguments: Arguments) -> SearchResult:
    first = arguments.offset
    search = matching(searched, arguments, "column", first + arguments.count)
    result = _run_search(planner, searched, search)
    return replace(result, find=lambda names: result.find(names).slice(first)) if first else result


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
    run = SearchRun(
        planner.log, planner.optimiser.target_partitions, searched, all(search.is_merging for search in searches)
    )
    made = frozenset(field.name for field in FUSED)

    def find(names: list[str]) -> pa.Table:
        columns = [*(name for name in names if name not in made), *ADDRESS_NAMES]
        lists = [run.best(search, [*columns, search.result.name]) for search in searches]
        return fuses.fuse(lists, first, count).select(names)

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
            what = describe_search(search)
        case TextSearch():
            columns = (
                f"{column.name}^{column.boost:g}" if column.boost != 1 else column.name for column in search.columns
            )
            what = f"{search.count} best matches of {', '.join(columns)}"
    return f"search: {what}\n{searched.report}"


_FUNCTIONS: Mapping[str, Callable[[Planner, SearchTarget, Arguments], SearchResult]] = MappingProxyType(
    {VECTOR_SEARCH: vector_search, FULL_TEXT_SEARCH: _full_text_search, HYBRID_SEARCH: _hybrid_search}
)
