"""Soak: a server under mixed load for a long time, with clients that are killed: `python -m tests.faults.soak --minutes 60`.

Clients in processes of their own read, write, change tables and use transactions; some are killed. The server maintains its tables, and is vacuumed.
Each client's rows are compared with what was acknowledged to it, by itself, over the wire and with stock Lance. Memory, files, file handles and
threads of the server are measured all the time, and must not grow in the second half of it; files are those of the changes of the last
minutes, which a vacuum leaves for readers and for transactions that may be open, so that they are compared by these. At the end all that is superseded must be gone. Prints a table, and exits with 1 for a finding.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.faults.soak_client import Rows
from tests.service.server_process import COMMAND, Server, serving
from tests.stock import stored_rows

CLIENTS = 4
CHANGES = 60
"""Changes of a client that is left alone, which then goes, and another one comes."""
KILLED = 0.4
"""Share of clients that are killed on their way."""
SAMPLE_SECONDS, LINE_SECONDS, VACUUM_SECONDS = 2.0, 60.0, 20.0
LEASED_SECONDS = 60.0 + VACUUM_SECONDS
"""How old a superseded snapshot may be: a forced vacuum leaves what was the newest one within the last minute."""
TRANSACTION_HOURS = 0.1
"""How old a version may be that no snapshot has pinned: each change makes some on its way, and so does each that fails."""
RETAINED_SECONDS = 3600 * TRANSACTION_HOURS + VACUUM_SECONDS
WARM_UP_SECONDS = 2 * RETAINED_SECONDS
"""Seconds after which a server holds as much as it will."""
SETTLED = 5
"""Looks in a row at which nothing of a client is under way."""
AGAIN = frozenset({"conflict", "serialization_failure", "limit_exceeded", "unavailable", "outcome_unknown"})
"""Codes that tell a client to try again."""
OPTIONS = (
    "--maintenance",
    "on",
    "--maintenance-share",
    "0.2",
    "--session-idle-timeout",
    "20",
    "--ticket-lifetime",
    "20",
    # Full within the first half: caches that are still being filled look like a leak.
    "--index-cache",
    "64MiB",
    "--metadata-cache",
    "64MiB",
)
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a server holds at one moment."""

    at: float
    memory: int
    files: int
    handles: int
    threads: int
    changes: int = 0


@dataclass
class Soak:
    """One run: what was counted, and what was found to be wrong."""

    server: Server
    random: random.Random
    until: float
    counts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    clients: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_over(self) -> bool:
        """True once the time is up, or too much is wrong."""
        return time.monotonic() > self.until or len(self.findings) > 20

    def keep_clients(self) -> None:
        """Start a client after the other, and check what each has left."""
        while not self.is_over:
            with self.lock:
                self.clients += 1
                number, seed = self.clients, self.random.randrange(1 << 30)
                lifetime = self.random.uniform(0.5, 8) if self.random.random() < KILLED else CHANGES
                lifetime = max(1.0, min(lifetime, self.until - time.monotonic()))
            self._run_client(number, seed, lifetime)

    def _run_client(self, number: int, seed: int, lifetime: float) -> None:
        command = [
            sys.executable,
            "-m",
            "tests.faults.soak_client",
            self.server.uri,
            str(number),
            str(seed),
            str(CHANGES),
        ]
        rows: Rows = {}
        pending: Rows | None = None
        ended = False
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
            killing = threading.Timer(lifetime, client.kill)
            killing.start()
            for line in client.stdout or ():
                with suppress(ValueError):  # the last line of one that was killed
                    rows, pending, ended = self._hear(number, json.loads(line), rows, pending)
            said = client.stderr.read() if client.stderr is not None else ""
            code = client.wait()
            killing.cancel()
        with self.lock:
            self.counts["clients killed" if code < 0 else "clients"] += 1
        if code > 0 or (code == 0 and not ended):
            self._find(f"client {number} ended with {code}: {said[-600:]}")
        self._settle(number, rows, pending)

    def _hear(
        self, number: int, told: Mapping[str, object], rows: Rows, pending: Rows | None
    ) -> tuple[Rows, Rows | None, bool]:
        """Take a line of a client; its rows as they are acknowledged, those of a change that is under way, whether it is done."""
        with self.lock:
            match told:
                case {"what": "begins", "rows": list(then)}:
                    return rows, dict(then), False
                case {"what": "acknowledged"}:
                    self.counts["changes"] += 1
                    return (rows if pending is None else pending), None, False
                case {"what": "refused", "code": str(code), "text": text}:
                    self.refused[code] += 1
                    if code not in AGAIN:
                        self.findings.append(f"client {number} was refused: {text}")
                    return rows, (pending if code == "outcome_unknown" else None), False
                case {"what": "read", "is_right": is_right}:
                    self.counts["reads"] += 1
                    if not is_right:
                        self.findings.append(f"client {number} read {told['found']} for {told['expected']}")
                case {"what": "done"}:
                    return rows, pending, True
        return rows, pending, False

    def _settle(self, number: int, rows: Rows, pending: Rows | None) -> None:
        """Compare what a client has left with what was acknowledged to it, and remove it."""

        def found() -> Rows:
            with dbapi.connect(self.server.uri, autocommit=True) as connection, connection.cursor() as cursor:
                cursor.execute(f"SELECT id, n FROM t WHERE client = {number}")
                read: list[tuple[int, int]] = cursor.fetchall()
                if len(dict(read)) != len(read):
                    self._find(f"client {number} has rows twice: {read}")
                return dict(read)

        expected = [rows] if pending is None else [rows, pending]
        # A change of a client that was killed may be under way still, to the server or in it.
        settled = 0
        for _ in range(600):
            left = found()
            settled = settled + 1 if left in expected and not self._is_at_work(number) else 0
            if settled == SETTLED:
                break
            threading.Event().wait(0.05)
        if left not in expected:
            self._find(f"client {number} has left {left}; expected one of {expected}")
        with self.lock:
            self.counts["unanswered changes that took place"] += pending is not None and left == pending != rows
        for statement in (f"DELETE FROM t WHERE client = {number}", f"DROP TABLE IF EXISTS scratch_{number}"):
            self.run(statement)

    def _is_at_work(self, number: int) -> bool:
        """Whether a statement of a client is still running."""
        with dbapi.connect(self.server.uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT sql FROM system.queries WHERE sql NOT LIKE '%system.queries%'")
            return any(
                f"client = {number}" in str(text) or f"({number}, " in str(text) for (text,) in cursor.fetchall()
            )

    def keep_vacuuming(self) -> None:
        """Compact and vacuum by force, as an impatient operator does."""
        while not self.is_over:
            self.run("ALTER TABLE t COMPACT", is_query=True)
            said = vacuum(self.server, TRANSACTION_HOURS)
            if said and not any(f"[{code}]" in said or code in said for code in AGAIN):
                self._find(f"vacuum: {said}")
            self.counts["vacuums"] += 1
            self._wait(VACUUM_SECONDS)

    def keep_measuring(self, say: Callable[[str], None]) -> None:
        """Take samples, and print a line now and then."""
        began, said = time.monotonic(), 0.0
        while not self.is_over:
            self.samples.append(sample(self.server, time.monotonic() - began, self.counts["changes"]))
            if time.monotonic() - began >= said:
                said += LINE_SECONDS
                say(self.line(self.samples[-1]))
            self._wait(SAMPLE_SECONDS)

    def line(self, last: Sample) -> str:
        """One line of the table."""
        return (
            f"| {last.at / 60:.1f} | {self.counts['changes']:,} | {self.counts['reads']:,} | {self.refused.total():,}"
            f" | {self.counts['clients killed']} | {last.memory / MIB:.0f} | {last.files:,} | {last.handles} | {last.threads} |"
        )

    def run(self, statement: str, *, is_query: bool = False) -> None:
        """Run a statement of the operator's, again where it meets another writer."""
        said = ""
        for _ in range(50):
            try:
                with dbapi.connect(self.server.uri, autocommit=True) as connection, connection.cursor() as cursor:
                    cursor.execute(statement)
                    if is_query:
                        cursor.fetchall()
            except Error as error:
                said = str(error)
                if not any(f"[{code}]" in said for code in AGAIN):
                    break
            else:
                return
        self._find(f"{statement}: {said}")

    def _find(self, text: str) -> None:
        with self.lock:
            self.findings.append(text)

    def _wait(self, seconds: float) -> None:
        threading.Event().wait(max(0.0, min(seconds, self.until - time.monotonic())))


def sample(server: Server, at: float, changes: int) -> Sample:
    """Measure a server and its root."""
    process = Path(f"/proc/{server.process.pid}")
    return Sample(
        at=at,
        memory=int((process / "statm").read_text().split()[1]) * 4096,
        files=sum(len(names) for _, _, names in os.walk(server.root)),
        handles=sum(1 for _ in (process / "fd").iterdir()),
        threads=sum(1 for _ in (process / "task").iterdir()),
        changes=changes,
    )


@dataclass(frozen=True, slots=True)
class Flat:
    """By how much the median of one number may be larger in the last quarter than in the one before; files for as many recent changes."""

    factor: float
    beside: int
    by_changes: bool = False


FLAT = {
    "memory": Flat(1.1, 64 * MIB),
    "files": Flat(1.1, 100, by_changes=True),
    "handles": Flat(1.25, 40),
    "threads": Flat(1.25, 30),
}


def growth(samples: Sequence[Sample]) -> list[str]:
    """What is not flat: the medians of the third quarter and the last one, apart; nothing of a run whose first half is no longer than its warm-up."""
    half = samples[len(samples) // 2 :]
    quarter = len(half) // 2
    if quarter < 3 or half[0].at < WARM_UP_SECONDS:
        return []
    early, late = half[:quarter], half[-quarter:]
    changes = [median(recent_changes(samples, each) for each in part) for part in (early, late)]
    found = []
    for name, flat in FLAT.items():
        before, after = (median(getattr(each, name) for each in part) for part in (early, late))
        more = max(1.0, changes[1] / max(changes[0], 1)) if flat.by_changes else 1.0
        if after > before * more * flat.factor + flat.beside:
            found.append(
                f"{name} grew from {before:,.0f} to {after:,.0f}, at {changes[0]:.0f} and {changes[1]:.0f} changes"
            )
    return found


def recent_changes(samples: Sequence[Sample], last: Sample) -> int:
    """How many changes were acknowledged in the time whose files a vacuum leaves."""
    since = next(each for each in samples if each.at >= last.at - RETAINED_SECONDS)
    return last.changes - since.changes


def vacuum(server: Server, transaction_hours: float) -> str:
    """Remove what is superseded, by the command, as SQL keeps a day of what no snapshot has pinned; return what is wrong."""
    rules = ("--retain", "0", "--force", "--transactions", str(transaction_hours))
    done = subprocess.run(
        [COMMAND, "vacuum", str(server.root), "t", *rules], capture_output=True, text=True, check=False
    )
    return done.stderr[-600:] if done.returncode else ""


def superseded(server: Server, say: Callable[[str], None]) -> list[str]:
    """What is left once nothing is read or written any more, and all that may be removed was: so many files of each kind."""
    threading.Event().wait(LEASED_SECONDS)
    said = vacuum(server, 0)
    if said:
        return [f"the last vacuum: {said}"]
    tables = server.value("SELECT count(*) FROM t$partitions")
    kinds = Counter(
        f"{'t' if path.is_relative_to(server.root / 't') else path.relative_to(server.root).parts[0]} … {path.parent.name}"
        for path in server.root.rglob("*")
        if path.is_file()
    )
    told = f"{kinds.total()} files for {tables} partitions: {dict(kinds.most_common(12))}"
    say(f"left at the end: {told}")
    return [f"superseded files are left: {told}"] if kinds.total() > LEFT + LEFT_OF_TABLE * tables else []


LEFT, LEFT_OF_TABLE = 60, 12
"""Files of a root with one table, and of each partition: what one snapshot consists of."""

HEADER = """\
| minute | changes | reads | refused | killed | MiB | files | handles | threads |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def soak(root: Path, minutes: float, seed: int, say: Callable[[str], None]) -> Soak:
    """Run for so long; what was counted and found."""
    with serving(root, *OPTIONS, is_forked=False, log=root.with_name("soak.log")) as server:
        server.run("CREATE TABLE t (client BIGINT, id BIGINT, p VARCHAR, n BIGINT) PARTITIONED BY (p)")
        run = Soak(server, random.Random(seed), time.monotonic() + 60 * minutes)  # noqa: S311 - a workload, no secret
        say(HEADER)
        work = [*[run.keep_clients] * CLIENTS, run.keep_vacuuming, lambda: run.keep_measuring(say)]
        with ThreadPoolExecutor(len(work)) as pool:
            working = [pool.submit(each) for each in work]
            wait(working, return_when=FIRST_EXCEPTION)
            if not all(each.done() for each in working):
                run.until = 0.0  # one of them has failed
        for each in working:
            each.result()
        run.samples.append(sample(server, 60 * minutes, run.counts["changes"]))
        say(run.line(run.samples[-1]))
        left = server.value("SELECT count(*) FROM t")
        if left:
            run.findings.append(f"{left} rows are left of clients whose rows were deleted")
        if left != (stored_rows(root / "t").num_rows if server.value("SELECT count(*) FROM t$partitions") else 0):
            run.findings.append("stock Lance reads other rows")
        tables = [name for _, name, *_ in server.rows("SHOW TABLES") if name != "t"]
        if tables:
            run.findings.append(f"tables are left: {tables}")
        if 60 * minutes > 2 * WARM_UP_SECONDS:
            run.findings += superseded(server, say)
            say(run.line(sample(server, 60 * minutes + LEASED_SECONDS, run.counts["changes"])))
    run.findings += growth(run.samples)
    run.findings += unexpected(root.with_name("soak.log"))
    say(
        f"\n{minutes:g} minutes, seed {seed}: {dict(run.counts)}; refused {dict(run.refused)}; findings: {len(run.findings)}"
    )
    return run


def unexpected(log: Path) -> list[str]:
    """Kinds of unexpected errors in the log of a server, each with how often it is there, and the last one's text."""
    kinds: defaultdict[str, int] = defaultdict(int)
    texts: dict[str, str] = {}
    kind = ""
    for line in log.read_text().splitlines():
        if " unexpected " in line or "panicked" in line:
            kind = line.partition("ERROR")[2].partition(", reference")[0] or line
            kinds[kind] += 1
        elif kind and re.match(r"[A-Za-z_.]+: ", line):
            texts[kind] = line
    return [f"the log has {number} times: {line.strip()} {texts.get(line, '')}" for line, number in kinds.items()]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__.partition(":")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (default: %(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="of the workload (default: %(default)d)")
    arguments = parser.parse_args()

    def say(line: str) -> None:
        print(line, flush=True)  # noqa: T201 - the table

    with TemporaryDirectory(prefix="soak-") as place:
        run = soak(Path(place, "root"), arguments.minutes, arguments.seed, say)
    for finding in run.findings:
        say(f"finding: {finding}")
    return 1 if run.findings else 0


if __name__ == "__main__":
    sys.exit(main())
