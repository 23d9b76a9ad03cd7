"""JSON web tokens (RFC 7519) of an external issuer, and its public keys (RFC 7517), from a file or a URL."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol
from urllib.error import URLError
from urllib.request import HTTPRedirectHandler, build_opener

import jwt
from jwt import PyJWK
from jwt.exceptions import ExpiredSignatureError, PyJWTError

from lance_flight.errors import InvalidInput, Unauthenticated
from lance_flight.file_reloading import Watched
from lance_flight.flight.authentication import Bearer, Credential, Principal, Proof

MOST_BYTES = 1 << 20
MOST_KEYS = 100
FETCH_SECONDS = 5.0
"""Timeout of one fetch."""
REFRESH_SECONDS = 3600.0
"""Age at which keys are fetched again."""
RETRY_SECONDS = 30.0
"""Least time between fetches for tokens with unknown keys, which unauthenticated clients can send in any number."""

_log = logging.getLogger(__name__)

_Keys = Mapping[str | None, Mapping[str, Any]]


class KeySet(Protocol):
    """Interface of a set of public keys, by their ids."""

    def key(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        """Return the key with this id, for its own algorithm, else for this one; without an id the only key, if there is just one."""
        ...


class KeysFile:
    """Key set of a file, which may change."""

    def __init__(self, path: str) -> None:
        self._file = Watched(path, parse, what="key set", is_secret=False)

    def key(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        return _choose_key(self._file.value, key_id, algorithm)


class KeysUrl:
    """Key set at a URL, cached for an hour. Safe to share among threads.

    While a fetch fails the last keys stay valid: the issuer may be unreachable for a while.
    """

    def __init__(
        self, url: str, fetch: Callable[[str], str] | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._url = url
        self._fetch = fetch or fetch_url
        self._now = now
        self._fetching = threading.Lock()
        self._keys: _Keys = MappingProxyType({})
        self._tried: float | None = None

    def key(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        is_known = key_id in self._keys or (key_id is None and bool(self._keys))
        age = REFRESH_SECONDS if is_known else RETRY_SECONDS
        if self._is_due(age):
            with self._fetching:
                # A caller that has waited here finds the keys that another one has fetched.
                if self._is_due(age):
                    self._refresh()
        return _choose_key(self._keys, key_id, algorithm)

    def _is_due(self, age: float) -> bool:
        return self._tried is None or self._now() - self._tried >= age

    def _refresh(self) -> None:
        try:
            self._keys = parse(self._fetch(self._url))
        except (OSError, InvalidInput) as exc:
            _log.error("the keys at %s cannot be fetched: %s", self._url, exc)
        self._tried = self._now()


def parse(text: str) -> _Keys:
    """Parse a key set and return the keys that can check signatures; raise `InvalidInput` for an invalid set.

    Keys of kinds that are not known here are left out, as the RFC wants it.
    """
    try:
        listed = json.loads(text)["keys"]
    except (ValueError, KeyError, TypeError):
        raise InvalidInput('no JSON web key set; expected {"keys": […]}') from None
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise InvalidInput(f"no list of at most {MOST_KEYS} keys")
    keys: dict[str | None, Mapping[str, Any]] = {}
    for described in listed:
        try:
            key = PyJWK.from_dict(described)
        except (PyJWTError, ValueError, TypeError, AttributeError):
            continue
        if key.public_key_use in {None, "sig"} and key.key_type != "oct":
            keys[key.key_id] = described
    if not keys:
        raise InvalidInput("no key that checks a signature")
    return keys


def fetch_url(url: str) -> str:
    """Fetch the content of a URL without following redirects; raise `OSError` if that fails."""
    with build_opener(_NoRedirects).open(url, timeout=FETCH_SECONDS) as answer:
        content: bytes = answer.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise URLError(f"more than {MOST_BYTES} bytes")
    return content.decode(errors="replace")


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def _choose_key(keys: _Keys, key_id: str | None, algorithm: str) -> PyJWK | None:
    is_only = key_id is None and len(keys) == 1
    described = next(iter(keys.values())) if is_only else keys.get(key_id)
    return None if described is None else PyJWK(dict(described), described.get("alg") or algorithm)


ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "ES256K", "EdDSA"}
)
"""Accepted signature algorithms: public-key ones alone, none that the server could sign with itself, and never "none"."""

_PARTS = 3
_REQUIRED = ("exp", "iss", "aud")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """Rules for accepting a token, and the claims that name its principal and groups.

    `leeway`, in seconds, is how far the clocks may be apart.
    """

    issuer: str
    audience: str
    algorithms: tuple[str, ...] = ("RS256",)
    principal_claim: str = "sub"
    groups_claim: str = "groups"
    leeway: float = 30.0

    def __post_init__(self) -> None:
        unknown = [name for name in self.algorithms if name not in ALGORITHMS]
        if unknown or not self.algorithms:
            raise InvalidInput(
                f"algorithm {(unknown or [''])[0]!r} of JSON web tokens; expected some of {', '.join(sorted(ALGORITHMS))}"
            )


class JsonWebTokens:
    """Authenticator by the claims of JSON web tokens."""

    def __init__(self, rules: TokenRules, keys: KeySet) -> None:
        self._rules = rules
        self._keys = keys

    def principal(self, credential: Credential) -> Principal | None:
        """Return the principal that a token names, after checking its signature and claims."""
        if not isinstance(credential, Bearer) or credential.token.count(".") != _PARTS - 1:
            return None
        claims = self._claims(credential.token)
        name = _claim(claims, self._rules.principal_claim)
        if not isinstance(name, str) or not name:
            raise Unauthenticated(
                f"the JSON web token names no principal: claim {self._rules.principal_claim!r} is no text"
            )
        return Principal(name=name, groups=self._groups(claims), proof=Proof.JSON_WEB_TOKEN)

    def _claims(self, token: str) -> Mapping[str, Any]:
        rules = self._rules
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in rules.algorithms:
                raise Unauthenticated("the JSON web token is signed with an algorithm that is not taken here")
            key = self._keys.key(header.get("kid"), algorithm)
            if key is None:
                raise Unauthenticated("the JSON web token is signed with a key that is not known here")
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(rules.algorithms),
                audience=rules.audience,
                issuer=rules.issuer,
                leeway=rules.leeway,
                options={"require": [*_REQUIRED, *([] if "." in rules.principal_claim else [rules.principal_claim])]},
            )
        except ExpiredSignatureError:
            raise Unauthenticated("the JSON web token has expired") from None
        except PyJWTError as exc:
            raise Unauthenticated(f"the JSON web token is not valid: {type(exc).__name__}") from None
        return claims

    def _groups(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        groups = _claim(claims, self._rules.groups_claim)
        if groups is None:
            return ()
        if isinstance(groups, str):
            return (groups,)
        if not isinstance(groups, list) or not all(isinstance(name, str) for name in groups):
            raise Unauthenticated(f"claim {self._rules.groups_claim!r} of the JSON web token is no list of names")
        return tuple(groups)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, else by its path: `realm_access.roles`."""
    if name in claims:
        return claims[name]
    claim: Any = claims
    for part in name.split("."):
        if not isinstance(claim, Mapping):
            return None
        claim = claim.get(part)
    return claim
