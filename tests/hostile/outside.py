"""A root with tables, and beside it what nobody may see or touch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from lance_flight.flight import wire
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import encode_command
from pyarrow import flight

from tests.service.server_process import Server, serving

SECRET = "xyzzy"  # noqa: S105
"""Stands in every file beside the root, and nowhere else."""


ANSWERS = (flight.FlightError, pa.ArrowException, KeyError)
"""What a client raises for an error that a server answers with."""


def described(command: wire.Command) -> flight.FlightDescriptor:
    """The descriptor of a command."""
    return flight.FlightDescriptor.for_command(encode_command(command))


@dataclass(frozen=True)
class Guarded:
    """A server over the directory `root` in `place`, whose other files are guarded."""

    place: Path
    server: Server

    @property
    def root(self) -> Path:
        """The root that is served."""
        return self.server.root

    def run(self, sql: str) -> pa.Table:
        """Run a statement by itself, without a driver that would read it first."""
        client = self.server.client
        info = client.get_flight_info(described(wire.StatementQuery(query=sql)))
        return pa.concat_tables([client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints])

    def ingest(self, command: wire.StatementIngest) -> int:
        """Send one row."""
        rows = pa.table({"id": [1]})
        writer, reader = self.server.client.do_put(described(command), rows.schema)
        with writer:
            writer.write_table(rows)
            writer.done_writing()
            answer = reader.read()
        return int(pb.DoPutUpdateResult.FromString(answer.to_pybytes()).record_count)

    def outside(self) -> str:
        """A digest of everything beside the root."""
        found = hashlib.sha256()
        for path in sorted(self.place.rglob("*")):
            if not path.is_relative_to(self.root) and not path.name.endswith(".ready"):
                found.update(str(path).encode())
                found.update(path.read_bytes() if path.is_file() else b"")
        return found.hexdigest()


@contextmanager
def guarded(place: Path, *arguments: str) -> Iterator[Guarded]:
    """A server whose root has a partitioned table and a plain one."""
    rows = pa.table({"word": [SECRET], "id": [1]})
    pa.csv.write_csv(rows, place / "secret.csv")
    pa.parquet.write_table(rows, place / "secret.parquet")
    with pa.ipc.new_file(str(place / "secret.arrow"), rows.schema) as file:
        file.write_table(rows)
    (place / "secret.json").write_text('{"word": "xyzzy", "id": 1}\n')
    (place / "secret.txt").write_text(SECRET)
    lance.write_dataset(rows, str(place / "outside.lance"))
    lance.write_dataset(rows, str(place / "space" / "outside.lance"))
    with serving(place / "root", *arguments) as server:
        server.run("CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
        server.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        server.run("CREATE TABLE plain (id BIGINT)")
        server.run("CREATE TABLE words AS SELECT 'ours' AS word")
        server.run("ALTER TABLE t CREATE TAG tagged")
        server.run("ALTER TABLE t CREATE BRANCH branched")
        yield Guarded(place, server)
