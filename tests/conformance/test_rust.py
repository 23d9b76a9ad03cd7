"""The Flight SQL client of the Rust crate `arrow-flight` against the product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.conformance import rust
from tests.service.server_process import Server, serving


@pytest.fixture(scope="module")
def server(rust_client: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("rust") / "root") as running:
        running.run("CREATE TABLE by_rust (id BIGINT, name VARCHAR) PARTITIONED BY (name)")
        yield running


pytestmark = pytest.mark.timeout(rust.PATIENCE)  # the first of them waits for the build

CALLS = [
    pytest.param(("statement-query", "INSERT INTO by_rust VALUES (1, 'a'), (2, 'Ø')"), [], id="an insert"),
    pytest.param(
        ("statement-query", "SELECT id, name FROM by_rust ORDER BY id"),
        ["id name", "1 a", "2 Ø"],
        id="a query",
    ),
    pytest.param(
        ("prepared-statement-query", "SELECT name FROM by_rust WHERE id = $1", "-p", "$1=2"),
        ["name", "Ø"],
        id="a parameter",
    ),
    pytest.param(
        ("prepared-statement-query", "SELECT count(*) AS rows FROM by_rust"), ["rows", "2"], id="a prepared query"
    ),
    pytest.param(("catalogs",), ["catalog_name", "lance"], id="catalogs"),
    pytest.param(("db-schemas", "lance"), ["catalog_name db_schema_name", "lance public"], id="schemas"),
    pytest.param(
        ("tables", "lance"),
        ["catalog_name db_schema_name table_name table_type", "lance public by_rust TABLE"],
        id="tables",
    ),
    pytest.param(("table-types",), ["table_type", "LOCAL TEMPORARY", "TABLE", "VIEW"], id="table types"),
]


@pytest.mark.parametrize(("call", "expected"), CALLS)
def test_the_client_of_arrow_flight(
    rust_client: Path, server: Server, call: Sequence[str], expected: list[str]
) -> None:
    ran = rust.called(rust_client, server, *call)
    assert ran.returncode == 0, ran.stderr
    assert table(ran.stdout) == expected


def test_it_shows_what_is_wrong(rust_client: Path, server: Server) -> None:
    ran = rust.called(rust_client, server, "statement-query", "SELECT nope FROM by_rust")
    assert ran.returncode != 0
    assert "No field named nope" in ran.stderr


def table(text: str) -> list[str]:
    """The rows of a table as the client draws it, its header first."""
    rows = (line for line in text.splitlines() if line.startswith("|"))
    return [" ".join(cell.strip() for cell in row.strip("|").split("|")) for row in rows]
