"""Attributes of an Arrow field beside its type, in JSON and text: nullability, metadata, the extension type.

Metadata are bytes in Arrow and strings here, `SchemaError` where they are no UTF-8. An extension type stands in them
as Arrow itself writes it: its name and, where it has any, its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyarrow import types

from lance_flight.errors import SchemaError

EXTENSION_NAME, EXTENSION_METADATA = "ARROW:extension:name", "ARROW:extension:metadata"


def make_field(name: Any, kind: Any, metadata: Mapping[str, str], *, nullable: bool) -> pa.Field:
    """Return the field; `SchemaError` where its type is null and it may not be."""
    if types.is_null(kind) and not nullable:
        raise SchemaError("field", ["nullable: a field of the null type cannot be without nulls"])
    return pa.field(name, kind, nullable, metadata or None)


def metadata_to_json(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """Return Arrow's metadata as strings, empty where there are none.

    >>> metadata_to_json({b"unit": b"m"})
    {'unit': 'm'}
    """
    try:
        return {key.decode(): value.decode() for key, value in (metadata or {}).items()}
    except UnicodeDecodeError as exc:
        raise SchemaError("metadata", [f"{metadata!r} is not UTF-8, which JSON needs"]) from exc


def metadata_from_json(value: Any) -> dict[str, str]:
    """Read metadata of JSON, empty where they are absent; `SchemaError` lists every value that is no string."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SchemaError("metadata", [f"{value!r} is not an object"])
    wrong = [f"{key}: {text!r} is not a string" for key, text in value.items() if not isinstance(text, str)]
    if wrong:
        raise SchemaError("metadata", wrong)
    return dict(value)


def extension_metadata(kind: pa.DataType) -> dict[str, str]:
    """Return the metadata that Arrow stores beside the storage type of an extension type."""
    if not isinstance(kind, pa.BaseExtensionType):
        return {}
    parameters = kind.__arrow_ext_serialize__().decode() if isinstance(kind, pa.ExtensionType) else ""
    return {EXTENSION_NAME: kind.extension_name} | ({EXTENSION_METADATA: parameters} if parameters else {})


def with_extension(field: pa.Field) -> pa.Field:
    """Return the field with the extension type that its metadata names, where this process knows it."""
    if EXTENSION_NAME.encode() not in (field.metadata or {}):
        return field
    return pa.ipc.read_schema(pa.schema([field]).serialize()).field(0)
