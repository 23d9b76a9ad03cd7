"""murmur3 and murmur3_multi in SQL, against the vectors: of columns, of parameters, inside other expressions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from lance_flight.model.arrow_json import type_from_text
from lance_flight.model.hashing import murmur3

from tests.engine.database import Database
from tests.model.hash_vectors import VECTORS, vector_array, vector_name


@pytest.mark.parametrize("kind", sorted({str(row["type"]) for row in VECTORS["murmur3"]}))
def test_murmur3_of_a_column_is_the_hash_of_the_vectors(database: Database, table: str, kind: str) -> None:
    vectors = [row for row in VECTORS["murmur3"] if row["type"] == kind]
    arrow = type_from_text(kind)
    values = pa.concat_arrays([vector_array(arrow, row["value"]) for row in vectors] + [pa.nulls(1, arrow)])
    database.ingest(table, pa.table({"place": range(len(values)), "c": values}))
    found = database.query(f"SELECT murmur3(c) AS hash FROM {table} ORDER BY place")
    assert found.schema.field("hash").type == pa.int32()
    assert found["hash"].to_pylist() == [row["murmur3"] for row in vectors] + [None]


@pytest.mark.parametrize("row", VECTORS["murmur3"], ids=vector_name)
def test_murmur3_of_a_parameter_is_the_hash_of_the_vectors(database: Database, row: dict[str, Any]) -> None:
    value = pa.record_batch({"value": vector_array(type_from_text(row["type"]), row["value"])})
    assert database.value("SELECT murmur3(?)", value) == row["murmur3"]


@pytest.mark.parametrize("row", VECTORS["murmur3_multi"], ids=vector_name)
def test_murmur3_multi_is_the_hash_of_the_vectors(database: Database, table: str, row: dict[str, Any]) -> None:
    kinds = [type_from_text(kind) for kind in row["types"]]
    columns = {
        f"c{n}": vector_array(kind, value) for n, (kind, value) in enumerate(zip(kinds, row["values"], strict=True))
    }
    database.ingest(table, pa.table(columns))
    assert database.value(f"SELECT murmur3_multi({', '.join(columns)}) FROM {table}") == row["murmur3_multi"]


LITERALS = [
    pytest.param("murmur3('iceberg')", 1210000089, id="text"),
    pytest.param("murmur3(34)", 2017239379, id="integer"),
    pytest.param("MURMUR3(34)", 2017239379, id="in capitals"),
    pytest.param("murmur3(CAST(34 AS TINYINT UNSIGNED))", 2017239379, id="any width"),
    pytest.param("murmur3(DATE '2017-11-16')", -653330422, id="date"),
    pytest.param("murmur3(CAST('14.20' AS DECIMAL(9, 2)))", -500754589, id="decimal"),
    pytest.param("murmur3(TIMESTAMP '2017-11-16T22:31:08')", -2047944441, id="timestamp"),
    pytest.param("murmur3(X'00010203')", -188683207, id="binary"),
    pytest.param("murmur3(1.0)", -142385009, id="double"),
    pytest.param("murmur3(NULL)", None, id="NULL"),
    pytest.param("murmur3_multi(34, 'iceberg')", 875336289, id="two of two types"),
    pytest.param("murmur3_multi(CAST(NULL AS INT), 'iceberg')", 1210000089, id="NULL is left out"),
    pytest.param("murmur3_multi('iceberg')", 1210000089, id="one alone"),
    pytest.param("abs(murmur3(34)) % 16", 3, id="a bucket"),
    pytest.param("murmur3_multi(NULL, 'iceberg')", 1210000089, id="NULL without a type is left out"),
    pytest.param("murmur3_multi(NULL, NULL)", None, id="nothing but NULL"),
    pytest.param("murmur3('a' || 'b') = murmur3('ab')", True, id="of an expression"),
    pytest.param("murmur3(murmur3(34)) = murmur3(2017239379)", True, id="of a hash"),
]


@pytest.mark.parametrize(("sql", "expected"), LITERALS)
def test_a_hash_of_literals(database: Database, sql: str, expected: Any) -> None:
    assert database.value(f"SELECT {sql} AS hash") == expected


CLAUSES = [
    pytest.param("SELECT id FROM {t} WHERE murmur3(id) = 1392991556", (), id="a filter"),
    pytest.param("SELECT id FROM {t} WHERE murmur3(id) = murmur3(1) AND s LIKE 'a%'", (), id="two filters"),
    pytest.param("SELECT id FROM {t} WHERE murmur3_multi(id, s) = murmur3_multi(?, ?)", (1, "a"), id="of parameters"),
    pytest.param("SELECT x.id FROM {t} x JOIN {t} y ON murmur3(x.id) = murmur3(y.id) WHERE y.s = 'a'", (), id="a join"),
    pytest.param("SELECT id FROM {t} GROUP BY id, s HAVING murmur3(s) = murmur3('a')", (), id="having"),
    pytest.param("SELECT id FROM {t} ORDER BY murmur3(id) = murmur3(1) DESC LIMIT 1", (), id="an order"),
]


@pytest.mark.parametrize("partition_by", ["s", None], ids=["partitioned", "plain"])
@pytest.mark.parametrize(("sql", "parameters"), CLAUSES)
def test_a_hash_stands_in_any_clause(
    database: Database, table: str, sql: str, parameters: tuple[Any, ...], partition_by: str | None
) -> None:
    database.ingest(table, pa.table({"id": [1, 2, 3], "s": ["a", "b", None]}), partition_by=partition_by)
    assert database.rows(sql.format(t=table), parameters or None) == [(1,)]


def test_the_column_of_a_hash_is_named_as_it_was_written(database: Database, table: str) -> None:
    database.ingest(table, pa.table({"a": [1], "b": ["x"]}))
    found = database.query(f"SELECT murmur3(a), murmur3_multi(a, b), murmur3('text') FROM {table}")
    assert found.schema.names == ["murmur3(a)", "murmur3_multi(a, b)", "murmur3('text')"]


def test_buckets_are_what_the_hash_functions_say(database: Database, table: str) -> None:
    database.run(
        f"CREATE TABLE {table} (a BIGINT, b VARCHAR) PARTITIONED BY (bucket(5, a), multi_bucket(7, a, b) AS ab)"
    )
    rows = ", ".join(f"({n}, 's{n % 4}')" for n in range(-20, 20))
    database.run(f"INSERT INTO {table} VALUES {rows}, (NULL, 'x'), (NULL, NULL), (1, NULL)")
    computed = database.rows(
        f"SELECT abs(murmur3(a)) % 5 AS x, abs(murmur3_multi(a, b)) % 7 AS y, count(*) FROM {table} GROUP BY x, y"
    )
    stored = database.rows(f"SELECT a_bucket, ab, rows FROM {table}$partitions")
    assert sorted(computed, key=str) == sorted(stored, key=str)


# Queries of s and murmur3(x), in which x means something else beside that.
OTHER_MEANINGS = {
    "an alias": "SELECT s AS x, murmur3(x) AS h FROM {t} ORDER BY murmur3(x)",
    "a step of a pipe": "FROM {t} |> SELECT s, murmur3(x) AS h, s AS x |> SELECT s, h, murmur3(x) AS b",
    "a lambda": "SELECT s, murmur3(x), list_transform([s], x -> murmur3(x)) FROM {t}",
    "a query inside": "SELECT s, murmur3(x), (SELECT max(murmur3(x)) FROM (SELECT 'a' AS x) AS q) FROM {t}",
    "a union": "SELECT s, murmur3(x) FROM {t} UNION SELECT s, murmur3(x) FROM (SELECT s, 5 AS x FROM {t} WHERE x = 5) AS q",
}


@pytest.mark.parametrize("sql", OTHER_MEANINGS.values(), ids=OTHER_MEANINGS)
def test_calls_that_are_written_alike_keep_their_own_columns(database: Database, table: str, sql: str) -> None:
    database.run(f"CREATE TABLE {table} (x BIGINT, s VARCHAR)")
    database.run(f"INSERT INTO {table} VALUES (5, '7'), (6, '1'), (7, '3')")
    hashes = dict(zip("713", murmur3(pa.array([5, 6, 7])).to_pylist(), strict=True))
    assert {row[0]: row[1] for row in database.rows(sql.format(t=table))} == hashes
