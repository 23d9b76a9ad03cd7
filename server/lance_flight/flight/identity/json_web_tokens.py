"""Tokens of an external issuer: JSON web tokens (RFC 7519) of one issuer, for one audience."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt
from jwt.exceptions import ExpiredSignatureError, PyJWTError

from lance_flight.errors import InvalidInput, Unauthenticated
from lance_flight.flight.identity.credentials import Bearer, Credential
from lance_flight.flight.identity.key_sets import KeySet
from lance_flight.flight.identity.principal import Principal, Proof

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
    found: Any = claims
    for part in name.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found
