"""Tables of every kind that there is to read, made by the statements that make them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType

import lance
import pyarrow as pa

from tests.engine.database import Database
from tests.service.server_process import Server

DAY = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)
Maker = Server | Database
"""What statements that make tables are sent to."""


@dataclass(frozen=True)
class Shape:
    """A kind of table, the filters that it is read with, and some of its columns."""

    make: Callable[[Maker, str], None]
    filters: tuple[str, ...]
    columns: tuple[str, ...] = ("id",)
    points: tuple[str, ...] = field(default=())


def rows(start: int, stop: int) -> pa.Table:
    """Rows with a partition column that is NULL for every fifth of them."""
    ids = range(start, stop)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "part": pa.array([None if n % 5 == 0 else f"p{n % 5}" for n in ids]),
            "at": pa.array([DAY + dt.timedelta(hours=7 * n) for n in ids], pa.timestamp("us", "UTC")),
            "x": pa.array([float("nan") if n % 11 == 0 else n / 4 for n in ids]),
        }
    )


def nulls(server: Maker, name: str) -> None:
    server.ingest(name, rows(0, 200), partition_by="part, month(at)")
    server.ingest(name, rows(200, 260), "append")


def evolved(server: Maker, name: str) -> None:
    server.ingest(name, rows(0, 60), partition_by="part")
    server.run(f"ALTER TABLE {name} SET PARTITIONED BY (bucket(3, id), part)")
    server.run(f"ALTER TABLE {name} ADD COLUMN extra INT")
    server.run(f"ALTER TABLE {name} RENAME COLUMN x TO y")
    server.run(f"INSERT INTO {name} SELECT id + 100, part, at, y, 7 FROM {name}")
    server.run(f"ALTER TABLE {name} DROP COLUMN at")


def deleted(server: Maker, name: str) -> None:
    server.ingest(name, rows(0, 100), partition_by="part")
    server.run(f"DELETE FROM {name} WHERE id % 3 = 0")
    server.run(f"UPDATE {name} SET part = NULL WHERE id = 1")


def disagreeing(server: Maker, name: str) -> None:
    server.ingest(name, rows(0, 40), partition_by="part")
    other = pa.table({"own": [1, 2], "id": pa.array(["900", "901"]), "part": ["z", "z"]})
    lance.write_dataset(other, str(server.root / f"{name}_z.lance"))
    server.run(f"ALTER TABLE {name} ATTACH TABLE '{name}_z' PARTITION (part = 'z')")


def quoted(server: Maker, name: str) -> None:
    data = rows(0, 40).rename_columns(["id", "Two Words", "a,b", 'say "x"'])
    server.ingest(name, data, partition_by='"Two Words"')


def empty(server: Maker, name: str) -> None:
    server.run(f"CREATE TABLE {name} (id BIGINT, part VARCHAR) PARTITIONED BY (part)")


def plain(server: Maker, name: str) -> None:
    for start in (0, 50, 100):
        server.ingest(name, rows(start, start + 50), "create_append")
    server.run(f"DELETE FROM {name} WHERE id = 7")


def custom(server: Maker, name: str) -> None:
    server.ingest(name, rows(0, 60), partition_by="expr('col0 % 4', id) AS quarter")


def versions(server: Maker, name: str) -> None:
    server.ingest(name, rows(0, 20), partition_by="part")
    server.run(f"ALTER TABLE {name} CREATE TAG first")
    server.ingest(name, rows(20, 30), "append")
    server.run(f"DELETE FROM {name} WHERE id < 10")


PLAIN_FILTERS = ("id = 7", "x > 12.25", "part IS NULL OR id < 20")
SHAPES = MappingProxyType(
    {
        "nulls": Shape(
            nulls,
            (
                *PLAIN_FILTERS,
                "part = 'p3'",
                "part IS NULL",
                "part IN ('p1', 'p2') AND id % 2 = 0",
                "at >= TIMESTAMP '2025-02-01T00:00:00Z'",
                "date_part('month', at) = 2 AND part <> 'p1'",
                "part LIKE '%3'",
                "upper(part) = 'P2' AND id > 100",
                "x = 'NaN'",
                "id = id AND NOT part = 'p4'",
                "1 = 0",
                "part = 'none'",
                "murmur3(id) % 2 = 0 -- and no more",
            ),
            ("x", "id"),
        ),
        "evolved": Shape(evolved, ("part = 'p1'", "extra IS NULL", "id = 103", "y > 3", "extra = 7 AND part = 'p2'")),
        "deleted": Shape(deleted, ("part IS NULL", "id < 10")),
        "disagreeing": Shape(disagreeing, ("part = 'z'", "id >= 900", "x IS NULL", "part = 'z' AND id % 2 = 1")),
        "quoted": Shape(
            quoted, ("\"Two Words\" = 'p1'", '"say ""x""" > 3 AND "Two Words" IS NULL'), ("a,b", 'say "x"')
        ),
        "empty": Shape(empty, ("part = 'a'",)),
        "plain": Shape(plain, PLAIN_FILTERS),
        "custom": Shape(custom, ("id = 6", "id % 4 = 2")),
        "versions": Shape(versions, ("id < 15",), ("id", "part"), ("snapshot", "tag", "time")),
    }
)
