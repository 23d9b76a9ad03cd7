"""Clients that are not Python's, built or fetched once and kept outside of the tree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conformance import go, java

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lance-flight"


@pytest.fixture(scope="session")
def integration_client() -> Path:
    """The client of Arrow's integration scenarios, in Go."""
    return go_program(go.INTEGRATION_CLIENT)


@pytest.fixture(scope="session")
def adbc_program() -> Path:
    """Our program over the ADBC driver in Go."""
    return go_program(go.ADBC)


@pytest.fixture(scope="session")
def adbc_validation() -> Path:
    """ADBC's validation suite, over its driver in Go."""
    if not go.is_installed():
        _missing("Go")
    return go.built_tests(CACHE)


@pytest.fixture(scope="session")
def jdbc_driver() -> Path:
    """The Flight SQL JDBC driver."""
    if not java.is_installed():
        _missing("a Java compiler or Maven")
    return java.driver(CACHE)


def go_program(package: str) -> Path:
    if not go.is_installed():
        _missing("Go")
    return go.built(package, CACHE)


def _missing(what: str) -> None:
    """Skip where somebody tries the tests without it, and fail where they have to pass."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{what} is not installed")
