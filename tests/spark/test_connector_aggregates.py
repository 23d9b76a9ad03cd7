"""Aggregates and limits that the connector takes: from metadata, by a server, or left to Spark. No JVM runs here."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import StructType

from tests.engine.database import Database
from tests.spark.expressions import aggregated, matching, plain
from tests.spark.offers import Offers, rows_of
from tests.spark.planner import Catalog, CatalogTable
from tests.spark.statements import BY_SPARK, BY_THE_SERVER, FROM_METADATA
from tests.spark.tables import SHAPES

pytestmark = pytest.mark.usefixtures("offered")


def source(statement: str) -> str:
    return "days" if " FROM days" in statement else "typed"


def answers(catalog: Catalog, offers: Offers, statement: str) -> list[Mapping[str, Any] | None]:
    """Return what becomes of each aggregation of a statement; Spark offers none whose predicates it has to evaluate itself."""
    table = catalog.table(source(statement))
    return [
        table.aggregate(**asked) if set(table.uses(asked["predicates"])) <= {"whole"} else None
        for asked in offers.of(statement, "push_aggregates")
    ]


def expected(statement: str, asked: Mapping[str, Any]) -> list[str]:
    rows = matching(asked["predicates"], rows_of(source(statement)))
    return texts(aggregated(rows, asked["aggregates"], asked["keys"]))


def texts(rows: Sequence[Sequence[Any]]) -> list[str]:
    return sorted(str([plain(value) for value in row]) for row in rows)


def typed_rows(answer: Mapping[str, Any]) -> list[list[Any]]:
    """Return the rows of an answer in JSON as Spark reads them by its schema."""
    kinds = [field.dataType.json() for field in StructType.fromJson(json.loads(answer["schema"]))]
    return [[typed_value(*each) for each in zip(kinds, row, strict=True)] for row in answer["rows"]]


def typed_value(kind: str, value: Any) -> Any:
    if value is None or not isinstance(value, str) or kind == '"string"':
        return value
    return base64.b64decode(value) if kind == '"binary"' else Decimal(value)


@pytest.mark.parametrize("statement", FROM_METADATA)
def test_aggregates_of_whole_partitions_read_no_row(catalog: Catalog, offers: Offers, statement: str) -> None:
    found = answers(catalog, offers, statement)
    assert found
    for answer, asked in zip(found, offers.of(statement, "push_aggregates"), strict=True):
        assert answer is not None
        assert texts(typed_rows(answer)) == expected(statement, asked)


@pytest.mark.parametrize("statement", BY_THE_SERVER)
def test_a_server_computes_what_spark_computes_of_a_root(
    catalogs: Mapping[str, Catalog], offers: Offers, statement: str
) -> None:
    assert answers(catalogs["lake"], offers, statement) == [None]
    (answer,) = answers(catalogs["far"], offers, statement)
    (asked,) = offers.of(statement, "push_aggregates")
    assert answer is not None
    assert texts(catalogs["far"].table(source(statement)).answer(answer)) == expected(statement, asked)


@pytest.mark.parametrize("statement", BY_SPARK)
def test_other_aggregates_are_left_to_spark(catalog: Catalog, offers: Offers, statement: str) -> None:
    assert set(answers(catalog, offers, statement)) <= {None}


COUNT = {"function": "COUNT_STAR", "distinct": False, "arguments": []}


def counted(table: CatalogTable) -> int | None:
    """Return the number of rows as metadata or a server's own count have it."""
    answer = table.aggregate((), [COUNT], ())
    if answer is None:
        return None
    ((rows,),) = table.answer(answer)
    return int(rows)


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_every_kind_of_table_are_counted(
    catalog: Catalog, database: Database, shapes: Mapping[str, str], shape: str
) -> None:
    table = catalog.table(shapes[shape])
    rows = database.value(f"SELECT count(*) FROM {shapes[shape]}")
    assert counted(table) == rows == len(table.scan().rows())
    assert "root" not in catalog.options or "rows" in (table.aggregate((), [COUNT], ()) or {})


def test_versions_branches_views_and_metadata_tables_are_counted(
    catalogs: Mapping[str, Catalog], database: Database, shapes: Mapping[str, str], table: str
) -> None:
    database.copy(shapes["versions"], table)
    database.run(f"ALTER TABLE {table} CREATE BRANCH b")
    database.run(f"CREATE VIEW {table}_v AS SELECT part, id FROM {table} WHERE id > 20")
    database.run(f"DELETE FROM {table} WHERE id < 25")
    for catalog in catalogs.values():
        found = [catalog.table(table, version=point) for point in ("first", "b")]
        found += [catalog.table(name) for name in (table, f"{table}_v", f"{table}.tags")]
        assert [len(each.scan().rows()) for each in found] == [20, 20, 5, 5, 1]
        assert [rows for each in found if (rows := counted(each)) is not None][-1] in {5, 1}


LIMITS = [
    pytest.param("", 4, 4, id="few"),
    pytest.param("", 1000, 78, id="more than there are"),
    pytest.param("month = 2", 7, 7, id="whole partitions"),
    pytest.param("region IN ('r1', 'r2')", 7, 7, id="several partitions"),
    pytest.param("region IN ('r1', 'r2')", 1000, 34, id="more than match"),
]


@pytest.mark.parametrize(("where", "limit", "rows"), LIMITS)
def test_a_limit_reads_tables_until_they_have_enough_rows(
    catalog: Catalog, offers: Offers, where: str, limit: int, rows: int
) -> None:
    predicates = offers.where("typed", where) if where else ()
    table = Catalog({**catalog.options, "partitions": "8"}).table("typed")
    found = [row["id"] for row in table.scan(predicates, limit=limit).rows()]
    assert len(set(found)) == len(found) == rows
    assert set(found) <= {row["id"] for row in matching(predicates, rows_of("typed"))}


def test_a_limit_of_rows_that_files_decide_reads_all_that_match(catalog: Catalog, offers: Offers) -> None:
    predicates = offers.where("typed", "month = 1 AND id > 20")
    whole = {row["id"] for row in matching(predicates, rows_of("typed"))}
    found = {row["id"] for row in catalog.table("typed").scan(predicates, "id", limit=3).rows()}
    assert found <= whole
    assert len(found) >= 3
