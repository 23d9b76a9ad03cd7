"""Shares of what a server has once for all: whom it counts for, and how much of it one of them may hold."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import unquote

ANONYMOUS = "anonymous"
"""Principal of callers without a credential; no credential can prove this name."""
SHARE = 3
"""A holder has at most so many times as much as it leaves free: three quarters of all if it is alone, and others of the rest."""
_NETWORK = 64
"""Bits of an IPv6 address that are a site's: it has all addresses below."""
KEPT_HOLDERS = 1_024
"""Connections whose holder is known: a search asks for it seven times."""


@lru_cache(KEPT_HOLDERS)
def holder_of(principal: str, peer: str) -> str:
    """Return whom a call counts for: its principal, or without a credential the address of its client, as gRPC writes it.

    >>> holder_of("ann", "ipv4:10.0.0.1:4000"), holder_of("anonymous", "ipv4:10.0.0.1:4000")
    ('ann', 'anonymous at 10.0.0.1')
    >>> holder_of("anonymous", "ipv6:%5B2001:db8::7%5D:4000"), holder_of("anonymous", "unix:")
    ('anonymous at 2001:db8::/64', 'anonymous')
    """
    if principal != ANONYMOUS:
        return principal
    host = unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return principal
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None and not address.is_loopback:
        return f"{ANONYMOUS} at {ip_network((address, _NETWORK), strict=False)}"
    return f"{ANONYMOUS} at {getattr(address, 'ipv4_mapped', None) or address}"


def release(held: Counter[str], holder: str) -> None:
    """Count one part less of a holder, and drop one without any."""
    held[holder] -= 1
    if not held[holder]:
        del held[holder]


def may_hold(held: int, free: int) -> bool:
    """Return whether a holder of `held` parts may take one more of the `free` ones; the first one it may always.

    >>> [sum(may_hold(held, most - held) for held in range(most)) for most in (1, 2, 4, 16)]
    [1, 1, 3, 12]
    """
    return free > 0 and (held == 0 or held + 1 <= SHARE * (free - 1))
