"""The ceiling of a Flight server in Python: an empty call, and one Lance scanner streamed or written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from benchmarks import servers
from benchmarks.client import BareClient
from benchmarks.drivers.driver import Client, Driver, Unsupported, batches, run
from benchmarks.drivers.question import Question

EMPTY = pa.record_batch({"one": [1]})


class BareFlight(Driver):
    def __init__(self, place: Path, environment: Path) -> None:
        super().__init__(place, environment)
        self._server = self.stack.enter_context(servers.bare())
        self._table = str(place / "rows.lance")

    def load(self, rows: Path) -> None:
        self._client().write(self._table, batches(rows))

    def connect(self) -> Client:
        client = self._client()

        def ask(question: Question) -> Iterable[pa.RecordBatch]:
            if question.is_whole:
                return client.stream(self._table)
            if question.columns:
                raise Unsupported
            client.call()
            return [EMPTY]

        return ask

    def _client(self) -> BareClient:
        return self.stack.enter_context(BareClient(self._server))


if __name__ == "__main__":
    run(BareFlight)
