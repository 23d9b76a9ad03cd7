"""An S3 server in memory that answers in a tenth of a millisecond, and fails requests in the ways of stores and networks.

It has what Lance, Arrow and boto3 ask for. `test_s3_server` compares its answers with those of moto.
"""

from __future__ import annotations

import random
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from enum import Enum
from functools import cached_property, partial
from hashlib import md5 as secure_md5
from itertools import count
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import NamedTuple, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

RESET_AT_ONCE = struct.pack("ii", 1, 0)
DELAY_SECONDS = 0.3
md5 = partial(secure_md5, usedforsecurity=False)
REASONS = {200: "OK", 204: "No Content", 206: "Partial Content"}
STATUSES = {
    "NoSuchKey": 404,
    "NoSuchBucket": 404,
    "NoSuchUpload": 404,
    "InvalidRange": 416,
    "PreconditionFailed": 412,
    "SlowDown": 503,
    "InternalError": 500,
}


class Fault(Enum):
    """What befalls a request."""

    SLOW_DOWN = "503 SlowDown, not carried out"
    INTERNAL = "500 InternalError, not carried out"
    RESET = "connection reset, not carried out"
    TRUNCATED = "half of the answer's body, and a closed connection"
    DELAY = "carried out, and answered late"
    LOST_ANSWER = "carried out, and the connection reset in place of an answer"
    LATE_ERROR = "carried out, and answered by 500 InternalError"


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
    """The faults that befall requests of one bucket, and how many did. Safe to share among threads."""

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


class Failed(Exception):
    """An error that S3 answers with, by its code."""


@dataclass(frozen=True)
class Object:
    """The content of a key."""

    body: bytes
    type: str = "binary/octet-stream"
    modified: float = field(default_factory=time.time)
    parts: Sequence[bytes] = ()

    @cached_property
    def tag(self) -> str:
        if not self.parts:
            return f'"{md5(self.body).hexdigest()}"'
        return f'"{md5(b"".join(md5(part).digest() for part in self.parts)).hexdigest()}-{len(self.parts)}"'


@dataclass(frozen=True)
class Answer:
    """An answer: its status, headers beside its length, and body."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def xml(name: str, content: str) -> Answer:
    text = f'<?xml version="1.0" encoding="UTF-8"?><{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{content}</{name}>'
    return Answer(200, text.encode(), {"Content-Type": "application/xml"})


def failure(code: str) -> Answer:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
    return Answer(STATUSES[code], body.encode(), {"Content-Type": "application/xml"})


def elements(**texts: object) -> str:
    return "".join(f"<{name}>{escape(str(text))}</{name}>" for name, text in texts.items())


@dataclass(frozen=True)
class Request:
    """A request for a key of a bucket; of the bucket itself where the key is empty."""

    method: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class Sent(NamedTuple):
    """A request as it is counted: LIST for a listing, MULTIPART for one of an upload by parts; of a listing the key is its prefix."""

    method: str
    key: str

    @classmethod
    def of(cls, request: Request) -> Sent:
        """Name a request."""
        if not request.key:
            return cls("DELETE" if request.method == "POST" else "LIST", request.query.get("prefix", ""))
        is_part = "uploads" in request.query or "uploadId" in request.query
        return cls("MULTIPART" if is_part else request.method, request.key)


@dataclass(eq=False)
class BucketContent:
    """The objects of a bucket, the parts of those that are uploaded by parts, and the requests that were sent (None: not kept)."""

    objects: dict[str, Object] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    sent: list[Sent] | None = None
    faults: Faults = field(default_factory=Faults)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: Iterator[int] = field(default_factory=count)

    def answer(self, request: Request, buckets: Mapping[str, BucketContent]) -> Answer:
        """Carry out a request, alone."""
        with self.lock:
            if self.sent is not None:
                self.sent.append(Sent.of(request))
            try:
                if not request.key:
                    return self._delete_all(request) if request.method == "POST" else self._list(request.query)
                return getattr(self, f"_{request.method.lower()}")(request, buckets)  # type: ignore[no-any-return]
            except Failed as failed:
                return failure(str(failed))

    def _stored(self, key: str) -> Object:
        if key not in self.objects:
            raise Failed("NoSuchKey")
        return self.objects[key]

    def _get(self, request: Request, _: object) -> Answer:
        stored = self._stored(request.key)
        if request.headers.get("if-match", stored.tag) != stored.tag:
            raise Failed("PreconditionFailed")
        about = {
            "ETag": stored.tag,
            "Content-Type": stored.type,
            "Accept-Ranges": "bytes",
            "Last-Modified": formatdate(stored.modified, usegmt=True),
        }
        size = len(stored.body)
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", ""))
        if asked is None:
            return Answer(200, stored.body, about)
        first, last = asked[1], asked[2]
        begin = int(first) if first else max(size - int(last), 0)
        end = min(int(last) + 1, size) if first and last else size
        if begin >= end:
            raise Failed("InvalidRange")
        return Answer(206, stored.body[begin:end], {**about, "Content-Range": f"bytes {begin}-{end - 1}/{size}"})

    _head = _get

    def _put(self, request: Request, buckets: Mapping[str, BucketContent]) -> Answer:
        if "uploadId" in request.query:
            if request.query["uploadId"] not in self.uploads:
                raise Failed("NoSuchUpload")
            self.uploads[request.query["uploadId"]][int(request.query["partNumber"])] = request.body
            return Answer(200, b"", {"ETag": Object(request.body).tag})
        if "x-amz-copy-source" in request.headers:
            bucket, _, key = unquote(request.headers["x-amz-copy-source"]).lstrip("/").partition("/")
            source = buckets[bucket]._stored(key)
            self.objects[request.key] = Object(source.body, source.type)
            return xml("CopyObjectResult", elements(ETag=source.tag, LastModified=stamp(time.time())))
        return self._keep(request, Object(request.body, request.headers.get("content-type", Object.type)))

    def _keep(self, request: Request, made: Object) -> Answer:
        """Store an object, if the conditions of the request hold."""
        old = self.objects.get(request.key)
        if request.headers.get("if-none-match") == "*" and old is not None:
            raise Failed("PreconditionFailed")
        if "if-match" in request.headers and (old is None or old.tag != request.headers["if-match"]):
            raise Failed("PreconditionFailed" if old else "NoSuchKey")
        self.objects[request.key] = made
        return Answer(200, b"", {"ETag": made.tag})

    def _post(self, request: Request, _: object) -> Answer:
        if "uploads" in request.query:
            upload = f"upload-{next(self._numbers)}"
            self.uploads[upload] = {}
            return xml("InitiateMultipartUploadResult", elements(Key=request.key, UploadId=upload))
        if request.query["uploadId"] not in self.uploads:
            raise Failed("NoSuchUpload")
        parts = self.uploads[request.query["uploadId"]]
        numbers = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", request.body)]
        chosen = [parts[number] for number in numbers]
        made = Object(b"".join(chosen), parts=chosen)
        self._keep(request, made)
        del self.uploads[request.query["uploadId"]]
        return xml("CompleteMultipartUploadResult", elements(Key=request.key, ETag=made.tag))

    def _delete(self, request: Request, _: object) -> Answer:
        if "uploadId" in request.query:
            self.uploads.pop(request.query["uploadId"], None)
        else:
            self.objects.pop(request.key, None)
        return Answer(204)

    def _delete_all(self, request: Request) -> Answer:
        keys = [unescape(key.decode()) for key in re.findall(rb"<Key>(.*?)</Key>", request.body, re.DOTALL)]
        for key in keys:
            self.objects.pop(key, None)
        return xml("DeleteResult", "".join(f"<Deleted>{elements(Key=key)}</Deleted>" for key in keys))

    def _list(self, query: Mapping[str, str]) -> Answer:
        prefix, delimiter, most = query.get("prefix", ""), query.get("delimiter"), int(query.get("max-keys", 1000))
        after = query.get("continuation-token") or query.get("start-after", "")
        encoded = (lambda key: quote(key, safe="/")) if query.get("encoding-type") == "url" else str
        found: dict[str, str] = {}
        for key in sorted((key for key in list(self.objects) if key.startswith(prefix)), key=str.encode):
            place = key.find(delimiter, len(prefix)) if delimiter else -1
            name = key if place < 0 else key[: place + 1]
            if name.encode() <= after.encode() or name in found:
                continue
            if len(found) == most:
                token = list(found)[-1]
                break
            stored = self.objects[key]
            about = elements(LastModified=stamp(stored.modified), ETag=stored.tag, Size=len(stored.body))
            found[name] = (
                f"<Contents>{elements(Key=encoded(key))}{about}<StorageClass>STANDARD</StorageClass></Contents>"
                if place < 0
                else f"<CommonPrefixes>{elements(Prefix=encoded(name))}</CommonPrefixes>"
            )
        else:
            token = ""
        head = elements(
            Prefix=encoded(prefix), KeyCount=len(found), MaxKeys=most, IsTruncated="true" if token else "false"
        )
        if query.get("encoding-type"):
            head += elements(EncodingType="url")
        if token:
            head += elements(NextContinuationToken=token)
        return xml("ListBucketResult", head + "".join(found.values()))


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))


def unescape(text: str) -> str:
    for sign, name in (("<", "lt"), (">", "gt"), ('"', "quot"), ("'", "apos"), ("'", "#39"), ("&", "amp")):
        text = text.replace(f"&{name};", sign)
    return text


class S3Server(ThreadingTCPServer):
    """Serves buckets."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.buckets: dict[str, BucketContent] = {}
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that went away."""


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A running server without buckets."""
    with S3Server() as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield server
        finally:
            server.shutdown()
            serving.join()


class _Connection(StreamRequestHandler):
    """One connection of a client."""

    timeout = 60
    disable_nagle_algorithm = True
    rbufsize = 1 << 16

    def handle(self) -> None:
        with suppress(OSError):
            while line := self.rfile.readline():
                if not self._answer(*line.decode().split()[:2]):
                    return

    def _answer(self, method: str, target: str) -> bool:
        """Answer a request; return whether the connection stays."""
        headers: dict[str, str] = {}
        while line := self.rfile.readline().strip():
            name, _, text = line.decode().partition(":")
            headers[name.lower()] = text.strip()
        if headers.get("expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self._body(headers)
        place = urlsplit(target)
        bucket, _, key = unquote(place.path).lstrip("/").partition("/")
        server = cast("S3Server", self.server)
        if bucket not in server.buckets:
            return self._send(method, failure("NoSuchBucket"))
        content = server.buckets[bucket]
        fault = content.faults.next(method, target)
        if fault in {Fault.SLOW_DOWN, Fault.INTERNAL}:
            return self._send(method, failure("SlowDown" if fault is Fault.SLOW_DOWN else "InternalError"))
        if fault is Fault.RESET:
            return self._reset()
        query = dict(parse_qsl(place.query, keep_blank_values=True))
        answer = content.answer(Request(method, key, query, headers, body), server.buckets)
        match fault:
            case Fault.LOST_ANSWER:
                return self._reset()
            case Fault.LATE_ERROR:
                return self._send(method, failure("InternalError"))
            case Fault.DELAY:
                threading.Event().wait(DELAY_SECONDS)
        return self._send(method, answer, is_whole=fault is not Fault.TRUNCATED or method == "HEAD")

    def _body(self, headers: Mapping[str, str]) -> bytes:
        body = (
            self._chunks()
            if headers.get("transfer-encoding", "").lower() == "chunked"
            else self.rfile.read(int(headers.get("content-length") or 0))
        )
        if "aws-chunked" not in headers.get("content-encoding", ""):
            return body
        parts = []
        while size := int(re.match(rb"[0-9a-fA-F]+", body)[0], 16):  # type: ignore[index]
            begin = body.index(b"\r\n") + 2
            parts.append(body[begin : begin + size])
            body = body[begin + size + 2 :]
        return b"".join(parts)

    def _chunks(self) -> bytes:
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(chunks)

    def _send(self, method: str, answer: Answer, *, is_whole: bool = True) -> bool:
        headers = {**answer.headers, "Content-Length": len(answer.body), "x-amz-request-id": "test"}
        if answer.status == 204:
            del headers["Content-Length"]
        lines = [f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Error')}"]
        lines += [f"{name}: {text}" for name, text in headers.items()]
        body = b"" if method == "HEAD" else answer.body if is_whole else answer.body[: len(answer.body) // 2]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode() + body)
        return is_whole or self._reset()

    def _reset(self) -> bool:
        """End the connection so that its client sees a reset."""
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_ONCE)
        self.connection.close()
        return False
