"""Which tests are slow, and which cases of a slow test the default run takes.

Quick tests run all their cases; where they have three tables of values and more, as many as have every pair of values. A slow test
runs three: of one table at equal distances, of two tables those with the most values between them, of three and more those with the
most pairs. `@pytest.mark.sample(40)` takes so many in place of three, and `@pytest.mark.full` none. `LANCE_FLIGHT_TESTS=full` runs
every combination. Nothing depends on a name.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import TypeVar

SOME = 3
"""Cases of a slow test that the default run takes."""
ALL = 1_000_000
PAIR = 2
IS_FULL = os.environ.get("LANCE_FLIGHT_TESTS") == "full"
"""Whether every combination of every test runs, and properties look at many random examples."""

TESTS = Path(__file__).parent

# Directory → what its tests wait for.
SLOW_DIRECTORIES = {
    "console": "a browser",
    "conformance": "drivers in other languages, on a JVM or built by Go",
    "deployment": "server processes, Helm and other programs of operators",
    "faults": "servers that are killed and started again",
    "lancedb": "server processes",
    "object_store": "an S3 server in this process",
    "service": "server processes",
    "spark": "a JVM",
}

# Modules elsewhere whose tests take two seconds of a core and more together. The default run takes all of their cases.
LONG_MODULES = {
    ".": ["benchmarks"],
    "backup": ["round_trips"],
    "catalog": ["attachments", "branches", "written_versions"],
    "dataset": ["loaders", "shapes", "views"],
    "differential": ["against_duckdb", "features", "tpc"],
    "engine": [
        *("bad_sql", "broken_roots", "clauses", "clients", "computed_conditions", "damage"),
        *("decimal_numbers", "dialects", "float_signs", "hidden_columns", "ingest", "introspection"),
        *("keys_and_comments", "moments", "outdated_indices", "partition_changes"),
        *("partition_wise_explained", "partition_wise_lanes", "partition_wise_named", "plan_messages"),
        *("refusals", "rename"),
        *("rewriting", "rewriting_time", "running", "selected_memberships", "several_columns"),
        "temporary_tables",
    ],
    "hostile": ["schemas"],
    "model": ["hashing"],
    "search": ["cancelled_builds", "nested_vectors", "text_search"],
    "spark": ["connector_keys", "maintenance", "stream_planning", "write_planning"],
}

# Slow modules that start something once, and whose cases take hundredths of a second: the default run takes all of them.
CHEAP_MODULES = {
    "backup": ["damage"],
    "conformance": ["adbc", "rust", "superset"],
    "console": ["command", "request_checks"],
    "deployment": ["compose", "helm", "monitoring"],
    "lancedb": ["attacks"],
    "engine": ["bounded_functions", "column_policies", "hash_functions", "long_lists", "policies", "rights_to_rows"],
    "service": ["bad_wire", "command_line", "connecting", "endpoints", "sessions", "shell"],
    "spark": ["reads", "write_planning"],
}

# Modules of those directories that wait for nothing, and show that the layer works at all.
QUICK_MODULES = {
    "console/test_partition_grid.py",
    *(
        f"spark/test_{name}.py"
        for name in (
            *(
                "connector_portions",
                "connector_stream_requests",
                "groups",
                "job",
                "maintain_program",
                "options",
                "types",
            ),
        )
    ),
}

# Modules that share a Spark session. One worker runs all of them, so that one JVM is started and warmed up.
SPARK_SESSION = {
    f"tests/spark/test_{name}.py"
    for name in (
        *(
            "connector_definitions",
            "connector_foreign_statements",
            "connector_identity",
            "connector_jars",
            "connector_offers",
            "connector_planning",
        ),
        *("connector_pushdown", "connector_reads", "connector_sql_options", "connector_streams", "connector_writes"),
        *("executors", "ingesting", "partition_wise", "spark", "sql_page", "stream_write", "write", "write_faults"),
    )
}


@cache
def is_slow_place(module: Path) -> bool:
    """Tell whether a test module is slow by where it lies."""
    path = PurePosixPath(module.relative_to(TESTS).as_posix())
    return path.parts[0] in SLOW_DIRECTORIES and str(path) not in QUICK_MODULES


@cache
def is_long(module: Path) -> bool:
    """Tell whether the quick run leaves out a module whose cases are all taken otherwise."""
    return _is_listed(module, LONG_MODULES)


@cache
def some_of(module: Path) -> int:
    """Return how many cases of each slow test of a module the default run takes."""
    return ALL if _is_listed(module, CHEAP_MODULES) else SOME


def _is_listed(module: Path, listed: Mapping[str, Sequence[str]]) -> bool:
    path = PurePosixPath(module.relative_to(TESTS).as_posix())
    return path.stem.removeprefix("test_") in listed.get(str(path.parent), ())


T = TypeVar("T")


def spread(cases: Sequence[T], count: int) -> Sequence[T]:
    """Take so many cases, at equal distances; all of them where there are no more.

    >>> spread("abcdefghij", 4)
    ['a', 'c', 'f', 'h']
    """
    return cases if len(cases) <= count else [cases[place * len(cases) // count] for place in range(count)]


Case = Sequence[Hashable]
"""The value that a case takes of each table."""


def covering(cases: Sequence[Case], count: int = SOME) -> Sequence[int]:
    """Choose cases, by their places: until `count` of them are, or all values of two tables, or all pairs of values of three and more.

    Greedy: the next case has the most that no case before it has; of equal ones it has the values that were taken least,
    so that the values of a short table take turns beside those of a long one.

    >>> covering([(word, layout) for word in "abc" for layout in "xy"])
    [0, 3, 4]
    >>> len(covering([(a, b, c) for a in range(4) for b in range(3) for c in range(3)], 20))
    12
    >>> covering([(word,) for word in "abcdefghij"], 4)
    [0, 2, 5, 7]
    >>> len(covering([(a, b, c) for a in "abcd" for b in "wxyz" for c in "pq"], ALL))
    16
    """
    if len(cases[0]) < PAIR or (count >= ALL and len(cases[0]) == PAIR):
        return spread(range(len(cases)), count)
    strength = 1 if len(cases[0]) == PAIR else PAIR
    parts = [set(combinations(enumerate(case), strength)) for case in cases]
    left, taken = set().union(*parts), Counter[tuple[int, Hashable]]()

    def worth(place: int) -> tuple[int, int, int]:
        return len(parts[place] & left), -sum(taken[value] for value in enumerate(cases[place])), -place

    chosen = list[int]()
    while left and len(chosen) < count:
        best = max(range(len(cases)), key=worth)
        chosen.append(best)
        left -= parts[best]
        taken.update(enumerate(cases[best]))
    return sorted(chosen)
