"""Server configuration: every setting with its section, default, help and bounds, in one frozen value; and where its values come from.

Every setting stands once, in `ServerConfig`; the command line, the environment (`LANCE_FLIGHT_<NAME>`), the TOML file
and the table in server/docs/configuration.md are made from it or checked against it.

Sources of a configuration: defaults < a TOML file < the environment < arguments, each with the values that it gives.

They are merged into a `ServerConfig`, and printed as a file that says where each value comes from.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lance_flight.errors import InvalidInput, Refused, nearest
from lance_flight.quantities import SIZE_EXPECTED, TIME_EXPECTED, parse_bytes, parse_seconds

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
DEFAULT_PORT = 32010
MAX_PORT = 65535
NO_PORT = -1
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
LEAST_SHARE = 0.001

BYTES, SECONDS = "bytes", "seconds"
"""Units of settings that may be given with a unit: `4GiB`, `30s`."""
MOST_NUMBER, MOST_SECONDS = (1 << 63) - 1, 3.0e9
"""Bounds of numbers without a `most`: what a library takes as a number, and a time that the system can wait for."""

NETWORK, IDENTITY, ENCRYPTION = "Network", "Identity", "Encryption"
TICKETS, LIMITS, STORAGE, OPERATION = "Tickets and policies", "Resources and limits", "Storage", "Operation"


def _setting(section: str, default: Any, help_text: str, **facts: Any) -> Any:
    """Declare a setting of a section, with facts about it.

    They are `least`/`most` of a number, `among` for a word, its `unit`, `is_secret`, the `old_name` of a renamed one, and `reloads` for one whose
    new value a running server takes (`serving/supervisor.py`).
    """
    metadata = {"section": section, "help": help_text, **facts}
    return field(default=default, repr=not facts.get("is_secret"), metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Configuration of a server: each setting with its section, default, help and bounds.

    >>> ServerConfig(port=0).host
    '127.0.0.1'
    """

    host: str = _setting(NETWORK, "127.0.0.1", "network interface to listen on")
    port: int = _setting(NETWORK, DEFAULT_PORT, "port to listen on; 0 picks a free one", least=0, most=MAX_PORT)
    lancedb_sql_port: int = _setting(
        NETWORK,
        NO_PORT,
        "port of the SQL endpoint for LanceDB's clients, which is Flight SQL with PollFlightInfo (10025 by their default);"
        " 0 picks a free one, -1 disables it",
        least=NO_PORT,
        most=MAX_PORT,
    )
    rest_port: int = _setting(
        NETWORK,
        NO_PORT,
        "HTTP port of the Lance REST catalog, for LanceDB's clients; 0 picks a free one, -1 disables it",
        least=NO_PORT,
        most=MAX_PORT,
    )
    ready_file: str = _setting(NETWORK, "", "file to write grpc://host:port to once the server accepts connections")
    proxy_secret: str = _setting(
        NETWORK,
        "",
        "secret with which the proxy in front says the addresses of clients, as a header: lance-flight-proxy: SECRET ADDRESS:PORT",
        is_secret=True,
    )
    allow_anonymous: bool = _setting(
        IDENTITY,
        default=False,
        help_text="accept callers without credentials on an interface other than loopback, or beside callers with credentials",
    )
    users_file: str = _setting(
        IDENTITY, "", "TOML file of users with hashed passwords and groups; see server/docs/identity.md"
    )
    token_lifetime: float = _setting(
        IDENTITY, 43200.0, "lifetime of tokens issued for a password, in seconds", least=0, unit=SECONDS
    )
    tokens_file: str = _setting(IDENTITY, "", "TOML file of hashed bearer tokens and their principals")
    jwt_keys: str = _setting(IDENTITY, "", "file or https URL of the keys (JWKS) that JSON web tokens are signed with")
    jwt_issuer: str = _setting(IDENTITY, "", "required issuer (iss) of JSON web tokens")
    jwt_audience: str = _setting(IDENTITY, "", "required audience (aud) of JSON web tokens")
    jwt_algorithms: str = _setting(
        IDENTITY, "RS256", "accepted signature algorithms of JSON web tokens, separated by commas"
    )
    jwt_principal_claim: str = _setting(IDENTITY, "sub", "claim that holds the name of the principal")
    jwt_groups_claim: str = _setting(
        IDENTITY, "groups", "claim that holds the groups of the principal, or its path: realm_access.roles"
    )
    jwt_leeway: float = _setting(
        IDENTITY, 30.0, "accepted clock difference to the issuer of JSON web tokens, in seconds", least=0, unit=SECONDS
    )
    tls_certificate: str = _setting(
        ENCRYPTION, "", "PEM file of the server certificate and its chain; reloaded when it changes"
    )
    tls_key: str = _setting(ENCRYPTION, "", "PEM file of the private key of tls_certificate")
    tls_client_ca: str = _setting(
        ENCRYPTION, "", "PEM file of the authorities that sign client certificates; requires clients to present one"
    )
    ticket_key_file: str = _setting(
        TICKETS,
        "",
        "file with the 32-byte key that signs tickets; without it the server keeps a key in .lance-flight of the root",
    )
    advertise: str = _setting(
        TICKETS, "", "addresses at which clients reach this server, separated by commas, for parallel endpoints"
    )
    peers: str = _setting(
        TICKETS,
        "",
        "addresses of the other servers over this root, comma-separated, as grpc://host:port, or dns+grpc://name:port for all that a name"
        " resolves to: system tables, KILL and cancellation reach them",
        reloads=True,
    )
    policy_file: str = _setting(
        TICKETS,
        "",
        "TOML file of roles, privileges, filters of rows, columns, masks and quotas (see server/docs/policies.md); without it everything is allowed",
    )
    plain_tables: str = _setting(
        LIMITS,
        "both",
        "where plain tables right below the root are found: by their directories, listed in the root's __manifest, or both;"
        " a new one is listed where that alone counts",
        among=("both", "listed", "directories"),
    )
    target_partitions: int = _setting(
        LIMITS,
        0,
        "number of partitions that a scan is executed in, in parallel; 0 means one per core",
        least=0,
        old_name="lanes",
    )
    server_memory_limit: int = _setting(
        LIMITS,
        0,
        "memory of all statements together, in bytes, beyond which they spill or fail; 0 means half of the machine's memory",
        least=0,
        unit=BYTES,
        reloads=True,
    )
    memory_limit: int = _setting(
        LIMITS,
        0,
        "memory of one statement, in bytes, beyond which it spills or fails; 0 means server_memory_limit",
        least=0,
        unit=BYTES,
        reloads=True,
    )
    index_cache: int = _setting(
        LIMITS,
        0,
        "size of the index cache in bytes, on top of the memory of statements; 0 means a sixteenth of the machine's memory",
        least=0,
        unit=BYTES,
    )
    metadata_cache: int = _setting(
        LIMITS,
        0,
        "size in bytes of the cache of what tables say of their files, on top of the memory of statements; 0 means 1/32 of the machine's memory, 512 MiB at most",
        least=0,
        unit=BYTES,
    )
    spill_directory: str = _setting(
        LIMITS, "", "directory for spill files; without it the directory for temporary files"
    )
    running_statements: int = _setting(
        LIMITS,
        0,
        "number of statements executed at the same time; 0 means four per core, at least 16",
        least=0,
        reloads=True,
    )
    waiting_statements: int = _setting(
        LIMITS, 1000, "number of statements that wait for admission; further ones are rejected", least=0, reloads=True
    )
    statement_timeout: float = _setting(
        LIMITS,
        0.0,
        "maximum execution time of a statement, in seconds; 0 means unlimited",
        least=0,
        unit=SECONDS,
        reloads=True,
    )
    planning_timeout: float = _setting(
        LIMITS,
        30.0,
        "maximum planning time of a statement, in seconds; 0 means unlimited",
        least=0,
        unit=SECONDS,
        reloads=True,
    )
    statement_limit: int = _setting(
        LIMITS,
        16 << 20,
        "maximum length of the text of a statement, in bytes, of which a quarter (at least 4 MiB) is for one that is no INSERT of rows; 0 means unlimited",
        least=0,
        unit=BYTES,
        reloads=True,
    )
    ticket_lifetime: float = _setting(
        LIMITS,
        600.0,
        "lifetime of tickets, and of the snapshots that they read, in seconds",
        least=0,
        unit=SECONDS,
        reloads=True,
    )
    ingest_idle_timeout: float = _setting(
        LIMITS,
        300.0,
        "maximum time that an ingest waits for the next rows of its client, in seconds; 0 means unlimited",
        least=0,
        unit=SECONDS,
        reloads=True,
    )
    stream_idle_timeout: float = _setting(
        LIMITS,
        3600.0,
        "maximum time that the stream of a result waits for its client to take rows, in seconds; 0 means unlimited",
        least=0,
        unit=SECONDS,
        reloads=True,
    )
    stream_memory_limit: int = _setting(
        LIMITS,
        0,
        "memory of rows that open streams hold for their clients, in bytes, beyond which further streams are refused;"
        " 0 means a quarter of server_memory_limit",
        least=0,
        unit=BYTES,
        reloads=True,
    )
    batch_limit: int = _setting(
        LIMITS, 1 << 30, "maximum size of a record batch of an ingest, in bytes", least=0, unit=BYTES, reloads=True
    )
    parameter_limit: int = _setting(
        LIMITS, 64 << 20, "maximum size of the parameters of a statement, in bytes", least=0, unit=BYTES, reloads=True
    )
    dictionary_ingest: str = _setting(
        LIMITS,
        "auto",
        "accept dictionary-encoded columns in ingests: on, off, or auto (on if the server listens on loopback without"
        " authentication); a malformed dictionary stream crashes pyarrow's server before it can be rejected",
        among=("auto", "on", "off"),
        reloads=True,
    )
    sessions: int = _setting(
        LIMITS,
        10_000,
        "number of client sessions that are kept; beyond it the oldest one of the principal with most of them ends",
        least=0,
        reloads=True,
    )
    sessions_per_principal: int = _setting(
        LIMITS,
        0,
        "number of client sessions, and of open transactions, that one principal has; 0 means a quarter of sessions",
        least=0,
        reloads=True,
    )
    running_calls: int = _setting(
        LIMITS,
        1000,
        "number of calls answered at the same time, each by a thread, an ingest by two",
        least=1,
        reloads=True,
    )
    session_idle_timeout: float = _setting(
        LIMITS,
        3600.0,
        "idle time after which a session ends and its transactions are rolled back, in seconds",
        least=0,
        unit=SECONDS,
        reloads=True,
    )
    storage_options: str = _setting(
        STORAGE,
        "",
        "options of an object store, key=value separated by commas: aws_endpoint, aws_region, allow_http …;"
        " others are read from the environment (AWS_ACCESS_KEY_ID …), and secrets not from the command line",
        is_secret=True,
    )
    durability: str = _setting(
        STORAGE,
        "commit",
        "what an acknowledged commit in a directory survives: commit (a power cut) or none (only the end of the server);"
        " object stores keep what they acknowledge",
        among=("commit", "none"),
    )
    grace: float = _setting(
        OPERATION,
        30.0,
        "time that running calls have to end when the server is stopped, in seconds",
        least=0,
        unit=SECONDS,
        reloads=True,
    )
    unresponsive_after: float = _setting(
        OPERATION,
        60.0,
        "time without an answer after which the server is killed and restarted, in seconds; 0 restarts it after crashes only",
        least=0,
        unit=SECONDS,
    )
    maintenance: str = _setting(
        OPERATION,
        "off",
        "compact tables, bring indices up to date and vacuum by retention in this server (see server/docs/maintenance.md): on or off",
        among=("off", "on"),
        reloads=True,
    )
    maintenance_share: float = _setting(
        OPERATION,
        0.1,
        "share of the time that maintenance works: after a second of work at 0.1 it rests for nine, or less while many files wait",
        least=LEAST_SHARE,
        most=1.0,
        reloads=True,
    )
    admin_host: str = _setting(
        OPERATION, "127.0.0.1", "network interface of admin_port and health_port, which serve no data"
    )
    admin_port: int = _setting(
        OPERATION,
        NO_PORT,
        "HTTP port of /healthz, /readyz and /metrics; 0 picks a free one, -1 disables it",
        least=NO_PORT,
        most=MAX_PORT,
    )
    health_port: int = _setting(
        OPERATION,
        NO_PORT,
        "port of the gRPC health service; 0 picks a free one, -1 disables it",
        least=NO_PORT,
        most=MAX_PORT,
    )
    log_level: str = _setting(
        OPERATION,
        "warning",
        "least level that is logged: debug, info, warning or error",
        among=LOG_LEVELS,
        reloads=True,
    )
    log_format: str = _setting(
        OPERATION, "text", "format of the log: text, or json with one object per line", among=LOG_FORMATS, reloads=True
    )
    log_statements: bool = _setting(
        OPERATION, default=False, help_text="log one line per finished statement, at any log_level", reloads=True
    )
    log_sql: int = _setting(
        OPERATION,
        1000,
        "number of characters of a statement's text in its log line and trace; 0 omits it, since SQL may hold data and secrets",
        least=0,
        reloads=True,
    )

    audit_log: str = _setting(
        OPERATION,
        "",
        "file of the audit log, - for standard output: logins, changed grants, DDL, refusals and reads of masked tables, a JSON object a line",
    )
    audit_statements: bool = _setting(
        OPERATION,
        default=False,
        help_text="write the texts of statements into the audit log, too; they may hold data and secrets",
    )
    audit_required: bool = _setting(
        OPERATION,
        default=False,
        help_text="refuse what the audit log is to hold while that cannot be written, instead of only logging that it cannot",
    )

    def check(self) -> ServerConfig:
        """Validate and return this configuration; `InvalidInput` for a bad value, `Refused` for serving remote clients unauthenticated."""
        for setting in settings():
            _check(setting, getattr(self, setting.name))
        self.storage  # noqa: B018 - checks it
        self._check_identity()
        if self.audit_required and not self.audit_log:
            raise InvalidInput(
                "setting 'audit_required' is true without 'audit_log'; expected a file, or - for standard output"
            )
        for address in self.peer_addresses:
            if not re.fullmatch(r"(dns\+)?grpc(\+tls)?://.+:\d+", address):
                raise InvalidInput(
                    f"setting 'peers' has {address!r}; expected grpc://host:port, or grpc+tls, dns+grpc or dns+grpc+tls in place of grpc"
                )
        return self

    def _check_identity(self) -> None:
        if self.jwt_keys and not (self.jwt_issuer and self.jwt_audience):
            raise InvalidInput("setting 'jwt_keys' goes with 'jwt_issuer' and 'jwt_audience'; expected all of them")
        if self.jwt_keys.startswith("http:"):
            raise InvalidInput(f"setting 'jwt_keys' is {self.jwt_keys!r}; expected a file, or a URL with https")
        if bool(self.tls_certificate) != bool(self.tls_key) or (self.tls_client_ca and not self.tls_key):
            raise InvalidInput("settings 'tls_certificate' and 'tls_key' go together, and 'tls_client_ca' with both")
        if self.host not in LOOPBACK and not self.allow_anonymous and not self.has_authentication:
            raise Refused(
                f"host {self.host!r} is not loopback and there is no authentication;"
                " expected 127.0.0.1, a users_file, tokens_file, jwt_keys or tls_client_ca,"
                " or --allow-anonymous to serve anyone who can connect"
            )

    @property
    def has_authentication(self) -> bool:
        """True if a users file, tokens file, JWT keys or a TLS client authority is configured."""
        return bool(self.users_file or self.tokens_file or self.jwt_keys or self.tls_client_ca)

    @property
    def takes_dictionaries(self) -> bool:
        """True if ingests may have dictionary-encoded columns."""
        if self.dictionary_ingest == "auto":
            return not self.has_authentication and self.host in LOOPBACK
        return self.dictionary_ingest == "on"

    @property
    def peer_addresses(self) -> tuple[str, ...]:
        """Return the addresses of `peers`."""
        return tuple(part.strip() for part in self.peers.split(",") if part.strip())

    @property
    def storage(self) -> dict[str, str]:
        """Return the storage options as pairs."""
        pairs = [pair.strip() for pair in self.storage_options.split(",") if pair.strip()]
        if any("=" not in pair for pair in pairs):
            raise InvalidInput("setting 'storage_options' is no list of pairs; expected key=value,key=value")
        return {key.strip().lower(): value.strip() for key, _, value in (pair.partition("=") for pair in pairs)}


def settings() -> tuple[dataclasses.Field[Any], ...]:
    """Return every setting, in order."""
    return dataclasses.fields(ServerConfig)


def is_reloadable(setting: dataclasses.Field[Any]) -> bool:
    """Return whether a running server takes a new value of a setting; of any other it does when it is started again."""
    return bool(setting.metadata.get("reloads"))


def reloadable_values(config: ServerConfig) -> dict[str, Any]:
    """Return the values of the settings that a running server takes.

    >>> reloadable_values(ServerConfig(sessions=5))["sessions"]
    5
    """
    return {setting.name: getattr(config, setting.name) for setting in settings() if is_reloadable(setting)}


def sections() -> dict[str, list[dataclasses.Field[Any]]]:
    """Return the settings of each section, in order."""
    by_section: dict[str, list[dataclasses.Field[Any]]] = {}
    for setting in settings():
        by_section.setdefault(setting.metadata["section"], []).append(setting)
    return by_section


def _check(setting: dataclasses.Field[Any], value: Any) -> None:
    least, most = setting.metadata.get("least"), setting.metadata.get("most")
    among = setting.metadata.get("among")
    if among is not None and value.lower() not in among:
        raise InvalidInput(f"setting {setting.name!r} is {value!r}; expected one of {', '.join(among)}")
    bound = MOST_SECONDS if setting.metadata.get("unit") == SECONDS else MOST_NUMBER
    if least is not None and not least <= value <= (bound if most is None else most):
        expected = f"{least} or more" if most is None and value < least else f"{least} to {most or bound}"
        raise InvalidInput(f"setting {setting.name!r} is {value}; expected {expected}")


ENVIRONMENT_PREFIX = "LANCE_FLIGHT_"
CONFIG = "CONFIG"
RELOADED = "; reloaded"
"""Mark of the settings whose new value a running server takes, where they are listed."""

_MISTYPED = 0.9
"""Likeness of two names of variables, beginning included, of which one is probably meant to be the other."""

SECRET = re.compile(r"secret|token|password|credential|sas\b|key$", re.IGNORECASE)
"""Part of the name of a storage option that is a secret; the names of keys (`aws_access_key_id`) are none."""
WITH_PASSWORD = re.compile(r"://[^/@]*:[^/@]*@")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """Values of some settings, and in words where they come from."""

    name: str
    values: Mapping[str, Any]


def sources(
    arguments: Mapping[str, Any], *, file: str | None = None, environment: Mapping[str, str] | None = None
) -> tuple[SettingsSource, ...]:
    """Everything that says something about a setting, the weakest first; None among the `arguments` says nothing.

    Without a `file` the environment may name one, as LANCE_FLIGHT_CONFIG.
    """
    environment = os.environ if environment is None else environment
    _check_no_secrets(arguments)
    file = file_of(file, environment)
    _warn_of_unknown(environment)
    texts = [(setting, name, environment[name]) for setting in settings() for name in _variables(setting, environment)]
    return (
        SettingsSource("default", {setting.name: setting.default for setting in settings()}),
        *([SettingsSource(f"file {file}", _from_file(Path(file)))] if file else []),
        *(
            SettingsSource(f"environment {name}", {setting.name: parse_setting(setting, text)})
            for setting, name, text in texts
        ),
        *(
            SettingsSource(f"option {flag(name)}", {name: value})
            for name, value in arguments.items()
            if value is not None
        ),
    )


def _check_no_secrets(arguments: Mapping[str, Any]) -> None:
    """Refuse secrets among arguments: everybody on the machine sees those of a process."""
    for setting in settings():
        given = arguments.get(setting.name)
        if given is None or not setting.metadata.get("is_secret"):
            continue
        for name, _, value in (pair.partition("=") for pair in str(given).split(",")):
            if SECRET.search(name.strip()) or WITH_PASSWORD.search(value):
                raise InvalidInput(
                    f"option {flag(setting.name)} has {name.strip()!r}, and everybody on this machine sees the arguments of a process; expected"
                    f" it in the environment, as {variable(setting)} or by the store's own name (AWS_SECRET_ACCESS_KEY …), or in the file of --config"
                )


def file_of(file: str | None, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the configuration file that is given, or else that of the environment; None without one."""
    environment = os.environ if environment is None else environment
    return file or environment.get(ENVIRONMENT_PREFIX + CONFIG)


def merge_sources(sources: Sequence[SettingsSource]) -> ServerConfig:
    """The configuration that some sources make, each overruling the ones before; whether it can be is not checked."""
    values = {name: value for source in sources for name, value in source.values.items()}
    return ServerConfig(**values)


def load(
    arguments: Mapping[str, Any], *, file: str | None = None, environment: Mapping[str, str] | None = None
) -> ServerConfig:
    """Load and validate the configuration from a TOML file, the environment and arguments, each overriding the one before."""
    return merge_sources(sources(arguments, file=file, environment=environment)).check()


def as_toml(sources: Sequence[SettingsSource]) -> str:
    """The configuration that some sources make, as a file of its own, with where each value comes from; secrets are left out.

    >>> print(as_toml(sources({"port": 0}, environment={})).splitlines()[2])
    port = 0  # option --port
    """
    values, lines = merge_sources(sources), []
    for section, of_section in sections().items():
        lines += ["", f"# {section}"]
        for setting in of_section:
            source = next(source for source in reversed(sources) if setting.name in source.values)
            value = getattr(values, setting.name)
            is_hidden = setting.metadata.get("is_secret") and value != setting.default
            text = f"# {setting.name} is hidden" if is_hidden else f"{setting.name} = {_as_toml(value)}"
            lines.append(f"{text}  # {source.name}{RELOADED if is_reloadable(setting) else ''}")
    return "\n".join(lines[1:])


def variable(setting: dataclasses.Field[Any]) -> str:
    """Return the name of the environment variable of a setting."""
    return ENVIRONMENT_PREFIX + setting.name.upper()


def _old_variable(setting: dataclasses.Field[Any]) -> str:
    """Return the name that the variable of a setting had in the release before."""
    return ENVIRONMENT_PREFIX + str(setting.metadata.get("old_name", setting.name)).upper()


def _variables(setting: dataclasses.Field[Any], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the environment variables that are set for a setting, the weakest first; warn of an old name."""
    name = _old_variable(setting)
    if name != variable(setting) and name in environment:
        warn_of_old_name(name, variable(setting))
        yield name
    if variable(setting) in environment:
        yield variable(setting)


def _warn_of_unknown(environment: Mapping[str, str]) -> None:
    """Log each variable whose name is nearly that of a setting: mistyped, it would be left out without a word.

    Others are none of ours to judge: Kubernetes puts addresses of services there (LANCE_FLIGHT_PORT_32010_TCP).
    """
    known = {
        ENVIRONMENT_PREFIX + CONFIG,
        *(name for setting in settings() for name in (variable(setting), _old_variable(setting))),
    }
    for name in environment:
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known:
            for near in nearest(name, known, _MISTYPED)[:1]:
                log.warning("environment variable %s is no setting, and has no effect; did you mean %s?", name, near)


def flag(name: str) -> str:
    """Return the command-line option of a setting."""
    return "--" + name.replace("_", "-")


def warn_of_old_name(old: str, new: str) -> None:
    """Log that a renamed setting was given by its old name, which the next release does not know."""
    log.warning("setting %s is called %s now; the old name works for this release", old, new)


def _as_toml(value: str | float) -> str:
    # A string of JSON is one of TOML, and so are numbers, true and false.
    return json.dumps(value, ensure_ascii=False)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text())
    except (
        OSError,
        ValueError,
        RecursionError,
    ) as exc:  # no file, no UTF-8, no TOML, or TOML that is nested without an end
        raise InvalidInput(f"configuration file {str(path)!r} cannot be read: {exc}") from exc
    known = {setting.name: setting for setting in settings()}
    for name, setting in known.items():
        old = setting.metadata.get("old_name")
        if old in table:
            warn_of_old_name(old, name)
            table = {name: table[old]} | {key: value for key, value in table.items() if key != old}
    unknown = sorted(table.keys() - known.keys())
    if unknown:
        raise InvalidInput(
            f"configuration file {str(path)!r} has no setting {unknown[0]!r}; expected {', '.join(known)}"
        )
    return {name: parse_setting(known[name], value) for name, value in table.items()}


def parse_setting(setting: dataclasses.Field[Any], value: Any) -> Any:
    """Return a value of a setting, from the text or the TOML value that it is given as; `InvalidInput` names both."""
    kind: type[Any] = type(setting.default)
    unit = setting.metadata.get("unit")
    if unit is not None and isinstance(value, str) and not value.strip().startswith("-"):
        try:
            return parse_bytes(value) if unit is BYTES else parse_seconds(value)
        except (InvalidInput, OverflowError):
            expected = SIZE_EXPECTED if unit is BYTES else TIME_EXPECTED
            raise InvalidInput(f"setting {setting.name!r} is {value!r}; expected {expected}") from None
    if kind is bool and isinstance(value, str):
        lowered = value.strip().lower()
        if lowered in {"1", "true", "yes", "on", "0", "false", "no", "off", ""}:
            return lowered in {"1", "true", "yes", "on"}
    elif isinstance(value, kind):
        return value
    else:
        try:
            return kind(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise InvalidInput(f"setting {setting.name!r} is {value!r}; expected a {kind.__name__}")


def storage_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Parse the storage options in LANCE_FLIGHT_STORAGE_OPTIONS, for commands that have no setting but this one.

    >>> storage_from_environment({"LANCE_FLIGHT_STORAGE_OPTIONS": "aws_region=eu-north-1, allow_http=true"})
    {'aws_region': 'eu-north-1', 'allow_http': 'true'}
    """
    return ServerConfig(storage_options=environment.get(f"{ENVIRONMENT_PREFIX}STORAGE_OPTIONS", "")).storage
