"""Processes of the command that are forked from one that has imported all that they need, a second of each.

They are what the command starts: a process with arguments, an environment and standard streams of its own, which signals reach.
Only its command line and what is mapped into it are not as there: a test that looks at them starts the command.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

_CONTEXT: Any = get_context("forkserver")
_CONTEXT.set_forkserver_preload([
    "tests.service.preloaded",
    # A child imports the main module of its parent once more, which is pytest's where there are no workers.
    *(["pytest"] if hasattr(sys.modules["__main__"], "__file__") else []),
])  # fmt: skip

_CONSTANTS = "LANCE_FLIGHT_TESTS_CONSTANTS"


def constants(values: Mapping[str, float]) -> dict[str, str]:
    """The environment of a process in which constants of the package, `module.NAME`, are shorter than a test would wait."""
    return os.environ | {_CONSTANTS: json.dumps(values)}


@cache
def _start_forking() -> None:
    """Start what processes are forked from: it imports `tests` from its directory, wherever a test has gone."""
    with chdir(Path(__file__).parents[2]):
        ensure_running()


class Forked:
    """A process that runs the command `lance-flight`, as `subprocess.Popen` shows one.

    It reads what the file `given` holds, and writes to the files `out` and `log`; what `is_piped` comes out of `stdout`.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        given: Path | None = None,
        out: Path | None = None,
        log: Path | None = None,
        folder: Path | None = None,
        is_piped: bool = False,
    ) -> None:
        _start_forking()
        self.args = list(arguments)
        self.stdout: TextIO | None = None
        variables = dict(os.environ if environment is None else environment)
        files = [None if file is None else str(file) for file in (given, out, log)]
        reads, writes = _CONTEXT.Pipe(duplex=False) if is_piped else (None, None)
        told = (self.args, variables, str(folder or Path.cwd()), files, writes)
        self._process = _CONTEXT.Process(target=_run, args=told, daemon=True)
        self._process.start()
        if reads is not None and writes is not None:
            self.stdout = os.fdopen(os.dup(reads.fileno()))
            reads.close()
            writes.close()
        self.pid: int = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stdout is not None:
            self.stdout.close()
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


@contextmanager
def forked(arguments: Sequence[str], **options: Any) -> Iterator[Forked]:
    """A process that is killed at the end of the block."""
    with Forked(arguments, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def _run(
    arguments: list[str], variables: dict[str, str], directory: str, files: list[str | None], pipe: Connection | None
) -> None:
    """Be the command, in a process that was forked for it."""
    preloaded = importlib.import_module("tests.service.preloaded")
    for name in set(os.environ) - preloaded.OWN - variables.keys():
        del os.environ[name]
    os.environ.update(variables)
    os.chdir(directory)
    given, out, log = files
    os.dup2(os.open(given or os.devnull, os.O_RDONLY), 0)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - it is open until the process ends
    if pipe is None:
        _write_to(out or os.devnull, 1)
    else:
        os.dup2(pipe.fileno(), 1)
        pipe.close()
    if log is not None:
        _write_to(log, 2)
    importlib.reload(importlib.import_module("lance_flight.faults"))  # which reads its variable as it is imported
    for name, value in json.loads(variables.get(_CONSTANTS, "{}")).items():
        module, _, constant = name.rpartition(".")
        place = importlib.import_module(f"lance_flight.{module}")
        if not hasattr(place, constant):
            raise AttributeError(f"lance_flight.{module} has no {constant}")
        setattr(place, constant, value)
    sys.argv = ["lance-flight", *arguments]
    sys.exit(importlib.import_module("lance_flight_client.cli").main(arguments))


def _write_to(file: str, stream: int) -> None:
    """Let a standard stream go to a new file, which may be that of the other one as well."""
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
    os.dup2(opened, stream)
    os.close(opened)
