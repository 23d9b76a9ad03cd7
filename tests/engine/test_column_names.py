"""The names of columns: odd ones work wherever a column may stand, and what Lance cannot read back is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.engine.database import Database
from tests.service.server_process import files

ODD = [
    "a b",
    'a"b',
    "a'b",
    " a ",
    "a\nb",
    "a\\b",
    "ä",
    "a$b",
    "%s",
    "{x}",
    "A",
    "select",
    "a[0]",
    "a:b",
    "_score",
    "é,b",
]
REFUSED = [
    pytest.param("a.b", "column 'a.b' has '.' in its name", id="dot"),
    pytest.param("a`b", "column 'a`b' has '`' in its name", id="backtick"),
    pytest.param("*", "column '*' has a name that Lance keeps for itself", id="star"),
    pytest.param("_rowid", "column '_rowid' has a name that Lance keeps for itself", id="row id"),
    pytest.param("_rowaddr", "column '_rowaddr' has a name that Lance keeps for itself", id="row address"),
    pytest.param("_rowoffset", "column '_rowoffset' has a name that Lance keeps for itself", id="row offset"),
]
pytestmark = pytest.mark.slow  # every name in every place

PLACES = pytest.mark.parametrize("partition_by", ["id", "{name}", None], ids=["partitioned", "by it", "plain"])


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@PLACES
@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_works_wherever_a_column_may_stand(
    database: Database, table: str, name: str, partition_by: str | None
) -> None:
    fields = f" PARTITIONED BY ({partition_by.format(name=quoted(name))})" if partition_by else ""
    database.run(f"CREATE TABLE {table} (id INT, {quoted(name)} VARCHAR){fields}")
    database.run(f"INSERT INTO {table} (id, {quoted(name)}) VALUES (1, 'x'), (2, 'y')")
    assert database.ingest(table, pa.table({"id": [3], name: ["xz"]}), "append") == 1
    for where in (f"{quoted(name)} = 'x'", f"{quoted(name)} LIKE 'x%' AND id < 3", f"upper({quoted(name)}) = 'X'"):
        assert database.rows(f"SELECT {quoted(name)}, id FROM {table} WHERE {where}") == [("x", 1)]
    assert database.query(f"SELECT * FROM {table} WHERE id = 1").to_pylist() == [{"id": 1, name: "x"}]


@PLACES
@pytest.mark.parametrize(("name", "says"), REFUSED)
def test_a_name_that_lance_cannot_read_back_is_refused(
    database: Database, table: str, name: str, says: str, partition_by: str | None
) -> None:
    before = files(database.root)
    by = partition_by and partition_by.format(name=quoted(name))
    fields = f" PARTITIONED BY ({by})" if by else ""
    for sql in (f"(id INT, {quoted(name)} INT){fields}", f"{fields} AS SELECT 1 AS id, 2 AS {quoted(name)}"):
        message = database.refuses(f"CREATE TABLE {table} {sql}")
        assert [part for part in ("[invalid_schema]", says) if part not in message] == []
    assert says in database.refuses_ingest(table, pa.table({"id": [1], name: [2]}), partition_by=by)
    assert files(database.root) == before


def test_every_wrong_name_is_named_at_once(database: Database, table: str) -> None:
    message = database.refuses(f'CREATE TABLE {table} ("a.b" INT, ok INT, "*" INT, "c`d" INTERVAL)')
    assert [part for part in ("'a.b'", "'*'", "'c`d'") if part not in message] == []
    assert "'ok'" not in message


@pytest.mark.parametrize("field_id", ["a.b", "a`b"])
def test_a_field_id_makes_a_column_too(database: Database, table: str, field_id: str) -> None:
    before = files(database.root)
    message = database.refuses(f"CREATE TABLE {table} (id INT) PARTITIONED BY (id AS {quoted(field_id)})")
    assert [part for part in ("[invalid_spec]", f"field {field_id!r}", "in its name") if part not in message] == []
    assert files(database.root) == before
