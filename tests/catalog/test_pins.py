"""Pins of every legal kind, several tables for one value: read, and written on top of."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Corrupt

from tests.catalog.pinned_layouts import DE, TABLES, US, lay_out, repin, table_of
from tests.stock import manifest, manifest_rows, stored_rows, stored_tables


def opened(place: Path) -> PartitionedNamespace:
    return PartitionedNamespace.open(Store(str(place)))


def test_the_first_write_adds_a_key_and_no_fence(tmp_path: Path) -> None:
    lay_out(tmp_path / "t")
    before = manifest(tmp_path / "t").metadata
    opened(tmp_path / "t").append([table_of("FR", [21])], evaluate)
    added = manifest(tmp_path / "t").metadata.keys() - before.keys()
    assert added == {"lance_flight:namespace_key", "lance_flight:derived_values"}


def test_names_that_others_gave_are_kept_and_extended(tmp_path: Path) -> None:
    lay_out(tmp_path / "t")
    opened(tmp_path / "t").append([table_of("DE", [12]), table_of("FR", [21])], evaluate)
    by_country = {table.values["country"]: table for table in stored_tables(tmp_path / "t")}
    assert by_country["DE"].object_id == f"{DE}$dataset"
    assert by_country["DE"].row["location"] == "some/where/de.lance"
    assert sorted(by_country["DE"].dataset.to_table()["id"].to_pylist()) == [11, 12]
    assert by_country["FR"].object_id not in TABLES


def read_ids(place: Path, condition: str = "true") -> list[int]:
    """The column `id` of the rows for which a condition holds, sorted."""
    sql = f'SELECT id FROM "{place.name}" WHERE {condition} ORDER BY id'
    found: list[int] = Engine(Root(Store(str(place.parent))), target_partitions=2).query(sql)["id"].to_pylist()
    return found


PINS = [
    pytest.param({"read_version": "1"}, [1], id="an older version"),
    pytest.param({"read_version": "2"}, [1, 2], id="a version"),
    pytest.param({}, [1, 2, 666], id="none, the newest"),
    pytest.param({"read_tag": "'audited'"}, [1], id="a tag"),
    pytest.param({"read_branch": "'draft'", "read_version": "3"}, [1, 2, 77], id="a version of a branch"),
]


@pytest.fixture
def pinned(tmp_path: Path) -> Path:
    """The namespace of `lay_out`, with a tag and a branch on the table of the US."""
    lay_out(tmp_path / "t")
    dataset = lance.dataset(str(tmp_path / "t" / "b4a3c2d1_us"))
    dataset.tags.create("audited", 1)
    branch = dataset.create_branch("draft", 2)
    lance.write_dataset(table_of("US", [77]), branch, mode="append")
    assert branch.checkout_version(("draft", 3)).count_rows() == 3
    return tmp_path / "t"


@pytest.mark.parametrize(("pins", "ids"), PINS)
def test_a_table_is_read_at_its_pin(pinned: Path, pins: dict[str, str], ids: list[int]) -> None:
    repin(pinned, f"{US}$dataset", **pins)
    assert read_ids(pinned, "country = 'US'") == ids


@pytest.mark.parametrize(("pins", "ids"), PINS)
def test_a_write_goes_on_top_of_the_pin_and_replaces_it(pinned: Path, pins: dict[str, str], ids: list[int]) -> None:
    repin(pinned, f"{US}$dataset", **pins)
    opened(pinned).append([table_of("US", [5])], evaluate)
    assert read_ids(pinned, "country = 'US'") == sorted([*ids, 5])
    (row,) = [row for row in manifest_rows(pinned) if row["object_id"] == f"{US}$dataset"]
    assert row["read_version"] is not None
    assert row["read_tag"] is None
    assert row["read_branch"] == ("draft" if "read_branch" in pins else None)
    assert sorted(stored_rows(pinned)["id"].to_pylist()) == sorted([*ids, 5, 11])
    opened(pinned).append([table_of("US", [6])], evaluate)
    assert read_ids(pinned, "country = 'US'") == sorted([*ids, 5, 6])


def test_the_tag_itself_stays_where_it_was(pinned: Path) -> None:
    repin(pinned, f"{US}$dataset", read_tag="'audited'")
    opened(pinned).append([table_of("US", [5])], evaluate)
    assert lance.dataset(str(pinned / "b4a3c2d1_us"), version="audited").count_rows() == 1


def test_the_main_branch_is_untouched_by_a_write_to_another(pinned: Path) -> None:
    repin(pinned, f"{US}$dataset", read_branch="'draft'", read_version="3")
    opened(pinned).append([table_of("US", [5])], evaluate)
    assert lance.dataset(str(pinned / "b4a3c2d1_us")).latest_version == 3


ILLEGAL = [
    pytest.param({"read_version": "2", "read_tag": "'audited'"}, id="a version and a tag"),
    pytest.param({"read_branch": "'draft'"}, id="a branch alone"),
    pytest.param({"read_branch": "'draft'", "read_tag": "'audited'"}, id="a branch and a tag"),
    pytest.param({"read_version": "2", "read_branch": "'draft'", "read_tag": "'audited'"}, id="all three"),
]


@pytest.mark.parametrize("pins", ILLEGAL)
def test_an_illegal_combination_names_its_row_when_it_is_read_and_when_it_is_written(
    pinned: Path, pins: dict[str, str]
) -> None:
    repin(pinned, f"{US}$dataset", **pins)
    with pytest.raises(Corrupt, match=r"v1\$k7m2n9p4q8r5s3t6\$dataset"):
        read_ids(pinned)
    before = manifest_rows(pinned)
    with pytest.raises(Corrupt, match=r"v1\$k7m2n9p4q8r5s3t6\$dataset"):
        opened(pinned).append([table_of("US", [5])], evaluate)
    assert manifest_rows(pinned) == before


@pytest.mark.parametrize(
    "pins", [{"read_version": "99"}, {"read_tag": "'nope'"}, {"read_branch": "'nope'", "read_version": "1"}]
)
def test_a_pin_to_what_is_not_there_is_named(pinned: Path, pins: dict[str, str]) -> None:
    repin(pinned, f"{US}$dataset", **pins)
    with pytest.raises(Corrupt, match="b4a3c2d1_us"):
        read_ids(pinned)


def test_several_tables_for_one_value_are_all_read_and_one_of_them_is_extended(tmp_path: Path) -> None:
    twin = {"object_id": "v1$twin", "object_type": "namespace", "partition_field_country": "US"}
    table = {
        "object_id": "v1$twin$dataset",
        "object_type": "table",
        "location": "twin",
        "read_version": 1,
        "partition_field_country": "US",
    }
    lance.write_dataset(table_of("US", [3, 4]), str(tmp_path / "t" / "twin"))
    lay_out(tmp_path / "t", twin, table)
    assert read_ids(tmp_path / "t", "country = 'US'") == [1, 2, 3, 4]
    opened(tmp_path / "t").append([table_of("US", [5])], evaluate)
    assert read_ids(tmp_path / "t", "country = 'US'") == [1, 2, 3, 4, 5]
    assert len(stored_tables(tmp_path / "t")) == 3


def test_rows_of_other_objects_are_left_alone(tmp_path: Path) -> None:
    others = [
        {"object_id": "elsewhere", "object_type": "namespace"},
        {"object_id": "elsewhere$plain", "object_type": "table", "location": "nowhere"},
        {"object_id": "v2$x$dataset", "object_type": "table", "location": "nowhere"},
    ]
    lay_out(tmp_path / "t", *others)
    opened(tmp_path / "t").append([table_of("US", [5])], evaluate)
    assert read_ids(tmp_path / "t") == [1, 2, 5, 11]
    kept = {row["object_id"]: row["location"] for row in manifest_rows(tmp_path / "t")}
    assert {row["object_id"]: row.get("location") for row in others}.items() <= kept.items()
