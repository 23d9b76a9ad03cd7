"""Branches of a partitioned table: made, written, read, published, dropped."""

from __future__ import annotations

import pytest

from tests.service.server_process import Server
from tests.stock import manifest, manifest_rows, stored_by_value


@pytest.fixture
def branched(server: Server, table: str) -> str:
    """A table with the rows 1 to 3 in the partitions a and b, and a branch `draft` of it."""
    server.run(f"CREATE TABLE {table} (id INT, p VARCHAR) PARTITIONED BY (p)")
    server.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'a'), (3, 'b')")
    server.run(f"ALTER TABLE {table} CREATE BRANCH draft")
    return table


def ids(server: Server, reference: str, where: str = "true") -> list[int]:
    return [number for (number,) in server.rows(f'SELECT id FROM "{reference}" WHERE {where} ORDER BY id')]


def stored_ids(server: Server, table: str) -> list[int]:
    """What stock Lance reads."""
    return sorted(row["id"] for rows in stored_by_value(server.root / table).values() for row in rows)


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
    server: Server, branched: str, write: str, expected: list[int]
) -> None:
    before = manifest_rows(server.root / branched)
    server.run(write.format(t=f'"{branched}@draft"'))
    assert ids(server, f"{branched}@draft") == expected
    assert server.value(f"SELECT count(*) FROM {branched}@draft") == len(expected)
    assert ids(server, branched) == [1, 2, 3]
    assert manifest_rows(server.root / branched) == before
    version = int(manifest(server.root / branched).version)
    assert server.run(f"ALTER TABLE {branched} PUBLISH BRANCH draft") == 0
    assert int(manifest(server.root / branched).version) == version + 1
    assert ids(server, branched) == ids(server, f"{branched}@draft") == expected
    assert stored_ids(server, branched) == expected
    assert ids(server, f"{branched}@{version}") == [1, 2, 3]


def test_many_tables_that_were_written_anew_on_a_branch_are_read_there_and_after_its_publication(
    server: Server, table: str
) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, p BIGINT) PARTITIONED BY (p)")
    server.run(f"INSERT INTO {table} SELECT value, value FROM generate_series(1, 40)")
    server.run(f"ALTER TABLE {table} CREATE BRANCH draft")
    server.run(f'UPDATE "{table}@draft" SET id = id + 100')
    assert ids(server, f"{table}@draft") == list(range(101, 141))
    server.run(f"ALTER TABLE {table} PUBLISH BRANCH draft")
    assert ids(server, table) == list(range(101, 141))


def test_a_branch_is_written_again_and_again_and_each_write_goes_on_top(server: Server, branched: str) -> None:
    for number in range(4, 8):
        server.run(f"INSERT INTO \"{branched}@draft\" VALUES ({number}, 'a'), ({number}0, 'new')")
    server.run(f'DELETE FROM "{branched}@draft" WHERE id IN (5, 50, 1)')
    expected = [2, 3, 4, 6, 7, 40, 60, 70]
    assert ids(server, f"{branched}@draft") == expected
    assert ids(server, f"{branched}@draft", "p = 'a'") == [2, 4, 6, 7]
    server.run(f"INSERT INTO {branched} VALUES (8, 'b')")
    server.run(f"ALTER TABLE {branched} PUBLISH BRANCH draft")
    assert ids(server, branched) == stored_ids(server, branched) == sorted([*expected, 8])


def test_main_is_written_on_after_a_publication_and_the_branch_too(server: Server, branched: str) -> None:
    server.run(f"INSERT INTO \"{branched}@draft\" VALUES (4, 'a'), (5, 'new')")
    server.run(f"ALTER TABLE {branched} PUBLISH BRANCH draft")
    server.run(f"INSERT INTO {branched} VALUES (6, 'a'), (7, 'new'), (8, 'b')")
    server.run(f"DELETE FROM {branched} WHERE id = 4")
    assert ids(server, branched) == stored_ids(server, branched) == [1, 2, 3, 5, 6, 7, 8]
    assert ids(server, f"{branched}@draft") == [1, 2, 3, 4, 5]
    server.run(f"INSERT INTO \"{branched}@draft\" VALUES (9, 'c')")
    server.run(f"ALTER TABLE {branched} PUBLISH BRANCH draft")
    assert ids(server, branched) == stored_ids(server, branched) == [1, 2, 3, 5, 6, 7, 8, 9]
    server.run(f"INSERT INTO \"{branched}@draft\" VALUES (10, 'a')")
    assert "serialization_failure" in server.refuses(f"ALTER TABLE {branched} PUBLISH BRANCH draft")


def test_publishing_twice_is_publishing_once(server: Server, branched: str) -> None:
    server.run(f"INSERT INTO \"{branched}@draft\" VALUES (4, 'a')")
    server.run(f"ALTER TABLE {branched} PUBLISH BRANCH draft")
    version = int(manifest(server.root / branched).version)
    server.run(f"ALTER TABLE {branched} PUBLISH BRANCH draft")
    assert int(manifest(server.root / branched).version) == version
    server.run(f"INSERT INTO \"{branched}@draft\" VALUES (5, 'a')")
    server.run(f"ALTER TABLE {branched} PUBLISH BRANCH draft")
    assert ids(server, branched) == [1, 2, 3, 4, 5]


MEANWHILE = [
    pytest.param("INSERT INTO {t} VALUES (9, 'a')", id="an insert"),
    pytest.param("DELETE FROM {t} WHERE id = 1", id="a delete"),
    pytest.param("INSERT INTO {t} VALUES (9, 'new')", id="the same new partition"),
]


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_what_main_changed_as_well_is_not_published_over(server: Server, branched: str, meanwhile: str) -> None:
    server.run(f"INSERT INTO \"{branched}@draft\" VALUES (4, 'a'), (5, 'new'), (6, 'c')")
    server.run(meanwhile.format(t=branched))
    before = manifest_rows(server.root / branched)
    message = server.refuses(f"ALTER TABLE {branched} PUBLISH BRANCH draft")
    (changed,) = {"a", "new"}.intersection(
        row["partition_field_p"] for row in before if row["object_id"] in message and row["object_type"] == "table"
    )
    assert changed in meanwhile or "DELETE" in meanwhile
    assert "serialization_failure" in message
    assert manifest_rows(server.root / branched) == before
    assert ids(server, f"{branched}@draft") == [1, 2, 3, 4, 5, 6]


def test_a_name_that_was_dropped_is_used_again_and_what_was_published_under_it_stays(
    server: Server, branched: str
) -> None:
    server.run(f"INSERT INTO \"{branched}@draft\" VALUES (4, 'a'), (5, 'b')")
    server.run(f"ALTER TABLE {branched} PUBLISH BRANCH draft")
    server.run(f"INSERT INTO \"{branched}@draft\" VALUES (6, 'a')")
    server.run(f"ALTER TABLE {branched} DROP BRANCH draft")
    assert ids(server, branched) == stored_ids(server, branched) == [1, 2, 3, 4, 5]
    assert "not_found" in server.refuses(f"SELECT * FROM {branched}@draft")
    server.run(f"ALTER TABLE {branched} CREATE BRANCH draft")
    assert ids(server, f"{branched}@draft") == [1, 2, 3, 4, 5]
    server.run(f"INSERT INTO \"{branched}@draft\" VALUES (7, 'a')")
    server.run(f"INSERT INTO {branched} VALUES (8, 'b')")
    assert ids(server, f"{branched}@draft") == [1, 2, 3, 4, 5, 7]
    assert ids(server, branched) == [1, 2, 3, 4, 5, 8]
    server.run(f"ALTER TABLE {branched} PUBLISH BRANCH draft")
    assert ids(server, branched) == stored_ids(server, branched) == [1, 2, 3, 4, 5, 7, 8]


def test_a_branch_begins_where_it_is_told(server: Server, branched: str) -> None:
    first = int(manifest(server.root / branched).version)
    server.run(f"INSERT INTO {branched} VALUES (4, 'a')")
    server.run(f"ALTER TABLE {branched} CREATE TAG good AS OF {first}")
    for name, at in (("by_number", first), ("by_tag", "good")):
        server.run(f"ALTER TABLE {branched} CREATE BRANCH {name} AS OF {at}")
        server.run(f"INSERT INTO \"{branched}@{name}\" VALUES (5, 'a')")
        assert ids(server, f"{branched}@{name}") == [1, 2, 3, 5]
    assert ids(server, branched) == [1, 2, 3, 4]


def test_branches_are_listed_with_their_versions(server: Server, branched: str) -> None:
    forked = int(manifest(server.root / branched).version)
    server.run(f"ALTER TABLE {branched} CREATE BRANCH other")
    server.run(f"INSERT INTO \"{branched}@draft\" VALUES (4, 'a')")
    assert server.rows(f"SELECT * FROM {branched}$branches ORDER BY name") == [
        ("draft", forked, forked + 1),
        ("other", forked, forked),
    ]
    newest = server.rows(
        f'SELECT version, operation, tables_changed FROM "{branched}@draft$snapshots" ORDER BY version DESC LIMIT 1'
    )
    assert newest == [(forked + 1, "append 1 rows into 1 partitions", 1)]
    assert int(server.value(f"SELECT max(version) FROM {branched}$snapshots")) == forked
    pins = server.rows(f'SELECT p, read_branch IS NULL FROM "{branched}@draft$partitions" ORDER BY p')
    assert pins == [("a", False), ("b", True)]


def test_files_are_listed_where_they_lie_on_a_branch_and_after_its_publication(server: Server, branched: str) -> None:
    def listed(reference: str) -> list[str]:
        return [path for (path,) in server.rows(f'SELECT path FROM "{reference}$files"')]

    server.run(f"INSERT INTO \"{branched}@draft\" VALUES (4, 'a'), (5, 'new')")
    on_branch = listed(f"{branched}@draft")
    server.run(f"ALTER TABLE {branched} PUBLISH BRANCH draft")
    server.run(f"ALTER TABLE {branched} CREATE BRANCH again")
    server.run(f"INSERT INTO \"{branched}@again\" VALUES (6, 'a')")
    for paths, count in ((on_branch, 4), (listed(branched), 4), (listed(f"{branched}@again"), 5)):
        assert len(paths) == count
        assert [path for path in paths if not (server.root / branched / path).is_file()] == []


def test_a_branch_is_a_table_to_ingest_describe_and_join(server: Server, branched: str) -> None:
    name = f"{branched}@draft"
    assert server.ingest(name, server.query(f"SELECT id + 10 AS id, p FROM {branched}"), mode="append") == 3
    assert ids(server, name) == [1, 2, 3, 11, 12, 13]
    assert [row[0] for row in server.rows(f'DESCRIBE "{name}"')] == ["id", "p"]
    new = f'SELECT d.id FROM "{name}" d LEFT JOIN {branched} m ON d.id = m.id WHERE m.id IS NULL ORDER BY 1'
    assert server.rows(new) == [(11,), (12,), (13,)]
    server.run(f'INSERT INTO {branched} SELECT id, p FROM "{name}" WHERE id > 12')
    assert ids(server, branched) == [1, 2, 3, 13]


REFUSED = [
    pytest.param("ALTER TABLE {t} CREATE BRANCH draft", ["already_exists", "'draft'"], id="a branch of that name"),
    pytest.param("ALTER TABLE {t} CREATE BRANCH good", ["already_exists", "a tag"], id="a branch named like a tag"),
    pytest.param("ALTER TABLE {t} CREATE TAG draft", ["already_exists", "a branch"], id="a tag named like a branch"),
    pytest.param("ALTER TABLE {t} CREATE BRANCH main", ["invalid_input", "main"], id="main"),
    pytest.param("ALTER TABLE {t} CREATE BRANCH '12'", ["invalid_input", "'12'"], id="a number"),
    pytest.param("ALTER TABLE {t} CREATE BRANCH x AS OF 999", ["not_found", "999"], id="a version that is not there"),
    pytest.param("ALTER TABLE {t} PUBLISH BRANCH draf", ["not_found", "did you mean 'draft'"], id="publish unknown"),
    pytest.param("ALTER TABLE {t} DROP BRANCH draf", ["not_found", "did you mean 'draft'"], id="drop unknown"),
    pytest.param("ALTER TABLE {t} PUBLISH draft", ["invalid_sql", "PUBLISH BRANCH"], id="publish what"),
    pytest.param('ALTER TABLE "{t}@draft" CREATE BRANCH x', ["unsupported", "'draft'"], id="a branch of a branch"),
    pytest.param('ALTER TABLE "{t}@draft" CREATE TAG x', ["unsupported", "'draft'"], id="a tag on a branch"),
    pytest.param('DROP TABLE "{t}@draft"', ["unsupported", "{t}@draft", "DROP BRANCH"], id="drop a branch as a table"),
    pytest.param('INSERT INTO "{t}@good" VALUES (1)', ["not_found", "{t}@good"], id="write to a tag"),
    pytest.param('INSERT INTO "{t}@3" VALUES (1)', ["not_found", "{t}@3"], id="write to a version"),
]


@pytest.mark.parametrize(("sql", "says"), REFUSED)
def test_what_cannot_be_is_named_and_changes_nothing(server: Server, branched: str, sql: str, says: list[str]) -> None:
    server.run(f"ALTER TABLE {branched} CREATE TAG good")
    message = server.refuses(sql.format(t=branched))
    assert [part for part in says if part.format(t=branched) not in message] == []
    assert str(server.root) not in message
    assert ids(server, branched) == ids(server, f"{branched}@draft") == [1, 2, 3]
    assert len(server.rows(f"SELECT * FROM {branched}$branches")) == 1
    assert len(server.rows(f"SELECT * FROM {branched}$tags")) == 1


def test_a_plain_table_has_no_branches_and_says_so(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id INT)")
    for alteration in ("CREATE BRANCH x", "PUBLISH BRANCH x", "DROP BRANCH x"):
        assert "not partitioned" in server.refuses(f"ALTER TABLE {table} {alteration}")
