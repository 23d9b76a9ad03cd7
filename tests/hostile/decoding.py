"""Whatever reads bytes of strangers, each as a function of bytes: it may refuse them with an error of ours, and do no more.

`python -m tests.hostile.decoding NAME` runs one under atheris (`pip install atheris`), until it is stopped or finds something.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

from lance_flight.engine.query.planned_query import Task
from lance_flight.errors import LanceFlightError
from lance_flight.flight.authentication import Authentication, Bearer, credential_of
from lance_flight.flight.json_web_tokens import JsonWebTokens, KeysUrl, TokenRules, parse
from lance_flight.flight.passwords import PREFIX, SessionTokens, StoredPassword
from lance_flight.flight.tickets import TicketSealer
from lance_flight.flight.wire import decode_action, decode_command

KEY = bytes(range(32))
_SEALER = TicketSealer(KEY)
_SESSIONS = SessionTokens(sealer=_SEALER, lifetime=1.0)
_KEY_SET = (
    '{"keys": [{"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",'
    ' "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}'
)
_TOKENS = JsonWebTokens(TokenRules(issuer="i", audience="a"), KeysUrl("https://unused", lambda _: _KEY_SET))
_ACTIONS = (
    "CreatePreparedStatement",
    "ClosePreparedStatement",
    "EndTransaction",
    "SetSessionOptions",
    "CancelFlightInfo",
)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _actions(data: bytes) -> None:
    for name in _ACTIONS:
        with suppress(LanceFlightError):
            decode_action(name, data)


def _headers(data: bytes) -> None:
    headers = {"authorization": [_text(data)]}
    credential_of(headers)
    Authentication(authenticators=(_TOKENS,)).admit(headers)


TARGETS: Mapping[str, Callable[[bytes], object]] = {
    "commands": decode_command,
    "actions": _actions,
    "tickets": lambda data: _SEALER.open_ticket(data, "alice"),
    "handles": lambda data: _SEALER.open_handle(data, "alice"),
    "session tokens": lambda data: _SESSIONS.take(PREFIX + _text(data)),
    "tasks": Task.from_bytes,
    "headers": _headers,
    "JSON web tokens": lambda data: _TOKENS.principal(Bearer(token=_text(data))),
    "key sets": lambda data: parse(_text(data)),
    "passwords": lambda data: StoredPassword.parse(_text(data)),
}


def is_refused(name: str, data: bytes) -> bool:
    """Whether a target refuses some bytes; any error that is not ours comes through."""
    try:
        found = TARGETS[name](data)
    except LanceFlightError:
        return True
    return found is None


def main(name: str) -> None:
    """Run one target under atheris."""
    atheris = importlib.import_module("atheris")
    atheris.instrument_all()
    atheris.Setup([sys.argv[0]], lambda data: is_refused(name, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1])
