"""Admission of callers by a table of authenticators, each for its own kind of credential."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lance_flight.errors import Unauthenticated
from lance_flight.flight.identity.credentials import Basic, Credential, credential_of
from lance_flight.flight.identity.principal import ANONYMOUS, Principal, Proof

_TOKEN_BYTES = 16


class Authenticator(Protocol):
    """Knows principals by one kind of credential, or several."""

    def principal(self, credential: Credential) -> Principal | None:
        """Return the principal of a credential; None for a credential of another kind, or an invalid one.

        Raises `Unauthenticated` where its holder may know more than that: a token that has expired.
        """
        ...


class Granter(Protocol):
    """Issues tokens to principals that were authenticated by a password."""

    def token(self, principal: Principal) -> str | None:
        """Return a bearer token for the principal's next calls; None if it gets none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """Admits callers that one of the authenticators recognises.

    Without any, whoever comes is anonymous, whatever he carries. With some, those without a credential are if
    `allow_anonymous`, and are told by their certificate if `has_certificates`; one that proves nobody is never let in.
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
            return self.known(credential)
        if self.has_certificates:
            return None
        if self.allow_anonymous:
            return ANONYMOUS
        raise Unauthenticated("the call says nothing of who calls; expected a user and a password, or a bearer token")

    def certified(self, name: str) -> Principal:
        """Return the principal of a call whose only credential is a certificate of this name."""
        if not name or name == ANONYMOUS.name:
            raise Unauthenticated("the certificate of the client has no name that a principal can have")
        return Principal(name=name, proof=Proof.CERTIFICATE)

    def grant(self, principal: Principal | None) -> str | None:
        """Return the token that answers the Handshake of a principal.

        Where nobody is asked who he is it proves nothing, and tells the sessions of clients apart; drivers that send a password
        fail without one.
        """
        if self.is_open:
            return secrets.token_urlsafe(_TOKEN_BYTES)
        return None if self.granter is None or principal is None else self.granter.token(principal)

    def known(self, credential: Credential) -> Principal:
        """Return the principal of a credential; raise `Unauthenticated` for an invalid one."""
        for authenticator in self.authenticators:
            principal = authenticator.principal(credential)
            if principal is not None and principal.name != ANONYMOUS.name:
                return principal
        if isinstance(credential, Basic):
            raise Unauthenticated("the user or the password is wrong")
        raise Unauthenticated("the bearer token is not valid, or not any longer")


OPEN = Authentication()
"""Gate that authenticates no caller."""
