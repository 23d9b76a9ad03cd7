"""Runs of a search: the best rows of the tables that are left of its target, with the columns that are read of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lance_flight.catalog.search.batches import best_of_each, keys_of_rows
from lance_flight.catalog.search.row_naming import names_of
from lance_flight.catalog.search.search_results import ADDRESS
from lance_flight.catalog.search.searching import AnySearch, VectorSearch, best, best_of_equal
from lance_flight.catalog.tables.lineage import ROW_ID
from lance_flight.catalog.tables.row_names import ROW_NAME_FIELD
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, ADDRESS_NAMES, Scan
from lance_flight.catalog.tables.sources import Open
from lance_flight.engine.query.provider import ScanLog
from lance_flight.engine.query.search.advice import advice
from lance_flight.engine.query.search.query_vectors import QueryVectors
from lance_flight.engine.query.search.search_target import SearchTarget, check_free
from lance_flight.engine.query.search.statement_searches import Planner
from lance_flight.engine.query.search.table import SearchResult


def result_of(planner: Planner, searched: SearchTarget, search: AnySearch, report: str) -> SearchResult:
    """Return the result of a search, and what EXPLAIN tells of it."""
    check_free(searched, search.result)
    return SearchResult(
        schema=pa.schema([*searched.columns, search.result]),
        find=partial(SearchRun.of(planner, searched, search).best, search),
        report=report,
        failure=searched.failure,
        hidden=searched.hidden,
        advise=partial(advice, search, searched),
    )


@dataclass(frozen=True, slots=True)
class SearchRun:
    """State that a search needs at run time; it must not reference the statement, because DataFusion keeps it."""

    log: ScanLog
    target_partitions: int
    searched: SearchTarget
    is_merging: bool

    @classmethod
    def of(cls, planner: Planner, searched: SearchTarget, search: AnySearch) -> SearchRun:
        """Return the run of a search of a target."""
        return cls(planner.log, planner.target_partitions, searched, search.is_merging)

    def best(self, search: AnySearch, names: list[str]) -> pa.Table:
        """Return some columns of the best rows, those of `ADDRESS_FIELDS` among them if they are requested."""
        return self._named(names, lambda stored: self._best(search, stored, self._of_one))

    def best_of_each(self, search: VectorSearch, queries: QueryVectors, names: list[str]) -> pa.Table:
        """Return some columns of the best rows for each of many vectors, in the order of these."""

        def of_each(search: AnySearch, work: Sequence[tuple[Scan, Open]]) -> pa.Table:
            assert isinstance(search, VectorSearch)  # noqa: S101 - as it was given
            if self.searched.arrange is not None:
                found = [self._of_one(replace(search, vector=vector), work) for vector in queries.vectors]
            else:
                found = best_of_each(search, queries.vectors, work, self.target_partitions, self.log.cancellation.check)
            rows = pa.concat_tables(found)
            return rows.append_column(queries.field, keys_of_rows(found, queries.keys))

        if not queries.vectors:
            made = {field.name: field for field in (*self.searched.columns, queries.field, search.result)}
            return pa.schema([made[name] for name in names]).empty_table()
        return self._named(names, lambda stored: self._best(search, stored, of_each, queries.field))

    def _named(
        self, names: list[str], find: Callable[[list[str]], tuple[pa.Table, list[tuple[Scan, Open]]]]
    ) -> pa.Table:
        """Return what is found with some columns, which may be the names of rows."""
        if ROW_ID not in names or ROW_ID not in self.searched.hidden:
            return find(names)[0]
        stored = [name for name in names if name != ROW_ID]
        rows, work = find(list(dict.fromkeys([*stored, *ADDRESS_NAMES])))
        sources = [source for _, opened in work for source in opened()] if rows.num_rows else []
        tables = [table for _, some in self.searched.tables for table in some]
        return rows.append_column(ROW_NAME_FIELD, names_of(rows, sources, tables)).select(names)

    def _of_one(self, search: AnySearch, work: Sequence[tuple[Scan, Open]]) -> pa.Table:
        def find(wanted: AnySearch) -> pa.Table:
            return best(wanted, work, self.target_partitions, self.log.cancellation.check)

        return find(search) if self.searched.arrange is None else best_of_equal(search, find)

    def _best(
        self,
        search: AnySearch,
        names: list[str],
        run: Callable[[AnySearch, Sequence[tuple[Scan, Open]]], pa.Table],
        *added: pa.Field,
    ) -> tuple[pa.Table, list[tuple[Scan, Open]]]:
        """Return stored columns of the best rows, with those that are `added` to what a search finds, and what was searched."""
        made = {field.name: field for field in (search.result, *ADDRESS_FIELDS)}
        wanted = list(dict.fromkeys([*names, search.result.name, ADDRESS.name]))
        others = {field.name for field in added}
        schema = pa.schema(
            [made[n] if n in made else self.searched.columns.field(n) for n in wanted if n not in others]
        )
        work = self.searched.work(search, schema, merging=self.is_merging and not self._compares_names)
        if not work:
            return pa.schema([*schema, *added]).empty_table().select(names), work
        if self.searched.chosen is not None:
            search = replace(search, among=self.searched.chosen.rows)
        return run(search, work).select(names), work

    @property
    def _compares_names(self) -> bool:
        """True if a filter is about the names of rows, which a scan makes of one table alone."""
        if ROW_ID not in self.searched.hidden:
            return False
        scans = self.searched.work(None, pa.schema([]), merging=False)
        return any(ROW_ID in scan.filter_columns for scan, _ in scans)
