"""Tables of a server in a catalog of a user with row policies and masks, asked as its JVM asks. No JVM runs here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lance_flight_client.errors import ServerError

from tests.service.principals import rows, token_of, tokens_file
from tests.service.server_process import Server, serving
from tests.spark.offers import Offers
from tests.spark.planner import Catalog, Refused

POLICIES = """
[roles.owner]
members = ["owner"]
grants = ["ALL ON *"]

[roles.tenant]
members = ["alice"]
grants = ["SELECT, WRITE ON events WHERE tenant = CURRENT_USER"]

[roles.care]
members = ["bob"]
grants = ["SELECT (id, concat('***', right(phone, 4)) AS phone, CASE WHEN id > 1 THEN income END AS income) ON people"]

[roles.few]
members = ["carol"]
grants = ["SELECT (n) ON events"]
"""
MADE = (
    "CREATE TABLE events (tenant VARCHAR DEFAULT 'alice', n BIGINT NOT NULL) PARTITIONED BY (tenant) COMMENT 'of tenants'",
    "INSERT INTO events VALUES ('alice', 1), ('alice', 2), ('bob', 777), (NULL, 888)",
    "CREATE TABLE people (id BIGINT, phone VARCHAR, income BIGINT NOT NULL) PARTITIONED BY (bucket(2, id))",
    "INSERT INTO people VALUES (1, '5550001', 777), (2, '5550002', 888)",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("policies")
    (place / "policies").write_text(POLICIES)
    tokens = tokens_file(place / "tokens", ("owner", "alice", "bob", "carol"))
    with serving(place / "root", "--tokens-file", tokens, "--policy-file", str(place / "policies")) as running:
        for statement in MADE:
            rows(running.uri, "owner", statement)
        yield running


def catalog_of(server: Server, name: str) -> Catalog:
    return Catalog({"uri": server.uri, "token": token_of(name)})


SEEN = {
    ("owner", "events"): [("alice", 1), ("alice", 2), ("bob", 777), (None, 888)],
    ("alice", "events"): [("alice", 1), ("alice", 2)],
    ("carol", "events"): [(1,), (2,), (777,), (888,)],
    ("owner", "people"): [(1, "5550001", 777), (2, "5550002", 888)],
    ("bob", "people"): [(1, "***0001", None), (2, "***0002", 888)],
}


@pytest.mark.parametrize(("name", "table"), SEEN)
def test_a_user_reads_what_is_granted(server: Server, offers: Offers, name: str, table: str) -> None:
    found = catalog_of(server, name).table(table)
    assert sorted((tuple(row.values()) for row in found.scan().rows()), key=str) == sorted(SEEN[name, table], key=str)
    required = {column.name for column in found.schema if not column.nullable}
    # What is masked may be NULL where what is stored may not.
    assert required == {"events": {"n"}, "people": {"income"} if name == "owner" else set()}[table]
    assert len(found.loaded["partitioning"]) == (1 if name == "owner" else 0)
    counted = offers.of("SELECT count(*) FROM typed WHERE id > 20", "push_aggregates")[0]
    aggregated = found.aggregate([], counted["aggregates"], [])
    assert aggregated is None or found.answer(aggregated) == [[len(SEEN[name, table])]]
    if table == "events" and name != "carol":
        assert found.loaded["properties"]["comment"] == "of tenants"


def test_a_user_writes_what_is_granted(server: Server) -> None:
    found = catalog_of(server, "alice").table("events")
    found.write(found.batches([{"tenant": "alice", "n": 3}]))
    assert rows(server.uri, "owner", "SELECT tenant, n FROM events WHERE n = 3") == [("alice", 3)]
    with pytest.raises(ServerError, match=r"\[42501\] \[refused\] a row for table 'events'"):
        found.write(found.batches([{"tenant": "bob", "n": 4}]))
    rows(server.uri, "owner", "DELETE FROM events WHERE n = 3")
    assert rows(server.uri, "owner", "SELECT count(*) FROM events") == [(4,)]


def test_what_is_not_granted_is_not_there(server: Server) -> None:
    with pytest.raises(Refused, match="people") as raised:
        catalog_of(server, "alice").table("people")
    assert raised.value.code == "not_found"
