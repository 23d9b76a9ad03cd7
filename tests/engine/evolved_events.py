"""Events in a table whose partition spec changed between them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.definitions import parse_partition_by, partition_spec
from lance_flight.engine.writes.ingest import TableProperties

from tests.engine.database import open_engine
from tests.engine.evolving import add_spec

EVENTS = pa.schema({"id": pa.int64(), "event_date": pa.date32(), "country": pa.utf8()})


def evolved(root: Path, schema: pa.Schema, versions: Sequence[tuple[str, pa.Table]]) -> Engine:
    """A table `t` whose rows were stored under one spec after another."""
    engine = open_engine(root)
    name = TableName("public", "t")
    for number, (fields, data) in enumerate(versions, 1):
        definitions = parse_partition_by(fields)
        if number == 1:
            ingest.create(engine.root, name, schema, TableProperties(partitioned_by=definitions), [data])
            continue
        namespace = engine.root.table(name)
        assert isinstance(namespace, PartitionedNamespace)
        add_spec(root / "t", partition_spec(namespace.snapshot().schema, definitions, number=number))
        namespace.append([data], evaluate)
    return engine


def events(*values: tuple[int, date | None, str | None]) -> pa.Table:
    return pa.Table.from_pylist([{"id": n, "event_date": day, "country": c} for n, day, c in values], schema=EVENTS)


DAYS = [date(2024, 5, 1), date(2025, 12, 10), date(2025, 12, 11)]

VERSIONS = [
    ("event_date", events(*((n, DAYS[n % 3], "US") for n in range(6)), (6, None, "DE"))),
    ("year(event_date), country", events(*((n, DAYS[n % 3], ["US", "DE", None][n % 3]) for n in range(10, 16)))),
    ("bucket(4, id)", events(*((n, DAYS[n % 3], "FR") for n in range(20, 26)))),
]
