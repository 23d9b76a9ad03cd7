"""Blocks or puts off the import of an installed library that this process does not use, or not yet."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader, spec_from_loader
from types import ModuleType


class _Absent(MetaPathFinder, Loader):
    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        raise ModuleNotFoundError(f"{self._name} is kept out of this process", name=self._name)


def keep_out(name: str) -> None:
    """Make every import of a library fail from now on, as if it were not installed."""
    sys.meta_path.insert(0, _Absent(name))


class _Late(MetaPathFinder):
    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def put_off(name: str) -> None:
    """Load a library when something of it is first used, in place of when it is imported."""
    sys.meta_path.insert(0, _Late(name))
