"""`python -m benchmarks.replicas_model`: what servers over one root share, simulated: commits of one table, and leases.

Reads share nothing but the store: as many servers answer as many times the queries. A commit of a table is made on its newest snapshot
and has to be the first on top of it; one that meets another waits and is made again, by the policy that the storage library has
(`catalog/storage/retries.py`). Arrivals are random; times are those of a commit with small staging, on a local disk and in an object
store (`--read`, `--write` for others).
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from lance_flight.catalog.storage.leases import INTERVAL
from lance_flight.catalog.storage.retries import COMMIT

from benchmarks import results

SERVERS = (1, 2, 10, 100)
CLIENTS = 10_000
SECONDS = 60.0
STORES = {"disk": (0.002, 0.006), "object store": (0.03, 0.05)}
"""Seconds that reading the newest snapshot takes, and those of writing one on top of it."""
RATES = (1, 5, 10, 20, 50, 100)


@dataclass(slots=True)
class Commits:
    """Simulated commits of one table: seconds of each that was made, attempts of all, and how many gave up."""

    read: float
    write: float
    chance: random.Random
    version: int = 0
    seconds: list[float] = field(default_factory=list)
    attempts: int = 0
    failed: int = 0

    def run(self, rate: float, seconds: float) -> None:
        """Have commits arrive at a rate for some time, and finish them."""
        events: list[tuple[float, int, float, int, int | None]] = []
        at = 0.0
        while (at := at + self.chance.expovariate(rate)) < seconds:
            # When, a number that makes events differ, when the commit began, its attempt, and the version that it is made on.
            heapq.heappush(events, (at, len(events), at, 0, None))
        number = len(events)
        while events:
            now, _, begun, attempt, base = heapq.heappop(events)
            number += 1
            if base is None:
                self.attempts += 1
                # The snapshot is the one that is newest when the answer comes.
                heapq.heappush(events, (now + self.read, number, begun, attempt, -1))
            elif base == -1:
                heapq.heappush(events, (now + self.write, number, begun, attempt, self.version))
            elif base == self.version:
                self.version += 1
                self.seconds.append(now - begun)
            elif attempt + 1 == COMMIT.attempts:
                self.failed += 1
            else:
                longest = min(COMMIT.longest_pause, COMMIT.first_pause * 2**attempt)
                again = now + self.chance.uniform(0, longest)
                heapq.heappush(events, (again, number, begun, attempt + 1, None))


def commit_lines(read: float, write: float, store: str) -> list[list[str]]:
    """Return a line for each rate of commits of one table."""
    lines = []
    for rate in RATES:
        commits = Commits(read, write, random.Random(rate))  # noqa: S311 - a simulation
        commits.run(rate, SECONDS)
        made = sorted(commits.seconds) or [float("nan")]
        lines.append(
            [
                store,
                f"{rate}",
                f"{len(commits.seconds) / SECONDS:.1f}",
                f"{commits.attempts / max(len(commits.seconds), 1):.1f}",
                f"{statistics.median(made) * 1000:.0f}",
                f"{made[int(len(made) * 0.99)] * 1000:,.0f}",
                f"{commits.failed}",
            ]
        )
    return lines


def lease_lines(tables: Sequence[int] = (1, 100)) -> list[list[str]]:
    """Return what leases cost for numbers of servers and of tables that all of them read."""
    return [
        [f"{servers}", f"{CLIENTS // servers:,}", f"{count}", f"{servers * count / INTERVAL:,.1f}", f"{servers}"]
        for servers in SERVERS
        for count in tables
    ]


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replicas_model", description=__doc__)
    parser.add_argument("--read", type=float, metavar="SECONDS", help="time to read the newest snapshot")
    parser.add_argument("--write", type=float, metavar="SECONDS", help="time to write one on top of it")
    given = parser.parse_args()
    stores = dict(STORES) if given.read is None else {"given": (given.read, given.write or given.read)}
    head = ["store", "commits/s asked", "made", "attempts each", "median ms", "99 % ms", "gave up"]
    lines = [line for store, (read, write) in stores.items() for line in commit_lines(read, write, store)]
    print(results.aligned(lines, head, left=(0,)))
    print()
    head = ["servers", f"clients each of {CLIENTS:,}", "tables read", "leases written/s", "lease files a vacuum reads"]
    print(results.aligned(lease_lines(), head, left=()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
