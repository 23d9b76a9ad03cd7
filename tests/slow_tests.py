"""The test modules that `pytest -m "not slow"` leaves out, and what makes each of them slow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from zlib import crc32

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

# Modules of those directories that are quick, and show that the layer works at all.
QUICK_MODULES = {
    "console/test_partition_grid.py",
    "service/test_explain.py",
    "service/test_parameters.py",
    "service/test_partition_map.py",
    "service/test_tags.py",
    "spark/test_job.py",
    "spark/test_options.py",
    "spark/test_write_planning.py",
}

# Module of another directory → what makes it slow.
SLOW_MODULES = {
    "backup/test_beside_writers.py": "processes that write",
    "backup/test_damage.py": "every harm to every kind of file",
    "backup/test_killed.py": "processes of the command line",
    "catalog/test_additions.py": "every change to a table, and streams over it",
    "catalog/test_beside_a_writer.py": "a process that writes all the time",
    "catalog/test_commit.py": "processes that write and are killed",
    "catalog/test_conflicts.py": "every pair of operations",
    "catalog/test_killed_indexing.py": "processes that are killed",
    "catalog/test_leases.py": "processes that read and write",
    "catalog/test_private_places.py": "processes that are killed",
    "catalog/test_stateful.py": "a long property",
    "catalog/test_vacuum.py": "a vacuum that is stopped at every step",
    "catalog/test_verification.py": "processes of the command line",
    "dataset/test_fragments.py": "processes that read",
    "dataset/test_page.py": "processes that read",
    "dataset/test_torch.py": "processes of PyTorch",
    "dataset/test_shapes.py": "a server process, and every kind of table",
    "engine/test_bounded_functions.py": "every function against DataFusion's",
    "engine/test_column_policies.py": "every statement for every principal",
    "engine/test_differential.py": "a long property",
    "engine/test_disagreeing_tables.py": "many odd tables",
    "engine/test_evolution_property.py": "a long property",
    "engine/test_lineage.py": "a long property",
    "engine/test_merge_keys.py": "many merges",
    "engine/test_missing_sources.py": "every statement over odd tables",
    "engine/test_odd_tables.py": "a long property",
    "engine/test_partition_wise.py": "a long property",
    "engine/test_policies.py": "every statement for every tenant",
    "engine/test_rights_to_rows.py": "every statement for every privilege",
    "engine/test_row_changes_property.py": "a long property",
    "engine/test_schema_races.py": "every change beside every writer",
    "hostile/test_links.py": "server processes",
    "hostile/test_wire.py": "a server process, and many changed bytes",
    "planning/test_joins_property.py": "a long property",
    "planning/test_pruning_minimal.py": "every value of each column",
    "planning/test_pruning_property.py": "a long property",
    "planning/test_pruning_zones.py": "every change of every zone's clocks",
    "roots/test_formats.py": "processes of the command line",
    "roots/test_released_roots.py": "a root of every release",
    "search/test_distance_ranges.py": "a long property",
    "search/test_filters.py": "a long property",
    "search/test_index_filters.py": "a long property",
    "search/test_indices.py": "every kind of index after every change",
    "search/test_layouts.py": "every search over every layout",
    "search/test_ordered_searches.py": "a long property, and every change",
    "search/test_search_pages.py": "every page over every layout",
    "search/test_ties.py": "every way to read the tables of a search",
    "search/test_vector_search.py": "every metric over every layout",
    "test_benchmarks.py": "processes of each benchmark",
    "test_readme.py": "server processes",
}

# Tables of many like cases: of each test that begins so one case in so many is run, always the same ones.
SAMPLED = {
    "catalog/test_conflicts.py": 6,
    "conformance/test_drivers.py": 6,
    "console/test_pages.py::test_everybody": 6,
    "engine/test_missing_sources.py": 6,
    "engine/test_rights_to_rows.py": 6,
    "engine/test_schema_races.py": 6,
    "faults/test_full_disks.py": 6,
    "faults/test_small_disks.py": 24,
    "object_store/test_backups.py": 12,
    "object_store/test_s3.py": 12,
    "object_store/test_s3_faults.py::test_a_new_table": 16,
    "object_store/test_s3_faults.py::test_a_write": 80,
    "object_store/test_s3_faults.py::test_maintenance": 40,
    "object_store/test_s3_guarantees.py": 6,
    "search/test_distance_ranges.py": 2,
    "search/test_indices.py": 6,
    "search/test_search_pages.py": 3,
    "search/test_ties.py": 6,
    "search/test_vector_search.py": 6,
    "service/test_bad_ingest.py": 6,
    "service/test_bad_sql.py": 6,
    "service/test_hostile_statements.py": 6,
    "service/test_quoted_names.py": 6,
    "service/test_row_changes.py": 6,
    "service/test_widened_partition_columns.py": 6,
    "spark/test_cluster.py": 12,
    "spark/test_connector_definitions.py": 6,
    "spark/test_connector_pushdown.py": 6,
    "spark/test_connector_reads.py": 6,
    "spark/test_reads.py": 6,
}


SLOW_SHARE = 6
"""Of each other table of cases in a slow module one case in so many is run."""


def is_slow(module: Path) -> bool:
    """Tells whether a test module is left out of quick runs."""
    path = PurePosixPath(module.relative_to(TESTS).as_posix())
    return str(path) in SLOW_MODULES or (path.parts[0] in SLOW_DIRECTORIES and str(path) not in QUICK_MODULES)


def sample(names: Sequence[str]) -> set[str]:
    """Choose what is run of tests, which are named below `tests/`: each function at least once.

    >>> len(sample([f"faults/test_full_disks.py::test_x[{n}]" for n in range(99)])) in range(20, 50)
    True
    """
    chosen: set[str] = set()
    begun: set[str] = set()
    for name in names:
        function = name.partition("[")[0]
        share = next((share for start, share in SAMPLED.items() if function.startswith(start)), None)
        if share is None:
            share = SLOW_SHARE if is_slow(TESTS / function.partition("::")[0]) else 1
        if crc32(name.encode()) % share == 0:
            begun.add(function)
            chosen.add(name)
    firsts = {name.partition("[")[0]: name for name in reversed(names)}
    return chosen | {name for function, name in firsts.items() if function not in begun}
