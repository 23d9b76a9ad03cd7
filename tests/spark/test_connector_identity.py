"""A catalog over a server that asks who calls, over TLS: by a token or a password, which is shown nowhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from lance_flight_client.spark.connector.sessions import CATALOG_CLASS
from pyspark.sql import SparkSession

from tests.flight.identities import EXPIRED_TOKEN, PASSWORDS, TOKENS
from tests.flight.identity_files import IdentityFiles
from tests.selection import IS_FULL
from tests.service.server_process import serving
from tests.spark.planner import Catalog, Refused

WHO: Mapping[str, Mapping[str, str]] = {
    "by_token": {"token": TOKENS["bob"]},
    "by_password": {"username": "alice", "password": PASSWORDS["alice"]},
}
WRONG: Mapping[str, tuple[Mapping[str, str], str]] = {
    "wrong_token": ({"token": EXPIRED_TOKEN}, "rejected|nauthenticated|token"),
    "wrong_password": ({"username": "alice", "password": "pässword: wrong"}, "rejected|nauthenticated|password"),
    "nobody": ({}, "rejected|nauthenticated"),
    "unknown_authority": ({"token": TOKENS["bob"], "tls_roots": ""}, "certificate|no server answers"),
    "no_roots": ({"token": TOKENS["bob"], "tls_roots": "/nowhere"}, "'/nowhere' cannot be read"),
}
SECRETS = [*PASSWORDS.values(), *TOKENS.values(), EXPIRED_TOKEN, "pässword: wrong"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "log"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Iterator[Mapping[str, Catalog]]:
    """Catalogs of `WHO` and `WRONG` over a server with TLS that knows Alice's password and Bob's token."""
    files = IdentityFiles(tmp_path_factory.mktemp("files"))
    with serving(files.path / "root", *files.arguments, log=log) as running:
        place = {"uri": running.uri.replace("127.0.0.1", "localhost"), "tls_roots": str(files.path / "ca")}
        given = {**WHO, **{name: options for name, (options, _) in WRONG.items()}}
        yield {
            name: Catalog({key: value for key, value in {**place, **options}.items() if value})
            for name, options in given.items()
        }


def shown_secrets(*texts: str) -> list[str]:
    return [secret for secret in SECRETS if secret in "".join(texts)]


def configured(sql: SparkSession, name: str, catalog: Catalog) -> None:
    for option, value in {"": CATALOG_CLASS, ".python": sys.executable}.items():
        sql.conf.set(f"spark.sql.catalog.{name}{option}", value)
    for option, value in catalog.options.items():
        sql.conf.set(f"spark.sql.catalog.{name}.{option}", value)


@pytest.mark.parametrize("name", WHO if IS_FULL else ["by_token"])
def test_everything_works_for_whom_a_server_knows(
    sql: SparkSession, guarded: Mapping[str, Catalog], name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    configured(sql, name, guarded[name])
    table = f"{name}.{name}"
    sql.sql(f"CREATE TABLE {table} PARTITIONED BY (k) AS SELECT id, id % 3 AS k FROM range(9)")
    sql.sql(f"UPDATE {table} SET id = -id WHERE id % 4 = 0")
    found = sql.sql(f"SELECT id FROM {table} ORDER BY id")
    assert [row.id for row in found.collect()] == [-8, -4, 0, 1, 2, 3, 5, 6, 7]
    shown = [str(row) for row in sql.sql(f"EXPLAIN EXTENDED UPDATE {table} SET id = 0 WHERE id % 2 = 0").collect()]
    shown += [str(row) for row in sql.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()]
    shown += [str(found._jdf.queryExecution().toString()), *map(str, sql.sql("SET").collect()), *capfd.readouterr()]
    assert shown_secrets(*shown) == []
    # Another process reads the same, and as somebody else.
    by_password = guarded["by_password"].table(name)
    assert len(by_password.scan().rows()) == 9
    by_password.write(by_password.scan().parts()[0].to_batches())
    assert len(guarded["by_token"].table(name).scan().rows()) == 18


@pytest.mark.parametrize("name", WRONG)
def test_who_is_not_known_is_told_without_the_secret(
    guarded: Mapping[str, Catalog], name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    said = []
    definition = {"columns": [], "partitioning": [], "properties": {}, "replace": False}
    for method, more in {"load_table": {}, "stage_table": definition, "list_tables": {}}.items():
        with pytest.raises(Refused, match=WRONG[name][1]) as raised:
            guarded[name].named(method, "public.t", **more)
        said.append(str(raised.value))
    assert shown_secrets(*said, *capfd.readouterr()) == []


def test_the_server_logs_no_secret(guarded: Mapping[str, Catalog], log: Path) -> None:
    assert guarded
    assert shown_secrets(log.read_text()) == []
