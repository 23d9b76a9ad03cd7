"""Session options: what they change, where they go for, and what the end of a session takes along."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from lance_flight.backend_values import SettingValue
from lance_flight.flight.protocol import flight_actions_pb2 as pb
from lance_flight.flight.sessions import value_message
from lance_flight.flight.wire import Action, CloseSession, GetSessionOptions, SetSessionOptions, encode_action
from pyarrow import flight

from tests.flight.cookie_jar import CookieJar
from tests.service.server_process import Server, serving

COOKIES = {"adbc.flight.sql.rpc.with_cookie_middleware": "true"}
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


def options(connection: dbapi.Connection) -> dict[str, Any]:
    """All options of a session."""
    found: dict[str, Any] = json.loads(connection.adbc_connection.get_option(f"{OPTION}s"))
    return found


def set_option(connection: dbapi.Connection, option: str, value: str) -> None:
    """Set an option as the driver names it: its kind, a dot and its name."""
    connection.adbc_connection.set_options(**{f"{OPTION}{option}": value})


def connected(server: Server, *, cookies: bool = True, autocommit: bool = True) -> Any:
    """A connection of a session of its own."""
    return closing(dbapi.connect(server.uri, db_kwargs=COOKIES if cookies else {}, autocommit=autocommit))


def rows(connection: dbapi.Connection, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query, sorted."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return sorted(cursor.fetchall())


def run(connection: dbapi.Connection, sql: str) -> None:
    """Run a statement that returns no rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql)


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
    with connected(server) as connection:
        assert options(connection) == DEFAULTS
        set_option(connection, option, value)
        assert options(connection) == {**DEFAULTS, name: shown}
        set_option(connection, f"erase.{name}", "")
        assert options(connection) == DEFAULTS


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
    "a boolean for a number": ("bool.group_rows", "true", "'group_rows' (invalid value)"),
}


@pytest.mark.parametrize(("option", "value", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_option_or_no_value_is_refused(server: Server, option: str, value: str, says: str) -> None:
    with connected(server) as connection:
        with pytest.raises(Error) as raised:
            set_option(connection, option, value)
        assert says in str(raised.value)
        assert options(connection) == DEFAULTS


class Raw:
    """A plain Flight client, with the cookies of a jar."""

    def __init__(self, server: Server, jar: CookieJar) -> None:
        self._client = flight.connect(server.uri, middleware=[jar])
        self.close = self._client.close

    def set(self, **values: SettingValue | None) -> dict[str, int]:
        """Set options; what was wrong with those that could not be set."""
        body = self.act(
            SetSessionOptions(session_options={name: value_message(value) for name, value in values.items()})
        )
        return {name: error.value for name, error in pb.SetSessionOptionsResult.FromString(body).errors.items()}

    def option(self, name: str) -> object:
        """The value of an option."""
        value = pb.GetSessionOptionsResult.FromString(self.act(GetSessionOptions())).session_options[name]
        return getattr(value, value.WhichOneof("option_value"))

    def act(self, action: Action) -> bytes:
        """The one result of an action."""
        (result,) = self._client.do_action(flight.Action(*encode_action(action)))
        body: bytes = result.body.to_pybytes()
        return body


@pytest.mark.parametrize("value", [1, 0.5, ("off",), (), ""])
def test_a_value_of_another_kind_is_none_of_a_switch(server: Server, value: SettingValue | None) -> None:
    with closing(Raw(server, CookieJar())) as client:
        assert client.set(dynamic_pruning=value) == {"dynamic_pruning": pb.SetSessionOptionsResult.INVALID_VALUE}


@pytest.mark.parametrize("value", [-1, 0.5, True, "x", ("7",)])
def test_a_value_of_another_kind_is_no_number(server: Server, value: SettingValue | None) -> None:
    with closing(Raw(server, CookieJar())) as client:
        assert client.set(group_rows=value) == {"group_rows": pb.SetSessionOptionsResult.INVALID_VALUE}
        assert client.set(group_rows=7) == {}
        assert client.option("group_rows") == 7


def test_a_cookie_finds_its_session_from_another_connection(server: Server) -> None:
    jar = CookieJar()
    with closing(Raw(server, jar)) as one:
        one.set(branch="audit")
    with closing(Raw(server, jar)) as two, closing(Raw(server, CookieJar())) as other:
        assert (two.option("branch"), other.option("branch")) == ("audit", "main")


def test_a_closed_session_is_an_error_once_and_then_a_new_one(server: Server) -> None:
    with closing(Raw(server, CookieJar())) as client:
        client.set(branch="audit")
        assert pb.CloseSessionResult.FromString(client.act(CloseSession())).status == pb.CloseSessionResult.CLOSED
        with pytest.raises(pa.ArrowInvalid, match="finds no session: it was closed"):
            client.option("branch")
        assert client.option("branch") == "main"


def test_set_and_options_are_the_same_settings(server: Server) -> None:
    with connected(server) as connection:
        run(connection, "SET group_rows = '9'")
        run(connection, "USE lance.staging")
        assert options(connection) == {**DEFAULTS, "group_rows": 9, "schema": "staging"}
        assert connection.adbc_current_db_schema == "staging"


SCHEMA = {
    "option": lambda connection: setattr(connection, "adbc_current_db_schema", "staging"),
    "SET": lambda connection: run(connection, "SET schema = 'staging'"),
    "USE": lambda connection: run(connection, "USE staging"),
}


@pytest.fixture(params=[True, False], ids=["cookies", "no cookies"])
def staging(schemas: Server, request: pytest.FixtureRequest) -> Iterator[dbapi.Connection]:
    """A connection whose session is in the schema `staging`."""
    with connected(schemas, cookies=request.param) as connection:
        connection.adbc_current_db_schema = "staging"
        yield connection


@pytest.mark.parametrize("choose", SCHEMA.values(), ids=SCHEMA.keys())
def test_unqualified_names_are_those_of_the_schema(schemas: Server, table: str, choose: Any) -> None:
    with connected(schemas) as connection:
        choose(connection)
        run(connection, f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
        run(connection, f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
        assert rows(connection, f"SELECT * FROM {table}") == [(1, "a"), (2, "b")]
    assert table in schemas.refuses(f"DESCRIBE {table}")
    assert sorted(schemas.rows(f"SELECT * FROM staging.{table}")) == [(1, "a"), (2, "b")]
    assert (schemas.root / "staging" / table).is_dir()


@pytest.fixture
def two(schemas: Server, table: str) -> str:
    """A table in `staging`, and another one by its name in `public`."""
    for place in ("public", "staging"):
        schemas.run(f"CREATE TABLE {place}.{table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    schemas.run(f"INSERT INTO staging.{table} VALUES (1, 'a'), (2, 'b')")
    schemas.run(f"INSERT INTO public.{table} VALUES (7, 'x')")
    return table


def test_an_ingest_goes_to_the_schema_unless_it_says_another(
    schemas: Server, staging: dbapi.Connection, table: str
) -> None:
    data = pa.table({"id": [1]})
    for mode, at in [("create", {}), ("create", {"db_schema_name": "public"}), ("append", {})]:
        with staging.cursor() as cursor:
            cursor.adbc_ingest(table, data, mode=mode, **at)
    assert schemas.value(f"SELECT count(*) FROM staging.{table}") == 2
    assert schemas.value(f"SELECT count(*) FROM {table}") == 1


def test_options_go_for_the_transaction_that_the_driver_has_begun(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    server.run(f"ALTER TABLE {table} CREATE BRANCH audit")
    with connected(server, autocommit=False) as connection:
        set_option(connection, ".branch", "audit")
        run(connection, f"INSERT INTO {table} VALUES (1, 'a')")
        connection.commit()
    assert server.value(f"SELECT count(*) FROM {table}") == 0
    assert server.value(f'SELECT count(*) FROM "{table}@audit"') == 1


def test_an_ingest_joins_the_transaction_that_began_before_the_cookie_came(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    with connected(server, autocommit=False) as connection:
        set_option(connection, ".group_rows", "7")
        with connection.cursor() as cursor:
            cursor.adbc_ingest(table, pa.table({"id": [1], "p": ["a"]}), mode="append")
        assert rows(connection, f"SELECT id FROM {table}") == [(1,)]
        connection.rollback()
    assert server.value(f"SELECT count(*) FROM {table}") == 0


def test_a_ticket_means_the_schema_in_which_its_query_was_planned(schemas: Server, two: str) -> None:
    with connected(schemas) as connection, connection.cursor() as cursor:
        connection.adbc_current_db_schema = "staging"
        partitions, _ = cursor.adbc_execute_partitions(f"SELECT id FROM {two} WHERE p = 'a'")
        connection.adbc_current_db_schema = "public"
        cursor.adbc_read_partition(partitions[0])
        assert cursor.fetchall() == [(1,)]


def test_a_session_that_reads_only_changes_nothing_and_stays_so(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (x BIGINT)")
    with connected(server) as connection, connection.cursor() as cursor:
        cursor.execute("SET access = 'read'")
        for statement in (f"INSERT INTO {table} VALUES (1)", f"DROP TABLE {table}", "SET access = 'write'"):
            with pytest.raises(Error, match=r"the session reads only|begin another one to write"):
                cursor.execute(statement)
        with pytest.raises(Error, match="the session reads only"):
            cursor.adbc_ingest(table, pa.table({"x": [1]}), mode="append")
        cursor.execute(f"SELECT count(*) FROM {table}")
        assert cursor.fetchall() == [(0,)]
        assert dict(rows(connection, "SHOW ALL"))["access"] == "read"
    assert server.run(f"INSERT INTO {table} VALUES (1)") == 1
