"""The specs and the schema of a namespace, wherever the writer of its `__manifest` has put them (decision 1).

Table metadata, the spec's place, counts first; then the metadata of the `v<N>` rows, which hold a `partition_spec` and a
`schema` each; then the Arrow schema metadata, under the same keys as in table metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.errors import Unsupported
from lance_flight.model.arrow_types import is_string
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import spec_id_of
from lance_flight.model.spec import SPEC_KEY

SCHEMA_KEY = "schema"
NAMESPACE_KEY = "lance_flight:namespace_key"
"""The key of a namespace that we write: it has the secret that names of its partitions are made with."""
STABLE_ROW_IDS = "lance_flight:stable_row_ids"
"""The key of a namespace whose rows keep their ids (`lineage.py`), in the table metadata of its `__manifest`."""
DERIVED_VALUES = "lance_flight:derived_values"
"""The key of a namespace whose rows all lie where the derived expressions of its specs say, in the same place.

Releases that did not set it took parts of timestamps in UTC, and a field inside a struct for NULL.
"""
FILE_VERSION = "lance_flight:file_version"
"""The key of the version of Lance's file format that new partition tables have, where one was chosen; it stands there, too."""
PARTITION_SPEC = "partition_spec"


class Place(Enum):
    """Location of a property that is not in the spec's place."""

    ROW = "the metadata of its v<N> rows"
    ARROW = "its Arrow schema metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class Misplaced:
    """A partition spec or the schema, by its key of the spec, that is stored elsewhere than the spec demands."""

    key: str
    text: str
    place: Place


def misplaced(metadata: Mapping[str, str], schema: pa.Schema, rows: pa.Table) -> tuple[Misplaced, ...]:
    """Return the specs and the schema that the table metadata of a `__manifest` lacks, but other places of it have."""
    found = {prop.key: prop for prop in [*_in_arrow(schema), *_in_rows(rows)]}
    return tuple(prop for key, prop in sorted(found.items()) if key not in metadata)


def check_in_place(table: str, found: Sequence[Misplaced]) -> None:
    """Refuse to write a namespace whose specs or schema stand elsewhere: its own writer would not see ours."""
    if found:
        places = " and ".join(dict.fromkeys(prop.place.value for prop in found))
        raise Unsupported(
            f"table {table!r} keeps {', '.join(prop.key for prop in found)} in {places}, and is only read; expected them"
            f" in the table metadata of its __manifest, where `lance-flight migrate ROOT {table}` (in SQL: MIGRATE"
            f" TABLE {table}) puts them"
        )


def _in_arrow(schema: pa.Schema) -> Iterator[Misplaced]:
    for key, value in (schema.metadata or {}).items():
        name = key.decode()
        if name == SCHEMA_KEY or name.startswith(SPEC_KEY):
            yield Misplaced(key=name, text=value.decode(), place=Place.ARROW)


def _in_rows(rows: pa.Table) -> Iterator[Misplaced]:
    """Return what the rows `v<N>` say, in the order of their numbers: the schema of the last one is that of the namespace."""
    if not all(name in rows.column_names and is_string(rows.schema.field(name).type) for name in _OF_ROWS):
        return
    versions = rows.filter(pc.match_substring_regex(rows["object_id"], "^v[1-9][0-9]*$"))
    said = {
        spec_id_of(name): text for name, text in zip(*(versions[name].to_pylist() for name in _OF_ROWS), strict=True)
    }
    for number, text in sorted((number, text) for number, text in said.items() if number is not None and text):
        properties = read_json(text)
        if isinstance(properties, dict):
            keys = {PARTITION_SPEC: f"{SPEC_KEY}{number}", SCHEMA_KEY: SCHEMA_KEY}
            for name, key in keys.items():
                if properties.get(name) is not None:
                    yield Misplaced(key=key, text=_text(properties[name]), place=Place.ROW)


_OF_ROWS = ("object_id", "metadata")


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
