"""A proxy in front of a server says who its clients are: their addresses, behind a secret that both know."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address, ip_address

PROXY_HEADER = "lance-flight-proxy"


def client_of(headers: Mapping[str, Sequence[str | bytes]], secret: str) -> str | None:
    """Return the address that a proxy says of its client, as gRPC writes it; None if no proxy with this secret says one.

    >>> client_of({PROXY_HEADER: ["hush 10.0.0.1:4000"]}, "hush"), client_of({PROXY_HEADER: ["hush ::1:4000"]}, "hush")
    ('ipv4:10.0.0.1:4000', 'ipv6:%5B::1%5D:4000')
    >>> client_of({PROXY_HEADER: ["guessed 10.0.0.1:4000"]}, "hush"), client_of({PROXY_HEADER: [" 10.0.0.1:4000"]}, "")
    (None, None)
    """
    values = headers.get(PROXY_HEADER, ())
    if not secret or len(values) != 1:
        return None
    sent, _, client = str(values[0]).rpartition(" ")
    host, _, port = client.rpartition(":")
    if not hmac.compare_digest(sent.encode(), secret.encode()):
        return None
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return f"ipv6:%5B{address}%5D:{port}" if isinstance(address, IPv6Address) else f"ipv4:{address}:{port}"
