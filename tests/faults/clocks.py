"""Processes whose clock is wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

SOURCE = Path(__file__).with_name("skewed_clock.c")


@cache
def _library() -> str | None:
    """The library that is preloaded, compiled; None without a compiler for C."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    made = Path(mkdtemp(prefix="skewed-clock-"), "skewed_clock.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, SOURCE, "-ldl"], check=True)
    return str(made)


def skewed(hours: float) -> Mapping[str, str]:
    """The environment of a process whose clock differs from that of the files by some hours; skips without a compiler."""
    library = _library()
    if library is None:
        pytest.skip("there is no compiler for C")
    return os.environ | {"LD_PRELOAD": library, "SKEWED_CLOCK_SECONDS": f"{hours * 3600:.0f}"}
