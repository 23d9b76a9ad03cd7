"""What the ADBC driver does, through its DBAPI."""

from __future__ import annotations

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions
from lance_flight.backend_values import IfExists
from lance_flight.errors import NotFound, Refused, SqlError, Unsupported
from lance_flight.flight.backend import IfNotExists
from lance_flight.flight.server import FlightSqlServer

from tests.flight.flight_backend import ECHO, ECHO_PARAMETERS, FLIGHTS, NUMBERS, CannedBackend, Ran


def test_a_query(adbc: flightsql.Connection) -> None:
    with adbc.cursor() as cursor:
        cursor.execute("SELECT numbers")
        assert cursor.rowcount == 4
        assert cursor.fetch_arrow_table().equals(NUMBERS)


def test_the_schema_of_a_query(adbc: flightsql.Connection, backend: CannedBackend) -> None:
    with adbc.cursor() as cursor:
        assert cursor.adbc_execute_schema("SELECT numbers") == NUMBERS.schema
    assert backend.ran == []


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


def test_a_script_runs_once(adbc: flightsql.Connection, backend: CannedBackend) -> None:
    backend.updates["DELETE"] = 2
    with adbc.cursor() as cursor:
        cursor.executescript("DELETE")
    assert backend.ran == [Ran(sql="DELETE")]


def test_a_query_with_parameters(adbc: flightsql.Connection) -> None:
    with adbc.cursor() as cursor:
        assert cursor.adbc_prepare(ECHO) == ECHO_PARAMETERS
        for row in [(1, "a"), (None, "b"), (3, None)]:
            cursor.execute(ECHO, row)
            assert cursor.fetchall() == [row]


def test_an_update_with_parameters_by_execute(adbc: flightsql.Connection, backend: CannedBackend) -> None:
    backend.updates["INSERT $1, $2"] = 1
    with adbc.cursor() as cursor:
        cursor.execute("INSERT $1, $2", (1, "a"))
        assert cursor.rowcount == 1
    assert backend.ran == [Ran(sql="INSERT $1, $2", parameters=[{"0": 1, "1": "a"}])]


def test_executemany_runs_once_for_each_row(adbc: flightsql.Connection, backend: CannedBackend) -> None:
    backend.updates["INSERT $1, $2"] = 1
    with adbc.cursor() as cursor:
        cursor.executemany("INSERT $1, $2", [(1, "a"), (2, None)])
        assert cursor.rowcount == 2
    assert backend.ran == [Ran(sql="INSERT $1, $2", parameters=[{"0": 1, "1": "a"}, {"0": 2, "1": None}])]


MODES = {
    "create": (IfNotExists.CREATE, IfExists.FAIL),
    "append": (IfNotExists.FAIL, IfExists.APPEND),
    "replace": (IfNotExists.CREATE, IfExists.REPLACE),
    "create_append": (IfNotExists.CREATE, IfExists.APPEND),
}


@pytest.mark.parametrize(("mode", "expected"), MODES.items(), ids=MODES.keys())
def test_ingest(
    adbc: flightsql.Connection, backend: CannedBackend, mode: str, expected: tuple[IfNotExists, IfExists]
) -> None:
    with adbc.cursor() as cursor:
        rows = cursor.adbc_ingest("t", NUMBERS, mode=mode, catalog_name="lance", db_schema_name="public")
    assert rows == 4
    (stored,) = backend.ingested
    assert stored.rows.equals(NUMBERS)
    assert (stored.target.if_not_exists, stored.target.if_exists) == expected
    assert (stored.target.catalog, stored.target.schema, stored.target.table) == ("lance", "public", "t")


def test_ingest_of_several_batches(adbc: flightsql.Connection, backend: CannedBackend) -> None:
    reader = pa.RecordBatchReader.from_batches(NUMBERS.schema, NUMBERS.to_batches(max_chunksize=1))
    with adbc.cursor() as cursor:
        assert cursor.adbc_ingest("t", reader, mode="create") == 4
    assert backend.ingested[0].rows.num_rows == 4


def test_ingest_of_an_empty_batch(adbc: flightsql.Connection, backend: CannedBackend) -> None:
    # Of a reader without a single batch the driver sends nothing, not even the command.
    with adbc.cursor() as cursor:
        assert cursor.adbc_ingest("t", NUMBERS.to_batches()[0].slice(0, 0), mode="create") == 0
    assert backend.ingested[0].rows.schema == NUMBERS.schema


def test_info(adbc: flightsql.Connection) -> None:
    info = adbc.adbc_get_info()
    assert info["vendor_name"] == "lance-flight"
    assert info["vendor_arrow_version"] == pa.__version__


def test_objects(adbc: flightsql.Connection) -> None:
    (catalog,) = adbc.adbc_get_objects(depth="all", table_name_filter="flights").read_all().to_pylist()
    tables = {
        f"{db_schema['db_schema_name']}.{table['table_name']}": [
            (column["column_name"], column["xdbc_type_name"]) for column in table["table_columns"]
        ]
        for db_schema in catalog["catalog_db_schemas"]
        for table in db_schema["db_schema_tables"]
    }
    columns = [("id", "BIGINT"), ("price", "DECIMAL"), ("carrier", "VARCHAR")]
    assert tables == {"public.flights": columns, "staging.flights": columns}


def test_the_schema_of_a_table(adbc: flightsql.Connection) -> None:
    schema = adbc.adbc_get_table_schema("flights", catalog_filter="lance", db_schema_filter="public")
    assert schema.names == FLIGHTS.names
    assert schema.field("carrier").type == pa.utf8()


def test_table_types(adbc: flightsql.Connection) -> None:
    assert adbc.adbc_get_table_types() == ["LOCAL TEMPORARY", "TABLE", "VIEW"]


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


def test_a_header_asks_for_several_endpoints(server: FlightSqlServer, backend: CannedBackend) -> None:
    header = f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}lance-flight-endpoints"
    with (
        flightsql.connect(server.uri, db_kwargs={header: "3"}, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT numbers")
        rows = cursor.fetch_arrow_table()
    assert sorted(rows.column("n").to_pylist()) == [1, 2, 3, 4]
    assert backend.ran == [Ran(sql="SELECT numbers", endpoints=3)]


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
