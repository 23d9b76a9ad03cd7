"""Plain Lance tables, made by Lance itself, do what partitioned ones do; what is stored is what Lance reads afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset

from tests.catalog.aging import age
from tests.engine.database import Database

ROWS = 40
VECTORS = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(ROWS * 2, dtype=np.float32)), 2)
COLUMNS = {
    "id": pa.array(range(ROWS), pa.int32()),
    "word": [f"word{n % 4}" for n in range(ROWS)],
    "place": [{"x": n, "tags": [f"t{n}"]} for n in range(ROWS)],
    "vector": VECTORS,
}


@pytest.fixture
def plain(database: Database, table: str) -> str:
    """A table of two files that Lance has written by itself."""
    rows = pa.table(COLUMNS)
    place = place_of(database, table)
    lance.write_dataset(rows.slice(0, 30), place)
    lance.write_dataset(rows.slice(30), place, mode="append")
    return table


def place_of(database: Database, table: str) -> str:
    return str(Path(database.root, f"{table}.lance"))


def stored(database: Database, table: str) -> LanceDataset:
    return lance.dataset(place_of(database, table))


COLUMN_CHANGES = [
    pytest.param("ADD COLUMN n BIGINT", "n", {None}, "int64", id="a column of NULL"),
    pytest.param("ADD COLUMN n BIGINT DEFAULT 7", "n", {7}, "int64", id="a column with a default"),
    ("ADD COLUMN n DOUBLE AS (id * 0.5)", "n", {n * 0.5 for n in range(ROWS)}, "double"),
    pytest.param("ALTER COLUMN id TYPE BIGINT", "id", set(range(ROWS)), "int64", id="a wider type"),
    pytest.param("RENAME COLUMN word TO term", "term", {f"word{n}" for n in range(4)}, "string", id="another name"),
    pytest.param("ADD COLUMN place.y INT", "place['y']", {None}, "int32", id="a field inside a struct"),
    pytest.param("DROP COLUMN word", "id", set(range(ROWS)), "int32", id="a column less"),
]


@pytest.mark.parametrize(("change", "read", "values", "kind"), COLUMN_CHANGES)
def test_columns_change_in_one_version(  # noqa: PLR0917
    database: Database, plain: str, change: str, read: str, values: set[Any], kind: str
) -> None:
    before = stored(database, plain)
    database.run(f"ALTER TABLE {plain} {change}")
    found = database.query(f"SELECT {read} AS v FROM {plain}")
    assert set(found["v"].to_pylist()) == values
    assert str(found.schema.field("v").type) == kind
    after = stored(database, plain)
    assert after.version == before.version + 1
    assert after.count_rows() == ROWS
    by_lance = after.to_table(columns={"v": read.replace("['", ".").replace("']", "")})
    assert set(by_lance["v"].to_pylist()) == values
    metadata = [field.metadata or {} for field in after.schema]
    assert not any(b"lance_flight:field_id" in each for each in metadata), "Lance's own numbers serve"
    assert before.to_table().num_rows == ROWS, "an old version is what it was"


def test_columns_that_lance_has_changed_between_ours_are_the_same_for_both(database: Database, plain: str) -> None:
    database.run(f"ALTER TABLE {plain} RENAME COLUMN word TO term")
    stored(database, plain).alter_columns({"path": "term", "name": "w"})
    stored(database, plain).add_columns({"twice": "id * 2"})
    database.run(f"ALTER TABLE {plain} ALTER COLUMN twice TYPE BIGINT")
    database.run(f"ALTER TABLE {plain} ADD COLUMN word VARCHAR DEFAULT 'new'")
    row = database.rows(f"SELECT id, w, twice, word FROM {plain} WHERE id = 5")
    assert row == [(5, "word1", 10, "new")]
    database.run(f"INSERT INTO {plain} (id, w, twice) VALUES (100, 'x', 1)")
    assert database.rows(f"SELECT id, w, twice, word FROM {plain} WHERE id = 100") == [(100, "x", 1, "new")]
    assert stored(database, plain).to_table(filter="id = 100")["word"].to_pylist() == ["new"]


CHANGES = [
    pytest.param("INSERT INTO {} (id, word) VALUES (100, 'a'), (101, 'b')", 2, ROWS + 2, "append 2 rows", id="insert"),
    pytest.param("UPDATE {} SET word = 'w' WHERE id < 3", 3, ROWS, "update 3 rows", id="update"),
    pytest.param("DELETE FROM {} WHERE id >= 35", 5, ROWS - 5, "delete 5 rows", id="delete"),
    pytest.param(
        "MERGE INTO {0} USING (VALUES (1, 'm'), (200, 'n')) AS s (id, word) ON {0}.id = s.id"
        " WHEN MATCHED THEN UPDATE SET word = s.word WHEN NOT MATCHED THEN INSERT (id, word) VALUES (s.id, s.word)",
        2,
        ROWS + 1,
        "merge 2 rows",
        id="merge",
    ),
    pytest.param("INSERT OVERWRITE {0} SELECT * FROM {0} WHERE id = 1", ROWS + 1, 1, "overwrite", id="overwrite"),
    ("INSERT OVERWRITE {0} SELECT * FROM {0} WHERE id < 0", ROWS, 0, "overwrite"),
    pytest.param("TRUNCATE TABLE {}", ROWS, 0, "truncate 40 rows", id="truncate"),
]


@pytest.mark.parametrize(("sql", "count", "left", "operation"), CHANGES)
def test_rows_change_in_one_version_which_says_how(  # noqa: PLR0917
    database: Database, plain: str, sql: str, count: int, left: int, operation: str
) -> None:
    before = stored(database, plain).version
    assert database.run(sql.format(plain)) == count
    after = stored(database, plain)
    assert (after.version, after.count_rows()) == (before + 1, left)
    assert database.value(f"SELECT count(*) FROM {plain}") == left
    *_, (version, said) = database.rows(f'SELECT version, operation FROM "{plain}$snapshots" ORDER BY version')
    assert version == after.version
    assert said.startswith(operation)


def test_the_history_names_what_others_did(database: Database, plain: str) -> None:
    stored(database, plain).delete("id = 1")
    stored(database, plain).create_scalar_index("id", "BTREE")
    found = database.rows(f'SELECT operation FROM "{plain}$snapshots" ORDER BY version')
    assert found == [("overwrite",), ("append",), ("delete",), ("create index",)]


def test_files_and_indices_are_listed(database: Database, plain: str) -> None:
    files = database.query(f'SELECT path, rows FROM "{plain}$files"').to_pylist()
    assert [each["rows"] for each in files] == [30, 10]
    assert all(Path(place_of(database, plain), each["path"]).is_file() for each in files)
    assert database.rows(f"SHOW INDEXES FROM {plain}") == []


INDICES = [
    pytest.param("(id)", "btree", "SELECT count(*) FROM {} WHERE id = 7", 1, id="btree"),
    pytest.param("(word) USING bitmap", "bitmap", "SELECT count(*) FROM {} WHERE word = 'word1'", 10, id="bitmap"),
    ("(word) USING inverted", "inverted", "SELECT count(*) FROM full_text_search('{}', 'word', 'word2', k => 100)", 10),
    pytest.param(
        "(vector) USING ivf_flat",
        "ivf_flat",
        "SELECT max(id) FROM vector_search('{}', 'vector', [20.0, 21.0], k => 1)",
        10,
        id="vector",
    ),
]


@pytest.mark.parametrize(("index", "kind", "search", "answer"), INDICES)
def test_an_index_is_made_used_and_dropped(  # noqa: PLR0917
    database: Database, plain: str, index: str, kind: str, search: str, answer: int
) -> None:
    options = ", num_partitions = 1" if "ivf" in kind else ""
    database.run(f"CREATE INDEX i ON {plain} {index} WITH (min_rows = 1{options})")
    assert [each.name for each in stored(database, plain).describe_indices()] == ["i"]
    listed = database.rows(f'SELECT name, kind, rows, indexed_rows FROM "{plain}$indexes"')
    assert listed == [("i", kind, ROWS, ROWS)]
    assert database.value(search.format(plain)) == answer
    database.run(f"INSERT INTO {plain} (id, word, vector) VALUES (500, 'word9', [900.0, 901.0])")
    database.query(f"REINDEX {plain}")
    assert database.rows(f'SELECT rows, indexed_rows FROM "{plain}$indexes"') == [(ROWS + 1, ROWS + 1)]
    database.run(f"DROP INDEX i ON {plain}")
    assert stored(database, plain).describe_indices() == []
    assert database.value(search.format(plain)) == answer


def test_an_index_that_lance_has_made_is_used_brought_up_to_date_and_dropped(database: Database, plain: str) -> None:
    stored(database, plain).create_scalar_index("id", "BTREE", name="theirs")
    assert "theirs (btree) of id" in str(database.rows(f"EXPLAIN SELECT * FROM {plain} WHERE id = 3"))
    database.run(f"INSERT INTO {plain} (id) VALUES (1000)")
    assert database.rows(f'SELECT name, indexed_rows FROM "{plain}$indexes"') == [("theirs", ROWS)]
    database.query(f"REINDEX {plain}")
    assert database.rows(f'SELECT name, indexed_rows FROM "{plain}$indexes"') == [("theirs", ROWS + 1)]
    database.run(f"DROP INDEX theirs ON {plain}")
    assert not stored(database, plain).has_index


def test_compaction_joins_files_and_keeps_rows_and_indices(database: Database, plain: str) -> None:
    database.run(f"CREATE INDEX i ON {plain} (id) WITH (min_rows = 1)")
    database.run(f"DELETE FROM {plain} WHERE id < 10")
    (report,) = database.query(f"ALTER TABLE {plain} COMPACT").to_pylist()
    assert (report["files_before"], report["files_after"], report["deleted_rows"]) == (2, 1, 10)
    after = stored(database, plain)
    assert len(after.get_fragments()) == 1
    assert after.to_table(columns=["id"])["id"].to_pylist() == list(range(10, ROWS))
    assert database.rows(f'SELECT indexed_rows FROM "{plain}$indexes"') == [(ROWS - 10,)]
    assert database.value(f"SELECT word FROM {plain} WHERE id = 15") == "word3"
    changes = f"SELECT count(*) FROM table_changes('{plain}', {after.version - 2}, {after.version})"
    assert database.value(changes) == 0, "nothing came or went"


def test_vacuum_removes_old_versions_but_those_with_a_tag(database: Database, plain: str) -> None:
    database.run(f"ALTER TABLE {plain} CREATE TAG kept AS OF 1")
    database.run(f"DELETE FROM {plain} WHERE id < 10")
    database.run(f"DELETE FROM {plain} WHERE id < 20")
    database.query(f"ALTER TABLE {plain} COMPACT")
    age(Path(place_of(database, plain)), hours=200)
    before = {path.name for path in Path(place_of(database, plain)).rglob("*.lance")}
    planned = database.query(f"VACUUM {plain} DRY RUN").to_pylist()
    assert {path.name for path in Path(place_of(database, plain)).rglob("*.lance")} == before
    assert database.query(f"VACUUM {plain}").to_pylist() == planned
    assert [int(each["version"]) for each in stored(database, plain).versions()] == [1, stored(database, plain).version]
    assert database.value(f'SELECT count(*) FROM "{plain}@kept"') == 30
    assert database.value(f"SELECT count(*) FROM {plain}") == 20
    assert stored(database, plain).to_table().num_rows == 20


def test_verification_reads_every_row(database: Database, plain: str) -> None:
    (report,) = database.query(f"VERIFY TABLE {plain}").to_pylist()
    assert (report["rows"], report["problem"]) == (ROWS, None)
    data = Path(place_of(database, plain), "data")
    (first, *_) = sorted(data.iterdir(), key=lambda path: path.stat().st_size)
    first.write_bytes(first.read_bytes()[:-40])
    (report,) = database.query(f"VERIFY TABLE {plain}").to_pylist()
    assert report["problem"] is not None


def test_rollback_and_changes(database: Database, plain: str) -> None:
    database.run(f"DELETE FROM {plain} WHERE id = 3")
    database.run(f"UPDATE {plain} SET word = 'u' WHERE id = 4")
    found = database.rows(f"SELECT _change, _partition, id, word FROM table_changes('{plain}', 2, 4) ORDER BY id, word")
    assert found == [
        ("delete", None, 3, "word3"),
        ("insert", None, 4, "u"),
        ("delete", None, 4, "word0"),
    ]
    database.run(f"ALTER TABLE {plain} ROLLBACK TO 2")
    assert database.value(f"SELECT count(*) FROM {plain} WHERE word <> 'u'") == ROWS
    assert stored(database, plain).count_rows() == ROWS
