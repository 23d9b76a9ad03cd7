"""Errors of the connector's Python as the JVM is told of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lance_flight.errors import LanceFlightError

from lance_flight_client.errors import ServerError, plain

_CODE = re.compile(r"\[(?P<code>[a-z]+(?:_[a-z]+)*)\] ?")


def failure(exc: Exception) -> dict[str, str]:
    """Return the code, the SQLSTATE and the message of an error; one of another kind than ours says its class.

    >>> failure(ServerError("INTERNAL: [FlightSQL] [40001] [conflict] it was changed. Detail: none"))
    {'code': 'conflict', 'sqlstate': '40001', 'message': 'it was changed'}
    """
    if isinstance(exc, LanceFlightError):
        code, message = exc.code, str(exc)
    elif isinstance(exc, ServerError):
        code, message = code_of(exc), plain(exc)
        # What is in front of the code is the frame of a driver.
        message = message.partition(f"[{code}] ")[2] or message
    else:
        code, message = "error", f"{type(exc).__name__}: {exc}"
    return {"code": code, "sqlstate": _SQLSTATES[code], "message": message}


def code_of(exc: LanceFlightError | ServerError) -> str:
    """Return the code of an error, also of one that a server sent.

    >>> code_of(ServerError("INTERNAL: [not_found] no table 't'"))
    'not_found'
    """
    if isinstance(exc, LanceFlightError):
        return exc.code
    found = _CODE.search(str(exc))
    return found["code"] if found is not None and found["code"] in _SQLSTATES else "error"


def _kinds(kind: type[LanceFlightError]) -> Iterator[type[LanceFlightError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds(each)


_SQLSTATES = {each.code: each.sqlstate for each in _kinds(LanceFlightError) if "code" in each.__dict__}
