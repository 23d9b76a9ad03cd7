"""Processes of Spark's, waited for and killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
_TICK, _TICKS = 0.1, 1200


def wait_until(is_reached: Callable[[], bool], process: subprocess.Popen[Any]) -> None:
    """Wait for what a process is about to do; the test fails if it ends before."""
    for _ in range(_TICKS):
        if is_reached():
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TICK)
            pytest.fail(f"the process ended too early: {process.args}: {process.communicate()[1]}")
    pytest.fail(f"the process did not come to it: {process.args}")


def kill_session(session: int) -> None:
    """Kill everything that a process has started, whatever process groups Spark has made for it."""
    for entry in Path("/proc").iterdir():
        with suppress(ValueError, ProcessLookupError, FileNotFoundError):
            if os.getsid(int(entry.name)) == session:
                os.kill(int(entry.name), signal.SIGKILL)


def descendants(module: str) -> list[int]:
    """Return the processes below this one that run a Python module."""
    found, below = [], [os.getpid()]
    while below:
        tasks = Path(f"/proc/{below.pop()}/task")
        children = [int(pid) for task in tasks.glob("*/children") for pid in task.read_text().split()]
        found += [pid for pid in children if module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
        below += children
    return found


def with_pyspark(version: str) -> list[str]:
    """Return the command of the project's Python with another version of PySpark."""
    return ["uv", "run", "--no-sync", "--with", f"pyspark=={version}", "python"]


def said_by_python(python: Sequence[str], code: str) -> str:
    """Return what a program prints in a Python."""
    run = subprocess.run([*python, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    return run.stdout.strip()
