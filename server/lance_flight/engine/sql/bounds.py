"""Bounds of a statement's shape, and of the size of the values that it computes, checked before DataFusion parses it.

DataFusion's parser, planner and executor recurse over an expression and cannot be interrupted: a chain of 50,000 operators overflows
the stack of a thread, and the process ends. The depth, the length and the expansion of a statement are therefore bounded by its tokens.
Long chains of AND and OR, as programs generate them, are rewritten into IN lists and balanced brackets instead
(`engine.compat.boolean_chains`). Each query of WITH is inlined at every reference, so its expansion is bounded as well.

`x || x` in a subquery of a subquery … doubles a value at each level, and DataFusion computes constants while it plans. What the calls of a
level multiply is read from its tokens, and levels multiply each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from lance_flight.engine.sql.tokens import RUNS, STRINGS, Kind, Token, closing_places, fold_name, literals, place_in
from lance_flight.errors import LimitExceeded, SqlError, Unsupported
from lance_flight.model.schema import MOST_DEPTH

MOST_NESTED = 100
"""Depth of nested brackets; planning takes cubic time in it."""
MOST_OPERATORS = 500
"""Operators of one expression that are applied one after another."""
MOST_ITEMS = 2_000
"""Expressions of one SELECT, GROUP BY or ORDER BY list."""
MOST_JOINED = 128
"""Relations of one FROM."""
MOST_SETS = 500
"""Queries of one UNION, INTERSECT or EXCEPT."""
MOST_SELECTS = 2_000
MOST_FIXED_SIZE = 1 << 16
"""Values of a type of a fixed size that a statement names: its NULL takes the room of all."""
MOST_GROUPINGS = 4_096
"""Grouping sets of CUBE, ROLLUP and GROUPING SETS in one GROUP BY."""

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_OPERATORS = frozenset("+-*/%|&^~=<>!.#@") | {"::"}
_OPERATOR_WORDS = frozenset(
    [
        "NOT",
        "IS",
        "IN",
        "LIKE",
        "ILIKE",
        "RLIKE",
        "REGEXP",
        "SIMILAR",
        "BETWEEN",
        "COLLATE",
        "AT",
        "DIV",
        "XOR",
        "OVERLAPS",
    ]
)
_NAMING_TYPES = frozenset(["arrow_cast", "arrow_try_cast"])
"""Functions that read a text as a type."""
SETS = frozenset(["UNION", "INTERSECT", "EXCEPT", "MINUS"])
_LISTS = frozenset(["SELECT", "BY"])
JOINS = frozenset(["JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "SEMI", "ANTI"])
CLAUSES = frozenset(
    [
        *("SELECT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH"),
        *("ON", "USING", "VALUES", "SET", "WHEN", "THEN", "ELSE", "AS", "WITH", "RETURNING"),
    ]
)
"""Words that end an expression and begin another one, in the same bracket."""
SHORT_TEXT = 16 << 10
"""Characters of a statement that is always planned quickly."""
CHEAP_FUNCTIONS = frozenset(
    [
        *("count", "sum", "min", "max", "avg", "mean", "median", "stddev", "var", "bool_and", "bool_or", "first_value"),
        *("last_value", "row_number", "rank", "dense_rank", "lag", "lead", "ntile", "approx_distinct", "grouping"),
        *(
            "abs",
            "ceil",
            "floor",
            "round",
            "trunc",
            "sqrt",
            "power",
            "exp",
            "ln",
            "log",
            "sign",
            "signum",
            "sin",
            "cos",
        ),
        *("coalesce", "nullif", "nvl", "ifnull", "greatest", "least", "cast", "try_cast", "arrow_cast", "arrow_typeof"),
        *("date_part", "date_trunc", "date_bin", "extract", "now", "to_date", "to_timestamp", "make_date", "murmur3"),
        *(
            "lower",
            "upper",
            "trim",
            "ltrim",
            "rtrim",
            "btrim",
            "length",
            "char_length",
            "octet_length",
            "substr",
            "left",
        ),
        *(
            "right",
            "substring",
            "starts_with",
            "ends_with",
            "contains",
            "strpos",
            "position",
            "murmur3_multi",
            "values",
        ),
        *(
            "vector_search",
            "full_text_search",
            "hybrid_search",
            "table_changes",
            "range",
            "generate_series",
            "in",
            "over",
        ),
        *("age", "date_diff", "date_span", "days_of", "epoch", "epoch_ms", "len", "make_timestamp", "typeof"),
        *(
            "exists",
            "any",
            "all",
            "some",
            "and",
            "or",
            "not",
            "on",
            "by",
            "as",
            "using",
            "from",
            "where",
            "when",
            "then",
        ),
        *("else", "select", "join", "union", "except", "intersect", "having", "filter", "rollup", "cube", "sets", "is"),
        *("like", "between", "case", "distinct", "with", "limit", "offset", "array", "interval", "varchar", "char"),
        *("decimal", "numeric", "timestamp", "time", "binary", "into", "unnest", "group", "sum", "current_user"),
    ]
)
"""Functions and words before a bracket whose cost grows no faster than the text of their constants."""


def is_costly(text: str, tokens: Sequence[Token]) -> bool:
    """Return whether planning a statement may take long: it is long, or has calls whose cost depends on constants.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> [is_costly(text, tokenize(text)) for text in ("SELECT count(*) FROM t", "SELECT levenshtein('a', 'b')")]
    [False, True]
    """
    return len(text) > SHORT_TEXT or _has_costly_calls(tokens)


def is_long_by_lists(text: str, tokens: Sequence[Token]) -> bool:
    """Return whether a statement is short and cheap but for its long IN lists, each value of which is planned in the same time."""
    listed = sum(token.stop - token.start for token in tokens if token.kind in {Kind.LITERALS, Kind.PARAMETERS})
    return len(text) - listed <= SHORT_TEXT and not _has_costly_calls(tokens)


def _has_costly_calls(tokens: Sequence[Token]) -> bool:
    return any(
        following.text == "(" and token.kind in (Kind.WORD, Kind.NAME) and token.text.lower() not in CHEAP_FUNCTIONS
        for token, following in pairwise(tokens)
    )


def check_bounds(text: str, tokens: Sequence[Token]) -> None:
    """Refuse a statement that is too deep, too wide or expands too far; `SqlError` names the place and the bound.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> check_bounds("SELECT 1", tokenize("SELECT 1"))
    """
    if any(token.text.lower() in _NAMING_TYPES for token in tokens):
        for token in tokens:
            check_type_text(token.text)
    _check_fixed_sizes(tokens)
    if len(tokens) <= MOST_NESTED and not any(token.kind is Kind.COMPARISONS for token in tokens):
        return
    _Shape(text).read(tokens)


def _check_fixed_sizes(tokens: Sequence[Token]) -> None:
    """Refuse types such as FLOAT[100000000]."""
    size, place = 1, 0
    while place + 2 < len(tokens):
        number = tokens[place + 1]
        if tokens[place].is_sign("[") and number.kind is Kind.NUMBER and tokens[place + 2].is_sign("]"):
            is_first = place and tokens[place - 1].word in _ELEMENTS
            size = (
                int(number.text) if is_first and number.text.isdigit() else size * int(number.text) if size > 1 else 1
            )
            if size > MOST_FIXED_SIZE:
                raise LimitExceeded(f"a type of {size} values of a fixed size; expected at most {MOST_FIXED_SIZE}")
            place += 3
        else:
            size, place = 1, place + 1


_ELEMENTS = frozenset(
    [
        *("FLOAT", "REAL", "DOUBLE", "PRECISION", "INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "BOOLEAN", "BOOL"),
        *("VARCHAR", "TEXT", "STRING", "CHAR", "DATE", "TIMESTAMP", "TIME", "BYTEA", "DECIMAL", "NUMERIC", "UNSIGNED"),
        *("FLOAT4", "FLOAT8", "INT2", "INT4", "INT8", "HALF"),
    ]
)
_FIXED_SIZE = re.compile(r"FixedSize(?:List|Binary)\s*\(", re.IGNORECASE)
_ALONE = re.compile(r"\b\d+\b", re.ASCII)


def check_type_text(text: str) -> None:
    """Refuse a text that DataFusion may read as a type, which is too deep, or whose NULL takes too many bytes.

    >>> check_type_text("List(Int32)")
    """
    size = prod(map(int, _ALONE.findall(text))) if _FIXED_SIZE.search(text) else 0
    if size > MOST_FIXED_SIZE:
        raise LimitExceeded(f"a type of {size} values of a fixed size; expected at most {MOST_FIXED_SIZE}")
    if text.count("(") > MOST_DEPTH:
        raise SqlError(
            f"a text has more than {MOST_DEPTH} brackets, beside arrow_cast; expected a type with at most {MOST_DEPTH} within one another"
        )


def names_types(sql: str) -> bool:
    """Return whether a statement may read a text as a type."""
    return any(name in sql.lower() for name in _NAMING_TYPES)


@dataclass(slots=True)
class _Level:
    """State of one bracket or CASE, or of the whole statement, while it is read.

    `operators` and `deepest` are of the operand of AND and OR that is being read: its operators, and the depth of what is bracketed in it.
    """

    is_case: bool = False
    grouping: str = ""
    clause: str = ""
    commas: int = 0
    groupings: int = 1
    operators: int = 0
    deepest: int = 0
    operand: int = 0
    booleans: int = 0
    depth: int = 0
    items: int = 0
    joined: int = 0
    sets: int = 0

    def grouping_sets(self) -> int:
        """Return the number of grouping sets of a bracket of CUBE, ROLLUP or GROUPING SETS."""
        match self.grouping:
            case "CUBE":
                return 1 << min(self.commas + 1, 62)
            case "ROLLUP":
                return self.commas + 2
            case "SETS":
                return self.commas + 1
        return 1

    def end_operand(self) -> None:
        """End an operand of AND or OR."""
        self.operand = max(self.operand, self.operators + self.deepest)
        self.operators = self.deepest = 0

    def end_expression(self) -> None:
        """End an expression: the depth of the level is that of its deepest one."""
        self.end_operand()
        self.depth = max(self.depth, self.operand + self.booleans)
        self.operand = self.booleans = 0


class _Shape:
    """Counts the contents of a statement's brackets, each against its bound."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._levels = [_Level()]
        self._selects = 0

    def read(self, tokens: Sequence[Token]) -> None:
        """Count all tokens of the statement."""
        for place, token in enumerate(tokens):
            if token.kind is Kind.SIGN:
                self._sign(token, tokens[place - 1] if place else None)
            elif token.kind is Kind.WORD:
                self._word(token, tokens[place + 1] if place + 1 < len(tokens) else None)
            elif token.kind is Kind.COMPARISONS:
                self._booleans(token, len(literals(token)) - 1)
        self._levels[-1].end_expression()

    def _sign(self, token: Token, before: Token | None) -> None:
        level, sign = self._levels[-1], token.text
        if sign in _OPENING:
            level.operators += sign == "["
            self._open(token, is_case=False)
            self._levels[-1].grouping = before.word if before is not None else ""
        elif sign in _CLOSING:
            self._close(token)
        elif sign == ",":
            self._comma(token)
        elif sign in _OPERATORS:
            level.operators += 1
            self._check("operators applied one after another", level.operators, MOST_OPERATORS, token)

    def _word(self, token: Token, following: Token | None) -> None:
        level, word = self._levels[-1], token.word
        if word in {"AND", "OR"}:
            self._booleans(token, 1)
        elif word in _OPERATOR_WORDS:
            level.operators += 1
            self._check("operators applied one after another", level.operators, MOST_OPERATORS, token)
        elif word == "CASE":
            self._open(token, is_case=True)
        elif word == "END" and level.is_case:
            self._close(token)
        elif word in JOINS and not (following is not None and following.is_sign("(")):
            self._join(token)
        elif word in CLAUSES or word in SETS:
            self._clause(token)

    def _booleans(self, token: Token, count: int) -> None:
        level = self._levels[-1]
        level.end_operand()
        level.booleans += count
        self._check("conditions joined by AND and OR", level.booleans, MOST_OPERATORS, token)

    def _open(self, token: Token, *, is_case: bool) -> None:
        self._levels.append(_Level(is_case=is_case))
        self._check("brackets within brackets", len(self._levels) - 1, MOST_NESTED, token)

    def _close(self, token: Token) -> None:
        if len(self._levels) == 1:
            return  # DataFusion says what is wrong with it
        level = self._levels.pop()
        level.end_expression()
        parent = self._levels[-1]
        parent.deepest = max(parent.deepest, level.depth + 1)
        parent.groupings *= level.grouping_sets()
        self._check("grouping sets in one GROUP BY", parent.groupings, MOST_GROUPINGS, token)
        self._check("operators within operators", parent.operators + parent.deepest, MOST_OPERATORS, token)

    def _comma(self, token: Token) -> None:
        level = self._levels[-1]
        level.end_expression()
        level.commas += 1
        if level.clause == "FROM":
            self._count_relation(level, token)
        elif level.clause in _LISTS:
            level.items += 1
            self._check("expressions in one list", level.items + 1, MOST_ITEMS, token)

    def _join(self, token: Token) -> None:
        level = self._levels[-1]
        level.end_expression()
        if token.word == "JOIN":
            level.clause = "FROM"
            self._count_relation(level, token)

    def _count_relation(self, level: _Level, token: Token) -> None:
        level.joined += 1
        self._check("relations in one FROM", level.joined + 1, MOST_JOINED, token)

    def _clause(self, token: Token) -> None:
        level, word = self._levels[-1], token.word
        level.end_expression()
        # What follows ON or USING may be one more relation of the same FROM.
        if word not in {"ON", "USING", "AS"}:
            level.clause, level.items, level.groupings = word, 0, 1
        if word == "SELECT":
            level.joined = 0
            self._selects += 1
            self._check("SELECTs", self._selects, MOST_SELECTS, token)
        elif word in SETS:
            level.sets += 1
            self._check("queries combined by UNION, INTERSECT or EXCEPT", level.sets + 1, MOST_SETS, token)

    def _check(self, what: str, count: int, most: int, token: Token) -> None:
        if count > most:
            place = place_in(self._text, token.start)
            raise SqlError(f"the statement has more than {most} {what}; expected at most {most}{place}")


MOST_EXPANDED = 2_000
"""Most relations that a statement reads after each of its WITH queries is inlined at every reference."""


@dataclass(slots=True)
class _Query:
    """Query of WITH: its name, the tokens of its bracket, and the number of relations that it reads when expanded."""

    name: str
    start: int
    stop: int
    relations: int = 0


def check_expansion(tokens: Sequence[Token]) -> None:
    """Refuse a statement that reads too many relations when it is expanded; `SqlError` names one of its WITH queries.

    >>> from lance_flight.engine.sql.tokens import tokenize, fold_name
    >>> check_expansion(tokenize("WITH a AS (SELECT 1) SELECT * FROM a"))
    """
    queries = list(with_queries(tokens))
    if not queries:
        return
    named: dict[str, int] = {}
    for query in sorted(queries, key=lambda item: item.stop):
        query.relations = _relations(tokens, query.start, query.stop, named)
        named[query.name] = query.relations
        _check_expanded(query.relations, query.name)
    last = max(query.stop for query in queries)
    _check_expanded(_relations(tokens, last, len(tokens), named), queries[-1].name)


def _check_expanded(relations: int, name: str) -> None:
    if relations > MOST_EXPANDED:
        raise SqlError(
            f"the statement reads {relations} relations once its WITH queries, like {name!r}, stand where they are named;"
            f" expected at most {MOST_EXPANDED}"
        )


def with_queries(tokens: Sequence[Token]) -> Iterator[_Query]:
    """Yield every `name [(columns)] AS [NOT] [MATERIALIZED] (…)` of a statement, in the order of their beginnings."""
    closing = closing_places(tokens)
    opening = {stop: start for start, stop in closing.items()}
    for place, token in enumerate(tokens):
        if token.word != "AS":
            continue
        opened = place + 1
        while opened < len(tokens) and tokens[opened].word in {"NOT", "MATERIALIZED"}:
            opened += 1
        if opened < len(tokens) and opened in closing and tokens[opened].is_sign("("):
            before = place - 1
            if tokens[before].is_sign(")"):
                before = opening.get(before, 0) - 1
            if before >= 0 and tokens[before].kind in (Kind.WORD, Kind.NAME):
                yield _Query(fold_name(tokens[before]), opened, closing[opened])


def queries_before(text: str, tokens: Sequence[Token], at: int) -> str:
    """Return the WITH before the query of a token, with those of its queries that it can read, and a blank; no text without one.

    >>> text = "WITH x AS (SELECT 1), y AS (SELECT 2) SELECT 3"
    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> queries_before(text, tokenize(text), 11), queries_before(text, tokenize(text), 4)
    ('WITH x AS (SELECT 1) ', '')
    """
    closing = closing_places(tokens, "([{", ")]}")
    within = {first for first, stop in closing.items() if first < at < stop}
    named = ""
    for query in with_queries(tokens):
        around = {first for first, stop in closing.items() if first < query.start < stop}
        if query.stop < at and not around.isdisjoint(within):
            raise Unsupported(
                "columns are not looked up beside a WITH in brackets, as COLUMNS, RENAME and a PIVOT without IN do; write the"
                " columns by their names"
            )
        if query.stop < at and not around:
            named = f"{text[tokens[0].start : tokens[query.stop].stop]} "
    return named


def _relations(tokens: Sequence[Token], start: int, stop: int, named: dict[str, int]) -> int:
    """Return the number of relations that the tokens `start` to `stop` read; `named` queries count with their own numbers."""
    count = 0
    for place in range(start, stop):
        token = tokens[place]
        if token.kind in (Kind.WORD, Kind.NAME):
            before = tokens[place - 1] if place else None
            if before is not None and (before.word in {"FROM", "JOIN"} or before.is_sign(",")):
                known = named.get(fold_name(token))
                count += known if known is not None else before.word in {"FROM", "JOIN"}
    return max(count, 1)


MOST_BYTES = 1 << 30
"""Most bytes of a value that is computed from literals, in the worst case."""
_UNKNOWN_COUNT = 1 << 12
"""Assumed value of a count that is no literal: the result of such a call is bounded when it runs."""
_UNKNOWN_TEXT = 1_000
_MOST_COUNT = 1 << 24

_COUNTED = frozenset(["repeat", "array_repeat", "list_repeat", "lpad", "rpad", "array_resize", "list_resize"])
_SERIES = frozenset(["range", "generate_series"])
_SEPARATED = frozenset(["array_to_string", "list_to_string", "array_join", "list_join", "concat_ws"])
_JOINED = frozenset(
    ["format_text", "print_text", "concat", "array_concat", "list_concat", "array_cat", "list_cat", "concat_ws"]
)
_LISTED = frozenset(["make_array", "make_list", "struct", "named_struct", "row", "map"])
_GROWING = frozenset([*_COUNTED, *_SEPARATED, *_JOINED, *_LISTED, "replace", "regexp_replace", "encode", "["])
_NAMED = frozenset([Kind.WORD, Kind.NAME, Kind.SIGN])


@dataclass(slots=True)
class _SizeLevel:
    """State of one bracket while it is read: the growth of its expressions, and of the subqueries that they read."""

    call: str = ""
    named: str = ""
    is_made: bool = False
    is_list: bool = False
    names: int = 0
    counts: bool = True
    clause: str = ""
    is_query: bool = False
    bars: int = 0
    inside: int = 1
    expressions: int = 1
    base: int = 1
    commas: int = 0
    texts: list[int] = field(default_factory=list)
    count: int | None = None

    def end_expression(self) -> None:
        grown = (1 + self.bars // 2) * self.inside
        if self.counts:
            self.expressions = max(self.expressions, grown)
        elif grown > 1:
            # All expressions of a list are there at the same time.
            self.expressions += grown
        self.bars, self.inside = 0, 1

    def growth(self) -> int:
        self.end_expression()
        return min(self.expressions * self.base * self._factor(), 1 << 64)

    def _factor(self) -> int:
        """Return the factor by which the call of this bracket may multiply its largest argument."""
        if self.is_made:
            return _UNKNOWN_COUNT if self.count is None else max(1, min(self.count, _MOST_COUNT))
        if self.call == "replace":
            *_, old, new = [1, *self.texts] if len(self.texts) > 1 else [1, _UNKNOWN_TEXT]
            return max(1, -(-new // max(old, 1)))
        if self.call == "regexp_replace":
            # It inserts between all characters in the worst case, and replaces some in most.
            return self.counts + (self.texts[1] if len(self.texts) > 1 else _UNKNOWN_TEXT)
        separator = 1 + (max(self.texts) if self.texts else _UNKNOWN_TEXT) if self.call in _SEPARATED else 1
        is_joined = self.call in _JOINED or (not self.counts and self.names and (self.is_list or self.call in _LISTED))
        joined = 1 + self.commas if is_joined else 1
        return separator * joined * (2 if self.call == "encode" else 1)


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of a statement: the most `copies` of a value that it writes side by side, and the characters of its `longest` literal."""

    copies: int = 1
    longest: int = 1

    @property
    def width(self) -> int:
        """Return the bytes that a row may take by the text of the statement alone."""
        return max(self.copies * self.longest, self.longest)


def growth_of(text: str, tokens: Sequence[Token]) -> Growth:
    """Return the growth of a statement; `LimitExceeded` for one whose literals may grow to more than a gigabyte.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> growth_of("SELECT 'a' || 'b' || c", tokenize("SELECT 'a' || 'b' || c"))
    Growth(copies=4, longest=1)
    """
    growing = sum(token.kind in _NAMED and token.text.lower() in _GROWING for token in tokens) + text.count("||")
    if not growing:
        return Growth(longest=_longest(tokens))
    is_alone = growing == 1
    copies, read = _read(tokens, counts=False), _read(tokens)
    size = read.growth() * read.longest
    if size > MOST_BYTES and not is_alone:  # one call is bounded when it runs
        raise LimitExceeded(
            f"the statement may make values of {size} bytes of its literals, by concatenating, repeating and replacing them;"
            f" expected at most {MOST_BYTES}"
        )
    return Growth(copies.growth(), read.longest)


def _longest(tokens: Sequence[Token]) -> int:
    read = _Statement()
    for token in tokens:
        if token.kind in STRINGS or token.kind in RUNS:
            read.word(token)
    return read.longest


def _read(tokens: Sequence[Token], *, counts: bool = True) -> _Statement:
    read = _Statement(counts=counts)
    for place, token in enumerate(tokens):
        if token.kind is Kind.SIGN:
            read.sign(tokens, place)
        else:
            read.word(token)
    return read


class _Statement:
    """State of a statement while it is read: its open brackets, the growth of its WITH queries, and its longest literal."""

    def __init__(self, *, counts: bool = True) -> None:
        self.longest = 1
        self._counts = counts
        self._levels = [_SizeLevel(counts=counts)]
        self._named: dict[str, int] = {}

    def sign(self, tokens: Sequence[Token], place: int) -> None:
        """Read a sign."""
        level, sign = self._levels[-1], tokens[place].text
        if sign in {"(", "["}:
            call = _call(tokens, place)
            is_made = call in _COUNTED or (call in _SERIES and level.call in _SEPARATED)
            self._levels.append(
                _SizeLevel(
                    call=call,
                    named=_name(tokens, place),
                    is_made=is_made and self._counts,
                    is_list=sign == "[",
                    counts=self._counts,
                )
            )
        elif sign in {")", "]"} and len(self._levels) > 1:
            self._close()
        elif sign == ",":
            level.commas += 1
            level.end_expression()
        else:
            level.bars += sign == "|"

    def word(self, token: Token) -> None:
        """Read a token that is no sign."""
        level = self._levels[-1]
        if token.kind in STRINGS:
            level.texts.append(len(token.text))
            self.longest = max(self.longest, len(token.text))
        elif token.kind in RUNS:
            self.longest = max(self.longest, *map(len, literals(token)))
        elif token.kind is Kind.NUMBER:
            level.count = max(level.count or 0, int(token.text) if token.text.isdigit() else _MOST_COUNT)
        elif token.word in CLAUSES and token.word != "AS":
            level.end_expression()
            level.clause = token.word
            level.is_query = level.is_query or token.word == "SELECT"
        elif token.kind in (Kind.WORD, Kind.NAME):
            level.names += 1
            if level.clause == "FROM" and self._named:
                level.base = max(level.base, self._named.get(fold_name(token), 1))

    def growth(self) -> int:
        """Return the growth of the whole statement, once all tokens were read."""
        while len(self._levels) > 1:
            self._close()
        return self._levels[0].growth()

    def _close(self) -> None:
        closed = self._levels.pop()
        growth, parent = closed.growth(), self._levels[-1]
        if closed.is_query and closed.named:
            self._named[closed.named] = growth
        elif closed.is_query and parent.clause == "FROM":
            parent.base = max(parent.base, growth)
        else:
            parent.inside = max(parent.inside, growth)


def _call(tokens: Sequence[Token], place: int) -> str:
    before = tokens[place - 1] if place else None
    return before.text.lower() if before is not None and before.kind in (Kind.WORD, Kind.NAME) else ""


def _name(tokens: Sequence[Token], place: int) -> str:
    """Return the name of the WITH query whose bracket opens at a place."""
    at = place - 1
    while at > 0 and tokens[at].word in {"NOT", "MATERIALIZED"}:
        at -= 1
    if at < 1 or tokens[at].word != "AS" or tokens[at - 1].kind not in (Kind.WORD, Kind.NAME):
        return ""
    return fold_name(tokens[at - 1])
