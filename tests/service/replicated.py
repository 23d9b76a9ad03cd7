"""Replicas behind HAProxy, as the command starts them, with what all of them write."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.engine.waiting import until
from tests.service.forked import Forked, forked


@dataclass(frozen=True)
class Replicated:
    """A parent process, and what it and its children write."""

    process: subprocess.Popen[str] | Forked
    root: Path
    log: Path
    uri: str

    def children(self) -> dict[str, int]:
        """The processes of the replicas, and of HAProxy, by their names."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        names = {}
        for number in found:
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                said = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
                names["haproxy" if said[0].endswith(b"haproxy") else number] = int(number)
        return names

    def replicas(self) -> list[int]:
        return [number for name, number in self.children().items() if name != "haproxy"]

    def until(self, message: str, count: int = 1) -> None:
        """Wait until the log has a message so many times."""

        def is_logged() -> bool:
            said = self.log.read_text()
            is_there = len(re.findall(message, said)) >= count
            assert is_there or self.process.poll() is None, said
            return is_there

        until(is_logged)


@contextmanager
def replicated(place: Path, *arguments: str) -> Iterator[Replicated]:
    place.mkdir(parents=True, exist_ok=True)
    ready, log, root = place / "ready", place / "log", place / "root"
    command = ["serve", str(root), "--create", "--replicas", "2", "--port", "0", "--ready-file", str(ready)]
    with forked([*command, "--log-format", "json", *arguments], log=log, out=log) as process:
        until(lambda: ready.exists() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield Replicated(process, root, log, ready.read_text())
