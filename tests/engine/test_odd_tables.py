"""Random namespaces of physically odd partition tables answer and change like the same rows in one table of memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from datafusion import SessionContext
from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.sql.functions import evaluate, session_config

from tests.engine.odd_columns import PARTS
from tests.engine.odd_tables import Drawn, draw, table_of
from tests.selection import IS_FULL

pytestmark = pytest.mark.slow  # a long property

RUNS = 300 if IS_FULL else 3
STEPS = 4


class Oracle:
    """The rows in memory, changed by queries."""

    def __init__(self, drawn: Drawn) -> None:
        self.rows = table_of(drawn.rows, drawn.schema)
        self.columns = drawn.columns
        self.names = ", ".join(drawn.schema.names)

    @property
    def zoned(self) -> list[str]:
        """The columns of time zones."""
        return [each.name for each in self.columns if pa.types.is_timestamp(each.type)]

    def query(self, sql: str) -> pa.Table:
        context = SessionContext(session_config())
        context.register_record_batches(
            "t", [self.rows.to_batches() or [pa.RecordBatch.from_pylist([], self.rows.schema)]]
        )
        return context.sql(sql).to_arrow_table()

    def replace(self, sql: str) -> None:
        self.rows = table_of(self.query(sql).to_pylist(), self.rows.schema)


def listed(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def condition(oracle: Oracle, chance: Random) -> str:
    found = [chance.choice(chance.choice(oracle.columns).conditions) for _ in range(chance.choice([1, 1, 2, 3]))]
    text = f" {chance.choice(['AND', 'OR'])} ".join(f"({each})" for each in found)
    return f"NOT ({text})" if chance.random() < 0.1 else text


def queries(oracle: Oracle, chance: Random) -> list[str]:
    where, column = condition(oracle, chance), chance.choice(oracle.columns)
    key, zoned = chance.choice([column.name, *column.keys]), chance.choice(oracle.zoned)
    return [
        f"SELECT {oracle.names} FROM t WHERE {where}",
        f"SELECT id FROM t WHERE {where}",
        f"SELECT count(*) AS how_many FROM t WHERE {where}",
        f"SELECT {key} AS k, count(*) AS how_many, min(id) AS least FROM t WHERE {where} GROUP BY {key}",
        "SELECT a.id, b.id AS other FROM t a JOIN t b ON a.p = b.p AND a.id < b.id WHERE a.n > 0",
        "SELECT a.id, b.id AS other FROM t a JOIN t b ON a.s.x = b.s.x AND a.id < b.id WHERE a.s.x > 0",
        f"SELECT a.id, b.id AS other FROM t a JOIN t b ON a.{zoned} = b.{zoned} AND a.id < b.id",
        f"SELECT DISTINCT p, date_part('year', d) AS y FROM t WHERE {where}",
        f"SELECT min({zoned}) AS low, max({zoned}) AS high, count({zoned}) AS known FROM t WHERE {where}",
        f"SELECT s.x AS x, date_part('hour', {zoned}) AS h, count(*) AS how_many FROM t GROUP BY 1, 2",
    ]


Change = Callable[[Engine, Oracle, Random], None]


def insert(engine: Engine, oracle: Oracle, chance: Random) -> None:
    where = condition(oracle, chance)
    engine.update(f"INSERT INTO t ({oracle.names}) SELECT id + 1000, {oracle.names[4:]} FROM t WHERE {where}")
    oracle.rows = pa.concat_tables(
        [
            oracle.rows,
            oracle.query(f"SELECT id + 1000 AS id, {oracle.names[4:]} FROM t WHERE {where}").cast(oracle.rows.schema),
        ]
    )


def update(engine: Engine, oracle: Oracle, chance: Random) -> None:
    column, where = chance.choice(oracle.columns), condition(oracle, chance)
    value = chance.choice(column.updates)
    engine.update(f"UPDATE t SET {column.name} = {value} WHERE {where}")
    others = ", ".join(
        f"CASE WHEN {where} THEN {value} ELSE {name} END AS {name}" if name == column.name else name
        for name in oracle.rows.column_names
    )
    oracle.replace(f"SELECT {others} FROM t")


def delete(engine: Engine, oracle: Oracle, chance: Random) -> None:
    where = condition(oracle, chance)
    engine.update(f"DELETE FROM t WHERE {where}")
    oracle.replace(f"SELECT * FROM t WHERE NOT coalesce({where}, false)")


def merge(engine: Engine, oracle: Oracle, chance: Random) -> None:
    column = chance.choice(["p", "word"])
    engine.update(
        f"MERGE INTO t USING (SELECT DISTINCT id, 'm' AS v FROM t WHERE id % 3 = 0) s ON t.id = s.id"
        f" WHEN MATCHED THEN UPDATE SET {column} = s.v"
    )
    changed = ", ".join(
        f"CASE WHEN id % 3 = 0 THEN 'm' ELSE {n} END AS {n}" if n == column else n for n in oracle.rows.column_names
    )
    oracle.replace(f"SELECT {changed} FROM t")


def maintain(*statements: str) -> Change:
    def run(engine: Engine, _: Oracle, __: Random) -> None:
        for sql in statements:
            engine.query(sql) if sql.startswith("ALTER TABLE t COMPACT") or "REWRITE" in sql else engine.update(sql)

    return run


def evolve(engine: Engine, oracle: Oracle, chance: Random) -> None:
    """A column that is computed of others, and taken away again."""
    hour = f"date_part('hour', {chance.choice(oracle.zoned)})"
    kinds = {"upper(p)": "VARCHAR", "s['x']": "INT", "n * 2": "BIGINT", "deep.a.b": "VARCHAR", hour: "INT"}
    source, kind = chance.choice([*kinds.items()])
    engine.update(f"ALTER TABLE t ADD COLUMN made {kind} AS ({source})")
    found = engine.query("SELECT id, made FROM t")
    assert listed(found) == listed(oracle.query(f"SELECT id, {source} AS made FROM t"))
    engine.update("ALTER TABLE t DROP COLUMN made")


def rename(engine: Engine, oracle: Oracle, chance: Random) -> None:
    """A column or a field inside one is given another name, read, written and deleted from by it, and given its own again."""
    zoned = chance.choice(oracle.zoned)
    path, new, now, before = chance.choice(
        [
            ("s", "u", "u.x = 1 OR u['x'] IS NULL", "s.x = 1 OR s.x IS NULL"),
            ("s.x", "w", "s.w = 1 OR s['w'] IS NULL", "s.x = 1 OR s.x IS NULL"),
            ("deep.a", "w", "deep.w.b = 'u' OR deep.w.c = 2", "deep.a.b = 'u' OR deep.a.c = 2"),
            ("deep.a.b", "w", "deep.a.w >= 'u'", "deep.a.b >= 'u'"),
            (zoned, "w", "date_part('hour', w) IN (0, 1, 23)", f"date_part('hour', {zoned}) IN (0, 1, 23)"),
        ]
    )
    engine.update(f"ALTER TABLE t RENAME COLUMN {path} TO {new}")
    others = ", ".join(new if name == path else name for name in oracle.rows.column_names[1:])
    for sql in ("SELECT id FROM t WHERE {}", "SELECT id + 1 AS i FROM t WHERE NOT ({})"):
        assert listed(engine.query(sql.format(now))) == listed(oracle.query(sql.format(before))), sql.format(now)
    engine.update(f"INSERT INTO t (id, {others}) SELECT id + 5000, {others} FROM t WHERE {now}")
    more = oracle.query(f"SELECT id + 5000 AS id, {oracle.names[4:]} FROM t WHERE {before}").cast(oracle.rows.schema)
    oracle.rows = pa.concat_tables([oracle.rows, more])
    engine.update(f"DELETE FROM t WHERE ({now}) AND id % 4 = 1")
    oracle.replace(f"SELECT * FROM t WHERE NOT coalesce(({before}) AND id % 4 = 1, false)")
    back = ".".join([*path.split(".")[:-1], new])
    engine.update(f"ALTER TABLE t RENAME COLUMN {back} TO {path.rpartition('.')[2]}")


def partition_anew(engine: Engine, oracle: Oracle, chance: Random) -> None:
    zoned = chance.choice(oracle.zoned)
    every = ["s.x", "deep.a.b", "truncate(1, s.y)", zoned, *(f"{part}({zoned})" for part in PARTS)]
    engine.update(f"ALTER TABLE t SET PARTITIONED BY ({', '.join(chance.sample(every, chance.choice([1, 2])))})")
    if chance.random() < 0.5:
        engine.query("ALTER TABLE t REWRITE PARTITIONS")


CHANGES: list[Change] = [
    insert,
    insert,
    update,
    update,
    delete,
    merge,
    evolve,
    rename,
    partition_anew,
    maintain("ALTER TABLE t COMPACT"),
    maintain("ALTER TABLE t SET PARTITIONED BY (bucket(3, id))", "ALTER TABLE t REWRITE PARTITIONS"),
    maintain("ALTER TABLE t SET PARTITIONED BY (truncate(1, p), n)"),
    maintain("CREATE INDEX IF NOT EXISTS by_p ON t (p)", "CREATE INDEX IF NOT EXISTS by_n ON t (n)"),
]


def check(engines: list[Engine], oracle: Oracle, chance: Random) -> None:
    for sql in (f"SELECT {oracle.names} FROM t", *chance.sample(queries(oracle, chance), 3)):
        expected = listed(oracle.query(sql))
        for engine in engines:
            assert listed(engine.query(sql)) == expected, sql


@pytest.mark.parametrize("seed", range(RUNS))
def test_odd_tables_are_like_one_of_memory(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - to be drawn again
    drawn = draw(tmp_path, chance)
    engines = [Engine(Root(Store(str(tmp_path))), target_partitions=target_partitions) for target_partitions in (1, 3)]
    oracle = Oracle(drawn)
    check(engines, oracle, chance)
    for _ in range(STEPS):
        change = chance.choice(CHANGES)
        change(engines[0], oracle, chance)
        check(engines, oracle, chance)
    report = verify(PartitionedNamespace.open(Store(str(tmp_path / "t"))), evaluate)
    assert [str(table) for table in report.tables if not table.is_sound] == []
