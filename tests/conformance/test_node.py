"""The Flight SQL clients of npm against the product; `node/expected.txt` is what the program has to say.

What fails there is the clients' own: see server/docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conformance import node
from tests.conformance.transcripts import said_in
from tests.service.server_process import serving

EXPECTED = said_in((node.PROGRAM / "expected.txt").read_text())


@pytest.fixture(scope="module")
def said(node_packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What the program in JavaScript says."""
    with serving(tmp_path_factory.mktemp("node") / "root") as server:
        return said_in(node.said_of(server, node_packages))


@pytest.mark.parametrize("name", EXPECTED)
def test_node(said: Mapping[str, str], name: str) -> None:
    assert said[name] == EXPECTED[name]


def test_every_call_of_node_is_expected(said: Mapping[str, str]) -> None:
    assert list(said) == list(EXPECTED)
