"""Servers that a client command connects to, from its options, the environment, or a profile, and work there that an interrupt cancels.

Such work runs beside the main thread, where libraries would take the signal for their own.
"""

from __future__ import annotations

import argparse
import getpass
import os
import stat
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from lance_flight.errors import InvalidInput

from lance_flight_client.adbc import COOKIES, Credentials, connect
from lance_flight_client.cli.arguments import DEFAULT_URI, server_uri
from lance_flight_client.errors import ServerError

T = TypeVar("T")
Begins: TypeAlias = Callable[[Callable[[], None]], None]
"""Function that is given what cancels the work."""

_TICK = 0.5


def cancellable(
    work: Callable[[Begins], T], each_tick: Callable[[], None] | None = None, *, has_effect: bool = True
) -> T:
    """Return the result of `work`; a KeyboardInterrupt while it runs cancels it, waits for its end, and goes on.

    `each_tick` is called every half a second until then. Work that changes nothing is left alone rather than waited for.
    """
    done: Future[T] = Future()
    cancels: list[Callable[[], None]] = []

    def run() -> None:
        try:
            done.set_result(work(cancels.append))
        except BaseException as exc:  # noqa: BLE001 - it is raised again where the work is waited for
            done.set_exception(exc)

    threading.Thread(target=run, daemon=True).start()
    try:
        while not wait([done], timeout=_TICK).done:
            if each_tick is not None:
                each_tick()
    except KeyboardInterrupt:
        # What is cancelled before it has reached the server goes on: it is cancelled again.
        while has_effect and not wait([done], timeout=_TICK / 5).done:
            for cancel in cancels:
                cancel()
        raise
    return done.result()


URI_VARIABLE, PROFILE_VARIABLE = "LANCE_FLIGHT_URI", "LANCE_FLIGHT_PROFILE"
PASSWORD_VARIABLE, TOKEN_VARIABLE = "LANCE_FLIGHT_PASSWORD", "LANCE_FLIGHT_TOKEN"
_LOST = ("connection error", "error reading from server", "transport is closing")
"""Parts of messages of the driver's that are said without a server."""

_HINTS: Mapping[str, str] = MappingProxyType(
    {
        "failed to verify certificate": "its certificate is not trusted, --tls-ca names who has signed it: ",
        "error reading server preface": "it may take TLS alone, as grpc+tls://host:port: ",
        "first record does not look like a TLS handshake": "it may take no TLS, as grpc://host:port: ",
    }
)
"""What to say first of a server that is there, by parts of messages of the driver's."""

_KEYS = ("uri", "user", "token", "token_file", "tls_ca", "tls_certificate", "tls_key")


@dataclass(frozen=True, slots=True)
class ChosenServer:
    """Address of a server, and the credentials for it."""

    address: str
    credentials: Credentials
    advice: str = ""

    @classmethod
    def of(cls, options: argparse.Namespace) -> ChosenServer:
        """Return the server that options name, else the environment, else the profile, else the default one."""
        options_given = {key: getattr(options, key, None) for key in _KEYS}
        if options_given["user"] is not None and options_given["token_file"] is not None:
            raise InvalidInput("--user and --token-file were given; expected one of them")
        is_named = options_given["user"] is not None or options_given["token_file"] is not None
        environment = {
            "uri": os.environ.get(URI_VARIABLE),
            "token": None if is_named else os.environ.get(TOKEN_VARIABLE),
        }
        profile = _profile(options.profile or os.environ.get(PROFILE_VARIABLE))
        if is_named or environment["token"] is not None:
            profile = {key: value for key, value in profile.items() if key not in ("user", "token", "token_file")}
        chosen = profile | {
            key: value for given in (environment, options_given) for key, value in given.items() if value is not None
        }
        # Commands that take a root do without a server.
        advice = " (--root DIRECTORY needs none)" if "root" in options else ""
        return cls(_check(chosen.get("uri", DEFAULT_URI)), _credentials(chosen), advice)

    def connect(self) -> Any:
        """Connect to the server with a session of its own; `ServerError` where it does not answer, or refuses the credentials."""
        # The driver would take an interrupt of the main thread for its own, and lose it.
        return cancellable(lambda _: connect(self.address, self.credentials, {COOKIES: "true"}), has_effect=False)

    @contextmanager
    def naming(self, lost: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Name the server in the error of a statement that it does not answer, after `lost` was called."""
        try:
            yield
        except ServerError as exc:
            if not any(sign in str(exc) for sign in _LOST):
                raise
            lost()
            nobody = f"no server answers at {self.address}"
            message = str(exc).removeprefix(f"{nobody}: ")
            hint = next((hint for sign, hint in _HINTS.items() if sign in message), "")
            raise ServerError(f"{nobody}{self.advice}: {hint}{message}") from exc


def profiles_file() -> Path:
    """Return the place of the profiles, in the user's directory of configurations."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "lance-flight" / "profiles.toml"


def _profile(name: str | None) -> dict[str, str]:
    if name is None:
        return {}
    path = profiles_file()
    text = content(str(path))
    try:
        profiles = tomllib.loads(text or "")
    except tomllib.TOMLDecodeError as exc:
        raise InvalidInput(f"{str(path)!r} is no TOML: {exc}") from None
    if name not in profiles:
        raise InvalidInput(f"no profile {name!r} in {str(path)!r}; expected one of {', '.join(profiles) or 'none'}")
    profile = profiles[name]
    for key, value in profile.items():
        if key not in _KEYS or not isinstance(value, str):
            raise InvalidInput(f"profile {name!r}: {key} is not known as a text; expected some of {', '.join(_KEYS)}")
    if "token" in profile and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        raise InvalidInput(f"{str(path)!r} has a token and others may read it; expected chmod 600")
    return dict(profile)


def _check(uri: str) -> str:
    try:
        return server_uri(uri)
    except argparse.ArgumentTypeError as exc:
        raise InvalidInput(str(exc)) from None


def _credentials(chosen: Mapping[str, str]) -> Credentials:
    token, user = chosen.get("token") or content(chosen.get("token_file")), chosen.get("user")
    return Credentials(
        user=user,
        password=None if user is None else _password(user),
        token=None if token is None else token.strip(),
        tls_ca=content(chosen.get("tls_ca")),
        certificate=content(chosen.get("tls_certificate")),
        key=content(chosen.get("tls_key")),
    )


def _password(user: str) -> str:
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is not None:
        return password
    if not sys.stdin.isatty():
        raise InvalidInput(f"no password of {user!r}; expected it in {PASSWORD_VARIABLE}, or a terminal to ask for it")
    return getpass.getpass(f"Password of {user}: ")


def content(path: str | None) -> str | None:
    """Read a file that an option names; `InvalidInput` if it is no text or not there."""
    if path is None:
        return None
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as exc:
        raise InvalidInput(f"{path!r} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError:
        raise InvalidInput(f"{path!r} is no text") from None
