"""The table of routes: the path, method and operation of each, the model of its body, what runs it, and the privilege that this needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import lance_namespace_urllib3_client.models as m
from pydantic import BaseModel

from lance_flight.errors import Unsupported
from lance_flight.rest import contents, namespaces, queries, tables
from lance_flight.rest.call import RestAnswer, RestCall


class Body(Enum):
    """Body of a request: none or JSON, a stream of rows, or either, as its type of content says."""

    JSON = auto()
    ROWS = auto()
    EITHER = auto()


@dataclass(frozen=True, slots=True)
class Route:
    """One operation: its path, its name in the catalog, what runs it, and the privilege of SQL that this needs; or why it is not offered.

    Bodies have to fit their `model` if that `is_strict`: LanceDB's clients send others than the catalog's for queries and tables.
    """

    path: str
    operation: str
    work: Callable[[RestCall], RestAnswer] | None
    privilege: str = ""
    model: type[BaseModel] | None = None
    method: str = "POST"
    body: Body = Body.JSON
    is_strict: bool = True
    refusal: str = ""

    @property
    def is_offered(self) -> bool:
        """True if this server has the operation."""
        return self.work is not None

    def run(self, call: RestCall) -> RestAnswer:
        """Run the operation; `Unsupported` names one that is not offered."""
        if self.work is None:
            raise Unsupported(f"{self.operation} is not offered: {self.refusal}")
        if self.model is not None and self.is_strict:
            self.model.model_validate(call.json)
        return self.work(call)


_NAMESPACE, _TABLE, _VIEW = "/v1/namespace/{id}", "/v1/table/{id}", "/v1/view/{id}"
_INDEX = _TABLE + "/index/{index_name}"

_REFUSED: Mapping[str, Mapping[str, str]] = {
    "no column is computed by functions of the catalog; expected UpdateTable, or AddColumns with an expression": {
        "AlterTableBackfillColumns": f"{_TABLE}/backfill_column"
    },
    "engines commit to plain tables themselves, and this server to partitioned ones; expected InsertIntoTable": {
        "CreateTableVersion": f"{_TABLE}/version/create",
        "BatchCreateTableVersions": "/v1/table/version/batch-create",
        "BatchCommitTables": "/v1/table/batch-commit",
    },
    "versions stay as long as tags, branches and readers need them; expected VACUUM in SQL": {
        "BatchDeleteTableVersions": f"{_TABLE}/version/delete"
    },
    "a write is one request, and one commit; expected InsertIntoTable with all rows": {
        "MultipartWrite": f"{_TABLE}/multipart_write/{{step}}"
    },
    "rows are visible once they are written, so that none wait to be merged; expected InsertIntoTable or MergeInsertIntoTable": {
        "SetLsmWriteSpec": f"{_TABLE}/set_lsm_write_spec",
        "UnsetLsmWriteSpec": f"{_TABLE}/unset_lsm_write_spec",
        "GetLsmStats": f"{_TABLE}/get_lsm_stats",
        "FlushLsm": f"{_TABLE}/flush_lsm",
        "CompactLsm": f"{_TABLE}/compact_lsm",
    },
    "its query is in words of its client alone; expected CreateView, or CREATE TABLE … AS in SQL": {
        "CreateMaterializedView": "/v1/materialized_view/{id}/create",
        "RefreshMaterializedView": "/v1/materialized_view/{id}/refresh",
    },
    "a transaction belongs to a session of Flight SQL; expected BEGIN and COMMIT there": {
        "DescribeTransaction": "/v1/transaction/{id}/describe",
        "AlterTransaction": "/v1/transaction/{id}/alter",
    },
}
"""Operations that are not offered with their paths, by the reason and what to use."""

ROUTES = (
    Route(f"{_NAMESPACE}/list", "ListNamespaces", namespaces.list_namespaces, "any", method="GET"),
    Route(f"{_NAMESPACE}/create", "CreateNamespace", namespaces.create_namespace, "DDL", m.CreateNamespaceRequest),
    Route(
        f"{_NAMESPACE}/describe", "DescribeNamespace", namespaces.describe_namespace, "any", m.DescribeNamespaceRequest
    ),
    Route(f"{_NAMESPACE}/exists", "NamespaceExists", namespaces.namespace_exists, "any", m.NamespaceExistsRequest),
    Route(f"{_NAMESPACE}/drop", "DropNamespace", namespaces.drop_namespace, "DDL", m.DropNamespaceRequest),
    Route(f"{_NAMESPACE}/table/list", "ListTables", tables.list_tables, "any", method="GET"),
    Route("/v1/table", "ListAllTables", tables.list_all_tables, "any", method="GET"),
    Route(f"{_TABLE}/describe", "DescribeTable", tables.describe_table, "SELECT", m.DescribeTableRequest),
    Route(f"{_TABLE}/exists", "TableExists", tables.table_exists, "SELECT", m.TableExistsRequest),
    Route(f"{_TABLE}/create", "CreateTable", tables.create_table, "DDL", body=Body.ROWS),
    Route(f"{_TABLE}/declare", "DeclareTable", tables.declare_table, "DDL", m.DeclareTableRequest),
    Route(f"{_TABLE}/clone", "CloneTable", tables.clone_table, "DDL"),
    Route(f"{_TABLE}/register", "RegisterTable", tables.register_table, "SELECT", m.RegisterTableRequest),
    Route(f"{_TABLE}/deregister", "DeregisterTable", tables.deregister_table, "SELECT", m.DeregisterTableRequest),
    Route(f"{_TABLE}/drop", "DropTable", tables.drop_table, "DDL", m.DropTableRequest),
    Route(f"{_TABLE}/rename", "RenameTable", tables.rename_table, "DDL", m.RenameTableRequest),
    Route(f"{_TABLE}/stats", "GetTableStats", tables.stats, "SELECT", m.GetTableStatsRequest),
    Route(f"{_TABLE}/count_rows", "CountTableRows", contents.count_rows, "SELECT", m.CountTableRowsRequest),
    Route(f"{_TABLE}/insert", "InsertIntoTable", contents.insert, "INSERT", body=Body.ROWS),
    Route(
        f"{_TABLE}/merge_insert",
        "MergeInsertIntoTable",
        contents.merge_insert,
        "SELECT, INSERT, UPDATE, DELETE",
        body=Body.ROWS,
    ),
    Route(f"{_TABLE}/update", "UpdateTable", contents.update, "UPDATE", m.UpdateTableRequest),
    Route(f"{_TABLE}/delete", "DeleteFromTable", contents.delete, "DELETE", m.DeleteFromTableRequest),
    Route(f"{_TABLE}/query", "QueryTable", queries.query, "SELECT", m.QueryTableRequest, is_strict=False),
    Route(
        f"{_TABLE}/explain_plan",
        "ExplainTableQueryPlan",
        queries.explain,
        "SELECT",
        m.ExplainTableQueryPlanRequest,
        is_strict=False,
    ),
    Route(
        f"{_TABLE}/analyze_plan",
        "AnalyzeTableQueryPlan",
        queries.analyze,
        "SELECT",
        m.AnalyzeTableQueryPlanRequest,
        is_strict=False,
    ),
    Route(
        f"{_TABLE}/add_columns",
        "AlterTableAddColumns",
        tables.add_columns,
        "DDL",
        m.AlterTableAddColumnsRequest,
        body=Body.EITHER,
        is_strict=False,
    ),
    Route(
        f"{_TABLE}/alter_columns",
        "AlterTableAlterColumns",
        tables.alter_columns,
        "DDL",
        m.AlterTableAlterColumnsRequest,
    ),
    Route(
        f"{_TABLE}/drop_columns", "AlterTableDropColumns", tables.drop_columns, "DDL", m.AlterTableDropColumnsRequest
    ),
    Route(f"{_TABLE}/schema_metadata/update", "UpdateTableSchemaMetadata", tables.update_schema_metadata, "DDL"),
    Route(
        f"{_TABLE}/update_field_metadata",
        "UpdateFieldMetadata",
        tables.update_field_metadata,
        "DDL",
        m.UpdateFieldMetadataRequest,
    ),
    Route(f"{_TABLE}/create_index", "CreateTableIndex", contents.create_index, "DDL", m.CreateTableIndexRequest),
    Route(
        f"{_TABLE}/create_scalar_index",
        "CreateTableScalarIndex",
        contents.create_index,
        "DDL",
        m.CreateTableIndexRequest,
    ),
    Route(f"{_TABLE}/index/list", "ListTableIndices", contents.list_indexes, "SELECT", m.ListTableIndicesRequest),
    Route(
        f"{_INDEX}/stats", "DescribeTableIndexStats", contents.index_stats, "SELECT", m.DescribeTableIndexStatsRequest
    ),
    Route(f"{_INDEX}/drop", "DropTableIndex", contents.drop_index, "DDL", m.DropTableIndexRequest),
    Route(f"{_INDEX}/prewarm", "PrewarmTableIndex", contents.prewarm, "SELECT"),
    Route(f"{_TABLE}/page_cache/prewarm", "PrewarmTable", contents.prewarm_data, "SELECT"),
    Route(f"{_TABLE}/version/list", "ListTableVersions", contents.list_versions, "SELECT", m.ListTableVersionsRequest),
    Route(
        f"{_TABLE}/version/describe",
        "DescribeTableVersion",
        contents.describe_version,
        "SELECT",
        m.DescribeTableVersionRequest,
    ),
    Route(f"{_TABLE}/restore", "RestoreTable", contents.restore, "DDL", m.RestoreTableRequest),
    Route(f"{_TABLE}/tags/list", "ListTableTags", contents.list_tags, "SELECT", m.ListTableTagsRequest),
    Route(f"{_TABLE}/tags/version", "GetTableTagVersion", contents.tag_version, "SELECT", m.GetTableTagVersionRequest),
    Route(f"{_TABLE}/tags/create", "CreateTableTag", contents.create_tag, "DDL", m.CreateTableTagRequest),
    Route(f"{_TABLE}/tags/delete", "DeleteTableTag", contents.delete_tag, "DDL", m.DeleteTableTagRequest),
    Route(f"{_TABLE}/tags/update", "UpdateTableTag", contents.update_tag, "DDL", m.UpdateTableTagRequest),
    Route(f"{_TABLE}/branches/list", "ListTableBranches", contents.list_branches, "SELECT", m.ListTableBranchesRequest),
    Route(f"{_TABLE}/branches/create", "CreateTableBranch", contents.create_branch, "DDL", m.CreateTableBranchRequest),
    Route(f"{_TABLE}/branches/delete", "DeleteTableBranch", contents.delete_branch, "DDL", m.DeleteTableBranchRequest),
    Route(f"{_NAMESPACE}/view/list", "ListViews", tables.list_views, "any", method="GET"),
    Route(f"{_VIEW}/create", "CreateView", tables.create_view, "DDL"),
    Route(f"{_VIEW}/describe", "DescribeView", tables.describe_view, "SELECT"),
    Route(f"{_VIEW}/drop", "DropView", tables.drop_view, "DDL"),
    Route(f"{_TABLE}/branches/diff", "DiffTableBranch", contents.diff_branch, "SELECT"),
    Route(f"{_TABLE}/branches/cherry_pick", "CherryPickTableBranch", contents.cherry_pick_branch, "DDL, SELECT"),
    Route(f"{_TABLE}/get_lsm_write_spec", "GetLsmWriteSpec", contents.lsm_write_spec, "SELECT"),
    *(
        Route(path, operation, None, refusal=refusal)
        for refusal, operations in _REFUSED.items()
        for operation, path in operations.items()
    ),
)

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
        "summary": f"needs {route.privilege}" if route.is_offered else f"not offered: {route.refusal}",
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
