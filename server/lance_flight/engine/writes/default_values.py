"""DEFAULT in the place of a value, in VALUES and in what a column is set to: it becomes the SQL of the column's default."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from lance_flight.engine.sql.named_queries import WITH, place_of_query
from lance_flight.engine.sql.references import text_literal
from lance_flight.engine.sql.tokens import Edit, Kind, Token, edit_text, tokenize
from lance_flight.model.arrow_types import is_string
from lance_flight.model.schema import MOMENTS, NamespaceSchema
from lance_flight.model.type_names import type_name

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
    return f"CAST({text} AS {type_name(kind)})"


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
