"""Aggregates of DOUBLE over frames that move on, which DataFusion 55 answers wrongly.

It takes the rows that leave a frame from the sum again, which keeps what they have rounded: of 1e20, 1 and 2 the sum of the last two was
0, after one NaN all sums were NaN, and correlations were 2. Such calls become those of `frame_aggregates`.

Of a frame of NULL alone it says that the exclusive or is 0, and `bool_and`, `bool_or` and `any_value` have no such frames: they are
`min`, `max` and `first_value`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

import pyarrow as pa
from datafusion import Expr, LogicalPlan, SessionContext
from datafusion.expr import WindowExpr

from lance_flight.engine.functions.frame_aggregates import ARGUMENTS, PREFIX, SUMS, UNBOUNDED, Frames, register_frames
from lance_flight.engine.plans.arithmetic import value_type
from lance_flight.engine.plans.nodes import nodes_of
from lance_flight.engine.sql.tokens import Edit, Kind, TokenPlaces, edit_text, outer_places, tokenize

_WINDOW = re.compile(r"\bOVER\b", re.IGNORECASE)
_UNIT = re.compile(r"\b(?:ROWS|RANGE|GROUPS)\s+[\w$']", re.IGNORECASE)
_UNITS = frozenset(["ROWS", "RANGE", "GROUPS"])
_SYNONYMS: Mapping[str, str] = MappingProxyType(
    {
        "mean": "avg",
        "stddev_samp": "stddev",
        "var_samp": "var",
        "var_sample": "var",
        "var_population": "var_pop",
        "covar": "covar_samp",
    }
)


_OF_TRUTH: Mapping[str, str] = MappingProxyType({"bool_and": "min", "bool_or": "max"})
_REWORDED = frozenset([*_OF_TRUTH, "any_value", "bit_xor"])
"""Aggregates that are written otherwise, whatever their types."""
_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "whole number": "CAST({} AS BIGINT)",
        "moment": "CAST({} AS BIGINT)",
        "date": "CAST(CAST({} AS TIMESTAMP(6)) AS BIGINT)",
    }
)
"""Keys of RANGE as numbers by their kinds: moments as microseconds."""
_MICROSECONDS: Mapping[str, int] = MappingProxyType(
    {"MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000}
    | {"HOUR": 3_600_000_000, "DAY": 86_400_000_000, "WEEK": 604_800_000_000}
)
_LENGTH = re.compile(r"\s*(?P<count>\d{1,9})\s+(?P<unit>[a-zA-Z]{1,12})\s*")
_DIRECTIONS = frozenset(["ASC", "DESC", "NULLS"])


@dataclass(slots=True)
class _Moving:
    """The aggregates over frames that move on, by name: those that DataFusion rounds, and those that are `exact`; the kinds of keys of RANGE."""

    rounded: Counter[str] = field(default_factory=Counter)
    exact: Counter[str] = field(default_factory=Counter)
    keys: set[str | None] = field(default_factory=set)

    @classmethod
    def of(cls, context: SessionContext, plan: LogicalPlan) -> _Moving:
        """Read the windows of a plan."""
        moving = cls()
        for node in nodes_of(plan):
            windows = node.to_variant()
            for window in windows.get_window_expr() if isinstance(windows, WindowExpr) else ():
                name, frame = windows.window_func_name(window), windows.get_frame(window)
                begin = frame.get_lower_bound()
                if name not in ARGUMENTS or (begin.is_preceding() and begin.is_unbounded()):
                    continue
                kind = value_type(context, node, Expr(windows.get_args(window)[0])) if name in SUMS else None
                (moving.exact if _is_exact(name, kind) else moving.rounded)[name] += 1
                if frame.get_frame_units().upper() == "RANGE":
                    keys = [value_type(context, node, Expr(key.expr())) for key in windows.get_sort_exprs(window)]
                    moving.keys.add(_key_kind(keys[0]) if len(keys) == 1 else None)
        return moving

    @property
    def key(self) -> str | None:
        """The text that makes a number of a key of RANGE; None where keys are none, or of several kinds."""
        return _KEYS.get(next(iter(self.keys)) or "") if len(self.keys) == 1 else None


def _is_exact(name: str, kind: pa.DataType | None) -> bool:
    """Return whether the sum of a type is exact, so that what leaves a frame leaves no trace; that of an unknown one stays DataFusion's."""
    if name not in SUMS:
        return False
    return kind is None or not (pa.types.is_floating(kind) or (name == "avg" and pa.types.is_integer(kind)))


def _key_kind(kind: pa.DataType | None) -> str | None:
    """Return the kind of a key of RANGE that is a number of 64 bits."""
    if kind is None or kind == pa.uint64():
        return None
    if pa.types.is_integer(kind):
        return "whole number"
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return "moment"
    return "date" if pa.types.is_date32(kind) else None


def may_move(text: str) -> bool:
    """Return whether a query may have an aggregate over frames that move on."""
    return _WINDOW.search(text) is not None and _UNIT.search(text) is not None


def with_exact_frames(
    context: SessionContext,
    text: str,
    plan: LogicalPlan,
    planned: Callable[[str], LogicalPlan],
    check: Callable[[], None],
) -> str:
    """Return a query whose aggregates of DOUBLE over frames that move on are calls of `frame_aggregates`, which are registered in its context.

    Its `plan` tells their types. Where it has those of other types by the same name, each call is tried, and `planned`. The functions
    `check` whether the statement is over.
    """
    moving = _Moving.of(context, plan)
    register_frames(context, moving.rounded, check)
    calls = list(_calls(text, TokenPlaces(tokenize(text)), moving.key))
    of_both = moving.rounded.keys() & moving.exact.keys()
    sure = moving.rounded.keys() - of_both | _REWORDED
    edits = [call.edit() for call in calls if call.word in sure]
    for call in calls:
        if call.word in of_both:
            # A call around it is planned with a type that the sum would not have.
            with suppress(Exception):
                tried = _Moving.of(context, planned(edit_text(text, [*edits, call.edit()])))
                edits += [call.edit()] if tried.exact[call.word] == moving.exact[call.word] else []
    return edit_text(text, edits)


@dataclass(frozen=True, slots=True)
class _Call:
    """An aggregate over frames that move on: its name, the texts of its values and of its FILTER, and its frames with what their function is given.

    Its text begins at `start`, the brackets of its arguments and its FILTER end at `stop`, and its window ends at `end`.
    """

    text: str
    word: str
    values: Sequence[str]
    condition: str | None
    frames: tuple[Frames, Sequence[str]]
    start: int
    stop: int
    end: int

    def edit(self) -> Edit:
        """Return the edit that makes another call of it.

        >>> called = "avg(a + 1) FILTER (WHERE b) OVER (PARTITION BY c ORDER BY d ROWS 6 PRECEDING)"
        >>> edit_text(called, [call.edit() for call in _calls(called, TokenPlaces(tokenize(called)), None)])
        '__frame_avg_rows(CASE WHEN b THEN CAST(a + 1 AS DOUBLE) END, -6, 0) OVER (PARTITION BY c ORDER BY d ROWS 6 PRECEDING)'
        >>> called = "bit_xor(a) OVER (ROWS 1 PRECEDING)"
        >>> edit_text(called, [call.edit() for call in _calls(called, TokenPlaces(tokenize(called)), None)])
        'CASE WHEN count(a) OVER (ROWS 1 PRECEDING) > 0 THEN bit_xor(a) OVER (ROWS 1 PRECEDING) END'
        """
        match self.word:
            case "bool_and" | "bool_or":
                return self.start, self.start + len(self.word), _OF_TRUTH[self.word]
            case "bit_xor":
                call = self.text[self.start : self.end]
                counted = f"count{call.removeprefix(self.text[self.start : self.start + len(self.word)])}"
                return self.start, self.end, f"CASE WHEN {counted} > 0 THEN {call} END"
            case "any_value":
                return self.start, self.stop, f"first_value({self._of_condition(self.values[0])}) IGNORE NULLS"
        frames, given = self.frames
        first, *others = [f"CAST({value} AS DOUBLE)" for value in self.values]
        arguments = ", ".join([self._of_condition(first), *others, *given])
        return self.start, self.stop, f"{PREFIX}{self.word}{frames.value}({arguments})"

    def _of_condition(self, value: str) -> str:
        return value if self.condition is None else f"CASE WHEN {self.condition} THEN {value} END"


def _calls(text: str, places: TokenPlaces, key: str | None) -> Iterator[_Call]:
    """Yield the aggregates over frames that move on; `key` makes a number of a key of RANGE."""
    tokens, closing = places.tokens, places.closing_brackets
    for at, token in enumerate(tokens[:-1]):
        word = _SYNONYMS.get(token.text.lower(), token.text.lower())
        wanted, end = ARGUMENTS.get(word, int(word in _REWORDED)), closing.get(at + 1)
        if not wanted or end is None or token.kind not in {Kind.WORD, Kind.NAME}:
            continue
        inner = closing.get(end + 2, end) if places.word_at(end + 1) == "FILTER" else end
        over = inner + 2
        if places.word_at(inner + 1) != "OVER" or over not in closing:
            continue
        frames = _frame(text, places, range(over + 1, closing[over]), key)
        parts = [part for part in _parts(places, range(at + 2, end)) if part]
        if frames is None or len(parts) != wanted or places.word_at(at + 2) in {"DISTINCT", "ALL"}:
            continue
        values = [_written(text, places, part) for part in parts]
        condition = _written(text, places, range(end + 4, inner)) if inner > end else None
        yield _Call(text, word, values, condition, frames, token.start, tokens[inner].stop, tokens[closing[over]].stop)


def _written(text: str, places: TokenPlaces, part: range) -> str:
    return text[places.tokens[part[0]].start : places.tokens[part[-1]].stop]


def _parts(places: TokenPlaces, within: range) -> Iterator[range]:
    """Yield what stands between the commas of a list outside of brackets."""
    outer = outer_places(places.closing_brackets, within)
    commas = [at for at in outer if places.is_sign(at, ",")]
    for before, after in pairwise([within.start - 1, *commas, within.stop]):
        yield range(before + 1, after)


def _frame(text: str, places: TokenPlaces, window: range, key: str | None) -> tuple[Frames, Sequence[str]] | None:
    """Return the frames of a window, with what their function is given; None where they never move on."""
    units = (at for at in outer_places(places.closing_brackets, window) if places.word_at(at) in _UNITS)
    begun = next((at for at in units if at == window.start or places.ends_operand(at - 1)), None)
    if begun is None:
        return None
    words = [places.text(place).upper() for place in range(begun + 1, window.stop)]
    first, last = words, ["CURRENT", "ROW"]
    if words[:1] == ["BETWEEN"] and "AND" in words:
        first, last = words[1 : words.index("AND")], words[words.index("AND") + 1 :]
    if first == ["UNBOUNDED", "PRECEDING"]:
        return None
    ends = [_distance(bound) for bound in (first, last)]
    numbers = [str(end) for end in ends if end is not None]
    unit = places.word_at(begun)
    if len(numbers) < len(ends) or unit == "GROUPS" or (unit == "RANGE" and key is None):
        return Frames.FOUND, ()
    if unit == "ROWS":
        return Frames.ROWS, numbers
    ordered = next((at for at in outer_places(places.closing_brackets, window) if places.word_at(at) == "ORDER"), None)
    keys = [] if ordered is None else list(_parts(places, range(ordered + 2, begun)))
    if key is None or len(keys) != 1:
        return Frames.FOUND, ()
    end = next(
        (at for at in outer_places(places.closing_brackets, keys[0]) if places.word_at(at) in _DIRECTIONS), keys[0].stop
    )
    order = "-1" if places.word_at(end) == "DESC" else "1"
    return Frames.RANGE, [key.format(_written(text, places, range(keys[0].start, end))), *numbers, order]


def _distance(bound: Sequence[str]) -> int | None:
    """Return how far a bound is from its row, in rows, numbers or microseconds; None where that has no fixed length.

    >>> _distance(["3", "PRECEDING"]), _distance(["INTERVAL", "2 DAYS", "FOLLOWING"]), _distance(["INTERVAL", "1 MONTH", "PRECEDING"])
    (-3, 172800000000, None)
    """
    match bound:
        case ["CURRENT", "ROW"]:
            return 0
        case ["UNBOUNDED", "FOLLOWING"]:
            return UNBOUNDED
        case [count, ("PRECEDING" | "FOLLOWING") as side] if count.isdecimal() and int(count) < UNBOUNDED:
            length = int(count)
        case ["INTERVAL", *span, ("PRECEDING" | "FOLLOWING") as side]:
            match = _LENGTH.fullmatch(" ".join(span))
            unit = None if match is None else _MICROSECONDS.get(match["unit"].upper().removesuffix("S"))
            if match is None or unit is None:
                return None
            length = int(match["count"]) * unit
        case _:
            return None
    return -length if side == "PRECEDING" else length
