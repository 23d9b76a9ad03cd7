"""The JDBC driver signs in: by a user and a password, by a token, over TLS; and is turned away otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest
from lance_flight.flight.server import FlightSqlServer
from lance_flight.flight.tls import Tls

from tests.conformance.java import Jdbc
from tests.flight.certificates import authority
from tests.flight.flight_backend import KEY, CannedBackend
from tests.flight.identities import PASSWORDS, TOKENS, Identities

ALICE = {"user": "alice", "password": PASSWORDS["alice"]}
OFFERED: dict[str, tuple[str, Mapping[str, str], str]] = {
    "a user and a password": ("plain", ALICE, "= in"),
    "a token": ("plain", {"token": TOKENS["alice"]}, "= in"),
    "a user and a password over TLS": ("tls", ALICE, "= in"),
    "a token over TLS": ("tls", {"token": TOKENS["alice"]}, "= in"),
    "a wrong password": ("plain", ALICE | {"password": "wrong"}, "! unauthenticated"),
    "an unknown user": ("plain", ALICE | {"user": "mallory"}, "! unauthenticated"),
    "a wrong token": ("plain", {"token": "wrong"}, "! unauthenticated"),
    "nothing": ("plain", {}, "! unauthenticated"),
    "a password that nobody asks for": ("open", ALICE | {"password": "wrong"}, "= in"),
    "nothing where nobody asks": ("open", {}, "= in"),
}


@pytest.fixture(scope="module")
def said(jdbc: Jdbc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """What came of each, by one program in Java."""
    place, ca = tmp_path_factory.mktemp("identities"), authority()
    queries = {"SELECT CURRENT_USER": pa.table({"who": ["in"]})}
    own, backend, anonymous = ca.signs_a_server(), CannedBackend(queries=queries), CannedBackend(queries=queries)
    (place / "ca.pem").write_bytes(ca.pem)
    authentication = Identities(place).authentication
    tls = Tls(certificate=own.pem, key=own.key)
    with (
        FlightSqlServer(backend, KEY, authentication=authentication) as plain,
        FlightSqlServer(backend, KEY, authentication=authentication, tls=tls) as server,
        FlightSqlServer(anonymous, KEY) as asking_nobody,
    ):
        places = {
            "plain": (f"jdbc:arrow-flight-sql://localhost:{plain.port}/?useEncryption=false", {}),
            "open": (f"jdbc:arrow-flight-sql://localhost:{asking_nobody.port}/?useEncryption=false", {}),
            "tls": (f"jdbc:arrow-flight-sql://localhost:{server.port}/", {"tlsRootCerts": str(place / "ca.pem")}),
        }
        arguments: list[str] = []
        for name, (where, properties, _) in OFFERED.items():
            url, more = places[where]
            arguments += [name, url, *(f"{key}={value}" for key, value in {**properties, **more}.items()), "--"]
        yield dict(line.split("\t", 1) for line in jdbc.run("SignIn", *arguments) if "\t" in line)
    assert {caller.principal for caller in backend.callers} == {"alice"}
    assert {caller.principal for caller in anonymous.callers} == {"anonymous"}


def test_jdbc_signs_in(said: Mapping[str, str]) -> None:
    assert dict(said) == {name: expected for name, (*_, expected) in OFFERED.items()}
