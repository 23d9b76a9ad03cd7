"""Tables and schemas whose names are no identifiers: every statement takes them in quotes, and other readers find them."""

from __future__ import annotations

import unicodedata

import lance
import pyarrow as pa
import pytest

from tests.engine.database import Database

pytestmark = pytest.mark.slow  # all that tables do, under every name

NAMES = [
    "Sales 2024",
    "naïve-τ",
    "#x",
    "select",
    "100%",
    "a%20b",
    'say "x"',
    "it's",
    "a?*[b]:c",
    "~",
    "🦆",
    "x" * 200,
    "a;b--",
]
KINDS = pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
EVERY = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """A root whose names no other module's tables have."""
    return Database(tmp_path_factory.mktemp("quoted_names"))


def quoted(name: str) -> str:
    """The name in SQL."""
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.sample(4)
@EVERY
@KINDS
def test_a_table_of_this_name_does_all_that_tables_do(database: Database, name: str, *, partitioned: bool) -> None:
    table, by = quoted(name), " PARTITIONED BY (k)" if partitioned else ""
    database.run(f"CREATE TABLE {table} (k VARCHAR, v BIGINT){by}")
    assert database.run(f"INSERT INTO {table} VALUES ('a', 1), ('b', 2)") == 2
    assert database.ingest(name, pa.table({"k": ["c"], "v": [3]}), "append") == 1
    assert database.run(f"UPDATE {table} SET v = v + 10 WHERE k = 'a'") == 1
    assert database.run(f"DELETE FROM {table} WHERE k = 'b'") == 1
    merged = f"MERGE INTO {table} t USING (SELECT 'd' AS k, 4 AS v) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT *"
    assert database.run(merged) == 1
    database.run(f"ALTER TABLE {table} ADD COLUMN w INT")
    assert database.rows(f"SELECT k, v FROM {table} x WHERE x.v > 0 ORDER BY k") == [("a", 11), ("c", 3), ("d", 4)]
    assert database.rows(f"SELECT public.{table}.k FROM public.{table} WHERE k LIKE 'a%'") == [("a",)]
    assert [row[0] for row in database.rows(f"DESCRIBE {table}")] == ["k", "v", "w"]
    versions = [
        version for (version,) in database.rows(f"SELECT version FROM {quoted(name + '$snapshots')} ORDER BY 1")
    ]
    assert database.value(f"SELECT count(*) FROM {quoted(f'{name}@{versions[0]}')}") == 0
    database.run(f"ALTER TABLE {table} CREATE TAG first")
    assert database.value(f"SELECT count(*) FROM {quoted(f'{name}@first')}") == 3
    database.run(f"CREATE INDEX by_v ON {table} (v)")
    database.rows(f"ALTER TABLE {table} COMPACT")
    if partitioned:
        assert database.value(f"SELECT count(*) FROM {quoted(name + '$partitions')}") == 4
        assert "partitions: 1 / 4" in str(database.rows(f"EXPLAIN SELECT * FROM {table} WHERE k = 'a'"))
        database.run(f"ALTER TABLE {table} DETACH PARTITION (k = 'a') TO detached")
        database.run(f"ALTER TABLE {table} ATTACH TABLE 'detached' PARTITION (k = 'a')")
        database.rows(f"VACUUM {table} RETAIN 0 HOURS FORCE")
        if "?" not in name:
            database.run(f"ALTER TABLE {table} CREATE BRANCH b")
            database.run(f"INSERT INTO {quoted(name + '@b')} VALUES ('e', 5, 0), ('a', 6, 0)")
            assert database.value(f"SELECT count(*) FROM {quoted(name + '@b')}") == 5
            database.run(f"ALTER TABLE {table} PUBLISH BRANCH b")
    assert any(name in row for row in database.rows("SHOW TABLES"))
    assert database.rows(f"SELECT k FROM {table} WHERE v = 11") == [("a",)]
    assert tables_of(database) == [name]
    database.run(f"DROP TABLE {table}")
    assert tables_of(database) == []
    assert [path.name for path in database.root.iterdir() if not path.name.startswith(".")] == []


def test_a_table_with_a_question_mark_has_no_branches(database: Database) -> None:
    database.run('CREATE TABLE "how?" (k INT) PARTITIONED BY (k)')
    assert "takes what follows a ? in a path" in database.refuses('ALTER TABLE "how?" CREATE BRANCH b')
    assert [path.name for path in database.root.iterdir() if not path.name.startswith(".")] == ["how?"]
    database.run('DROP TABLE "how?"')


def tables_of(database: Database) -> list[str]:
    """The tables that are listed."""
    return [table.name for table in database.engine.tables()]


@EVERY
def test_other_readers_find_the_directory_of_this_name(database: Database, name: str) -> None:
    database.run(f"CREATE TABLE {quoted(name)} AS SELECT 1 AS id")
    place = database.root / f"{name}.lance"
    assert lance.dataset(str(place)).to_table().to_pylist() == [{"id": 1}]
    lance.write_dataset(pa.table({"id": pa.array([2])}), str(place), mode="append")
    assert database.rows(f"SELECT id FROM {quoted(name)} ORDER BY id") == [(1,), (2,)]
    database.run(f"DROP TABLE {quoted(name)}")


@EVERY
def test_a_schema_and_a_renamed_table_may_have_this_name(database: Database, name: str) -> None:
    (database.root / name).mkdir()
    schema = quoted(name)
    database.run(f"CREATE TABLE {schema}.t (k INT) PARTITIONED BY (k)")
    database.run(f"INSERT INTO {schema}.t VALUES (1)")
    database.run(f"ALTER TABLE {schema}.t RENAME TO {quoted(name)}")
    assert database.rows(f"SELECT k FROM {schema}.{quoted(name)} WHERE k = 1") == [(1,)]
    assert database.rows(
        f"SELECT x.k FROM lance.{schema}.{quoted(name)} x JOIN {schema}.{quoted(name)} y ON x.k = y.k"
    ) == [(1,)]
    assert database.ingest(name, pa.table({"k": pa.array([2], pa.int32())}), "append", db_schema_name=name) == 1
    database.run(f"DROP TABLE {schema}.{quoted(name)}")
    (database.root / name).rmdir()


def test_a_name_in_another_unicode_form_is_no_second_table(database: Database) -> None:
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    database.run(f"CREATE TABLE {quoted(composed)} (id INT)")
    database.run("CREATE TABLE cafes (id INT)")
    for sql in (
        "CREATE TABLE {} (id INT)",
        "CREATE TABLE {} (id INT) PARTITIONED BY (id)",
        "ALTER TABLE cafes RENAME TO {}",
    ):
        assert "the same text in another Unicode form" in database.refuses(sql.format(quoted(decomposed)))
    assert decomposed not in tables_of(database)
    database.run(f"DROP TABLE {quoted(composed)}")
    database.run(f"CREATE TABLE {quoted(decomposed)} (id INT)")
    assert decomposed in tables_of(database)
