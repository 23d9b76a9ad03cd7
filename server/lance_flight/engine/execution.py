"""How the queries of a client are run, which it may choose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How queries are run, as a client may choose it.

    `partition_wise_join`: in groups of partition tables where that is possible; small groups together, up to `group_rows` rows.
    `dynamic_pruning`: a join's few keys of one side prune the partitions of the other.
    `statement_timeout`: so many seconds may be worked for a statement, if the server gives as many; 0: as many as it gives.
    """

    partition_wise_join: bool = True
    dynamic_pruning: bool = True
    group_rows: int = 250_000
    statement_timeout: float = 0.0
