"""How long property tests look, and what tests count.

A small fixed sample by default, many random examples with LANCE_FLIGHT_TESTS=full.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.slow_tests import is_slow

# Hundreds of processes are started, and each would compile all that it imports anew where that is not kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("PYTHONPYCACHEPREFIX", str(Path(__file__).parent.parent / ".pytest_cache" / "bytecode"))

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "sample", max_examples=45, deadline=None, derandomize=True, database=None, suppress_health_check=_SLOW
)
settings.register_profile("full", max_examples=3000, deadline=None, suppress_health_check=_SLOW)
IS_FULL = os.environ.get("LANCE_FLIGHT_TESTS") == "full"
settings.load_profile("full" if IS_FULL else "sample")

_SAID = "said"


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Puts a line of counts below the summary of the run, whichever worker the test ran in."""
    return lambda line: request.node.user_properties.append((_SAID, line))


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.slow)
        if IS_FULL and item.get_closest_marker("timeout") is None:
            # Thousands of examples take longer than a test that hangs may.
            item.add_marker(pytest.mark.timeout(0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, line in report.user_properties if report.when == "call" else ():
                if name == _SAID:
                    terminalreporter.write_line(line)
