"""Mapping of errors to the status that a Flight client sees.

Every message is `[SQLSTATE] [code] text`, where `code` is the stable code of the error's class. What the wire can say:

| our error | inside a handler | in GetSchema, or in the middle of a stream | gRPC status |
|---|---|---|---|
| `InvalidInput`, `AlreadyExists` | `InvalidArgument` | the same | INVALID_ARGUMENT |
| `NotFound` | `Missing` | the same | NOT_FOUND |
| `Unsupported` | `Unimplemented` | the same | UNIMPLEMENTED |
| `Unauthenticated` | `FlightUnauthenticatedError` | `Failed` | UNAUTHENTICATED (else UNKNOWN) |
| `Refused` | `FlightUnauthorizedError` | `Failed` | PERMISSION_DENIED (else UNKNOWN) |
| `Unavailable` | `FlightUnavailableError` | `Failed` | UNAVAILABLE (else UNKNOWN) |
| `Cancelled` | `FlightCancelledError` | `Failed` | CANCELLED (else UNKNOWN) |
| `StatementTimeout` | `FlightTimedOutError` | `Failed` | DEADLINE_EXCEEDED (else UNKNOWN) |
| `StorageFull`, and any other of ours | `FlightServerError` | `Failed` | UNKNOWN |
| anything else | `FlightInternalError` | `Failed` | INTERNAL (else UNKNOWN) |

pyarrow maps only some builtin exceptions to a status of their own, and in GetSchema and inside a record batch reader it knows
builtin exceptions only. None of its exceptions becomes ALREADY_EXISTS: ADBC's Python driver makes the same `ProgrammingError`
of INVALID_ARGUMENT. The code is in the text alone: the `extra_info` of a `FlightError` travels as `grpc-status-details-bin`, where
Go's gRPC, and with it ADBC, expects a `google.rpc.Status`. The bytes `quota_exceeded` can be read as one, of another status, and
the client fails with INTERNAL then.
"""

from __future__ import annotations

import functools
import logging
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn, ParamSpec, TypeVar
from urllib.parse import quote

from pyarrow import flight

from lance_flight.audit import record_refusal
from lance_flight.errors import (
    AlreadyExists,
    Cancelled,
    InvalidInput,
    LanceFlightError,
    LimitExceeded,
    NotFound,
    Refused,
    StatementTimeout,
    Unauthenticated,
    Unavailable,
    Unsupported,
    storage_error,
    without_middle,
)

_log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_R = TypeVar("_R")


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters: a stored name or value may have some that the terminal of another client would obey."""
MOST_HEADER = 3_000
"""Bytes of a message as gRPC encodes it."""
_UNCHANGED = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
"""Characters that gRPC does not encode."""
_CONNECTION_ERROR: type[Exception] = flight.FlightError
"""Exception that pyarrow raises in a handler when the client disconnected, or a deadline has passed."""


class _Untraced(Exception):
    """Exception whose traceback cannot be formatted.

    pyarrow appends `traceback.format_exception(…)` to the message of a builtin exception, and the name of its class
    alone where that fails. No way but this one keeps our source lines away from clients.
    """

    @property
    def __cause__(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("the traceback of an error on the wire stays on the server")


class InvalidArgument(_Untraced, ValueError):
    """INVALID_ARGUMENT on the wire."""


class Missing(_Untraced, KeyError):
    """NOT_FOUND on the wire; unlike any `KeyError`, its text is not the `repr` of its message."""

    def __str__(self) -> str:
        return str(self.args[0])


class Unimplemented(_Untraced, NotImplementedError):
    """UNIMPLEMENTED on the wire."""


class Failed(_Untraced, RuntimeError):
    """UNKNOWN on the wire, for contexts in which a Flight error cannot be raised."""


_LEAVING = (KeyboardInterrupt, SystemExit, GeneratorExit)

_BUILTIN: Mapping[type[LanceFlightError], type[Exception]] = {
    InvalidInput: InvalidArgument,
    AlreadyExists: InvalidArgument,
    NotFound: Missing,
    Unsupported: Unimplemented,
}
_FLIGHT: Mapping[type[LanceFlightError], type[flight.FlightError]] = {
    Unauthenticated: flight.FlightUnauthenticatedError,
    Refused: flight.FlightUnauthorizedError,
    Unavailable: flight.FlightUnavailableError,
    Cancelled: flight.FlightCancelledError,
    StatementTimeout: flight.FlightTimedOutError,
    LanceFlightError: flight.FlightServerError,
}


def flight_error(error: BaseException) -> Exception:
    """Return the exception that a handler raises for `error`; a foreign one is logged with its traceback."""
    if isinstance(error, Exception) and isinstance(error, _CONNECTION_ERROR):
        return error
    known, text = describe_error(error)
    if known is None:
        internal: Exception = flight.FlightInternalError(text)
        return internal
    kind = nearest(known, _BUILTIN) or nearest(known, _FLIGHT) or flight.FlightServerError
    raised: Exception = kind(text)
    return raised


def builtin_error(error: BaseException) -> Exception:
    """Return the exception to raise for `error` where a Flight error would lose its status and show its traceback."""
    if isinstance(error, _CONNECTION_ERROR):
        return Failed(str(error))
    known, text = describe_error(error)
    return Failed(text) if known is None else (nearest(known, _BUILTIN) or Failed)(text)


def describe_error(error: BaseException) -> tuple[LanceFlightError | None, str]:
    """Return the error of ours that a client is told, and its text; None for an unexpected one, which is logged with its traceback."""
    known, text = describe_whole(error)
    return known, _fitting(text)


def describe_whole(error: BaseException) -> tuple[LanceFlightError | None, str]:
    """Return the same with the whole text, however long, for answers whose text is in no header."""
    error = _translate(error)
    record_refusal(error)
    if not isinstance(error, LanceFlightError):
        return None, _log_unexpected(error)
    return error, _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", f"[{error.sqlstate}] [{error.code}] {error}")


def _translate(error: BaseException) -> BaseException:
    """Translate a system error that clients should see, of a device or an object store, to one of lance-flight; return any other unchanged."""
    if isinstance(error, LanceFlightError):
        return error
    if isinstance(error, RecursionError):
        known: LanceFlightError | None = LimitExceeded(
            "the request, or a type in it, is nested too deeply; expected fewer levels within one another"
        )
    else:
        known = storage_error(error)
    if known is None:
        return error
    _log.error("%s", known, exc_info=error)
    return known


def _raising(translate: Callable[[BaseException], Exception]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    def decorate(method: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(method)
        def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            try:
                return method(*args, **kwargs)
            except _LEAVING:
                raise
            except BaseException as error:  # noqa: BLE001 - each becomes an answer, a panic of native code too
                raise translate(error) from None

        return guarded

    return decorate


handler = _raising(flight_error)
"""Decorator that makes an RPC handler raise only exceptions that pyarrow sends with their status."""

schema_handler = _raising(builtin_error)
"""Decorator like `handler` for GetSchema, where pyarrow passes builtin exceptions alone."""


def guarded_stream(items: Iterator[_R]) -> Iterator[_R]:
    """Yield the items of a stream, with its errors translated by `builtin_error`."""
    try:
        yield from items
    except _LEAVING:
        raise
    except BaseException as error:  # noqa: BLE001 - each becomes an answer, a panic of native code too
        raise builtin_error(error) from None


def nearest(error: LanceFlightError, table: Mapping[type[LanceFlightError], _R]) -> _R | None:
    """Return what a table has for the class of an error, or for the nearest one above it."""
    return next((table[kind] for kind in type(error).__mro__ if kind in table), None)


def _fitting(text: str) -> str:
    """Return a message, without its middle where it takes more of the headers than clients read.

    gRPC sends it percent-encoded, and Arrow a second time; clients refuse a call, or a whole connection, for headers that are too long.

    >>> _fitting("short"), len(_fitting("x" * 5_000)), len(_fitting("é" * 5_000))
    ('short', 2400, 401)
    """
    most = MOST_HEADER
    shown = without_middle(text, most)
    while len(quote(shown, _UNCHANGED)) > MOST_HEADER:
        most = most * 4 // 5
        shown = without_middle(text, most)
    return shown


def _log_unexpected(error: BaseException) -> str:
    reference = secrets.token_hex(4)
    _log.error("unexpected %s, reference %s", type(error).__name__, reference, exc_info=error)
    return f"[XX000] [internal] unexpected {type(error).__name__}; the server's log has it under reference {reference}"
