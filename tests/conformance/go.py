"""Programs in Go, built once for a machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

MODULE = Path(__file__).parent / "adbc_go"
"""Its go.mod pins the versions of Arrow's integration client and of the ADBC driver."""

INTEGRATION_CLIENT = (
    "github.com/apache/arrow-go/v18/arrow/internal/flight_integration/cmd/arrow-flight-integration-client"
)
ADBC = "."
_PATIENCE = 600.0


def is_installed() -> bool:
    """Whether there is a Go that the modules can be built with."""
    return shutil.which("go") is not None


def built(package: str, cache: Path) -> Path:
    """A program of the module, or of one that it requires."""
    return _made("build", package, cache / "go" / package.rpartition("/")[2].replace(".", "adbc"))


def built_tests(cache: Path) -> Path:
    """The module's tests, as a program."""
    return _made("test", "-c", ADBC, cache / "go" / "adbc.test")


def source(package: str) -> Path:
    """The directory with the sources of a package, in the version that is pinned."""
    listed = ["go", "list", "-test", "-f", "{{.Dir}}", package]
    listing = subprocess.run(listed, check=True, timeout=_PATIENCE, cwd=MODULE, capture_output=True, text=True)
    return Path(listing.stdout.splitlines()[0])


def _made(*arguments: str | Path) -> Path:
    """Run a command of Go that makes a program of a package, the last two arguments being both; the program."""
    *command, package, program = arguments
    build = ["go", *command, "-o", program, package]
    subprocess.run(build, check=True, timeout=_PATIENCE, cwd=MODULE, env={**os.environ, "GOFLAGS": "-buildvcs=false"})
    return Path(program)
