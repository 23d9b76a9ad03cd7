"""Who may come in: a table of authenticators, each of which knows credentials of its own."""

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
        """Whom the credential proves; None for one of another kind, or one that proves nobody.

        Raises `Unauthenticated` where its holder may know more than that: a token that has expired.
        """
        ...


class Granter(Protocol):
    """Gives tokens to those whom a password has proven."""

    def token(self, principal: Principal) -> str | None:
        """A bearer token to come back with, if there is one for this principal."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Lets callers in whom one of the authenticators knows.

    Without any, whoever comes is anonymous, whatever he carries. With some, those without a credential are if
    `allow_anonymous`, and are told by their certificate if `has_certificates`; one that proves nobody is never let in.
    """

    authenticators: tuple[Authenticator, ...] = ()
    granter: Granter | None = None
    allow_anonymous: bool = False
    has_certificates: bool = False

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked who he is."""
        return not self.authenticators and not self.has_certificates

    def admit(self, headers: Mapping[str, Sequence[str | bytes]]) -> Principal | None:
        """Return who calls with these headers; None: whose certificate it is. `Unauthenticated` for anybody else."""
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
        """Return who calls with the certificate of this name and no other credential."""
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
        """Whom a credential proves; `Unauthenticated` where it proves nobody."""
        for authenticator in self.authenticators:
            principal = authenticator.principal(credential)
            if principal is not None and principal.name != ANONYMOUS.name:
                return principal
        if isinstance(credential, Basic):
            raise Unauthenticated("the user or the password is wrong")
        raise Unauthenticated("the bearer token is not valid, or not any longer")


OPEN = Gate()
"""Asks nobody who he is."""
