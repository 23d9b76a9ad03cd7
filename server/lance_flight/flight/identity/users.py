"""Users with passwords, from a file.

```toml
[users.alice]
password = "scrypt$15$8$3$…"
groups = ["analysts"]
```
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_flight.errors import InvalidInput
from lance_flight.file_reloading import Watched
from lance_flight.flight.identity.credentials import Basic, Bearer, Credential
from lance_flight.flight.identity.password_checks import PasswordChecks
from lance_flight.flight.identity.passwords import Cost, StoredPassword
from lance_flight.flight.identity.principal import Principal, Proof
from lance_flight.flight.identity.session_tokens import PREFIX, SessionTokens, TokenClaims, mark_of
from lance_flight.flight.identity.tables import Entry, entries, principal_name

_KEYS = frozenset({"password", "groups"})

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """User of the users file: its name, password hash, groups, and a mark that its tokens carry."""

    name: str
    password: StoredPassword
    groups: tuple[str, ...] = ()
    mark: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """All users by name, and a decoy password that makes the check of an unknown user take as long."""

    named: Mapping[str, User]
    decoy: StoredPassword

    @classmethod
    def parse(cls, text: str) -> Users:
        """Parse a file of users; raise `InvalidInput` that names the invalid entry."""
        named = {entry.name: _user(entry) for entry in entries(text, "users", _KEYS)}
        costs = [user.password.cost for user in named.values()]
        cost = max(costs, key=lambda cost: cost.memory * cost.p, default=Cost())
        return cls(named=named, decoy=StoredPassword.decoy(cost))


class UsersFile:
    """Authenticator by the passwords of a file's users, and by their session tokens."""

    def __init__(self, path: str, tokens: SessionTokens, checks: PasswordChecks | None = None) -> None:
        self._file = Watched(path, Users.parse, what="users file")
        self._tokens = tokens
        self._checks = checks or PasswordChecks()

    def principal(self, credential: Credential) -> Principal | None:
        """Return the principal of a password or session token; None for an invalid one."""
        match credential:
            case Basic(user=name, password=password):
                return self._by_password(name, password)
            case Bearer(token=token) if token.startswith(PREFIX):
                return self._by_token(token)
        return None

    def token(self, principal: Principal) -> str | None:
        """Issue a session token to a principal that a password has proven; None for any other."""
        if principal.proof is not Proof.PASSWORD:
            return None
        user = self._file.value.named.get(principal.name)
        return None if user is None else self._tokens.give(TokenClaims(user=user.name, mark=user.mark))

    def knows(self, name: str) -> bool:
        """Return whether there is a user of this name."""
        return name in self._file.value.named

    def _by_password(self, name: str, password: str) -> Principal | None:
        users = self._file.value
        user = users.named.get(name)
        matches = self._checks.matches(users.decoy if user is None else user.password, password)
        if user is None or not matches:
            # Who is unknown may have typed his password in the place of his name.
            _log.info("a wrong password of %s", "an unknown user" if user is None else f"user {user.name!r}")
            return None
        return Principal(name=user.name, groups=user.groups, proof=Proof.PASSWORD)

    def _by_token(self, token: str) -> Principal | None:
        session = self._tokens.take(token)
        user = None if session is None else self._file.value.named.get(session.user)
        if session is None or user is None or user.mark != session.mark:
            return None
        return Principal(name=user.name, groups=user.groups, proof=Proof.SESSION_TOKEN)


def _user(entry: Entry) -> User:
    stored = entry.text("password")
    try:
        password = StoredPassword.parse(stored)
    except InvalidInput as exc:
        raise entry.wrong(f"'password' is {exc}") from None
    return User(name=principal_name(entry, entry.name), password=password, groups=entry.groups(), mark=mark_of(stored))
