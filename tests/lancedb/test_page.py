"""The page client/docs/lancedb.md: its Python and its JavaScript run as they stand."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import node
from tests.documents import blocks
from tests.lancedb.rest_server import serving_rest

PAGE = "client/docs/lancedb.md"
DOCUMENTED = "http://127.0.0.1:10024"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lance-flight"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_rest(tmp_path_factory.mktemp("page") / "root") as (_, found):
        yield found


def test_the_page(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = "\n".join(blocks(PAGE, "python")).replace(DOCUMENTED, address)
    exec(compile(code, PAGE, "exec"), {})  # noqa: S102 - our own text
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.count("passage") == 2
    assert "'acme'" in second
    assert third == "2"
    if not node.is_installed():
        pytest.skip("Node or npm is not installed")
    modules = node.packages(CACHE, Path(__file__).parent / "node")
    (script,) = blocks(PAGE, "javascript")
    command = ["node", "-e", script.replace(DOCUMENTED, address)]
    environment = os.environ | {"NODE_PATH": str(modules)}
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=environment)
    assert "passage 5" in ran.stdout
