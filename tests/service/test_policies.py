"""Policies over the wire: two tenants on one server, by what ADBC and a plain Flight client can ask for."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance_flight
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from lance_flight_client.errors import ServerError
from pyarrow import flight

from tests.service.principals import connect, refusal, rows, token_of, tokens_file
from tests.service.server_process import Server, serving

POLICIES = """
[roles.owner]
members = ["owner"]
grants = ["ALL ON *"]

[roles.tenants]
members = ["alice", "bob"]
grants = ["SELECT, WRITE ON events WHERE tenant = CURRENT_USER"]
"""


@dataclass(frozen=True)
class Tenants:
    """A server with a table of two tenants, and ways to ask it as one of them."""

    server: Server
    policies: Path

    def connect(self, name: str) -> dbapi.Connection:
        return connect(self.server.uri, name)

    def rows(self, name: str, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        return rows(self.server.uri, name, sql, parameters)

    def refuses(self, name: str, sql: str) -> str:
        return refusal(self.server.uri, name, sql)

    def options(self, name: str) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token_of(name)}".encode())])


@pytest.fixture(scope="module")
def serving_tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    tmp_path = tmp_path_factory.mktemp("policies")
    tokens, policies = tokens_file(tmp_path / "tokens", ("alice", "bob", "owner")), tmp_path / "policies"
    policies.write_text(POLICIES)
    with serving(tmp_path / "root", "--tokens-file", tokens, "--policy-file", str(policies)) as server:
        made = Tenants(server, policies)
        made.rows("owner", "CREATE TABLE events (tenant VARCHAR, n BIGINT) PARTITIONED BY (tenant)")
        made.rows("owner", "INSERT INTO events VALUES ('alice', 1), ('alice', 2), ('bob', 777), (NULL, 888)")
        made.rows("owner", "CREATE TABLE ledger (n BIGINT)")
        made.rows(
            "owner", "CREATE TABLE people (id BIGINT, phone VARCHAR, income BIGINT) PARTITIONED BY (bucket(2, id))"
        )
        made.rows("owner", "INSERT INTO people VALUES (1, '5550001', 777), (2, '5550002', 777)")
        yield made


@pytest.fixture
def tenants(serving_tenants: Tenants) -> Tenants:
    """The server, with the policies of tenants."""
    serving_tenants.policies.write_text(POLICIES)
    return serving_tenants


def test_each_tenant_has_the_table_alone(tenants: Tenants) -> None:
    assert tenants.rows("alice", "SELECT tenant, n FROM events ORDER BY n") == [("alice", 1), ("alice", 2)]
    assert tenants.rows("bob", "SELECT n FROM events WHERE n > ?", (0,)) == [(777,)]
    assert tenants.rows("owner", "SELECT count(*) FROM events") == [(4,)]
    assert "refused" in tenants.refuses("alice", "INSERT INTO events VALUES ('bob', 3)")
    with tenants.connect("alice") as connection, connection.cursor() as cursor, pytest.raises(Error, match="refused"):
        cursor.adbc_ingest("events", pa.table({"tenant": ["alice", "bob"], "n": [4, 4]}), mode="append")
    assert "not_found" in tenants.refuses("alice", "SELECT * FROM ledger")
    assert "ledger" not in tenants.refuses("alice", "SELECT * FROM ledgr").replace("ledgr", "")


def test_a_dataset_over_the_server_has_the_rows_of_its_reader(tenants: Tenants) -> None:
    with lance_flight.dataset(tenants.server.uri, "events", token=token_of("alice")) as mine:
        assert sorted(mine.to_table()["n"].to_pylist()) == [1, 2]
        assert mine.count_rows() == sum(part.count_rows() for part in mine.fragments()) == 2
        assert token_of("alice") not in repr(mine.fragments()) + repr(mine.view)
        sent = pickle.loads(pickle.dumps(mine.fragments()))  # noqa: S301 - our own
        assert sorted(n for part in sent for n in part.to_table()["n"].to_pylist()) == [1, 2]
    with pytest.raises(ServerError, match=r"unauthenticated|credentials|token"):
        lance_flight.dataset(tenants.server.uri, "events", token="another")  # noqa: S106


def test_metadata_lists_what_is_granted(tenants: Tenants) -> None:
    def listed(name: str) -> str:
        with tenants.connect(name) as connection:
            return str(connection.adbc_get_objects(depth="columns").read_all().to_pylist())

    assert "'events'" in listed("alice")
    assert "ledger" not in listed("alice")
    assert "'ledger'" in listed("owner")
    with tenants.connect("alice") as connection, pytest.raises(Error):
        connection.adbc_get_table_schema("ledger")


def test_the_file_counts_as_soon_as_it_changes(tenants: Tenants) -> None:
    with tenants.connect("alice") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM events")
        assert cursor.fetchone() == (2,)
        text = tenants.policies.read_text()
        tenants.policies.write_text(text.replace('"alice", ', ""))
        with pytest.raises(Error, match="not_found"):
            cursor.execute("SELECT count(*) FROM events")
        tenants.policies.write_text(text)
        cursor.execute("SELECT count(*) FROM events")
        assert cursor.fetchone() == (2,)


def test_a_file_that_is_wrong_changes_nothing_until_it_is_right(tenants: Tenants) -> None:
    text = tenants.policies.read_text()
    without_alice = text.replace('"alice", ', "")
    tenants.policies.write_text(without_alice + "[roles.more]\n")
    assert tenants.rows("alice", "SELECT count(*) FROM events") == [(2,)]
    tenants.policies.write_text(without_alice)
    assert "not_found" in tenants.refuses("alice", "SELECT count(*) FROM events")
    tenants.policies.write_text(text)
    assert tenants.rows("alice", "SELECT count(*) FROM events") == [(2,)]


CARE = """
[roles.owner]
members = ["owner"]
grants = ["ALL ON *"]

[roles.care]
members = ["alice"]
grants = ["SELECT (id, concat('***', right(phone, 4)) AS phone) ON people"]

[roles.count]
members = ["bob"]
grants = ["SELECT (id) ON people"]
"""


@pytest.fixture
def people(tenants: Tenants) -> Tenants:
    """The server, with policies by which alice sees a masked column, and bob one column."""
    tenants.policies.write_text(CARE)
    return tenants


def test_columns_are_those_of_the_grant_in_all_that_a_driver_asks(people: Tenants) -> None:
    for name, columns in {"alice": ["id", "phone"], "bob": ["id"], "owner": ["id", "phone", "income"]}.items():
        with people.connect(name) as connection, connection.cursor() as cursor:
            assert connection.adbc_get_table_schema("people").names == columns
            listed = connection.adbc_get_objects(depth="columns", table_name_filter="people").read_all().to_pylist()
            (table,) = (each for schema in listed[0]["catalog_db_schemas"] for each in schema["db_schema_tables"])
            assert [column["column_name"] for column in table["table_columns"]] == columns
            assert cursor.adbc_execute_schema("SELECT * FROM people").names == columns
            cursor.execute("SELECT * FROM people WHERE id = ?", (1,))
            assert cursor.fetch_arrow_table().to_pylist() == [
                {name: value for name, value in {"id": 1, "phone": "***0001", "income": 777}.items() if name in columns}
                if name != "owner"
                else {"id": 1, "phone": "5550001", "income": 777}
            ]
    assert people.rows("alice", "SELECT count(*) FROM people WHERE phone = '5550001'") == [(0,)]
    assert "777" not in people.refuses("bob", "SELECT id FROM people WHERE income = 777").replace("income = 777", "")
