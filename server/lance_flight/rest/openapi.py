"""`/v1/openapi.json`: the routes of this server, with the models of their bodies."""

from __future__ import annotations

from typing import Any

from lance_flight.rest.routes import ROUTES, Body, Route

_REFERENCE = "#/components/schemas/{model}"


def document() -> dict[str, Any]:
    """Return the OpenAPI document of the routes; operations that are not offered are marked as deprecated."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
        if route.model is not None:
            described = route.model.model_json_schema(ref_template=_REFERENCE)
            schemas |= described.pop("$defs", {})
            schemas[route.model.__name__] = described
    return {
        "openapi": "3.1.1",
        "info": {"title": "Lance REST catalog of lance-flight", "version": "1.0.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(route: Route) -> dict[str, Any]:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    parameters.append({"name": "delimiter", "in": "query", "required": False, "schema": {"type": "string"}})
    found: dict[str, Any] = {
        "operationId": route.operation,
        "summary": f"needs {route.privilege}" if route.is_offered else "not offered: answered with code 0, Unsupported",
        "parameters": parameters,
        "responses": {"200": {"description": "the answer"}, "default": {"description": "ErrorResponse"}},
    }
    if not route.is_offered:
        found["deprecated"] = True
    if route.body is Body.ROWS:
        found["requestBody"] = {"content": {"application/vnd.apache.arrow.stream": {}}}
    elif route.model is not None:
        schema = {"$ref": _REFERENCE.format(model=route.model.__name__)}
        found["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return found
