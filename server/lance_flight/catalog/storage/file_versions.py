"""Versions of Lance's file format: which one files have, and what each of them cannot hold.

Lance itself finds some of this out when it reads: a struct in a fixed-size list of version 2.0 ends its reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from lance import FragmentMetadata

from lance_flight.errors import DataError
from lance_flight.model.arrow_types import children
from lance_flight.model.file_versions import NEWEST
from lance_flight.model.schema import is_blob

_STRUCTS_WITH_NULL = "2.1"
_MARKED_BLOBS = "2.1"
"""The last version whose files hold blobs as marked binary columns, which a file writer takes one batch after another."""


def version_of(fragments: Iterable[FragmentMetadata]) -> str | None:
    """Return the version of all data files of some fragments; None where there are several versions, or no files."""
    found = {(f.file_major_version, f.file_minor_version) for fragment in fragments for f in fragment.files}
    return ".".join(map(str, found.pop())) if len(found) == 1 else None


def chosen_version(asked: str | None, schema: pa.Schema) -> str:
    """Return the version for a new table's files: the one that was asked for, else the newest that holds its columns."""
    return asked or (_MARKED_BLOBS if any(map(is_blob, schema)) else NEWEST)


def unstorable_in(schema: pa.Schema, version: str) -> list[str]:
    """Return what is wrong with the columns that files of a version have no encoding for."""
    found = [
        f"column {field.name!r} is {field.type}, which files of Lance version {version} cannot hold; expected"
        f" file_version {least} or a later one"
        for field in schema
        for least, is_it in _LEAST
        if version < least and any(is_it(kind) for kind in _types(field.type))
    ]
    return found + [
        f"column {field.name!r} is a BLOB, which files of Lance version {version} hold in a form that only their own writer defines;"
        f" expected file_version {_MARKED_BLOBS}"
        for field in schema
        if is_blob(field) and version > _MARKED_BLOBS
    ]


def check_values(rows: pa.Table, version: str, what: str) -> None:
    """Raise `DataError` for a column with values that files of a version cannot hold."""
    if version >= _STRUCTS_WITH_NULL:
        return
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if any(_has_null_struct(chunk) for chunk in column.chunks):
            raise DataError(
                f"column {field.name!r} of {what} has a NULL in place of a struct, which files of Lance version"
                f" {version} cannot hold; expected file_version {_STRUCTS_WITH_NULL} or a later one"
            )


def _has_null_struct(column: pa.Array) -> bool:
    kind = column.type
    if pa.types.is_struct(kind):
        return bool(column.null_count) or any(map(_has_null_struct, column.flatten()))
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return is_list and pa.types.is_nested(kind.value_type) and _has_null_struct(column.flatten())


def _types(kind: pa.DataType) -> Iterator[pa.DataType]:
    yield kind
    for child in children(kind):
        yield from _types(child.type)


def _is_list_of_structs(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) and pa.types.is_struct(kind.value_type))


_LEAST: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("2.2", pa.types.is_map),
    ("2.2", _is_list_of_structs),
)
"""Types that need a version of their own."""
