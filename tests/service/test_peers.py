"""Servers over one root that know of each other: system tables, KILL and CancelFlightInfo reach all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.backend_values import PeerOperation, PeerRequest
from lance_flight.catalog.bulk.pieces import processes
from lance_flight.catalog.commits.writer import write_memory
from lance_flight.catalog.storage.durability import durability
from lance_flight.catalog.storage.store import caches
from lance_flight.config import ServerConfig
from lance_flight.errors import InvalidInput
from lance_flight.flight.peers import (
    ACTION,
    HEADER,
    SILENT_SECONDS,
    VALID_SECONDS,
    FlightPeers,
    Neighbours,
    seal_request,
)
from lance_flight.flight.protocol import flight_actions_pb2 as pb
from lance_flight.flight.tickets import TicketSealer
from lance_flight.flight.wire import GetTableTypes
from lance_flight.serving import service
from lance_flight.serving.replicas import free_ports
from pyarrow import flight

from tests.engine.waiting import until
from tests.flight.certificates import authority
from tests.flight.statements import cancel, descriptor, planned, reader
from tests.service.server_process import PRIVATE, Server, serving

LONG = "SELECT count(*) FROM generate_series(1, 100000000000)"
TABLE_TYPES = descriptor(GetTableTypes())
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


def waiting(server: Server, sql: str) -> list[str]:
    """The ids of the statements with a text, as one server lists them."""
    return [row[0] for row in server.rows("SELECT id FROM system.queries WHERE sql = ?", [sql])]


def test_what_runs_anywhere_is_listed_though_a_server_is_not_there(servers: list[Server]) -> None:
    info = planned(servers[0].client, f"{LONG} -- listed")
    found = [waiting(each, f"{LONG} -- listed") for each in servers]
    assert found[0] == found[1]
    assert len(found[0]) == 1
    assert len(servers[1].rows("SELECT id FROM system.sessions")) == len(
        servers[0].rows("SELECT id FROM system.sessions")
    )
    assert info.endpoints


def test_ended_statements_of_all_are_remembered(servers: list[Server]) -> None:
    servers[0].query("SELECT 1 AS ended_there")
    assert servers[1].value("SELECT count(*) FROM system.statements WHERE sql = 'SELECT 1 AS ended_there'") >= 1


def test_each_server_that_answers_is_listed(servers: list[Server]) -> None:
    listed = [server.rows("SELECT id, process, release FROM system.servers ORDER BY id") for server in servers]
    assert listed[0] == listed[1]
    assert len({process for _, process, _ in listed[0]}) == 2


def test_kill_reaches_a_statement_of_another_server(servers: list[Server]) -> None:
    sql = f"{LONG} -- killed"
    info = planned(servers[0].client, sql)
    (statement,) = waiting(servers[1], sql)
    assert servers[1].run(f"KILL '{statement}'") == 1
    with pytest.raises(Exception, match=r"\[cancelled\]"):
        servers[0].client.do_get(info.endpoints[0].ticket).read_all()
    assert waiting(servers[1], sql) == []
    assert "[not_found] no statement 'none'" in servers[1].refuses("KILL 'none'")


def test_a_query_is_cancelled_wherever_it_is_read(servers: list[Server]) -> None:
    info = planned(servers[0].client, f"{LONG} -- cancelled")
    assert cancel(servers[1].client, info) == pb.CANCEL_STATUS_CANCELLED
    for server in servers:
        with pytest.raises(Exception, match=r"\[cancelled\]"):
            server.client.do_get(info.endpoints[0].ticket).read_all()


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
    with pytest.raises(flight.FlightUnauthorizedError, match="asks for nothing but the action"):
        planned(servers[0].client, "SELECT 1", options)
    with pytest.raises(Exception, match="PeerRequest"):
        list(servers[0].client.do_action(flight.Action(ACTION, b"")))


@pytest.mark.parametrize("peers", ["127.0.0.1:1", "http://a:1", "grpc://a", "grpc://a:1, b:2"])
def test_an_address_of_another_form_is_refused(peers: str) -> None:
    with pytest.raises(InvalidInput, match=r"expected grpc://host:port"):
        ServerConfig(peers=peers).check()


@dataclass
class Certified:
    """The files of certificates that servers and clients have, and the authority that has signed the newest."""

    place: Path
    ca: bytes = b""

    def sign(self) -> None:
        """Replace the authority, and the certificate that it has signed."""
        signing = authority()
        signing.signs_a_server().write(self.place / "certificate", self.place / "key")
        (self.place / "authority").write_bytes(signing.pem)
        self.ca = signing.pem

    @property
    def options(self) -> list[str]:
        names = {"certificate": "certificate", "key": "key", "client-ca": "authority"}
        return [text for name, file in names.items() for text in (f"--tls-{name}", str(self.place / file))]

    def connect(self, uri: str) -> flight.FlightClient:
        certificate, key = ((self.place / name).read_bytes() for name in ("certificate", "key"))
        return flight.connect(uri, tls_root_certs=self.ca, cert_chain=certificate, private_key=key)

    def is_reached(self, uri: str) -> bool:
        try:
            with self.connect(uri) as client:
                # Not ListActions: pyarrow interrupts this process where that is cancelled, as by a server that is stopping.
                return client.get_flight_info(TABLE_TYPES, flight.FlightCallOptions(timeout=5)) is not None
        except flight.FlightError:
            return False

    def is_listed(self, asked: str, asking: str, sql: str) -> bool:
        """Whether a statement of one server is listed by another one."""
        with self.connect(asked) as client:
            reader(client, sql).read_all()
        with self.connect(asking) as client:
            return sql in reader(client, "SELECT sql FROM system.statements").read_all().column(0).to_pylist()


def test_a_renewed_certificate_and_authority_are_used_between_servers(tmp_path: Path) -> None:
    """Each asks the other with the certificate, and expects that of the authority, that its files have now."""
    certified, ports = Certified(tmp_path), free_ports(2)
    certified.sign()
    uris = [f"grpc+tls://127.0.0.1:{port}" for port in ports]
    with ExitStack() as stack:
        for port, other in zip(ports, reversed(uris), strict=True):
            options = ("--port", str(port), "--peers", other, *certified.options)
            stack.enter_context(serving(tmp_path / "root", *options))
        assert certified.is_listed(*uris, "SELECT 1 AS over_there")
        certified.sign()
        until(lambda: all(map(certified.is_reached, uris)))
        until(lambda: certified.is_listed(*uris, "SELECT 2 AS over_there"))


SECRET = bytes(range(32))


@pytest.fixture(scope="module")
def shared_values() -> Iterator[None]:
    """What a server sets for all of its process is afterwards as it was before."""
    places = [
        (durability, "mode"),
        (caches, "indices"),
        (caches, "metadata"),
        (processes, "least"),
        (write_memory, "total"),
        (write_memory, "per_write"),
    ]
    with pytest.MonkeyPatch.context() as patched:
        for owner, name in places:
            patched.setattr(owner, name, getattr(owner, name))
        yield


@pytest.fixture(scope="module")
def machines(shared_values: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[list[Server]]]:
    """Two machines of two servers each, which know of the other machine the address of its first server alone, as of a load balancer."""
    place = tmp_path_factory.mktemp("machines")
    root, key = place / "root", place / "key"
    key.write_bytes(SECRET)
    key.chmod(0o600)
    ports = free_ports(4)
    uris = [f"grpc://127.0.0.1:{port}" for port in ports]
    with ExitStack() as stack:
        built = [service.build(str(root), ServerConfig(
            port=port, ticket_key_file=str(key), peers=uris[2 if number < 2 else 0],
        ), create=True, neighbours=Neighbours("one" if number < 2 else "two", (uris[number ^ 1],)))
            for number, port in enumerate(ports)]  # fmt: skip
        for each in built:
            stack.callback(each.server.shutdown)
        servers = [Server(root, uri, None) for uri in uris]  # type: ignore[arg-type]
        for server in servers:
            stack.callback(server.close)
        yield [servers[:2], servers[2:]]


def test_all_replicas_of_another_machine_are_reached_by_its_one_address_and_each_once(
    machines: list[list[Server]],
) -> None:
    servers = [*machines[0], *machines[1]]
    texts = {f"SELECT {number} AS of_each" for number in range(4)}
    for server, sql in zip(servers, sorted(texts), strict=True):
        server.query(sql)
    for asking in servers:
        listed = asking.rows("SELECT id, sql FROM system.statements WHERE sql LIKE 'SELECT _ AS of_each'")
        assert {sql for _, sql in listed} == texts
        assert len(listed) == len(set(listed)), "none is listed twice"


def test_a_statement_of_any_replica_of_another_machine_is_killed_and_cancelled(machines: list[list[Server]]) -> None:
    here, there = machines
    info = planned(there[1].client, f"{LONG} -- far")
    (statement,) = waiting(here[1], f"{LONG} -- far")
    assert here[1].run(f"KILL '{statement}'") == 1
    with pytest.raises(Exception, match=r"\[cancelled\]"):
        there[1].client.do_get(info.endpoints[0].ticket).read_all()
    again = planned(there[1].client, f"{LONG} -- farther")
    assert cancel(here[0].client, again) == pb.CANCEL_STATUS_CANCELLED
    with pytest.raises(Exception, match=r"\[cancelled\]"):
        there[1].client.do_get(again.endpoints[0].ticket).read_all()


def test_a_machine_that_asks_itself_has_nothing_to_say(tmp_path: Path) -> None:
    """As where a name stands for all servers, the one that asks among them."""
    (port,) = free_ports(1)
    with serving(tmp_path / "root", "--port", str(port), "--peers", f"dns+grpc://localhost:{port}") as server:
        server.query("SELECT 1 AS once")
        listed = [row[0] for row in server.rows("SELECT id FROM system.statements")]
        assert len(listed) == len(set(listed)) > 0
        assert "[not_found] no statement 'none'" in server.refuses("KILL 'none'")


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
