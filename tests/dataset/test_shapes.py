"""Datasets give what a query answers, whatever table it is: evolved, with deleted rows, disagreeing tables, without partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import lance_flight
import pyarrow as pa
import pytest

from tests.engine.database import Database
from tests.spark.tables import SHAPES


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """A root with a table of each shape."""
    made = Database(tmp_path_factory.mktemp("shapes"))
    for name, shape in SHAPES.items():
        shape.make(made, name)
    return made


def in_order(table: pa.Table) -> list[str]:
    """Rows as text, sorted: NaN is like itself there."""
    return sorted(map(str, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def cases() -> Iterator[Any]:
    for name, shape in SHAPES.items():
        for condition in (None, *shape.filters):
            yield pytest.param(name, condition, id=f"{name} where {condition}" if condition else name)


@pytest.mark.sample(12)
@pytest.mark.parametrize(("name", "condition"), list(cases()))
def test_a_dataset_gives_what_a_query_answers(database: Database, name: str, condition: str | None) -> None:
    where = f" WHERE {condition}" if condition else ""
    expected = database.query(f"SELECT * FROM {name}{where}")
    chosen = SHAPES[name].columns
    dataset = lance_flight.dataset(database.root, name, filter=condition)
    assert dataset.schema.equals(expected.schema)
    assert in_order(dataset.to_table()) == in_order(expected)
    assert dataset.count_rows() == expected.num_rows
    narrow = lance_flight.dataset(database.root, name, filter=condition, columns=chosen)
    parts = [pa.Table.from_batches([], narrow.schema), *(part.to_table() for part in narrow.fragments(rows=30))]
    assert in_order(pa.concat_tables(parts)) == in_order(expected.select(chosen))


def test_earlier_versions_are_those_of_queries(database: Database) -> None:
    versions: Mapping[Any, int] = {
        version: database.value(f'SELECT count(*) FROM "versions@{version}"')
        for version in (*database.query('SELECT version FROM "versions$snapshots"')["version"].to_pylist(), "first")
    }
    assert len(set(versions.values())) > 2
    for version, rows in versions.items():
        assert lance_flight.dataset(database.root, "versions", snapshot=version).count_rows() == rows
