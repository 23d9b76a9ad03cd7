"""What random queries are made of: tables under names, filters, joins on keys that mostly are what the tables are partitioned by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

from tests.engine.partition_wise_databases import POOLS, ROLES, Database, Table, matched

OPERATORS = ("=", "=", "<", ">=", "<>")
JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "RIGHT SEMI JOIN")
CHAINED = ("JOIN", "JOIN", "LEFT JOIN", "FULL JOIN")
ONE_SIDED = {"LEFT SEMI JOIN": slice(0, 1), "LEFT ANTI JOIN": slice(0, 1), "RIGHT SEMI JOIN": slice(1, 2)}
"""The joins whose rows are those of one side alone, and which one that is."""


class Compared(Enum):
    """How the rows of two runs are compared."""

    AS_SET = "in any order"
    IN_ORDER = "in order"
    BY_COUNT = "by their count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A query; `is_eligible` says that its tables can be matched, so that it should run in groups."""

    sql: str
    kind: str
    is_eligible: bool
    compared: Compared = Compared.AS_SET


@dataclass(frozen=True, slots=True)
class Read:
    """A table under a name in one query."""

    table: Table
    name: str

    def __str__(self) -> str:
        return f"{self.table.name} AS {self.name}"

    def column(self, role: str) -> str:
        """One of its columns."""
        return f"{self.name}.{self.table.columns[role]}"


@dataclass(frozen=True, slots=True)
class Joined:
    """What stands after FROM, with its filters: `reads` are those whose columns can be named above, `keys` their keys."""

    text: str
    reads: tuple[Read, ...]
    keys: tuple[str, ...]
    is_eligible: bool


@dataclass(frozen=True, slots=True)
class Draw:
    """What the kinds of queries are made of."""

    rng: Random
    made: Database

    def chance(self, of: float) -> bool:
        """Whether something is so."""
        return self.rng.random() < of

    @property
    def small(self) -> Table:
        """The small plain table."""
        return next(table for table in self.made.tables if table.name == "dim")

    def table(self) -> Table:
        """Mostly a partitioned one."""
        return self.rng.choice(self.made.partitioned if self.chance(0.9) else self.made.tables)

    def tables(self, count: int, role: str) -> list[Table]:
        """Tables that mostly can be matched by a column; one may come twice."""
        (first, *others) = (self.table() for _ in range(count))
        near = [table for table in self.made.partitioned if matched([first, table], role)]
        return [first, *(self.rng.choice(near) if near and self.chance(0.8) else other for other in others)]

    def role(self) -> str:
        """Mostly what tables are partitioned by."""
        return self.rng.choice(self.made.theme if self.chance(0.85) else ROLES)

    def reads(self, tables: Sequence[Table]) -> tuple[Read, ...]:
        """The tables under names, some of which have to be quoted."""
        names = ("a", "b", "c") if self.chance(0.8) else ('"A b"', '"B"', '"c.d"')
        return tuple(Read(table, name) for table, name in zip(tables, names, strict=False))

    def filter(self, read: Read) -> str:
        """A condition on one table."""
        role = self.rng.choice(ROLES)
        column = read.column(role)
        value, other = self.rng.sample(POOLS[role], 2)
        kinds = [
            f"{column} {self.rng.choice(OPERATORS)} {value}",
            f"{column} IN ({value}, {other})",
            f"{column} IS NOT NULL",
            f"({column} = {value} OR {column} IS NULL)",
            f"({column} <> {value} OR {read.column('v')} = 2)",
            f"{read.column('v')} % 3 = 1",
            f"{read.column('v')} > 1",
        ]
        if role in {"d", "ts"}:
            kinds += [f"date_part('year', {column}) = 2024"]
        return self.rng.choice(kinds)

    def where(self, reads: Sequence[Read], *, chance: float = 0.4) -> str:
        """Conditions on some of the tables."""
        said = [self.filter(read) for read in reads if self.chance(chance)]
        return f" WHERE {' AND '.join(said)}" if said else ""

    def condition(self, left: Read, right: Read, roles: Sequence[str]) -> str:
        """Equal keys, and maybe more."""
        equal = "IS NOT DISTINCT FROM" if self.chance(0.1) else "="
        said = [f"({left.column(role)} {equal} {right.column(role)})" for role in roles]
        if self.chance(0.2):
            said.append(f"{left.column('v')} {self.rng.choice(('<', '<=', '<>'))} {right.column('v')}")
        if self.chance(0.08):
            said.append(self.filter(left if self.chance(0.5) else right))
        self.rng.shuffle(said)
        return " AND ".join(said)

    def joined(self, *, chance: float = 0.4) -> Joined:
        """Two or three tables on the same keys."""
        role = self.role()
        roles = list(dict.fromkeys([role, self.role()])) if self.chance(0.25) else [role]
        tables = self.tables(self.rng.choice((2, 2, 2, 3)), role)
        is_eligible = any(matched(tables[:2], each) for each in roles)
        reads = self.reads(tables)
        first, second, *others = reads
        join = self.rng.choice(JOINS)
        if others and join in ONE_SIDED:
            join = "JOIN"
        if join == "JOIN" and not others and self.chance(0.15):
            # As before there was JOIN.
            said = [self.condition(first, second, roles)] + [self.filter(each) for each in reads if self.chance(chance)]
            return Joined(f"{first}, {second} WHERE {' AND '.join(said)}", reads, columns(first, roles), is_eligible)
        if first.table.columns == second.table.columns and join not in ONE_SIDED and not others and self.chance(0.2):
            names = ", ".join(first.table.columns[each] for each in roles)
            text = f"{first} {join} {second} USING ({names}){self.where(reads, chance=chance)}"
            return Joined(text, reads, columns(first, roles), is_eligible)
        text = f"{first} {join} {second} ON {self.condition(first, second, roles)}"
        for each in others:
            near = second if self.chance(0.5) else first
            text += f" {self.rng.choice(CHAINED)} {each} ON {self.condition(near, each, roles)}"
        seen = reads[ONE_SIDED.get(join, slice(None))]
        return Joined(text + self.where(seen, chance=chance), seen, columns(seen[0], roles), is_eligible)


def columns(read: Read, roles: Sequence[str]) -> tuple[str, ...]:
    """The columns of a table in these roles."""
    return tuple(read.column(role) for role in roles)


def ids(joined: Joined) -> str:
    """The ids of all tables, which tell any two rows apart."""
    return ", ".join(each.column("id") for each in joined.reads)


def direction(draw: Draw) -> str:
    """How ORDER BY goes through a column."""
    return draw.rng.choice(("", "DESC", "ASC NULLS FIRST", "DESC NULLS LAST"))


def _is_float(key: str) -> bool:
    """Whether a key may be 0.0 or -0.0: which of them DataFusion takes for the first differs from run to run of the plain plan."""
    return key.endswith(".f")


def ordering(key: str) -> Compared:
    """How the rows of a query in the order of a key are compared."""
    return Compared.AS_SET if _is_float(key) else Compared.IN_ORDER


def limit(draw: Draw, key: str) -> str:
    """Maybe the first rows alone, in the order of a key."""
    if _is_float(key):
        return ""
    offset = f" OFFSET {draw.rng.randrange(5)}" if draw.chance(0.4) else ""
    return f" LIMIT {draw.rng.choice((0, 1, 3, 10))}{offset}" if draw.chance(0.6) else ""


def aggregates(draw: Draw, read: Read) -> str:
    """Some aggregates of a table's columns."""
    v, s = read.column("v"), read.column("s")
    known = [
        "count(*) AS rows",
        f"count({s})",
        f"sum({v}) AS total",
        f"min({s})",
        f"max({read.column('d')})",
        f"avg({v})",
    ]
    known += [f"count(DISTINCT {v})", f"sum({v}) FILTER (WHERE {v} > 2)", f'max({read.column("ts")}) AS "Last"']
    return ", ".join(draw.rng.sample(known, draw.rng.choice((1, 2, 3))))
