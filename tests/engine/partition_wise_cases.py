"""Random queries over the databases of `partition_wise_databases`: joins and whatever else is run by partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

from tests.engine import partition_wise_joins as joins
from tests.engine import partition_wise_tables as tables
from tests.engine.partition_wise_databases import Database
from tests.engine.partition_wise_draws import Case, Draw

KINDS: Mapping[Callable[[Draw], Case], int] = {
    joins.rows: 3,
    joins.ordered_rows: 1,
    joins.counted: 1,
    joins.some: 1,
    joins.grouped: 3,
    joins.sets_of_keys: 1,
    joins.first_of_groups: 1,
    joins.star: 1,
    joins.window: 1,
    joins.queried: 2,
    joins.named: 1,
    joins.nested: 3,
    joins.starred: 1,
    joins.other_keys: 1,
    tables.alone: 2,
    tables.by_date_parts: 1,
    tables.sets: 1,
    tables.ordered: 2,
    tables.metadata: 1,
    tables.pruned: 2,
}
"""How often each kind of query comes among the others."""


def cases(made: Database, count: int) -> Iterator[Case]:
    """Queries over a database; which ones follows from its seed."""
    for number in range(count):
        draw = Draw(Random(f"{made.seed} {number}"), made)  # noqa: S311 - it is to be the same each time
        (kind,) = draw.rng.choices([*KINDS], [*KINDS.values()])
        yield kind(draw)
