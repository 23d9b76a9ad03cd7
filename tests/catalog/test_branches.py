"""Branches of a namespace, whoever else is writing: what is on one shows nowhere else, and goes to main whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest
from lance import LanceDataset
from lance_flight.catalog import table as tables
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.manifests.snapshot import BranchVersion
from lance_flight.catalog.manifests.version_log import Revision
from lance_flight.catalog.publication import publish, replace_branch
from lance_flight.catalog.storage.store import BranchRef, Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import AlreadyExists, Conflict, InvalidInput, NotFound, SerializationFailure, Unsupported

from tests.catalog.interrupted_commits import interrupted
from tests.catalog.pinned_layouts import lay_out, repin, table_of
from tests.catalog.small_table import SCHEMA, SPEC, Written, ids, opened, rows
from tests.engine.evolving import add_spec
from tests.stock import manifest, manifest_rows, stored_tables


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A namespace with the rows 1 and 2 in the partitions a and b, and a branch `draft` of it."""
    PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, SPEC)
    opened(tmp_path / "t").append([rows((1, "a"), (2, "b"))], evaluate)
    opened(tmp_path / "t").create_branch("draft")
    return tmp_path / "t"


def draft(place: Path) -> PartitionedNamespace:
    return opened(place).on_branch("draft")


def written(namespace: PartitionedNamespace, *pairs: tuple[int, str | None]) -> Written:
    transaction = namespace.begin()
    namespace.write(transaction, [rows(*pairs)], evaluate)
    return Written(namespace, transaction)


def branch_ids(place: Path) -> list[int]:
    return sorted(number for table in draft(place).rows() for number in table["id"].to_pylist())


def test_two_writers_on_a_branch_both_count(place: Path) -> None:
    first, second = written(draft(place), (3, "a"), (4, "new")), written(draft(place), (5, "a"), (6, "new"))
    first.commit()
    second.commit()
    assert branch_ids(place) == [1, 2, 3, 4, 5, 6]
    assert ids(place) == [1, 2]


def test_a_table_that_two_writers_fork_at_the_same_moment_is_forked_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, left = LanceDataset.create_branch, [lambda: draft(place).append([rows((3, "a"))], evaluate)]

    def creating(self: LanceDataset, *arguments: Any) -> LanceDataset:
        if left:
            left.pop()()
        return create(self, *arguments)

    monkeypatch.setattr(LanceDataset, "create_branch", creating)
    draft(place).append([rows((4, "a"))], evaluate)
    assert not left
    assert branch_ids(place) == [1, 2, 3, 4]
    (table,) = [table for table in stored_tables(place) if table.values["p"] == "a"]
    assert len(lance.dataset(table.dataset.uri).branches.list()) == 1


def test_what_a_dead_writer_staged_on_a_branch_never_shows(place: Path) -> None:
    written(draft(place), (666, "a"), (667, "b")).stage()
    draft(place).append([rows((3, "a"))], evaluate)
    assert branch_ids(place) == [1, 2, 3]
    publish(opened(place), "draft")
    opened(place).append([rows((4, "a"), (5, "b"))], evaluate)
    assert ids(place) == [1, 2, 3, 4, 5]


def test_main_and_the_branch_write_on_one_published_table_without_seeing_each_other(place: Path) -> None:
    draft(place).append([rows((3, "a"), (4, "new"))], evaluate)
    publish(opened(place), "draft")
    pending = [written(opened(place), (5, "a"), (6, "new")), written(draft(place), (7, "a"), (8, "new"))]
    for each in pending:
        each.stage()
    for each in pending:
        each.commit()
    assert ids(place) == [1, 2, 3, 4, 5, 6]
    assert branch_ids(place) == [1, 2, 3, 4, 7, 8]


def test_an_abort_on_a_branch_takes_its_files_away(place: Path) -> None:
    draft(place).append([rows((3, "a"))], evaluate)
    before = {path for path in place.rglob("*") if "__manifest" not in path.parts and path.is_file()}
    pending = written(draft(place), (4, "a"), (5, "new"))
    pending.abort()
    assert {path for path in place.rglob("*") if "__manifest" not in path.parts and path.is_file()} == before


OTHERS: list[Any] = [
    pytest.param(lambda place: opened(place).append([rows((9, "b"))], evaluate), id="in another partition"),
    pytest.param(lambda place: opened(place).append([rows((9, "c"))], evaluate), id="in a new partition"),
]


@pytest.mark.parametrize("other", OTHERS)
def test_what_others_commit_beside_a_publication_stays(
    place: Path, monkeypatch: pytest.MonkeyPatch, other: Callable[[Path], object]
) -> None:
    draft(place).append([rows((3, "a"), (4, "new"))], evaluate)
    interrupted(monkeypatch, lambda: other(place))
    publish(opened(place), "draft")
    assert ids(place) == [1, 2, 3, 4, 9]


def test_what_others_commit_to_the_same_partition_first_refuses_the_publication(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft(place).append([rows((3, "a"), (4, "new"))], evaluate)
    interrupted(monkeypatch, lambda: opened(place).append([rows((9, "new"))], evaluate))
    (object_id,) = [
        table.object_id
        for tables in draft(place).snapshot().tables
        for table, value in zip(tables.tables(), tables.values.column(0).to_pylist(), strict=True)
        if value == "new"
    ]
    with pytest.raises(SerializationFailure) as raised:
        publish(opened(place), "draft")
    assert object_id in str(raised.value)
    assert ids(place) == [1, 2, 9]


def test_a_publication_whose_answer_was_lost_happens_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draft(place).append([rows((3, "a"))], evaluate)
    last = int(manifest(place).version)
    interrupted(monkeypatch, lambda: opened(place).append([rows((9, "a"))], evaluate), after=True)
    assert publish(opened(place), "draft") == last + 1
    assert ids(place) == [1, 2, 3, 9]


@pytest.mark.parametrize("staged", [False, True])
def test_an_append_that_was_written_before_a_publication_goes_on_top_of_it(place: Path, *, staged: bool) -> None:
    draft(place).append([rows((3, "a"))], evaluate)
    pending = written(opened(place), (4, "a"), (5, "b"))
    if staged:
        pending.stage()
    publish(opened(place), "draft")
    pending.commit()
    assert ids(place) == [1, 2, 3, 4, 5]
    (table,) = [table for table in stored_tables(place) if table.values["p"] == "a"]
    main = lance.dataset(table.dataset.uri).checkout_version((None, None))
    assert main.to_table()["id"].to_pylist() == [1, 4][: 1 + staged], "what was staged stays readable there"
    opened(place).append([rows((6, "a"))], evaluate)
    assert ids(place) == [1, 2, 3, 4, 5, 6]


def test_a_partition_that_a_branch_rolled_back_goes_from_main_when_it_is_published(place: Path) -> None:
    draft(place).append([rows((3, "c"), (4, "a"))], evaluate)
    publish(opened(place), "draft")
    draft(place).rollback(opened(place).branches[0].forked_at)
    assert branch_ids(place) == [1, 2]
    assert ids(place) == [1, 2, 3, 4]
    publish(opened(place), "draft")
    assert ids(place) == [1, 2]
    draft(place).append([rows((5, "a"), (6, "c"))], evaluate)
    publish(opened(place), "draft")
    assert ids(place) == [1, 2, 5, 6]


def test_a_branch_of_what_was_published_begins_on_its_branches(place: Path) -> None:
    draft(place).append([rows((3, "a"))], evaluate)
    publish(opened(place), "draft")
    opened(place).create_branch("second")
    second = opened(place).on_branch("second")
    second.append([rows((4, "a"))], evaluate)
    opened(place).drop_branch("draft")
    publish(opened(place), "second")
    opened(place).append([rows((5, "a"))], evaluate)
    assert ids(place) == [1, 2, 3, 4, 5]
    (pin,) = {t.pin for tables in opened(place).snapshot().tables for t in tables.tables() if t.pin.columns.read_branch}
    assert isinstance(pin, BranchVersion)
    assert pin.branch.startswith("second-")


def test_a_branch_that_is_older_than_a_spec_is_published_under_its_own(place: Path) -> None:
    draft(place).append([rows((3, "a"))], evaluate)
    add_spec(place, type(SPEC)(id=2, fields=SPEC.fields))
    publish(opened(place), "draft")
    assert ids(place) == [1, 2, 3]
    assert {table.spec_id for table in stored_tables(place)} == {1}
    assert [spec.id for spec in opened(place).snapshot().specs] == [1, 2]


def test_writes_on_main_go_where_they_went_before(place: Path) -> None:
    before = manifest_rows(place)
    draft(place).append([rows((3, "a"))], evaluate)
    assert manifest_rows(place) == before
    opened(place).append([rows((4, "a"))], evaluate)
    assert {row["read_branch"] for row in manifest_rows(place)} == {None}


def test_a_branch_whose_making_was_cut_short_is_in_the_way_and_said_to_be(place: Path) -> None:
    (place / "__manifest" / "_refs" / "branches" / "draft.json").unlink()
    with pytest.raises(NotFound):
        draft(place)
    with pytest.raises(AlreadyExists, match=r"has no room.*in a minute"):
        opened(place).create_branch("draft")
    age(place / "__manifest/tree/draft")
    opened(place).create_branch("draft")
    draft(place).append([rows((3, "a"))], evaluate)
    assert branch_ids(place) == [1, 2, 3]
    # One with commits has lost its name, and is nobody's leftover.
    (place / "__manifest" / "_refs" / "branches" / "draft.json").unlink()
    age(place / "__manifest/tree/draft")
    with pytest.raises(AlreadyExists, match="has no room"):
        opened(place).create_branch("draft")


def age(place: Path) -> None:
    """Give all that lies below a place the age of what nobody makes any longer."""
    for path in [place, *place.rglob("*")]:
        os.utime(path, (time.time() - 3_600,) * 2)


def test_a_writer_on_a_branch_that_was_dropped_is_told(place: Path) -> None:
    pending = written(draft(place), (3, "a"))
    opened(place).drop_branch("draft")
    with pytest.raises(Conflict):
        pending.commit()
    assert ids(place) == [1, 2]


def test_a_tag_on_a_branch_is_refused_and_keeps_the_branch(place: Path) -> None:
    draft(place).append([rows((3, "a"))], evaluate)
    version = draft(place).snapshot().version
    manifest(place).tags.create("seen", ("draft", version))
    with pytest.raises(Unsupported, match="'seen' is on branch 'draft'"):
        opened(place).snapshot("seen")
    with pytest.raises(InvalidInput, match="refers to it"):
        opened(place).drop_branch("draft")


def test_a_foreign_namespace_is_made_ready_when_its_first_branch_is_made(tmp_path: Path) -> None:
    place = tmp_path / "t"
    lay_out(place)
    repin(place, "v1$k7m2n9p4q8r5s3t6$dataset")
    old = int(manifest(place).version)
    opened(place).create_branch("draft")
    with pytest.raises(Unsupported, match=f"snapshot {old}"):
        opened(place).create_branch("older", old)
    draft(place).append([table_of("US", [5]), table_of("FR", [21])], evaluate)
    assert branch_ids(place) == [1, 2, 5, 11, 21, 666]
    assert ids(place) == [1, 2, 11, 666]
    publish(opened(place), "draft")
    opened(place).append([table_of("FR", [22])], evaluate)
    assert ids(place) == [1, 2, 5, 11, 21, 22, 666]


def test_vacuum_leaves_what_a_branch_shows_and_what_was_published_of_a_dropped_one(place: Path) -> None:
    opened(place).create_branch("kept")
    kept = opened(place).on_branch("kept")
    kept.append([rows((3, "a"), (4, "new"))], evaluate)
    draft(place).append([rows((5, "b"), (6, "c"))], evaluate)
    publish(opened(place), "draft")
    opened(place).drop_branch("draft")
    for number in range(7, 10):
        opened(place).append([rows((number, "b"), (10 * number, "a"))], evaluate)
    rules = VacuumRules(retain_hours=0, transaction_hours=0, force=True)
    vacuum(opened(place), rules, now=time.time() + 1e7)
    assert ids(place) == [1, 2, 5, 6, 7, 8, 9, 70, 80, 90]
    assert sorted(n for table in kept.rows() for n in table["id"].to_pylist()) == [1, 2, 3, 4]
    kept.append([rows((11, "a"), (12, "b"))], evaluate)
    opened(place).append([rows((13, "b"))], evaluate)
    vacuum(opened(place), rules, now=time.time() + 1e7)
    assert ids(place) == [1, 2, 5, 6, 7, 8, 9, 13, 70, 80, 90]
    assert sorted(n for table in kept.rows() for n in table["id"].to_pylist()) == [1, 2, 3, 4, 11, 12]


def test_a_branch_whose_history_has_expired_is_published_all_the_same(place: Path) -> None:
    for number in range(3, 6):
        draft(place).append([rows((number, "a"))], evaluate)
        opened(place).append([rows((10 * number, "b"))], evaluate)
    vacuum(opened(place), VacuumRules(retain_hours=0, transaction_hours=0, force=True), now=time.time() + 1e7)
    assert len(draft(place).log.history()) == 1
    publish(opened(place), "draft")
    assert ids(place) == [1, 2, 3, 4, 5, 30, 40, 50]


def test_a_branch_that_was_replaced_by_an_old_version_is_published_after_a_vacuum(place: Path) -> None:
    """What main has done since that version is no change of the branch, however much of the history has expired."""
    old = opened(place).snapshot().version
    for number in range(3, 6):
        opened(place).append([rows((10 * number, "b"))], evaluate)
    opened(place).drop_branch("draft")
    opened(place).create_branch("draft")
    replace_branch(opened(place), "draft", old)
    opened(place).append([rows((60, "b"))], evaluate)
    for number in range(3, 6):
        draft(place).append([rows((number, "a"))], evaluate)
        vacuum(opened(place), VacuumRules(retain_hours=0, transaction_hours=0, force=True), now=time.time() + 1e7)
    assert branch_ids(place) == [1, 2, 3, 4, 5]
    publish(opened(place), "draft")
    assert ids(place) == [1, 2, 3, 4, 5, 30, 40, 50, 60]


@pytest.mark.parametrize("staged", [False, True])
def test_an_append_that_was_written_before_its_branch_was_replaced_goes_on_top_of_it(
    place: Path, *, staged: bool
) -> None:
    draft(place).append([rows((3, "a"))], evaluate)
    late = written(draft(place), (4, "a"), (5, "new"))
    if staged:
        late.namespace.commits.stage(late.transaction)
    opened(place).append([rows((6, "a"))], evaluate)
    replace_branch(opened(place), "draft")
    late.commit()
    assert branch_ids(place) == [1, 2, 4, 5, 6]
    assert ids(place) == [1, 2, 6]
    publish(opened(place), "draft")
    assert ids(place) == [1, 2, 4, 5, 6]


RETAINED = 3600.0


def _names(place: Path) -> list[str]:
    table = opened(place)
    return sorted(each.ref.name for each in table.references())


def _vacuum(place: Path, after: float, **rules: Any) -> list[tuple[str, str]]:
    """Vacuum as if so many seconds had gone by; the tags and branches that went."""
    report = vacuum(opened(place), VacuumRules(**rules), now=time.time() + after)
    return [(each.kind, each.name) for each in report.removed if each.kind in {"tag", "branch"}]


def test_vacuum_drops_a_tag_and_a_branch_once_their_time_is_over(place: Path) -> None:
    table = opened(place)
    table.create_tag("stays")
    table.create_tag("goes", retain=RETAINED)
    table.create_branch("short", retain=RETAINED)
    assert _vacuum(place, RETAINED - 60) == []
    assert _vacuum(place, RETAINED + 60, dry_run=True) == [("branch", "short"), ("tag", "goes")]
    assert _names(place) == ["draft", "goes", "short", "stays"]
    assert _vacuum(place, RETAINED + 60) == [("branch", "short"), ("tag", "goes")]
    assert _names(place) == ["draft", "stays"]
    # Of the same name, and of the same version: nobody has limited their time.
    table.create_tag("goes")
    table.create_branch("short")
    assert _vacuum(place, 1e7) == []
    assert _names(place) == ["draft", "goes", "short", "stays"]


def test_a_branch_is_kept_from_its_newest_commit_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    then = time.time() - 2 * RETAINED
    with monkeypatch.context() as patched:
        patched.setattr(tables.time, "time", lambda: then)
        opened(place).create_branch("short", retain=RETAINED)
    opened(place).on_branch("short").append([rows((3, "a"))], evaluate)
    assert _vacuum(place, 0) == []
    assert _vacuum(place, RETAINED + 60) == [("branch", "short")]
    assert ids(place) == [1, 2]


def test_a_replaced_tag_or_branch_is_kept_for_as_long_from_then_on(place: Path) -> None:
    table = opened(place)
    table.create_tag("goes", retain=RETAINED)
    table.create_branch("short", retain=RETAINED)
    table.append([rows((3, "a"))], evaluate)
    table.replace_tag("goes")
    replace_branch(table, "short")
    assert _vacuum(place, RETAINED - 60) == []
    replace_branch(table, "short", retain=3 * RETAINED)
    table.replace_tag("goes", retain=3 * RETAINED)
    assert _vacuum(place, 2 * RETAINED) == []
    assert _vacuum(place, 3 * RETAINED + 60) == [("branch", "short"), ("tag", "goes")]


def test_a_tag_whose_time_cannot_be_noted_is_not_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tables, "change_retention", die)
        for make in (opened(place).create_tag, opened(place).create_branch):
            with pytest.raises(KeyboardInterrupt):
                make("good", retain=RETAINED)
            assert _names(place) == ["draft"]
    opened(place).create_tag("good")
    assert _vacuum(place, 1e7) == []
    assert "good" in _names(place)


def test_a_name_that_is_taken_keeps_its_time(place: Path) -> None:
    table = opened(place)
    table.create_branch("short", retain=3 * RETAINED)
    begun = table.branches[-1].forked_at
    for retain in (RETAINED, None):
        with pytest.raises(AlreadyExists):
            table.create_tag("short", begun, retain)
        with pytest.raises(AlreadyExists):
            table.create_branch("short", begun, retain)
    assert _vacuum(place, 2 * RETAINED) == []
    assert _vacuum(place, 3 * RETAINED + 60) == [("branch", "short")]


def test_the_schema_changes_while_a_branch_is_dropped(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids of new columns are those that no branch has, and another writer drops the branch before it is read."""
    table, manifests = opened(place), tables.Manifest
    version = table.snapshot().version

    def dropping(store: Store, branch: BranchRef | None = None) -> tables.Manifest:
        if branch is not None:
            monkeypatch.setattr(tables, "Manifest", manifests)
            opened(place).drop_branch("draft")
        return manifests(store, branch)

    monkeypatch.setattr(tables, "Manifest", dropping)
    assert table.evolve(lambda _: Revision(operation="note", notes={"k": 1})) == version + 1
    assert table.branches == []
