"""Operations on namespaces: the schemas of the root, and the insides of partitioned tables, which are only read."""

from __future__ import annotations

from lance_flight.engine.sql.references import quoted
from lance_flight.errors import AlreadyExists, InvalidInput, NotFound, Unsupported
from lance_flight.rest import partitions
from lance_flight.rest.call import RestAnswer, RestCall
from lance_flight.rest.names import namespace_of, schema_of
from lance_flight.rest.tables import page


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
        names = set(partitions.list_namespaces(call))
    found, token = page(call, names)
    return RestAnswer({"namespaces": found} | ({} if token is None else {"page_token": token}))


def describe_namespace(call: RestCall) -> RestAnswer:
    """Return the properties of a namespace, which has none."""
    if call.parts not in _schemas(call):
        partitions.list_namespaces(call)
    return RestAnswer({"properties": {}})


def namespace_exists(call: RestCall) -> RestAnswer:
    """RestAnswer without a body if a namespace is there."""
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
    try:
        call.run(f"CREATE SCHEMA {quoted(schema_of(call.parts))}")
    except AlreadyExists:
        if mode == "create":
            raise
    return RestAnswer({"properties": {}})


def drop_namespace(call: RestCall) -> RestAnswer:
    """Drop an empty schema."""
    if (call.json.get("behavior") or "restrict").lower() == "cascade":
        raise Unsupported("behavior cascade; expected restrict, and the tables to be dropped first")
    try:
        call.run(f"DROP SCHEMA {quoted(schema_of(call.parts))}")
    except NotFound:
        if (call.json.get("mode") or "fail").lower() != "skip":
            raise
    return RestAnswer({})
