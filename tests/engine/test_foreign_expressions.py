"""Partition expressions of others that are not deterministic, or that nobody here knows: they prune nothing, and say why."""

from __future__ import annotations

import json

import lance
import pytest

from tests.engine.database import Database
from tests.stock import stored_rows

FOREIGN = {
    "chance": ("CAST(random() * 3 AS BIGINT)", "'random' is not deterministic"),
    "chance_by_another_name": ("col0 + CAST(RAND() AS BIGINT)", "'rand' is not deterministic"),
    "clock": ("col0 % date_part('year', now())", "'now' is not deterministic"),
    "unknown": ("their_own(col0)", "Invalid function 'their_own'"),
}
"""By table: the expression that stands in the spec, and what is said of it."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    laid_out = Database(tmp_path_factory.mktemp("foreign"))
    for table, (expression, _) in FOREIGN.items():
        lay_out(laid_out, table, expression)
    return laid_out


def lay_out(database: Database, table: str, expression: str) -> None:
    """A table whose rows lie by id % 3, as an expression of another writer may have put them."""
    database.run(f"CREATE TABLE {table} (id BIGINT, v BIGINT) PARTITIONED BY (expr('col0 % 3', id) AS part)")
    database.run(f"INSERT INTO {table} SELECT value, value FROM generate_series(1, 9)")
    manifest = lance.dataset(f"{database.root}/{table}/__manifest")
    spec = json.loads(manifest.metadata["partition_spec_v1"])
    spec["fields"][0]["expression"] = expression
    manifest.update_metadata({"partition_spec_v1": json.dumps(spec)})


def explained(database: Database, sql: str) -> str:
    return "\n".join(text for _, text in database.rows(f"EXPLAIN {sql}"))


@pytest.mark.parametrize("table", FOREIGN)
def test_queries_find_every_row_and_say_why_nothing_was_pruned(database: Database, table: str) -> None:
    for number in range(1, 10):
        assert database.rows(f"SELECT v FROM {table} WHERE id = {number}") == [(number,)]
    said = explained(database, f"SELECT v FROM {table} WHERE id IN (1, 5)")
    assert "partitions: 3 / 3" in said
    assert FOREIGN[table][1] in said
    assert database.value(f"SELECT sum(v) FROM {table} WHERE id IN (1, 5) AND v > 0") == 6
    assert database.run(f"DELETE FROM {table} WHERE id = 77") == 0


@pytest.mark.parametrize("table", FOREIGN)
def test_joins_and_aggregates_are_not_run_by_such_a_field(database: Database, table: str) -> None:
    join = f"SELECT count(*) FROM {table} l JOIN {table} r ON l.id = r.id"
    assert database.value(join) == 9
    said = explained(database, join)
    assert "groups: none" in said
    assert FOREIGN[table][1] in said
    assert database.value(f"SELECT count(*) FROM (SELECT id FROM {table} GROUP BY id)") == 9


@pytest.mark.parametrize("table", FOREIGN)
@pytest.mark.parametrize("statement", ["INSERT INTO {} VALUES (10, 10)", "UPDATE {} SET v = 0 WHERE id = 1"])
def test_rows_are_not_written_and_the_field_is_named(database: Database, table: str, statement: str) -> None:
    before = stored_rows(database.root / table).num_rows
    said = database.refuses(statement.format(table))
    assert "partition field 'part'" in said
    assert FOREIGN[table][1] in said
    assert stored_rows(database.root / table).num_rows == before == 9
    assert database.value(f"SELECT sum(v) FROM {table}") == 45


@pytest.mark.parametrize("table", FOREIGN)
def test_verification_says_it_too(database: Database, table: str) -> None:
    problems = {row[-1] for row in database.rows(f"VERIFY TABLE {table}")}
    assert all(FOREIGN[table][1] in problem for problem in problems)


def test_names_of_functions_are_names_of_columns_all_the_same(database: Database) -> None:
    database.run('CREATE TABLE named (id BIGINT, "random" BIGINT, now BIGINT) PARTITIONED BY (id)')
    database.run("INSERT INTO named VALUES (1, 2, 3)")
    database.run("ALTER TABLE named ADD COLUMN total BIGINT AS (random + now)")
    assert database.rows("SELECT total FROM named") == [(5,)]
