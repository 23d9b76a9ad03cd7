"""Tables that become partitions: what others do at the same moment, how they are stored, which fields they say they have."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.plain_table import PlainTable
from lance_flight.catalog.roots import attachments
from lance_flight.catalog.roots.attachments import Attachment
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.ingest import TableProperties
from lance_flight.errors import Conflict, LanceFlightError, SerializationFailure

from tests.catalog.aging import age
from tests.engine.directory_namespace import lay_out
from tests.stock import manifest_rows, stored_tables

PAIR = pa.struct([("x", pa.int32()), ("y", pa.utf8())])
SCHEMA = pa.schema({"id": pa.int64(), "p": pa.utf8(), "s": PAIR, "l": pa.list_(PAIR)})
ATTACH = "ALTER TABLE t ATTACH TABLE 'x' PARTITION (p = 'x')"


def rows(*ids: int, p: str = "x") -> pa.Table:
    found = [{"id": n, "p": p, "s": {"x": n, "y": "s"}, "l": [{"x": n, "y": "l"}]} for n in ids]
    return pa.Table.from_pylist(found, schema=SCHEMA)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table `t` by `p` of one partition, and a plain table `x` of another one's rows."""
    ingest.create(engine(tmp_path).root, TableName("public", "t"), SCHEMA, TableProperties.by("p"), [rows(1, p="a")])
    lance.write_dataset(rows(2, 3), str(tmp_path / "x.lance"))
    return tmp_path


def engine(root: Path) -> Engine:
    return Engine(Root(Store(str(root))), target_partitions=1)


def namespace(root: Path) -> PartitionedNamespace:
    return PartitionedNamespace.open(Store(str(root / "t")))


def attachment(root: Path) -> Attachment:
    return Attachment(
        namespace=namespace(root),
        table=PlainTable(Store(str(root / "x.lance"))),
        name="x",
        values=pa.table({"partition_field_p": ["x"]}),
        evaluate=evaluate,
    )


def ids(root: Path) -> list[int]:
    found: list[int] = [n for table in stored_tables(root / "t") for n in table.dataset.to_table()["id"].to_pylist()]
    assert sorted(engine(root).query("SELECT id FROM t")["id"].to_pylist()) == sorted(found)
    return sorted(found)


def at(monkeypatch: pytest.MonkeyPatch, what: Any) -> None:
    """Do something while the files of a table are linked and nothing is committed."""

    def reached(point: str) -> None:
        assert point == "table_linked"
        monkeypatch.undo()
        what()

    monkeypatch.setattr(attachments, "failpoint", reached)


def test_whoever_makes_the_partition_first_has_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, lambda: namespace(root).append([rows(9)], evaluate))
    with pytest.raises(SerializationFailure, match="was made by another writer"):
        attachment(root).commit(trusted=False)
    assert ids(root) == [1, 9]
    assert lance.dataset(str(root / "x.lance")).count_rows() == 2
    left = {path.name for path in (root / "t").iterdir() if path.name.endswith("$dataset")}
    assert left == {table.row["location"] for table in stored_tables(root / "t")}


def test_rows_that_come_to_the_partition_at_the_same_moment_are_beside_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, transaction = namespace(root), namespace(root).begin()
    late.write(transaction, [rows(9)], evaluate)
    attachment(root).commit(trusted=False)
    late.commits.commit(transaction)
    assert ids(root) == [1, 2, 3, 9]
    assert len(stored_tables(root / "t")) == 2, "one table for each value"


def test_a_table_that_is_written_meanwhile_is_not_attached_by_half(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = attachments._link

    def written_first(source: Store, target: Store) -> None:
        lance.write_dataset(rows(4), source.uri, mode="append")
        link(source, target)

    monkeypatch.setattr(attachments, "_link", written_first)
    with pytest.raises(Conflict, match="was written while it was attached"):
        engine(root).update(ATTACH)
    assert ids(root) == [1]
    assert lance.dataset(str(root / "x.lance")).count_rows() == 3
    assert len([path for path in (root / "t").iterdir() if path.name.endswith("$dataset")]) == 1


def test_a_table_that_is_written_after_its_commit_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Attachment.commit

    def written_after(self: Attachment, *, trusted: bool) -> tuple[int, int]:
        done = commit(self, trusted=trusted)
        lance.write_dataset(rows(4), self.table.store.uri, mode="append")
        return done

    monkeypatch.setattr(Attachment, "commit", written_after)
    with pytest.raises(Conflict, match="its version 1 is in 't', and the table has stayed"):
        engine(root).update(ATTACH)
    assert ids(root) == [1, 2, 3]
    assert lance.dataset(str(root / "x.lance")).count_rows() == 3


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_table_that_is_written_right_before_it_is_dropped_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, is_listed: bool
) -> None:
    if is_listed:
        shutil.rmtree(root / "x.lance")
        lay_out(root, {"x": "x.lance"})
        lance.write_dataset(rows(2, 3), str(root / "x.lance"), mode="overwrite")
    drop = Root.drop

    def written_before(self: Root, *arguments: Any, **named: Any) -> None:
        lance.write_dataset(rows(4), str(root / "x.lance"), mode="append")
        drop(self, *arguments, **named)

    monkeypatch.setattr(Root, "drop", written_before)
    with pytest.raises(Conflict, match=r"its version \d is in 't', and the table has stayed"):
        engine(root).update(ATTACH)
    assert ids(root) == [1, 2, 3]
    assert engine(root).query("SELECT count(*) AS n FROM x").to_pylist() == [{"n": 3}]


def test_a_vacuum_at_the_same_moment_takes_nothing_of_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    age(root / "x.lance", hours=365 * 24)
    at(monkeypatch, lambda: vacuum(namespace(root), VacuumRules(retain_hours=0, force=True)))
    attachment(root).commit(trusted=False)
    assert ids(root) == [1, 2, 3]


STORED = [
    pytest.param({}, id="as we do"),
    pytest.param({"data_storage_version": "2.0"}, id="in an older format"),
    pytest.param({"enable_stable_row_ids": True}, id="with stable row ids"),
    pytest.param({"enable_v2_manifest_paths": False}, id="with old names of versions"),
    pytest.param({"max_rows_per_file": 1}, id="in several files"),
]


@pytest.mark.parametrize("how", STORED)
def test_however_a_table_is_stored_it_is_read_and_written(root: Path, how: dict[str, Any]) -> None:
    lance.write_dataset(rows(2, 3, p="y"), str(root / "y.lance"), **how)
    lance.write_dataset(rows(4, 5, p="z"), str(root / "z.lance"), **how)
    for name in "yz":
        assert engine(root).update(f"ALTER TABLE t ATTACH TABLE '{name}' PARTITION (p = '{name}')") == 2
    assert ids(root) == [1, 2, 3, 4, 5]
    namespace(root).append([rows(6, p="y"), rows(7, p="z"), rows(8, p="a")], evaluate)
    assert ids(root) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert engine(root).update("UPDATE t SET id = id + 10 WHERE id % 2 = 0") == 4
    assert engine(root).update("DELETE FROM t WHERE id = 14") == 1
    engine(root).query("ALTER TABLE t COMPACT")
    assert ids(root) == [1, 3, 5, 7, 12, 16, 18]
    assert engine(root).query("SELECT s, l FROM t WHERE id = 7").to_pylist() == [
        {"s": {"x": 7, "y": "s"}, "l": [{"x": 7, "y": "l"}]}
    ]


def test_fields_say_which_of_the_namespace_they_are_whatever_they_said(root: Path) -> None:
    other = {b"lance_flight:field_id": b"1", b"of": b"theirs"}
    mine = pa.schema(
        [
            pa.field("p", pa.utf8(), metadata=other),
            pa.field("extra", pa.int64(), metadata=other),
            pa.field("s", pa.struct([pa.field("y", pa.utf8()), pa.field("z", pa.int8(), metadata=other)])),
            pa.field("l", pa.list_(PAIR)),
            pa.field("f", pa.list_(pa.int8(), 2)),
            pa.field("m", pa.map_(pa.utf8(), pa.int8())),
        ]
    )
    row = {"p": "x", "extra": 1, "s": {"y": "why", "z": 1}, "l": [{"x": 1, "y": "l"}], "f": [1, 2], "m": [("k", 1)]}
    table = pa.Table.from_pylist([row], schema=mine)
    lance.write_dataset(table, str(root / "x.lance"), mode="overwrite", data_storage_version="2.2")
    engine(root).update(ATTACH)
    (found,) = [table.dataset.schema for table in stored_tables(root / "t") if table.values["p"] == "x"]
    theirs = {path: number for number, (path, _) in namespace(root).snapshot().schema.paths.items()}
    said = dict(_ids(found))
    assert said == {path: str(theirs[path]).encode() for path in said}
    assert said.keys() == {"p", "s", "s.y", "l", "l.item", "l.item.x", "l.item.y"}
    assert found.field("extra").metadata == {b"of": b"theirs"}
    assert engine(root).query("SELECT * FROM t WHERE p = 'x'").to_pylist() == [
        {"id": None, "p": "x", "s": {"x": None, "y": "why"}, "l": [{"x": 1, "y": "l"}]}
    ]


def _ids(fields: Any, above: str = "") -> list[tuple[str, bytes]]:
    found = []
    for field in fields:
        number = (field.metadata or {}).get(b"lance_flight:field_id")
        found += [(above + field.name, number)] if number is not None else []
        if not pa.types.is_map(field.type):
            found += _ids([field.type.field(i) for i in range(field.type.num_fields)], f"{above}{field.name}.")
    return found


def test_tags_do_not_come_along(root: Path) -> None:
    lance.dataset(str(root / "x.lance")).tags.create("old", 1)
    engine(root).update(ATTACH)
    (found,) = [table for table in stored_tables(root / "t") if table.values["p"] == "x"]
    assert found.dataset.tags.list() == {}


def test_files_are_linked_and_not_copied(root: Path) -> None:
    (file,) = (root / "x.lance" / "data").iterdir()
    number = file.stat().st_ino
    engine(root).update(ATTACH)
    assert number in {path.stat().st_ino for path in (root / "t").rglob("*.lance")}


def test_without_links_files_are_copied(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(os.EX_UNAVAILABLE, "no links here")

    monkeypatch.setattr(attachments, "link", link)
    engine(root).update(ATTACH)
    assert ids(root) == [1, 2, 3]


def test_a_detached_partition_that_is_changed_meanwhile_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = Root.create

    def changed(self: Root, *arguments: Any, **options: Any) -> int:
        made = create(self, *arguments, **options)
        monkeypatch.undo()
        namespace(root).append([rows(9, p="a")], evaluate)
        return made

    monkeypatch.setattr(Root, "create", changed)
    with pytest.raises(SerializationFailure, match="were changed by another writer"):
        engine(root).update("ALTER TABLE t DETACH PARTITION (p = 'a') TO y")
    assert ids(root) == [1, 9]
    assert not (root / "y.lance").exists()


@pytest.mark.parametrize("name", ["y", "t"])
def test_a_name_that_is_taken_keeps_its_table(root: Path, name: str) -> None:
    lance.write_dataset(rows(7), str(root / "y.lance"))
    before = manifest_rows(root / "t")
    with pytest.raises(LanceFlightError, match="is there already"):
        engine(root).update(f"ALTER TABLE t DETACH PARTITION (p = 'a') TO {name}")
    assert manifest_rows(root / "t") == before
    assert lance.dataset(str(root / "y.lance")).count_rows() == 1
