"""Queries: the request of a search as one SELECT, and its rows as an Arrow file or stream.

LanceDB's clients also take rows by their numbers, or by their places in a table (`take_row_ids` and `take_offsets`). Both come as a
filter, `_rowid IN (…)` or `_rowoffset IN (…)`, which our SQL does not have: there a row has a name.

Their full-text queries become those that `full_text_search` takes.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.engine.sql.references import quote_parts, text_literal
from lance_flight.errors import InvalidInput, LimitExceeded, NotFound, Unsupported
from lance_flight.rest.call import RestAnswer, RestCall, batches_of, snapshot_of
from lance_flight.rest.names import column_sql, field_path

FILE, STREAM = "application/vnd.apache.arrow.file", "application/vnd.apache.arrow.stream"
DISTANCE, SCORE, QUERY = "_distance", "_score", "query_index"
_METRICS = ("l2", "cosine", "dot", "hamming")
MOST_ROWS, DEFAULT_ROWS = 10_000, 10
"""Most rows of a search, and those of one that does not say how many."""


@dataclass(frozen=True, slots=True)
class Select:
    """A query in SQL with its parameters; the names of rows in its answer become numbers if it `hashes_row_ids`."""

    sql: str
    parameters: pa.RecordBatch | None = None
    hashes_row_ids: bool = False


@dataclass(slots=True)
class _Arguments:
    """Arguments of a search function, those with values of the client as parameters."""

    texts: list[str] = field(default_factory=list)
    values: list[pa.Array] = field(default_factory=list)

    def add(self, name: str, text: object) -> None:
        """Add `name => text`; nothing for None."""
        if text is not None:
            self.texts.append(f"{name} => {text}")

    def bind(self, value: pa.Array) -> str:
        """Bind a value, and return its parameter."""
        self.values.append(value)
        return f"${len(self.values)}"

    @property
    def batch(self) -> pa.RecordBatch | None:
        """The bound values, as one row."""
        names = [str(place + 1) for place in range(len(self.values))]
        return pa.record_batch(self.values, names) if self.values else None


def query(call: RestCall) -> RestAnswer:
    """Answer a query with its rows."""
    taken = take_rows(call)
    call = call if taken is None else taken.call
    select = select_of(call, call.json)
    answered = call.answer(select.sql, select.parameters)
    batches, schema = batches_of(answered), answered.schema
    finish = taken.finish if taken is not None else with_numeric_row_ids if select.hashes_row_ids else None
    if finish is not None:
        batches = map(finish, batches)
        schema = finish(pa.RecordBatch.from_pylist([], schema)).schema
    is_stream = STREAM in call.headers.get("accept", "")
    headers = {"x-lancedb-version": str(snapshot_of(answered))}
    return RestAnswer(
        chunks=_encode_rows(batches, schema, is_stream=is_stream),
        content_type=STREAM if is_stream else FILE,
        headers=headers,
    )


def explain(call: RestCall) -> RestAnswer:
    """Explain how a query would run."""
    return _explain_query(call, call.value("query", dict), "EXPLAIN")


def analyze(call: RestCall) -> RestAnswer:
    """Run a query, and explain how it ran."""
    inner = call.json.get("query")
    return _explain_query(call, inner if isinstance(inner, dict) else call.json, "EXPLAIN ANALYZE")


def _explain_query(call: RestCall, body: Mapping[str, Any], how: str) -> RestAnswer:
    select = select_of(call, body)
    found = call.rows(f"{how} {select.sql}", select.parameters)
    return RestAnswer("\n".join(found.column("plan").to_pylist()))


def select_of(call: RestCall, body: Mapping[str, Any]) -> Select:
    """Return the SELECT for the body of a query."""
    vectors = _vectors(body.get("vector"))
    texts = parse_text_query(body.get("full_text_query"))
    if vectors and texts is not None:
        raise Unsupported("a vector and a text in one query; expected two queries, whose rows a reranker joins")
    limit, offset = _whole(body, "k"), _whole(body, "offset") or 0
    names = call.columns()
    arguments = _Arguments()
    where = None if body.get("filter") is None else call.expression(body["filter"], is_condition=True)
    is_prefilter = body.get("prefilter") is not False
    extra: list[str] = []
    numbers: list[str] = []
    order = _order(body)
    if vectors:
        count = min(DEFAULT_ROWS if limit is None else limit, MOST_ROWS)
        source = _vector_search(call, body, names, vectors, arguments, count + offset, where if is_prefilter else None)
        extra = [quote_parts(DISTANCE)]
        if len(vectors) > 1 and not _is_multivector(names, body, vectors):
            numbers = [f"CAST(_query - 1 AS INTEGER) AS {quote_parts(QUERY)}"]
            order = order or "_query, _distance"
            count *= len(vectors)
        conditions = [] if is_prefilter or where is None else [where]
        if (upper := _number(body, "upper_bound")) is not None:
            conditions.append(f"{quote_parts(DISTANCE)} < {upper!r}")
    elif texts is not None:
        count = min(DEFAULT_ROWS if limit is None else limit, MOST_ROWS)
        source = _text_search(call, texts, arguments, count + offset, where if is_prefilter else None)
        extra = [quote_parts(SCORE)]
        conditions = [] if is_prefilter or where is None else [where]
    else:
        count = -1 if limit is None else limit
        source, conditions = call.table.sql, [] if where is None else [where]
    columns, extra = _columns(call, body, names, extra)
    hashes = bool(body.get("with_row_id")) or ROW_ID in columns
    if hashes and ROW_ID not in columns:
        extra.append(ROW_ID)
    sql = f"SELECT {', '.join([*numbers, *columns, *extra])} FROM {source}"  # noqa: S608 - quoted names, checked expressions
    sql += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    sql += f" ORDER BY {order}" if order else ""
    # A search has its own limit, and runs without DataFusion where nothing is left to do with its rows.
    is_limited = 0 <= count <= _MOST_LIMIT and (not (vectors or texts) or offset or not count)
    sql += f" LIMIT {count}" if is_limited else ""
    sql += f" OFFSET {offset}" if offset else ""
    return Select(sql, arguments.batch, hashes)


_MOST_LIMIT = (1 << 31) - 1
"""Limit above which a client means all rows."""


def _vector_search(  # noqa: PLR0917 - the parts of one request
    call: RestCall,
    body: Mapping[str, Any],
    names: pa.Schema,
    vectors: list[list[float]],
    arguments: _Arguments,
    count: int,
    where: str | None,
) -> str:
    column = body.get("vector_column") or _only_vector_column(names, len(vectors[0]))
    is_one = len(vectors) == 1 or _is_multivector(names, body, vectors)
    value = vectors[0] if len(vectors) == 1 else vectors
    kind = pa.list_(pa.float32()) if len(vectors) == 1 else pa.list_(pa.list_(pa.float32()))
    bound = arguments.bind(pa.array([value], kind))
    metric = body.get("distance_type")
    if metric is not None and (not isinstance(metric, str) or metric.lower() not in _METRICS):
        raise InvalidInput(f"distance_type {metric!r}; expected one of {', '.join(_METRICS)}")
    arguments.add("k", max(count, 1))
    arguments.add("filter", None if where is None else arguments.bind(pa.array([where])))
    arguments.add("metric", None if metric is None else text_literal(metric.lower()))
    probes = _whole(body, "nprobes") or _whole(body, "minimum_nprobes")
    arguments.add("nprobes", probes or None)
    arguments.add("refine", _whole(body, "refine_factor") or None)
    arguments.add("ef", _whole(body, "ef") or None)
    arguments.add("use_index", "false" if body.get("bypass_vector_index") else None)
    arguments.add("fast_search", "true" if body.get("fast_search") else None)
    arguments.add("min_distance", _number(body, "lower_bound"))
    arguments.add("max_distance", _number(body, "upper_bound"))
    path = text_literal(".".join(field_path(str(column))))
    given = bound if is_one else f"queries => {bound}"
    return f"vector_search({', '.join([call.table.argument, path, given, *arguments.texts])})"


def _text_search(call: RestCall, texts: TextQuery, arguments: _Arguments, count: int, where: str | None) -> str:
    columns = texts.columns or _indexed_texts(call)
    arguments.add("k", max(count, 1))
    arguments.add("filter", None if where is None else arguments.bind(pa.array([where])))
    for name, value in texts.arguments.items():
        arguments.add(name, text_literal(value) if isinstance(value, str) else value)
    bound = arguments.bind(pa.array([texts.query]))
    listed = ", ".join(text_literal(column) for column in columns)
    return f"full_text_search({', '.join([call.table.argument, f'[{listed}]', bound, *arguments.texts])})"


def _indexed_texts(call: RestCall) -> list[str]:
    """Return the columns with an index of texts, all of which a query without columns searches."""
    sql = f"SELECT column_name FROM {call.table.metadata('indexes')} WHERE kind = 'inverted'"  # noqa: S608
    found = sorted(set(call.rows(sql).column(0).to_pylist()))
    if not found:
        raise InvalidInput(f"table {call.newest.name!r} has no full text index; expected create_index(…, FTS) first")
    return found


def _vectors(value: object) -> list[list[float]]:
    """Return the vectors of a query: a list of numbers, or of lists, also inside `single_vector` and `multi_vector`."""
    if isinstance(value, Mapping):
        value = value.get("single_vector") or value.get("multi_vector")
    if not value:
        return []
    if not isinstance(value, list):
        raise InvalidInput("vector is no list; expected numbers, or lists of numbers")
    found = value if isinstance(value[0], list) else [value]
    for vector in found:
        if not isinstance(vector, list) or not all(type(each) in (int, float) for each in vector):
            raise InvalidInput("vector has values that are no numbers; expected numbers, or lists of numbers")
    return found


def _only_vector_column(schema: pa.Schema, size: int) -> str:
    """Return the only column of vectors; of several the only one whose vectors have the size of the query's."""
    kinds = {field.name: kind for field in schema if (kind := vector_type(field.type)) is not None}
    fitting = [name for name, kind in kinds.items() if kind.list_size == size]
    found = fitting if len(fitting) == 1 else list(kinds)
    if len(found) != 1:
        raise InvalidInput(f"{len(found)} vector columns ({', '.join(found[:10])}); expected vector_column to name one")
    (name,) = found
    return str(name)


def vector_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type of the vectors of a column, those in the lists of a multivector column too; None for another column."""
    if pa.types.is_list(kind):
        kind = kind.value_type
    is_vector = pa.types.is_fixed_size_list(kind) and kind.value_type in (
        pa.float16(),
        pa.float32(),
        pa.float64(),
        pa.uint8(),
    )
    return kind if is_vector else None


def _is_multivector(schema: pa.Schema, body: Mapping[str, Any], vectors: list[list[float]]) -> bool:
    name = body.get("vector_column") or _only_vector_column(schema, len(vectors[0]))
    at = schema.get_field_index(str(name))
    return len(vectors) > 1 and at >= 0 and pa.types.is_list(schema.field(at).type)


def _columns(
    call: RestCall, body: Mapping[str, Any], schema: pa.Schema, extra: list[str]
) -> tuple[list[str], list[str]]:
    """Return the selected columns in SQL, and the extra ones that the request does not place itself."""
    wanted = body.get("columns")
    if isinstance(wanted, Mapping) and not wanted.keys().isdisjoint({"column_names", "column_aliases"}):
        wanted = wanted.get("column_names") or wanted.get("column_aliases")
    if wanted is None:
        return [quote_parts(name) for name in schema.names], extra
    if isinstance(wanted, Mapping):
        pairs = [f"{call.expression(text)} AS {quote_parts(name)}" for name, text in wanted.items()]
        return pairs, extra
    if not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
        raise InvalidInput("columns is neither a list of names nor an object of expressions")
    for name in wanted:
        if field_path(name)[:1] and field_path(name)[0] not in {*schema.names, ROW_ID, DISTANCE, SCORE, QUERY}:
            raise NotFound.named("column", name, schema.names)
    found = [name if name == ROW_ID else f"{column_sql(name)} AS {quote_parts(name)}" for name in wanted]
    placed = {quote_parts(name) for name in wanted}
    return found, [each for each in extra if each not in placed]


def _order(body: Mapping[str, Any]) -> str:
    """Return the keys of ORDER BY."""
    keys, entries = [], body.get("order_by") or []
    if not isinstance(entries, list):
        raise InvalidInput(f"order_by is {entries!r}; expected objects with column_name")
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise InvalidInput(f"order_by has {entry!r}; expected objects with column_name")
        direction = "ASC" if entry.get("ascending", True) else "DESC"
        nulls = "FIRST" if entry.get("nulls_first", False) else "LAST"
        keys.append(f"{column_sql(entry.get('column_name'))} {direction} NULLS {nulls}")
    return ", ".join(keys)


def _whole(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"{name} is {value!r}; expected a whole number")
    return value


def _number(body: Mapping[str, Any], name: str) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise InvalidInput(f"{name} is {value!r}; expected a number")
    return float(value)


class _Chunks:
    """File that Arrow writes to, which hands on what was written."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        """Keep a part until `take`."""
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def writable(self) -> bool:
        """Tell Arrow that this is to write."""
        return True

    def flush(self) -> None:
        """Do nothing: `take` hands on what there is."""

    def close(self) -> None:
        """Keep what is written."""

    def take(self) -> list[bytes]:
        """Return what was written since the last time, in parts."""
        parts, self._parts = self._parts, []
        return parts


def _encode_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, is_stream: bool) -> Iterator[bytes]:
    """Encode rows batch by batch; an error before the first one is raised before anything is sent."""
    sink = _Chunks()
    writer = (pa.ipc.new_stream if is_stream else pa.ipc.new_file)(pa.PythonFile(sink, mode="w"), schema)
    for batch in batches:
        writer.write_batch(batch)
        yield from sink.take()
    writer.close()
    yield from sink.take()


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


_SPECIAL = re.compile(r'([-+()"^*~\\])')
_DEBUG_TEXT = re.compile(r"(?:Match|Phrase|MultiMatch|Boolean|Boosting|CombinedFields)\((?:\w+Query \{|\w+=)")
_ONE_QUERY = re.compile(r"(?P<kind>Match|Phrase)\((?:Match|Phrase)Query \{ (?P<fields>.*) \}\)", re.DOTALL)
_DEBUG_FIELD = re.compile(r'(\w+): (?:Some\()?("(?:[^"\\]|\\.)*"|[\w.]+)\)?(?:, |$)')
"""Match a query in the debug text of LanceDB's client, one of a single part, and each of its fields."""
_JSON_WORDS = MappingProxyType({"None": "null", "And": '"and"', "Or": '"or"'})
_OPERATORS = frozenset(["AND", "OR", "NOT"])
_AUTOMATIC = ((2, 0), (5, 1))
"""Longest words with so many letters that may differ, where a query does not say how many; two in longer ones."""
MOST_DEPTH = 16
_EXPANSIONS = 50
"""Words that a word with errors stands for at most, where a query does not say it."""


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Query text with the columns that it searches (none: all indexed ones), and the arguments of its search."""

    query: str
    columns: Sequence[str] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)


def parse_text_query(body: object) -> TextQuery | None:
    """Return the text query of a request: a text with columns, or a structured one; None without one."""
    if body is None:
        return None
    if isinstance(body, str):
        return _read_text(body, ())
    if not isinstance(body, Mapping):
        raise InvalidInput(f"full_text_query is {body!r}; expected an object")
    for name in ("string_query", "structured_query"):
        if body.get(name) is not None:
            return parse_text_query(body[name])
    found = body.get("query")
    if isinstance(found, str):
        return _read_text(found, tuple(body.get("columns") or ()))
    return _read_query(found)


def _read_text(text: str, columns: Sequence[str]) -> TextQuery:
    r"""Return the query that a text says: words, or a query in the debug text of LanceDB's client, which it sends where it pushes QueryTable down.

    >>> _read_text('Phrase(PhraseQuery { column: Some("body"), terms: "a \\"b", slop: 1 })', ())
    TextQuery(query='a "b', columns=('body',), arguments={'syntax': 'words', 'mode': 'phrase', 'slop': 1})
    """
    if not _DEBUG_TEXT.match(text):
        return TextQuery(text, tuple(columns), {"syntax": "words"})
    match = _ONE_QUERY.fullmatch(text)
    refusal = Unsupported(
        f"{text[:40]!r}, a text query of several parts in the words of a client that pushes QueryTable down;"
        " expected one part, or a connection without push-down"
    )
    if match is None:
        raise refusal
    fields = _DEBUG_FIELD.findall(match["fields"])
    try:
        said = {name: json.loads(_JSON_WORDS.get(value, value)) for name, value in fields}
    except ValueError as exc:  # what Rust escapes otherwise than JSON, as \u{e9}
        raise refusal from exc
    return _read_query({match["kind"].lower(): said})


def _read_query(query: object) -> TextQuery:
    kind, said = _only(query)
    match kind:
        case "match" if said.get("fuzziness") is not None and _boost(said) == 1:
            mode = "all" if _is_and(said) else "any"
            arguments = {"syntax": "words", "mode": mode, "fuzziness": _count(said, "fuzziness")}
            return TextQuery(_terms(said), _column(said), arguments)
        case "phrase":
            arguments = {"syntax": "words", "mode": "phrase", "slop": _count(said, "slop")}
            return TextQuery(_terms(said), _column(said), arguments)
        case "multi_match":
            return _multi_match(said)
    columns: set[str] = set()
    text = _text(kind, said, columns, 0)
    if len(columns) > 1:
        raise Unsupported(
            f"a {kind} query over columns {', '.join(sorted(columns))}; expected one column, or multi_match"
        )
    return TextQuery(text, tuple(columns))


def _multi_match(said: Mapping[str, Any]) -> TextQuery:
    """Return one query over several columns, each with its boost."""
    queries = said.get("match_queries")
    if queries is None and isinstance(said.get("query"), str):
        boosts = said.get("boost") or [1.0] * len(said.get("columns") or ())
        queries = [
            {"terms": said["query"], "column": column, "boost": boost, "fuzziness": 0}
            for column, boost in zip(said.get("columns") or (), boosts, strict=False)
        ]
    if not isinstance(queries, list) or not queries or not all(isinstance(query, Mapping) for query in queries):
        raise InvalidInput("multi_match has no match_queries; expected one for each column")
    first = queries[0]
    if any((_terms(query), _is_and(query)) != (_terms(first), _is_and(first)) for query in queries):
        raise Unsupported("multi_match with other terms in each column; expected the same terms")
    columns = [f"{column}^{_boost(query):g}" for query in queries for column in _column(query)]
    mode = "all" if _is_and(first) else "any"
    return TextQuery(_terms(first), columns, {"syntax": "words", "mode": mode, "fuzziness": _count(first, "fuzziness")})


def _text(kind: str, said: Mapping[str, Any], columns: set[str], depth: int) -> str:
    """Return a query in the language of `full_text_search`, and add the columns that it names."""
    if depth > MOST_DEPTH:
        raise InvalidInput(f"a text query nested deeper than {MOST_DEPTH} levels")
    columns.update(_column(said))
    match kind:
        case "match":
            words = [f"{_escape(word)}{_edits(said, word)}" for word in _terms(said).split()]
            joined = (" AND " if _is_and(said) else " ").join(words)
            boost = _boost(said)
            return f"({joined})" if boost == 1 else f"({joined})^{boost:g}"
        case "phrase":
            phrase = _terms(said).replace('"', " ")
            return f'"{phrase}"~{_count(said, "slop")}'
        case "boolean":
            parts = [
                f"{sign}({_text(*_only(each), columns, depth + 1)})"
                for name, sign in (("must", "+"), ("should", ""), ("must_not", "-"))
                for each in said.get(name) or ()
            ]
            return " ".join(parts)
    raise Unsupported(f"a text query of kind {kind!r}; expected match, phrase, multi_match or boolean")


def _only(query: object) -> tuple[str, Mapping[str, Any]]:
    """Return the kind of a query, and what it says."""
    given = {name: value for name, value in query.items() if value is not None} if isinstance(query, Mapping) else {}
    if len(given) != 1:
        raise InvalidInput("full_text_query is no query; expected one of match, phrase, multi_match and boolean")
    ((kind, said),) = given.items()
    if not isinstance(said, Mapping):
        raise InvalidInput(f"{kind} of full_text_query is {said!r}; expected an object")
    return str(kind), said


def _terms(said: Mapping[str, Any]) -> str:
    terms = said.get("terms")
    if not isinstance(terms, str):
        raise InvalidInput(f"terms of full_text_query are {terms!r}; expected a text")
    if said.get("prefix_length"):
        raise Unsupported("prefix_length of full_text_query; expected 0")
    if said.get("max_expansions") not in (None, _EXPANSIONS):
        raise Unsupported(
            f"max_expansions of full_text_query; expected {_EXPANSIONS}, and all words that fit are found"
        )
    return terms


def _column(said: Mapping[str, Any]) -> tuple[str, ...]:
    column = said.get("column")
    if column is not None and not isinstance(column, str):
        raise InvalidInput(f"column of full_text_query is {column!r}; expected a name")
    return () if column is None else (column,)


def _is_and(said: Mapping[str, Any]) -> bool:
    return str(said.get("operator") or "or").lower() == "and"


def _boost(said: Mapping[str, Any]) -> float:
    boost = said.get("boost", 1.0)
    if isinstance(boost, bool) or not isinstance(boost, int | float):
        raise InvalidInput(f"boost of full_text_query is {boost!r}; expected a number")
    return float(boost)


def _count(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name) or 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{name} of full_text_query is {value!r}; expected a whole number")
    return value


def _edits(said: Mapping[str, Any], word: str) -> str:
    """Return how many letters of a word may differ, as the query says it."""
    if said.get("fuzziness") is None:
        count = next((count for longest, count in _AUTOMATIC if len(word) <= longest), 2)
    else:
        count = _count(said, "fuzziness")
    return f"~{count}" if count else ""


def _escape(word: str) -> str:
    return f'"{word}"' if word in _OPERATORS else _SPECIAL.sub(r"\\\1", word)
