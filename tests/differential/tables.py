"""The same rows in partitioned tables of an engine and in DuckDB."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa

from tests.engine.database import Database

# Column → its type in SQL, and its type in Arrow.
COLUMNS = {
    "i": ("BIGINT", pa.int64()),
    "j": ("INT", pa.int32()),
    "f": ("DOUBLE", pa.float64()),
    "m": ("DECIMAL(9, 2)", pa.decimal128(9, 2)),
    "h": ("SMALLINT", pa.int16()),
    "r": ("REAL", pa.float32()),
    "w": ("DECIMAL(30, 4)", pa.decimal128(30, 4)),
    "s": ("VARCHAR", pa.utf8()),
    "d": ("DATE", pa.date32()),
    "ts": ("TIMESTAMP", pa.timestamp("us")),
    "b": ("BOOLEAN", pa.bool_()),
}
VALUES = {
    "i": [0, 1, 2, 3, 7, -1, -5, 100],
    "j": [0, 1, 2, 3, 10, -2],
    "f": [0.0, -0.0, 1.5, 2.0, -2.5, 1e10],
    "m": [Decimal(text) for text in ("0.00", "1.50", "2.00", "-3.25", "100.25")],
    "h": [0, 1, -3, 300],
    "r": [0.0, -0.0, 0.5, -2.5, 1024.0],
    "w": [Decimal(text) for text in ("0.0000", "1.5000", "2.0000", "-123456789012345.1250")],
    "s": ["", "a", "ab", "b", "A", "b%", "zz"],
    "d": [date(1969, 12, 31), date(2024, 2, 29), date(2024, 3, 1), date(2025, 12, 31)],
    "ts": [
        datetime(1969, 12, 31, 23, 59, 59),
        datetime(2024, 2, 29, 12),
        datetime(2024, 3, 1),
        datetime(2025, 1, 1, 0, 0, 1),
    ],
    "b": [True, False],
}
# Table → how it is partitioned, how the later half of its rows is, and how many it has.
TABLES = {
    "t": ("bucket(3, i), s", None, 23),
    "u": ("month(d)", None, 11),
    "v": ("truncate(2, j)", None, 7),
    "p": (None, None, 9),
    "e": ("b", None, 0),
}
# The same tables, laid out so that partitions of one meet few of another by `KEYS`.
MATCHED = {
    "t": ("bucket(8, i), s", None, 23),
    "u": ("bucket(4, i), year(d), month(d)", "i, year(d), month(d)", 19),
    "v": ("i, year(d)", "s, bucket(4, i), year(d)", 17),
    "p": (None, None, 9),
    "e": ("i, s, year(d)", None, 0),
}
KEYS = ("i", "i", "s", "d")


@dataclass(frozen=True, slots=True)
class Peers:
    """An engine over partitioned tables, and DuckDB over the same rows."""

    database: Database
    peer: duckdb.DuckDBPyConnection


def filled(root: Path, seed: int = 0, tables: Mapping[str, tuple[str | None, str | None, int]] = TABLES) -> Peers:
    """Return both with the same random rows, a fifth of whose values are NULL."""
    chance = random.Random(seed)  # noqa: S311 - rows, no secret
    database, peer = Database(root), duckdb.connect()
    peer.execute("SET TimeZone = 'UTC'")
    for name, (partitioned_by, later, count) in tables.items():
        rows = [
            {column: None if chance.random() < 0.2 else chance.choice(values) for column, values in VALUES.items()}
            for _ in range(count)
        ]
        rows = [{"k": key, **row} for key, row in enumerate(rows)]
        schema = pa.schema({"k": pa.int64(), **{column: kind for column, (_, kind) in COLUMNS.items()}})
        columns = ", ".join(f"{column} {kind}" for column, (kind, _) in COLUMNS.items())
        peer.execute(f"CREATE TABLE {name} (k BIGINT, {columns})")
        database.run(
            f"CREATE TABLE {name} (k BIGINT, {columns})"
            + (f" PARTITIONED BY ({partitioned_by})" if partitioned_by is not None else "")
        )
        table = pa.Table.from_pylist(rows, schema=schema)
        if count:
            half = count // 2 if later else count
            database.ingest(name, table[:half], "append")
            if later:
                database.run(f"ALTER TABLE {name} SET PARTITIONED BY ({later})")
                database.ingest(name, table[half:], "append")
            peer.register("rows_of_table", table)
            peer.execute(f"INSERT INTO {name} SELECT * FROM rows_of_table")
            peer.unregister("rows_of_table")
    return Peers(database, peer)
