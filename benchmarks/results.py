"""One line of the table: a number of ours, the limit it stands beside, and what was aimed at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

HEADINGS = ("area", "what", "ours", "limit", "ratio", "aim", "")
LEFT_ALIGNED = (0, 1, 5, 6)


@dataclass(frozen=True, slots=True)
class Unit:
    """How a number in base units (seconds, bytes, rows per second …) is shown."""

    name: str
    scale: float = 1.0
    digits: int = 1

    def show(self, value: float) -> str:
        """The number with its unit."""
        return f"{value * self.scale:,.{self.digits}f} {self.name}"


ROWS_PER_SECOND = Unit("M rows/s", 1e-6, 2)
SECONDS = Unit("s", digits=2)
MILLISECONDS = Unit("ms", 1e3, 1)
FINE_MILLISECONDS = Unit("ms", 1e3, 2)
MEBIBYTES = Unit("MiB", 1 / (1 << 20), 0)
FINE_MEBIBYTES = Unit("MiB", 1 / (1 << 20), 2)
COMMITS_PER_SECOND = Unit("commits/s")
QUERIES_PER_SECOND = Unit("queries/s")
ERRORS = Unit("errors", digits=0)


@dataclass(frozen=True, slots=True)
class Aim:
    """A bound on the ratio, or on our number itself."""

    on: Literal["ratio", "ours"]
    sign: Literal["≥", "≤"]
    bound: float

    def holds(self, value: float) -> bool:
        """Whether `value` is on the right side."""
        return value >= self.bound if self.sign == "≥" else value <= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measurement; `ratio` is ours ÷ limit, in the unit of both."""

    what: str
    ours: float
    unit: Unit
    limit: float | None = None
    aims: tuple[Aim, ...] = ()

    @property
    def ratio(self) -> float | None:
        return None if self.limit is None else self.ours / self.limit

    @property
    def verdict(self) -> str:
        """`ok`, `MISS`, or nothing where nothing was aimed at."""
        if not self.aims:
            return ""
        return "ok" if all(aim.holds(self._subject(aim)) for aim in self.aims) else "MISS"

    def cells(self, area: str) -> tuple[str, ...]:
        """The line as text, one cell under each of `HEADINGS`."""
        return (
            area,
            self.what,
            self.unit.show(self.ours),
            "–" if self.limit is None else self.unit.show(self.limit),
            "–" if self.ratio is None else f"{self.ratio:.2f}",
            ", ".join(map(self._aim, self.aims)) or "–",
            self.verdict,
        )

    def _subject(self, aim: Aim) -> float:
        if aim.on == "ours":
            return self.ours
        if self.ratio is None:
            raise ValueError(f"{self.what!r} aims at a ratio and has no limit")
        return self.ratio

    def _aim(self, aim: Aim) -> str:
        return f"{aim.sign} {aim.bound:g}" if aim.on == "ratio" else f"{aim.sign} {self.unit.show(aim.bound)}"


def aligned(
    lines: Iterable[Sequence[str]], headings: Sequence[str] = HEADINGS, left: Sequence[int] = LEFT_ALIGNED
) -> str:
    """The table for a terminal; the columns of `left` are flush left."""
    table = [headings, *lines]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    padded = [
        [
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in table
    ]
    rule = ["─" * width for width in widths]
    return "\n".join("  ".join(line).rstrip() for line in [padded[0], rule, *padded[1:]])


def markdown(
    lines: Iterable[Sequence[str]], headings: Sequence[str] = HEADINGS, left: Sequence[int] = LEFT_ALIGNED
) -> str:
    """The same table for an issue."""
    rule = ["---" if place in left else "---:" for place in range(len(headings))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [headings, rule, *lines])
