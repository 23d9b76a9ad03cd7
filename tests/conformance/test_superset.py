"""The engine spec of Superset: each time grain by the server, and the class as Superset loads it."""

from __future__ import annotations

import sys
from datetime import date, datetime
from importlib.metadata import entry_points
from types import ModuleType

import pytest
from lance_flight_client.superset import TIME_GRAINS, EngineSpec

from tests.service.server_process import Server

MOMENT = datetime(2025, 8, 20, 7, 38, 41)
TRUNCATED = {
    None: MOMENT,
    "PT1S": MOMENT,
    "PT1M": datetime(2025, 8, 20, 7, 38),
    "PT5M": datetime(2025, 8, 20, 7, 35),
    "PT15M": datetime(2025, 8, 20, 7, 30),
    "PT1H": datetime(2025, 8, 20, 7),
    "P1D": datetime(2025, 8, 20),
    "P1W": datetime(2025, 8, 18),
    "P1M": datetime(2025, 8, 1),
    "P3M": datetime(2025, 7, 1),
    "P1Y": datetime(2025, 1, 1),
}


@pytest.fixture(scope="module", autouse=True)
def charted(server: Server) -> None:
    server.run("CREATE TABLE charted (at TIMESTAMP, day DATE, seconds BIGINT) PARTITIONED BY (month(at))")
    server.run(f"INSERT INTO charted VALUES ('{MOMENT}', '{MOMENT.date()}', 60), ('2020-01-01', NULL, NULL)")


@pytest.mark.parametrize("grain", TIME_GRAINS)
def test_a_time_grain_truncates(server: Server, grain: str | None) -> None:
    expression = TIME_GRAINS[grain].format(col="at")
    assert server.rows(f"SELECT {expression} FROM charted WHERE day IS NOT NULL") == [(TRUNCATED[grain],)]


@pytest.mark.parametrize(("kind", "column", "value"), [("TIMESTAMP", "at", MOMENT), ("DATE", "day", MOMENT.date())])
def test_a_time_is_written_as_a_literal(server: Server, kind: str, column: str, value: date) -> None:
    literal = EngineSpec.convert_dttm(kind, MOMENT)
    assert server.rows(f"SELECT {column} FROM charted WHERE {column} = {literal}") == [(value,)]
    assert EngineSpec.convert_dttm("VARCHAR", MOMENT) is None


def test_seconds_become_times(server: Server) -> None:
    expression = EngineSpec.epoch_to_dttm().format(col="seconds")
    assert server.rows(f"SELECT {expression} FROM charted WHERE day IS NOT NULL") == [(datetime(1970, 1, 1, 0, 1),)]


def test_superset_finds_a_class_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    base = type("BaseEngineSpec", (), {"is_there": True})
    for name in ("superset", "superset.db_engine_specs", "superset.db_engine_specs.base"):
        module = ModuleType(name)
        module.__dict__["BaseEngineSpec"] = base
        monkeypatch.setitem(sys.modules, name, module)
    (entry,) = entry_points(group="superset.db_engine_specs", name="lance_flight")
    found = entry.load()
    assert issubclass(found, base)
    assert (found.engine, found.is_there, found.__name__) == ("lance_flight", True, "LanceFlightEngineSpec")
