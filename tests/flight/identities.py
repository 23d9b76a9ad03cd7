"""Alice and Bob, who are known by passwords, static tokens and JSON web tokens."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from lance_flight.flight.authentication import Authentication
from lance_flight.flight.json_web_tokens import JsonWebTokens, KeysFile, TokenRules
from lance_flight.flight.passwords import (
    Cost,
    PasswordChecks,
    SessionTokens,
    StoredPassword,
    TokensFile,
    UsersFile,
    hash_of,
)
from lance_flight.flight.tickets import TicketSealer
from pyarrow import flight

from tests.flight.flight_backend import KEY

CHEAP = Cost(log_n=4, p=1)
"""A password that is stored so is checked at once."""

PASSWORDS = {"alice": "correct horse", "bob": "pässword: with a colon"}
LIFETIME = 3600.0
TOKENS = {"alice": "the token of Alice", "bob": "the token of Bob"}
EXPIRED_TOKEN = "an older token of Alice"  # noqa: S105

ISSUER, AUDIENCE = "https://issuer.example", "lance-flight"
RULES = TokenRules(issuer=ISSUER, audience=AUDIENCE, algorithms=("ES256",))
SIGNING_KEY, ANOTHER_KEY = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
FAR = 4_000_000_000
"""A moment after all that the tests live to see."""


@dataclass
class Clock:
    """Time that passes when it is told to."""

    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def users_text(passwords: Mapping[str, str] = PASSWORDS) -> str:
    """A file of users; each is in a group that is called after him."""
    return "".join(
        f'[users.{name}]\npassword = "{StoredPassword.of(password, CHEAP).text}"\ngroups = ["all", "{name}s"]\n'
        for name, password in passwords.items()
    )


def tokens_text() -> str:
    """A file of tokens."""
    entries = [
        f'[tokens.{name}]\nsha256 = "{hash_of(token)}"\ngroups = ["machines"]\n' for name, token in TOKENS.items()
    ]
    expired = (
        f'[tokens.old]\nprincipal = "alice"\nsha256 = "{hash_of(EXPIRED_TOKEN)}"\nexpires = 2020-01-01T00:00:00Z\n'
    )
    return "".join(entries) + expired


def key_set(*keys: ec.EllipticCurvePrivateKey, **more: str) -> str:
    """The public halves of keys, called k0, k1 …"""
    described = [json.loads(ECAlgorithm.to_jwk(key.public_key())) for key in keys]
    return json.dumps({"keys": [{"kid": f"k{n}", **key, **more} for n, key in enumerate(described)]})


def claims(**changes: Any) -> dict[str, Any]:
    """What a token of Alice says, with changes; None leaves a claim out."""
    whole = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "exp": FAR, "groups": ["from elsewhere"]} | changes
    return {name: value for name, value in whole.items() if value is not None}


def signed(key: Any = SIGNING_KEY, algorithm: str = "ES256", kid: str | None = "k0", **changes: Any) -> str:
    """A JSON web token of Alice, with changed claims."""
    return jwt.encode(claims(**changes), key, algorithm, None if kid is None else {"kid": kid})


@dataclass
class Identities:
    """A authentication over files in a directory, with a clock of ours."""

    place: Path
    allow_anonymous: bool = False
    clock: Clock = field(default_factory=Clock)
    key: bytes = KEY

    def __post_init__(self) -> None:
        self.users = self.place / "users.toml"
        self.users.write_text(users_text())
        self.users.chmod(0o600)
        self.tokens = SessionTokens(sealer=TicketSealer(self.key), lifetime=LIFETIME, now=self.clock)
        tokens, keys = self.place / "tokens.toml", self.place / "keys.json"
        tokens.write_text(tokens_text())
        tokens.chmod(0o600)
        keys.write_text(key_set(SIGNING_KEY))
        users = UsersFile(str(self.users), self.tokens, PasswordChecks(pause=lambda _: None))
        others = TokensFile(str(tokens), self.clock), JsonWebTokens(RULES, KeysFile(str(keys)))
        self.authentication = Authentication(
            authenticators=(users, *others), granter=users, allow_anonymous=self.allow_anonymous
        )


def basic(user: str, password: str) -> str:
    """The header of a user with his password."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def calling(authorization: str | None, *more: tuple[bytes, bytes]) -> flight.FlightCallOptions:
    """The options of a call with this header."""
    own = [] if authorization is None else [(b"authorization", authorization.encode())]
    return flight.FlightCallOptions(headers=[*own, *more])


def signed_in(client: flight.FlightClient, user: str) -> str:
    """The header that a Handshake of a user gives."""
    _, granted = client.authenticate_basic_token(user, PASSWORDS[user])
    text: str = granted.decode()
    return text
