"""Translates what DataFusion raises while it plans and runs a statement into errors of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.engine.query.provider import ScanLog
from lance_flight.engine.sql.functions import plain_message
from lance_flight.engine.sql.references import CATALOG
from lance_flight.errors import LanceFlightError, LimitExceeded, NotFound, OutOfMemory, StorageFull

_NO_MEMORY = "Resources exhausted"
"""DataFusion says so in every error of its pool."""
_TOO_LARGE = "value: LimitExceeded("
"""Of an error that a function of ours raised."""


class QueryErrors:
    """The errors of one statement: those that its `log` has noted, and why names that it uses are no tables."""

    def __init__(self, root: Root, log: ScanLog) -> None:
        self._root = root
        self._log = log
        self._missing: dict[str, str] = {}

    def note_missing(self, reference: str, name: TableName, why: str) -> None:
        """Remember why a name is no table: that matters only if DataFusion misses it, since it may be a table function's."""
        self._missing[f"table '{CATALOG}.{name}' not found"] = why
        for said in (reference, str(name), f"{CATALOG}.{name}"):
            self._missing[f"No table named '{said}'"] = why  # of a Substrait plan

    @contextmanager
    def raised_as(self, otherwise: type[LanceFlightError]) -> Iterator[None]:
        """Raise what ends the block as an error of ours, DataFusion's own ones as `otherwise`."""
        try:
            yield
        except LanceFlightError:
            raise
        except Exception as exc:
            raise self._translated(exc, otherwise) from exc

    def _translated(self, exc: Exception, otherwise: type[LanceFlightError]) -> LanceFlightError:
        """Our own error where one of ours began it, else DataFusion's words under `otherwise`."""
        if self._log.error is not None:
            return self._log.error
        for said, why in self._missing.items():
            if said in str(exc):
                return NotFound(why)
        full = StorageFull.of(exc, "spill_directory")
        if full is not None:
            return full
        if _NO_MEMORY in str(exc):
            otherwise = OutOfMemory
        elif _TOO_LARGE in str(exc):
            otherwise = LimitExceeded
        return otherwise(self._root.store.words(plain_message(exc)))
