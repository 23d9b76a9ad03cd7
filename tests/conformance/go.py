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
    program = cache / "go" / package.rpartition("/")[2].replace(".", "adbc")
    build = ["go", "build", "-o", str(program), package]
    subprocess.run(build, check=True, timeout=_PATIENCE, cwd=MODULE, env={**os.environ, "GOFLAGS": "-buildvcs=false"})
    return program
