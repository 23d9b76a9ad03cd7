"""Notes of the guard row: our entries in its `metadata`, each under a key of its own.

Every commit writes that row back (`new_partitions.guard_row`), so that a note changes together with rows.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from lance_flight.model.json_documents import read_json

NOTES = "lance_flight:notes"
"""The key under which a plain table, which has no guard row, keeps what stands there: in its metadata, or in a commit's properties."""


def notes_text(head: pa.Table) -> str:
    """Return all that a guard row says, as it stands there."""
    return head["metadata"][0].as_py() or "{}"


def notes_of(head: pa.Table) -> dict[str, Any]:
    """Return all notes of a guard row; nothing where there is none, or where its metadata has foreign content."""
    text = head["metadata"][0].as_py() if head.num_rows and "metadata" in head.column_names else None
    found = read_json(text) if text else {}
    return found if isinstance(found, dict) else {}


def entries_of(head: pa.Table, key: str) -> list[Any]:
    """Return the entries of a note that is a list; none where it is not there, or is something else."""
    found = notes_of(head).get(key)
    return found if isinstance(found, list) else []


def with_note(head: pa.Table, key: str, note: object) -> pa.Table:
    """Return the guard row with the note under one key replaced."""
    place = head.schema.get_field_index("metadata")
    text = json.dumps(notes_of(head) | {key: note}, separators=(",", ":"), ensure_ascii=False)
    return head.set_column(place, head.schema.field(place), pa.array([text], head.schema.field(place).type))
