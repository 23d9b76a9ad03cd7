"""DuckDB over Parquet files in directories `y=…/m=…`, whose names its users put into their conditions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from benchmarks.drivers.driver import run
from benchmarks.drivers.duck import DuckDriver
from benchmarks.drivers.question import TABLE, Question

PARTITIONED = "SELECT *, year(l_shipdate) AS y, month(l_shipdate) AS m FROM"


class DuckDBHive(DuckDriver):
    def load(self, rows: Path) -> None:
        self._copy(f"read_parquet('{rows}')", "OVERWRITE_OR_IGNORE")
        files = f"read_parquet('{self.place}/**/*.parquet', hive_partitioning = true)"
        self.connection.execute(f"CREATE VIEW {TABLE} AS FROM {files}")

    def append(self, rows: pa.Table) -> None:
        self.connection.register("added", rows)
        self._copy("added", "APPEND")

    def sql(self, question: Question) -> str:
        return question.sql(by_months=True)

    def _copy(self, source: str, mode: str) -> None:
        self.connection.execute(
            f"COPY ({PARTITIONED} {source}) TO '{self.place}' (FORMAT parquet, PARTITION_BY (y, m), {mode})"
        )


if __name__ == "__main__":
    run(DuckDBHive)
