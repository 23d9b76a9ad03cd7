"""Random changes leave in tables of any layout what they leave in DuckDB: of rows, beside indices, in transactions, and of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import LanceFlightError

from tests.differential.comparing import comparable, difference, is_explained
from tests.differential.statements import KINDS, NUMBER, TEXT, Relation, Statements
from tests.differential.tables import COLUMNS, Peers, filled
from tests.engine.database import Client
from tests.selection import IS_FULL

pytestmark = pytest.mark.slow  # random changes

SEEDS, STEPS, FILTERS = (range(60), 30, 8) if IS_FULL else (range(2), 10, 4)
# How the table `t` is partitioned, and the later half of its rows.
LAYOUTS = [
    (None, None),
    ("s, d", None),
    ("bucket(3, i), f", "b"),
    ("truncate(10, i), month(d)", None),
    ("year(ts), truncate(1, s)", "j"),
]
INDEXED = {
    "i": "btree",
    "j": "bitmap",
    "s": "bitmap",
    "d": "zonemap",
    "f": "btree",
    "h": "bloomfilter",
    "ts": "zonemap",
}
MAINTENANCE = [
    "ALTER TABLE t COMPACT",
    "REINDEX t",
    "VACUUM t RETAIN 0 HOURS FORCE",
    "DROP INDEX IF EXISTS i_idx ON t",
    "CREATE INDEX IF NOT EXISTS i_idx ON t (i) USING bitmap WITH (min_rows = 1)",
]
# Type of a new column → values of it, the type that it can become, and partition fields over it.
NEW_COLUMNS = {
    "INT": (["NULL", "7", "-3"], "BIGINT", ["{}", "bucket(3, {})", "truncate(10, {})"]),
    "BIGINT": (["NULL", "7", "5000000000"], None, ["{}", "bucket(3, {})", "expr('col0 % 3', {})"]),
    "REAL": (["NULL", "0.5", "-2"], "DOUBLE", ["{}", "bucket(2, {})"]),
    "DOUBLE": (["NULL", "0.5", "-0.0"], None, ["{}"]),
    "VARCHAR": (["NULL", "'a'", "'é'"], None, ["{}", "truncate(1, {})", "expr('upper(col0)', {})"]),
    "DATE": (["NULL", "DATE '2024-02-29'"], None, ["{}", "year({})"]),
}
FIELDS = ["i", "s", "bucket(2, k)", "year(d)", "truncate(10, j)"]
SOURCE = Relation("q", {NUMBER: ["i", "j"], TEXT: ["s"]}, None)
TARGET = Relation("t", KINDS)


class Changes(Statements):
    """Random changes of the table `t`."""

    def change(self) -> str:
        """Return an INSERT, UPDATE, DELETE, TRUNCATE or MERGE."""
        return self._pick(
            *[self._insert] * 3, *[self._update] * 4, *[self._delete] * 2, *[self._merge] * 5, "TRUNCATE t"
        )

    def filter(self) -> str:
        """Return a condition of one or two comparisons, as an index may answer it."""
        with self._level([TARGET]):
            return self._pick(" AND ", " OR ").join(self._comparison(0) for _ in range(self.chance.randint(1, 2)))

    def _insert(self) -> str:
        where = f" WHERE {self._where_of(TARGET)}" if self._happens(0.5) else ""
        columns = ", ".join(["k", *COLUMNS])
        return f"INSERT INTO t ({columns}) SELECT {columns} FROM {self._pick('t', 'u', 'v', 'p')} AS t{where}"

    def _update(self) -> str:
        return f"UPDATE t SET {self._assignments(TARGET)} WHERE {self._where_of(TARGET)}"

    def _delete(self) -> str:
        return f"DELETE FROM t WHERE {self._where_of(TARGET)}"

    def _merge(self) -> str:
        rows = ", ".join(f"({self._value(NUMBER)}, {self._value(NUMBER)}, {self._value(TEXT)})" for _ in range(3))
        source = f"(SELECT CAST(c0 AS BIGINT) AS i, CAST(c1 AS INT) AS j, CAST(c2 AS VARCHAR) AS s FROM (VALUES {rows}) AS v (c0, c1, c2))"
        on = self._pick(
            "t.i = q.i", "t.s = q.s", "t.j = q.j AND t.s IS NOT DISTINCT FROM q.s", "t.i > q.j AND t.k = q.i"
        )
        clauses = [self._clause(is_last=place == 2) for place in range(3)]
        return f"MERGE INTO t USING {source} AS q ON {on} {' '.join(clauses)}"

    def _clause(self, *, is_last: bool) -> str:
        """Return a WHEN of a MERGE, which only as the last one may have no condition."""
        kind, seen = self.chance.choice(
            [("MATCHED", [TARGET, SOURCE])] * 2 + [("NOT MATCHED", [SOURCE]), ("NOT MATCHED BY SOURCE", [TARGET])]
        )
        condition = "" if is_last and self._happens(0.5) else f" AND {self._where_of(*seen)}"
        return f"WHEN {kind}{condition} THEN {self._inserted() if kind == 'NOT MATCHED' else self._done(*seen)}"

    def _inserted(self) -> str:
        return self._pick("INSERT (k, i, s) VALUES (90, q.j, q.s)", "INSERT (i, j, s) VALUES (q.i, q.j, q.s)")

    def _done(self, *seen: Relation) -> str:
        return "DELETE" if self._happens(0.3) else f"UPDATE SET {self._assignments(*seen)}"

    def _assignments(self, *seen: Relation) -> str:
        """Return new values of a few columns, each of its column's type."""
        self._subqueries = 0
        kinds = {column: kind for kind, columns in KINDS.items() for column in columns if column != "k"}
        names = self.chance.sample(list(kinds), self.chance.randint(1, 3))
        with self._level([*seen]):
            values = [self._whole() if name in "ijh" else self.value(kinds[name], 1) for name in names]
        return ", ".join(f"{n} = CAST({value} AS {COLUMNS[n][0]})" for n, value in zip(names, values, strict=True))

    def _where_of(self, *seen: Relation) -> str:
        self._subqueries = 1 if seen == (TARGET,) else 0
        with self._level([*seen]):
            return self.condition(2)

    def _value(self, kind: str) -> str:
        return self._pick(*({NUMBER: ["0", "1", "2", "3", "7", "NULL"], TEXT: ["'a'", "'b'", "NULL"]}[kind]))


@dataclass(frozen=True)
class Twins:
    """The table `t` of an engine, and DuckDB's."""

    peers: Peers
    place: Path

    def change(self, client: Client, sql: str) -> None:
        """Run a change on both; what DuckDB cannot compute, or is refused here for a known reason, is run on neither."""
        peer = self.peers.peer
        peer.begin()
        try:
            count = [number for (number,) in peer.execute(sql).fetchall()]
        except duckdb.Error as error:
            peer.rollback()
            if "more than once" in str(error):
                with pytest.raises(LanceFlightError, match=r"several rows of its|subquery|EXISTS|not partitioned"):
                    client.run(sql)
            return
        found = outcome(client, sql)
        if isinstance(found, LanceFlightError):
            peer.rollback()
            assert is_explained(found), f"{sql}: {found}"
        else:
            peer.commit()
            assert count in ([], [found]), sql

    def check(self, client: Client, told: str) -> list[tuple[Any, ...]]:
        """Check that both have the same rows; return them."""
        found, rows = client.rows("SELECT * FROM t"), self.peers.peer.execute("SELECT * FROM t").fetchall()
        one, other = (Counter(tuple(map(comparable, row)) for row in each) for each in (found, rows))
        assert one == other, told
        return found

    def check_places(self) -> None:
        """Check that each stored row lies in the one table of its partition."""
        if self.place.is_dir():
            report = verify(PartitionedNamespace.open(Store(str(self.place))), evaluate)
            assert [str(table) for table in report.tables if not table.is_sound] == []


def outcome(client: Client, sql: str) -> int | LanceFlightError:
    """Return how many rows a change counts, or its error."""
    try:
        return client.run(sql)
    except LanceFlightError as error:
        return error


@pytest.fixture(params=LAYOUTS, ids=str)
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> Twins:
    tables = {
        "t": (*request.param, 23),
        "u": (None, None, 5),
        "v": (None, None, 3),
        "p": ("s", None, 9),
        "e": (None, None, 0),
    }
    return Twins(filled(tmp_path, tables=tables), tmp_path / "t")


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_leave_what_they_leave_in_duckdb(twins: Twins, seed: int) -> None:
    changes = Changes(f"alone {seed}")
    with twins.peers.database.client() as client:
        for sql in [changes.change() for _ in range(STEPS)]:
            twins.change(client, sql)
            twins.check(client, sql)
    twins.check_places()


@pytest.mark.parametrize("seed", SEEDS)
def test_indices_find_the_rows_that_scans_find(twins: Twins, seed: int) -> None:
    changes = Changes(f"indexed {seed}")
    with twins.peers.database.client() as client:
        for column, kind in INDEXED.items():
            client.run(f"CREATE INDEX {column}_idx ON t ({column}) USING {kind} WITH (min_rows = 1)")
        for _ in range(STEPS):
            twins.change(client, changes.change())
            client.query(changes.chance.choice(MAINTENANCE))
            filters = [f"SELECT k FROM t WHERE {changes.filter()}" for _ in range(FILTERS)]
            found = [difference(twins.peers, sql) for sql in filters]
            assert [each for each in found if each is not None] == []
        twins.check(client, "indexed")


class Evolution(Changes):
    """Random changes of the columns and of the partitioning of `t`, which keeps those that it has from the beginning."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self._added = 0
        self._new: dict[str, str] = {}

    def evolve(self) -> tuple[str, Sequence[str]]:
        """Return a statement, and what does the same in DuckDB."""
        choices = [
            self._add,
            self._add_computed,
            self._set,
            self._partition,
            *[self._rename, self._widen, self._drop] * bool(self._new),
        ]
        return self.chance.choice(choices)()

    def _name(self) -> str:
        self._added += 1
        return self._pick(f"e{self._added}", f'"E {self._added}"')

    def _add(self) -> tuple[str, Sequence[str]]:
        name, kind = self._name(), self.chance.choice(list(NEW_COLUMNS))
        self._new[name] = kind
        value = self.chance.choice(NEW_COLUMNS[kind][0])
        sql = f"ALTER TABLE t ADD COLUMN {name} {kind}" + f" DEFAULT {value}" * (value != "NULL")
        return sql, [sql]

    def _add_computed(self) -> tuple[str, Sequence[str]]:
        name, source = self._name(), self._pick("k", "coalesce(j, 0) + 1", "length(s)", *self._of("BIGINT"))
        self._new[name] = "BIGINT"
        added = f"ALTER TABLE t ADD COLUMN {name} BIGINT"
        return f"{added} AS ({source})", [added, f"UPDATE t SET {name} = {source}"]

    def _set(self) -> tuple[str, Sequence[str]]:
        if not self._new:
            return self._add()
        name = self.chance.choice(list(self._new))
        sql = f"UPDATE t SET {name} = {self.chance.choice(NEW_COLUMNS[self._new[name]][0])} WHERE {self.filter()}"
        return sql, [sql]

    def _rename(self) -> tuple[str, Sequence[str]]:
        old, new = self.chance.choice(list(self._new)), self._name()
        self._new[new] = self._new.pop(old)
        return (sql := f"ALTER TABLE t RENAME COLUMN {old} TO {new}"), [sql]

    def _widen(self) -> tuple[str, Sequence[str]]:
        name = self.chance.choice(list(self._new))
        wider = NEW_COLUMNS[self._new[name]][1]
        if wider is None:
            return self._set()
        self._new[name] = wider
        return (sql := f"ALTER TABLE t ALTER COLUMN {name} TYPE {wider}"), [sql]

    def _drop(self) -> tuple[str, Sequence[str]]:
        name = self.chance.choice(list(self._new))
        del self._new[name]
        return (sql := f"ALTER TABLE t DROP COLUMN {name}"), [sql]

    def _partition(self) -> tuple[str, Sequence[str]]:
        fields = [*FIELDS, *(field.format(name) for name, kind in self._new.items() for field in NEW_COLUMNS[kind][2])]
        some = ", ".join(self.chance.sample(fields, self.chance.randint(0, 2)))
        return self._pick(*[f"ALTER TABLE t SET PARTITIONED BY ({some})"] * 3, "ALTER TABLE t REWRITE PARTITIONS"), []

    def _of(self, kind: str) -> list[str]:
        return [name for name, each in self._new.items() if each == kind]


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_and_partitionings_change_between_changes_of_rows(twins: Twins, seed: int) -> None:
    evolution, peer, history = Evolution(f"evolving {seed}"), twins.peers.peer, {}
    with twins.peers.database.client() as client:
        for _ in range(STEPS):
            sql, others = evolution.evolve()
            if others or twins.place.is_dir():
                client.query(sql)
            for each in others:
                peer.execute(each)
            rows = twins.check(client, sql)
            history[client.value("SELECT max(version) FROM t$snapshots")] = sorted(map(str, rows))
            twins.change(client, evolution.change())
            filtered = f"SELECT * FROM t WHERE {evolution.filter()}"
            assert difference(twins.peers, filtered) is None
        for version, then in history.items():
            assert sorted(map(str, client.rows(f'SELECT * FROM "t@{version}"'))) == then, version
    twins.check_places()


@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_transaction_leaves_all_of_its_changes_or_none(twins: Twins, seed: int, ends: str) -> None:
    changes, peer = Changes(f"together {seed}"), twins.peers.peer
    peer.execute("CREATE TABLE before AS FROM t")
    before = Counter(map(repr, twins.peers.database.rows("SELECT * FROM t")))
    with twins.peers.database.client() as client:
        client.run("BEGIN")
        for sql in [changes.change() for _ in range(STEPS // 2)]:
            twins.change(client, sql)
            twins.check(client, sql)
        assert Counter(map(repr, twins.peers.database.rows("SELECT * FROM t"))) == before
        client.run(ends)
        if ends == "ROLLBACK":
            peer.execute("CREATE OR REPLACE TABLE t AS FROM before")
        twins.check(client, ends)
    twins.check_places()
