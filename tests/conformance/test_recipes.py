"""The recipes of client/docs/drivers.md, and the pages of single tools, run as they stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import go
from tests.conformance.types import DOCS
from tests.service.server_process import Server, serving

PATIENCE = 120.0
WITH_IBIS = ["uv", "run", "--no-sync", "--with", "ibis-framework==12.0.0", "--with", "sqlglot"]
WITH_JUPYSQL = ["uv", "run", "--no-sync", "--with", "jupysql==0.11.1", "--with", "ipython"]
"""Commands in this environment with what a page is for beside it: too many packages for all who work on the project."""
NOTEBOOK = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in json.load(sys.stdin):
    shell.run_cell(cell).raise_error()
print(shell.user_ns["texts"])
"""
DOCUMENTED_URI, DOCUMENTED_PORT = "grpc://127.0.0.1:32010", "32010"
RECIPES = dict(
    re.findall(
        r"^## (pandas|Polars|DuckDB|Go|Node)\n.*?^```\w+\n(.*?)^```$",
        (DOCS / "drivers.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root: Path = tmp_path_factory.mktemp("recipes") / "root"
    with serving(root) as running:
        yield running


def run(server: Server, name: str) -> dict[str, Any]:
    """What a recipe leaves behind."""
    names: dict[str, Any] = {}
    exec(compile(RECIPES[name].replace(DOCUMENTED_URI, server.uri), name, "exec"), names)  # noqa: S102 - our own text
    return names


def test_pandas(server: Server) -> None:
    left = run(server, "pandas")
    assert left["warm"].to_dict("records") == [{"site": "Lima", "celsius": 22.0}]
    assert left["cold"].to_dict("records") == [{"site": "Oslo", "celsius": -3.5}]


@pytest.fixture(scope="module")
def polars(server: Server) -> dict[str, Any]:
    """What the recipe of Polars leaves behind: the others read its table."""
    return run(server, "Polars")


def test_polars_and_duckdb(server: Server, polars: dict[str, Any]) -> None:
    assert polars["warm"].rows() == [("Lima", 22.0)]
    assert run(server, "DuckDB")["means"] == [("Oslo", -3.5)]


@pytest.mark.full  # compiles it
@pytest.mark.usefixtures("polars")
def test_go(server: Server, tmp_path: Path) -> None:
    if not go.is_installed():
        pytest.skip("Go is not installed")
    program = tmp_path / "recipe.go"
    program.write_text(RECIPES["Go"].replace(DOCUMENTED_URI, server.uri))
    assert '["Oslo"]' in printed(["go", "run", str(program)], cwd=go.MODULE)


@pytest.mark.usefixtures("polars")
def test_node(server: Server, node_packages: Path) -> None:
    recipe = RECIPES["Node"].replace(DOCUMENTED_PORT, server.uri.rpartition(":")[2])
    shown = printed(["node", "-e", recipe], env={**os.environ, "NODE_PATH": str(node_packages)})
    assert shown.count("Lima") == 2


PAGES = {
    "bi-tools": {
        "schemas": ["public"],
        "columns": [("at", "TIMESTAMP"), ("amount", "DOUBLE")],
        "indexes": [],
        "names": ["__timestamp", "total"],
        "totals": [4.0],
    },
    "sqlalchemy": {"firsts": [(0,), (1,)], "columns": ["id", "at", "site"], "left": 1000},
}
"""Page in client/docs → what its Python leaves behind."""


def blocks_of(server: Server, page: str, language: str) -> list[str]:
    text = (DOCS / f"{page}.md").read_text().replace(f"127.0.0.1:{DOCUMENTED_PORT}", server.uri.removeprefix("grpc://"))
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def python_page(server: Server, page: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile("\n".join(blocks_of(server, page, "python")), page, "exec"), names)  # noqa: S102 - our own text
    return names


@pytest.mark.parametrize("page", PAGES)
def test_page(server: Server, page: str) -> None:
    names = python_page(server, page)
    assert {name: names[name] for name in PAGES[page]} == PAGES[page]


def test_page_of_pandas(server: Server) -> None:
    names = python_page(server, "pandas")
    assert names["warm"].to_dict("records") == [{"site": "Lima", "n": 100}]
    assert names["whole"].shape == (200, 2)


def test_page_of_polars(server: Server) -> None:
    names = python_page(server, "polars")
    assert (names["warm"].rows(), names["cold"].rows()) == ([("Lima", 22.0)], [("Oslo", -3.5)])


def test_page_of_ibis(server: Server) -> None:
    page = "\n".join([*blocks_of(server, "ibis", "python"), "print(counts)"])
    assert printed([*WITH_IBIS, "python", "-c", page]).splitlines()[-1] == "[2, 1]"


def test_page_of_jupysql(server: Server) -> None:
    cells = blocks_of(server, "jupysql", "ipython")
    shown = printed([*WITH_JUPYSQL, "python", "-c", NOTEBOOK], input=json.dumps(cells))
    assert "['first', 'second']" in shown.splitlines()


def printed(command: Sequence[str], **how: Any) -> str:
    """What a program prints."""
    return subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True, text=True, **how).stdout
