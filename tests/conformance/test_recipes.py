"""The recipes of client/docs/drivers.md, run as they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.types import DOCS
from tests.service.server_process import Server, serving

DOCUMENTED_URI = "grpc://127.0.0.1:32010"
RECIPES = dict(
    re.findall(
        r"^## (pandas|Polars|DuckDB)\n.*?^```python\n(.*?)^```$",
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


def test_polars_and_duckdb(server: Server) -> None:
    assert run(server, "Polars")["warm"].rows() == [("Lima", 22.0)]
    assert run(server, "DuckDB")["means"] == [("Oslo", -3.5)]
