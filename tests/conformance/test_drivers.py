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

EXPECTED = said_in((java.PROGRAMS / "expected.txt").read_text())
EXPECTED_VALUES = said_in((java.PROGRAMS / "values.txt").read_text())
EXPECTED_IN_GO = said_in((go.MODULE / "expected.txt").read_text())


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


@pytest.mark.parametrize("name", EXPECTED)
def test_jdbc(said: Mapping[str, str], name: str) -> None:
    assert said[name] == EXPECTED[name]


@pytest.fixture(scope="module")
def said_of_values(server: Server, jdbc: java.Jdbc) -> Mapping[str, str]:
    """What the program in Java says that goes through setters, getters and batches."""
    return jdbc.said_of(server, "Values")


@pytest.mark.parametrize("name", EXPECTED_VALUES)
def test_values_of_jdbc(said_of_values: Mapping[str, str], name: str) -> None:
    assert said_of_values[name] == EXPECTED_VALUES[name]


def test_every_call_with_values_of_jdbc_is_expected(said_of_values: Mapping[str, str]) -> None:
    assert list(said_of_values) == list(EXPECTED_VALUES)


@pytest.fixture(scope="module")
def said_in_go(server: Server, adbc_program: Path) -> Mapping[str, str]:
    """What the program in Go says."""
    ran = subprocess.run([adbc_program, server.uri], check=True, timeout=java.PATIENCE, capture_output=True, text=True)
    return said_in(ran.stdout)


@pytest.mark.parametrize("name", EXPECTED_IN_GO)
def test_adbc_in_go(said_in_go: Mapping[str, str], name: str) -> None:
    assert said_in_go[name] == EXPECTED_IN_GO[name]


def test_every_call_in_go_is_expected(said_in_go: Mapping[str, str]) -> None:
    assert list(said_in_go) == list(EXPECTED_IN_GO)


def test_every_call_of_jdbc_is_expected(said: Mapping[str, str]) -> None:
    assert [name for name in said if name not in EXPECTED and not name.startswith("type_")] == []


def test_the_table_of_types_is_documented(
    server: Server, adbc: Mapping[str, Mapping[str, str]], said: Mapping[str, str]
) -> None:
    """`LANCE_FLIGHT_TESTS=write` writes it again."""
    table = markdown(adbc, {sample.table: by_jdbc(server, said, sample) for sample in SAMPLES})
    if os.environ.get("LANCE_FLIGHT_TESTS") == "write":
        TYPES.write_text(documented(table))
    assert documented(table) == TYPES.read_text()
