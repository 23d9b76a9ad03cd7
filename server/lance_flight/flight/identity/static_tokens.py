"""Static tokens of an operator, from a file with their hashes.

```toml
[tokens.etl-2026]
sha256 = "9f86d081884c7d65…"      # of the token, which is long and random: it needs no salt
principal = "etl"                 # otherwise called like the token
groups = ["loaders"]
expires = 2027-01-01T00:00:00Z    # otherwise never
```
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lance_flight.errors import Unauthenticated
from lance_flight.file_reloading import Watched
from lance_flight.flight.identity.authentication import (
    Bearer,
    Credential,
    Entry,
    Principal,
    Proof,
    entries,
    principal_name,
)

PREFIX = "lft_"
"""Prefix of the tokens that `make_token` generates; tokens of other sources may have any."""

_KEYS = frozenset({"sha256", "principal", "groups", "expires"})
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticToken:
    """Static token: its principal, and its expiry."""

    principal: Principal
    expires: datetime | None = None


class TokensFile:
    """Authenticator by the tokens of a file."""

    def __init__(self, path: str, now: Callable[[], float] = time.time) -> None:
        self._file = Watched(path, parse, what="tokens file")
        self._now = now

    def principal(self, credential: Credential) -> Principal | None:
        """Return the principal of a token in the file; None for an unknown one."""
        if not isinstance(credential, Bearer):
            return None
        token = self._file.value.get(hash_of(credential.token))
        if token is None:
            return None
        if token.expires is not None and datetime.fromtimestamp(self._now(), UTC) >= token.expires:
            raise Unauthenticated("the bearer token has expired")
        return token.principal


def parse(text: str) -> Mapping[str, StaticToken]:
    """Parse a file of tokens, by their hashes; raise `InvalidInput` that names the invalid entry."""
    tokens: dict[str, StaticToken] = {}
    for entry in entries(text, "tokens", _KEYS):
        hashed = entry.text("sha256").lower()
        if not _SHA256.fullmatch(hashed):
            raise entry.wrong("'sha256' is not the 64 digits of a hash; expected a line of `lance-flight make-token`")
        if hashed in tokens:
            raise entry.wrong("'sha256' is that of another entry, too")
        name = principal_name(entry, entry.text("principal", entry.name))
        principal = Principal(name=name, groups=entry.groups(), proof=Proof.STATIC_TOKEN)
        tokens[hashed] = StaticToken(principal=principal, expires=_expires(entry))
    return tokens


def make_token() -> str:
    """Generate a new random token.

    >>> make_token() != make_token()
    True
    """
    return PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)


def hash_of(token: str) -> str:
    """Return the hash of a token, as a file stores it."""
    return hashlib.sha256(token.encode()).hexdigest()


def _expires(entry: Entry) -> datetime | None:
    expires = entry.values.get("expires")
    if expires is None:
        return None
    if not isinstance(expires, datetime) or expires.tzinfo is None:
        raise entry.wrong("'expires' is no time with a zone; expected one like 2027-01-01T00:00:00Z")
    return expires
