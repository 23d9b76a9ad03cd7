"""A server below its parent: it comes back after a crash and a hang, at the same address, and ends as it did without one."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import pytest
from lance_flight.flight.wire import GetTableTypes
from lance_flight.serving.supervisor import MOST_QUICK
from pyarrow import flight

from tests.engine.waiting import until
from tests.flight.statements import descriptor, reader
from tests.selection import IS_FULL
from tests.service.server_process import Server
from tests.service.supervised import Supervised, supervised

PATIENCE = 60.0
KILOBYTES = 40_000
"""More than an interpreter that parses arguments takes, and a quarter of what a server does."""
ASKED = 40 if IS_FULL else 12
TABLE_TYPES = descriptor(GetTableTypes())


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Supervised]:
    with supervised(tmp_path / "place") as found:
        yield found


def answers(uri: str) -> bool:
    with flight.connect(uri) as client:
        # Not ListActions: pyarrow interrupts this process where that is cancelled, as by a server that is stopping.
        return client.get_flight_info(TABLE_TYPES, flight.FlightCallOptions(timeout=PATIENCE)) is not None


def test_a_server_that_crashes_or_hangs_comes_back_at_the_same_address(tmp_path: Path) -> None:
    with supervised(tmp_path / "place", "--admin-port", "0", "--unresponsive-after", "2") as running:
        admin, uri = running.next_told().split()[-1], running.next_uri()
        for number in (signal.SIGSEGV, signal.SIGKILL, signal.SIGSTOP):
            before = running.child
            running.ready_file.unlink()
            os.kill(before, number)
            assert running.next_uri() == uri
            assert answers(uri)
            assert running.child != before
        with urlopen(admin + "/metrics", timeout=PATIENCE) as page:  # noqa: S310 - our own server
            counted = dict(re.findall(r'lance_flight_restarts_total\{reason="(\w+)"\} ([\d.]+)', page.read().decode()))
        assert counted == {"crash": "2.0", "unresponsive": "1.0"}
        assert running.ready_file.read_text() == uri
        assert [(event["level"], event["message"]) for event in running.events()] == [
            ("error", "the server was ended by SIGSEGV; it is started again, restart 1"),
            ("error", "the server was ended by SIGKILL; it is started again, restart 2"),
            ("error", "the server has not answered for 2 seconds (unresponsive_after)"),
            ("error", "the server was ended by SIGKILL; it is started again, restart 3"),
        ]
        running.process.terminate()
        assert running.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_parent_ends_the_server_as_one_to_the_server_did(
    running: Supervised, number: signal.Signals
) -> None:
    running.next_uri()
    running.process.send_signal(number)
    assert running.process.wait(PATIENCE) == 0
    assert running.events() == []


def test_a_second_signal_ends_at_once(running: Supervised) -> None:
    uri = running.next_uri()
    server = Server(Path(), uri, running.process)
    server.run("CREATE TABLE many AS SELECT a.value AS id FROM range(3000000) AS a")
    with flight.connect(uri) as client:
        rows = reader(client, "SELECT id, id + 1, id + 2 FROM many")
        rows.read_chunk()  # the stream stays open
        server.close()
        running.process.terminate()
        until(lambda: not is_taking_calls(uri))
        running.process.terminate()
        assert running.process.wait(PATIENCE) == 128 + signal.SIGTERM


def is_taking_calls(uri: str) -> bool:
    try:
        return answers(uri)
    except flight.FlightUnavailableError:
        return False


def test_the_server_is_asked_through_its_parent_where_its_threads_are(running: Supervised) -> None:
    running.next_uri()
    running.process.send_signal(signal.SIGUSR1)
    while "serve_until" not in running.log.read_text():  # of the main thread, which is written last
        assert running.process.poll() is None
    assert "most recent call first" in running.log.read_text()


def test_a_busy_server_goes_on_that_is_asked_where_its_threads_are(running: Supervised) -> None:
    uri = running.next_uri()
    child, is_over = running.child, threading.Event()

    def call() -> None:
        with flight.connect(uri) as client:
            while not is_over.is_set():
                client.get_flight_info(TABLE_TYPES, flight.FlightCallOptions(timeout=PATIENCE))
            client.get_flight_info(TABLE_TYPES, flight.FlightCallOptions(timeout=PATIENCE))  # after all was asked

    with ThreadPoolExecutor(4) as pool:
        callers = [pool.submit(call) for _ in range(4)]
        try:
            for asked in range(1, ASKED + 1):
                os.kill(child, signal.SIGUSR1)
                while running.log.read_text().count("in serve_until") < asked:
                    assert running.child == child
        finally:
            is_over.set()
        for caller in callers:
            caller.result(PATIENCE)


def test_no_server_is_left_where_its_parent_is_killed(running: Supervised) -> None:
    uri = running.next_uri()
    child = os.pidfd_open(running.child)
    running.process.kill()
    assert select.select([child], [], [], PATIENCE)[0] == [child]
    os.close(child)
    with socket.socket() as taking:
        # Connections that were open may linger; a listener would refuse this all the same.
        taking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taking.bind(("127.0.0.1", int(uri.rpartition(":")[2])))


def test_the_parent_has_loaded_nothing_of_what_serves(tmp_path: Path) -> None:
    with supervised(tmp_path / "place", is_forked=False) as running:
        running.next_uri()
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        (resident,) = re.findall(r"VmRSS:\s+(\d+) kB", status)
        assert int(resident) < KILOBYTES
        mapped = Path(f"/proc/{running.process.pid}/maps").read_text()
        assert [name for name in ("arrow", "lance", "datafusion", "numpy", "grpc") if f"{name}/" in mapped] == []


ENDINGS = [
    pytest.param("os.abort()", MOST_QUICK, 134, id="crashes at once"),
    pytest.param("life.report_ready({}); os.abort()", MOST_QUICK, 134, id="crashes when it is ready"),
    pytest.param("life.report_ready({}); return 3", MOST_QUICK, 3, id="fails when it is ready"),
    pytest.param("return 3", 1, 3, id="refuses to start"),
    pytest.param("return 0", 1, 0, id="ends"),
    pytest.param("life.report_ready({}); return 0", 1, 0, id="ends when it is ready"),
    pytest.param("if sum(life.restarts.values()) < 2: os.abort()\n return 0", 3, 0, id="crashes twice, and ends"),
    pytest.param("if any(life.restarts.values()): return 3\n os.abort()", MOST_QUICK, 3, id="is refused after a crash"),
    ("time.sleep(60) if life.restarts['unresponsive'] == 0 and life.report_ready({}) is None else 0\n return 0", 2, 0),
    pytest.param("assert dict(life.ports) == ({} if not any(life.restarts.values()) else {'port': 7})\n"
                 " life.report_ready({'port': 7})\n if sum(life.restarts.values()) < 2: os.abort()\n return 0", 3, 0,
                 id="keeps its ports"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "runs", "status"), ENDINGS)
def test_how_often_a_server_is_started(tmp_path: Path, body: str, runs: int, status: int) -> None:
    code = (
        "import os, sys, time\nfrom lance_flight.serving.supervisor import supervise\n"
        f"def serve(life):\n os.write(3, b'.')\n {body}\n"
        "sys.exit(supervise(serve, unresponsive_after=0.4))\n"
    )
    counted, ended = run_counted([sys.executable, "-c", code], tmp_path / "runs")
    assert (counted, ended) == (runs, status)


def run_counted(command: Sequence[str], file: Path) -> tuple[int, int]:
    """How often a command has written to its descriptor 3, and its exit status."""
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" 3>>"$0"', str(file), *command], timeout=PATIENCE, check=False, capture_output=True
    )
    return file.stat().st_size, ended.returncode


def report_of(script: str) -> list[str]:
    """What a script says that runs a `Supervisor`, its children's words included, and its exit status last."""
    code = (
        "import os, signal, sys, threading, time\nfrom lance_flight.serving.supervisor import ChildSpec\nfrom lance_flight.serving.supervisor import Supervisor, end_with\n"
        "def say(text):\n os.write(1, f'{text}\\n'.encode())\n" + script
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], timeout=PATIENCE, check=False, stdout=subprocess.PIPE, text=True
    )
    return [*ended.stdout.splitlines(), str(ended.returncode)]


REPLACED = """
def server(number):
    def run(life):
        asked = threading.Event()
        signal.signal(signal.SIGUSR2, lambda *_: asked.set())
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        life.report_ready({})
        asked.wait()
        life.beat()
        say(f'{number} ends')
        return 0
    return run

def joins(number):
    say(f'{number} joins')
    counted.append(number)
    if len(counted) in (2, 4):
        os.kill(os.getpid(), signal.SIGUSR2 if len(counted) == 2 else signal.SIGTERM)

counted = []
children = [
    ChildSpec(name=str(n), run=server(n), joins=lambda n=n: joins(n), leaves=lambda n=n: say(f'{n} leaves')) for n in (1, 2)
]
sys.exit(end_with(Supervisor(children, 0).run()))
"""


def test_a_server_that_still_answers_while_it_is_replaced_does_not_count_as_back() -> None:
    first, second, *said = report_of(REPLACED)
    assert {first, second} == {"1 joins", "2 joins"}
    assert said == [f"{n} {does}" for n in (1, 2) for does in ("leaves", "ends", "joins")] + ["0"]


STOPPED = {
    "as a server is about to be started": """
mask = signal.pthread_sigmask
def masked(how, numbers):
    if how == signal.SIG_BLOCK:
        os.kill(os.getpid(), signal.SIGTERM)
    mask(how, numbers)
signal.pthread_sigmask = masked
Supervisor([ChildSpec(name="it", run=lambda life: signal.pause())], 0).run()
""",
    "as a server is started": """
fork = os.fork
def forked():
    os.kill(os.getpid(), signal.SIGTERM)
    return fork()
os.fork = forked
Supervisor([ChildSpec(name="it", run=lambda life: signal.pause())], 0).run()
""",
    "while none of the servers behind a front runs": """
def server(life):
    if not any(life.restarts.values()):
        life.report_ready({})
        signal.pause()
    os.abort()
def front_is_ready():
    supervisor._children[0].send(signal.SIGKILL)
    return True
waits = Supervisor._start_again
def waiting(self, child):
    waits(self, child)
    if child.deaths == 2:
        os.kill(os.getpid(), signal.SIGTERM)
Supervisor._start_again = waiting
children = [
    ChildSpec(name="server", run=server),
    ChildSpec(name="front", run=lambda life: signal.pause(), is_front=True, probe=front_is_ready),
]
supervisor = Supervisor(children, 0)
supervisor.run()
""",
}


CRASHED = {
    "was killed before it": ("pause(life)", "lambda: supervisor._children[0].send(signal.SIGKILL)", 0),
    "crashes meanwhile": ("signal.signal(signal.SIGTERM, lambda *_: os.abort())\n    pause(life)", "stop", 0),
    "is killed": (
        "signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))\n    pause(life)",
        "stop",
        137,
    ),
    "fails": ("signal.signal(signal.SIGTERM, lambda *_: os._exit(3))\n    pause(life)", "stop", 3),
}
STOPS = """
def pause(life):
    life.report_ready({{}})
    while True:
        signal.pause()
def server(life):
    {body}
def ended(life):
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    pause(life)
def stop(*_):
    os.kill(os.getpid(), signal.SIGTERM)
Supervisor._start_again = stop
supervisor = Supervisor([ChildSpec(name='a', run=server), ChildSpec(name='b', run=ended)], 0, ready={ready})
sys.exit(end_with(supervisor.run()))
"""


@pytest.mark.parametrize(("body", "ready", "status"), CRASHED.values(), ids=CRASHED)
def test_a_stop_that_is_done_is_a_success_unless_a_server_had_to_be_killed(body: str, ready: str, status: int) -> None:
    assert report_of(STOPS.format(body=body, ready=ready)) == [str(status)]


@pytest.mark.parametrize("script", STOPPED.values(), ids=STOPPED)
def test_a_stop_ends_all_at_any_moment(script: str) -> None:
    assert report_of(f"{script}say('all have ended')") == ["all have ended", "0"]
