"""Session options: what they change, where they go for, and what the end of a session takes along."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_manager import Error
from lance_flight.backend_values import SettingValue

from tests.service.server_process import COOKIES, Client, Server, serving

OPTION = "adbc.flight.sql.session.option"
DEFAULTS: Mapping[str, SettingValue | None] = {
    "access": "write",
    "branch": "main",
    "catalog": "lance",
    "dynamic_pruning": True,
    "exact_search": False,
    "group_rows": 250_000,
    "isolation": "snapshot",
    "partition_wise_join": True,
    "schema": "public",
    "snapshot": "newest",
    "statement_timeout": 0.0,
    "target_partitions": 0,
}


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose root has a schema `staging` beside `public`."""
    root = tmp_path_factory.mktemp("schemas") / "root"
    (root / "staging").mkdir(parents=True)
    with serving(root) as running:
        yield running


def options(client: Client) -> dict[str, Any]:
    """All options of a session."""
    found: dict[str, Any] = json.loads(client.connection.adbc_connection.get_option(f"{OPTION}s"))
    return found


def set_option(client: Client, option: str, value: str) -> None:
    """Set an option as the driver names it: its kind, a dot and its name."""
    client.connection.adbc_connection.set_options(**{f"{OPTION}{option}": value})


SET = {
    "schema": (".schema", "staging", "staging"),
    "catalog": (".catalog", "lance", "lance"),
    "isolation": (".isolation", "Serializable", "serializable"),
    "branch": (".branch", "audit", "audit"),
    "a switch by its word": (".dynamic_pruning", "off", False),
    "a switch by its value": ("bool.dynamic_pruning", "false", False),
    "a number by its text": (".group_rows", "7", 7),
    "snapshot": (".snapshot", "2026-01-31", "2026-01-31"),
    "target_partitions": (".target_partitions", "3", 3),
    "statement_timeout": (".statement_timeout", "2.5", 2.5),
}


@pytest.mark.parametrize(("option", "value", "shown"), SET.values(), ids=SET.keys())
def test_an_option_is_set_shown_and_unset(server: Server, option: str, value: str, shown: object) -> None:
    name = option.partition(".")[2]
    with server.session() as client:
        assert options(client) == DEFAULTS
        set_option(client, option, value)
        assert options(client) == {**DEFAULTS, name: shown}
        set_option(client, f"erase.{name}", "")
        assert options(client) == DEFAULTS


REFUSED = {
    "a name that is none": (".shcema", "x", "'shcema' (invalid name)"),
    "unsetting a name that is none": ("erase.shcema", "", "'shcema' (invalid name)"),
    "another catalog": (".catalog", "hive", "'catalog' (invalid value)"),
    "an empty schema": (".schema", "", "'schema' (invalid value)"),
    "a boolean for a schema": ("bool.schema", "true", "'schema' (invalid value)"),
    "strings for a branch": ("stringlist.branch", '["a"]', "'branch' (invalid value)"),
    "no branch": (".branch", "1 x", "'branch' (invalid value)"),
    "no isolation": (".isolation", "none", "'isolation' (invalid value)"),
    "a word that is no switch": (".dynamic_pruning", "maybe", "'dynamic_pruning' (invalid value)"),
    "more lanes than there can be": (".target_partitions", "257", "'target_partitions' (invalid value)"),
    "no snapshot": (".snapshot", "", "'snapshot' (invalid value)"),
    "no time at all": (".statement_timeout", "-1", "'statement_timeout' (invalid value)"),
    "no number of seconds": (".statement_timeout", "soon", "'statement_timeout' (invalid value)"),
    "a time without an order": (".statement_timeout", "nan", "'statement_timeout' (invalid value)"),
    "a boolean for a number": ("bool.group_rows", "true", "'group_rows' (invalid value)"),
}


@pytest.mark.parametrize(("option", "value", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_option_or_no_value_is_refused(server: Server, option: str, value: str, says: str) -> None:
    with server.session() as client:
        with pytest.raises(Error) as raised:
            set_option(client, option, value)
        assert says in str(raised.value)
        assert options(client) == DEFAULTS


def test_set_and_options_are_the_same_settings(schemas: Server) -> None:
    with schemas.session() as client:
        client.run("SET group_rows = '9'")
        client.run("USE lance.staging")
        assert options(client) == {**DEFAULTS, "group_rows": 9, "schema": "staging"}
        assert client.connection.adbc_current_db_schema == "staging"


@pytest.fixture(params=[COOKIES, {}], ids=["cookies", "no cookies"])
def staging(schemas: Server, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A connection whose session is in the schema `staging`."""
    with schemas.session(request.param) as client:
        client.connection.adbc_current_db_schema = "staging"
        yield client


def test_an_ingest_goes_to_the_schema_unless_it_says_another(schemas: Server, staging: Client, table: str) -> None:
    data = pa.table({"id": [1]})
    for mode, at in [("create", {}), ("create", {"db_schema_name": "public"}), ("append", {})]:
        staging.ingest(table, data, mode, **at)
    assert schemas.value(f"SELECT count(*) FROM staging.{table}") == 2
    assert schemas.value(f"SELECT count(*) FROM {table}") == 1


def test_options_go_for_the_transaction_that_the_driver_has_begun(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    server.run(f"ALTER TABLE {table} CREATE BRANCH audit")
    with server.session(autocommit=False) as client:
        set_option(client, ".branch", "audit")
        client.run(f"INSERT INTO {table} VALUES (1, 'a')")
        client.connection.commit()
    assert server.value(f"SELECT count(*) FROM {table}") == 0
    assert server.value(f'SELECT count(*) FROM "{table}@audit"') == 1


def test_an_ingest_joins_the_transaction_that_began_before_the_cookie_came(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    with server.session(autocommit=False) as client:
        set_option(client, ".group_rows", "7")
        client.ingest(table, pa.table({"id": [1], "p": ["a"]}), "append")
        assert client.rows(f"SELECT id FROM {table}") == [(1,)]
        client.connection.rollback()
    assert server.value(f"SELECT count(*) FROM {table}") == 0
