"""Answers to failed requests: the code of the Lance REST catalog, its HTTP status, and our own code in the message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from http import HTTPStatus

from pydantic import ValidationError

from lance_flight.errors import (
    AlreadyExists,
    Cancelled,
    Conflict,
    InvalidInput,
    LanceFlightError,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    QuotaExceeded,
    Refused,
    SchemaError,
    StatementTimeout,
    StorageFull,
    Unauthenticated,
    Unavailable,
    Unsupported,
    without_middle,
)
from lance_flight.flight.status import describe_whole, nearest


class Code(IntEnum):
    """Error codes of the catalog (`ErrorResponse`)."""

    UNSUPPORTED = 0
    NAMESPACE_NOT_FOUND = 1
    NAMESPACE_EXISTS = 2
    NAMESPACE_NOT_EMPTY = 3
    TABLE_NOT_FOUND = 4
    TABLE_EXISTS = 5
    INDEX_NOT_FOUND = 6
    INDEX_EXISTS = 7
    TAG_NOT_FOUND = 8
    TAG_EXISTS = 9
    VERSION_NOT_FOUND = 11
    COLUMN_NOT_FOUND = 12
    INVALID_INPUT = 13
    CONFLICT = 14
    PERMISSION_DENIED = 15
    UNAUTHENTICATED = 16
    UNAVAILABLE = 17
    INTERNAL = 18
    SCHEMA_INVALID = 20
    THROTTLING = 21
    BRANCH_NOT_FOUND = 22
    BRANCH_EXISTS = 23


class NamespaceNotEmpty(InvalidInput):
    """A namespace that has tables, and is to be dropped."""


_ANSWERS: Mapping[type[LanceFlightError], tuple[HTTPStatus, Code]] = {
    SchemaError: (HTTPStatus.BAD_REQUEST, Code.SCHEMA_INVALID),
    NamespaceNotEmpty: (HTTPStatus.CONFLICT, Code.NAMESPACE_NOT_EMPTY),
    InvalidInput: (HTTPStatus.BAD_REQUEST, Code.INVALID_INPUT),
    AlreadyExists: (HTTPStatus.BAD_REQUEST, Code.TABLE_EXISTS),
    NotFound: (HTTPStatus.NOT_FOUND, Code.TABLE_NOT_FOUND),
    Conflict: (HTTPStatus.CONFLICT, Code.CONFLICT),
    OutcomeUnknown: (HTTPStatus.INTERNAL_SERVER_ERROR, Code.INTERNAL),
    Unavailable: (HTTPStatus.SERVICE_UNAVAILABLE, Code.UNAVAILABLE),
    StatementTimeout: (HTTPStatus.REQUEST_TIMEOUT, Code.THROTTLING),
    Cancelled: (HTTPStatus.BAD_REQUEST, Code.INVALID_INPUT),
    StorageFull: (HTTPStatus.INSUFFICIENT_STORAGE, Code.INTERNAL),
    QuotaExceeded: (HTTPStatus.TOO_MANY_REQUESTS, Code.THROTTLING),
    LimitExceeded: (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, Code.THROTTLING),
    Unauthenticated: (HTTPStatus.UNAUTHORIZED, Code.UNAUTHENTICATED),
    Refused: (HTTPStatus.FORBIDDEN, Code.PERMISSION_DENIED),
    Unsupported: (HTTPStatus.NOT_ACCEPTABLE, Code.UNSUPPORTED),
    LanceFlightError: (HTTPStatus.BAD_REQUEST, Code.INVALID_INPUT),
}
"""Statuses and codes by the nearest class of an error. Clients of LanceDB send a request again after 429 and 5xx, so that nothing else has those."""

_OF_ABSENT: Mapping[str, tuple[HTTPStatus, Code]] = {
    "table": (HTTPStatus.NOT_FOUND, Code.TABLE_NOT_FOUND),
    "view": (HTTPStatus.NOT_FOUND, Code.TABLE_NOT_FOUND),
    "schema": (HTTPStatus.NOT_FOUND, Code.NAMESPACE_NOT_FOUND),
    "namespace": (HTTPStatus.NOT_FOUND, Code.NAMESPACE_NOT_FOUND),
    "index": (HTTPStatus.NOT_FOUND, Code.INDEX_NOT_FOUND),
    "tag": (HTTPStatus.NOT_FOUND, Code.TAG_NOT_FOUND),
    "branch": (HTTPStatus.NOT_FOUND, Code.BRANCH_NOT_FOUND),
    "snapshot": (HTTPStatus.NOT_FOUND, Code.VERSION_NOT_FOUND),
    "version": (HTTPStatus.NOT_FOUND, Code.VERSION_NOT_FOUND),
    # LanceDB's clients take any 404 for a table that is not there.
    "column": (HTTPStatus.BAD_REQUEST, Code.COLUMN_NOT_FOUND),
}
"""Answers for things that are absent, by their nouns in the message."""

_OF_PRESENT: Mapping[str, tuple[HTTPStatus, Code]] = {
    "schema": (HTTPStatus.CONFLICT, Code.NAMESPACE_EXISTS),
    "index": (HTTPStatus.CONFLICT, Code.INDEX_EXISTS),
    "tag": (HTTPStatus.CONFLICT, Code.TAG_EXISTS),
    "branch": (HTTPStatus.CONFLICT, Code.BRANCH_EXISTS),
}
"""Answers for things that exist already. LanceDB's clients know a table that exists by the status 400 and the words `already exists`."""

_ABSENT = re.compile(r"\b(?:no|an) (\w+) ?'?")
"""Matches the thing that is absent: `table 't' has no version 3`, `no index 'v'`."""
_PRESENT = re.compile(r"^(\w+) '|\ban (index) ")
"""Matches the thing that exists: `branch 'b' is there already`, `table 't' has an index v`."""
_CHANGES = re.compile(r"/(?:(?:tags|branches)/(?:create|delete|update)|restore)/?$")
"""Matches the paths of changes to the tags, branches and versions of a table."""
MOST_MESSAGE = 8_000


def answer_error(
    error: BaseException, instance: str, *, is_lancedb: bool = False
) -> tuple[HTTPStatus, dict[str, object]]:
    """Return the status and the `ErrorResponse` for an error; one that is not ours is logged and not shown.

    LanceDB's clients send a request again after 409, which helps against a conflict alone. They take any 404 for a table that is not there:
    right for a version that is looked up, since `checkout` raises the same error as that of an embedded database, and wrong for a change.
    """
    if isinstance(error, ValidationError):
        places = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5])
        error = InvalidInput(f"the body of the request is invalid: {places}")
    known, text = describe_whole(error)
    if known is None:
        return HTTPStatus.INTERNAL_SERVER_ERROR, _body(text, Code.INTERNAL, instance)
    status, code = _classify(known)
    is_refused = status is HTTPStatus.CONFLICT and code is not Code.CONFLICT
    lacks_part = status is HTTPStatus.NOT_FOUND and code is not Code.TABLE_NOT_FOUND and _CHANGES.search(instance)
    if is_lancedb and (is_refused or lacks_part):
        status = HTTPStatus.BAD_REQUEST
    text = without_middle(text, MOST_MESSAGE)
    if code is Code.TABLE_EXISTS:
        text += " (already exists)"
    return status, _body(text, code, instance)


def _classify(error: LanceFlightError) -> tuple[HTTPStatus, Code]:
    answer = nearest(error, _ANSWERS) or _ANSWERS[LanceFlightError]
    nouns, pattern = (_OF_PRESENT, _PRESENT) if isinstance(error, AlreadyExists) else (_OF_ABSENT, _ABSENT)
    match = pattern.search(str(error)) if isinstance(error, NotFound | AlreadyExists) else None
    return answer if match is None else nouns.get(match[match.lastindex or 0], answer)


def _body(text: str, code: Code, instance: str) -> dict[str, object]:
    return {"error": text, "code": int(code), "instance": instance}
