"""Roots whose tables stand in a `__manifest` (V2): one wrong row is the trouble of one table."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from lance_flight.engine.engine import Engine
from lance_flight.errors import AlreadyExists, Corrupt

from tests.engine.database import open_engine
from tests.engine.directory_namespace import lay_out, listed

WRONG = pytest.mark.parametrize(
    ("location", "says"),
    [
        ("../x", "'../x'"),
        ("/etc", "'/etc'"),
        ("a/../../x", "'a/../../x'"),
        ("s3://b/x", "'s3://b/x'"),
        (None, "without"),
    ],
)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    root = tmp_path / "root"
    root.mkdir()
    return open_engine(root)


@pytest.fixture
def root(engine: Engine) -> Path:
    return Path(engine.root.store.uri)


@WRONG
def test_a_row_with_a_wrong_location_breaks_its_own_table_alone(
    engine: Engine, root: Path, location: str | None, says: str
) -> None:
    lay_out(root, {"good": "12ab_good", "bad": location, "ns$deep": "34cd_ns$deep"})
    with pytest.raises(Corrupt, match="table 'bad' is listed") as raised:
        engine.query("SELECT id FROM bad")
    assert says in str(raised.value)
    assert engine.query("SELECT g.id AS g, d.id AS d FROM good g, ns.deep d").to_pylist() == [{"g": 0, "d": 2}]
    assert engine.update("INSERT INTO good VALUES (7)") == 1
    engine.update("CREATE TABLE more (id INT)")
    assert engine.query("SHOW TABLES").to_pylist() == [
        {"table_schema": schema, "table_name": name, "partitioned": False}
        for schema, name in [("ns", "deep"), ("public", "bad"), ("public", "good"), ("public", "more")]
    ]


@WRONG
@pytest.mark.parametrize("statement", ["DESCRIBE bad", "INSERT INTO bad VALUES (1)", "SELECT * FROM bad@1"])
def test_every_use_of_a_wrongly_listed_table_names_it(
    engine: Engine, root: Path, location: str | None, says: str, statement: str
) -> None:
    lay_out(root, {"bad": location})
    with pytest.raises(Corrupt, match="table 'bad' is listed"):
        engine.query(statement) if statement[0] != "I" else engine.update(statement)


@WRONG
def test_a_wrongly_listed_name_is_taken(engine: Engine, root: Path, location: str | None, says: str) -> None:
    lay_out(root, {"bad": location})
    with pytest.raises(AlreadyExists):
        engine.update("CREATE TABLE bad (id INT)")
    assert engine.update("CREATE TABLE IF NOT EXISTS bad (id INT)") == 0
    assert listed(root) == {"bad": location}


def test_names_that_no_directory_could_have_are_found_where_they_are_listed(engine: Engine, root: Path) -> None:
    lay_out(root, {".odd/name": "12ab"})
    assert engine.query('SELECT id FROM ".odd/name"').to_pylist() == [{"id": 0}]
    engine.update('DROP TABLE ".odd/name"')
    assert listed(root) == {}


def overwrite(place: Path) -> None:
    for file in place.iterdir():
        file.write_bytes(b"no such thing" * 20)


@pytest.mark.parametrize("part", ["_versions", "data"])
def test_a_manifest_of_the_root_that_cannot_be_read_is_the_error_of_every_name(
    engine: Engine, root: Path, part: str
) -> None:
    lay_out(root, {"t": "t.lance"})
    overwrite(root / "__manifest" / part)
    for sql in ("SELECT id FROM t", "SELECT id FROM u", "DESCRIBE t"):
        with pytest.raises(Corrupt, match=r"'root'.*__manifest.*cannot be read") as raised:
            engine.query(sql)
        assert str(root).lstrip("/") not in str(raised.value)


def test_a_manifest_of_the_root_without_its_columns_says_which(engine: Engine, root: Path) -> None:
    lay_out(root, {"t": "t.lance"})
    lance.dataset(str(root / "__manifest")).drop_columns(["location"])
    with pytest.raises(Corrupt, match=r"'root' cannot be read: .*location"):
        engine.query("SELECT id FROM t")
