"""Admission of callers by a table of authenticators, each for its own kind of credential."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lance_flight.audit import trail
from lance_flight.errors import Unauthenticated
from lance_flight.flight.identity.principals import ANONYMOUS, Basic, Credential, Principal, Proof, credential_of

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
