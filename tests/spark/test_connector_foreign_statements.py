"""What users of Iceberg and Delta type, in a session with the connector's extension: it works, or its refusal says what to write."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.documents import TOP
from tests.engine.database import Database
from tests.selection import IS_FULL
from tests.spark.foreign_statements import FORMS, page

PAGE = TOP / "client/docs/coming-from-iceberg-or-delta.md"


def found_by(sql: SparkSession, statement: str) -> tuple[str, list[object]]:
    """Return the error of a statement, or its rows."""
    try:
        return "", list(sql.sql(statement).collect())
    except PySparkException as exc:
        return str(exc), []


def differs(database: Database, rows: list[object], expected: str, table: str) -> str:
    """Return what is there in place of what is expected; nothing where it is that."""
    kind, _, text = expected.partition(" ")
    subject, _, value = text.partition(" = ")
    match kind:
        case "rows":
            found = str([tuple(row) for row in rows])  # type: ignore[arg-type, var-annotated]
            return "" if found == text else found
        case "stored":
            subject, _, value = text.rpartition(" = ")
            found = str(database.rows(subject))
        case "columns":
            found = ", ".join(f"{c.name} {c.type}" for c in database.query(f"SELECT * FROM {subject} LIMIT 0").schema)
        case "has":
            return "" if text in str(rows) else str(rows)
        case _:
            found = definition(database, table)
            return "" if text in found else found
    return "" if found == value else found


def definition(database: Database, table: str) -> str:
    return str(database.rows(f"SHOW CREATE TABLE {table}")[0][-1])


def outcome(sql: SparkSession, database: Database, form: tuple[str, str], names: Mapping[str, object]) -> str:
    """Run a statement; return what is wrong with what it did, and nothing where it did what it should."""
    statement, expected = (text.format(**names, now=dt.datetime.now(dt.UTC).isoformat()) for text in form)
    table = str(names["n"])
    kind, _, message = expected.partition(" ")
    if kind not in {"refused", "fails"}:
        error, rows = found_by(sql, statement)
        return error or differs(database, rows, expected, table)
    message = message.partition(" // ")[0]
    before = definition(database, table), database.rows(f"SELECT count(*) FROM {table}")
    error, rows = found_by(sql, statement)
    if (definition(database, table), database.rows(f"SELECT count(*) FROM {table}")) != before:
        return "it has changed the table"
    return "" if message in error else error or f"no error, and {rows}"


def is_without_effect(form: tuple[str, str]) -> bool:
    """Tell whether nothing after a statement depends on it: it is refused, or only looks."""
    statement, expected = form
    return expected.startswith(("refused ", "fails ")) or statement.startswith(("SELECT ", "SHOW ", "DESCRIBE "))


def some_forms() -> Sequence[tuple[str, str]]:
    """Return the statements in their order; by default every third of those without an effect, and all others."""
    forms = [form for group in FORMS.values() for form in group]
    looks = [form for form in forms if is_without_effect(form)]
    left = set() if IS_FULL else set(looks) - set(looks[::3])
    return [form for form in forms if form not in left]


@pytest.mark.timeout(900)  # some 320 statements, one after the other
def test_statements_of_iceberg_and_delta_do_what_they_say(
    sql: SparkSession, database: Database, table: str, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": [9], "part": ["f"]}), tmp_path / "rows.parquet")
    database.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT, at TIMESTAMPTZ) PARTITIONED BY (k)")
    database.run(f"INSERT INTO {table} VALUES (1, 1, NULL), (2, 2, NULL)")
    version, begin = database.rows(f'SELECT version, committed_at FROM "{table}$snapshots" ORDER BY version')[-1]
    names = {
        "t": f"lake.{table}",
        "n": f"public.{table}",
        "n0": table,
        "v": version,
        "f": str(tmp_path),
        "begin": begin.isoformat(),
    }
    wrong = [(form, found) for form in some_forms() if (found := outcome(sql, database, form, names))]
    assert not wrong, "\n".join(f"{form[0]}\n  expected {form[1]}\n  found    {found}" for form, found in wrong)
    assert sorted(database.rows(f"SELECT id FROM {table}")) == [(1,), (2,)]


def test_the_page_lists_them_all() -> None:
    told = "\n".join(page())
    assert told in PAGE.read_text(), (
        "run python -m tests.spark.foreign_statements, and put what it prints into the page"
    )
