"""Numbers, intervals and timestamps of a query answered as PostgreSQL and DuckDB do where DataFusion 55 answers otherwise: one rewrite after another.

Most need the types of operands, which only a plan knows: the query is planned with the operands in functions that refuse them, which
tells their types, and then rewritten (`engine.compat.operand_types`).

**AT TIME ZONE** is that of PostgreSQL and DuckDB: a moment becomes the local time of a zone, and a local time the moment, which is one in UTC.

DataFusion 55 gives a moment in the zone for both, of nanoseconds: the wall clock of another zone behind a second AT TIME ZONE is that of
the first moment. The types of operands tell which of both is meant, so those within an operand, and within a query below, come first.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, LogicalPlan, SessionContext

from lance_flight.engine.compat.casts import (
    OF_SECONDS,
    READABLE_CASTS,
    TextCasts,
    may_cast_to_integers,
    may_cast_to_reals,
    may_cast_to_texts,
    may_join_lists,
    may_make_timestamps,
    with_cast_operands,
    with_element_texts,
    with_fitting_reals,
    with_joined_lists,
    with_real_operands,
    with_rounded_casts,
    with_seconds,
    with_texts,
    with_timestamps_of_seconds,
    with_value_texts,
)
from lance_flight.engine.compat.checked_arithmetic import BEYOND, REALS, ROUNDED, Factors, has_arithmetic
from lance_flight.engine.compat.operand_types import (
    MOST_OPERANDS,
    OPERAND,
    Span,
    check_ordered,
    may_compare_intervals,
    may_compare_zoned_texts,
    may_compute,
    may_make_nan,
    may_meet_moments,
    may_order_nested,
    may_sum,
    may_take_parts,
    named_alike,
    with_compared,
    with_doubles,
    with_exact_unsigned,
    with_interval_lengths,
    with_local_texts,
    with_measured,
    with_members,
    with_moments,
    with_one_kind,
    with_one_nan,
    with_one_zero,
    with_operands,
    with_ordered,
    with_parts_of_spans,
    with_results,
    with_summed,
    with_terms,
    with_timestamps,
    with_wide_sums,
)
from lance_flight.engine.compat.wrong_comparisons import may_compare_bits
from lance_flight.engine.functions.date_spans import INTERVAL_LENGTH, INTERVAL_OF, LOCAL_MOMENT
from lance_flight.engine.functions.value_texts import ELEMENT_TEXTS, VALUE_TEXT
from lance_flight.engine.plans.arithmetic import (
    are_doubles_decimals,
    has_decimals_and_doubles,
    may_overflow,
    with_decimal_numbers,
)
from lance_flight.engine.plans.bounds import with_coercions, with_joined_subqueries
from lance_flight.engine.sql.clause_words import QUERIES
from lance_flight.engine.sql.tokens import Edit, Kind, edit_text, tokenize
from lance_flight.engine.translation.typed_calls import TypedCalls
from lance_flight.errors import LanceFlightError, SqlError, Unsupported
from lance_flight.model.arrow_types import UNIT_NAMES
from lance_flight.model.zones import named_zone

_AT = re.compile(r"\bAT\s+TIME\s+ZONE\b", re.IGNORECASE)
_WORDS = ("AT", "TIME", "ZONE")


def may_convert_zones(text: str) -> bool:
    """Return whether a query may convert a time to another zone."""
    return _AT.search(text) is not None


def with_converted(text: str) -> tuple[str, list[str]]:
    """Return a text with the operands that are converted next in functions that tell their types, and the names of the functions.

    >>> with_converted("SELECT a AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo', b + c::TIMESTAMP AT TIME ZONE 'UTC'")[0]
    "SELECT __operand_call0(a) AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo', b + __operand_call1(c::TIMESTAMP) AT TIME ZONE 'UTC'"
    """
    factors = Factors(tokenize(text))
    return named_alike(text, factors, _next_operands(factors))


def with_zones(
    text: str, names: Sequence[str], types: Mapping[str, pa.DataType], count: int
) -> tuple[str, frozenset[str]]:
    """Return the text with calls in place of the conversions of these operands, and the names of those that give the moment of a local time.

    The query has `count` calls before.
    """
    factors = Factors(tokenize(text))
    edits: list[Edit] = []
    named: dict[str, str] = {}
    for (start, stop), name in zip(_next_operands(factors), names, strict=True):
        zone, kind = factors.tokens[stop + len(_WORDS)], types.get(name)
        if kind is None:
            continue
        if named_zone(zone.text) is None:
            raise SqlError(f"time zone {zone.text!r} is not known; expected one as 'Europe/Berlin' or '+02:00'")
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            before = "to_local_time(arrow_cast("
            behind = f", 'Timestamp({UNIT_NAMES[kind.unit]}, Some(\"{zone.text}\"))'))"
        else:
            call = named.setdefault(name, f"__{LOCAL_MOMENT}_call{count + len(named)}")
            is_text = not (pa.types.is_timestamp(kind) or pa.types.is_date(kind))
            before, behind = f"{call}({'CAST(' * is_text}", f"{' AS TIMESTAMP(6))' * is_text}, '{zone.text}')"
        edits.append((factors.tokens[start].start, factors.tokens[start].start, before))
        edits.append((factors.tokens[stop - 1].stop, zone.stop, behind))
    return edit_text(text, edits), frozenset(named.values())


def _next_operands(factors: Factors) -> list[Span]:
    """Return the operands of AT TIME ZONE that have none within them, of one of the queries that stand deepest within others."""
    queries = _queries_of_conversions(factors)
    places = list(queries)
    first: list[Span] = []
    for number, at in enumerate(places):
        # The conversion of a conversion, of which there may be a long chain, begins where the first one does.
        if number == 0 or places[number - 1] + len(_WORDS) + 1 != at:
            start = factors.left_of(at, "*")
            if start < at and bisect_left(places, start) == number:
                first.append((start, at))
    deepest = max((queries[at] for _, at in first), key=len, default=())
    return [span for span in first if queries[span[1]] == deepest]


def _queries_of_conversions(factors: Factors) -> dict[int, tuple[int, ...]]:
    """Return the place of each AT TIME ZONE 'zone', with the brackets of the queries around it."""
    around: tuple[int, ...] = ()
    queries: dict[int, tuple[int, ...]] = {}
    for at, token in enumerate(factors.tokens):
        while around and factors.partners[around[-1]] <= at:
            around = around[:-1]
        if token.is_sign("(") and factors.word_at(at + 1) in QUERIES and at in factors.partners:
            around = (*around, at)
        is_conversion = tuple(factors.word_at(at + step) for step in range(len(_WORDS))) == _WORDS
        if is_conversion and factors.kind(at + len(_WORDS)) is Kind.STRING:
            queries[at] = around
    return queries


_MOST_ROUNDS, _MOST_REPEATS = 4, 32
_FLOAT, _FRACTIONS, _DOUBLE = re.compile("Float"), re.compile("Float|Decimal"), re.compile("Float64")
_TEXT = re.compile("Utf8")
_UNSIGNED = re.compile("UInt")
_DURATION = re.compile(r"Duration\(")
_DATE, _TIMESTAMP, _OF_NANOSECONDS = re.compile("Date32"), re.compile(r"Timestamp\("), " AS Timestamp(ns"
_OWN_TEXTS = re.compile("Binary|Float|Date64|Timestamp|Time32|Time64|Interval|Duration|List|Struct|Map")
_HAVE_NO_COMMON_TYPE = re.compile(r"Time(?:32|64)\(|Binary"), re.compile("coerc|common|compar|compatible|unify")
"""Both match DataFusion's refusal of times of several units, or of several kinds of binary values."""
_MAKES_OWN_TEXTS = re.compile(
    r"_call\d|\[|\b(?:\w*(?:array|list|map|struct|split|time|date|interval|agg|unnest)\w*|now|row|range|generate_series)\b",
    re.IGNORECASE,
)
"""Matches what may make values that have their own texts."""
_LONG_DECIMAL = "Decimal128(38, "

Types = Mapping[str, pa.DataType]
Planned = tuple[TypedCalls, DataFrame]
"""A query, and its plan."""


def has_wide_sums(plan: LogicalPlan) -> bool:
    """Return whether a plan may have sums of decimals that leave 38 digits, or of unsigned numbers that leave 64 bits."""
    shown = plan.display_indent_schema()
    return (_LONG_DECIMAL in shown or "UInt64" in shown) and may_sum(shown)


def _has(kind: re.Pattern[str], frame: DataFrame) -> bool:
    """Return whether a plan has columns or literals of a kind."""
    return kind.search(frame.logical_plan().display_indent_schema()) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _TypedRewrite:
    """Rewrite by the types of operands: `ask` puts these into functions that tell them, `change` makes the query of them.

    `may_change` says whether that is worth it, and `is_needed` by the plan, where a text and types tell too little. One that `repeats`
    is made until it changes nothing: what it makes of operands may be an operand itself. What has no plan so is refused with a
    `refusal`; without one it stays as it is.
    """

    may_change: Callable[[str, DataFrame], bool]
    ask: Callable[[str], tuple[str, list[str]]]
    change: Callable[[TypedCalls, Sequence[str], Types], TypedCalls]
    refusal: str | None = None
    is_needed: Callable[[LogicalPlan], bool] | None = None
    repeats: bool = False


def _in_calls(
    word: str, change: Callable[[str, Sequence[str], Types], tuple[str, dict[str, pa.DataType]]]
) -> Callable[[TypedCalls, Sequence[str], Types], TypedCalls]:
    """Return the change that puts operands into calls of a function."""
    return lambda calls, names, types: calls.with_typed(word, *change(calls.sql, names, types))


def _readable(casts: TextCasts) -> _TypedRewrite:
    """Return the rewrite of what is cast."""
    return _TypedRewrite(
        may_change=lambda sql, frame: casts.are_in(sql) and _has(_TEXT, frame),
        ask=casts.with_operands,
        change=_in_calls(casts.function, casts.with_readable_texts),
    )


_WIDE_NUMBERS = (
    # Sums of long decimals do not wrap.
    _TypedRewrite(
        may_change=lambda sql, frame: may_sum(sql) and has_wide_sums(frame.logical_plan()),
        ask=with_summed,
        change=lambda calls, names, types: replace(calls, sql=with_wide_sums(calls.sql, names, types)),
        refusal=(
            "sums of this statement may leave DECIMAL(38, s), and it cannot be planned with a check of that; write sum(CAST(a AS DOUBLE)),"
            " or sum(CAST(a AS DECIMAL(28, s)))"
        ),
    ),
    # Whole numbers do not wrap, and have whole quotients.
    _TypedRewrite(
        may_change=lambda sql, frame: may_compute(sql) and _has(_UNSIGNED, frame),
        ask=with_terms,
        change=lambda calls, names, types: replace(calls, sql=with_exact_unsigned(calls.sql, names, types)),
        refusal=(
            "arithmetic of unsigned numbers may leave their bits, and this statement cannot be planned with a check of that; write CAST(a AS BIGINT),"
            " or CAST(a AS DECIMAL(20, 0))"
        ),
    ),
)
_NUMBERS = (
    # Casts of doubles and decimals to integers round.
    _TypedRewrite(
        may_change=lambda sql, frame: may_cast_to_integers(sql) and _has(_FRACTIONS, frame),
        ask=with_cast_operands,
        change=_in_calls(ROUNDED, with_rounded_casts),
        refusal="a cast to an integer rounds, and this statement cannot be planned so; write CAST(round(a) AS BIGINT)",
    ),
    # A double that REAL has not is no infinity.
    *(
        _TypedRewrite(
            may_change=lambda sql, frame: may_cast_to_reals(sql) and _has(_DOUBLE, frame),
            ask=partial(with_real_operands, word),
            change=_in_calls(function, partial(with_fitting_reals, word)),
        )
        for word, function in REALS.items()
    ),
    # Timestamps of seconds do not end in 2262.
    _TypedRewrite(
        may_change=lambda sql, _: may_make_timestamps(sql),
        ask=with_seconds,
        change=_in_calls(OF_SECONDS, with_timestamps_of_seconds),
    ),
    # Intervals are compared by their lengths.
    _TypedRewrite(
        may_change=lambda sql, _: may_compare_intervals(sql),
        ask=with_compared,
        change=_in_calls(INTERVAL_LENGTH, with_interval_lengths),
        refusal="an INTERVAL is compared by its length, and this statement cannot be planned so; write date_diff('second', a, b) > 86400",
    ),
)


def _adds_nanoseconds(plan: LogicalPlan) -> bool:
    return _OF_NANOSECONDS in with_coercions(plan).display_indent()


def _unordered(calls: TypedCalls, names: Sequence[str], types: Types) -> TypedCalls:
    """Return the query; `Unsupported` where it orders lists or structs."""
    check_ordered(calls.sql, names, types)
    return calls


_NESTED = _TypedRewrite(
    may_change=lambda sql, frame: may_order_nested(sql, frame.logical_plan().display_indent_schema()),
    ask=with_ordered,
    change=_unordered,
)
# Dates beside timestamps are timestamps of microseconds: DataFusion 55 takes nanoseconds, which the year 9999 is not in.
_MOMENTS = _TypedRewrite(
    may_change=lambda sql, frame: may_meet_moments(sql) and _has(_DATE, frame) and _has(_TIMESTAMP, frame),
    ask=with_moments,
    change=lambda calls, names, types: replace(calls, sql=with_timestamps(calls.sql, names, types)),
    is_needed=_adds_nanoseconds,
    repeats=True,
)


def _converted(calls: TypedCalls, sql: str, names: AbstractSet[str]) -> TypedCalls:
    """Return the query as `sql`, in which calls of these names give the moments of local times."""
    return replace(calls, sql=sql, calls={**calls.calls, **dict.fromkeys(names, LOCAL_MOMENT)})


# Moments and local times are converted as in PostgreSQL and DuckDB.
_ZONES = _TypedRewrite(
    may_change=lambda sql, _: may_convert_zones(sql),
    ask=with_converted,
    change=lambda calls, names, types: _converted(calls, *with_zones(calls.sql, names, types, len(calls.calls))),
    refusal="AT TIME ZONE makes a local time of a moment, and a moment of a local time, and this statement cannot be planned so",
    repeats=True,
)
_LOCAL_TEXTS = _TypedRewrite(
    may_change=lambda sql, _: may_compare_zoned_texts(sql),
    ask=with_moments,
    change=lambda calls, names, types: replace(calls, sql=with_local_texts(calls.sql, names, types)),
    refusal="a text with a zone meets others in this statement, which cannot be planned so; write TIMESTAMP or TIMESTAMPTZ before it",
)
_TEXTS = (
    # Texts of moments, intervals and lists are those of DuckDB.
    _TypedRewrite(
        may_change=lambda sql, frame: (
            may_cast_to_texts(sql) and (_MAKES_OWN_TEXTS.search(sql) is not None or _has(_OWN_TEXTS, frame))
        ),
        ask=with_texts,
        change=_in_calls(VALUE_TEXT, with_value_texts),
    ),
    _TypedRewrite(
        may_change=lambda sql, _: may_join_lists(sql),
        ask=with_joined_lists,
        change=_in_calls(ELEMENT_TEXTS, with_element_texts),
    ),
    # Texts that become moments need no seconds, and those that become numbers may have exponents.
    *map(_readable, READABLE_CASTS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberRewriting:
    """Rewrites of one query. `plan` plans it with its calls, `optimise` gives the optimised plan of a frame, `call` calls DataFusion.

    Where it `is_bound` its parameters have values; what cannot be rewritten without them is left as it is.
    """

    context: SessionContext
    plan: Callable[[TypedCalls], DataFrame]
    optimise: Callable[[DataFrame], LogicalPlan]
    call: Callable[[Callable[[], Any]], Any]
    is_bound: bool
    is_view: bool

    def rewrite(self, calls: TypedCalls, frame: DataFrame) -> Planned:
        """Return a query whose numbers are right, and its plan."""
        steps: tuple[Callable[[TypedCalls, DataFrame], Planned], ...] = (
            *(partial(self._with_typed, rewrite) for rewrite in (_NESTED, _LOCAL_TEXTS, _ZONES, _MOMENTS)),
            self._with_decimals,
            self._with_doubles,
            *(partial(self._with_typed, rewrite) for rewrite in _WIDE_NUMBERS),
            self._with_checks,
            *(partial(self._with_typed, rewrite) for rewrite in _NUMBERS),
            self._with_parts_of_spans,
            *(partial(self._with_typed, rewrite) for rewrite in _TEXTS),
            self._with_one_nan,
            self._with_one_zero,
        )
        for step in steps:
            calls, frame = step(calls, frame)
        return calls, frame

    def with_common_types(self, calls: TypedCalls, refusal: str) -> TypedCalls:
        """Return a query that DataFusion refused with casts of the times and binary values that it has no common type of; the same if it has none."""
        if not all(words.search(refusal) for words in _HAVE_NO_COMMON_TYPE):
            return calls
        sql, names = with_members(calls.sql)
        asking = calls.asking(sql, names)
        with suppress(SqlError, Unsupported):
            self.optimise(self.plan(asking))
        return replace(calls, sql=with_one_kind(calls.sql, names, asking.operand_types()))

    def _with_decimals(self, calls: TypedCalls, frame: DataFrame) -> Planned:
        """Numbers beside decimals are decimals."""

        def planned(sql: str) -> DataFrame:
            return self.plan(replace(calls, sql=sql))

        exact = with_decimal_numbers(calls.sql, frame, planned, self.context, self.call)
        return (calls, frame) if exact == calls.sql else (replace(calls, sql=exact), planned(exact))

    def _with_doubles(self, calls: TypedCalls, frame: DataFrame) -> Planned:
        """Decimals are doubles where they meet these."""
        if not self._are_doubles_decimals(frame):
            return calls, frame
        refused: LanceFlightError | None = None
        for _ in range(_MOST_ROUNDS):
            # A value of such operands is an operand itself.
            sql, names = with_operands(calls.sql)
            if sum(map(len, names)) > MOST_OPERANDS:
                break
            asking = calls.asking(sql, chain(*names))
            try:
                self.plan(asking)
                typed_calls = replace(calls, sql=with_doubles(calls.sql, names, asking.operand_types()))
                frame = self.plan(typed_calls)
                if not self._are_doubles_decimals(frame):
                    return typed_calls, frame
            except (SqlError, Unsupported) as exc:
                refused = exc
                break
            if typed_calls.sql == calls.sql:
                break
            calls = typed_calls
        raise Unsupported(
            "DECIMAL meets DOUBLE or REAL in this statement, which DataFusion makes DECIMAL(30, 15) of; write CAST(… AS DOUBLE) around"
            " the DECIMAL, or CAST(… AS DECIMAL(p, s)) around the other"
        ) from refused

    def _are_doubles_decimals(self, frame: DataFrame) -> bool:
        # Asked here, since most queries have no such types, and each step of planning goes to another thread.
        return has_decimals_and_doubles(frame) and self.call(partial(are_doubles_decimals, frame, self.context))

    def _with_checks(self, calls: TypedCalls, frame: DataFrame) -> Planned:
        """Integers stay within BIGINT."""
        if not has_arithmetic(calls.sql) or not may_overflow(
            self.context, with_joined_subqueries(frame.logical_plan())
        ):
            return calls, frame
        checked = calls.with_checks()
        try:
            return checked, self.plan(checked)
        except (SqlError, Unsupported) as exc:
            if BEYOND in str(exc):
                raise
            # What is wrong without the check is said in its words.
            self.optimise(frame)
            raise Unsupported(
                "integers of this statement may leave BIGINT, and it cannot be planned with a check of that; write"
                f" CAST(… AS DECIMAL(38, 0)) for an operand of each sum ({exc})"
            ) from exc

    def _with_typed(self, rewrite: _TypedRewrite, calls: TypedCalls, frame: DataFrame) -> Planned:
        for _ in range(_MOST_REPEATS if rewrite.repeats else 1):
            if not rewrite.may_change(calls.sql, frame) or not self._is_needed(rewrite, frame):
                return calls, frame
            before = calls
            calls, frame = self._asked(rewrite, before, frame)
            if calls is before:
                return calls, frame
        if rewrite.repeats and rewrite.refusal is not None and rewrite.may_change(calls.sql, frame):
            raise Unsupported(f"{rewrite.refusal}: expected at most {_MOST_REPEATS}, one within or after another")
        return calls, frame

    def _is_needed(self, rewrite: _TypedRewrite, frame: DataFrame) -> bool:
        return rewrite.is_needed is None or self.call(partial(rewrite.is_needed, frame.logical_plan()))

    def _asked(self, rewrite: _TypedRewrite, calls: TypedCalls, frame: DataFrame) -> Planned:
        sql, names = rewrite.ask(calls.sql)
        return self._as_typed(
            calls,
            frame,
            calls.asking(sql, names),
            lambda types: rewrite.change(calls, names, types),
            rewrite.refusal,
        )

    def _with_parts_of_spans(self, calls: TypedCalls, frame: DataFrame) -> Planned:
        """Parts of a difference of timestamps are those of an interval."""
        if not may_take_parts(calls.sql):
            return calls, frame
        has_durations = _has(_DURATION, frame)
        sql, names = with_measured(calls.sql, has_durations=has_durations)
        return self._as_typed(
            calls,
            frame,
            calls.asking(sql, names),
            lambda types: calls.with_typed(
                INTERVAL_OF, *with_parts_of_spans(calls.sql, names, types, has_durations=has_durations)
            ),
            "this statement cannot be planned with parts of a difference of timestamps; write date_diff('hour', a, b)",
        )

    def _with_one_nan(self, calls: TypedCalls, frame: DataFrame) -> Planned:
        """A computed NaN has no sign: 0 / 0 has one on x86, and is less than all to DataFusion."""
        if not (self.is_view or may_make_nan(calls.sql)) or not _has(_FLOAT, frame):
            return calls, frame
        sql, names = with_results(calls.sql)
        return self._as_typed(
            calls,
            frame,
            calls.asking(sql, names),
            lambda types: replace(calls, sql=with_one_nan(calls.sql, names, types)),
        )

    def _with_one_zero(self, calls: TypedCalls, frame: DataFrame) -> Planned:
        """Computed zeros of both signs are one value."""
        if not may_compare_bits(calls.sql) or not _has(_FLOAT, frame):
            return calls, frame
        sql, names = with_operands(calls.sql, of_bits=True)
        return self._as_typed(
            calls,
            frame,
            calls.asking(sql, chain(*names)),
            lambda types: replace(calls, sql=with_one_zero(calls.sql, names, types)),
        )

    def _as_typed(
        self,
        calls: TypedCalls,
        frame: DataFrame,
        asking: TypedCalls,
        rewrite: Callable[[Types], TypedCalls],
        refusal: str | None = None,
    ) -> Planned:
        """Return a query as `rewrite` makes it of the types that planning `asking` tells, and its plan.

        Where it has no plan so, it is refused with what to write; without a `refusal` it stays as it is.
        """
        operands = [name for name, word in asking.calls.items() if word == OPERAND]
        if not operands or (refusal is None and len(operands) > MOST_OPERANDS):
            return calls, frame
        try:
            self.plan(asking)
        except (SqlError, Unsupported) as exc:
            # The digits of a decimal may change as DataFusion optimises: it is one.
            if not set(operands) <= asking.types.keys():
                if refusal is None or not self.is_bound:
                    return calls, frame
                self.optimise(frame)
                raise Unsupported(f"{refusal} ({exc})") from exc
        typed_calls = rewrite(asking.operand_types())
        if typed_calls.sql == calls.sql:
            return calls, frame
        try:
            return typed_calls, self.plan(typed_calls)
        except (SqlError, Unsupported):
            if refusal is not None:
                raise
            return calls, frame  # a key that is selected too, and must be the same there
