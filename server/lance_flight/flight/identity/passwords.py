"""Stored passwords: salted, and hashed with scrypt (RFC 7914).

```text
scrypt$<log2 N>$<r>$<p>$<salt, Base64>$<hash, Base64>
```

scrypt is in the standard library, and makes each guess cost memory. The cost of a stored password stands beside it, so that
another cost can be chosen for new ones; a file cannot ask for more than `MOST_MEMORY`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import unicodedata
from base64 import b64decode, b64encode
from dataclasses import dataclass, field

from lance_flight.errors import InvalidInput

MOST_MEMORY = 1 << 28
"""Most bytes of memory for the check of one password."""
_MOST_PASSES = 16
_SALT_BYTES = 16
_HASH_BYTES = 32
_BLOCK = 128
"""Bytes of memory for each unit of N times r."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost parameters of a check: 128 · 2^log_n · r bytes of memory, passed over p times; the default is OWASP's advice of 2024."""

    log_n: int = 15
    r: int = 8
    p: int = 3

    @property
    def memory(self) -> int:
        """Return the memory of a check, in bytes."""
        return _BLOCK * self.r << self.log_n

    @property
    def is_bounded(self) -> bool:
        """True if the cost is within the limits of a server."""
        return (
            0 < self.log_n < MOST_MEMORY.bit_length()
            and 0 < self.r <= MOST_MEMORY
            and self.memory <= MOST_MEMORY
            and 0 < self.p <= _MOST_PASSES
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPassword:
    """Hash of a password, with its salt and cost."""

    cost: Cost
    salt: bytes = field(repr=False)
    hash: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str, cost: Cost | None = None) -> StoredPassword:
        """Store a password with a new salt.

        >>> StoredPassword.of("correct horse", Cost(log_n=4)).matches("correct horse")
        True
        """
        cost, salt = cost or Cost(), secrets.token_bytes(_SALT_BYTES)
        return cls(cost=cost, salt=salt, hash=_hash(password, salt, cost))

    @classmethod
    def decoy(cls, cost: Cost) -> StoredPassword:
        """Return a stored password that no password matches, at the same cost."""
        return cls(cost=cost, salt=secrets.token_bytes(_SALT_BYTES), hash=secrets.token_bytes(_HASH_BYTES))

    @classmethod
    def parse(cls, text: str) -> StoredPassword:
        """Parse the text form; raise `InvalidInput`, which does not quote the text, for any other."""
        try:
            scheme, log_n, r, p, salt, hashed = text.split("$")
            cost = Cost(log_n=int(log_n), r=int(r), p=int(p))
            stored = cls(cost=cost, salt=b64decode(salt, validate=True), hash=b64decode(hashed, validate=True))
        except ValueError:
            raise InvalidInput("not scrypt$…; expected a line of `lance-flight hash-password`") from None
        if scheme != "scrypt" or len(stored.salt) < _SALT_BYTES or len(stored.hash) != _HASH_BYTES:
            raise InvalidInput("not scrypt$…; expected a line of `lance-flight hash-password`")
        if not cost.is_bounded:
            raise InvalidInput(f"scrypt of {cost}, which is too much; expected at most {MOST_MEMORY} bytes of memory")
        return stored

    @property
    def text(self) -> str:
        """Return the text form."""
        cost = self.cost
        return "$".join(
            [
                "scrypt",
                str(cost.log_n),
                str(cost.r),
                str(cost.p),
                *(b64encode(b).decode() for b in (self.salt, self.hash)),
            ]
        )

    def matches(self, password: str) -> bool:
        """Return whether this is the password, in the same time for every password."""
        return hmac.compare_digest(_hash(password, self.salt, self.cost), self.hash)


def _hash(password: str, salt: bytes, cost: Cost) -> bytes:
    # The same characters can be typed in several ways.
    typed = unicodedata.normalize("NFC", password).encode()
    return hashlib.scrypt(
        typed, salt=salt, n=1 << cost.log_n, r=cost.r, p=cost.p, maxmem=2 * MOST_MEMORY, dklen=_HASH_BYTES
    )
