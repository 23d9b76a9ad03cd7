"""Parameters of a statement: their number, types and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, islice, permutations

import pyarrow as pa

from lance_flight.engine.sql.bounds import check_type_text, names_types
from lance_flight.engine.sql.references import text_literal
from lance_flight.engine.sql.select_lists import items
from lance_flight.engine.sql.tokens import Kind, Token, edit_text, fold_name, parameter_names, tokenize, tokens_of
from lance_flight.engine.translation.rewriting import MOST_PARAMETERS, number_parameters, parameters_in
from lance_flight.errors import InvalidInput, LimitExceeded
from lance_flight.model.type_names import cast_name

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
    sql = number_parameters(sql)
    columns = {f"${place}": column for place, column in enumerate(parameters.columns, start=1)}
    edits = []
    for token in tokens_of(sql):
        if token.kind is Kind.PARAMETERS:
            listed = _as_literals([columns.get(name) for name in parameter_names(token)])
            edits += [] if listed is None else [(token.start, token.stop, ", ".join(listed))]
    return edit_text(sql, edits)


def _as_literals(values: list[pa.Array | None]) -> list[str] | None:
    """Return single values as literals of SQL; None if one is not there, or they are not of one type that is written so."""
    given = [value for value in values if value is not None]
    kinds = {value.type for value in given}
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


SPANS = tuple(chain.from_iterable(combinations(range(3), count) for count in (1, 2, 3)))
"""Which of the first parameters beside operators may be spans of time, in the order in which they are tried."""
TERM_TYPES = ("TIMESTAMP(6)", "BIGINT", "VARCHAR")
"""Types that all of them may have, if none is a span."""
_HAS_OTHER_TYPES = ("is not computed", "that are not compared")


def with_typed_terms(text: str, refusal: str, kind: str, among: Sequence[int] | None = None) -> str | None:
    """Return a query with the parameters beside `+`, `-` and `||`, or some `among` them, cast to a type; None if it was refused for something else.

    DataFusion takes the type of the other side for theirs, so that a span of time is none.

    >>> with_typed_terms("SELECT ts + $1 FROM t WHERE a = $2", "TIMESTAMP + TIMESTAMP is not computed", "INTERVAL")
    'SELECT ts + CAST($1 AS INTERVAL) FROM t WHERE a = $2'
    """
    text, terms = _terms(text, refusal)
    if len(terms) <= max(among or (), default=-1):
        return None
    return _with_casts(text, [(term, kind) for term in (terms if among is None else [terms[place] for place in among])])


def with_bound_terms(text: str, refusal: str, parameters: pa.RecordBatch | None) -> str | None:
    """Return a query with such parameters cast to the types of their values."""
    if parameters is None:
        return None
    text, terms = _terms(text, refusal)
    named = {f"${place}": _span_or_type(column.type) for place, column in enumerate(parameters.columns, start=1)}
    return _with_casts(text, [(term, named[term.text]) for term in terms if term.text in named])


def _terms(text: str, refusal: str) -> tuple[str, list[Token]]:
    """Return a text with numbered parameters, and those of them beside operators; none where the refusal is about something else."""
    if not any(words in refusal for words in _HAS_OTHER_TYPES):
        return text, []
    text = number_parameters(text)
    tokens = tokenize(text)
    around = zip(tokens, [tokens[0], *tokens], [*tokens[1:], tokens[-1]], strict=False)
    return text, [
        token
        for token, *sides in around
        if token.kind is Kind.PARAMETER and any(side.kind is Kind.SIGN and side.text in "+-|" for side in sides)
    ]


def _with_casts(text: str, typed: Sequence[tuple[Token, str]]) -> str | None:
    edits = [(token.start, token.stop, f"CAST({token.text} AS {kind})") for token, kind in typed]
    return edit_text(text, edits) if edits else None


def _span_or_type(kind: pa.DataType) -> str:
    return "INTERVAL" if pa.types.is_duration(kind) or pa.types.is_interval(kind) else cast_name(kind)


_OPENING, _CLOSING = {"(", "[", "{"}, {")", "]", "}"}
_NAMES = frozenset({Kind.WORD, Kind.NAME})
_SAME_TYPED = frozenset({"COALESCE", "NVL", "IFNULL", "GREATEST", "LEAST", "NULLIF"})
"""Functions whose result has the type of their arguments."""


def result_types(expression: str, kind: pa.DataType) -> dict[str, pa.DataType]:
    """Return the parameters that an expression gives as its value, by `$n`, each with the type that takes the value.

    >>> result_types("CASE WHEN a = $1 THEN $2 ELSE -coalesce(b, $3) END", pa.int32())
    {'$2': DataType(int32), '$3': DataType(int32)}
    """
    return dict.fromkeys(_results(tokenize(expression)), kind)


def column_types(query: str, kinds: Sequence[pa.DataType | None]) -> dict[str, pa.DataType]:
    """Return the parameters that are columns of the rows of a query, each with the type that takes that column (None: unknown).

    >>> column_types("VALUES ($1, 'a'), ($2, upper($3))", [pa.int64(), pa.utf8()])
    {'$1': DataType(int64), '$2': DataType(int64)}
    >>> column_types("SELECT a, $1 AS b FROM t WHERE c = $2", [None, pa.date32()])
    {'$1': DataType(date32[day])}
    """
    types = {}
    for row in _rows(_strip_brackets(tokenize(query))):
        for item, kind in zip(row, kinds, strict=False):
            if item and item[-1].is_sign("*"):
                break  # the columns from here on have other places
            types.update({} if kind is None else dict.fromkeys(_results(_without_alias(item)), kind))
    return types


def equal_columns(condition: str) -> Iterator[tuple[str, str]]:
    """Yield the names of the columns on the two sides of each equality of a condition, in both orders.

    >>> list(equal_columns("t.id = s.k AND t.n > 1"))
    [('id', 'k'), ('k', 'id')]
    """
    tokens = tokenize(condition)
    for place in (place for place, token in enumerate(tokens[1:-1], 1) if token.is_sign("=")):
        qualifier, *rest = tokens[place + 1 : place + 4]
        other = rest[1] if len(rest) > 1 and rest[0].is_sign(".") else qualifier
        if {tokens[place - 1].kind, other.kind} <= _NAMES:
            yield from permutations((fold_name(tokens[place - 1]), fold_name(other)))


def column_name(expression: str) -> str | None:
    """Return the name of the column that an expression is, without its qualifier; None for any other expression."""
    match tokenize(expression):
        case [column] | [_, Token(text="."), column] if column.kind in _NAMES:
            return fold_name(column)
    return None


def _rows(tokens: Sequence[Token]) -> Iterator[Sequence[Sequence[Token]]]:
    """Yield the items of each row of a VALUES list, and of each select list that is not within brackets."""
    depth = 0
    for place, token in enumerate(tokens):
        if token.kind is not Kind.SIGN:
            if depth == 0 and token.word == "SELECT":
                yield list(items(tokens, place + 1))
            continue
        if (
            token.text == "("
            and depth == 0
            and place
            and (tokens[place - 1].word == "VALUES" or _follows_row(tokens, place))
        ):
            yield list(items(tokens, place + 1))
        depth += (token.text in _OPENING) - (token.text in _CLOSING)


def _follows_row(tokens: Sequence[Token], place: int) -> bool:
    """Return whether the bracket at a place begins a further row of a statement that is a VALUES list."""
    return tokens[0].word == "VALUES" and tokens[place - 1].is_sign(",")


def _results(tokens: Sequence[Token]) -> Iterator[str]:
    tokens = _strip_brackets(tokens)
    while tokens and (tokens[0].is_sign("-") or tokens[0].is_sign("+")):
        tokens = _strip_brackets(tokens[1:])
    if not tokens:
        return
    first, last = tokens[0], tokens[-1]
    if len(tokens) == 1 and first.kind is Kind.PARAMETER:
        yield first.text
    elif first.word == "CASE" and last.word == "END":
        for branch in _branches(tokens[1:-1]):
            yield from _results(branch)
    elif first.word in _SAME_TYPED and _is_wrapped(tokens[1:]):
        for argument in items(tokens, 2):
            yield from _results(argument)


def _branches(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the results of the branches of a CASE, whose inside the tokens are."""
    depth, start = 0, None
    for place, token in enumerate(tokens):
        depth += (token.word == "CASE" or (token.kind is Kind.SIGN and token.text in _OPENING)) - (
            token.word == "END" or (token.kind is Kind.SIGN and token.text in _CLOSING)
        )
        if depth == 0 and token.word in {"WHEN", "THEN", "ELSE"}:
            if start is not None:
                yield tokens[start:place]
            start = None if token.word == "WHEN" else place + 1
    if start is not None:
        yield tokens[start:]


def _without_alias(item: Sequence[Token]) -> Sequence[Token]:
    if len(item) > 2 and item[-2].word == "AS":  # noqa: PLR2004 - an expression, AS, and the alias
        return item[:-2]
    is_name = len(item) > 1 and item[-1].kind in _NAMES and item[-1].word != "END"
    is_after_value = is_name and (item[-2].kind is Kind.PARAMETER or item[-2].is_sign(")") or item[-2].word == "END")
    return item[:-1] if is_after_value else item


def _strip_brackets(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens without the brackets around all of them."""
    while tokens and _is_wrapped(tokens):
        tokens = tokens[1:-1]
    return tokens


def _is_wrapped(tokens: Sequence[Token]) -> bool:
    """Return whether the first token is a bracket that the last one closes."""
    if not (tokens and tokens[0].is_sign("(") and tokens[-1].is_sign(")")):
        return False
    depth = 0
    for place, token in enumerate(tokens):
        depth += token.is_sign("(") - token.is_sign(")")
        if depth == 0:
            return place == len(tokens) - 1
    return False
