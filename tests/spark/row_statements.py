"""Statements of Spark's that write rows, the tables that they are tried on, and what others do meanwhile."""

from __future__ import annotations

from tests.engine.database import Database
from tests.selection import IS_FULL

COLUMNS = "(id BIGINT, k BIGINT, s VARCHAR, at TIMESTAMP, x DOUBLE)"
ROWS = (
    "SELECT value, value % 4, CASE WHEN value % 7 <> 0 THEN 'r' || value END,"
    " to_timestamp(1767225600 + value * 86400), value / 2.0 FROM range(40)"
)
SHAPES = {
    "identity": "PARTITIONED BY (k)",
    "bucket": "PARTITIONED BY (bucket(4, id))",
    "months": "PARTITIONED BY (year(at), month(at))",
    "plain": "",
}
NEW = "SELECT CAST(id AS BIGINT) AS id, CAST(k AS BIGINT) AS k, s FROM (VALUES (1, 1, 'a'), (8, 0, 'b'), (100, 7, NULL)) AS v(id, k, s)"
MERGED = f"MERGE INTO {{t}} AS t USING ({NEW}) AS n ON t.id = n.id"
STATEMENTS = {
    "insert": "INSERT INTO {t} (id, k, s) SELECT id + 1000, k, 'new' FROM ({all}) AS o WHERE k < 2",
    "delete by a partition": "DELETE FROM {t} WHERE k = 2",
    "delete by a column": "DELETE FROM {t} WHERE id IN (1, 5, 33) OR s IS NULL",
    "delete by a subquery": "DELETE FROM {t} WHERE id IN (SELECT id + 1 FROM ({all}) AS o WHERE k = 0)",
    "update": "UPDATE {t} SET s = 'changed', x = x + 1 WHERE k = 1 AND id % 3 = 0",
    "update the partition": "UPDATE {t} SET k = k + 10 WHERE k >= 2",
    "update to a subquery": "UPDATE {t} SET x = (SELECT max(o.x) FROM ({all}) AS o) WHERE k = 3",
    "merge": f"{MERGED} WHEN MATCHED THEN UPDATE SET s = n.s, k = n.k WHEN NOT MATCHED THEN INSERT (id, k, s) VALUES (n.id, n.k, n.s)",
    "merge that deletes": f"{MERGED} WHEN MATCHED AND n.s = 'a' THEN DELETE WHEN MATCHED THEN UPDATE SET s = 'kept'",
    "merge that only inserts": f"{MERGED} WHEN NOT MATCHED THEN INSERT (id, k, s) VALUES (n.id, n.k, 'only')",
    "merge by the source": f"{MERGED} WHEN MATCHED THEN UPDATE SET s = 'm' WHEN NOT MATCHED BY SOURCE AND t.k = 3 THEN DELETE",
}

OVERWRITTEN = {
    "dynamic": (
        "dynamic",
        "INSERT OVERWRITE {t} VALUES (1, 1, 'x'), (2, 9, 'y')",
        "k NOT IN (1, 9)",
        [(1, 1, "x"), (2, 9, "y")],
    ),
    "static": ("static", "INSERT OVERWRITE {t} VALUES (1, 1, 'x')", "false", [(1, 1, "x")]),
    "a partition": ("static", "INSERT OVERWRITE {t} PARTITION (k = 3) SELECT 5L, 'y'", "k <> 3", [(5, 3, "y")]),
    "a partition, with nothing": (
        "static",
        "INSERT OVERWRITE {t} PARTITION (k = 3) SELECT 5L, 'y' WHERE false",
        "k <> 3",
        [],
    ),
    "a new partition": ("static", "INSERT OVERWRITE {t} PARTITION (k = 77) SELECT 5L, 'y'", "true", [(5, 77, "y")]),
    "truncated": ("static", "TRUNCATE TABLE {t}", "false", []),
}


PLACES = [("lake", "identity"), ("far", "bucket"), ("lake", "months"), ("far", "plain")]
"""Catalogs and the shapes of the tables that statements are tried on there."""


def made(database: Database, name: str, shape: str) -> None:
    database.run(f"CREATE TABLE {name} {COLUMNS} {SHAPES[shape]}")
    database.run(f"INSERT INTO {name} {ROWS}")


def versions(database: Database, name: str) -> int:
    return int(database.value(f'SELECT count(*) FROM "{name}$snapshots"'))


def statements_at(place: tuple[str, str]) -> list[str]:
    """Return the statements of a place: with `IS_FULL` all, else each of one place."""
    return list(STATEMENTS.values())[0 if IS_FULL else PLACES.index(place) :: 1 if IS_FULL else len(PLACES)]
