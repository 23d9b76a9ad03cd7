"""Alice and Bob, who are known by passwords, and whatever else proves who somebody is."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lance_flight.flight.identity.gate import Gate
from lance_flight.flight.identity.password_checks import PasswordChecks
from lance_flight.flight.identity.passwords import Cost, StoredPassword
from lance_flight.flight.identity.session_tokens import SessionTokens
from lance_flight.flight.identity.users import UsersFile
from lance_flight.flight.tickets import Sealer
from pyarrow import flight

from tests.flight.flight_backend import KEY

CHEAP = Cost(log_n=4, p=1)
"""A password that is stored so is checked at once."""

PASSWORDS = {"alice": "correct horse", "bob": "pässword: with a colon"}
LIFETIME = 3600.0


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


@dataclass
class Identities:
    """A gate over files in a directory, with a clock of ours."""

    place: Path
    allow_anonymous: bool = False
    clock: Clock = field(default_factory=Clock)
    key: bytes = KEY

    def __post_init__(self) -> None:
        self.users = self.place / "users.toml"
        self.users.write_text(users_text())
        self.users.chmod(0o600)
        self.tokens = SessionTokens(sealer=Sealer(self.key), lifetime=LIFETIME, now=self.clock)
        known = UsersFile(str(self.users), self.tokens, PasswordChecks(pause=lambda _: None))
        self.gate = Gate(authenticators=(known,), granter=known, allow_anonymous=self.allow_anonymous)


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
