"""`python -m tests.faults.loop_device`: real power cuts, of a file system in a file.

A process writes to a root on a loop device. Again and again it is stopped, the file is copied without a flush, and the copy is mounted: what is
in it is what a disk holds after a power cut. Every row that was acknowledged by then is there, and every table is sound. It needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.storage.staging_area import settle_abandoned
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Conflict
from lance_flight.model.naming import PUBLIC, TableName

from tests.engine.database import Database

TABLES = {"parts": "PARTITIONED BY (p)", "plain": ""}
WRITERS = 4
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
OPTIONS = {"ext4": "loop", "xfs": "loop,nouuid"}
"""How it is mounted: a copy has the UUID of the file system that it is a copy of, which XFS refuses otherwise."""


def write(root: Path) -> None:
    """Write for ever, and print each row when it is acknowledged."""
    asked, one = Database(root), Lock()
    for table, layout in TABLES.items():
        asked.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR, n BIGINT) {layout}")

    def work(writer: int) -> None:
        chance = random.Random(writer)  # noqa: S311
        for number in range(sys.maxsize):
            table, row = chance.choice(sorted(TABLES)), number * WRITERS + writer
            try:
                asked.run(f"INSERT INTO {table} VALUES ({row}, '{row % 5}', 0)")
                if number % 7 == 0:
                    asked.run(f"UPDATE {table} SET n = n + 1 WHERE p = '{row % 5}'")
            except Conflict:
                continue
            with one:
                print(json.dumps([table, row]), flush=True)  # noqa: T201

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(work, range(WRITERS)))


@contextmanager
def mounted(image: Path, place: Path, options: str) -> Iterator[Path]:
    """A file system in a file, mounted for the block."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", options, image, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def check(root: Path, said: Path) -> str:
    """What is wrong after a cut, when these rows were acknowledged; nothing where nothing is."""
    acknowledged = {(table, row) for table, row in map(json.loads, said.read_text().splitlines())}
    asked = Database(root)
    settle_abandoned(asked.engine.root.store)
    for table in {table for table, _ in acknowledged}:
        rows = {row for (row,) in asked.rows(f"SELECT id FROM {table}")}
        lost = {row for name, row in acknowledged if name == table} - rows
        if lost:
            return f"{len(lost)} rows of {table} are lost"
        report = verify(asked.engine.root.table(TableName(PUBLIC, table)), evaluate)
        if not report.is_sound:
            return str(report.unsound[0])
        asked.run(f"INSERT INTO {table} SELECT -1, p, 0 FROM {table}")
    return ""


def main() -> int:
    """Cut the power many times; the status is 1 where something was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.loop_device", description=__doc__)
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--file-system", choices=sorted(MAKE), default="ext4")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--check", type=Path, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write is not None:
        write(arguments.write)
    if arguments.check is not None:
        print(check(*arguments.check))  # noqa: T201
        return 0
    wrong = rows = 0
    with tempfile.TemporaryDirectory(prefix="lance-flight-cuts-") as top:
        image, copy = Path(top, "disk"), Path(top, "copy")
        with image.open("wb") as file:
            file.truncate(1 << 30)
        subprocess.run([*MAKE[arguments.file_system], image], check=True)
        options = OPTIONS[arguments.file_system]
        with mounted(image, Path(top, "mounted"), options) as place:
            command = [sys.executable, "-m", "tests.faults.loop_device"]
            # Lines of rows go through a file, which is copied while the writer is stopped.
            said, known = Path(top, "said"), Path(top, "known")
            with (
                said.open("w") as output,
                subprocess.Popen([*command, "--write", place / "root"], stdout=output) as writer,
            ):
                while not said.stat().st_size:
                    time.sleep(0.1)
                for number in range(arguments.cuts):
                    time.sleep(random.uniform(0.05, 1.0))  # noqa: S311
                    os.kill(writer.pid, signal.SIGSTOP)
                    text = said.read_text()
                    known.write_text(text[: text.rfind("\n") + 1])
                    subprocess.run(["cp", "--sparse=always", image, copy], check=True)
                    os.kill(writer.pid, signal.SIGCONT)
                    with mounted(copy, Path(top, "after"), options) as after:
                        # In a process of its own: what holds a file of a copy keeps the file system of that copy.
                        checked = subprocess.run(
                            [*command, "--check", after / "root", known], capture_output=True, text=True, check=False
                        )
                    problem = (checked.stdout + checked.stderr[-1000:] * bool(checked.returncode)).strip()
                    if problem:
                        wrong += 1
                        print(f"cut {number}: {problem}", flush=True)  # noqa: T201
                rows = len(known.read_text().splitlines())
                writer.kill()
    print(f"{arguments.cuts} cuts, {rows} acknowledged rows at the last one, {wrong} cuts with something wrong")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
