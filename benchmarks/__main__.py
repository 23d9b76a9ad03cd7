"""`python -m benchmarks`: measure, and print one table."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
import traceback
from importlib.metadata import version
from pathlib import Path

from benchmarks import results
from benchmarks.areas import AREAS
from benchmarks.bench import Bench, Options
from benchmarks.servers import CORES

ROWS, ROUNDS, SCALE = 10_000_000, 5, 1.0
PACKAGES = ("pylance", "datafusion", "pyarrow")


def main() -> int:
    """0 whether or not every aim is met; 1 where an area could not be measured, as when an answer is wrong."""
    arguments = _parser().parse_args()
    options = Options(rows=arguments.rows, rounds=arguments.rounds, scale=arguments.scale)
    with tempfile.TemporaryDirectory(prefix="lance-flight-bench-") as place:
        lines, failed = _measure(Bench(Path(place), options), arguments.only or list(AREAS))
    print(_headline(options))
    print()
    print((results.markdown if arguments.markdown else results.aligned)(lines))
    if failed:
        print(f"\nnot measured: {', '.join(failed)} (the reason stands above, on standard error)", file=sys.stderr)
    return 1 if failed else 0


def _measure(bench: Bench, areas: list[str]) -> tuple[list[tuple[str, ...]], list[str]]:
    """The lines of the areas that could be measured, and the names of the others."""
    lines: list[tuple[str, ...]] = []
    failed = []
    for area in areas:
        started = time.perf_counter()
        try:
            lines += [result.cells(area) for result in AREAS[area](bench)]
        except Exception:  # noqa: BLE001 - whatever it is, the other areas are still worth measuring
            traceback.print_exc()
            failed.append(area)
        print(f"{area}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
    return lines, failed


def _headline(options: Options) -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{options.rows:,} rows × 6 columns, TPC-H at scale {options.scale:g}, medians of {options.rounds} interleaved rounds;"
        f" {CORES} cores shared by client and server, Python {platform.python_version()}, {packages}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the service against limits taken in the same run. A missed aim is printed, not an error.",
        epilog="What an area measures, against what and why: the docstring of its module in benchmarks/. "
        "The service beside other stores of the same rows: python -m benchmarks.peers.",
    )
    parser.add_argument("--rows", type=_positive, default=ROWS, metavar="N", help="rows (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=_positive, default=ROUNDS, metavar="N", help="rounds after the warm-up (default: %(default)s)"
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=SCALE,
        metavar="X",
        help="scale factor of TPC-H, for joins (default: %(default)s)",
    )
    parser.add_argument("--only", nargs="+", choices=AREAS, metavar="AREA", help=f"areas: {', '.join(AREAS)}")
    parser.add_argument("--markdown", action="store_true", help="print the table as markdown")
    return parser


def _positive(text: str) -> int:
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
