"""A bucket of the tests' own S3 server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lance_flight.catalog.storage.store import Store

from tests.service.server_process import Server, serving_uri, started_uri

REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket, and how to reach it."""

    endpoint: str
    name: str

    @property
    def options(self) -> dict[str, str]:
        """Storage options as Lance names them."""
        return {
            "aws_endpoint": self.endpoint,
            "allow_http": "true",
            "aws_region": REGION,
            "aws_access_key_id": "key",
            "aws_secret_access_key": "very-secret",
        }

    @property
    def store(self) -> Store:
        """The root that the tests serve."""
        return Store(f"s3://{self.name}/root", self.options)

    @contextmanager
    def serving(self, place: Path, name: str = "server") -> Iterator[Server]:
        """A server over the bucket's root, which must end well."""
        with serving_uri(self.store.uri, place / f"{name}.ready", *self._arguments) as server:
            yield server

    @contextmanager
    def started(self, place: Path, environment: Mapping[str, str]) -> Iterator[Server]:
        """A server over the bucket's root; whether and how it ends is left to the caller."""
        with started_uri(self.store.uri, place / "started.ready", *self._arguments, environment=environment) as server:
            yield server

    @property
    def _arguments(self) -> tuple[str, str]:
        return "--storage-options", ",".join(f"{key}={value}" for key, value in self.options.items())
