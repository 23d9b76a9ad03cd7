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


@pytest.fixture(scope="module")
def said(node_packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What the program in JavaScript says."""
    with serving(tmp_path_factory.mktemp("node") / "root") as server:
        return said_in(node.said_of(server, node_packages))


def test_every_call_has_its_answer(said: Mapping[str, str]) -> None:
    assert said == said_in((node.PROGRAM / "expected.txt").read_text())
