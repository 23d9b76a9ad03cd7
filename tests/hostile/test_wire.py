"""Whole calls with changed bytes, down to the frames of record batches: the server answers each, and lives."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator

import grpc
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.flight import wire
from lance_flight.flight.actions import value_message
from lance_flight.flight.wire import encode_action, encode_command

from tests.hostile.frames import action, call, descriptor, field, frames
from tests.hostile.mutations import mutations
from tests.hostile.outside import SECRET, Guarded
from tests.hostile.prepared import ANSWERED, INTO, prepared

pytestmark = pytest.mark.slow  # a server process, and many changed bytes

SELECT = wire.StatementQuery(query="SELECT * FROM t")
# Without dictionaries, which an ingest takes here: test_dictionaries.py and test_crafted_frames.py send those.
ROWS = [
    pa.record_batch(
        {
            "id": pa.array(range(n, n + 20), pa.int64()),
            "word": pa.array([None, "a", "bb"] * 6 + ["", "é"]),
            "list": pa.array([[1, 2], [], None, [3]] * 5, pa.list_(pa.int32())),
            "kind": pa.array([b"x", b"y"] * 10, pa.binary(1)),
        }
    )
    for n in (0, 20)
]
CALLS: dict[str, tuple[str, bytes]] = {
    "GetFlightInfo of a query": ("GetFlightInfo", descriptor(encode_command(SELECT))),
    "GetFlightInfo of metadata": (
        "GetFlightInfo",
        descriptor(encode_command(wire.GetTables(include_schema=True, table_types=("TABLE",)))),
    ),
    "GetSchema": ("GetSchema", descriptor(encode_command(SELECT))),
    "DoGet of metadata": ("DoGet", field(1, encode_command(wire.GetCatalogs()))),
    "ListFlights": ("ListFlights", b"\x0a\x04abcd"),
    "ListActions": ("ListActions", b""),
    "PollFlightInfo": ("PollFlightInfo", descriptor(encode_command(SELECT))),
    **{
        type(asked).__name__: ("DoAction", action(*encode_action(asked)))
        for asked in (
            wire.CreatePreparedStatement(query="SELECT 1"),
            wire.EndTransaction(transaction_id=b"0123456789abcdef", action=1),
            wire.SetSessionOptions(session_options={"isolation": value_message("snapshot")}),
            wire.CancelFlightInfo(info=b"info"),
            wire.RenewFlightEndpoint(endpoint=b"endpoint"),
        )
    },
}
SEEN: Counter[str] = Counter()


@pytest.fixture(scope="module")
def channel(target: Guarded) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(target.server.uri.removeprefix("grpc://")) as opened:
        yield opened


def check(target: Guarded, status: str, words: str) -> None:
    SEEN[status] += 1
    assert status in ANSWERED, words
    for never in ("[internal]", "Traceback", '.py"', ".py:", SECRET):
        assert never not in words
    assert target.server.process.poll() is None


@pytest.mark.parametrize("name", CALLS)
@given(data=st.data())
def test_a_changed_message_is_answered(target: Guarded, channel: grpc.Channel, name: str, data: st.DataObject) -> None:
    rpc, message = CALLS[name]
    check(target, *call(channel, rpc, [data.draw(mutations(message) | st.binary(max_size=200))]))


@given(data=st.data())
def test_a_changed_stream_stores_all_of_its_rows_or_none(
    target: Guarded, channel: grpc.Channel, data: st.DataObject
) -> None:
    target.run("DROP TABLE IF EXISTS fed")
    sent = frames(encode_command(INTO), ROWS)
    changed = data.draw(st.integers(0, len(sent) - 1))
    sent[changed] = data.draw(mutations(sent[changed]))
    order = data.draw(st.permutations(range(len(sent))) | st.just(range(len(sent))))
    status, words = call(channel, "DoPut", [sent[n] for n in order])
    check(target, status, words)
    stored = [name for name in target.run("SHOW TABLES")[1].to_pylist() if name == "fed"]
    if status == "OK" and stored:
        # A changed length is a shorter batch: what is stored can be read to its end.
        assert target.run("SELECT * FROM fed").num_rows == target.run("SELECT count(*) FROM fed")[0][0].as_py()
    else:
        assert stored == []


def ints(*numbers: int) -> bytes:
    """Numbers as Arrow stores offsets."""
    return array("i", numbers).tobytes()


TEXTS = pa.array(["abc", "defgh"])
LYING: dict[str, tuple[pa.Array, bytes, bytes]] = {
    "offsets that lead out": (TEXTS, ints(0, 3, 8), ints(0, 3, 1 << 30)),
    "offsets that go back": (TEXTS, ints(0, 3, 8), ints(0, 8, 2)),
    "offsets below the beginning": (TEXTS, ints(0, 3, 8), ints(-1000, 3, 8)),
    "texts that are none": (TEXTS, b"abcdefgh", b"\xff\xfeabcdef"),
    "codes beyond the dictionary": (pa.array(["x", "y", "x"]).dictionary_encode(), ints(0, 1, 0), ints(7, 1 << 30, -7)),
    "lists longer than their items": (pa.array([[5], [6, 7]]), ints(0, 1, 3), ints(0, 1, 1 << 28)),
}


@pytest.mark.parametrize(("honest", "said", "lie"), LYING.values(), ids=LYING.keys())
def test_a_batch_that_lies_about_itself_is_refused(
    target: Guarded, channel: grpc.Channel, honest: pa.Array, said: bytes, lie: bytes
) -> None:
    target.run("DROP TABLE IF EXISTS fed")
    batch = pa.record_batch({"value": honest})
    bind = wire.PreparedStatementQuery(prepared_statement_handle=prepared(target.server.client, "SELECT $1"))
    for command in (INTO, bind):
        sent = frames(encode_command(command), [batch])
        assert said in sent[-1]
        sent[-1] = sent[-1].replace(said, lie)
        status, words = call(channel, "DoPut", sent)
        check(target, status, words)
        is_refused_whole = command is bind and pa.types.is_dictionary(honest.type)
        says = "parameters are no dictionaries" if is_refused_whole else "cannot be read"
        assert (status, says in words) == ("INVALID_ARGUMENT", True)
    assert "fed" not in target.run("SHOW TABLES")[1].to_pylist()


def test_a_column_whose_name_is_no_text_is_refused(target: Guarded, channel: grpc.Channel) -> None:
    target.run("DROP TABLE IF EXISTS fed")
    batch = pa.record_batch({"name": [1]})
    bind = wire.PreparedStatementQuery(prepared_statement_handle=prepared(target.server.client, "SELECT $1"))
    for command in (INTO, bind):
        sent = [frame.replace(b"name", b"n\xffme") for frame in frames(encode_command(command), [batch])]
        status, words = call(channel, "DoPut", sent)
        assert (status, "whose name is not UTF-8" in words) == ("INVALID_ARGUMENT", True)


@given(data=st.data())
def test_changed_parameters_are_answered(target: Guarded, channel: grpc.Channel, data: st.DataObject) -> None:
    handle = prepared(target.server.client, "SELECT $1, $2, $3, $4")
    sent = frames(encode_command(wire.PreparedStatementQuery(prepared_statement_handle=handle)), ROWS[:1])
    changed = data.draw(st.integers(0, len(sent) - 1))
    sent[changed] = data.draw(mutations(sent[changed]))
    check(target, *call(channel, "DoPut", sent))


def test_the_server_still_serves(target: Guarded, say: Callable[[str], None]) -> None:
    assert target.server.value("SELECT count(*) FROM t") == 2
    assert target.server.process.poll() is None
    said = ", ".join(f"{status} {count}" for status, count in sorted(SEEN.items()))
    say(f"hostile calls: {sum(SEEN.values())} ({said}), crashes 0")
