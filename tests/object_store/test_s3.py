"""A root in an object store: the same service, with what a rename does on a directory done by conditional puts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.roots.directory import PUBLIC, TEMPORARY, Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables import partitions
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import AlreadyExists, LanceFlightError, Unsupported

from tests.catalog.small_table import SCHEMA, SPEC, rows
from tests.object_store.bucket import Bucket, BucketDatabase
from tests.service.server_process import Server

ROWS = pa.table({"id": [1, 2, 3], "p": ["a", "b", None]})


@pytest.fixture
def server(bucket: Bucket, tmp_path: Path) -> Iterator[Server]:
    with bucket.serving(tmp_path) as running:
        yield running


@pytest.mark.parametrize("partition_by", [None, "p", "bucket(4, id)"])
def test_tables_are_made_read_changed_and_dropped(database: BucketDatabase, partition_by: str | None) -> None:
    assert database.ingest("t", ROWS, partition_by=partition_by) == 3
    assert database.rows("SHOW TABLES") == [("public", "t", partition_by is not None)]
    assert database.run("INSERT INTO t VALUES (4, 'a')") == 1
    assert database.run("UPDATE t SET p = 'z' WHERE id = 1") == 1
    assert database.run("DELETE FROM t WHERE p IS NULL") == 1
    assert sorted(database.rows("SELECT * FROM t")) == [(1, "z"), (2, "b"), (4, "a")]
    database.run("DROP TABLE t")
    assert database.rows("SHOW TABLES") == []
    assert database.ingest("t", ROWS, partition_by=partition_by) == 3
    assert database.value("SELECT count(*) FROM t") == 3


QUOTED_NAMES = ["Sales 2024", "naïve-τ", 'say "x"', "a*[b]:c", "~", "🦆"]


@pytest.mark.parametrize("partition_by", [None, "p"])
@pytest.mark.parametrize("name", QUOTED_NAMES)
def test_a_table_may_be_called_by_any_text(
    database: BucketDatabase, bucket: Bucket, name: str, partition_by: str | None
) -> None:
    table = '"' + name.replace('"', '""')
    assert database.ingest(name, ROWS, partition_by=partition_by) == 3
    assert database.run(f"INSERT INTO {table}\" VALUES (4, 'a')") == 1
    assert database.run(f"UPDATE {table}\" SET p = 'z' WHERE id = 1") == 1
    database.run(f'ALTER TABLE {table}" CREATE TAG first')
    assert sorted(database.rows(f'SELECT * FROM {table}@first"')) == [(1, "z"), (2, "b"), (3, None), (4, "a")]
    assert database.rows("SHOW TABLES") == [("public", name, partition_by is not None)]
    found = [each for each in bucket.store.directories() if not each.startswith(".")]
    assert found == [name if partition_by else f"{name}.lance"]
    database.run(f'DROP TABLE {table}"')
    assert database.rows("SHOW TABLES") == []


@pytest.mark.parametrize("name", ["a?b", "#x", "a%20b", "100%"])
def test_a_name_that_a_url_reads_otherwise_is_refused(database: BucketDatabase, name: str) -> None:
    for sql in (f'CREATE TABLE "{name}" (id INT)', f'CREATE TABLE "{name}" (id INT) PARTITIONED BY (id)'):
        assert "expected none of # ? % in an object store" in database.refuses(sql)
    assert database.rows("SHOW TABLES") == []


def test_what_was_written_is_there_for_the_next_server(bucket: Bucket, tmp_path: Path) -> None:
    with bucket.serving(tmp_path, "first") as first:
        first.ingest("t", ROWS, partition_by="p")
        first.run("INSERT INTO t VALUES (9, 'new')")
    with bucket.serving(tmp_path, "second") as second:
        assert sorted(second.rows("SELECT id FROM t")) == [(1,), (2,), (3,), (9,)]
        assert second.rows('SELECT count(*) FROM "t@7"') != []


def test_a_transaction_commits_and_rolls_back(server: Server) -> None:
    server.ingest("t", ROWS, partition_by="p")
    with dbapi.connect(server.uri) as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM t WHERE id = 1")
        cursor.execute("INSERT INTO t VALUES (7, 'q')")
        assert server.value("SELECT count(*) FROM t WHERE id IN (1, 7)") == 1
        connection.commit()
        assert sorted(server.rows("SELECT id FROM t")) == [(2,), (3,), (7,)]
        cursor.execute("TRUNCATE t")
        connection.rollback()
    assert server.value("SELECT count(*) FROM t") == 3


def test_a_temporary_table_goes_away_with_its_session(server: Server, bucket: Bucket) -> None:
    def places() -> list[str]:
        return [file.path for file in bucket.store.tree() if TEMPORARY in file.path]

    with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        for partitioned_by in ("", "PARTITIONED BY (n)"):
            cursor.execute(f"CREATE TEMPORARY TABLE t {partitioned_by} AS SELECT 1 AS n")
            cursor.execute("INSERT INTO t VALUES (2)")
            cursor.execute("SELECT sum(n) FROM t")
            assert cursor.fetchone() == (3,)
            assert places()
            cursor.execute("DROP TABLE t")
            cursor.adbc_ingest("t", pa.table({"n": [4]}), mode="create", temporary=True)
            cursor.execute("DROP TABLE t")
        cursor.execute("CREATE TEMPORARY TABLE t AS SELECT 1 AS n")
    assert places() == []


def test_a_replaced_table_has_to_be_dropped_first(database: BucketDatabase) -> None:
    database.ingest("t", ROWS, partition_by="p")
    with pytest.raises(LanceFlightError, match="DROP it first"):
        database.ingest("t", ROWS, "replace", partition_by="p")
    assert database.value("SELECT count(*) FROM t") == 3


@pytest.mark.parametrize("partition_by", [None, "p"])
def test_a_table_is_renamed_only_where_its_name_is_a_row(
    bucket: Bucket, database: BucketDatabase, partition_by: str | None
) -> None:
    database.ingest("t", ROWS, partition_by=partition_by)
    assert "object store, where nothing is renamed in one step" in database.refuses("ALTER TABLE t RENAME TO u")
    assert database.value("SELECT count(*) FROM t") == 3
    if partition_by is None:
        root = Root(bucket.store)
        root.register(root.list_unregistered())
        database.run("ALTER TABLE t RENAME TO u")
        assert database.rows("SHOW TABLES") == [("public", "u", False)]
        assert database.value("SELECT count(*) FROM u") == 3


def test_of_two_who_make_one_table_at_once_one_makes_it(bucket: Bucket) -> None:
    """Both have built their table, and neither sees the other's, when they come to publish it."""
    roots = [Root(bucket.store), Root(bucket.store)]

    def build(number: int, place: Store) -> int:
        return PartitionedNamespace.create(place, SCHEMA, SPEC).append([rows((number, "a"))], evaluate)

    name = TableName(PUBLIC, "t")
    drafts = [
        root.draft(name, lambda place, number=number: build(number, place), partitioned=True)
        for number, root in enumerate(roots)
    ]
    drafts[0].publish()
    with pytest.raises(AlreadyExists):
        drafts[1].publish()
    for draft in drafts:
        draft.close()
    assert Engine(roots[1], target_partitions=1).query("SELECT id FROM t").to_pylist() == [{"id": 0}]


def test_writers_of_several_engines_lose_nothing(bucket: Bucket) -> None:
    Engine(Root(bucket.store), target_partitions=1).update("CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    writers, commits = 3, 4
    failures: list[LanceFlightError] = []

    def write(writer: int) -> None:
        engine = Engine(Root(bucket.store), target_partitions=1)
        try:
            for commit in range(commits):
                engine.update(f"INSERT INTO t VALUES ({writer * 100 + commit}, 'shared'), ({writer}, 'new {commit}')")
        except LanceFlightError as exc:
            failures.append(exc)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    engine = Engine(Root(bucket.store), target_partitions=1)
    assert engine.query("SELECT count(*) AS n FROM t").to_pylist() == [{"n": writers * commits * 2}]
    partitions = engine.query("SELECT p, rows FROM t$partitions ORDER BY p").to_pylist()
    assert partitions == [{"p": f"new {commit}", "rows": writers} for commit in range(commits)] + [
        {"p": "shared", "rows": writers * commits}
    ]


def test_rows_of_two_makers_of_a_partition_are_stored(bucket: Bucket) -> None:
    """The table of the second one was staged before the first one committed: its rows move."""
    store = bucket.store.child("t")
    PartitionedNamespace.create(store, SCHEMA, SPEC)
    makers = []
    for number in (1, 2):
        namespace = PartitionedNamespace.open(store)
        transaction = namespace.begin()
        namespace.write(transaction, [rows((number, "new"))], evaluate)
        namespace.commits.stage(transaction)
        makers.append((namespace, transaction))
    for namespace, transaction in makers:
        namespace.commits.commit(transaction)
    engine = Engine(Root(bucket.store), target_partitions=1)
    assert engine.query("SELECT id, p FROM t ORDER BY id").to_pylist() == [{"id": 1, "p": "new"}, {"id": 2, "p": "new"}]
    assert engine.query("SELECT p, rows FROM t$partitions").to_pylist() == [{"p": "new", "rows": 2}]


def test_a_table_that_was_begun_and_has_no_rows_is_in_nobodys_way(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(Root(bucket.store), target_partitions=1)
    engine.update("CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)")

    def stop(point: str) -> None:
        if point == "table_begun":
            raise OSError("the process ends here")

    with monkeypatch.context() as patched:
        patched.setattr(partitions, "failpoint", stop)
        with pytest.raises((LanceFlightError, OSError), match="the process ends here"):
            engine.update("INSERT INTO t VALUES (1, 'new')")
    assert engine.query("SELECT id FROM t").num_rows == 0
    engine = Engine(Root(bucket.store), target_partitions=1)
    engine.update("INSERT INTO t VALUES (2, 'new')")
    assert engine.query("SELECT id FROM t").to_pylist() == [{"id": 2}]
    left = PartitionedNamespace.open(bucket.store.child("t"))
    vacuum(left, VacuumRules(retain_hours=0, force=True), now=time.time() + 48 * 3600)
    locations = {row["location"] for row in left.snapshot().rows.to_pylist() if row["object_type"] == "table"}
    assert {file.path.split("/")[0] for file in left.store.tree() if "dataset/" in file.path} == locations


def test_secrets_are_not_shown(bucket: Bucket) -> None:
    assert "very-secret" not in repr(bucket.store)
    with pytest.raises(Unsupported) as raised:
        Root(bucket.store.child("nothing")).draft(TableName(PUBLIC, "t"), _refuse, partitioned=True)
    assert "very-secret" not in str(raised.value)


def _refuse(_: Store) -> int:
    raise Unsupported("no")


def test_a_table_has_no_files_outside_of_the_root(bucket: Bucket) -> None:
    outside = lance.write_dataset(
        pa.table({"n": [7]}), f"s3://{bucket.name}/outside.lance", storage_options=bucket.options, mode="create"
    )
    root = bucket.store.uri
    engine = Engine(Root(bucket.store), target_partitions=2)
    engine.update("CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    engine.update("INSERT INTO t VALUES (1, 'a')")
    engine.update("ALTER TABLE t CREATE BRANCH work")
    engine.update("INSERT INTO \"t@work\" VALUES (2, 'a')")
    assert engine.query('SELECT count(*) AS n FROM "t@work"')["n"].to_pylist() == [2]
    options = {"storage_options": bucket.options}
    outside.shallow_clone(f"{root}/cloned.lance", outside.version, **options)
    with pytest.raises(LanceFlightError, match="files outside of the root"):
        engine.query("SELECT n FROM cloned")
    engine.update("CREATE TABLE here AS SELECT 3 AS n")
    inside = lance.dataset(f"{root}/here.lance", **options)
    inside.shallow_clone(f"{root}/twin.lance", inside.version, **options)
    assert engine.query("SELECT n FROM twin")["n"].to_pylist() == [3]


def test_a_plain_table_whose_versions_are_lost_is_corrupt(bucket: Bucket) -> None:
    bucket.database.run("CREATE TABLE t (id BIGINT)")
    bucket.database.run("INSERT INTO t VALUES (1)")
    bucket.place("root/t.lance/_versions").remove()
    asked = bucket.database
    for sql in ("SELECT * FROM t", "INSERT INTO t VALUES (2)", "DESCRIBE TABLE t"):
        said = asked.refuses(sql)
        assert "[corrupt]" in said
        assert "restore from a backup, or DROP TABLE" in said
    assert [name for _, name, *_ in asked.rows("SHOW TABLES")] == ["t"]
    asked.run("DROP TABLE t")
    assert asked.run("CREATE TABLE t (id BIGINT)") == 0
    assert "[not_found]" in asked.refuses("SELECT * FROM nothing")


def test_views_and_schemas_in_an_object_store(database: BucketDatabase) -> None:
    database.ingest("t", ROWS, partition_by="p")
    database.run("CREATE VIEW v AS SELECT id FROM t WHERE p = 'a'")
    assert database.rows("SELECT * FROM v") == [(1,)]
    assert "already_exists" in database.refuses("CREATE VIEW v AS SELECT 1 AS x")
    database.run("CREATE OR REPLACE VIEW v AS SELECT id FROM t WHERE p = 'b'")
    assert database.rows("SELECT * FROM v") == [(2,)]
    assert database.rows("SHOW VIEWS") == [("public", "v")]
    database.run("DROP VIEW v")
    assert database.rows("SHOW VIEWS") == []
    database.run("CREATE SCHEMA s")
    assert ("s",) in database.rows("SHOW SCHEMAS")
    database.run("CREATE TABLE s.u (n INT) PARTITIONED BY (n)")
    assert "not empty" in database.refuses("DROP SCHEMA s")
    database.run("DROP TABLE s.u")
    database.run("DROP SCHEMA s")
    assert ("s",) not in database.rows("SHOW SCHEMAS")
    database.run('CREATE SCHEMA "a.b"')
    database.run('CREATE TABLE "a.b".w AS SELECT 1 AS n')
    assert database.rows('SELECT * FROM "a.b".w') == [(1,)]
    database.run('DROP TABLE "a.b".w')
    database.run('DROP SCHEMA "a.b"')
