"""The server on gRPC's library: the dispatch that ships, polled statements, parameters on the call, and hostile clients."""

from __future__ import annotations

import gc
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
import pyarrow as pa
import pytest
from lance_flight.errors import Conflict, LimitExceeded, QueryFailed
from lance_flight.flight import grpc_server, wire
from lance_flight.flight.authentication import Authentication
from lance_flight.flight.backend import Caller
from lance_flight.flight.grpc_server import REUSED_CONNECTION, GrpcServer
from lance_flight.flight.protocol import flight_messages_pb2 as pb
from lance_flight.flight.server import FlightSqlServer
from pyarrow import flight

from tests.flight.flight_backend import ECHO, KEY, NUMBERS, CannedBackend, Ran
from tests.flight.grpc_client import GrpcClient, refused, statement, status, stream_of
from tests.flight.identities import TOKENS, Identities
from tests.flight.slow_backend import PATIENCE, SlowBackend

SQL, DDL = "SELECT numbers", "CREATE TABLE t"
CODE = grpc.StatusCode
CANCELLED, CANCELLING, NOT_CANCELLABLE = 1, 2, 3
MESSAGE_LIMIT = 1 << 20
PARAMETERS = pa.record_batch({"1": ["7"], "2": ["seven"]})


@contextmanager
def serving(backend: CannedBackend, **options: object) -> Iterator[GrpcServer]:
    threads = int(str(options.pop("threads", 16)))
    with FlightSqlServer(backend, KEY, **options) as server:
        running = GrpcServer(server, host="127.0.0.1", port=0, threads=threads, message_limit=MESSAGE_LIMIT)
        try:
            yield running
        finally:
            running.stopping()
            running.stop()


@pytest.fixture
def backend() -> CannedBackend:
    return CannedBackend(updates={DDL: 3})


@pytest.fixture
def client(backend: CannedBackend) -> Iterator[GrpcClient]:
    with serving(backend) as server, GrpcClient.to(server.uri) as connected:
        yield connected


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowBackend]:
    """A backend that does not plan before it is let go, under polls that do not wait for it."""
    monkeypatch.setattr(grpc_server, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(grpc_server, "NEXT_SECONDS", 0.0)
    backend = SlowBackend(updates={DDL: 3})
    yield backend
    backend.go.set()


def test_both_servers_answer_the_same(backend: CannedBackend) -> None:
    with FlightSqlServer(backend, KEY) as server, flight.connect(server.uri) as other:
        running = GrpcServer(server, host="127.0.0.1", port=0, threads=8, message_limit=MESSAGE_LIMIT)
        with GrpcClient.to(running.uri) as client:
            info, expected = client.info(SQL), other.get_flight_info(statement(SQL))
            assert info.schema == expected.schema
            assert info.total_records == expected.total_records
            (ticket,), (others,) = [[each.ticket for each in found.endpoints] for found in (info, expected)]
            assert client.read(others) == client.read(ticket) == other.do_get(ticket).read_all() == NUMBERS
            schema = flight.SchemaResult.deserialize(client.one("GetSchema", statement(SQL).serialize()))
            assert schema.schema == NUMBERS.schema
            offered = [pb.ActionType.FromString(each).type for each in client.call("ListActions", [b""])]
            assert offered == [each.type for each in other.list_actions()]
        running.stop()


def test_endpoints_are_read_over_the_same_connection(backend: CannedBackend) -> None:
    with serving(backend) as server, GrpcClient.to(server.uri, [("lance-flight-endpoints", "3")]) as client:
        info = client.info(SQL)
        assert [[place.uri for place in each.locations] for each in info.endpoints] == [
            [REUSED_CONNECTION.encode()]
        ] * 3
        parts = [client.read(endpoint.ticket) for endpoint in info.endpoints]
        assert pa.concat_tables(parts) == NUMBERS
        assert client.rows(SQL) == NUMBERS.to_pylist()


def test_a_statement_is_polled_until_it_is_done(slow: SlowBackend) -> None:
    with serving(slow) as server, GrpcClient.to(server.uri) as client, GrpcClient.to(server.uri) as another:
        begun = client.poll(statement(SQL))
        assert (begun.progress, begun.HasField("expiration_time")) == (0.0, True)
        assert flight.FlightInfo.deserialize(begun.info).endpoints == []
        # It outlives the call and its connection.
        assert another.poll(begun.flight_descriptor).HasField("flight_descriptor")
        slow.callers.clear()
        slow.go.set()
        done = poll_to_the_end(another, begun)
        assert (done.progress, done.HasField("flight_descriptor"), done.HasField("expiration_time")) == (
            1.0,
            False,
            False,
        )
        # The answer may have been lost.
        assert client.poll(begun.flight_descriptor).info == done.info
        (endpoint,) = flight.FlightInfo.deserialize(done.info).endpoints
        assert client.read(endpoint.ticket) == NUMBERS
    assert slow.ran == [Ran(sql=SQL)]


def poll_to_the_end(client: GrpcClient, begun: pb.PollInfo) -> pb.PollInfo:
    for _ in range(int(PATIENCE * 100)):
        answer = client.poll(begun.flight_descriptor)
        if not answer.HasField("flight_descriptor"):
            return answer
        threading.Event().wait(0.01)
    raise AssertionError("the statement did not end")


def test_progress_is_told(slow: SlowBackend) -> None:
    with serving(slow) as server, GrpcClient.to(server.uri) as client:
        begun = client.poll(statement(DDL))
        assert slow.is_begun.wait(PATIENCE)
        (running,) = server._polled._running.values()
        for progress, told in ((0.25, 0.25), (7.0, 1.0), (-1.0, 0.0)):
            running.polls.report_progress(progress)
            assert client.poll(begun.flight_descriptor).progress == told


@pytest.mark.parametrize("when", ["running", "done"])
def test_a_polled_statement_is_cancelled_by_what_its_poll_has_told(slow: SlowBackend, when: str) -> None:
    with serving(slow) as server, GrpcClient.to(server.uri) as client:
        begun = client.poll(statement(SQL))
        if when == "done":
            slow.go.set()
            poll_to_the_end(client, begun)
            assert client.cancel(begun.info) == CANCELLED
            assert slow.cancelled == [(b"0/1:" + SQL.encode(),)]
            return
        assert slow.is_begun.wait(PATIENCE)
        (running,) = server._polled._running.values()
        assert not running.polls.is_gone()
        assert client.cancel(begun.info) == CANCELLING
        assert running.polls.is_gone()
        slow.failures[SQL] = QueryFailed("the engine has ended it")
        slow.go.set()
        with pytest.raises(grpc.RpcError) as raised:
            poll_to_the_end(client, begun)
        assert raised.value.code() is CODE.CANCELLED
        assert raised.value.details() == "[57014] [cancelled] the statement was cancelled"
        assert client.cancel(begun.info) == NOT_CANCELLABLE


def test_a_statement_that_is_not_polled_ends(slow: SlowBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(slow) as server, GrpcClient.to(server.uri) as client:
        client.poll(statement(SQL))
        (running,) = server._polled._running.values()
        assert not running.polls.is_gone()
        monkeypatch.setattr(grpc_server, "IDLE_SECONDS", 0.0)
        assert running.polls.is_gone()


def test_statements_of_a_user_are_bounded(slow: SlowBackend) -> None:
    with serving(slow, running_calls=8) as server, GrpcClient.to(server.uri) as client:
        begun = []
        with pytest.raises(grpc.RpcError) as raised:
            begun += [client.poll(statement(SQL)) for _ in range(8)]
        assert raised.value.code() is CODE.RESOURCE_EXHAUSTED
        assert "running_calls" in raised.value.details()
        server.stopping()
        assert all(each.polls.is_gone() for each in server._polled._running.values())


@pytest.mark.parametrize("bound", ["MOST_ANSWERS", "MOST_ANSWER_BYTES"])
def test_answers_are_kept_within_bounds(backend: CannedBackend, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    with serving(backend) as server, GrpcClient.to(server.uri) as client:
        client.rows(SQL)
        weight = server._polled._answered.weight
    assert weight > 0
    monkeypatch.setattr(grpc_server, bound, 2 * weight if bound.endswith("BYTES") else 2)
    with serving(backend) as server, GrpcClient.to(server.uri) as client:
        for _ in range(5):
            client.rows(SQL)
        assert len(server._polled._answered) == 2
        assert server._polled._running == {}


@pytest.mark.parametrize("rpc", ["PollFlightInfo", "GetFlightInfo"])
def test_a_change_runs_once(client: GrpcClient, backend: CannedBackend, rpc: str) -> None:
    if rpc == "PollFlightInfo":
        assert client.rows(DDL) == []
    else:
        info = client.info(DDL)
        assert info.total_records == 3
        assert [client.read(endpoint.ticket).num_rows for endpoint in info.endpoints] == [0]
    assert backend.ran == [Ran(sql=DDL)]


def test_parameters_come_with_the_call(client: GrpcClient, backend: CannedBackend) -> None:
    answered = client.exchange(ECHO, PARAMETERS)
    assert answered.to_pylist() == [{"1": 7, "2": "seven"}]
    assert backend.ran == [Ran(sql=ECHO, parameters=[{"1": 7, "2": "seven"}])], "cast to what the statement takes"
    assert client.exchange(SQL) == NUMBERS
    assert client.exchange(DDL).num_rows == 0
    assert [ran.sql for ran in backend.ran] == [ECHO, SQL, DDL]
    prepared = wire.CreatePreparedStatement(query=ECHO)
    (body,) = client.act(prepared)
    assert b"ActionCreatePreparedStatementResult" in body


def test_a_schema_is_chosen_by_a_header(backend: CannedBackend) -> None:
    with serving(backend) as server:
        for headers, chosen in (
            ((), None),
            ((("namespace-path", "public"),), "public"),
            ((("namespace-path", "s"),), "s"),
        ):
            with GrpcClient.to(server.uri, headers) as client:
                backend.callers.clear()
                client.rows(SQL)
                assert {caller.db_schema for caller in backend.callers} == {chosen}
        with GrpcClient.to(server.uri, [("namespace-path", "a$b")]) as client:
            code, said = refused(client.call("PollFlightInfo", [statement(SQL).serialize()]))
            assert (code, "'a$b'" in said) == (CODE.INVALID_ARGUMENT, True)


RPCS = ("GetFlightInfo", "PollFlightInfo", "GetSchema", "DoGet", "DoPut", "DoExchange", "DoAction", "ListActions")
WRONG = {
    "none": [],
    "a wrong key": [("x-api-key", "guessed")],
    "a wrong token": [("authorization", "Bearer guessed")],
    "a key and a token": [("x-api-key", TOKENS["alice"]), ("authorization", f"Bearer {TOKENS['alice']}")],
    "two keys": [("x-api-key", TOKENS["alice"]), ("x-api-key", TOKENS["bob"])],
    "an empty key": [("x-api-key", "")],
}


@pytest.fixture(scope="module")
def everyone(tmp_path_factory: pytest.TempPathFactory) -> Authentication:
    return Identities(tmp_path_factory.mktemp("identities")).authentication


@pytest.mark.parametrize("credential", WRONG)
def test_without_a_credential_nothing_is_answered(
    backend: CannedBackend, everyone: Authentication, credential: str
) -> None:
    with serving(backend, authentication=everyone) as server, GrpcClient.to(server.uri, WRONG[credential]) as client:
        for rpc in RPCS:
            # Nothing is read of who has shown nothing: the message never comes.
            with silence() as messages:
                code, said = refused(client.call(rpc, messages))
            assert code is CODE.UNAUTHENTICATED, (rpc, said)
    assert backend.callers == backend.ran == []


@contextmanager
def silence() -> Iterator[Iterator[bytes]]:
    """Messages that never come."""
    is_over = threading.Event()

    def messages() -> Iterator[bytes]:
        is_over.wait(PATIENCE)
        yield from ()

    yield messages()
    is_over.set()


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
def test_a_key_and_a_token_are_the_same(backend: CannedBackend, everyone: Authentication, header: str) -> None:
    value = TOKENS["alice"] if header == "x-api-key" else f"Bearer {TOKENS['alice']}"
    with serving(backend, authentication=everyone) as server, GrpcClient.to(server.uri, [(header, value)]) as client:
        assert client.rows(SQL) == NUMBERS.to_pylist()
    assert {caller.principal for caller in backend.callers} == {"alice"}


def test_statements_are_their_principals_own(slow: SlowBackend, everyone: Authentication) -> None:
    with serving(slow, authentication=everyone) as server:
        alice, bob = (GrpcClient.to(server.uri, [("x-api-key", TOKENS[name])]) for name in ("alice", "bob"))
        begun = alice.poll(statement(SQL))
        code, said = refused(bob.call("PollFlightInfo", [begun.flight_descriptor]))
        assert (code, "another principal" in said) == (CODE.NOT_FOUND, True)
        assert bob.cancel(begun.info) == NOT_CANCELLABLE
        slow.go.set()
        done = poll_to_the_end(alice, begun)
        code, _ = refused(bob.call("PollFlightInfo", [begun.flight_descriptor]))
        assert code is CODE.NOT_FOUND
        (endpoint,) = flight.FlightInfo.deserialize(done.info).endpoints
        code, said = refused(bob.call("DoGet", [endpoint.ticket.serialize()]))
        assert (code, "another principal" in said) == (CODE.PERMISSION_DENIED, True)
        alice.channel.close()
        bob.channel.close()


def test_the_same_key_on_an_open_server_makes_no_common_session(backend: CannedBackend) -> None:
    """Without authentication a key proves nothing, and examples have all the same one."""
    with serving(backend) as server:
        for _ in range(2):
            with GrpcClient.to(server.uri, [("x-api-key", "sk")], **{"grpc.use_local_subchannel_pool": 1}) as client:
                client.rows(SQL)
    assert len({caller.session for caller in backend.callers}) == 2


FAILURES = {
    "conflict": (Conflict("another writer was first"), CODE.UNKNOWN),
    "limit": (LimitExceeded("too much"), CODE.RESOURCE_EXHAUSTED),
    "ours": (RuntimeError("a secret"), CODE.INTERNAL),
}


@pytest.mark.parametrize("name", FAILURES)
def test_an_error_has_a_status_and_no_secrets(client: GrpcClient, backend: CannedBackend, name: str) -> None:
    error, expected = FAILURES[name]
    for where in (SQL, f"read {SQL}"):
        backend.failures = {where: error}
        with pytest.raises(grpc.RpcError) as raised:
            client.rows(SQL)
        assert raised.value.code() is expected or where != SQL
        assert "secret" not in raised.value.details()
        assert "Traceback" not in raised.value.details()


DESCRIPTOR = statement(SQL).serialize()
BATCH = stream_of(statement(ECHO), PARAMETERS)
BAD: dict[str, tuple[str, list[bytes], grpc.StatusCode]] = {
    "no message": ("PollFlightInfo", [], CODE.INVALID_ARGUMENT),
    "no descriptor": ("GetFlightInfo", [b"\xff\xff\xff"], CODE.INVALID_ARGUMENT),
    "no command": ("PollFlightInfo", [flight.FlightDescriptor.for_command(b"x").serialize()], CODE.INVALID_ARGUMENT),
    "a path": ("PollFlightInfo", [flight.FlightDescriptor.for_path("x").serialize()], CODE.INVALID_ARGUMENT),
    "a handle of nothing": (
        "PollFlightInfo",
        [flight.FlightDescriptor.for_command(wire.wrap(wire.TicketStatementQuery(statement_handle=b"x"))).serialize()],
        CODE.NOT_FOUND,
    ),
    "no ticket": ("DoGet", [b"\x0a\xff"], CODE.INVALID_ARGUMENT),
    "no action": ("DoAction", [b"\x0a\xff"], CODE.INVALID_ARGUMENT),
    "an unknown action": ("DoAction", [flight.Action("nothing", b"").serialize()], CODE.INVALID_ARGUMENT),
    "an unknown call": ("ListFlights", [b""], CODE.UNIMPLEMENTED),
    "too long a message": ("GetFlightInfo", [statement("x" * MESSAGE_LIMIT).serialize()], CODE.RESOURCE_EXHAUSTED),
    "an empty exchange": ("DoExchange", [], CODE.INVALID_ARGUMENT),
    "an exchange without a descriptor": ("DoExchange", [BATCH[1]], CODE.INVALID_ARGUMENT),
    "an exchange of bytes": ("DoExchange", [b"\xff" * 64], CODE.INVALID_ARGUMENT),
    "a batch cut off": ("DoExchange", [BATCH[0], BATCH[1][:-16]], CODE.INVALID_ARGUMENT),
    "a batch in place of the schema": (
        "DoExchange",
        [stream_of(statement(ECHO))[0] + BATCH[1], BATCH[1]],
        CODE.INVALID_ARGUMENT,
    ),
    "a schema in place of a batch": ("DoExchange", [BATCH[0], BATCH[0]], CODE.INVALID_ARGUMENT),
    "a dictionary": (
        "DoExchange",
        stream_of(statement(ECHO), pa.record_batch({"1": pa.array(["a"]).dictionary_encode()})),
        CODE.INVALID_ARGUMENT,
    ),
    "a change of metadata": ("DoExchange", stream_of(
        flight.FlightDescriptor.for_command(wire.encode_command(wire.GetTables())), PARAMETERS
    ), CODE.INVALID_ARGUMENT),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_call_is_refused(client: GrpcClient, name: str) -> None:
    rpc, messages, expected = BAD[name]
    code, said = refused(client.call(rpc, messages))
    assert code is expected, said
    assert "takes no dictionaries" in said or name != "a dictionary"
    assert client.rows(SQL) == NUMBERS.to_pylist()


MAY_SAY = {CODE.OK, CODE.INVALID_ARGUMENT, CODE.NOT_FOUND, CODE.RESOURCE_EXHAUSTED}


@pytest.mark.parametrize("place", range(0, 320, 8))
def test_a_changed_frame_ends_its_call_alone(client: GrpcClient, place: int) -> None:
    for message in range(2):
        sent = list(BATCH)
        changed = bytearray(sent[message])
        changed[place % len(changed)] ^= 0x55
        sent[message] = bytes(changed)
        assert status(client.call("DoExchange", sent)) in MAY_SAY
    assert client.rows(SQL) == NUMBERS.to_pylist()


def test_a_compressed_message_is_refused(backend: CannedBackend) -> None:
    with serving(backend) as server:
        channel = grpc.insecure_channel(server.uri.partition("://")[2], compression=grpc.Compression.Gzip)
        with GrpcClient(channel) as client:
            code, _ = refused(client.call("GetFlightInfo", [statement("x" * 100_000).serialize()]))
            assert code is CODE.UNIMPLEMENTED
    assert backend.ran == []


def test_a_message_that_does_not_come_ends_its_call(backend: CannedBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "MESSAGE_SECONDS", 0.0)
    with serving(backend) as server, GrpcClient.to(server.uri) as client:
        with silence() as messages:
            code, _ = refused(client.call("DoExchange", messages))
        assert code is CODE.CANCELLED


def test_calls_are_bounded(slow: SlowBackend) -> None:
    with serving(slow, threads=2) as server, GrpcClient.to(server.uri) as client:
        waiting = [client.call("GetFlightInfo", [DESCRIPTOR]) for _ in range(2)]
        assert slow.is_begun.wait(PATIENCE)
        for _ in range(200):
            code, _ = refused(client.call("GetSchema", [b"\xff"]))
            if code is CODE.RESOURCE_EXHAUSTED:
                break
        assert code is CODE.RESOURCE_EXHAUSTED
        slow.go.set()
        assert [len(list(each)) for each in waiting] == [1, 1]


@dataclass(slots=True)
class WatchedBackend(CannedBackend):
    """Makes rows one message after another, and says which of them are still there."""

    made: list[weakref.ref[pa.RecordBatch]] = field(default_factory=list)

    def read(self, caller: Caller, payload: bytes) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            for _ in range(64):
                batch = pa.record_batch({"x": [b"x" * (1 << 20)]})
                self.made.append(weakref.ref(batch))
                yield batch

        return pa.RecordBatchReader.from_batches(pa.schema({"x": pa.binary()}), batches())


def test_a_client_that_leaves_ends_its_stream_and_frees_its_rows() -> None:
    backend = WatchedBackend(queries={"SELECT many": pa.table({"x": [b""]})})
    with serving(backend) as server, GrpcClient.to(server.uri) as client:
        (endpoint,) = client.info("SELECT many").endpoints
        gc.collect()
        before = len(frames())
        gc.disable()
        try:
            for _ in range(5):
                answers = client.call("DoGet", [endpoint.ticket.serialize()])
                next(answers)
                answers.cancel()  # type: ignore[attr-defined]
                assert wait(lambda: len(server._served.in_flight) == 0)
            # What is left when a call has ended waits for no collection of garbage.
            assert wait(lambda: all(batch() is None for batch in backend.made))
            assert len(frames()) <= before
        finally:
            gc.enable()


def frames() -> list[str]:
    """The functions of the server whose frames are held: with each of them, the message that it has sent."""
    return [
        found.f_code.co_name
        for found in gc.get_objects()
        if isinstance(found, types.FrameType) and found.f_code.co_filename == grpc_server.__file__
    ]


def wait(is_so: Callable[[], bool]) -> bool:
    for _ in range(int(PATIENCE * 100)):
        if is_so():
            return True
        threading.Event().wait(0.01)
    return False
