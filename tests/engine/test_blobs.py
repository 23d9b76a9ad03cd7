"""Columns of blobs, marked by us or by stock Lance, in files of every version: what SQL says of them, and what is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance_flight
import pyarrow as pa
import pytest
from lance.blob import Blob, BlobType, blob_array, blob_field
from lance_flight.backend_values import IfExists
from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.storage.lance_columns import BLOB_BATCH_BYTES
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.ingest import IngestOptions, TableProperties
from lance_flight.errors import InvalidInput, SchemaError, Unsupported

pytestmark = pytest.mark.slow  # every change of every kind of blob

MARK = {"lance-encoding:blob": "true"}
T = TableName("public", "t")
LARGE = 3 << 20
"""Bytes that stock Lance stores in a file of their own, beside those of 2.2."""
VALUES = [b"a" * 10, None, b"b" * LARGE, b""]
SITES = ["x", "x", "y", "y"]


def marked() -> pa.Table:
    fields = [
        pa.field("id", pa.int64()),
        pa.field("site", pa.utf8()),
        pa.field("image", pa.large_binary(), metadata=MARK),
    ]
    return pa.table([[1, 2, 3, 4], SITES, pa.array(VALUES, pa.large_binary())], schema=pa.schema(fields))


def by_ingest(layout: str) -> Callable[[Engine, Path], None]:
    def make(engine: Engine, root: Path) -> None:
        options = IngestOptions(properties=TableProperties.by(layout))
        reader = marked().to_reader()
        ingest.ingest(engine.root, T, reader, create_missing=True, existing=IfExists.FAIL, options=options)

    return make


def by_statements(layout: str) -> Callable[[Engine, Path], None]:
    def make(engine: Engine, root: Path) -> None:
        engine.update(f"CREATE TABLE t (id BIGINT, site VARCHAR, image BLOB){layout}")
        rows = pa.table({"id": [1, 2, 3, 4], "site": SITES, "image": pa.array(VALUES, pa.binary())})
        ingest.ingest(engine.root, T, rows.to_reader(), create_missing=False, existing=IfExists.APPEND)

    return make


def by_lance(version: str) -> Callable[[Engine, Path], None]:
    def make(engine: Engine, root: Path) -> None:
        lance.write_dataset(marked(), str(root / "t.lance"), data_storage_version=version)

    return make


def by_extension(engine: Engine, root: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("site", pa.utf8()), blob_field("image")])
    rows = pa.table([pa.array([1, 2, 3, 4]), pa.array(SITES), blob_array(VALUES)], schema=schema)
    lance.write_dataset(rows, str(root / "t.lance"), data_storage_version="2.2")


MARKED = {
    "made by SQL": by_statements(""),
    "made by SQL, in partitions": by_statements(" PARTITIONED BY (site)"),
    "made by an ingest": by_ingest(""),
    "made by an ingest, in partitions": by_ingest("site"),
    "stock, 2.0": by_lance("2.0"),
    "stock, 2.1": by_lance("2.1"),
}
EXTENDED = {"stock, 2.2": by_lance("2.2"), "stock, by its extension type": by_extension}
KINDS = MARKED | EXTENDED


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, engine: Engine, tmp_path: Path) -> Engine:
    KINDS[request.param](engine, tmp_path)
    return engine


def rows(engine: Engine, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in engine.query(sql).to_pylist()]


def images(engine: Engine) -> dict[int, bytes | None]:
    return dict(rows(engine, "SELECT id, image FROM t ORDER BY id"))


def stored(root: Path) -> dict[int, bytes | None]:
    """What stock Lance reads of the tables that hold rows, each by itself."""
    found = {}
    for versions in sorted(root.glob("t*/**/_versions")):
        dataset = lance.dataset(str(versions.parent))
        if "image" not in dataset.schema.names or "branch" in str(versions):
            continue
        field = dataset.schema.field("image")
        assert isinstance(field.type, BlobType) or field.metadata[b"lance-encoding:blob"] == b"true"
        read = dataset.scanner(columns=["id", "image"], blob_handling="all_binary").to_table()
        found |= dict(zip(read["id"].to_pylist(), read["image"].to_pylist(), strict=True))
    return dict(sorted(found.items()))


BEFORE = dict(enumerate(VALUES, 1))
QUERIES = {
    "SELECT * FROM t ORDER BY id": [
        (n, site, value) for n, site, value in zip(range(1, 5), SITES, VALUES, strict=True)
    ],
    "SELECT id FROM t WHERE image IS NULL": [(2,)],
    "SELECT id FROM t WHERE image = X''": [(4,)],
    "SELECT id FROM t WHERE image > X'62' AND id > 1": [(3,)],
    "SELECT count(*), count(image) FROM t": [(4, 3)],
    "SELECT a.id FROM t a JOIN t b ON a.image = b.image ORDER BY a.id": [(1,), (3,), (4,)],
    "SELECT site, count(image) FROM t GROUP BY site ORDER BY site": [("x", 1), ("y", 2)],
    "SELECT data_type FROM information_schema.columns WHERE table_name = 't' AND column_name = 'image'": [("BLOB",)],
}


def test_blobs_are_binary_to_queries(table: Engine) -> None:
    assert {sql: rows(table, sql) for sql in QUERIES} == QUERIES
    assert table.query("DESCRIBE t")["data_type"].to_pylist() == ["BIGINT", "VARCHAR", "BLOB"]
    assert '"image" BLOB' in table.query("SHOW CREATE TABLE t")["definition"][0].as_py()


CHANGES = {
    "INSERT INTO t VALUES (5, 'x', X'0102')": BEFORE | {5: b"\x01\x02"},
    "INSERT INTO t SELECT id + 10, site, image FROM t WHERE id IN (2, 3)": BEFORE | {12: None, 13: VALUES[2]},
    "UPDATE t SET id = id + 10 WHERE id = 3": {1: VALUES[0], 2: None, 4: b"", 13: VALUES[2]},
    "UPDATE t SET image = X'ff' WHERE id = 1": BEFORE | {1: b"\xff"},
    "UPDATE t SET image = NULL": dict.fromkeys(BEFORE),
    "DELETE FROM t WHERE id = 2": {n: value for n, value in BEFORE.items() if n != 2},
    "DELETE FROM t WHERE image = X''": {n: value for n, value in BEFORE.items() if n != 4},
    "MERGE INTO t USING (VALUES (4, X'09'), (6, X'0a')) s (id, image) ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET image = s.image"
    " WHEN NOT MATCHED THEN INSERT (id, site, image) VALUES (s.id, 'z', s.image)": BEFORE | {4: b"\x09", 6: b"\x0a"},
}


@pytest.mark.parametrize("statement", CHANGES)
def test_blobs_are_written_and_kept_beside_what_changes(table: Engine, tmp_path: Path, statement: str) -> None:
    table.update(statement)
    assert images(table) == CHANGES[statement]
    assert {n: value for n, value in stored(tmp_path).items() if n in CHANGES[statement]} == CHANGES[statement]


def test_blobs_stay_through_maintenance(table: Engine, tmp_path: Path) -> None:
    for n in range(5, 9):
        table.update(f"INSERT INTO t VALUES ({n}, 'y', X'{n:02x}')")
    table.update("DELETE FROM t WHERE id = 1")
    expected = {n: value for n, value in BEFORE.items() if n != 1} | {n: bytes([n]) for n in range(5, 9)}
    opened = table.root.table(T)
    assert compact(opened, CompactionRules()).tables
    assert images(table) == expected
    vacuum(opened, VacuumRules(retain_hours=0, force=True))
    assert images(table) == stored(tmp_path) == expected
    assert verify(opened, evaluate).unsound == []


@pytest.mark.parametrize("made", MARKED)
def test_columns_change_beside_blobs(engine: Engine, tmp_path: Path, made: str) -> None:
    MARKED[made](engine, tmp_path)
    for statement in (
        "ALTER TABLE t ADD COLUMN n BIGINT DEFAULT 7",
        "ALTER TABLE t ADD COLUMN m BIGINT AS (id * 2)",
        "ALTER TABLE t ADD COLUMN is_null BOOLEAN AS (image IS NULL)",
        "ALTER TABLE t RENAME COLUMN image TO picture",
        "ALTER TABLE t ADD COLUMN more BLOB",
        "INSERT INTO t (id, site, more) VALUES (5, 'x', X'05')",
        "UPDATE t SET more = picture WHERE id = 3",
    ):
        engine.update(statement)
    assert dict(rows(engine, "SELECT id, picture FROM t ORDER BY id")) == BEFORE | {5: None}
    assert rows(engine, "SELECT n, m, is_null, more FROM t ORDER BY id") == [
        (7, 2, False, None),
        (7, 4, True, None),
        (7, 6, False, VALUES[2]),
        (7, 8, False, None),
        (7, None, None, b"\x05"),
    ]
    assert engine.query("DESCRIBE t")["data_type"].to_pylist()[-1] == "BLOB"
    engine.update("ALTER TABLE t DROP COLUMN picture")
    assert rows(engine, "SELECT id, more FROM t WHERE more IS NOT NULL ORDER BY id") == [(3, VALUES[2]), (5, b"\x05")]


@pytest.mark.parametrize("made", EXTENDED)
def test_columns_beside_blobs_of_the_extension_type_are_refused_by_name(
    engine: Engine, tmp_path: Path, made: str
) -> None:
    EXTENDED[made](engine, tmp_path)
    with pytest.raises(
        SchemaError, match=r"'image' is a BLOB, which files of Lance version 2\.2 .* expected file_version 2\.1"
    ):
        engine.update("ALTER TABLE t ADD COLUMN n BIGINT")
    assert images(engine) == BEFORE


def test_a_table_that_cannot_hold_blobs_is_refused_by_name(engine: Engine) -> None:
    for layout in ("", " PARTITIONED BY (id)"):
        with pytest.raises(SchemaError, match=r"'image' is a BLOB.* expected file_version 2\.1"):
            engine.update(f"CREATE TABLE t (id BIGINT, image BLOB){layout} WITH (file_version = '2.2')")
    assert not engine.root.has(T)


@pytest.mark.parametrize("made", EXTENDED)
def test_blobs_are_not_read_unless_they_are_asked_for(engine: Engine, tmp_path: Path, made: str) -> None:
    EXTENDED[made](engine, tmp_path)
    beside = list(tmp_path.glob("t.lance/data/**/*.blob"))
    assert beside
    for file in beside:
        file.unlink()
    assert rows(engine, "SELECT id, site FROM t WHERE site = 'y' ORDER BY id") == [(3, "y"), (4, "y")]
    assert rows(engine, "SELECT count(*) FROM t") == [(4,)]
    assert rows(engine, "SELECT id, image FROM t WHERE id = 1") == [(1, VALUES[0])]
    with pytest.raises(Exception, match="Not found"):
        rows(engine, "SELECT image FROM t")


def test_batches_of_blobs_are_small(engine: Engine) -> None:
    one = 2 << 20
    fields = [pa.field("id", pa.int64()), pa.field("image", pa.large_binary(), metadata=MARK)]
    batches = (
        pa.record_batch([pa.array([n]), pa.array([bytes([n]) * one], pa.large_binary())], schema=pa.schema(fields))
        for n in range(40)
    )
    reader = pa.RecordBatchReader.from_batches(pa.schema(fields), batches)
    ingest.ingest(engine.root, T, reader, create_missing=True, existing=IfExists.FAIL)
    with lance_flight.dataset(engine.root.store.uri, "t") as opened:
        sizes = [batch.nbytes for batch in opened.to_batches()]
    assert sum(sizes) > 40 * one
    assert max(sizes) <= BLOB_BATCH_BYTES + one


def test_nothing_outside_the_root_is_read_through_a_blob(engine: Engine, tmp_path: Path) -> None:
    secret = tmp_path.parent / "secret"
    secret.write_text("secret")
    schema = pa.schema([pa.field("id", pa.int64()), blob_field("image")])
    given = pa.table([pa.array([1, 2]), blob_array([b"mine", Blob.from_uri(secret.as_uri())])], schema=schema)
    place = str(tmp_path / "t.lance")
    lance.write_dataset(given, place, data_storage_version="2.2", allow_external_blob_outside_bases=True)
    stock = lance.dataset(place).scanner(columns=["image"], blob_handling="all_binary").to_table()
    assert stock["image"].to_pylist() == [b"mine", b"secret"]
    assert rows(engine, "SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    for statement in ("SELECT image FROM t", "SELECT id FROM t WHERE image = X'00'", "SELECT count(image) FROM t"):
        with pytest.raises(Unsupported, match="blob column 'image' has values that lie at URIs of their own"):
            engine.query(statement)
    for statement in ("UPDATE t SET id = 3 WHERE id = 2", "INSERT INTO t SELECT 4, image FROM t"):
        with pytest.raises(Unsupported, match="lie at URIs"):
            engine.update(statement)
    with (
        lance_flight.dataset(str(tmp_path), "t", columns=["id"]) as opened,
        pytest.raises(Unsupported, match="lie at URIs"),
    ):
        opened.take_blobs("image", [0])
    assert rows(engine, "SELECT id FROM t ORDER BY id") == [(1,), (2,)]


@pytest.mark.parametrize("made", EXTENDED)
def test_tables_with_blobs_become_partitions_and_leave_again(engine: Engine, tmp_path: Path, made: str) -> None:
    EXTENDED[made](engine, tmp_path)
    engine.update("DELETE FROM t WHERE site = 'x'")
    engine.update("CREATE TABLE p (id BIGINT, site VARCHAR, image BLOB) PARTITIONED BY (site)")
    engine.update("INSERT INTO p VALUES (1, 'x', X'01')")
    engine.update("ALTER TABLE p ATTACH TABLE 't' PARTITION (site = 'y')")
    engine.update("INSERT INTO p VALUES (5, 'y', X'05'), (6, 'z', X'06')")
    expected = {1: b"\x01", 3: VALUES[2], 4: b"", 5: b"\x05", 6: b"\x06"}
    assert dict(rows(engine, "SELECT id, image FROM p ORDER BY id")) == expected
    engine.update("ALTER TABLE p DETACH PARTITION (site = 'y') TO q")
    assert dict(rows(engine, "SELECT id, image FROM q ORDER BY id")) == {3: VALUES[2], 4: b"", 5: b"\x05"}
    assert dict(rows(engine, "SELECT id, image FROM p ORDER BY id")) == {1: b"\x01", 6: b"\x06"}


def test_a_dataset_gives_blobs_as_files_that_are_read_by_ranges(table: Engine) -> None:
    with lance_flight.dataset(table.root.store.uri, "t", columns=["id"]) as opened:
        ids = opened.to_table()["id"].to_pylist()
        order = [ids.index(n) for n in (3, 2, 1, 4, 3)]
        large, null, small, empty, again = opened.take_blobs("image", order)
        assert null is None
        assert large is not None
        assert (large.seek(LARGE - 2), large.read(10)) == (LARGE - 2, b"bb")
        assert [each and each.read() for each in (small, empty, again)] == [VALUES[0], b"", VALUES[2]]
        with pytest.raises(InvalidInput, match=r"indices has 4; expected places among the 4 rows of 'public\.t'"):
            opened.take_blobs("image", [0, 4])
        with pytest.raises(InvalidInput, match=r"column 'id' .* not a blob"):
            opened.take_blobs("id", [0])
    for condition in ("id > 2 AND image IS NOT NULL", "upper(site) = 'Y'", "site = 'y'"):
        with lance_flight.dataset(table.root.store.uri, "t", filter=condition) as opened:
            ids = opened.to_table()["id"].to_pylist()
            files = opened.take_blobs("image", [0, 1])
            assert {n: file and file.read() for n, file in zip(ids, files, strict=True)} == {3: VALUES[2], 4: b""}


@pytest.mark.parametrize("layout", ["", "site"])
def test_what_is_ingested_with_the_mark_are_blobs_of_later_partitions_too(
    engine: Engine, tmp_path: Path, layout: str
) -> None:
    by_ingest(layout)(engine, tmp_path)
    more = pa.table({"id": [5], "site": ["z"], "image": pa.array([b"five"], pa.binary())})
    ingest.ingest(engine.root, T, more.to_reader(), create_missing=False, existing=IfExists.APPEND)
    assert images(engine) == stored(tmp_path) == BEFORE | {5: b"five"}
