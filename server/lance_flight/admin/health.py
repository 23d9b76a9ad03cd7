"""gRPC health service (grpc.health.v1), for load balancers that probe by gRPC.

It has a port of its own: pyarrow's Flight server takes no further services on its own.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from lance_flight.connections import bracket_host
from lance_flight.errors import InvalidInput

SERVICES = ("", "arrow.flight.protocol.FlightService")
"""Names of services that can be checked: the server as a whole, and its Flight service."""

_THREADS = 2


class HealthServer:
    """Serves Check and Watch on `host`:`port` (0: any free port), initially as not serving."""

    def __init__(self, host: str, port: int) -> None:
        self._servicer = health.HealthServicer()
        # gRPC would let two servers share the port, and answer for each other.
        self._server = grpc.server(ThreadPoolExecutor(_THREADS, "health"), options=[("grpc.so_reuseport", 0)])
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, self._server)
        self.set_serving(serving=False)
        try:
            self._port = self._server.add_insecure_port(f"{bracket_host(host)}:{port}")
        except RuntimeError as exc:
            raise InvalidInput(f"cannot listen on {host}:{port} for the gRPC health service: {exc}") from exc
        self._host = host
        self._server.start()

    @property
    def uri(self) -> str:
        """Return the address of this service: `grpc://host:port`."""
        return f"grpc://{bracket_host(self._host)}:{self._port}"

    def set_serving(self, *, serving: bool) -> None:
        """Set the status that Check returns, and notify every Watch."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in SERVICES:
            self._servicer.set(name, status)

    def close(self) -> None:
        """Stop the service."""
        self._server.stop(None)
