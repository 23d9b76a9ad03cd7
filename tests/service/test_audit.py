"""Audit log of a running server: a line for each login, change of the policy file, definition and refusal, without texts or secrets."""

from __future__ import annotations

import json
import re
import signal
import threading
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from lance_flight.flight.passwords import Cost, StoredPassword
from lance_flight.flight.wire import GetSessionOptions, encode_action
from pyarrow import flight

from tests.flight.statements import planned
from tests.service.operated import Operated, operated
from tests.service.principals import connect, refusal, rows, token_of, tokens_file

MASKED = "SELECT (n + 1 AS n) ON masked"
POLICY = f"""
[roles.owner]
members = ["owner", "carl"]
grants = ["ALL ON *"]

[roles.reader]
members = ["reader"]
grants = ["SELECT ON seen", "{MASKED}"]
"""
PASSWORD = "correct horse"  # noqa: S105
SECRETS = (PASSWORD, "wrong horse", "mallory", token_of("owner"), token_of("reader"), "hush", "hash")


class Trail:
    """The lines of a server's audit log."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def wait(self, count: int = 1, **wanted: Any) -> list[dict[str, Any]]:
        """The lines with these values, as soon as there are so many."""
        pause = threading.Event()
        for _ in range(600):
            found = [line for line in self.lines() if wanted.items() <= line.items()]
            if len(found) >= count:
                return found
            pause.wait(0.05)
        pytest.fail(f"no {count} lines with {wanted} among {self.lines()}")


def arguments(place: Path) -> list[str]:
    (place / "policy").write_text(POLICY)
    (place / "users").write_text(f'[users.carl]\npassword = "{StoredPassword.of(PASSWORD, Cost(log_n=4, p=1)).text}"\n')
    (place / "users").chmod(0o600)
    tokens = tokens_file(place / "tokens", ["owner", "reader"])
    users = ["--users-file", str(place / "users")]
    return ["--tokens-file", tokens, *users, "--policy-file", str(place / "policy")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def running(place: Path) -> Iterator[Operated]:
    with operated(place / "root", *arguments(place), "--audit-log", str(place / "audit.jsonl")) as made:
        rows(made.server.uri, "owner", "CREATE TABLE seen (n BIGINT)")
        rows(made.server.uri, "owner", "CREATE TABLE hidden (n BIGINT)")
        rows(made.server.uri, "owner", "CREATE TABLE masked AS SELECT 1 AS n")
        yield made


@pytest.fixture
def uri(running: Operated) -> str:
    return running.server.uri


@pytest.fixture
def trail(place: Path, running: Operated) -> Trail:
    return Trail(place / "audit.jsonl")


def test_the_first_call_over_a_connection_is_a_login(uri: str, trail: Trail) -> None:
    before = len(trail.wait(event="login", principal="owner"))
    with connect(uri, "owner") as connection, connection.cursor() as cursor:
        for _ in range(3):
            cursor.execute("SELECT 1")
            cursor.fetchall()
    found = trail.wait(before + 1, event="login", principal="owner")
    assert len(found) == before + 1
    line = found[-1]
    assert (line["decision"], line["action"], line["roles"], line["error"]) == (
        "allowed",
        "static token",
        ["owner"],
        None,
    )
    assert line["client"].startswith("ipv4:127.0.0.1:")
    assert line["session"]


def test_a_password_is_a_login_at_its_handshake(uri: str, trail: Trail) -> None:
    known = {"username": "carl", "password": PASSWORD}
    with dbapi.connect(uri, db_kwargs=known, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchall()
    handshake = trail.wait(event="login", principal="carl", action="password")[0]
    assert (handshake["decision"], handshake["client"]) == ("allowed", None)
    first = trail.wait(event="login", principal="carl", action="session token")[0]
    assert first["client"].startswith("ipv4:")


def basic(user: str, password: str) -> bytes:
    return b"Basic " + b64encode(f"{user}:{password}".encode())


TURNED_AWAY: dict[str, tuple[bytes, str | None, str]] = {
    "a wrong password": (basic("carl", "wrong horse"), "carl", "password"),
    "an unknown user": (basic("mallory", "wrong horse"), None, "password"),
    "an unknown token": (b"Bearer hush", None, "bearer token"),
}


@pytest.mark.parametrize(("header", "principal", "action"), TURNED_AWAY.values(), ids=TURNED_AWAY)
def test_a_refused_credential_is_a_refused_login(
    uri: str, trail: Trail, header: bytes, principal: str | None, action: str
) -> None:
    options = flight.FlightCallOptions(headers=[(b"authorization", header)])
    with flight.connect(uri) as client, pytest.raises(flight.FlightUnauthenticatedError):
        list(client.list_actions(options))
    line = trail.wait(event="login", decision="refused", principal=principal, action=action)[-1]
    assert (line["error"], line["statement"]) == ("unauthenticated", None)
    assert line["reason"]


def test_a_definition_is_recorded_and_again_if_it_fails(uri: str, trail: Trail) -> None:
    rows(uri, "owner", "CREATE TABLE made AS SELECT 'hush' AS s")
    (line,) = trail.wait(event="ddl", object="public.made")
    assert (line["decision"], line["action"], line["principal"], line["error"]) == (
        "allowed",
        "CREATE TABLE",
        "owner",
        None,
    )
    assert line["statement"]
    assert refusal(uri, "owner", "CREATE TABLE made AS SELECT 'hush' AS s")
    *_, begun, failed = trail.wait(3, event="ddl", object="public.made")
    assert (begun["error"], failed["error"]) == (None, "already_exists")
    assert begun["statement"] == failed["statement"] != line["statement"]
    rows(uri, "owner", "INSERT INTO made VALUES ('hush')")
    assert len(trail.wait(3, event="ddl", object="public.made")) == 3


def test_an_ingest_that_makes_a_table_is_a_definition(uri: str, trail: Trail) -> None:
    data = pa.table({"n": [1]})
    with connect(uri, "owner") as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("sent", data, mode="create")
        cursor.adbc_ingest("sent", data, mode="append")
    (line,) = trail.wait(event="ddl", object="public.sent")
    assert (line["action"], line["principal"]) == ("INGEST", "owner")


def test_a_refusal_says_to_whom_and_why(uri: str, trail: Trail) -> None:
    before = len([line for line in trail.lines() if line["event"] == "refusal"])
    assert "refused" in refusal(uri, "reader", "INSERT INTO seen VALUES (4242424242424242)")
    line = trail.wait(before + 1, event="refusal")[-1]
    assert "'reader' has no INSERT on table 'seen'" in line["reason"]
    assert (line["principal"], line["roles"], line["decision"], line["error"]) == (
        "reader",
        ["reader"],
        "refused",
        "refused",
    )
    assert line["statement"]
    assert "4242424242424242" not in trail.path.read_text()
    listed = "SELECT reason FROM system.audit WHERE event = 'refusal' AND statement = '{}'".format(line["statement"])
    assert rows(uri, "owner", listed) == [(line["reason"],)]
    assert rows(uri, "reader", listed) == []


def test_each_statement_that_reads_masks_is_recorded(uri: str, trail: Trail) -> None:
    with connect(uri, "reader") as connection, connection.cursor() as cursor:
        for _ in range(2):
            cursor.execute("SELECT n FROM masked")
            assert cursor.fetchall() == [(2,)]
    rows(uri, "owner", "SELECT n FROM masked")
    found = trail.wait(2, event="masked_read")
    assert {(line["principal"], line["object"], *line["masked"]) for line in found} == {
        ("reader", "public.masked", "n")
    }
    assert len({line["statement"] for line in found}) == len(found) >= 2


def test_what_is_refused_outside_of_statements_is_recorded_as_well(uri: str, trail: Trail) -> None:
    owner, reader = (
        flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token_of(name)}".encode())])
        for name in ("owner", "reader")
    )
    with flight.connect(uri) as client:
        info = planned(client, "SELECT 1", owner)
        with pytest.raises(flight.FlightUnauthorizedError):
            client.do_get(info.endpoints[0].ticket, reader).read_all()
    line = trail.wait(event="refusal", principal="reader", statement=None)[-1]
    assert "belongs to another principal" in line["reason"]
    assert line["client"].startswith("ipv4:")


def test_a_changed_policy_file_says_which_grants_changed(uri: str, trail: Trail, place: Path) -> None:
    first = trail.wait(event="policy", object="reader", action="added")[0]
    assert first["added"] == {"members": ["reader"], "grants": ["SELECT ON seen", MASKED]}
    policy = place / "policy"
    policy.write_text(POLICY.replace("SELECT ON seen", "SELECT, INSERT ON seen"))
    rows(uri, "reader", "INSERT INTO seen VALUES (1)")
    (changed,) = trail.wait(event="policy", action="changed")
    assert (changed["object"], changed["added"], changed["removed"]) == (
        "reader",
        {"grants": ["SELECT, INSERT ON seen"]},
        {"grants": ["SELECT ON seen"]},
    )
    policy.write_text("roles = 4")
    rows(uri, "reader", "INSERT INTO seen VALUES (1)")
    with flight.connect(uri) as client:
        header = (b"authorization", f"Bearer {token_of('reader')}".encode())
        asked = flight.Action(*encode_action(GetSessionOptions()))
        assert list(client.do_action(asked, flight.FlightCallOptions(headers=[header])))
    (invalid,) = trail.wait(event="policy", action="invalid")
    assert (invalid["decision"], invalid["error"]) == ("refused", "invalid_input")
    policy.write_text(POLICY)
    rows(uri, "reader", "SELECT 1")
    assert len(trail.wait(2, event="policy", action="changed")) == 2


def test_a_log_that_was_moved_away_goes_on_under_its_name(running: Operated, uri: str, trail: Trail) -> None:
    older = trail.path.rename(trail.path.with_suffix(".1"))
    running.server.process.send_signal(signal.SIGHUP)
    rows(uri, "owner", "CREATE TABLE after_rotation (n BIGINT)")
    trail.wait(event="ddl", object="public.after_rotation")
    assert "after_rotation" not in older.read_text()
    trail.path.write_text(older.read_text() + trail.path.read_text())


def test_events_are_counted(running: Operated) -> None:
    _, page = running.page("/metrics")
    found = dict(
        re.findall(r'^lance_flight_audit_events_total\{decision="allowed",event="(\w+)"\} (\S+)$', page, re.MULTILINE)
    )
    assert found.keys() >= {"login", "ddl", "policy"}
    assert float(found["ddl"]) >= 4
    assert "lance_flight_audit_lost_total 0.0" in page


def test_no_text_and_no_secret_is_in_the_log(trail: Trail) -> None:
    text = trail.path.read_text()
    assert [secret for secret in SECRETS if secret in text] == []
    assert [line for line in trail.lines() if "sql" in line] == []


@pytest.fixture(scope="module")
def required(place: Path) -> Iterator[Operated]:
    """A server that must write what it does into a log that is full, until that is taken away."""
    (place / "full.jsonl").symlink_to("/dev/full")
    settings = ["--audit-log", str(place / "full.jsonl"), "--audit-required", "--audit-statements"]
    with operated(place / "required", *arguments(place), *settings) as made:
        yield made


def test_what_cannot_be_recorded_is_not_done_where_that_is_required(required: Operated, place: Path) -> None:
    uri = required.server.uri
    assert "[unavailable] the audit log cannot be written" in refusal(uri, "owner", "SELECT 1")
    _, page = required.page("/metrics")
    assert re.search(r"^lance_flight_audit_lost_total [1-9]", page, re.MULTILINE)
    log, trail = place / "full.jsonl", Trail(place / "full.jsonl")
    log.unlink()
    with connect(uri, "owner") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 AS one")
        assert cursor.fetchall() == [(1,)]
        (place / "aside").symlink_to("/dev/full")
        kept = log.read_text()
        (place / "aside").rename(log)
        with pytest.raises(Error, match="audit log cannot be written"):
            cursor.execute("CREATE TABLE t (n BIGINT)")
        # What needs no line goes on.
        cursor.execute("SELECT 2 AS two")
        assert cursor.fetchall() == [(2,)]
        log.unlink()
        log.write_text(kept)
        with pytest.raises(Error, match="not_found"):
            cursor.execute("SELECT * FROM t")
        cursor.execute("CREATE TABLE t AS SELECT 'said' AS s")
    assert [line["event"] for line in trail.lines()].count("lost") >= 2
    (line,) = trail.wait(event="ddl", object="public.t")
    assert line["sql"] == "CREATE TABLE t AS SELECT 'said' AS s"
