"""Versions that add files and take rows away, written without Lance: byte for byte what Lance writes, and else left to it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance.fragment import write_fragments
from lance_flight.catalog.storage import table_versions
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import columns_of, write_version
from lance_flight.catalog.storage.whole_files import LENGTH, MESSAGES, locate_message, version_name
from lance_flight.catalog.tables.partitions import renumber
from lance_flight.errors import Conflict, OutsideRoot

from tests.object_store.bucket import Bucket
from tests.object_store.s3_server import s3_server

ROWS = pa.table({"x": [1, 2], "s": ["a", None], "v": pa.array([[1.0, 2.0]] * 2, pa.list_(pa.float32(), 2))})
UNIQUE = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def plain(place: Path) -> None:
    lance.write_dataset(ROWS, place, enable_v2_manifest_paths=True)


def changed(change: Callable[[LanceDataset], object]) -> Callable[[Path], None]:
    """A table after two changes: what `change` does, and an append."""

    def make(place: Path) -> None:
        plain(place)
        change(lance.dataset(place))
        lance.write_dataset(ROWS, place, mode="append")

    return make


def with_columns(dataset: LanceDataset) -> None:
    dataset.add_columns({"y": "x + 1"})
    dataset.drop_columns(["y"])


def nested(place: Path) -> None:
    rows = pa.table({"n": [{"a": 1, "b": [1, 2]}], "m": pa.array([[("k", 1)]], pa.map_(pa.utf8(), pa.int64()))})
    lance.write_dataset(rows, place, enable_v2_manifest_paths=True, data_storage_version="2.2")


# Tables whose next version is written here.
WRITTEN: Mapping[str, Callable[[Path], None]] = {
    "one file": plain,
    "empty": lambda place: lance.write_dataset(ROWS.schema.empty_table(), place, enable_v2_manifest_paths=True),
    "indices": changed(
        lambda dataset: [dataset.create_scalar_index(*each) for each in (("x", "BTREE"), ("s", "INVERTED"))]
    ),
    "deleted rows": changed(lambda dataset: dataset.delete("x = 1")),
    "updated rows": changed(lambda dataset: dataset.update({"x": "x + 1"}, "x = 2")),
    "compacted": changed(lambda dataset: dataset.optimize.compact_files()),
    "restored": changed(lambda dataset: dataset.restore()),
    "nested": nested,
    "an older format": lambda place: lance.write_dataset(
        ROWS, place, enable_v2_manifest_paths=True, data_storage_version="2.0"
    ),
    "other columns before": changed(with_columns),
}
# Tables whose next version only Lance writes.
LEFT: Mapping[str, Callable[[Path], None]] = {
    "stable row ids": lambda place: lance.write_dataset(
        ROWS, place, enable_v2_manifest_paths=True, enable_stable_row_ids=True
    ),
    "names of versions of older releases": lambda place: lance.write_dataset(
        ROWS, place, enable_v2_manifest_paths=False
    ),
    "metadata": changed(lambda dataset: dataset.update_metadata({"k": "v"})),
    "a configuration": changed(lambda dataset: dataset.update_config({"lance.auto_cleanup.interval": "1"})),
    "a base path": lambda place: lance.write_dataset(
        ROWS,
        place,
        enable_v2_manifest_paths=True,
        initial_bases=[lance.DatasetBasePath(str(place.parent / "base"), "b")],
        target_bases=["b"],
    ),
}


def added(place: Path, count: int = 1) -> list[FragmentMetadata]:
    dataset = lance.dataset(place)
    rows = dataset.to_table(limit=1) if dataset.count_rows() else ROWS
    return [write_fragments(rows, dataset, schema=rows.schema, mode="append")[0] for _ in range(count)]


def comparable(content: bytes) -> tuple[bytes, ...]:
    """A version without what no two have in common: the id of its transaction, and the moment."""
    start, end = locate_message(content)
    moment = MESSAGES.Manifest(timestamp=MESSAGES.Manifest.FromString(content[start:end]).timestamp).SerializeToString()
    assert content[start:end].count(moment) == 1
    parts = (content[: start - LENGTH.size], content[start:end].replace(moment, b""), content[end:])
    return tuple(UNIQUE.sub(b"", part) for part in parts)


@dataclass(frozen=True)
class Table:
    """A table on the disk, or the same in a bucket, where its name is that of a partition's."""

    path: Path
    bucket: Bucket | None

    @property
    def store(self) -> Store:
        if self.bucket is None:
            return Store(str(self.path))
        return self.bucket.place(f"0c569589_v1$n{self.path.name}$dataset")

    @property
    def files(self) -> Mapping[str, bytes]:
        """The content of each file."""
        if self.bucket is None:
            return {str(file.relative_to(self.path)): file.read_bytes() for file in self.path.rglob("*.*")}
        prefix = self.store.uri.partition("://")[2].partition("/")[2] + "/"
        found = self.bucket.server.buckets[self.bucket.name].objects
        return {key.removeprefix(prefix): each.body for key, each in found.items() if key.startswith(prefix)}

    def fill(self) -> None:
        """Take the files of the path along."""
        if self.bucket is not None:
            for file in self.path.rglob("*.*"):
                self.store.write(str(file.relative_to(self.path)), file.read_bytes())

    def version(self, number: int) -> tuple[bytes, ...]:
        return comparable(self.files[f"_versions/{version_name(number)}"])

    def transactions(self, base: int) -> list[bytes]:
        """The content of those on top of a version."""
        return [
            UNIQUE.sub(b"", content)
            for name, content in self.files.items()
            if name.startswith(f"_transactions/{base}-")
        ]


@pytest.fixture(scope="module")
def buckets() -> Iterator[Callable[[], Bucket]]:
    with s3_server() as server:
        yield lambda: Bucket.made(server)


@pytest.fixture(params=["disk", "bucket"])
def bucket(request: pytest.FixtureRequest, buckets: Callable[[], Bucket]) -> Bucket | None:
    return buckets() if request.param == "bucket" else None


@pytest.mark.sample(20)
@pytest.mark.parametrize("make", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize(("count", "first"), [(1, 0), (2, 0), (2, 7 << 10)])
def test_a_version_is_what_lance_writes(
    tmp_path: Path, make: Callable[[Path], None], count: int, first: int, bucket: Bucket | None
) -> None:
    mine, theirs = Table(tmp_path / "t", bucket), Table(tmp_path / "other", bucket)
    make(mine.path)
    fragments = added(mine.path, count)
    shutil.copytree(mine.path, theirs.path)
    mine.fill()
    theirs.fill()
    base = int(lance.dataset(mine.path).version)
    options = theirs.store.options or None
    for number in range(3):  # the later ones go on from what is in memory
        fragments = renumber(fragments, first + 10 * number) if first else fragments
        append = LanceOperation.Append(fragments)
        LanceDataset.commit(theirs.store.uri, append, read_version=base, max_retries=0, storage_options=options)
        assert write_version(mine.store, base, append)
        base += 1
        assert mine.version(base) == theirs.version(base)
        assert mine.transactions(base - 1) == theirs.transactions(base - 1)
        assert len(mine.transactions(base - 1)) == 1
    assert not {name for name in mine.files if name.startswith("_versions/")} - theirs.files.keys()
    assert mine.store.open().to_table() == theirs.store.open().to_table()
    known = mine.store.open(base, manifest=mine.store.open()._ds.serialized_manifest())
    assert known.to_table() == theirs.store.open().to_table()
    assert [each.name for each in known.describe_indices()] == [
        each.name for each in theirs.store.open().describe_indices()
    ]


# Changes of the rows of a table: which go, and whether new ones come.
CHANGES = {
    "some rows go": ("x = 2", False),
    "some rows change": ("x = 2", True),
    "others change": ("x < 2", True),
    "all go": ("true", False),
    "rows are added": ("false", True),
}
WITH_X = [name for name in WRITTEN if name not in {"empty", "nested"}]


@pytest.mark.sample(20)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", WITH_X)
def test_a_change_of_rows_is_what_lance_writes(tmp_path: Path, name: str, change: str, bucket: Bucket | None) -> None:
    mine, theirs = Table(tmp_path / "t", bucket), Table(tmp_path / "other", bucket)
    WRITTEN[name](mine.path)
    new, old = added(mine.path), lance.dataset(mine.path)
    condition, adds = CHANGES[change]
    left = {each.fragment_id: each.delete(condition) for each in old.get_fragments()}
    operation = LanceOperation.Update(
        removed_fragment_ids=[number for number, each in left.items() if each is None],
        updated_fragments=[each for each in left.values() if each is not None] if condition != "false" else [],
        new_fragments=new if adds else [],
    )
    shutil.copytree(mine.path, theirs.path)
    mine.fill()
    theirs.fill()
    base = int(old.version)
    for each in (operation, LanceOperation.Append(new)):
        LanceDataset.commit(
            theirs.store.uri, each, read_version=base, max_retries=0, storage_options=theirs.store.options or None
        )
        assert write_version(mine.store, base, each)
        base += 1
        assert mine.version(base) == theirs.version(base)
        assert mine.transactions(base - 1) == theirs.transactions(base - 1)
    assert mine.store.open().to_table() == theirs.store.open().to_table()


def test_lance_goes_on_from_a_version(tmp_path: Path) -> None:
    place = tmp_path / "t"
    plain(place)
    assert write_version(Store(str(place)), 1, LanceOperation.Append(added(place)))
    for change in (
        lambda dataset: dataset.create_scalar_index("x", "BTREE"),
        lambda dataset: dataset.delete("x = 2"),
        lambda dataset: lance.write_dataset(ROWS, dataset, mode="append"),
        lambda dataset: dataset.optimize.compact_files(),
    ):
        change(lance.dataset(place))
        version = int(lance.dataset(place).version)
        assert write_version(Store(str(place)), version, LanceOperation.Append(added(place)))
    assert lance.dataset(place).count_rows() == 2 + 1 + 1 - 1 + 1 + 2 + 1 + 1
    assert lance.dataset(place).count_rows("x = 1") == 7
    versions = [each["version"] for each in lance.dataset(place).versions()]
    assert versions == list(range(1, versions[-1] + 1))
    assert lance.dataset(place).get_transactions(1)[0].operation.fragments


@pytest.mark.parametrize("make", LEFT.values(), ids=LEFT)
def test_what_is_not_known_is_left_to_lance(
    tmp_path: Path, make: Callable[[Path], None], bucket: Bucket | None
) -> None:
    table = Table(tmp_path / "t", bucket)
    make(table.path)
    version = int(lance.dataset(table.path).version)
    fragments = write_fragments(ROWS, lance.dataset(table.path), schema=ROWS.schema, mode="append")
    table.fill()
    before = table.files
    assert not write_version(table.store, version, LanceOperation.Append(fragments))
    assert table.files == before


def with_ids(fragments: list[FragmentMetadata]) -> list[FragmentMetadata]:
    """The same, with row ids of their own."""
    return [
        FragmentMetadata.from_json(json.dumps(each.to_json() | {"row_id_meta": {"Inline": [1, 2]}}))
        for each in fragments
    ]


# Operations that say more than which fragments go, change and come, or what cannot be.
MORE: Mapping[str, Callable[[LanceDataset, list[FragmentMetadata]], LanceOperation.BaseOperation]] = {
    "nothing": lambda *_: LanceOperation.Append([]),
    "no change": lambda *_: LanceOperation.Update(),
    "columns": lambda _, new: LanceOperation.Update(new_fragments=new, fields_modified=[0]),
    "a way of updating": lambda _, new: LanceOperation.Update(new_fragments=new, update_mode="rewrite_rows"),
    "row ids": lambda _, new: LanceOperation.Append(with_ids(new)),
    "an unknown fragment": lambda *_: LanceOperation.Update(removed_fragment_ids=[77]),
    "one that goes and changes": lambda old, _: LanceOperation.Update(
        removed_fragment_ids=[0], updated_fragments=[old.get_fragments()[0].metadata]
    ),
    "a new schema": lambda old, new: LanceOperation.Overwrite(old.lance_schema, new),
}


@pytest.mark.parametrize("name", MORE)
def test_an_operation_that_does_more_is_left_to_lance(tmp_path: Path, name: str) -> None:
    plain(tmp_path / "t")
    new = added(tmp_path / "t")
    before = sorted((tmp_path / "t").rglob("*"))
    assert not write_version(Store(str(tmp_path / "t")), 1, MORE[name](lance.dataset(tmp_path / "t"), new))
    assert sorted((tmp_path / "t").rglob("*")) == before


def test_a_version_of_another_release_and_a_long_one_are_left_to_lance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "t"
    plain(place)
    fragments = added(place)
    monkeypatch.setattr(table_versions, "WRITER", b"another one")
    assert not write_version(Store(str(place)), 1, LanceOperation.Append(fragments))
    monkeypatch.undo()
    monkeypatch.setattr(table_versions, "LONGEST", 10)
    assert not write_version(Store(str(place)), 1, LanceOperation.Append(fragments))


def test_of_two_that_write_one_version_one_does(tmp_path: Path, bucket: Bucket | None) -> None:
    table = Table(tmp_path / "t", bucket)
    plain(table.path)
    fragments = added(table.path)
    table.fill()
    assert write_version(table.store, 1, LanceOperation.Append(fragments))
    files = table.files
    with pytest.raises(Conflict):
        write_version(table.store, 1, LanceOperation.Append(fragments))
    # In an object store vacuum takes the transaction away.
    assert {name: each for name, each in table.files.items() if bucket is None or name in files} == files
    assert len(table.transactions(1)) == (1 if bucket is None else 2)


def test_a_table_that_was_made_again_is_read_again(tmp_path: Path) -> None:
    place = tmp_path / "t"
    for column in ("x", "other"):
        shutil.rmtree(place, ignore_errors=True)
        lance.write_dataset(pa.table({column: [1]}), place, enable_v2_manifest_paths=True)
        assert write_version(Store(str(place)), 1, LanceOperation.Append(added(place)))
        assert write_version(Store(str(place)), 2, LanceOperation.Append(added(place)))
        assert lance.dataset(place).to_table() == pa.table({column: [1, 1, 1]})


def test_no_hint_is_left_that_says_an_older_version(tmp_path: Path) -> None:
    """A stock writer at an old version takes a hint at its word, where vacuum has removed what came between."""
    place = tmp_path / "t"
    plain(place)
    for version in range(1, 6):
        assert write_version(Store(str(place)), version, LanceOperation.Append(added(place)))
    for version in range(2, 6):
        (place / "_versions" / version_name(version)).unlink()
    old = lance.dataset(place, 1)
    assert int(lance.write_dataset(ROWS, old, mode="append").version) == 7


@pytest.mark.parametrize("name", ["", "data", "_versions", "_transactions"])
def test_a_symbolic_link_is_not_followed(tmp_path: Path, name: str) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    plain(root / "t")
    fragments = added(root / "t")
    shutil.move(root / "t" / name, elsewhere)
    (root / "t" / name).symlink_to(elsewhere)
    table = Store(str(root)).child("t")
    for write in (lambda: columns_of(table, 1), lambda: write_version(table, 1, LanceOperation.Append(fragments))):
        with pytest.raises(OutsideRoot):
            write()
    assert not (elsewhere / version_name(2)).exists()
