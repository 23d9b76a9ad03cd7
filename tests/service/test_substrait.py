"""Substrait plans over the wire: as queries, prepared, in transactions and at several endpoints."""

from __future__ import annotations

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from datafusion import SessionContext
from datafusion.substrait import Serde
from lance_flight.flight import wire
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import encode_command
from pyarrow import flight
from substrait.plan_pb2 import Plan

from tests.service.server_process import Server


@pytest.fixture
def plan(server: Server, table: str) -> bytes:
    """A plan that reads a table of ten rows in five partitions, four of them."""
    server.run(f"CREATE TABLE {table} (id bigint, kind bigint) PARTITIONED BY (kind)")
    server.run(f"INSERT INTO {table} VALUES " + ", ".join(f"({n}, {n // 2})" for n in range(10)))
    return planned(server, f"SELECT id FROM {table} WHERE kind > 0", table)


def planned(server: Server, sql: str, table: str) -> bytes:
    context = SessionContext()
    columns = server.query(f"SELECT * FROM {table}").schema
    context.register_record_batches(table, [[pa.RecordBatch.from_pylist([], schema=columns)]])
    return Serde.serialize_bytes(sql, context)


def ids(cursor: dbapi.Cursor, plan: bytes) -> list[int]:
    cursor.execute(plan)
    return sorted(row[0] for row in cursor.fetchall())


def test_a_plan_by_adbc(server: Server, plan: bytes) -> None:
    with server.connection.cursor() as cursor:
        assert ids(cursor, plan) == list(range(2, 10))
        assert cursor.adbc_execute_schema(plan) == pa.schema([("id", pa.int64())])


def test_a_plan_sees_what_its_transaction_wrote(server: Server, table: str, plan: bytes) -> None:
    with dbapi.connect(server.uri) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} VALUES (99, 1)")
        assert ids(cursor, plan) == [*range(2, 10), 99]
        connection.rollback()
        assert ids(cursor, plan) == list(range(2, 10))


def test_a_plan_is_read_at_several_endpoints(server: Server, plan: bytes) -> None:
    command = wire.StatementSubstraitPlan(plan=wire.SubstraitPlan(plan=plan))
    options = flight.FlightCallOptions(headers=[(b"lance-flight-endpoints", b"3")])
    info = server.client.get_flight_info(flight.FlightDescriptor.for_command(encode_command(command)), options)
    parts = [server.client.do_get(endpoint.ticket).read_all()["id"].to_pylist() for endpoint in info.endpoints]
    assert len(parts) == 3
    assert all(parts)
    assert sorted(number for part in parts for number in part) == list(range(2, 10))


def test_a_plan_that_is_none_says_so(server: Server) -> None:
    with server.connection.cursor() as cursor, pytest.raises(Error, match=r"INVALID_ARGUMENT.*Failed to decode plan"):
        cursor.execute(b"\xff\xff")


def test_the_server_says_that_it_reads_plans(server: Server) -> None:
    command = wire.GetSqlInfo(info=(pb.FLIGHT_SQL_SERVER_SUBSTRAIT, pb.FLIGHT_SQL_SERVER_SUBSTRAIT_MAX_VERSION))
    info = server.client.get_flight_info(flight.FlightDescriptor.for_command(encode_command(command)))
    answer = server.client.do_get(info.endpoints[0].ticket).read_all()
    assert answer["value"].to_pylist() == [True, written_by_datafusion()]


def written_by_datafusion() -> str:
    version = Plan.FromString(Serde.serialize_bytes("SELECT 1", SessionContext())).version
    return f"{version.major_number}.{version.minor_number}.{version.patch_number}"
