"""Clients that are not Python's, built once and kept outside of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conformance import java

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lance-flight"

ARROW_GO = "v18.8.0"
_INTEGRATION_CLIENT = (
    "github.com/apache/arrow-go/v18/arrow/internal/flight_integration/cmd/arrow-flight-integration-client"
)
_BUILD_SECONDS = 600


@pytest.fixture(scope="session")
def integration_client() -> Path:
    """The client of Arrow's integration scenarios, in Go."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    built = CACHE / f"arrow-go-{ARROW_GO}"
    client = built / "arrow-flight-integration-client"
    if not client.exists():
        install = ["go", "install", f"{_INTEGRATION_CLIENT}@{ARROW_GO}"]
        subprocess.run(install, check=True, timeout=_BUILD_SECONDS, env={**os.environ, "GOBIN": str(built)})
    return client


@pytest.fixture(scope="session")
def jdbc_driver() -> Path:
    """The Flight SQL JDBC driver."""
    if not java.is_installed():
        pytest.skip("a Java compiler or Maven is not installed")
    return java.driver(CACHE)
