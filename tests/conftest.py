"""How the suite runs: which cases, in which order, how long properties look, and what tests count."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Hashable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from lance_flight import machine
from xdist.scheduler import LoadFileScheduling

from tests.selection import ALL, IS_FULL, PAIR, SPARK_SESSION, covering, is_long, is_slow_place, some_of

# Hundreds of processes are started, and each would compile all that it imports anew where that is not kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("PYTHONPYCACHEPREFIX", str(Path(__file__).parent.parent / ".pytest_cache" / "bytecode"))
# Nothing here multiplies matrices, and each process that imports numpy would keep a core busy for a while waiting for that.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Else a worker of Ray begins by `uv run`, as pytest did, with a copy of all that lies here and an environment of its own.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")

# A flush of the device waits for what all workers write. What it protects is tried in faults/test_power_cuts.
os.environ.setdefault("LANCE_FLIGHT_DURABILITY", "none")

# Tests write hundreds of thousands of small files, which a file system in memory makes in half of the time.
IN_MEMORY, ROOM = Path("/dev/shm"), 6 << 30
if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > ROOM and machine.memory() > 2 * ROOM:
    tempfile.tempdir = str(IN_MEMORY)

# Nothing that is collected is garbage, and the collector reads all of it again and again.
gc.disable()

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "sample", max_examples=45, deadline=None, derandomize=True, database=None, suppress_health_check=_SLOW
)
settings.register_profile("full", max_examples=3000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile("full" if IS_FULL else "sample")

_SAID = "said"


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Puts a line of counts below the summary of the run, whichever worker the test ran in."""
    return lambda line: request.node.user_properties.append((_SAID, line))


class OneSpark(LoadFileScheduling):
    """Gives whole modules to a worker, and all that share a Spark session to one."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.partition("::")[0] in SPARK_SESSION else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSpark | None:
    return OneSpark(config, log) if config.getoption("dist") == "loadfile" else None


def turn(item: pytest.Item) -> int:
    """When a test is given to a worker: what takes long comes first, so that no worker waits for it at the end."""
    return 0 if item.nodeid.partition("::")[0] in SPARK_SESSION else 1 if item.get_closest_marker("slow") else 2


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow_place(item.path):
            item.add_marker(pytest.mark.slow)
        if IS_FULL and item.get_closest_marker("timeout") is None:
            # Thousands of examples take longer than a test that hangs may.
            item.add_marker(pytest.mark.timeout(0))
    if not IS_FULL:
        _deselect(config, items)
    for item in items:
        if is_long(item.path):
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):
        items.sort(key=turn)


def _deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests, and the cases of tests, that the default run does not take."""
    kept: set[pytest.Item] = set()
    some = [item for item in items if item.get_closest_marker("full") is None]
    for _, each in groupby(some, key=lambda item: item.nodeid.partition("[")[0]):
        cases = list(each)
        sample, is_slow = cases[0].get_closest_marker("sample"), cases[0].get_closest_marker("slow") is not None
        count = sample.args[0] if sample is not None else some_of(cases[0].path) if is_slow else ALL
        if count < ALL or len(values(cases[0])) > PAIR:
            cases = [cases[place] for place in covering([values(case) for case in cases], count)]
        kept.update(cases)
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def values(item: pytest.Item) -> Sequence[Hashable]:
    """The value that a case takes of each of its test's tables: those of `parametrize`, and fixtures with parameters."""
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    tables = [mark.args[0] for mark in item.iter_markers("parametrize")]
    names = [tuple(names.replace(" ", "").split(",")) if isinstance(names, str) else tuple(names) for names in tables]
    names += [(name,) for name in given if not any(name in each for each in names)]
    return [tuple(id(given[name]) for name in each if name in given) for each in names]


def pytest_collection_finish() -> None:
    gc.freeze()
    # Each look of the collector at what the tests of a module share costs as much as several statements.
    gc.set_threshold(200_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    # PySpark's loggers give each handler their own format, and pytest adds its handler to those that do not propagate.
    logs = item.config.pluginmanager.get_plugin("logging-plugin")
    if logs is not None:
        logs.caplog_handler.setFormatter(logs.formatter)


class FailuresAtOnce:
    """Prints each failure when it happens, so that a run that ends early has named what failed."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            said = report.longreprtext.strip().splitlines()[-40:]
            self._terminal.write_line("\n".join(["", f"FAILED at {report.when}: {report.nodeid}", *said]))


@pytest.hookimpl(trylast=True)  # once the terminal reporter is there
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce(terminal))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, line in report.user_properties if report.when == "call" else ():
                if name == _SAID:
                    terminalreporter.write_line(line)
