"""A server below its parent, as the command starts it, with what both write."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.service.forked import Forked, forked
from tests.service.server_process import COMMAND


@dataclass(frozen=True)
class Supervised:
    """A parent process, and what it and its servers write."""

    process: subprocess.Popen[str] | Forked
    log: Path
    ready_file: Path

    def next_uri(self) -> str:
        """The address that the next server to accept connections says."""
        while not (told := self.next_told()).startswith("serving"):
            pass
        while not self.ready_file.exists():
            assert self.process.poll() is None
        return told.split()[-1]

    def next_told(self) -> str:
        """The next message on standard output."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        return str(json.loads(line)["message"])

    @property
    def child(self) -> int:
        """The process of the server."""
        (child,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(child)

    def events(self) -> list[dict[str, object]]:
        """What the parent has logged."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["logger"] == "lance_flight.serving.supervisor"]


@contextmanager
def supervised(place: Path, *arguments: str, is_forked: bool = True) -> Iterator[Supervised]:
    """A parent that is forked, or the command itself for who looks at what it has loaded."""
    (place / "root").mkdir(parents=True)
    log, ready = place / "log", place / "ready"
    command = [
        "serve",
        str(place / "root"),
        "--port",
        "0",
        "--ready-file",
        str(ready),
        "--log-format",
        "json",
        *arguments,
    ]
    with forked(command, log=log, is_piped=True) if is_forked else _command(command, log) as process:
        yield Supervised(process, log, ready)


@contextmanager
def _command(arguments: Sequence[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    with (
        log.open("w") as errors,
        subprocess.Popen([COMMAND, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            yield process
        finally:
            process.kill()
