"""Both servers as processes of their own, with the same environment, and the memory that they took."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]
CORES = os.cpu_count() or 1
_TICK_MILLISECONDS = 1000 // os.sysconf("SC_CLK_TCK")
PATIENCE = 60.0
TICK = 0.02


@dataclass(frozen=True, slots=True)
class Server:
    """A server that accepts connections."""

    uri: str
    pid: int

    def peak_bytes(self) -> int:
        """The most memory that was resident at once since the process began."""
        return memory(self.pid, "VmHWM")


def cpu_by_thread(pid: int) -> Counter[str]:
    """Milliseconds of a core that a process has taken so far, by the names of its threads."""
    taken = Counter[str]()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread may end meanwhile
            name, _, state = (task / "stat").read_text().partition("(")[2].rpartition(") ")
            user, system = state.split()[11:13]
            taken[name] += (int(user) + int(system)) * _TICK_MILLISECONDS
    return taken


def cpu(pid: int) -> float:
    """Seconds of a core that a process has taken so far, with those of threads that have ended."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, state[11:13])) * _TICK_MILLISECONDS / 1000


def memory(pid: int, name: str) -> int:
    """Bytes that Linux states of a process: `VmRSS` is resident now, `VmHWM` was at most."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{pid}/status has no {name}")


@contextmanager
def ours(root: Path, *arguments: str, log: Path | None = None) -> Iterator[Server]:
    """`lance-flight serve` over `root`, as a user starts it; what it logs goes to `log`, if there is one."""
    with _process(
        ["lance_flight_client.cli", "serve", "--no-supervise", "--create", str(root), "--port", "0", *arguments], log
    ) as server:
        yield server


@contextmanager
def replicas(root: Path, number: int) -> Iterator[Server]:
    """As many of ours over `root` behind one address."""
    with _process(["lance_flight_client.cli", "serve", str(root), "--port", "0", "--replicas", str(number)]) as server:
        yield server


@contextmanager
def bare() -> Iterator[Server]:
    """The peer of `bare.py`."""
    with _process(["benchmarks.bare"]) as server:
        yield server


@contextmanager
def _process(module: Sequence[str], log: Path | None = None) -> Iterator[Server]:
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="lance-flight-bench-") as place:
        ready = Path(place) / "ready"
        command = [sys.executable, "-m", *module, "--ready-file", str(ready)]
        errors = None if log is None else stack.enter_context(log.open("w"))
        with subprocess.Popen(
            command, cwd=PROJECT, env=environment(), stdout=subprocess.DEVNULL, stderr=errors
        ) as process:
            try:
                yield Server(_uri(ready, process), process.pid)
            finally:
                process.terminate()
                try:
                    process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()


def environment() -> dict[str, str]:
    """Ours for all: Lance may decode on every core, modules are compiled once, and nothing that this process set for its own engine."""
    left = ("TOKIO_WORKER_THREADS", "PYTHONDONTWRITEBYTECODE")
    inherited = {name: value for name, value in os.environ.items() if name not in left}
    return inherited | {"LANCE_CPU_THREADS": str(CORES)}


def _uri(ready: Path, process: subprocess.Popen[bytes]) -> str:
    """What the ready file says, as soon as there is one."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if ready.exists():
            return ready.read_text()
        if process.poll() is not None:
            raise OSError(f"{process.args!r} exited with {process.returncode} before it was ready")
        time.sleep(TICK)
    raise OSError(f"{process.args!r} was not ready within {PATIENCE:.0f} s")
