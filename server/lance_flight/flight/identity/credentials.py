"""Credentials in the header `authorization`: Basic (RFC 7617) or Bearer (RFC 6750)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from lance_flight.errors import Unauthenticated

AUTHORIZATION = "authorization"


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
