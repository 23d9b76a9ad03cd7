"""What data files say of NULL inside vectors: where they say that there is none, there is none."""

from __future__ import annotations

import os
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance import LanceDataset
from lance_flight.catalog.search.row_ranking import ADDRESS, DISTANCE, with_vectors
from lance_flight.catalog.search.searching import VectorSearch
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables import rows as stored_rows
from lance_flight.catalog.tables.rows import have_gaps, may_have_gaps
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.sources import PinnedTable, merge

ROWS = 3000
KINDS = {
    "narrow": pa.list_(pa.float32(), 8),
    "wide": pa.list_(pa.float32(), 1536),
    "halves": pa.list_(pa.float16(), 16),
    "doubles": pa.list_(pa.float64(), 16),
    "bytes": pa.list_(pa.uint8(), 64),
    "one number": pa.list_(pa.float32(), 1),
}
VERSIONS = ("2.0", "2.1", "2.2")


def vectors(kind: pa.FixedSizeListType, rows: int = ROWS, gap: int | None = None) -> pa.FixedSizeListArray:
    """Vectors, one of which has NULL at its last place."""
    chance = np.random.default_rng(rows)
    numbers = chance.integers(100, size=rows * kind.list_size).astype(kind.value_type.to_pandas_dtype())
    mask = np.zeros(len(numbers), bool)
    if gap is not None:
        mask[(gap + 1) * kind.list_size - 1] = True
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers, kind.value_type, mask=mask), kind.list_size)


def write(place: Path, column: pa.Array, version: str = "2.2", mode: str = "create") -> LanceDataset:
    return lance.write_dataset(pa.table({"v": column}), str(place), mode=mode, data_storage_version=version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_files_tell_whether_a_vector_has_gaps(tmp_path: Path, version: str, kind: pa.DataType) -> None:
    assert not may_have_gaps(write(tmp_path / "whole", vectors(kind), version), ["v"])
    for gap in (0, ROWS - 1):
        assert may_have_gaps(write(tmp_path / f"gap{gap}", vectors(kind, gap=gap), version), ["v"])
    nothing = pa.nulls(ROWS, kind)
    assert may_have_gaps(write(tmp_path / "nothing", nothing, version), ["v"])


def test_each_file_tells_of_itself(tmp_path: Path) -> None:
    kind = KINDS["narrow"]
    whole = write(tmp_path / "t", vectors(kind))
    more = write(tmp_path / "t", vectors(kind, 10), mode="append")
    gap = write(tmp_path / "t", vectors(kind, 10, gap=3), mode="append")
    assert [may_have_gaps(each, ["v"]) for each in (whole, more, gap)] == [False, False, True]


def test_a_column_that_files_lack_may_have_gaps(tmp_path: Path) -> None:
    dataset = write(tmp_path / "t", vectors(KINDS["narrow"]))
    dataset.add_columns(pa.schema([pa.field("w", KINDS["narrow"])]))
    assert may_have_gaps(dataset, ["w"])
    assert may_have_gaps(dataset, ["no such column"])
    assert not may_have_gaps(dataset, ["v"])


def test_a_column_that_was_written_later_is_looked_for_in_its_files(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"id": range(10)}), str(tmp_path / "t"))
    dataset.merge(pa.table({"id": range(10), "v": vectors(KINDS["narrow"], 10)}), "id")
    dataset.merge(pa.table({"id": range(10), "w": vectors(KINDS["narrow"], 10, gap=1)}), "id")
    assert (may_have_gaps(dataset, ["v"]), may_have_gaps(dataset, ["w"])) == (False, True)


def test_vectors_inside_structs_are_told_of(tmp_path: Path) -> None:
    kind = KINDS["narrow"]
    whole, gap = vectors(kind, 20), vectors(kind, 20, gap=7)
    struct = pa.StructArray.from_arrays([pa.array(range(20)), whole, gap], names=["n", "whole", "gap"])
    dataset = lance.write_dataset(pa.table({"s": struct}), str(tmp_path / "t"))
    assert [may_have_gaps(dataset, ["s", name]) for name in ("whole", "gap", "n", "no")] == [False, True, True, True]


def test_many_files_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_rows, "MOST_FILES", 1)
    kind = KINDS["narrow"]
    assert not may_have_gaps(write(tmp_path / "t", vectors(kind, 10)), ["v"])
    assert may_have_gaps(write(tmp_path / "t", vectors(kind, 10), mode="append"), ["v"])


@pytest.mark.parametrize("harm", ["gone", "empty", "cut", "noise", "pipe"])
def test_a_damaged_file_tells_nothing(tmp_path: Path, harm: str) -> None:
    dataset = write(tmp_path / "t", vectors(KINDS["narrow"], 10))
    (file,) = (tmp_path / "t" / "data").iterdir()
    content = file.read_bytes()
    file.unlink()
    if harm == "pipe":
        os.mkfifo(file)
    elif harm != "gone":
        file.write_bytes({"empty": b"", "cut": content[:-20], "noise": content[:-40] + b"\xff" * 40}[harm])
    assert may_have_gaps(dataset, ["v"])


@pytest.mark.parametrize("gap", [None, 5])
def test_merged_tables_are_told_of_by_their_own_files(tmp_path: Path, gap: int | None) -> None:
    kind = KINDS["narrow"]
    tables = []
    for number, column in enumerate([vectors(kind, 10), vectors(kind, 11), vectors(kind, 12, gap=gap)]):
        store, data = Store(str(tmp_path / f"part {number}$")), pa.table({"v": column})
        made = partitions.create(store, data.schema, partitions.write_files(store, None, data))
        tables.append(PinnedTable(store, made))
    (merged,), alone = merge(tables)
    assert not alone
    assert may_have_gaps(merged.dataset, ["v"]) == (gap is not None)
    assert [may_have_gaps(table.open(), ["v"]) for table in tables] == [False, False, gap is not None]


@pytest.mark.parametrize("gap", [None, 5])
def test_vectors_are_read_where_they_may_have_gaps_alone(tmp_path: Path, gap: int | None) -> None:
    kind = KINDS["narrow"]
    store, data = Store(str(tmp_path / "t")), pa.table({"id": range(10), "v": vectors(kind, 10, gap=gap)})
    table = PinnedTable(store, partitions.create(store, data.schema, partitions.write_files(store, None, data)))
    search = VectorSearch(column="v", vector=vectors(kind, 1)[0].values, count=3)
    wanted = pa.schema([data.schema.field("id"), DISTANCE, ADDRESS])
    read = with_vectors(search, Scan(source=data.schema, schema=wanted, ids={}), table.source).schema.names
    assert read == [*wanted.names, *(["v"] if gap is not None else [])]


@given(st.data())
def test_no_gap_is_missed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    place = tmp_path_factory.mktemp("gaps") / "t"
    kind = data.draw(st.sampled_from([KINDS["narrow"], KINDS["halves"], KINDS["bytes"]]))
    version = data.draw(st.sampled_from(VERSIONS))
    any_gap = False
    for mode in ["create", *["append"] * data.draw(st.integers(0, 2))]:
        rows = data.draw(st.integers(1, 200))
        numbers = st.lists(st.sampled_from([1, 2, None]), min_size=kind.list_size, max_size=kind.list_size)
        few = data.draw(st.dictionaries(st.integers(0, rows - 1), st.none() | numbers, max_size=3))
        values = [few.get(place, [1] * kind.list_size) for place in range(rows)]
        column = pa.array([each if each is None else list(map(_number, each)) for each in values], kind)
        any_gap |= bool(have_gaps(column).any())
        dataset = write(place, column, version, mode)
    assert may_have_gaps(dataset, ["v"]) or not any_gap


def _number(value: int | None) -> np.float16 | None:
    return None if value is None else np.float16(value)
