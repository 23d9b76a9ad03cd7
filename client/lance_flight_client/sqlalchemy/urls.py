"""Translation of `lance_flight://` URLs to the arguments of a connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from lance_flight_client.adbc import Credentials

DEFAULT_PORT = 32010
_TRUTH = MappingProxyType({"true": True, "1": True, "on": True, "false": False, "0": False, "off": False})
_FILES = MappingProxyType({"tls_ca": "tls_ca", "tls_certificate": "certificate", "tls_key": "key"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Address of a server in a URL, with the options of the ADBC driver and those of the session."""

    uri: str
    driver_options: Mapping[str, str] = field(repr=False)
    session_options: Mapping[str, str]


def parse(url: URL) -> ServerAddress:
    """Return the address in a URL.

    `tls`, `tls_ca`, `tls_certificate`, `tls_key` (paths of PEM files), `token` and `token_file` are about the connection, names that begin
    with `adbc.` are options of the driver, and all others are options of the session, which the server knows.

    >>> address = parse(URL.create("lance_flight", host="h", database="sales", query={"tls": "true", "branch": "b"}))
    >>> address.uri, dict(address.session_options)
    ('grpc+tls://h:32010', {'schema': 'sales', 'branch': 'b'})
    """
    given = {name: _single(name, value) for name, value in url.query.items()}
    files = {ours: given.pop(name) for name, ours in _FILES.items() if name in given}
    is_encrypted = _truth("tls", given.pop("tls", "true" if files else "false"))
    if files and not is_encrypted:
        raise ArgumentError(f"{', '.join(files)} go with tls=true, but the URL says tls=false")
    credentials = Credentials(
        user=url.username,
        password=None if url.password is None else str(url.password),
        token=_token(given),
        **{name: _text("file", path) for name, path in files.items()},
    )
    driver = {name: given.pop(name) for name in [*given] if name.startswith("adbc.")}
    schema = {"schema": url.database} if url.database else {}
    return ServerAddress(
        uri=f"grpc{'+tls' if is_encrypted else ''}://{_host(url)}:{url.port or DEFAULT_PORT}",
        driver_options={**credentials.options, **driver},
        session_options={**schema, **given},
    )


def _host(url: URL) -> str:
    host = url.host or "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _token(given: dict[str, str]) -> str | None:
    token, path = given.pop("token", None), given.pop("token_file", None)
    if token is not None and path is not None:
        raise ArgumentError("the URL has both token and token_file; expected one of them")
    return token if path is None else _text("token_file", path).strip()


def _text(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"{name} {path!r} cannot be read: {error}") from error


def _single(name: str, value: str | tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{name} occurs {len(value)} times in the URL; expected once")
    return value


def _truth(name: str, text: str) -> bool:
    if text.lower() not in _TRUTH:
        raise ArgumentError(f"{name} is {text!r}; expected one of {', '.join(_TRUTH)}")
    return _TRUTH[text.lower()]
