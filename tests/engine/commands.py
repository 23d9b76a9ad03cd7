"""Runs of the command line within this process."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from lance_flight_client.cli import main


class Ended(NamedTuple):
    """How a command ended: its status, and what it has printed."""

    status: int
    out: str
    err: str


class Commands:
    """Runs `lance-flight`, whose output pytest captures."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *arguments: object) -> Ended:
        """Run a command to its end, whatever becomes of it."""
        self._capsys.readouterr()
        status = main(list(map(str, arguments)))
        return Ended(status, *self._capsys.readouterr())

    def printed(self, *arguments: object) -> list[str]:
        """Run a command that must succeed; return the lines that it prints."""
        ended = self.run(*arguments)
        assert (ended.status, ended.err) == (0, "")
        return ended.out.splitlines()
