"""Drivers against the product: JDBC, ADBC in Go, and every Arrow type over ADBC and JDBC.

`jdbc/expected.txt`, `jdbc/values.txt` and `adbc_go/expected.txt` are what the programs in Java and in Go have to say. Some of it is
the JDBC driver's own, as server/docs/conformance.md shows.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conformance import go, java
from tests.conformance.transcripts import said_in
from tests.conformance.types import SAMPLES, TYPES, by_adbc, by_jdbc, documented, markdown
from tests.service.server_process import Server, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("drivers") / "root"
    (root / "other").mkdir(parents=True)
    with serving(root) as running:
        columns = "id bigint PRIMARY KEY COMMENT 'its number', price decimal(9, 2), carrier varchar, at timestamp"
        running.run(f"CREATE TABLE flights ({columns}) PARTITIONED BY (carrier)")
        running.run("INSERT INTO flights VALUES (1, 12.50, 'UA', '2024-02-29T01:02:03'), (2, NULL, 'AA', NULL)")
        running.run("CREATE TABLE other.planes (id bigint)")
        running.run("INSERT INTO other.planes VALUES (7)")
        yield running


@pytest.fixture(scope="module")
def adbc(server: Server) -> Mapping[str, Mapping[str, str]]:
    """What comes of every type by ADBC; the tables of the types are there afterwards."""
    return {sample.table: by_adbc(server, sample) for sample in SAMPLES}


@pytest.fixture(scope="module")
def said(server: Server, adbc: object, jdbc: java.Jdbc, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What the program in Java says."""
    return jdbc.conformance_of(server, tmp_path_factory.mktemp("jdbc"))


@pytest.fixture(scope="module")
def said_of_values(server: Server, jdbc: java.Jdbc) -> Mapping[str, str]:
    """What the program in Java says that goes through setters, getters and batches."""
    return jdbc.said_of(server, "Values")


@pytest.fixture(scope="module")
def said_in_go(server: Server, adbc_program: Path) -> Mapping[str, str]:
    """What the program in Go says."""
    ran = subprocess.run([adbc_program, server.uri], check=True, timeout=java.PATIENCE, capture_output=True, text=True)
    return said_in(ran.stdout)


EXPECTED = {
    "said": java.PROGRAMS / "expected.txt",
    "said_of_values": java.PROGRAMS / "values.txt",
    "said_in_go": go.MODULE / "expected.txt",
}
"""Fixture of what a program says → what it has to say."""


# Python's driver is the one in Go.
PROGRAMS = ["said", "said_of_values", pytest.param("said_in_go", marks=pytest.mark.full)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_call_has_its_answer(request: pytest.FixtureRequest, program: str) -> None:
    found = {name: text for name, text in request.getfixturevalue(program).items() if not name.startswith("type_")}
    expected = said_in(EXPECTED[program].read_text())
    assert [(name, text) for name, text in found.items() if text != expected.get(name)] == []
    assert found.keys() == expected.keys()


def test_the_table_of_types_is_documented(
    server: Server, adbc: Mapping[str, Mapping[str, str]], said: Mapping[str, str]
) -> None:
    """`LANCE_FLIGHT_TESTS=write` writes it again."""
    table = markdown(adbc, {sample.table: by_jdbc(server, said, sample) for sample in SAMPLES})
    if os.environ.get("LANCE_FLIGHT_TESTS") == "write":
        TYPES.write_text(documented(table))
    assert documented(table) == TYPES.read_text()
