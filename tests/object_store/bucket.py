"""A bucket of the tests' own S3 server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path

from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.leases import LEASES
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine

from tests.engine.database import Database
from tests.object_store.s3_server import BucketContent, Faults, Rule, S3Server, Sent
from tests.service.server_process import Server, serving_uri, started_uri

REGION = "us-east-1"
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket, and how to reach it."""

    server: S3Server = field(repr=False)
    name: str
    endpoint: str

    @property
    def options(self) -> dict[str, str]:
        """Storage options as Lance names them."""
        return {
            "aws_endpoint": self.endpoint,
            "allow_http": "true",
            "aws_region": REGION,
            "aws_access_key_id": f"key-of-{self.name}",  # so that no two buckets share a client, which sends less again once much has failed
            "aws_secret_access_key": "very-secret",
        }

    @property
    def store(self) -> Store:
        """The root that the tests serve."""
        return self.place("root")

    @property
    def database(self) -> BucketDatabase:
        """A new engine over the root."""
        return BucketDatabase(Path(self.name), bucket=self)

    def place(self, name: str) -> Store:
        """A prefix of the bucket."""
        return Store(f"s3://{self.name}/{name}", self.options)

    @property
    def faults(self) -> Faults:
        """What befalls requests."""
        return self._content.faults

    @contextmanager
    def failing(self, *rules: Rule) -> Iterator[None]:
        """Let requests meet faults within the block; afterwards leases are renewed at once again."""
        self.faults.set(*rules)
        try:
            yield
        finally:
            self.faults.set()

    @contextmanager
    def recorded(self) -> Iterator[list[Sent]]:
        """The requests that are sent within the block."""
        sent: list[Sent] = []
        self._content.sent = sent
        try:
            yield sent
        finally:
            self._content.sent = None

    @property
    def _content(self) -> BucketContent:
        return self.server.buckets[self.name]

    @staticmethod
    def made(server: S3Server) -> Bucket:
        """Make a bucket."""
        name = f"bucket-{next(_NUMBERS)}"
        server.buckets[name] = BucketContent()
        return Bucket(server, name, server.endpoint)

    def copy(self) -> Bucket:
        """Make another bucket that has the same objects."""
        copied = Bucket.made(self.server)
        copied.put_back(self)
        return copied

    def put_back(self, other: Bucket) -> None:
        """Take the objects of another bucket in place of its own."""
        with other._content.lock:
            objects = dict(other._content.objects)
        with self._content.lock:
            self._content.objects = objects

    def take_changes(self, old: Bucket, new: Bucket) -> None:
        """Do to the objects what was done to those of another bucket, from `old` to `new`; the others stay.

        So does the lease of this process, which holds tables in all of them.
        """
        before, after, mine = old._content.objects, new._content.objects, self._content.objects
        made = {key: each for key, each in after.items() if before.get(key) is not each and f"/{LEASES}/" not in key}
        with self._content.lock:
            assert all(mine.get(key) is before.get(key) for key in made), "no two processes make one object"
            for key in before.keys() - after.keys():
                mine.pop(key, None)
            mine.update(made)

    @contextmanager
    def serving(self, place: Path, name: str = "server") -> Iterator[Server]:
        """A server over the bucket's root, which must end well."""
        with serving_uri(self.store.uri, place / f"{name}.ready", environment=self._environment) as server:
            yield server

    @contextmanager
    def started(self, place: Path, environment: Mapping[str, str]) -> Iterator[Server]:
        """A server over the bucket's root; whether and how it ends is left to the caller."""
        ready = place / "started.ready"
        with started_uri(self.store.uri, ready, environment={**self._environment, **environment}) as server:
            yield server

    @property
    def options_text(self) -> str:
        """The storage options as a setting takes them."""
        return ",".join(f"{key}={value}" for key, value in self.options.items())

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "LANCE_FLIGHT_STORAGE_OPTIONS": self.options_text}


@dataclass(eq=False)
class BucketDatabase(Database):
    """The root of a bucket, and an engine over it in this process."""

    bucket: Bucket = field(kw_only=True)

    def __post_init__(self) -> None:
        """A bucket has no directories to make."""

    @cached_property
    def engine(self) -> Engine:
        return Engine(Root(self.bucket.store), target_partitions=1)
