"""Choice of the next piece of maintenance: of all tables of a root, the one with most to gain."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lance_flight.catalog.maintenance.survey import (
    LATE,
    MaintenancePolicy,
    Surveyor,
    TableSurvey,
    expired_snapshots,
    policy_for_server,
)
from lance_flight.catalog.manifests.snapshot import PartitionTable
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.catalog.table import Table
from lance_flight.engine.runtime.maintenance_records import WorkKind
from lance_flight.errors import LanceFlightError

log = logging.getLogger(__name__)

MOST_TABLES = 256
"""Partition tables of one compaction: what it has read is committed soon, and other work has its turn."""
RETRY_SECONDS = 300.0
"""Time after work that has failed until it is tried again."""
HISTORY_SECONDS = 600.0
"""Time between two looks at the history of a table, which lists its versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One piece of maintenance: what is done to a table, why, and the seconds that a scan of it gains."""

    kind: WorkKind
    name: TableName
    table: Table
    policy: MaintenancePolicy
    gain: float
    reason: str
    due: tuple[PartitionTable, ...] = ()


@dataclass(slots=True)
class _History:
    """Times at which the history of a table was looked at, under which retention, and a vacuum has ended; how many snapshots are `over`."""

    retain: float
    looked: float
    vacuumed: float | None = None
    over: int = 0


@dataclass(slots=True)
class WorkChooser:
    """Chooses work of some `kinds` on the tables of a root. For one thread.

    `in_use` returns the places of tables that open transactions may change: a rewrite would make their commits fail.
    """

    root: Root
    in_use: Callable[[], set[str]]
    kinds: frozenset[WorkKind] = frozenset(WorkKind)
    now: Callable[[], float] = time.monotonic
    surveyor: Surveyor = field(default_factory=Surveyor)
    backlog: Counter[WorkKind] = field(default_factory=Counter)
    """What was due at the last look at all tables: files that compactions would spare, rows without an index, snapshots that are over."""
    _failed: dict[tuple[str, WorkKind], float] = field(default_factory=dict)
    _histories: dict[str, _History] = field(default_factory=dict)
    _unlooked: dict[TableName, float] = field(default_factory=dict)
    """Tables at which a look has failed by an error that nothing expects, and when that was."""

    def choose(self, is_over: Callable[[], bool] = lambda: False) -> Work | None:
        """Return the most urgent work: a vacuum, which is due once in a while, or else what gains most; None where nothing is due.

        Once `is_over` is true no further table is looked at.
        """
        tables: list[Table] = []
        best: Work | None = None
        backlog: Counter[WorkKind] = Counter()
        for name in self.root.tables():
            if is_over():
                return None
            if self.now() - self._unlooked.get(name, -RETRY_SECONDS) < RETRY_SECONDS:
                continue
            try:
                table = self.root.table(name)
                tables.append(table)
                for work in self._works(name, table, backlog):
                    if work.kind is WorkKind.VACUUM:
                        return work
                    if best is None or work.gain > best.gain:
                        best = work
            except (LanceFlightError, *UNREADABLE) as exc:
                # Dropped in this moment, or broken, which `lance-flight doctor` tells; others have their turn.
                log.info("table %s is left alone: %s", name, self.root.store.words(exc))
            except Exception:
                log.exception("table %s cannot be looked at, and is left alone for a while", name)
                self._unlooked[name] = self.now()
        self._forget_others(tables)
        self.backlog = backlog
        return best

    def postpone(self, work: Work) -> None:
        """Leave some work for a while."""
        self._failed[work.table.place, work.kind] = self.now()

    def finish(self, work: Work) -> None:
        """Note that some work has ended."""
        if work.kind is WorkKind.VACUUM:
            history = self._histories[work.table.place]
            history.vacuumed, history.over = self.now(), 0

    def _works(self, name: TableName, table: Table, backlog: Counter[WorkKind]) -> Iterator[Work]:
        """Yield all that is due on one table, and add to the backlog."""
        if WorkKind.VACUUM in self.kinds:
            policy = policy_for_server(table.snapshot())
            if policy is not None:
                yield from filter(self._may_try, self._vacuums(name, table, policy))
            backlog[WorkKind.VACUUM] = sum(history.over for history in self._histories.values())
        if self.kinds - {WorkKind.VACUUM}:
            survey = self.surveyor.survey(table)
            if survey is not None:
                backlog[WorkKind.COMPACT] += survey.backlog
                backlog[WorkKind.REINDEX] += survey.unindexed if survey.is_index_due else 0
                yield from filter(self._may_try, _rewrites(name, table, survey))

    def _may_try(self, work: Work) -> bool:
        """Return whether some work has not failed lately, and rewrites no table that is in use."""
        failed = self._failed.get((work.table.place, work.kind))
        is_late = failed is None or self.now() - failed > RETRY_SECONDS
        return is_late and not (work.kind is WorkKind.COMPACT and self.is_in_use(work.table))

    def is_in_use(self, table: Table) -> bool:
        """Return whether an open transaction of this server may change a table."""
        return table.place in self.in_use()

    def _vacuums(self, name: TableName, table: Table, policy: MaintenancePolicy) -> Iterator[Work]:
        known = self._histories.get(table.place)
        is_known = known is not None and known.retain == policy.retain
        if known is not None and is_known and self.now() - known.looked < HISTORY_SECONDS:
            return
        vacuumed = known.vacuumed if known is not None and is_known else None
        if vacuumed is not None and self.now() - vacuumed < policy.retain * LATE:
            return
        expired = expired_snapshots(table, policy)
        if expired:
            # It is looked at again until the vacuum has run.
            self._histories[table.place] = _History(policy.retain, self.now() - HISTORY_SECONDS, vacuumed, expired)
            reason = f"{expired:,} snapshots were replaced more than {policy.retain / 3600:g} hours ago"
            yield Work(kind=WorkKind.VACUUM, name=name, table=table, policy=policy, gain=0.0, reason=reason)
        else:
            self._histories[table.place] = _History(policy.retain, self.now(), vacuumed)

    def _forget_others(self, tables: list[Table]) -> None:
        places = {table.place for table in tables}
        self.surveyor.forget_others(tables)
        self._failed = {key: moment for key, moment in self._failed.items() if key[0] in places}
        self._histories = {place: history for place, history in self._histories.items() if place in places}


def _rewrites(name: TableName, table: Table, survey: TableSurvey) -> Iterator[Work]:
    """Yield the compaction and the indexing that a table needs."""
    if survey.due:
        due = survey.due[:MOST_TABLES]
        reason = f"{len(survey.due):,} partition tables have small files or deleted rows"
        yield Work(
            kind=WorkKind.COMPACT,
            name=name,
            table=table,
            policy=survey.policy,
            gain=survey.gain,
            reason=reason,
            due=due,
        )
    elif survey.is_index_due:
        # A compaction brings indices up to date, too.
        reason = f"{survey.unindexed:,} of {survey.rows:,} rows are not in an index"
        yield Work(
            kind=WorkKind.REINDEX, name=name, table=table, policy=survey.policy, gain=survey.index_gain, reason=reason
        )
