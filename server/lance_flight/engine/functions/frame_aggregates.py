"""Aggregates of DOUBLE over the frames of windows, computed from the rows of each frame alone.

A frame is the union of blocks of 1, 2, 4 … rows, and the state of such blocks is computed once for all frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial, reduce
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from datafusion import SessionContext, udwf
from datafusion.user_defined import WindowEvaluator

_Numbers: TypeAlias = npt.NDArray[np.float64]
_Places: TypeAlias = npt.NDArray[np.int64]
_State: TypeAlias = tuple[_Numbers, ...]
"""For each block: how many values it has, and their sum; or the count, the mean of x, that of y, and the sums of the squares and of the
products of what each value differs from its mean by (xx, xy, yy)."""
_Merge: TypeAlias = Callable[[_State, _State], _State]

PREFIX = "__frame_"
"""Beginning of the name of a function, before that of its aggregate."""


class Frames(Enum):
    """Sources of the frames of a function, by the end of its name."""

    ROWS = "_rows"
    """It takes the first and the last row of a frame, counted from its own."""
    RANGE = "_range"
    """It takes the key that rows are ordered by, as a BIGINT, what is added to it for the first and the last row, and -1 for DESC or 1."""
    FOUND = "_found"
    """DataFusion finds the frame of each row, and calls the function for it."""


UNBOUNDED = 2**62
"""More rows than a partition has, and a distance beyond that of all keys."""
_CHUNK = 1 << 16
"""Rows whose frames are computed at a time, unless frames are longer."""
_MOST = 2**63 - 1
_LOOKS = 1024
"""Frames between two looks whether the statement is over."""


def _add(one: _State, other: _State) -> _State:
    return one[0] + other[0], one[1] + other[1]


def _combine(one: _State, other: _State) -> _State:
    """Merge the moments of two blocks (Chan, Golub and LeVeque, 1979)."""
    count = one[0] + other[0]
    share = np.divide(other[0], count, out=np.zeros_like(count), where=count > 0)
    x, y = other[1] - one[1], other[2] - one[2]
    weight = one[0] * share
    merged = (
        count,
        one[1] + x * share,
        one[2] + y * share,
        one[3] + other[3] + x * x * weight,
        one[4] + other[4] + x * y * weight,
        one[5] + other[5] + y * y * weight,
    )
    # Infinity times the weight of no rows is no number.
    return tuple(
        np.where(one[0] == 0, right, np.where(other[0] == 0, left, both))
        for left, right, both in zip(one, other, merged, strict=True)
    )


def _sums(x: _Numbers, is_there: npt.NDArray[np.bool_], _: _Numbers) -> _State:
    return is_there.astype(np.float64), np.where(is_there, x, 0.0)


def _moments(x: _Numbers, is_there: npt.NDArray[np.bool_], y: _Numbers) -> _State:
    zeros = np.zeros(len(x))
    return is_there.astype(np.float64), np.where(is_there, x, 0.0), np.where(is_there, y, 0.0), zeros, zeros, zeros


def _divide(values: _Numbers, by: _Numbers, *, where: npt.NDArray[np.bool_]) -> pa.Array:
    """Return quotients, NULL elsewhere."""
    quotients = np.divide(values, by, out=np.zeros_like(values), where=where)
    return pa.array(quotients, mask=~where)


def _root(values: pa.Array) -> pa.Array:
    return pa.array(
        np.sqrt(values.to_numpy(zero_copy_only=False)), mask=values.is_null().to_numpy(zero_copy_only=False)
    )


def _of_sums(word: str, state: _State) -> pa.Array:
    count, total = state
    return _divide(total, count if word == "avg" else np.ones_like(count), where=count > 0)


def _of_moments(word: str, state: _State) -> pa.Array:
    """Return an aggregate of the moments, with DataFusion's NULL of one value, or of values that are all the same."""
    count, mean_x, mean_y, xx, xy, yy = state
    ones, several = np.ones_like(count), count > 1
    varies = several & (xx > 0)
    # The first argument of regressions is y: it is `x` here.
    regresses = several & (yy > 0)
    match word:
        case "var" | "stddev":
            answer = _divide(xx, count - 1, where=several)
        case "var_pop" | "stddev_pop":
            answer = _divide(xx, count, where=count > 0)
        case "covar_samp":
            answer = _divide(xy, count - 1, where=several)
        case "covar_pop":
            answer = _divide(xy, count, where=count > 0)
        case "corr":
            answer = _divide(xy, np.sqrt(xx * yy), where=varies & regresses)
        case "regr_slope":
            answer = _divide(xy, yy, where=regresses)
        case "regr_intercept":
            slope = np.divide(xy, yy, out=np.zeros_like(xy), where=regresses)
            answer = _divide(mean_x - slope * mean_y, ones, where=regresses)
        case "regr_r2":
            answer = _divide(xy * xy, xx * yy, where=varies & regresses)
        case _:
            of = {"regr_avgx": mean_y, "regr_avgy": mean_x, "regr_sxx": yy, "regr_syy": xx, "regr_sxy": xy}
            answer = _divide(of[word], ones, where=count > 0)
    return _root(answer) if word.startswith("stddev") else answer


def over_frames(states: _State, merge: _Merge, begin: _Places, size: _Places, check: Callable[[], None]) -> _State:
    """Return the state of frames, of which each begins with a row and has so many of them; `check` is called for each size of blocks.

    >>> begin, size = np.array([0, 1, 3]), np.array([3, 3, 0])
    >>> over_frames((np.ones(4), np.array([1e20, 1.0, 2.0, 3.0])), _add, begin, size, lambda: None)
    (array([3., 3., 0.]), array([1.e+20, 6.e+00, 0.e+00]))
    """
    found: _State = tuple(np.zeros(len(begin)) for _ in states)
    blocks, rows, longest = states, 1, int(size.max(initial=0))
    place = begin.copy()
    while rows <= longest:
        check()
        chosen = np.flatnonzero(size & rows)
        at = place[chosen]
        merged = merge(tuple(part[chosen] for part in found), tuple(part[at] for part in blocks))
        for part, new in zip(found, merged, strict=True):
            part[chosen] = new
        place[chosen] += rows
        blocks = merge(tuple(part[:-rows] for part in blocks), tuple(part[rows:] for part in blocks))
        rows *= 2
    return found


def row_frames(rows: int, first: int, last: int) -> tuple[_Places, _Places]:
    """Return where frames between two rows, counted from their own, begin and end.

    >>> row_frames(3, -1, 1)
    (array([0, 0, 1]), array([2, 3, 3]))
    """
    places = np.arange(rows)
    return np.clip(places + max(first, -rows), 0, rows), np.clip(places + min(last, rows) + 1, 0, rows)


def range_frames(key: pa.Array, first: int, last: int, order: int) -> tuple[_Places, _Places]:
    """Return where frames begin and end that have all rows with keys between two, of which all NULLs are at one end.

    Rows without a key have a frame of all of these.

    >>> range_frames(pa.array([1, 2, 2, 5, None]), -1, 0, 1)
    (array([0, 0, 0, 3, 4]), array([1, 3, 3, 4, 5]))
    """
    rows, is_there = len(key), key.is_valid().to_numpy(zero_copy_only=False)
    known = np.flatnonzero(is_there)
    begun, ended = (int(known[0]), int(known[-1]) + 1) if len(known) else (0, 0)
    keys = key.slice(begun, ended - begun).to_numpy(zero_copy_only=False).astype(np.int64)
    keys = keys if order > 0 else -np.maximum(keys, -_MOST)
    nulls = (0, begun) if begun else (ended, rows)
    begin, end = np.full(rows, nulls[0]), np.full(rows, nulls[1])
    begin[begun:ended] = np.searchsorted(keys, _reach(keys, first), side="left") + begun
    end[begun:ended] = np.searchsorted(keys, _reach(keys, last), side="right") + begun
    if first <= -UNBOUNDED:
        begin[:] = 0
    if last >= UNBOUNDED:
        end[:] = rows
    return begin, end


def _reach(keys: _Places, distance: int) -> _Places:
    """Return keys and a distance added up, as far as they are numbers of 64 bits."""
    return (
        np.minimum(keys, _MOST - distance) + distance
        if distance > 0
        else np.maximum(keys, -_MOST - 1 - distance) + distance
    )


class _Evaluator(WindowEvaluator):
    """Evaluates an aggregate over the frames of one partition."""

    def __init__(self, word: str, frames: Frames, check: Callable[[], None]) -> None:
        self._frames, self._check, self._calls = frames, check, 0
        self._columns = ARGUMENTS[word]
        self._last: tuple[tuple[int, int] | None, pa.Scalar] = None, pa.scalar(None)
        is_sum = word in SUMS
        self._begin: Callable[[_Numbers, npt.NDArray[np.bool_], _Numbers], _State] = _sums if is_sum else _moments
        self._merge: _Merge = _add if is_sum else _combine
        self._answer = partial(_of_sums if is_sum else _of_moments, word)

    def uses_window_frame(self) -> bool:
        return self._frames is Frames.FOUND

    def evaluate(self, values: list[pa.Array], eval_range: tuple[int, int]) -> pa.Scalar:
        self._calls += 1
        if self._calls % _LOOKS == 0:
            self._check()
        # Rows with one key have one frame, which may be long.
        if eval_range != self._last[0]:
            first, last = eval_range
            # The keys that rows are ordered by follow.
            states = self._states([value.slice(first, last - first) for value in values[: self._columns]])
            with np.errstate(all="ignore"):
                size = np.array([last - first])
                found = over_frames(states, self._merge, np.zeros(1, np.int64), size, lambda: None)
                self._last = eval_range, self._answer(found)[0]
        return self._last[1]

    def evaluate_all(self, values: list[pa.Array], num_rows: int) -> pa.Array:
        if self._frames is Frames.ROWS:
            *columns, first, last = values
            begin, end = row_frames(num_rows, first[0].as_py(), last[0].as_py())
        else:
            *columns, key, first, last, order = values
            begin, end = range_frames(key, first[0].as_py(), last[0].as_py(), order[0].as_py())
        if not num_rows:
            return pa.array([], pa.float64())
        with np.errstate(all="ignore"):
            return pa.concat_arrays(self._chunks(columns, begin, np.maximum(end - begin, 0)))

    def _chunks(self, columns: Sequence[pa.Array], begin: _Places, size: _Places) -> Iterator[pa.Array]:
        """Yield the aggregates of some frames at a time, each from the rows that these have."""
        step = max(_CHUNK, int(size.max(initial=0)))
        for at in range(0, len(begin), step):
            firsts, sizes = begin[at : at + step], size[at : at + step]
            low, high = int(firsts.min()), int((firsts + sizes).max())
            states = self._states([column.slice(low, high - low) for column in columns])
            yield self._answer(over_frames(states, self._merge, firsts - low, sizes, self._check))

    def _states(self, columns: Sequence[pa.Array]) -> _State:
        numbers = [column.to_numpy(zero_copy_only=False) for column in columns]
        is_there = reduce(np.logical_and, (column.is_valid().to_numpy(zero_copy_only=False) for column in columns))
        return self._begin(numbers[0], is_there, numbers[-1])


SUMS = frozenset(["sum", "avg"])
ARGUMENTS: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(["sum", "avg", "stddev", "stddev_pop", "var", "var_pop"], 1),
        **dict.fromkeys(["covar_samp", "covar_pop", "corr", "regr_slope", "regr_intercept", "regr_r2"], 2),
        **dict.fromkeys(["regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy"], 2),
    }
)
"""The aggregates, and how many columns each of them takes."""


_GIVEN: Mapping[Frames, int] = MappingProxyType({Frames.ROWS: 2, Frames.RANGE: 4, Frames.FOUND: 0})
"""How many numbers a function takes behind its columns."""


def register_frames(context: SessionContext, words: Iterable[str], check: Callable[[], None]) -> None:
    """Register the functions of some aggregates, which `check` now and then whether the statement is over."""
    for word in words:
        for frames, given in _GIVEN.items():
            taken = [*[pa.float64()] * ARGUMENTS[word], *[pa.int64()] * given]
            name = f"{PREFIX}{word}{frames.value}"
            context.register_udwf(
                udwf(partial(_Evaluator, word, frames, check), taken, pa.float64(), "immutable", name)
            )
