"""TPC-H and TPC-DS: every query over partitioned tables has DuckDB's answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.tpc import SUITES, Query, generate, load
from tests.engine.database import Database
from tests.selection import IS_FULL

SCALE = 1.0 if IS_FULL else 0.05
"""The smallest at which the queries that compare years and channels have rows."""
NUMBERS = {"tpch": range(1, 23), "tpcds": range(1, 100)}


@dataclass(frozen=True, slots=True)
class Suite:
    """Tables in a root, and the queries with their answers."""

    database: Database
    queries: dict[int, Query]


@pytest.fixture(scope="module", params=SUITES)
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Suite:
    place: Path = tmp_path_factory.mktemp(request.param)
    queries = generate(place / "files", request.param, SCALE)
    assert list(queries) == list(NUMBERS[request.param])
    load(place / "root", place / "files")
    return Suite(Database(place / "root"), dict(queries))


def test_all_answers_are_right(suite: Suite) -> None:
    differences = {
        number: difference
        for number, query in suite.queries.items()
        if (difference := query.difference(suite.database.query(query.sql.strip().rstrip(";")))) is not None
    }
    assert differences == {}
