"""Builds the authentication of a server from its configuration.

Modules for JSON web tokens and certificates are imported only if they are configured: a server without them starts sooner.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lance_flight.config import ServerConfig
from lance_flight.flight.identity.authentication import Authentication, Authenticator
from lance_flight.flight.identity.passwords import SessionTokens, UsersFile
from lance_flight.flight.identity.static_tokens import TokensFile
from lance_flight.flight.tickets import TicketSealer

if TYPE_CHECKING:
    from lance_flight.flight.tls import TlsFiles


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
    tokens = importlib.import_module("lance_flight.flight.identity.json_web_tokens")
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
