"""Secrets that files hold by their hashes: passwords of users, and tokens of an operator.

Passwords are stored with scrypt (RFC 7914), checked at a bounded rate, and exchanged for session tokens.

```text
scrypt$<log2 N>$<r>$<p>$<salt, Base64>$<hash, Base64>
```

scrypt is in the standard library, and makes each guess cost memory. The cost of a stored password stands beside it, so that
another cost can be chosen for new ones; a file cannot ask for more than `MOST_MEMORY`.

Servers keep no state for a token. It holds a mark of the password that it was issued for, and becomes invalid once its user has
another password, or is removed.

```toml
[users.alice]
password = "scrypt$15$8$3$…"
groups = ["analysts"]
```

Static tokens of an operator:

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
import hmac
import json
import logging
import re
import secrets
import threading
import time
import unicodedata
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lance_flight.connections import may_hold
from lance_flight.errors import InvalidInput, TicketError, Unauthenticated, Unavailable
from lance_flight.file_reloading import Watched
from lance_flight.flight.authentication import (
    Basic,
    Bearer,
    Credential,
    Entry,
    Principal,
    Proof,
    entries,
    principal_name,
)
from lance_flight.flight.tickets import TicketSealer
from lance_flight.lru_cache import LruCache

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


MOST_WAITING = 16
MOST_REMEMBERED = 1024
_REST = 3.0
"""Pause after a wrong password, as a multiple of the time of its check: guesses get a quarter of one core at most."""


class PasswordChecks:
    """Checks one password at a time for all callers, with a short queue, of which guesses at one user leave places to others. Safe to share among threads.

    Results are cached, under a key of this process: clients that send a password with every call, right or wrong,
    have it checked once. Wrong ones displace no right ones.
    """

    def __init__(
        self,
        *,
        most_waiting: int = MOST_WAITING,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._key = secrets.token_bytes(32)
        self._pause = pause
        self._clock = clock
        self._most_waiting = most_waiting
        self._waiting: Counter[bytes] = Counter()
        self._changing = threading.Lock()
        self._checking = threading.Lock()
        self._known = LruCache[bytes, bool](MOST_REMEMBERED)

    def matches(self, stored: StoredPassword, password: str) -> bool:
        """Return whether a password is the stored one; raise `Unavailable` if too many checks are waiting."""
        mark = self._mark(stored, password)
        known = self._known.get(mark)
        if known is not None:
            return known
        with self._place(stored.salt), self._checking:
            return self._check(stored, password, mark)

    @contextmanager
    def _place(self, user: bytes) -> Iterator[None]:
        """Take a place in the queue, which counts for one user, for the block."""
        with self._changing:
            if not may_hold(self._waiting[user], self._most_waiting - self._waiting.total()):
                raise Unavailable("too many passwords are being checked; try again in a moment")
            self._waiting[user] += 1
        try:
            yield
        finally:
            with self._changing:
                self._waiting[user] -= 1
                self._waiting += Counter()  # drops what is 0

    def _check(self, stored: StoredPassword, password: str, mark: bytes) -> bool:
        known = self._known.get(mark)
        if known is not None:
            return known
        begun = self._clock()
        matches = stored.matches(password)
        self._known.put(mark, matches, owner="right" if matches else "wrong")
        if not matches:
            self._pause(_REST * (self._clock() - begun))
        return matches

    def _mark(self, stored: StoredPassword, password: str) -> bytes:
        mark = stored.salt + stored.hash + password.encode()
        return hmac.digest(self._key, mark, hashlib.sha256)


PREFIX = "lfs_"
"""Prefix of session tokens, which distinguishes them from tokens of other issuers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenClaims:
    """Claims of a session token about its user; each token is a session of its own."""

    user: str
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTokens:
    """Issues and verifies session tokens, which are valid for `lifetime` seconds."""

    sealer: TicketSealer
    lifetime: float
    now: Callable[[], float] = time.time

    def give(self, session: TokenClaims) -> str:
        """Make a new token."""
        value = [session.mark, int(self.now() + self.lifetime), secrets.token_hex(8)]
        sealed = self.sealer.session(session.user, json.dumps(value, separators=(",", ":")).encode())
        return PREFIX + urlsafe_b64encode(sealed).decode().rstrip("=")

    def take(self, token: str) -> TokenClaims | None:
        """Return whose a token is; None for one that was not given under this key, or has expired."""
        encoded = token.removeprefix(PREFIX)
        try:
            sealed = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
            user, content = self.sealer.open_session(sealed)
        except (ValueError, TicketError):
            return None
        mark, expires, _ = json.loads(content)
        return TokenClaims(user=user, mark=mark) if self.now() < expires else None


def mark_of(stored: str) -> str:
    """Return a mark that distinguishes one stored password from another, and reveals neither."""
    return hashlib.sha256(b"session token\0" + stored.encode()).hexdigest()[:32]


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


STATIC_PREFIX = "lft_"
"""Prefix of the tokens that `make_token` generates; tokens of other sources may have any."""

_TOKEN_KEYS = frozenset({"sha256", "principal", "groups", "expires"})
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
        self._file = Watched(path, parse_tokens, what="tokens file")
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


def parse_tokens(text: str) -> Mapping[str, StaticToken]:
    """Parse a file of tokens, by their hashes; raise `InvalidInput` that names the invalid entry."""
    tokens: dict[str, StaticToken] = {}
    for entry in entries(text, "tokens", _TOKEN_KEYS):
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
    return STATIC_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)


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
