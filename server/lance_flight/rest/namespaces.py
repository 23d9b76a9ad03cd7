"""Operations on namespaces: the schemas of the root, and the insides of partitioned tables, which are only read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lance_flight.engine.sql.references import quote_parts
from lance_flight.errors import AlreadyExists, InvalidInput, NotFound, Refused, Unsupported
from lance_flight.flight.backend import VIEW
from lance_flight.rest.call import RestAnswer, RestCall
from lance_flight.rest.errors import NamespaceNotEmpty
from lance_flight.rest.names import DELIMITER, PUBLIC, TableId, namespace_of, schema_of


def _schemas(call: RestCall) -> set[tuple[str, ...]]:
    """Return the namespaces of all schemas that the caller may see, and those around them."""
    found = {namespace_of(name) for _, name in call.backend.db_schemas(call.caller)} - _SYSTEM
    return {path[:size] for path in found for size in range(len(path) + 1)} | {()}


_SYSTEM = {("system",), ("information_schema",)}


def list_namespaces(call: RestCall) -> RestAnswer:
    """List the schemas right below a namespace, or the partition namespaces inside of a partitioned table."""
    known, size = _schemas(call), len(call.parts)
    if call.parts in known:
        names = {path[size] for path in known if len(path) == size + 1 and path[:size] == call.parts}
        db_schema = schema_of(call.parts)
        names |= {name for schema, name in call.backend.partitioned_tables(call.caller) if schema == db_schema}
    else:
        names = set(partition_namespaces(call))
    found, token = call.page(names)
    return RestAnswer({"namespaces": found} | ({} if token is None else {"page_token": token}))


def describe_namespace(call: RestCall) -> RestAnswer:
    """Return the properties of a namespace, which has none."""
    if call.parts not in _schemas(call):
        partition_namespaces(call)
    return RestAnswer({"properties": {}})


def namespace_exists(call: RestCall) -> RestAnswer:
    """Answer without a body if a namespace is there."""
    describe_namespace(call)
    return RestAnswer(chunks=iter(()))


def create_namespace(call: RestCall) -> RestAnswer:
    """Create a schema."""
    mode = (call.json.get("mode") or "create").lower().replace("_", "")
    if mode not in ("create", "existok"):
        raise Unsupported(f"mode {mode!r} of a namespace; expected create or exist_ok")
    if call.json.get("properties"):
        raise Unsupported("properties of a namespace are not kept; expected none")
    if not call.parts:
        raise InvalidInput("the identifier names the root; expected the name of a new namespace")
    if call.parts[:-1] not in _schemas(call):
        raise NotFound(f"no namespace {call.delimiter.join(call.parts[:-1])!r}")
    try:
        call.run(f"CREATE SCHEMA {quote_parts(schema_of(call.parts))}")
    except AlreadyExists:
        if mode == "create":
            raise
    return RestAnswer({"properties": {}})


def drop_namespace(call: RestCall) -> RestAnswer:
    """Drop an empty schema."""
    if (call.json.get("behavior") or "restrict").lower() == "cascade":
        raise Unsupported("behavior cascade; expected restrict, and the tables to be dropped first")
    db_schema = schema_of(call.parts)
    left = [entry.name for entry in call.backend.tables(call.caller) if entry.db_schema == db_schema]
    if left:
        raise NamespaceNotEmpty(f"namespace {db_schema!r} has {len(left)} tables, {left[0]!r} for one; expected none")
    try:
        call.run(f"DROP SCHEMA {quote_parts(db_schema)}")
    except NotFound:
        if (call.json.get("mode") or "fail").lower() != "skip":
            raise
    return RestAnswer({})


def _walk(call: RestCall) -> tuple[TableId, tuple[str, ...]] | None:
    """Return the partitioned table whose inside an identifier names, and the rest of the identifier; None if it names none."""
    if not call.parts:
        return None
    known = {(entry.db_schema, entry.name) for entry in call.backend.tables(call.caller)}
    for split in range(len(call.parts) - 1, -1, -1):
        db_schema = ".".join(call.parts[:split]) or PUBLIC
        if (db_schema, call.parts[split]) in known:
            return TableId(db_schema, call.parts[split]), call.parts[split + 1 :]
    return None


def _object_ids(call: RestCall) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the part of an identifier inside its table, and the paths of all partition tables below; `NotFound` without any."""
    found = _walk(call)
    if found is not None:
        table, inside = found
        paths = [tuple(place.object_id.split(DELIMITER)) for place in call.places(table) if place.object_id]
        below = [path for path in paths if path[: len(inside)] == inside and len(path) > len(inside)]
        if below or not inside:
            return inside, below
    raise NotFound(f"no namespace {call.delimiter.join(call.parts)!r}")


def partition_namespaces(call: RestCall) -> Iterable[str]:
    """Return the names of the namespaces right below one inside a partitioned table."""
    inside, below = _object_ids(call)
    return {path[len(inside)] for path in below if len(path) > len(inside) + 1}


def partition_tables(call: RestCall) -> Iterable[str]:
    """Return the names of the partition tables right below a namespace inside a partitioned table."""
    inside, below = _object_ids(call)
    return {path[-1] for path in below if len(path) == len(inside) + 1}


def describe_partition(call: RestCall) -> dict[str, Any] | None:
    """Describe a partition table; None if the identifier names none."""
    found = _walk(call)
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
    """Return the location of a plain table; None for a partitioned one, a view, and for a caller who does not read all of it."""
    entry = call.entry(table)
    if entry.type == VIEW:
        return None
    try:
        places = call.backend.places(call.caller, entry)
    except Refused:
        return None
    return places[0].uri if len(places) == 1 and not places[0].object_id else None
