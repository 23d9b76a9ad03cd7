"""Closing the connection of one client, told by the address that gRPC gives."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import closing

import pytest
from lance_flight.connections import close_connection


@pytest.mark.parametrize(
    ("family", "host", "form"),
    [
        pytest.param(socket.AF_INET, "127.0.0.1", "ipv4:127.0.0.1:{}", id="version 4"),
        pytest.param(socket.AF_INET6, "::1", "ipv6:%5B::1%5D:{}", id="version 6"),
        pytest.param(socket.AF_INET6, "::", "ipv4:127.0.0.1:{}", id="version 4 at a socket of both"),
    ],
)
def test_the_connection_of_a_peer_is_closed_and_no_other_one(
    family: socket.AddressFamily, host: str, form: str
) -> None:
    is_both = host == "::"
    with closing(socket.create_server((host, 0), family=family, dualstack_ipv6=is_both)) as listening:
        address = ("127.0.0.1" if is_both else host, listening.getsockname()[1])
        clients = [socket.create_connection(address) for _ in range(2)]
        served = [listening.accept()[0] for _ in clients]
        try:
            assert close_connection(form.format(clients[0].getsockname()[1]))
            assert clients[0].recv(1) == b""
            served[1].sendall(b"x")
            assert clients[1].recv(1) == b"x"
            served[1].close()
            assert not close_connection(form.format(clients[1].getsockname()[1]))
        finally:
            for each in (*clients, *served):
                each.close()


def test_a_connection_to_another_server_stays_though_it_has_the_address_of_a_client() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind(("127.0.0.1", 0))
        port = client.getsockname()[1]
        with socket.socket() as elsewhere:
            elsewhere.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            elsewhere.bind(("127.0.0.1", port))
            elsewhere.listen()
            own = socket.create_connection(("127.0.0.1", port))
            answering, _ = elsewhere.accept()
        with own, answering:
            assert not close_connection(f"ipv4:127.0.0.1:{port}")
            client.connect(listening.getsockname())
            with listening.accept()[0]:
                assert close_connection(f"ipv4:127.0.0.1:{port}")
                assert client.recv(1) == b""
            answering.sendall(b"x")
            assert own.recv(1) == b"x"


@pytest.mark.parametrize("peer", ["", "unix:/run/x", "ipv4:nowhere:1", "ipv4:127.0.0.1", "ipv6:[::1]:port", "here"])
def test_what_is_no_address_has_no_connection(peer: str) -> None:
    assert not close_connection(peer)


LOOKING = """
import socket, tempfile
from pathlib import Path
from lance_flight.connections import close_connection

with tempfile.TemporaryFile(), socket.create_server(("127.0.0.1", 0)):
    pair = socket.socketpair()
    before = set(Path("/proc/self/fd").iterdir())
    found = [close_connection("ipv4:127.0.0.1:1") for _ in range(3)]
    print(found, len(set(Path("/proc/self/fd").iterdir()) - before))
"""


def test_no_file_stays_open_behind_it() -> None:
    """It looks at every descriptor of the process: pipes, files and sockets of other kinds are no connections.

    The process is one of its own: in this one threads of other tests open files meanwhile.
    """
    done = subprocess.run([sys.executable, "-c", LOOKING], capture_output=True, text=True, check=True)
    assert done.stdout == "[False, False, False] 0\n"
