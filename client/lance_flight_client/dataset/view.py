"""`dataset` opens a table; `Dataset` is the table at one version, with a filter and columns, for Arrow, pandas, Polars and DuckDB."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.errors import InvalidInput, Unsupported

from lance_flight_client.dataset.loading import BUFFER_ROWS, Loader, LoaderLayout, RowOrder, check_numeric
from lance_flight_client.dataset.portions import Fragment, Selection, View, store_of
from lance_flight_client.dataset.views import open_root, open_server
from lance_flight_client.flight import ServerAccess, certificates

if TYPE_CHECKING:
    from lance_flight_client.dataset.torch_loader import TorchLoader


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

    def take_blobs(self, column: str, indices: Sequence[int]) -> list[BinaryIO | None]:
        """Return the blobs of a column as files that read the ranges which are asked for: `seek`, `read`, `size`; None for NULL.

        `indices` are places among the rows, in the order of `to_batches()`; the column may be one that is not read there. Keep the dataset
        open until the files are read.
        """
        return self.view.take_blobs(column, indices)

    def fragments(self, rows: int = 1_000_000) -> Sequence[Fragment]:
        """Return parts that other processes may read, each of about `rows` rows at most as far as files allow.

        They are the same in the same order whenever the same version is opened with the same filter and columns.
        """
        if rows < 1:
            raise InvalidInput(f"rows is {rows}; expected how many a fragment may have, at least 1")
        return self.view.fragments(rows)

    def to_torch(
        self,
        batch_size: int,
        *,
        shuffle: str | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        workers: int = 0,
        resume: Mapping[str, Any] | None = None,
        collate: Callable[[pa.RecordBatch], Any] | None = None,
        drop_last: bool = False,
        buffer_rows: int = BUFFER_ROWS,
    ) -> TorchLoader:
        """Return an `IterableDataset` of PyTorch over the batches of one rank: dicts of tensors, or what `collate` makes of each.

        Their order is that of the files, of shuffled partitions (`shuffle="partition"`), or of rows shuffled among `buffer_rows` others
        (`"rows"`); it depends on `seed` and the epoch. Every row is in one batch of one rank. `workers` are processes that read;
        `resume` goes on after the batch that a `state()` was taken at. Filters that are left are counted first, which reads their columns.
        """
        _library("torch")
        if collate is None:
            check_numeric(self._schema)
        loader = self.loader(
            batch_size,
            shuffle=shuffle,
            seed=seed,
            rank=rank,
            world_size=world_size,
            workers=workers,
            resume=resume,
            drop_last=drop_last,
            buffer_rows=buffer_rows,
        )
        module = importlib.import_module("lance_flight_client.dataset.torch_loader")
        made: TorchLoader = module.torch_loader(loader, collate)
        return made

    def loader(
        self,
        batch_size: int,
        *,
        rank: int,
        world_size: int,
        workers: int,
        resume: Mapping[str, Any] | None = None,
        **order: Any,
    ) -> Loader:
        """Return the batches of one rank as Arrow, for what `to_torch` does with them; `order` are fields of `RowOrder`."""
        if not self._schema.names:
            raise InvalidInput("columns is empty; expected at least one")
        fragments = self.fragments()
        row_order = RowOrder(
            counts=tuple(fragment.count_rows() for fragment in fragments),
            batch_size=batch_size,
            shards=max(world_size, 1) * max(workers, 1),
            **order,
        )
        place = {"rank": rank, "world_size": world_size, "workers": workers}
        layout = LoaderLayout.of(row_order, table=self._name, version=self._version, **place)
        return Loader(fragments, row_order, layout, resume)

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


def dataset(
    root: str | Path,
    table: str,
    *,
    snapshot: int | str | datetime | None = None,
    filter: str | pc.Expression | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    tls_ca: str | Path | None = None,
) -> Dataset:
    """Open a table at one version, which stays readable for as long as the result is open.

    `root` is a directory, an object-store URI with its `storage_options`, or a server (`grpc://host:port`, `grpc+tls://…`) with a `user` and
    `password` or a `token`, and who signs its certificate (`tls_ca`, a file of PEM); `table` a name or `schema.name`, with parts that hold
    a dot in "…". `snapshot` is a version, a tag, or a moment (UTC unless it has a zone), by default the newest version.
    `filter` is SQL, or a pyarrow expression where a root is read, over any columns of the table; `columns` are those that are read, in that order.
    """
    if columns is not None:
        _check_names(columns)
    name, selection = table_name(table), Selection(filter, columns)
    given = {"user": user, "password": password, "token": token, "tls_ca": tls_ca}
    if not str(root).startswith("grpc"):
        _check_none(given, f"root {str(root)!r}", "a server, grpc://host:port")
        return Dataset(open_root(store_of(str(root), storage_options or {}), name, snapshot, selection))
    _check_none({"storage_options": storage_options}, f"server {str(root)!r}", "a root in an object store")
    roots = None if tls_ca is None else certificates(str(tls_ca))
    access = ServerAccess(uri=str(root), username=user, password=password, token=token, tls_roots=roots)
    return Dataset(open_server(access, name, snapshot, selection))


def table_name(text: str) -> TableName:
    """Parse the name of a table, which is one of `public` without a schema.

    >>> str(table_name("a.b.t")), str(table_name('"x.y"'))
    ('a.b.t', 'public.x.y')
    """
    try:
        parts = next(csv.reader([text], delimiter=".", strict=True), [])
    except csv.Error:
        parts = []
    if not parts or not all(parts):
        raise InvalidInput(
            f'table {text!r} is no name; expected name or schema.name, with parts in "…" where they hold a dot'
        )
    return TableName(".".join(parts[:-1]) or PUBLIC, parts[-1])


def _check_none(given: Mapping[str, object], what: str, expected: str) -> None:
    given_names = [name for name, value in given.items() if value is not None]
    if given_names:
        raise InvalidInput(f"{what} takes no {given_names[0]}; it is for {expected}")


def _check_names(columns: Sequence[str]) -> None:
    if isinstance(columns, str):
        raise InvalidInput(f"columns is the text {columns!r}; expected a list of names")
    repeated = sorted({name for name in columns if list(columns).count(name) > 1})
    if repeated:
        raise InvalidInput(f"columns name {repeated[0]!r} twice; expected each once")
