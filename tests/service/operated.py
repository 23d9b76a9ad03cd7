"""A server with its ports of administration, for tests that look at it as those who run it do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.service.forked import Forked, forked
from tests.service.server_process import SERVE, Server

PATIENCE = 60.0
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@dataclass(frozen=True)
class Operated:
    """A running server, and where it is looked after."""

    server: Server
    admin: str
    health: str

    def page(self, path: str) -> tuple[int, str]:
        """The status and the body of a page of the admin port."""
        try:
            with urlopen(self.admin + path, timeout=PATIENCE) as answer:  # noqa: S310 - our own server
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    @cached_property
    def watch(self) -> Any:
        """The states that the gRPC health service tells, as they come."""
        channel = grpc.insecure_channel(self.health.removeprefix("grpc://"))
        return health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE)

    def stop(self) -> None:
        """Tell the server to stop, and wait until it refuses calls."""
        assert next(self.watch).status == SERVING
        self.server.process.terminate()
        assert next(self.watch).status == NOT_SERVING

    def log(self) -> str:
        """What the server has written on standard error, once it has ended."""
        return self.log_file.read_text()

    @property
    def log_file(self) -> Path:
        """Where its standard error goes."""
        return self.server.root.with_suffix(".log")


@contextmanager
def operated(root: Path, *arguments: str) -> Iterator[Operated]:
    """A server over `root`; whether and how it ends is left to the caller."""
    command = [*SERVE[1:], str(root), "--port", "0", "--admin-port", "0", "--health-port", "0", *arguments]
    with forked(command, log=root.with_suffix(".log"), is_piped=True) as process:
        admin, health, uri = (_address(process) for _ in range(3))
        yield Operated(Server(root, uri, process), admin, health)


def _address(process: Forked) -> str:
    """The address that the next line of a starting server ends with."""
    assert process.stdout is not None
    found = re.search(r'\w\S+://[^\s"]+(?="?\}?$)', process.stdout.readline())
    assert found is not None
    return found[0]
