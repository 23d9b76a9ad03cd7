"""The dispatch over the wire, with pyarrow's own client."""

from __future__ import annotations

import grpc
import pyarrow as pa
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from lance_flight.backend_values import IfExists
from lance_flight.errors import Conflict
from lance_flight.flight import wire
from lance_flight.flight.backend import IfNotExists, IngestTarget
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.server import FlightSqlServer
from lance_flight.flight.wire import Command, encode_command
from pyarrow import flight

from tests.flight.flight_backend import ECHO, ECHO_PARAMETERS, KEY, NUMBERS, PLAN, PLAN_TEXT, CannedBackend, Ran
from tests.flight.handshakes import Unanswered
from tests.flight.statements import SELECT, act, asking, begin, bind, count, descriptor, prepare, put, read


def put_without_schema(server: FlightSqlServer, command: Command) -> list[bytes]:
    """The answers to a DoPut that carries a descriptor and nothing else, as clients send an update."""
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        message = descriptor(command).serialize()
        head = b"\x0a" + bytes([len(message) & 0x7F | 0x80, len(message) >> 7])  # FlightData.flight_descriptor
        stream = channel.stream_stream("/arrow.flight.protocol.FlightService/DoPut")
        put_results = list(stream(iter([head + message]), timeout=10))
    return [result[2:] for result in put_results]  # PutResult.app_metadata


def test_a_query_is_planned_in_get_flight_info_and_read_in_do_get(
    client: flight.FlightClient, backend: CannedBackend
) -> None:
    info = client.get_flight_info(descriptor(SELECT))
    assert (info.total_records, info.ordered, len(info.endpoints)) == (4, True, 1)
    assert info.descriptor == descriptor(SELECT)
    assert read(client, info).equals(NUMBERS)
    assert backend.ran == [Ran(sql="SELECT numbers")]


def test_one_schema_everywhere(client: flight.FlightClient, backend: CannedBackend) -> None:
    odd = pa.schema(
        [
            pa.field("word", pa.string_view(), nullable=False, metadata={"k": "v"}),
            pa.field("kind", pa.dictionary(pa.int8(), pa.utf8())),
        ]
    )
    backend.queries["SELECT odd"] = pa.table([["x"], ["y"]], schema=odd)
    plain = pa.schema([odd.field("word").with_type(pa.utf8()), pa.field("kind", pa.utf8())])
    command = wire.StatementQuery(query="SELECT odd")
    info = client.get_flight_info(descriptor(command))
    prepared = prepare(client, "SELECT odd")
    schemas = {
        "FlightInfo": info.schema,
        "GetSchema": client.get_schema(descriptor(command)).schema,
        "prepared": pa.ipc.read_schema(pa.py_buffer(prepared.dataset_schema)),
        "DoGet": client.do_get(info.endpoints[0].ticket).schema,
    }
    assert {name: schema.equals(plain, check_metadata=True) for name, schema in schemas.items()} == dict.fromkeys(
        schemas, True
    )
    assert read(client, info).to_pylist() == [{"word": "x", "kind": "y"}]


def test_endpoints_have_no_location(client: flight.FlightClient) -> None:
    assert client.get_flight_info(descriptor(SELECT)).endpoints[0].locations == []


def test_endpoints_have_the_advertised_location(backend: CannedBackend) -> None:
    with (
        FlightSqlServer(backend, KEY, advertise=["grpc+tls://lance.example:443"]) as server,
        flight.connect(server.uri) as client,
    ):
        (endpoint,) = client.get_flight_info(descriptor(SELECT)).endpoints
        assert endpoint.locations == [flight.Location("grpc+tls://lance.example:443")]


def test_a_client_may_ask_for_several_endpoints(client: flight.FlightClient, backend: CannedBackend) -> None:
    info = client.get_flight_info(descriptor(SELECT), asking("lance-flight-endpoints", "3"))
    assert len(info.endpoints) == 3
    assert backend.ran == [Ran(sql="SELECT numbers", endpoints=3)]
    assert read(client, info).equals(NUMBERS)


BAD_HEADERS = {
    "no number": ("lance-flight-endpoints", "many", "header lance-flight-endpoints is 'many'; expected a number"),
    "none": ("lance-flight-endpoints", "0", "header lance-flight-endpoints is '0'; expected a number from 1 to 256"),
    "too many": ("lance-flight-endpoints", "257", "expected a number from 1 to 256"),
    "codec": ("lance-flight-compression", "gzip", "is 'gzip'; expected none, lz4 or zstd"),
}


@pytest.mark.parametrize(("name", "value", "message"), BAD_HEADERS.values(), ids=BAD_HEADERS.keys())
def test_a_header_that_makes_no_sense_is_refused(
    client: flight.FlightClient, name: str, value: str, message: str
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=message):
        client.get_flight_info(descriptor(SELECT), asking(name, value))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_record_batches_are_compressed_when_the_client_asks(
    server: FlightSqlServer, client: flight.FlightClient, backend: CannedBackend, codec: str
) -> None:
    backend.queries["SELECT numbers"] = pa.table({"n": pa.array([7] * 100_000)})
    ticket = client.get_flight_info(descriptor(SELECT)).endpoints[0].ticket
    rows = client.do_get(ticket, asking("lance-flight-compression", codec)).read_all()
    assert rows.equals(backend.queries["SELECT numbers"])
    assert bytes_on_the_wire(server, ticket, codec) * 10 < bytes_on_the_wire(server, ticket, "none")


def bytes_on_the_wire(server: FlightSqlServer, ticket: flight.Ticket, codec: str) -> int:
    """The length of all FlightData messages of a DoGet."""
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stream = channel.unary_stream("/arrow.flight.protocol.FlightService/DoGet")
        return sum(map(len, stream(ticket.serialize(), metadata=[("lance-flight-compression", codec)], timeout=10)))


def test_a_large_result_comes_in_small_messages(client: flight.FlightClient, backend: CannedBackend) -> None:
    backend.queries["SELECT numbers"] = pa.table({"n": pa.array(range(1_000_000))})
    info = client.get_flight_info(descriptor(SELECT))
    sizes = [chunk.data.nbytes for chunk in client.do_get(info.endpoints[0].ticket)]
    assert len(sizes) > 2
    assert max(sizes) <= 3 << 20


def test_a_statement_without_rows_runs_once_in_get_flight_info(
    client: flight.FlightClient, backend: CannedBackend
) -> None:
    backend.updates["DELETE"] = 7
    command = wire.StatementQuery(query="DELETE")
    assert len(client.get_schema(descriptor(command)).schema) == 0
    assert backend.ran == []
    info = client.get_flight_info(descriptor(command))
    assert (len(info.schema), info.total_records) == (0, 7)
    assert [read(client, info).num_rows, read(client, info).num_rows] == [0, 0]
    assert backend.ran == [Ran(sql="DELETE")]


def test_the_transaction_id_comes_along(client: flight.FlightClient, backend: CannedBackend) -> None:
    client.get_flight_info(descriptor(wire.StatementQuery(query="SELECT numbers", transaction_id=b"tx")))
    assert backend.ran == [Ran(sql="SELECT numbers", transaction=b"tx")]


def test_the_backend_learns_who_calls_from_where(client: flight.FlightClient, backend: CannedBackend) -> None:
    client.get_schema(descriptor(SELECT))
    (caller,) = backend.callers
    assert caller.principal == "anonymous"
    assert caller.peer.startswith("ipv4:127.0.0.1:")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (wire.StatementUpdate(query="DELETE"), "DELETE"),
        (wire.StatementSubstraitPlan(plan=PLAN), PLAN_TEXT),
    ],
    ids=["an update", "a plan"],
)
def test_an_update_is_a_put_without_a_schema(
    server: FlightSqlServer, backend: CannedBackend, command: wire.Statement, text: str
) -> None:
    backend.updates[text] = 7
    (answer,) = put_without_schema(server, command)
    assert count(answer) == 7
    assert backend.ran == [Ran(sql=text)]


def test_a_query_sent_as_an_update_is_refused(client: flight.FlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"\[invalid_input\] a query was sent as an update"):
        put(client, wire.StatementUpdate(query="SELECT numbers"), pa.table({}))


def test_preparing_runs_nothing_and_tells_queries_from_updates(
    client: flight.FlightClient, backend: CannedBackend
) -> None:
    backend.updates["DELETE $1"] = 1
    query, update = prepare(client, ECHO), prepare(client, "DELETE $1")
    assert backend.ran == []
    assert (query.is_update, update.is_update) == (False, True)
    assert update.HasField("is_update")
    assert query.HasField("is_update")
    assert update.dataset_schema == b""
    assert pa.ipc.read_schema(pa.py_buffer(query.dataset_schema)) == ECHO_PARAMETERS
    assert pa.ipc.read_schema(pa.py_buffer(update.parameter_schema)) == ECHO_PARAMETERS


def one_row(number: int, word: str) -> pa.Table:
    return pa.table([[number], [word]], schema=ECHO_PARAMETERS)


def run(client: flight.FlightClient, handle: bytes) -> list[dict[str, object]]:
    info = client.get_flight_info(descriptor(wire.PreparedStatementQuery(prepared_statement_handle=handle)))
    rows: list[dict[str, object]] = read(client, info).to_pylist()
    return rows


def test_binding_answers_a_new_handle_that_carries_the_parameters(
    client: flight.FlightClient, backend: CannedBackend
) -> None:
    first = prepare(client, ECHO).prepared_statement_handle
    second = bind(client, first, one_row(1, "a"))
    with FlightSqlServer(backend, KEY) as another, flight.connect(another.uri) as elsewhere:
        assert run(elsewhere, second) == [{"1": 1, "2": "a"}]
        third = bind(elsewhere, second, one_row(2, "b"))
    assert run(client, third) == [{"1": 2, "2": "b"}]
    assert run(client, second) == [{"1": 1, "2": "a"}]


def test_a_client_that_keeps_the_old_handle_is_understood(client: flight.FlightClient) -> None:
    one, other = prepare(client, ECHO).prepared_statement_handle, prepare(client, ECHO).prepared_statement_handle
    bind(client, one, one_row(1, "a"))
    bind(client, other, one_row(2, "b"))
    assert (run(client, one), run(client, other)) == ([{"1": 1, "2": "a"}], [{"1": 2, "2": "b"}])
    bind(client, one, one_row(3, "c"))
    assert run(client, one) == [{"1": 3, "2": "c"}]


def test_closing_forgets_what_was_bound(client: flight.FlightClient, backend: CannedBackend) -> None:
    backend.updates["DELETE $1"] = 1
    handle = prepare(client, "DELETE $1").prepared_statement_handle
    bind(client, handle, one_row(1, "a"))
    assert act(client, wire.ClosePreparedStatement(prepared_statement_handle=handle)) == []
    run(client, handle)
    assert backend.ran == [Ran(sql="DELETE $1")]


def test_binding_nothing_is_refused(server: FlightSqlServer, client: flight.FlightClient) -> None:
    handle = prepare(client, ECHO).prepared_statement_handle
    with pytest.raises(grpc.RpcError) as caught:
        put_without_schema(server, wire.PreparedStatementQuery(prepared_statement_handle=handle))
    assert caught.value.details().startswith("[22023] [invalid_input] no parameters to bind")


def test_a_prepared_statement_without_rows_runs_each_time_it_is_asked_for(
    client: flight.FlightClient, backend: CannedBackend
) -> None:
    backend.updates["DELETE $1"] = 1
    handle = bind(client, prepare(client, "DELETE $1").prepared_statement_handle, one_row(1, "a"))
    run(client, handle)
    run(client, handle)
    assert backend.ran == [Ran(sql="DELETE $1", parameters=[{"1": 1, "2": "a"}])] * 2


def test_a_prepared_update_runs_once_for_each_row_of_every_batch(
    client: flight.FlightClient, backend: CannedBackend
) -> None:
    backend.updates["DELETE $1"] = 3
    handle = prepare(client, "DELETE $1").prepared_statement_handle
    command = wire.PreparedStatementUpdate(prepared_statement_handle=handle)
    assert count(put(client, command, pa.concat_tables([one_row(1, "a"), one_row(2, "b")]))) == 6
    assert backend.ran == [Ran(sql="DELETE $1", parameters=[{"1": 1, "2": "a"}, {"1": 2, "2": "b"}])]


@pytest.mark.parametrize("how", ["no schema", "a schema without columns"])
def test_a_prepared_update_may_come_without_parameters(
    server: FlightSqlServer, client: flight.FlightClient, backend: CannedBackend, how: str
) -> None:
    backend.updates["DELETE"] = 3
    handle = prepare(client, "DELETE").prepared_statement_handle
    command = wire.PreparedStatementUpdate(prepared_statement_handle=handle)
    answers = put_without_schema(server, command) if how == "no schema" else [put(client, command, pa.table({}))]
    assert [count(answer) for answer in answers] == [3]
    assert backend.ran == [Ran(sql="DELETE")]


def test_a_prepared_update_uses_what_was_bound_before(client: flight.FlightClient, backend: CannedBackend) -> None:
    backend.updates["DELETE $1"] = 1
    handle = bind(client, prepare(client, "DELETE $1").prepared_statement_handle, one_row(1, "a"))
    put(client, wire.PreparedStatementUpdate(prepared_statement_handle=handle), pa.table({}))
    assert backend.ran == [Ran(sql="DELETE $1", parameters=[{"1": 1, "2": "a"}])]


PARTITIONED_BY_YEAR = {"partition_by": "year(ts)"}


def ingest(if_not_exist: int, if_exists: int, options: dict[str, str] = PARTITIONED_BY_YEAR) -> wire.StatementIngest:
    return wire.StatementIngest(
        table="t",
        table_definition_options=wire.TableDefinitionOptions(if_not_exist=if_not_exist, if_exists=if_exists),
        schema="public",
        catalog="lance",
        temporary=True,
        transaction_id=b"tx",
        options=options,
    )


DEFINITIONS = {
    (1, 1): (IfNotExists.CREATE, IfExists.FAIL),
    (1, 2): (IfNotExists.CREATE, IfExists.APPEND),
    (1, 3): (IfNotExists.CREATE, IfExists.REPLACE),
    (2, 1): (IfNotExists.FAIL, IfExists.FAIL),
    (2, 2): (IfNotExists.FAIL, IfExists.APPEND),
    (2, 3): (IfNotExists.FAIL, IfExists.REPLACE),
}


@pytest.mark.parametrize(("numbers", "expected"), DEFINITIONS.items(), ids=str)
def test_an_ingest_reaches_the_backend_with_all_that_it_says(
    client: flight.FlightClient,
    backend: CannedBackend,
    numbers: tuple[int, int],
    expected: tuple[IfNotExists, IfExists],
) -> None:
    assert count(put(client, ingest(*numbers), NUMBERS)) == 4
    (stored,) = backend.ingested
    assert stored.rows.equals(NUMBERS)
    assert stored.transaction == b"tx"
    assert stored.target == IngestTarget(
        table="t",
        catalog="lance",
        schema="public",
        if_not_exists=expected[0],
        if_exists=expected[1],
        temporary=True,
        options=tuple(PARTITIONED_BY_YEAR.items()),
    )


PARTITIONED = {
    "by the option": (PARTITIONED_BY_YEAR, None, "year(ts)"),
    "by the header": ({}, "bucket(16, id)", "bucket(16, id)"),
    "the option goes before the header": (PARTITIONED_BY_YEAR, "bucket(16, id)", "year(ts)"),
}


@pytest.mark.parametrize(("options", "header", "expected"), PARTITIONED.values(), ids=PARTITIONED.keys())
def test_an_ingest_may_say_how_its_table_is_partitioned(
    client: flight.FlightClient,
    backend: CannedBackend,
    options: dict[str, str],
    header: str | None,
    expected: str,
) -> None:
    command = ingest(1, 1, options)
    headers = None if header is None else asking("lance-flight-partition-by", header)
    assert count(put(client, command, NUMBERS, headers)) == 4
    assert backend.ingested[0].target.options == (("partition_by", expected),)


REFUSED_INGESTS = {
    "if_not_exist unspecified": (
        ingest(0, 1),
        "table_definition_options.if_not_exist is 0; expected one of 1 .create.",
    ),
    "if_exists unspecified": (ingest(1, 0), "table_definition_options.if_exists is 0; expected one of 1 .fail., 2"),
    "if_exists of the future": (ingest(1, 4), "table_definition_options.if_exists is 4"),
    "no options": (wire.StatementIngest(table="t"), "table_definition_options.if_not_exist is 0"),
    "no table": (wire.StatementIngest(table=""), "an ingest names no table"),
}


@pytest.mark.parametrize(("command", "message"), REFUSED_INGESTS.values(), ids=REFUSED_INGESTS.keys())
def test_an_ingest_that_leaves_something_open_is_refused(
    client: flight.FlightClient, backend: CannedBackend, command: wire.StatementIngest, message: str
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=message):
        put(client, command, NUMBERS)
    assert backend.ingested == []


def test_an_ingest_without_a_schema_is_refused(server: FlightSqlServer) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        put_without_schema(server, ingest(1, 1))
    assert caught.value.details().startswith("[22023] [invalid_input] no schema before the rows for table 't'")


def test_an_ingest_that_fails_has_no_result(client: flight.FlightClient, backend: CannedBackend) -> None:
    backend.failures["t"] = Conflict("another writer was first")
    with pytest.raises(flight.FlightServerError, match=r"^\[40001\] \[conflict\] another writer was first"):
        put(client, ingest(1, 1), NUMBERS)


MISPLACED = {
    "an update in GetFlightInfo": (
        lambda client: client.get_flight_info(descriptor(wire.StatementUpdate(query="x"))),
        "StatementUpdate does not belong in GetFlightInfo",
    ),
    "an ingest in GetSchema": (
        lambda client: client.get_schema(descriptor(wire.StatementIngest(table="t"))),
        "StatementIngest does not belong in GetSchema",
    ),
    "a query in DoGet": (
        lambda client: client.do_get(flight.Ticket(encode_command(SELECT))).read_all(),
        "StatementQuery does not belong in DoGet",
    ),
    "a query in DoPut": (lambda client: put(client, SELECT, NUMBERS), "StatementQuery does not belong in DoPut"),
    "a path": (
        lambda client: client.get_flight_info(flight.FlightDescriptor.for_path("flights")),
        "a descriptor of type PATH; expected CMD with a command",
    ),
    "no command at all": (
        lambda client: client.get_schema(flight.FlightDescriptor.for_command(b"\xff")),
        "a command of 1 bytes does not decode as google.protobuf.Any",
    ),
    "a command without its plan": (
        lambda client: client.get_flight_info(descriptor(wire.StatementSubstraitPlan())),
        "the command has no plan; expected a SubstraitPlan",
    ),
    "an altered ticket": (
        lambda client: client.do_get(
            flight.Ticket(encode_command(wire.TicketStatementQuery(statement_handle=b"x" * 40)))
        ).read_all(),
        r"\[invalid_ticket\] a ticket of 40 bytes was not issued",
    ),
    "an altered handle": (
        lambda client: run(client, b"x" * 40),
        r"\[invalid_ticket\] a prepared statement handle of 40 bytes was not issued",
    ),
    "an unknown action": (lambda client: list(client.do_action(("Dance", b""))), "unknown action 'Dance'"),
}


@pytest.mark.parametrize(("attempt", "message"), MISPLACED.values(), ids=MISPLACED.keys())
def test_what_does_not_belong_is_refused(client: flight.FlightClient, attempt: object, message: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match=message):
        attempt(client)  # type: ignore[operator]


def test_only_actions_that_are_offered_are_listed(client: flight.FlightClient) -> None:
    assert [action.type for action in client.list_actions()] == [
        "CreatePreparedStatement",
        "CreatePreparedSubstraitPlan",
        "ClosePreparedStatement",
        "BeginTransaction",
        "EndTransaction",
        "CancelFlightInfo",
        "CancelQuery",
        "RenewFlightEndpoint",
        "SetSessionOptions",
        "GetSessionOptions",
        "CloseSession",
    ]


@pytest.mark.parametrize("action", [1, 2], ids=["commit", "rollback"])
def test_a_transaction_begins_and_ends(client: flight.FlightClient, backend: CannedBackend, action: int) -> None:
    assert begin(client) == b"tx 1"
    assert act(client, wire.EndTransaction(transaction_id=b"tx 1", action=action)) == []
    assert backend.ended == [(b"tx 1", action == 1)]


@pytest.mark.parametrize("action", [1, 2], ids=["release", "rollback"])
def test_a_savepoint_begins_and_ends(client: flight.FlightClient, backend: CannedBackend, action: int) -> None:
    (begun,) = act(client, wire.BeginSavepoint(transaction_id=b"tx 1", name="here"))
    result = pb.ActionBeginSavepointResult.FromString(AnyMessage.FromString(begun).value)
    assert act(client, wire.EndSavepoint(savepoint_id=result.savepoint_id, action=action)) == []
    assert backend.savepoints == [(b"tx 1", "here"), (result.savepoint_id, action == 1)]


@pytest.mark.parametrize("action", [0, 3])
def test_transactions_and_savepoints_end_in_no_other_way(
    client: flight.FlightClient, backend: CannedBackend, action: int
) -> None:
    for end in (
        wire.EndSavepoint(savepoint_id=b"s", action=action),
        wire.EndTransaction(transaction_id=b"tx", action=action),
    ):
        with pytest.raises(pa.ArrowInvalid, match=f"has action {action}; expected 1"):
            act(client, end)
    assert backend.savepoints == backend.ended == []


def test_a_plan_is_planned_and_read_like_a_query(client: flight.FlightClient, backend: CannedBackend) -> None:
    command = wire.StatementSubstraitPlan(plan=PLAN, transaction_id=b"tx")
    info = client.get_flight_info(descriptor(command))
    assert client.get_schema(descriptor(command)).schema == info.schema
    assert read(client, info).equals(NUMBERS)
    assert backend.ran == [Ran(sql=PLAN_TEXT, transaction=b"tx")]


def test_a_plan_is_prepared_like_a_query(client: flight.FlightClient, backend: CannedBackend) -> None:
    (body,) = act(client, wire.CreatePreparedSubstraitPlan(plan=PLAN))
    handle = pb.ActionCreatePreparedStatementResult.FromString(AnyMessage.FromString(body).value)
    assert pa.ipc.read_schema(pa.py_buffer(handle.dataset_schema)) == NUMBERS.schema
    command = wire.PreparedStatementQuery(prepared_statement_handle=handle.prepared_statement_handle)
    assert read(client, client.get_flight_info(descriptor(command))).equals(NUMBERS)
    assert backend.ran == [Ran(sql=PLAN_TEXT)]


def test_a_commit_that_fails_says_why(client: flight.FlightClient, backend: CannedBackend) -> None:
    backend.failures["commit"] = Conflict("somebody was first")
    with pytest.raises(flight.FlightServerError, match=r"\[conflict\] somebody was first"):
        act(client, wire.EndTransaction(transaction_id=b"tx", action=1))
    act(client, wire.EndTransaction(transaction_id=b"tx", action=2))
    assert backend.ended == [(b"tx", False)]


SESSIONS = {
    "a bearer token": ([(b"authorization", b"Bearer secret")], "authorization "),
    "cookies": ([(b"cookie", b"a=1")], "cookie "),
    "both": ([(b"cookie", b"a=1"), (b"authorization", b"Bearer secret")], "authorization "),
    "neither": ([], "peer "),
}


@pytest.mark.parametrize(("headers", "kind"), SESSIONS.values(), ids=SESSIONS.keys())
def test_what_tells_a_session_apart(
    client: flight.FlightClient, backend: CannedBackend, headers: list[tuple[bytes, bytes]], kind: str
) -> None:
    options = flight.FlightCallOptions(headers=headers)
    for _ in range(2):
        client.get_flight_info(descriptor(wire.StatementQuery(query="SELECT numbers")), options)
    first, second = (caller.session for caller in backend.callers)
    assert first == second
    assert first.startswith(kind)
    assert "secret" not in first


@pytest.mark.parametrize("payload", [b"", b"user:secret"], ids=["empty", "with a name"])
def test_a_handshake_is_accepted(client: flight.FlightClient, payload: bytes) -> None:
    client.authenticate(Unanswered(payload))
    assert client.get_flight_info(descriptor(SELECT)).total_records == 4


def test_no_call_is_counted_once_all_have_ended(server: FlightSqlServer, backend: CannedBackend) -> None:
    backend.failures["broken"] = Conflict("x")
    with flight.connect(server.uri) as client:
        read(client, client.get_flight_info(descriptor(SELECT)))
        with pytest.raises(flight.FlightServerError):
            client.get_flight_info(descriptor(wire.StatementQuery(query="broken")))
    server.shutdown()
    assert len(server.in_flight) == 0
