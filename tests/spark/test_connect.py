"""Spark Connect: what goes on in a client that has no JVM, against a server that is started for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.service.server_process import Server
from tests.spark.written_rows import check


def test_tables_are_read_written_and_joined(server: Server, table: str, tmp_path: Path) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, p BIGINT) PARTITIONED BY (p)")
    server.run(f"INSERT INTO {table} SELECT value, value % 3 FROM generate_series(0, 9)")
    # A stream starts several processes of Python's, each of which has to import all.
    checkpoint = [str(tmp_path / "checkpoint")] if os.environ.get("LANCE_FLIGHT_TESTS") == "full" else []
    command = [sys.executable, "-m", "tests.spark.connect_session", str(server.root), table, *checkpoint]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("class") == "pyspark.sql.connect.session"
    assert "no table 'nothing'" in found.pop("refused")
    left = [["frame", 1], ["inserted", 2], ["merged", 3], ["updated", 2], ["x", 1]]
    tagged = f'ALTER TABLE "public"."{table}_sql" CREATE TAG "audited"'
    assert found.pop("sql") == [left, tagged, 0]
    assert found == {"read": [1, 4, 7], "catalog": [1, 4, 7], "join": [4, 5, 6, 7, 8, 9]}
    check(server, f"{table}_written", [1, 1, 4, 4, 7, 7])
    if checkpoint:
        check(server, f"{table}_streamed", list(range(10)))
        check(server, f"{table}_named", list(range(10)))
