"""Row counts of the tables of a plan, from their metadata; used for deciding which side of a join is smaller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from datafusion.expr import TableScan

from lance_flight.engine.query.partition_wise.plans import Node, table_key
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.tables import Prunings, Rows
from lance_flight.planning.pruning import Pruning


def read_tables(prunings: Sequence[Pruning]) -> Rows:
    """Return the partition tables that any of the scans of a table reads."""
    versions = [pruning.versions for pruning in prunings] or [()]
    return tuple(
        np.unique(np.concatenate([each[place].kept for each in versions])) for place in range(len(versions[0]))
    )


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Row counts of the tables of a query: of the partitions that its scans leave."""

    session: QuerySession
    prunings: Prunings
    _known: dict[str, int] = field(default_factory=dict)

    def of(self, node: Node) -> int:
        """Return the rows that a node reads from its largest table; 0 if that is not known."""
        scans = (each.variant for each in node.walk() if isinstance(each.variant, TableScan))
        return max((self._table(table_key(scan, self.session.db_schema)) for scan in scans), default=0)

    def _table(self, name: str) -> int:
        if name not in self._known:
            self._known[name] = self._count(name)
        return self._known[name]

    def _count(self, name: str) -> int:
        view = self.session.scanned.get(name)
        if view is None:
            return 0
        return sum(int(counts.sum()) for counts in view.row_counts(read_tables(self.prunings.get(name, ()))))
