"""A name is looked up by itself: what that costs does not grow with the tables beside it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.storage import filesystems
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import PRIVATE
from lance_flight.catalog.tables import partitions
from lance_flight.engine.engine import Engine
from lance_flight.errors import LanceFlightError, NotFound

from tests.engine.database import open_engine
from tests.engine.directory_namespace import lay_out

pytestmark = pytest.mark.slow  # every statement beside few and many tables

STATEMENTS = [
    "SELECT id FROM {t}",
    "SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.id",
    "SELECT id FROM {t}@1",
    "DESCRIBE {t}",
    "INSERT INTO {t} VALUES (2)",
    "CREATE TABLE {t}_new (id INT)",
    "CREATE TABLE IF NOT EXISTS {t} (id INT)",
    "DROP TABLE {t}",
    "DROP TABLE IF EXISTS {t}_none",
]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often directories were listed, asked for an entry, and tables opened and read."""
    counted: Counter[str] = Counter()

    def counting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            # Leases are written now and then, by nobody's statement, and those of other tests' tables are looked after, too.
            counted[name] += PRIVATE not in self.uri and self.uri.startswith(str(tmp_path))
            return method(self, *arguments, **options)

        return call

    for owner, name in [(Store, "has"), (Store, "directories"), (Store, "open"), (lance.LanceDataset, "scanner")]:
        monkeypatch.setattr(owner, name, counting(name, getattr(owner, name)))
    return counted


def crowded(root: Path, tables: int) -> Engine:
    """A root with `t`, plain, and `p`, partitioned, among so many others, and a second schema."""
    root.mkdir()
    engine = open_engine(root)
    (root / "s").mkdir()
    for number in range(tables):
        shutil.copytree(example(root.parent), root / f"other{number}.lance")
    for name in ("t", "s.t"):
        engine.update(f"CREATE TABLE {name} AS SELECT 1 AS id")
    for name in ("p", "s.p"):
        engine.update(f"CREATE TABLE {name} PARTITIONED BY (id) AS SELECT 1 AS id")
    return engine


def example(place: Path) -> Path:
    path = place / "example.lance"
    if not path.exists():
        lance.write_dataset(pa.table({"id": [1]}), str(path))
    return path


def run(engine: Engine, statement: str) -> None:
    try:
        if engine.describe(statement).schema is None:
            engine.update(statement)
        else:
            engine.query(statement)
    except NotFound:
        assert "@" in statement


@pytest.mark.parametrize("table", ["t", "p", "s.t", "s.p"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_asks_no_more_among_many_tables(
    tmp_path: Path, asked: Counter[str], statement: str, table: str
) -> None:
    costs = []
    for tables in (2, 60):
        engine = crowded(tmp_path / f"root{tables}", tables)
        asked.clear()
        run(engine, statement.format(t=table))
        costs.append(dict(asked))
    assert costs[0] == costs[1]
    # Only the message of a name that is not there lists its neighbours.
    assert costs[0].get("directories", 0) == 0 or "@" in statement


def test_one_lookup_asks_for_little(tmp_path: Path, asked: Counter[str]) -> None:
    engine = crowded(tmp_path / "root", 2)
    asked.clear()
    assert engine.root.find(TableName("public", "t")) is not None
    assert asked == {"has": 3}


def test_a_name_that_is_not_there_lists_its_schema_once_and_opens_nothing(tmp_path: Path, asked: Counter[str]) -> None:
    engine = crowded(tmp_path / "root", 20)
    asked.clear()
    with pytest.raises(LanceFlightError, match="no table 'other1x'; did you mean 'other1'"):
        engine.query("SELECT id FROM other1x")
    assert (asked["directories"], asked["open"]) == (1, 0)


def test_the_list_of_a_directory_namespace_is_read_when_it_has_changed(tmp_path: Path, asked: Counter[str]) -> None:
    (tmp_path / "root").mkdir()
    lay_out(tmp_path / "root", {f"t{n}": f"{n}_t" for n in range(3)})
    engine = open_engine(tmp_path / "root")
    assert engine.query("SELECT id FROM t1")["id"].to_pylist() == [1]
    asked.clear()
    for _ in range(3):
        engine.query("DESCRIBE t2")
    assert asked["scanner"] == 0
    lance.dataset(str(tmp_path / "root" / "__manifest")).delete("object_id = 't2'")
    with pytest.raises(NotFound):
        engine.query("DESCRIBE t2")
    assert asked["scanner"] == 2


def test_an_append_opens_the_manifest_and_no_table_whose_columns_are_known(tmp_path: Path, asked: Counter[str]) -> None:
    engine = open_engine(tmp_path)
    # What columns look like in files is kept for the whole process: these are of no other test's table.
    engine.update("CREATE TABLE t (looked_up BIGINT, p BIGINT) PARTITIONED BY (p)")
    costs = []
    for count in (3, 12):
        rows = ", ".join(f"({number}, {number})" for number in range(count))
        engine.update(f"INSERT INTO t VALUES {rows}")
        asked.clear()
        engine.update(f"INSERT INTO t VALUES {rows}")
        costs.append(dict(asked))
    # Names are looked up as often as before; the manifest is opened, and at first one table, which tells the columns of all.
    assert [cost.pop("open", 0) for cost in costs] == [2, 1]
    assert costs[0] == costs[1]
    assert costs[0].keys() == {"has"}


def test_an_append_commits_each_table_once_and_lists_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_engine(tmp_path)
    engine.update("CREATE TABLE t (id BIGINT, p BIGINT) PARTITIONED BY (p)")
    for number in range(2):  # the first reads what one table's columns look like
        engine.update(f"INSERT INTO t VALUES ({number}, 0), ({number}, 1), ({number}, 2)")
    listed: Counter[str] = Counter()
    commits: Counter[str] = Counter()
    entries, commit, append = filesystems._entries, lance.LanceDataset.commit, partitions.write_version

    def listing(top: str, directory: str) -> set[str]:
        listed[Path(directory).name] += 1
        return entries(top, directory)

    def committing(base: lance.LanceDataset, *arguments: Any, **options: Any) -> lance.LanceDataset:
        commits["__manifest" if base.uri.endswith("__manifest") else "table"] += 1
        return commit(base, *arguments, **options)

    def appending(*arguments: Any) -> bool:
        is_written = append(*arguments)
        commits["table"] += is_written
        return is_written

    monkeypatch.setattr(filesystems, "_entries", listing)
    monkeypatch.setattr(partitions, "write_version", appending)
    monkeypatch.setattr(lance.LanceDataset, "commit", staticmethod(committing))
    engine.update("INSERT INTO t VALUES (3, 0), (4, 1), (5, 2)")
    assert commits == {"table": 3, "__manifest": 1}
    assert listed["data"] == 0
    assert engine.query("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 9}]
