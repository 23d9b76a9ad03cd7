"""What the ADBC driver does, through its DBAPI."""

from __future__ import annotations

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow as pa
import pytest
from lance_flight.errors import NotFound, Refused, SqlError, Unsupported
from lance_flight.flight.server import FlightSqlServer

from tests.flight.flight_backend import CannedBackend, Ran


def test_ddl_by_execute_runs_once(adbc: flightsql.Connection, backend: CannedBackend) -> None:
    backend.updates["CREATE TABLE t"] = 0
    with adbc.cursor() as cursor:
        cursor.execute("CREATE TABLE t")
        assert cursor.rowcount == 0
        assert cursor.fetchall() == []
    assert backend.ran == [Ran(sql="CREATE TABLE t")]


def test_an_insert_by_execute_runs_each_time(adbc: flightsql.Connection, backend: CannedBackend) -> None:
    backend.updates["INSERT"] = 2
    with adbc.cursor() as cursor:
        cursor.execute("INSERT")
        assert cursor.rowcount == 2
        cursor.execute("INSERT")
    assert backend.ran == [Ran(sql="INSERT")] * 2


def test_info(adbc: flightsql.Connection) -> None:
    info = adbc.adbc_get_info()
    assert info["vendor_name"] == "lance-flight"
    assert info["vendor_arrow_version"] == pa.__version__


ERRORS = {
    "bad SQL": (
        SqlError("no column x"),
        adbc_driver_manager.ProgrammingError,
        "INVALID_ARGUMENT: [FlightSQL] [42000] [invalid_sql] no",
    ),
    "not there": (
        NotFound("no table x"),
        adbc_driver_manager.ProgrammingError,
        "NOT_FOUND: [FlightSQL] [42S02] [not_found] no table x",
    ),
    "refused": (
        Refused("not you"),
        adbc_driver_manager.ProgrammingError,
        "UNAUTHORIZED: [FlightSQL] [42501] [refused] not you",
    ),
    "not offered": (
        Unsupported("no"),
        adbc_driver_manager.NotSupportedError,
        "NOT_IMPLEMENTED: [FlightSQL] [0A000] [unsupported] no",
    ),
    "unexpected": (
        TypeError("secret"),
        adbc_driver_manager.InternalError,
        "INTERNAL: [FlightSQL] [XX000] [internal] unexpected TypeErr",
    ),
}


@pytest.mark.parametrize(("error", "kind", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_keeps_its_status(
    adbc: flightsql.Connection,
    backend: CannedBackend,
    error: Exception,
    kind: type[adbc_driver_manager.Error],
    message: str,
) -> None:
    backend.failures["SELECT numbers"] = error
    with adbc.cursor() as cursor, pytest.raises(kind) as caught:
        cursor.execute("SELECT numbers")
    assert str(caught.value).startswith(message)
    assert "Traceback" not in str(caught.value)


def test_a_connection_without_autocommit_runs_everything_in_transactions(
    server: FlightSqlServer, backend: CannedBackend
) -> None:
    backend.updates["DELETE"] = 2
    with flightsql.connect(server.uri) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT numbers")
        assert len(cursor.fetchall()) == 4
        connection.commit()
        cursor.execute("DELETE")
        connection.rollback()
    assert [ran.transaction for ran in backend.ran] == [b"tx 1", b"tx 2"]
    assert backend.ended[:2] == [(b"tx 1", True), (b"tx 2", False)]
