"""Servers that client commands connect to: options before the environment, that before a profile, that before the default."""

# ruff: noqa: S105, S106 - nothing here is a secret

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from lance_flight.errors import InvalidInput
from lance_flight_client.cli.arguments import add_server
from lance_flight_client.cli.connecting import ChosenServer

from tests.documents import blocks

PROFILES = """
[prod]
uri = "grpc+tls://db:443"
token_file = "token"
[named]
uri = "named:1"
user = "alice"
[wrong]
port = "1"
[number]
uri = 7
"""


@dataclass(frozen=True)
class Chosen:
    """Options and variables, and the server that they name."""

    uri: str
    options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    user: str | None = None


PASSWORD = {"LANCE_FLIGHT_PASSWORD": "p"}
CHOSEN = {
    "nothing": Chosen("grpc://127.0.0.1:32010"),
    "an option": Chosen("grpc://db:1", ["--uri", "db:1"], {"LANCE_FLIGHT_URI": "other:2"}),
    "a variable": Chosen("grpc://other:2", ["--profile", "prod"], {"LANCE_FLIGHT_URI": "other:2"}, token="from-file"),
    "a profile": Chosen("grpc+tls://db:443", ["--profile", "prod"], token="from-file"),
    "a profile by a variable": Chosen(
        "grpc://named:1", [], {"LANCE_FLIGHT_PROFILE": "named", **PASSWORD}, user="alice"
    ),
    "a token": Chosen("grpc://127.0.0.1:32010", [], {"LANCE_FLIGHT_TOKEN": "t\n"}, token="t"),
    "a token before a profile's": Chosen(
        "grpc+tls://db:443", ["--profile", "prod"], {"LANCE_FLIGHT_TOKEN": "t"}, token="t"
    ),
    "a user before a token": Chosen(
        "grpc+tls://db:443", ["--profile", "prod", "--user", "bob"], {"LANCE_FLIGHT_TOKEN": "t", **PASSWORD}, user="bob"
    ),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("URI", "PROFILE", "TOKEN", "PASSWORD"):
        monkeypatch.delenv(f"LANCE_FLIGHT_{name}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text("from-file\n")
    (tmp_path / "lance-flight").mkdir()
    (tmp_path / "lance-flight" / "profiles.toml").write_text(PROFILES)
    return tmp_path


def chosen(*options: str) -> ChosenServer:
    parser = argparse.ArgumentParser()
    add_server(parser)
    return ChosenServer.of(parser.parse_args(options))


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("case", CHOSEN.values(), ids=CHOSEN)
def test_what_is_said_nearest_counts(monkeypatch: pytest.MonkeyPatch, case: Chosen) -> None:
    for name, value in case.environment.items():
        monkeypatch.setenv(name, value)
    found = chosen(*case.options)
    assert (found.address, found.credentials.token, found.credentials.user) == (case.uri, case.token, case.user)


REFUSED = {
    "unknown": ("none", "no profile 'none' in .*profiles.toml'; expected one of prod, named, wrong, number"),
    "key": ("wrong", "profile 'wrong': port is not known as a text; expected some of uri, user"),
    "type": ("number", "profile 'number': uri is not known as a text"),
}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("name", "said"), REFUSED.values(), ids=REFUSED)
def test_a_profile_that_cannot_be_is_refused(name: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        chosen("--profile", name)


def test_a_token_that_others_may_read_is_refused(home: Path) -> None:
    file = home / "lance-flight" / "profiles.toml"
    file.write_text('[open]\ntoken = "secret"\n')
    file.chmod(0o644)
    with pytest.raises(InvalidInput, match="has a token and others may read it; expected chmod 600") as refused:
        chosen("--profile", "open")
    assert "secret" not in str(refused.value)
    file.chmod(0o600)
    assert chosen("--profile", "open").credentials.token == "secret"


def test_the_page_shows_a_profile(home: Path) -> None:
    (toml,) = blocks("client/docs/shell.md", "toml")
    (home / "lance-flight" / "profiles.toml").write_text(toml.replace("~/.config/lance-flight/prod.token", "token"))
    found = chosen("--profile", "prod")
    assert (found.address, found.credentials.token) == ("grpc+tls://lake.example.com:443", "from-file")


def test_an_address_in_the_environment_is_checked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_FLIGHT_URI", "http://db")
    with pytest.raises(InvalidInput, match="'http://db' is no server; expected grpc://host:port"):
        chosen()
