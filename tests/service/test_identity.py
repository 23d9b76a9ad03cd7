"""A server that asks who calls, from its command line: users, tokens, certificates; and that no secret is ever shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight_client.adbc import Credentials, connect, execute, ingest
from lance_flight_client.errors import ServerError

from tests.flight.identities import EXPIRED_TOKEN, PASSWORDS, TOKENS
from tests.flight.identity_files import IdentityFiles
from tests.service import commands
from tests.service.server_process import Server, serving

SECRETS = [*PASSWORDS.values(), *TOKENS.values(), EXPIRED_TOKEN]


def asking(place: IdentityFiles, server: Server, *arguments: str) -> list[str]:
    """The command that asks a server something."""
    uri = server.uri.replace("127.0.0.1", "localhost")
    return ["sql", "--uri", uri, "--tls-ca", str(place.path / "ca"), *arguments]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> IdentityFiles:
    """The files of a server, with users as `lance-flight hash-password` prints them."""
    made, printed = IdentityFiles(tmp_path_factory.mktemp("files")), b""
    for user, password in PASSWORDS.items():
        ended = commands.run("hash-password", user, given=password.encode())
        assert ended.returncode == 0
        assert password.encode() not in ended.stdout + ended.stderr
        printed += ended.stdout
    (made.path / "users").write_bytes(printed)
    return made


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "log"


@pytest.fixture(scope="module")
def server(place: IdentityFiles, log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("identity") / "root"
    with serving(root, *place.arguments, "--log-level", "debug", log=log, is_forked=False) as running:
        yield running


def run(command: list[str], **environment: str) -> tuple[int, str, str]:
    """The status of a command, and what it prints."""
    ended = commands.run(*command, environment=environment)
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


ONE = ["--format", "csv", "SELECT 1 AS n"]


def test_sql_signs_in_with_a_user_and_a_password_from_the_environment(place: IdentityFiles, server: Server) -> None:
    asked = run(asking(place, server, "--user", "alice", *ONE), LANCE_FLIGHT_PASSWORD=PASSWORDS["alice"])
    assert asked == (0, '"n"\n1\n', "")


def test_sql_signs_in_with_a_token_from_a_file(place: IdentityFiles, server: Server) -> None:
    asked = run(asking(place, server, "--token-file", str(place.path / "token of bob"), *ONE))
    assert asked == (0, '"n"\n1\n', "")


TURNED_AWAY = {
    "nobody": ([], {}, "[unauthenticated] the call has no credentials"),
    "a wrong password": (["--user", "alice"], {"LANCE_FLIGHT_PASSWORD": "wrong"}, "[unauthenticated] the user or"),
    "an unknown user": (["--user", "mallory"], {"LANCE_FLIGHT_PASSWORD": "x"}, "[unauthenticated] the user or"),
    "no password": (["--user", "alice"], {}, "no password of 'alice'; expected it in LANCE_FLIGHT_PASSWORD"),
    "no file": (["--token-file", "missing"], {}, "'missing' cannot be read: No such file"),
    "a user and a token": (["--user", "alice", "--token-file", "x"], {}, "expected one of them"),
}


@pytest.mark.parametrize(("arguments", "environment", "says"), TURNED_AWAY.values(), ids=TURNED_AWAY.keys())
def test_sql_says_with_one_line_why_it_is_turned_away(
    place: IdentityFiles, server: Server, arguments: list[str], environment: dict[str, str], says: str
) -> None:
    *ended, errors = run(asking(place, server, *arguments, *ONE), **environment)
    assert ended == [1, ""]
    (line,) = errors.splitlines()
    assert says in line


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_everything_works_for_whom_a_server_knows(place: IdentityFiles, server: Server, name: str) -> None:
    proven = {"alice": {"password": PASSWORDS["alice"], "user": "alice"}, "bob": {"token": TOKENS["bob"]}}[name]
    known = Credentials(tls_ca=place.ca.pem.decode(), **proven)
    with connect(server.uri.replace("127.0.0.1", "localhost"), known) as connection:
        table = pa.table({"id": [1, 2, 3]})
        assert ingest(connection, name, table) == 3
        execute(connection, f"DELETE FROM {name} WHERE id = 2")
        assert execute(connection, f"SELECT id FROM {name} ORDER BY id").rows == pa.table({"id": [1, 3]})


def test_no_secret_is_in_the_log_or_among_the_arguments(place: IdentityFiles, server: Server, log: Path) -> None:
    wrong = {"LANCE_FLIGHT_PASSWORD": "wrong"}
    for user in ("alice", "mallory"):
        run(asking(place, server, "--user", user, *ONE), **wrong)
    said = log.read_text() + Path(f"/proc/{server.process.pid}/cmdline").read_text()
    said += run(["config", *place.arguments])[1]
    hashes = [
        line.partition('"')[2] for file in ("users", "tokens") for line in (place.path / file).open() if "$" in line
    ]
    assert "a wrong password of user 'alice'" in said
    assert "a wrong password of an unknown user" in said
    assert "mallory" not in said
    assert [secret for secret in [*SECRETS, *hashes] if secret in said] == []
    assert "PRIVATE KEY" not in said


REFUSED = {
    "keys without an issuer": (["--jwt-keys", "keys"], "'jwt_issuer' and 'jwt_audience'"),
    "keys that anybody on the way can change": (
        ["--jwt-keys", "http://x/keys", "--jwt-issuer", "i", "--jwt-audience", "a"],
        "a URL with https",
    ),
    "a shared secret as an algorithm": (
        ["--jwt-keys", "keys", "--jwt-issuer", "i", "--jwt-audience", "a", "--jwt-algorithms", "HS256"],
        "algorithm 'HS256'",
    ),
    "no users file": (["--users-file", "missing"], "users file 'missing' cannot be read"),
    "a certificate without a key": (["--tls-certificate", "x"], "'tls_certificate' and 'tls_key' go together"),
    "clients' certificates without one's own": (["--tls-client-ca", "x"], "'tls_client_ca' with both"),
    "no certificate": (["--tls-certificate", "missing", "--tls-key", "missing"], "'missing' cannot be read"),
}


@pytest.mark.parametrize(("arguments", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_serve_refuses_with_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    *ended, errors = run(["serve", str(tmp_path), "--port", "0", *arguments])
    assert ended == [1, ""]
    (line,) = errors.splitlines()
    assert says in line


def test_another_interface_is_served_with_authentication_and_a_warning_about_plain_text(
    place: IdentityFiles, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    arguments = ["--host", "0.0.0.0", "--users-file", str(place.path / "users")]  # noqa: S104
    with serving(tmp_path / "root", *arguments, log=log) as server:
        uri = server.uri.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        with pytest.raises(ServerError, match="unauthenticated"), connect(uri) as connection:
            execute(connection, "SELECT 1")
        with connect(uri, Credentials(user="bob", password=PASSWORDS["bob"])) as connection:
            assert execute(connection, "SELECT 1 AS n").affected == 1
    assert "credentials come over 0.0.0.0 without encryption" in log.read_text()
    assert "0.0.0.0 is open to clients that have shown no credential" in log.read_text()
