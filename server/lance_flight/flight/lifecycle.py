"""From the first connection that a server accepts to the last call that it finishes.

`FlightServerBase.serve` takes over the signals of the process and `shutdown` waits for running calls without an end,
so neither is called as it is: the caller owns the signals and sets an event.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from lance_flight.flight.server import FlightSqlServer

CLOSING_SECONDS = 2.0
"""How long connections may take to close after the last call."""

_log = logging.getLogger(__name__)


def serve_until(
    server: FlightSqlServer,
    stop: threading.Event,
    *,
    grace: float,
    ready: Callable[[str], None] | None = None,
    stopping: Callable[[], None] | None = None,
) -> bool:
    """Serve until `stop` is set, then refuse new calls and give running ones `grace` seconds to end.

    `ready` is called with the server's URI once connections are accepted, `stopping` when no more calls are to come.
    Transactions that are open at the end are rolled back. The answer is whether every call has ended; if one has not,
    the interpreter would wait for it when it exits: end the process with `os._exit`.
    """
    if ready is not None:
        ready(server.uri)
    stop.wait()
    server.in_flight.close()
    if stopping is not None:
        stopping()
    _log.info("stopping, calls in flight: %d", len(server.in_flight))
    is_done = server.in_flight.wait(grace)
    rolled_back = server.roll_back_open()
    if rolled_back:
        _log.warning("open transactions were rolled back: %d", rolled_back)
    if not is_done:
        _log.warning("calls did not end within %s seconds: %d", grace, len(server.in_flight))
        return False
    # A client that has begun a Handshake and goes no further is no call, and would be waited for.
    closing = threading.Thread(target=server.shutdown, name="flight-shutdown", daemon=True)
    closing.start()
    closing.join(CLOSING_SECONDS)
    return not closing.is_alive()
