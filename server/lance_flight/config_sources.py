"""Sources of a configuration: defaults < a TOML file < the environment < arguments, each with the values that it gives.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lance_flight.config import BYTES, ServerConfig, is_reloadable, sections, settings
from lance_flight.errors import InvalidInput, nearest
from lance_flight.quantities import SIZE_EXPECTED, TIME_EXPECTED, parse_bytes, parse_seconds

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
