"""Rewrites of queries for DataFusion: placeholders, type names, operators that it lacks, and clauses that it would drop.

An error of DataFusion gets the position in the text that the client sent (`with_sent_position`).
Queries reach DataFusion as the client wrote them but for these. Conditions of searches are texts in SQL, whose placeholders are ones
of the statement.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise

from lance_flight.engine.compat.boolean_chains import chain_edits
from lance_flight.engine.compat.casts import (
    cast_edits,
    decimal_edits,
    pattern_edits,
    text_length_edits,
    whole_number_edits,
)
from lance_flight.engine.compat.checked_arithmetic import concatenation_edits, interval_edits
from lance_flight.engine.compat.memberships import (
    check_negated_exists,
    membership_edits,
    neighbouring_list_edits,
    row_value_edits,
    selected_edits,
)
from lance_flight.engine.compat.sort_keys import distinct_order_edits, sort_key_edits
from lance_flight.engine.compat.subqueries import first_value_edits
from lance_flight.engine.dialects.clauses import clause_edits
from lance_flight.engine.dialects.pivots import unnest_edits
from lance_flight.engine.dialects.query_names import named_window_edits, wildcard_edits
from lance_flight.engine.dialects.spellings import spelling_edits
from lance_flight.engine.functions.date_patterns import date_pattern_edits
from lance_flight.engine.functions.json_functions import json_edits
from lance_flight.engine.functions.routines import MACROS
from lance_flight.engine.functions.vector_functions import operator_edits
from lance_flight.engine.sql.bounds import Growth, check_bounds, check_expansion, growth_of, is_costly, is_long_by_lists
from lance_flight.engine.sql.comparisons import comparison_edits
from lance_flight.engine.sql.references import text_literal
from lance_flight.engine.sql.select_lists import name_edits
from lance_flight.engine.sql.tokens import (
    PARAMETERS,
    STRINGS,
    Edit,
    Kind,
    Token,
    TokenPlaces,
    edit_text,
    line_and_column,
    parameters,
    place_in,
    tokenize,
    tokens_of,
)
from lance_flight.engine.translation.typed_calls import NUMBERED, TypedCalls
from lance_flight.errors import LimitExceeded, SqlError, Unsupported
from lance_flight.model.schema import MOST_DEPTH

MOST_PARAMETERS = 65_535
"""Most values of one row of parameters: each is a column of a record batch."""
_DOUBLED = {"*": "power(a, b)", "/": "a / b, which drops the fraction of whole numbers, or floor(a / b)"}
_MOMENTS = {"TIMESTAMP", "TIMESTAMPTZ", "DATETIME"}
_ZONE = ("WITH", "TIME", "ZONE")
_KEYWORD_FUNCTIONS = {"CURRENT_USER", "SESSION_USER", "CURRENT_CATALOG"}
_BINARY = {"VARBINARY", "BINARY", "BLOB", "BYTES"}
_OF_OTHERS = {
    "LONG": "BIGINT",
    "NUMBER": "DECIMAL",
    "TIMESTAMP_NTZ": "TIMESTAMP(6)",
    "TIMESTAMP_LTZ": "TIMESTAMPTZ(6)",
    "UTINYINT": "TINYINT UNSIGNED",
    "USMALLINT": "SMALLINT UNSIGNED",
    "UINTEGER": "INTEGER UNSIGNED",
    "UBIGINT": "BIGINT UNSIGNED",
    "HUGEINT": "DECIMAL(38, 0)",
}
"""Types of Snowflake, Spark and DuckDB."""


def for_datafusion(text: str, *, has_macros: bool = True) -> str:
    """Rewrite `text` for DataFusion: `?` numbered, its own type names, no clause that it would drop (`Unsupported`).

    Without macros, functions are DataFusion's and those that are computed here, as in what is stored of partition fields.

    >>> for_datafusion("SELECT CAST(a AS TIMESTAMP), b::varbinary FROM t WHERE c = ?")
    'SELECT CAST(a AS TIMESTAMP(6)), b::BYTEA FROM t WHERE c = $1'
    """
    text = number_parameters(text)
    text = edit_text(text, decimal_edits(text))
    tokens = tokenize(text)
    check_operators(tokens)
    check_negated_exists(tokens)
    for stage in _WITH_MACROS if has_macros else _STAGES:
        edits = [edit for rewrite in stage for edit in rewrite(text, tokens)]
        if edits:
            text = edit_text(text, edits)
            tokens = tokenize(text)
    check_bounds(text, tokens)
    check_expansion(tokens)
    growth_of(text, tokens)  # refuses what grows too much
    places = {place for begin in _type_places(tokens) for place in types_within(tokens, begin)}
    edits = [edit for place in sorted(places) for edit in _type_edits(tokens, place)]
    return edit_text(text, edits + _keyword_call_edits(tokens) + text_length_edits(tokens))


def check_operators(tokens: Sequence[Token]) -> None:
    """Refuse `^`, a power in PostgreSQL and DuckDB, and exclusive or in DataFusion and MySQL, and operators that DataFusion drops."""
    for token, following in pairwise(tokens):
        if token.is_sign("^") and not following.text.startswith("@"):
            raise Unsupported(
                f"^ at character {token.start + 1} is a power in some systems and exclusive or in others;"
                " write power(a, b), or (a | b) - (a & b)"
            )
        instead = _DOUBLED.get(token.text) if token.kind is Kind.SIGN else None
        if instead is not None and following.text == token.text and following.start == token.stop:
            raise Unsupported(f"{token.text * 2} at character {token.start + 1} is not offered; write {instead}")


def check_brackets(text: str, tokens: Sequence[Token]) -> None:
    """Refuse a bracket that is not closed, or closes none: DataFusion would name words that are put behind it.

    >>> check_brackets("SELECT (1", tokenize("SELECT (1"))
    Traceback (most recent call last):
    lance_flight.errors.SqlError: '(' is not closed; expected a ')' behind it; at Line: 1, Column: 8
    """
    opened: list[Token] = []
    for token in tokens:
        if token.kind is Kind.SIGN and token.text in _CLOSED_BY:
            opened.append(token)
        elif token.kind is Kind.SIGN and token.text in _CLOSED_BY.values():
            if not opened:
                raise SqlError(f"{token.text!r} closes no bracket{place_in(text, token.start)}")
            if _CLOSED_BY[opened[-1].text] != token.text:
                break
            opened.pop()
    if opened:
        token = opened[-1]
        place = place_in(text, token.start)
        raise SqlError(f"{token.text!r} is not closed; expected a {_CLOSED_BY[token.text]!r} behind it{place}")


_CLOSED_BY = {"(": ")", "[": "]", "{": "}"}


def neighbouring_text_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    r"""Return the edits that join texts with a line break between them, as SQL does; `SqlError` for others, which DataFusion takes for names.

    >>> text = "SELECT 'a'\n'b'"
    >>> edit_text(text, neighbouring_text_edits(text, tokenize(text)))
    "SELECT 'ab'"
    """
    edits: list[Edit] = []
    for token, following in pairwise(tokens):
        if not {token.kind, following.kind} <= STRINGS:
            continue
        quotes = text[token.stop - 1] + text[following.start]
        if "\n" not in text[token.stop : following.start] or quotes != "''":
            place = place_in(text, following.start)
            raise SqlError(f'two texts stand side by side; write || between them, or AS "a" for a name{place}')
        edits.append((token.stop - 1, following.start + 1, ""))
    return edits


_STAGES: tuple[tuple[Callable[[str, list[Token]], Sequence[Edit]], ...], ...] = (
    (json_edits,),
    (operator_edits,),
    (
        clause_edits,
        lambda _, tokens: comparison_edits(tokens),
        lambda _, tokens: pattern_edits(tokens),
        lambda _, tokens: cast_edits(tokens),
        lambda _, tokens: date_pattern_edits(tokens),
        lambda _, tokens: neighbouring_list_edits(tokens),
    ),
    (wildcard_edits,),
    (lambda _, tokens: concatenation_edits(tokens),),
    (interval_edits,),
    (unnest_edits,),
    (row_value_edits,),
    (selected_edits,),
    (lambda _, tokens: membership_edits(tokens),),
    (lambda _, tokens: chain_edits(tokens),),
    (distinct_order_edits,),
    (lambda text, tokens: sort_key_edits(text, tokens, NUMBERED),),
    (lambda _, tokens: whole_number_edits(tokens),),
)
"""Rewrites in the order in which they are made; those of one stage see the same tokens, and touch different ones."""
_CLAUSES = 3
_WITH_MACROS = (
    (neighbouring_text_edits,),
    (named_window_edits,),
    (spelling_edits,),
    (first_value_edits,),
    (MACROS.edits,),
    *_STAGES[:_CLAUSES],
    (MACROS.edits,),
    *_STAGES[_CLAUSES:],
)
"""The same with words of other systems, and with macros: before all others, and once PIVOT is written in the words of its aggregates."""


def _keyword_call_edits(tokens: list[Token]) -> list[Edit]:
    """Quote the words that DataFusion's parser takes for functions without brackets, where brackets follow.

    CURRENT_SCHEMA, which it takes for a column, gets brackets where none follow.
    """
    quoted = [
        (token.start, token.stop, f'"{token.text.lower()}"')
        for token, following in pairwise(tokens)
        if token.word in _KEYWORD_FUNCTIONS and following.is_sign("(")
    ]
    places = TokenPlaces(tokens)
    called = [
        (token.stop, token.stop, "()")
        for at, token in enumerate(tokens)
        if token.word == "CURRENT_SCHEMA" and not (places.is_name(at) or places.is_sign(at + 1, "("))
    ]
    return quoted + called


def number_parameters(text: str) -> str:
    """Replace each `?` in `text` by the numbered parameter, so that parts of the text may be reordered.

    >>> number_parameters("UPDATE t SET a = ? WHERE b = ?")
    'UPDATE t SET a = $1 WHERE b = $2'
    """
    if "?" not in text:
        return text
    found = ((each, within) for token, within in parameters_in(text) for each in parameters(token) if each.text == "?")
    marks = list(islice(found, MOST_PARAMETERS + 1))
    if len(marks) > MOST_PARAMETERS:
        raise LimitExceeded(f"the statement has more than {MOST_PARAMETERS} parameters; expected fewer, or an ingest")
    edits: list[Edit] = []
    inner: dict[Token, list[Edit]] = {}
    for n, (mark, within) in enumerate(marks, 1):
        of = text if within is None else within.text
        (edits if within is None else inner.setdefault(within, [])).append(
            (mark.start, mark.stop, _apart(of, mark, f"${n}"))
        )
    edits += [
        (token.start, token.stop, text_literal(edit_text(token.text, changes))) for token, changes in inner.items()
    ]
    return edit_text(text, edits)


def _apart(text: str, token: Token, new: str) -> str:
    """Return `new` in place of a token, padded with spaces where it would join a word beside it."""
    before, after = text[token.start - 1 : token.start], text[token.stop : token.stop + 1]
    return " " * _is_of_word(before) + new + " " * _is_of_word(after)


def _is_of_word(sign: str) -> bool:
    return sign.isalnum() or (bool(sign) and sign in "_$@#")


def sql_type(text: str) -> str:
    """Rewrite a column type to a name that DataFusion accepts.

    >>> sql_type("timestamptz"), sql_type("VARBINARY(10)"), sql_type("BIGINT UNSIGNED")
    ('timestamptz(6)', 'BYTEA', 'BIGINT UNSIGNED')
    """
    tokens = tokenize(text)
    return edit_text(text, [edit for place in types_within(tokens, 0) for edit in _type_edits(tokens, place)])


def types_within(tokens: Sequence[Token], place: int, most: int = MOST_DEPTH) -> Iterator[int]:
    """Yield the place of a type, and those of the types inside its brackets, `most` deep; the names of fields are none.

    >>> [tokenize("STRUCT<date MAP(VARCHAR, INT)[]>")[place].text for place in types_within(tokenize("STRUCT<date MAP(VARCHAR, INT)[]>"), 0)]
    ['STRUCT', 'MAP', 'VARCHAR', 'INT']
    """
    if place >= len(tokens):
        return
    yield place
    if tokens[place].word not in _NESTING or not most:
        return
    close = closing(tokens, place + 1)
    has_names = tokens[place].word == "STRUCT"
    for item in items_within(tokens, place + 2, close):
        after_name = item + 1 if has_names else item
        begin = after_name + (has_names and after_name < close and tokens[after_name].is_sign(":"))
        if begin < close:
            yield from types_within(tokens, begin, most - 1)


_NESTING = frozenset({"STRUCT", "MAP", "ARRAY"})
"""Types that have others inside brackets, which are pointed or round."""
_DEPTH = {"<": 1, "(": 1, "[": 1, ">": -1, ")": -1, "]": -1, ">>": -2}


def closing(tokens: Sequence[Token], place: int) -> int:
    """Return the place of the sign that closes the bracket which opens at `place`; `place` where none opens, or it is not closed."""
    depth = 0
    for number in range(place, len(tokens)):
        depth += _DEPTH.get(tokens[number].text, 0) if tokens[number].kind is Kind.SIGN else 0
        if depth <= 0:
            return number
    return place


def items_within(tokens: Sequence[Token], start: int, stop: int) -> Iterator[int]:
    """Yield where each item of a list between brackets begins."""
    depth, is_first = 0, True
    for place in range(start, stop):
        if is_first:
            yield place
        depth += _DEPTH.get(tokens[place].text, 0) if tokens[place].kind is Kind.SIGN else 0
        is_first = depth == 0 and tokens[place].is_sign(",")


def _type_edits(tokens: list[Token], place: int) -> list[Edit]:
    """Return the edits of the type name at `place`: TIMESTAMP is microseconds, binary is BYTEA."""
    token, following = tokens[place], tokens[place + 1] if place + 1 < len(tokens) else None
    has_length = following is not None and following.is_sign("(")
    if token.word in _MOMENTS:
        name = "TIMESTAMP" if token.word == "DATETIME" else token.text
        new = name + "(6)" * (not has_length)
        return [(token.start, token.stop, new)] if new != token.text else []
    if token.word in _BINARY:
        closed = [token.stop for token in tokens[place + 2 : place + 4] if has_length and token.is_sign(")")]
        return [(token.start, closed[0] if closed else token.stop, "BYTEA")]
    if token.word == "STRUCT" and has_length:
        # As DuckDB has it; DataFusion reads the other brackets alone.
        close = tokens[closing(tokens, place + 1)]
        return [(following.start, following.stop, "<"), (close.start, close.stop, ">")] if following else []
    named = _OF_OTHERS.get(token.word)
    return [(token.start, token.stop, named)] if named and not (following and following.is_sign(":")) else []


def _type_places(tokens: list[Token]) -> Iterable[int]:
    """Yield the places of type names: after `::`, after AS inside CAST or TRY_CAST, and before a literal."""
    casts: list[bool] = []
    for place in range(1, len(tokens)):
        before = tokens[place - 1]
        if before.is_sign("("):
            casts.append(place > 1 and tokens[place - 2].word in {"CAST", "TRY_CAST"})
        elif before.is_sign(")") and casts:
            casts.pop()
        elif before.is_sign("::") or (before.word == "AS" and casts and casts[-1]):
            yield place
        elif tokens[place].kind is Kind.STRING and before.word in _MOMENTS:
            yield place - 1
        elif tokens[place].kind is Kind.STRING and before.word == "ZONE" and place > len(_ZONE):
            yield place - 1 - len(_ZONE)


LONGEST_KEPT = 16 << 10
MOST_KEPT = 512


@dataclass(frozen=True, slots=True)
class DataFusionText:
    """SQL text for DataFusion with its `calls` of typed functions, whether planning it may be costly, and whether queries are in it.

    One that is costly and `is_linear` is a single query that is costly by its lists of literals alone.
    """

    calls: TypedCalls
    is_costly: bool
    is_linear: bool
    is_nested: bool
    growth: Growth


def datafusion_text(sql: str, *, has_keys: bool = False) -> DataFusionText:
    """Rewrite a query for DataFusion, also one that `has_keys` which are calls; the results for short texts are cached."""
    return _remembered(sql, has_keys) if len(sql) <= LONGEST_KEPT else _rewrite(sql, has_keys)


def _rewrite(sql: str, has_keys: bool) -> DataFusionText:  # noqa: FBT001 - cached by both
    check_brackets(sql, tokenize(sql))
    text = for_datafusion(sql)
    tokens = tokenize(text)
    words = [token.word for token in tokens]
    is_nested = words.count("SELECT") > 1 or words.count("FROM") > 1 or "|>" in text
    is_linear = not is_nested and is_long_by_lists(text, tokens)
    growth = growth_of(text, tokens)
    return DataFusionText(
        TypedCalls.of(text, has_keys=has_keys, copies=growth.copies),
        is_costly(text, tokens),
        is_linear,
        is_nested,
        growth,
    )


_remembered = lru_cache(MOST_KEPT)(_rewrite)


def with_column_names(sql: str) -> str:
    """Return a query with the names of its computed columns; an operator that is refused has its place in the text as it was sent."""
    tokens = tokenize(sql)
    check_operators(tokens)
    return edit_text(sql, name_edits(sql, tokens))


_ARGUMENT = ["FILTER", "=", ">"]
"""Tokens before the condition of a search."""


def parameters_in(sql: str) -> Iterator[tuple[Token, Token | None]]:
    """Yield the parameters of a statement and the long runs of them, in order, each with the string token that it stands in, if that is a search's condition.

    >>> [(found.text, within and within.text) for found, within in parameters_in("SELECT ? FROM f(filter => 'a = $2')")]
    [('?', None), ('$2', 'a = $2')]
    """
    if "=>" not in sql:
        yield from ((token, None) for token in tokens_of(sql) if token.kind in PARAMETERS)
        return
    before: deque[Token] = deque(maxlen=len(_ARGUMENT))
    for token in tokens_of(sql):
        if token.kind in PARAMETERS:
            yield token, None
        elif token.kind is Kind.STRING and [each.text.upper() for each in before] == _ARGUMENT:
            with suppress(SqlError):  # the condition says what is wrong with it
                yield from [(inner, token) for inner in tokens_of(token.text) if inner.kind in PARAMETERS]
        before.append(token)


_POSITION = re.compile(r"[; ]{0,9}\bat Line: (?P<line>\d+), Column: (?P<column>\d+)")
"""Matches a position as sqlparser writes it; positions in the sent text are written differently, so that they are not matched again."""
_REWRITTEN = frozenset({Kind.PARAMETER, Kind.LITERALS})
_MOST_ALIKE = 1_000
_MOST_NEIGHBOURS = 50


@contextmanager
def translate_positions(sent: str | None, planned: str) -> Iterator[None]:
    """Translate positions in the errors of the block from `planned` to `sent`, drop those that are not known, and tell of macros."""
    try:
        yield
    except (SqlError, Unsupported, LimitExceeded) as exc:
        message = str(exc)
        text = with_sent_position(message, planned, sent)
        text += "" if sent is None else MACROS.explain_missing(sent, message)
        text += "" if sent is None else _explain_quotes(sent, message)
        if text == message:
            raise
        raise type(exc)(text) from exc


def _explain_quotes(sent: str, message: str) -> str:
    r"""Say that a text has other quotes, where the column that is missing stands in double ones.

    >>> _explain_quotes('SELECT a = "x y" FROM t', 'No field named "x y".')
    "\nA text has single quotes: 'x y'."
    """
    missing = _MISSING.match(message)
    name = None if missing is None else missing["name"].replace('"', "")
    is_quoted = any(token.kind is Kind.NAME and token.text == name for token in _tokens_of(sent))
    return f"\nA text has single quotes: {text_literal(name)}." if name is not None and is_quoted else ""


_MISSING = re.compile(r"No field named (?P<name>\"[^\n]*?\"|\w+)\.(?!\w)")


def with_sent_position(message: str, planned: str, sent: str | None) -> str:
    """Translate the position in a message about `planned` to `sent`, the text that `planned` was made from.

    >>> with_sent_position("found: y at Line: 1, Column: 16", "SELECT (x AND) y", "SELECT x AND y")
    'found: y at line 1, column 14'
    """
    match = _POSITION.search(message)
    if match is None:
        return message
    line, column = int(match["line"]), int(match["column"])
    start = None if sent is None else sent_start(planned, _offset(planned, line, column), sent)
    position = ""
    if sent is not None and start is not None:
        position = " at line {}, column {}".format(*line_and_column(sent, start))
    return message[: match.start()] + position + message[match.end() :]


def sent_start(planned: str, offset: int, sent: str) -> int | None:
    """Return the start in `sent` of the token at `offset` in `planned`: the token with the most equal neighbours."""
    ours, theirs = _tokens_of(planned), _tokens_of(sent)
    at = next((place for place, token in enumerate(ours) if token.stop > offset), None)
    if at is None:
        return None
    alike = [place for place, token in enumerate(theirs) if _key(token) == _key(ours[at])]
    longer = len(theirs) - len(ours)
    alike.sort(key=lambda place: min(abs(place - at), abs(place - at - longer)))
    runs = {
        place: _run(ours, theirs, at, place, 1) + _run(ours, theirs, at, place, -1) for place in alike[:_MOST_ALIKE]
    }
    best = max(runs, key=runs.__getitem__, default=None)
    if best is None or (runs[best] == 0 and (len(alike) > 1 or ours[at].kind is Kind.SIGN)):
        return None  # a sign without neighbours may be one of ours
    return theirs[best].start


def _tokens_of(text: str) -> Sequence[Token]:
    try:
        return tokenize(text)
    except SqlError:
        return []


def _run(ours: Sequence[Token], theirs: Sequence[Token], at: int, place: int, step: int) -> int:
    """Return the number of equal neighbours on one side."""
    run = 0
    while run < _MOST_NEIGHBOURS:
        at, place = at + step, place + step
        if not (0 <= at < len(ours) and 0 <= place < len(theirs)) or _key(ours[at]) != _key(theirs[place]):
            return run
        run += 1
    return run


def _key(token: Token) -> tuple[Kind, str]:
    """Return the properties that a token shares with its copy; parameters are numbered by rewriting, and lists of them get their values."""
    kind = Kind.LITERALS if token.kind is Kind.PARAMETERS else token.kind
    return kind, "" if kind in _REWRITTEN else token.text


def _offset(text: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return start + column - 1
