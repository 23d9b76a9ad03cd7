"""Pairs of operations on one table, and which of them may both commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lance_flight.engine.runtime.session_registry import Isolation

Rows = list[tuple[int, str]]

HELD: Rows = [(1, "a"), (2, "a"), (3, "b"), (4, "b")]

IDS = {"a": 1, "b": 3, "new": 0, "newer": 0}
"""The id of the row that statements look for in each partition; there is none in those that are not there."""


def append(rows: Rows, p: str, mine: int) -> Rows:
    return [*rows, (mine, p)]


def delete(rows: Rows, p: str, mine: int) -> Rows:
    return [row for row in rows if row != (IDS[p], p)]


def update(rows: Rows, p: str, mine: int) -> Rows:
    return [(mine, p) if row == (IDS[p], p) else row for row in rows]


def overwrite(rows: Rows, p: str, mine: int) -> Rows:
    return [*(row for row in rows if row[1] != p), (mine, p)]


def merge(rows: Rows, p: str, mine: int) -> Rows:
    return update(rows, p, mine) if (IDS[p], p) in rows else append(rows, p, mine)


def truncate(rows: Rows, p: str, mine: int) -> Rows:
    return []


def drop(rows: Rows, p: str, mine: int) -> Rows:
    return [row for row in rows if row[1] != p]


def compact(rows: Rows, p: str, mine: int) -> Rows:
    return rows


def add_column(rows: Rows, p: str, mine: int) -> Rows:
    return rows


def drop_column(rows: Rows, p: str, mine: int) -> Rows:
    return rows


def set_partitioned_by(rows: Rows, p: str, mine: int) -> Rows:
    return rows


Operation = Callable[[Rows, str, int], Rows]

OPERATIONS: dict[Operation, str] = {
    append: "INSERT INTO {t} (id, p) VALUES ({mine}, '{p}')",
    delete: "DELETE FROM {t} WHERE p = '{p}' AND id = {id}",
    update: "UPDATE {t} SET id = {mine} WHERE p = '{p}' AND id = {id}",
    overwrite: "INSERT OVERWRITE {t} (id, p) VALUES ({mine}, '{p}')",
    merge: "MERGE INTO {t} USING (SELECT {id} AS id, '{p}' AS p) s ON {t}.p = '{p}' AND {t}.id = s.id "
    "WHEN MATCHED THEN UPDATE SET id = {mine} WHEN NOT MATCHED THEN INSERT (id, p) VALUES ({mine}, s.p)",
    truncate: "TRUNCATE {t}",
    drop: "ALTER TABLE {t} DROP PARTITION (p = '{p}')",
    compact: "ALTER TABLE {t} COMPACT",
    add_column: "ALTER TABLE {t} ADD COLUMN more INT DEFAULT 1",
    drop_column: "ALTER TABLE {t} DROP COLUMN n",
    set_partitioned_by: "ALTER TABLE {t} SET PARTITIONED BY (bucket(2, id))",
}

PLACES = {
    "same": ("a", "a"),
    "other": ("a", "b"),
    "same new": ("new", "new"),
    "two new": ("new", "newer"),
    "beside new": ("new", "b"),
}
"""The partitions that the first and the second transaction are about; TRUNCATE, COMPACT and changes of columns are about all there are."""

# Rows: what commits first; columns: what began before that, and commits second.
# .  both commit    x  the second one fails    s  it fails where it is serialisable
# Rows that only come in get the columns that were added meanwhile; a spec stays good for those that were written under it.
OUTCOMES = {
    "same": """
                        append  delete  update  overwrite  merge  truncate
    append              .       x       x       x          x      x
    delete              .       x       x       x          x      x
    update              .       x       x       x          x      x
    overwrite           .       x       x       x          x      x
    merge               .       x       x       x          x      x
    truncate            .       x       x       x          x      x
    drop                x       x       x       x          x      x
    compact             .       x       x       x          x      x
    add_column          .       x       x       x          x      x
    drop_column         x       x       x       x          x      x
    set_partitioned_by  .       .       .       .          .      .
    """,
    "other": """
                        append  delete  update  overwrite  merge  truncate
    append              .       .       .       .          .      x
    delete              .       .       .       .          .      x
    update              .       .       .       .          .      x
    overwrite           .       .       .       .          .      x
    merge               .       .       .       .          .      x
    truncate            .       x       x       x          x      x
    drop                .       s       s       .          s      x
    compact             .       x       x       x          x      x
    add_column          .       x       x       x          x      x
    drop_column         x       x       x       x          x      x
    set_partitioned_by  .       .       .       .          .      .
    """,
    # Nobody deletes or updates anything in a partition that is not there, and nothing is committed.
    # Rows of two creators lie together, unless one of them stands for all rows of the partition (overwrite), or
    # has seen that there are none (a serialisable merge). TRUNCATE takes away what it saw, as if it had been first.
    "same new": """
                        append  delete  update  overwrite  merge  truncate
    append              .       .       .       x          s      .
    delete              .       .       .       .          .      .
    update              .       .       .       .          .      .
    overwrite           .       .       .       x          s      .
    merge               .       .       .       x          s      .
    truncate            .       .       .       .          .      x
    drop                .       .       .       .          .      .
    compact             .       .       .       .          .      x
    add_column          .       .       .       x          s      x
    drop_column         x       .       .       x          x      x
    set_partitioned_by  .       .       .       .          .      .
    """,
    # Whoever is serialisable and has read anything fails where any partition was made: it might have read that one.
    "two new": """
                        append  delete  update  overwrite  merge  truncate
    append              .       .       .       .          s      .
    delete              .       .       .       .          .      .
    update              .       .       .       .          .      .
    overwrite           .       .       .       .          s      .
    merge               .       .       .       .          s      .
    truncate            .       .       .       .          .      x
    drop                .       .       .       .          .      .
    compact             .       .       .       .          .      x
    add_column          .       .       .       x          s      x
    drop_column         x       .       .       x          x      x
    set_partitioned_by  .       .       .       .          .      .
    """,
    "beside new": """
                        append  delete  update  overwrite  merge  truncate
    append              .       s       s       .          s      .
    delete              .       .       .       .          .      .
    update              .       .       .       .          .      .
    overwrite           .       s       s       .          s      .
    merge               .       s       s       .          s      .
    truncate            .       x       x       x          x      x
    drop                .       .       .       .          .      .
    compact             .       x       x       x          x      x
    add_column          .       x       x       x          x      x
    drop_column         x       x       x       x          x      x
    set_partitioned_by  .       .       .       .          .      .
    """,
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two operations, what they are about, and what becomes of the second one."""

    first: Operation
    second: Operation
    place: str
    outcome: str

    @property
    def alone(self) -> Rows:
        """What the first one leaves."""
        return sorted(self.first(HELD, PLACES[self.place][0], 10))

    @property
    def in_turn(self) -> Rows:
        """What both leave, one after the other."""
        return sorted(self.second(self.alone, PLACES[self.place][1], 20))

    @property
    def reversed(self) -> Rows:
        """What both leave, the other way round."""
        return sorted(self.first(self.second(HELD, PLACES[self.place][1], 20), PLACES[self.place][0], 10))

    def statement(self, table: str, *, first: bool) -> str:
        """The text of one of the two."""
        p = PLACES[self.place][0 if first else 1]
        return OPERATIONS[self.first if first else self.second].format(
            t=table, p=p, id=IDS[p], mine=10 if first else 20
        )

    def fails(self, isolation: Isolation) -> bool:
        """Whether the second one fails."""
        return self.outcome == "x" or (self.outcome == "s" and isolation is Isolation.SERIALIZABLE)


def _outcomes() -> dict[tuple[str, str, str], str]:
    """Every cell of `OUTCOMES`, by the place and the names of the first and the second operation."""
    found = {}
    for place, text in OUTCOMES.items():
        header, *rows = (line.split() for line in text.strip().splitlines())
        for name, *cells in rows:
            found |= {(place, name, second): cell for second, cell in zip(header, cells, strict=True)}
    return found


_OUTCOMES = _outcomes()
ALONE = (drop, compact, add_column, drop_column, set_partitioned_by)
"""What is no part of a transaction: it only ever comes first."""
SECONDS = [operation for operation in OPERATIONS if operation not in ALONE]


def pair_of(first: Operation, second: Operation, place: str) -> Pair:
    """Two operations that both may be part of a transaction, or the first one alone."""
    return Pair(first, second, place, _OUTCOMES[place, first.__name__, second.__name__])


def name_of(operation: Operation) -> str:
    return operation.__name__
