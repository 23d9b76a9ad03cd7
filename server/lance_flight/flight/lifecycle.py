"""From the first connection that a server accepts to the last call that it finishes.

`FlightServerBase.serve` takes over the signals of the process and `shutdown` waits for running calls without an end,
so neither is called here as it is: the caller owns the signals and sets an event.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from lance_flight.flight.server import FlightSqlServer

_log = logging.getLogger(__name__)


def serve_until(
    server: FlightSqlServer,
    stop: threading.Event,
    *,
    grace: float,
    ready: Callable[[str], None] | None = None,
) -> bool:
    """Serve until `stop` is set, then refuse new calls and give running ones `grace` seconds to end.

    `ready` is called with the server's URI once connections are accepted. The answer is whether every call has ended;
    if one has not, the interpreter would wait for it when it exits: end the process with `os._exit`.
    """
    if ready is not None:
        ready(server.uri)
    stop.wait()
    _log.info("stopping, %d calls in flight", len(server.in_flight))
    draining = threading.Thread(target=server.shutdown, name="flight-shutdown", daemon=True)
    draining.start()
    draining.join(grace)
    if draining.is_alive():
        _log.warning("%d calls did not end within %s seconds", len(server.in_flight), grace)
    return not draining.is_alive()
