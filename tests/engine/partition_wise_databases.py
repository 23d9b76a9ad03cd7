"""Small random databases for queries that may be run by partitions: tables of one shape, laid out in many ways.

Which tables can be matched by which columns is known here by construction, without a look at the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

BUCKETS = (4, 4, 8, 16, 6)
POOLS: dict[str, tuple[str, ...]] = {
    "k": ("0", "1", "3", "-1", "7", "10", "2", "19", "-11", "20", "25", "1000"),
    "s": ("''", "'a'", "'ab'", "'abc'", "'b'", "'B'", "'é'", "'zz'"),
    "d": ("'2024-01-01'", "'2024-01-15'", "'1969-12-31'", "'2023-01-31'", "'2024-02-29'", "'2025-01-15'", "'2025-12-31'"),
    "ts": ("'2024-01-01 00:00:00'", "'2024-01-01 10:30:00'", "'1969-12-31 23:00:00'", "'2024-02-01 10:30:00'"),
    "f": ("0.0", "-0.0", "1.5", "CAST('NaN' AS DOUBLE)", "-2.5", "12.25"),
    "n": ("0.00", "-14.20", "3.50", "10.00", "99.99"),
}  # fmt: skip
"""The columns that may be keys, and literals of their values; the first ones come more often than the last ones."""

ROLES = tuple(POOLS)
THEMES = ("k", "k", "k", "s", "s", "d", "d", "ts", "f", "n")
KINDS = {
    "id": ("BIGINT",),
    "k": ("BIGINT", "BIGINT", "INTEGER", "SMALLINT"),
    "s": ("VARCHAR",),
    "d": ("DATE",),
    "ts": ("TIMESTAMP",),
    "f": ("DOUBLE", "DOUBLE", "DOUBLE", "FLOAT"),
    "n": ("DECIMAL(9, 2)", "DECIMAL(9, 2)", "DECIMAL(12, 2)"),
    "v": ("INTEGER",),
}


@dataclass(frozen=True, slots=True)
class Field:
    """A partition field: `rule` (with its number, if it has one) of the columns in these roles."""

    rule: str
    roles: tuple[str, ...]
    number: int = 0

    def sql(self, columns: dict[str, str]) -> str:
        """As CREATE TABLE has it."""
        names = ", ".join(columns[role] for role in self.roles)
        match self.rule:
            case "identity":
                return names
            case "expr":
                return f"expr('col0 % 3', {names}) AS third"
            case _:
                return f"{self.rule}({self.number}, {names})" if self.number else f"{self.rule}({names})"

    def gives(self, other: Field) -> bool:
        """Whether its values say what another one's are."""
        if self.roles != other.roles:
            return False
        buckets = self.rule == other.rule == "bucket" and self.number % other.number == 0
        return self == other or self.rule == "identity" or buckets


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table: its columns by role, and the fields of each of its spec versions; none if it is not partitioned."""

    name: str
    columns: dict[str, str]
    specs: tuple[tuple[Field, ...], ...] = ()
    size: int = 0

    def gives(self, wanted: Field) -> bool:
        """Whether the partition values of all versions say what a field's are."""
        return bool(self.specs) and all(any(each.gives(wanted) for each in spec) for spec in self.specs)

    def fields(self, role: str) -> set[Field]:
        """The fields of one column alone, of all versions."""
        return {each for spec in self.specs for each in spec if each.roles == (role,)}


@dataclass(slots=True)
class Database:
    """Tables, and the statements that make them."""

    seed: int
    theme: tuple[str, ...]
    tables: list[Table] = field(default_factory=list)
    ddl: list[str] = field(default_factory=list)

    @property
    def schemas(self) -> set[str]:
        """The schemas beside `public`."""
        return {schema for table in self.tables for schema in [table.name.rpartition(".")[0]] if schema}

    @property
    def partitioned(self) -> list[Table]:
        """The tables with partitions."""
        return [table for table in self.tables if table.specs]


def matched(tables: Sequence[Table], role: str) -> bool:
    """Whether the partitions of tables can be matched by a column."""
    offered = {each for table in tables for each in table.fields(role) if each.rule != "expr"}
    return any(all(table.gives(each) for table in tables) for each in offered)


def database(seed: int) -> Database:
    """The database of a seed."""
    rng = Random(seed)  # noqa: S311 - it is to be the same each time
    made = Database(seed, tuple(dict.fromkeys(rng.choices(THEMES, k=rng.choice((1, 1, 2))))))
    for number in range(rng.choice((3, 4))):
        _add(made, rng, f"t{number}")
    _add(made, rng, 'sales."Orders"')
    _add(made, rng, "p", is_plain=True)
    _add(made, rng, "dim", is_plain=True, most=4)
    return made


def _add(made: Database, rng: Random, name: str, *, is_plain: bool = False, most: int = 40) -> None:
    """One table with its rows, and what happened to it since."""
    columns = {role: role for role in KINDS}
    if rng.random() < 0.3:
        columns |= {"k": '"Key Id"', "v": '"V"'}
    declared = ", ".join(f"{column} {rng.choice(KINDS[role])}" for role, column in columns.items())
    table = Table(name=name, columns=columns, specs=() if is_plain else (spec(rng, made.theme),))
    made.ddl.append(f"CREATE TABLE {name} ({declared})" + _partitioned_by(table))
    table = _inserted(made, rng, table, rng.choice((0, 3, most // 2, most, most)))
    if table.specs and rng.random() < 0.35:
        later = spec(rng, made.theme)
        if later != table.specs[0]:
            made.ddl.append(f"ALTER TABLE {name} SET{_partitioned_by(replace(table, specs=(later,)))}")
            # A version without tables says nothing of any row.
            table = replace(table, specs=(*(table.specs if table.size else ()), later))
            table = _inserted(made, rng, table, rng.choice((2, most // 2)))
    for _ in range(rng.choice((0, 0, 1, 2))):
        made.ddl.append(_change(rng, table))
    made.tables.append(table)


def _partitioned_by(table: Table) -> str:
    fields = ", ".join(each.sql(table.columns) for spec in table.specs for each in spec)
    return f" PARTITIONED BY ({fields})" if fields else ""


def _inserted(made: Database, rng: Random, table: Table, rows: int) -> Table:
    if rows:
        # Each table has ids of its own.
        first = 1000 * len(made.tables) + table.size
        some = ", ".join(_row(rng, first + number) for number in range(rows))
        made.ddl.append(f"INSERT INTO {table.name} VALUES {some}")
    return replace(table, size=table.size + rows)


def _row(rng: Random, number: int) -> str:
    values = ["NULL" if rng.random() < 0.12 else pool[int(len(pool) * rng.random() ** 1.6)] for pool in POOLS.values()]
    return f"({', '.join([str(number), *values, rng.choice(('NULL', *map(str, range(6))))])})"


def _change(rng: Random, table: Table) -> str:
    column, value = one(rng, table)
    if rng.random() < 0.75:
        where = rng.choice((f"{column} = {value}", f"{column} = {value}", f"{column} > {value}", f"{column} IS NULL"))
        return f"DELETE FROM {table.name} WHERE {where}"
    return f"UPDATE {table.name} SET {column} = {value} WHERE {table.columns['v']} = {rng.randrange(6)}"


def one(rng: Random, table: Table) -> tuple[str, str]:
    """A column that may be a key, and one of its values."""
    role = rng.choice(ROLES)
    return table.columns[role], rng.choice(POOLS[role])


def spec(rng: Random, theme: Sequence[str]) -> tuple[Field, ...]:
    """The fields of a table: mostly of the columns that are the theme of the database."""
    fields = [each for role in theme if rng.random() < 0.9 for each in _of(rng, role)]
    if rng.random() < 0.15 or not fields:
        fields += rng.choice(
            [
                [Field("multi_bucket", ("k", "s"), 4)],
                [Field("expr", ("k",))],
                [Field("identity", ("v",))],
                [Field("bucket", ("s",), 2)],
                [Field("bucket", ("k",), 4), Field("bucket", ("v",), 4)],
            ]
        )
    return tuple(dict.fromkeys(fields))


def _of(rng: Random, role: str) -> list[Field]:
    draw = rng.random()
    if role in {"d", "ts"} and draw < 0.8:
        parts = ("year", "month", "day", "hour")[: 3 if role == "d" else 4]
        return [Field(each, (role,)) for each in parts[: rng.choice((1, 2, 2, 3, 4))]]
    if draw < 0.6:
        return [Field("bucket", (role,), rng.choice(BUCKETS))]
    if role in {"k", "s"} and draw < 0.75:
        return [Field("truncate", (role,), 10 if role == "k" else 1)]
    return [Field("identity", (role,))]
