"""DuckLake with its catalog in a DuckDB file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from benchmarks.drivers.driver import run
from benchmarks.drivers.duck import DuckDriver
from benchmarks.drivers.question import TABLE, Question

LAKE_TABLE = f"lake.{TABLE}"


class DuckLake(DuckDriver):
    extensions = ("ducklake",)

    def __init__(self, place: Path, environment: Path) -> None:
        super().__init__(place, environment)
        self.connection.execute(f"ATTACH 'ducklake:{place}/catalog.ducklake' AS lake (DATA_PATH '{place}/data')")

    def load(self, rows: Path) -> None:
        source = f"read_parquet('{rows}')"
        self.connection.execute(f"CREATE TABLE {LAKE_TABLE} AS FROM {source} LIMIT 0")
        self.connection.execute(f"ALTER TABLE {LAKE_TABLE} SET PARTITIONED BY (year(l_shipdate), month(l_shipdate))")
        self.connection.execute(f"INSERT INTO {LAKE_TABLE} FROM {source}")

    def append(self, rows: pa.Table) -> None:
        self.connection.register("added", rows)
        self.connection.execute(f"INSERT INTO {LAKE_TABLE} FROM added")

    def sql(self, question: Question) -> str:
        return question.sql().replace(f"FROM {TABLE}", f"FROM {LAKE_TABLE}")


if __name__ == "__main__":
    run(DuckLake)
