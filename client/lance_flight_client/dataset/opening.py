"""`dataset`: opens a table of a root for reading; `lance_flight.dataset` is this function."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pyarrow.compute as pc
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.errors import InvalidInput, Unsupported

from lance_flight_client.dataset.root_view import Selection, open_root
from lance_flight_client.dataset.roots import store_of
from lance_flight_client.dataset.view import Dataset


def dataset(
    root: str | Path,
    table: str,
    *,
    snapshot: int | str | datetime | None = None,
    filter: str | pc.Expression | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Dataset:
    """Open a table at one version, which stays readable for as long as the result is open.

    `root` is a directory or an object-store URI, with its `storage_options`; `table` a name or `schema.name`, with parts that hold
    a dot in "…". `snapshot` is a version, a tag, or a moment (UTC unless it has a zone), by default the newest version.
    `filter` is SQL or a pyarrow expression over any columns of the table; `columns` are those that are read, in that order.
    """
    if columns is not None:
        _check_names(columns)
    if str(root).startswith("grpc"):
        raise Unsupported(
            f"{str(root)!r} is a server; expected the root that it serves, or its rows by ADBC (adbc_driver_flightsql)"
        )
    store = store_of(str(root), storage_options or {})
    return Dataset(open_root(store, table_name(table), snapshot, Selection(filter, columns)))


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


def _check_names(columns: Sequence[str]) -> None:
    if isinstance(columns, str):
        raise InvalidInput(f"columns is the text {columns!r}; expected a list of names")
    repeated = sorted({name for name in columns if list(columns).count(name) > 1})
    if repeated:
        raise InvalidInput(f"columns name {repeated[0]!r} twice; expected each once")
