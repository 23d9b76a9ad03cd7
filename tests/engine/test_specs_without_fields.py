"""SET PARTITIONED BY (): a spec version without fields, under which all new rows lie in one partition."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tests.engine.database import Database
from tests.stock import manifest, manifest_rows, stored_tables

OLD = [(1, "a", 10), (2, "a", 20), (3, "b", 30)]
NEW = [(4, "a", 40), (5, "c", 50), (6, None, 60)]


def values(rows: list[tuple[int, str | None, int]]) -> str:
    return ", ".join(f"({n}, {'NULL' if p is None else repr(p)}, {v})" for n, p, v in rows)


@pytest.fixture(scope="module")
def template(database: Database) -> str:
    """A table by `p` with the old rows, and the new ones under a spec without fields, which nobody changes."""
    database.run("CREATE TABLE without_fields (id BIGINT, p VARCHAR, v INT) PARTITIONED BY (p)")
    database.run(f"INSERT INTO without_fields VALUES {values(OLD)}")
    assert database.run("ALTER TABLE without_fields SET PARTITIONED BY ()") == 0
    database.run(f"INSERT INTO without_fields VALUES {values(NEW)}")
    return "without_fields"


def rows(database: Database, reference: str, where: str = "true") -> list[tuple[int, str | None, int]]:
    return database.rows(f'SELECT id, p, v FROM "{reference}" WHERE {where} ORDER BY id')


def stored(database: Database, table: str) -> dict[str, list[int]]:
    """The ids of the rows of each partition table by its spec and value, as stock Lance reads them."""
    found = {}
    for each in stored_tables(database.root / table):
        found[f"v{each.spec_id} {each.values['p']}"] = sorted(each.dataset.to_table()["id"].to_pylist())
    return found


def scanned(database: Database, table: str, where: str) -> str:
    plan = database.rows(f"EXPLAIN SELECT * FROM {table} WHERE {where}")
    (text,) = (text for kind, text in plan if kind == "partitions")
    return "; ".join(line.split("  table")[0].strip() for line in text.splitlines() if "/" in line)


def test_new_rows_lie_in_one_table_right_below_the_spec(database: Database, copied: str) -> None:
    said = json.loads(manifest(database.root / copied).metadata["partition_spec_v2"])
    assert said == {"id": 2, "fields": []}
    assert stored(database, copied) == {"v1 a": [1, 2], "v1 b": [3], "v2 None": [4, 5, 6]}
    ids = [row["object_id"] for row in manifest_rows(database.root / copied) if row["object_id"].startswith("v2")]
    assert ids == ["v2", "v2$dataset"]
    assert rows(database, copied) == OLD + NEW
    database.run(f"INSERT INTO {copied} VALUES (7, 'z', 70)")
    assert stored(database, copied)["v2 None"] == [4, 5, 6, 7]


PRUNED = [
    pytest.param("p = 'a'", "partitions: 2 / 3; v1: 1 / 2; v2: 1 / 1", [1, 2, 4], id="a value"),
    pytest.param("p = 'c'", "partitions: 1 / 3; v1: 0 / 2; v2: 1 / 1", [5], id="a value of new rows"),
    pytest.param("p IS NULL", "partitions: 1 / 3; v1: 0 / 2; v2: 1 / 1", [6], id="null"),
    pytest.param("v >= 30", "partitions: 3 / 3; v1: 2 / 2; v2: 1 / 1", [3, 4, 5, 6], id="no partition column"),
    pytest.param("false", None, [], id="nothing"),
]


@pytest.mark.parametrize(("where", "partitions", "ids"), PRUNED)
def test_old_specs_prune_and_the_one_without_fields_is_read(
    database: Database, copied: str, where: str, partitions: str | None, ids: list[int]
) -> None:
    assert [row[0] for row in rows(database, copied, where)] == ids
    assert partitions is None or scanned(database, copied, where) == partitions


ALL = OLD + NEW
CHANGES = [
    pytest.param(
        "MERGE INTO {t} AS t USING (SELECT 1 AS id UNION ALL SELECT 5 UNION ALL SELECT 9) AS s ON t.id = s.id"
        " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, p, v) VALUES (s.id, 'n', 90)",
        [*(r for r in ALL if r[0] not in {1, 5}), (9, "n", 90)],
        id="merge",
    ),
    pytest.param("INSERT OVERWRITE {t} VALUES (8, 'a', 80)", [(8, "a", 80)], id="insert overwrite"),
    pytest.param("TRUNCATE TABLE {t}", [], id="truncate"),
]


@pytest.mark.parametrize(("change", "expected"), CHANGES)
def test_rows_change_whatever_spec_they_lie_under(
    database: Database, copied: str, change: str, expected: list[tuple[int, str | None, int]]
) -> None:
    before = int(manifest(database.root / copied).version)
    database.run(change.format(t=copied))
    assert rows(database, copied) == expected
    assert sorted(n for ids in stored(database, copied).values() for n in ids) == [row[0] for row in expected]
    assert rows(database, f"{copied}@{before}") == ALL


def test_two_that_make_the_partition_at_once_make_one(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR, v INT) PARTITIONED BY (p)")
    database.run(f"ALTER TABLE {table} SET PARTITIONED BY ()")
    with database.client(autocommit=False) as one, database.client(autocommit=False) as other:
        for client, number in ((one, 1), (other, 2)):
            client.run(f"INSERT INTO {table} VALUES ({number}, 'a', 0)")
        one.commit()
        other.commit()
    assert stored(database, table) == {"v2 None": [1, 2]}
    assert rows(database, table) == [(1, "a", 0), (2, "a", 0)]


def test_rows_come_by_ingest_and_go_back_with_a_rollback(database: Database, copied: str) -> None:
    before = int(manifest(database.root / copied).version)
    data = pa.table({"id": range(100, 200), "p": ["x", "y"] * 50, "v": pa.array(range(100), pa.int32())})
    assert database.ingest(copied, data, mode="append") == 100
    assert len(stored(database, copied)) == 3
    assert database.value(f"SELECT count(*) FROM {copied} WHERE p = 'x'") == 50
    assert len(database.rows(f"SELECT id FROM table_changes('{copied}', {before}, {before + 1})")) == 100
    database.run(f"ALTER TABLE {copied} ROLLBACK TO {before}")
    assert rows(database, copied) == ALL


JOINS = [
    pytest.param("SELECT t.id, n.id FROM {t} AS t JOIN {n} AS n ON t.p = n.p", 3, id="inner"),
    pytest.param("SELECT t.id, n.id FROM {t} AS t LEFT JOIN {n} AS n ON t.p = n.p", 6, id="left"),
    pytest.param("SELECT t.id, n.id FROM {n} AS n FULL JOIN {t} AS t ON t.p = n.p", 7, id="full"),
    pytest.param("SELECT p, sum(v) FROM {t} GROUP BY p", 4, id="group by"),
    pytest.param("SELECT id, row_number() OVER (PARTITION BY p ORDER BY id) FROM {t}", 6, id="window"),
    pytest.param("SELECT DISTINCT p FROM {t}", 4, id="distinct"),
    pytest.param("SELECT count(*), min(p), max(p) FROM {t}", 1, id="from the manifest"),
]


@pytest.mark.parametrize(("query", "count"), JOINS)
def test_what_is_run_by_partitions_elsewhere_is_right(database: Database, copied: str, query: str, count: int) -> None:
    name = f"{copied}_n"
    database.run(f"CREATE TABLE {name} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    database.run(f"INSERT INTO {name} VALUES (71, 'a'), (72, 'q')")
    database.run(f"CREATE TABLE {copied}_plain AS SELECT * FROM {copied}")
    sources = (copied, f"{copied}_plain")
    found, expected = (sorted(map(str, database.rows(query.format(t=each, n=name)))) for each in sources)
    assert found == expected
    assert len(found) == count


def test_what_there_is_to_know_of_it_is_told(database: Database, copied: str) -> None:
    assert database.rows(f"SELECT spec_id, field_id, is_current, tables, rows FROM {copied}$specs ORDER BY 1") == [
        (1, "p", False, 2, 3),
        (2, None, True, 1, 3),
    ]
    assert database.rows(f"SELECT spec_id, p, rows FROM {copied}$partitions ORDER BY 1, 2") == [
        (1, "a", 2),
        (1, "b", 1),
        (2, None, 3),
    ]
    assert [row[0] for row in database.rows(f"DESCRIBE {copied}")] == ["id", "p", "v"]
