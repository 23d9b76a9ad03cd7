"""The server that is read, and the credentials that it is called with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lance_flight.errors import InvalidInput
from pyarrow import flight

_ENDPOINTS_HEADER = b"lance-flight-endpoints"
_SAME_CONNECTION = "arrow-flight-reuse-connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccess:
    """The address of a server, and the credentials that it is called with."""

    uri: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls_roots: bytes | None = field(default=None, repr=False)

    def connect(self, uri: str, middleware: Sequence[flight.ClientMiddlewareFactory] = ()) -> flight.FlightClient:
        """Return a client of one of the server's locations."""
        place = self.uri if uri.startswith(_SAME_CONNECTION) else uri
        return flight.connect(place, tls_root_certs=self.tls_roots, middleware=list(middleware))

    def call(self, client: flight.FlightClient, endpoints: int | None = None) -> flight.FlightCallOptions:
        """Return the headers of a call."""
        headers = [] if endpoints is None else [(_ENDPOINTS_HEADER, str(endpoints).encode())]
        return flight.FlightCallOptions(headers=[*headers, *self.identity(client)])

    def identity(self, client: flight.FlightClient) -> list[tuple[bytes, bytes]]:
        """Return the headers that say who calls; a user with a password is given a token for them."""
        if self.token is not None:
            return [(b"authorization", f"Bearer {self.token}".encode())]
        if self.username is None:
            return []
        granted = client.authenticate_basic_token(self.username, self.password or "")
        # A server without authentication grants no token.
        return [granted] if granted[0] else []


def certificates(path: str) -> bytes:
    """Return the certificates of a file, in PEM; `InvalidInput` if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise InvalidInput(f"certificates {path!r} cannot be read: {exc.strerror}") from exc
