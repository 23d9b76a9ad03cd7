"""DataFusion contexts, and the evaluation of expressions over columns: custom partition expressions, conditions, casts.

Spec: Hash Functions, Partition Expression (the six requirements); decisions 7 and 11.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache, lru_cache, partial

import pyarrow as pa
from datafusion import DataFrame, LogicalPlan, RuntimeEnvBuilder, SessionConfig, SessionContext, col, udf

from lance_flight.engine.functions.readable_texts import readable_texts
from lance_flight.engine.functions.routines import calls_of, mutable_functions
from lance_flight.engine.sql.references import Cursor
from lance_flight.engine.sql.tokens import STRINGS
from lance_flight.engine.translation.plan_messages import plain_message
from lance_flight.engine.translation.rewriting import for_datafusion, translate_positions, with_sent_position
from lance_flight.engine.translation.typed_calls import QUERIES_ONLY, TypedCalls
from lance_flight.errors import SpecError, SqlError
from lance_flight.model.arrow_types import is_string
from lance_flight.model.hashing import hash_class
from lance_flight.model.naming import shown_text

RECURSION_LIMIT = "250"
"""Recursion limit of DataFusion's parser, in which a bracket takes up to two levels (`bounds.MOST_NESTED`)."""
_COLUMN = re.compile(r"col\d+")
_NULL_ROWS = 2  # an aggregate would make one of them
_KEPT_EXPRESSIONS = 256
INNER_MEMORY = 256 << 20
"""Bytes that an inner context may hold; evaluating batch by batch it needs little."""
COMPUTED = "value"
"""Name of an expression's values in plans that compute it."""
_PROBES = (5, 0, -3, 100, None)


def session_config(target_partitions: int = 1) -> SessionConfig:
    """Return the configuration of every DataFusion context here: text is utf8, times are UTC, nothing is read from files."""
    return (
        SessionConfig(
            {
                "datafusion.sql_parser.map_string_types_to_utf8view": "false",
                "datafusion.sql_parser.recursion_limit": RECURSION_LIMIT,
                "datafusion.execution.time_zone": "UTC",
                "datafusion.execution.collect_statistics": "false",
                # The smaller side of a join is looked up in one table: the rows of the other are not distributed for that.
                "datafusion.optimizer.repartition_joins": "false",
                # It finds the columns of such a filter by their names (https://github.com/apache/datafusion/issues/25296).
                "datafusion.optimizer.enable_dynamic_filter_pushdown": "false",
                # DataFusion 55 forgets of some conditions that they are never NULL, and refuses to aggregate them then.
                "datafusion.execution.skip_physical_aggregate_schema_check": "true",
            }
        )
        .with_target_partitions(target_partitions)
        .with_batch_size(64 * 1024)
    )


def inner_context() -> SessionContext:
    """Create a context for computations outside the query of a statement: expressions, casts, conditions."""
    return SessionContext(session_config(), RuntimeEnvBuilder().with_greedy_memory_pool(INNER_MEMORY))


def register_constants(context: SessionContext, principal: str, catalog: str, db_schema: str) -> None:
    """Register what a statement knows of its session as functions whose constants prune partitions like any others."""
    constants = {
        "current_user": principal,
        "session_user": principal,
        "current_catalog": catalog,
        "current_database": catalog,
        "current_schema": db_schema,
        "version": _version(),
    }
    for word, value in constants.items():
        context.register_udf(udf(partial(_constant, value), [], pa.utf8(), "immutable", word))


def register_moment(context: SessionContext, began: Callable[[], datetime]) -> None:
    """Register the moment at which a statement began, in microseconds as its columns have: DataFusion's own has nanoseconds, which they refuse."""
    for word, kind in MOMENTS.items():
        context.register_udf(udf(partial(_moment, began, kind), [], kind, "stable", word))


MOMENTS = {
    "now": pa.timestamp("us", "UTC"),
    "current_timestamp": pa.timestamp("us", "UTC"),
    "localtimestamp": pa.timestamp("us"),
    "current_date": pa.date32(),
    "today": pa.date32(),
    "current_time": pa.time64("ns"),
    "localtime": pa.time64("ns"),
}
"""Functions of the moment at which a statement began, and their types."""


def _moment(began: Callable[[], datetime], kind: pa.DataType) -> pa.Array:
    return pa.array([began().time() if pa.types.is_time(kind) else began()], kind)


def _constant(value: str) -> pa.Array:
    return pa.array([value])


@cache
def _version() -> str:
    ours, engine = (importlib.metadata.version(package) for package in ("lance-flight", "datafusion"))
    return f"lance-flight {ours} (DataFusion {engine})"


def evaluate(expression: str, columns: Sequence[pa.Array], result_type: pa.DataType) -> pa.Array:
    """Compute a custom partition expression over col0, col1 …; implements `model.spec.Evaluate`.

    `SqlError` for one that is not deterministic: its values tell nothing of the next ones.

    >>> evaluate("upper(col0)", [pa.array(["a", None])], pa.utf8()).to_pylist()
    ['A', None]
    """
    problems = _unsteady(expression)
    if problems:
        raise SqlError(f"expression {shown_text(expression)} cannot be computed: " + "; ".join(problems))
    values = _compute(expression, columns)
    try:
        return values if values.type == result_type else values.cast(result_type)
    except pa.ArrowException as exc:
        raise SqlError(
            f"expression {shown_text(expression)} gives {values.type}, result_type is {result_type}: {exc}"
        ) from exc


def compute(expression: str, columns: pa.RecordBatch, kind: pa.DataType) -> pa.Array:
    """Compute an expression over columns by their names, as values of `kind`.

    >>> compute("a + 1", pa.record_batch({"a": [1, None]}), pa.int32()).to_pylist()
    [2, None]
    """
    values = _compute_over(expression, columns)
    return values if values.type == kind else cast(values, kind)


def computed_type(expression: str, columns: pa.RecordBatch) -> pa.DataType:
    """Return the type of an expression over columns by their names.

    >>> computed_type("a + 1", pa.record_batch({"a": pa.array([], pa.int32())}))
    DataType(int64)
    """
    return _compute_over(expression, columns).type


def check_condition(condition: str, source: pa.Schema) -> None:
    """Refuse a text that is no deterministic condition over one row; `SqlError` gives the reason.

    >>> check_condition("a > 1", pa.schema({"a": pa.int64()}))
    """
    problems = list(unsteady(condition))
    if problems:
        raise SqlError(f"condition {shown_text(condition)}: " + "; ".join(problems))
    query = f"SELECT 1 FROM source WHERE (\n{condition}\n)"  # noqa: S608 - parsed, planned, never run
    try:
        _plan_over(query, pa.RecordBatch.from_pylist([], source), condition).execution_plan()
    except Exception as exc:
        raise SqlError(f"condition {shown_text(condition)} cannot be computed: {plain_message(exc)}") from exc


def optimised_over(expression: str, columns: pa.Schema) -> LogicalPlan:
    """Return the optimised plan that computes an expression over these columns.

    >>> optimised_over("a + 1", pa.schema({"a": pa.int64()})).display_indent().splitlines()[0]
    'Projection: source.a + Int64(1) AS value'
    """
    query = f"SELECT (\n{expression}\n) AS {COMPUTED} FROM source"  # noqa: S608 - planned, never run
    try:
        batch = pa.RecordBatch.from_pylist([], columns)
        return _plan_over(query, batch, expression, has_macros=False).optimized_logical_plan()
    except Exception as exc:
        raise SqlError(f"expression {shown_text(expression)} cannot be computed: {plain_message(exc)}") from exc


def columns_in(expression: str, names: Iterable[str]) -> list[str]:
    """Return the columns that an expression may refer to; a name of another thing (a function, say) counts too.

    >>> columns_in('upper(Origin) = "Dest"', ["origin", "Dest", "carrier"])
    ['origin', 'Dest']
    """
    tokens = [token for token in Cursor.over(expression).tokens if token.kind not in STRINGS]
    written = {token.text for token in tokens} | {token.text.lower() for token in tokens}
    return [name for name in names if name in written or name.replace('"', '""') in written]


def cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast `column` by SQL's rules; text is read as a literal of that type.

    >>> cast(pa.array(["01:02", None]), pa.time64("us")).to_pylist()
    [datetime.time(1, 2), None]
    """
    if is_string(column.type):
        column = readable_texts(column, kind)
    context = inner_context()
    context.register_record_batches("source", [[pa.RecordBatch.from_arrays([column], ["value"])]])
    try:
        batches = context.table("source").select(col("value").cast(kind)).collect()
    except Exception as exc:
        raise SqlError(plain_message(exc)) from exc
    return pa.chunked_array([batch.column(0) for batch in batches], kind).combine_chunks()


def result_type(expression: str, sources: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of an expression over columns of these types."""
    return _compute(expression, [pa.nulls(0, source) for source in sources]).type


def check_expression(expression: str, sources: Sequence[pa.DataType], declared: pa.DataType) -> None:
    """Refuse an expression that breaks one of the spec's six requirements; `SpecError` names every breach."""
    problems = list(_expression_problems(expression, sources, declared))
    if problems:
        raise SpecError(f"expression {shown_text(expression)}", problems)


def unsteady(expression: str) -> Iterator[str]:
    """Yield the reasons why an expression does not give one deterministic value for each row."""
    tokens = [token for token in Cursor.over(expression).tokens if token.kind not in STRINGS]
    changing = next(calls_of(expression, mutable_functions()), None)
    if changing is not None:
        yield f"{changing.lower()!r} is not deterministic and stateless; the same input must always give the same value"
    if {token.word for token in tokens} & {"SELECT", "OVER"}:
        yield "a subquery or window may not stand in it"


@lru_cache(_KEPT_EXPRESSIONS)
def _unsteady(expression: str) -> tuple[str, ...]:
    return tuple(unsteady(expression))


def _expression_problems(expression: str, sources: Sequence[pa.DataType], declared: pa.DataType) -> Iterator[str]:
    words = {token.text.lower() for token in Cursor.over(expression).tokens if token.kind not in STRINGS}
    for name in sorted(word for word in words if _COLUMN.fullmatch(word)):
        if int(name[3:]) >= len(sources):
            yield f"{name} is beyond its source columns (there are {len(sources)})"
    problems = list(unsteady(expression))
    yield from problems
    if problems:
        return
    try:
        nulls = _compute(expression, [pa.nulls(_NULL_ROWS, source) for source in sources])
    except SqlError as exc:
        yield f"it fails on NULL: {exc}"
        return
    if len(nulls) != _NULL_ROWS:
        yield "an aggregate may not stand in it"
    elif nulls.type != declared:
        yield f"it gives {nulls.type}, result_type is {declared}"
    elif hash_class(declared) is None:
        yield f"it gives {declared}; expected a number, text, binary, boolean, date or time"
    yield from _promotion_problems(expression, sources)


def _promotion_problems(expression: str, sources: Sequence[pa.DataType]) -> Iterator[str]:
    """Yield the violations of requirement 3: the same numbers in a wider type must give the same values."""
    for place, source in enumerate(sources):
        wider = _WIDER.get(source)
        if wider is None:
            continue
        narrow = [pa.nulls(len(_PROBES), kind) for kind in sources]
        probes = [abs(v) if v is not None and "uint" in str(source) else v for v in _PROBES]
        narrow[place] = pa.array(probes, source)
        wide = [column.cast(wider) if i == place else column for i, column in enumerate(narrow)]
        try:
            before, after = _compute(expression, narrow), _compute(expression, wide)
            agree = before.cast(after.type).equals(after)
        except (SqlError, pa.ArrowInvalid):
            agree = False
        if not agree:
            yield f"it gives other values for equal numbers of {source} and {wider}"


_WIDER = {
    pa.int8(): pa.int64(),
    pa.int16(): pa.int64(),
    pa.int32(): pa.int64(),
    pa.uint8(): pa.int64(),
    pa.uint16(): pa.int64(),
    pa.uint32(): pa.int64(),
    pa.float32(): pa.float64(),
}


def _compute(expression: str, columns: Sequence[pa.Array]) -> pa.Array:
    """Evaluate an expression in the words of DataFusion; a column of type null is NULL in whatever type the expression expects there."""
    over = partial(_compute_over, expression, has_macros=False)
    if not any(pa.types.is_null(column.type) for column in columns):
        return over(_number_columns(columns))
    try:
        return over(_number_columns(columns))
    except SqlError:
        # DataFusion's functions of time do not take a NULL without a type.
        moments = pa.timestamp("us")
        typed = [c.cast(moments) if pa.types.is_null(c.type) else c for c in columns]
        return over(_number_columns(typed))


def _number_columns(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, [f"col{place}" for place in range(len(columns))])


def _compute_over(expression: str, columns: pa.RecordBatch, *, has_macros: bool = True) -> pa.Array:
    # The lines of their own keep a comment, and an expression that is more than one, from changing the query around it.
    query = f"SELECT (\n{expression}\n) AS {COMPUTED} FROM source"  # noqa: S608 - parsed, read-only
    try:
        frame = _plan_over(query, columns, expression, has_macros=has_macros)
        kind = frame.schema().field(COMPUTED).type
        batches = [batch.to_pyarrow() if hasattr(batch, "to_pyarrow") else batch for batch in frame.collect()]
    except Exception as exc:
        raise SqlError(f"expression {shown_text(expression)} cannot be computed: {plain_message(exc)}") from exc
    return pa.chunked_array([batch.column(0) for batch in batches], kind).combine_chunks()


def _plan_over(query: str, source: pa.RecordBatch, expression: str, *, has_macros: bool = True) -> DataFrame:
    """Plan a query over one batch, called `source`; positions in errors are those of the expression in it."""
    context = inner_context()
    context.register_record_batches("source", [[source]])
    with translate_positions(expression, query):
        calls = TypedCalls.of(for_datafusion(query, has_macros=has_macros))

    def plan(sql: str) -> DataFrame:
        frame = context.sql_with_options(sql, QUERIES_ONLY)
        if calls.calls:
            # Some calls are checked against their signatures only now.
            frame.execution_plan()
        return frame

    try:
        return calls.plan(context, plan)
    except Exception as exc:
        raise SqlError(with_sent_position(plain_message(exc), calls.sql, expression)) from exc
