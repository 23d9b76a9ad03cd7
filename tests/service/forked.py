"""Server processes that are forked from one that has imported all that they need, half a second of each.

They are what the command starts: a process with arguments, an environment and standard error of its own, which signals reach.
Only its command line and what is mapped into it are not as there: a test that looks at them starts the command.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_CONTEXT: Any = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.service.preloaded"])


class Forked:
    """A process that runs the command `lance-flight`, as `subprocess.Popen` shows one."""

    stdout = None

    def __init__(self, arguments: Sequence[str], *, environment: Mapping[str, str] | None, log: Path | None) -> None:
        self.args = list(arguments)
        variables = dict(os.environ if environment is None else environment)
        told = (self.args, variables, str(Path.cwd()), None if log is None else str(log))
        self._process = _CONTEXT.Process(target=_run, args=told, daemon=True)
        self._process.start()
        self.pid: int = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wait()

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        """How it has ended: its status, or the signal as a negative number; None while it runs."""
        code: int | None = self._process.exitcode
        return code

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def _run(arguments: list[str], variables: dict[str, str], directory: str, log: str | None) -> None:
    """Be the command, in a process that was forked for it."""
    preloaded = importlib.import_module("tests.service.preloaded")
    for name in set(os.environ) - preloaded.OWN - variables.keys():
        del os.environ[name]
    os.environ.update(variables)
    os.chdir(directory)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    if log is not None:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), 2)
    importlib.reload(importlib.import_module("lance_flight.faults"))  # which reads its variable as it is imported
    sys.argv = ["lance-flight", *arguments]
    sys.exit(importlib.import_module("lance_flight.cli").main(arguments))
