"""Repair: what is wrong is named, nothing is changed unless asked, and no row is ever dropped."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import lance_namespace as stock
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace
from lance_flight.catalog.maintenance import verification as repairing
from lance_flight.catalog.maintenance.verification import RepairFinding, RepairReport, repair
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Corrupt

from tests.catalog.aging import file_names
from tests.catalog.small_table import SCHEMA, SPEC, ids, opened, rows
from tests.stock import StoredTable, manifest, manifest_rows, stored_tables

COLUMNS = ["read_version", "read_branch", "read_tag", "partition_field_p"]
WHOLE = [1, 2, 3, 4]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two partitions of two rows, in a namespace that does not keep stock writers away."""
    PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, SPEC, fence=False)
    opened(tmp_path / "t").append([rows((1, "a"), (2, "b"))], evaluate)
    opened(tmp_path / "t").append([rows((3, "a"), (4, "b"))], evaluate)
    return tmp_path / "t"


def unopened(place: Path) -> PartitionedNamespace:
    return PartitionedNamespace(Store(str(place)))


def dry(place: Path) -> RepairReport:
    """Only look; nothing may change."""
    before = {name for name in file_names(place) if not name.startswith("__manifest/_indices")}
    version = manifest(place).version
    report = repair(unopened(place))
    assert report.dry_run
    assert manifest(place).version == version
    assert {name for name in file_names(place) if not name.startswith("__manifest/_indices")} == before
    assert all(finding.mended is None for finding in report.findings)
    return report


def mend(place: Path) -> RepairReport:
    return repair(unopened(place), dry_run=False)


def kinds(report: RepairReport) -> list[str]:
    return [finding.kind for finding in report.findings]


def table_of(place: Path, value: str) -> StoredTable:
    (found,) = [table for table in stored_tables(place) if table.values["p"] == value]
    return found


def stock_writer(place: Path) -> None:
    """A stock writer that knows no partitions."""
    DirectoryNamespace(root=str(place)).create_namespace(stock.CreateNamespaceRequest(id=["intruder"]))
    assert manifest(place).schema.names == ["object_id", "object_type", "location", "metadata", "base_objects"]


def second_table(place: Path, value: str, *numbers: int, name: str = "x" * 16, schema: pa.Schema | None = None) -> None:
    """Another table for a value that has one already, as two writers with random names would make."""
    row = dict(table_of(place, value).row)
    row |= {"object_id": f"v1${name}$dataset", "location": f"01234567_v1${name}$dataset", "read_version": 1}
    data = rows(*((number, value) for number in numbers))
    lance.write_dataset(data if schema is None else data.cast(schema), str(place / row["location"]))
    lance.write_dataset(
        pa.Table.from_pylist([row], schema=manifest(place).schema), f"{place}/__manifest", mode="append"
    )


def test_a_whole_namespace_has_nothing_wrong_with_it(place: Path) -> None:
    assert dry(place).findings == ()
    assert mend(place).is_sound


def test_columns_that_a_stock_writer_dropped_come_back(place: Path) -> None:
    pins = {row["object_id"]: [row[name] for name in COLUMNS] for row in manifest_rows(place)}
    version = manifest(place).version
    stock_writer(place)
    with pytest.raises(Corrupt, match="lance-flight repair"):
        opened(place)
    assert kinds(dry(place)) == ["lost columns", "new row"]
    report = mend(place)
    lost, new = report.findings
    assert str(version) in (lost.mended or "")
    assert (new.name, new.mended) == ("intruder", None)
    assert not report.is_sound, "nobody can tell what the new row is"
    restored = {row["object_id"]: [row[name] for name in COLUMNS] for row in manifest_rows(place)}
    assert restored == pins | {"intruder": [None] * 4}
    assert manifest(place).schema.field("read_version").type == pa.uint64()
    assert dry(place).findings == ()
    opened(place).append([rows((5, "a"), (6, "c"))], evaluate)
    assert ids(place) == [*WHOLE, 5, 6]


def test_columns_come_back_from_the_newest_version_that_has_them(place: Path) -> None:
    stock_writer(place)
    mend(place)
    opened(place).append([rows((5, "a"))], evaluate)
    manifest(place).drop_columns(["partition_field_p"])
    manifest(place).drop_columns(["read_version", "read_tag"])
    assert kinds(dry(place)) == ["lost columns"] * 2, "they were lost one after another"
    assert mend(place).is_sound
    assert ids(place) == [*WHOLE, 5]


def test_pins_alone_are_missed_too(place: Path) -> None:
    manifest(place).drop_columns(COLUMNS[:3])
    lance.write_dataset(rows((666, "a")), str(place / manifest_rows(place)[2]["location"]), mode="append")
    assert kinds(dry(place)) == ["lost columns"]
    mend(place)
    assert ids(place) == WHOLE


def test_a_namespace_that_never_had_pins_lacks_nothing(tmp_path: Path) -> None:
    from tests.catalog.by_hand import lay_out

    lay_out(tmp_path, pins=False)
    assert dry(tmp_path).findings == ()


def test_a_row_without_a_table_is_reported_and_removed_when_asked(place: Path) -> None:
    gone = table_of(place, "b")
    shutil.rmtree(place / gone.row["location"])
    (finding,) = dry(place).findings
    assert (finding.kind, finding.name) == ("missing directory", gone.object_id)
    assert gone.row["location"] in finding.what
    report = mend(place)
    assert report.is_sound
    assert ids(place) == [1, 3]
    assert dry(place).findings == ()
    opened(place).append([rows((5, "b"))], evaluate)
    assert ids(place) == [1, 3, 5]


def test_a_version_that_is_gone_is_reported_and_its_row_stays(place: Path) -> None:
    broken = table_of(place, "b")
    versions = sorted((place / broken.row["location"] / "_versions").glob("*.manifest"))
    versions[0].unlink()
    for report in (dry(place), mend(place)):
        assert report.findings == (
            RepairFinding(
                kind="missing version",
                name=broken.object_id,
                what=f"directory {broken.row['location']!r} has no version 3",
            ),
        )
    assert broken.object_id in {row["object_id"] for row in manifest_rows(place)}


def test_two_tables_for_one_value_become_one(place: Path) -> None:
    second_table(place, "a", 7)
    assert ids(place) == [*WHOLE, 7]
    kept = [
        table.object_id for table in stored_tables(place) if table.values["p"] == "a" and "xxx" not in table.object_id
    ]
    (finding,) = dry(place).findings
    assert (finding.kind, finding.name) == ("two tables", kept[0])
    before = manifest(place).version
    report = mend(place)
    assert [f.mended for f in report.findings] == ["1 rows moved"]
    assert ids(place) == [*WHOLE, 7]
    assert [table.object_id for table in stored_tables(place) if table.values["p"] == "a"] == kept
    assert "repair" in opened(place).log.operations()[before + 1]
    assert dry(place).findings == ()
    opened(place).append([rows((8, "a"))], evaluate)
    assert ids(place) == [*WHOLE, 7, 8]


def test_three_tables_become_the_largest_of_them(place: Path) -> None:
    second_table(place, "a", 7, 8, 9, name="x" * 16)
    (largest,) = [table.object_id for table in stored_tables(place) if "xxx" in table.object_id]
    row = dict(next(table.row for table in stored_tables(place) if table.object_id == largest))
    row |= {"object_id": "v1$" + "y" * 16 + "$dataset", "location": "76543210_v1$" + "y" * 16 + "$dataset"}
    lance.write_dataset(rows((10, "a")), str(place / row["location"]))
    lance.write_dataset(
        pa.Table.from_pylist([row], schema=manifest(place).schema), f"{place}/__manifest", mode="append"
    )
    (finding,) = mend(place).findings
    assert (finding.name, finding.mended) == (largest, "3 rows moved")
    assert ids(place) == [*WHOLE, 7, 8, 9, 10]


def test_tables_with_other_columns_are_not_merged(place: Path) -> None:
    second_table(place, "a", 7, schema=pa.schema([("id", pa.int32()), ("p", pa.utf8())]))
    before = ids(place)
    (finding,) = mend(place).findings
    assert finding.mended is None
    assert "not merged" in finding.what
    assert ids(place) == before


def test_rows_that_come_to_the_emptied_table_meanwhile_are_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second_table(place, "a", 7)
    forget = repairing._forget

    def late(namespace: PartitionedNamespace, conditions: list[str]) -> None:
        (emptied,) = [table for table in stored_tables(place) if "xxx" in table.object_id]
        filled = lance.write_dataset(rows((8, "a")), emptied.dataset.uri, mode="append")
        manifest(place).update({"read_version": str(filled.version)}, f"object_id = '{emptied.object_id}'")
        forget(namespace, conditions)

    monkeypatch.setattr(repairing, "_forget", late)
    mend(place)
    assert ids(place) == [*WHOLE, 7, 8]
