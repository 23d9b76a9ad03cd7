"""What Spark offers the connector for a statement, recorded from its JVM: `python -m tests.spark.offers` writes `offers.json` anew.

Tests of the connector's planning replay it without a JVM; `test_connector_offers` compares it with what the JVM offers today.
"""

from __future__ import annotations

import datetime as dt
import getpass
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from lance_flight_client.spark.connector.sessions import CATALOG_CLASS
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.documents import TOP
from tests.engine.database import Database
from tests.spark.tables import SHAPES, rows

FILE = Path(__file__).with_name("offers.json")
Request = tuple[str, Mapping[str, Any]]
Nodes = Sequence[Mapping[str, Any]]


def typed(start: int, stop: int) -> pa.Table:
    """Rows with a partition column of each type, and others."""
    ids = range(start, stop)
    day = dt.datetime(2025, 1, 1)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "region": pa.array([None if n % 5 == 0 else f"r{n % 5}" for n in ids]),
            "month": pa.array([n % 3 for n in ids], pa.int8()),
            "day": pa.array([dt.date(2025, 1, 1 + n % 2) for n in ids], pa.date32()),
            "at": pa.array([day + dt.timedelta(hours=n % 2) for n in ids], pa.timestamp("us", "UTC")),
            "plain_at": pa.array([day - dt.timedelta(days=40_000 * (n % 2)) for n in ids], pa.timestamp("us")),
            "price": pa.array([Decimal(n % 2) / 4 for n in ids], pa.decimal128(10, 2)),
            "raw": pa.array([b"\x00\xff" if n % 2 else None for n in ids], pa.binary()),
            "small": pa.array([2**32 - 1 - n % 2 for n in ids], pa.uint32()),
            "flag": pa.array([n % 2 == 0 for n in ids]),
            "x": pa.array([float("nan") if n % 7 == 0 else -0.0 if n % 3 == 0 else n / 4 for n in ids]),
            "s": [{"a": n} for n in ids],
        }
    )


TYPED_BY = "region, month, day, at, plain_at, price, raw, small, flag"


def extremes() -> pa.Table:
    """Rows of the types that Spark and SQL compare alike, with the ends of their ranges."""
    first, last = dt.datetime(1700, 1, 1), dt.datetime(2199, 12, 31, 23, 59, 59, 999999)
    moments = [first, dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2025, 3, 9, 2, 30), last, None, None]
    seconds = [None if each is None else each.replace(microsecond=0) for each in moments]
    words = ["", "a", "A", "ä", "\U0001f600", None]
    return pa.table(
        {
            "tiny": pa.array([-128, -1, 0, 1, 127, None], pa.int8()),
            "long": pa.array([-(2**63), -1, 0, 1, 2**63 - 1, None], pa.int64()),
            "u8": pa.array([0, 1, 127, 128, 255, None], pa.uint8()),
            "u32": pa.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1, None], pa.uint32()),
            "u64": pa.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1, None], pa.uint64()),
            "word": pa.array(words, pa.string()),
            "wide": pa.array(words, pa.large_string()),
            "coded": pa.array(words).dictionary_encode(),
            "flag": pa.array([True, False, None, True, False, None]),
            "day": pa.array([None if each is None else each.date() for each in moments], pa.date32()),
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "at_home": pa.array(moments, pa.timestamp("us", "America/New_York")),
            "plain_at": pa.array(moments, pa.timestamp("us")),
            "at_s": pa.array(seconds, pa.timestamp("s")),
            "at_ms": pa.array(seconds, pa.timestamp("ms", "UTC")),
            "at_ns": pa.array(moments, pa.timestamp("ns")),
            "price": pa.array(
                [Decimal("-99999999.99"), Decimal(0), Decimal("0.01"), Decimal("99999999.99"), None, None]
            ),
            "raw": pa.array([b"", b"\x00", b"\x7f", b"\xff", b"a", None], pa.binary()),
            "items": pa.array([[1], [], None, [None], [2], None], pa.list_(pa.int64())),
        }
    )


def months() -> pa.Table:
    """Moments and days at both ends of four months."""
    days = [
        dt.date(year, month, day) for year, month in ((2024, 12), (2025, 1), (2025, 2), (2025, 3)) for day in (1, 28)
    ]
    moments = [dt.datetime.combine(day, dt.time(0 if day.day == 1 else 23, 30)) for day in days]
    return pa.table(
        {
            "id": range(len(days)),
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "local": pa.array(moments, pa.timestamp("us")),
            "day": pa.array(days, pa.date32()),
        }
    )


def every_day() -> pa.Table:
    """A row for each of ninety days."""
    day = dt.date(2025, 1, 1)
    return pa.table({"day": pa.array([day + dt.timedelta(n) for n in range(90)], pa.date32()), "id": range(90)})


DEFINED = (
    "id BIGINT NOT NULL COMMENT 'the key', ts TIMESTAMP, n TIMESTAMP_NTZ, s STRING DEFAULT 'it''s', d DECIMAL(10, 2), day DATE,"
    " f FLOAT, x DOUBLE, b BINARY, y TINYINT, l ARRAY<INT>, o STRUCT<a: INT, `B c`: STRING>"
)


def make_tables(database: Database) -> None:
    """Make the tables that the statements are over, beside `nulls` of `tables.SHAPES`."""
    database.ingest("typed", typed(0, 60), partition_by=TYPED_BY)
    database.ingest("typed", typed(60, 90), "append")
    database.run("DELETE FROM typed WHERE id IN (1, 2, 3)")
    # Nothing is left of some partitions, whose tables are still listed.
    database.run("DELETE FROM typed WHERE region = 'r4' AND id % 2 = 0")
    database.ingest("extremes", extremes())
    database.run("CREATE VIEW extremes_v AS SELECT * FROM extremes")
    for field in ("at", "local", "day"):
        database.ingest(f"months_{field}", months(), partition_by=f"year({field}), month({field})")
    database.ingest("days", every_day(), partition_by="year(day), month(day)")
    database.run(
        'CREATE TABLE inside (id BIGINT, o STRUCT<a INT, "in" STRUCT<t VARCHAR>>) PARTITIONED BY (bucket(2, id))'
    )
    database.run(
        "INSERT INTO inside VALUES (1, {a: 1, \"in\": {t: 'x1'}}), (2, {a: 2, \"in\": {t: 'y'}}), (3, {a: NULL, \"in\": {t: 'x3'}}), (4, NULL)"
    )
    database.run("CREATE TABLE altered (id BIGINT NOT NULL, s VARCHAR, o STRUCT<a INT>) PARTITIONED BY (bucket(4, id))")
    database.run("INSERT INTO altered VALUES (1, 'a', {a: 2})")
    database.run("CREATE TABLE changed (id BIGINT, k BIGINT, s VARCHAR, at TIMESTAMP, x DOUBLE) PARTITIONED BY (k)")


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return the rows that `make_tables` leaves in a table, from what it wrote."""
    if name == "typed":
        kept = (row for row in typed(0, 90).to_pylist() if row["id"] not in {1, 2, 3})
        return [row for row in kept if row["region"] != "r4" or row["id"] % 2]
    made = {"extremes": extremes, "days": every_day, "nulls": lambda: rows(0, 260)}
    found: list[dict[str, Any]] = made.get(name.removesuffix("_v"), months)().to_pylist()
    return found


class Offers:
    """Requests by statement."""

    def __init__(self, known: Mapping[str, Sequence[Request]]) -> None:
        self._known = known

    def of(self, statement: str, method: str) -> list[Mapping[str, Any]]:
        """Return the arguments of a statement's requests."""
        return [arguments for name, arguments in self._known[statement] if name == method]

    def where(self, table: str, condition: str) -> Nodes:
        """Return the predicates of a condition."""
        found: Nodes = self.of(f"SELECT * FROM {table} WHERE {condition}", "push_predicates")[0]["predicates"]
        return found

    @classmethod
    def recorded(cls) -> Offers:
        return cls(json.loads(FILE.read_text(encoding="utf-8")))


def record(session: SparkSession, place: Path, statements: Sequence[str]) -> Iterator[tuple[str, list[Request]]]:
    """Yield each statement with what a session's JVM offers for it; nothing is run."""
    log, python = place / "asked", place / "python"
    database = Database(place / "root")
    SHAPES["nulls"].make(database, "nulls")
    make_tables(database)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={TOP} exec {sys.executable} -m tests.spark.recording "{log}"\n')
    python.chmod(0o755)
    settings = {"": CATALOG_CLASS, ".root": str(place / "root"), ".python": str(python)}
    for name, value in settings.items():
        session.conf.set(f"spark.sql.catalog.recorded{name}", value)
    session.sql("USE recorded.public")
    for statement in statements:
        log.write_text("")
        with suppress(PySparkException):
            # A table that is made here is not there afterwards.
            planned = statement if statement.startswith(("SELECT", "CREATE", "ALTER")) else f"EXPLAIN {statement}"
            session.sql(planned)._jdf.queryExecution().optimizedPlan()
        lines = (
            log.read_text().replace(json.dumps({"owner": getpass.getuser()})[1:-1], '"owner": "somebody"').splitlines()
        )
        asked = [json.loads(line) for line in lines]
        yield statement, [each for number, each in enumerate(asked) if each not in asked[:number]]


def main() -> None:
    """Write the file anew."""
    from tests.spark.conftest import SETTINGS
    from tests.spark.statements import EVERY

    builder = SparkSession.builder.master("local[1]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    with TemporaryDirectory() as place:
        lines = [f"{json.dumps(key)}: {json.dumps(asked)}" for key, asked in record(session, Path(place), EVERY)]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    main()
