"""Predicates that the connector takes, and scans that they prune: the rows are those that Spark's own comparison leaves. No JVM runs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.engine.database import Database
from tests.spark.expressions import matching, plain
from tests.spark.offers import Nodes, Offers, rows_of
from tests.spark.planner import Catalog, CatalogTable, Tasks
from tests.spark.statements import IMPLIED, INSIDE, LEFT, PRUNED, TAKEN

pytestmark = pytest.mark.usefixtures("offered")


def checked_scan(
    table: CatalogTable, predicates: Nodes, uses: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> tuple[Tasks, int]:
    """Check that a scan returns the rows that fulfil the predicates which it takes, and no others; return their number too."""
    assert table.uses(predicates) == uses
    found = table.scan(predicates)
    taken, read = [each for each, use in zip(predicates, uses, strict=True) if use != "none"], found.rows()
    assert in_order(read) == in_order(matching(taken, rows))
    return found, len(read)


def in_order(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(str([plain(value) for value in row.values()]) for row in rows)


PRUNING = [(name, where) for name, conditions in PRUNED.items() for where in conditions]


@pytest.mark.parametrize(("name", "where"), PRUNING, ids=lambda each: each)
def test_a_root_prunes_partitions_and_decides_what_they_decide(
    catalogs: Mapping[str, Catalog], offers: Offers, name: str, where: str
) -> None:
    uses, partitions = PRUNED[name][where]
    found, rows = checked_scan(catalogs["lake"].table(name), offers.where(name, where), uses.split(), rows_of(name))
    assert found.planned["partitions"] == partitions
    read = int(partitions.partition(" ")[0])
    assert bool(found.planned["portions"]) == bool(read)
    assert found.planned["rows"] == rows or "part" in uses or "none" in uses


@pytest.mark.parametrize(("name", "where"), PRUNING, ids=lambda each: each)
def test_a_server_decides_what_it_takes(catalogs: Mapping[str, Catalog], offers: Offers, name: str, where: str) -> None:
    uses = PRUNED[name][where][0].replace("part", "whole").split()
    checked_scan(catalogs["far"].table(name), offers.where(name, where), uses, rows_of(name))


@pytest.mark.parametrize("where", TAKEN)
def test_sql_compares_as_spark_does_to_the_ends_of_every_type(catalog: Catalog, offers: Offers, where: str) -> None:
    predicates, rows = offers.where("extremes", where), rows_of("extremes")
    of_files = "root" in catalog.options
    checked_scan(catalog.table("extremes"), predicates, ["part" if of_files else "whole"] * len(predicates), rows)
    checked_scan(catalog.table("extremes_v"), predicates, ["whole"] * len(predicates), rows)


@pytest.mark.parametrize("where", LEFT)
def test_spark_is_left_what_sql_compares_otherwise(catalog: Catalog, offers: Offers, where: str) -> None:
    predicates = offers.where("extremes", where)
    known = "part" if "root" in catalog.options else "whole"
    checked_scan(catalog.table("extremes"), predicates, [*[known] * (len(predicates) - 1), "none"], rows_of("extremes"))


@pytest.mark.parametrize("where", IMPLIED)
def test_the_year_of_a_moment_prunes_in_any_zone(catalog: Catalog, offers: Offers, where: str) -> None:
    predicates, table = offers.where("months_at", where), catalog.table("months_at")
    assert table.uses(predicates)[-1] == "part"
    found = table.scan(predicates)
    read = in_order(found.rows())
    assert set(read) >= set(in_order(matching(predicates, rows_of("months_at"))))
    assert len(read) == IMPLIED[where]


@pytest.mark.parametrize("where", INSIDE)
def test_fields_inside_structs_are_compared(catalog: Catalog, offers: Offers, where: str) -> None:
    predicates, table = offers.where("inside", where), catalog.table("inside")
    assert "none" not in table.uses(predicates)
    assert sorted(row["id"] for row in table.scan(predicates).rows()) == INSIDE[where]


def test_a_scan_reads_the_columns_that_it_is_asked_for_in_as_many_tasks_as_the_catalog_says(
    catalogs: Mapping[str, Catalog], offers: Offers
) -> None:
    for catalog in catalogs.values():
        table = Catalog({**catalog.options, "partitions": "4", "groups": "0"}).table("nulls")
        parts = table.scan((), "x", "id").parts()
        assert len(parts) == 4
        assert {tuple(part.column_names) for part in parts} == {("x", "id")}
        some = table.scan(offers.where("nulls", "part = 'p1'"), "id").rows()
        assert sorted(row["id"] for row in some) == [n for n in range(260) if n % 5 == 1]


def test_a_branch_takes_no_condition(
    catalogs: Mapping[str, Catalog], offered: Database, offers: Offers, table: str
) -> None:
    offered.copy("nulls", table)
    offered.run(f"ALTER TABLE {table} CREATE BRANCH side")
    side = catalogs["lake"].table(table, version="side")
    predicates = offers.where("nulls", "part = 'p1'")
    assert side.uses(predicates) == ["none", "none"]
    assert len(side.scan(predicates).rows()) == 260
