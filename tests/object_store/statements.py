"""Statements over a bucket, and what each of them asks the store for: `test_requests` holds the numbers, `benchmarks/requests.py` prints them."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import shared_session
from lance_flight.engine.engine import Engine

from tests.object_store.bucket import Bucket
from tests.object_store.s3_server import Sent

# What of a store a key belongs to, first match first.
PLACES = (
    ("leases", r"\.lance-flight/leases"),
    ("private", r"\.lance-flight"),
    ("__manifest/_versions", r"__manifest/_versions"),
    ("__manifest/_transactions", r"__manifest/_transactions"),
    ("__manifest/data", r"__manifest/data"),
    ("__manifest", r"__manifest"),
    ("table/_versions", r"_versions"),
    ("table/_transactions", r"_transactions"),
    ("table/_deletions", r"_deletions"),
    ("table/data", r"/data/"),
    ("directory", r""),
)


def place_of(key: str) -> str:
    """The kind of place that a key lies in."""
    return next(name for name, pattern in PLACES if re.search(pattern, key))


def counted(sent: Sequence[Sent]) -> Mapping[str, int]:
    """Requests by method and kind of place."""
    return Counter(f"{each.method} {place_of(each.key)}" for each in sent)


@dataclass(frozen=True)
class Statements:
    """A bucket with a table of some partitions and a plain one, and beside it a root with some tables; everything was read before."""

    bucket: Bucket
    engine: Engine
    many: Engine
    partitions: int

    @classmethod
    def made(cls, bucket: Bucket, partitions: int, tables: int) -> Statements:
        """Fill a bucket."""
        engine, many = bucket.database.engine, Engine(Root(bucket.place("many")), target_partitions=1)
        engine.update("CREATE TABLE t (id BIGINT, p BIGINT) PARTITIONED BY (p)")
        engine.update(f"INSERT INTO t VALUES {', '.join(f'({n}, {n})' for n in range(partitions))}")
        engine.update("CREATE TABLE u (id BIGINT)")
        for number in range(tables):
            many.update(f"CREATE TABLE t{number} (id BIGINT, p BIGINT) PARTITIONED BY (p)")
        return cls(bucket, engine, many, partitions)

    def append(self, count: int) -> None:
        """Add a row to each of some partitions."""
        self.engine.update(f"INSERT INTO t VALUES {', '.join(f'(1000, {n})' for n in range(count))}")

    def append_plain(self) -> None:
        """Add a row to a table without partitions."""
        self.engine.update("INSERT INTO u VALUES (1)")

    def select(self, query: str = "SELECT * FROM t WHERE p = 0") -> None:
        """Run a query: of one partition without."""
        planned = self.engine.plan(query)
        assert planned is not None
        assert self.engine.run(planned.tasks[0]).read_all().num_columns

    def append_and_select(self) -> None:
        """Add a row to a partition, and read it."""
        self.append(1)
        self.select()

    def update(self) -> None:
        """Change a row."""
        self.engine.update("UPDATE t SET id = id + 1 WHERE p = 0")

    def show_tables(self) -> None:
        """List many tables."""
        self.many.query("SHOW TABLES")

    def columns(self) -> None:
        """List many tables with their columns, as `GetObjects` does."""
        self.many.schemas()
        self.many.views()
        for name in self.many.tables():
            self.many.schema_of(name)

    def columns_of_a_new_process(self) -> None:
        """The same in a process that has read nothing yet."""
        shared_session.cache_clear()
        self.columns_of_a_new_server()

    def columns_of_a_new_server(self) -> None:
        """The same by an engine that has read nothing yet, in a process whose Lance has."""
        Statements(
            self.bucket, self.engine, Engine(Root(self.bucket.place("many")), target_partitions=1), self.partitions
        ).columns()

    def sent(self, run: Callable[[Statements], object], *, pause: float = 0) -> Mapping[str, int]:
        """The requests of a statement that was run `pause` seconds before; leases are renewed by the clock, and left out."""
        run(self)
        time.sleep(pause)
        with self.bucket.recorded() as sent:
            run(self)
        return counted([each for each in sent if place_of(each.key) != "leases"])
