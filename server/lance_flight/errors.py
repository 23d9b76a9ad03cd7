"""Hierarchy of the errors that lance-flight raises on purpose, by what the caller can do about them.

```text
LanceFlightError
├── InvalidInput        the request itself is wrong: change it
│   ├── InvalidTransactionState  BEGIN in a transaction, COMMIT or ROLLBACK without one, a write in a read-only one
│   ├── SqlError            text that is not SQL, or a statement that cannot be planned
│   ├── SpecError           a partition spec (every problem of it at once)
│   ├── SchemaError         a schema that does not fit, or may not change so
│   ├── DataError           a row that may not be stored as it is
│   └── TicketError         a ticket or handle that we did not issue, or that was altered
│       └── TicketExpired         a ticket that was redeemed too late
├── NotFound            no such table, column, schema, snapshot, tag …
├── AlreadyExists       a table that is there already
│   └── AlreadyCommitted      a write whose id is committed: there is nothing left to do
├── QueryFailed         planned well, and failed on the data: division by zero …
│   └── OutOfMemory           it needs more memory than it may have, and cannot spill
├── Conflict            another writer was first: run it again
│   └── SerializationFailure  what was read was changed meanwhile: run it again on a new snapshot
├── OutcomeUnknown      a commit was sent and its answer lost: look before running it again
├── Unavailable         not now: the server is stopping, or its object store fails; try again, on another one or later
├── Cancelled           ended before it was done: by its client, an administrator or the server
│   └── StatementTimeout      it took longer than statements may
├── StorageFull         no room where something is written: free some, and run it again
├── StorageDenied       no rights on files, or a read-only device: give them to the server's user
├── StorageUnauthenticated  the object store refuses the server's key: give it a valid one
├── LimitExceeded       more than the server gives to one client, statement or session
│   └── QuotaExceeded         the quota of a role is used up: try again when the message says
├── Unauthenticated     no valid credentials
├── Refused             not allowed, whatever the request says
├── Unsupported         understood, and not offered
│   └── NewerFormat           stored by a newer release in a way that this one does not know
└── Corrupt             stored data that breaks the spec: repair it
    └── OutsideRoot     a path leaves the root; nothing there is read or written
```

Each class has a `code`, lower-case words that never change, and the SQLSTATE that is nearest to it; clients are sent both in front of
the message.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_CUT = " … "
_SYSTEM_ERROR = re.compile(r"\(os error (?P<rust>\d+)\)|Error: \[Errno (?P<python>\d+)\]")
"""Matches the number of an operating-system error in a message of Rust code (Lance and DataFusion), or of Python's that it repeats."""

_OBJECT_STORE_ERROR = re.compile(
    r"Generic (S3|GCS|MicrosoftAzure|HTTP) error: |AWS Error [A-Z_]+ (?:\(HTTP status \d+\) )?during "
    r"|The operation lacked (?:the necessary privileges|valid authentication credentials) "
)
"""Matches how Rust code (Lance) and pyarrow name a request that an object store has failed."""
_KEY_REFUSED = re.compile(
    r"AWS Error (?:ACCESS_DENIED|INVALID_\w+|SIGNATURE_DOES_NOT_MATCH|MISSING_AUTHENTICATION_TOKEN|UNRECOGNIZED_CLIENT|\w*EXPIRED\w*"
    r"|UNKNOWN \(HTTP status 40[13]\))|status code: 40[13]\b|The operation lacked "
    r"|(?:<Code>|ExceptionName: )(?:\w*Expired\w*|Invalid\w*Token\w*|InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied\w*)"
)
"""Matches how they name a key that the object store refuses; of some requests it does not say why."""
_NO_BUCKET = re.compile(r"AWS Error NO_SUCH_BUCKET |<Code>NoSuchBucket<|\bBucket '[^']*' not found")


def _error_number(error: BaseException) -> int | None:
    """Return the number of a system error, as Python has it or as the words of Rust code say; None for another error."""
    match = _SYSTEM_ERROR.search(str(error))
    if match is not None:
        return int(match["rust"] or match["python"])
    return error.errno if isinstance(error, OSError) else None


class LanceFlightError(Exception):
    """Root of the error hierarchy; `str(error)` names the thing, the value and what was expected.

    One that the audit trail holds already `is_recorded`.
    """

    code: ClassVar[str] = "error"
    sqlstate: ClassVar[str] = "HY000"
    is_recorded: bool = False


class InvalidInput(LanceFlightError):
    """A request that is invalid as it stands."""

    code = "invalid_input"
    sqlstate = "22023"


class InvalidTransactionState(InvalidInput):
    """A statement that does not fit the state of its session's transaction."""

    code = "invalid_transaction_state"
    sqlstate = "25000"


class SqlError(InvalidInput):
    """SQL text that does not parse or cannot be planned."""

    code = "invalid_sql"
    sqlstate = "42000"


class _Problems(InvalidInput):
    """An error that lists every problem found, not only the first one."""

    def __init__(self, what: str, problems: Sequence[str]) -> None:
        self.what = what
        self.problems = tuple(problems)
        super().__init__(f"{what}: " + "; ".join(self.problems))

    def __reduce__(self) -> tuple[type[Self], tuple[str, tuple[str, ...]]]:
        # Errors of other processes come as pickles, which would be made of the text alone.
        return type(self), (self.what, self.problems)


class SpecError(_Problems):
    """A partition spec with problems; `problems` has one line for each."""

    code = "invalid_spec"
    sqlstate = "42P17"


class SchemaError(_Problems):
    """An invalid or unfitting schema; `problems` names each column with its problem."""

    code = "invalid_schema"
    sqlstate = "42P16"


class DataError(InvalidInput):
    """A value that may not be stored: NULL in a NOT NULL column, out of range, not castable."""

    code = "invalid_data"
    sqlstate = "22000"


class TicketError(InvalidInput):
    """A ticket or prepared handle that was not issued under this key, or was altered."""

    code = "invalid_ticket"
    sqlstate = "26000"


class TicketExpired(TicketError):
    """A ticket that was redeemed after it expired: the versions that it reads may have been deleted."""

    code = "ticket_expired"


class NotFound(LanceFlightError):
    """A request for a thing that does not exist."""

    code = "not_found"
    sqlstate = "42S02"

    @classmethod
    def named(cls, kind: str, name: str, known: Iterable[str]) -> NotFound:
        """Return `NotFound` for `name`, with the nearest of the `known` names.

        >>> str(NotFound.named("table", "fligths", ["flights", "planes"]))
        "no table 'fligths'; did you mean 'flights'?"
        >>> str(NotFound.named("column", "ORIGIN", ["origin", "dest"]))
        "no column 'ORIGIN'; did you mean 'origin'?"
        """
        folded = {other.casefold(): other for other in known if other != name}
        near = [folded[each] for each in difflib.get_close_matches(name.casefold(), folded, n=3)]
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        return cls(f"no {kind} {name!r}{hint}")


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> list[str]:
    """Return up to three `known` names that are similar to `name`, the likeliest first; a `likeness` of 1 demands equality."""
    return difflib.get_close_matches(name, list(known), n=3, cutoff=likeness)


class AlreadyExists(LanceFlightError):
    """A name that is already in use."""

    code = "already_exists"
    sqlstate = "42S01"


class AlreadyCommitted(AlreadyExists):
    """A write whose commit id was committed before; nothing of this one is visible."""

    code = "already_committed"
    sqlstate = "23505"


class QueryFailed(LanceFlightError):
    """A query that failed during execution."""

    code = "query_failed"
    sqlstate = "22000"


class OutOfMemory(QueryFailed):
    """A query that exceeds its memory limit; other queries continue."""

    code = "out_of_memory"
    sqlstate = "53200"


class Conflict(LanceFlightError):
    """Another writer committed first and the work could not be rebased; nothing of it is visible."""

    code = "conflict"
    sqlstate = "40001"


class SerializationFailure(Conflict):
    """A concurrent transaction changed what this transaction read or wrote over; nothing of this one is visible."""

    code = "serialization_failure"


class OutcomeUnknown(LanceFlightError):
    """A commit whose outcome is unknown: its rows are all visible, or none."""

    code = "outcome_unknown"
    sqlstate = "40003"


class Unavailable(LanceFlightError):
    """The server accepts no calls now, and nothing was done; or its object store failed a request."""

    code = "unavailable"
    sqlstate = "57P03"

    @classmethod
    def of(cls, error: BaseException) -> Unavailable | None:
        """Return this error for an object store that failed a request, or was not reached, from any library; None for any other error.

        >>> Unavailable.of(OSError("LanceError(IO): Generic S3 error: Error performing PUT http://10.0.0.1/b/k: HTTP error"))
        Unavailable('the object store of the root failed a request; expected a later try')
        >>> Unavailable.of(OSError("When getting information for key 'k': AWS Error UNKNOWN (HTTP status 500) during HeadObject operation"))
        Unavailable('the object store of the root failed a request; expected a later try')
        >>> Unavailable.of(OSError("No such file or directory")) is None
        True
        """
        if not _OBJECT_STORE_ERROR.search(str(error)):
            return None
        return cls("the object store of the root failed a request; expected a later try")


class Cancelled(LanceFlightError):
    """A statement that was cancelled before it was done; nothing that it wrote is visible."""

    code = "cancelled"
    sqlstate = "57014"


class StatementTimeout(Cancelled):
    """A statement that exceeded its time limit."""

    code = "statement_timeout"


class StorageFull(LanceFlightError):
    """A device, or a quota on one, without room for what is to be written."""

    code = "storage_full"
    sqlstate = "53100"

    @classmethod
    def of(cls, error: BaseException, place: str) -> StorageFull | None:
        """Return this error for a system error that means a full device, from any library; None for any other error.

        `place` names the data on the device in the message, instead of a path that clients should not see.

        >>> StorageFull.of(OSError(errno.ENOSPC, "No space left on device"), "the root")
        StorageFull('no space is left for the root: No space left on device; expected room to be made there')
        """
        number = _error_number(error)
        if number is None or number not in _FULL:
            return None
        return cls(f"no space is left for {place}: {os.strerror(number)}; expected room to be made there")


class StorageDenied(LanceFlightError):
    """A file or directory that the server's user may not read or write, or on a device that is read-only."""

    code = "storage_denied"
    sqlstate = "58030"

    @classmethod
    def of(cls, error: BaseException, place: str) -> StorageDenied | None:
        """Return this error for a system error that means missing rights, from any library; None for any other error.

        >>> StorageDenied.of(OSError(errno.EROFS, "Read-only file system"), "the root")
        StorageDenied('the root may not be read or written: Read-only file system; expected rights on it for the user of the server')
        """
        number = _error_number(error)
        if number is None or number not in _DENIED:
            return None
        return cls(
            f"{place} may not be read or written: {os.strerror(number)}; expected rights on it for the user of the server"
        )


class StorageUnauthenticated(LanceFlightError):
    """A key of the server that the object store of its root refuses, or that may not do what was asked."""

    code = "storage_unauthenticated"
    sqlstate = "28000"

    @classmethod
    def of(cls, error: BaseException) -> StorageUnauthenticated | None:
        """Return this error for a key that an object store refuses; None for any other error.

        >>> StorageUnauthenticated.of(OSError("AWS Error ACCESS_DENIED during HeadObject operation: No response body."))
        StorageUnauthenticated('the object store of the root refuses the key of the server, or what it may do; expected valid storage options')
        """
        text = str(error)
        if not (_OBJECT_STORE_ERROR.search(text) and _KEY_REFUSED.search(text)):
            return None
        return cls(
            "the object store of the root refuses the key of the server, or what it may do; expected valid storage options"
        )


class LimitExceeded(LanceFlightError):
    """A request that exceeds a limit of the server for one client, statement or session."""

    code = "limit_exceeded"
    sqlstate = "54000"

    @classmethod
    def of(cls, error: BaseException) -> LimitExceeded | None:
        """Return this error for memory that was refused, or too many open files, from any library; None for any other error.

        >>> LimitExceeded.of(OSError(errno.EMFILE, "Too many open files"))
        LimitExceeded('the server has as many files open as it may; expected a later try')
        """
        if isinstance(error, MemoryError):
            return cls(
                "what clients send to the server at the same time takes more memory decompressed than it has for all of them;"
                " expected smaller batches, or a later try"
            )
        if _error_number(error) not in {errno.EMFILE, errno.ENFILE}:
            return None
        return cls("the server has as many files open as it may; expected a later try")


class QuotaExceeded(LimitExceeded):
    """A statement beyond the quota of its principal's role; it is free again later, as the message says."""

    code = "quota_exceeded"
    sqlstate = "53400"


class Unauthenticated(LanceFlightError):
    """A call without valid credentials."""

    code = "unauthenticated"
    sqlstate = "28000"


class Refused(LanceFlightError):
    """A request that the caller is not allowed to make."""

    code = "refused"
    sqlstate = "42501"


class Unsupported(LanceFlightError):
    """A valid request that this server does not support."""

    code = "unsupported"
    sqlstate = "0A000"


class NewerFormat(Unsupported):
    """Stored data of a format version that only newer releases know; nothing of it is read or changed."""

    code = "newer_format"


class Corrupt(LanceFlightError):
    """Stored data that breaks the specification."""

    code = "corrupt"
    sqlstate = "XX001"


class OutsideRoot(Corrupt):
    """A path that would leave the root: a symbolic link below it, or a table with files elsewhere."""


def without_middle(text: str, most: int) -> str:
    """Return a text of at most so many characters: its beginning, and a third of it from its end.

    >>> without_middle("abcdefghijkl", 9)
    'abcd … kl'
    """
    if len(text) <= most:
        return text
    end = (most - len(_CUT)) // 3
    return f"{text[: most - len(_CUT) - end]}{_CUT}{text[-end:]}"


def storage_error(error: BaseException, place: str = "the root") -> LanceFlightError | None:
    """Return the error for what the device or the object store under `place` refused; None for an error of another kind.

    >>> storage_error(ValueError("LanceError(IO): Generic S3 error: <Code>NoSuchBucket</Code>"))
    NotFound('the bucket of the root does not exist; expected one that was made')
    """
    if isinstance(error, LanceFlightError):
        return None
    if _NO_BUCKET.search(str(error)):
        return NotFound(f"the bucket of {place} does not exist; expected one that was made")
    return (
        StorageFull.of(error, place)
        or StorageDenied.of(error, place)
        or LimitExceeded.of(error)
        or StorageUnauthenticated.of(error)
        or Unavailable.of(error)
    )
