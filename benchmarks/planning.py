"""Milliseconds to plan a point query over 10 to 100,000 partitions, in process and warm; nothing is read.

A plan of DataFusion's with its scan pruned is what `answers.QueryAnswer` makes before the first row, and what the aim
is about. Beside it `Engine.plan`, which GetFlightInfo takes, and pruning alone. There is no peer: what counts is how
little it grows with the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import pyarrow.compute as pc
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.statement_context import StatementContext
from lance_flight.engine.query.tables.table_view import partitions_of
from lance_flight.planning.arrow_expression import predicate_from_arrow
from lance_flight.planning.pruning import Pruning, prune

from benchmarks import data, synthetic
from benchmarks.bench import Bench
from benchmarks.results import FINE_MILLISECONDS, Aim, Result
from benchmarks.servers import CORES
from benchmarks.synthetic import Synthetic
from benchmarks.timing import interleaved, timed

AIMS: Mapping[int, tuple[Aim, ...]] = MappingProxyType(
    {10: (), 1_000: (), 10_000: (Aim("ours", "≤", 0.005),), 100_000: (Aim("ours", "≤", 0.020),)}
)
REPEATS = 10
"""Rounds for each of the others': one takes milliseconds."""


OF_VERSIONS = 50_000
VERSIONS = 5
VERSIONS_AIM = Aim("ratio", "≤", 1.2)


def measure(bench: Bench) -> list[Result]:
    """Three lines for each number of partitions, and one for several spec versions against one."""
    place = bench.scratch("planning")
    root = Root(Store(str(place)))
    cases: dict[str, Callable[[], object]] = {}
    aims: dict[str, tuple[Aim, ...]] = {}
    for partitions, aim in AIMS.items():
        of = f"{partitions:,} partitions"
        planner = _Planner(root, synthetic.create(place, partitions))
        planner.check()
        cases |= {
            f"plan and prune, {of}": planner.plan,
            f"Engine.plan, {of}": planner.engine_plan,
            f"prune alone, {of}": partial(planner.prune, planner.snapshot),
        }
        aims[f"plan and prune, {of}"] = aim
    for versions in (1, VERSIONS):
        planner = _Planner(root, synthetic.create(place, OF_VERSIONS, versions=versions))
        planner.check()
        cases[f"{versions} versions"] = planner.plan
    seconds = interleaved({name: timed(case) for name, case in cases.items()}, bench.options.rounds * REPEATS)
    one, several = seconds.pop("1 versions"), seconds.pop(f"{VERSIONS} versions")
    return [
        Result(what=name, ours=taken, unit=FINE_MILLISECONDS, aims=aims.get(name, ()))
        for name, taken in sorted(seconds.items(), key=lambda line: line[0].split(",")[0], reverse=True)
    ] + [
        Result(
            what=f"plan and prune, {OF_VERSIONS:,} partitions under {VERSIONS} specs (limit: one spec)",
            ours=several,
            limit=one,
            unit=FINE_MILLISECONDS,
            aims=(VERSIONS_AIM,),
        )
    ]


@dataclass(frozen=True, slots=True)
class _Planner:
    """The three ways to plan the point query of one namespace."""

    root: Root
    events: Synthetic

    @property
    def snapshot(self) -> Snapshot:
        """Its snapshot, of which derived arrays are kept: the one that statements use."""
        return self.events.namespace.snapshot()

    def plan(self) -> Pruning:
        """From SQL to an execution plan."""
        session = QuerySession(StatementContext(root=self.root, target_partitions=CORES))
        frame = session.frame(self.events.sql)
        session.prepare(frame)
        session.optimiser.plan(frame)
        ((pruning,),) = session.log.prunings.values()
        return pruning

    def engine_plan(self) -> object:
        """From SQL to what GetFlightInfo answers."""
        return Engine(self.root, target_partitions=CORES).plan(self.events.sql)

    def prune(self, snapshot: Snapshot) -> Pruning:
        """From a predicate to partition tables."""
        tenant, number = self.events.point
        condition = (pc.field("tenant") == tenant) & (pc.field("id") == number)
        return prune(partitions_of(snapshot), snapshot.schema, predicate_from_arrow(condition), None)

    def check(self) -> None:
        """One partition of each spec version is left, of as many as there are."""
        for pruning in (self.plan(), self.prune(self.snapshot)):
            data.expect(f"partitions of {self.events.name}", pruning.total, self.events.partitions)
            data.expect(f"partitions left of {self.events.name}", pruning.scanned, self.events.versions)
