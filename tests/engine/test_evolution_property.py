"""Columns and partitionings that change at random between writes: every answer is that of a table in memory."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import count
from pathlib import Path as Directory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from lance_flight.backend_values import IfExists
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes.ingest import IngestOptions, TableProperties
from lance_flight.errors import DataError, LanceFlightError, SchemaError, SpecError
from lance_flight.model.schema import TABLE_FIELD_ID

from tests.catalog.aging import age
from tests.engine.evolution_model import BY_TYPE, KEY, KINDS, Kind, Model, Path
from tests.selection import IS_FULL
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # a long property

T = TableName("public", "t")
NAMES = ("a", "b", "c", "d", "e", "select", "Up Per")
INNER = pa.struct({"u": pa.int32(), "v": pa.utf8()})
START = pa.schema(
    [
        pa.field(KEY, pa.int64(), nullable=False),
        pa.field("a", pa.int32()),
        pa.field("b", pa.utf8()),
        pa.field("c", pa.date32()),
        pa.field("s", pa.struct({"x": pa.int16(), "y": INNER})),
        pa.field("l", pa.list_(pa.field("item", INNER))),
        pa.field("i", pa.list_(pa.field("item", pa.int16()))),
        pa.field("m", pa.map_(pa.utf8(), pa.field("value", INNER))),
    ]
)
CHANCE = st.randoms(use_true_random=False)
Chance = Any
LAYOUTS = st.lists(st.sampled_from(["a", "b", "bucket(3, a)", "year(c)", "truncate(1, b)"]), min_size=1, max_size=2)


def quoted(path: Path) -> str:
    """A column as ALTER TABLE takes it."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in path)


def place_of(path: Path) -> str:
    """A column, or one inside structs, as an expression."""
    return quoted(path[:1]) + "".join(f"['{name}']" for name in path[1:])


class Evolving(RuleBasedStateMachine):
    """The model: the table now, and what it was in every version that there was."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = count(1)
        self.model = Model(START)
        self.history: dict[int, Model] = {}
        self.ids: set[int] = set()
        self.next_id = 0

    @initialize(fields=LAYOUTS, stable_row_ids=st.booleans())
    def make(self, fields: list[str], *, stable_row_ids: bool) -> None:
        self.place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.engine = Engine(Root(Store(self.place.name)), target_partitions=2)
        self.engine.ingest(
            T,
            pa.Table.from_pylist([], schema=START).to_reader(),
            create_missing=True,
            existing=IfExists.FAIL,
            options=IngestOptions(
                properties=replace(TableProperties.by(", ".join(dict.fromkeys(fields))), stable_row_ids=stable_row_ids)
            ),
        )
        self.done()

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.place.cleanup()

    # Writes.

    @rule(chance=CHANCE, number=st.integers(1, 4))
    def insert(self, chance: Chance, number: int) -> None:
        known = {path[0]: kind for path, kind in self.model.scalars()}
        names = [name for name in known if chance.random() < 0.7]
        kinds = {name: known[name] for name in dict.fromkeys([*names, *self.model.missing([KEY])])}
        rows = [{KEY: next(self.keys)} | {n: self.value(chance, n, k) for n, k in kinds.items()} for _ in range(number)]
        shown = (", ".join(str(row[KEY]) if n == KEY else kinds[n].literal(row[n]) for n in row) for row in rows)
        columns = ", ".join(quoted((name,)) for name in rows[0])
        self.run(f"INSERT INTO t ({columns}) VALUES {', '.join(f'({values})' for values in shown)}")
        for row in rows:
            self.model.put(row)
        self.done()

    @rule(chance=CHANCE, number=st.integers(1, 4))
    def ingest(self, chance: Chance, number: int) -> None:
        missing = self.model.missing([KEY])
        names = [f.name for f in self.model.schema if f.name in (KEY, *missing) or chance.random() < 0.8]
        schema = pa.schema([self.model.schema.field(name) for name in names])
        rows = [
            {f.name: next(self.keys) if f.name == KEY else self.any_value(chance, f) for f in schema}
            for _ in range(number)
        ]
        note(f"ingest {rows}")
        reader = pa.Table.from_pylist(rows, schema=schema).to_reader()
        assert self.engine.ingest(T, reader, create_missing=False, existing=IfExists.APPEND) == number
        for row in rows:
            self.model.put(row)
        self.done()

    @rule(chance=CHANCE)
    def update(self, chance: Chance) -> None:
        columns = self.model.scalars()
        if columns:
            (name,), kind = chance.choice(columns)
            value, where = self.value(chance, name, kind), self.condition(chance)
            found = self.model.matching(where)
            sql = f"UPDATE t SET {quoted((name,))} = {kind.literal(value)} WHERE {where}"
            assert self.run(sql) == len(found), sql
            self.model.rows |= {key: {**self.model.rows[key], name: value} for key in found}
            self.done()

    @rule(chance=CHANCE)
    def delete(self, chance: Chance) -> None:
        where = self.condition(chance)
        found = self.model.matching(where)
        assert self.run(f"DELETE FROM t WHERE {where}") == len(found), where
        self.model.rows = {key: row for key, row in self.model.rows.items() if key not in found}
        self.done()

    @precondition(lambda self: self.model.scalars() and not self.model.missing([KEY]))
    @rule(chance=CHANCE)
    def merge(self, chance: Chance) -> None:
        (name,), kind = chance.choice(self.model.scalars())
        keys = [*chance.sample(sorted(self.model.rows), min(2, len(self.model.rows))), next(self.keys)]
        value = self.value(chance, name, kind)
        source = ", ".join(f"({key})" for key in keys)
        self.run(
            f"MERGE INTO t USING (SELECT column1 AS n FROM (VALUES {source})) AS q ON t.n = q.n"
            f" WHEN MATCHED THEN UPDATE SET {quoted((name,))} = {kind.literal(value)}"
            " WHEN NOT MATCHED THEN INSERT (n) VALUES (q.n)"
        )
        for key in keys:
            if key in self.model.rows:
                self.model.rows[key] = {**self.model.rows[key], name: value}
            else:
                self.model.put({KEY: key})
        self.done()

    @rule(chance=CHANCE)
    def null_is_refused(self, chance: Chance) -> None:
        required = [(name, f) for name, f in zip(self.model.schema.names, self.model.schema, strict=True)]
        names = [name for name, f in required if not f.nullable and name != KEY]
        if names and self.model.rows:
            with pytest.raises((DataError, SchemaError)):
                self.run(f"UPDATE t SET {quoted((chance.choice(names),))} = NULL WHERE true")

    @rule()
    def compact(self) -> None:
        self.engine.query("ALTER TABLE t COMPACT")
        self.done()

    @rule()
    def rewrite_partitions(self) -> None:
        self.engine.query("ALTER TABLE t REWRITE PARTITIONS")
        newest = self.snapshot()
        assert all(len(tables) == 0 for tables in newest.tables if tables.spec.id != newest.current_spec.id)
        self.done()

    @precondition(lambda self: len(self.history) > 4)
    @rule()
    def vacuum(self) -> None:
        age(Directory(self.place.name) / "t", hours=200)
        self.engine.query("VACUUM t RETAIN 0 HOURS FORCE")
        self.done()
        found = {row["version"] for row in self.engine.query("SELECT version FROM t$snapshots").to_pylist()}
        self.history = {version: model for version, model in self.history.items() if version in found}

    # Changes of the schema and of the partitioning.

    @rule(chance=CHANCE, number=st.integers(0, 3))
    def set_partitioned_by(self, chance: Chance, number: int) -> None:
        known = [field.format(c=quoted(path)) for path, kind in self.model.scalars() for field in kind.fields]
        fields = chance.sample([*known, KEY, "bucket(2, n)"], min(number, len(known) + 1))
        self.run(f"ALTER TABLE t SET PARTITIONED BY ({', '.join(fields)})")
        self.done()

    @rule(chance=CHANCE, how=st.sampled_from(["null", "null", "default", "key", "copy", "is null"]))
    def add_column(self, chance: Chance, how: str) -> None:
        path, names = self.new_path(chance, top=how != "null")
        if path[-1] in names:
            return
        kind, sources = chance.choice(list(KINDS.values())), self.model.scalars()
        if how == "key":
            kind = KINDS["BIGINT"]
            self.added(path, kind, " AS (n % 5)", lambda row: row[KEY] % 5)
        elif how in {"copy", "is null"} and sources:
            (source,), known = chance.choice(sources)
            expression, kind = (quoted((source,)), known) if how == "copy" else ("", KINDS["BOOLEAN"])
            expression = expression or f"{quoted((source,))} IS NULL"
            self.added(
                path, kind, f" AS ({expression})", lambda row: row[source] if how == "copy" else row[source] is None
            )
        elif how == "default":
            value = chance.choice(kind.values)
            words = chance.choice(["", " NOT NULL"])
            self.added(path, kind, f"{words} DEFAULT {kind.literal(value)}", lambda _: value, nullable=not words)
            self.model.defaults[path[0]] = value
        else:
            self.added(path, kind, "", lambda _: None)
        self.done()

    def added(self, path: Path, kind: Kind, words: str, value: Any, *, nullable: bool = True) -> None:
        self.run(f"ALTER TABLE t ADD COLUMN {quoted(path)} {kind.sql}{words}")
        self.model.add(path, pa.field(path[-1], kind.type, nullable), value)

    @rule(chance=CHANCE)
    def drop_column(self, chance: Chance) -> None:
        above, kind = chance.choice(self.model.structs())
        names = [f.name for f in kind if (*above, f.name) != (KEY,)]
        if not names:
            return
        path = (*above, chance.choice(names))
        if kind.num_fields == 1:
            self.refused(SchemaError, f"ALTER TABLE t DROP COLUMN {quoted(path)}")
        else:
            self.run(f"ALTER TABLE t DROP COLUMN {quoted(path)}")
            self.model.drop(path)
        self.done()

    @rule(chance=CHANCE)
    def rename_column(self, chance: Chance) -> None:
        above, kind = chance.choice(self.model.structs())
        names = [f.name for f in kind if (*above, f.name) != (KEY,)]
        free = [name for name in NAMES if name not in names]
        if names and free:
            path, name = (*above, chance.choice(names)), chance.choice(free)
            self.run(f"ALTER TABLE t RENAME COLUMN {quoted(path)} TO {quoted((name,))}")
            self.model.rename(path, name)
            self.done()

    @rule(chance=CHANCE)
    def widen(self, chance: Chance) -> None:
        wider = [(path, kind) for path, kind in self.model.scalars(inside=True) if kind.wider]
        if not wider:
            return
        path, kind = chance.choice(wider)
        to = KINDS[chance.choice(list(kind.wider))]
        rules = self.rules_over(path)
        sql = f"ALTER TABLE t ALTER COLUMN {quoted(path)} TYPE {to.sql}"
        if "truncate" in rules and pa.types.is_floating(kind.type):
            self.refused(SpecError, sql)
        else:
            try:
                self.run(sql)
            except SpecError:
                assert "expression" in rules
                return
            self.model.replace(path, lambda f: f.with_type(to.type))
        self.done()

    @rule(chance=CHANCE, nullable=st.booleans())
    def set_nullable(self, chance: Chance, *, nullable: bool) -> None:
        columns = [path for path, _ in self.model.scalars(inside=True) if self.model.is_in_structs(path)]
        if not columns:
            return
        path = chance.choice(columns)
        nulls = sum(self.model.is_null(row, path) for row in self.model.rows.values())
        sql = f"ALTER TABLE t ALTER COLUMN {quoted(path)} {'DROP' if nullable else 'SET'} NOT NULL"
        if nulls and not nullable:
            assert f"NULL in {nulls} rows" in self.refused(DataError, sql)
        else:
            self.run(sql)
            self.model.replace(path, lambda f: f.with_nullable(nullable))
        self.done()

    @precondition(lambda self: len(self.history) > 1)
    @rule(chance=CHANCE)
    def roll_back(self, chance: Chance) -> None:
        version = chance.choice(sorted(self.history))
        self.run(f"ALTER TABLE t ROLLBACK TO {version}")
        self.model = self.history[version].copy()
        self.done()

    # What must hold.

    @invariant()
    def every_query_answers_as_the_table_in_memory(self) -> None:
        if not hasattr(self, "place"):
            return
        self.check("t", self.model)
        assert self.engine.schema_of(T).equals(self.model.schema)

    @rule(chance=CHANCE)
    def filter(self, chance: Chance) -> None:
        for _ in range(3):
            self.check_condition("t", self.model, self.condition(chance))

    @precondition(lambda self: len(self.history) > 1)
    @rule(chance=CHANCE)
    def look_back(self, chance: Chance) -> None:
        version = chance.choice(sorted(self.history))
        self.check(f"t@{version}", self.history[version])
        self.check_condition(f"t@{version}", self.history[version], self.condition(chance, self.history[version]))

    @rule()
    def stored(self) -> None:
        """Each partition table has the columns and ids of the namespace, and each value one table."""
        expected = dict(self.snapshot().schema.ids)
        seen = set()
        for table in stored_tables(Directory(self.place.name) / "t"):
            found = {f.name: int((f.metadata or {})[TABLE_FIELD_ID]) for f in table.dataset.schema}
            assert found == expected
            values = table.spec_id, repr(table.values)
            assert values not in seen
            seen.add(values)

    def check(self, name: str, model: Model) -> None:
        found = self.engine.query(f'SELECT * FROM "{name}"')
        assert [(f.name, f.type) for f in found.schema] == [(f.name, f.type) for f in model.schema]
        assert found.sort_by(KEY).to_pylist() == [row for _, row in sorted(model.rows.items())], name

    def check_condition(self, name: str, model: Model, where: str) -> None:
        found = self.engine.query(f'SELECT n FROM "{name}" WHERE {where}')[KEY].to_pylist()
        note(f"{name}: {where}")
        assert sorted(found) == model.matching(where), (name, where)
        (counted,) = self.engine.query(f'SELECT count(*) AS c FROM "{name}" WHERE {where}')["c"].to_pylist()
        assert counted == len(found), (name, where)

    def done(self) -> None:
        """Remember the newest version, and hold what came between to be as before or as after."""
        snapshot = self.snapshot()
        last = max(self.history, default=snapshot.version)
        before = self.history.get(last, self.model)
        for version in range(last + 1, snapshot.version):
            self.check(f"t@{version}", before if self.is_as(snapshot, version, before) else self.model)
        self.history[snapshot.version] = self.model.copy()
        ids = set(snapshot.schema.paths)
        assert all(number >= self.next_id for number in ids - self.ids), "an id is never used again"
        assert snapshot.schema.next_field_id >= self.next_id
        self.ids, self.next_id = self.ids | ids, snapshot.schema.next_field_id

    def is_as(self, newest: Snapshot, version: int, before: Model) -> bool:
        """Whether an intermediate version has the columns from before a change."""
        return bool(self.namespace().snapshot(version).schema != newest.schema and before is not self.model)

    def condition(self, chance: Chance, model: Model | None = None) -> str:
        first, second = (self.simple(chance, model or self.model) for _ in range(2))
        return chance.choice([first, first, f"({first}) AND ({second})", f"({first}) OR ({second})"])

    def simple(self, chance: Chance, model: Model) -> str:
        column = chance.choice(list(model.schema))
        place = quoted((column.name,))
        if column.name == KEY:
            return f"n {chance.choice(['=', '<', '>='])} {chance.randint(0, 12)}"
        if pa.types.is_struct(column.type):
            inner = chance.choice(list(column.type))
            place, column = place_of((column.name, inner.name)), inner
        if pa.types.is_list(column.type):
            return chance.choice([f"{place} IS NULL", f"array_length({place}) = 2"])
        kind = BY_TYPE.get(column.type)
        if kind is None:
            return f"{place} IS {chance.choice(['', 'NOT '])}NULL"
        one, two = (kind.literal(chance.choice(kind.values)) for _ in range(2))
        return str(
            chance.choice(
                [
                    *(f"{place} {op} {one}" for op in ("=", "=", "<>", "<", ">=")),
                    f"{place} IS NULL",
                    f"{place} IS NOT NULL",
                    f"{place} IN ({one}, {two})",
                    f"{place} NOT IN ({one}, {two})",
                ]
            )
        )

    def value(self, chance: Chance, name: str, kind: Kind) -> Any:
        is_null = self.model.schema.field(name).nullable and chance.random() < 0.25
        return None if is_null else chance.choice(kind.values)

    def any_value(self, chance: Chance, field: pa.Field) -> Any:
        kind = field.type
        if field.nullable and chance.random() < 0.2:
            return None
        if pa.types.is_struct(kind):
            return {f.name: self.any_value(chance, f) for f in kind}
        if pa.types.is_map(kind):
            return [(key, self.any_value(chance, kind.item_field)) for key in ("k", "j")[: chance.randint(0, 2)]]
        if pa.types.is_list(kind):
            return [self.any_value(chance, kind.value_field) for _ in range(chance.randint(0, 3))]
        return chance.choice(BY_TYPE[kind].values)

    def new_path(self, chance: Chance, *, top: bool) -> tuple[Path, list[str]]:
        places = self.model.structs()
        above, kind = places[0] if top else chance.choice(places)
        return (*above, chance.choice(NAMES)), [f.name for f in kind]

    def rules_over(self, path: Path) -> set[str]:
        """How partition fields of any spec are derived from a column."""
        snapshot = self.snapshot()
        mine = snapshot.schema.ids[path[0]] if len(path) == 1 else -1
        rules = [f.rule for spec in snapshot.specs for f in spec.fields if mine in f.source_ids]
        return {getattr(rule, "type", "expression") for rule in rules}

    def namespace(self) -> PartitionedNamespace:
        namespace = self.engine.root.table(T)
        assert isinstance(namespace, PartitionedNamespace)
        return namespace

    def snapshot(self) -> Snapshot:
        return self.namespace().snapshot()

    def run(self, sql: str) -> int:
        note(sql)
        return self.engine.update(sql)

    def refused(self, error: type[LanceFlightError], sql: str) -> str:
        before = self.snapshot().version
        with pytest.raises(error) as raised:
            self.engine.update(sql)
        assert self.snapshot().version == before
        return str(raised.value)


TestEvolving = pytest.mark.filterwarnings("ignore::ResourceWarning")(Evolving.TestCase)
TestEvolving.settings = settings(
    max_examples=200 if IS_FULL else 12,
    stateful_step_count=30 if IS_FULL else 15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
