"""The newest version of `__manifest` is found without listing all that there are, and is always the newest one."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pytest
from lance_flight.catalog.maintenance.vacuum import vacuum
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import TRUSTED_SECONDS, LatestVersion
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate

from tests.catalog.aging import ALL_THAT_MAY_GO, age, versions
from tests.catalog.small_table import SCHEMA, SPEC, ids, opened, rows
from tests.selection import IS_FULL
from tests.stock import manifest

COMMITS = 10_000 if IS_FULL else 60
MOST_FRAGMENTS = 16


class Clock:
    """Time as a test wants it."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def looking(place: Path, clock: Clock) -> LatestVersion:
    """Somebody who has just listed all versions."""
    newest = LatestVersion(Store(str(place / "__manifest")), clock)
    newest.saw(manifest(place).version, clock())
    return newest


def test_what_nobody_has_seen_has_to_be_listed(place: Path) -> None:
    assert LatestVersion(Store(str(place / "__manifest"))).look() is None


def test_commits_of_others_are_found_one_after_another(place: Path) -> None:
    newest, seen = looking(place, Clock()), manifest(place).version
    assert newest.look() == seen
    for number in (2, 3):
        opened(place).append([rows((number, "a"))], evaluate)
    assert newest.look() == manifest(place).version == seen + 2


def test_a_table_that_was_made_again_is_another_one(place: Path) -> None:
    newest, namespace = looking(place, Clock()), opened(place)
    namespace.snapshot()
    shutil.rmtree(place)
    PartitionedNamespace.create(Store(str(place)), SCHEMA, SPEC)
    for number in (7, 8, 9):
        opened(place).append([rows((number, "a"))], evaluate)
    assert newest.look() is None
    assert namespace.snapshot().version == manifest(place).version
    assert ids(place) == [7, 8, 9]


def test_versions_that_were_vacuumed_in_between_hide_nothing(place: Path) -> None:
    """A tagged version stays, the ones after it go: whoever saw the tagged one last must not take it for the newest."""
    clock = Clock()
    newest, seen = looking(place, clock), manifest(place).version
    manifest(place).tags.create("keep", seen)
    for number in (2, 3):
        opened(place).append([rows((number, "a"))], evaluate)
    age(place, hours=200)
    newest.saw(seen, clock())  # as it was before the files were made older
    vacuum(opened(place), ALL_THAT_MAY_GO)
    assert versions(place) == [seen, seen + 2]
    clock.at += TRUSTED_SECONDS + 1
    assert newest.look() is None


def test_a_version_that_is_gone_is_not_followed(place: Path) -> None:
    newest = looking(place, Clock())
    for path in (place / "__manifest" / "_versions").glob("*.manifest"):
        path.unlink()
    assert newest.look() is None


def test_tables_with_other_names_for_their_versions_are_listed(tmp_path: Path) -> None:
    dataset = lance.write_dataset(rows((1, "a")), str(tmp_path / "old"), enable_v2_manifest_paths=False)
    newest = LatestVersion(Store(dataset.uri))
    newest.saw(1, 0.0)
    assert newest.look() is None


def test_object_stores_are_asked_themselves() -> None:
    newest = LatestVersion(Store("s3://bucket/t/__manifest"))
    newest.saw(1, 0.0)
    assert newest.look() is None


@pytest.mark.slow  # many commits
def test_many_commits_list_the_versions_no_more_often_than_few(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = opened(place)
    snapshot = namespace.snapshot()
    row = snapshot.tables[0].rows
    for _ in range(COMMITS):
        snapshot = namespace.log.commit(snapshot, row, "again")
    listed, saw = [], LatestVersion.saw

    def noted(self: LatestVersion, version: int, at: float) -> None:
        listed.append(version)
        saw(self, version, at)

    monkeypatch.setattr(LatestVersion, "saw", noted)
    for number in range(2, 12):
        namespace.append([rows((number, "a"))], evaluate)
    assert len(listed) <= 1
    assert len(namespace.log.open().get_fragments()) <= MOST_FRAGMENTS
    assert ids(place) == list(range(1, 12))
