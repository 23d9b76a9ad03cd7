"""The roots of tests/data/roots: what is in them, by features, and how one is unpacked at another place than it was built at."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance_flight.catalog.backup.restoring import with_base_paths

DATA = Path(__file__).parent.parent / "data" / "roots"
PARTITION_BY = "adbc.flight.sql.rpc.call_header.lance-flight-partition-by"
WITH_A_ZONE = "an ingest of rows with times of a zone"


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that a root can have: statements that make it, of which releases that lack it do not know the first, and queries over it."""

    name: str
    statements: tuple[str, ...]
    queries: tuple[str, ...]
    tables: tuple[str, ...] = ()


FEATURES = (
    Feature(
        "partitioned",
        (
            "CREATE TABLE events (id BIGINT, at TIMESTAMP, site VARCHAR, n BIGINT) PARTITIONED BY (year(at), site)",
            "INSERT INTO events VALUES (1, TIMESTAMP '2024-01-01 10:00:00', 'Oslo', 1), (4, NULL, NULL, 4)",
            "INSERT INTO events VALUES (2, TIMESTAMP '2025-05-05 00:00:00', 'Oslo', 2), (3, TIMESTAMP '2025-06-06 00:00:00', 'Lima', NULL)",
            "INSERT INTO events VALUES (5, TIMESTAMP '2025-07-07 00:00:00', 'Lima', 5)",
        ),
        ("SELECT * FROM events", "SELECT id FROM events WHERE site = 'Lima'", "SELECT count(*) AS n FROM events WHERE at < '2025-01-01'"),
        ("events",),
    ),
    Feature("tagged", ("ALTER TABLE events CREATE TAG first_rows",), ('SELECT * FROM "events@first_rows"',)),
    Feature(
        "changed",
        ("DELETE FROM events WHERE id = 2", "UPDATE events SET n = 50 WHERE id = 5"),
        ("SELECT id, n FROM events",),
    ),
    Feature(
        "evolved",
        (
            "CREATE TABLE evolved (id BIGINT, p VARCHAR, gone BIGINT) PARTITIONED BY (p)",
            "INSERT INTO evolved VALUES (1, 'a', 1), (2, 'b', 2)",
            "ALTER TABLE evolved ADD COLUMN more DOUBLE",
            "ALTER TABLE evolved RENAME COLUMN id TO number",
            "ALTER TABLE evolved DROP COLUMN gone",
            "INSERT INTO evolved VALUES (3, 'a', 0.5)",
            "ALTER TABLE evolved SET PARTITIONED BY (p, bucket(4, number))",
            "INSERT INTO evolved VALUES (4, 'a', 1.5), (5, 'c', NULL)",
        ),
        ("SELECT number, p, more FROM evolved", "SELECT number FROM evolved WHERE p = 'a'"),
        ("evolved",),
    ),
    Feature(
        "branched",
        (
            "ALTER TABLE events CREATE BRANCH done",
            """INSERT INTO "events@done" VALUES (6, TIMESTAMP '2026-01-01 00:00:00', 'Rome', 6)""",
            "ALTER TABLE events PUBLISH BRANCH done",
            "ALTER TABLE events CREATE BRANCH audit",
            """INSERT INTO "events@audit" VALUES (7, TIMESTAMP '2024-02-02 00:00:00', 'Oslo', 7)""",
        ),
        ('SELECT * FROM "events@audit"', "SELECT count(*) AS n FROM events"),
    ),
    Feature(
        "attached",
        (
            "CREATE TABLE parts (id BIGINT, site VARCHAR) PARTITIONED BY (site)",
            "INSERT INTO parts VALUES (1, 'Oslo')",
            "CREATE TABLE single AS SELECT CAST(2 AS BIGINT) AS id, 'Lima' AS site",
            "ALTER TABLE parts ATTACH TABLE single PARTITION (site = 'Lima')",
        ),
        ("SELECT * FROM parts", "SELECT id FROM parts WHERE site = 'Lima'"),
        ("parts",),
    ),
    Feature("with a zone", (WITH_A_ZONE,), ("SELECT id FROM zoned", "SELECT id FROM zoned WHERE at < '2024-05-01T00:00:00Z'"), ("zoned",)),
    Feature(
        "plain",
        ("CREATE TABLE flat AS SELECT CAST(1 AS BIGINT) AS id, 'x' AS v", "INSERT INTO flat VALUES (2, 'w')"),
        ("SELECT * FROM flat",),
    ),
    Feature("changed plain", ("UPDATE flat SET v = 'y' WHERE id = 2",), ("SELECT * FROM flat", "SELECT count(*) AS n FROM flat"), ("flat",)),
    Feature("indexed", ("CREATE INDEX by_id ON events (id) WITH (min_rows = 0)",), ("SELECT id, site FROM events WHERE id = 5",)),
    Feature("commented", ("COMMENT ON TABLE events IS 'what happened'",), ()),
    Feature("view", ("CREATE VIEW lima AS SELECT id, n FROM events WHERE site = 'Lima'",), ("SELECT * FROM lima",)),
    Feature("schema", ("CREATE SCHEMA other", "CREATE TABLE other.t AS SELECT 1 AS a"), ("SELECT * FROM other.t",)),
    Feature("maintenance options", ("ALTER TABLE events SET (compact_files = 4, retain = '14d')",), ()),
)  # fmt: skip
"""What is tried, in this order."""


@dataclass(frozen=True, slots=True)
class ReleasedRoot:
    """A root that a release has written: its features, and the rows that this release itself read, by the query."""

    release: str
    built_at: str
    features: tuple[str, ...]
    answers: Mapping[str, list[Any]]

    @classmethod
    def of(cls, release: str) -> ReleasedRoot:
        said = json.loads((DATA / f"{release}.json").read_text())
        return cls(release, said["built_at"], tuple(said["features"]), said["answers"])

    def unpack(self, directory: Path) -> Path:
        """Unpack the root, and its backup if it has one, in a directory, and return the root.

        Lance knows branches by absolute places: those are what the versions say of this place then.
        """
        with tarfile.open(DATA / f"{self.release}.tar.gz") as archive:
            archive.extractall(directory, filter="data")
        for file in directory.rglob("*"):
            os.utime(file)  # what is older than a week may be vacuumed
        root = directory.resolve() / "root"
        for file in root.rglob("_versions/*.manifest"):
            content = file.read_bytes()
            moved = with_base_paths(content, file.name, self._moved_to(root))
            if moved != content:
                file.write_bytes(moved)
        return root

    def _moved_to(self, root: Path) -> Any:
        old = self.built_at.strip("/")
        return lambda address: address.replace(old, str(root).strip("/"))


RELEASES = tuple(sorted(file.stem for file in DATA.glob("*.json")))
"""The releases whose roots are there."""


def as_json(rows: pa.Table) -> list[Any]:
    """Rows as they are kept: lists of values, sorted, what JSON does not know as text."""
    listed = [list(row.values()) for row in rows.to_pylist()]
    found: list[Any] = json.loads(json.dumps(listed, default=str))
    return sorted(found, key=repr)
