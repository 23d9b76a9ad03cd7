"""The lease of a root's maintenance: one holder at a time, and another one after it, whatever became of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from lance_flight.catalog.storage.leases import LEASE_FILE, LEASE_SECONDS, RENEWAL_SECONDS, RootLease
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import PRIVATE

HOLDER = """
import sys
from lance_flight.catalog.storage.leases import RootLease
from lance_flight.catalog.storage.store import Store
print(RootLease(Store(sys.argv[1])).hold(), flush=True)
sys.stdin.read()
"""


def lease(place: Path) -> RootLease:
    return RootLease(Store(str(place)))


def test_one_of_two_holds_it_and_the_other_after_it(tmp_path: Path) -> None:
    first, second = lease(tmp_path), lease(tmp_path)
    assert [first.hold(), second.hold(), first.hold()] == [True, False, True]
    first.release()
    assert [second.hold(), first.hold()] == [True, False]


def test_one_whose_file_was_removed_takes_it_again(tmp_path: Path) -> None:
    first = lease(tmp_path)
    assert first.hold()
    (tmp_path / PRIVATE / LEASE_FILE).unlink()
    assert first.hold()
    assert not lease(tmp_path).hold()


def test_a_process_that_is_killed_lets_go_of_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        mine = lease(tmp_path)
        assert not mine.hold()
        process.kill()
        process.wait(60)
        assert mine.hold()


@dataclass
class Bucket:
    """What several servers see of an object store: its files."""

    files: dict[str, bytes] = field(default_factory=dict)
    is_remote: bool = True

    def child(self, name: str) -> Bucket:
        return self

    def read(self, name: str) -> bytes:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def write(self, name: str, content: bytes) -> None:
        self.files[name] = content

    def remove_files(self, names: list[str]) -> None:
        for name in names:
            self.files.pop(name, None)


@dataclass
class Clock:
    """A clock that stands still between the steps of a test."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def of_bucket(bucket: Bucket, clock: Clock, pause: Callable[[float], None] | None = None) -> RootLease:
    return RootLease(cast("Store", bucket), now=clock, pause=pause or clock.pause)


def test_in_an_object_store_it_is_taken_over_once_it_is_renewed_no_more() -> None:
    bucket, clock = Bucket(), Clock()
    first, second = of_bucket(bucket, clock), of_bucket(bucket, clock)
    assert first.hold()
    for _ in range(20):
        clock.now += LEASE_SECONDS / 2
        assert [first.hold(), second.hold()] == [True, False]
    clock.now += LEASE_SECONDS - 1
    assert not second.hold()
    clock.now += 2
    assert second.hold()
    clock.now += RENEWAL_SECONDS
    assert [first.hold(), second.hold()] == [False, True], "one that comes back does not go on"


def test_in_an_object_store_a_released_one_is_free_at_once() -> None:
    bucket, clock = Bucket(), Clock()
    first, second = of_bucket(bucket, clock), of_bucket(bucket, clock)
    assert first.hold()
    assert not second.hold()
    first.release()
    assert second.hold()
    first.release()
    assert bucket.files.keys() == {LEASE_FILE}


def test_in_an_object_store_one_of_two_that_take_it_at_once_gets_it() -> None:
    bucket, clock = Bucket(), Clock()

    def another_writes(_: float) -> None:
        bucket.write(LEASE_FILE, b"another server, which has found it free as well")

    assert not of_bucket(bucket, clock, another_writes).hold()
