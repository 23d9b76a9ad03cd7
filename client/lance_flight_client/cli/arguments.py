"""Arguments shared by several commands, each with its help, and those of a load, which are checked before a file is opened.

Nothing heavy is imported here.
"""

from __future__ import annotations

import argparse
import codecs
import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from lance_flight.config import BYTES, DEFAULT_PORT, flag, parse_setting, sections, warn_of_old_name
from lance_flight.errors import InvalidInput

DEFAULT_URI = f"grpc://127.0.0.1:{DEFAULT_PORT}"


def add_root(command: argparse.ArgumentParser) -> None:
    """Add the root that a command works on."""
    command.add_argument("root", metavar="ROOT", help="directory or object-store URI of the tables")


def add_number(command: argparse.ArgumentParser, option: str, default: int, help_text: str) -> None:
    """Add an option that takes a whole number."""
    command.add_argument(option, type=int, default=default, metavar="N", help=f"{help_text} (default: %(default)s)")


def add_dry_run(command: argparse.ArgumentParser) -> None:
    """Add the option that reports changes without making them."""
    command.add_argument("--dry-run", action="store_true", help="print what would be changed, and change nothing")


def add_server(command: argparse.ArgumentParser) -> None:
    """Add the server that a client connects to, and its credentials; secrets are no arguments, which every process can read."""
    command.add_argument(
        "--uri",
        type=server_uri,
        help=f"server, grpc://host:port or grpc+tls://host:port (default: LANCE_FLIGHT_URI, the profile's, or {DEFAULT_URI})",
    )
    command.add_argument(
        "--user",
        metavar="NAME",
        help="user to log in as; the password is read from LANCE_FLIGHT_PASSWORD or from the terminal",
    )
    command.add_argument(
        "--token-file", metavar="FILE", help="file with a bearer token, in place of a user (or LANCE_FLIGHT_TOKEN)"
    )
    command.add_argument(
        "--profile",
        metavar="NAME",
        help="part of ~/.config/lance-flight/profiles.toml with uri, user, token or token_file, tls_ca, tls_certificate, tls_key"
        " (or LANCE_FLIGHT_PROFILE)",
    )
    command.add_argument("--tls-ca", metavar="FILE", help="certificate of the authority of the server, PEM")
    command.add_argument("--tls-certificate", metavar="FILE", help="certificate of this client, PEM")
    command.add_argument("--tls-key", metavar="FILE", help="private key of --tls-certificate, PEM")


def server_uri(text: str) -> str:
    """Return the address of a server; a host and a port alone are those of one without TLS."""
    if re.fullmatch(r"grpc(\+tls)?://.+", text):
        return text
    if re.fullmatch(r"[^/\s]+:\d+", text):
        return f"grpc://{text}"
    raise argparse.ArgumentTypeError(f"{text!r} is no server; expected grpc://host:port or grpc+tls://host:port")


def add_settings(command: argparse.ArgumentParser) -> None:
    """Add the configuration file and every setting of a server."""
    command.epilog = (
        "Each of these settings may be given in the file (port = 4000) and in the environment (LANCE_FLIGHT_PORT=4000) as"
        " well. Options override the environment, which overrides the file. `lance-flight config` prints the result."
    )
    command.add_argument(
        "--config", metavar="FILE", help="TOML file with any of the settings below (or LANCE_FLIGHT_CONFIG)"
    )
    for heading, of_section in sections().items():
        section = command.add_argument_group(heading.lower())
        for setting in of_section:
            _add_setting(section, setting)


def _add_setting(section: argparse._ArgumentGroup, setting: dataclasses.Field[Any]) -> None:
    text, kind, old = str(setting.metadata["help"]), type(setting.default), setting.metadata.get("old_name")
    if kind is bool:
        section.add_argument(flag(setting.name), action=argparse.BooleanOptionalAction, default=None, help=text)
        return
    text += f" (default: {setting.default})" if setting.default != "" else ""
    unit = setting.metadata.get("unit")
    metavar = kind.__name__.upper() if unit is None else "SIZE" if unit == BYTES else "TIME"
    parse = kind if unit is None else partial(_parse, setting)
    section.add_argument(flag(setting.name), type=parse, default=None, metavar=metavar, help=text)
    if old is not None:
        section.add_argument(
            flag(old), type=parse, default=None, dest=setting.name, action=_OldName, help=argparse.SUPPRESS
        )


def _parse(setting: dataclasses.Field[Any], text: str) -> Any:
    try:
        return parse_setting(setting, text)
    except InvalidInput as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


class _OldName(argparse.Action):
    """Accepts the old option of a renamed setting, with a warning."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        warn_of_old_name(option or "", flag(self.dest))
        setattr(namespace, self.dest, values)


@dataclass(frozen=True, slots=True)
class LoadMode:
    """Meaning of a mode: the name of what an existing table is to an ingest (`IfExists`), ADBC's name of that, and the rows that are overwritten."""

    existing: str
    adbc: str
    overwrite: str | None = None


MODES: Mapping[str, LoadMode] = MappingProxyType(
    {
        "create": LoadMode("FAIL", "create"),
        "append": LoadMode("APPEND", "create_append"),
        "overwrite": LoadMode("APPEND", "create_append", "partitions"),
        "overwrite-table": LoadMode("APPEND", "create_append", "table"),
        "replace": LoadMode("REPLACE", "replace"),
    }
)


def checked_delimiter(text: str | None, option: str) -> str | None:
    r"""Return the one character that an option says; `\t` is a tab."""
    delimiter = "\t" if text == "\\t" else text
    if delimiter is not None and len(delimiter.encode()) != 1:
        raise InvalidInput(f"{option} is {text!r}; expected one character, or \\t")
    return delimiter


def checked_encoding(name: str | None, option: str) -> str | None:
    """Return Python's name of an encoding of text."""
    try:
        return None if name is None else codecs.lookup(name).name
    except LookupError:
        raise InvalidInput(f"{option} is {name!r}; expected a name of Python's, such as utf-8 or latin-1") from None


_FIELD = re.compile(r"\b(?P<part>year|month)\s*\(\s*(?P<column>[^()]+?)\s*\)", re.IGNORECASE)


def month_note(fields: str) -> str | None:
    """Return a note on a month without its year among partition fields; None without one.

    >>> month_note("month(ts), origin")
    'month(ts) is 1 to 12 whatever the year: each March lies in one partition; year(ts), month(ts) has a partition for each month'
    >>> month_note("year(ts), month(ts)") is None
    True
    """
    parts = {(match["part"].lower(), match["column"]) for match in _FIELD.finditer(fields)}
    for part, column in sorted(parts):
        if part == "month" and ("year", column) not in parts:
            return (
                f"month({column}) is 1 to 12 whatever the year: each March lies in one partition;"
                f" year({column}), month({column}) has a partition for each month"
            )
    return None
