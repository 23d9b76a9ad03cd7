"""Operations on what one table holds: its versions, tags and branches, its indices, and its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa

from lance_flight.engine.sql.references import quote_parts, text_literal
from lance_flight.errors import InvalidInput, NotFound, SerializationFailure, Unsupported
from lance_flight.flight.backend import IfNotExists, IngestTarget
from lance_flight.model.index_kinds import KINDS
from lance_flight.rest.call import RestAnswer, RestCall
from lance_flight.rest.names import PUBLIC, column_sql, fold_column
from lance_flight.rest.queries import select_of, vector_type

MAIN = "main"


def _snapshots(call: RestCall) -> list[dict[str, Any]]:
    sql = f"SELECT version, committed_at, operation FROM {call.target.metadata('snapshots')} ORDER BY version"  # noqa: S608
    found: list[dict[str, Any]] = call.rows(sql).to_pylist()
    return found


def _version_json(snapshot: dict[str, Any]) -> dict[str, Any]:
    at = snapshot["committed_at"]
    metadata = {} if snapshot["operation"] is None else {"operation": snapshot["operation"]}
    return {
        "version": snapshot["version"],
        "manifest_path": "",
        "timestamp": at.isoformat().replace("+00:00", "Z"),
        "timestamp_millis": round(at.timestamp() * 1000),
        "metadata": metadata,
    }


def list_versions(call: RestCall) -> RestAnswer:
    """List the versions of a table: its snapshots."""
    found = [_version_json(snapshot) for snapshot in _snapshots(call)]
    is_descending = str(call.json.get("descending", call.query.get("descending", ""))).lower() == "true"
    if is_descending:
        found.reverse()
    after = call.query.get("page_token", "")
    if after:
        numbers = [version["version"] for version in found]
        if not after.isdecimal() or int(after[:20]) not in numbers:
            raise InvalidInput(f"page_token {after[:40]!r}; expected one of a page of versions")
        found = found[numbers.index(int(after)) + 1 :]
    page = found[: call.limit]
    token = {"page_token": str(page[-1]["version"])} if len(page) < len(found) else {}
    return RestAnswer({"versions": page} | token)


def describe_version(call: RestCall) -> RestAnswer:
    """Describe one version of a table."""
    wanted = call.json.get("version")
    found = [snapshot for snapshot in _snapshots(call) if wanted is None or snapshot["version"] == wanted]
    if not found:
        raise NotFound(f"no version {wanted!r} of table {call.newest.name!r}")
    return RestAnswer({"version": _version_json(found[-1])})


def restore(call: RestCall) -> RestAnswer:
    """Make a new version that equals an old one."""
    call.run(f"ALTER TABLE {call.target.sql} ROLLBACK TO {call.value('version', int)}")
    return RestAnswer({"version": call.version()})


def _tags(call: RestCall) -> dict[str, dict[str, Any]]:
    rows = call.rows(f"SELECT name, version, branch FROM {call.newest.metadata('tags')}").to_pylist()  # noqa: S608
    return {row["name"]: {"branch": row["branch"], "version": row["version"], "manifestSize": 0} for row in rows}


def list_tags(call: RestCall) -> RestAnswer:
    """List the tags of a table, by their names."""
    tags = _tags(call)
    # LanceDB's clients read the tags themselves, those of the catalog an object with them.
    return RestAnswer(tags) if call.is_lancedb else _page_of(call, "tags", tags)


def _page_of(call: RestCall, what: str, entries: Mapping[str, Any]) -> RestAnswer:
    """Return a page of entries by their names: all of them if the request has no limit."""
    names, token = call.page(entries, len(entries))
    return RestAnswer(
        {what: {name: entries[name] for name in names}} | ({} if token is None else {"page_token": token})
    )


def tag_version(call: RestCall) -> RestAnswer:
    """Return the version of a tag."""
    name = call.value("tag", str)
    found = _tags(call).get(name)
    if found is None:
        raise NotFound(f"no tag {name!r} of table {call.newest.name!r}")
    return RestAnswer({"version": found["version"]} | ({} if found["branch"] is None else {"branch": found["branch"]}))


def create_tag(call: RestCall, verb: str = "CREATE") -> RestAnswer:
    """Give a version a name."""
    version = call.value("version", int)
    call.run(f"ALTER TABLE {call.target.sql} {verb} TAG {quote_parts(call.value('tag', str))} AS OF {version}")
    return RestAnswer({})


def delete_tag(call: RestCall) -> RestAnswer:
    """Remove the name of a version."""
    call.run(f"ALTER TABLE {call.newest.sql} DROP TAG {quote_parts(call.value('tag', str))}")
    return RestAnswer({})


def update_tag(call: RestCall) -> RestAnswer:
    """Give another version the name, in one step."""
    return create_tag(call, "REPLACE")


def _branches(call: RestCall) -> list[dict[str, Any]]:
    if not call.is_partitioned(call.newest):
        return []
    found: list[dict[str, Any]] = call.rows(f"SELECT * FROM {call.newest.metadata('branches')}").to_pylist()  # noqa: S608
    return found


def list_branches(call: RestCall) -> RestAnswer:
    """List the branches of a table."""
    branches = {
        branch["name"]: {"parentVersion": branch["forked_at"], "createAt": 0, "manifestSize": 0, "metadata": {}}
        for branch in _branches(call)
    }
    return _page_of(call, "branches", branches)


def create_branch(call: RestCall) -> RestAnswer:
    """Make a branch of the newest version, or of another one, of the main branch."""
    name, version = call.value("name", str), call.json.get("from_version")
    source = call.json.get("from_branch")
    if source not in (None, "", MAIN):
        raise InvalidInput(f"from_branch {source!r}; expected {MAIN!r}: branches begin at the main branch")
    at = "" if version is None else f" AS OF {call.value('from_version', int)}"
    call.run(f"ALTER TABLE {call.newest.sql} CREATE BRANCH {quote_parts(name)}{at}")
    return RestAnswer({"name": name})


def delete_branch(call: RestCall) -> RestAnswer:
    """Drop a branch."""
    name = call.value("name", str)
    if name not in {branch["name"] for branch in _branches(call)}:
        raise NotFound(f"no branch {name!r} of table {call.newest.name!r}")
    call.run(f"ALTER TABLE {call.newest.sql} DROP BRANCH {quote_parts(name)}")
    return RestAnswer({})


def diff_branch(call: RestCall) -> RestAnswer:
    """Compare a branch with the main branch."""
    return RestAnswer(_diff(call))


def cherry_pick_branch(call: RestCall) -> RestAnswer:
    """Publish a branch, with its rows, or tell what that would bring; a conflict is an answer."""
    diff = _diff(call)
    promoted = [column["name"] for column in diff["addedColumns"]]
    said = {"status": "ready", "diff": diff, "preview": {"promotedColumns": promoted}}
    if call.value("dry_run", bool, default=False):
        return RestAnswer(said)
    try:
        call.run(f"ALTER TABLE {call.newest.sql} PUBLISH BRANCH {quote_parts(diff['fromBranch'])}")
    except SerializationFailure as conflict:
        error = {"code": "rowsChanged", "message": str(conflict)}
        return RestAnswer(said | {"status": "failed", "diff": diff | {"errors": [error]}})
    return RestAnswer(said | {"status": "cherryPicked", "mainVersionAfter": call.version(call.newest)})


def _diff(call: RestCall) -> dict[str, Any]:
    name, table = call.value("from_branch", str), call.newest
    parent = {branch["name"]: branch["forked_at"] for branch in _branches(call)}.get(name)
    if parent is None:
        raise NotFound(f"no branch {name!r} of table {table.name!r}")
    sides = [replace(call, json={}, known=[]), replace(call, json={"branch": name}, known=[])]
    main, branch = (side.version() for side in sides)
    rows = [side.rows(f"SELECT count(*) FROM {side.table.sql}").column(0)[0].as_py() for side in sides]  # noqa: S608
    new = [_count_new(side, parent, version) for side, version in zip(sides, (main, branch), strict=True)]
    columns = [{column.name: column for column in side.columns()} for side in sides]
    indexes = [{index["name"]: _index_json(index) for index in _indexes(side)} for side in sides]
    changed = [
        {"name": column, "main": _column_json(field), "branch": _column_json(columns[1][column])}
        for column, field in columns[0].items()
        if column in columns[1] and _column_json(field) != _column_json(columns[1][column])
    ]
    return {
        "fromBranch": name,
        "parentVersion": parent,
        "mainVersion": main,
        "branchVersion": branch,
        "baseMoved": main != parent,
        "rowCountMain": rows[0],
        "rowCountBranch": rows[1],
        "rowSummary": {
            "unchanged": rows[1] - new[1],
            "newOnBase": new[0],
            "newOnBranch": new[1],
            "staleRecompute": 0,
            "inputsChanged": 0,
            "deltaAvailable": True,
        },
        "addedColumns": [_column_json(columns[1][column]) for column in columns[1] if column not in columns[0]],
        "removedColumns": [_column_json(columns[0][column]) for column in columns[0] if column not in columns[1]],
        "changedColumns": changed,
        "addedIndexes": [_index_summary(indexes[1][index]) for index in indexes[1] if index not in indexes[0]],
        "removedIndexes": [_index_summary(indexes[0][index]) for index in indexes[0] if index not in indexes[1]],
        "errors": [],
    }


def _count_new(call: RestCall, parent: int, version: int) -> int:
    """Return how many rows were written since a version, changed ones among them."""
    changes = f"table_changes({call.target.argument}, {parent}, {version})"
    counted: int = call.rows(f"SELECT count(*) FROM {changes} WHERE _change = 'insert'").column(0)[0].as_py()  # noqa: S608
    return counted


def _column_json(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "dataType": str(field.type), "nullable": field.nullable}


def _index_summary(index: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "indexName": index["index_name"],
        "columns": index["columns"],
        "indexType": index["index_type"],
        "status": index["status"],
    }


def lsm_write_spec(call: RestCall) -> RestAnswer:
    """Answer that a table has no specification of LSM writes: none can be set."""
    call.describe(call.newest)
    return RestAnswer({})


_KINDS: Mapping[str, str] = {
    **{name: name.lower() for name in ("BTREE", "BITMAP", "LABEL_LIST", "NGRAM", "ZONEMAP", "BLOOMFILTER")},
    **{f"IVF_{name}": f"ivf_{name.lower()}" for name in ("FLAT", "SQ", "PQ", "RQ", "HNSW_FLAT", "HNSW_SQ", "HNSW_PQ")},
    "FTS": "inverted",
    "INVERTED": "inverted",
}
_FTS, _INVERTED = "FTS", "inverted"
MOST_PROBES = 4_096
"""Most parts of an index of vectors."""
_OF_NGRAMS = frozenset(["min_ngram_length", "max_ngram_length", "prefix_only"])
"""Options that a request has by default, and that only n-grams may have."""


def create_index(call: RestCall) -> RestAnswer:
    """Make an index of a column; one of the same name and column is replaced, as LanceDB does."""
    given = call.value("index_type", str).upper()
    kind = _KINDS.get(given)
    if kind is None:
        raise Unsupported(f"index_type {given!r}; expected one of {', '.join(_KINDS)}")
    path = call.value("column", str)
    name = call.json.get("name") or f"{_plain(path)}_idx"
    options = {option: call.json[option] for option in KINDS[kind].options if call.json.get(option) is not None}
    if kind == _INVERTED and options.get("base_tokenizer") != "ngram":
        options = {option: value for option, value in options.items() if option not in _OF_NGRAMS}
    metric = call.json.get("distance_type") or call.json.get("metric_type")
    if kind.startswith("ivf"):
        options["metric"] = str(metric or "l2").lower()
    if not call.is_partitioned(call.newest):
        # An index of a plain table is LanceDB's: of all rows, however few. Small partition tables are searched as fast without.
        options["min_rows"] = 1
    said = ", ".join(f"{option} = {_value(value)}" for option, value in options.items())
    index = f"{quote_parts(name)} ON {call.target.sql} ({column_sql(path)})"
    verb = "CREATE" if call.json.get("replace") is False else "CREATE OR REPLACE"
    call.run(f"{verb} INDEX {index} USING {kind}{f' WITH ({said})' if said else ''}")
    return RestAnswer({})


def _plain(path: str) -> str:
    return "".join(each if each.isalnum() and each.isascii() else "_" for each in path)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return text_literal(value)
    raise InvalidInput(f"option {value!r} of an index; expected a text, a whole number, true or false")


def _indexes(call: RestCall) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call.rows(f"SELECT * FROM {call.table.metadata('indexes')}").to_pylist()  # noqa: S608
    return found


def list_indexes(call: RestCall) -> RestAnswer:
    """List the indices of a table, each with the rows that are in it and those that are not."""
    return RestAnswer({"indexes": [_index_json(index) for index in _indexes(call)]})


def _index_json(index: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "index_name": index["name"],
        "index_uuid": index["name"],
        "columns": [index["column_name"]],
        "status": "done",
        "index_type": _FTS if index["kind"] == _INVERTED else index["kind"].upper(),
        **_counts(index),
        "num_segments": index["segments"] or 0,
        "index_details": index["options"],
    }


def _counts(index: Mapping[str, Any]) -> dict[str, int]:
    """Return the rows in an index and outside: all count as inside where no part is large enough for one, since nothing is missing."""
    rows, stale = index["rows"] or 0, index["stale_rows"] or 0
    return {"num_indexed_rows": rows - stale, "num_unindexed_rows": stale}


def index_stats(call: RestCall) -> RestAnswer:
    """Return the statistics of one index."""
    index = _find_index(call)
    said: dict[str, Any] = {"index_type": _index_json(index)["index_type"], "num_indices": index["segments"] or 0}
    metric = json.loads(index["options"] or "{}").get("metric")
    return RestAnswer(said | _counts(index) | ({} if metric is None else {"distance_type": metric}))


def _find_index(call: RestCall) -> dict[str, Any]:
    name = call.path["index_name"]
    found = [index for index in _indexes(call) if index["name"] == name]
    if not found:
        raise NotFound(f"no index {name!r} of table {call.newest.name!r}")
    return found[0]


def drop_index(call: RestCall) -> RestAnswer:
    """Drop an index."""
    call.run(f"DROP INDEX {quote_parts(_find_index(call)['name'])} ON {call.target.sql}")
    return RestAnswer({})


def prewarm(call: RestCall) -> RestAnswer:
    """Use an index once in all its parts, so that the next query finds them in memory."""
    index = _find_index(call)
    column, body = index["column_name"], {"k": 1, "columns": {"found": "1"}}
    if index["kind"] == _INVERTED:
        body |= {"full_text_query": {"query": "a", "columns": [column]}}
    elif index["kind"].startswith("ivf"):
        names = call.columns()
        kind = vector_type(names.field(column).type) if column in names.names else None
        if kind is None:
            raise Unsupported(
                f"prewarm of index {index['name']!r} of {column!r}; expected a column that is in no struct"
            )
        body |= {"vector": [1.0] * kind.list_size, "vector_column": column, "nprobes": MOST_PROBES}
    else:
        body |= {"filter": f"`{column}` IS NULL"}
    select = select_of(call, body)
    call.rows(select.sql, select.parameters)
    return RestAnswer({})


def prewarm_data(call: RestCall) -> RestAnswer:
    """Read the columns once, so that the next query finds them in the caches of the system."""
    names = call.value("columns", list, []) or call.columns().names
    counts = ", ".join(f"count({column_sql(name)})" for name in names)
    call.rows(f"SELECT {counts} FROM {call.table.sql}")  # noqa: S608 - quoted names
    return RestAnswer({})


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
