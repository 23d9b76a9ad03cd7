"""Branches of a partitioned table: made, written, read, published, dropped; and sessions on one, while others go on with main."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from lance_flight.errors import SerializationFailure

from tests.engine.database import Client, Database
from tests.stock import manifest, manifest_rows, stored_by_value, stored_rows

pytestmark = pytest.mark.slow  # each case writes on both sides of a branch, and publishes


@pytest.fixture(scope="module")
def template(database: Database) -> str:
    """A table with the rows 1 to 3 in the partitions a and b, and a branch `draft` of it."""
    database.run("CREATE TABLE template (id INT, p VARCHAR) PARTITIONED BY (p)")
    database.run("INSERT INTO template VALUES (1, 'a'), (2, 'a'), (3, 'b')")
    database.run("ALTER TABLE template CREATE BRANCH draft")
    return "template"


def ids(database: Database, reference: str, where: str = "true") -> list[int]:
    return [number for (number,) in database.rows(f'SELECT id FROM "{reference}" WHERE {where} ORDER BY id')]


def stored_ids(database: Database, table: str) -> list[int]:
    """What stock Lance reads."""
    return sorted(row["id"] for rows in stored_by_value(database.root / table).values() for row in rows)


WRITES = [
    pytest.param("INSERT INTO {t} VALUES (4, 'a'), (5, 'new'), (6, NULL)", [1, 2, 3, 4, 5, 6], id="insert"),
    pytest.param("INSERT OVERWRITE {t} VALUES (7, 'a')", [3, 7], id="insert overwrite"),
    pytest.param("DELETE FROM {t} WHERE id = 1", [2, 3], id="delete"),
    pytest.param("DELETE FROM {t} WHERE p = 'b'", [1, 2], id="delete a partition"),
    pytest.param("UPDATE {t} SET id = id + 10", [11, 12, 13], id="update"),
    pytest.param("UPDATE {t} SET p = 'b' WHERE id = 1", [1, 2, 3], id="update that moves a row"),
    pytest.param(
        "MERGE INTO {t} AS a USING (SELECT 1 AS id UNION ALL SELECT 9) AS s ON a.id = s.id"
        " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, 'z')",
        [2, 3, 9],
        id="merge",
    ),
    pytest.param("TRUNCATE TABLE {t}", [], id="truncate"),
]


@pytest.mark.parametrize(("write", "expected"), WRITES)
def test_a_write_on_a_branch_is_seen_there_alone_until_it_is_published(
    database: Database, copied: str, write: str, expected: list[int]
) -> None:
    before = manifest_rows(database.root / copied)
    database.run(write.format(t=f'"{copied}@draft"'))
    assert ids(database, f"{copied}@draft") == expected
    assert database.value(f"SELECT count(*) FROM {copied}@draft") == len(expected)
    assert ids(database, copied) == [1, 2, 3]
    assert manifest_rows(database.root / copied) == before
    version = int(manifest(database.root / copied).version)
    assert database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft") == 0
    assert int(manifest(database.root / copied).version) == version + 1
    assert ids(database, copied) == ids(database, f"{copied}@draft") == expected
    assert stored_ids(database, copied) == expected
    assert ids(database, f"{copied}@{version}") == [1, 2, 3]


def test_many_tables_that_were_written_anew_on_a_branch_are_read_there_and_after_its_publication(
    database: Database, table: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, p BIGINT) PARTITIONED BY (p)")
    database.run(f"INSERT INTO {table} SELECT value, value FROM generate_series(1, 40)")
    database.run(f"ALTER TABLE {table} CREATE BRANCH draft")
    database.run(f'UPDATE "{table}@draft" SET id = id + 100')
    assert ids(database, f"{table}@draft") == list(range(101, 141))
    database.run(f"ALTER TABLE {table} PUBLISH BRANCH draft")
    assert ids(database, table) == list(range(101, 141))


def test_a_branch_is_written_again_and_again_and_each_write_goes_on_top(database: Database, copied: str) -> None:
    for number in range(4, 8):
        database.run(f"INSERT INTO \"{copied}@draft\" VALUES ({number}, 'a'), ({number}0, 'new')")
    database.run(f'DELETE FROM "{copied}@draft" WHERE id IN (5, 50, 1)')
    expected = [2, 3, 4, 6, 7, 40, 60, 70]
    assert ids(database, f"{copied}@draft") == expected
    assert ids(database, f"{copied}@draft", "p = 'a'") == [2, 4, 6, 7]
    database.run(f"INSERT INTO {copied} VALUES (8, 'b')")
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    assert ids(database, copied) == stored_ids(database, copied) == sorted([*expected, 8])


def test_main_is_written_on_after_a_publication_and_the_branch_too(database: Database, copied: str) -> None:
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (4, 'a'), (5, 'new')")
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    database.run(f"INSERT INTO {copied} VALUES (6, 'a'), (7, 'new'), (8, 'b')")
    database.run(f"DELETE FROM {copied} WHERE id = 4")
    assert ids(database, copied) == stored_ids(database, copied) == [1, 2, 3, 5, 6, 7, 8]
    assert ids(database, f"{copied}@draft") == [1, 2, 3, 4, 5]
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (9, 'c')")
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    assert ids(database, copied) == stored_ids(database, copied) == [1, 2, 3, 5, 6, 7, 8, 9]
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (10, 'a')")
    assert "serialization_failure" in database.refuses(f"ALTER TABLE {copied} PUBLISH BRANCH draft")


MEANWHILE = [
    pytest.param("INSERT INTO {t} VALUES (9, 'a')", id="an insert"),
    pytest.param("DELETE FROM {t} WHERE id = 1", id="a delete"),
    pytest.param("INSERT INTO {t} VALUES (9, 'new')", id="the same new partition"),
]


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_what_main_changed_as_well_is_not_published_over(database: Database, copied: str, meanwhile: str) -> None:
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (4, 'a'), (5, 'new'), (6, 'c')")
    database.run(meanwhile.format(t=copied))
    before = manifest_rows(database.root / copied)
    message = database.refuses(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    (changed,) = {"a", "new"}.intersection(
        row["partition_field_p"] for row in before if row["object_id"] in message and row["object_type"] == "table"
    )
    assert changed in meanwhile or "DELETE" in meanwhile
    assert "serialization_failure" in message
    assert manifest_rows(database.root / copied) == before
    assert ids(database, f"{copied}@draft") == [1, 2, 3, 4, 5, 6]


def test_a_name_that_was_dropped_is_used_again_and_what_was_published_under_it_stays(
    database: Database, copied: str
) -> None:
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (4, 'a'), (5, 'b')")
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (6, 'a')")
    database.run(f"ALTER TABLE {copied} DROP BRANCH draft")
    assert ids(database, copied) == stored_ids(database, copied) == [1, 2, 3, 4, 5]
    assert "not_found" in database.refuses(f"SELECT * FROM {copied}@draft")
    database.run(f"ALTER TABLE {copied} CREATE BRANCH draft")
    assert ids(database, f"{copied}@draft") == [1, 2, 3, 4, 5]
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (7, 'a')")
    database.run(f"INSERT INTO {copied} VALUES (8, 'b')")
    assert ids(database, f"{copied}@draft") == [1, 2, 3, 4, 5, 7]
    assert ids(database, copied) == [1, 2, 3, 4, 5, 8]
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    assert ids(database, copied) == stored_ids(database, copied) == [1, 2, 3, 4, 5, 7, 8]


def test_a_branch_begins_where_it_is_told(database: Database, copied: str) -> None:
    first = int(manifest(database.root / copied).version)
    database.run(f"INSERT INTO {copied} VALUES (4, 'a')")
    database.run(f"ALTER TABLE {copied} CREATE TAG good AS OF {first}")
    for name, at in (("by_number", first), ("by_tag", "good")):
        database.run(f"ALTER TABLE {copied} CREATE BRANCH {name} AS OF {at}")
        database.run(f"INSERT INTO \"{copied}@{name}\" VALUES (5, 'a')")
        assert ids(database, f"{copied}@{name}") == [1, 2, 3, 5]
    assert ids(database, copied) == [1, 2, 3, 4]


REPLACED = [
    pytest.param("", [1, 2, 3, 8, 9], id="by the newest version"),
    pytest.param(" AS OF good", [1, 2, 3, 8], id="by a tag"),
    pytest.param(" AS OF {first}", [1, 2, 3], id="by the version that it began at"),
]


@pytest.mark.parametrize(("point", "expected"), REPLACED)
def test_a_replaced_branch_is_as_if_it_had_been_made_there(
    database: Database, copied: str, point: str, expected: list[int]
) -> None:
    first = int(manifest(database.root / copied).version)
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (4, 'a'), (5, 'new')")
    database.run(f'DELETE FROM "{copied}@draft" WHERE id = 1')
    database.run(f"INSERT INTO {copied} VALUES (8, 'a')")
    database.run(f"ALTER TABLE {copied} CREATE TAG good")
    database.run(f"INSERT INTO {copied} VALUES (9, 'b')")
    database.run(f"ALTER TABLE {copied} REPLACE BRANCH draft{point.format(first=first)}")
    assert ids(database, f"{copied}@draft") == expected
    assert ids(database, copied) == stored_ids(database, copied) == [1, 2, 3, 8, 9]
    begins, now = database.rows(f"SELECT forked_at, version FROM {copied}$branches")[0][:2]
    assert ids(database, f"{copied}@{begins}") == expected
    assert now > begins or point
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (20, 'c'), (21, 'c')")
    database.run(f'DELETE FROM "{copied}@draft" WHERE id = 20')
    assert ids(database, f"{copied}@draft") == [*expected, 21]
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    assert ids(database, copied) == stored_ids(database, copied) == [1, 2, 3, 8, 9, 21]
    database.run(f"DELETE FROM \"{copied}@draft\" WHERE p = 'c'")
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    assert ids(database, copied) == stored_ids(database, copied) == [1, 2, 3, 8, 9]


def test_a_published_branch_is_replaced_and_published_again(database: Database, copied: str) -> None:
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (4, 'a')")
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (5, 'a'), (6, 'b')")
    for number in (7, 8):
        database.run(f"INSERT INTO {copied} VALUES ({number}, 'a')")
    database.run(f"ALTER TABLE {copied} CREATE OR REPLACE BRANCH draft")
    database.run(f"UPDATE \"{copied}@draft\" SET id = id + 10 WHERE p = 'a'")
    assert ids(database, f"{copied}@draft") == [3, 11, 12, 14, 17, 18]
    assert ids(database, copied) == [1, 2, 3, 4, 7, 8]
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    assert ids(database, copied) == stored_ids(database, copied) == [3, 11, 12, 14, 17, 18]
    assert {row[-1] for row in database.rows(f"VERIFY TABLE {copied}")} == {None}


def test_a_replaced_branch_has_the_columns_and_indices_of_main(database: Database, copied: str) -> None:
    database.run(f'ALTER TABLE "{copied}@draft" ADD COLUMN extra INT')
    database.run(f'CREATE INDEX mine ON "{copied}@draft" (id)')
    database.run(f"ALTER TABLE {copied} ADD COLUMN other VARCHAR")
    database.run(f"CREATE INDEX theirs ON {copied} (id)")
    database.run(f"ALTER TABLE {copied} REPLACE BRANCH draft")
    assert database.rows(f'SELECT id, other FROM "{copied}@draft" WHERE id = 1') == [(1, None)]
    assert "No field named extra" in database.refuses(f'SELECT extra FROM "{copied}@draft"')
    assert database.rows(f'SELECT DISTINCT name FROM "{copied}@draft$indexes"') == [("theirs",)]
    database.run(f'ALTER TABLE "{copied}@draft" ADD COLUMN later INT')
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    assert database.rows(f"SELECT id, other, later FROM {copied} WHERE id = 1") == [(1, None, None)]


CHANGES = [pytest.param(*write.values[:1], id=write.id) for write in WRITES]


@pytest.mark.parametrize("is_forked", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_rows_of_a_branch_fails_once_the_branch_was_replaced(
    database: Database, copied: str, change: str, *, is_forked: bool
) -> None:
    """The partition may look as it did, but what was written of it is elsewhere. Rows that are added go along."""
    if is_forked:
        database.run(f"INSERT INTO \"{copied}@draft\" VALUES (10, 'a'), (11, 'b')")
    before = ids(database, copied)
    with database.client() as client:
        client.run("BEGIN")
        client.run(change.format(t=f'"{copied}@draft"'))
        database.run(f"ALTER TABLE {copied} REPLACE BRANCH draft")
        if change.startswith("INSERT INTO"):
            client.run("COMMIT")
            before = [1, 2, 3, 4, 5, 6]
        else:
            with pytest.raises(SerializationFailure):
                client.run("COMMIT")
    assert ids(database, f"{copied}@draft") == before
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    assert ids(database, copied) == stored_ids(database, copied) == before


def test_a_branch_is_replaced_beside_a_new_partitioning_of_main(database: Database, copied: str) -> None:
    first = int(manifest(database.root / copied).version)
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (4, 'a')")
    database.run(f"ALTER TABLE {copied} SET PARTITIONED BY (bucket(2, id), p)")
    database.run(f"INSERT INTO {copied} VALUES (5, 'a'), (6, 'new')")
    database.run(f"ALTER TABLE {copied} REPLACE BRANCH draft")
    assert ids(database, f"{copied}@draft") == [1, 2, 3, 5, 6]
    listed = "SELECT spec_id, p, id_bucket, rows FROM {} ORDER BY ALL"
    partitions = [database.rows(listed.format(f'"{name}$partitions"')) for name in (copied, f"{copied}@draft")]
    assert partitions[0] == partitions[1]
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (7, 'a')")
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    assert ids(database, copied) == stored_ids(database, copied) == [1, 2, 3, 5, 6, 7]
    database.run(f"ALTER TABLE {copied} REPLACE BRANCH draft AS OF {first}")
    assert ids(database, f"{copied}@draft") == [1, 2, 3]
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (8, 'new')")
    assert "serialization_failure" in database.refuses(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    database.run(f"ALTER TABLE {copied} REPLACE BRANCH draft AS OF {first}")
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (9, 'other')")
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    assert ids(database, copied) == stored_ids(database, copied) == [1, 2, 3, 5, 6, 7, 9]
    assert {row[-1] for row in database.rows(f"VERIFY TABLE {copied}")} == {None}


def test_a_branch_with_a_partitioning_of_its_own_is_not_replaced(database: Database, copied: str) -> None:
    database.run(f'ALTER TABLE "{copied}@draft" SET PARTITIONED BY (bucket(2, id))')
    message = database.refuses(f"ALTER TABLE {copied} REPLACE BRANCH draft")
    assert "expected DROP BRANCH, and CREATE BRANCH" in message
    assert "bucket" in message
    first = int(manifest(database.root / copied).version)
    database.run(f"ALTER TABLE {copied} SET PARTITIONED BY (bucket(3, id))")
    message = database.refuses(f"ALTER TABLE {copied} REPLACE BRANCH draft AS OF {first}")
    assert "expected DROP BRANCH, and CREATE BRANCH" in message
    assert "no branch 'nothing'" in database.refuses(f"ALTER TABLE {copied} REPLACE BRANCH nothing")


def test_branches_are_listed_with_their_versions(database: Database, copied: str) -> None:
    forked = int(manifest(database.root / copied).version)
    database.run(f"ALTER TABLE {copied} CREATE BRANCH other")
    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (4, 'a')")
    assert database.rows(f"SELECT * FROM {copied}$branches ORDER BY name") == [
        ("draft", forked, forked + 1, None, None),
        ("other", forked, forked, None, None),
    ]
    newest = database.rows(
        f'SELECT version, operation, tables_changed FROM "{copied}@draft$snapshots" ORDER BY version DESC LIMIT 1'
    )
    assert newest == [(forked + 1, "append 1 rows into 1 partitions", 1)]
    assert int(database.value(f"SELECT max(version) FROM {copied}$snapshots")) == forked
    pins = database.rows(f'SELECT p, read_branch IS NULL FROM "{copied}@draft$partitions" ORDER BY p')
    assert pins == [("a", False), ("b", True)]


def test_files_are_listed_where_they_lie_on_a_branch_and_after_its_publication(database: Database, copied: str) -> None:
    def listed(reference: str) -> list[str]:
        return [path for (path,) in database.rows(f'SELECT path FROM "{reference}$files"')]

    database.run(f"INSERT INTO \"{copied}@draft\" VALUES (4, 'a'), (5, 'new')")
    on_branch = listed(f"{copied}@draft")
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    database.run(f"ALTER TABLE {copied} CREATE BRANCH again")
    database.run(f"INSERT INTO \"{copied}@again\" VALUES (6, 'a')")
    for paths, count in ((on_branch, 4), (listed(copied), 4), (listed(f"{copied}@again"), 5)):
        assert len(paths) == count
        assert [path for path in paths if not (database.root / copied / path).is_file()] == []


def test_a_branch_is_a_table_to_ingest_describe_and_join(database: Database, copied: str) -> None:
    name = f"{copied}@draft"
    assert database.ingest(name, database.query(f"SELECT id + 10 AS id, p FROM {copied}"), mode="append") == 3
    assert ids(database, name) == [1, 2, 3, 11, 12, 13]
    assert [row[0] for row in database.rows(f'DESCRIBE "{name}"')] == ["id", "p"]
    new = f'SELECT d.id FROM "{name}" d LEFT JOIN {copied} m ON d.id = m.id WHERE m.id IS NULL ORDER BY 1'
    assert database.rows(new) == [(11,), (12,), (13,)]
    database.run(f'INSERT INTO {copied} SELECT id, p FROM "{name}" WHERE id > 12')
    assert ids(database, copied) == [1, 2, 3, 13]


@pytest.fixture
def audited(database: Database, table: str) -> str:
    """A table with a branch that is called as no other test calls one."""
    database.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    database.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    database.run(f"ALTER TABLE {table} CREATE BRANCH audit")
    return table


@pytest.fixture(params=[True, False], ids=["autocommit", "transactions"])
def autocommit(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def client(database: Database, autocommit: bool) -> Iterator[Client]:  # noqa: FBT001 - a fixture
    """A client with a session of its own, on the branch."""
    with database.client(autocommit=autocommit) as opened:
        opened.run("SET branch = 'audit'")
        yield opened


@pytest.fixture
def end(client: Client, autocommit: bool) -> Callable[[], None]:  # noqa: FBT001 - a fixture
    """Commits, where a client does that."""
    return (lambda: None) if autocommit else client.commit


def test_what_is_written_stays_on_the_branch_until_it_is_published(
    database: Database, audited: str, client: Client, end: Callable[[], None]
) -> None:
    client.run(f"INSERT INTO {audited} VALUES (3, 'c')")
    client.run(f"UPDATE {audited} SET p = 'z' WHERE id = 1")
    written = [(1, "z"), (2, "b"), (3, "c")]
    assert sorted(client.rows(f"SELECT * FROM {audited}")) == written
    end()
    assert sorted(client.rows(f"SELECT * FROM {audited}")) == written
    end()
    assert sorted(database.rows(f"SELECT * FROM {audited}")) == [(1, "a"), (2, "b")]
    assert sorted(database.rows(f'SELECT * FROM "{audited}@audit"')) == written
    assert sorted(stored_rows(database.root / audited)["id"].to_pylist()) == [1, 2]
    database.run(f"ALTER TABLE {audited} PUBLISH BRANCH audit")
    assert sorted(database.rows(f"SELECT * FROM {audited}")) == written
    assert sorted(stored_rows(database.root / audited)["id"].to_pylist()) == [1, 2, 3]


def test_a_session_goes_back_to_the_main_branch(
    database: Database, audited: str, client: Client, end: Callable[[], None]
) -> None:
    client.run(f"DELETE FROM {audited}")
    end()
    client.run("SET branch = 'main'")
    assert sorted(client.rows(f"SELECT * FROM {audited}")) == [(1, "a"), (2, "b")]
    end()
    assert database.value(f'SELECT count(*) FROM "{audited}@audit"') == 0


SESSION_WRITES = {
    "insert": "INSERT INTO {t} VALUES (9, 'x')",
    "update": "UPDATE {t} SET id = 0",
    "delete": "DELETE FROM {t}",
    "truncate": "TRUNCATE {t}",
    "overwrite": "INSERT OVERWRITE {t} VALUES (9, 'a')",
    "drop": "DROP TABLE {t}",
    "create": "CREATE TABLE {t}_2 (id BIGINT)",
}


@pytest.mark.parametrize("partitioned_by", ["", " PARTITIONED BY (p)"], ids=["plain", "partitioned"])
@pytest.mark.parametrize("sql", SESSION_WRITES.values(), ids=SESSION_WRITES)
def test_nothing_is_written_to_a_table_without_the_branch(
    database: Database, table: str, client: Client, sql: str, partitioned_by: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR){partitioned_by}")
    database.run(f"INSERT INTO {table} VALUES (1, 'a')")
    assert client.rows(f"SELECT * FROM {table}") == [(1, "a")]
    assert "SET branch = 'main'" in client.refuses(sql.format(t=table))
    assert database.rows(f"SELECT * FROM {table}") == [(1, "a")]
    assert f"{table}_2" not in [name for _, name, _ in database.rows("SHOW TABLES")]


@pytest.mark.parametrize("name", ["'1 x'", "''", "'a$b'"])
def test_a_name_that_no_branch_can_have_is_refused(client: Client, name: str) -> None:
    assert "branch name" in client.refuses(f"SET branch = {name}")


@pytest.mark.parametrize("stable", ["true", "false"])
@pytest.mark.parametrize("index", ["CREATE INDEX i ON {t} (id) WITH (min_rows = 1)", None], ids=["indexed", "bare"])
@pytest.mark.parametrize("statement", ["ALTER TABLE {b} COMPACT", "ALTER TABLE {b} REWRITE PARTITIONS"])
def test_partitions_that_a_branch_has_not_written_yet_are_maintained_there(
    database: Database, table: str, statement: str, index: str | None, stable: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p) WITH (stable_row_ids = {stable})")
    database.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'a')")
    if index is not None:
        database.run(index.format(t=table))
    database.run(f"INSERT INTO {table} VALUES (3, 'a'), (4, 'b')")
    database.run(f"ALTER TABLE {table} CREATE BRANCH b")
    database.query(statement.format(b=f'"{table}@b"'))
    for name in (f"{table}@b", table):
        assert database.rows(f'SELECT id FROM "{name}" ORDER BY id') == [(1,), (2,), (3,), (4,)]
        assert database.rows(f'SELECT p FROM "{name}" WHERE id = 3') == [("a",)]
    database.run(f"ALTER TABLE {table} PUBLISH BRANCH b")
    assert database.rows(f"SELECT id FROM {table} ORDER BY id") == [(1,), (2,), (3,), (4,)]
