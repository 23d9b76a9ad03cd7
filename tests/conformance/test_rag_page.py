"""The page about retrieval-augmented generation runs as it stands: its files, its commands, and its program."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.documents import blocks
from tests.service.server_process import COMMAND, Server, serving

PAGE = "client/docs/rag.md"
DOCUMENTED_ADDRESS = "127.0.0.1:32010"
SERVE = "lance-flight serve ROOT --create "
PATH = f"{Path(COMMAND).parent}:{os.environ['PATH']}"


def shell(place: Path, script: str, uri: str = "") -> None:
    environment = {**os.environ, "PATH": PATH, "LANCE_FLIGHT_URI": uri}
    subprocess.run(["bash", "-euc", script], cwd=place, env=environment, check=True, timeout=120)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rag")


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Server]:
    """The server of the page, with the tables of the page."""
    (policies,), (tables,) = blocks(PAGE, "toml"), blocks(PAGE, "sql")
    (place / "policies.toml").write_text(policies)
    (place / "tables.sql").write_text(tables)
    tokens, create = blocks(PAGE, "sh")
    *made, serve = tokens.splitlines()
    shell(place, "\n".join(made))
    assert serve.startswith(SERVE)
    arguments = [str(place / each) if (place / each).exists() else each for each in serve.removeprefix(SERVE).split()]
    with serving(place / "root", *arguments) as running:
        shell(place, create, running.uri)
        yield running


@pytest.fixture(scope="module")
def left(server: Server, place: Path) -> dict[str, Any]:
    """What the program of the page leaves behind."""
    here = Path.cwd()
    names: dict[str, Any] = {}
    os.chdir(place)  # tokens are read from there
    try:
        for block in blocks(PAGE, "python"):
            program = block.replace(DOCUMENTED_ADDRESS, server.uri.removeprefix("grpc://"))
            exec(compile(program, PAGE, "exec"), names)  # noqa: S102 - our own documents
    finally:
        os.chdir(here)
    return names


def test_the_program_runs_as_it_stands(left: dict[str, Any]) -> None:
    _, *passages, question = left["asked"].splitlines()
    assert [passage.partition("]")[0] for passage in passages[:2]] == ["[Access to the VPN", "[Old wiki"]
    assert question == "Question: How do I reset my password?"
    assert left["found"] == [("vpn", "To reset a password, call 1234.")]
    assert left["texts"] == ["The printer jams on Mondays."]
    assert [document.id for document, _ in left["left"]] == ["jams"]


def test_tenants_have_their_own_rows(left: dict[str, Any]) -> None:
    assert left["secrets"]
    assert {*left["secrets"]} <= {"vpn", "menu"}
    assert left["seen"] == (0,)
    assert "[refused]" in left["refusal"]
