"""Operations on the rows of a table: insert, count, update, delete and merge them."""

from __future__ import annotations

from uuid import uuid4

from lance_flight.engine.sql.references import quote_parts
from lance_flight.errors import InvalidInput, Unsupported
from lance_flight.flight.backend import IfNotExists, IngestTarget
from lance_flight.rest.call import RestAnswer, RestCall
from lance_flight.rest.names import PUBLIC, column_sql, fold_column


def insert(call: RestCall) -> RestAnswer:
    """Append the rows of the body, or replace all rows by them."""
    mode = call.query.get("mode", "append").lower()
    if mode not in ("append", "overwrite"):
        raise InvalidInput(f"mode {mode!r}; expected append or overwrite")
    if "upload_id" in call.query:
        raise Unsupported("multipart writes: expected one request with all rows")
    table = call.target
    options = (("overwrite", "table"),) if mode == "overwrite" else ()
    call.ingest(IngestTarget(table=table.pinned_name, schema=table.db_schema, options=options))
    return RestAnswer({"version": call.version()})


def count_rows(call: RestCall) -> RestAnswer:
    """Count the rows of a table, or those that fulfil a predicate."""
    where = call.json.get("predicate")
    counted = call.rows(f"SELECT count(*) FROM {call.table.sql}{call.condition(where)}")  # noqa: S608 - a quoted name
    return RestAnswer(counted.column(0)[0].as_py())


def update(call: RestCall) -> RestAnswer:
    """Change columns of the rows that fulfil a predicate."""
    changes = call.value("updates", list)
    if not changes or not all(isinstance(change, list) and len(change) == 2 for change in changes):  # noqa: PLR2004 - a pair
        raise InvalidInput("updates are no list of pairs; expected [[column, expression], …]")
    assigned = ", ".join(f"{column_sql(name)} = {call.expression(value)}" for name, value in changes)
    rows = call.run(f"UPDATE {call.target.sql} SET {assigned}{call.condition(call.json.get('predicate'))}")  # noqa: S608
    return RestAnswer({"rows_updated": rows, "updated_rows": rows, "version": call.version()})


def delete(call: RestCall) -> RestAnswer:
    """Delete the rows that fulfil a predicate."""
    where = call.condition(call.value("predicate", str))
    rows = call.run(f"DELETE FROM {call.target.sql}{where}")  # noqa: S608 - a quoted name
    return RestAnswer({"num_deleted_rows": rows, "version": call.version()})


def merge_insert(call: RestCall) -> RestAnswer:
    """Merge the rows of the body into a table, by a temporary table and one MERGE."""
    on, told = call.repeated.get("on", ()), {name: value.lower() == "true" for name, value in call.query.items()}
    if not on:
        raise InvalidInput("merge_insert names no column; expected on=COLUMN")
    name = f"source_{uuid4().hex}"
    table, source = call.target, quote_parts(PUBLIC, name)
    rows = call.open_rows()
    keys = [[column_sql(fold_column(key, names)) for names in (call.columns().names, rows.schema.names)] for key in on]
    equal = " AND ".join(f"target.{mine} = source.{theirs}" for mine, theirs in keys)
    missing = (
        f"SELECT count(*) FROM {source} AS source WHERE NOT EXISTS (SELECT 1 FROM {table.sql} AS target WHERE {equal})"  # noqa: S608 - quoted names
    )
    extra = (
        f"SELECT count(*) FROM {table.sql} AS target WHERE NOT EXISTS (SELECT 1 FROM {source} AS source WHERE {equal})"  # noqa: S608 - quoted names
    )
    clauses, counts = [], {}
    if told.get("when_matched_update_all"):
        clauses.append(f"WHEN MATCHED{_filter(call, 'when_matched_update_all_filt')} THEN UPDATE SET *")
    if told.get("when_not_matched_insert_all"):
        clauses.append("WHEN NOT MATCHED THEN INSERT *")
        counts["num_inserted_rows"] = missing
    if told.get("when_not_matched_by_source_delete"):
        rest = _filter(call, "when_not_matched_by_source_delete_filt")
        clauses.append(f"WHEN NOT MATCHED BY SOURCE{rest} THEN DELETE")
        counts["num_deleted_rows"] = extra + rest
    if not clauses:
        raise InvalidInput("merge_insert does nothing; expected when_matched_update_all=true or another action")
    with call.alone() as alone:
        alone.ingest(IngestTarget(table=name, temporary=True, if_not_exists=IfNotExists.CREATE), rows)
        # The statement says how many rows it changes, and not by which clause.
        found = {"num_inserted_rows": 0, "num_deleted_rows": 0}
        found |= {name: alone.rows(sql).column(0)[0].as_py() for name, sql in counts.items()}
        changed = alone.run(f"MERGE INTO {table.sql} AS target USING {source} AS source ON {equal} {' '.join(clauses)}")
        version = alone.version(table)
    updated = max(changed - sum(found.values()), 0)
    return RestAnswer({**found, "num_updated_rows": updated, "num_attempts": 1, "version": version})


def _filter(call: RestCall, name: str) -> str:
    """Return a further condition of a clause, about the rows of the table where it does not say whose."""
    text = call.query.get(name)
    return f" AND {call.expression(text, 'target', is_condition=True)}" if text else ""
