"""Searches of plain and partitioned tables, on branches, with deleted rows and beside ids that stay: what comparing every row finds."""

from __future__ import annotations

import pytest
from lance_flight.engine.engine import Engine

from tests.engine.database import open_engine
from tests.search.collection import Documents
from tests.search.layouts import CHECKS, LAYOUTS, WHEN, Layout, lay_out, units, vectors

pytestmark = pytest.mark.slow  # every search over every layout

ROWS = 300


@pytest.fixture(scope="module")
def documents() -> Documents:
    return Documents.random(ROWS, seed=11)


@pytest.fixture(scope="module", params=[(name, when) for name in LAYOUTS for when in WHEN], ids="-".join)
def laid_out(
    request: pytest.FixtureRequest, documents: Documents, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Engine, Layout, str]:
    name, indexed = request.param
    of = open_engine(tmp_path_factory.mktemp("layout") / "root")
    lay_out(of, LAYOUTS[name], documents, indexed)
    return of, LAYOUTS[name], indexed


@pytest.mark.parametrize("check", CHECKS)
def test_a_search_finds_what_comparing_every_row_finds(
    laid_out: tuple[Engine, Layout, str], documents: Documents, check: str
) -> None:
    of, layout, indexed = laid_out
    CHECKS[check](of, layout, documents, indexed)


def test_the_tables_are_searched_as_one(laid_out: tuple[Engine, Layout, str], monkeypatch: pytest.MonkeyPatch) -> None:
    of, layout, indexed = laid_out
    with units(monkeypatch) as found:
        for condition in (None, "id % 3 = 1"):
            vectors(of, layout.table, condition)
    if layout.partitioned_by is not None:
        assert all((number == 1) == (layout.is_merged or indexed == "never") for number in found), found
        assert len(found) == 2
