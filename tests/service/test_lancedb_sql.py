"""The SQL endpoint of a real server: LanceDB's own client, ADBC's incremental execution, policies, and clients without rights."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import lance
import lancedb
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from lance_flight.serving.replicas import free_ports
from pyarrow import flight

from tests.documents import blocks
from tests.flight.certificates import authority
from tests.flight.grpc_client import GrpcClient, refused, statement
from tests.service.principals import BEARER, token_of, tokens_file
from tests.service.replicated import replicated
from tests.service.server_process import Server, serving

POLICIES = """
[roles.owner]
members = ["owner"]
grants = ["ALL ON *"]

[roles.tenants]
members = ["alice", "bob"]
grants = ["SELECT ON events WHERE tenant = CURRENT_USER", "SELECT (id, concat('***', right(phone, 4)) AS phone) ON people"]
"""
INCREMENTAL = "adbc.statement.exec.incremental"
SLOW = "SELECT sum(sin(a.value) * sin(b.value)) AS s FROM generate_series(1, 2000000000) AS a, generate_series(1, 1000) AS b"


@dataclass(frozen=True)
class Endpoint:
    """A server, and the address of its SQL endpoint."""

    server: Server
    uri: str

    def lancedb(self, name: str = "alice") -> lancedb.DBConnection:
        return lancedb.connect(
            "db://lake", api_key=token_of(name), host_override="http://127.0.0.1:1", sql_host_override=self.uri
        )

    def client(self, name: str = "alice") -> GrpcClient:
        return GrpcClient.to(self.uri, [("x-api-key", token_of(name))])


@contextmanager
def serving_sql(root: Path, *arguments: str, scheme: str = "grpc") -> Iterator[Endpoint]:
    (port,) = free_ports(1)
    with serving(root, "--lancedb-sql-port", str(port), *arguments) as server:
        yield Endpoint(server, f"{scheme}://127.0.0.1:{port}")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    place = tmp_path_factory.mktemp("lancedb")
    tokens, policies = tokens_file(place / "tokens", ("alice", "bob", "owner")), place / "policies"
    policies.write_text(POLICIES)
    with serving_sql(place / "root", "--tokens-file", tokens, "--policy-file", str(policies)) as found:
        owner = found.lancedb("owner")
        for sql in (
            "CREATE TABLE events (tenant VARCHAR, n BIGINT) PARTITIONED BY (tenant)",
            "INSERT INTO events VALUES ('alice', 1), ('alice', 2), ('bob', 777)",
            "CREATE TABLE people (id BIGINT, phone VARCHAR)",
            "INSERT INTO people VALUES (1, '5550001')",
            "CREATE SCHEMA other",
            "CREATE TABLE other.events (n BIGINT)",
            "INSERT INTO other.events VALUES (42)",
            "CREATE TABLE flights (origin VARCHAR)",
            "INSERT INTO flights VALUES ('JFK'), ('EWR'), ('JFK')",
        ):
            assert owner.execute_query(sql).read_all().num_rows == 0
        yield found


def test_lancedb_reads_rows_and_the_server_remembers_nothing_twice(endpoint: Endpoint) -> None:
    owner = endpoint.lancedb("owner")
    expected = [{"tenant": "alice", "n": 1}, {"tenant": "alice", "n": 2}, {"tenant": "bob", "n": 777}]
    assert owner.execute_query("SELECT * FROM events ORDER BY n").read_all().to_pylist() == expected
    named = owner.execute_query("SELECT n FROM events", default_namespace_path=["other"])
    assert named.read_all().to_pylist() == [{"n": 42}]
    # The name of a schema in one call is no setting of the next.
    assert owner.execute_query("SELECT count(*) AS n FROM events").read_all().to_pylist() == [{"n": 3}]


async def _asked(uri: str) -> tuple[pa.Table, str]:
    connected = await lancedb.connect_async(
        "db://lake", api_key=token_of("owner"), host_override="http://127.0.0.1:1", sql_host_override=uri
    )
    begun = await connected.execute_query_async("SELECT n FROM events ORDER BY n")
    batches = [batch async for batch in await begun.reader()]
    return pa.Table.from_batches(batches), str((await begun.describe()).status)


def test_lancedb_reads_rows_asynchronously(endpoint: Endpoint) -> None:
    table, status = asyncio.run(_asked(endpoint.uri))
    assert (table["n"].to_pylist(), status) == ([1, 2, 777], "finished")


REFUSED = {
    "a table of others": ("SELECT * FROM other.events", None, "not_found"),
    "a name that is not there": ("SELECT nothing FROM events", None, "invalid_sql"),
    "no SQL": ("SELEC", None, "invalid_sql"),
    "a path of two": ("SELECT 1", ["a", "b"], "invalid_input"),
    "a change": ("INSERT INTO events VALUES ('alice', 3)", None, "refused"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_lancedb_gets_the_error(endpoint: Endpoint, name: str) -> None:
    sql, path, code = REFUSED[name]
    with pytest.raises(RuntimeError, match=rf"\[{code}\]"):
        endpoint.lancedb().execute_query(sql, default_namespace_path=path)


def test_policies_and_masks_are_those_of_the_main_port(endpoint: Endpoint) -> None:
    alice = endpoint.lancedb()
    assert alice.execute_query("SELECT n FROM events ORDER BY n").read_all()["n"].to_pylist() == [1, 2]
    assert alice.execute_query("SELECT * FROM people").read_all().to_pylist() == [{"id": 1, "phone": "***0001"}]
    with endpoint.client() as client:
        parameters = pa.record_batch({"1": ["bob"]})
        assert client.exchange("SELECT count(*) AS n FROM events WHERE tenant = ?", parameters).to_pylist() == [
            {"n": 0}
        ]
        assert client.exchange("SELECT phone FROM people WHERE id = ?", pa.record_batch({"1": [1]}))[
            "phone"
        ].to_pylist() == ["***0001"]


def test_lancedb_cancels_a_query(endpoint: Endpoint) -> None:
    begun = endpoint.lancedb("owner").execute_query_async(SLOW)
    begun.cancel()
    with pytest.raises(RuntimeError, match=r"cancelled"):
        begun.reader().read_all()
    with GrpcClient.to(endpoint.uri, [("x-api-key", token_of("owner"))]) as client:
        info = client.info(SLOW)
        answer = client.call("DoGet", [info.endpoints[0].ticket.serialize()])
        assert client.cancel(info.serialize()) in {1, 2}
        code, said = refused(answer)
        assert (code, "cancelled" in said) == (grpc.StatusCode.CANCELLED, True)


def test_adbc_executes_incrementally(endpoint: Endpoint) -> None:
    options = {BEARER: f"Bearer {token_of('owner')}"}
    with dbapi.connect(endpoint.uri, db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{INCREMENTAL: "true"})
        partitions, schema = cursor.adbc_execute_partitions("SELECT n FROM events WHERE n > ?", (1,))
        assert schema.names == ["n"]
        found = []
        while partitions:
            for partition in partitions:
                with connection.cursor() as reading:
                    reading.adbc_read_partition(partition)
                    found += [n for (n,) in reading.fetchall()]
            partitions, _ = cursor.adbc_execute_partitions("SELECT n FROM events WHERE n > ?", (1,))
        assert sorted(found) == [2, 777]
        assert cursor.adbc_statement.get_option_float("adbc.statement.exec.progress") == 0.0


def test_the_examples_of_the_page_run(endpoint: Endpoint) -> None:
    names: dict[str, Any] = {}
    for code in blocks("server/docs/lancedb-sql.md", "python"):
        exec(code.replace("A-TOKEN", token_of("owner")).replace("grpc://127.0.0.1:10025", endpoint.uri), names)  # noqa: S102 - our own text
    assert dict(zip(*names["counts"].to_pydict().values(), strict=True)) == {"JFK": 2, "EWR": 1}
    assert (len(names["partitions"]), names["schema"].names) == (1, ["origin"])


def test_tickets_and_statements_are_their_principals_own(endpoint: Endpoint) -> None:
    with endpoint.client("owner") as owner, endpoint.client("bob") as bob:
        info = owner.info("SELECT n FROM events")
        (ticket,) = [each.ticket for each in info.endpoints]
        code, _ = refused(bob.call("DoGet", [ticket.serialize()]))
        assert code is grpc.StatusCode.PERMISSION_DENIED
        assert (
            refused(bob.call("PollFlightInfo", [statement("SELECT * FROM other.events").serialize()]))[0]
            is grpc.StatusCode.NOT_FOUND
        )
        # The main port reads it, for its principal.
        token = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token_of('owner')}".encode())])
        assert endpoint.server.client.do_get(ticket, token).read_all().num_rows == 3


def test_calls_are_encrypted_with_the_certificate_of_the_server(tmp_path: Path) -> None:
    signer = authority()
    paths = tmp_path / "server.pem", tmp_path / "server.key"
    signer.signs_a_server().write(*paths)
    encryption = "--tls-certificate", str(paths[0]), "--tls-key", str(paths[1])
    with serving_sql(tmp_path / "root", *encryption, scheme="grpc+tls") as endpoint:
        address = endpoint.uri.partition("://")[2]
        shown = grpc.ssl_channel_credentials(signer.pem)
        with GrpcClient(grpc.secure_channel(address, shown)) as client:
            assert client.rows("SELECT 1 AS n") == [{"n": 1}]
        with GrpcClient(grpc.insecure_channel(address)) as client, pytest.raises(grpc.RpcError):
            client.rows("SELECT 1 AS n")
        # Another certificate takes its place while the server runs.
        renewed = authority("another authority")
        renewed.signs_a_server().write(*paths)
        assert any(_trusts(address, renewed.pem) for _ in range(100))


def _trusts(address: str, authorities: bytes) -> bool:
    shown = grpc.ssl_channel_credentials(authorities)
    options = [("grpc.use_local_subchannel_pool", 1)]
    with GrpcClient(grpc.secure_channel(address, shown, options=options)) as client:
        try:
            grpc.channel_ready_future(client.channel).result(0.2)
        except grpc.FutureTimeoutError:
            return False
        return True


@pytest.mark.parametrize("is_encrypted", [pytest.param(False, marks=pytest.mark.full), True])
def test_replicas_answer_at_one_address_for_each_port(tmp_path: Path, *, is_encrypted: bool) -> None:
    rest, sql = free_ports(2)
    arguments = ["--rest-port", str(rest), "--lancedb-sql-port", str(sql)]
    scheme, options, credentials = "http", {}, None
    if is_encrypted:
        trusted, paths = authority(), (tmp_path / "server.pem", tmp_path / "server.key")
        trusted.signs_a_server().write(*paths)
        (tmp_path / "ca.pem").write_bytes(trusted.pem)
        arguments += ["--tls-certificate", str(paths[0]), "--tls-key", str(paths[1])]
        scheme, options = "https", {"client_config": {"tls_config": {"ssl_ca_cert": str(tmp_path / "ca.pem")}}}
        credentials = grpc.ssl_channel_credentials(trusted.pem)

    def client() -> GrpcClient:
        own = [("grpc.use_local_subchannel_pool", 1)]  # each has a connection of its own
        target = f"127.0.0.1:{sql}"
        insecure = credentials is None
        return GrpcClient(
            grpc.insecure_channel(target, own) if insecure else grpc.secure_channel(target, credentials, own)
        )

    with replicated(tmp_path / "place", *arguments) as running:
        running.until(f"REST catalog at {scheme}://127.0.0.1:{rest}")
        address = f"{scheme}://127.0.0.1:{rest}"
        db = lancedb.connect("db://lake", api_key="any", host_override=address, **options)
        table = db.create_table("t", [{"n": n, "v": [float(n), 1.0]} for n in range(10)])
        for n in range(4):
            table.add([{"n": 10 + n, "v": [0.0, 0.0]}])
            assert table.count_rows() == 11 + n
        assert [row["n"] for row in table.search([3.0, 1.0]).limit(1).to_list()] == [3]
        assert lance.dataset(str(running.root / "t.lance")).count_rows() == 14
        for n in range(3):
            # A statement outlives its connection, and another one finds it, whatever replica has fewer calls.
            with client() as first, client() as second:
                begun = first.poll(statement(f"CREATE TABLE slow{n} AS {SLOW}"))
                assert begun.HasField("flight_descriptor")
                assert second.cancel(begun.info) in {1, 2}
        with client() as first:
            assert first.rows("SELECT count(*) AS n FROM t") == [{"n": 14}]
