"""Every query of the table of features answers as DuckDB does, and what it refuses says what to write."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import duckdb
import pytest

from tests.differential.features import FEATURES, NULLABLE, Feature, Tables
from tests.differential.tables import Peers
from tests.engine.database import Database
from tests.selection import IS_FULL

QUERIES = [(name, query) for name, feature in FEATURES.items() for query in feature.queries]
REFUSED = [(name, query) for name, feature in FEATURES.items() for query in feature.refused]


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Tables], Peers]:
    """Makes the tables of a feature, once for all that have the same."""
    made: dict[int, Peers] = {}

    def make(tables: Tables) -> Peers:
        if id(tables) not in made:
            both = Peers(Database(tmp_path_factory.mktemp("feature") / "root"), duckdb.connect())
            for table, (partitioned_by, rows) in tables.items():
                both.database.run(
                    f"CREATE TABLE {table}" + f" PARTITIONED BY ({partitioned_by})" * bool(partitioned_by)
                )
                both.peer.execute(f"CREATE TABLE {table}")
                for run in (both.database.run, both.peer.execute):
                    if rows:
                        run(f"INSERT INTO {table.split()[0]} VALUES {rows}")
            made[id(tables)] = both
        return made[id(tables)]

    return make


def exact(value: Any) -> Any:
    """A value that is equal to itself and can be counted."""
    if isinstance(value, list | tuple):
        return tuple(map(exact, value))
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    return datetime(value.year, value.month, value.day) if is_day else value


def check(peers: Peers, sql: str, feature: Feature | None = None) -> None:
    """Compare the answers to a query."""
    found, wanted = peers.database.query(sql), peers.peer.execute(sql)
    if feature is not None and feature.has_names:
        assert [name.lower() for name in found.schema.names] == [column[0].lower() for column in wanted.description]
    rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
    assert Counter(map(exact, rows)) == Counter(map(exact, wanted.fetchall())), sql


@pytest.mark.parametrize(("name", "query"), QUERIES)
def test_a_query_answers_as_duckdb_does(peers: Callable[[Tables], Peers], name: str, query: str) -> None:
    feature = FEATURES[name]
    check(peers(feature.tables), feature.form.format(query), feature)


@pytest.mark.parametrize(("name", "query"), REFUSED)
def test_what_would_answer_otherwise_is_refused(peers: Callable[[Tables], Peers], name: str, query: str) -> None:
    feature = FEATURES[name]
    said = peers(feature.tables).database.refuses(query)
    assert feature.refused[query] in said
    assert "$" not in said
    assert "datafusion" not in said


COMPARED = ["x", "x + 1", "3", "NULL", "coalesce(x, 0)"]
OPERATORS = ["IN", "NOT IN", "= ANY", "<> ALL", "> ALL", "< ANY"]
SUBQUERIES = [
    "SELECT y FROM u",
    "SELECT y FROM u WHERE u.b = t.a",
    "SELECT y FROM u WHERE u.b > t.a",
    "SELECT y FROM u WHERE false",
    "SELECT y FROM u WHERE y IS NOT NULL",
    "SELECT max(y) FROM u",
    "SELECT count(*) FROM u",
    "SELECT sum(y) FROM u GROUP BY b",
    "SELECT y FROM u WHERE u.b = t.a AND y > 1",
]
PLACES = [
    "{}",
    "NOT {}",
    "NOT ({})",
    "{} OR a = 1",
    "NOT ({} OR a = 1)",
    "({}) IS NULL",
    "({}) IS NOT TRUE",
    "a = 1 AND {} AND x > 0",
    "a = 1 AND ({} OR x > 1)",
    "CASE WHEN {} THEN false ELSE true END",
    "({}) = (a = 1)",
    "coalesce({}, true)",
]


@pytest.mark.sample(12)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_comparison_with_a_subquery_may_be_null(peers: Callable[[Tables], Peers], operator: str, place: str) -> None:
    product = [(left, subquery, table) for left in COMPARED for subquery in SUBQUERIES for table in "uvw"]
    chance = random.Random(f"{operator} {place}")  # noqa: S311 - a sample, no secret
    for left, subquery, table in chance.sample(product, 40 if IS_FULL else 3):
        condition = place.format(f"{left} {operator} ({subquery})".replace("FROM u", f"FROM {table} AS u"))
        check(peers(NULLABLE), f"SELECT x, a FROM t WHERE {condition}")
