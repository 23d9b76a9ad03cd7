"""A backend that plans no query before a test lets it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pyarrow as pa
from lance_flight.flight.backend import Caller, Planned, SqlOrPlan

from tests.flight.flight_backend import CannedBackend

PATIENCE = 30.0
"""Seconds after which a test that waits has failed."""


@dataclass(slots=True)
class SlowBackend(CannedBackend):
    """Plans a query only when it is let go."""

    is_begun: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def execute(
        self,
        caller: Caller,
        statement: SqlOrPlan,
        *,
        parameters: pa.RecordBatch | None = None,
        endpoints: int = 1,
        transaction: bytes | None = None,
    ) -> Planned | int:
        self.is_begun.set()
        assert self.go.wait(PATIENCE)
        return CannedBackend.execute(
            self, caller, statement, parameters=parameters, endpoints=endpoints, transaction=transaction
        )
