"""Servers with the REST catalog, and LanceDB's own client of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import lancedb
from lance_flight.serving.replicas import free_ports
from lancedb.db import DBConnection

from tests.service.server_process import Server, serving


@contextmanager
def serving_rest(
    root: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[Server, str]]:
    """A server, and the address of its catalog."""
    (port,) = free_ports(1)
    with serving(root, "--rest-port", str(port), *arguments, environment=environment) as server:
        yield server, f"http://127.0.0.1:{port}"


def connect(address: str, token: str = "any") -> DBConnection:  # noqa: S107 - one that nothing checks
    """A connection of LanceDB's Python client."""
    connection: DBConnection = lancedb.connect("db://flights", api_key=token, host_override=address)
    return connection
