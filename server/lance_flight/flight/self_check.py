"""Self-check of a server by a call, which proves that connections are accepted, handlers run, and Python's lock is free."""

from __future__ import annotations

from pyarrow import flight

from lance_flight.flight.commands import GetTableTypes
from lance_flight.flight.wire import encode_command

_EVERY = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - what is listened on, as it is called
_UNTRACED = (b"traceparent", b"00-11111111111111111111111111111111-1111111111111111-00")
"""Trace context that is not sampled, so that parent-based samplers make no span for the check."""

_ASKED = flight.FlightDescriptor.for_command(encode_command(GetTableTypes()))


class SelfCheck:
    """Calls the server at `uri`. Its certificate need not be valid for this machine, and no credential is needed."""

    def __init__(self, uri: str, *, timeout: float) -> None:
        scheme, _, address = uri.partition("://")
        host, _, port = address.rpartition(":")
        self._client = flight.connect(
            f"{scheme}://{_EVERY.get(host, host)}:{port}",
            disable_server_verification=scheme.endswith("+tls"),
            # A proxy that the environment names is for the way out.
            generic_options=[("grpc.enable_http_proxy", 0)],
        )
        self._options = flight.FlightCallOptions(timeout=timeout, headers=[_UNTRACED])

    def is_answered(self) -> bool:
        """Return whether GetFlightInfo is answered in time; a refusal for the missing credential counts.

        Not ListActions: where that is cancelled, as by a server that is stopping, pyarrow interrupts its own process.
        """
        try:
            self._client.get_flight_info(_ASKED, self._options)
        except flight.FlightUnauthenticatedError:
            return True
        except flight.FlightError:
            return False
        return True
