"""Writing to a root without a server: tasks write data files that stay invisible until the driver commits all at once.

Each task casts its rows by name and splits them by the snapshot's spec, as the server does.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Replaces, SharedWrite, WrittenPart
from lance_flight.catalog.commits.commit_tokens import CommitToken
from lance_flight.catalog.manifests.idempotency import Once
from lance_flight.errors import AlreadyCommitted
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lance_flight_client.spark.writing.reports import Report

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """Files that a task wrote."""

    parts: tuple[WrittenPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """One write of one DataFrame as all of its tasks know it: `names` are what the table calls the columns, in their order.

    `read` are the object ids of the tables whose place its rows take (`Replaces.READ`).
    """

    shared: SharedWrite
    names: Sequence[str]
    replaces: Replaces
    read: Sequence[str] = ()

    def write(self, batches: Iterator[pa.RecordBatch]) -> tuple[WrittenPart, ...]:
        """Do the work of a task."""
        # What was taken from the iterator is gone: a task that fails is run again by Spark, from its first row on.
        tables = (pa.Table.from_batches([batch]).rename_columns(list(self.names)) for batch in batches)
        return self.shared.write(tables, evaluated)

    def commit(self, written: Sequence[WrittenPart], once: Once | None) -> int:
        """Commit what the tasks wrote; the version. Errors as of `SharedWrite.commit`."""
        return self.shared.commit(written, evaluated, replaces=self.replaces, read=self.read, once=once)


class TableWriter(DataSourceArrowWriter):
    """One write of one DataFrame; copies of it run in every task, and on the driver at the end.

    `report` is where the driver says what came of it.
    """

    def __init__(self, planned: PlannedWrite, *, commit_id: str | None = None, report: str | None = None) -> None:
        self._planned = planned
        self._commit_id = commit_id
        self._report = report

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(self._planned.write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        written = [part for message in messages if message is not None for part in cast("Written", message).parts]
        count = sum(part.rows for part in written)
        once = None if self._commit_id is None else CommitToken.now(self._commit_id, count)
        try:
            version = self._planned.commit(written, once)
            report = Report(version=version, rows=count, partitions=len({part.object_id for part in written}))
        except AlreadyCommitted as exc:
            # Another run of the job was faster than this one.
            log.warning("%s; nothing was written", exc)
            report = Report()
        if self._report is not None:
            report.leave(self._report)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if all(message is not None for message in messages):
            # Every task was done, so that a commit was begun: it has cleaned up itself, or its outcome is not known.
            return
        self._planned.shared.discard(
            part for message in messages if message is not None for part in cast("Written", message).parts
        )


class NothingToWrite(DataSourceArrowWriter):
    """A write that was committed before: rows are left where they are."""

    def __init__(self, known: CommitToken, report: str | None = None) -> None:
        self._known = known
        self._report = report

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        log.warning("%s; nothing was written", self._known)
        if self._report is not None:
            Report().leave(self._report)


def evaluated(expression: str, columns: Sequence[pa.Array], result_type: pa.DataType) -> pa.Array:
    """Return a custom partition expression (`model.spec.Evaluate`), computed by DataFusion.

    It is loaded where a table has such an expression: every worker of Spark would take twice as long to start with it.
    """
    return importlib.import_module("lance_flight.engine.sql.functions").evaluate(expression, columns, result_type)
