"""Checks of what a configuration names: the files, certificates and the root that a server would open when it starts or reloads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from lance_flight.catalog.maintenance.diagnosis import Level, RootFinding
from lance_flight.catalog.storage.formats import root_store
from lance_flight.config import ServerConfig
from lance_flight.engine.query.policies.file import Policies
from lance_flight.errors import InvalidInput, LanceFlightError
from lance_flight.file_reloading import Watched, states
from lance_flight.flight.identity import static_tokens
from lance_flight.flight.identity.passwords import Users
from lance_flight.serving.service import certificates, json_web_tokens, key_in_file

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
    "tokens_file": lambda config: Watched(config.tokens_file, static_tokens.parse, what="tokens file"),
    "jwt_keys": json_web_tokens,
    "policy_file": lambda config: Watched(config.policy_file, Policies.parse, what="policy file", is_secret=False),
    "ticket_key_file": lambda config: key_in_file(config.ticket_key_file),
    "spill_directory": _check_spilling,
    "audit_log": _check_audit_log,
}
