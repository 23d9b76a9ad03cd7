"""Translates errors of DataFusion during planning and execution into errors of lance-flight."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.engine.query.provider import ScanLog
from lance_flight.engine.sql.functions import plain_message
from lance_flight.engine.sql.habits import file_advice
from lance_flight.engine.sql.references import CATALOG
from lance_flight.errors import LanceFlightError, LimitExceeded, NotFound, OutOfMemory, StorageFull

_NO_MEMORY = "Resources exhausted"
"""Text that DataFusion puts into every error of its memory pool."""
_TOO_LARGE = "value: LimitExceeded("
"""Text in the message of an error that a bounded function raised."""


class QueryErrors:
    """Errors of one statement: those that its `log` has recorded, and the reasons why its names could not be resolved."""

    def __init__(self, root: Root, log: ScanLog) -> None:
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
        except LanceFlightError:
            raise
        except Exception as exc:
            raise self._translate(exc, otherwise) from exc

    def _translate(self, exc: Exception, otherwise: type[LanceFlightError]) -> LanceFlightError:
        """Return the error of lance-flight that caused an exception, else DataFusion's message as `otherwise`."""
        if self._log.error is not None:
            return self._log.error
        for said, why in self._missing.items():
            if said in str(exc):
                return NotFound(why + file_advice(why))
        full = StorageFull.of(exc, "spill_directory")
        if full is not None:
            return full
        if _NO_MEMORY in str(exc):
            otherwise = OutOfMemory
        elif _TOO_LARGE in str(exc):
            otherwise = LimitExceeded
        message = plain_message(exc)
        return otherwise(self._root.store.words(message + file_advice(message)))
