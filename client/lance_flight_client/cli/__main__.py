"""The command `lance-flight` in a process of its own, also by `python -m lance_flight_client.cli`.

Imports of installed libraries that a command does not use, or not yet, are blocked or put off.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader, spec_from_loader
from types import ModuleType

from lance_flight_client.cli import main
from lance_flight_client.terminal import guard_terminals


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


_OF_ENGINE = {"--root", "--types", "--partition-by", "--suggest", "--where"}
"""Options of `ingest`, `export` and `inspect` that need the storage library or the engine."""

_SHORT = {"inspect", "sql", "ingest", "export"}
"""Commands that end soon."""
_MANY_OBJECTS = 20_000
"""New objects after which garbage is looked for: the imports make so many that it takes a tenth of their time."""


def run() -> int:
    """Run one command, without the imports that pyarrow and ADBC would make of pandas, Polars and numpy where these are installed.

    ADBC imports Arrow's datasets as well: a third of the time that a query of one row takes. Lance and the engine alone need numpy.
    """
    keep_out("pandas")
    keep_out("polars")
    if _only_asks(sys.argv[1:]):
        keep_out("numpy")
        # Two threads that use such a library first at one time fail: Python's `LazyLoader` has no lock before 3.12.
        put_off("pyarrow.dataset")
    if sys.argv[1:2] == ["inspect"] and not _named(sys.argv[1:]) & _OF_ENGINE:
        # Arrow's datasets import it where it is installed.
        keep_out("substrait")
    is_short = bool(sys.argv[1:2]) and sys.argv[1] in _SHORT
    if is_short:
        gc.set_threshold(_MANY_OBJECTS)
        # The thread for each core that numpy starts at its import has nothing to multiply.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    guard_terminals()
    try:
        return main()
    finally:
        if is_short:
            # The last collections of the interpreter pass over what is frozen: a tenth of the command's time.
            gc.freeze()


def _only_asks(arguments: Sequence[str]) -> bool:
    """Return whether a command talks to a server alone, without the storage library or the engine in this process."""
    return arguments[:1] == ["sql"] or (
        arguments[:1] in (["ingest"], ["export"]) and not _named(arguments) & _OF_ENGINE
    )


def _named(arguments: Sequence[str]) -> set[str]:
    """Return the arguments, of options with a value the option alone."""
    return {argument.partition("=")[0] for argument in arguments}


if __name__ == "__main__":
    sys.exit(run())
