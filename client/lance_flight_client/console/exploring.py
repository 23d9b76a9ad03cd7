"""Rows of a table without SQL: conditions by click become a query, and each column has a summary of a bounded part of the rows.

So do words that are searched, the rows nearest to one of them, or both, with a filter.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa

from lance_flight_client.console.tables import ConsoleServer, ConsoleTable
from lance_flight_client.errors import ServerError
from lance_flight_client.parameters import quote_name, text_literal

PREVIEW_ROWS = 500
PREVIEW_LARGE_ROWS = 50
"""Rows of a preview whose columns may hold large values."""
SUMMARY_ROWS = 500_000
"""Rows that a summary reads at most."""
MOST_COLUMNS = 60
"""Columns that a summary is made of."""
MOST_FACETS = 8
"""Values of a column that are offered as conditions."""
LONGEST_FACET = 500
"""Characters of the longest one: it stands in an address."""
_MOST_CONDITIONS = 20
_FEW = 50
"""Distinct values up to which a number has its values in place of a histogram."""
_BINS = 24
_NUMBER = re.compile(r"-?\d{1,30}(\.\d{1,30})?")
_NUMERIC = re.compile(r"((TINYINT|SMALLINT|INTEGER|BIGINT)( UNSIGNED)?|FLOAT16|REAL|DOUBLE|DECIMAL\(\d+, -?\d+\))\Z")
WHOLE = re.compile(r"(TINYINT|SMALLINT|INTEGER|BIGINT)( UNSIGNED)?\Z")
MOMENT = re.compile(r"(TIMESTAMP(TZ)?\(\d\)|DATE)\Z")
LARGE = re.compile(r"BLOB|VARBINARY|\[\d*\]")
"""Matches the types of columns whose values may be large."""
_FLOAT = re.compile("FLOAT16|REAL|DOUBLE")
_NESTED = re.compile(r"STRUCT|MAP|[a-z_]+<")
_FACETED = re.compile(r"(VARCHAR|BOOLEAN|DATE)\Z")


class InvalidSelection(Exception):
    """Conditions or an order of an address that the table has not."""


@dataclass(frozen=True, slots=True)
class Facet:
    """A column that has a value; None is NULL."""

    column: str
    value: str | None

    @property
    def label(self) -> str:
        """Text of the facet for people."""
        return f"{self.column} = {'NULL' if self.value is None else self.value}"

    @property
    def parameter(self) -> tuple[str, str]:
        """The parameter of an address."""
        return "is", json.dumps([self.column, self.value], ensure_ascii=False)

    def sql(self, kind: str) -> str:
        r"""Return the condition on a column of a type, in SQL.

        >>> Facet("site", "it's").sql("VARCHAR"), Facet("n", "7").sql("BIGINT"), Facet("n", None).sql("BIGINT")
        ('"site" = \'it\'\'s\'', '"n" = 7', '"n" IS NULL')
        >>> Facet("done", "true").sql("BOOLEAN"), Facet("done", "x").sql("BOOLEAN")
        ('"done" = true', '"done" = \'x\'')
        """
        if self.value is None:
            return f"{quote_name(self.column)} IS NULL"
        is_bare = bool(_NUMERIC.match(kind) and _NUMBER.fullmatch(self.value))
        is_bare |= kind == "BOOLEAN" and self.value in ("true", "false")
        return f"{quote_name(self.column)} = {self.value if is_bare else text_literal(self.value)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRows:
    """Rows of a table that an address names: conditions by click, one that was written, and an order."""

    table: ConsoleTable
    kinds: Mapping[str, str]
    at: int | None = None
    conditions: Sequence[Facet] = ()
    where: str = ""
    sort: str = ""
    is_down: bool = False

    @classmethod
    def of(cls, table: ConsoleTable, kinds: Mapping[str, str], given: Any, at: int | None) -> ShownRows:
        """Return the selection of an address' parameters; `InvalidSelection` for what the table has not."""
        conditions = [_condition(text, kinds) for text in given.getlist("is")[: _MOST_CONDITIONS + 1]]
        if len(conditions) > _MOST_CONDITIONS:
            raise InvalidSelection(f"the address has more than {_MOST_CONDITIONS} conditions")
        sort = given.get("sort", "")
        if sort and sort not in kinds:
            raise InvalidSelection(f"sort is {sort[:60]!r} in the address; expected a column of {table.label}")
        where = given.get("where", "").strip()
        return cls(
            table=table, kinds=kinds, at=at, conditions=conditions, where=where, sort=sort, is_down="down" in given
        )

    @property
    def filter(self) -> str:
        """The WHERE clause; nothing without conditions."""
        # A comment at the end of what was written must not hide the bracket.
        written = [f"({self.where}\n)" if "--" in self.where else f"({self.where})"] if self.where else []
        parts = [each.sql(self.kinds[each.column]) for each in self.conditions]
        parts += [self.where] if self.where and not parts else written
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def source(self, columns: str = "*") -> str:
        """Return the query of the rows without an order."""
        return f"SELECT {columns} FROM {self.table.sql(self.at)}{self.filter}"

    @property
    def sql(self) -> str:
        """The query of a preview."""
        order = f" ORDER BY {quote_name(self.sort)}{' DESC' if self.is_down else ''} NULLS LAST" if self.sort else ""
        return f"{self.source()}{order}\nLIMIT {self.most}"

    @property
    def most(self) -> int:
        """The rows of a preview."""
        return rows_of_preview(self.kinds)

    @property
    def address(self) -> str:
        """The parameters of the selection's page."""
        given = [each.parameter for each in self.conditions]
        given += [("where", self.where)] if self.where else []
        given += [("at", str(self.at))] if self.at is not None else []
        given += [("sort", self.sort)] if self.sort else []
        given += [("down", "1")] if self.sort and self.is_down else []
        return f"?{urlencode(given)}"

    def adding(self, column: str, value: str | None) -> ShownRows:
        """Return the selection with a further condition."""
        return replace(self, conditions=[*self.conditions, Facet(column, value)])

    def narrowed(self, where: str) -> ShownRows:
        """Return the selection with a further condition that is written."""
        return replace(self, where=f"{where} AND ({self.where})" if self.where else where)

    def without(self, condition: Facet) -> ShownRows:
        """Return the selection without a condition."""
        return replace(self, conditions=[each for each in self.conditions if each != condition])

    def sorting(self, column: str, *, is_down: bool) -> ShownRows:
        """Return the selection in another order."""
        return replace(self, sort=column, is_down=is_down)


def _condition(text: str, kinds: Mapping[str, str]) -> Facet:
    try:
        column, value = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        column = value = 0
    if not isinstance(column, str) or column not in kinds or not (value is None or isinstance(value, str)):
        raise InvalidSelection(f"is is {text[:60]!r} in the address; expected a column of the table and its value")
    return Facet(column, value)


def kinds_of(server: ConsoleServer, table: ConsoleTable) -> dict[str, str]:
    """Return the types of a table's columns."""
    found = server.rows(f"DESCRIBE {table.sql()}")
    return dict(zip(found["column_name"].to_pylist(), found["data_type"].to_pylist(), strict=True))


@dataclass(frozen=True, slots=True)
class HistogramBin:
    """Bar of a histogram: how many rows it has, and the condition that selects them."""

    count: int
    where: str


def rows_of_preview(kinds: Mapping[str, str]) -> int:
    """Return how many rows are shown of a table with columns of these types."""
    return PREVIEW_LARGE_ROWS if any(map(LARGE.search, kinds.values())) else PREVIEW_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSummary:
    """Summary of a column: its share of NULLs, distinct values, bounds, and a histogram or its most frequent values, where it may have others."""

    name: str
    kind: str
    nulls: float = 0.0
    distinct: int | None = None
    low: str | None = None
    high: str | None = None
    values: Sequence[tuple[str | None, int]] = field(default=())
    has_others: bool = False
    bins: Sequence[HistogramBin] = field(default=())

    @property
    def is_moment(self) -> bool:
        """True if it has dates or times of days."""
        return bool(MOMENT.match(self.kind))


def summarize(server: ConsoleServer, selection: ShownRows) -> tuple[int, list[ColumnSummary]]:
    """Return the number of rows that were read, at most `SUMMARY_ROWS`, and what their columns have."""
    # Large values are not read for a summary.
    names = [name for name, kind in selection.kinds.items() if not LARGE.search(kind)][:MOST_COLUMNS]
    if not names:
        return 0, []
    columns = ", ".join(map(quote_name, names))
    rows = f"{selection.source(columns)}\nLIMIT {SUMMARY_ROWS}"
    # SUMMARIZE computes quantiles too, which take ten times as long as all of these.
    parts = [
        f"{what} AS {key}{place}" for place, name in enumerate(names) for key, what in _facts(name, selection.kinds)
    ]
    (found,) = server.rows(f"SELECT count(*) AS n, {', '.join(parts)} FROM ({rows}) AS chosen").to_pylist()
    read = found["n"]
    summaries = [
        ColumnSummary(
            name=name,
            kind=selection.kinds[name],
            nulls=100 * (1 - found[f"present{place}"] / read) if read else 0.0,
            distinct=found[f"distinct{place}"],
            low=found.get(f"low{place}"),
            high=found.get(f"high{place}"),
        )
        for place, name in enumerate(names)
    ]
    return read, list(_with_parts(server, rows, summaries)) if read else summaries


def _facts(name: str, kinds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the aggregates of a column, with what they are called."""
    column = quote_name(name)
    yield "present", f"count({column})"
    # The sketch takes no floats.
    yield "distinct", f"approx_distinct({f'CAST({column} AS VARCHAR)' if _FLOAT.match(kinds[name]) else column})"
    if not _NESTED.match(kinds[name]):
        yield from ((key, f"CAST({which}({column}) AS VARCHAR)") for key, which in (("low", "min"), ("high", "max")))


def _with_parts(server: ConsoleServer, rows: str, summaries: Sequence[ColumnSummary]) -> Iterator[ColumnSummary]:
    """Yield the columns with their frequent values and histograms; without them where the server cannot compute them."""
    parts = [(place, _part_of(each, place, rows)) for place, each in enumerate(summaries)]
    wanted = [sql for _, sql in parts if sql]
    try:
        found = server.rows(" UNION ALL ".join(wanted)) if wanted else pa.table({})
    except ServerError:
        found = pa.table({})
    counts: dict[int, list[tuple[str | None, int]]] = {}
    for row in found.to_pylist():
        counts.setdefault(row["place"], []).append((row["value"], row["n"]))
    for place, each in enumerate(summaries):
        mine = sorted(counts.get(place, []), key=lambda pair: (-pair[1], pair[0] or ""))
        if _is_faceted(each):
            yield replace(each, values=mine[:MOST_FACETS], has_others=len(mine) > MOST_FACETS)
        else:
            bins = {int(float(value)): count for value, count in mine if value is not None}
            yield replace(each, bins=_bins_of(each, bins) if bins else ())


def _bins_of(column: ColumnSummary, counts: Mapping[int, int]) -> list[HistogramBin]:
    name, (_, low, high) = quote_name(column.name), _bounds_of(column) or ("", 0.0, 0.0)
    edges = [_edge(column.kind, low + (high - low) * step / _BINS) for step in range(1, _BINS)]
    parts = zip(
        ["", *(f"{name} >= {edge}" for edge in edges)], [*(f"{name} < {edge}" for edge in edges), ""], strict=True
    )
    known = f"{name} IS NOT NULL" if low == high else ""
    return [
        HistogramBin(counts.get(step, 0), known or " AND ".join(filter(None, part))) for step, part in enumerate(parts)
    ]


def _edge(kind: str, number: float) -> str:
    """Return the bound of a bar in SQL.

    >>> _edge("BIGINT", 2.5), _edge("DOUBLE", 2.5), _edge("TIMESTAMP(6)", 0.5)
    ('3', '2.5', "'1970-01-01 00:00:00.500000'")
    """
    if not MOMENT.match(kind):
        return str(math.ceil(number) if WHOLE.match(kind) else number)
    return text_literal(f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=number):%Y-%m-%d %H:%M:%S.%f}")


def _is_faceted(column: ColumnSummary) -> bool:
    is_few = column.distinct is not None and column.distinct <= _FEW
    return bool(_FACETED.match(column.kind)) or (is_few and bool(WHOLE.match(column.kind)))


def _part_of(column: ColumnSummary, place: int, rows: str) -> str | None:
    """Return the query of a column's frequent values, or of its histogram."""
    name = quote_name(column.name)
    if _is_faceted(column):
        return (
            f"(SELECT {place} AS place, CAST({name} AS VARCHAR) AS value, count(*) AS n FROM ({rows}) AS read"
            f" GROUP BY {name} ORDER BY n DESC, value LIMIT {MOST_FACETS + 1})"
        )
    bounds = _bounds_of(column)
    if bounds is None:
        return None
    number, low, high = bounds
    share = f"(v - {low!r}) * {_BINS / (high - low or 1.0)!r}"
    return (
        f"(SELECT {place} AS place, CAST(least(CAST(floor({share}) AS BIGINT), {_BINS - 1}) AS VARCHAR) AS value,"
        f" count(*) AS n FROM (SELECT {number} AS v FROM ({rows}) AS read) AS numbers"
        f" WHERE v BETWEEN {low!r} AND {high!r} GROUP BY 2)"
    )


def _bounds_of(column: ColumnSummary) -> tuple[str, float, float] | None:
    """Return a column as a number in SQL, and its bounds; None without finite ones."""
    name = quote_name(column.name)
    if column.low is None or column.high is None:
        return None
    try:
        if _NUMERIC.match(column.kind):
            number, low, high = f"CAST({name} AS DOUBLE)", float(column.low), float(column.high)
        elif MOMENT.match(column.kind):
            number = f"CAST(extract(epoch FROM {name}) AS DOUBLE)"
            low, high = (_seconds(text) for text in (column.low, column.high))
        else:
            return None
    except (ValueError, OverflowError):
        # A moment that Python has not.
        return None
    is_drawn = math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low)
    return (number, low, high) if is_drawn else None


def _seconds(text: str) -> float:
    # Python reads six digits of a second.
    found = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
    return found.replace(tzinfo=found.tzinfo or UTC).timestamp()


MOST_FOUND = 50
WEIGHTS = 100
"""Steps of the slider between vectors and words."""
_TEXT = "VARCHAR"
_VECTOR = re.compile(r"(FLOAT16|REAL|DOUBLE|TINYINT( UNSIGNED)?)\[\d+\]\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchForm:
    """Search that an address asks for; nothing is searched without words and without a row."""

    table: ConsoleTable
    kinds: Mapping[str, str]
    words: str = ""
    text: str = ""
    near: str = ""
    vector: str = ""
    filter: str = ""
    weight: int = WEIGHTS // 2

    @classmethod
    def of(
        cls, table: ConsoleTable, kinds: Mapping[str, str], given: Mapping[str, Any], weight: int | None
    ) -> SearchForm:
        """Return the search of an address; columns that cannot be searched are replaced by the first that can."""
        texts, vectors = searched_columns(kinds)
        text, vector = given.get("text", ""), given.get("vector", "")
        return cls(
            table=table,
            kinds=kinds,
            words=given.get("words", "").strip(),
            text=text if text in texts else next(iter(texts), ""),
            near=given.get("near", "").strip(),
            vector=vector if vector in vectors else next(iter(vectors), ""),
            filter=given.get("filter", "").strip(),
            weight=WEIGHTS // 2 if weight is None else min(weight, WEIGHTS),
        )

    @property
    def sql(self) -> str:
        r"""The query of the search; nothing where there is nothing to search for.

        >>> t = ConsoleTable("public", "t")
        >>> SearchForm(table=t, kinds={"id": "BIGINT", "body": "VARCHAR"}, words="it's", text="body").sql.splitlines()[1]
        'FROM full_text_search(\'"public"."t"\', \'body\', \'it\'\'s\', syntax => \'words\', k => 50)'
        """
        has_words, has_row = bool(self.words and self.text), bool(self.near and self.vector)
        if not has_words and not has_row:
            return ""
        shown = [quote_name(name) for name, kind in self.kinds.items() if not LARGE.search(kind)]
        of = [text_literal(self.table.sql())]
        if has_row:
            row = f"SELECT {quote_name(self.vector)} FROM {self.table.sql()} WHERE {self.near} LIMIT 1"
            of += [text_literal(self.vector), f"({row})"]
        if has_words:
            of += [text_literal(self.text), text_literal(self.words), "syntax => 'words'"]
            # The grid draws what stands between these as marked.
            marked = (
                f"highlight({quote_name(self.text)}, {text_literal(self.words)}, before => '⟦', after => '⟧') AS found"
            )
            shown = [marked, *shown]
        if has_words and has_row:
            share = self.weight / WEIGHTS
            of += ["fusion => 'linear'", f"weights => [{share:g}, {1 - share:g}]"]
            called, score = "hybrid_search", "_score"
        else:
            called, score = ("full_text_search", "_score") if has_words else ("vector_search", "_distance")
        of += [f"filter => {text_literal(self.filter)}"] if self.filter else []
        return f"SELECT {score}, {', '.join(shown)}\nFROM {called}({', '.join(of)}, k => {MOST_FOUND})"


def searched_columns(kinds: Mapping[str, str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the columns of texts, and those of vectors."""
    texts = [name for name, kind in kinds.items() if kind == _TEXT]
    return texts, [name for name, kind in kinds.items() if _VECTOR.match(kind)]
