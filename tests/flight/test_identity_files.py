"""The files that name principals: what they may say, and that what they say counts at once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from lance_flight.errors import InvalidInput, Unauthenticated
from lance_flight.file_reloading import Watched, look
from lance_flight.flight import passwords
from lance_flight.flight.authentication import Basic, Bearer, Principal, Proof
from lance_flight.flight.passwords import (
    PasswordChecks,
    SessionTokens,
    StoredPassword,
    TokensFile,
    Users,
    UsersFile,
    hash_of,
    make_token,
)
from lance_flight.flight.tickets import TicketSealer

from tests.flight.flight_backend import KEY
from tests.flight.identities import CHEAP, PASSWORDS, Clock, users_text

STORED = StoredPassword.of("secret", CHEAP).text
HASH = hash_of("token")


def written(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


WRONG_USERS = {
    "no TOML": ("[users", "no TOML"),
    "no table of users": ("[people.alice]", "'people' stands in it; expected \\[users.NAME\\]"),
    "a value beside them": ("admin = 1\n[users.alice]", "'admin' stands in it"),
    "users that are a value": ("users = 1", "'users' stands in it"),
    "a user that is a value": ("[users]\nalice = 1", "users.alice is a value"),
    "no password": ("[users.alice]", r"\[users.alice\]: 'password' is missing"),
    "an empty password": ('[users.alice]\npassword = ""', "'password' is no text"),
    "a number": ("[users.alice]\npassword = 1", "'password' is no text"),
    "a password as it is": ('[users.alice]\npassword = "hunter2"', r"'password' is not scrypt\$"),
    "an unknown setting": (
        f'[users.alice]\npassword = "{STORED}"\nadmin = true',
        "'admin' is unknown; expected groups",
    ),
    "a group that is no list": (f'[users.alice]\npassword = "{STORED}"\ngroups = "a"', "'groups' is no list"),
    "an empty group": (f'[users.alice]\npassword = "{STORED}"\ngroups = [""]', "'groups' is no list"),
    "a user called anonymous": (f'[users.anonymous]\npassword = "{STORED}"', "no principal can be called 'anonymous'"),
    "a name of a line": (f'[users."a\\nb"]\npassword = "{STORED}"', "no principal can be called"),
    "a name twice": (f'[users.a]\npassword = "{STORED}"\n[users.a]\npassword = "{STORED}"', "no TOML"),
}


@pytest.mark.parametrize(("text", "message"), WRONG_USERS.values(), ids=WRONG_USERS.keys())
def test_a_file_of_users_that_is_wrong_is_refused_and_says_nothing_secret(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as raised:
        Users.parse(text)
    assert "hunter2" not in str(raised.value)
    assert STORED not in str(raised.value)


WRONG_TOKENS = {
    "no hash": ("[tokens.etl]", "'sha256' is missing"),
    "a token as it is": ('[tokens.etl]\nsha256 = "hunter2"', "not the 64 digits of a hash"),
    "one hash twice": (f'[tokens.a]\nsha256 = "{HASH}"\n[tokens.b]\nsha256 = "{HASH.upper()}"', "of another entry"),
    "a time without a zone": (f'[tokens.a]\nsha256 = "{HASH}"\nexpires = 2027-01-01T00:00:00', "no time with a zone"),
    "a day": (f'[tokens.a]\nsha256 = "{HASH}"\nexpires = 2027-01-01', "no time with a zone"),
    "an anonymous principal": (f'[tokens.a]\nsha256 = "{HASH}"\nprincipal = "anonymous"', "no principal can be"),
}


@pytest.mark.parametrize(("text", "message"), WRONG_TOKENS.values(), ids=WRONG_TOKENS.keys())
def test_a_file_of_tokens_that_is_wrong_is_refused_and_says_nothing_secret(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as raised:
        passwords.parse_tokens(text)
    assert "hunter2" not in str(raised.value)


def test_a_token_proves_its_principal_until_it_expires(tmp_path: Path) -> None:
    token, clock = make_token(), Clock(0)
    text = (
        f'[tokens.new]\nprincipal = "etl"\ngroups = ["g"]\nsha256 = "{hash_of(token)}"\nexpires = 1970-01-02T00:00:00Z'
    )
    file = TokensFile(written(tmp_path / "tokens", text), clock)
    assert file.principal(Bearer(token=token)) == Principal(name="etl", groups=("g",), proof=Proof.STATIC_TOKEN)
    assert file.principal(Bearer(token=token + "x")) is None
    assert file.principal(Basic(user="etl", password=token)) is None
    clock.now = 86_400
    with pytest.raises(Unauthenticated, match="has expired"):
        file.principal(Bearer(token=token))


def test_a_password_of_an_unknown_user_costs_as_much(tmp_path: Path) -> None:
    compared: list[StoredPassword] = []

    class Watching(PasswordChecks):
        def matches(self, stored: StoredPassword, password: str) -> bool:
            compared.append(stored)
            return super().matches(stored, password)

    tokens = SessionTokens(sealer=TicketSealer(KEY), lifetime=1.0)
    users = UsersFile(written(tmp_path / "users", users_text()), tokens, Watching(pause=lambda _: None))
    for name in ("alice", "mallory"):
        assert users.principal(Basic(user=name, password=HASH)) is None
    assert [stored.cost for stored in compared] == [CHEAP, CHEAP]


def test_a_session_token_is_good_until_its_user_changes(tmp_path: Path) -> None:
    clock = Clock()
    tokens = SessionTokens(sealer=TicketSealer(KEY), lifetime=10.0, now=clock)
    path = tmp_path / "users"
    users = UsersFile(written(path, users_text()), tokens, PasswordChecks(pause=lambda _: None))
    proven = users.principal(Basic(user="alice", password=PASSWORDS["alice"]))
    assert proven == Principal(name="alice", groups=("all", "alices"), proof=Proof.PASSWORD)
    token = users.token(proven)
    assert token is not None
    again = users.principal(Bearer(token=token))
    assert again == Principal(name="alice", groups=("all", "alices"), proof=Proof.SESSION_TOKEN)
    assert users.token(again) is None, "a token begets no token"
    path.write_text(path.read_text().replace('"alices"', '"nobodies"'))
    found = users.principal(Bearer(token=token))
    assert found is not None
    assert found.groups == ("all", "nobodies")
    clock.now += 10
    assert users.principal(Bearer(token=token)) is None


def watched(path: Path, clock: Clock) -> tuple[Watched[str], list[str]]:
    seen: list[str] = []

    def parse(text: str) -> str:
        seen.append(text)
        if text == "wrong":
            raise InvalidInput("it is wrong")
        return text

    return Watched(str(path), parse, what=named(path), now=clock), seen


def named(path: Path) -> str:
    """What a file is called: files of other tests may still be watched."""
    return f"test file of {path.parent.name}"


def test_a_file_is_read_again_when_it_changes_and_not_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    clock = Clock(path.stat().st_mtime + 10)
    file, seen = watched(path, clock)
    assert file.value == "one"
    seen.clear()
    assert [file.value for _ in range(3)] == ["one"] * 3
    assert seen == []
    path.write_text("two")
    assert file.value == "two"


def test_a_change_within_the_grain_of_the_files_clock_is_seen_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    found = path.stat()
    looks = (found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns)
    monkeypatch.setattr("lance_flight.file_reloading._signature", lambda _: looks)
    file, _ = watched(path, Clock(found.st_mtime + 1))
    assert file.value == "one"
    path.write_text("two")
    assert file.value == "two"


def test_a_change_that_cannot_be_read_leaves_in_force_what_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    file, _ = watched(path, Clock(path.stat().st_mtime + 10))
    assert look()[named(path)].is_in_force
    for text, said in (("wrong", "it is wrong"), (None, "No such file")):
        path.unlink() if text is None else path.write_text(text)
        assert not look()[named(path)].is_in_force
        assert [file.value for _ in range(3)] == ["one"] * 3
        assert [said in line for line in caplog.messages if str(path) in line].count(True) == 1
    path.write_text("two")
    assert file.value == "two"
    assert look()[named(path)].is_in_force


def test_a_file_that_cannot_be_read_at_first_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"test file of .* '.*missing' cannot be read: No such file"):
        watched(tmp_path / "missing", Clock())
    (tmp_path / "latin").write_bytes(b"\xe9")
    with pytest.raises(InvalidInput, match="it is not UTF-8"):
        watched(tmp_path / "latin", Clock())


@pytest.mark.parametrize(("mode", "is_said"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True)])
def test_a_file_with_secrets_that_others_can_read_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, *, is_said: bool
) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    path.chmod(mode)
    with caplog.at_level(logging.WARNING):
        watched(path, Clock())
    assert (f"can be read by others (mode {mode:o}); expected 600" in caplog.text) is is_said
