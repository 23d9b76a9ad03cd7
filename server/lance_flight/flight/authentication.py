"""Admission of callers by a table of authenticators, each for its own kind of credential.

Further kinds are those of `passwords` (users, the session tokens that their passwords are exchanged for, and tokens of an operator)
and of `json_web_tokens`. Principals stand here too, with the credentials that prove them (RFC 7617, RFC 6750), and TOML files that name them.
"""

from __future__ import annotations

import json
import re
import secrets
import tomllib
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeAlias

from lance_flight.audit import trail
from lance_flight.errors import InvalidInput, Unauthenticated


class Proof(Enum):
    """Kind of credential that has proven a principal."""

    NOTHING = "nothing"
    PASSWORD = "password"  # noqa: S105 - the kind, not one of them
    SESSION_TOKEN = "session token"  # noqa: S105
    STATIC_TOKEN = "static token"  # noqa: S105
    JSON_WEB_TOKEN = "JSON web token"  # noqa: S105
    CERTIFICATE = "certificate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Principal by name, independent of its proof: what belongs to it is found again with another kind of credential."""

    name: str
    groups: tuple[str, ...] = ()
    proof: Proof = Proof.NOTHING


ANONYMOUS = Principal(name="anonymous")
"""Principal of callers that need no authentication; no credential can prove this name."""


AUTHORIZATION, API_KEY = "authorization", "x-api-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Basic:
    """Credential of a user name and a password."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """Credential of a bearer token."""

    token: str = field(repr=False)


Credential: TypeAlias = Basic | Bearer


def credential_of(headers: Mapping[str, Sequence[str | bytes]]) -> Credential | None:
    """Parse the credential among the headers of a call; None without one, `Unauthenticated` for a malformed one.

    >>> credential_of({"authorization": ["Basic YWxpY2U6c2VjcmV0"]})
    Basic(user='alice')
    """
    values = headers.get(AUTHORIZATION, ())
    if not values:
        return None
    if len(values) > 1:
        raise Unauthenticated(f"the call has {len(values)} headers {AUTHORIZATION}; expected one")
    scheme, _, rest = str(values[0]).strip().partition(" ")
    rest = rest.strip()
    match scheme.lower():
        case "basic":
            return _basic(rest)
        case "bearer" if rest:
            return Bearer(token=rest)
    raise Unauthenticated(f"header {AUTHORIZATION} is neither Basic nor Bearer")


def with_api_key(headers: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return headers with an API key as the bearer token that it is; raise `Unauthenticated` where both are there, or several.

    >>> with_api_key({"x-api-key": ["sk"]})
    {'authorization': ['Bearer sk']}
    """
    others = {name: values for name, values in headers.items() if name != API_KEY}
    keys = headers.get(API_KEY, ())
    if not keys:
        return others
    if len(keys) > 1 or headers.get(AUTHORIZATION):
        raise Unauthenticated(f"the call has several credentials; expected one {API_KEY}, or {AUTHORIZATION} instead")
    return {**others, AUTHORIZATION: [f"Bearer {keys[0]}"]}


def _basic(encoded: str) -> Basic:
    # Some drivers leave the padding out.
    padded = encoded.rstrip("=") + "=" * (-len(encoded.rstrip("=")) % 4)
    try:
        user, colon, password = b64decode(padded, validate=True).decode().partition(":")
    except ValueError:
        colon = ""
    if not colon:
        raise Unauthenticated(f"header {AUTHORIZATION} is Basic, and not the Base64 of user:password in UTF-8")
    return Basic(user=user, password=password)


_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """One `[kind.name]` of a file; errors quote its name, and none of its values."""

    kind: str
    name: str
    values: Mapping[str, Any]

    def text(self, key: str, default: str | None = None) -> str:
        """Return a required text, or the default of a missing one."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(f"{key!r} is no text" if key in self.values else f"{key!r} is missing")
        return value

    def groups(self) -> tuple[str, ...]:
        """Return the names under `groups`."""
        value = self.values.get("groups", [])
        if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            raise self.wrong("'groups' is no list of names")
        return tuple(value)

    def wrong(self, why: str) -> InvalidInput:
        """Return an error about this entry."""
        return InvalidInput(f"[{self.kind}.{self.name}]: {why}")


def entries(text: str, kind: str, keys: frozenset[str]) -> Iterator[Entry]:
    """Yield every `[kind.name]` of a file; raise `InvalidInput` for any other content."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise InvalidInput(f"no TOML: {exc}") from None
    table = document.pop(kind, {})
    if document or not isinstance(table, dict):
        raise InvalidInput(f"{next(iter(document), kind)!r} stands in it; expected [{kind}.NAME]")
    for name, values in table.items():
        if not isinstance(values, dict):
            raise InvalidInput(f"{kind}.{name} is a value; expected [{kind}.{name}]")
        entry = Entry(kind, name, values)
        if unknown := values.keys() - keys:
            raise entry.wrong(f"{min(unknown)!r} is unknown; expected {', '.join(sorted(keys))}")
        yield entry


def heading(kind: str, name: str) -> str:
    """Return the line that begins an entry.

    >>> heading("users", "alice"), heading("users", "alice@example.com")
    ('[users.alice]', '[users."alice@example.com"]')
    """
    return f"[{kind}.{name if _BARE.fullmatch(name) else json.dumps(name)}]"


def principal_name(entry: Entry, name: str) -> str:
    """Return a name after checking that a principal may have it."""
    if name == ANONYMOUS.name or not name or any(not char.isprintable() for char in name):
        raise entry.wrong(f"no principal can be called {name!r}")
    return name


_TOKEN_BYTES = 16


class Authenticator(Protocol):
    """Interface that maps credentials of one or several kinds to principals."""

    def principal(self, credential: Credential) -> Principal | None:
        """Return the principal of a credential; None for a credential of another kind, or an invalid one.

        Raises `Unauthenticated` with a reason that its holder may know: the token has expired.
        """
        ...


class Granter(Protocol):
    """Issues tokens to principals that were authenticated by a password."""

    def token(self, principal: Principal) -> str | None:
        """Return a bearer token for the principal's next calls; None if it gets none."""
        ...

    def knows(self, name: str) -> bool:
        """Return whether there is a principal of this name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """Admits callers that one of the authenticators recognises.

    Without authenticators every caller is anonymous, whatever its credentials. With some, a caller without a credential is
    anonymous if `allow_anonymous`, or known by its certificate if `has_certificates`; an invalid credential is never admitted.
    """

    authenticators: tuple[Authenticator, ...] = ()
    granter: Granter | None = None
    allow_anonymous: bool = False
    has_certificates: bool = False

    @property
    def is_open(self) -> bool:
        """True if callers are not authenticated."""
        return not self.authenticators and not self.has_certificates

    def admit(self, headers: Mapping[str, Sequence[str | bytes]]) -> Principal | None:
        """Return the principal of these headers; None if the certificate decides it. Raise `Unauthenticated` without a valid credential."""
        if self.is_open:
            return ANONYMOUS
        credential = credential_of(headers)
        if credential is not None:
            return self.authenticate(credential)
        if self.has_certificates:
            return None
        if self.allow_anonymous:
            return ANONYMOUS
        raise Unauthenticated("the call has no credentials; expected a user and a password, or a bearer token")

    def certificate_principal(self, name: str) -> Principal:
        """Return the principal of a call whose only credential is a certificate of this name."""
        if not name or name == ANONYMOUS.name:
            reason = "the certificate of the client has no name that a principal can have"
            trail.refuse_login(None, Proof.CERTIFICATE.value, reason)
            raise Unauthenticated(reason)
        return Principal(name=name, proof=Proof.CERTIFICATE)

    def grant(self, principal: Principal | None) -> str | None:
        """Return the token that answers the Handshake of a principal.

        Without authentication it proves nothing, and only distinguishes the sessions of clients; drivers that send a password
        fail without one.
        """
        if self.is_open:
            return secrets.token_urlsafe(_TOKEN_BYTES)
        return None if self.granter is None or principal is None else self.granter.token(principal)

    def authenticate(self, credential: Credential) -> Principal:
        """Return the principal of a credential; raise `Unauthenticated` for an invalid one."""
        try:
            return self._authenticate(credential)
        except Unauthenticated as error:
            # A name that is not known may be a password in the wrong place.
            is_user = isinstance(credential, Basic) and self.granter is not None and self.granter.knows(credential.user)
            name = credential.user if isinstance(credential, Basic) and is_user else None
            trail.refuse_login(name, _kind(credential), str(error))
            raise

    def _authenticate(self, credential: Credential) -> Principal:
        for authenticator in self.authenticators:
            principal = authenticator.principal(credential)
            if principal is not None and principal.name != ANONYMOUS.name:
                return principal
        if isinstance(credential, Basic):
            raise Unauthenticated("the user or the password is wrong")
        raise Unauthenticated("the bearer token is not valid, or not any longer")


def _kind(credential: Credential) -> str:
    return Proof.PASSWORD.value if isinstance(credential, Basic) else "bearer token"


OPEN = Authentication()
"""Gate that authenticates no caller."""
