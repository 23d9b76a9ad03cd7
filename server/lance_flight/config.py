"""One frozen configuration, from defaults < file < environment < arguments.

Every setting stands once, in `ServerConfig`; the command line, the environment (`LANCE_FLIGHT_<NAME>`), the TOML file
and the table in the README are made from it or checked against it.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lance_flight.errors import InvalidInput, Refused

ENVIRONMENT_PREFIX = "LANCE_FLIGHT_"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
DEFAULT_PORT = 32010
MAX_PORT = 65535
NO_PORT = -1
LOG_LEVELS = ("debug", "info", "warning", "error")


def _setting(default: Any, help_text: str, *, is_secret: bool = False) -> Any:
    return field(default=default, repr=not is_secret, metadata={"help": help_text})


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
        default=False, help_text="serve callers without a name on an interface that is not loopback"
    )
    ticket_key_file: str = _setting(
        "", "file with the 32 bytes that sign tickets; without it a key is kept in the root's .lance-flight directory"
    )
    advertise: str = _setting("", "comma-separated addresses that clients reach this server at, for parallel endpoints")
    lanes: int = _setting(0, "lanes that a scan reads its tables in; 0 means one for each core")
    memory_limit: int = _setting(
        0, "bytes that one statement may hold before it spills or fails; 0 means half of the memory"
    )
    storage_options: str = _setting(
        "",
        "key=value pairs, separated by commas, for a root in an object store: aws_endpoint, aws_region, allow_http …;"
        " what is not given comes from the environment (AWS_ACCESS_KEY_ID …)",
        is_secret=True,
    )
    grace: float = _setting(30.0, "seconds that running calls get to end when the server is stopped")
    admin_host: str = _setting("127.0.0.1", "interface of the two ports below, which tell nothing but counts")
    admin_port: int = _setting(-1, "HTTP port for /healthz, /readyz and /metrics; 0 takes any free one, -1 has none")
    health_port: int = _setting(-1, "port of the gRPC health service; 0 takes any free one, -1 has none")
    log_level: str = _setting("warning", "what is logged: debug, info, warning or error")

    def checked(self) -> ServerConfig:
        """This configuration; `InvalidInput` for a value that cannot be, `Refused` where it would serve strangers unasked."""
        for name, least in (("port", 0), ("admin_port", NO_PORT), ("health_port", NO_PORT)):
            if not least <= getattr(self, name) <= MAX_PORT:
                raise InvalidInput(f"setting {name!r} is {getattr(self, name)}; expected {least} to {MAX_PORT}")
        if self.log_level.lower() not in LOG_LEVELS:
            raise InvalidInput(f"setting 'log_level' is {self.log_level!r}; expected one of {', '.join(LOG_LEVELS)}")
        for name in ("lanes", "memory_limit", "grace"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"setting {name!r} is {getattr(self, name)}; expected 0 or more")
        self.storage  # noqa: B018 - checks it
        if self.host not in LOOPBACK and not self.allow_anonymous:
            raise Refused(
                f"host {self.host!r} is not loopback and there is no authentication;"
                " expected 127.0.0.1, or --allow-anonymous to serve anyone who can connect"
            )
        return self

    @property
    def storage(self) -> dict[str, str]:
        """The storage options as pairs."""
        pairs = [pair.strip() for pair in self.storage_options.split(",") if pair.strip()]
        if any("=" not in pair for pair in pairs):
            raise InvalidInput("setting 'storage_options' is no list of pairs; expected key=value,key=value")
        return {key.strip().lower(): value.strip() for key, _, value in (pair.partition("=") for pair in pairs)}


def settings() -> tuple[dataclasses.Field[Any], ...]:
    """Every setting, in order."""
    return dataclasses.fields(ServerConfig)


def load(
    arguments: Mapping[str, Any], *, file: str | None = None, environment: Mapping[str, str] | None = None
) -> ServerConfig:
    """The configuration from a TOML file, the environment and arguments, each overruling the one before."""
    values: dict[str, Any] = {}
    if file is not None:
        values |= _from_file(Path(file))
    environment = os.environ if environment is None else environment
    for setting in settings():
        text = environment.get(ENVIRONMENT_PREFIX + setting.name.upper())
        if text is not None:
            values[setting.name] = _parsed(setting, text)
    values |= {name: value for name, value in arguments.items() if value is not None}
    return ServerConfig(**values).checked()


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
