"""Errors that the client raises."""

from __future__ import annotations

import re


class ServerError(Exception):
    """Error that a server answered instead of a result, or failure to reach a server."""


_FRAMED = re.compile(r"(?:^|\w+: )\[FlightSQL\] \[\w+\] (\[\w+\] .*?)(?:\. Detail: [^\n]*)?$", re.DOTALL)


def plain(error: ServerError) -> str:
    """Return the message of a server without the driver's frame: its code, and what it says.

    >>> plain(ServerError("NOT_FOUND: [FlightSQL] [42S02] [not_found] no table 't'. Detail: Python exception: Missing (Prepare)"))
    "[not_found] no table 't'"
    """
    return _FRAMED.sub(r"\1", str(error))


class JobFailed(Exception):
    """A job of Spark's that failed; `code` is that of the error that a task or the driver's writer met."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
