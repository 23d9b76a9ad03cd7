"""Sealed tickets and handles."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.arrow_streams import decode_batch, encode_rows
from lance_flight.engine.query.planned_query import Task
from lance_flight.errors import Refused, TicketError, Unauthenticated
from lance_flight.flight.peers import open_request
from lance_flight.flight.tickets import NoRowsTicket, Prepared, RowsTicket, SessionCookies, TicketSealer
from lance_flight.flight.wire import SubstraitPlan

from tests.flight.flight_backend import KEY

SEALER = TicketSealer(KEY)
ALICE = "alice"
TEXTS = st.text(st.characters(codec="utf-8"))


@given(
    st.builds(
        RowsTicket,
        payload=st.binary(max_size=50),
        expires=st.none() | st.datetimes(datetime(2000, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    )
    | st.just(NoRowsTicket())
)
def test_a_ticket_comes_back(ticket: RowsTicket | NoRowsTicket) -> None:
    assert SEALER.open_ticket(SEALER.ticket(ticket, ALICE), ALICE) == ticket


@given(
    st.builds(
        Prepared,
        text=TEXTS | st.builds(SubstraitPlan, plan=st.binary(max_size=20), version=TEXTS),
        transaction_id=st.none() | st.binary(max_size=20),
        parameters=st.none() | st.binary(max_size=20),
    )
)
def test_a_handle_comes_back(prepared: Prepared) -> None:
    assert SEALER.open_handle(SEALER.handle(prepared, ALICE), ALICE) == prepared


def test_equal_statements_have_handles_of_their_own() -> None:
    assert SEALER.handle(Prepared(text="SELECT 1"), ALICE) != SEALER.handle(Prepared(text="SELECT 1"), ALICE)


@pytest.mark.parametrize("position", [0, 1, 2, -40, -32, -1])
def test_a_ticket_with_one_altered_byte_is_refused(position: int) -> None:
    sealed = bytearray(SEALER.ticket(RowsTicket(payload=b"from 2019 to 2021"), ALICE))
    sealed[position] ^= 1
    with pytest.raises(TicketError, match="a ticket of 66 bytes was not issued under the key of this server"):
        SEALER.open_ticket(bytes(sealed), ALICE)


REFUSED = {
    "nothing": (b"", "was not issued"),
    "a signature alone": (bytes(32), "was not issued"),
    "cut short": (SEALER.ticket(NoRowsTicket(), ALICE)[:-1], "was not issued"),
    "of another key": (TicketSealer(bytes(32)).ticket(NoRowsTicket(), ALICE), "was not issued"),
    "a handle": (SEALER.handle(Prepared(text="SELECT 1"), ALICE), "this is no ticket of a result"),
}


@pytest.mark.parametrize(("sealed", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_ticket_is_refused(sealed: bytes, message: str) -> None:
    with pytest.raises(TicketError, match=message):
        SEALER.open_ticket(sealed, ALICE)


def test_a_ticket_is_no_handle() -> None:
    with pytest.raises(TicketError, match="this is no handle of a prepared statement"):
        SEALER.open_handle(SEALER.ticket(RowsTicket(payload=b"x"), ALICE), ALICE)


OTHERS = {
    "a ticket": (SEALER.ticket(NoRowsTicket(), ALICE), TicketSealer.open_ticket),
    "a prepared statement handle": (SEALER.handle(Prepared(text="SELECT 1"), ALICE), TicketSealer.open_handle),
}


@pytest.mark.parametrize("principal", ["bob", "", "alic", "alicee", "Alice", "anonymous"])
@pytest.mark.parametrize(("sealed", "open_it"), OTHERS.values(), ids=OTHERS.keys())
def test_what_was_sealed_for_another_principal_is_refused(
    sealed: bytes, open_it: Callable[[TicketSealer, bytes, str], object], principal: str
) -> None:
    with pytest.raises(Refused, match="belongs to another principal"):
        open_it(SEALER, sealed, principal)


def test_a_session_token_is_no_ticket_and_no_ticket_is_one() -> None:
    with pytest.raises(TicketError, match="this is no ticket"):
        SEALER.open_ticket(SEALER.session(ALICE, b""), ALICE)
    with pytest.raises(TicketError, match="this is no session token"):
        SEALER.open_session(SEALER.ticket(NoRowsTicket(), ALICE))
    assert SEALER.open_session(SEALER.session(ALICE, b"x")) == (ALICE, b"x")


def test_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("lance_flight.flight.tickets._VERSION", 3)
        sealed = SEALER.ticket(NoRowsTicket(), ALICE)
    with pytest.raises(TicketError, match="a ticket of version 3; this server reads version 2"):
        SEALER.open_ticket(sealed, ALICE)


@pytest.mark.parametrize("open_it", [TicketSealer.open_ticket, TicketSealer.open_handle])
def test_a_kind_that_only_newer_servers_issue_is_refused(open_it: Callable[[TicketSealer, bytes, str], object]) -> None:
    sealed = SEALER._seal(SimpleNamespace(value=b"Z"), ALICE, b"")
    with pytest.raises(TicketError, match="of the kind b'Z', which a server of another release has issued"):
        open_it(SEALER, sealed, ALICE)


def test_a_handle_that_says_more_than_is_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(
            "lance_flight.flight.tickets._to_json", lambda _: b'{"identity":"x","text":"SELECT 1","masks":[]}'
        )
        sealed = SEALER.handle(Prepared(text="SELECT 1"), ALICE)
    with pytest.raises(TicketError, match="a prepared statement handle with masks, which a newer server has issued"):
        SEALER.open_handle(sealed, ALICE)


def test_a_task_that_says_more_than_is_known_is_refused() -> None:
    known = Task(sql="SELECT 1").to_bytes()
    assert Task.from_bytes(known) == Task(sql="SELECT 1")
    with pytest.raises(TicketError, match="a ticket with masks, which a newer server has issued"):
        Task.from_bytes(known[:-1] + b',"masks":[]}')


@pytest.mark.parametrize("payload", [[2, "k", "h", 1, {}, []], [2, "another", "form"]])
def test_a_cookie_of_another_format_begins_a_new_session(payload: list[object]) -> None:
    cookies = SessionCookies(sealer=SEALER, home="here")
    sealed = SEALER.cookie(ALICE, json.dumps(payload).encode())
    assert cookies.read(urlsafe_b64encode(sealed).decode().rstrip("=")) is None


def test_a_question_that_only_newer_servers_ask_is_refused() -> None:
    header = urlsafe_b64encode(SEALER.peer(json.dumps([2, 100.0, "reload", "x", None, "", False]).encode())).decode()
    with pytest.raises(Unauthenticated, match="asks for 'reload', which a newer release does"):
        open_request(SEALER, header, 100.0)


def test_a_key_has_32_bytes() -> None:
    with pytest.raises(ValueError, match="the key has 5 bytes; expected 32"):
        TicketSealer(b"short")


def test_parameters_come_back_with_their_types() -> None:
    batch = pa.record_batch({"1": pa.array([None], pa.decimal128(9, 2)), "2": pa.array(["x"], pa.string_view())})
    assert decode_batch(encode_rows(batch)).equals(batch)


def test_a_ticket_is_signed_with_hmac_sha256_of_all_before_it() -> None:
    sealed = SEALER.ticket(RowsTicket(payload=b"rows" * 1000), ALICE)
    assert sealed[-32:] == hmac.digest(KEY, sealed[:-32], "sha256")
