"""Parameters of a statement: their number and their values."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa

from lance_flight.engine.sql.bounds import check_type_text, names_types
from lance_flight.engine.sql.references import text_literal
from lance_flight.engine.sql.rewriting import MOST_PARAMETERS, numbered
from lance_flight.engine.sql.search_conditions import parameters_in
from lance_flight.engine.sql.tokens import Kind, Token, edited, parameter_names, tokens_of
from lance_flight.errors import InvalidInput, LimitExceeded

_LONGEST_LISTED = 64
"""Most characters of a text that is written into a statement, whose literals count as what its calls may multiply (`growth`)."""


def check_parameters(sql: str, parameters: pa.RecordBatch | None, *, is_query: bool) -> None:
    """Refuse rows without exactly one value for each parameter, and no row of them for a query."""
    expected, got = parameter_count(sql), 0 if parameters is None else parameters.num_columns
    if got != expected:
        raise InvalidInput(f"the statement has {expected} parameters, and {got} values were given for them")
    if is_query and parameters is not None and parameters.num_rows == 0:
        raise InvalidInput("a query takes a row of parameters, or several, got none")


def parameter_count(sql: str) -> int:
    """Return the number of values that a statement takes: the number of `?`, or the highest `$n`."""
    if "?" not in sql and "$" not in sql:
        return 0
    written = _numbers_in(sql)
    count = max(written.count(""), *(int(number) for number in written if number.isdecimal()), 0)
    if count > MOST_PARAMETERS:
        raise LimitExceeded(f"the statement has {count} parameters; expected at most {MOST_PARAMETERS}")
    return count


def _numbers_in(sql: str) -> list[str]:
    """Return the numbers of the parameters as they are written; an empty one for `?`."""
    return [name[1:] for token, _ in parameters_in(sql) for name in parameter_names(token)]


def row_of_parameters(query: str) -> list[int] | None:
    """Return the places of the parameters that are the one row of a VALUES list; None for any other query.

    >>> row_of_parameters("VALUES (?, ?)"), row_of_parameters("VALUES ($2, $1)"), row_of_parameters("VALUES (?, 1)")
    ([0, 1], [1, 0], None)
    """
    if "(" not in query or query.lstrip()[:6].upper() != "VALUES":
        return None
    _, *tokens = islice(tokens_of(query), 2 * MOST_PARAMETERS + 4)
    if tokens and tokens[-1].is_sign(";"):
        del tokens[-1]
    signs = ["(", *[","] * (len(tokens) // 2 - 1), ")"]
    if len(tokens) != 2 * len(signs) - 1 or not all(map(Token.is_sign, tokens[::2], signs)):
        return None
    if any(token.kind is not Kind.PARAMETER for token in tokens[1::2]):
        return None
    return [int(token.text[1:] or place) - 1 for place, token in enumerate(tokens[1::2], start=1)]


def with_listed_values(sql: str, parameters: pa.RecordBatch) -> str:
    """Return a statement with the values of its long IN lists of parameters in their places, if all of a list are whole numbers or short texts.

    DataFusion plans such a list in a third of the time.

    >>> with_listed_values("SELECT 1 IN (?, ?)", pa.record_batch({"1": [1], "2": [2]}))
    'SELECT 1 IN (?, ?)'
    """
    if not any(token.kind is Kind.PARAMETERS for token in tokens_of(sql)):
        return sql
    sql = numbered(sql)
    columns = {f"${place}": column for place, column in enumerate(parameters.columns, start=1)}
    edits = []
    for token in tokens_of(sql):
        if token.kind is Kind.PARAMETERS:
            listed = _as_literals([columns.get(name) for name in parameter_names(token)])
            edits += [] if listed is None else [(token.start, token.stop, ", ".join(listed))]
    return edited(sql, edits)


def _as_literals(values: list[pa.Array | None]) -> list[str] | None:
    """Return single values as literals of SQL; None if one is not there, or they are not of one type that is written so."""
    given = [each for each in values if each is not None]
    kinds = {each.type for each in given}
    if len(given) < len(values) or len(kinds) > 1:
        return None
    (kind,) = kinds
    if pa.types.is_integer(kind):
        # What is beyond 64 bits with a sign is of another type as a literal.
        numbers = pa.concat_arrays(given).to_pylist()
        return None if None in numbers or max(numbers) >= 1 << 63 else [str(number) for number in numbers]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = pa.concat_arrays(given).to_pylist()
        is_short = all(text is not None and len(text) <= _LONGEST_LISTED for text in texts)
        return [text_literal(text) for text in texts] if is_short else None
    return None


def bound_values(sql: str, parameters: pa.RecordBatch | None) -> dict[str, pa.Scalar] | None:
    """Return one row of parameters in DataFusion's form, by the numbers of their places; None if the statement has none."""
    if parameters is None or parameter_count(sql) == 0:
        return None
    named = set(_numbers_in(sql))
    values = ((str(place), column) for place, column in enumerate(parameters.columns, start=1))
    bound = {number: _value(column) for number, column in values if number in named}
    if names_types(sql):
        for value in bound.values():
            check_type_text(str(value))
    return bound


def _value(column: pa.Array) -> pa.Scalar:
    # DataFusion asks a list for its length before it asks whether there is one.
    is_list = pa.types.is_nested(column.type) and not pa.types.is_struct(column.type)
    return pa.scalar(None) if is_list and not column[0].is_valid else column[0]
