"""Directories and object stores for listing, copying and deleting; files that must not be there yet; and counts of requests.

One set of storage options serves all: the names are those of Lance.

No symbolic link below a root is followed: a path that leaves the root is neither read, written nor deleted. A table's directories are examined when it is opened, and again when one of them has changed (inode and moment of change),
so that a table that stays as it is costs a few `lstat`s. What grows with the history of a `__manifest`, and is not named
by the version that is read, is left unexamined. A link that is put in between the examination and the read is followed:
whoever can write below the root at that moment can as well write the data.

Commits of this process are counted for monitoring, and requests to object stores, by it and by Lance. What is asked for once may be several requests, as a listing of many names is, or one that is sent again.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from functools import cache
from threading import Lock
from typing import Any, TypeAlias, TypeVar

import obstore
import pyarrow as pa
import pyarrow.fs as pafs
from lance import LanceDataset
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from lance_flight.catalog.storage.retries import RetryPolicy
from lance_flight.catalog.storage.whole_files import BRANCHES, VERSIONS, version_names
from lance_flight.errors import InvalidInput, OutsideRoot
from lance_flight.lru_cache import IDLE_SECONDS, LruCache
from lance_flight.model.naming import MANIFEST


class CommitEvent(Enum):
    """Event of a commit that is counted."""

    COMMITTED = "committed"  # one `__manifest` commit, of one transaction or several
    TRANSACTION = "transaction"  # one transaction that became visible
    RETRY = "retry"  # another writer was first, and it was tried again
    CONFLICT = "conflict"  # another writer was first, and the transaction failed


class CommitCounts:
    """Counts. Safe to share among threads.

    >>> counts = CommitCounts()
    >>> counts.add(CommitEvent.RETRY, 2)
    >>> counts[CommitEvent.RETRY]
    2
    """

    def __init__(self) -> None:
        self._counts: Counter[CommitEvent] = Counter()
        self._lock = Lock()

    def add(self, event: CommitEvent, times: int = 1) -> None:
        """Add to the count of an event."""
        with self._lock:
            self._counts[event] += times

    def __getitem__(self, event: CommitEvent) -> int:
        return self._counts[event]


commit_counts = CommitCounts()
"""Those of the whole process: namespaces come and go."""


class StoreRequest(Enum):
    """Kind of what an object store is asked for."""

    LIST = "list"
    READ = "read"
    WRITE = "write"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Asked:
    """Number of requests of a kind, of those that failed, and the seconds until their answers."""

    requests: int = 0
    errors: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LanceRequests:
    """Reads and writes by Lance of open tables in a bucket, and their bytes.

    Lance counts neither questions without content nor the data files of writers.
    """

    reads: int = 0
    read_bytes: int = 0
    writes: int = 0
    written_bytes: int = 0


class StoreRequests:
    """Counts of one process. Safe to share among threads.

    >>> counted = StoreRequests()
    >>> with counted.count_request(StoreRequest.LIST):
    ...     pass
    >>> counted.counts[StoreRequest.LIST].requests
    1
    """

    def __init__(self) -> None:
        self._counts = dict.fromkeys(StoreRequest, Asked())
        self._dataset: LanceDataset | None = None
        self._lock = Lock()

    @contextmanager
    def count_request(
        self, kind: StoreRequest, answers: tuple[type[Exception], ...] = (FileNotFoundError,)
    ) -> Iterator[None]:
        """Count what the block asks for; an exception that is an answer, such as that nothing is there, counts as no error."""
        began, errors = time.perf_counter(), 1
        try:
            yield
            errors = 0
        except answers:
            errors = 0
            raise
        finally:
            took = time.perf_counter() - began
            with self._lock:
                before = self._counts[kind]
                self._counts[kind] = replace(
                    before,
                    requests=before.requests + 1,
                    errors=before.errors + errors,
                    seconds=before.seconds + took,
                )

    def watch(self, dataset: LanceDataset) -> None:
        """Take Lance's counts from this dataset: it counts for all that a session has opened in a bucket."""
        self._dataset = dataset

    @property
    def counts(self) -> Mapping[StoreRequest, Asked]:
        """Requests of this process itself so far, by kind."""
        with self._lock:
            return dict(self._counts)

    @property
    def of_lance(self) -> LanceRequests:
        """Reads and writes by Lance so far."""
        if self._dataset is None:
            return LanceRequests()
        stats = self._dataset.io_stats_snapshot()
        return LanceRequests(stats.read_iops, stats.read_bytes, stats.write_iops, stats.written_bytes)


store_requests = StoreRequests()
"""Those of the whole process: stores come and go."""


T = TypeVar("T")

log = logging.getLogger(__name__)

RETRIES = 4
"""Times that a request of listing, reading or deleting is sent again, with jittered pauses that double: about seven seconds in all."""
LANCE_RETRIES = {"client_max_retries": "6"}
"""The same for Lance, whose pauses begin shorter."""
_S3_OPTIONS = {
    "access_key": ("aws_access_key_id", "access_key_id"),
    "secret_key": ("aws_secret_access_key", "secret_access_key"),
    "session_token": ("aws_session_token", "session_token"),
    "region": ("aws_region", "region"),
    "endpoint_override": ("aws_endpoint", "endpoint", "aws_endpoint_url"),
}
"""Names of options in pyarrow and in Lance; options that are not given come from the environment."""


def filesystem(uri: str, options: Mapping[str, str]) -> tuple[pafs.FileSystem, str]:
    """Return the file system that a place lies on, and its path there."""
    scheme, separator, path = uri.partition("://")
    if not separator:
        return pafs.LocalFileSystem(), uri
    if scheme == "s3":
        environment = {name.lower(): value for name, value in os.environ.items() if name.startswith("AWS_")}
        return _s3(tuple(sorted((environment | {**options}).items()))), path
    try:
        opened: tuple[pafs.FileSystem, str] = pafs.FileSystem.from_uri(uri)
    except pa.ArrowInvalid as exc:
        raise InvalidInput(
            f"{uri!r} is no place that is known ({exc}); expected a directory, or s3://bucket/prefix"
        ) from exc
    return opened


@cache
def _s3(options: tuple[tuple[str, str], ...]) -> pafs.S3FileSystem:
    given = dict(options)
    known = {
        name: next((given[theirs] for theirs in names if theirs in given), None) for name, names in _S3_OPTIONS.items()
    }
    allows_http = any(given.get(name, "").lower() == "true" for name in ("allow_http", "aws_allow_http"))
    scheme = "http" if allows_http else "https"
    patient = pafs.AwsStandardS3RetryStrategy(max_attempts=1 + RETRIES)
    return pafs.S3FileSystem(
        scheme=scheme,
        retry_strategy=patient,
        # A small file is one request, not the three of an upload by parts.
        allow_delayed_open=True,
        **{name: value for name, value in known.items() if value is not None},
    )


_SAID = frozenset(
    {
        *("access_key_id", "secret_access_key", "session_token", "skip_signature", "unsigned_payload", "request_payer"),
        *("region", "endpoint", "virtual_hosted_style_request", "checksum_algorithm"),
        *("allow_http", "timeout", "connect_timeout", "proxy_url", "user_agent", "http1_only", "http2_only"),
        *("pool_idle_timeout", "pool_max_idle_per_host"),
    }
)
"""Options that mean the same to obstore as to Lance, which has the same client inside; both may put `aws_` in front."""
_SAME = {"token": "session_token", "endpoint_url": "endpoint"}
_OF_LANCE = frozenset({"client_max_retries", "client_retry_timeout", "download_retry_count"})
"""Options that Lance reads by itself."""
_CHANGING = frozenset({"aws_endpoint_url_s3", "aws_s3_express", "aws_conditional_put"})
"""Variables of the environment that say more of how a bucket is reached."""
_KEY = re.compile(r"(?!.*(?:^|/)\.{0,2}(?:/|$))[A-Za-z0-9_.$=/-]+")
"""Matches keys that are spelled the same everywhere."""
_DEBUG = "\n\nDebug source:"
_LEFT_SECONDS = 60.0
ROUNDS = RetryPolicy(4, first_pause=0.2, longest_pause=0.4, why="the object store did not answer")
"""Of requests that obstore has sent as often as it may, or that the store was too busy for: Lance begins again as often."""
_BUSY = re.compile(r" retries, max_retries: |status code: (?:429|503)\b")


_ANSWERS = (FileNotFoundError, AlreadyExistsError)


class PutClient:
    """Reads and writes whole small files of a bucket, also on the condition that none is there; asks for each in one request.

    Its requests are sent again as Lance's are. Errors are `OSError` with the words of Lance's.
    """

    def __init__(self, store: S3Store) -> None:
        self._store = store
        self._has_answered = False
        self._left_until = 0.0

    @property
    def is_usable(self) -> bool:
        """False for a while after the first request failed: the bucket may be reached by Lance alone."""
        return time.monotonic() >= self._left_until

    def leave(self) -> bool:
        """Return whether a request that failed is to be left to Lance: no request was ever answered, so that its error says nothing yet."""
        if not self._has_answered:
            log.warning("the object store is reached by Lance alone for %g seconds", _LEFT_SECONDS)
            self._left_until = time.monotonic() + _LEFT_SECONDS
        return not self._has_answered

    def read(self, key: str) -> bytes | None:
        """Return the content of a file; None where there is none."""
        try:
            return self._ask(StoreRequest.READ, lambda: bytes(obstore.get(self._store, key).bytes()))
        except FileNotFoundError as exc:
            if "<Code>NoSuchBucket<" in str(exc):
                raise _error(exc) from None
            self._has_answered = True
            return None
        except BaseError as exc:
            raise _error(exc) from None

    def write(self, key: str, content: bytes) -> None:
        """Write a file, whatever is there."""
        try:
            self._ask(StoreRequest.WRITE, lambda: obstore.put(self._store, key, content, use_multipart=False))
        except (BaseError, FileNotFoundError) as exc:
            raise _error(exc) from None

    def make(self, key: str, content: bytes) -> bool:
        """Write a file that is not there yet, of a content that no other one has; return False, and nothing is written, where one is there.

        Where the answer is lost, or says that the file is there since the request arrived twice, the file says whose it is.
        """
        try:
            self._ask(
                StoreRequest.WRITE,
                lambda: obstore.put(self._store, key, content, mode="create", use_multipart=False),
            )
        except AlreadyExistsError:
            return self.read(key) == content
        except (BaseError, FileNotFoundError) as exc:
            failed = _error(exc)
            if _BUSY.search(str(failed)):
                raise failed from None
            try:
                present = self.read(key)
            except OSError:
                raise failed from None
            if present is None:
                raise failed from None
            return present == content
        return True

    def _ask(self, kind: StoreRequest, work: Callable[[], T]) -> T:
        """Return the answer to a request, which is sent again in as many rounds as Lance sends it."""
        for attempt in range(ROUNDS.attempts - 1):
            try:
                with store_requests.count_request(kind, _ANSWERS):
                    answer = work()
            except AlreadyExistsError:
                raise
            except BaseError as exc:
                if not _BUSY.search(str(exc)):
                    raise
                ROUNDS.pause(attempt)
            else:
                self._has_answered = True
                return answer
        with store_requests.count_request(kind, _ANSWERS):
            answer = work()
        self._has_answered = True
        return answer


def _error(exc: Exception) -> OSError:
    """Return the error of a request as Lance words it, without what obstore adds for those who debug it."""
    return OSError(f"LanceError(IO): {str(exc).partition(_DEBUG)[0]}")


def put_client(uri: str, options: Mapping[str, str]) -> tuple[PutClient, str] | None:
    """Return what writes below a place of S3, and the key of the place; None for any that only Lance reaches as its options say.

    >>> options = {"aws_region": "r", "aws_access_key_id": "k", "aws_secret_access_key": "s"}
    >>> put_client("s3://bucket/t", options) is None, put_client("s3+ddb://bucket/t", options) is None
    (False, True)
    >>> put_client("s3://bucket/t", {**options, "aws_conditional_put": "disabled"}) is None
    True
    """
    scheme, _, place = uri.partition("://")
    bucket, _, key = place.rstrip("/").partition("/")
    if scheme != "s3" or bucket.endswith("--x-s3") or not _KEY.fullmatch(key):
        return None
    environment = {name.lower(): value for name, value in os.environ.items()}
    if environment.keys() & _CHANGING:
        return None
    known = {name: value for name, value in environment.items() if _option(name) in _SAID}
    client = _client(bucket, tuple(sorted([*options.items(), *known.items()])))
    return (client, key) if client is not None and client.is_usable else None


def _option(name: str) -> str:
    option = name.lower().removeprefix("aws_")
    return _SAME.get(option, option)


@cache
def _client(bucket: str, options: tuple[tuple[str, str], ...]) -> PutClient | None:
    """Return the client of a bucket; None where its options say what is not known here, or one of them in two ways.

    Without a region or keys Lance looks for some in many places.
    """
    given = dict[str, str]()
    for name, value in options:
        option = _option(name)
        if option not in _SAID | _OF_LANCE or given.setdefault(option, value) != value:
            return None
    is_signed = given.get("skip_signature", "").lower() != "true"
    if "region" not in given or (is_signed and not {"access_key_id", "secret_access_key"} <= given.keys()):
        return None
    try:
        retries = int(given.get("client_max_retries", "10"))
        longest = timedelta(seconds=int(given.get("client_retry_timeout", "180")))
        config: Any = {f"aws_{option}": value for option, value in given.items() if option not in _OF_LANCE}
        store = S3Store(bucket, config=config, retry_config={"max_retries": retries, "retry_timeout": longest})
    except (ValueError, BaseError):
        return None
    return PutClient(store)


_MOST_TABLES = 65_536
_SETTLED_NS = 100_000_000
"""A directory that changed later than this before it was examined may change once more within one tick of its clock."""

_FILES = ("data", "_deletions")
_DIRECTORIES = ("_indices", "_refs")

_Mark: TypeAlias = tuple[int, int, int] | None
"""Mark that changes with a directory: device, inode, and the moment of the change; None: it is not there."""

_examined = LruCache[str, tuple[tuple[str, _Mark], ...]](_MOST_TABLES, idle_seconds=IDLE_SECONDS)
"""The directories of each table that was found free of links, as they were then."""


def check_way(top: str, path: str) -> None:
    """Raise `OutsideRoot` for the first symbolic link between `top`, which may be one, and a path below it."""
    at = top
    for name in path[len(top) :].split("/"):
        if name:
            at = f"{at}/{name}"
            try:
                mode = os.lstat(at).st_mode
            except OSError:
                return
            if stat.S_ISLNK(mode):
                raise _follow(top, at)


def check_table(top: str, table: str) -> None:
    """Raise `OutsideRoot` for a symbolic link on the way to a Lance table, or among its files."""
    check_way(top, table)
    known = _examined.get(table)
    if known is not None and all(_mark(path) == mark for path, mark in known):
        return
    marks = tuple(_examine(top, table))
    newest = max((mark[2] for _, mark in marks if mark is not None), default=0)
    if newest < time.time_ns() - _SETTLED_NS:
        _examined.put(table, marks)
    else:
        _examined.pop(table)


def check_place(top: str, table: str) -> None:
    """Raise `OutsideRoot` for a symbolic link on the way to a Lance table or right in its directory; reads no file of it."""
    check_way(top, table)
    _entries(top, table)


def check_version(top: str, table: str, version: int) -> None:
    """Raise `OutsideRoot` where the file of a table's version is a symbolic link."""
    for name in version_names(version):
        with suppress(OSError):
            path = f"{table}/{VERSIONS}/{name}"
            if stat.S_ISLNK(os.lstat(path).st_mode):
                raise _follow(top, path)
            return


def _examine(top: str, table: str) -> Iterator[tuple[str, _Mark]]:
    """Look for links in a table's directories, and yield each of those as it was before."""
    yield table, _mark(table)
    there = _entries(top, table)
    for name in () if f"/{MANIFEST}" in table else _FILES:
        if name in there:
            yield f"{table}/{name}", _mark(f"{table}/{name}")
            _entries(top, f"{table}/{name}")
    for name in _DIRECTORIES:
        if name in there:
            yield f"{table}/{name}", _mark(f"{table}/{name}")
            for inner in _entries(top, f"{table}/{name}"):
                yield f"{table}/{name}/{inner}", _mark(f"{table}/{name}/{inner}")
                _entries(top, f"{table}/{name}/{inner}")
    if BRANCHES in there:
        yield f"{table}/{BRANCHES}", _mark(f"{table}/{BRANCHES}")
        _entries(top, f"{table}/{BRANCHES}")


def _entries(top: str, directory: str) -> set[str]:
    """Return the names in a directory, none of which is a link; none where it cannot be listed."""
    names = set()
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_symlink():
                raise _follow(top, entry.path)
            names.add(entry.name)
    return names


def _mark(path: str) -> _Mark:
    try:
        state = os.lstat(path)
    except OSError:
        return None
    return state.st_dev, state.st_ino, state.st_mtime_ns


def _follow(top: str, path: str) -> OutsideRoot:
    place = path.removeprefix(f"{top}/")
    return OutsideRoot(
        f"{place!r} is a symbolic link and lies in another place than its own, and no link below a root is followed;"
        " expected the file or directory itself"
    )
