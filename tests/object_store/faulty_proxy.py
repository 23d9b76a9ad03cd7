"""A proxy before an S3 server that fails requests in the ways in which object stores and networks do."""

from __future__ import annotations

import http.client
import random
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import urlsplit

RESET_AT_ONCE = struct.pack("ii", 1, 0)
DELAY_SECONDS = 0.3
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "proxy-connection", "server", "date"}
ERRORS = {503: "SlowDown", 500: "InternalError"}


class Fault(Enum):
    """What befalls a request; its value tells whether the store has carried it out all the same."""

    SLOW_DOWN = "503 SlowDown, not carried out"
    INTERNAL = "500 InternalError, not carried out"
    RESET = "connection reset, not carried out"
    TRUNCATED = "half of the answer's body, and a closed connection"
    DELAY = "carried out, and answered late"
    LOST_ANSWER = "carried out, and the connection reset in place of an answer"
    LATE_ERROR = "carried out, and answered by 500 InternalError"

    @property
    def is_carried_out(self) -> bool:
        """True if the store sees the request."""
        return self not in {Fault.SLOW_DOWN, Fault.INTERNAL, Fault.RESET}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A fault for requests of a method whose path matches a pattern: `times` of them, each with some probability."""

    fault: Fault
    method: str = ".*"
    path: str = ".*"
    times: int = 1
    chance: float = 1.0


@dataclass(slots=True)
class Faults:
    """The faults that a proxy injects into requests of one bucket, and how many each befell. Safe to share among threads."""

    bucket: str = ""
    rules: Sequence[Rule] = ()
    random: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - which requests fail, no secret
    injected: Counter[Fault] = field(default_factory=Counter)
    requests: int = 0
    _left: dict[Rule, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def set(self, *rules: Rule, seed: int = 1) -> None:
        """Inject these faults from here on, and count anew."""
        with self._lock:
            self.rules, self.random = rules, random.Random(seed)  # noqa: S311
            self._left = {rule: rule.times for rule in rules}
            self.injected, self.requests = Counter(), 0

    def next(self, method: str, path: str) -> Fault | None:
        """Return what befalls a request."""
        if not path.startswith(f"/{self.bucket}"):
            return None
        with self._lock:
            self.requests += 1
            for rule in self.rules:
                if (
                    self._left[rule] > 0
                    and re.fullmatch(rule.method, method)
                    and re.search(rule.path, path)
                    and self.random.random() < rule.chance
                ):
                    self._left[rule] -= 1
                    self.injected[rule.fault] += 1
                    return rule.fault
        return None


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    timeout = 60
    faults: ClassVar[Faults]
    host: ClassVar[str]

    def handle_any(self) -> None:
        body = self._body()
        fault = self.faults.next(self.command, self.path)
        match fault:
            case Fault.SLOW_DOWN:
                self._fail(503)
            case Fault.INTERNAL:
                self._fail(500)
            case Fault.RESET:
                self._reset()
            case _:
                self._forward(body, fault)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815 - the names that the base class calls

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(chunks)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _forward(self, body: bytes, fault: Fault | None) -> None:
        upstream = http.client.HTTPConnection(self.host)
        try:
            sent = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP | {"expect"}}
            sent["Content-Length"] = str(len(body))
            upstream.request(self.command, self.path, body, sent)
            answer = upstream.getresponse()
            content = answer.read()
        finally:
            upstream.close()
        match fault:
            case Fault.LOST_ANSWER:
                self._reset()
                return
            case Fault.LATE_ERROR:
                self._fail(500)
                return
            case Fault.DELAY:
                threading.Event().wait(DELAY_SECONDS)
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        if answer.getheader("Content-Length") is None:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault is Fault.TRUNCATED:
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            self._reset()
            return
        self.wfile.write(content)

    def _fail(self, status: int) -> None:
        content = (
            f"<?xml version='1.0'?><Error><Code>{ERRORS[status]}</Code><Message>injected</Message></Error>".encode()
        )
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _reset(self) -> None:
        """End the connection so that its client sees a reset."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_ONCE)
        self.connection.close()

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            super().finish()


@contextmanager
def faulty_proxy(endpoint: str) -> Iterator[tuple[str, Faults]]:
    """A proxy before the S3 server at an endpoint; yields its own endpoint, and the faults that it injects."""
    faults = Faults()
    handler = type("Handler", (_Handler,), {"faults": faults, "host": urlsplit(endpoint).netloc})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", faults
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
