"""Sign-ins by handshake, with credentials in messages or in headers."""

from __future__ import annotations

from pyarrow import flight


class InMessages(flight.ClientAuthHandler):  # type: ignore[misc]
    """Sends one message, and comes back with the token that answers it."""

    def __init__(self, message: bytes) -> None:
        super().__init__()
        self.message = message
        self.token = b""

    def authenticate(self, outgoing: flight.ClientAuthSender, incoming: flight.ClientAuthReader) -> None:
        outgoing.write(self.message)
        self.token = incoming.read()

    def get_token(self) -> bytes:
        return self.token


class Unanswered(InMessages):
    """Expects no answer, as the ODBC driver does."""

    def __init__(self, message: bytes = b"") -> None:
        super().__init__(message)

    def authenticate(self, outgoing: flight.ClientAuthSender, incoming: flight.ClientAuthReader) -> None:
        outgoing.write(self.message)


def password(user: str, password: str) -> bytes:
    message: bytes = flight.BasicAuth(user, password).serialize()
    return message
