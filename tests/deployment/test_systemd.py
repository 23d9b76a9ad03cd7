"""The unit of systemd, and a server that tells a service manager when it is ready, restarts and stops."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from lance_flight import config
from lance_flight.serving.supervisor import RELOADING
from lance_flight_client.cli import parser

from tests.deployment.operator_tools import DOCKER, run, tool
from tests.service.forked import Forked, forked
from tests.service.server_process import COMMAND

PATIENCE = 60.0
UNIT = DOCKER / "systemd" / "lance-flight.service"
SETTINGS = dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE))
WORST_EXPOSURE = 20
"""Of 100: what `systemd-analyze security` calls OK goes up to 49."""
INSTALL = "apt-get install systemd"


@dataclass(frozen=True)
class Manager:
    """A service manager's socket, and the process that it started."""

    receiving: socket.socket
    process: Forked

    def next_message(self) -> tuple[int, list[str]]:
        """The sender of the next datagram, and its lines."""
        data, ancillary, _, _ = self.receiving.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize("3i")))
        ((_, _, credentials),) = ancillary
        return struct.unpack("3i", credentials)[0], data.decode().splitlines()


@contextmanager
def managed(root: Path, address: str, *arguments: str) -> Iterator[Manager]:
    root.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        receiving.bind("\0" + address[1:] if address.startswith("@") else address)
        receiving.settimeout(PATIENCE)
        command = ["serve", str(root), "--port", "0", *arguments]
        with forked(command, environment={**os.environ, "NOTIFY_SOCKET": address}) as process:
            yield Manager(receiving, process)


@pytest.fixture(params=["a path", "an abstract name"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "notify") if request.param == "a path" else f"@lance-flight-{os.getpid()}-{tmp_path.name}"


@pytest.mark.parametrize("arguments", [[], ["--no-supervise"]], ids=["with a parent", "alone"])
def test_the_main_process_reports_that_it_is_ready_and_that_it_stops(
    tmp_path: Path, address: str, arguments: list[str]
) -> None:
    with managed(tmp_path / "root", address, *arguments) as manager:
        main = manager.process.pid
        assert manager.next_message() == (main, ["READY=1", "STATUS=serving"])
        manager.process.terminate()
        sender, lines = manager.next_message()
        assert (sender, lines[0]) == (main, "STOPPING=1")
        assert manager.process.wait(PATIENCE) == 0
        manager.receiving.setblocking(False)  # noqa: FBT003 - a socket's interface
        with pytest.raises(BlockingIOError):
            manager.next_message()


def test_a_restart_is_a_status_of_a_service_that_goes_on(tmp_path: Path) -> None:
    with managed(tmp_path / "root", str(tmp_path / "notify")) as manager:
        main = manager.process.pid
        assert manager.next_message() == (main, ["READY=1", "STATUS=serving"])
        (child,) = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        assert manager.next_message() == (main, ["STATUS=the server was ended by SIGKILL; it is started again"])
        assert manager.next_message() == (main, ["READY=1", "STATUS=serving"])


def test_a_server_that_cannot_reach_its_manager_serves(tmp_path: Path) -> None:
    root, ready = tmp_path / "root", tmp_path / "ready"
    root.mkdir()
    command = [COMMAND, "serve", str(root), "--port", "0", "--ready-file", str(ready), "--no-supervise"]
    environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "nothing")}
    with subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert "cannot be notified: No such file or directory" in process.stderr.readline()
        while not ready.exists():
            assert process.poll() is None
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_the_unit_waits_for_what_the_server_waits_for() -> None:
    assert (SETTINGS["Type"], SETTINGS["NotifyAccess"]) == ("notify", "main")
    # With the signal to each process, the server would get two, and end at the second.
    assert SETTINGS["KillMode"] == "mixed"
    assert float(SETTINGS["TimeoutStopSec"]) > config.ServerConfig().grace
    assert SETTINGS["OOMPolicy"] == "continue"


def test_the_unit_starts_a_command_of_the_program() -> None:
    executable, *arguments = shlex.split(SETTINGS["ExecStart"])
    assert executable.endswith("/lance-flight")
    options = parser().parse_args(arguments)
    assert (options.command, options.root) == ("serve", f"/var/lib/{SETTINGS['StateDirectory']}")
    assert SETTINGS["Environment"].startswith("LANCE_FLIGHT_CONFIG=/etc/" + SETTINGS["ConfigurationDirectory"])


def test_the_unit_reloads_by_the_signal_that_reloads() -> None:
    executable, option, process = shlex.split(SETTINGS["ExecReload"])
    assert (executable, process) == ("/bin/kill", "$MAINPID")
    assert signal.Signals[f"SIG{option.removeprefix('-')}"] is RELOADING


def test_systemd_takes_the_unit_and_finds_it_confined(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze", INSTALL)
    executable = shlex.split(SETTINGS["ExecStart"])[0]
    installed = tmp_path / UNIT.name
    installed.write_text(UNIT.read_text().replace(executable, COMMAND))
    assert run(analyze, "verify", "--man=no", installed) == ""
    run(analyze, "security", "--offline=true", f"--threshold={WORST_EXPOSURE}", installed)
    broken = tmp_path / "broken.service"
    broken.write_text(installed.read_text().replace("KillMode=mixed", "KillMode=gentle"))
    assert "gentle" in run(analyze, "verify", "--man=no", broken)


def test_systemd_makes_the_user_of_the_unit(tmp_path: Path) -> None:
    sysusers = tool("systemd-sysusers", INSTALL)
    directory = tmp_path / "usr" / "lib" / "sysusers.d"
    directory.mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (directory / "lance-flight.conf").write_text((DOCKER / "systemd" / "lance-flight.sysusers.conf").read_text())
    run(sysusers, f"--root={tmp_path}")
    users = (tmp_path / "etc" / "passwd").read_text()
    assert re.findall(r"^([\w-]+):.*:/var/lib/lance-flight:", users, re.MULTILINE) == [SETTINGS["User"]]
