"""A catalog over a server that asks who calls, over TLS: by a token or a password, which is shown nowhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from lance_flight_client.spark.connector.sessions import CATALOG_CLASS
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.flight.certificates import authority
from tests.flight.identities import EXPIRED_TOKEN, PASSWORDS, TOKENS, tokens_text, users_text
from tests.service.server_process import Server, serving

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
def guarded(tmp_path_factory: pytest.TempPathFactory, log: Path, sql: SparkSession) -> Iterator[Server]:
    """A server with TLS that knows Alice's password and Bob's token; a catalog for each of `WHO` and `WRONG`."""
    path, ca = tmp_path_factory.mktemp("files"), authority()
    ca.signs_a_server().write(path / "cert", path / "key")
    (path / "ca").write_bytes(ca.pem)
    for name, content in {"users": users_text(), "tokens": tokens_text()}.items():
        (path / name).write_text(content)
        (path / name).chmod(0o600)
    files = {"users-file": "users", "tokens-file": "tokens", "tls-certificate": "cert", "tls-key": "key"}
    arguments = [part for name, file in files.items() for part in (f"--{name}", str(path / file))]
    with serving(path / "root", *arguments, log=log) as running:
        for catalog, options in {**WHO, **{name: options for name, (options, _) in WRONG.items()}}.items():
            sql.conf.set(f"spark.sql.catalog.{catalog}", CATALOG_CLASS)
            place = {"uri": running.uri.replace("127.0.0.1", "localhost"), "tls_roots": str(path / "ca")}
            for name, value in {**place, "python": sys.executable, **options}.items():
                if value:
                    sql.conf.set(f"spark.sql.catalog.{catalog}.{name}", value)
        yield running


@pytest.mark.parametrize("catalog", WHO)
def test_everything_works_for_whom_a_server_knows(
    sql: SparkSession, guarded: Server, catalog: str, capfd: pytest.CaptureFixture[str]
) -> None:
    del guarded
    table = f"{catalog}.{catalog}"
    sql.sql(f"CREATE TABLE {table} PARTITIONED BY (k) AS SELECT id, id % 3 AS k FROM range(9)")
    sql.sql(f"INSERT INTO {table} SELECT id + 100, k FROM {table} WHERE k = 1")
    sql.sql(f"UPDATE {table} SET id = -id WHERE id % 4 = 0")
    sql.sql(f"DELETE FROM {table} WHERE k = 2")
    sql.sql(f"CREATE OR REPLACE TABLE {table}_copy AS SELECT * FROM {table}")
    found = sql.sql(f"SELECT id FROM {table}_copy ORDER BY id")
    assert [row.id for row in found.collect()] == [-104, -4, 0, 1, 3, 6, 7, 101, 107]
    shown = [str(row) for row in sql.sql(f"EXPLAIN EXTENDED UPDATE {table} SET id = 0 WHERE id % 2 = 0").collect()]
    shown += [str(row) for row in sql.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()]
    shown += [str(found._jdf.queryExecution().toString()), *map(str, sql.sql("SET").collect()), *capfd.readouterr()]
    assert [secret for secret in SECRETS if secret in "".join(shown)] == []


@pytest.mark.parametrize("catalog", WRONG)
def test_who_is_not_known_is_told_without_the_secret(
    sql: SparkSession, guarded: Server, catalog: str, capfd: pytest.CaptureFixture[str]
) -> None:
    del guarded
    said = []
    for statement in (
        "SELECT * FROM {c}.by_token",
        "CREATE TABLE {c}.t AS SELECT 1 AS id",
        "SHOW TABLES IN {c}.public",
    ):
        with pytest.raises(PySparkException, match=WRONG[catalog][1]) as raised:
            sql.sql(statement.format(c=catalog)).collect()
        said.append(str(raised.value))
    assert [secret for secret in SECRETS if secret in "".join([*said, *capfd.readouterr()])] == []


def test_the_server_logs_no_secret(guarded: Server, log: Path) -> None:
    del guarded
    assert [secret for secret in SECRETS if secret in log.read_text()] == []
