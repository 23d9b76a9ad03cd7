"""Builds a server from a root and a configuration: its engine, its authentication, and the further ports over it.

Modules for JSON web tokens, certificates and further ports are imported only if they are configured: a server without them starts sooner.

Checks of what a configuration names: the files, certificates and the root that a server would open when it starts or reloads.
"""

from __future__ import annotations

import errno
import importlib
import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lance_flight import machine
from lance_flight.catalog.bulk.pieces import LARGE_BYTES, processes
from lance_flight.catalog.commits.writer import LEAST_BYTES, write_memory
from lance_flight.catalog.maintenance.diagnosis import Level, RootFinding
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.roots.table_resolver import PlainTables
from lance_flight.catalog.storage.durability import Durability, durability, write_file
from lance_flight.catalog.storage.formats import root_store
from lance_flight.catalog.storage.staging_area import fill_reserve, settle_abandoned
from lance_flight.catalog.storage.store import Caches, Store, caches
from lance_flight.catalog.storage.whole_files import PRIVATE
from lance_flight.config import LOOPBACK, NO_PORT, ServerConfig, settings
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.policy_file import Policies, PolicyFile
from lance_flight.engine.runtime.admission import Limits
from lance_flight.engine.runtime.maintainer import Maintainer
from lance_flight.errors import InvalidInput, LanceFlightError
from lance_flight.file_reloading import Watched, states, warn_if_open
from lance_flight.flight import passwords
from lance_flight.flight.authentication import Authentication, Authenticator
from lance_flight.flight.engine_backend import EngineBackend
from lance_flight.flight.passwords import SessionTokens, TokensFile, Users, UsersFile
from lance_flight.flight.peers import FlightPeers, Neighbours
from lance_flight.flight.rows import InputRules
from lance_flight.flight.server import FlightSqlServer
from lance_flight.flight.tickets import TicketSealer

if TYPE_CHECKING:
    from lance_flight.connections import Tls
    from lance_flight.flight.tls import TlsFiles


class Door(Protocol):
    """A further port: `title` says for whom it is."""

    title: str

    @property
    def uri(self) -> str:
        """Return its address."""
        ...

    def renew(self, tls: Tls) -> None:
        """Show other certificates to clients that connect from now on."""
        ...

    def stopping(self) -> None:
        """End what clients wait for by further calls: new calls are refused from now on."""
        ...

    def stop(self) -> None:
        """Close the port and every connection."""
        ...


class Doors:
    """Doors of a server by the settings of their ports."""

    def __init__(self, doors: Mapping[str, Door]) -> None:
        self._doors = doors

    @property
    def addresses(self) -> Mapping[str, str]:
        """Return their addresses by the names of the settings."""
        return {setting: door.uri for setting, door in self._doors.items()}

    @property
    def lines(self) -> list[str]:
        """Return what is printed of each."""
        return [f"{door.title} at {door.uri}" for door in self._doors.values()]

    def renew(self, tls: Tls) -> None:
        """Show other certificates at each of them."""
        for door in self._doors.values():
            door.renew(tls)

    def stopping(self) -> None:
        """Tell each that no new calls are to come."""
        for door in self._doors.values():
            door.stopping()

    def stop(self) -> None:
        """Close all of them."""
        for door in self._doors.values():
            door.stop()


def authentication(config: ServerConfig, key: bytes) -> Authentication:
    """Build the authentication of a server, whose `key` signs the tokens that it issues; raise `InvalidInput` for an unreadable file."""
    tokens = SessionTokens(sealer=TicketSealer(key), lifetime=config.token_lifetime)
    users = UsersFile(config.users_file, tokens) if config.users_file else None
    others = _bearers(config)
    return Authentication(
        authenticators=tuple(others if users is None else (users, *others)),
        granter=users,
        allow_anonymous=config.allow_anonymous,
        has_certificates=bool(config.tls_client_ca),
    )


def certificates(config: ServerConfig) -> TlsFiles | None:
    """Return the files of a server's certificates; None without TLS."""
    if not config.tls_certificate:
        return None
    tls = importlib.import_module("lance_flight.flight.tls")
    files: TlsFiles = tls.TlsFiles(
        certificate=config.tls_certificate, key=config.tls_key, client_ca=config.tls_client_ca
    )
    return files


def _bearers(config: ServerConfig) -> Iterator[Authenticator]:
    """Yield the configured authenticators of bearer tokens that this server does not issue: static tokens and JSON web tokens."""
    if config.tokens_file:
        yield TokensFile(config.tokens_file)
    if config.jwt_keys:
        yield json_web_tokens(config)


def json_web_tokens(config: ServerConfig) -> Authenticator:
    """Return the authenticator of JSON web tokens; raise `InvalidInput` for a key set that cannot be read."""
    tokens = importlib.import_module("lance_flight.flight.json_web_tokens")
    rules = tokens.TokenRules(
        issuer=config.jwt_issuer,
        audience=config.jwt_audience,
        algorithms=tuple(name.strip() for name in config.jwt_algorithms.split(",") if name.strip()),
        principal_claim=config.jwt_principal_claim,
        groups_claim=config.jwt_groups_claim,
        leeway=config.jwt_leeway,
    )
    kind = tokens.KeysUrl if config.jwt_keys.startswith("https:") else tokens.KeysFile
    made: Authenticator = tokens.JsonWebTokens(rules, kind(config.jwt_keys))
    return made


KEY_BYTES = 32
KEY_FILE = "ticket.key"

LEAST_RUNNING, RUNNING_PER_CORE = 16, 4
INDICES_OF_MEMORY = 16
"""Divisor: 1/16 of the machine's memory is the default size of the index cache."""
METADATA_OF_MEMORY, MOST_METADATA = 32, 512 << 20
"""Divisor: 1/32 of the machine's memory is the default size of the cache of metadata, and the largest default."""
PROCESS_BYTES, SPARE_OF_MEMORY = 512 << 20, 16
"""Memory of a process that has done nothing, and divisor: 1/16 of the machine's memory stays free whatever settings say."""
WRITES_OF_MEMORY = 8
"""Divisor: 1/8 of the memory of statements is for rows that are being written into tables."""
STREAMS_OF_MEMORY = 4
"""Divisor: a quarter of as much as statements have may be held beside it by streams, for clients that have not taken their rows."""

MOST_THREADS = 1000
"""Most threads of the SQL endpoint, each for one call."""
MESSAGE_BYTES, SPARE_BYTES = 64 << 20, 1 << 20
"""Most bytes of a message to the SQL endpoint where statements have no limit, and what a message has beside a statement and parameters."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Service:
    """A server, its engine, its peers, its further doors, and the maintainer of its root, which is not started yet."""

    server: FlightSqlServer
    engine: Engine
    peers: FlightPeers
    maintainer: Maintainer
    doors: Doors

    def apply(self, config: ServerConfig) -> None:
        """Take the settings of a configuration that may change while a server runs; statements that run keep what they have begun with."""
        limits = limits_of(config)
        write_memory.total, write_memory.per_write = limits.write_memory, limits.statement_memory
        self.engine.apply(limits)
        self.peers.addresses = config.peer_addresses
        self.server.inputs.follow(_inputs_of(config))
        self.server.in_flight.most = config.running_calls
        self.maintainer.set_share(_share(config))


def build(
    root: str,
    config: ServerConfig,
    middleware: Mapping[str, Any] = MappingProxyType({}),
    *,
    create: bool = False,
    neighbours: Neighbours | None = None,
) -> Service:
    """Build a server that accepts connections already; `middleware` is Flight's, added to the server's own.

    A root that is not there is made with `create` alone. `neighbours` are the other replicas of this machine.
    """
    sizes = caches_of(config)
    caches.indices, caches.metadata = sizes.indices, sizes.metadata
    durability.mode = Durability(config.durability.lower())
    limits = limits_of(config)
    processes.least = LARGE_BYTES
    write_memory.total, write_memory.per_write = limits.write_memory, limits.statement_memory
    store = root_store(root, config.storage, create=create)
    settle_abandoned(store)
    key, tls_files = ticket_key(store, config), certificates(config)
    fill_reserve(store)
    tls = None if tls_files is None else tls_files.read()
    peers = FlightPeers(
        addresses=config.peer_addresses, sealer=TicketSealer(key), tls=tls, neighbours=neighbours or Neighbours()
    )
    engine = Engine(
        Root(store, PlainTables(config.plain_tables)),
        target_partitions=config.target_partitions or machine.cores(),
        limits=limits,
        peers=peers,
    )
    policies = PolicyFile(config.policy_file, shares=machine.sharing.processes) if config.policy_file else None
    admitting = authentication(config, key)
    if tls is None and config.has_authentication and config.host not in LOOPBACK:
        log.warning("credentials come over %s without encryption; expected tls_certificate and tls_key", config.host)
    if config.host not in LOOPBACK and not config.proxy_secret and not config.tls_client_ca:
        log.warning(
            "%s is open to clients that have shown no credential: nothing bounds their streams and messages; expected --replicas,"
            " or a proxy that does (see server/docs/replicas.md) and proxy_secret",
            config.host,
        )
    advertised = _list_names(config.advertise)
    backend = EngineBackend(engine, policies)
    try:
        server = FlightSqlServer(
            backend,
            key,
            host=config.host,
            port=config.port,
            advertise=advertised,
            authentication=admitting,
            inputs=_inputs_of(config),
            running_calls=config.running_calls,
            proxy_secret=config.proxy_secret,
            middleware=middleware,
            tls=tls,
        )
    except (OSError, pa.ArrowException) as exc:
        raise InvalidInput(f"cannot listen on {config.host}:{config.port}: {_why(config.host, config.port)}") from exc
    doors = Doors({**dict(_doors(server, config, tls)), **dict(_rest_door(server, backend, admitting, config))})
    return Service(server, engine, peers, maintainer_of(engine, config), doors)


def _doors(server: FlightSqlServer, config: ServerConfig, tls: Tls | None) -> Iterator[tuple[str, Door]]:
    """Open the further ports that a configuration asks for; their libraries are loaded only then."""
    if config.lancedb_sql_port != NO_PORT:
        grpc_server = importlib.import_module("lance_flight.flight.grpc_server")
        message_limit = (config.statement_limit or MESSAGE_BYTES) + config.parameter_limit + SPARE_BYTES
        yield (
            "lancedb_sql_port",
            grpc_server.GrpcServer(
                server,
                host=config.host,
                port=config.lancedb_sql_port,
                threads=min(config.running_calls, MOST_THREADS),
                message_limit=message_limit,
                tls=tls,
            ),
        )


def _rest_door(
    server: FlightSqlServer, backend: EngineBackend, admitting: Authentication, config: ServerConfig
) -> Iterator[tuple[str, Door]]:
    """Open the REST catalog over the backend of a server, whose bounds hold for both together."""
    if config.rest_port == NO_PORT:
        return
    try:
        rest = importlib.import_module("lance_flight.rest.server")
    except ModuleNotFoundError as exc:
        raise InvalidInput(f"rest_port is set and {exc.name} is not installed; expected lance-flight[rest]") from exc
    served = rest.ServedBackend(
        backend=backend,
        authentication=admitting,
        in_flight=server.in_flight,
        rules=server.inputs,
        waits=lambda: (backend.limits.ingest_idle_timeout, backend.limits.stream_idle_timeout),
        proxy_secret=config.proxy_secret,
    )
    yield "rest_port", rest.RestServer(served, config.host, config.rest_port, server.tls)


def maintainer_of(engine: Engine, config: ServerConfig) -> Maintainer:
    """Return the maintainer of a root, which works if the configuration says so."""
    in_use = engine.clients.places_in_transactions
    return Maintainer(engine.root, engine.maintained, share=_share(config), in_use=in_use)


def _inputs_of(config: ServerConfig) -> InputRules:
    return InputRules(
        parameter_limit=config.parameter_limit,
        batch_limit=config.batch_limit,
        takes_dictionaries=config.takes_dictionaries,
    )


def _share(config: ServerConfig) -> float:
    return config.maintenance_share if config.maintenance.lower() == "on" else 0.0


def _list_names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _write_memory(server_memory: int) -> int:
    """Return the part of a server's memory for rows that are being written; 0 if it is less than a write may have anyway."""
    part = server_memory // WRITES_OF_MEMORY
    return part if part >= LEAST_BYTES else 0


def caches_of(config: ServerConfig) -> Caches:
    """The sizes of Lance's caches that a configuration asks for, or that fit the machine."""
    memory = machine.memory()
    return Caches(
        indices=config.index_cache or memory // INDICES_OF_MEMORY,
        metadata=config.metadata_cache or min(MOST_METADATA, memory // METADATA_OF_MEMORY),
    )


def _process_memory(config: ServerConfig, server_memory: int) -> int:
    """Return the memory that a server needs for all that it counts; more is in use by what DataFusion does not count."""
    caches = caches_of(config)
    most = server_memory + machine.arrow_memory(server_memory) + caches.indices + caches.metadata + PROCESS_BYTES
    return min(most, machine.memory() - machine.memory() // SPARE_OF_MEMORY)


def limits_of(config: ServerConfig) -> Limits:
    """The limits that a configuration asks for: those of settings of the same name, and those that follow from several."""
    server_memory = config.server_memory_limit or machine.memory() // 2
    running = config.running_statements or max(LEAST_RUNNING, RUNNING_PER_CORE * machine.cores())
    names = {limit.name for limit in fields(Limits)} & {setting.name for setting in settings()}
    likewise = {name: getattr(config, name) for name in names}
    derived = {
        "server_memory": server_memory,
        "write_memory": _write_memory(server_memory),
        "process_memory": _process_memory(config, server_memory),
        "statement_memory": config.memory_limit or None,
        "stream_memory": config.stream_memory_limit or server_memory // STREAMS_OF_MEMORY,
        "spill_directory": config.spill_directory or None,
        "running_statements": min(running, max(server_memory // config.memory_limit, 1))
        if config.memory_limit
        else running,
        "statement_text": config.statement_limit or None,
    }
    return Limits(**{**likewise, **derived})


def _why(host: str, port: int) -> str:
    """Return why a server cannot listen at an address, which gRPC does not report."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(address)
    except OSError as exc:
        is_taken = exc.errno == errno.EADDRINUSE
        return f"{exc.strerror}{'; end the other process, or choose another --port' if is_taken else ''}"
    return "the server did not start"


def ticket_key(store: Store, config: ServerConfig) -> bytes:
    """Return the key that signs tickets: from its file, else one stored in the root and shared by every server of the root."""
    if config.ticket_key_file:
        return key_in_file(config.ticket_key_file)
    if "://" in store.uri:
        log.warning("no ticket_key_file: tickets are valid for this process only")
        return secrets.token_bytes(KEY_BYTES)
    store.check_way(PRIVATE, KEY_FILE)
    kept = Path(store.uri) / PRIVATE / KEY_FILE
    return _of_right_length(
        str(kept), _kept_key(kept), "; without the file a new key is made, and older tickets and tokens are refused"
    )


def key_in_file(file: str) -> bytes:
    """Return the key in a file that an operator has made; raise `InvalidInput` for one that cannot be used."""
    try:
        key = Path(file).read_bytes()
    except OSError as exc:
        raise InvalidInput(f"ticket key file {file!r} cannot be read: {exc.strerror}") from exc
    warn_if_open(file, "ticket key file")
    return _of_right_length(file, key, "")


def _of_right_length(file: str, key: bytes, advice: str) -> bytes:
    if len(key) != KEY_BYTES:
        raise InvalidInput(f"{file!r} holds {len(key)} bytes; expected {KEY_BYTES}{advice}")
    return key


def _kept_key(path: Path) -> bytes:
    """Read the key, or create it; if two servers create it at once, one key wins and both use it."""
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileExistsError):
            write_file(path, secrets.token_bytes(KEY_BYTES), mode=0o600, replace=False)
        return path.read_bytes()
    except OSError as exc:
        raise InvalidInput(
            f"the root cannot keep the key that signs tickets, {str(path)!r}: {exc.strerror}; expected ticket_key_file, a file of"
            f" {KEY_BYTES} bytes, or a root that may be written"
        ) from exc


SOON = timedelta(days=14)
"""A certificate that expires within this time is warned of, as by the alert."""


def checks(config: ServerConfig, root: str) -> Iterator[RootFinding]:
    """Yield a finding for each setting that names a file or directory, then for the root unless it is an empty text.

    The same code reads them that a server reads them with; nothing is changed.
    """
    for setting, check in _OF_SETTINGS.items():
        value = getattr(config, setting)
        if value:
            yield _findings(f"{setting} {value!r}", partial(check, config))
    if config.tls_certificate and "certificate" in states:
        yield _expiry(config.tls_certificate)
    if root:
        yield _findings(f"root {root!r}", lambda: _check_root(root, config))


def _findings(subject: str, check: Callable[[], object]) -> RootFinding:
    try:
        check()
    except LanceFlightError as exc:
        return RootFinding(Level.ERROR, subject, str(exc))
    return RootFinding(Level.OK, subject, "can be used")


def _expiry(certificate: str) -> RootFinding:
    expires = datetime.fromtimestamp(states["certificate"].expires or 0.0, UTC)
    left = expires - datetime.now(UTC)
    subject = f"tls_certificate {certificate!r}"
    if left < timedelta():
        return RootFinding(Level.ERROR, subject, f"has expired at {expires}", "a server that runs keeps the one it has")
    level = Level.WARNING if left < SOON else Level.OK
    return RootFinding(level, subject, f"expires at {expires}, in {left.days} days")


def _check_root(root: str, config: ServerConfig) -> None:
    store = root_store(root, config.storage)
    if store.is_remote:
        return  # it was listed when it was opened
    try:
        store.check()
    except (OSError, ValueError) as exc:
        raise InvalidInput(f"it cannot be listed: {store.words(exc)}") from exc


def _check_writable(setting: str, directory: Path) -> None:
    if not directory.is_dir() or not os.access(directory, os.W_OK | os.X_OK):
        raise InvalidInput(f"{setting}: {str(directory)!r} is no directory that this user may write to")


def _check_audit_log(config: ServerConfig) -> None:
    if config.audit_log != "-":
        _check_writable("audit_log", Path(config.audit_log).resolve().parent)


def _check_spilling(config: ServerConfig) -> None:
    _check_writable("spill_directory", Path(config.spill_directory))


def _check_certificates(config: ServerConfig) -> None:
    files = certificates(config)
    if files is not None:
        files.read()


_OF_SETTINGS: dict[str, Callable[[ServerConfig], object]] = {
    "tls_certificate": _check_certificates,
    "users_file": lambda config: Watched(config.users_file, Users.parse, what="users file"),
    "tokens_file": lambda config: Watched(config.tokens_file, passwords.parse_tokens, what="tokens file"),
    "jwt_keys": json_web_tokens,
    "policy_file": lambda config: Watched(config.policy_file, Policies.parse, what="policy file", is_secret=False),
    "ticket_key_file": lambda config: key_in_file(config.ticket_key_file),
    "spill_directory": _check_spilling,
    "audit_log": _check_audit_log,
}
