"""An INSERT of a long VALUES list stores what a short one does, read in pieces or not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.sql import tokens
from lance_flight.engine.sql.tokens import pieces
from lance_flight.engine.statements import insert
from lance_flight.errors import LanceFlightError, SqlError

from tests.engine.database import open_engine

COLUMNS = "id BIGINT, word VARCHAR, n DECIMAL(10, 2), ok BOOLEAN"
ROWS = [
    "(1, NULL, NULL, NULL)",
    "( 2 , 'it''s ), (3, ''x'', 1, true)' , 1.5, TRUE )",
    "(-3, '', -0.25, false)",
    "(4, 'é; -- no comment', 1e2, null)",
    "(2 + 3, upper('x'), CAST('1.10' AS DECIMAL(10, 2)), 1 = 1)",
    "(abs(-6), E'a\\nb', 7, NOT true)",
    "(/* (, */ 7, $$dollar, ($$, 8, true)",
    "(8, 'last', 9, false)",
]


@pytest.fixture(params=[True, False], ids=["in pieces", "whole"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    if request.param:
        for module in (tokens, insert):
            monkeypatch.setattr(module, "LONG", 1)
        monkeypatch.setattr(tokens, "PIECE", 1)
    made = open_engine(tmp_path, target_partitions=1)
    made.update(f"CREATE TABLE t ({COLUMNS})")
    return made


def stored(engine: Engine) -> list[dict[str, object]]:
    return engine.query("SELECT * FROM t ORDER BY id").to_pylist()


EXPECTED_IDS = [-3, 1, 2, 4, 5, 6, 7, 8]
EXPECTED_WORDS = ["", None, "it's ), (3, 'x', 1, true)", "é; -- no comment", "X", "a\nb", "dollar, (", "last"]


@pytest.mark.parametrize("end", ["", " ;", "\n-- the end"])
def test_every_row_is_stored(engine: Engine, end: str) -> None:
    assert engine.update("INSERT INTO t VALUES " + ",\n".join(ROWS) + end) == len(ROWS)
    found = stored(engine)
    assert [row["id"] for row in found] == EXPECTED_IDS
    assert [row["word"] for row in found] == EXPECTED_WORDS
    assert [str(row["n"]) for row in found] == ["-0.25", "None", "1.50", "100.00", "1.10", "7.00", "8.00", "9.00"]


def test_parameters_are_those_of_their_places(engine: Engine) -> None:
    row = pa.record_batch({"1": ["a"], "2": ["b"], "3": ["c"]})
    sql = "INSERT INTO t (id, word) VALUES (1, ?), (2, 'x'), (3, ?), (4, ?)"
    assert engine.update(sql, row) == 4
    assert [row["word"] for row in stored(engine)] == ["a", "x", "b", "c"]


@pytest.mark.parametrize(
    "rows",
    [
        "(1, 'a', 1, true),",
        "(1, 'a', 1, true) (2, 'b', 1, true)",
        "(1, 'a', 1, true), 2",
        "(1, 'a', 1, true), (2, 'b')",
        "(1, 'a', 1, true), (2, 'b', 1, nope)",
        "(1, 'a', 1, true), (2, 'b', 1, true",
    ],
)
def test_nothing_is_stored_of_a_list_that_is_wrong_anywhere(engine: Engine, rows: str) -> None:
    with pytest.raises(LanceFlightError):
        engine.update(f"INSERT INTO t VALUES (0, '', 0, true), {rows}")
    assert stored(engine) == []


def test_what_is_no_row_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "LONG", 1)
    with pytest.raises(
        SqlError, match=r"a comma or the end after a row of VALUES, got 'LIMIT' at character 12 of the list"
    ):
        list(pieces("VALUES (1) LIMIT 1"))
