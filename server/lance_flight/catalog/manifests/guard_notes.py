"""Notes of a commit on the guard row of a `__manifest`, and the changes of metadata that wait there.

Every commit writes that row back (`new_partitions.guard_row`), so that a note changes together with rows.

Specs and schema stand in table metadata and pins in rows, which are two operations of Lance (decision 19a). A change of
both is committed as rows: the new values are written into the guard row, beside what they replace, and count from then
on. As soon as the table metadata has them the note in the row means nothing any more; whoever finds them missing there
puts them in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_flight.errors import InvalidInput
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


PENDING = "lance_flight:pending"
_DIGEST_BYTES = 16


def noted(head: pa.Table, metadata: Mapping[str, str], values: Mapping[str, str]) -> pa.Table:
    """Return the guard row with a note that `values` take the place of what `metadata` says.

    A value that stays the same, such as a spec whose exact types its JSON cannot say, would never be seen to have followed.
    """
    changed = {key: value for key, value in values.items() if metadata.get(key) != value}
    note = {key: {"was": _digest(metadata.get(key)), "now": value} for key, value in changed.items()}
    return with_note(head, PENDING, json.dumps(note, separators=(",", ":"), ensure_ascii=False))


def pending(head: pa.Table, metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what the guard row says and `metadata` has still the old values of."""
    text = notes_of(head).get(PENDING)
    note = read_json(text) if isinstance(text, str) else {}
    if not isinstance(note, dict) or not all(_is_change(each) for each in note.values()):
        raise InvalidInput(f"{PENDING} is {text!r}; expected what was and what is now for each key")
    return {key: each["now"] for key, each in note.items() if each["was"] == _digest(metadata.get(key))}


def _is_change(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("was", "now"))


def _digest(text: str | None) -> str:
    return "" if text is None else hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()
