"""`dataset`: opens a table of a root for reading; `lance_flight.dataset` is this function."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pyarrow.compute as pc
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.errors import InvalidInput

from lance_flight_client.dataset.root_view import open_root
from lance_flight_client.dataset.roots import store_of
from lance_flight_client.dataset.selection import Selection
from lance_flight_client.dataset.server_view import open_server
from lance_flight_client.dataset.view import Dataset
from lance_flight_client.flight.access import ServerAccess, certificates


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
    said = [name for name, value in given.items() if value is not None]
    if said:
        raise InvalidInput(f"{what} takes no {said[0]}; it is for {expected}")


def _check_names(columns: Sequence[str]) -> None:
    if isinstance(columns, str):
        raise InvalidInput(f"columns is the text {columns!r}; expected a list of names")
    repeated = sorted({name for name in columns if list(columns).count(name) > 1})
    if repeated:
        raise InvalidInput(f"columns name {repeated[0]!r} twice; expected each once")
