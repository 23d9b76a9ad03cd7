"""Sessions over the wire: the three actions, and the cookie that finds a session from any connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from lance_flight.backend_values import SettingValue
from lance_flight.errors import Conflict
from lance_flight.flight import wire
from lance_flight.flight.actions import value_message
from lance_flight.flight.protocol import flight_actions_pb2 as pb
from lance_flight.flight.server import FlightSqlServer
from lance_flight.flight.tickets import OF_A_COOKIE, OF_A_TOKEN
from lance_flight.flight.wire import Action
from pyarrow import flight

from tests.flight.cookie_jar import CookieJar
from tests.flight.flight_backend import UNKNOWN_OPTION, WRONG_VALUE, CannedBackend
from tests.flight.statements import SELECT, act, descriptor

ENDED = f"cookie {OF_A_COOKIE} finds no session"


class Client:
    """A connection of its own, with the cookies of a jar or without any."""

    def __init__(self, uri: str, jar: CookieJar | None = None, *headers: tuple[bytes, bytes]) -> None:
        self.connection = flight.connect(uri, middleware=[] if jar is None else [jar])
        self._options = flight.FlightCallOptions(headers=list(headers))

    def act(self, action: Action) -> bytes:
        """The one result of an action."""
        (body,) = act(self.connection, action, self._options)
        return body

    def set(self, **options: SettingValue | None) -> dict[str, int]:
        """Set options; what was wrong with those that could not be set."""
        request = wire.SetSessionOptions(
            session_options={name: value_message(value) for name, value in options.items()}
        )
        result = pb.SetSessionOptionsResult.FromString(self.act(request))
        return {name: error.value for name, error in result.errors.items()}

    def get(self) -> pb.GetSessionOptionsResult:
        """All options, as they come."""
        return pb.GetSessionOptionsResult.FromString(self.act(wire.GetSessionOptions()))

    def names(self) -> set[str]:
        """The names of all options."""
        return set(self.get().session_options)

    def close_session(self) -> int:
        """Close the session; what became of it."""
        return int(pb.CloseSessionResult.FromString(self.act(wire.CloseSession())).status)


Connect = Callable[..., Client]


@pytest.fixture
def connect(server: FlightSqlServer) -> Iterator[Connect]:
    """Opens connections, which are closed at the end."""
    with ExitStack() as stack:

        def opened(jar: CookieJar | None = None, *headers: tuple[bytes, bytes]) -> Client:
            made = Client(server.uri, jar, *headers)
            stack.enter_context(made.connection)
            return made

        yield opened


VALUES = {
    "string": ("x", "string_value"),
    "empty string": ("", "string_value"),
    "true": (True, "bool_value"),
    "false": (False, "bool_value"),
    "integer": (-(2**63), "int64_value"),
    "double": (0.5, "double_value"),
    "strings": (("a", "b"), "string_list_value"),
    "no strings": ((), "string_list_value"),
}


@pytest.mark.parametrize(("value", "kind"), VALUES.values(), ids=VALUES.keys())
def test_a_value_of_every_kind_is_set_and_comes_back_as_it_was(
    connect: Connect, value: SettingValue | None, kind: str
) -> None:
    client = connect()
    assert client.set(option=value) == {}
    found = client.get().session_options["option"]
    assert found.WhichOneof("option_value") == kind
    held = getattr(found, kind)
    assert (tuple(held.values) if isinstance(value, tuple) else held) == value


def test_no_value_unsets_an_option(connect: Connect) -> None:
    client = connect()
    client.set(one="x", two="y")
    assert client.set(one=None) == {}
    assert client.names() == {"two"}


def test_each_option_is_set_or_refused_by_itself(connect: Connect) -> None:
    client = connect()
    refused = client.set(**{"good": "x", UNKNOWN_OPTION: "x", "bad": WRONG_VALUE})
    assert refused == {
        UNKNOWN_OPTION: pb.SetSessionOptionsResult.INVALID_NAME,
        "bad": pb.SetSessionOptionsResult.INVALID_VALUE,
    }
    assert client.names() == {"good"}


def test_any_other_error_is_that_of_the_action(connect: Connect, backend: CannedBackend) -> None:
    backend.failures["option"] = Conflict("not now")
    with pytest.raises(flight.FlightServerError, match="not now"):
        connect().set(option="x")


def test_a_cookie_finds_its_session_from_any_connection(connect: Connect) -> None:
    jar = CookieJar()
    connect(jar).set(option="x")
    assert len(jar.cookies[OF_A_COOKIE]) >= 16
    assert connect(jar).names() == {"option"}
    assert connect().names() == set()
    assert connect(CookieJar()).names() == set()


def test_asking_for_options_is_answered_with_a_cookie_too(connect: Connect) -> None:
    jar = CookieJar()
    one = connect(jar)
    assert one.names() == set()
    connect(jar).set(option="x")
    assert one.names() == {"option"}
    assert jar.given == 2, "one at the beginning, and one for the change"


def test_each_client_has_a_cookie_of_its_own(connect: Connect) -> None:
    jars = [CookieJar() for _ in range(3)]
    for jar in jars:
        connect(jar).names()
    assert len({jar.cookies[OF_A_COOKIE] for jar in jars}) == len(jars)


def test_a_query_is_answered_with_a_cookie_too(connect: Connect) -> None:
    jar = CookieJar()
    connect(jar).connection.get_flight_info(descriptor(SELECT))
    given = jar.cookies[OF_A_COOKIE]
    connect(jar).set(option="x")
    assert connect(jar).names() == {"option"}
    assert connect(None, (b"cookie", f"{OF_A_COOKIE}={given}".encode())).names() == {"option"}, "the key stays the same"


def test_a_client_that_keeps_no_cookies_has_the_session_of_its_connection(connect: Connect) -> None:
    client = connect()
    client.set(option="x")
    assert client.names() == {"option"}


TOKEN, OTHER_TOKEN = (b"authorization", b"Bearer one"), (b"authorization", b"Bearer two")


def test_a_bearer_token_tells_a_session_apart_whatever_the_cookies(connect: Connect) -> None:
    jar = CookieJar()
    connect(jar).set(option="x")
    given = jar.cookies[OF_A_COOKIE]
    connect(jar, TOKEN).set(other="y")
    assert connect(None, TOKEN).names() == {"other"}
    assert connect(jar, OTHER_TOKEN).names() == set()
    assert jar.cookies[OF_A_COOKIE] == given, "what a token's session is comes in a cookie of its own"
    assert jar.cookies.keys() == {OF_A_COOKIE, OF_A_TOKEN}


def test_a_session_is_found_among_other_cookies(connect: Connect) -> None:
    jar = CookieJar()
    connect(jar).set(option="x")
    cookies = f'lb=1; {OF_A_COOKIE}="{jar.cookies[OF_A_COOKIE]}";other'.encode()
    assert connect(None, (b"cookie", cookies)).names() == {"option"}


UNKNOWN = ["", "x", "AAAAAAAAAAAAAAAAAAAAAA"]


@pytest.mark.parametrize("cookie", UNKNOWN)
def test_a_cookie_that_finds_no_session_is_refused_and_taken_back(connect: Connect, cookie: str) -> None:
    jar = CookieJar({OF_A_COOKIE: cookie})
    client = connect(jar)
    with pytest.raises(ValueError, match=ENDED):
        client.connection.get_flight_info(descriptor(SELECT))
    assert jar.cookies == {}
    assert client.connection.get_flight_info(descriptor(SELECT)).total_records == 4


def test_no_key_of_another_session_is_taken_for_a_cookie(connect: Connect, backend: CannedBackend) -> None:
    connect(None, TOKEN).set(option="x")
    (key,) = backend.sessions
    with pytest.raises(ValueError, match=ENDED):
        connect(None, (b"cookie", f"{OF_A_COOKIE}={key}".encode())).names()


def test_a_closed_session_is_found_no_longer(connect: Connect) -> None:
    jar = CookieJar()
    client = connect(jar)
    client.set(option="x")
    assert client.close_session() == pb.CloseSessionResult.CLOSED
    with pytest.raises(ValueError, match=ENDED):
        connect(jar).names()
    assert client.names() == set(), "the cookie was taken back, and a new session begins"


def test_a_session_without_a_cookie_is_closed_as_well(connect: Connect) -> None:
    client = connect(None, TOKEN)
    client.set(option="x")
    assert client.close_session() == pb.CloseSessionResult.CLOSED
    assert client.names() == set()
