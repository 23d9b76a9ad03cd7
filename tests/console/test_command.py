"""`lance-flight console` as a process: the address that it prints, its end, and what it refuses."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from typing import Any

import pytest
from lance_flight_client.cli import main

from tests.service.server_process import COMMAND, Server


def test_its_address_lets_a_browser_in_and_an_interrupt_ends_it(server: Server) -> None:
    command = [COMMAND, "console", "--uri", server.uri.removeprefix("grpc://"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        (address,) = re.findall(rf"The console of {server.uri}: (http://127\.0\.0\.1:\d+/\?token=\S+)", line)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert b"trips" in opener.open(address, timeout=30).read()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address, timeout=30)  # noqa: S310 - our own
        assert process.stdout.readline().startswith("For another browser: http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


REFUSED = [
    pytest.param(["--host", "0.0.0.0"], "expected --https-certificate and --https-key", id="beyond this machine"),  # noqa: S104
    pytest.param(["--https-key", "x"], "belong together", id="half a certificate"),
    pytest.param(["--max-rows", "0"], "--max-rows is 0; expected 1 or more", id="no rows"),
    pytest.param(["--timeout", "0"], "--timeout is 0; expected more than 0", id="no time"),
    pytest.param(["--timeout", "nan"], "--timeout is nan", id="a time that is none"),
    pytest.param(["--allow-host", "a/b:1"], "--allow-host is 'a/b:1'", id="no host"),
    pytest.param(["--uri", "grpc://127.0.0.1:1"], "no server answers at grpc://127.0.0.1:1", id="no server"),
]


NOT_THERE: list[Any] = [
    pytest.param(["--port", "{taken}"], "ddress already in use", id="a port that is taken"),
    pytest.param(["--port", "70000"], "port must be 0-65535", id="no port"),
    pytest.param(
        ["--https-certificate", "/none", "--https-key", "/none", "--port", "0"], "No such file", id="no certificate"
    ),
]


@pytest.mark.parametrize(("options", "message"), NOT_THERE)
def test_where_it_cannot_listen_is_said_by_one_line(
    server: Server, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [each.format(taken=taken.getsockname()[1]) for each in options]
        assert main(["console", "--uri", server.uri, *given]) == 1
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_cannot_be_is_refused_by_one_line(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["console", *options]) == 1
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1
