"""`Dataset`: a table at one version, with a filter and columns, as Arrow, pandas, Polars and DuckDB read it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.dataset as pads
from lance_flight.errors import InvalidInput, Unsupported


class Fragment(Protocol):
    """Part of a dataset; it is pickled, and read in any process that reaches the root or the server."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    @property
    def rows(self) -> int | None:
        """Most rows that it has: those that are stored, of which the filter may leave fewer (None: not known)."""
        ...

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        ...

    def to_table(self) -> pa.Table:
        """Return the rows."""
        ...


class View(Protocol):
    """Source of a dataset: a root, or a server."""

    @property
    def name(self) -> str:
        """The table, with its schema."""
        ...

    @property
    def version(self) -> int:
        """The version that is read."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read."""
        ...

    def count_rows(self) -> int:
        """Return how many rows the filter leaves."""
        ...

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, and keep their snapshot until the last one."""
        ...

    def fragments(self, rows: int) -> Sequence[Fragment]:
        """Return parts of about so many rows at most, always the same ones in the same order."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class Dataset:
    """View of a table at one version, which vacuum keeps for as long as the dataset is open.

    It may be read any number of times, also by what takes an Arrow stream (`__arrow_c_stream__`: DuckDB, Polars). It is closed by
    `close()`, at the end of a `with`, or when nothing references it; streams and fragments of it stay good.
    """

    def __init__(self, view: View) -> None:
        self._view: View | None = view
        self._name, self._version, self._schema = view.name, view.version, view.schema

    @property
    def name(self) -> str:
        """The table, with its schema."""
        return self._name

    @property
    def version(self) -> int:
        """The version that is read: what `snapshot=` takes to read the same elsewhere."""
        return self._version

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read, in their order."""
        return self._schema

    @property
    def view(self) -> View:
        """The source; `InvalidInput` once the dataset is closed."""
        if self._view is None:
            raise InvalidInput(f"the dataset of {self._name!r} is closed; open it again")
        return self._view

    def count_rows(self) -> int:
        """Return how many rows there are, from metadata alone where the filter is about whole partitions."""
        return self.view.count_rows()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows as a stream of batches, in an order that is the same for each read of a root."""
        return self.view.to_batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream that any library of Arrow takes, once."""
        return pa.RecordBatchReader.from_batches(self._schema, self.to_batches())

    def scanner(self) -> pads.Scanner:
        """Return the rows as a scanner of `pyarrow.dataset`, which reads them once."""
        return pads.Scanner.from_batches(self.to_reader())

    def to_table(self) -> pa.Table:
        """Return the rows as one table in memory."""
        return pa.Table.from_batches(self.to_batches(), self._schema)

    def to_pandas(self, **options: Any) -> Any:
        """Return the rows as a `pandas.DataFrame`; `options` are those of `pyarrow.Table.to_pandas`."""
        _library("pandas")
        return self.to_table().to_pandas(**options)

    def to_polars(self) -> Any:
        """Return the rows as a `polars.DataFrame`."""
        return _library("polars").from_arrow(self.to_table())

    def fragments(self, rows: int = 1_000_000) -> Sequence[Fragment]:
        """Return parts that other processes may read, each of about `rows` rows at most as far as files allow.

        They are the same in the same order whenever the same version is opened with the same filter and columns.
        """
        if rows < 1:
            raise InvalidInput(f"rows is {rows}; expected how many a fragment may have, at least 1")
        return self.view.fragments(rows)

    def close(self) -> None:
        """Let vacuum remove the version again, once no stream or fragment of this process needs it."""
        view, self._view = self._view, None
        if view is not None:
            view.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        closed = " closed" if self._view is None else ""
        return f"<Dataset {self._name} version {self._version}{closed}: {', '.join(self._schema.names)}>"


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise Unsupported(f"{name} is not installed here; install it (pip install {name})") from exc
