"""`lance-flight serve --replicas N`: N servers on one machine behind HAProxy, each with its share of cores, memory and limits.

Nothing heavy is imported here: the parent stays as small as an interpreter.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from lance_flight.admin import logs
from lance_flight.config import LOOPBACK, NO_PORT, ServerConfig
from lance_flight.connections import bracket_host
from lance_flight.errors import InvalidInput
from lance_flight.machine import sharing
from lance_flight.serving.load_balancer import (
    Front,
    FrontLog,
    FurtherPort,
    Replica,
    are_connected,
    configuration,
    find_program,
    free_ports,
    is_listening,
    keep_out,
    let_in,
    run_program,
    show_certificate,
)
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
