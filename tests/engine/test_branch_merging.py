"""Random changes of rows, columns and specs on a branch and on main: what is published is what a model makes of both, or it is refused."""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.errors import SerializationFailure

from tests.selection import IS_FULL
from tests.stock import manifest_rows

pytestmark = pytest.mark.slow  # random walks

SEEDS = range(300 if IS_FULL else 10)
VALUES = ("a", "b", "c", "d")
Key = tuple[int, Any]
"""A partition table: the number of its spec, and the value that its rows share there."""


@dataclass
class Column:
    """A column: its name, its type in SQL, and what rows have that say nothing."""

    name: str
    kind: str
    default: int | None = None


@dataclass
class Side:
    """A branch as it should be: columns by their origin, rows by their ids with their table, specs by number, and what it changed."""

    reference: str
    columns: dict[str, Column]
    rows: dict[int, tuple[Key, dict[str, Any]]] = field(default_factory=dict)
    specs: dict[int, str | None] = field(default_factory=lambda: {1: "p"})
    touched: set[Key] = field(default_factory=set)

    def key(self, row: dict[str, Any]) -> Key:
        number = max(self.specs)
        source = self.specs[number]
        return number, None if source is None else row[source]

    def put(self, number: int, row: dict[str, Any]) -> None:
        """Store a row anew: where it lay, and where it lies now, changes."""
        if number in self.rows:
            self.touched.add(self.rows[number][0])
        key = self.key(row)
        self.rows[number] = key, row
        self.touched.add(key)

    def shown(self) -> list[dict[str, Any]]:
        return [{c.name: row[o] for o, c in self.columns.items()} for _, (_, row) in sorted(self.rows.items())]


class Twins:
    """A table with a branch, and the statements that change both, beside their models."""

    def __init__(self, place: Path, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - tests
        self.engine = Engine(Root(Store(str(place))), target_partitions=2)
        self.place = place / "t"
        self.numbers, self.names = count(1), count(1)
        self.engine.update("CREATE TABLE t (id BIGINT, p VARCHAR, v INT) PARTITIONED BY (p)")
        columns = {"id": Column("id", "BIGINT"), "p": Column("p", "VARCHAR"), "v": Column("v", "INT")}
        self.main = Side("t", columns)
        for value in VALUES[:3] * 2:
            self.insert(self.main, value)
        self.main.touched = set()
        self.engine.update("ALTER TABLE t CREATE BRANCH b")
        self.base = deepcopy(self.main)
        self.branch = deepcopy(self.main)
        self.branch.reference = '"t@b"'

    def insert(self, side: Side, value: str) -> None:
        number = next(self.numbers)
        row = {origin: column.default for origin, column in side.columns.items()}
        row |= {"id": number, "p": value, "v": self.chance.randrange(3)}
        literals = ", ".join("NULL" if x is None else repr(x) for x in row.values())
        self.engine.update(f"INSERT INTO {side.reference} VALUES ({literals})")
        side.put(number, row)

    def change_rows(self, side: Side) -> None:
        value = self.chance.choice(VALUES)
        found = {number: row for number, (_, row) in side.rows.items() if row["p"] == value}
        match self.chance.choice(["insert", "update", "delete"]):
            case "insert":
                self.insert(side, value)
            case "update":
                name = side.columns["v"].name
                self.engine.update(f"UPDATE {side.reference} SET {name} = {name} + 1 WHERE p = '{value}'")
                for number, row in found.items():
                    side.put(number, row | {"v": row["v"] + 1})
            case _:
                self.engine.update(f"DELETE FROM {side.reference} WHERE p = '{value}'")
                for number in found:
                    side.touched.add(side.rows.pop(number)[0])

    def change_columns(self, side: Side) -> None:
        extra = [origin for origin in side.columns if origin not in {"id", "p", "v"}]
        how = self.chance.choice(["add", "add", "rename", "widen", "drop", "spec"])
        alter = f"ALTER TABLE {side.reference}"
        if how == "add":
            name = f"c{self.chance.randrange(6)}"
            default = self.chance.choice([None, 7])
            if name not in [column.name for column in side.columns.values()]:
                words = "" if default is None else f" DEFAULT {default}"
                self.engine.update(f"{alter} ADD COLUMN {name} INT{words}")
                origin = f"new {next(self.names)}"
                side.columns[origin] = Column(name, "INT", default)
                side.rows = {n: (key, row | {origin: default}) for n, (key, row) in side.rows.items()}
        elif how == "rename":
            origin, name = self.chance.choice(["v", *extra]), f"r{next(self.names)}"
            self.engine.update(f"{alter} RENAME COLUMN {side.columns[origin].name} TO {name}")
            side.columns[origin].name = name
        elif how == "widen":
            origin = self.chance.choice(["v", *extra])
            self.engine.update(f"{alter} ALTER COLUMN {side.columns[origin].name} TYPE BIGINT")
            side.columns[origin].kind = "BIGINT"
        elif how == "drop" and extra:
            origin = self.chance.choice(extra)
            self.engine.update(f"{alter} DROP COLUMN {side.columns.pop(origin).name}")
        elif how == "spec":
            source = self.chance.choice(["p", "v", None])
            if source != side.specs[max(side.specs)]:
                fields = "" if source is None else side.columns[source].name
                self.engine.update(f"{alter} SET PARTITIONED BY ({fields})")
                side.specs[max(side.specs) + 1] = source

    def merged(self) -> Side | None:
        """What main should be after the publication; None where both have changed the same."""
        base, main, branch = self.base, self.main, self.branch
        found = deepcopy(main)
        for origin in {**base.columns, **branch.columns}:
            old, here, there = (side.columns.get(origin) for side in (base, main, branch))
            if here != there and old not in (here, there):
                return None
            if there is None and old == here:
                found.columns.pop(origin, None)
            elif there is not None and (old == here):
                found.columns[origin] = deepcopy(there)
        names = [column.name for column in found.columns.values()]
        new = [set(side.specs) - set(base.specs) for side in (main, branch)]
        if len(set(names)) != len(names) or all(new) or main.touched & branch.touched:
            return None
        found.specs |= branch.specs
        kept = {n: each for n, each in main.rows.items() if each[0] not in branch.touched}
        taken = {n: each for n, each in branch.rows.items() if each[0] in branch.touched}
        unsaid = {origin: column.default for origin, column in found.columns.items()}
        found.rows = {n: (key, {o: row.get(o, unsaid[o]) for o in unsaid}) for n, (key, row) in (kept | taken).items()}
        return found


def shown(engine: Engine, reference: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = engine.query(f"SELECT * FROM {reference} ORDER BY id").to_pylist()
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_publication_is_what_the_model_makes_of_both_sides(tmp_path: Path, seed: int) -> None:
    twins = Twins(tmp_path, seed)
    for _ in range(3):
        for side in (twins.branch, twins.main):
            for _ in range(twins.chance.randint(0, 2)):
                twins.chance.choice([twins.change_rows, twins.change_columns])(side)
        assert shown(twins.engine, "t") == twins.main.shown()
        assert shown(twins.engine, '"t@b"') == twins.branch.shown()
    expected, before = twins.merged(), manifest_rows(twins.place)
    if expected is None:
        with pytest.raises(SerializationFailure, match="cannot be published"):
            twins.engine.update("ALTER TABLE t PUBLISH BRANCH b")
        assert manifest_rows(twins.place) == before
        return
    twins.engine.update("ALTER TABLE t PUBLISH BRANCH b")
    assert shown(twins.engine, "t") == expected.shown()
    assert shown(twins.engine, '"t@b"') == twins.branch.shown()
    for origin, column in expected.columns.items():
        values = {row[column.name] for row in expected.shown()}
        for value in values - {None}:
            found = twins.engine.query(f"SELECT id FROM t WHERE {column.name} = {value!r} ORDER BY id")[
                "id"
            ].to_pylist()
            assert found == [n for n, (_, row) in sorted(expected.rows.items()) if row[origin] == value]
    twins.main, twins.branch = expected, deepcopy(twins.branch)
    twins.insert(twins.main, "a")
    assert shown(twins.engine, "t") == twins.main.shown()
