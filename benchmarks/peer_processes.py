"""The peers as processes: each with pinned packages in a virtual environment, driven by a class of `benchmarks.drivers`."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import servers

PATIENCE = 900.0
LONGEST_REASON = 300


class Unavailable(Exception):
    """A peer that cannot be installed, does not run or does not answer; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A driver as `module:class`, and the packages of the environment in which its peer runs.

    Where `is_client_ours`, the driver is a Flight client with our packages, and at most its server has its own.
    """

    driver: str
    packages: tuple[str, ...] = ()
    program: str = "benchmarks.drivers"
    is_client_ours: bool = False

    @property
    def directory(self) -> str:
        """A name for its directories."""
        return self.driver.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class PeerProcess:
    """A running driver, asked by calls."""

    process: subprocess.Popen[str]
    log: Path

    def __call__(self, verb: str, **arguments: object) -> Any:
        """Send a request and return its result: None where the peer has no such operation, `Unavailable` where it fails."""
        process = self.process
        if process.stdin is None or process.stdout is None:
            raise OSError(f"{process.args!r} has no pipes")
        with suppress(BrokenPipeError):  # the end of its output says the same
            process.stdin.write(json.dumps({"verb": verb, **arguments}) + "\n")
        if not select.select([process.stdout], [], [], PATIENCE)[0]:
            process.kill()
            raise Unavailable(f"{verb}: no reply within {PATIENCE:.0f} s")
        reply = json.loads(process.stdout.readline() or json.dumps({"error": _describe_end(self.log.read_text())}))
        if "error" in reply:
            raise Unavailable(f"{verb}: {' '.join(reply['error'].split())[:LONGEST_REASON]}")
        return reply["result"]


@contextmanager
def start_peer(peer: Peer, environments: Path, place: Path) -> Iterator[PeerProcess]:
    """Start a peer that works in the directory `place`, and stop it at the end; its environment is made unless one with these packages is there."""
    environment = _install(peer.packages, environments / peer.directory)
    python = sys.executable if peer.is_client_ours else str(environment / "bin" / "python")
    command = [python, "-m", peer.program, peer.driver, str(environment), str(place)]
    place.mkdir(exist_ok=True)
    log, pipe = place / "log", subprocess.PIPE
    with log.open("a") as errors:
        process = subprocess.Popen(
            command,
            cwd=servers.PROJECT,
            env=servers.environment(),
            stdin=pipe,
            stdout=pipe,
            stderr=errors,
            text=True,
            bufsize=1,
        )
    try:
        yield PeerProcess(process, log)
    finally:
        try:
            process.communicate(timeout=servers.PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()


def _install(packages: tuple[str, ...], place: Path) -> Path:
    pins, wanted = place / "pins", "\n".join(packages)
    if packages and not (pins.exists() and pins.read_text() == wanted):
        _uv("venv", "--clear", "--python", sys.executable, str(place))
        _uv("pip", "install", "--python", str(place / "bin" / "python"), *packages)
        pins.write_text(wanted)
    return place


def _uv(*arguments: str) -> None:
    try:
        subprocess.run(["uv", *arguments], check=True, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.CalledProcessError as exc:
        raise Unavailable(f"uv {arguments[0]}: {' '.join(exc.stderr.split())[:LONGEST_REASON]}") from exc
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Unavailable(f"uv {arguments[0]}: {exc}") from exc


def _describe_end(log: str) -> str:
    return f"the driver ended: {log.strip().rpartition(chr(10))[2]}"
