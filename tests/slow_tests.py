"""The test modules that `pytest -m "not slow"` leaves out, and what makes each of them slow."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

TESTS = Path(__file__).parent

# Directory → what its tests wait for.
SLOW_DIRECTORIES = {
    "conformance": "drivers in other languages, on a JVM or built by Go",
    "faults": "servers that are killed and started again",
    "object_store": "an S3 server in this process",
    "service": "server processes",
    "spark": "a JVM",
}

# Modules of those directories that are quick, and show that the layer works at all.
QUICK_MODULES = {
    "service/test_create_table.py",
    "service/test_explain.py",
    "service/test_insert.py",
    "service/test_joins.py",
    "service/test_metadata_tables.py",
    "service/test_parameters.py",
    "service/test_tags.py",
    "spark/test_job.py",
    "spark/test_options.py",
    "spark/test_write_planning.py",
}

# Module of another directory → what makes it slow.
SLOW_MODULES = {
    "catalog/test_beside_a_writer.py": "a process that writes all the time",
    "catalog/test_conflicts.py": "every pair of operations",
    "catalog/test_stateful.py": "a long property",
    "engine/test_differential.py": "a long property",
    "engine/test_evolution_property.py": "a long property",
    "engine/test_odd_tables.py": "a long property",
    "engine/test_partition_wise.py": "a long property",
    "engine/test_policies.py": "every statement for every tenant",
    "engine/test_row_changes_property.py": "a long property",
    "planning/test_joins_property.py": "a long property",
    "planning/test_pruning_minimal.py": "every value of each column",
    "planning/test_pruning_property.py": "a long property",
    "planning/test_pruning_zones.py": "every change of every zone's clocks",
    "test_benchmarks.py": "processes of each benchmark",
    "test_readme.py": "server processes",
}


def is_slow(module: Path) -> bool:
    """Tells whether a test module is left out of quick runs."""
    path = PurePosixPath(module.relative_to(TESTS).as_posix())
    return str(path) in SLOW_MODULES or (path.parts[0] in SLOW_DIRECTORIES and str(path) not in QUICK_MODULES)
