"""CommandGetSqlInfo over the wire."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from lance_flight.flight import wire
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import encode_command
from pyarrow import flight

from tests.flight.flight_backend import CannedBackend

CHILDREN = ("string_value", "bool_value", "bigint_value", "int32_bitmask", "string_list", "int32_to_int32_list_map")


def ask(client: flight.FlightClient, *codes: int) -> dict[int, tuple[str, Any]]:
    """The answer as code → (child of the union, value), in the order of the rows."""
    command = encode_command(wire.GetSqlInfo(info=codes))
    info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
    table = client.do_get(info.endpoints[0].ticket).read_all().combine_chunks()
    names = table.column("info_name").to_pylist()
    values = pa.concat_arrays(table.column("value").chunks)
    children = [CHILDREN[code] for code in values.type_codes.to_pylist()]
    return dict(zip(names, zip(children, values.to_pylist(), strict=True), strict=True))


def child_in_the_proto(code: int) -> str:
    """The child that the comments of FlightSql.proto give, as ranges of codes."""
    strings = {0, 1, 2, 6, 7, 504, 513, 514, 529, 530, 531}
    integers = {8, 100, 101, 503, 505, 507, 522, 525, 526, 528, 533, 534, 535, 538, 540, 564, *range(567, 572)}
    if code in strings:
        return "string_value"
    if code in integers:
        return "int32_bitmask"
    if code in range(508, 513):
        return "string_list"
    if code == 517:
        return "int32_to_int32_list_map"
    return "bigint_value" if code in {*range(541, 556), *range(557, 563)} else "bool_value"


def test_no_codes_ask_for_all_of_them_each_in_its_child(client: flight.FlightClient) -> None:
    answer = ask(client)
    assert list(answer) == sorted(pb.SqlInfo.values())
    assert {code: child for code, (child, _) in answer.items()} == {
        code: child_in_the_proto(code) for code in pb.SqlInfo.values()
    }


def test_only_the_versions_of_substrait_are_null(client: flight.FlightClient) -> None:
    assert [code for code, (_, value) in ask(client).items() if value is None] == [6, 7]


VALUES = {
    "server name": (pb.FLIGHT_SQL_SERVER_NAME, "lance-flight"),
    "server version": (pb.FLIGHT_SQL_SERVER_VERSION, version("lance-flight")),
    "arrow version": (pb.FLIGHT_SQL_SERVER_ARROW_VERSION, pa.__version__),
    "writable": (pb.FLIGHT_SQL_SERVER_READ_ONLY, False),
    "SQL": (pb.FLIGHT_SQL_SERVER_SQL, True),
    "transactions": (pb.FLIGHT_SQL_SERVER_TRANSACTION, pb.SQL_SUPPORTED_TRANSACTION_TRANSACTION),
    "bulk ingestion": (pb.FLIGHT_SQL_SERVER_BULK_INGESTION, True),
    "quote": (pb.SQL_IDENTIFIER_QUOTE_CHAR, '"'),
    "search escape": (pb.SQL_SEARCH_STRING_ESCAPE, "\\"),
    "nulls sort high": (pb.SQL_NULL_ORDERING, pb.SQL_NULLS_SORTED_HIGH),
    "unions": (pb.SQL_SUPPORTED_UNIONS, 0b11),
}


@pytest.mark.parametrize(("code", "expected"), VALUES.values(), ids=VALUES.keys())
def test_a_value(client: flight.FlightClient, code: int, expected: Any) -> None:
    ((answered, (_, value)),) = ask(client, code).items()
    assert (answered, value) == (code, expected)


@pytest.mark.parametrize("code", [508, 509, 510, 511, 512])
def test_lists_of_words_have_no_doubles_and_no_empty_word(client: flight.FlightClient, code: int) -> None:
    (_, words) = ask(client, code)[code]
    assert len(words) > 5
    assert len(set(words)) == len(words)
    assert all(word and "," not in word for word in words)


def test_conversions_name_every_type_and_themselves(client: flight.FlightClient) -> None:
    (_, conversions) = ask(client, pb.SQL_SUPPORTS_CONVERT)[pb.SQL_SUPPORTS_CONVERT]
    assert sorted(source for source, _ in conversions) == sorted(pb.SqlSupportsConvert.values())
    assert all(source in targets and targets == sorted(targets) for source, targets in conversions)


def test_a_code_that_nobody_knows_has_no_row(client: flight.FlightClient) -> None:
    assert list(ask(client, 10_001, pb.FLIGHT_SQL_SERVER_SQL)) == [pb.FLIGHT_SQL_SERVER_SQL]


def test_a_code_that_is_asked_for_twice_has_one_row(client: flight.FlightClient) -> None:
    assert len(ask(client, 0, 0)) == 1


def test_what_a_backend_says_of_itself_goes_before(client: flight.FlightClient, backend: CannedBackend) -> None:
    backend.info[pb.FLIGHT_SQL_SERVER_TRANSACTION_TIMEOUT] = 7
    asked = ask(client, pb.FLIGHT_SQL_SERVER_TRANSACTION, pb.FLIGHT_SQL_SERVER_TRANSACTION_TIMEOUT)
    assert asked == {
        pb.FLIGHT_SQL_SERVER_TRANSACTION: ("int32_bitmask", 1),
        pb.FLIGHT_SQL_SERVER_TRANSACTION_TIMEOUT: ("int32_bitmask", 7),
    }


def test_a_driver_is_told_whose_server_it_is(adbc: dbapi.Connection) -> None:
    info = adbc.adbc_get_info()
    assert (info["vendor_name"], info["vendor_arrow_version"]) == ("lance-flight", pa.__version__)
