"""Distribution of a scan's tables over lanes, which DataFusion runs concurrently."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lance_flight.catalog.manifests.indices import indices_of
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.storage.opening import map_tables
from lance_flight.catalog.tables.merged import MERGED_TABLES, own_source, sources
from lance_flight.catalog.tables.pinned_tables import PinnedTable
from lance_flight.catalog.tables.sources import Open, Source
from lance_flight.engine.query.provider import ScanLog
from lance_flight.planning.predicates import Column, Compare, Op, Predicate, conjuncts

Work = tuple[Predicate | None, list[Open]]
BTREE = "btree"


def deal(
    kept: Sequence[tuple[Predicate | None, list[PinnedTable]]],
    target_partitions: int,
    log: ScanLog,
    *,
    merging: bool = True,
) -> list[list[Work]]:
    """Distribute tables over `target_partitions` lanes, several merged into one scan; with fewer tables than lanes, their fragments.

    Rows of merged tables have other addresses than their own: a caller that needs those passes no `merging`.
    """
    lanes: list[list[Work]] = [[] for _ in range(target_partitions)]
    for rest, tables in kept:
        if len(tables) < target_partitions:
            log.tables_read += sum(table.partition is not None for table in tables)
            opened = _open(tables)
            for way, lane in enumerate(lanes):
                mine = [part for source in opened for part in open_part(source, way, target_partitions)]
                if mine:
                    lane.append((rest, [partial(list, mine)]))
            continue
        size = min(MERGED_TABLES, -(-len(tables) // target_partitions)) if merging else 1
        groups = [tables[start : start + size] for start in range(0, len(tables), size)]
        for way, lane in enumerate(lanes):
            lane.append((rest, [partial(_open_merged, group, log) for group in groups[way::target_partitions]]))
    return [lane for lane in lanes if any(opens for _, opens in lane)]


def _open_merged(tables: Sequence[PinnedTable], log: ScanLog) -> list[Source]:
    log.tables_read += len(tables)
    return sources(tables)


def _open(tables: Sequence[PinnedTable]) -> list[Source]:
    if len(tables) == 1:
        return [own_source(tables[0])]
    return map_tables(own_source, tables, "opener")


def open_part(source: Source, part: int, of: int) -> list[Source]:
    """Return one part of a table; an empty list if the table has fewer fragments than parts."""
    mine = source.part(part, of)
    return [mine] if mine.fragments else []


def is_lookup(predicate: Predicate, snapshot: Snapshot) -> bool:
    """Return whether the rows where `predicate` is TRUE have one value in a column with a BTREE.

    Lance looks into the segments of an index on one core, and two scans that do so at once take longer than one after the other.
    """
    equal = [each.term for each in conjuncts(predicate) if isinstance(each, Compare) and each.op is Op.EQ]
    columns = {snapshot.schema.ids.get(term.name) for term in equal if isinstance(term, Column) and not term.inside}
    return bool(columns) and any(each.kind == BTREE and each.field_id in columns for each in indices_of(snapshot))
