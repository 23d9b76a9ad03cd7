"""Answers to the JVM beside JSON: handles of values that it keeps, errors, and portions of scans as Arrow streams.

A task connects, sends the length (4 bytes, big endian) and the bytes of its pickled portion, and receives an Arrow IPC stream, after whose
end follows an object of JSON: empty, or with the error that ended the rows. A thread serves each task for as long as it reads.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, Any, cast

import pyarrow as pa
from lance_flight.errors import LanceFlightError
from pyspark.serializers import CPickleSerializer

from lance_flight_client.errors import ServerError, plain

if TYPE_CHECKING:
    from lance_flight_client.spark.source import Portion


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
    match = _CODE.search(str(exc))
    return match["code"] if match is not None and match["code"] in _SQLSTATES else "error"


def _kinds(kind: type[LanceFlightError]) -> Iterator[type[LanceFlightError]]:
    yield kind
    for error in kind.__subclasses__():
        yield from _kinds(error)


_SQLSTATES = {error.code: error.sqlstate for error in _kinds(LanceFlightError) if "code" in error.__dict__}


PICKLER: Any = CPickleSerializer()
_LENGTH = 4
_BUFFER = 1 << 20
_LONGEST_PATH = 100
"""Bytes of a socket's path that every system takes."""


@cache
def address() -> str:
    """Return the path of the socket that portions are read from, which only the user of this process can open."""
    directory = Path(tempfile.mkdtemp(prefix="lance-flight-"))
    if len(bytes(directory)) > _LONGEST_PATH:
        directory.rmdir()
        directory = Path(tempfile.mkdtemp(prefix="lance-flight-", dir="/tmp"))
    path = str(directory / "portions")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()
    Thread(target=_serve, args=(listener,), daemon=True).start()
    return path


def close() -> None:
    """Remove the socket."""
    if address.cache_info().currsize:
        shutil.rmtree(Path(address()).parent, ignore_errors=True)


def _serve(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection:
        try:
            with cast("IO[bytes]", connection.makefile("rwb", _BUFFER)) as stream:
                asked = stream.read(int.from_bytes(stream.read(_LENGTH)))
                send(asked, stream)
        except OSError:
            # The task reads no further: it has the rows that it wants, or was ended.
            return


def send(asked: bytes, stream: IO[bytes]) -> None:
    """Send the rows of a pickled portion, and the error that ended them."""
    ended: dict[str, Any] = {}
    rows = _rows(asked, ended)
    first = next(rows, None)
    with pa.ipc.new_stream(stream, pa.schema([]) if first is None else first.schema) as writer:
        if first is not None:
            writer.write_batch(first)
        for batch in rows:
            writer.write_batch(batch)
    stream.write(json.dumps(ended).encode())


def _rows(asked: bytes, ended: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a portion; what ends them early is told by `ended`."""
    try:
        yield from cast("Portion", PICKLER.loads(asked)).batches()
    except Exception as exc:  # noqa: BLE001 - the task that reads is told whatever it was
        ended["error"] = failure(exc)


Arguments = Mapping[str, Any]
"""Arguments of a request, as JSON has them."""


def pickle_handle(value: Any) -> str:
    """Return a value for the JVM to keep."""
    return base64.b64encode(PICKLER.dumps(value)).decode()


def unpickle_handle(handle: str) -> Any:
    """Return the value of a handle, which this process or one like it has made."""
    return PICKLER.loads(base64.b64decode(handle))
