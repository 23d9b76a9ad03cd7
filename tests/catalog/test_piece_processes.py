"""Processes that do pieces of work: what comes back, and what is left of one that hangs or dies."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from lance_flight.catalog.bulk import pieces
from lance_flight.catalog.bulk.pieces import OOM_SCORE, PieceProcesses, Threads, check_stopped
from lance_flight.errors import Cancelled, DataError, LanceFlightError, OutOfMemory, QueryFailed


@dataclass(frozen=True, slots=True)
class Task:
    """A piece that does one of these things."""

    what: str
    size: int = 1

    def run(self) -> int:
        match self.what:
            case "prints":
                print("among the outcomes")  # noqa: T201 - it is what it does
            case "tells its score":
                return int(Path("/proc/self/oom_score_adj").read_text())
            case "fails":
                raise DataError("wrong")
            case "is killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "ends":
                os._exit(3)
            case "waits":
                while True:
                    check_stopped()
            case "hangs":
                # With the lock of the interpreter, as nothing but a kill ends.
                ctypes.PyDLL(None).pause()
        return os.getpid()

    def undo(self, _: int) -> None:
        """It has written nothing."""


@pytest.fixture(scope="module")
def processes() -> PieceProcesses:
    return PieceProcesses(least=1)


def test_a_small_piece_is_done_here_and_large_ones_in_one_process(processes: PieceProcesses) -> None:
    run = Threads(1, run=processes.run)
    here, there, again = run([Task("", size=0), Task("prints"), Task("")])
    assert here == os.getpid()
    assert there == again != here
    assert run([Task("tells its score")]) == [OOM_SCORE], "the system ends it before the server"


DEATHS = {"fails": (DataError, "wrong"), "is killed": (OutOfMemory, "was killed"), "ends": (QueryFailed, "status 3")}


@pytest.mark.parametrize("what", DEATHS)
def test_a_piece_that_fails_and_a_process_that_dies_end_nothing_but_the_piece(
    processes: PieceProcesses, what: str
) -> None:
    error, says = DEATHS[what]
    with pytest.raises(LanceFlightError, match=says) as raised:
        Threads(1, run=processes.run)([Task(what)])
    assert type(raised.value) is error
    assert Threads(1, run=processes.run)([Task("")]) != [os.getpid()]


@pytest.mark.parametrize("what", ["waits", "hangs"])
def test_a_piece_is_ended_wherever_it_is(processes: PieceProcesses, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(pieces, "STOP_SECONDS", 0.5 if what == "hangs" else 30.0)
    begun = threading.Event()

    def check() -> None:
        if begun.is_set():
            raise Cancelled("enough")
        begun.set()

    before = processes.run(Task(""), lambda: False)
    with pytest.raises(Cancelled, match="enough"):
        Threads(1, check, processes.run)([Task(what)])
    after = processes.run(Task(""), lambda: False)
    assert (after == before) == (what == "waits"), "one that ends by itself is used again"
