"""HAProxy in front of the replicas of a server: its configuration, and the process.

It speaks HTTP/2 with clients, and bounds what these do before a replica has seen a credential: pyarrow's server has no bounds of its own.
A client stays with one replica for as long as its connection lasts. Credentials are the replicas' to check. Where clients show
certificates, which HAProxy could not hand on, it passes connections on as they are: nobody gets to HTTP/2 without one.
"""

from __future__ import annotations

import logging
import os
import random
import re
import shutil
import socket
import sys
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from lance_flight.errors import InvalidInput
from lance_flight.serving.supervisor import Life

log = logging.getLogger(__name__)

PROGRAM = "haproxy"
_QUIET = "24h"
"""Time after which a connection without any traffic is closed: streams of long statements are quiet, and clients keep connections."""

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS, _HEADERS, _DATA = 4, 1, 0
_END_STREAM, _END_HEADERS = 1, 4
_STATE_COLUMN, _RUNNING = 5, "2"
"""Column srv_op_state of `show servers state`, and its value for a server that gets connections."""
_CONTROL_SECONDS = 1.0
_LONGEST_LINE = 65536
_LEVELS = {"0": logging.ERROR, "ALERT": logging.ERROR, **dict.fromkeys((*"1234", "WARNING"), logging.WARNING)}
"""Levels of HAProxy's lines, by their severity in syslog: that no replica is left is an emergency (0), and that one goes an alert (1)."""
_LINE = re.compile(r"(?s)<(?P<syslog>\d+)>(?P<said>.*)|\[(?P<name>[A-Z]+)\] +\(\d+\) : (?P<warned>.*)")
"""A line of the log, or of standard error."""
_MOST_WARNED = 64
PROXY_HEADER = "lance-flight-proxy"
MOST_CALLS, MOST_HANDSHAKES = 1000, 32
"""Most calls, and most Handshakes beside them, that one replica answers at the same time; further ones wait in HAProxy."""
_HTTP2 = """    # A stream has no more on its way than fits into its buffer: one that is not read holds up no other of its connection.
    tune.bufsize 147456
    tune.h2.initial-window-size 131072
    tune.h2.max-concurrent-streams 100
"""
_CLIENTS_AS_THEY_ARE = ""
_RULES = """    timeout http-request 10s
    option http-no-delay
    stick-table type ipv6 size 100k expire 10m store conn_cur,http_req_rate(100ms)
    tcp-request connection track-sc0 src
    tcp-request connection reject if { sc0_conn_cur gt 2000 }
    acl is_plain req.hdr(grpc-encoding) -m str identity
    acl is_encoded req.hdr(grpc-encoding) -m found
    acl is_stream path_end /DoPut /DoExchange /Handshake
    http-request deny unless { req.hdr(content-type) -m beg application/grpc }
    # A compressed message of a megabyte may be a gigabyte, which gRPC unpacks before anybody has looked at a credential.
    http-request return status 200 hdr grpc-status 12 hdr grpc-message "[unsupported] a compressed message; expected grpc-encoding identity" if is_encoded !is_plain
    http-request return status 200 hdr grpc-status 8 hdr grpc-message "[limit_exceeded] too many calls of one address within a moment; expected a later try" if { sc0_http_req_rate gt 300 }
    http-request set-var(txn.port) src_port
    # who
    http-request wait-for-body time 10s unless is_stream
    http-after-response set-header content-type application/grpc unless { res.hdr(content-type) -m found }
    use_backend handshakes if { path_end /Handshake }
"""
_STICKING = """    timeout queue 15s
    http-reuse never
    stick-table type string len 64 size 100k expire 24h
    stick on src,concat(:,txn.port)
"""
_REST_RULES = """    timeout http-request 10s
    option http-no-delay
    stick-table type ipv6 size 100k expire 10m store conn_cur
    tcp-request connection track-sc0 src
    tcp-request connection reject if { sc0_conn_cur gt 2000 }
    # who
"""
_STICKING_BY_HOST = """    stick-table type ipv6 size 100k expire 1h
    stick on src
"""
_METRICS = """
frontend metrics
    mode http
    bind {}
    timeout client 10s
    http-request return status 404 unless {{ path /metrics }}
    http-request use-service prometheus-exporter
"""
_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = bytes([0, 0, 0, 0, 2, 0x08, 1])
"""A gRPC message with a HealthCheckResponse whose status is SERVING."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica as HAProxy knows it: its host, the ports of its Flight server and health service, and `further` ones by their settings."""

    number: int
    port: int
    health_port: int
    host: str = "127.0.0.1"
    further: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherPort:
    """A further port of all replicas: the `address` that HAProxy listens at, and the port of each replica.

    A client stays with one replica by its host: a statement that it polls is there, and its own writes, whatever connection it takes.
    """

    name: str
    address: str
    ports: Sequence[int]
    is_grpc: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """Address that HAProxy listens at, and the file of its `certificate` with the key, if it has one.

    It says the address of each client with the `secret`, which the replicas know (setting `proxy_secret`). `control` is the socket by which
    it says which replicas are healthy. A `name_server` is asked for the hosts of the replicas again and again. One that `is_blind` passes
    connections on as they are. Replicas that `are_encrypted` are called by TLS. It logs to the descriptor `log`, else to standard output.
    At the address `metrics` Prometheus gets its metrics. Each `further` port is one of all replicas, beside that of Flight SQL.
    """

    address: str
    secret: str = ""
    certificate: str = ""
    are_encrypted: bool = False
    is_blind: bool = False
    control: Path | None = None
    name_server: str | None = None
    log: int | None = None
    metrics: str = ""
    further: Sequence[FurtherPort] = ()


def configuration(front: Front, replicas: Sequence[Replica]) -> str:
    """Return HAProxy's configuration: new clients go to the replica with the fewest calls of those that call themselves healthy."""
    named = (
        f"resolvers names\n    nameserver dns {front.name_server}\n    hold valid 5s\n\n" if front.name_server else ""
    )
    control = f"    stats socket {front.control} mode 600 level admin\n" if front.control else ""
    loaded = "" if front.is_blind else _HTTP2
    logged = "stdout format raw" if front.log is None else f"fd@{front.log} format short"
    mode = "tcp" if front.is_blind else "http"
    clients = _CLIENTS_AS_THEY_ARE if front.is_blind else _clients(front)
    return f"""{named}global
    log {logged} local0 notice
{loaded}{control}
defaults
    mode {mode}
    log global
    # A line for each replica that comes or goes, and for each connection or call that failed.
    option dontlog-normal
    option {mode}log
    timeout connect 5s
    # A busy replica answers late, one that has died refuses connections, and one that is frozen is killed: nothing is decided in a hurry.
    timeout check 10s
    timeout client {_QUIET}
    timeout server {_QUIET}
    timeout http-keep-alive {_QUIET}
    option clitcpka
    option srvtcpka
    # A replica that stops refuses connections before its check fails: the next one is asked at once.
    retries {len(replicas) + 1}
    option redispatch 1

frontend clients
    bind {front.address}{"" if front.is_blind else _protocol(front)}
{clients}    default_backend replicas

backend replicas
    balance leastconn
{"" if front.is_blind else _STICKING}    option tcp-check
    tcp-check connect
    tcp-check send-binary {health_check().hex()}
    tcp-check expect binary {_SERVING.hex()}
{_servers(front, replicas)}{"" if front.is_blind else _handshakes(front, replicas)}{further_ports(front, replicas)}{_METRICS.format(front.metrics) if front.metrics else ""}"""


def further_ports(front: Front, replicas: Sequence[Replica]) -> str:
    """Return the frontends and backends of the further ports, each by its name."""
    return "".join(_further(front, port, replicas) for port in front.further)


def _further(front: Front, port: FurtherPort, replicas: Sequence[Replica]) -> str:
    bound, rules, kept = "", "", ""
    if not front.is_blind:
        bound, kept = _protocol(front, is_grpc=port.is_grpc), "    timeout queue 15s\n    http-reuse never\n"
        rules = _clients(front, _RULES if port.is_grpc else _REST_RULES)
    called = _called(front, is_grpc=port.is_grpc)
    servers = "".join(
        f"    server replica{replica.number} {replica.host}:{own} track replicas/replica{replica.number}{called}\n"
        for replica, own in zip(replicas, port.ports, strict=True)
    )
    return f"""
frontend {port.name}_clients
    bind {port.address}{bound}
{rules}    default_backend {port.name}

backend {port.name}
    balance leastconn
{kept}{_STICKING_BY_HOST}{servers}"""


def _called(front: Front, *, is_grpc: bool = True, most: int = MOST_CALLS) -> str:
    """Return how HAProxy calls a replica."""
    found = " resolvers names init-addr libc,none" if front.name_server else ""
    if front.is_blind:
        return found
    if front.are_encrypted:
        # The other side of a loopback; what stands in certificates is the address of the whole.
        found += f" ssl verify none{' alpn h2' if is_grpc else ''} no-check-ssl"
    elif is_grpc:
        found += " proto h2"
    return f"{found} maxconn {most}"


def _protocol(front: Front, *, is_grpc: bool = True) -> str:
    if front.certificate:
        return f" ssl crt {front.certificate} alpn {'h2' if is_grpc else 'h2,http/1.1'}"
    return " proto h2" if is_grpc else ""


def _clients(front: Front, rules: str = _RULES) -> str:
    """Return the rules for what clients send."""
    rule = (
        f'set-header {PROXY_HEADER} "{front.secret} %[src]:%[src_port]"'
        if front.secret
        else f"del-header {PROXY_HEADER}"
    )
    return rules.replace("    # who\n", f"    http-request {rule}\n")


def _servers(front: Front, replicas: Sequence[Replica]) -> str:
    return "".join(
        f"    server replica{replica.number} {replica.host}:{replica.port} check port {replica.health_port}"
        f" inter 2s downinter 200ms fall 5 rise 1{_called(front)}\n"
        for replica in replicas
    )


def _handshakes(front: Front, replicas: Sequence[Replica]) -> str:
    """Return the backend of Handshakes, each of which holds a thread until its message comes."""
    servers = "".join(
        f"    server replica{replica.number} {replica.host}:{replica.port} track replicas/replica{replica.number}"
        f"{_called(front, most=MOST_HANDSHAKES)}\n"
        for replica in replicas
    )
    return f"\nbackend handshakes\n    balance leastconn\n    timeout server 10s\n{_STICKING}{servers}"


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
    program = shutil.which(PROGRAM, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    if program is None:
        raise InvalidInput(
            f"replicas need {PROGRAM}, which is not installed here; expected it in PATH (Debian: apt install haproxy)"
        )
    return program


def run_program(program: str, file: Path, log_handle: int, life: Life) -> int:
    """Become HAProxy, whose standard error is its log; the pipe to the parent stays open for as long as it runs."""
    os.dup2(log_handle, sys.stderr.fileno())
    for handle in (log_handle, life.channel):
        if handle is not None:
            os.set_inheritable(handle, True)  # noqa: FBT003 - the interface of the system
    os.execv(program, [program, "-db", "-f", str(file)])  # noqa: S606 - found by its name, without a shell


class FrontLog:
    """Lines of HAProxy's log and standard error, which the parent writes to its own log; `handle` is the descriptor that HAProxy sends them to.

    Most of what it warns of at standard error it logs as well: that is written once.
    """

    def __init__(self) -> None:
        self._socket, self._sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for opened in (self._socket, self._sender):
            opened.setblocking(False)  # noqa: FBT003 - the interface of the system
        self.handle = self._sender.fileno()
        self._warned: deque[str] = deque(maxlen=_MOST_WARNED)

    def write(self) -> None:
        """Log what has come by now."""
        with suppress(BlockingIOError):
            while True:
                line = self._socket.recv(_LONGEST_LINE).decode("utf-8", "replace").strip()
                match = _LINE.fullmatch(line)
                level, text = (
                    (match["syslog"] or match["name"], match["said"] or match["warned"]) if match else ("0", line)
                )
                if match and match["said"] in self._warned:
                    self._warned.remove(text)
                    continue
                if match and match["name"]:
                    self._warned.append(text)
                log.log(_LEVELS.get(level, logging.INFO), "%s: %s", PROGRAM, text)


def is_listening(control: Path) -> bool:
    """Return whether HAProxy accepts connections: it answers once it has all of its addresses, and ends where one is taken."""
    return bool(_ask_proxy(control, "show info"))


def are_connected(control: Path) -> bool:
    """Return whether HAProxy gives connections to every replica."""
    lines = [line.split() for line in _ask_proxy(control, "show servers state replicas").splitlines()]
    # The format's number, the names of the columns, and a line for each server.
    states = [line[_STATE_COLUMN] for line in lines[2:] if len(line) > _STATE_COLUMN]
    return bool(states) and set(states) == {_RUNNING}


def keep_out(control: Path, number: int) -> None:
    """Have HAProxy give a replica no further connections; those that there are go on."""
    _ask_proxy(control, f"set server replicas/replica{number} state maint")


def let_in(control: Path, number: int) -> None:
    """Have HAProxy give a replica connections again."""
    _ask_proxy(control, f"set server replicas/replica{number} state ready")


def show_certificate(control: Path, file: Path, content: bytes) -> bool:
    """Have HAProxy show clients another certificate in place of that of a file; return whether it does."""
    text = "\n".join(filter(None, content.decode("ascii", "replace").splitlines()))
    _ask_proxy(control, f"set ssl cert {file} <<\n{text}\n")
    return "Success" in _ask_proxy(control, f"commit ssl cert {file}")


def _ask_proxy(control: Path, command: str) -> str:
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


_PORTS = range(20_000, 32_768)
"""Ports below those that systems give to outgoing connections, one of which might take a port before it is listened on."""


def free_ports(count: int, host: str = "127.0.0.1", *, except_for: Collection[int] = ()) -> list[int]:
    """Return ports on which nothing listens at the moment, each of them another one, and none of those that are meant for something else."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports: list[int] = []
    with ExitStack() as probes:
        for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
            if port in except_for:
                continue
            with suppress(OSError):
                probes.enter_context(socket.create_server((host, port), family=family))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise InvalidInput(
        f"{count} ports of {host} are asked for; expected an address of this machine on which as many are free"
    )
