"""What the areas share: how much to measure, a directory to do it in, and the rows stored once for all of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from benchmarks import client, data, servers
from benchmarks.client import BareClient, SqlClient
from benchmarks.servers import Server

PLAIN, HUNDRED = "plain", "hundred"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How much is measured."""

    rows: int
    rounds: int
    scale: float


@dataclass(frozen=True, slots=True)
class Pair:
    """Both servers at once, and a client of each."""

    ours: SqlClient
    bare: BareClient
    ours_server: Server
    bare_server: Server


class Bench:
    """A place for one run; its directory belongs to whoever made it."""

    def __init__(self, place: Path, options: Options) -> None:
        self.place = place
        self.options = options

    @cached_property
    def table(self) -> pa.Table:
        """The rows, in memory."""
        return data.make(self.options.rows)

    @cached_property
    def facts(self) -> data.Facts:
        """What is true of them."""
        return data.Facts.of(self.table)

    @property
    def bare_table(self) -> str:
        """The path of the rows as one Lance table that the peer wrote."""
        return str(self.place / "bare.lance")

    @cached_property
    def root(self) -> Path:
        """A root with the rows in one plain table and in 100 partitions; the peer's table is beside it by then."""
        root = self.place / "root"
        root.mkdir()
        with self._pair(root) as pair:
            pair.bare.write(self.bare_table, self.table)
            for name, by in ((PLAIN, None), (HUNDRED, data.HUNDRED_BY)):
                data.expect(
                    f"rows stored in {name}", pair.ours.ingest(name, self.table, partition_by=by), self.facts.rows
                )
        return root

    @contextmanager
    def servers(self) -> Iterator[Pair]:
        """Fresh servers over the stored rows."""
        with self._pair(self.root) as pair:
            yield pair

    @contextmanager
    def empty_servers(self, name: str) -> Iterator[Pair]:
        """Fresh servers over an empty root, which is gone afterwards."""
        root = self.scratch(name)
        with self._pair(root) as pair:
            yield pair
        shutil.rmtree(root)

    def scratch(self, name: str) -> Path:
        """A new directory."""
        place = self.place / name
        place.mkdir()
        return place

    @contextmanager
    def _pair(self, root: Path) -> Iterator[Pair]:
        with servers.ours(root) as mine, servers.bare() as peer, SqlClient(mine) as sql, BareClient(peer) as paths:
            yield Pair(sql, paths, mine, peer)


def check_stored(sql: SqlClient, name: str, facts: data.Facts) -> None:
    """Hold a stored table against what the data says, by a query."""
    found = sql.row(f"SELECT count(*) AS rows, sum(id) AS sum_id, sum(a) AS sum_a, sum(b) AS sum_b FROM {name}")
    client.expect_facts(name, found, facts)
