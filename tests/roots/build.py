"""Builds the roots of tests/data/roots by a server of some release, with what that release itself reads of them.

    uv run python -m tests.roots.build 0.1.0
    git worktree add /tmp/old COMMIT && uv run python -m tests.roots.build 0.1.0.dev1 --source /tmp/old

Once for each release, from its own sources, and never again: what a later release builds is no root of the earlier one. The server
runs with the libraries that are installed. What it does not know yet is left out, by the features of `FEATURES`.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.roots.released import DATA, FEATURES, PARTITION_BY, WITH_A_ZONE, Feature, as_json

TOP = Path(__file__).parent.parent.parent
PATIENCE = 120.0
COMMAND = (sys.executable, "-c", "from lance_flight_client.cli import main; raise SystemExit(main())")
"""What every release has: the entry point has moved."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("release", help="version of the release, by which the files are called")
    parser.add_argument("--source", type=Path, default=TOP, help="checkout of its sources (default: this one)")
    options = parser.parse_args()
    build(options.release, options.source.resolve())


def build(release: str, source: Path) -> None:
    """Make the archive and the answers of one release."""
    environment = {**os.environ, "PYTHONPATH": f"{source / 'server'}:{source / 'client'}"}
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve() / "root"
        root.mkdir()
        with serving(root, environment) as connection:
            known = [feature for feature in FEATURES if _make(connection, feature)]
            answers = {sql: rows_of(connection, sql) for feature in known for sql in feature.queries}
            answers |= {sql: rows_of(connection, sql) for sql in _versions(connection, known)}
        has_backup = _back_up(root, Path(directory) / "backup", environment)
        for passing in (root / ".lance-flight" / "ticket.key", *root.rglob("leases/*.json")):
            passing.unlink(missing_ok=True)
        shutil.rmtree(root / ".lance-flight" / "reserve", ignore_errors=True)
        described = {
            "release": release,
            "commit": subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=source, text=True).strip(),
            "built_at": str(root),
            "features": [feature.name for feature in known] + ["backup"] * has_backup,
            "answers": answers,
        }
        DATA.mkdir(parents=True, exist_ok=True)
        pack(Path(directory), DATA / f"{release}.tar.gz")
        (DATA / f"{release}.json").write_text(json.dumps(described, indent=1, ensure_ascii=False) + "\n")
    print(f"{release}: {', '.join(described['features'])}; {(DATA / f'{release}.tar.gz').stat().st_size:,} bytes")  # noqa: T201


@contextmanager
def serving(root: Path, environment: Mapping[str, str]) -> Iterator[dbapi.Connection]:
    """A connection to a server of the release over a root."""
    ready = root.parent / "ready"
    command = [*COMMAND, "serve", str(root), "--port", "0", "--ready-file", str(ready)]
    with subprocess.Popen(command, env=environment, cwd=root.parent) as process:
        try:
            until = time.monotonic() + PATIENCE
            while not (ready.exists() and ready.read_text()):
                if process.poll() is not None or time.monotonic() > until:
                    sys.exit("the server did not become ready")
                time.sleep(0.05)
            with dbapi.connect(ready.read_text().strip(), autocommit=True) as connection:
                yield connection
        finally:
            process.terminate()
            process.wait(PATIENCE)
            ready.unlink(missing_ok=True)


def rows_of(connection: dbapi.Connection, sql: str) -> list[Any]:
    """The rows of a query as they are kept."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return as_json(cursor.fetch_arrow_table())


def pack(directory: Path, target: Path) -> None:
    """Pack the root, and its backup, with times and owners that say nothing of the machine."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path in sorted(directory.rglob("*")):
            if path.relative_to(directory).parts[0] in {"root", "backup"}:
                about = archive.gettarinfo(path, str(path.relative_to(directory)))
                about.uid = about.gid = 0
                about.uname = about.gname = ""
                with path.open("rb") if path.is_file() else io.BytesIO() as file:
                    archive.addfile(about, file if path.is_file() else None)
    with target.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(content.getvalue())


def _make(connection: dbapi.Connection, feature: Feature) -> bool:
    """Run the statements of a feature; return False where the release does not know the first of them."""
    with connection.cursor() as cursor:
        for number, statement in enumerate(feature.statements):
            try:
                if statement == WITH_A_ZONE:
                    cursor.adbc_statement.set_options(**{PARTITION_BY: "month(at)"})
                    cursor.adbc_ingest("zoned", _zoned(), mode="create")
                else:
                    cursor.execute(statement)
            except Error as exc:
                if number:
                    raise
                print(f"without {feature.name}: {exc}"[:300])  # noqa: T201
                return False
    return True


def _zoned() -> pa.Table:
    """Rows around the ends of months in New York, which are later ones in UTC."""
    moments = [f"2024-{month:02}-01 0{hour}:30" for month in (3, 7) for hour in (2, 3, 4, 6)]
    at = pa.array([datetime.fromisoformat(f"{each}+00:00") for each in moments], pa.timestamp("us", "America/New_York"))
    return pa.table({"id": pa.array(range(len(at)), pa.int64()), "at": at})


def _versions(connection: dbapi.Connection, known: list[Feature]) -> Iterator[str]:
    """Queries for every version of the tables that the features made."""
    for table in sorted({table for feature in known for table in feature.tables}):
        try:
            versions = rows_of(connection, f'SELECT * FROM "{table}$snapshots"')
        except Error:
            continue  # plain tables had none at first
        for version, *_ in versions:
            sql = f'SELECT * FROM "{table}@{version}"'
            try:
                rows_of(connection, sql)
            except Error:
                continue  # before it was a table
            yield sql


def _back_up(root: Path, target: Path, environment: Mapping[str, str]) -> bool:
    command = [*COMMAND, "backup", str(root), str(target)]
    return subprocess.run(command, env=environment, check=False, capture_output=True).returncode == 0


if __name__ == "__main__":
    main()
