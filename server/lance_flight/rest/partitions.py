"""A partitioned table as a namespace: its specs, their partition values and partition tables, each with its location and pinned version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lance_flight.errors import NotFound, Refused
from lance_flight.rest.call import RestCall
from lance_flight.rest.names import DELIMITER, PUBLIC, TableId


def _walked(call: RestCall) -> tuple[TableId, tuple[str, ...]] | None:
    """Return the partitioned table whose inside an identifier names, and the rest of the identifier; None if it names none."""
    if not call.parts:
        return None
    known = {(each.db_schema, each.name) for each in call.backend.tables(call.caller)}
    for split in range(len(call.parts) - 1, -1, -1):
        db_schema = ".".join(call.parts[:split]) or PUBLIC
        if (db_schema, call.parts[split]) in known:
            return TableId(db_schema, call.parts[split]), call.parts[split + 1 :]
    return None


def _object_ids(call: RestCall) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the part of an identifier inside its table, and the paths of all partition tables below; `NotFound` without any."""
    found = _walked(call)
    if found is not None:
        table, inside = found
        paths = [tuple(place.object_id.split(DELIMITER)) for place in call.places(table) if place.object_id]
        below = [path for path in paths if path[: len(inside)] == inside and len(path) > len(inside)]
        if below or not inside:
            return inside, below
    raise NotFound(f"no namespace {call.delimiter.join(call.parts)!r}")


def list_namespaces(call: RestCall) -> Iterable[str]:
    """Return the names of the namespaces right below one inside a partitioned table."""
    inside, below = _object_ids(call)
    return {path[len(inside)] for path in below if len(path) > len(inside) + 1}


def list_tables(call: RestCall) -> Iterable[str]:
    """Return the names of the partition tables right below a namespace inside a partitioned table."""
    inside, below = _object_ids(call)
    return {path[-1] for path in below if len(path) == len(inside) + 1}


def describe_table(call: RestCall) -> dict[str, Any] | None:
    """Describe a partition table; None if the identifier names none."""
    found = _walked(call)
    if found is None or not found[1]:
        return None
    table, inside = found
    wanted = DELIMITER.join(inside)
    for place in call.places(table):
        if place.object_id == wanted:
            said = {
                "table": inside[-1],
                "namespace": list(call.parts[:-1]),
                "location": place.uri,
                "table_uri": place.uri,
            }
            return said | {"version": place.version, "is_only_declared": False}
    raise NotFound(f"no table {call.delimiter.join(call.parts)!r}")


def location_of(call: RestCall, table: TableId) -> str | None:
    """Return the location of a plain table; None for a partitioned one, and for a caller who does not read all of it."""
    try:
        found = call.places(table)
    except Refused:
        return None
    return found[0].uri if len(found) == 1 and not found[0].object_id else None
