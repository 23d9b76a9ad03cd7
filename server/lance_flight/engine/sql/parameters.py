"""Parameters of a statement: their number and their values."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa

from lance_flight.engine.sql.rewriting import MOST_PARAMETERS
from lance_flight.engine.sql.search_conditions import parameters_in
from lance_flight.engine.sql.tokens import Kind, Token, tokens_of
from lance_flight.errors import InvalidInput, LimitExceeded


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
    written = [token.text[1:] for token, _ in parameters_in(sql)]
    count = max(written.count(""), *(int(number) for number in written if number.isdecimal()), 0)
    if count > MOST_PARAMETERS:
        raise LimitExceeded(f"the statement has {count} parameters; expected at most {MOST_PARAMETERS}")
    return count


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


def bound_values(parameters: pa.RecordBatch | None) -> dict[str, pa.Scalar] | None:
    """Return one row of parameters in DataFusion's form: by the numbers of their places."""
    if parameters is None:
        return None
    return {str(place + 1): _value(column) for place, column in enumerate(parameters.columns)}


def _value(column: pa.Array) -> pa.Scalar:
    # DataFusion asks a list for its length before it asks whether there is one.
    is_list = pa.types.is_nested(column.type) and not pa.types.is_struct(column.type)
    return pa.scalar(None) if is_list and not column[0].is_valid else column[0]
