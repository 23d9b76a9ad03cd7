"""The peers as processes: each with a virtual environment of pinned packages, driven by a program of `benchmarks.drivers`."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks import servers

PATIENCE = 600.0
WORDS_OF_A_REASON = 300


class Unavailable(Exception):
    """A peer that cannot be installed, does not run or does not answer; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A program of `benchmarks.drivers`, and the packages of the environment in which its peer runs.

    Where `is_client_ours`, the program itself is the Flight client of the benchmarks and runs with our packages; at most its server has its own.
    """

    driver: str
    packages: tuple[str, ...] = ()
    is_client_ours: bool = False

    def install(self, environments: Path) -> Path:
        """Make the environment unless one with these packages is there."""
        place = environments / self.driver
        pins, wanted = place / "pins", "\n".join(self.packages)
        if not pins.exists() or pins.read_text() != wanted:
            _uv("venv", "--clear", "--python", sys.executable, str(place))
            if self.packages:
                _uv("pip", "install", "--python", str(place / "bin" / "python"), *self.packages)
            pins.write_text(wanted)
        return place


class PeerProcess:
    """A driver that runs in an own directory; a call is one request, and its result is None where the peer has no such operation."""

    def __init__(self, peer: Peer, environments: Path, place: Path) -> None:
        environment = peer.install(environments)
        place.mkdir()
        python = sys.executable if peer.is_client_ours else str(environment / "bin" / "python")
        self._log = (place / "log").open("w")
        self._process = subprocess.Popen(
            [python, "-m", f"benchmarks.drivers.{peer.driver}", str(environment), str(place)],
            cwd=servers.PROJECT,
            env=servers.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            bufsize=1,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._process.communicate(timeout=servers.PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()

    def __call__(self, verb: str, **arguments: object) -> Any:
        """The result of a request, as JSON gives it."""
        try:
            reply = self._exchange({"verb": verb, **arguments})
        except BrokenPipeError:
            reply = ""
        if not reply:
            last = Path(self._log.name).read_text().strip().rpartition("\n")[2]
            raise Unavailable(f"the driver ended: {last[:WORDS_OF_A_REASON]}")
        answer = json.loads(reply)
        if "error" in answer:
            raise Unavailable(f"{verb}: {answer['error'][:WORDS_OF_A_REASON]}")
        return answer["result"]

    def _exchange(self, request: dict[str, object]) -> str:
        sent, received = self._process.stdin, self._process.stdout
        if sent is None or received is None:
            raise OSError(f"{self._process.args!r} has no pipes")
        sent.write(json.dumps(request) + "\n")
        if not select.select([received], [], [], PATIENCE)[0]:
            self._process.kill()
            raise Unavailable(f"{request['verb']}: no reply within {PATIENCE:.0f} s")
        return received.readline()


def _uv(*arguments: str) -> None:
    try:
        subprocess.run(["uv", *arguments], check=True, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError) as exc:
        told = getattr(exc, "stderr", None) or str(exc)
        reason = " ".join(str(told).split())[:WORDS_OF_A_REASON]
        raise Unavailable(f"uv {arguments[0]} failed: {reason}") from exc
