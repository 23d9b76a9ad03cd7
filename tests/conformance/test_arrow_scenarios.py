"""Arrow's integration scenarios: its client in Go against the dispatch that ships."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import flight

from tests.conformance.server import BACKENDS, POLLED_BACKENDS, ConformanceServer, serving_polls

PATIENCE = 60.0
"""Seconds after which a client that says nothing has failed; it takes well below one."""


@pytest.mark.parametrize("scenario", BACKENDS)
def test_a_scenario_is_answered_as_arrow_wants_it(scenario: str, integration_client: Path) -> None:
    with ConformanceServer(scenario) as server:
        run_client(integration_client, scenario, server.port)


@pytest.mark.parametrize("scenario", POLLED_BACKENDS)
def test_a_scenario_of_polls_is_answered_as_arrow_wants_it(scenario: str, integration_client: Path) -> None:
    with serving_polls(scenario) as server:
        run_client(integration_client, scenario, server.port)


def test_the_command_serves_a_scenario() -> None:
    command = [sys.executable, "-m", "tests.conformance", "--scenario", "ordered", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            uri = process.stdout.readline().strip()
            with flight.connect(uri) as client:
                assert client.get_flight_info(flight.FlightDescriptor.for_command(b"ordered")).ordered
        finally:
            process.kill()


def run_client(client: Path, scenario: str, port: int) -> None:
    command = [str(client), "-host", "127.0.0.1", "-port", str(port), "-scenario", scenario]
    ran = subprocess.run(command, check=False, timeout=PATIENCE, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
