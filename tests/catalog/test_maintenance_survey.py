"""What maintenance finds in the metadata of a table: which of its files are worth a rewrite, and which snapshots are over."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.maintenance.indexing import create_index
from lance_flight.catalog.maintenance.survey import (
    DEFAULTS,
    MaintenancePolicy,
    Surveyor,
    TableState,
    chosen_options,
    expired_snapshots,
    policy_of,
    set_policy,
)
from lance_flight.catalog.manifests.snapshot import NAMESPACE_KEY
from lance_flight.catalog.plain_table import PlainTable, write_plain
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables.indices import IndexRules
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Unsupported

from tests.catalog.aging import age
from tests.catalog.small_table import SCHEMA, opened, rows
from tests.catalog.small_table_changes import delete
from tests.stock import manifest

ONE_FILE_MORE = MaintenancePolicy(compact_files=1)
HOUR = 3600.0


@pytest.fixture
def place(small_files: Path) -> Path:
    return small_files


def state(**values: Any) -> TableState:
    return TableState(**{"files": 1, "files_after": 1, "bytes": 0, "rows": 100, "deleted": 0, **values})


DUE = [
    pytest.param(state(), DEFAULTS, False, id="one file"),
    pytest.param(state(files=9), DEFAULTS, False, id="eight files too many"),
    pytest.param(state(files=10), DEFAULTS, True, id="nine files too many"),
    pytest.param(state(files=100, files_after=95), DEFAULTS, False, id="many files of the right size"),
    pytest.param(state(files=10, bytes=1 << 30), DEFAULTS, False, id="a rewrite that costs more than it spares"),
    pytest.param(state(files=1000, bytes=1 << 30), DEFAULTS, True, id="so many files that it pays"),
    pytest.param(state(deleted=10), DEFAULTS, False, id="a tenth is deleted"),
    pytest.param(state(deleted=11), DEFAULTS, True, id="more than a tenth is deleted"),
    pytest.param(state(files=3), ONE_FILE_MORE, True, id="two files too many, where one is allowed"),
    pytest.param(state(deleted=1), MaintenancePolicy(compact_deleted=0.0), True, id="any deleted row"),
    pytest.param(state(files=10, rows=0), DEFAULTS, True, id="no row"),
]


@pytest.mark.parametrize(("found", "policy", "expected"), DUE)
def test_a_table_is_rewritten_where_the_policy_says_so_and_it_pays(
    found: TableState,
    policy: MaintenancePolicy,
    expected: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert found.is_due(policy) is expected


def due(surveyor: Surveyor, table: Table) -> list[str]:
    """The partitions that are due, by their values, those with most to gain first."""
    survey = surveyor.survey(table)
    assert survey is not None
    return [table.snapshot().row(each.object_id)["partition_field_p"][0].as_py() for each in survey.due]


def test_the_partitions_with_small_files_are_due_those_with_most_first(place: Path) -> None:
    namespace, surveyor = opened(place), Surveyor()
    assert due(surveyor, namespace) == []
    set_policy(namespace, {"compact_files": 1})
    assert sorted(due(surveyor, namespace)) == ["a", "b"]
    namespace.append([rows((5, "b"))], evaluate)
    assert due(surveyor, namespace) == ["b", "a"]
    compact(namespace, CompactionRules())
    assert due(surveyor, namespace) == []


def test_deleted_rows_are_found(place: Path) -> None:
    opened(place).append([rows(*((number, "a") for number in range(20, 40)))], evaluate)
    delete(place, 20, 21)
    assert due(Surveyor(), opened(place)) == []
    delete(place, 22)
    assert due(Surveyor(), opened(place)) == ["a"]


def test_rows_outside_of_an_index_are_found(place: Path) -> None:
    namespace, surveyor = opened(place), Surveyor()
    create_index(namespace, IndexRules(column="id", min_rows=1))
    survey = surveyor.survey(namespace)
    assert survey is not None
    assert not survey.is_index_due
    namespace.append([rows((5, "a"), (6, "a"))], evaluate)
    survey = surveyor.survey(namespace)
    assert survey is not None
    assert (survey.unindexed, survey.rows, survey.is_index_due) == (2, 9, True)


def test_rows_that_no_index_can_be_built_of_are_not_found_again(place: Path) -> None:
    namespace, surveyor = opened(place), Surveyor()
    create_index(namespace, IndexRules(column="id", min_rows=1))
    namespace.append([rows((5, "a"), (6, "a"))], evaluate)
    assert surveyor.survey(namespace) is not None
    surveyor.settle_indices(namespace)
    survey = surveyor.survey(namespace)
    assert survey is not None
    assert not survey.is_index_due


def test_tables_that_stayed_as_they_were_are_not_due_again_before_they_change(place: Path) -> None:
    namespace, surveyor = opened(place), Surveyor()
    set_policy(namespace, {"compact_files": 1})
    survey = surveyor.survey(namespace)
    assert survey is not None
    surveyor.settle(namespace, survey.due)
    assert due(surveyor, namespace) == []
    namespace.append([rows((5, "b"))], evaluate)
    assert due(surveyor, namespace) == ["b"]


def test_one_whose_policy_says_off_is_left_alone(place: Path) -> None:
    namespace, surveyor = opened(place), Surveyor()
    assert surveyor.survey(namespace) is not None
    set_policy(namespace, {"maintenance": False})
    assert surveyor.survey(namespace) is None
    set_policy(namespace, {"maintenance": None})
    assert surveyor.survey(namespace) is not None


def test_one_that_this_library_has_never_written_is_left_alone(place: Path) -> None:
    manifest(place).update_metadata({NAMESPACE_KEY: None})
    assert Surveyor().survey(opened(place)) is None


def plain(tmp_path: Path) -> PlainTable:
    store = Store(str(tmp_path / "plain.lance"))
    write_plain(store, SCHEMA.plain, [rows((1, "a"))])
    return PlainTable(store)


@pytest.mark.parametrize("kind", ["plain", "partitioned"])
def test_a_policy_stays_with_its_table(tmp_path: Path, place: Path, kind: str) -> None:
    table: Table = plain(tmp_path) if kind == "plain" else opened(place)
    assert policy_of(table.snapshot()) == DEFAULTS
    set_policy(table, {"compact_files": 3, "retain": 30 * 24 * HOUR})
    set_policy(table, {"maintenance": False})
    table.append([rows((9, "a"))], evaluate)
    again: Table = PlainTable(table.store) if kind == "plain" else opened(place)
    expected = MaintenancePolicy(compact_files=3, retain=30 * 24 * HOUR, maintenance=False)
    assert policy_of(again.snapshot()) == expected
    version = again.snapshot().version
    assert set_policy(again, {"compact_files": 3}) == version, "what is set already makes no version"
    set_policy(again, {"compact_files": None, "retain": None, "maintenance": None})
    assert chosen_options(again.snapshot()) == {}
    assert policy_of(again.snapshot()) == DEFAULTS


def test_a_branch_has_the_policy_of_its_table_alone(place: Path) -> None:
    namespace = opened(place)
    namespace.create_branch("b")
    with pytest.raises(Unsupported, match="maintenance policy"):
        set_policy(namespace.on_branch("b"), {"compact_files": 3})


def test_snapshots_are_over_once_the_retention_has_passed_and_a_part_of_it_more(place: Path) -> None:
    namespace = opened(place)
    policy = MaintenancePolicy(retain=7 * HOUR)
    versions = namespace.snapshot().version
    for hours, expected in ((6.9, 0), (7.5, 0), (8.1, versions - 1)):
        assert expired_snapshots(namespace, policy, time.time() + hours * HOUR) == expected


def test_the_newest_snapshot_is_never_over(tmp_path: Path) -> None:
    table = plain(tmp_path)
    age(tmp_path / "plain.lance", hours=1000)
    assert expired_snapshots(table, DEFAULTS) == 0
