"""Certificates and key for a server's TLS connections."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificate chain and its key, in PEM; with `client_ca`, clients need certificates signed by that authority."""

    certificate: bytes
    key: bytes = field(repr=False)
    client_ca: bytes | None = None
