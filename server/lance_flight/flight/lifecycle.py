"""Life of a server, from the first connection to the last call, with a self-check by a call.

`FlightServerBase.serve` takes over the signals of the process and `shutdown` waits for running calls without an end,
so neither is called as it is: the caller owns the signals, and sets an event (a `SignalEvent` in their handlers).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import flight

from lance_flight.flight.encryption import Tls
from lance_flight.flight.server import FlightSqlServer
from lance_flight.flight.wire import GetTableTypes, encode_command
from lance_flight.signal_event import SignalEvent

if TYPE_CHECKING:
    from lance_flight.flight.tls import TlsFiles


CLOSING_SECONDS = 2.0
"""Time that connections have to close after the last call."""
CERTIFICATE_SECONDS = 2.0
"""Interval between checks of the certificate files."""
SIGNAL_SECONDS = 1.0
"""Longest delay of a signal that the system delivers to another thread than the main one, which is not woken by it then."""
TAKING_OVER_SECONDS = 10.0
"""Longest wait for an address to become free for the successor of a server."""
_TAKING_OVER_STEP = 0.002

_log = logging.getLogger(__name__)


def serve_until(
    server: FlightSqlServer,
    stop: threading.Event | SignalEvent,
    *,
    grace: Callable[[], float],
    ready: Callable[[str], None] | None = None,
    stopping: Callable[[], None] | None = None,
    certificates: TlsFiles | None = None,
    renewed: Callable[[Tls], None] = lambda _: None,
    is_replaced: Callable[[], bool] = lambda: False,
) -> bool:
    """Serve until `stop` is set, then refuse new calls and give running ones the seconds that `grace` then says to end.

    The rows of a query that is planned can be fetched for as long as other calls run. `ready` is called with the server's
    URI once connections are accepted, `stopping` when no more calls are to come. When its `certificates` change, a successor
    takes the server's place, and `renewed` is called with them. One that `is_replaced` tells its clients to connect anew instead of refusing their calls: another server takes
    them. Transactions that are open at the end are rolled back. The answer is whether every call has
    ended; if one has not, the interpreter would wait for it when it exits: end the process with `os._exit`.
    """
    if ready is not None:
        ready(server.uri)
    while not stop.wait(SIGNAL_SECONDS if certificates is None else CERTIFICATE_SECONDS):
        changed = None if certificates is None or server.tls is None else certificates.read_changed(server.tls)
        if changed is not None:
            server = replace_server(server, changed)
            renewed(changed)
    closing = _closing(server) if is_replaced() else None
    if closing is None:
        server.in_flight.close()
    if stopping is not None:
        stopping()
    _log.info("stopping, calls in flight: %d", len(server.in_flight))
    seconds = grace()
    is_done = server.in_flight.wait(seconds)
    rolled_back = server.roll_back_open()
    if rolled_back:
        _log.warning("open transactions were rolled back: %d", rolled_back)
    if not is_done:
        _log.warning("calls did not end within %s seconds: %d", seconds, len(server.in_flight))
        return False
    # It waits without an end where gRPC holds a connection for open. The calls of one that is replaced go on until then.
    closing_seconds = CLOSING_SECONDS if closing is None else seconds
    closing = closing or _closing(server)
    closing.join(closing_seconds)
    return not closing.is_alive()


def replace_server(server: FlightSqlServer, tls: Tls) -> FlightSqlServer:
    """Replace a server that accepts no more connections by one with other certificates.

    Calls that run on the old one end there, as they would have. gRPC keeps an address to one server: connections that are
    made in the milliseconds between the two are refused, and drivers try again.
    """
    _closing(server)
    deadline = time.monotonic() + TAKING_OVER_SECONDS
    while True:
        try:
            successor = server.successor(tls)
        except (OSError, pa.ArrowException):
            if time.monotonic() > deadline:
                raise
            time.sleep(_TAKING_OVER_STEP)
        else:
            _log.info("new certificates are in use at %s", successor.uri)
            return successor


def _closing(server: FlightSqlServer) -> threading.Thread:
    """Shut a server down for new connections, in a thread that lives until its last call has ended."""
    closing = threading.Thread(target=server.shutdown, name="flight-shutdown", daemon=True)
    closing.start()
    return closing


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
