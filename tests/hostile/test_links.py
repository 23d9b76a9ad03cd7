"""Symbolic links below a root, and tables with files elsewhere: nothing outside of the root is read, written or deleted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, cycle
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from adbc_driver_manager import Error

from tests.service.server_process import Server, serving, started
from tests.stock import manifest, stored_tables

pytestmark = pytest.mark.slow  # server processes

SECRET = "zyxsecret"  # noqa: S105
ROWS = f"VALUES (1, 'a', '{SECRET}'), (2, 'b', '{SECRET}'), (3, 'b', '{SECRET}')"
NEWEST_FIRST = (1 << 64) - 1
_NUMBERS = count(1)


@dataclass(frozen=True)
class Servers:
    """Two servers over one root: one that has made and read the tables, and one that meets them with their links."""

    place: Path
    warm: Server
    cold: Server

    @property
    def root(self) -> Path:
        return self.warm.root

    def move_out(self, path: Path) -> Path:
        """Put a file or directory beside the root, and a link to it in its place."""
        outside = self.place / "outside" / f"{next(_NUMBERS)}{path.suffix}"
        outside.parent.mkdir(exist_ok=True)
        shutil.move(path, outside)
        path.symlink_to(outside)
        return outside

    def outside(self) -> list[tuple[str, int]]:
        """All files beside the root, with the moments at which they were written."""
        found = (path for path in (self.place / "outside").rglob("*") if path.is_file())
        return sorted((str(path), path.stat().st_mtime_ns) for path in found)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    place = tmp_path_factory.mktemp("links")
    (place / "root" / "elsewhere").mkdir(parents=True)
    with serving(place / "root") as warm, serving(place / "root") as cold:
        yield Servers(place, warm, cold)


def partition(place: Path) -> Path:
    """The directory of the partition `b`, which has a file of deleted rows and an index."""
    (found,) = [table for table in stored_tables(place) if table.values["p"] == "b"]
    return place / found.row["location"]


def newest(table: Path) -> Path:
    """The file of the newest version of a Lance table."""
    return min((table / "_versions").glob("*.manifest"))


def pinned(place: Path) -> Path:
    """The file of the version of the partition `b` that is read."""
    (found,) = [table for table in stored_tables(place) if table.values["p"] == "b"]
    version = found.row["read_version"]
    return place / found.row["location"] / "_versions" / f"{NEWEST_FIRST - version:020}.manifest"


def some(path: Path, pattern: str) -> Path:
    """One of the files or directories below a directory."""
    return min(path.glob(pattern))


def of_newest(table: Path) -> Path:
    """A data file of the newest version of a Lance table."""
    (file, *_) = lance.dataset(str(table)).get_fragments()[-1].metadata.files
    return table / "data" / file.path


PARTITIONED = [
    pytest.param(lambda place: place, id="the table"),
    pytest.param(lambda place: place / "__manifest", id="its manifest"),
    pytest.param(lambda place: place / "__manifest" / "_versions", id="versions of its manifest"),
    pytest.param(lambda place: newest(place / "__manifest"), id="a version of its manifest"),
    pytest.param(lambda place: place / "__manifest" / "data", id="data of its manifest"),
    pytest.param(lambda place: of_newest(place / "__manifest"), id="a data file of its manifest"),
    pytest.param(partition, id="a partition"),
    pytest.param(lambda place: partition(place) / "data", id="data of a partition"),
    pytest.param(lambda place: some(partition(place), "data/*"), id="a data file"),
    pytest.param(lambda place: partition(place) / "_versions", id="versions of a partition"),
    pytest.param(pinned, id="a version of a partition"),
    pytest.param(lambda place: partition(place) / "_deletions", id="deletions of a partition"),
    pytest.param(lambda place: some(partition(place), "_deletions/*"), id="a deletion file"),
    pytest.param(lambda place: partition(place) / "_indices", id="indices of a partition"),
    pytest.param(lambda place: some(partition(place), "_indices/*"), id="an index"),
    pytest.param(lambda place: some(partition(place), "_indices/*/*"), id="a file of an index"),
    pytest.param(lambda place: partition(place) / "_transactions", id="transactions of a partition"),
]
STATEMENTS = [
    "SELECT max(secret) FROM {t}",
    "SELECT * FROM {t} WHERE p = 'b' AND id = 2",
    "SELECT * FROM {t} ORDER BY id LIMIT 1",
    "CREATE TABLE {t}_copy AS SELECT * FROM {t}",
]
CHANGES = [
    "INSERT INTO {t} VALUES (9, 'b', 'new')",
    "UPDATE {t} SET secret = 'new' WHERE id = 2",
    "DELETE FROM {t} WHERE id = 2",
    "MERGE INTO {t} AS t USING (VALUES (2)) AS s (k) ON t.id = s.k WHEN MATCHED THEN DELETE",
    "INSERT OVERWRITE {t} VALUES (9, 'b', 'new')",
    "ALTER TABLE {t} CREATE TAG tagged",
    "ALTER TABLE {t} CREATE BRANCH branched",
    "ALTER TABLE {t} ADD COLUMN more BIGINT AS (id + 1)",
    "ALTER TABLE {t} ROLLBACK TO 2",
    "ALTER TABLE {t} DETACH PARTITION (p = 'b') TO {t}_detached",
    "ALTER TABLE {t} DROP PARTITION (p = 'b')",
    "CREATE INDEX ON {t} (id)",
    "REINDEX {t}",
    "ALTER TABLE {t} COMPACT",
    "VACUUM {t} RETAIN 0 HOURS FORCE",
    "REPAIR TABLE {t}",
    "TRUNCATE {t}",
]


def tried(server: Server, sql: str) -> str:
    """The rows of a statement, or its error."""
    try:
        return str(server.rows(sql))
    except Error as error:
        return str(error)


def changed(server: Server, sql: str) -> str:
    """What a change says, or its error."""
    try:
        return str(server.run(sql))
    except Error as error:
        return str(error)


def made(servers: Servers) -> str:
    """A partitioned table that one of the servers has made, changed, indexed and read."""
    name = f"t{next(_NUMBERS)}"
    for sql in (
        f"CREATE TABLE {name} (id BIGINT, p VARCHAR, secret VARCHAR) PARTITIONED BY (p)",
        f"INSERT INTO {name} {ROWS}",
        f"CREATE INDEX ON {name} (secret) WITH (min_rows = 1)",
        f"DELETE FROM {name} WHERE id = 3",
    ):
        servers.warm.run(sql)
    assert servers.warm.value(f"SELECT count(secret) FROM {name}") == 2
    return name


@pytest.mark.parametrize("path", PARTITIONED)
def test_no_link_in_a_partitioned_table_is_followed(servers: Servers, path: Callable[[Path], Path]) -> None:
    name = made(servers)
    moved = path(servers.root / name)
    servers.move_out(moved)
    outside = servers.outside()
    # What a server has in memory of a manifest it does not read again.
    is_kept = moved.parent == servers.root / name / "__manifest" / "data"
    for server in (servers.cold,) if is_kept else (servers.warm, servers.cold):
        for sql in STATEMENTS:
            said = tried(server, sql.format(t=name))
            assert "is a symbolic link" in said, sql
            assert SECRET not in said
            assert "[internal]" not in said
            assert str(servers.place) not in said
    for sql, server in zip(CHANGES, cycle((servers.warm, servers.cold)), strict=False):
        said = changed(server, sql.format(t=name))
        assert SECRET not in said
        assert "[internal]" not in said
    assert servers.outside() == outside


PLAIN = [
    pytest.param(lambda place: place, id="the table"),
    pytest.param(lambda place: place / "data", id="its data"),
    pytest.param(lambda place: some(place, "data/*"), id="a data file"),
    pytest.param(lambda place: place / "_versions", id="its versions"),
    pytest.param(newest, id="a version"),
    pytest.param(lambda place: place / "_transactions", id="its transactions"),
]


@pytest.mark.parametrize("path", PLAIN)
def test_no_link_in_a_plain_table_is_followed(servers: Servers, path: Callable[[Path], Path]) -> None:
    name = f"p{next(_NUMBERS)}"
    servers.warm.run(f"CREATE TABLE {name} AS SELECT * FROM ({ROWS}) AS v (id, p, secret)")
    assert servers.warm.value(f"SELECT count(secret) FROM {name}") == 3
    servers.move_out(path(servers.root / f"{name}.lance"))
    outside = servers.outside()
    for sql, server in zip((*STATEMENTS, *CHANGES), cycle((servers.warm, servers.cold)), strict=False):
        said = tried(server, sql.format(t=name)) if sql.startswith("SELECT") else changed(server, sql.format(t=name))
        assert SECRET not in said
        assert "[internal]" not in said
        if not sql.startswith(("ALTER", "REINDEX", "VACUUM", "REPAIR", "CREATE INDEX")):
            assert "is a symbolic link" in said, sql
    assert servers.outside() == outside


IN_A_SCHEMA = [
    "CREATE TABLE {s}.made (n BIGINT)",
    "CREATE TABLE {s}.made (n BIGINT) PARTITIONED BY (n)",
    "CREATE TABLE {s}.made AS SELECT 1 AS n",
    "CREATE TABLE IF NOT EXISTS {s}.made (n BIGINT)",
    "INSERT INTO {s}.there VALUES (1, 'x')",
    "UPDATE {s}.there SET secret = 'x'",
    "DELETE FROM {s}.there",
    "TRUNCATE {s}.there",
    "DROP TABLE {s}.there",
    "DROP TABLE IF EXISTS {s}.there",
    "ALTER TABLE {s}.there RENAME TO elsewhere",
    "ALTER TABLE {s}.there CREATE TAG x",
    "SELECT * FROM {s}.there",
    "SELECT * FROM {s}.there$tags",
    "DESCRIBE {s}.there",
]


def test_no_schema_is_a_link(servers: Servers) -> None:
    schema = f"s{next(_NUMBERS)}"
    (servers.root / schema).mkdir()
    lance.write_dataset(pa.table({"id": [1], "secret": [SECRET]}), str(servers.root / schema / "there.lance"))
    assert servers.warm.value(f"SELECT count(secret) FROM {schema}.there") == 1
    servers.move_out(servers.root / schema)
    outside = servers.outside()
    for server in (servers.warm, servers.cold):
        for sql in IN_A_SCHEMA:
            said = tried(server, sql.format(s=schema))
            assert f"schema '{schema}' is a symbolic link" in said, sql
            assert SECRET not in said
        attached = f"ALTER TABLE {made(servers)} ATTACH TABLE '{schema}/there.lance' PARTITION (p = 'c') TRUSTED"
        assert "is a symbolic link" in changed(server, attached)
        assert schema not in str(server.rows("SHOW TABLES"))
    assert servers.outside() == outside


def test_a_link_to_a_place_inside_of_the_root_is_none_of_its_tables_either(servers: Servers) -> None:
    name = made(servers)
    (servers.root / f"{name}_alias").symlink_to(servers.root / name)
    (servers.root / f"{name}_schema").symlink_to(servers.root / "elsewhere")
    for server in (servers.warm, servers.cold):
        assert "is a symbolic link" in server.refuses(f"SELECT * FROM {name}_alias")
        assert "is a symbolic link" in server.refuses(f"DROP TABLE {name}_alias")
        assert "is a symbolic link" in server.refuses(f"CREATE TABLE {name}_schema.t (n BIGINT)")
    assert servers.warm.value(f"SELECT count(*) FROM {name}") == 2


def test_a_dropped_table_takes_its_links_along_and_nothing_that_they_lead_to(servers: Servers) -> None:
    name = made(servers)
    servers.move_out(partition(servers.root / name))
    outside = servers.outside()
    servers.warm.run(f"DROP TABLE {name}")
    assert servers.outside() == outside
    assert not (servers.root / name).exists()


def test_a_listed_table_does_not_lie_behind_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    lance.write_dataset(pa.table({"id": [1], "secret": [SECRET]}), str(outside / "there"))
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "deep").symlink_to(outside)
    rows = {"object_id": ["listed"], "object_type": ["table"], "location": ["deep/there"]}
    lance.write_dataset(pa.table(rows), str(tmp_path / "root" / "__manifest"))
    with serving(tmp_path / "root") as server:
        for sql in ("SELECT * FROM listed", "INSERT INTO listed VALUES (2, 'x')", "TRUNCATE listed"):
            assert "is a symbolic link" in tried(server, sql), sql
        server.run("DROP TABLE listed")
        assert server.rows("SHOW TABLES") == []
    assert lance.dataset(str(outside / "there")).count_rows() == 1


PRIVATE = (
    "CREATE TABLE made (n BIGINT)",
    "CREATE TABLE made (n BIGINT) PARTITIONED BY (n)",
    "CREATE TABLE made AS SELECT 1 AS n",
    "DROP TABLE there",
)


def test_the_private_directory_of_a_root_is_no_link(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    root.mkdir()
    with serving(root) as server:
        server.run("CREATE TABLE there (n BIGINT)")
        shutil.rmtree(root / ".lance-flight")
        outside.mkdir()
        (root / ".lance-flight").symlink_to(outside)
        for sql in PRIVATE:
            assert "is a symbolic link" in server.refuses(sql)
            assert list(outside.iterdir()) == []
        assert server.rows("SHOW TABLES") == [("public", "there", False)]


def test_a_server_does_not_start_over_a_private_directory_that_is_a_link(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    (outside / "0123456789abcdef" / "new").mkdir(parents=True)
    (outside / "0123456789abcdef" / "lock").touch()
    (outside / "0123456789abcdef" / "new" / "precious").write_text("mine")
    root.mkdir()
    (root / ".lance-flight").symlink_to(outside)
    with pytest.raises(pytest.fail.Exception, match="exited with"), started(root):
        pass
    assert sorted(path.name for path in outside.rglob("*")) == ["0123456789abcdef", "lock", "new", "precious"]


def test_what_a_dead_process_left_is_settled_without_following_links(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    (outside / "new").mkdir(parents=True)
    (outside / "lock").touch()
    (outside / "new" / "precious").write_text("mine")
    (root / ".lance-flight").mkdir(parents=True)
    (root / ".lance-flight" / "0123456789abcdef").symlink_to(outside)
    with serving(root) as server:
        assert server.rows("SHOW TABLES") == []
    assert sorted(path.name for path in outside.rglob("*")) == ["lock", "new", "precious"]


def test_a_table_has_no_files_outside_of_the_root(servers: Servers) -> None:
    outside = lance.write_dataset(pa.table({"id": [1], "secret": [SECRET]}), str(servers.place / "outside" / "cloned"))
    name = f"c{next(_NUMBERS)}"
    outside.shallow_clone(str(servers.root / f"{name}.lance"), outside.version)
    before = servers.outside()
    for sql in ("SELECT * FROM {t}", "INSERT INTO {t} VALUES (2, 'x')", "DELETE FROM {t}"):
        for server in (servers.warm, servers.cold):
            said = tried(server, sql.format(t=name))
            assert "files outside of the root" in said, sql
            assert SECRET not in said
            assert str(servers.place) not in said
    assert servers.outside() == before


def test_a_partition_has_no_files_outside_of_the_root(servers: Servers) -> None:
    name = made(servers)
    rows = pa.table({"id": [2], "p": ["b"], "secret": [SECRET]})
    outside = lance.write_dataset(rows, str(servers.place / "outside" / f"{name}.lance"))
    (table,) = [each for each in stored_tables(servers.root / name) if each.values["p"] == "b"]
    shutil.rmtree(servers.root / name / table.row["location"])
    clone = outside.shallow_clone(str(servers.root / name / table.row["location"]), outside.version)
    where = f"object_id = '{table.object_id}'"
    manifest(servers.root / name).update({"read_version": str(clone.version)}, where=where)
    before = servers.outside()
    for server in (servers.warm, servers.cold):
        said = tried(server, f"SELECT * FROM {name} WHERE p = 'b'")
        assert "files outside of the root" in said
        assert SECRET not in said
        assert server.value(f"SELECT count(*) FROM {name} WHERE p = 'a'") == 1
    assert "files outside" in changed(servers.warm, f"DELETE FROM {name} WHERE id = 2")
    assert servers.outside() == before


def test_a_table_may_share_the_files_of_another_one_of_the_root(servers: Servers) -> None:
    name = f"c{next(_NUMBERS)}"
    servers.warm.run(f"CREATE TABLE {name} AS SELECT 1 AS n")
    inside = lance.dataset(str(servers.root / f"{name}.lance"))
    inside.shallow_clone(str(servers.root / f"{name}_clone.lance"), inside.version)
    for server in (servers.warm, servers.cold):
        assert server.value(f"SELECT n FROM {name}_clone") == 1


def test_branches_are_read_and_written_where_they_lie(servers: Servers) -> None:
    name = made(servers)
    servers.warm.run(f"ALTER TABLE {name} CREATE BRANCH work")
    servers.warm.run(f"INSERT INTO \"{name}@work\" VALUES (7, 'b', 'new')")
    assert servers.cold.value(f'SELECT count(*) FROM "{name}@work"') == 3
    branch = some(partition(servers.root / name), "tree/*")
    servers.move_out(branch)
    outside = servers.outside()
    for server in (servers.warm, servers.cold):
        assert "is a symbolic link" in tried(server, f'SELECT max(secret) FROM "{name}@work"')
        assert "is a symbolic link" in changed(server, f"INSERT INTO \"{name}@work\" VALUES (8, 'b', 'new')")
    assert servers.outside() == outside
