"""Tags of plain and partitioned tables: named, read, listed, dropped."""

from __future__ import annotations

import pytest

from tests.engine.database import Database
from tests.engine.tagged_tables import PLACES, grown, stock


@PLACES
def test_a_tag_names_the_newest_version_or_the_one_it_is_given(
    database: Database, table: str, partitioned_by: str
) -> None:
    first, second, third = grown(database, table, partitioned_by)
    moment = next(v["timestamp"] for v in stock(database, table, partitioned_by).versions() if v["version"] == second)
    for statement in (
        f"ALTER TABLE {table} CREATE TAG newest",
        f"ALTER TABLE public.{table} CREATE TAG Oldest AS OF {first}",
        f"ALTER TABLE {table} CREATE TAG \"v1.0-RC\" AS OF '{moment.astimezone().isoformat()}'",
        f"ALTER TABLE {table} CREATE TAG again AS OF oldest",
        f"alter table {table} create tag 'quoted' as of 'v1.0-RC'",
    ):
        assert database.run(statement) == 0
    database.run(f"INSERT INTO {table} VALUES (3)")
    rows = {"newest": 3, "oldest": 1, '"v1.0-RC"': 2, "again": 1, "quoted": 2}
    for name, expected in rows.items():
        assert database.value(f'SELECT count(*) FROM "{table}@{name.strip(chr(34))}"') == expected
    named = {"again": first, "newest": third, "oldest": first, "quoted": second, "v1.0-RC": second}
    listed = [(name, version, None) for name, version in sorted(named.items())]
    assert database.rows(f"SELECT * FROM {table}$tags ORDER BY name") == listed
    assert {name: tag["version"] for name, tag in stock(database, table, partitioned_by).tags.list().items()} == named


@PLACES
def test_a_tag_is_dropped_and_its_name_is_free_again(database: Database, table: str, partitioned_by: str) -> None:
    first, second, _ = grown(database, table, partitioned_by)
    database.run(f"ALTER TABLE {table} CREATE TAG x AS OF {first}")
    database.run(f"ALTER TABLE {table} DROP TAG x")
    assert "not_found" in database.refuses(f"SELECT * FROM {table}@x")
    assert database.rows(f"SELECT * FROM {table}$tags") == []
    database.run(f"ALTER TABLE {table} CREATE TAG x AS OF {second}")
    assert database.value(f"SELECT count(*) FROM {table}@x") == 2


REFUSED = [
    pytest.param("CREATE TAG taken", ["already_exists", "'taken'"], id="a name that is taken"),
    pytest.param("CREATE TAG '12'", ["invalid_input", "'12'", "expected [A-Za-z_]"], id="a number"),
    pytest.param("CREATE TAG 12", ["invalid_input", "'12'"], id="a bare number"),
    pytest.param("CREATE TAG '2026-01-31'", ["invalid_input", "'2026-01-31'"], id="a time"),
    pytest.param("CREATE TAG 'a/b'", ["invalid_input", "'a/b'"], id="a slash"),
    pytest.param("CREATE TAG 'a@b'", ["invalid_input", "'a@b'"], id="an at sign"),
    pytest.param("CREATE TAG ''", ["invalid_input", "''"], id="nothing"),
    pytest.param("CREATE TAG main", ["invalid_input", "main branch"], id="the main branch"),
    pytest.param("CREATE TAG x AS OF 999", ["not_found", "999"], id="a version that is not there"),
    pytest.param("CREATE TAG x AS OF nope", ["not_found", "'nope'"], id="a tag that is not there"),
    pytest.param("CREATE TAG x AS OF '2000-01-01'", ["not_found", "2000-01-01T00:00:00"], id="a time before the table"),
    pytest.param("CREATE TAG x AS OF", ["invalid_sql", "a version, a tag or a time"], id="as of nothing"),
    pytest.param("CREATE TAG x OF 12", ["invalid_sql", "the end of the statement"], id="of"),
    pytest.param("DROP TAG takn", ["not_found", "'takn'", "did you mean 'taken'"], id="a misspelt tag"),
    pytest.param("MOVE TO x", ["invalid_sql", "CREATE TAG"], id="something else"),
]


@PLACES
@pytest.mark.parametrize(("alteration", "says"), REFUSED)
def test_what_cannot_be_is_named_and_changes_nothing(
    database: Database, table: str, partitioned_by: str, alteration: str, says: list[str]
) -> None:
    (first, *_) = grown(database, table, partitioned_by)
    database.run(f"ALTER TABLE {table} CREATE TAG taken AS OF {first}")
    message = database.refuses(f"ALTER TABLE {table} {alteration}")
    assert [part for part in says if part not in message] == []
    assert str(database.root) not in message
    assert database.rows(f"SELECT * FROM {table}$tags") == [("taken", first, None)]


def test_a_snapshot_from_before_the_table_was_partitioned_cannot_be_named(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT) PARTITIONED BY (id)")
    assert "not_found" in database.refuses(f"ALTER TABLE {table} CREATE TAG x AS OF 1")
    assert "not_found" in database.refuses("ALTER TABLE nowhere CREATE TAG x")
