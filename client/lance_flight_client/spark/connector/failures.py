"""Errors of the connector's Python as the JVM is told of them."""

from __future__ import annotations

import re

from lance_flight.errors import LanceFlightError

from lance_flight_client.errors import ServerError

_CODE = re.compile(r"\[(?P<code>[a-z]+(?:_[a-z]+)*)\]")


def failure(exc: Exception) -> dict[str, str]:
    """Return the code and the message of an error; one of another kind than ours says its class."""
    if isinstance(exc, LanceFlightError | ServerError):
        return {"code": code_of(exc), "message": str(exc)}
    return {"code": "error", "message": f"{type(exc).__name__}: {exc}"}


def code_of(exc: LanceFlightError | ServerError) -> str:
    """Return the code of an error, also of one that a server sent.

    >>> code_of(ServerError("INTERNAL: [not_found] no table 't'"))
    'not_found'
    """
    if isinstance(exc, LanceFlightError):
        return exc.code
    found = _CODE.search(str(exc))
    return "error" if found is None else found["code"]
