"""One frozen configuration, from defaults < file < environment < arguments.

Every setting stands once, in `ServerConfig`; the command line, the environment (`LANCE_FLIGHT_<NAME>`), the TOML file
and the table in the README are made from it or checked against it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lance_flight.errors import InvalidInput, Refused

ENVIRONMENT_PREFIX = "LANCE_FLIGHT_"
CONFIG = "CONFIG"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
DEFAULT_PORT = 32010
MAX_PORT = 65535
NO_PORT = -1
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
DICTIONARY_INGEST = ("auto", "on", "off")

_NOT_NEGATIVE = (
    "lanes",
    "server_memory_limit",
    "memory_limit",
    "index_cache",
    "running_statements",
    "waiting_statements",
    "statement_timeout",
    "planning_timeout",
    "statement_limit",
    "ingest_idle_timeout",
    "batch_limit",
    "parameter_limit",
    "sessions",
    "sessions_per_principal",
    "session_idle_timeout",
    "ticket_lifetime",
    "token_lifetime",
    "jwt_leeway",
    "grace",
    "unresponsive_after",
    "log_sql",
)


def _setting(default: Any, help_text: str, *, is_secret: bool = False) -> Any:
    return field(default=default, repr=not is_secret, metadata={"help": help_text, "is_secret": is_secret})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """How a server runs.

    >>> ServerConfig(port=0).host
    '127.0.0.1'
    """

    host: str = _setting("127.0.0.1", "interface to listen on")
    port: int = _setting(DEFAULT_PORT, "port to listen on; 0 takes any free one")
    ready_file: str = _setting("", "file that receives grpc://host:port once connections are accepted")
    allow_anonymous: bool = _setting(
        default=False,
        help_text="serve callers without a credential on an interface that is not loopback, or beside those with one",
    )
    users_file: str = _setting("", "TOML file of users with hashed passwords and groups; see Identity")
    token_lifetime: float = _setting(43200.0, "seconds that the token is good for that a password is exchanged for")
    tokens_file: str = _setting("", "TOML file of bearer tokens, hashed, with their principals")
    jwt_keys: str = _setting("", "file or https URL of the keys (JWKS) that sign JSON web tokens")
    jwt_issuer: str = _setting("", "issuer (iss) that JSON web tokens must have")
    jwt_audience: str = _setting("", "audience (aud) that JSON web tokens must have")
    jwt_algorithms: str = _setting("RS256", "comma-separated algorithms that JSON web tokens may be signed with")
    jwt_principal_claim: str = _setting("sub", "claim with the name of the principal")
    jwt_groups_claim: str = _setting(
        "groups", "claim with the groups of the principal, or its path: realm_access.roles"
    )
    jwt_leeway: float = _setting(30.0, "seconds that the clock of who signs JSON web tokens may be off")
    tls_certificate: str = _setting("", "PEM file of the certificate and its chain, read again when it changes")
    tls_key: str = _setting("", "PEM file of the key of tls_certificate")
    tls_client_ca: str = _setting("", "PEM file of those who sign the certificates that clients must then have")
    ticket_key_file: str = _setting(
        "", "file with the 32 bytes that sign tickets; without it a key is kept in the root's .lance-flight directory"
    )
    advertise: str = _setting("", "comma-separated addresses that clients reach this server at, for parallel endpoints")
    policy_file: str = _setting(
        "", "TOML file that says which roles may do what, on which rows (README, Policies); without one everybody may"
    )
    lanes: int = _setting(0, "lanes that a scan reads its tables in; 0 means one for each core")
    server_memory_limit: int = _setting(
        0, "bytes that all statements together may hold before they spill or fail; 0 means half of the memory"
    )
    memory_limit: int = _setting(
        0, "bytes that one statement may hold before it spills or fails; 0 means what all of them may"
    )
    index_cache: int = _setting(
        0, "bytes of indices that are kept in memory, beside what statements hold; 0 means a sixteenth of the memory"
    )
    spill_directory: str = _setting(
        "", "where statements spill to; without it that is the directory for temporary files"
    )
    running_statements: int = _setting(
        0, "statements that are worked for at the same time; 0 means four for each core, and 16 at least"
    )
    waiting_statements: int = _setting(1000, "statements that may wait until it is their turn")
    statement_timeout: float = _setting(0.0, "seconds that the server works for one statement; 0 means any number")
    planning_timeout: float = _setting(30.0, "seconds that a statement may be planned; 0 means any number")
    statement_limit: int = _setting(16 << 20, "bytes that the text of a statement may have; 0 means any number")
    ticket_lifetime: float = _setting(
        600.0, "seconds for which the tickets of a result can be redeemed, and its snapshots are kept for them"
    )
    ingest_idle_timeout: float = _setting(
        300.0, "seconds that an ingest waits for its client's next rows before it is given up; 0 means any number"
    )
    batch_limit: int = _setting(1 << 30, "bytes that one record batch of an ingest may have")
    parameter_limit: int = _setting(64 << 20, "bytes that the parameters of a statement may have")
    dictionary_ingest: str = _setting(
        "auto",
        "whether ingests may have dictionary-encoded columns: on, off, or auto, which is on where nobody is asked who calls and host"
        " is loopback; a crafted dictionary stream ends pyarrow's server before it can be refused",
    )
    sessions: int = _setting(
        10_000, "sessions that are remembered; the oldest without a transaction are forgotten first"
    )
    sessions_per_principal: int = _setting(10_000, "sessions of one principal that are remembered")
    session_idle_timeout: float = _setting(
        3600.0, "seconds after which a session that nobody uses is forgotten, and its transactions are rolled back"
    )
    storage_options: str = _setting(
        "",
        "key=value pairs, separated by commas, for a root in an object store: aws_endpoint, aws_region, allow_http …;"
        " what is not given comes from the environment (AWS_ACCESS_KEY_ID …)",
        is_secret=True,
    )
    grace: float = _setting(30.0, "seconds that running calls get to end when the server is stopped")
    unresponsive_after: float = _setting(
        60.0,
        "seconds without an answer after which a server is ended and started again; 0 means any number, and a crash alone restarts it",
    )
    admin_host: str = _setting("127.0.0.1", "interface of the two ports below, which tell nothing but counts")
    admin_port: int = _setting(-1, "HTTP port for /healthz, /readyz and /metrics; 0 takes any free one, -1 has none")
    health_port: int = _setting(-1, "port of the gRPC health service; 0 takes any free one, -1 has none")
    log_level: str = _setting("warning", "what is logged: debug, info, warning or error")
    log_format: str = _setting("text", "how it is written: text, or json with one object on each line")
    log_statements: bool = _setting(
        default=False, help_text="a line for each statement that has ended, at any log_level"
    )
    log_sql: int = _setting(
        1000,
        "characters of a statement's text in its line and its trace; 0 leaves it out, since SQL may hold data and secrets",
    )

    def checked(self) -> ServerConfig:
        """This configuration; `InvalidInput` for a value that cannot be, `Refused` where it would serve strangers unasked."""
        for name, least in (("port", 0), ("admin_port", NO_PORT), ("health_port", NO_PORT)):
            if not least <= getattr(self, name) <= MAX_PORT:
                raise InvalidInput(f"setting {name!r} is {getattr(self, name)}; expected {least} to {MAX_PORT}")
        if self.log_level.lower() not in LOG_LEVELS:
            raise InvalidInput(f"setting 'log_level' is {self.log_level!r}; expected one of {', '.join(LOG_LEVELS)}")
        if self.log_format not in LOG_FORMATS:
            raise InvalidInput(f"setting 'log_format' is {self.log_format!r}; expected {' or '.join(LOG_FORMATS)}")
        if self.dictionary_ingest not in DICTIONARY_INGEST:
            raise InvalidInput(
                f"setting 'dictionary_ingest' is {self.dictionary_ingest!r}; expected {', '.join(DICTIONARY_INGEST)}"
            )
        for name in _NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise InvalidInput(f"setting {name!r} is {getattr(self, name)}; expected 0 or more")
        self.storage  # noqa: B018 - checks it
        self._check_identity()
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
        """Whether callers are asked who they are."""
        return bool(self.users_file or self.tokens_file or self.jwt_keys or self.tls_client_ca)

    @property
    def takes_dictionaries(self) -> bool:
        """Whether ingests may have dictionary-encoded columns."""
        if self.dictionary_ingest == "auto":
            return not self.has_authentication and self.host in LOOPBACK
        return self.dictionary_ingest == "on"

    @property
    def storage(self) -> dict[str, str]:
        """The storage options as pairs."""
        pairs = [pair.strip() for pair in self.storage_options.split(",") if pair.strip()]
        if any("=" not in pair for pair in pairs):
            raise InvalidInput("setting 'storage_options' is no list of pairs; expected key=value,key=value")
        return {key.strip().lower(): value.strip() for key, _, value in (pair.partition("=") for pair in pairs)}


def storage_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The storage options that LANCE_FLIGHT_STORAGE_OPTIONS holds, for commands that have no setting but this one.

    >>> storage_from_environment({"LANCE_FLIGHT_STORAGE_OPTIONS": "aws_region=eu-north-1, allow_http=true"})
    {'aws_region': 'eu-north-1', 'allow_http': 'true'}
    """
    return ServerConfig(storage_options=environment.get(f"{ENVIRONMENT_PREFIX}STORAGE_OPTIONS", "")).storage


SECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "host": "Network",
        "allow_anonymous": "Identity",
        "tls_certificate": "Encryption",
        "ticket_key_file": "Tickets and policies",
        "lanes": "Resources and limits",
        "storage_options": "Storage",
        "grace": "Operation",
    }
)
"""The setting that each section begins with, and its heading."""


def settings() -> tuple[dataclasses.Field[Any], ...]:
    """Every setting, in order."""
    return dataclasses.fields(ServerConfig)


@dataclass(frozen=True, slots=True)
class Source:
    """Where some settings come from, in words, and their values."""

    name: str
    values: Mapping[str, Any]


def sources(
    arguments: Mapping[str, Any], *, file: str | None = None, environment: Mapping[str, str] | None = None
) -> tuple[Source, ...]:
    """Everything that says something about a setting, the weakest first; None among the `arguments` says nothing.

    Without a `file` the environment may name one, as LANCE_FLIGHT_CONFIG.
    """
    environment = os.environ if environment is None else environment
    file = file or environment.get(ENVIRONMENT_PREFIX + CONFIG)
    texts = {setting: environment.get(variable(setting)) for setting in settings()}
    return (
        Source("default", {setting.name: setting.default for setting in settings()}),
        *([Source(f"file {file}", _from_file(Path(file)))] if file else []),
        *(
            Source(f"environment {variable(setting)}", {setting.name: _parsed(setting, text)})
            for setting, text in texts.items()
            if text is not None
        ),
        *(Source(f"option {flag(name)}", {name: value}) for name, value in arguments.items() if value is not None),
    )


def merged(found: Sequence[Source]) -> ServerConfig:
    """The configuration that some sources make, each overruling the ones before; whether it can be is not checked."""
    values = {name: value for source in found for name, value in source.values.items()}
    return ServerConfig(**values)


def load(
    arguments: Mapping[str, Any], *, file: str | None = None, environment: Mapping[str, str] | None = None
) -> ServerConfig:
    """The configuration from a TOML file, the environment and arguments, each overruling the one before."""
    return merged(sources(arguments, file=file, environment=environment)).checked()


def as_toml(found: Sequence[Source]) -> str:
    """The configuration that some sources make, as a file of its own, with where each value comes from; secrets are left out.

    >>> print(as_toml(sources({"port": 0}, environment={})).splitlines()[2])
    port = 0  # option --port
    """
    values, lines = merged(found), []
    for setting in settings():
        if setting.name in SECTIONS:
            lines += ["", f"# {SECTIONS[setting.name]}"]
        source = next(source for source in reversed(found) if setting.name in source.values)
        value = getattr(values, setting.name)
        is_hidden = setting.metadata["is_secret"] and value != setting.default
        said = f"# {setting.name} is hidden" if is_hidden else f"{setting.name} = {_as_toml(value)}"
        lines.append(f"{said}  # {source.name}")
    return "\n".join(lines[1:])


def variable(setting: dataclasses.Field[Any]) -> str:
    """The environment variable of a setting."""
    return ENVIRONMENT_PREFIX + setting.name.upper()


def flag(name: str) -> str:
    """The option of the command line for a setting."""
    return "--" + name.replace("_", "-")


def _as_toml(value: str | float) -> str:
    # A string of JSON is one of TOML, and so are numbers, true and false.
    return json.dumps(value, ensure_ascii=False)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as exc:
        raise InvalidInput(f"configuration file {str(path)!r} cannot be read: {exc}") from exc
    known = {setting.name: setting for setting in settings()}
    unknown = sorted(table.keys() - known.keys())
    if unknown:
        raise InvalidInput(
            f"configuration file {str(path)!r} has no setting {unknown[0]!r}; expected {', '.join(known)}"
        )
    return {name: _parsed(known[name], value) for name, value in table.items()}


def _parsed(setting: dataclasses.Field[Any], value: Any) -> Any:
    kind: type[Any] = type(setting.default)
    if kind is bool and isinstance(value, str):
        lowered = value.strip().lower()
        if lowered in {"1", "true", "yes", "on", "0", "false", "no", "off", ""}:
            return lowered in {"1", "true", "yes", "on"}
    elif isinstance(value, kind):
        return value
    else:
        try:
            return kind(value)
        except (TypeError, ValueError):
            pass
    raise InvalidInput(f"setting {setting.name!r} is {value!r}; expected a {kind.__name__}")
