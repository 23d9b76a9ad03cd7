"""`python -m benchmarks.requests`: requests to an object store for each statement, by kind, against a counting server in this process.

The store is the tests' own S3 server; its answers take a tenth of a millisecond. A request takes 30 ms of a real store, so the numbers
say more than times. Every statement has been run once before it is counted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.results import aligned
from tests.object_store.bucket import Bucket
from tests.object_store.s3_server import s3_server
from tests.object_store.statements import Statements

PARTITIONS = TABLES = 60
LATER = {"SELECT of one partition": 1.5}
"""Seconds after which a statement runs again, where what was remembered for a second is to be asked again."""
HEADINGS = ("statement", "requests", "LIST", "aim", "of which")


def cases(partitions: int) -> Mapping[str, tuple[Callable[[Statements], object], str]]:
    """The statements, each with its aim."""
    counts = sorted({min(count, partitions) for count in (1, 10, 60)})
    return {
        "SELECT of one partition": (Statements.select, "≤ 3, LIST ≤ 1"),
        "the same within a second": (Statements.select, "≤ 1"),
        **{
            f"append to {count} partitions": (partial(Statements.append, count=count), f"≤ {8 + 3 * count}, LIST ≤ 2")
            for count in counts
        },
        "UPDATE of one row": (Statements.update, "≤ 15"),
        "SHOW TABLES": (Statements.show_tables, "≤ 5"),
        "GetObjects with columns": (Statements.columns, "≤ 5"),
        "the same, a new engine": (Statements.columns_of_a_new_server, "≤ 65"),
        "the same, a new process": (Statements.columns_of_a_new_process, "≤ 65"),
    }


def main() -> int:
    """Count, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.requests", description=__doc__)
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="partitions (%(default)s)")
    parser.add_argument("--tables", type=int, default=TABLES, help="tables of the root that is listed (%(default)s)")
    arguments = parser.parse_args()
    with s3_server() as server:
        statements = Statements.made(Bucket.made(server), arguments.partitions, arguments.tables)
        lines = []
        for name, (run, aim) in cases(arguments.partitions).items():
            sent = statements.sent(run, pause=LATER.get(name, 0))
            lists = sum(number for kind, number in sent.items() if kind.startswith("LIST"))
            kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(sent.items(), key=lambda each: -each[1]))
            lines.append((name, str(sum(sent.values())), str(lists), aim, kinds))
    print(aligned(lines, HEADINGS, left=(0, 3, 4)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
