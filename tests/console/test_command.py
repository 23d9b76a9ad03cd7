"""`lance-flight console` as a process: the address that it prints, its end, and what it refuses."""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.error
import urllib.request

import pytest
from lance_flight.cli import main

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
    pytest.param(["--uri", "grpc://127.0.0.1:1"], "no server answers at grpc://127.0.0.1:1", id="no server"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_cannot_be_is_refused_by_one_line(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["console", *options]) == 1
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1
