"""Clients that are not Python's, built or fetched once and kept outside of the tree; the marks of tests of others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import go, java, node, rust
from tests.selection import IS_FULL
from tests.service.server_process import Server, serving

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lance-flight"


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks in LangChain's tests of chat models, which come along with those of vector stores."""
    for mark in ("benchmark", "vcr"):
        config.addinivalue_line("markers", f"{mark}: not used here")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for tests that look at tables of their own in it; those that list what there is have another one."""
    with serving(tmp_path_factory.mktemp("conformance") / "root") as running:
        yield running


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
def jdbc() -> Iterator[java.Jdbc]:
    """A JVM with the Flight SQL JDBC driver and our programs."""
    if not java.is_installed():
        _missing("a Java compiler or Maven")
    with java.running(CACHE) as found:
        yield found


@pytest.fixture(scope="session")
def node_packages() -> Path:
    """The Flight SQL clients of npm."""
    if not node.is_installed():
        _missing("Node or npm")
    return node.packages(CACHE)


@pytest.fixture(scope="session")
def rust_client() -> Path:
    """The client of the crate `arrow-flight`; it is built where everything is run, and used wherever it has been built."""
    client = rust.program(CACHE)
    if not client.exists():
        if not IS_FULL:
            pytest.skip("it is built with LANCE_FLIGHT_TESTS=full, which takes minutes")
        if not rust.is_installed():
            _missing("Cargo")
        rust.build(CACHE)
    return client


def go_program(package: str) -> Path:
    if not go.is_installed():
        _missing("Go")
    return go.built(package, CACHE)


def _missing(what: str) -> None:
    """Skip where somebody tries the tests without it, and fail where they have to pass."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{what} is not installed")
