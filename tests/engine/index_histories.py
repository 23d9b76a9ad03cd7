"""A table with an index of every kind, and the same table in DuckDB: random changes and maintenance of both."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from tests.engine.database import Database

TEXTS = ["'a'", "'b'", "'c'", "'old'", "NULL"]
NUMBERS = ["0", "1", "5", "30", "NULL"]
BODIES = ["'lance arrow'", "'arrow flight'", "'lance'", "'open table'", "''", "NULL"]
TAGS = ["['x']", "['x', 'y']", "['y', NULL]", "['z']", "[]", "NULL"]

OF_VALUES = ("btree", "bitmap", "zonemap", "bloomfilter")
# Column → its type, the kind and options of its index, and the values that are stored.
INDEXED = {
    **{f"t_{kind}": ("VARCHAR", kind, "", TEXTS) for kind in OF_VALUES},
    **{f"n_{kind}": ("INT", kind, "", NUMBERS) for kind in OF_VALUES},
    "tags": ("VARCHAR[]", "label_list", "", TAGS),
    "body": ("VARCHAR", "ngram", "", BODIES),
    "words": ("VARCHAR", "inverted", ", stem = false, remove_stop_words = false", BODIES),
    "v": ("FLOAT[2]", "ivf_flat", ", num_partitions = 1, metric = 'l2'", []),
}
PARTS = ["'p'", "'q'", "NULL"]
WORDS = ("lance", "arrow", "flight", "nothing")
KEPT = 40
"""Rows at the beginning."""


def _conditions() -> Iterator[str]:
    for name, (kind, _, _, values) in INDEXED.items():
        if name.startswith(("t_", "n_")):
            one, other, last = ("'a'", "'old'", "'zz'") if kind == "VARCHAR" else ("1", "5", "77")
            yield from (f"{name} {sign} {one}" for sign in ("=", "<>", "<", "<=", ">", ">="))
            yield from (f"{name} IN ({one}, {last})", f"{name} NOT IN ({one}, {last})", f"{name} IN ({last}, NULL)")
            yield from (f"{name} IS NULL", f"{name} IS NOT NULL", f"NOT ({name} = {other})", f"{name} = {last}")
            yield from (f"{name} BETWEEN {one} AND {other}", f"{name} NOT BETWEEN {one} AND {other}")
            yield from (f"{name} = {other} OR {name} IS NULL", f"{name} = {other} AND x > 3")
            yield from (f"{name} = {other} AND tags IS NOT NULL", f"{name} <> {other} OR x = 2")
        assert values or name == "v"
    yield from ("t_btree LIKE 'o%'", "t_bitmap LIKE 'o%'", "starts_with(t_zonemap, 'o')")
    yield from ("array_has(tags, 'x')", "NOT array_has(tags, 'x')", "array_has_any(tags, ['x', 'z'])")
    yield from ("array_has_all(tags, ['x', 'y'])", "array_has(tags, 'nothing')", "tags IS NULL", "tags IS NOT NULL")
    yield from ("contains(body, 'lance')", "NOT contains(body, 'lance')", "body LIKE '%arrow%'", "body = 'lance'")


CONDITIONS = tuple(_conditions())


@dataclass
class History:
    """One table with its mirror in DuckDB, and what was done to it."""

    database: Database
    chance: random.Random
    name: str
    has_parts: bool
    has_stable_ids: bool
    mirror: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)
    done: list[str] = field(default_factory=list)
    branches: list[str] = field(default_factory=list)
    next_id: int = 0

    def begin(self) -> None:
        """Create the table with its rows and its indices."""
        columns = ", ".join(
            ["id BIGINT", "part VARCHAR", "x INT", *(f"{name} {each[0]}" for name, each in INDEXED.items())]
        )
        layout = " PARTITIONED BY (part)" * self.has_parts
        self.database.run(f"CREATE TABLE {self.name} ({columns}){layout} WITH (stable_row_ids = {self.has_stable_ids})")
        self.mirror.execute(f"CREATE TABLE {self.name} ({columns})")
        self.insert(self.name, KEPT)
        for name, (_, kind, options, _) in INDEXED.items():
            self.database.run(
                f"CREATE INDEX {name}_idx ON {self.name} ({name}) USING {kind} WITH (min_rows = 1{options})"
            )

    # Changes, of the table or of one of its branches.

    def insert(self, on: str, most: int = 6) -> None:
        rows = ", ".join(self._row() for _ in range(most))
        self._change(on, f"INSERT INTO {{}} VALUES {rows}")

    def update(self, on: str) -> None:
        names = self.chance.sample([*INDEXED, "x", "part"], self.chance.randint(1, 4))
        changes = ", ".join(f"{name} = {self._value(name)}" for name in names)
        self._change(on, f"UPDATE {{}} SET {changes} WHERE {self._some()}")

    def update_all_indexed(self, on: str) -> None:
        changes = ", ".join(f"{name} = {self._value(name)}" for name in INDEXED)
        self._change(on, f"UPDATE {{}} SET {changes} WHERE {self._some()}")

    def delete(self, on: str) -> None:
        self._change(on, f"DELETE FROM {{}} WHERE ({self._some()}) AND x <> {self.chance.randrange(9)}")

    def merge(self, on: str) -> None:
        known = self.chance.sample(range(self.next_id), 4)
        source = ", ".join(f"({number}, {self._value('t_bitmap')})" for number in [*known, self.next_id])
        self.next_id += 1
        self._change(
            on,
            f"MERGE INTO {{}} AS t USING (VALUES {source}) AS s (k, c) ON t.id = s.k WHEN MATCHED AND t.x = 1 THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET t_bitmap = s.c, t_btree = s.c, tags = ['x'], words = 'lance', v = [3, 3]"
            " WHEN NOT MATCHED THEN INSERT (id, part, x, t_bitmap) VALUES (s.k, 'p', 4, s.c)",
        )

    # Maintenance, which changes no row.

    def compact(self, on: str) -> None:
        self._maintain(f"ALTER TABLE {quoted(on)} COMPACT")

    def reindex(self, on: str) -> None:
        self._maintain(f"REINDEX {quoted(on)}")

    def vacuum(self, on: str) -> None:
        self._maintain(f"VACUUM {quoted(on)} RETAIN 0 HOURS FORCE")

    def rebuild_index(self, on: str) -> None:
        name = self.chance.choice(list(INDEXED))
        _, kind, options, _ = INDEXED[name]
        self._maintain(f"DROP INDEX {name}_idx ON {quoted(on)}")
        self._maintain(f"CREATE INDEX {name}_idx ON {quoted(on)} ({name}) USING {kind} WITH (min_rows = 1{options})")

    def branch(self, on: str) -> None:
        if not self.has_parts or self.branches:
            return
        self._maintain(f"ALTER TABLE {self.name} CREATE BRANCH b")
        self.branches.append(f"{self.name}@b")
        self.mirror.execute(f'CREATE TABLE "{self.name}@b" AS SELECT * FROM {self.name}')

    def step(self) -> str:
        """Do something by chance, and return the table or branch that it was done to."""
        on = self.chance.choice([self.name, *self.branches])
        self.chance.choice(STEPS)(self, on)
        return on

    # What is the same whatever the indices are.

    def check(self, on: str, conditions: Sequence[str]) -> None:
        """Check the rows, the conditions and the searches of a table or branch."""
        told = f"{on} after {self.done}"
        columns = f"id, part, x, {', '.join(INDEXED)}"
        assert self._counted(f"SELECT {columns} FROM {quoted(on)}") == self._mirrored(
            f"SELECT {columns} FROM {quoted(on)}"
        ), told
        for condition in conditions:
            sql = f"SELECT id FROM {quoted(on)} WHERE {condition}"
            assert self._counted(sql) == self._mirrored(sql), f"{condition} of {told}"
        for word in WORDS:
            found = self._counted(f"SELECT id FROM full_text_search('{on}', 'words', '{word}', k => 10000)")
            expected = self._mirrored(
                f"SELECT id FROM {quoted(on)} WHERE array_has(string_split(words, ' '), '{word}')"
            )
            assert found == expected, f"{word} of {told}"
        distances = self.database.rows(f"SELECT _distance FROM vector_search('{on}', 'v', [3.0, 3.0], k => 12)")
        nearest = f"SELECT (v[1] - 3) * (v[1] - 3) + (v[2] - 3) * (v[2] - 3) AS d FROM {quoted(on)} WHERE v IS NOT NULL"
        assert distances == self.mirror.execute(f"{nearest} ORDER BY d LIMIT 12").fetchall(), told

    def _change(self, on: str, statement: str) -> None:
        sql = statement.format(quoted(on))
        self.done.append(sql)
        expected = self.mirror.execute(sql).fetchall()
        assert self.database.run(sql) == expected[0][0], f"{on} after {self.done}"

    def _maintain(self, sql: str) -> None:
        self.done.append(sql)
        self.database.query(sql)

    def _counted(self, sql: str) -> Counter[str]:
        return Counter(map(repr, map(_plain, self.database.rows(sql))))

    def _mirrored(self, sql: str) -> Counter[str]:
        return Counter(map(repr, map(_plain, self.mirror.execute(sql).fetchall())))

    def _some(self) -> str:
        """Return a condition of few rows, often one that an index answers."""
        if self.chance.random() < 0.5:
            return self.chance.choice(CONDITIONS) + f" AND id % 4 = {self.chance.randrange(4)}"
        return f"id % 11 IN ({self.chance.randrange(11)}, {self.chance.randrange(11)})"

    def _row(self) -> str:
        number, self.next_id = self.next_id, self.next_id + 1
        values = [str(number), self._value("part"), self._value("x"), *map(self._value, INDEXED)]
        return f"({', '.join(values)})"

    def _value(self, name: str) -> str:
        if name == "x":
            return str(self.chance.randrange(9))
        if name == "v":
            return f"[{self.chance.randrange(9)}, {self.chance.randrange(9)}]"
        return self.chance.choice(PARTS if name == "part" else INDEXED[name][3])


STEPS: Sequence[Callable[[History, str], None]] = (
    *(History.insert, History.update, History.update, History.update_all_indexed, History.delete, History.merge),
    *(History.compact, History.reindex, History.reindex, History.reindex, History.vacuum, History.rebuild_index),
    History.branch,
)


def quoted(name: str) -> str:
    return f'"{name}"'


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(list(value) if isinstance(value, tuple) else value for value in row)
