"""Functions implemented here that take arguments of any type, in queries that DataFusion plans.

A Python function in DataFusion has one fixed signature. So each call gets a name of its own and is planned with a signature that fits
nothing; the refusal names the types of its arguments, and the call is registered again for exactly those.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from types import MappingProxyType

import pyarrow as pa
from datafusion import DataFrame, SessionContext, SQLOptions, udf

from lance_flight.engine.compat.casts import OF_SECONDS, fit_reals, round_doubles, without_lengths, without_rounds
from lance_flight.engine.compat.checked_arithmetic import (
    CHECKED,
    REALS,
    ROUNDED,
    compute_call,
    signature,
    with_checked_arithmetic,
    without_check,
    without_checks,
)
from lance_flight.engine.compat.operand_types import OPERAND, Scopes
from lance_flight.engine.compat.sort_keys import written_once
from lance_flight.engine.compat.wrong_comparisons import without_unsigned
from lance_flight.engine.dialects.spellings import SHOWN_LAMBDA
from lance_flight.engine.functions.bounded_functions import (
    LISTS,
    Budget,
    guard_edits,
    register_guards,
    without_guards,
)
from lance_flight.engine.functions.computed_functions import COMPUTED
from lance_flight.engine.functions.date_functions import NAMES as DATE_NAMES
from lance_flight.engine.functions.date_functions import date_signature, date_type, dates
from lance_flight.engine.functions.date_patterns import without_strftime
from lance_flight.engine.functions.date_spans import INTERVAL_LENGTH, INTERVAL_OF, SECONDS_TYPE, timestamps_of_seconds
from lance_flight.engine.functions.highlights import HIGHLIGHT, compute_highlights, highlight_signature, highlight_type
from lance_flight.engine.functions.json_functions import NAMES as JSON_NAMES
from lance_flight.engine.functions.json_functions import json_signature, json_type, json_values
from lance_flight.engine.functions.readable_texts import READABLE
from lance_flight.engine.functions.value_texts import ELEMENT_TEXTS, VALUE_TEXT
from lance_flight.engine.functions.vector_functions import (
    COSINE_OR_SAME,
    DISTANCES,
    Distance,
    is_numbers,
    known_types,
    same_instead,
)
from lance_flight.engine.sql.clause_words import BEFORE_OPERAND
from lance_flight.engine.sql.references import Cursor
from lance_flight.engine.sql.tokens import STRINGS, Edit, Kind, Token, edit_text, fold_name, tokenize
from lance_flight.errors import SqlError
from lance_flight.model.hashing import hash_class, murmur3, murmur3_multi
from lance_flight.model.type_names import type_name

QUERIES_ONLY = SQLOptions().with_allow_ddl(allow=False).with_allow_dml(allow=False).with_allow_statements(allow=False)

# No argument can be coerced to this, so planning a call tells the types of its arguments.
NEVER = pa.struct([pa.field("never", pa.null())])
_COERCION = re.compile(r"call to '(?P<name>__\w+_call\d+)' function: coercion from (?P<types>.*) to the signature")
_CALL_NAME = re.compile(r"__(?P<word>\w{1,60}?)_call\d+")
ONE_DIGIT_MORE, _SHOWN_DIGIT = " + CAST('+0' AS TINYINT)", re.compile(r' \+ (?:CAST\()?Utf8\("\+0"\)(?: AS Int8\))?')
"""What gives a decimal room for one digit, a text that no client writes, and what names of columns have for it."""
_SHOWN = MappingProxyType({COSINE_OR_SAME: "cosine_distance"})
"""What some functions are called in names of columns."""
_RELATIONS = frozenset(["FROM", "JOIN", "LATERAL"])


def refuses_call(error: Exception) -> bool:
    """Return whether DataFusion refuses a generated call for the types of its arguments."""
    return _COERCION.search(str(error)) is not None


@dataclass(frozen=True, slots=True)
class TypedFunction:
    """Function computed in Python: its result type for argument types (`SqlError` if it takes none such), and its values.

    `signature` returns the types that arguments of some types are cast to, None: these types themselves. One that `is_budgeted` is
    given what it has `Made` as well.
    """

    result: Callable[[str, Sequence[pa.DataType]], pa.DataType]
    compute: Callable[..., pa.Array]
    signature: Callable[[Sequence[pa.DataType]], Sequence[pa.DataType]] | None = None
    is_budgeted: bool = False


def _hash_type(word: str, types: Sequence[pa.DataType]) -> pa.DataType:
    if word == "murmur3" and len(types) != 1:
        raise SqlError(f"murmur3 takes one argument, got {len(types)}; murmur3_multi takes any number")
    for kind in types:
        if hash_class(kind) is None and not pa.types.is_null(kind):
            raise SqlError(
                f"{word} is not defined for {type_name(kind)}; expected a number, text, binary, boolean, date or time"
            )
    return pa.int32()


def _distance(distance: Distance) -> TypedFunction:
    def result(_: str, types: Sequence[pa.DataType]) -> pa.DataType:
        distance.check_types(types)
        return pa.float64()

    return TypedFunction(result, distance.compute, known_types)


def _check(word: str) -> TypedFunction:
    return TypedFunction(lambda *_: signature(word)[1], partial(compute_call, word))


FUNCTIONS: Mapping[str, TypedFunction] = MappingProxyType(
    {
        "murmur3": TypedFunction(_hash_type, lambda columns: murmur3(columns[0])),
        "murmur3_multi": TypedFunction(_hash_type, murmur3_multi),
        **{name: TypedFunction(*function, is_budgeted=True) for name, function in LISTS.items()},
        **{name: _distance(distance) for name, distance in DISTANCES.items()},
        COSINE_OR_SAME: _distance(DISTANCES["cosine_distance"]),
        **{name: TypedFunction(json_type, partial(json_values, name), json_signature) for name in JSON_NAMES},
        **{word: _check(word) for word in sorted(CHECKED)},
        **{name: TypedFunction(date_type, partial(dates, name), partial(date_signature, name)) for name in DATE_NAMES},
        ROUNDED: TypedFunction(lambda _, types: types[0], round_doubles),
        **{name: TypedFunction(lambda _, types: types[0], partial(fit_reals, name)) for name in REALS.values()},
        OF_SECONDS: TypedFunction(lambda *_: SECONDS_TYPE, timestamps_of_seconds),
        OPERAND: TypedFunction(lambda _, types: types[0], lambda columns: columns[0]),
        **{
            name: TypedFunction(
                computed_function.result,
                partial(computed_function.compute, name) if computed_function.grows else computed_function.values,
                computed_function.signature,
                computed_function.grows,
            )
            for name, computed_function in COMPUTED.items()
        },
        HIGHLIGHT: TypedFunction(highlight_type, compute_highlights, highlight_signature),
    }
)


def shown_name(column: str) -> str:
    """Return the name of a result column with the user's names of functions."""
    name = _CALL_NAME.sub(lambda match: match["word"] if match["word"] not in _STRIPPED else match[0], column)
    for as_written in (
        without_checks,
        without_guards,
        without_unsigned,
        written_once,
        without_lengths,
        without_strftime,
        without_rounds,
    ):
        name = as_written(name)
    return SHOWN_LAMBDA.sub(r"\1 -> ", _SHOWN_DIGIT.sub("", name))


@dataclass(slots=True)
class TypedCalls:
    """Calls of typed functions in one query, each under a generated name, and the names of the guards of other calls.

    A query writes values side by side in so many `copies`.
    Calls that share a name, which stands `times` in the text, are computed once. Calls of a distance that are written alike share one; if
    their types differ, they are named again from what was `written`.
    """

    sql: str
    calls: dict[str, str]
    guards: tuple[str, ...] = ()
    written: str | None = None
    copies: int = 1
    times: Mapping[str, int] = field(default_factory=dict)
    types: dict[str, Sequence[pa.DataType]] = field(default_factory=dict)
    """Types of the arguments of the calls that were planned."""

    @classmethod
    def of(cls, sql: str, *, is_shared: bool = True, has_keys: bool = False, copies: int = 1) -> TypedCalls:
        """Give every call of a typed function its own name, and guard the arguments of other calls.

        Where it `has_keys`, calls in one SELECT that are written alike have one name: GROUP BY and ORDER BY are about what SELECT lists.
        """
        tokens = tokenize(sql)
        alike = _places_alike(sql, tokens)
        names = _Names(tokens, frozenset(FUNCTIONS) - CHECKED, alike, is_shared=is_shared, has_keys=has_keys)
        named, calls = _name_calls(names)
        edits, guards = guard_edits(sql, tokens, alike if has_keys else lambda place: place)
        is_written = is_shared and any(word in _DISTANCES for word in calls.values())
        times = Counter([*guards, *(name for _, _, name in named)])
        text, written = edit_text(sql, sorted([*named, *edits])), sql if is_written else None
        return cls(text, calls, tuple(dict.fromkeys(guards)), written, copies, times)

    @property
    def has_checks(self) -> bool:
        """Return whether operators or sums of integers are calls."""
        return not (CHECKED | {OPERAND}).isdisjoint(self.calls.values())

    @property
    def may_be_keys(self) -> bool:
        """Return whether it has calls with names of their own, which are no keys of GROUP BY."""
        return bool(self.calls or self.guards)

    def asking(self, sql: str, names: Iterable[str]) -> TypedCalls:
        """Return the query as `sql`, in which functions of these names tell the types of operands."""
        return replace(self, sql=sql, calls={**self.calls, **dict.fromkeys(names, OPERAND)}, types={})

    def with_typed(self, word: str, sql: str, given: Mapping[str, pa.DataType]) -> TypedCalls:
        """Return the query as `sql`, which calls a function by these names of arguments of these types."""
        types = {**self.types, **{name: [kind] for name, kind in given.items()}}
        return replace(self, sql=sql, calls={**self.calls, **dict.fromkeys(given, word)}, types=types)

    def with_checks(self) -> TypedCalls:
        """Return the same query with operators and sums of integers that refuse a result beyond BIGINT."""
        sql = with_checked_arithmetic(self.sql)
        tokens = tokenize(sql)
        named, calls = _name_calls(_Names(tokens, CHECKED, _places_alike(sql, tokens)))
        return replace(self, sql=edit_text(sql, named), calls={**self.calls, **calls})

    def operand_types(self) -> dict[str, pa.DataType]:
        """Return the types of the operands that were planned; that of a list is the one of a double in it."""
        return {
            name: next((kind for kind in kinds if pa.types.is_floating(kind)), kinds[0])
            for name, kinds in self.types.items()
            if self.calls[name] == OPERAND
        }

    def plan(
        self, context: SessionContext, plan: Callable[[str], DataFrame], check: Callable[[], None] = lambda: None
    ) -> DataFrame:
        """Plan the query, registering each call in `context` with the types of its arguments.

        The calls `check` before each batch: DataFusion goes on with a product of rows that nobody reads any more.
        """
        budget = Budget(self.copies, self.times)
        register = partial(_register, context, budget, check=check)
        register_guards(context, self.guards, budget)
        for name, word in self.calls.items():
            known_types = self.types.get(name, [NEVER]) if word in _TYPED else [NEVER]
            register(name, word, signature(word)[0] if word in CHECKED else known_types)
        known: set[tuple[str, str]] = set()
        sql = self.sql
        while True:
            try:
                return plan(sql)
            except Exception as exc:
                match = _COERCION.search(str(exc))
                if match is None or (match["name"], match["types"]) in known:
                    raise
                is_again = any(match["name"] == name for name, _ in known)
                known.add((match["name"], match["types"]))
                word, types = self.calls[match["name"]], arrow_types(context, match["types"])
                self.types[match["name"]] = types
                if word in CHECKED:
                    sql = without_check(sql, match["name"])
                elif self.written is not None and is_again:
                    return TypedCalls.of(self.written, is_shared=False, copies=self.copies).plan(context, plan, check)
                elif word == COSINE_OR_SAME and not any(map(is_numbers, types)):
                    sql = same_instead(sql, match["name"])
                else:
                    register(match["name"], word, types)


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of the calls in a text: one for those of `words` for which `alike` returns the same, if they are of dates or it `has_keys`.

    Calls of a distance or a check have one in all of a query, if it `is_shared`.
    """

    tokens: Sequence[Token]
    words: frozenset[str]
    alike: Callable[[int], Hashable]
    is_shared: bool = True
    has_keys: bool = False

    def key(self, place: int) -> Hashable:
        """Return what is equal for calls that have one name."""
        word = self.tokens[place].text.lower()
        if word in _OF_QUERY:
            return _call_key(self.tokens, place) if self.is_shared else place
        return self.alike(place) if word in _DATES or self.has_keys else place


def _name_calls(names: _Names) -> tuple[list[Edit], dict[str, str]]:
    """Return the edits that give the calls of some functions names of their own, and the function of each name."""
    shared: dict[Hashable, str] = {}
    edits: list[Edit] = []
    calls: dict[str, str] = {}
    for place, token in enumerate(names.tokens[:-1]):
        word = token.text.lower()
        if word in names.words and token.kind not in STRINGS and _is_expression(names.tokens, place):
            name = shared.setdefault(names.key(place), f"__{_SHOWN.get(word, word)}_call{len(calls)}")
            calls[name] = word
            edits.append((token.start, token.stop, name))
    return edits, calls


def _places_alike(text: str, tokens: Sequence[Token]) -> Callable[[int], Hashable]:
    """Return what tells the calls at two places apart: it is equal for those in one SELECT that are written alike.

    Their arguments must have the same types. So no two calls are alike where a name may mean two things in one SELECT: a column and an
    alias of the list, of which the list itself and GROUP BY mean the column, the variable of a lambda, a column before and after
    a step of a pipe.
    """
    scopes: list[Scopes] = []
    aliases: set[str] = set()
    variables = {fold_name(name) for word, name in pairwise(tokens) if word.word == "LAMBDA"}

    def key(place: int) -> Hashable:
        if not scopes:
            scopes.append(Scopes.of(tokens))
            aliases.update(_aliases(tokens))
        call = _call(tokens, place)
        names = {
            fold_name(token)
            for token, after in pairwise(call)
            if token.kind in {Kind.WORD, Kind.NAME} and not (after.is_sign(".") or after.is_sign("("))
        }
        # A name with a table before it is no alias.
        bare = {fold_name(token) for before, token in pairwise(call) if not before.is_sign(".")}
        is_certain = scopes[0].clauses[place] in _OF_COLUMNS or (names & bare).isdisjoint(aliases)
        if not names.isdisjoint(variables):
            return place
        return scopes[0].key(call, place) if is_certain else place

    return (lambda place: place) if "|>" in text or _LAMBDAS.search(text) else key


_LAMBDAS = re.compile(r"\)\s*->|\blambda\s*\w+\s*,", re.IGNORECASE)
"""Matches lambdas of several variables, or of one that stands in brackets."""
_OF_COLUMNS = frozenset(["SELECT", "GROUP"])
"""Clauses in which a name that is a column and an alias means the column."""


def _aliases(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the names that may be aliases: those behind AS, or behind a name, a value or a closing bracket.

    Words of expressions, as THEN and END, are none without AS.
    """
    for before, token in pairwise(tokens):
        if token.kind in {Kind.WORD, Kind.NAME}:
            is_behind_operand = before.kind is not Kind.SIGN or before.text in ")]}"
            is_bare = is_behind_operand and before.word not in BEFORE_OPERAND and token.word not in _OF_EXPRESSIONS
            if before.word == "AS" or is_bare:
                yield fold_name(token)


_OF_EXPRESSIONS = frozenset(
    [
        *("AND", "BETWEEN", "CASE", "ELSE", "END", "ESCAPE", "FALSE", "FROM", "ILIKE", "IN", "IS"),
        *("LIKE", "NOT", "NULL", "OR", "THEN", "TRUE", "WHEN"),
    ]
)
"""Words inside expressions that no dialect takes as an alias without AS."""


def _call_key(tokens: Sequence[Token], place: int) -> tuple[str, ...]:
    """Return the texts of the tokens of a call, which begins at a place."""
    return tuple(f"{token.kind}{token.text}" for token in _call(tokens, place))


def _call(tokens: Sequence[Token], place: int) -> Sequence[Token]:
    depth = 0
    for end in range(place + 1, len(tokens)):
        depth += tokens[end].is_sign("(") - tokens[end].is_sign(")")
        if depth == 0:
            break
    return tokens[place : end + 1]


def _is_expression(tokens: Sequence[Token], place: int) -> bool:
    """Return whether a scalar call, not a table function, begins at a place."""
    if not tokens[place + 1].is_sign("("):
        return False
    if tokens[place].text.lower() not in _TABLE_FUNCTIONS:
        return True
    clause, depth = "", 0
    for token in reversed(tokens[:place]):
        depth += token.is_sign(")") - token.is_sign("(")
        if depth < 0:
            return True
        if depth == 0 and token.word in _RELATIONS | {"SELECT", "ON", "WHERE", "BY", "HAVING", "VALUES"}:
            clause = token.word
            break
    return clause not in _RELATIONS


_DISTANCES = frozenset([*DISTANCES, COSINE_OR_SAME])
_TYPED = frozenset(
    [ROUNDED, *REALS.values(), OF_SECONDS, INTERVAL_LENGTH, INTERVAL_OF, VALUE_TEXT, ELEMENT_TEXTS, *READABLE]
)
"""Functions that are called with types that are known."""
_STRIPPED = CHECKED | {ROUNDED, *REALS.values()}
"""Functions that names of columns are shown without."""
_OF_QUERY = _DISTANCES | CHECKED
"""Functions whose calls that are written alike have one name in all of a query."""
_DATES = frozenset(DATE_NAMES)
NUMBERED = frozenset(FUNCTIONS) - _OF_QUERY - _DATES
"""Functions whose calls may have names of their own, so that DataFusion computes what is written twice twice."""
_TABLE_FUNCTIONS = frozenset(["range", "generate_series"])


def _register(
    context: SessionContext,
    budget: Budget,
    name: str,
    word: str,
    types: Sequence[pa.DataType],
    *,
    check: Callable[[], None],
) -> None:
    function = FUNCTIONS[word]
    if function.signature is not None:
        types = function.signature(types)
    kinds = [pa.null() if kind == NEVER else kind for kind in types]
    result = _result(function, word, kinds, is_final=NEVER not in types)

    def computed(*columns: pa.Array) -> pa.Array:
        check()
        # NULL alone is what even that signature takes.
        columns = tuple(pa.nulls(len(column)) if column.type == NEVER else column for column in columns)
        if pa.types.is_null(result):
            return pa.nulls(len(columns[0]))
        try:
            return function.compute(columns, budget.of(name)) if function.is_budgeted else function.compute(columns)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
            raise SqlError(
                f"{word} cannot be computed of these values: {exc}; expected others, or another type"
            ) from exc

    context.register_udf(udf(computed, list(types), result, "immutable", name))


def _result(function: TypedFunction, word: str, kinds: Sequence[pa.DataType], *, is_final: bool) -> pa.DataType:
    try:
        return function.result(word, kinds)
    except SqlError:
        if is_final:
            raise
        # The types that count come with DataFusion's refusal of this signature.
        return pa.null()


def arrow_types(context: SessionContext, text: str) -> list[pa.DataType]:
    """Parse types as DataFusion prints them, using DataFusion itself."""
    cursor = Cursor.over(text)
    names = [cursor.until(",")]
    while cursor.accept(","):
        names.append(cursor.until(","))
    quoted = [name.replace("'", "''") for name in names]
    columns = ", ".join(f"arrow_cast(NULL, '{name}') AS c{place}" for place, name in enumerate(quoted))
    return [field.type for field in context.sql_with_options(f"SELECT {columns}", QUERIES_ONLY).schema()]
