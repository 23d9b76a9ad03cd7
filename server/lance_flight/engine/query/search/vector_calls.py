"""Calls of `vector_search`: one vector, a page behind a row, or many vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from lance_flight.catalog.search.searching import VectorSearch
from lance_flight.catalog.tables.lineage import ROW_ID
from lance_flight.engine.query.search.arguments import Arguments
from lance_flight.engine.query.search.paging import After
from lance_flight.engine.query.search.query_vectors import query_vectors
from lance_flight.engine.query.search.running import SearchRun, result_of
from lance_flight.engine.query.search.search_target import SearchTarget, check_free
from lance_flight.engine.query.search.statement_searches import Planner
from lance_flight.engine.query.search.table import SearchResult
from lance_flight.engine.query.search.vectors import nearest
from lance_flight.errors import Unsupported


def vector_search(planner: Planner, searched: SearchTarget, arguments: Arguments) -> SearchResult:
    """The rows whose vectors are nearest to the one of a call, or to each of its many."""
    search = nearest(searched, arguments, "column", arguments.count)
    if "queries" in arguments.texts:
        return _search_each(planner, searched, search, arguments)
    report = f"search: {described(search)}\n{searched.report}"
    found, after = result_of(planner, searched, search, report), arguments.after("after")
    if after is None:
        return found
    page = After(*after)
    if ROW_ID not in searched.hidden:
        raise Unsupported(f"after of a search of {searched.name!r} needs {ROW_ID}, which the table does not show")
    return replace(
        found,
        find=partial(page.page, SearchRun.of(planner, searched, search).best, search),
        report=f"{report}\n  behind row {page.row}, at a distance of {np.float32(page.distance)}",
    )


def _search_each(planner: Planner, searched: SearchTarget, search: VectorSearch, arguments: Arguments) -> SearchResult:
    if "after" in arguments.texts:
        raise arguments.error("after", arguments.texts["after"], "none beside queries: a page follows one row")
    queries = query_vectors(planner, searched.vectors(search.column), arguments)
    queries.check(search.count)
    check_free(searched, queries.field)
    report = f"search: {len(queries.vectors)} vectors, for each {described(search)}\n{searched.report}"
    return replace(
        result_of(planner, searched, search, report),
        schema=pa.schema([*searched.columns, queries.field, search.result]),
        find=partial(SearchRun.of(planner, searched, search).best_of_each, search, queries),
    )


def described(search: VectorSearch) -> str:
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
