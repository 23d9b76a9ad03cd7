"""Roots of every kind that is backed up, made by name, and what is in one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lance
import pyarrow as pa
from lance.blob import blob_array, blob_field
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate

from tests.catalog.small_table import SCHEMA, SPEC, rows
from tests.engine.directory_namespace import lay_out

BY_P = ("CREATE TABLE t (id BIGINT, p VARCHAR, n BIGINT) PARTITIONED BY (p)",)
TWO_PARTS = "INSERT INTO t VALUES (1, 'a', 0), (2, 'a', 0), (3, 'b', 0), (4, NULL, 0)"

STATEMENTS: Mapping[str, tuple[str, ...]] = {
    "nothing": (),
    "a table without rows": BY_P,
    "partitions": (*BY_P, TWO_PARTS),
    "many files": (
        *BY_P, "INSERT INTO t SELECT value, CAST(value AS VARCHAR), 0 FROM generate_series(1, 40)",
    ),
    "several spec versions": (
        *BY_P, TWO_PARTS, "ALTER TABLE t SET PARTITIONED BY (p, bucket(4, id))", "INSERT INTO t VALUES (5, 'a', 1), (6, 'c', 1)",
    ),
    "deleted and changed rows": (*BY_P, TWO_PARTS, "DELETE FROM t WHERE id = 1", "UPDATE t SET n = 7 WHERE id = 3"),
    "indices": (
        *BY_P, TWO_PARTS, "CREATE INDEX i ON t (id) WITH (min_rows = 0)", "INSERT INTO t VALUES (8, 'a', 1)",
        "CREATE TABLE pl AS SELECT id, p FROM t", "CREATE INDEX j ON pl (id) WITH (min_rows = 0)",
    ),
    "a tag, and one of an older snapshot": (
        *BY_P, "ALTER TABLE t CREATE TAG before", TWO_PARTS, "ALTER TABLE t CREATE TAG now",
    ),
    "a published branch, and one that is not": (
        *BY_P, TWO_PARTS, "DELETE FROM t WHERE id = 1", "ALTER TABLE t CREATE BRANCH audit", """INSERT INTO "t@audit" VALUES (10, 'a', 1), (11, 'c', 1)""",
        """DELETE FROM "t@audit" WHERE id = 3""", "ALTER TABLE t PUBLISH BRANCH audit", "INSERT INTO t VALUES (12, 'c', 2)",
        "ALTER TABLE t CREATE BRANCH wip", """INSERT INTO "t@wip" VALUES (13, 'a', 3)""",
    ),
    "a branch that goes on from a published one": (
        *BY_P, TWO_PARTS, "ALTER TABLE t CREATE BRANCH b1", """INSERT INTO "t@b1" VALUES (10, 'a', 1)""",
        "ALTER TABLE t PUBLISH BRANCH b1", "ALTER TABLE t DROP BRANCH b1",
        "ALTER TABLE t CREATE BRANCH b2", """INSERT INTO "t@b2" VALUES (11, 'a', 1), (12, 'b', 1)""",
        "ALTER TABLE t PUBLISH BRANCH b2",
    ),
    "plain tables and views": (
        "CREATE TABLE pl (id BIGINT, v VARCHAR)", "INSERT INTO pl VALUES (1, 'x'), (2, NULL)", "UPDATE pl SET v = 'y' WHERE id = 1",
        "CREATE VIEW v AS SELECT id FROM pl WHERE v = 'y'",
    ),
    "schemas": (
        "CREATE SCHEMA s", "CREATE SCHEMA empty", "CREATE TABLE s.pl AS SELECT 1 AS a",
        "CREATE TABLE s.t (id BIGINT, p VARCHAR) PARTITIONED BY (p)", "INSERT INTO s.t VALUES (1, 'a')",
        "CREATE VIEW s.v AS SELECT a + 1 AS b FROM s.pl",
    ),
    "columns that changed": (
        *BY_P, TWO_PARTS, "ALTER TABLE t ADD COLUMN c DOUBLE DEFAULT 1.5", "INSERT INTO t VALUES (9, 'd', 0, 2.5)",
        "ALTER TABLE t RENAME COLUMN n TO m", "ALTER TABLE t DROP COLUMN id", "INSERT INTO t VALUES ('a', 1, NULL)",
    ),
    "odd names": (
        'CREATE TABLE "ten % off?" (id BIGINT, "p q" VARCHAR) PARTITIONED BY ("p q")',
        """INSERT INTO "ten % off?" VALUES (1, 'ä/ö'), (2, '..')""",
        'CREATE TABLE "Zürich 1" AS SELECT 1 AS a',
    ),
    "an attached table": (
        *BY_P, TWO_PARTS, "CREATE TABLE more AS SELECT CAST(7 AS BIGINT) AS id, 'z' AS p, CAST(1 AS BIGINT) AS n",
        "ALTER TABLE t ATTACH TABLE more PARTITION (p = 'z')",
    ),
}  # fmt: skip
"""Statements that make a root."""


def blobs(root: Path) -> None:
    """Values that lie in a data file, and in files beside it."""
    schema = pa.schema([pa.field("id", pa.int64()), blob_field("b")])
    values = [b"x" * 10, b"y" * 100_000, b"z" * 5_000_000, None]
    rows = pa.table({"id": [1, 2, 3, 4], "b": blob_array(values)}, schema=schema)
    lance.write_dataset(rows, f"{root}/blobs.lance", data_storage_version="2.2")


def nested(root: Path) -> None:
    """Columns of structs and lists, partitioned and not."""
    kind = pa.struct({"x": pa.int64(), "tags": pa.list_(pa.utf8())})
    rows = pa.table({"id": [1, 2], "s": pa.array([{"x": 1, "tags": ["a", None]}, {"x": None, "tags": []}], kind)})
    lance.write_dataset(rows, f"{root}/pl.lance")
    run(root, "CREATE TABLE t (id BIGINT, s STRUCT<x BIGINT, y VARCHAR>) PARTITIONED BY (id)")
    run(root, "INSERT INTO t VALUES (1, named_struct('x', 2, 'y', 'z'))")


def listed(root: Path) -> None:
    """A `__manifest` that lists tables by other names than their directories', one of them in a namespace, beside one that is not listed."""
    lay_out(root, {"called": "1234_other", "ns$deep": "5678_deep"})
    run(root, "CREATE TABLE pl AS SELECT 1 AS a")


def namespace_itself(root: Path) -> None:
    """A root that is a partitioned namespace."""
    PartitionedNamespace.create(Store(str(root)), SCHEMA, SPEC)
    run(root, f"INSERT INTO \"{root.name}\" VALUES (1, 'a'), (2, 'b')")


def floating(root: Path) -> None:
    """A namespace of another writer, whose rows pin no version."""
    PartitionedNamespace.create(Store(str(root / "t")), SCHEMA, SPEC).append([rows((1, "a"), (2, "b"))], evaluate)
    manifest = lance.dataset(f"{root}/t/__manifest")
    manifest.update({"read_version": "NULL"}, where="object_type = 'table'")


BUILT: Mapping[str, Callable[[Path], None]] = {
    "blobs": blobs,
    "nested columns": nested,
    "listed tables": listed,
    "a namespace itself": namespace_itself,
    "tables without pins": floating,
}
NAMES = [*STATEMENTS, *BUILT]


def engine_of(root: Path | Store) -> Engine:
    """An engine over a root, opened anew."""
    return Engine(Root(root if isinstance(root, Store) else Store(str(root))), target_partitions=1)


def run(root: Path | Store, *statements: str) -> None:
    """Run statements on a root."""
    engine = engine_of(root)
    for statement in statements:
        engine.update(statement)


def make(root: Path, name: str) -> Path:
    """Make the root of a name: a copy of the first one of that name, where its tables do not say where they lie."""
    if name in BUILT or "branch" in name:
        return _make(root, name)
    shutil.copytree(_first(name), root)
    return root


_FIRST = TemporaryDirectory(prefix="lance-flight-roots-")


@cache
def _first(name: str) -> Path:
    return _make(Path(_FIRST.name, str(len(list(Path(_FIRST.name).iterdir())))), name)


def _make(root: Path, name: str) -> Path:
    root.mkdir(parents=True)
    if name in BUILT:
        BUILT[name](root)
    else:
        run(root, *STATEMENTS[name])
    return root


def content(root: Path | Store) -> dict[str, Any]:
    """All rows of all tables and views of a root, and its schemas."""
    engine = engine_of(root)
    tables = [*engine.root.tables(), *(view.name for view in engine.root.views())]
    return {"schemas": engine.root.schemas()} | {str(name): rows_of(engine, name) for name in tables}


def rows_of(engine: Engine, name: TableName) -> list[str]:
    """The rows of a table, as text and sorted."""
    rows = engine.query(f'SELECT * FROM "{name.db_schema}"."{name.name}"')
    return sorted(map(repr, rows.to_pylist()))
