"""Tables and schemas whose names are no identifiers: every statement and call takes them in quotes, and other readers find them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import lance
import pyarrow as pa
import pytest

from tests.service.server_process import Server, serving

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
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server over a root of its own, whose names no other module's tables have."""
    with serving(tmp_path_factory.mktemp("quoted_names") / "root") as running:
        yield running


def quoted(name: str) -> str:
    """The name in SQL."""
    return '"' + name.replace('"', '""') + '"'


@EVERY
@KINDS
def test_a_table_of_this_name_does_all_that_tables_do(server: Server, name: str, *, partitioned: bool) -> None:
    table, by = quoted(name), " PARTITIONED BY (k)" if partitioned else ""
    server.run(f"CREATE TABLE {table} (k VARCHAR, v BIGINT){by}")
    assert server.run(f"INSERT INTO {table} VALUES ('a', 1), ('b', 2)") == 2
    assert server.ingest(name, pa.table({"k": ["c"], "v": [3]}), "append") == 1
    assert server.run(f"UPDATE {table} SET v = v + 10 WHERE k = 'a'") == 1
    assert server.run(f"DELETE FROM {table} WHERE k = 'b'") == 1
    merged = f"MERGE INTO {table} t USING (SELECT 'd' AS k, 4 AS v) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT *"
    assert server.run(merged) == 1
    server.run(f"ALTER TABLE {table} ADD COLUMN w INT")
    assert server.rows(f"SELECT k, v FROM {table} x WHERE x.v > 0 ORDER BY k") == [("a", 11), ("c", 3), ("d", 4)]
    assert server.rows(f"SELECT public.{table}.k FROM public.{table} WHERE k LIKE 'a%'") == [("a",)]
    assert [row[0] for row in server.rows(f"DESCRIBE {table}")] == ["k", "v", "w"]
    versions = [version for (version,) in server.rows(f"SELECT version FROM {quoted(name + '$snapshots')} ORDER BY 1")]
    assert server.value(f"SELECT count(*) FROM {quoted(f'{name}@{versions[0]}')}") == 0
    server.run(f"ALTER TABLE {table} CREATE TAG first")
    assert server.value(f"SELECT count(*) FROM {quoted(f'{name}@first')}") == 3
    server.run(f"CREATE INDEX by_v ON {table} (v)")
    server.rows(f"ALTER TABLE {table} COMPACT")
    if partitioned:
        assert server.value(f"SELECT count(*) FROM {quoted(name + '$partitions')}") == 4
        assert "partitions: 1 / 4" in str(server.rows(f"EXPLAIN SELECT * FROM {table} WHERE k = 'a'"))
        server.run(f"ALTER TABLE {table} DETACH PARTITION (k = 'a') TO detached")
        server.run(f"ALTER TABLE {table} ATTACH TABLE 'detached' PARTITION (k = 'a')")
        server.rows(f"VACUUM {table} RETAIN 0 HOURS FORCE")
        if "?" not in name:
            server.run(f"ALTER TABLE {table} CREATE BRANCH b")
            server.run(f"INSERT INTO {quoted(name + '@b')} VALUES ('e', 5, 0), ('a', 6, 0)")
            assert server.value(f"SELECT count(*) FROM {quoted(name + '@b')}") == 5
            server.run(f"ALTER TABLE {table} PUBLISH BRANCH b")
    assert any(name in row for row in server.rows("SHOW TABLES"))
    assert server.rows(f"SELECT k FROM {table} WHERE v = 11") == [("a",)]
    assert tables_of(server) == [name]
    server.run(f"DROP TABLE {table}")
    assert tables_of(server) == []
    assert [path.name for path in server.root.iterdir() if not path.name.startswith(".")] == []


def test_a_table_with_a_question_mark_has_no_branches(server: Server) -> None:
    server.run('CREATE TABLE "how?" (k INT) PARTITIONED BY (k)')
    assert "takes what follows a ? in a path" in server.refuses('ALTER TABLE "how?" CREATE BRANCH b')
    assert [path.name for path in server.root.iterdir() if not path.name.startswith(".")] == ["how?"]
    server.run('DROP TABLE "how?"')


def tables_of(server: Server) -> list[str]:
    """The tables that GetTables lists."""
    objects = server.connection.adbc_get_objects(depth="tables").read_all().to_pylist()
    return [
        table["table_name"]
        for catalog in objects
        for schema in catalog["catalog_db_schemas"]
        for table in schema["db_schema_tables"]
    ]


@EVERY
def test_other_readers_find_the_directory_of_this_name(server: Server, name: str) -> None:
    server.run(f"CREATE TABLE {quoted(name)} AS SELECT 1 AS id")
    place = server.root / f"{name}.lance"
    assert lance.dataset(str(place)).to_table().to_pylist() == [{"id": 1}]
    lance.write_dataset(pa.table({"id": pa.array([2])}), str(place), mode="append")
    assert server.rows(f"SELECT id FROM {quoted(name)} ORDER BY id") == [(1,), (2,)]
    server.run(f"DROP TABLE {quoted(name)}")


@EVERY
def test_a_schema_and_a_renamed_table_may_have_this_name(server: Server, name: str) -> None:
    (server.root / name).mkdir()
    schema = quoted(name)
    server.run(f"CREATE TABLE {schema}.t (k INT) PARTITIONED BY (k)")
    server.run(f"INSERT INTO {schema}.t VALUES (1)")
    server.run(f"ALTER TABLE {schema}.t RENAME TO {quoted(name)}")
    assert server.rows(f"SELECT k FROM {schema}.{quoted(name)} WHERE k = 1") == [(1,)]
    assert server.rows(
        f"SELECT x.k FROM lance.{schema}.{quoted(name)} x JOIN {schema}.{quoted(name)} y ON x.k = y.k"
    ) == [(1,)]
    assert server.ingest(name, pa.table({"k": pa.array([2], pa.int32())}), "append", db_schema_name=name) == 1
    server.run(f"DROP TABLE {schema}.{quoted(name)}")
    (server.root / name).rmdir()


@pytest.mark.parametrize(
    "name", ["a/b", "..", "a\\b", "a@b", "a$b", "a.b", " a", "a ", "a\tb", "é" * 101, "__manifest", "%2e%2e", "a%252Fb"]
)
@pytest.mark.parametrize(
    "sql",
    ["CREATE TABLE {} (id INT)", "CREATE TABLE {} (id INT) PARTITIONED BY (id)", "CREATE TABLE {} AS SELECT 1 AS id"],
)
def test_a_name_that_could_mean_another_place_is_refused(server: Server, name: str, sql: str) -> None:
    before = sorted(server.root.iterdir())
    assert "is not allowed" in server.refuses(sql.format(quoted(name)))
    assert sorted(server.root.iterdir()) == before


def test_a_name_in_another_unicode_form_is_no_second_table(server: Server) -> None:
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    server.run(f"CREATE TABLE {quoted(composed)} (id INT)")
    server.run("CREATE TABLE cafes (id INT)")
    for sql in (
        "CREATE TABLE {} (id INT)",
        "CREATE TABLE {} (id INT) PARTITIONED BY (id)",
        "ALTER TABLE cafes RENAME TO {}",
    ):
        assert "the same text in another Unicode form" in server.refuses(sql.format(quoted(decomposed)))
    assert decomposed not in tables_of(server)
    server.run(f"DROP TABLE {quoted(composed)}")
    server.run(f"CREATE TABLE {quoted(decomposed)} (id INT)")
    assert decomposed in tables_of(server)
