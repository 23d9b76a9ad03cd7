"""Which tests are slow, and which cases of a slow test the default run takes.

Quick tests run all their cases. A slow test with two tables of values runs each value once, one with three or more tables
each pair of values once. `LANCE_FLIGHT_TESTS=full` runs every combination. Nothing depends on a name.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations
from pathlib import Path, PurePosixPath

IS_FULL = os.environ.get("LANCE_FLIGHT_TESTS") == "full"
"""Whether every combination of every test runs, and properties look at many random examples."""

TESTS = Path(__file__).parent

# Directory → what its tests wait for.
SLOW_DIRECTORIES = {
    "console": "a browser",
    "conformance": "drivers in other languages, on a JVM or built by Go",
    "deployment": "server processes, Helm and other programs of operators",
    "faults": "servers that are killed and started again",
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
        *("connector_definitions", "connector_identity", "connector_jars", "connector_offers", "connector_planning"),
        *("connector_pushdown", "connector_reads", "connector_sql_options", "connector_streams", "connector_writes"),
        *("executors", "ingesting", "partition_wise", "spark", "sql_page", "stream_write", "write", "write_faults"),
    )
}


def is_slow_place(module: Path) -> bool:
    """Tell whether a test module is slow by where it lies."""
    path = PurePosixPath(module.relative_to(TESTS).as_posix())
    return path.parts[0] in SLOW_DIRECTORIES and str(path) not in QUICK_MODULES


def is_long(module: Path) -> bool:
    """Tell whether the quick run leaves out a module whose cases are all taken otherwise."""
    path = PurePosixPath(module.relative_to(TESTS).as_posix())
    return path.stem.removeprefix("test_") in LONG_MODULES.get(str(path.parent), ())


Case = Sequence[Hashable]
"""The value that a case takes of each table."""


def covering(cases: Sequence[Case]) -> list[int]:
    """Choose cases, by their places, that have each value of two tables, or each pair of values of three and more.

    Greedy: the next case has the most that no case before it has; of equal ones it has the values that were taken least,
    so that the values of a short table take turns beside those of a long one.

    >>> covering([(word, layout) for word in "abc" for layout in "xy"])
    [0, 3, 4]
    >>> len(covering([(a, b, c) for a in range(4) for b in range(3) for c in range(3)]))
    12
    """
    if len(cases[0]) < 2:
        return list(range(len(cases)))
    strength = 1 if len(cases[0]) == 2 else 2
    parts = [set(combinations(enumerate(case), strength)) for case in cases]
    left, taken = set().union(*parts), Counter[tuple[int, Hashable]]()

    def worth(place: int) -> tuple[int, int, int]:
        return len(parts[place] & left), -sum(taken[value] for value in enumerate(cases[place])), -place

    chosen = []
    while left:
        best = max(range(len(cases)), key=worth)
        chosen.append(best)
        left -= parts[best]
        taken.update(enumerate(cases[best]))
    return sorted(chosen)
