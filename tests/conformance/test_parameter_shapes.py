"""Parameters in every shape of statement, bound by every setter: JDBC, ADBC in Python, and ADBC in Go.

The statements and their answers are in `parameter_shapes.py`; what the changes store is read from the files.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from adbc_driver_manager import Error

from tests.conformance import java
from tests.conformance.parameter_shapes import GO, JDBC, PYTHON, SETUP, Line, lines, stored
from tests.conformance.transcripts import said_in
from tests.service.server_process import Server
from tests.stock import stored_rows

# Python's driver is the one in Go.
DRIVERS = [PYTHON, pytest.param(GO, marks=pytest.mark.full), JDBC]


@pytest.fixture(scope="module")
def by_python(server: Server) -> Mapping[str, str]:
    return {line.name: _in_python(server, line) for line in _prepared(server, PYTHON)}


@pytest.fixture(scope="module")
def by_go(server: Server, adbc_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    file = _written(server, GO, tmp_path_factory.mktemp("go"))
    command = [adbc_program, server.uri, str(file)]
    ran = subprocess.run(command, check=True, timeout=java.PATIENCE, capture_output=True, text=True)
    return said_in(ran.stdout)


@pytest.fixture(scope="module")
def by_jdbc(server: Server, jdbc: java.Jdbc, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    file = _written(server, JDBC, tmp_path_factory.mktemp("jdbc"))
    return jdbc.said_of(server, "Parameters", str(file))


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_statement_is_answered(request: pytest.FixtureRequest, driver: str) -> None:
    said = request.getfixturevalue(driver)
    wrong = {}
    for line in lines(driver):
        answer = line.by_jdbc if driver == JDBC and line.by_jdbc is not None else line.answer
        if not _is_answer(said[line.name], answer):
            wrong[line.name] = said[line.name], answer
    assert wrong == {}


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_bound_value_is_stored(request: pytest.FixtureRequest, server: Server, driver: str) -> None:
    request.getfixturevalue(driver)
    rows = {row["name"]: row for row in stored_rows(server.root / driver).to_pylist()}
    expected = list(stored(driver))
    assert [(name, value) for name, column, value in expected if rows[name][column] != value] == []
    names = {name for name, _, _ in expected}
    assert rows.keys() - names - {f"{name} too" for name in names} == {"a", "b"}


def _is_answer(said: str, answer: str) -> bool:
    """Return whether a driver says an answer, or an error with its words."""
    return said.startswith("!") and answer[2:] in said if answer.startswith("!") else said == f"= {answer}"


def _prepared(server: Server, table: str) -> list[Line]:
    """Make the table of a driver, and return its statements."""
    for sql in SETUP:
        server.run(sql.format(t=table))
    return list(lines(table))


def _written(server: Server, table: str, place: Path) -> Path:
    file = place / "statements.tsv"
    statements = _prepared(server, table)
    file.write_text("".join(f"{s.name}\t{s.sql}\t{'|'.join(bound.sent for bound in s.bound)}\n" for s in statements))
    return file


def _in_python(server: Server, line: Line) -> str:
    columns = [pa.array([bound.value], bound.type) for bound in line.bound]
    parameters = pa.RecordBatch.from_arrays(columns, [str(n) for n, _ in enumerate(columns)]) if columns else None
    try:
        if not line.sql.startswith(("SELECT", "WITH")):
            return f"= {server.run(line.sql, parameters)}"
        return "= " + "".join(f"[{row[0]}]" for row in server.rows(line.sql, parameters))
    except Error as error:
        return f"! {error}"
