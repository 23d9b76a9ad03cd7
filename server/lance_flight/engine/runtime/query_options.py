"""Options for running queries, which a client may set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """Options for running queries, which a client may set.

    `partition_wise_join`: run joins in groups of partition tables where possible; small groups are merged, up to `group_rows` rows.
    `dynamic_pruning`: a join's few keys of one side prune the partitions of the other.
    `exact_search`: ORDER BY a distance with a LIMIT compares every vector, in place of those that an index finds.
    `snapshot`: the version, tag or time at which tables are read that are named without one; None: the newest.
    `target_partitions`: the number of lanes; 0: that of the server.
    `statement_timeout`: the seconds of work for a statement, at most those of the server; 0: those of the server.
    """

    partition_wise_join: bool = True
    dynamic_pruning: bool = True
    group_rows: int = 250_000
    exact_search: bool = False
    snapshot: str | None = None
    target_partitions: int = 0
    statement_timeout: float = 0.0
