"""A bank: money moves between partitions, and nobody ever sees any of it missing or there twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.service.bank import (
    check_that_no_reader_finds_a_wrong_total,
    in_a_changed_branch,
    in_a_transaction,
    in_one_statement,
)
from tests.service.server_process import Server, serving


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """Four server processes over one root."""
    root = tmp_path_factory.mktemp("bank") / "root"
    with ExitStack() as running:
        yield [running.enter_context(serving(root)) for _ in range(4)]


@pytest.fixture(params=[1, 4], ids=lambda count: f"{count} servers")
def servers(request: pytest.FixtureRequest, processes: list[Server]) -> list[Server]:
    """Those of them that clients talk to."""
    return processes[: request.param]


@pytest.mark.parametrize("move", [in_one_statement, in_a_transaction, in_a_changed_branch])
def test_no_reader_ever_finds_a_wrong_total(
    servers: list[Server], table: str, move: Callable[[str, str, int, int, int], None], say: Callable[[str], None]
) -> None:
    check_that_no_reader_finds_a_wrong_total(servers, table, move, say)
