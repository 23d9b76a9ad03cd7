"""Layouts of a table's rows under other partition fields: counted by queries, and nothing is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight_client.console.exploring import MOMENT, WHOLE, InvalidSelection
from lance_flight_client.console.partitions import SpecValue
from lance_flight_client.console.server import ConsoleServer
from lance_flight_client.console.tables import ConsoleTable
from lance_flight_client.parameters import quote_name

MOST_PARTITIONS = 10_000
"""Partitions of a layout that are counted."""
FEWEST_ROWS = 100_000
"""Rows of a typical partition, below which more of them cost a query more than they spare it: as `ingest --suggest` has it."""
_MOST_COLUMNS = 12
_MOST_DISTINCT = 1_000
_MOST_FIELDS = 6
_MOST_TOGETHER = 3
_MOST_CANDIDATES = 10
_OTHERS = ("object_id", "rows", "bytes", "files", "last_change")
_BARE = re.compile(r"[a-z_][a-z0-9_]*")
_FACETED = ("VARCHAR", "BOOLEAN")
_FIELD = re.compile(
    r"\s*(?:(?P<function>year|month|day|hour|bucket|truncate)\s*\(\s*(?:(?P<number>[1-9]\d{0,4})\s*,\s*)?)?"
    r"(?P<column>\"(?:[^\"]|\"\")+\"|\w+)(?P<end>\s*\))?\s*(?:,|\Z)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedLayout:
    """Partitions that some fields make: how many, and the rows of the smallest, a typical and the largest; None where uncounted."""

    fields: str
    partitions: int | None = None
    smallest: int = 0
    typical: int = 0
    largest: int = 0

    @classmethod
    def of(cls, fields: str, rows: pa.ChunkedArray) -> CountedLayout:
        """Return the layout of partitions with so many rows each."""
        if not len(rows):
            return cls(fields=fields, partitions=0)
        ends, middle = pc.min_max(rows), pc.quantile(rows, 0.5, interpolation="lower")[0]
        smallest, largest = ends["min"].as_py(), ends["max"].as_py()
        return cls(fields=fields, partitions=len(rows), smallest=smallest, typical=middle.as_py(), largest=largest)

    @property
    def is_fit(self) -> bool:
        """True if there are several partitions, typically of many rows."""
        return self.partitions is not None and self.partitions > 1 and self.typical >= FEWEST_ROWS


def fields_of_text(text: str, kinds: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a PARTITIONED BY list with their values in SQL; `InvalidSelection` for what is no such list.

    >>> fields_of_text("year(at), bucket(4, id)", {"at": "DATE", "id": "BIGINT"})
    {'year(at)': 'year("at")', 'bucket(4, id)': 'bucket(4, "id")'}
    """
    found, place = dict[str, str](), 0
    while place < len(text):
        match = _FIELD.match(text, place)
        value = None if match is None else _value_of(match, kinds)
        if match is None or value is None or len(found) == _MOST_FIELDS:
            expected = f"at most {_MOST_FIELDS} of column, year(column), month, day, hour, bucket(4, column), truncate(4, column)"
            raise InvalidSelection(f"by is {text[place:][:60]!r} in the address; expected {expected}")
        found[match[0].strip().rstrip(",").strip()] = value
        place = match.end()
    return found


def _value_of(field: re.Match[str], kinds: Mapping[str, str]) -> str | None:
    """Return the value of a field in SQL; None for one that there is not."""
    written = field["column"]
    column = written[1:-1].replace('""', '"') if written.startswith('"') else written
    kind = (field["function"] or "identity").lower()
    is_numbered = kind in ("bucket", "truncate")
    if bool(field["function"]) != bool(field["end"]) or is_numbered != bool(field["number"]):
        return None
    number = int(field["number"] or 0)
    return SpecValue(written, [column], {"type": kind, "num_buckets": number, "width": number}).sql(kinds)


def partitions_under(
    server: ConsoleServer, table: ConsoleTable, fields: Mapping[str, str], row_size: float
) -> pa.Table:
    """Return the partitions that fields would make as `t$partitions` has them; their sizes are estimates by a row's."""
    found = _grouped(server, table, fields)
    rows = found["rows"]
    names = [f"{name} " if name in _OTHERS else name for name in fields]
    values = [found[f"f{place}"] for place in range(len(names))]
    sizes = pc.cast(pc.multiply(pc.cast(rows, pa.float64()), row_size), pa.int64(), safe=False)
    others = [pa.array(map(str, range(len(rows))), pa.string()), rows, sizes, pa.repeat(1, len(rows))]
    last = pa.nulls(len(rows), pa.timestamp("us", "UTC"))
    return pa.table([pa.repeat(0, len(rows)), *values, *others, last], names=["spec_id", *names, *_OTHERS])


def candidates(server: ConsoleServer, table: ConsoleTable, kinds: Mapping[str, str]) -> list[CountedLayout]:
    """Return layouts by the first date or time and by columns with few values: those of many partitions of enough rows first."""
    time = next((quoted_if_needed(name) for name, kind in kinds.items() if MOMENT.match(kind)), None)
    columns = [name for name, kind in kinds.items() if kind in _FACETED or WHOLE.match(kind)][:_MOST_COLUMNS]
    distinct = ", ".join(f"approx_distinct({quote_name(name)}) AS c{place}" for place, name in enumerate(columns))
    counted = server.rows(f"SELECT {distinct} FROM {table.sql()}").to_pylist()[0] if columns else {}
    few = [
        quoted_if_needed(name)
        for name, count in zip(columns, counted.values(), strict=True)
        if 1 < count <= _MOST_DISTINCT
    ]
    parts = [] if time is None else [f"year({time})", f"year({time}), month({time})"]
    texts = [*parts, *few, *(f"{parts[-1]}, {name}" for name in few[:_MOST_TOGETHER] if parts)]
    layouts = []
    for text in texts[:_MOST_CANDIDATES]:
        rows = _grouped(server, table, fields_of_text(text, kinds))["rows"]
        layouts.append(CountedLayout(fields=text) if len(rows) > MOST_PARTITIONS else CountedLayout.of(text, rows))
    return sorted(layouts, key=lambda each: (not each.is_fit, -(each.partitions or 0) if each.is_fit else 0))


def _grouped(server: ConsoleServer, table: ConsoleTable, fields: Mapping[str, str]) -> pa.Table:
    """Return the values of fields, as f0, f1, …, and how many rows have them."""
    names = [f"f{place}" for place in range(len(fields))]
    values = ", ".join(f"{value} AS {name}" for name, value in zip(names, fields.values(), strict=True))
    return server.rows(
        f"SELECT {', '.join(names)}, count(*) AS rows FROM (SELECT {values} FROM {table.sql()}) AS laid"
        f" GROUP BY {', '.join(names)} LIMIT {MOST_PARTITIONS + 1}"
    )


def quoted_if_needed(name: str) -> str:
    """Return the name of a column as a list of fields takes it."""
    return name if _BARE.fullmatch(name) else quote_name(name)
