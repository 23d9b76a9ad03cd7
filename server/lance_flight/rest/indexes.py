"""Operations on the indices of a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lance_flight.engine.sql.references import quote_parts, text_literal
from lance_flight.errors import InvalidInput, NotFound, Unsupported
from lance_flight.model.index_kinds import KINDS
from lance_flight.rest.call import RestAnswer, RestCall
from lance_flight.rest.names import column_sql
from lance_flight.rest.queries import select_of, vector_type

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
