"""Tables that are read as one bring their indices along: what is found is what each table by itself would give."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments
from lance.query import MatchQuery, PhraseQuery
from lance_flight.catalog.manifests.snapshot import BranchVersion, Version
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.sources import Merged, PinnedTable, merge

TABLES, ROWS, DIMENSIONS = 5, 40, 8
COLUMNS = {
    "btree": ("number", pc.field("number") == 7),
    "bitmap": ("number", pc.field("number").isin([3, 7])),
    "zonemap": ("number", (pc.field("number") > 3) & (pc.field("number") < 6)),
    "bloomfilter": ("number", pc.field("number") == 7),
    "ngram": ("word", "contains(word, 'seve')"),
    "label_list": ("labels", "array_has_any(labels, [7])"),
}
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def rows(table: int) -> pa.Table:
    """Rows of one table, no two of all alike."""
    chance = np.random.default_rng(table)
    numbers = chance.integers(10, size=ROWS)
    vectors = chance.normal(size=ROWS * DIMENSIONS).astype(np.float32)
    return pa.table(
        {
            "id": np.arange(ROWS) + 1000 * table,
            "number": numbers,
            "word": [WORDS[number] for number in numbers],
            "labels": pa.array([[int(number), 1] for number in numbers]),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), DIMENSIONS),
        }
    )


@pytest.fixture
def tables(tmp_path: Path) -> list[PinnedTable]:
    """Partition tables as they are made."""
    stores = [Store(str(tmp_path / f"table{number}")) for number in range(TABLES)]
    return [
        PinnedTable(store, partitions.create(store, data.schema, partitions.write_files(store, None, data)))
        for store, data in zip(stores, map(rows, range(TABLES)), strict=True)
    ]


def newest(table: PinnedTable) -> PinnedTable:
    return PinnedTable(table.store, Version(int(table.store.open().version)))


def indexed(table: PinnedTable, column: str, kind: str, **options: object) -> PinnedTable:
    if column == "v":
        table.open().create_index("v", kind, name="i", num_partitions=2, **options)
    else:
        table.open().create_scalar_index(column, kind.upper(), name="i", **options)
    return newest(table)


def appended(table: PinnedTable, number: int) -> PinnedTable:
    lance.write_dataset(rows(number), table.store.uri, mode="append")
    return newest(table)


def only(found: tuple[list[Merged], list[PinnedTable]]) -> Merged:
    (merged,), alone = found
    assert alone == []
    return merged


def segments(dataset: LanceDataset) -> int:
    return sum(len(index.segments) for index in dataset.describe_indices())


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_filter_finds_what_it_finds_in_each_table(tables: list[PinnedTable], kind: str) -> None:
    column, condition = COLUMNS[kind]
    # One has no index, one has rows that its index is not about.
    pinned = [tables[0], *(indexed(table, column, kind) for table in tables[1:])]
    pinned[2] = appended(pinned[2], TABLES)
    merged = only(merge(pinned))
    assert segments(merged.dataset) == TABLES - 1
    expected = pa.concat_tables([table.open().to_table(filter=condition) for table in pinned])
    assert 0 < expected.num_rows < (TABLES + 1) * ROWS
    found = merged.dataset.to_table(filter=condition)
    assert found.sort_by("id").equals(expected.sort_by("id"))
    assert "ScalarIndexQuery" in merged.dataset.scanner(filter=condition).explain_plan()


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"])
def test_the_nearest_rows_are_those_of_all_tables(tables: list[PinnedTable], kind: str) -> None:
    options = {"num_sub_vectors": 2, "num_bits": 4} if kind == "IVF_PQ" else {}
    pinned = [tables[0], *(indexed(table, "v", kind, **options) for table in tables[1:])]
    pinned[2] = appended(pinned[2], TABLES)
    merged = only(merge(pinned))
    nearest = {"column": "v", "q": np.zeros(DIMENSIONS, np.float32), "k": 20, "nprobes": 2, "refine_factor": 20}
    plan = merged.dataset.scanner(columns=["id", "_distance"], nearest=nearest)
    assert f"deltas={TABLES - 1}" in plan.explain_plan()
    found = plan.to_table()
    everything = pa.concat_tables([table.open().to_table() for table in pinned])
    distances = (np.stack(everything["v"].to_pylist()) ** 2).sum(axis=1)
    order = np.argsort(distances)[:20]
    assert found["id"].to_pylist() == [everything["id"][int(place)].as_py() for place in order]
    assert np.allclose(found["_distance"].to_numpy(), distances[order])


def test_tables_whose_files_have_the_same_numbers_are_not_one(tables: list[PinnedTable], tmp_path: Path) -> None:
    first = indexed(tables[0], "number", "btree")
    shutil.copytree(first.store.uri, tmp_path / "copy")
    copied = newest(PinnedTable(Store(str(tmp_path / "copy")), first.pin))
    (merged,), alone = merge([first, copied, indexed(tables[1], "number", "btree")])
    assert merged.tables == ("table0", "table1")
    assert alone == [copied]


def test_indices_of_one_name_that_are_others_are_not_one(tables: list[PinnedTable]) -> None:
    by_number, by_word, by_bitmap = (
        indexed(table, column, kind)
        for table, column, kind in zip(tables, ("number", "word", "number"), ("btree", "btree", "bitmap"), strict=False)
    )
    assert merge([by_number, by_word, by_bitmap]) == ([], [by_word, by_bitmap, by_number])
    assert only(merge([by_number, tables[3]])).tables == ("table0", "table3")


def test_texts_are_scored_as_those_of_one_table(tables: list[PinnedTable]) -> None:
    pinned = [indexed(table, "word", "inverted", with_position=True) for table in tables]
    merged = only(merge(pinned)).dataset
    whole = lance.write_dataset(pa.concat_tables([table.open().to_table() for table in pinned]), "memory://whole")
    whole.create_scalar_index("word", "INVERTED", with_position=True)
    for query in (MatchQuery("seven ten", "word"), PhraseQuery("seven", "word")):
        found, expected = (
            each.scanner(columns=["id", "_score"], full_text_query=query, fast_search=True).to_table().sort_by("id")
            for each in (merged, whole)
        )
        assert found["id"].equals(expected["id"])
        assert np.allclose(found["_score"], expected["_score"])


def test_indices_that_cut_texts_in_other_ways_are_not_one(tables: list[PinnedTable]) -> None:
    first, second = indexed(tables[0], "word", "inverted"), indexed(tables[1], "word", "inverted", stem=False)
    assert merge([first, second]) == ([], [second, first])


def test_tables_with_deleted_rows_are_one(tables: list[PinnedTable]) -> None:
    pinned = [indexed(table, "v", "IVF_FLAT") for table in tables[:3]] + tables[3:]
    for table in pinned[1:]:
        table.open().delete("number IN (3, 7)")
    pinned = [newest(table) for table in pinned]
    merged = only(merge(pinned))
    expected = pa.concat_tables([table.open().to_table(columns=["id", "v"]) for table in pinned])
    assert merged.source.count_rows() == expected.num_rows < TABLES * ROWS
    assert sorted(merged.dataset.to_table()["id"].to_pylist()) == sorted(expected["id"].to_pylist())
    nearest = {"column": "v", "q": np.zeros(DIMENSIONS, np.float32), "k": 20, "nprobes": 2, "refine_factor": 20}
    found = merged.dataset.scanner(columns=["id", "_distance"], nearest=nearest).to_table()
    order = np.argsort((np.stack(expected["v"].to_pylist()) ** 2).sum(axis=1))[:20]
    assert found["id"].to_pylist() == [expected["id"][int(place)].as_py() for place in order]


def test_what_lies_on_a_branch_is_one_with_other_tables(tables: list[PinnedTable]) -> None:
    first = indexed(tables[0], "number", "btree")
    first.open().create_branch("b", (None, first.pin.version))
    lance.write_dataset(rows(TABLES), first.open().checkout_version(("b", None)), mode="append")
    forked = PinnedTable(first.store, BranchVersion("b", int(first.open().checkout_version(("b", None)).version)))
    merged = only(merge([forked, tables[1]]))
    assert segments(merged.dataset) == 1
    expected = pa.concat_tables([table.open().to_table() for table in (forked, tables[1])])
    assert expected.num_rows == 3 * ROWS
    assert merged.dataset.to_table().sort_by("id").equals(expected.sort_by("id"))


def test_files_of_a_new_table_have_numbers_of_their_own(tables: list[PinnedTable]) -> None:
    numbers = [fragment.fragment_id for table in tables for fragment in table.open().get_fragments()]
    assert len(set(numbers)) == TABLES
    assert max(numbers) < 2**31
    assert all(number % partitions.NUMBERS_OF_A_TABLE == 0 for number in numbers)


def test_lance_numbers_the_files_of_an_overwrite_from_0_on(tmp_path: Path) -> None:
    """So a table that is made by one commit has files of the same numbers as others."""
    place, data = str(tmp_path / "table"), rows(0)
    files = partitions.renumber(write_fragments(data, place), 5 * partitions.NUMBERS_OF_A_TABLE)
    made = LanceDataset.commit(place, LanceOperation.Overwrite(data.schema, files))
    assert [fragment.fragment_id for fragment in made.get_fragments()] == [0]


def test_ids_that_rows_keep_are_those_of_rows_of_other_tables(tmp_path: Path) -> None:
    """Lance counts them from 0 on in each table: an index of several would confuse their rows."""
    made = []
    for number in range(2):
        store = Store(str(tmp_path / f"table{number}"))
        files = partitions.write_files(store, None, rows(number))
        table = PinnedTable(store, partitions.create(store, rows(number).schema, files, stable_row_ids=True))
        made.append(indexed(appended(table, 2 + number), "number", "btree"))
    ids = [table.open().to_table(columns=[], with_row_id=True)["_rowid"].to_pylist() for table in made]
    assert ids == [list(range(2 * ROWS))] * 2
    assert merge(made) == ([], made)
    for table in made:
        table.open().drop_index("i")
    assert only(merge([newest(table) for table in made])).tables == ("table0", "table1")
