"""Runs of a search: the best rows of its tables with the columns that are read; and EXPLAIN's advice for it.

It is worked out when EXPLAIN asks, from metadata of the partition tables and the statistics of their indices; no row is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import pyarrow as pa

from lance_flight.catalog.search.row_ranking import ADDRESS, names_of
from lance_flight.catalog.search.searching import (
    AnySearch,
    VectorSearch,
    best,
    best_of_each,
    best_of_equal,
    keys_of_rows,
)
from lance_flight.catalog.storage.table_versions import map_tables
from lance_flight.catalog.tables.indices import Coverage, IndexDefinition
from lance_flight.catalog.tables.lineage import ROW_ID, ROW_NAME_FIELD
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, ADDRESS_NAMES, Scan
from lance_flight.catalog.tables.schema_adapter import physical
from lance_flight.catalog.tables.sources import Open, PinnedTable
from lance_flight.engine.query.search.search_target import Planner, SearchResult, SearchTarget, check_free
from lance_flight.engine.query.search.vectors import QueryVectors
from lance_flight.engine.query.tables.provider import ScanLog
from lance_flight.engine.sql.references import shown_name
from lance_flight.model.arrow_types import is_multivector
from lance_flight.model.index_kinds import BYTE_METRIC, METRICS, Family, index_metrics_of, metrics_of

MANY_ROWS = 10_000
"""Rows that are looked at one by one, from which on an index is worth having."""
MANY_TABLES = 32
MOST_TABLES = 256
"""Partition tables that are opened for advice, at most."""
_FEW_PROBES = 0.05


@dataclass(frozen=True, slots=True)
class _TableState:
    """The rows of a table, how many of them an index lacks, and the parts of its largest segment."""

    rows: int
    unindexed: int
    parts: int = 0


def advice(search: AnySearch, target: SearchTarget, *, takes_arguments: bool = True) -> list[str]:
    """Return lines for EXPLAIN; none where the layout of the table is hidden from the principal.

    A search that is written as ORDER BY takes no arguments.
    """
    if target.sql_name is None:
        return []
    return [f"advice: {line}" for line in _lines(search, target, target.sql_name, takes_arguments=takes_arguments)]


def _lines(search: AnySearch, target: SearchTarget, name: str, *, takes_arguments: bool) -> Iterator[str]:
    family = Family.VECTOR if isinstance(search, VectorSearch) else Family.TEXT
    defined = [
        definition for definition in target.indices.get(search.column, ()) if definition.of_kind.family is family
    ]
    definitions = [
        definition
        for definition in defined
        if not isinstance(search, VectorSearch) or _metric(definition) == search.metric
    ]
    tables = [table for _, some in target.tables for table in some]
    if definitions and isinstance(search, VectorSearch) and not search.use_index:
        yield from _of_unused(definitions[0], _states(target, search.column, None, tables))
    elif definitions:
        states = _states(target, search.column, definitions[0], tables)
        yield from _of_stale(name, definitions[0], states)
        if isinstance(search, VectorSearch) and takes_arguments:
            yield from _of_arguments(search, definitions[0], states)
    else:
        yield from _of_missing(search, target, name, defined, _states(target, search.column, None, tables))
    if len(tables) >= MANY_TABLES and not target.is_pruned and target.partitioned_by:
        columns = ", ".join(map(shown_name, target.partitioned_by))
        yield f"{len(tables):,} partition tables are searched; a filter on {columns} leaves fewer"


def _metric(index: IndexDefinition) -> str:
    return str(index.options.get("metric", METRICS[0]))


def _states(
    target: SearchTarget, column: str, index: IndexDefinition | None, tables: Sequence[PinnedTable]
) -> list[_TableState]:
    return map_tables(partial(_state, target, column, index), list(islice(tables, MOST_TABLES)), "advice")


def _state(target: SearchTarget, column: str, index: IndexDefinition | None, table: PinnedTable) -> _TableState:
    source = table.source
    rows = {fragment.fragment_id: fragment.count_rows() for fragment in source.dataset.get_fragments()}
    total = sum(rows.values())
    root, *inner = column.split(".")
    stored = physical(source.columns, root, target.ids.get(root))
    if index is None or stored is None or total < index.min_rows:
        return _TableState(total, 0)
    coverage = Coverage.of(source.dataset, index.name, ".".join([stored.name, *inner]), index.of_kind)
    unindexed = sum(rows[number] for number in coverage.missing)
    if not coverage.segments or index.of_kind.family is not Family.VECTOR:
        return _TableState(total, unindexed)
    stored_parts = (
        segment.get("num_partitions", 0) for segment in source.dataset.stats.index_stats(index.name)["indices"]
    )
    return _TableState(total, unindexed, max(stored_parts, default=0))


def _of_missing(
    search: AnySearch,
    target: SearchTarget,
    name: str,
    defined: Sequence[IndexDefinition],
    states: Sequence[_TableState],
) -> Iterator[str]:
    rows = sum(state.rows for state in states)
    if rows < MANY_ROWS:
        return
    column = ".".join(map(shown_name, search.column.split(".")))
    create = f"CREATE INDEX ON {name} ({column}) USING"
    if not isinstance(search, VectorSearch):
        yield f"{rows:,} texts are cut into words for this search; {create} inverted"
        return
    stored = target.vectors(search.column).type
    metric = search.metric or metrics_of(stored)[0]
    if metric not in index_metrics_of(stored):
        return
    kind = "ivf_flat" if metric == BYTE_METRIC else "ivf_sq" if is_multivector(stored) else "ivf_pq"
    others = sorted({_metric(definition) for definition in defined})
    instead = f", or search by {' or '.join(others)}, as an index does" if others else ""
    yield f"{rows:,} vectors are compared one by one; {create} {kind} WITH (metric = '{metric}'){instead}"


def _of_unused(index: IndexDefinition, states: Sequence[_TableState]) -> Iterator[str]:
    rows = sum(state.rows for state in states)
    if rows >= MANY_ROWS:
        yield f"{rows:,} vectors are compared one by one, though there is index {index.name} ({index.kind})"


def _of_stale(name: str, index: IndexDefinition, states: Sequence[_TableState]) -> Iterator[str]:
    unindexed = [state.unindexed for state in states if state.unindexed]
    if sum(unindexed) >= MANY_ROWS:
        yield (
            f"{sum(unindexed):,} rows of {len(unindexed):,} tables are not in index {index.name}, and looked at one by one;"
            f" REINDEX TABLE {name} INDEX {shown_name(index.name)}"
        )


def _of_arguments(search: VectorSearch, index: IndexDefinition, states: Sequence[_TableState]) -> Iterator[str]:
    parts = max((state.parts for state in states), default=0)
    enough = max(round(_FEW_PROBES * parts), min(parts, 2))
    if search.nprobes is not None and search.nprobes < enough:
        yield (
            f"nprobes => {search.nprobes} leaves most of the up to {parts:,} parts of each index out; nprobes => {enough} or more"
            " finds more of the nearest rows"
        )
    if index.of_kind.is_quantised and search.refine is None and sum(state.rows for state in states) >= MANY_ROWS:
        yield f"index {index.name} ({index.kind}) measures shortened vectors; refine => 4 compares the stored ones of the best rows"


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
        return cls(planner.log, planner.optimiser.target_partitions, searched, search.is_merging)

    def best(self, search: AnySearch, names: list[str]) -> pa.Table:
        """Return some columns of the best rows, those of `ADDRESS_FIELDS` among them if they are requested."""
        return self._name_columns(names, lambda stored: self._best(search, stored, self._of_one))

    def best_of_each(self, search: VectorSearch, queries: QueryVectors, names: list[str]) -> pa.Table:
        """Return some columns of the best rows for each of many vectors, in the order of these."""

        def of_each(search: AnySearch, work: Sequence[tuple[Scan, Open]]) -> pa.Table:
            assert isinstance(search, VectorSearch)  # noqa: S101 - as it was given
            if self.searched.arrange is not None:
                best = [self._of_one(replace(search, vector=vector), work) for vector in queries.vectors]
            else:
                best = best_of_each(search, queries.vectors, work, self.target_partitions, self.log.cancellation.check)
            rows = pa.concat_tables(best)
            return rows.append_column(queries.field, keys_of_rows(best, queries.keys))

        if not queries.vectors:
            made = {field.name: field for field in (*self.searched.columns, queries.field, search.result)}
            return pa.schema([made[name] for name in names]).empty_table()
        return self._name_columns(names, lambda stored: self._best(search, stored, of_each, queries.field))

    def _name_columns(
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
