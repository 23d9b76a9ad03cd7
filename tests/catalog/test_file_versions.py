"""Tables of several versions of Lance's file format in one namespace: read and searched as one, each written in its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.ingest import TableProperties
from lance_flight.errors import InvalidInput

from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # every change of files of every version

VERSIONS = ("2.0", "2.1", "2.2")
ROWS = 20
FIRST = {f"{name}{twin}": 100 * place + 50 * twin for place, name in enumerate("abc") for twin in range(2)}
"""The first id of each attached partition: two of each version."""
ALL = sorted(n for first in (*FIRST.values(), 1000) for n in range(first, first + ROWS))
BEFORE = {value: {VERSIONS["abc".index(value[0])]} for value in FIRST} | {"d": {"2.2"}}


def engine(root: Path, target_partitions: int = 1) -> Engine:
    return Engine(Root(Store(str(root))), target_partitions=target_partitions)


def rows(value: str, start: int) -> pa.Table:
    """Rows of one partition, with a vector, a text and nested columns."""
    numbers = range(start, start + ROWS)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "p": [value] * ROWS,
            "word": [("one", "two", "three")[n % 3] for n in numbers],
            "s": pa.array([{"x": n, "l": [n, None]} for n in numbers]),
            "v": pa.array([[float(n), 1.0] for n in numbers], pa.list_(pa.float32(), 2)),
        }
    )


def versions(root: Path, name: str = "t") -> dict[str, set[str]]:
    """The versions of the files of each partition, as `t$files` tells and as stock Lance sees them."""
    told = engine(root).query(f"SELECT object_id, file_version FROM {name}$files").to_pylist()
    found: dict[str, set[str]] = {}
    for table in stored_tables(root / name):
        mine = {row["file_version"] for row in told if row["object_id"] == table.object_id}
        files = [file for fragment in table.dataset.get_fragments() for file in fragment.metadata.files]
        assert mine == {f"{file.file_major_version}.{file.file_minor_version}" for file in files}
        assert mine <= {table.dataset.data_storage_version}
        found[table.values["p"]] = mine
    return found


def made(root: Path, properties: TableProperties, data: pa.Table, name: str = "t") -> None:
    ingest.create(engine(root).root, TableName("public", name), data.schema, properties, [data])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A namespace `t` by `p`: its partition `d` made by us, the others attached."""
    place = tmp_path_factory.mktemp("template")
    made(place, TableProperties.by("p"), rows("d", 1000))
    for value, first in FIRST.items():
        (version,) = BEFORE[value]
        lance.write_dataset(rows(value, first), str(place / f"{value}.lance"), data_storage_version=version)
        engine(place).update(f"ALTER TABLE t ATTACH TABLE '{value}.lance' PARTITION (p = '{value}')")
    return place


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path, dirs_exist_ok=True))


def values(root: Path, sql: str, target_partitions: int = 1) -> list[Any]:
    found: list[Any] = engine(root, target_partitions).query(sql).columns[0].to_pylist()
    return found


@pytest.mark.parametrize("target_partitions", [1, 3])
def test_tables_of_several_versions_are_read_as_one(root: Path, target_partitions: int) -> None:
    found = engine(root, target_partitions).query("SELECT id, p, s FROM t ORDER BY id")
    assert found["id"].to_pylist() == ALL
    assert found["s"].to_pylist() == [{"x": n, "l": [n, None]} for n in ALL]
    condition = "s['x'] >= 100 AND p <> 'd' AND word = 'two'"
    assert sorted(values(root, f"SELECT id FROM t WHERE {condition}", target_partitions)) == [
        n for n in ALL if 100 <= n < 1000 and n % 3 == 1
    ]
    assert versions(root) == BEFORE


WRITES = [
    (["INSERT INTO t SELECT id + 5000, p, word, s, v FROM t"], sorted([*ALL, *(n + 5000 for n in ALL)])),
    pytest.param(["UPDATE t SET id = -id WHERE id % 2 = 1"], sorted(-n if n % 2 else n for n in ALL), id="UPDATE"),
    pytest.param(["DELETE FROM t WHERE id % 2 = 1"], [n for n in ALL if n % 2 == 0], id="DELETE"),
    pytest.param(
        [
            "MERGE INTO t USING (SELECT id, p FROM t WHERE id % 7 = 0) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET word = 'x'"
        ],
        ALL,
        id="MERGE",
    ),
    pytest.param(["ALTER TABLE t ADD COLUMN twice BIGINT AS (id * 2)"], ALL, id="a computed column"),
    pytest.param(
        ["ALTER TABLE t ADD COLUMN n INT", "INSERT INTO t SELECT id + 5000, p, word, s, v, 1 FROM t"],
        sorted([*ALL, *(n + 5000 for n in ALL)]),
        id="a new column, and rows with it",
    ),
    pytest.param(["ALTER TABLE t RENAME COLUMN word TO text", "UPDATE t SET text = 'x'"], ALL, id="RENAME COLUMN"),
    pytest.param(["ALTER TABLE t ALTER COLUMN v DROP NOT NULL"], ALL, id="nullability"),
    (["INSERT OVERWRITE t SELECT * FROM t WHERE id % 2 = 0"], [n for n in ALL if n % 2 == 0]),
]


@pytest.mark.parametrize(("statements", "expected"), WRITES)
def test_what_is_written_is_of_the_version_that_the_table_has(
    root: Path, statements: list[str], expected: list[int]
) -> None:
    for sql in statements:
        engine(root).update(sql)
    assert sorted(values(root, "SELECT id FROM t")) == expected
    assert versions(root) == BEFORE


def test_compaction_leaves_each_table_its_version(root: Path) -> None:
    for _ in range(2):
        engine(root).update("INSERT INTO t SELECT id + 5000, p, word, s, v FROM t WHERE id < 2000")
    report = compact(PartitionedNamespace.open(Store(str(root / "t"))))
    assert len([table for table in report.tables if table.files_after == 1]) == len(BEFORE)
    assert versions(root) == BEFORE
    assert values(root, "SELECT count(*) FROM t") == [3 * len(ALL)]


@pytest.mark.parametrize("indexed", [False, True], ids=["without indices", "with indices"])
def test_tables_of_several_versions_are_searched_as_one(root: Path, *, indexed: bool) -> None:
    if indexed:
        engine(root).update("CREATE INDEX texts ON t (word) USING inverted")
        engine(root).update("CREATE INDEX vectors ON t (v) USING ivf_flat WITH (num_partitions = 1)")
        engine(root).update("CREATE INDEX ids ON t (id) USING btree")
    nearest = values(root, "SELECT id FROM vector_search('t', 'v', [160.2, 1.0], k => 9)", target_partitions=2)
    assert sorted(nearest) == [*range(156, 165)]
    across = values(root, "SELECT id FROM vector_search('t', 'v', [85.0, 1.0], k => 40)")
    assert sorted(across) == [*range(50, 70), *range(100, 120)]
    found = engine(root).query("SELECT id, _score FROM full_text_search('t', 'word', 'two', k => 1000)")
    assert sorted(found["id"].to_pylist()) == [n for n in ALL if n % 3 == 1]
    assert max(found["_score"].to_pylist()) - min(found["_score"].to_pylist()) < 1e-5
    assert sorted(values(root, "SELECT id FROM t WHERE id IN (3, 55, 110, 219, 1001)")) == [3, 55, 110, 219, 1001]


NEW = pa.table({"id": [1, 2, 3], "p": ["a", "b", "b"], "s": pa.array([{"x": 1}, {"x": None}, {"x": 3}])})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("stable", ["false", "true"], ids=["", "stable row ids"])
def test_a_namespace_keeps_the_version_that_was_chosen(tmp_path: Path, version: str, stable: str) -> None:
    options = f"WITH (file_version = '{version}', stable_row_ids = {stable})"
    engine(tmp_path).update(f"CREATE TABLE t (id BIGINT, p VARCHAR, s STRUCT<x BIGINT>) PARTITIONED BY (p) {options}")
    namespace = PartitionedNamespace.open(Store(str(tmp_path / "t")))
    namespace.append([NEW], evaluate)
    namespace.append([NEW.set_column(1, "p", pa.array(["b", "c", None]))], evaluate)
    engine(tmp_path).update("UPDATE t SET p = 'new' WHERE id = 1 AND p = 'a'")
    engine(tmp_path).update("DELETE FROM t WHERE p = 'c'")
    assert {value: found for value, found in versions(tmp_path).items() if found} == {
        value: {version} for value in ("b", "new", None)
    }
    expected = [
        (1, "b", {"x": 1}),
        (1, "new", {"x": 1}),
        (2, "b", {"x": None}),
        (3, "b", {"x": 3}),
        (3, None, {"x": 3}),
    ]
    found = engine(tmp_path).query("SELECT id, p, s FROM t ORDER BY id, p").to_pylist()
    assert [(row["id"], row["p"], row["s"]) for row in found] == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_table_has_and_keeps_the_version_that_was_chosen(tmp_path: Path, version: str) -> None:
    engine(tmp_path).update(f"CREATE TABLE t WITH (file_version = '{version}') AS SELECT 1 AS id, 'a' AS p")
    for sql in ("INSERT INTO t VALUES (2, 'b')", "UPDATE t SET p = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 3"):
        engine(tmp_path).update(sql)
    dataset = lance.dataset(str(tmp_path / "t.lance"))
    files = {str(file.file_minor_version) for f in dataset.get_fragments() for file in f.metadata.files}
    assert files == {version.removeprefix("2.")}
    assert dataset.data_storage_version == version
    assert values(tmp_path, "SELECT p FROM t ORDER BY id") == ["c", "b"]


def test_an_ingest_chooses_a_version_and_a_replacement_another(tmp_path: Path) -> None:
    made(tmp_path, TableProperties.by("p").with_options({"file_version": "2.0"}), NEW)
    assert versions(tmp_path) == {"a": {"2.0"}, "b": {"2.0"}}


def test_a_partition_that_is_detached_keeps_its_version(root: Path) -> None:
    engine(root).update("ALTER TABLE t DETACH PARTITION (p = 'a0') TO apart")
    assert lance.dataset(str(root / "apart.lance")).data_storage_version == "2.0"
    assert values(root, "SELECT count(*) FROM apart") == [ROWS]


UNKNOWN = [
    pytest.param("file_version = '2.3'", r"file_version is '2\.3'; expected 2\.0, 2\.1 or 2\.2", id="newer"),
    pytest.param("file_version = 'stable'", "file_version is 'stable'; expected 2.0", id="a word"),
    pytest.param("file_version = 2", "file_version is '2'; expected 2.0", id="a number"),
    pytest.param("fileversion = '2.0'", "'fileversion' .* expected stable_row_ids or file_version", id="misspelt"),
]


@pytest.mark.parametrize(("option", "message"), UNKNOWN)
def test_other_versions_are_refused(tmp_path: Path, option: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        engine(tmp_path).update(f"CREATE TABLE t (id BIGINT) PARTITIONED BY (id) WITH ({option})")
    assert not engine(tmp_path).root.has(TableName("public", "t"))


PAIRS = pa.list_(pa.struct([("x", pa.int32())]), 2)
NOT_HELD = [
    pytest.param(version, kind, message, id=f"{kind} in {version}")
    for version, kind, message in (
        ("2.0", pa.map_(pa.utf8(), pa.int64()), "file_version 2.2"),
        ("2.1", pa.list_(pa.map_(pa.utf8(), pa.int64())), "file_version 2.2"),
        ("2.0", PAIRS, "file_version 2.2"),
        ("2.1", PAIRS, "file_version 2.2"),
    )
]


@pytest.mark.parametrize(("version", "kind", "message"), NOT_HELD)
def test_columns_that_a_version_cannot_hold_are_named_when_a_table_is_made(
    tmp_path: Path, version: str, kind: pa.DataType, message: str
) -> None:
    data = pa.table({"id": [1], "m": pa.nulls(1, kind)})
    for properties in (TableProperties.by("id"), TableProperties()):
        with pytest.raises(InvalidInput, match=f"column 'm' is .*{version} cannot hold; expected {message}"):
            made(tmp_path, properties.with_options({"file_version": version}), data)


def test_a_column_that_its_version_cannot_hold_is_not_added_to_a_table(tmp_path: Path) -> None:
    made(tmp_path, TableProperties.by("p").with_options({"file_version": "2.1"}), NEW)
    with pytest.raises(InvalidInput, match=r"column 'm' is STRUCT<.*>\[2\], which .*2\.1 cannot hold"):
        engine(tmp_path).update("ALTER TABLE t ADD COLUMN m STRUCT<x INT>[2]")
    made(tmp_path, TableProperties.by("p").with_options({"file_version": "2.2"}), NEW, "newer")
    engine(tmp_path).update("ALTER TABLE newer ADD COLUMN m STRUCT<x INT>[2]")


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([("x", pa.int32())]),
        pa.list_(pa.struct([("x", pa.int32())])),
        pa.struct([("y", pa.struct([("x", pa.int8())]))]),
    ],
    ids=str,
)
@pytest.mark.parametrize("by", ["p", None], ids=["partitioned", "plain"])
def test_a_null_struct_that_files_of_2_0_cannot_hold_is_named(
    tmp_path: Path, kind: pa.DataType, by: str | None
) -> None:
    properties = TableProperties.by(by)
    schema = pa.schema({"id": pa.int64(), "p": pa.utf8(), "s": kind})
    value = [None] if pa.types.is_list(kind) else {"y": None} if kind.field(0).name == "y" else None
    bad = pa.Table.from_pylist([{"id": 1, "p": "a", "s": value}], schema=schema)
    with pytest.raises(InvalidInput, match=r"column 's' of table .* has a NULL in place of a struct.*2\.0"):
        made(tmp_path, properties.with_options({"file_version": "2.0"}), bad)
    made(tmp_path, properties.with_options({"file_version": "2.1"}), bad)
    assert values(tmp_path, "SELECT s FROM t") == [value]
