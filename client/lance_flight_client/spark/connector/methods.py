"""Methods that the JVM asks for, by name: each takes its arguments as JSON has them, and returns what JSON can hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Replaces
from lance_flight.catalog.tables.sources import row_counts
from lance_flight.errors import InvalidInput, LanceFlightError, NotFound, Unsupported
from lance_flight.model.arrow_types import contains
from lance_flight.model.schema import primary_key_name
from pyspark.sql.types import StructType

from lance_flight_client.dataset.views import PrunedTables
from lance_flight_client.errors import ServerError
from lance_flight_client.parameters import quote_name
from lance_flight_client.spark.connector import definitions, streams, writes
from lance_flight_client.spark.connector.backends import RootBackend, SqlRunner, backend_of
from lance_flight_client.spark.connector.conditions import Conditions
from lance_flight_client.spark.connector.definitions import describe
from lance_flight_client.spark.connector.foreign_words import COPIES, FOREIGN
from lance_flight_client.spark.connector.jvm import Arguments, address, failure, pickle_handle, unpickle_handle
from lance_flight_client.spark.connector.procedures import CHANGELOG, PROCEDURES, description, parameters
from lance_flight_client.spark.connector.procedures import call as run_procedure
from lance_flight_client.spark.connector.pushdown import MOST_GROUPS, Aggregation, answer, group_tasks, query, to_json
from lance_flight_client.spark.connector.relations import (
    HIDDEN,
    NEWEST,
    NO_HIDDEN,
    DirectTable,
    LimitedPlan,
    Point,
    Relation,
    ServerTable,
    described_columns,
    kind_of,
    limit_rows,
    load,
    relation_of,
    table_of,
    text,
    with_hidden,
    with_options,
)
from lance_flight_client.spark.connector.table_options import (
    DISTRIBUTED,
    TableReadOptions,
    TableWriteOptions,
    check_options,
    check_read_names,
    known_options,
)
from lance_flight_client.spark.connector.writes import NewServerTable, NewTable
from lance_flight_client.spark.options import NamedTable
from lance_flight_client.spark.reading import DirectPlan, FlightPlan
from lance_flight_client.spark.source import ReadPlan
from lance_flight_client.spark.types import spark_schema

GROUPS_OPTION = "groups"
"""Option of a catalog: the most keys of a scan that reports them."""


def backend(given: Arguments) -> SqlRunner:
    """Return what runs SQL for the catalog that asks."""
    return backend_of(given["options"])


def schema_of(namespace: Sequence[str]) -> str:
    """Return the schema that a namespace of Spark's is: none is `public`."""
    return ".".join(namespace) or "public"


def requested_table(given: Arguments) -> NamedTable:
    """Return the table that a request names."""
    return NamedTable(schema_of(given["namespace"]), given["name"])


def list_namespaces(given: Arguments) -> list[str]:
    """Return the schemas."""
    found = backend(given).rows("SELECT schema_name FROM information_schema.schemata ORDER BY 1")
    return cast("list[str]", found.column(0).to_pylist())


def load_namespace(given: Arguments) -> dict[str, str]:
    """Return the properties of a namespace, of which there are none."""
    name = schema_of(given["namespace"])
    known = list_namespaces(given)
    if name not in known:
        raise NotFound.named("schema", name, known)
    return {}


def list_tables(given: Arguments) -> list[str]:
    """Return the tables of a namespace; views are listed where Spark asks for views."""
    return _list_names(given, "table_type <> 'VIEW'")


def list_views(given: Arguments) -> list[str]:
    """Return the views of a namespace."""
    return _list_names(given, "table_type = 'VIEW'")


def _list_names(given: Arguments, condition: str) -> list[str]:
    load_namespace(given)
    sql = (
        f"SELECT table_name FROM information_schema.tables WHERE {condition} AND table_schema ="  # noqa: S608 - quoted
        f" {text(schema_of(given['namespace']))} ORDER BY 1"
    )
    return cast("list[str]", backend(given).rows(sql).column(0).to_pylist())


def load_table(given: Arguments) -> dict[str, Any]:
    """Return a table at a point of its history: columns, partition fields, and the handle by which it is scanned."""
    name = requested_table(given)
    point = Point(given.get("version"), given.get("microseconds"))
    relation = load(given["options"], backend(given), name, point)
    return {**describe_loaded(name, relation, backend(given)), "is_pinned": point != NEWEST}


def describe_loaded(name: NamedTable, relation: Relation, sql: SqlRunner) -> dict[str, Any]:
    """Return what Spark is told of a table that is there."""
    description = describe(sql, name, relation)
    answer = describe_table(
        name, relation, definitions.describe_columns(described_columns(relation), description.columns)
    )
    comment = {} if description.comment is None else {"comment": description.comment}
    return {
        **answer,
        "partitioning": description.partitioning,
        "properties": {**description.properties, **answer["properties"], **comment},
        "hidden": [*HIDDEN, *NO_HIDDEN] if isinstance(relation, DirectTable | ServerTable) else [],
        "key": {"name": primary_key_name(name.name), "columns": description.key} if description.key else None,
    }


def describe_table(name: NamedTable, relation: Relation, columns: StructType) -> dict[str, Any]:
    """Return what Spark is told of a table, but for its partition fields."""
    return {
        "name": f"{name.db_schema}.{name.name}",
        "schema": columns.json(),
        "handle": pickle_handle(relation),
        "partitioning": [],
        "properties": {"provider": "lance_flight"},
        "takes_rows": isinstance(relation, DirectTable | ServerTable | NewTable | NewServerTable),
        "version": _refreshed_version(relation),
    }


def _refreshed_version(relation: Relation) -> str | None:
    """Return the version by which Spark loads a table anew for a DataFrame that was made before; None where it stays as it was.

    So does a table with structs: Spark takes one that has been given another field since, and then refuses its own plan.
    """
    if not isinstance(relation, DirectTable | ServerTable):
        return None
    has_structs = any(contains(column.type, pa.types.is_struct) for column in relation.source)
    return None if has_structs else str(relation.version)


def create_table(given: Arguments) -> None:
    """Make a table."""
    backend(given).run(definitions.create_table(qualified_name(given), given))


def create_table_like(given: Arguments) -> None:
    """Make a table like another one of the catalog, or with the columns of one elsewhere."""
    like = table_of(unpickle_handle(given["like"])) if "like" in given else None
    if like is None:
        return create_table(given)
    return backend(given).run(definitions.create_like(qualified_name(given), given, like))


def stage_table(given: Arguments) -> dict[str, Any]:
    """Begin to make a table, which takes rows and has no name before `end_table`."""
    key, relation = writes.stage(given["options"], requested_table(given), given)
    return {**describe_table(requested_table(given), relation, spark_schema(relation.source)), "staged": key}


def end_table(given: Arguments) -> None:
    """Publish a table that was begun, or discard it."""
    writes.end(given)


def alter_table(given: Arguments) -> None:
    """Change a table by all changes of a statement, in one commit."""
    changes: Sequence[Mapping[str, Any]] = given["changes"]
    if not changes:
        # DROP COLUMN IF EXISTS of one that is not there.
        return
    paths = definitions.list_dropped(changes)
    if paths or any(len(change.get("column", ())) > 1 for change in changes):
        relation = load(given["options"], backend(given), requested_table(given))
        definitions.check_sources(describe(backend(given), requested_table(given), relation).partitioning, paths)
        changes = definitions.with_stored_paths(changes, relation.source)
    for change in changes:
        if change["change"] == "drop_constraint" and change["name"] != primary_key_name(given["name"]):
            if change["if_exists"]:
                return
            raise NotFound.named("constraint", change["name"], [primary_key_name(given["name"])])
    backend(given).run(definitions.alterations(qualified_name(given), changes))


def evolve_table(given: Arguments) -> dict[str, Any]:
    """Return a table with the columns that a write asks for, which are committed with its rows, or else now."""
    name, sql = requested_table(given), backend(given)
    relation = load(given["options"], sql, name)
    if isinstance(relation, DirectTable) and isinstance(sql, RootBackend):
        changes = definitions.with_stored_paths(given["changes"], relation.source)
        asked = sql.column_changes(relation.plan.table, definitions.alterations(qualified_name(given), changes))
        evolved = None if asked is None else relation.plan.evolved(asked)
        if evolved is not None:
            return describe_loaded(name, DirectTable(evolved), sql)
    if isinstance(relation, ServerTable):
        changes = definitions.with_stored_paths(given["changes"], relation.source)
        statement = definitions.alterations(qualified_name(given), changes)
        if definitions.goes_with_rows(changes, describe(sql, name, relation).partitioning):
            return describe_loaded(name, definitions.evolved_at_server(relation, qualified_name(given), statement), sql)
    alter_table(given)
    return load_table(given)


def drop_table(given: Arguments) -> bool:
    """Drop a table; return whether there was one. A view is refused: Spark says nothing where False is returned for what it has loaded."""
    kind = kind_of(backend(given), requested_table(given))
    if kind == "VIEW":
        raise InvalidInput(f"{given['name']!r} is a view; expected DROP VIEW, or CALL … .system.drop_view('…')")
    if kind is None:
        return False
    backend(given).run(f"DROP TABLE {qualified_name(given)}")
    return True


def drop_view(given: Arguments) -> bool:
    """Drop a view; return whether there was one."""
    if kind_of(backend(given), requested_table(given)) != "VIEW":
        return False
    backend(given).run(f"DROP VIEW {qualified_name(given)}")
    return True


def rename_table(given: Arguments) -> None:
    """Rename a table within its schema."""
    schema, to = requested_table(given).db_schema, schema_of(given["to_namespace"])
    # Spark gives the new name without a catalog as one of no namespace.
    if given["to_namespace"] and to != schema:
        raise Unsupported(f"table {given['name']!r} cannot be moved to schema {to!r}; expected a name in {schema!r}")
    backend(given).run(f"ALTER TABLE {qualified_name(given)} RENAME TO {quote_name(given['to'])}")


def create_namespace(given: Arguments) -> None:
    """Make a schema, which has no properties but its owner."""
    unknown = sorted(given.get("properties", {}).keys() - {"owner"})
    if unknown:
        raise Unsupported(
            f"CREATE NAMESPACE with {unknown[0]!r}; expected none: a namespace has no properties and no comment"
        )
    backend(given).run(f"CREATE SCHEMA {quote_name(schema_of(given['namespace']))}")


def drop_namespace(given: Arguments) -> None:
    """Drop a schema, with all that is in it if it is to `cascade`: each table and view in a commit of its own."""
    schema = schema_of(given["namespace"])
    if given["cascade"] and schema == "public":
        raise Unsupported("DROP NAMESPACE public CASCADE: the schema public stays; expected DROP TABLE of its tables")
    for kind, names in (("VIEW", list_views), ("TABLE", list_tables)) if given["cascade"] else ():
        for name in names(given):
            backend(given).run(f"DROP {kind} {quote_name(schema)}.{quote_name(name)}")
    backend(given).run(f"DROP SCHEMA {quote_name(schema)}")


def qualified_name(given: Arguments) -> str:
    """Return the table that a request names, as SQL has it."""
    table = requested_table(given)
    return f"{quote_name(table.db_schema)}.{quote_name(table.name)}"


def read_with_options(given: Arguments) -> dict[str, Any]:
    """Return the handle of what a read with options scans, or the error of a batch with them: a stream has options of its own."""
    relation, options = relation_of(given), given["read_options"]
    check_read_names(options)
    try:
        found = with_options(
            given["options"], backend(given), relation, TableReadOptions.parse(options), is_pinned=given["is_pinned"]
        )
    except (LanceFlightError, ServerError) as exc:
        return {"handle": given["handle"], "refused": failure(exc)}
    return {"handle": pickle_handle(found), "is_pinned": given["is_pinned"] or found is not relation}


def check_row_options(given: Arguments) -> None:
    """Refuse options of an UPDATE, a DELETE or a MERGE."""
    known_options(given["write_options"], (), f"{given['command']} of a table")


def push_predicates(given: Arguments) -> list[str]:
    """Return for each predicate whether the scan takes it: `whole`, `part` (Spark looks again) or `none`."""
    relation = relation_of(given)
    if not relation.takes_conditions:
        return ["none"] * len(given["predicates"])
    conditions = Conditions.over(relation.source)
    is_taken = [conditions.sql(predicate) is not None for predicate in given["predicates"]]
    taken = conditions.all_of(
        [predicate for predicate, taken in zip(given["predicates"], is_taken, strict=True) if taken]
    )
    use = "whole" if taken is not None and relation.decides(taken) else "part"
    return [
        use if taken else "none" if conditions.implied(predicate) is None else "part"
        for predicate, taken in zip(given["predicates"], is_taken, strict=True)
    ]


def condition_of(relation: Relation, predicates: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the condition that a scan is given for predicates; a branch, which takes none, is still offered those that Spark finds at run time."""
    is_taken = relation.takes_conditions or not isinstance(relation, DirectTable | ServerTable)
    return Conditions.over(relation.source).all_of(predicates) if is_taken else None


def push_aggregates(given: Arguments) -> dict[str, Any] | None:
    """Return the columns of an aggregation with its rows, or with the handle of what reads them; None where Spark computes it."""
    relation, predicates = relation_of(given), given["predicates"]
    if _is_evolved(relation):
        return None
    aggregation = Aggregation.of(relation.source, given["aggregates"], given["keys"])
    if aggregation is None:
        return None
    rows = answer(backend(given), relation, predicates, aggregation)
    schema = spark_schema(aggregation.schema).json()
    if rows is not None:
        return {"schema": schema, "rows": to_json(rows, aggregation.schema)}
    aggregated = query(relation, predicates, aggregation)
    return None if aggregated is None else {"schema": schema, "handle": pickle_handle(aggregated), "partitioning": []}


def _is_evolved(relation: Relation) -> bool:
    """Return whether a server does not know all columns of a relation yet."""
    return isinstance(relation, ServerTable) and relation.evolution is not None


def push_limit(given: Arguments) -> dict[str, Any] | None:
    """Return the handle of a relation that reads as many rows as a LIMIT needs; None where there is none."""
    relation = None if _is_evolved(relation_of(given)) else limit_rows(relation_of(given), given["limit"])
    return None if relation is None else {"handle": pickle_handle(relation), "partitioning": []}


def plan_scan(given: Arguments) -> dict[str, Any]:
    """Plan the tasks of a scan: the function that each of them runs, and what it reads."""
    relation = relation_of(given)
    condition = condition_of(relation, given["predicates"])
    planned = with_hidden(given["options"], relation, given["columns"]).scan(given["columns"], condition)
    if isinstance(planned, DirectPlan):
        return _planned_tasks(planned, most_groups(given))
    return {
        "portions": [pickle_handle(portion) for portion in planned.portions()],
        "keys": [],
        "values": [],
        "rows": rows_of(relation, planned),
        "partitions": None,
    }


def _planned_tasks(planned: DirectPlan, most: int) -> dict[str, Any]:
    """Plan the tasks of a scan that reads the files of a root, from one look at which partitions are left."""
    pruned_tables, partitions = planned.plan_tables(), planned.options.partitions
    tasks = group_tasks(planned, pruned_tables, most if partitions is None else min(most, partitions))
    return {
        "portions": [
            pickle_handle(portion) for portion in (tasks.portions if tasks else planned.portions_of(pruned_tables))
        ],
        "keys": [key.to_json() for key in tasks.keys] if tasks else [],
        "values": tasks.values if tasks else [],
        "rows": tasks.rows if tasks else sum(row_counts([piece.part.table for piece in pruned_tables.pieces])),
        "partitions": _count_partitions(pruned_tables),
    }


def _count_partitions(found: PrunedTables) -> str | None:
    """Return how many partitions of how many may have rows that are looked for."""
    pruning = found.planned.pruning
    return f"{pruning.scanned} / {pruning.total}" if found.planned.snapshot.is_partitioned else None


def deleted_partitions(given: Arguments) -> str | None:
    """Return how many partitions of how many a DELETE may change; None where a server finds them."""
    relation = relation_of(given)
    if not isinstance(relation, DirectTable):
        return None
    return _count_partitions(relation.where(condition_of(relation, given["predicates"])).plan_tables())


def plan_whole_partitions(given: Arguments) -> dict[str, Any]:
    """Plan the tasks of a change of rows, which read at least those that it may change."""
    relation = relation_of(given)
    condition = condition_of(relation, given["predicates"])
    planned = writes.replaced_rows(relation, given["columns"], condition)
    return {
        "portions": [pickle_handle(portion) for portion in planned.portions],
        "keys": [],
        "values": [],
        "rows": planned.rows,
        "read": planned.read,
        "partitions": planned.partitions,
    }


def portions_address(given: Arguments) -> str:
    """Return the socket from which tasks read portions."""
    del given
    return address()


def distribute_rows(given: Arguments) -> dict[str, Any]:
    """Return how the rows of a write come to its tasks."""
    return writes.distribute_rows(
        relation_of(given), given["command"], TableWriteOptions.parse(given["write_options"]), backend(given)
    )


def begin_write(given: Arguments) -> dict[str, Any]:
    """Begin a write: the function of its tasks, and the handle by which it is committed or aborted."""
    relation = relation_of(given)
    schema = StructType.fromJson(json.loads(given["schema"]))
    if isinstance(relation, NewTable | NewServerTable):
        known_options(given["write_options"], DISTRIBUTED, "write to a new table")
    options = TableWriteOptions.parse(given["write_options"])
    if any(comparison["is_pinned"] for comparison in given["compared"]):
        # A MERGE that only inserts has the options of its target twice: those of a point would leave the newest rows out of sight.
        check_options(options.points, (), "MERGE of a table")
    compared = [
        writes.Compared(relation_of(comparison), comparison["predicates"])
        for comparison in given["compared"]
        if not comparison["is_pinned"]
    ]
    planned = writes.begun(
        relation, schema, Replaces(given["replaces"]), given["predicates"], options=options, compared=compared
    )
    return {**writes.tasks(planned, schema), "write": pickle_handle(writes.TableWrite(planned, options))}


def commit_write(given: Arguments) -> None:
    """Commit what the tasks of a write have written."""
    writes.commit(unpickle_handle(given["write"]), writes.messages_of(given["messages"]), given.get("read"))


def abort_write(given: Arguments) -> None:
    """Remove what the tasks of a write have written."""
    writes.abort(unpickle_handle(given["write"]), writes.messages_of(given["messages"]))


def can_delete(given: Arguments) -> bool:
    """Return whether a DELETE needs no task: SQL can say its predicates."""
    return writes.deletion(relation_of(given), given["predicates"]) is not None


def delete_where(given: Arguments) -> None:
    """Delete the rows that fulfil all predicates."""
    statement = writes.deletion(relation_of(given), given["predicates"])
    if statement is None:
        raise AssertionError(given["predicates"])
    backend(given).run(statement)


def procedures(given: Arguments) -> list[str]:
    """Return the names of the procedures."""
    del given
    return [*PROCEDURES, *FOREIGN, *COPIES, CHANGELOG]


def load_procedure(given: Arguments) -> dict[str, Any]:
    """Return a procedure, with its parameters."""
    name = given["procedure"].lower()
    if [each.lower() for each in given["namespace"]] != ["system"]:
        raise NotFound(
            f"no procedure {'.'.join([*given['namespace'], name])!r}; expected system.{', '.join(PROCEDURES)}"
        )
    return {
        "name": name,
        "description": description(name),
        "parameters": [
            {"name": each, "type": kind, "required": is_required} for each, kind, is_required in parameters(name)
        ],
    }


def call(given: Arguments) -> dict[str, Any]:
    """Run a procedure; return the columns and the rows of its report."""
    return run_procedure(backend(given), given["procedure"], given["values"], given.get("catalog"))


def most_groups(given: Arguments) -> int:
    """Return how many keys a scan may report, as the catalog's option says."""
    found = given["options"].get(GROUPS_OPTION, str(MOST_GROUPS))
    if not found.isdecimal():
        raise InvalidInput(f"{GROUPS_OPTION!r} is {found!r}; expected a number, 0 for none")
    return int(found)


def rows_of(relation: Relation, planned: ReadPlan) -> int | None:
    """Return how many rows a query reads at most; None if that is not known."""
    if isinstance(planned, LimitedPlan):
        return planned.rows
    known = planned.answer.rows if isinstance(planned, FlightPlan) else None
    return relation.rows if known is None and isinstance(relation, ServerTable) else known


METHODS: Mapping[str, Callable[[Arguments], Any]] = MappingProxyType(
    {
        method.__name__: method
        for method in (
            list_namespaces,
            load_namespace,
            create_namespace,
            drop_namespace,
            list_tables,
            list_views,
            load_table,
            create_table,
            create_table_like,
            stage_table,
            end_table,
            alter_table,
            evolve_table,
            drop_table,
            drop_view,
            rename_table,
            read_with_options,
            check_row_options,
            push_predicates,
            push_aggregates,
            push_limit,
            plan_scan,
            plan_whole_partitions,
            portions_address,
            distribute_rows,
            begin_write,
            commit_write,
            abort_write,
            procedures,
            load_procedure,
            call,
            can_delete,
            deleted_partitions,
            delete_where,
            *streams.METHODS,
        )
    }
)
