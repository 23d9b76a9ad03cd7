"""Commits of processes that end at a fault point."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence


def killed(script: str, arguments: Sequence[str], point: str) -> bool:
    """Run a script that is to die at a point; whether it did."""
    environment = os.environ | {"LANCE_FLIGHT_FAULT": point}
    return subprocess.run([sys.executable, "-c", script, *arguments], env=environment, timeout=120).returncode == -9  # noqa: PLW1510 - it dies
