"""Translates errors of DataFusion during planning and execution into errors of lance-flight."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.engine.functions.foreign_functions import relation_advice
from lance_flight.engine.query.tables.provider import ScanLog
from lance_flight.engine.sql.references import CATALOG
from lance_flight.engine.translation.plan_messages import plain_error
from lance_flight.errors import (
    LanceFlightError,
    LimitExceeded,
    NotFound,
    OutOfMemory,
    QueryFailed,
    Refused,
    storage_error,
    without_middle,
)

_NO_MEMORY = "Resources exhausted"
"""Text that DataFusion puts into every error of its memory pool."""
_NO_FIELD = re.compile(r"No field named (?:[^\s,]+\.)?\"?(?P<column>[^\s\".,]+)\"?[.,]")
_NO_BUFFER = "ArrowMemoryError("
"""Text in the message of an error of a function that is computed by pyarrow."""
_TOO_WIDE = "offset overflow"
"""Text in errors and panics of arrow-rs for texts that are too long for one batch."""
_TOO_LARGE = "value: LimitExceeded("
"""Text in the message of an error that a bounded function raised."""


_LONGEST = 100_000
"""Characters of a message that are read: one may have a value of megabytes, and each pattern holds Python's lock meanwhile."""


class QueryErrors:
    """Errors of one statement: those that its `log` has recorded, and the reasons why its names could not be resolved.

    `withheld` are columns without SELECT that the principal knows of, with their tables. Where tables are `masked`, what is said of a failed
    run names no value: it may be one that a mask was computed of.
    """

    def __init__(self, root: Root, log: ScanLog, withheld: Mapping[str, str], masked: Collection[TableName]) -> None:
        self._withheld = withheld
        self._masked = masked
        self._root = root
        self._log = log
        self._missing: dict[str, str] = {}

    def note_missing(self, reference: str, name: TableName, why: str) -> None:
        """Record why a name is no table: that matters only if DataFusion misses it, since it may be a table function's."""
        self._missing[f"table '{CATALOG}.{name}' not found"] = why
        for said in (reference, str(name), f"{CATALOG}.{name}"):
            self._missing[f"No table named '{said}'"] = why  # of a Substrait plan

    @contextmanager
    def raised_as(self, otherwise: type[LanceFlightError]) -> Iterator[None]:
        """Raise errors of the block as errors of lance-flight; DataFusion's own ones become `otherwise`."""
        try:
            yield
        except LanceFlightError as exc:
            raise self._without_values(exc) from exc.__cause__
        except Exception as exc:
            raise self._without_values(self._translate(_short(exc), otherwise)) from exc

    def _without_values(self, error: LanceFlightError) -> LanceFlightError:
        if not self._masked or type(error) is not QueryFailed:
            return error
        names = ", ".join(sorted({repr(name.name) for name in self._masked}))
        return QueryFailed(
            f"an expression failed on a value; which one is not told of a query that reads masked columns, of {names}"
        )

    def _translate(self, exc: Exception, otherwise: type[LanceFlightError]) -> LanceFlightError:
        """Return the error of lance-flight that caused an exception, else DataFusion's message as `otherwise`."""
        if self._log.error is not None:
            return self._log.error
        for said, why in self._missing.items():
            if said in str(exc):
                return NotFound(why + relation_advice(why))
        if isinstance(exc, MemoryError) or _NO_BUFFER in str(exc):
            return OutOfMemory(
                "rows of the result take more memory at once than the server has for those of all clients; expected shorter"
                " values, or fewer in a list"
            )
        if _TOO_WIDE in str(exc).lower():
            return LimitExceeded(
                "the values of one column take more than 2 GiB in a batch of rows; expected shorter values, or fewer rows beside them"
            )
        refused = storage_error(exc, "spill_directory")
        if refused is not None:
            return refused
        if _NO_MEMORY in str(exc):
            otherwise = OutOfMemory
        elif _TOO_LARGE in str(exc):
            otherwise = LimitExceeded
        plain = plain_error(exc, otherwise)
        message = str(plain)
        missing = _NO_FIELD.search(message)
        if missing is not None and missing["column"] in self._withheld:
            column = missing["column"]
            return Refused(
                f"no SELECT on column {column!r} of table {self._withheld[column]!r}; a role in the policy file grants it"
            )
        return type(plain)(self._root.store.words(message + relation_advice(message)))


def _short(exc: Exception) -> Exception:
    """Return an exception whose message is no longer than is read."""
    message = str(exc)
    return exc if len(message) <= _LONGEST else RuntimeError(without_middle(message, _LONGEST))
