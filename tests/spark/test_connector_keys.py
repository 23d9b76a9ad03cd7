"""Keys of a scan's tasks, by which Spark joins tables that are stored alike without an exchange. No JVM runs here."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.model.hashing import murmur3

from tests.engine.database import Database
from tests.spark.planner import Catalog, CatalogTable, Refused, read

Row = Mapping[str, Any]


def stored(start: int, stop: int) -> pa.Table:
    ids = range(start, stop)
    moments = [dt.datetime(2025, 1, 1) + n * dt.timedelta(hours=70) for n in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "small": pa.array([n % 1000 for n in ids], pa.int32()),
            "name": [f"k{n % 7}" for n in ids],
            "x": [n / 3 for n in ids],
            "at": pa.array(moments, pa.timestamp("us")),
            "day": pa.array([moment.date() for moment in moments], pa.date32()),
            "home": pa.array(moments, pa.timestamp("us", "America/New_York")),
            "tiny": pa.array([n % 5 for n in ids], pa.uint8()),
            "n": pa.array([None if n % 10 == 0 else n for n in ids], pa.int64()),
        }
    )


def bucket(count: int, column: str) -> Callable[[Row], int | None]:
    """The bucket of a value, without the product's transforms."""

    def number(row: Row) -> int | None:
        value = row[column]
        kind = pa.int32() if column == "small" else pa.int64()
        return None if value is None else abs(int(murmur3(pa.array([value], kind))[0].as_py())) % count

    return number


def digits(layout: str, column: str) -> Callable[[Row], int]:
    return lambda row: int(row[column].strftime(layout))


KEYED: Mapping[str, Mapping[tuple[str, tuple[int, ...], str], Callable[[Row], Any]]] = {
    "bucket(16, id)": {("bucket", (16,), "id"): bucket(16, "id")},
    "bucket(16, small)": {("bucket", (16,), "small"): bucket(16, "small")},
    "bucket(16, n)": {("bucket", (16,), "n"): bucket(16, "n")},
    "name": {("identity", (), "name"): lambda row: row["name"]},
    "day": {("identity", (), "day"): lambda row: row["day"].toordinal() - dt.date(1970, 1, 1).toordinal()},
    "name, bucket(4, id)": {
        ("identity", (), "name"): lambda row: row["name"],
        ("bucket", (4,), "id"): bucket(4, "id"),
    },
    "year(at), month(at), day(at)": {("days", (), "at"): digits("%Y%m%d", "at")},
    "year(day), month(day)": {("months", (), "day"): digits("%Y%m", "day")},
    "year(at)": {("years", (), "at"): digits("%Y", "at")},
    # Months of several years are no order, and these values are others to Spark than they are stored as.
    "month(at)": {},
    "year(home), month(home)": {},
    "bucket(4, tiny)": {},
    "tiny": {},
    "truncate(10, id)": {},
}


def keys_of(planned: Mapping[str, Any]) -> list[tuple[str, tuple[int, ...], str]]:
    return [(key["transform"], tuple(key["arguments"]), *key["columns"]) for key in planned["keys"]]


@pytest.mark.parametrize("fields", KEYED)
def test_every_task_has_the_rows_of_its_keys(
    catalogs: Mapping[str, Catalog], database: Database, table: str, fields: str
) -> None:
    database.ingest(table, stored(-20, 40), partition_by=fields)
    planned = catalogs["lake"].table(table).scan().planned
    keys = KEYED[fields]
    assert keys_of(planned) == list(keys)
    parts = [read(portion).to_pylist() for portion in planned["portions"]]
    for value, part in zip(planned["values"] or [[]] * len(parts), parts, strict=True):
        assert {tuple(of(row) for of in keys.values()) for row in part} == {tuple(value)}
    assert len({tuple(value) for value in planned["values"]}) == len(planned["values"])
    assert sorted(row["id"] for part in parts for row in part) == list(range(-20, 40))
    assert planned["rows"] == 60


@pytest.fixture
def buckets(catalogs: Mapping[str, Catalog], database: Database, table: str) -> CatalogTable:
    database.ingest(table, stored(0, 60), partition_by="bucket(16, id)")
    return catalogs["lake"].table(table)


@pytest.mark.parametrize(("most", "are_reported"), [("4", False), ("0", False), ("16", True)])
def test_a_catalog_says_how_many_keys_are_reported(
    buckets: CatalogTable, table: str, most: str, *, are_reported: bool
) -> None:
    catalog = Catalog({**buckets.catalog.options, "groups": most})
    assert bool(keys_of(catalog.table(table).scan().planned)) == are_reported
    with pytest.raises(Refused, match="'groups' is 'some'; expected a number"):
        Catalog({**buckets.catalog.options, "groups": "some"}).table(table).scan()


def test_tables_of_several_specs_and_branches_report_none(
    buckets: CatalogTable, database: Database, table: str
) -> None:
    database.run(f"ALTER TABLE {table} CREATE BRANCH side")
    assert keys_of(buckets.catalog.table(table, version="side").scan().planned) == []
    database.run(f"ALTER TABLE {table} SET PARTITIONED BY (name)")
    assert keys_of(buckets.catalog.table(table).scan().planned) == [("bucket", (16,), "id")]
    database.ingest(table, stored(60, 70), "append")
    assert keys_of(buckets.catalog.table(table).scan().planned) == []
    assert keys_of(buckets.scan().planned) == [("bucket", (16,), "id")], "it stays at its version"
