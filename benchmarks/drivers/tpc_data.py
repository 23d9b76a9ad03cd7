"""Tables, queries and answers of TPC-H and TPC-DS, by DuckDB's extensions: `tpc_data.py DIRECTORY SUITE SCALE`.

Runs in an environment of its own (`benchmarks.tpc`), whose DuckDB is the one that the extensions are built for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import MappingProxyType

import duckdb
from duckdb_extensions import import_extension  # type: ignore[import-not-found]

GENERATORS = MappingProxyType({"tpch": ("dbgen", "tpch_queries"), "tpcds": ("dsdgen", "tpcds_queries")})


def write(place: Path, suite: str, scale: float) -> None:
    """Write a Parquet file for each table, and `queries.json`: number → the query and its rows as texts."""
    generator, queries = GENERATORS[suite]
    import_extension(suite)
    connection = duckdb.connect()
    connection.execute(f"LOAD {suite}")
    connection.execute(f"CALL {generator}(sf={scale:g})")
    for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        connection.execute(f"COPY {table} TO '{place / table}.parquet' (FORMAT parquet)")
    known = connection.execute(f"SELECT query_nr, query FROM {queries}() ORDER BY query_nr").fetchall()
    answered = {
        number: (sql, [[str(value) for value in row] for row in connection.execute(sql).fetchall()])
        for number, sql in known
    }
    (place / "queries.json").write_text(json.dumps(answered))


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
