"""Random namespaces of physically odd partition tables answer and change like the same rows in one table of memory."""

from __future__ import annotations

import os
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
from lance_flight.engine.functions import evaluate, session_config

from tests.engine.odd_tables import COLUMNS, SCHEMA, draw

RUNS = 300 if os.environ.get("LANCE_FLIGHT_TESTS") == "full" else 12
STEPS = 4
NAMES = ", ".join(SCHEMA.names)


class Oracle:
    """The rows in memory, changed by queries."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.columns: list[str] = []
        """Those that were added, with what they are computed by."""

    def query(self, sql: str) -> pa.Table:
        context = SessionContext(session_config())
        context.register_record_batches(
            "t", [self.rows.to_batches() or [pa.RecordBatch.from_pylist([], self.rows.schema)]]
        )
        return context.sql(sql).to_arrow_table()

    def replace(self, sql: str) -> None:
        self.rows = self.query(sql).cast(self.rows.schema)


def listed(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def condition(chance: Random) -> str:
    found = [chance.choice(chance.choice(COLUMNS).conditions) for _ in range(chance.choice([1, 1, 2, 3]))]
    text = f" {chance.choice(['AND', 'OR'])} ".join(f"({each})" for each in found)
    return f"NOT ({text})" if chance.random() < 0.1 else text


def queries(chance: Random) -> list[str]:
    where, column = condition(chance), chance.choice(COLUMNS).name
    return [
        f"SELECT {NAMES} FROM t WHERE {where}",
        f"SELECT id FROM t WHERE {where}",
        f"SELECT count(*) AS how_many FROM t WHERE {where}",
        f"SELECT {column}, count(*) AS how_many, min(id) AS least FROM t WHERE {where} GROUP BY {column}",
        "SELECT a.id, b.id AS other FROM t a JOIN t b ON a.p = b.p AND a.id < b.id WHERE a.n > 0",
        f"SELECT DISTINCT p, date_part('year', d) AS y FROM t WHERE {where}",
    ]


Change = Callable[[Engine, Oracle, Random], None]


def insert(engine: Engine, oracle: Oracle, chance: Random) -> None:
    where = condition(chance)
    engine.update(f"INSERT INTO t ({NAMES}) SELECT id + 1000, {NAMES[4:]} FROM t WHERE {where}")
    oracle.rows = pa.concat_tables(
        [
            oracle.rows,
            oracle.query(f"SELECT id + 1000 AS id, {NAMES[4:]} FROM t WHERE {where}").cast(oracle.rows.schema),
        ]
    )


def update(engine: Engine, oracle: Oracle, chance: Random) -> None:
    column, where = chance.choice(COLUMNS), condition(chance)
    value = chance.choice(column.updates)
    engine.update(f"UPDATE t SET {column.name} = {value} WHERE {where}")
    others = ", ".join(
        f"CASE WHEN {where} THEN {value} ELSE {name} END AS {name}" if name == column.name else name
        for name in SCHEMA.names
    )
    oracle.replace(f"SELECT {others} FROM t")


def delete(engine: Engine, oracle: Oracle, chance: Random) -> None:
    where = condition(chance)
    engine.update(f"DELETE FROM t WHERE {where}")
    oracle.replace(f"SELECT * FROM t WHERE NOT coalesce({where}, false)")


def merge(engine: Engine, oracle: Oracle, chance: Random) -> None:
    column = chance.choice([each for each in COLUMNS if each.name in {"p", "word"}]).name
    engine.update(
        f"MERGE INTO t USING (SELECT DISTINCT id, 'm' AS v FROM t WHERE id % 3 = 0) s ON t.id = s.id"
        f" WHEN MATCHED THEN UPDATE SET {column} = s.v"
    )
    changed = ", ".join(
        f"CASE WHEN id % 3 = 0 THEN 'm' ELSE {n} END AS {n}" if n == column else n for n in SCHEMA.names
    )
    oracle.replace(f"SELECT {changed} FROM t")


def maintain(*statements: str) -> Change:
    def run(engine: Engine, _: Oracle, __: Random) -> None:
        for sql in statements:
            engine.query(sql) if sql.startswith("ALTER TABLE t COMPACT") or "REWRITE" in sql else engine.update(sql)

    return run


def evolve(engine: Engine, oracle: Oracle, chance: Random) -> None:
    """A column that is computed of others, and taken away again."""
    source = chance.choice(["upper(p)", "s['x']", "n * 2"])
    kind = "VARCHAR" if source == "upper(p)" else "INT" if source == "s['x']" else "BIGINT"
    engine.update(f"ALTER TABLE t ADD COLUMN made {kind} AS ({source})")
    found = engine.query("SELECT id, made FROM t")
    assert listed(found) == listed(oracle.query(f"SELECT id, {source} AS made FROM t"))
    engine.update("ALTER TABLE t DROP COLUMN made")


CHANGES: list[Change] = [
    insert,
    insert,
    update,
    update,
    delete,
    merge,
    evolve,
    maintain("ALTER TABLE t COMPACT"),
    maintain("ALTER TABLE t SET PARTITIONED BY (bucket(3, id))", "ALTER TABLE t REWRITE PARTITIONS"),
    maintain("ALTER TABLE t SET PARTITIONED BY (truncate(1, p), n)"),
    maintain("CREATE INDEX IF NOT EXISTS by_p ON t (p)", "CREATE INDEX IF NOT EXISTS by_n ON t (n)"),
]


def check(engines: list[Engine], oracle: Oracle, chance: Random) -> None:
    for sql in (f"SELECT {NAMES} FROM t", *chance.sample(queries(chance), 3)):
        expected = listed(oracle.query(sql))
        for engine in engines:
            assert listed(engine.query(sql)) == expected, sql


@pytest.mark.parametrize("seed", range(RUNS))
def test_odd_tables_are_like_one_of_memory(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - to be drawn again
    drawn = draw(tmp_path, chance)
    engines = [Engine(Root(Store(str(tmp_path))), ways=ways) for ways in (1, 3)]
    oracle = Oracle(pa.Table.from_pylist(drawn.rows, schema=SCHEMA))
    check(engines, oracle, chance)
    for _ in range(STEPS):
        change = chance.choice(CHANGES)
        change(engines[0], oracle, chance)
        check(engines, oracle, chance)
    report = verify(PartitionedNamespace.open(Store(str(tmp_path / "t"))), evaluate)
    assert [str(table) for table in report.tables if not table.is_sound] == []
