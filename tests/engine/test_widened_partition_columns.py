"""ALTER COLUMN TYPE of columns that partition fields are computed from: manifest columns, specs and rows change in one commit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.model.arrow_json import type_to_json

from tests.engine.database import Database
from tests.selection import IS_FULL
from tests.stock import MANIFEST, manifest, manifest_rows, stored_tables

pytestmark = pytest.mark.slow  # every type under two specs, and a manifest of many rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Widening:
    """A column `c` with values in partitions, its wider type, and a value that only that one holds."""

    field: str
    kind: str
    wider: str
    values: tuple[str, ...]
    beyond: str
    before: pa.DataType
    after: pa.DataType
    """The result types of the partition field."""

    @property
    def field_id(self) -> str:
        return self.field.rpartition(" AS ")[2]


def widening(field: str, kind: str, wider: str, values: str, beyond: str, *types: pa.DataType) -> Widening:
    before, after = types
    return Widening(
        field=field, kind=kind, wider=wider, values=tuple(values.split("; ")), beyond=beyond, before=before, after=after
    )


I32, I64, F32, F64 = pa.int32(), pa.int64(), pa.float32(), pa.float64()
BIG = "5000000000"
DECIMALS = ("DECIMAL(9, 2)", "DECIMAL(20, 2)", "1.25; -7.5; NULL", "'5000000000000.25'")
CENTS = (pa.decimal128(9, 2), pa.decimal128(20, 2))
OLD, NEXT = "'2020-01-01'; '1969-12-31 23:59:59'; NULL", "'2020-01-01 00:00:00.000001'"
MOMENTS = ("TIMESTAMP(0)", "TIMESTAMP(6)", OLD, NEXT)
WIDENINGS = {
    "identity": widening("c AS f", "INT", "BIGINT", "1; -7; 2147483647; NULL", BIG, I32, I64),
    "smallint": widening("c AS f", "SMALLINT", "INT", "1; -7; 32767; NULL", "70000", pa.int16(), I32),
    "unsigned": widening("c AS f", "INT UNSIGNED", "BIGINT", "0; 4294967295; 7", f"-{BIG}", pa.uint32(), I64),
    "truncate": widening("truncate(10, c) AS f", "INT", "BIGINT", "17; -17; 3; NULL", BIG, I32, I64),
    "bucket": widening("bucket(8, c) AS f", "INT", "BIGINT", "1; -7; 34; NULL", BIG, I32, I32),
    "real": widening("c AS f", "REAL", "DOUBLE", "0.5; -0.0; 0.125; NULL", "1e300", F32, F64),
    "real bucket": widening("bucket(8, c) AS f", "REAL", "DOUBLE", "0.5; 0.125; NULL", "1e300", I32, I32),
    "decimal": widening("c AS f", *DECIMALS, *CENTS),
    "truncated decimal": widening("truncate(100, c) AS f", *DECIMALS, *CENTS),
    "decimal bucket": widening("bucket(8, c) AS f", *DECIMALS, I32, I32),
    "timestamp": widening("c AS f", *MOMENTS, pa.timestamp("s"), pa.timestamp("us")),
    "timestamp bucket": widening("bucket(8, c) AS f", *MOMENTS, I32, I32),
}


def made(database: Database, table: str, case: Widening) -> None:
    """A table of two specs that have the field in common, with each value in a partition of either."""
    database.run(f"CREATE TABLE {table} (id BIGINT, c {case.kind}, p VARCHAR) PARTITIONED BY ({case.field})")
    for number, spec in enumerate(("", f"{case.field}, p")):
        if spec:
            database.run(f"ALTER TABLE {table} SET PARTITIONED BY ({spec})")
        rows = ", ".join(f"({10 * number + place}, {value}, 'x')" for place, value in enumerate(case.values))
        database.run(f"INSERT INTO {table} VALUES {rows}")


def stored_types(database: Database, table: str, version: int | None = None) -> tuple[pa.DataType, list[Any]]:
    """The type of the field's column in `__manifest`, and its result type as each spec says it, as stock Lance sees them."""
    dataset = lance.dataset(f"{database.root / table}/{MANIFEST}", version=version)
    specs = [json.loads(text) for key, text in sorted(dataset.metadata.items()) if key.startswith("partition_spec_v")]
    found = [each["result_type"] for spec in specs for each in spec["fields"] if each["field_id"] == "f"]
    return dataset.schema.field("partition_field_f").type, found


def found_by_value(database: Database, table: str, case: Widening) -> dict[str, list[int]]:
    """The rows of each value, and of the values from it on."""
    signs = ("IS NOT DISTINCT FROM", ">=")
    found = {f"c {sign} CAST({value} AS {case.wider})": [] for value in case.values for sign in signs}
    conditions = list(found)
    each = (f'SELECT {place}, id FROM "{table}" WHERE {where}' for place, where in enumerate(conditions))
    for place, number in sorted(database.rows(" UNION ALL ".join(each))):
        found[conditions[place]].append(number)
    return found


def scanned(database: Database, table: str, where: str) -> str:
    """How many partitions EXPLAIN says a query reads."""
    plan = database.rows(f'EXPLAIN SELECT * FROM "{table}" WHERE {where}')
    (text,) = (text for kind, text in plan if kind == "partitions")
    return text.splitlines()[0].split("  table")[0]


@pytest.mark.parametrize("case", WIDENINGS.values(), ids=WIDENINGS)
def test_a_wider_type_keeps_the_partitions_and_their_field_and_prunes_as_before_and_is_taken_back(
    database: Database, table: str, case: Widening
) -> None:
    made(database, table, case)
    tables = {each.object_id: each.values for each in stored_tables(database.root / table)}
    types = stored_types(database, table)
    assert types[0] == case.before
    rows = found_by_value(database, table, case)
    one = "c = CAST({} AS {})"
    pruned = scanned(database, table, one.format(case.values[0], case.kind))
    before = int(manifest(database.root / table).version)
    assert database.run(f"ALTER TABLE {table} ALTER COLUMN c TYPE {case.wider}") == 0
    column, said = stored_types(database, table)
    assert column == case.after == stored_types(database, table, before + 1)[0]
    assert said == [type_to_json(case.after)] * 2
    assert {each.object_id: each.values for each in stored_tables(database.root / table)} == tables
    assert found_by_value(database, table, case) == rows == found_by_value(database, f"{table}@{before}", case)
    assert scanned(database, table, one.format(case.values[0], case.wider)) == pruned
    assert scanned(database, f"{table}@{before}", one.format(case.values[0], case.kind)) == pruned
    assert stored_types(database, table, before)[0] == case.before
    # Equal values go where they went before, others beside them.
    again = ", ".join(f"(100, {value}, 'x')" for value in case.values)
    database.run(f"INSERT INTO {table} VALUES {again}")
    assert len(stored_tables(database.root / table)) == len(tables)
    database.run(f"INSERT INTO {table} VALUES (200, {case.beyond}, 'x')")
    assert database.rows(f"SELECT id FROM {table} WHERE {one.format(case.beyond, case.wider)}") == [(200,)]
    for value in case.values:
        same = f"c IS NOT DISTINCT FROM CAST({value} AS {case.wider})"
        assert database.value(f"SELECT count(*) FROM {table} WHERE {same}") == len(rows[same]) + 1
    # A rollback takes the type back, and it is widened again.
    database.run(f"ALTER TABLE {table} ROLLBACK TO {before}")
    assert stored_types(database, table) == types
    assert found_by_value(database, table, case) == rows
    database.run(f"ALTER TABLE {table} ALTER COLUMN c TYPE {case.wider}")
    assert stored_types(database, table) == (column, said)


REFUSED = [
    pytest.param("truncate(10, c) AS f", ("REAL", "DOUBLE"), "cut as float are rounded otherwise", id="truncated real"),
    pytest.param("expr('abs(col0)', c) AS f", ("INT", "BIGINT"), "gives int64, result_type is int32", id="expression"),
]


@pytest.mark.parametrize(("field", "types", "why"), REFUSED)
def test_a_type_that_moves_equal_values_is_refused(
    database: Database, table: str, field: str, types: tuple[str, str], why: str
) -> None:
    kind, wider = types
    database.run(f"CREATE TABLE {table} (id BIGINT, c {kind}, p VARCHAR) PARTITIONED BY ({field})")
    database.run(f"INSERT INTO {table} VALUES (1, 30, 'x')")
    database.run(f"ALTER TABLE {table} SET PARTITIONED BY (p)")
    before = manifest_rows(database.root / table)
    message = database.refuses(f"ALTER TABLE {table} ALTER COLUMN c TYPE {wider}")
    assert why in message
    assert "v1, field 'f'" in message
    assert "ADD COLUMN" in message
    assert manifest_rows(database.root / table) == before
    assert database.rows(f"SELECT id FROM {table} WHERE c = 30") == [(1,)]


CASE = WIDENINGS["identity"]
MANY = 700 if IS_FULL else 120
"""Partitions of a manifest of many rows."""


def test_manifests_of_many_rows_are_found_by_their_indices_afterwards(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, c INT) PARTITIONED BY (c)")
    database.run(f"INSERT INTO {table} SELECT value, value FROM generate_series(1, {MANY})")
    database.run(f"INSERT INTO {table} VALUES (0, 0)")
    database.run(f"ALTER TABLE {table} ALTER COLUMN c TYPE BIGINT")
    database.run(f"INSERT INTO {table} VALUES ({MANY + 1}, {BIG})")
    stock = manifest(database.root / table)
    assert (
        stock.count_rows()
        == len({row["object_id"] for row in manifest_rows(database.root / table)})
        == (MANY + 2) * 2 + 1
    )
    for row in manifest_rows(database.root / table)[::29]:
        assert stock.to_table(filter=f"object_id = '{row['object_id']}'").to_pylist() == [row]
    assert database.value(f"SELECT sum(id) FROM {table}") == sum(range(MANY + 2))
    assert database.rows(f"SELECT id FROM {table} WHERE c IN (5, {BIG}) ORDER BY id") == [(5,), (MANY + 1,)]


def test_rows_deleted_and_partitions_dropped_before_it_stay_away(database: Database, table: str) -> None:
    made(database, table, CASE)
    database.run(f"DELETE FROM {table} WHERE c = 1")
    database.run(f"UPDATE {table} SET id = id + 1000 WHERE c = -7")
    rows = database.rows(f"SELECT id, c FROM {table} ORDER BY id")
    before = int(manifest(database.root / table).version)
    database.run(f"ALTER TABLE {table} ALTER COLUMN c TYPE BIGINT")
    assert database.rows(f"SELECT id, c FROM {table} ORDER BY id") == rows
    database.run(f"INSERT INTO {table} VALUES (1, {BIG}, 'x'), (2, 1, 'x')")
    database.run(f"DELETE FROM {table} WHERE c = -7")
    span = f"'{table}', {before}, {manifest(database.root / table).version}"
    changes = database.rows(f"SELECT id, c, _change FROM table_changes({span}) ORDER BY _change, id")
    assert [(number, c) for number, c, change in changes if change == "delete"] == [(1001, -7), (1011, -7)]
    assert [(number, c) for number, c, change in changes if change == "insert"] == [(1, int(BIG)), (2, 1)]
    database.run(f"VACUUM {table}")
    assert database.value(f"SELECT count(*) FROM {table}") == len(rows)


def test_both_sides_of_a_join_by_partitions_are_found_whatever_their_width(database: Database, table: str) -> None:
    made(database, table, CASE)
    database.run(f"CREATE TABLE {table}_n (c INT, name VARCHAR) PARTITIONED BY (c)")
    database.run(f"INSERT INTO {table}_n VALUES (1, 'one'), (-7, 'minus seven'), (8, 'eight')")
    query = f"SELECT id, name FROM {table} JOIN {table}_n USING (c) ORDER BY id"
    joined = database.rows(query)
    assert [number for number, _ in joined] == [0, 1, 10, 11]
    database.run(f"ALTER TABLE {table} ALTER COLUMN c TYPE BIGINT")
    assert database.rows(query) == joined


def test_others_write_while_it_changes_and_nothing_is_lost(database: Database, table: str) -> None:
    made(database, table, CASE)
    begun, ended, written = Event(), Event(), list[int]()

    def insert() -> None:
        while not ended.is_set() or len(written) < 3:
            number = 1000 + len(written)
            database.run(f"INSERT INTO {table} VALUES ({number}, {len(written) % 3}, 'x')")
            written.append(number)
            begun.set()

    writer = Thread(target=insert)
    writer.start()
    begun.wait(60)
    try:
        database.run(f"ALTER TABLE {table} ALTER COLUMN c TYPE BIGINT")
    finally:
        ended.set()
        writer.join()
    assert stored_types(database, table)[0] == I64
    assert database.rows(f"SELECT id FROM {table} WHERE id >= 1000 ORDER BY id") == [(number,) for number in written]
    for remainder in range(3):
        found = database.rows(f"SELECT id FROM {table} WHERE id >= 1000 AND c = {remainder} ORDER BY id")
        assert found == [(number,) for number in written if (number - 1000) % 3 == remainder]
