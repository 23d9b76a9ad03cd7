"""A server over a backend with canned answers, and clients over a real connection."""

from __future__ import annotations

from collections.abc import Iterator

import adbc_driver_flightsql.dbapi as flightsql
import pyarrow as pa
import pytest
from lance_flight.flight.server import FlightSqlServer
from pyarrow import flight

from tests.flight.flight_backend import FLIGHTS, KEY, CannedBackend


@pytest.fixture
def backend() -> CannedBackend:
    return CannedBackend(
        listed={
            ("lance", "public", "flights", "TABLE"): FLIGHTS,
            ("lance", "public", "planes", "TABLE"): pa.schema([("id", pa.int64())]),
            ("lance", "public", "recent_flights", "VIEW"): FLIGHTS,
            ("lance", "staging", "flights", "TABLE"): FLIGHTS,
        }
    )


@pytest.fixture
def server(backend: CannedBackend) -> Iterator[FlightSqlServer]:
    with FlightSqlServer(backend, KEY) as running:
        yield running


@pytest.fixture
def client(server: FlightSqlServer) -> Iterator[flight.FlightClient]:
    with flight.connect(server.uri) as connected:
        yield connected


@pytest.fixture
def adbc(server: FlightSqlServer) -> Iterator[flightsql.Connection]:
    with flightsql.connect(server.uri, autocommit=True) as connected:
        yield connected
