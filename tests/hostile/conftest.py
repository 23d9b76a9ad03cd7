"""One server for all that is tried on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hostile.outside import Guarded, guarded


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("guarded")) as served:
        yield served
