"""The page client/docs/lancedb.md runs as it stands; LanceDB's client for Node has the answers of an embedded database."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import node
from tests.documents import blocks
from tests.lancedb.rest_server import serving_rest

PAGE, NODE = "client/docs/lancedb.md", Path(__file__).parent / "node"
DOCUMENTED = "http://127.0.0.1:10024"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lance-flight"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_rest(tmp_path_factory.mktemp("page") / "root") as (_, found):
        yield found


def test_the_page(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = "\n".join(blocks(PAGE, "python")).replace(DOCUMENTED, address)
    exec(compile(code, PAGE, "exec"), {})  # noqa: S102 - our own text
    found, notes, rows, query, _, last = capsys.readouterr().out.splitlines()
    assert found.count("passage") == 2
    assert "'acme'" in notes
    assert rows == "2"
    assert "WHERE id < 100" in query
    assert last.count("passage") == 2
    (script,) = blocks(PAGE, "javascript")
    assert "passage 5" in printed("-e", script.replace(DOCUMENTED, address))


def test_the_client_for_node(address: str, tmp_path: Path) -> None:
    answers = json.loads(printed(str(NODE / "same_answers.js"), address, str(tmp_path / "embedded")))
    found, wanted = answers["found"], answers["wanted"]
    assert found == wanted
    assert found.pop("again") == found.pop("a wrong vector") == "Error"
    assert not [name for name, answer in found.items() if isinstance(answer, str) and answer.startswith("Error")]


def printed(*arguments: str) -> str:
    """What a program of Node with LanceDB's client prints."""
    if not node.is_installed():
        pytest.skip("Node or npm is not installed")
    environment = os.environ | {"NODE_PATH": str(node.packages(CACHE, NODE))}
    ran = subprocess.run(["node", *arguments], check=True, capture_output=True, text=True, timeout=120, env=environment)
    return ran.stdout
