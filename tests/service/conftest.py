"""One server process for all tests of the service that only need tables of their own in it, and one beside it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.service.server_process import Server, serving

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("service") / "root") as running:
        yield running


@pytest.fixture(scope="session")
def other(server: Server) -> Iterator[Server]:
    """A second server over the same root."""
    with serving(server.root) as running:
        yield running


@pytest.fixture
def table() -> str:
    """A table name that no other test uses."""
    return f"t{next(_NUMBERS)}"
