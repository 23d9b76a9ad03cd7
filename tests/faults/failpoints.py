"""Failpoints that this process passes, and what a process that is killed at one of them leaves.

A killed process leaves its files as they are at that moment, and no clean-up of it runs. So does a copy of the files that is
made on the way past: one write leaves a copy at each failpoint, which a fresh engine finds as it finds the root of a dead process.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from lance_flight import faults

Stopped = tuple[str, int]
"""A failpoint, and the how-manieth time that it is passed."""

_elsewhere = threading.Event()


@contextmanager
def watched(at: Callable[[str, int], object]) -> Iterator[None]:
    """Call `at` with each failpoint that this process passes and how often it has by then, one at a time."""
    passes, one, real = Counter[str](), threading.RLock(), faults.failpoint

    def failpoint(point: str) -> None:
        if _elsewhere.is_set():
            return
        with one:
            passes[point] += 1
            at(point, passes[point])

    with pytest.MonkeyPatch.context() as patched:
        for name, module in list(sys.modules.items()):
            if name.startswith("lance_flight.") and vars(module).get("failpoint") is real:
                patched.setattr(module, "failpoint", failpoint)
        yield


@contextmanager
def elsewhere() -> Iterator[None]:
    """Do what another process does, which passes no failpoint of this one."""
    _elsewhere.set()
    try:
        yield
    finally:
        _elsewhere.clear()


@contextmanager
def left_behind(root: Path, copies: Path, only: Collection[Stopped] | None = None) -> Iterator[Mapping[Stopped, Path]]:
    """What a process leaves of a directory that is killed at any failpoint passed in the block, or at `only` these."""
    left: dict[Stopped, Path] = {}

    def copy(point: str, number: int) -> None:
        if only is not None and (point, number) not in only:
            return
        left[point, number] = copies / f"{point}_{number}" / root.name
        copy_files(root, left[point, number])

    with watched(copy):
        yield left


def copy_files(place: Path, target: Path) -> None:
    """Copy all files and links as they are; one that another thread takes away meanwhile is not there."""
    target.mkdir(parents=True, exist_ok=True)
    shutil.copystat(place, target)
    for path in place.iterdir():
        with suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                copy_files(path, target / path.name)
            else:
                shutil.copy2(path, target / path.name, follow_symlinks=False)
