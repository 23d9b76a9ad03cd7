"""The words of the code: names that were replaced by the field's own do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
SOURCES = sorted(path for part in ("server", "client") for path in (TOP / part).rglob("*.py"))

RETIRED_CLASSES = {
    "ClientSession": "Session",
    "Clients": "SessionRegistry",
    "Gate": "Authentication",
    "Hints": "InferredFilters",
    "PartitionedView": "TableView",
    "PlainView": "TableView",
    "Reading": "TableVersion",
    "Account": "PruningReport",
    "Alternative": "Disjunct",
    "Apart": "NotCopartitioned",
    "Bindings": "LruCache",
    "Cancellations": "CancelStatus",
    "Coded": "DictionaryColumn",
    "Described": "Description",
    "Divider": "CopartitioningAnalysis",
    "Draft": "StagedTable",
    "Edit": "TableUpdate",
    "Execution": "QueryOptions",
    "Existing": "IfExists",
    "Findings": "MatchResult",
    "Floating": "UnpinnedResolver",
    "FoundChanges": "RowDelta",
    "Guard": "Visibility",
    "Hold": "SnapshotLease",
    "KeptSnapshots": "SnapshotCache",
    "KeptTables": "TableCache",
    "NamedCommit": "CommitToken",
    "Names": "TableResolver",
    "Newest": "LatestVersion",
    "PrivatePlace": "StagingArea",
    "Question": "NormalForm",
    "RunningStatements": "StatementRegistry",
    "Sealer": "TicketSealer",
    "Share": "Split",
    "Standing": "LocationGuard",
    "Turn": "AdmissionSlot",
    "Turns": "AdmissionQueue",
}
RETIRED_MODULES = {
    "engine/runtime/clients": "engine/runtime/session_registry",
    "flight/identity/gate": "flight/identity/authentication",
    "catalog/commits/commit_ids": "catalog/commits/commit_tokens",
    "catalog/commits/edits": "catalog/commits/table_updates",
    "catalog/commits/holdings": "catalog/commits/partition_lookup",
    "catalog/manifests/head_notes": "catalog/manifests/guard_notes",
    "catalog/manifests/kept_snapshots": "catalog/manifests/snapshot_cache",
    "catalog/manifests/once": "catalog/manifests/idempotency",
    "catalog/roots/names": "catalog/roots/table_resolver",
    "catalog/storage/kept_tables": "catalog/storage/table_cache",
    "catalog/storage/newest": "catalog/storage/latest_version",
    "catalog/storage/private": "catalog/storage/staging_area",
    "catalog/storage/standing": "catalog/storage/location_guard",
    "catalog/tables/adapting": "catalog/tables/schema_adapter",
    "catalog/tables/disagreeing": "catalog/tables/casting",
    "engine/query/partition_wise/concerns": "engine/query/partition_wise/relevance",
    "engine/query/partition_wise/divisible": "engine/query/partition_wise/copartitioning",
    "engine/query/partition_wise/origins": "engine/query/partition_wise/column_lineage",
    "engine/query/partition_wise/products": "engine/query/partition_wise/join_order",
    "engine/query/partition_wise/sides": "engine/query/partition_wise/join_order",
    "engine/query/partition_wise/spine": "engine/query/partition_wise/plan_rebuilding",
    "engine/runtime/execution": "engine/runtime/query_options",
    "engine/runtime/running": "engine/runtime/statement_registry",
    "engine/runtime/statement_runs": "engine/runtime/running_statement",
    "engine/runtime/turns": "engine/runtime/admission",
    "engine/sql/points": "engine/sql/time_travel",
    "engine/writes/found_changes": "engine/writes/row_delta",
    "planning/alternatives": "planning/disjuncts",
    "watched": "file_reloading",
}
"""Below `server/lance_flight`."""
RETIRED_NAMES = {
    "beaten": "on_conflict",
    "beside": "extra_columns",
    "head_row": "guard_row",
    "reached": "failpoint",
    "ways": "target_partitions",
}
"""Of functions, parameters and attributes."""

NAMED_TWICE = {
    "Column",  # of grouped tables, and of predicates
    "Truncate",  # the statement of SQL, and the transform of the spec
}
"""Names of two public classes."""

PERSONS = re.compile(r"\b(somebody|someone|nobody|anybody|whoever)\b", re.IGNORECASE)
"""What a first sentence says of a person where a client, a writer or a reader is meant."""
CLAUSES = re.compile(r"^(What|Who|Whose|Whether|How|Where|When|Which|Those|That|Why)\b")
"""How a docstring begins that is a clause, and no description."""


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in SOURCES:
        yield path, ast.parse(path.read_text())


def defined(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Every name that a module defines, with its kind."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name):
                yield "class", name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield "name", name
            case ast.arg(arg=name) | ast.Attribute(attr=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield "name", name


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(TOP)))
def test_a_retired_name_does_not_come_back(path: Path) -> None:
    module = str(path.relative_to(TOP).with_suffix("")).removeprefix("server/lance_flight/")
    assert module not in RETIRED_MODULES, f"expected {RETIRED_MODULES[module]}"
    for kind, name in defined(ast.parse(path.read_text())):
        retired = RETIRED_CLASSES if kind == "class" else RETIRED_NAMES
        assert name not in retired, f"{name} is called {retired[name]}"


def test_what_retired_names_are_called_is_there() -> None:
    found = {name for _, tree in trees() for _, name in defined(tree)} | {path.stem for path in SOURCES}
    modules = {name.rpartition("/")[2] for name in RETIRED_MODULES.values()}
    wanted = {*RETIRED_CLASSES.values(), *modules, *RETIRED_NAMES.values()}
    assert wanted <= found, f"{wanted - found} is nowhere"


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for path, tree in trees():
        for kind, name in defined(tree):
            if kind == "class" and not name.startswith("_"):
                places.setdefault(name, []).append(str(path.relative_to(TOP)))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert twice.keys() == NAMED_TWICE, twice


@pytest.mark.parametrize("words", [PERSONS, CLAUSES], ids=["no persons", "no clauses"])
def test_a_first_sentence_describes_what_it_stands_above(words: re.Pattern[str]) -> None:
    odd = [
        f"{path.relative_to(TOP)}: {first}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and words.search(first := (ast.get_docstring(node) or "").split("\n")[0])
    ]
    assert not odd, "\n".join(odd)
