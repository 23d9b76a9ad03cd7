"""Encrypted connections, clients that are told by their certificates, and certificates that change meanwhile."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from adbc_driver_flightsql import DatabaseOptions, dbapi
from adbc_driver_manager import Error
from lance_flight.errors import InvalidInput
from lance_flight.file_reloading import states
from lance_flight.flight import server as flight_server
from lance_flight.flight.authentication import Authentication
from lance_flight.flight.server import FlightSqlServer, replace_server, serve_until
from lance_flight.flight.tls import Tls, TlsFiles
from pyarrow import flight

from tests.flight.certificates import DAY, Certificate, authority
from tests.flight.flight_backend import KEY, NUMBERS, CannedBackend
from tests.flight.identities import PASSWORDS, TOKENS, Identities, basic, calling, signed, signed_in
from tests.flight.slow_backend import PATIENCE, SlowBackend
from tests.flight.statements import SELECT, descriptor
from tests.flight.visits import FREE, Visit, refusal

CA, STRANGE_CA = authority(), authority("another authority")
SERVER = CA.signs_a_server()


@pytest.fixture
def identities(tmp_path: Path) -> Identities:
    return Identities(tmp_path)


@contextmanager
def serving(
    backend: CannedBackend, authentication: Authentication, *, mutual: bool = False
) -> Iterator[FlightSqlServer]:
    tls = Tls(certificate=SERVER.pem, key=SERVER.key, client_ca=CA.pem if mutual else None)
    with FlightSqlServer(backend, KEY, authentication=authentication, tls=tls) as server:
        yield server


def connected(server: FlightSqlServer, client: Certificate | None = None, ca: Certificate = CA) -> flight.FlightClient:
    """A client that trusts an authority, with a certificate or without."""
    own = {} if client is None else {"cert_chain": client.pem.decode(), "private_key": client.key.decode()}
    return flight.connect(f"grpc+tls://localhost:{server.port}", tls_root_certs=ca.pem, **own)


def mutual_authentication(identities: Identities) -> Authentication:
    """The same, with clients that are told by their certificates."""
    return Authentication(
        authenticators=identities.authentication.authenticators,
        granter=identities.authentication.granter,
        has_certificates=True,
    )


def test_adbc_over_tls_with_a_user_and_a_password(backend: CannedBackend, identities: Identities) -> None:
    kwargs = {
        "username": "alice",
        "password": PASSWORDS["alice"],
        DatabaseOptions.TLS_ROOT_CERTS.value: CA.pem.decode(),
    }
    with (
        serving(backend, identities.authentication) as server,
        dbapi.connect(f"grpc+tls://localhost:{server.port}", db_kwargs=kwargs, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        assert server.uri == f"grpc+tls://127.0.0.1:{server.port}"
        cursor.execute("SELECT numbers")
        assert cursor.fetch_arrow_table().equals(NUMBERS)
    assert {caller.principal for caller in backend.callers} == {"alice"}


def test_adbc_with_a_certificate_of_its_own(backend: CannedBackend, identities: Identities) -> None:
    alice = CA.signs("alice")
    kwargs = {
        DatabaseOptions.TLS_ROOT_CERTS.value: CA.pem.decode(),
        DatabaseOptions.MTLS_CERT_CHAIN.value: alice.pem.decode(),
        DatabaseOptions.MTLS_PRIVATE_KEY.value: alice.key.decode(),
    }
    with (
        serving(backend, mutual_authentication(identities), mutual=True) as server,
        dbapi.connect(f"grpc+tls://localhost:{server.port}", db_kwargs=kwargs, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT numbers")
        assert cursor.rowcount == 4
        assert cursor.adbc_ingest("t", NUMBERS, mode="create") == 4
    assert {(caller.principal, caller.groups) for caller in backend.callers} == {("alice", ())}


def test_who_does_not_encrypt_or_does_not_trust_is_not_connected(
    backend: CannedBackend, identities: Identities
) -> None:
    with serving(backend, identities.authentication) as server:
        for client in (flight.connect(f"grpc://localhost:{server.port}"), connected(server, ca=STRANGE_CA)):
            with client, pytest.raises(flight.FlightUnavailableError):
                client.get_flight_info(descriptor(SELECT), calling(basic("alice", PASSWORDS["alice"])))
    assert backend.callers == []


NAMES = {
    "a common name": (CA.signs("alice"), "alice"),
    "an alternative name": (CA.signs("alice", "alice.example"), "alice.example"),
    "the first of several": (CA.signs("alice", "a.example", "b.example"), "a.example"),
    "letters of any script": (CA.signs("Ålice"), "Ålice"),
}


@pytest.mark.parametrize(("certificate", "name"), NAMES.values(), ids=NAMES.keys())
def test_the_name_of_a_certificate_is_the_principal(
    backend: CannedBackend, identities: Identities, certificate: Certificate, name: str
) -> None:
    with (
        serving(backend, mutual_authentication(identities), mutual=True) as server,
        connected(server, certificate) as client,
    ):
        client.get_flight_info(descriptor(SELECT))
    assert [caller.principal for caller in backend.callers] == [name]


STRANGERS = {
    "no certificate": None,
    "a certificate of another authority": STRANGE_CA.signs("alice"),
    "one that signs itself": authority("alice"),
    "one that has expired": CA.signs("alice", lasts=-DAY),
    "without a name": CA.signs(None),
    "for anonymous": CA.signs("anonymous"),
    "an authority's own key for another name": Certificate(CA.signs("alice").certificate, CA.private),
}


@pytest.mark.parametrize("certificate", STRANGERS.values(), ids=STRANGERS.keys())
def test_a_certificate_that_proves_nobody_is_taken_by_no_rpc(
    backend: CannedBackend, identities: Identities, certificate: Certificate | None
) -> None:
    outcomes: dict[str, str | None] = {}
    with serving(backend, mutual_authentication(identities), mutual=True) as server:
        for rpc, call in FREE.items():
            with connected(server, certificate) as client:
                outcomes[rpc] = refusal(call, Visit(client, calling(None), flight.Ticket(b""), b""))
    assert all(outcomes.values())
    assert not any((backend.ran, backend.described, backend.ingested, backend.callers, backend.sessions))


@pytest.mark.parametrize(
    ("header", "name"),
    [(None, "machine"), (f"Bearer {TOKENS['bob']}", "bob"), (f"Bearer {signed()}", "alice")],
    ids=["a certificate alone", "a token beside it", "a JSON web token beside it"],
)
def test_a_credential_goes_before_the_certificate_of_its_connection(
    backend: CannedBackend, identities: Identities, header: str | None, name: str
) -> None:
    with (
        serving(backend, mutual_authentication(identities), mutual=True) as server,
        connected(server, CA.signs("machine")) as client,
    ):
        client.get_flight_info(descriptor(SELECT), calling(header))
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.get_flight_info(descriptor(SELECT), calling("Bearer wrong"))
    assert [caller.principal for caller in backend.callers] == [name]


def test_what_is_of_one_certificate_is_not_of_another(backend: CannedBackend, identities: Identities) -> None:
    with (
        serving(backend, mutual_authentication(identities), mutual=True) as server,
        connected(server, CA.signs("alice")) as alice,
        connected(server, CA.signs("bob")) as bob,
    ):
        ticket = alice.get_flight_info(descriptor(SELECT)).endpoints[0].ticket
        with pytest.raises(flight.FlightUnauthorizedError, match="belongs to another principal"):
            bob.do_get(ticket).read_all()
        assert alice.do_get(ticket).read_all().equals(NUMBERS)


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    certificate, key, client_ca = (tmp_path / name for name in ("cert.pem", "key.pem", "ca.pem"))
    SERVER.write(certificate, key)
    client_ca.write_bytes(CA.pem)
    return TlsFiles(certificate=str(certificate), key=str(key), client_ca=str(client_ca))


def test_files_hold_what_they_hold(files: TlsFiles) -> None:
    tls = files.read()
    assert tls == Tls(certificate=SERVER.pem, key=SERVER.key, client_ca=CA.pem)
    assert "PRIVATE" not in repr(tls)
    assert files.read_changed(tls) is None


OTHER = CA.signs_a_server()
WRONG = {
    "no certificate": ("cert.pem", b"", "holds no certificates in PEM"),
    "a key in its place": ("cert.pem", SERVER.key, "holds no certificates in PEM"),
    "no key": ("key.pem", b"x", "is no private key in PEM without a password"),
    "the key of another one": ("key.pem", OTHER.key, "is not that of certificate"),
    "no authority": ("ca.pem", b"x", "holds no certificates in PEM"),
    "no file": ("key.pem", None, "cannot be read: No such file"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_used_is_refused_and_changes_nothing(
    files: TlsFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: tuple[str, bytes | None, str]
) -> None:
    name, content, message = wrong
    tls = files.read()
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    for _ in range(3):
        assert files.read_changed(tls) is None
    assert caplog.text.count(message) == 1
    with pytest.raises(InvalidInput, match=message) as raised:
        files.read()
    assert "PRIVATE" not in str(raised.value)


def test_an_expired_certificate_and_an_open_key_are_named(
    files: TlsFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    CA.signs("server", lasts=-DAY).write(tmp_path / "cert.pem", tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o644)
    with caplog.at_level(logging.WARNING):
        files.read()
    assert "has expired at" in caplog.text
    assert "can be read by others (mode 644)" in caplog.text


def test_a_certificate_that_has_expired_replaces_none_that_is_valid(
    files: TlsFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = files.read()
    CA.signs("server", lasts=-DAY).write(tmp_path / "cert.pem", tmp_path / "key.pem")
    for _ in range(3):
        assert files.read_changed(tls) is None
    assert caplog.text.count("has expired at") == 1
    assert not states["certificate"].is_in_force
    SERVER.write(tmp_path / "cert.pem", tmp_path / "key.pem")
    assert files.read_changed(tls) is None
    assert states["certificate"].is_in_force


def test_new_certificates_are_used_and_calls_of_the_old_ones_end(identities: Identities) -> None:
    backend = SlowBackend()
    after = STRANGE_CA.signs_a_server()
    with (
        serving(backend, identities.authentication) as before,
        ThreadPoolExecutor(1) as pool,
        connected(before) as client,
    ):
        options = calling(signed_in(client, "alice"))
        running = pool.submit(client.get_flight_info, descriptor(SELECT), options)
        assert backend.is_begun.wait(PATIENCE)
        with replace_server(before, Tls(certificate=after.pem, key=after.key)) as successor:
            assert (successor.port, len(successor.in_flight)) == (before.port, 1)
            backend.go.set()
            assert running.result(PATIENCE).total_records == 4
            with connected(successor, ca=STRANGE_CA) as trusting:
                info = trusting.get_flight_info(descriptor(SELECT), options)
                assert trusting.do_get(info.endpoints[0].ticket, options).read_all().equals(NUMBERS)
            with connected(successor) as distrusting, pytest.raises(flight.FlightUnavailableError):
                distrusting.get_flight_info(descriptor(SELECT), options)
    assert len({caller.session for caller in backend.callers}) == 1


def test_a_successor_is_as_its_predecessor_was(backend: CannedBackend) -> None:
    with FlightSqlServer(backend, KEY) as server:
        handed_on = {"self", "backend", "key", *server._another.keywords}
        assert server._another.keywords["shared"].inputs is server.inputs
    handed_on |= {"inputs", "running_calls"}  # their first values, which may have changed
    assert set(inspect.signature(FlightSqlServer.__init__).parameters) == handed_on | {"port", "tls"}


def test_a_server_takes_the_certificates_that_come_into_its_files(
    backend: CannedBackend, tmp_path: Path, files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flight_server, "CERTIFICATE_SECONDS", 0.01)
    stop, renewed = threading.Event(), threading.Event()

    def noted(server: FlightSqlServer, tls: Tls) -> FlightSqlServer:
        successor = replace_server(server, tls)
        renewed.set()
        return successor

    monkeypatch.setattr(flight_server, "replace_server", noted)
    after = STRANGE_CA.signs_a_server()
    files = TlsFiles(certificate=files.certificate, key=files.key)
    server = FlightSqlServer(backend, KEY, tls=files.read())
    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve_until, server, stop, grace=lambda: PATIENCE, certificates=files)
        with connected(server) as client:
            client.get_flight_info(descriptor(SELECT))
        after.write(tmp_path / "cert.pem", tmp_path / "key.pem")
        assert renewed.wait(PATIENCE)
        with connected(server, ca=STRANGE_CA) as client:
            client.get_flight_info(descriptor(SELECT))
        stop.set()
        assert served.result(PATIENCE) is True


def test_an_address_of_ipv6_is_served_as_well(backend: CannedBackend) -> None:
    with FlightSqlServer(backend, KEY, host="::1") as server, flight.connect(server.uri) as client:
        assert server.uri == f"grpc://[::1]:{server.port}"
        client.get_flight_info(descriptor(SELECT))


def test_adbc_is_told_that_there_is_no_handshake(backend: CannedBackend, identities: Identities) -> None:
    kwargs = {
        "username": "alice",
        "password": PASSWORDS["alice"],
        DatabaseOptions.TLS_ROOT_CERTS.value: CA.pem.decode(),
    }
    with (
        serving(backend, mutual_authentication(identities), mutual=True) as server,
        pytest.raises(Error),
    ):
        dbapi.connect(f"grpc+tls://localhost:{server.port}", db_kwargs=kwargs)
