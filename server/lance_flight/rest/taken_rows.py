"""Rows that LanceDB's clients take by their numbers, or by their places in a table: `take_row_ids` and `take_offsets`.

Both come as a filter, `_rowid IN (…)` or `_rowoffset IN (…)`, which our SQL does not have: there a row has a name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.engine.sql.references import text_literal
from lance_flight.errors import LimitExceeded, Unsupported
from lance_flight.rest.call import RestCall

ROW_ID, OFFSET = "_rowid", "_rowoffset"
_TAKE = re.compile(rf"\s*({ROW_ID}|{OFFSET})\s+IN\s*\(([\d\s,]*)\)\s*", re.IGNORECASE)
_NAME = r"^(?P<place>.*)#(?P<number>\d+)$"
MOST_TAKEN = 100_000
"""Most rows that one request takes."""
MOST_NAMES = 1_000_000
"""Most rows of a table in which rows are counted: the names of all of them are read."""


@dataclass(frozen=True, slots=True)
class TakenRows:
    """A request for rows by their names, and the offsets of these where it takes them by those."""

    call: RestCall
    offsets: Mapping[str, int]
    shows_offsets: bool
    shows_ids: bool

    def finish(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as the request selects them."""
        names = batch.column(ROW_ID)
        shown = with_numeric_row_ids(batch) if self.shows_ids else batch.drop_columns([ROW_ID])
        if not self.shows_offsets:
            return shown
        offsets = [self.offsets[name] for name in names.to_pylist()]
        return shown.append_column(OFFSET, pa.array(offsets, pa.uint64()))


def take_rows(call: RestCall) -> TakenRows | None:
    """Return a request for rows by their numbers or offsets as one by their names, at one version; None for any other request."""
    body = call.json
    text = body.get("filter")
    columns = body.get("columns")
    if text == "false" and isinstance(columns, list) and OFFSET in columns:
        text = f"{OFFSET} IN ()"  # as the clients say it where they take none
    match = _TAKE.fullmatch(text) if isinstance(text, str) else None
    if match is None or body.get("vector") or body.get("full_text_query") is not None:
        return None
    numbers = {int(number[:20]) for number in re.findall(r"\d+", match[2])}
    if len(numbers) > MOST_TAKEN:
        raise LimitExceeded(f"the request takes {len(numbers):,} rows; expected at most {MOST_TAKEN:,}")
    if body.get("version") is None and call.branch is None:
        call = replace(call, json={**body, "version": call.version(call.newest)})
    is_by_offset = match[1].lower() == OFFSET
    names = _names_by_offset(call, numbers) if is_by_offset else _names_by_number(call, numbers)
    selected = [name for name in columns if name not in (OFFSET, ROW_ID)] if isinstance(columns, list) else columns
    listed = ", ".join(map(text_literal, names))
    asked = {"filter": f"{ROW_ID} IN ({listed})" if names else "false", "columns": selected, "with_row_id": True}
    return TakenRows(
        call=replace(call, json={**call.json, **asked}),
        offsets=names,
        shows_offsets=is_by_offset and isinstance(columns, list) and OFFSET in columns,
        shows_ids=bool(body.get("with_row_id")) or (isinstance(columns, list) and ROW_ID in columns),
    )


def _names_by_number(call: RestCall, numbers: set[int]) -> dict[str, int]:
    if call.is_partitioned(call.newest):
        raise Unsupported(
            f"rows of the partitioned table {call.newest.name!r} by {ROW_ID}: there these are hashes; expected a filter by a column"
        )
    first = call.rows(f"SELECT {ROW_ID} FROM {call.table.sql} LIMIT 1").column(0).to_pylist()  # noqa: S608 - a quoted name
    return {f"{place}#{number}": number for place in (name.rpartition("#")[0] for name in first) for number in numbers}


def _names_by_offset(call: RestCall, offsets: set[int]) -> dict[str, int]:
    """Return the names of the rows at some offsets, in the order of partitions and of the rows in each."""
    rows = call.rows(f"SELECT {ROW_ID} FROM {call.table.sql} LIMIT {MOST_NAMES + 1}")  # noqa: S608 - a quoted name
    names = rows.column(0).combine_chunks()
    if len(names) > MOST_NAMES:
        raise LimitExceeded(
            f"offsets in table {call.newest.name!r} with more than {MOST_NAMES:,} rows; expected a filter by a column"
        )
    parts = pc.extract_regex(names, _NAME)
    keys = pa.table({"place": parts.field(0), "number": parts.field(1).cast(pa.uint64())})
    order = pc.sort_indices(keys, [("place", "ascending"), ("number", "ascending")])
    known = sorted(offset for offset in offsets if offset < len(names))
    found = names.take(order.take(pa.array(known, pa.int64()))).to_pylist()
    return dict(zip(found, known, strict=True))


def with_numeric_row_ids(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replace the names of rows by numbers, as clients expect them: Lance's in a plain table, else a hash that no two rows share."""
    at = batch.schema.get_field_index(ROW_ID)
    numbers = [_row_number(name) for name in batch.column(at).to_pylist()]
    return batch.set_column(at, pa.field(ROW_ID, pa.uint64()), pa.array(numbers, pa.uint64()))


def _row_number(name: str) -> int:
    _, _, number = name.rpartition("#")
    if name == number or "$" not in name:
        return int(number)
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
