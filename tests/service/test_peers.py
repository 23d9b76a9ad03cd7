"""Servers over one root that know of each other: system tables, KILL and CancelFlightInfo reach all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.backend_values import PeerOperation, PeerRequest
from lance_flight.cli.load_balancer import free_ports
from lance_flight.cli.service import peers_of
from lance_flight.config import ServerConfig
from lance_flight.errors import InvalidInput
from lance_flight.flight.commands import CancelFlightInfo, StatementQuery
from lance_flight.flight.peers import ACTION, HEADER, SILENT_SECONDS, VALID_SECONDS, FlightPeers, seal_request
from lance_flight.flight.protocol import flight_actions_pb2 as pb
from lance_flight.flight.tickets import TicketSealer
from lance_flight.flight.wire import encode_action, encode_command
from pyarrow import flight

from tests.service.server_process import PRIVATE, Server, serving

LONG = "SELECT count(*) FROM generate_series(1, 100000000000)"
ASKED = PeerRequest(operation=PeerOperation.ROWS, subject="queries", principal=None)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    root = tmp_path_factory.mktemp("peers") / "root"
    ports = free_ports(3)
    addresses = [f"grpc://127.0.0.1:{port}" for port in ports]
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                serving(root, "--port", str(port), "--peers", ",".join(each for each in addresses if each != own))
            )
            for port, own in list(zip(ports, addresses, strict=True))[:2]
        ]


def info_of(server: Server, sql: str) -> flight.FlightInfo:
    return server.client.get_flight_info(flight.FlightDescriptor.for_command(encode_command(StatementQuery(query=sql))))


def waiting(server: Server, sql: str) -> list[str]:
    """The ids of the statements with a text, as one server lists them."""
    return [row[0] for row in server.rows("SELECT id FROM system.queries WHERE sql = ?", [sql])]


def test_what_runs_anywhere_is_listed_though_a_server_is_not_there(servers: list[Server]) -> None:
    planned = info_of(servers[0], f"{LONG} -- listed")
    found = [waiting(each, f"{LONG} -- listed") for each in servers]
    assert found[0] == found[1]
    assert len(found[0]) == 1
    assert len(servers[1].rows("SELECT id FROM system.sessions")) == len(
        servers[0].rows("SELECT id FROM system.sessions")
    )
    assert planned.endpoints


def test_ended_statements_of_all_are_remembered(servers: list[Server]) -> None:
    servers[0].query("SELECT 1 AS ended_there")
    assert servers[1].value("SELECT count(*) FROM system.statements WHERE sql = 'SELECT 1 AS ended_there'") >= 1


def test_kill_reaches_a_statement_of_another_server(servers: list[Server]) -> None:
    sql = f"{LONG} -- killed"
    planned = info_of(servers[0], sql)
    (statement,) = waiting(servers[1], sql)
    assert servers[1].run(f"KILL '{statement}'") == 1
    with pytest.raises(Exception, match=r"\[cancelled\]"):
        servers[0].client.do_get(planned.endpoints[0].ticket).read_all()
    assert waiting(servers[1], sql) == []
    assert "[not_found] no statement 'none'" in servers[1].refuses("KILL 'none'")


def test_a_query_is_cancelled_wherever_it_is_read(servers: list[Server]) -> None:
    planned = info_of(servers[0], f"{LONG} -- cancelled")
    request = flight.Action(*encode_action(CancelFlightInfo(info=planned.serialize())))
    (result,) = servers[1].client.do_action(request)
    status = pb.CancelFlightInfoResult.FromString(result.body.to_pybytes()).status
    assert status == pb.CANCEL_STATUS_CANCELLED
    for server in servers:
        with pytest.raises(Exception, match=r"\[cancelled\]"):
            server.client.do_get(planned.endpoints[0].ticket).read_all()


def key_of(server: Server) -> bytes:
    return (Path(server.root) / PRIVATE / "ticket.key").read_bytes()


def ask(server: Server, header: bytes) -> bytes:
    (result,) = server.client.do_action(
        flight.Action(ACTION, b""), flight.FlightCallOptions(headers=[(HEADER.encode(), header)])
    )
    return bytes(result.body.to_pybytes())


def test_a_question_is_answered_by_rows(servers: list[Server]) -> None:
    rows = pa.ipc.open_stream(ask(servers[0], seal_request(TicketSealer(key_of(servers[0])), ASKED, time.time())))
    assert "principal" in rows.read_all().column_names


FORGED = {
    "another key": lambda _: seal_request(TicketSealer(bytes(32)), ASKED, time.time()),
    "old": lambda key: seal_request(TicketSealer(key), ASKED, time.time() - VALID_SECONDS - 1),
    "of tomorrow": lambda key: seal_request(TicketSealer(key), ASKED, time.time() + 86400),
    "no text": lambda _: b"x",
    "nothing": lambda _: b"",
}


@pytest.mark.parametrize("header", FORGED.values(), ids=FORGED)
def test_a_question_of_nobody_is_not_answered(servers: list[Server], header: object) -> None:
    with pytest.raises(flight.FlightUnauthenticatedError, match=HEADER):
        ask(servers[0], header(key_of(servers[0])))  # type: ignore[operator]


def test_a_question_lets_nothing_else_in(servers: list[Server]) -> None:
    header = seal_request(TicketSealer(key_of(servers[0])), ASKED, time.time())
    options = flight.FlightCallOptions(headers=[(HEADER.encode(), header)])
    command = flight.FlightDescriptor.for_command(encode_command(StatementQuery(query="SELECT 1")))
    with pytest.raises(flight.FlightUnauthorizedError, match="asks for nothing but the action"):
        servers[0].client.get_flight_info(command, options)
    with pytest.raises(Exception, match="PeerRequest"):
        list(servers[0].client.do_action(flight.Action(ACTION, b"")))


@pytest.mark.parametrize("peers", ["127.0.0.1:1", "http://a:1", "grpc://a", "grpc://a:1, b:2"])
def test_an_address_of_another_form_is_refused(peers: str) -> None:
    with pytest.raises(InvalidInput, match=r"expected grpc://host:port"):
        peers_of(ServerConfig(peers=peers), TicketSealer(bytes(32)), None)


class Odd(flight.FlightServerBase):  # type: ignore[misc]
    """A server that answers its peers in another way; it counts how often it is asked."""

    def __init__(self, answers: list[bytes]) -> None:
        super().__init__(("127.0.0.1", 0))
        self.answers, self.asked = answers, 0

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        self.asked += 1
        return iter(self.answers)


ODD = {"nothing": [], "two": [b"cancelled", b"cancelled"], "another word": [b"perhaps"], "no text": [b"\xff"]}


@pytest.mark.parametrize("answers", ODD.values(), ids=ODD)
def test_an_odd_answer_is_left_out_and_its_server_left_alone_for_a_while(answers: list[bytes]) -> None:
    moment = [1000.0]
    with Odd(answers) as server:
        address = f"grpc://127.0.0.1:{server.port}"
        peers = FlightPeers(addresses=[address], sealer=TicketSealer(bytes(32)), now=lambda: moment[0])
        assert [*peers.rows("queries", None), *peers.cancel("a", "b")] == []
        assert server.asked == 1
        moment[0] += SILENT_SECONDS
        assert peers.kill("a", None) is None
        assert server.asked == 2
