"""Clauses that INSERT, UPDATE, DELETE and MERGE have in common: WITH before them, DEFAULT in the place of a value, and RETURNING.

The queries of a WITH are read by those of the statement. DEFAULT becomes the SQL of the column's default, in VALUES and in what
a column is set to. RETURNING has the rows that were written or removed, computed before the commit and kept as its report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import LogicalPlan

from lance_flight.catalog.tables import rows
from lance_flight.engine.query.planned_query import PlannedQuery
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.sql.references import Cursor, quote_parts, text_literal
from lance_flight.engine.sql.tokens import Edit, Kind, Token, edit_text, tokenize
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.errors import LimitExceeded, Unsupported
from lance_flight.model.arrow_types import is_string
from lance_flight.model.schema import MOMENTS, NamespaceSchema
from lance_flight.model.type_names import cast_name

DEFAULT = "DEFAULT"
DEFAULT_ROW = "DEFAULT VALUES"
"""Rows of an INSERT that names no value."""
MIXED_TYPES = "Inconsistent data type across values list"
"""Words of DataFusion's error about a text and a value of another type in one column of VALUES."""
_IN_A_ROW = re.compile(r"[(,]\s*+DEFAULT\s*+[,)]", re.IGNORECASE)


def value_of_default(schema: NamespaceSchema, name: str) -> str:
    """Return what DEFAULT stands for in a column, as SQL: NULL where it has no default."""
    return default_text(schema, name) or "NULL"


def default_text(schema: NamespaceSchema, name: str) -> str | None:
    """Return the default of a column as SQL; None where it has none.

    A text stands for a value of a type that has no literal: it is read as the column's type when it is assigned.
    """
    text = schema.shown_defaults.get(name)
    if text is None:
        return None
    kind = schema.arrow.field(name).type
    is_plain = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or text.lower() in MOMENTS
    return text if is_plain else text_literal(text)


def with_defaults(query: str, columns: Sequence[str] | None, described: Callable[[], NamespaceSchema]) -> str:
    """Return the query of an INSERT into some columns, None for all, with values in the place of DEFAULT, and of DEFAULT VALUES.

    `described` gives the schema of the table.
    """
    is_row = query == DEFAULT_ROW
    if not is_row and _IN_A_ROW.search(query) is None:
        return query
    schema = described()
    names = columns or schema.plain.names
    if is_row:
        return f"VALUES ({', '.join(value_of_default(schema, name) for name in names)})"
    return edit_text(query, _edits(query, schema, names))


def _edits(query: str, schema: NamespaceSchema, names: Sequence[str]) -> Iterator[Edit]:
    """Yield what each DEFAULT becomes that is the whole value of a row."""
    for place, token in _single_tokens(query):
        if token.word == DEFAULT and place < len(names):
            text = value_of_default(schema, names[place])
            kind = schema.plain.field(names[place]).type
            yield token.start, token.stop, _typed(text, kind) if text.startswith("'") else text


def with_typed_texts(query: str, kinds: Sequence[pa.DataType]) -> str:
    """Return VALUES with each text cast to the type of its column: DataFusion takes no text and a date for one column.

    >>> with_typed_texts("VALUES ('2024-01-01'), (current_date)", [pa.date32()])
    "VALUES (CAST('2024-01-01' AS DATE)), (current_date)"
    """
    return edit_text(
        query,
        (
            (token.start, token.stop, _typed(query[token.start : token.stop], kinds[place]))
            for place, token in _single_tokens(query)
            if token.kind is Kind.STRING and place < len(kinds) and not is_string(kinds[place])
        ),
    )


def _typed(text: str, kind: pa.DataType) -> str:
    return f"CAST({text} AS {cast_name(kind)})"


def _single_tokens(query: str) -> Iterator[tuple[int, Token]]:
    """Yield each value of one token in the rows of VALUES, also behind a WITH, with its place in the row; none of another query."""
    tokens = tokenize(query)
    begun = 0 if tokens[0].word != WITH else place_of_query(tokens) or 0
    if tokens[begun].word != "VALUES":
        return
    depth = place = 0
    for before, token, behind in zip(tokens[begun:], tokens[begun + 1 :], tokens[begun + 2 :], strict=False):
        if token.kind is Kind.SIGN:
            depth += (token.text in "([{") - (token.text in ")]}")
            place = 0 if depth == 0 else place + (token.text == "," and depth == 1)
        elif depth == 1 and before.text in ("(", ",") and behind.text in (",", ")"):
            yield place, token


WITH = "WITH"
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_QUERIES = frozenset({"SELECT", "VALUES", "FROM", "TABLE", "PIVOT", "UNPIVOT"})


def place_of_change(tokens: Sequence[Token]) -> int | None:
    """Return the place of the word that begins a change of rows behind `WITH name AS (query), …`; None for a query.

    >>> place_of_change(tokenize("WITH x AS (SELECT 1) DELETE FROM t"))
    7
    """
    place = place_of_query(tokens)
    return place if place is not None and tokens[place].word in _CHANGES else None


def place_of_query(tokens: Sequence[Token]) -> int | None:
    """Return the place of the word that begins a query, or a change of rows, behind `WITH name AS (query), …`; None without one."""
    depth = 0
    for place, (before, token) in enumerate(pairwise(tokens), 1):
        depth += before.is_sign("(") - before.is_sign(")")
        if depth == 0 and before.is_sign(")") and token.word in _CHANGES | _QUERIES:
            return place
    return None


def with_queries(queries: str, sql: str) -> str:
    """Put `WITH name AS (query), …` before a query, which may have such queries of its own; no text for none.

    >>> with_queries("WITH x AS (SELECT 1)", "WITH y AS (SELECT 2) SELECT * FROM x, y")
    'WITH x AS (SELECT 1), y AS (SELECT 2) SELECT * FROM x, y'
    """
    if not queries:
        return sql
    if tokenize(sql)[0].word != WITH:
        return f"{queries}\n{sql}"
    (is_recursive, outer), (is_also, inner) = map(_without_word, (queries, sql))
    return f"{WITH} {'RECURSIVE ' * (is_recursive or is_also)}{outer}, {inner}"


def _without_word(text: str) -> tuple[bool, str]:
    """Return whether the queries of a WITH are RECURSIVE, and the text behind these words."""
    tokens = tokenize(text)
    is_recursive = tokens[1].word == "RECURSIVE"
    return is_recursive, text[tokens[1 + is_recursive].start :]


RETURNING = "RETURNING"
MOST_BYTES = 16 << 20
"""Bytes of the rows that a statement may return: they are held until its client has read them."""
_INSTEAD = "write BEGIN, the change, a SELECT of the rows, and COMMIT"
_CLAUSES = ("WHERE", "GROUP", "ORDER", "LIMIT", "UNION", "INTO")
"""Words at which the items end, so that an error names them."""
_OF_ONE_ROW = frozenset({"Projection", "SubqueryAlias", "TableScan"})
"""Nodes of plans that compute every row from one row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returning:
    """`RETURNING items`, expressions over the columns of the target, which `alias` names in them."""

    items: str
    alias: str

    def schema(self, session: QuerySession, columns: pa.Schema) -> pa.Schema:
        """Return the columns of the answer, from a table with these `columns`."""
        return self._plan(session, columns.empty_table()).schema

    def compute(self, session: QuerySession, returned: ReturnedRows) -> pa.Table:
        """Return the answer from the rows that were written or removed."""
        planned = self._plan(session, returned.table)
        return pa.Table.from_batches(planned.batches(), planned.schema)

    def _plan(self, session: QuerySession, table: pa.Table) -> PlannedQuery:
        source = quote_parts(*session.name_rows(pads.dataset(table)))
        sql = f"SELECT {self.items} FROM {source} AS {quote_parts(self.alias)}"  # noqa: S608 - the client's own text
        planned = PlannedQuery.of(session, sql)
        plan = planned.frame.logical_plan()
        if not _is_of_one_row(plan) or "Subquery:" in plan.display_indent():
            raise Unsupported(
                f"RETURNING takes expressions over the columns of one row of {self.alias!r}; for anything else {_INSTEAD}"
            )
        return planned


def read_returning(cursor: Cursor, alias: str) -> Returning | None:
    """Read `[RETURNING items]`, which ends the statement."""
    if not cursor.accept(RETURNING):
        cursor.end()
        return None
    items = cursor.until(*_CLAUSES)
    if not items:
        raise cursor.error("columns or expressions after RETURNING")
    cursor.end()
    if parameter_count(items):
        raise Unsupported("RETURNING takes no parameters; write the value, or CAST it in the program")
    return Returning(items=items, alias=alias)


class ReturnedRows:
    """Rows that a statement wrote or removed, as the table stores them; `LimitExceeded` where they are too many to return."""

    def __init__(self, columns: pa.Schema, defaults: Mapping[str, pa.Scalar]) -> None:
        self._columns, self._defaults = columns, defaults
        self._parts: list[pa.Table] = []
        self._size = 0

    @property
    def table(self) -> pa.Table:
        """Return all rows."""
        return pa.concat_tables([self._columns.empty_table(), *self._parts])

    def add(self, part: pa.Table) -> pa.Table:
        """Keep some rows, whose missing columns have their defaults, and return them so."""
        part = rows.conform(part, self._columns, self._defaults)
        self._size += part.nbytes
        if self._size > MOST_BYTES:
            raise LimitExceeded(
                f"RETURNING gives at most {MOST_BYTES >> 20} MiB of rows, and the statement writes more; nothing was changed: {_INSTEAD}"
            )
        self._parts.append(part)
        return part

    def collect(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Keep rows on their way, and give those that go on the same defaults: of a moment there is another one at each look."""
        for part in parts:
            kept = self.add(part)
            given = dict(zip(part.column_names, part.columns, strict=True))
            missing = {name: kept[name] for name in kept.column_names if name not in given}
            yield pa.table({**given, **missing}) if missing else part


def _is_of_one_row(plan: LogicalPlan) -> bool:
    return type(plan.to_variant()).__name__ in _OF_ONE_ROW and all(map(_is_of_one_row, plan.inputs()))
