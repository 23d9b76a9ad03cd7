"""HAProxy in front of the replicas of a server: its configuration, and the process.

It passes connections on as they are, TLS included: a client stays with one replica for as long as its connection lasts, and
credentials and certificates are the replicas' to check.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lance_flight.cli.serving.children import Life
from lance_flight.errors import InvalidInput

PROGRAM = "haproxy"
_QUIET = "24h"
"""Time after which a connection without any traffic is closed: streams of long statements are quiet, and clients keep connections."""

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS, _HEADERS, _DATA = 4, 1, 0
_END_STREAM, _END_HEADERS = 1, 4
_STATE_COLUMN, _RUNNING = 5, "2"
"""Column srv_op_state of `show servers state`, and its value for a server that gets connections."""
_CONTROL_SECONDS = 1.0
_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = bytes([0, 0, 0, 0, 2, 0x08, 1])
"""A gRPC message with a HealthCheckResponse whose status is SERVING."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica as HAProxy knows it: its host, and the ports of its Flight server and of its health service."""

    number: int
    port: int
    health_port: int
    host: str = "127.0.0.1"


def configuration(
    address: str, replicas: Sequence[Replica], *, control: Path | None = None, name_server: str | None = None
) -> str:
    """Return HAProxy's configuration: connections go to the replica with the fewest of those that call themselves healthy.

    `control` is the socket by which it says which they are. A `name_server` is asked for the hosts of the replicas again and again.
    """
    found = " resolvers names init-addr libc,none" if name_server else ""
    servers = "\n".join(
        f"    server replica{each.number} {each.host}:{each.port} check port {each.health_port} inter 2s downinter 200ms fall 5 rise 1{found}"
        for each in replicas
    )
    told = f"global\n    stats socket {control} mode 600 level admin\n\n" if control else ""
    named = f"resolvers names\n    nameserver dns {name_server}\n    hold valid 5s\n\n" if name_server else ""
    return f"""{told}{named}defaults
    mode tcp
    timeout connect 5s
    # A busy replica answers late, one that has died refuses connections, and one that is frozen is killed: nothing is decided in a hurry.
    timeout check 10s
    timeout client {_QUIET}
    timeout server {_QUIET}
    option clitcpka
    option srvtcpka
    # A replica that stops refuses connections before its check fails: the next one is asked at once.
    retries {len(replicas) + 1}
    option redispatch 1

frontend clients
    bind {address}
    default_backend replicas

backend replicas
    balance leastconn
    option tcp-check
    tcp-check connect
    tcp-check send-binary {health_check().hex()}
    tcp-check expect binary {_SERVING.hex()}
{servers}
"""


def health_check() -> bytes:
    """Return the bytes of a call of Check of the gRPC health service over HTTP/2, which HAProxy has no words for."""
    headers = b"".join(
        (
            b"\x83",  # :method POST
            b"\x86",  # :scheme http
            b"\x04" + _text(_CHECK),  # :path
            b"\x01" + _text("localhost"),  # :authority
            b"\x0f\x10" + _text("application/grpc"),  # content-type
            b"\x00" + _text("te") + _text("trailers"),
        )
    )
    message = bytes(5)  # a HealthCheckRequest for the server as a whole, which is empty
    return (
        _PREFACE
        + _frame(_SETTINGS, 0, 0, b"")
        + _frame(_HEADERS, _END_HEADERS, 1, headers)
        + _frame(_DATA, _END_STREAM, 1, message)
    )


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def find_program() -> str:
    """Return the path of HAProxy; `InvalidInput` where it is not installed."""
    found = shutil.which(PROGRAM, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise InvalidInput(
            f"replicas need {PROGRAM}, which is not installed here; expected it in PATH (Debian: apt install haproxy)"
        )
    return found


def run_program(program: str, file: Path, life: Life) -> int:
    """Become HAProxy; the pipe to the parent stays open for as long as it runs."""
    if life.channel is not None:
        os.set_inheritable(life.channel, True)  # noqa: FBT003 - the interface of the system
    os.execv(program, [program, "-db", "-f", str(file)])  # noqa: S606 - found by its name, without a shell


def is_listening(control: Path) -> bool:
    """Return whether HAProxy accepts connections: it answers once it has all of its addresses, and ends where one is taken."""
    return bool(_told(control, "show info"))


def are_connected(control: Path) -> bool:
    """Return whether HAProxy gives connections to every replica."""
    lines = [line.split() for line in _told(control, "show servers state replicas").splitlines()]
    # The format's number, the names of the columns, and a line for each server.
    states = [line[_STATE_COLUMN] for line in lines[2:] if len(line) > _STATE_COLUMN]
    return bool(states) and set(states) == {_RUNNING}


def keep_out(control: Path, number: int) -> None:
    """Have HAProxy give a replica no further connections; those that there are go on."""
    _told(control, f"set server replicas/replica{number} state maint")


def let_in(control: Path, number: int) -> None:
    """Have HAProxy give a replica connections again."""
    _told(control, f"set server replicas/replica{number} state ready")


def _told(control: Path, command: str) -> str:
    """Return HAProxy's answer to a command; nothing where it does not run."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_CONTROL_SECONDS)
            connection.connect(str(control))
            connection.sendall(f"{command}\n".encode())
            with connection.makefile() as answer:
                return answer.read()
    except OSError:
        return ""


def free_ports(count: int, host: str = "127.0.0.1", *, except_for: Collection[int] = ()) -> list[int]:
    """Return ports on which nothing listens at the moment, each of them another one, and none of those that are meant for something else."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with ExitStack() as probes:
        tried = count + len(except_for)
        sockets = [probes.enter_context(socket.create_server((host, 0), family=family)) for _ in range(tried)]
        ports = [int(each.getsockname()[1]) for each in sockets]
    return [port for port in ports if port not in except_for][:count]
