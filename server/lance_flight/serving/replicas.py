"""`lance-flight serve --replicas N`: N servers on one machine behind HAProxy, each with its share of cores, memory and limits.

Nothing heavy is imported here: the parent stays as small as an interpreter.

HAProxy speaks HTTP/2 with clients, and bounds what these do before a replica has seen a credential: pyarrow's server has no bounds of its own.
A client stays with one replica for as long as its connection lasts. Credentials are the replicas' to check. Where clients show
certificates, which HAProxy could not hand on, it passes connections on as they are: nobody gets to HTTP/2 without one.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import random
import re
import secrets
import shutil
import socket
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from lance_flight.admin import logs
from lance_flight.config import LOOPBACK, NO_PORT, ServerConfig
from lance_flight.connections import bracket_host
from lance_flight.errors import InvalidInput
from lance_flight.machine import sharing
from lance_flight.serving.supervisor import (
    ChildSpec,
    Life,
    Reloader,
    ServiceManager,
    Supervisor,
    check_ready_file,
    end_with,
    message_of,
    write_ready_file,
)

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


MOST_REPLICAS = 64
_DIVIDED = (
    "server_memory_limit",
    "memory_limit",
    "stream_memory_limit",
    "index_cache",
    "metadata_cache",
    "running_statements",
    "waiting_statements",
    "running_calls",
)
"""Settings that the replicas share; 0 stays what it means, of a machine that is shared."""
FURTHER = {"rest_port": ("REST catalog", "http"), "lancedb_sql_port": ("SQL for LanceDB's clients", "grpc")}
"""Titles and schemes of the further ports, by the names of their settings."""
_OVER_TLS = {"http": "s", "grpc": "+tls"}
_LOOPBACK = "127.0.0.1"
_KEY_BYTES = 32
_NAME_BYTES = 8

log = logging.getLogger(__name__)

Serve = Callable[[ServerConfig, Life], int]


def serve_replicas(root: str, reloader: Reloader, number: int, serve: Serve, manager: ServiceManager) -> int:
    """Run replicas and HAProxy below this process until it is asked to stop; in a replica this returns what `serve` does.

    Each has its share of the settings that the `reloader` has, also of those that it reloads.
    """
    settings = reloader.settings
    if not 1 <= number <= MOST_REPLICAS:
        raise InvalidInput(f"--replicas is {number}; expected 1 to {MOST_REPLICAS}")
    check_ready_file(settings.ready_file)
    program = find_program()
    scheme = "grpc+tls" if settings.tls_certificate else "grpc"
    if scheme == "grpc" and settings.has_authentication and settings.host not in LOOPBACK:
        log.warning("credentials come over %s without encryption; expected tls_certificate and tls_key", settings.host)
    port = settings.port or free_ports(1, settings.host)[0]
    with _private_directory() as place:
        file, control, secret = place / "haproxy.cfg", place / "control", secrets.token_hex(_KEY_BYTES)
        front_log = FrontLog()
        machine = _Machine(
            replicas=replicas_of(settings, number, port),
            scheme=scheme,
            key_file=_key_file(settings, root, place),
            control=control,
            reloader=reloader,
            serve=serve,
            secret=secret,
        )
        address = f"{bracket_host(settings.host)}:{port}"
        certificate = _Certificate(settings, place / "server.pem") if _decrypts(settings) else None
        front = Front(
            address=address,
            secret=secret,
            certificate="" if certificate is None else str(certificate.file),
            are_encrypted=scheme == "grpc+tls",
            is_blind=bool(settings.tls_client_ca),
            control=control,
            log=front_log.handle,
            metrics=_metrics_address(settings, number),
            further=_further_ports(settings, machine.replicas, port),
        )
        file.touch(mode=0o600)
        file.write_text(configuration(front, machine.replicas))
        listening = ChildSpec(
            name=program,
            run=partial(run_program, program, file, front_log.handle),
            is_front=True,
            probe=partial(is_listening, control),
            tend=partial(_tend, front_log, control, certificate),
        )
        status = Supervisor(
            [*map(machine.spec, machine.replicas), listening],
            settings.unresponsive_after,
            manager=manager,
            ready=partial(_ready, root, f"{scheme}://{address}", settings, front),
            may_replace=partial(are_connected, control),
            reloader=reloader,
        ).run()
        front_log.write()
    return end_with(status)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """The replicas of one machine behind HAProxy, whose `control` socket this is, and what each of them runs with."""

    replicas: Sequence[Replica]
    scheme: str
    key_file: str
    control: Path
    reloader: Reloader
    serve: Serve
    secret: str = field(repr=False)
    name: str = field(default_factory=lambda: secrets.token_hex(_NAME_BYTES))

    def spec(self, replica: Replica) -> ChildSpec:
        """Return the process of a replica."""
        return ChildSpec(
            name=f"replica {replica.number}",
            run=partial(self._run, replica),
            joins=partial(let_in, self.control, replica.number),
            leaves=partial(keep_out, self.control, replica.number),
            settings=partial(self._message, replica),
        )

    def _run(self, replica: Replica, life: Life) -> int:
        sharing.processes = len(self.replicas)
        siblings = siblings_of(replica, self.replicas, self.scheme)
        return self.serve(self._settings(replica), dataclasses.replace(life, machine=self.name, siblings=siblings))

    def _settings(self, replica: Replica) -> ServerConfig:
        """Return the settings of a replica, of those that run now."""
        own = replica_settings(self.reloader.settings, replica, len(self.replicas))
        return dataclasses.replace(own, ticket_key_file=self.key_file, proxy_secret=self.secret)

    def _message(self, replica: Replica) -> bytes:
        return message_of(self._settings(replica))


@contextmanager
def _private_directory() -> Iterator[Path]:
    """Make a directory, which the process that has made it removes: children leave the block, too."""
    place, own = Path(tempfile.mkdtemp(prefix="lance-flight-replicas-")), os.getpid()
    try:
        yield place
    finally:
        if os.getpid() == own:
            shutil.rmtree(place)


def replica_settings(settings: ServerConfig, replica: Replica, number: int) -> ServerConfig:
    """Return the settings of one replica of a number of them, which listens on loopback and is called by the address of all."""
    place = replica.number - 1
    return dataclasses.replace(
        settings,
        host=_LOOPBACK,
        port=replica.port,
        health_port=replica.health_port,
        admin_port=settings.admin_port + place if settings.admin_port > 0 else settings.admin_port,
        ready_file="",
        # Loopback is not where clients are.
        dictionary_ingest="on" if settings.takes_dictionaries else "off",
        **{**{name: -(-getattr(settings, name) // number) for name in _DIVIDED}, **replica.further},
    )


def siblings_of(replica: Replica, all_replicas: Sequence[Replica], scheme: str) -> tuple[str, ...]:
    """Return the addresses of the other replicas of a machine."""
    return tuple(f"{scheme}://{_LOOPBACK}:{each.port}" for each in all_replicas if each != replica)


def replicas_of(settings: ServerConfig, number: int, front: int) -> list[Replica]:
    """Choose the ports of the replicas: free ones, and consecutive ones from `health_port` on where that is set; none is that of the `front`."""
    health = range(settings.health_port, settings.health_port + number) if settings.health_port > 0 else range(0)
    admin = range(settings.admin_port, settings.admin_port + number + 1) if settings.admin_port > 0 else range(0)
    further = [name for name in FURTHER if getattr(settings, name) != NO_PORT]
    taken = {front, *health, *admin, *(getattr(settings, name) for name in further)}
    free = iter(free_ports((2 + len(further)) * number, except_for=taken))
    ports = list(islice(free, number))
    health_ports = health or list(islice(free, number))
    return [
        Replica(each, port, health_port, further={name: next(free) for name in further})
        for each, port, health_port in zip(range(1, number + 1), ports, health_ports, strict=True)
    ]


def _further_ports(settings: ServerConfig, replicas: Sequence[Replica], front: int) -> list[FurtherPort]:
    """Return the further ports that the settings open for all replicas together."""
    found, taken = [], {front}
    for name in replicas[0].further:
        port = getattr(settings, name) or free_ports(1, settings.host, except_for=taken)[0]
        taken.add(port)
        ports = [replica.further[name] for replica in replicas]
        address = f"{bracket_host(settings.host)}:{port}"
        found.append(FurtherPort(name=name, address=address, ports=ports, is_grpc=name != "rest_port"))
    return found


def _metrics_address(settings: ServerConfig, number: int) -> str:
    """Return where HAProxy has its metrics, the port after those of the replicas; empty where there are no admin ports."""
    if settings.admin_port == NO_PORT:
        return ""
    port = settings.admin_port + number if settings.admin_port else free_ports(1, settings.admin_host)[0]
    return f"{bracket_host(settings.admin_host)}:{port}"


def _tend(log: FrontLog, control: Path, certificate: _Certificate | None) -> None:
    """Log what HAProxy has said, and have it show the newest certificate."""
    log.write()
    if certificate is not None:
        certificate.renew(control)


def _decrypts(settings: ServerConfig) -> bool:
    """Return whether HAProxy decrypts what clients send, rather than pass it on as it is, or get it without TLS."""
    return bool(settings.tls_certificate) and not settings.tls_client_ca


class _Certificate:
    """The certificate of the whole with its key, in one `file` for HAProxy."""

    def __init__(self, settings: ServerConfig, file: Path) -> None:
        self.file = file
        self._parts = Path(settings.tls_certificate), Path(settings.tls_key)
        self._content = self._read()
        file.touch(mode=0o600)
        file.write_bytes(self._content)

    def renew(self, control: Path) -> None:
        """Have HAProxy show another certificate if there is one; half of one, or one without its key, it refuses."""
        with suppress(OSError):  # they are just being replaced
            content = self._read()
            if content != self._content and show_certificate(control, self.file, content):
                self._content = content
                self.file.write_bytes(content)
                log.info("HAProxy shows a new certificate")

    def _read(self) -> bytes:
        return b"\n".join(part.read_bytes().strip() for part in self._parts) + b"\n"


def _key_file(settings: ServerConfig, root: str, place: Path) -> str:
    """Return the file of the key of tickets that all replicas have: the root keeps one itself, unless it is an object store."""
    if settings.ticket_key_file or "://" not in root:
        return settings.ticket_key_file
    file = place / "ticket.key"
    file.touch(mode=0o600)
    file.write_bytes(secrets.token_bytes(_KEY_BYTES))
    log.warning("no ticket_key_file: tickets are valid until these replicas are stopped")
    return str(file)


def _ready(root: str, uri: str, settings: ServerConfig, front: Front) -> None:
    print_line = partial(logs.print_line, format=logs.LogFormat(settings.log_format.lower()))
    if front.metrics:
        print_line(f"metrics of HAProxy at http://{front.metrics}/metrics")
    for port in front.further:
        title, scheme = FURTHER[port.name]
        print_line(f"{title} at {scheme}{'' if not settings.tls_certificate else _OVER_TLS[scheme]}://{port.address}")
    print_line(f"serving {root} at {uri}")
    write_ready_file(settings.ready_file, uri)
