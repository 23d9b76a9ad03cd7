"""Schemas, specs, types and names that are too large: refused by a bound that the error names, soon, and never by the end of the process."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext
from datafusion.substrait import Serde
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.translation.substrait import statement_of
from lance_flight.engine.writes.ingest import IngestOptions
from lance_flight.errors import LanceFlightError

from tests.engine.database import open_engine
from tests.engine.principals import told

WIDE, DEEP, LONG = 20_000, 20_000, 1 << 20
# Most take a tenth of a second.
pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    made = open_engine(tmp_path_factory.mktemp("schemas") / "root")
    for sql in ("CREATE TABLE t (a INT, s STRUCT<b INT>)", "CREATE TABLE p (a INT) PARTITIONED BY (a)"):
        made.update(sql)
    return made


def within(times: int, *, of: str, end: str = ">") -> str:
    return of * times + "INT" + end * times


LONG_NAME = '"' + "x" * LONG + '"'
COLUMNS = ", ".join(f"c{n} INT" for n in range(WIDE))
FIELDS = ", ".join(f"bucket({n + 1}, a)" for n in range(WIDE))
TEXT = "'" + "x" * LONG + "'"
TOO_LARGE = {
    "columns": (f"CREATE TABLE m ({COLUMNS})", "10,000 columns"),
    "changes of columns": (f"ALTER TABLE t {', '.join(f'ADD COLUMN n{n} INT' for n in range(WIDE))}", "1,000 changes"),
    "fields of a struct": (f"CREATE TABLE m (a STRUCT<{COLUMNS}>)", "10,000 columns"),
    "partition fields": (f"CREATE TABLE m (a INT) PARTITIONED BY ({FIELDS})", "100 fields"),
    "partition fields of a table": (f"ALTER TABLE p SET PARTITIONED BY ({FIELDS})", "100 fields"),
    "columns of a query": (
        f"CREATE TABLE m AS SELECT {', '.join(f'1 AS c{n}' for n in range(WIDE))}",
        "2000 expressions",
    ),
    "lists": (f"CREATE TABLE m (a INT{'[]' * DEEP})", "more than 500"),
    "a few too many lists": (f"CREATE TABLE m (a INT{'[]' * 55})", "50 types within one another"),
    "far too many lists": (f"CREATE TABLE m (a INT{'[]' * 200})", "50 types within one another"),
    "arrays": (f"CREATE TABLE m (a {within(DEEP, of='ARRAY<')})", "more than"),
    "structs": (f"CREATE TABLE m (a {within(DEEP, of='STRUCT<a ')})", "more than"),
    "lists of a new column": (f"ALTER TABLE t ADD COLUMN n INT{'[]' * DEEP}", "more than"),
    "a few too many of a new column": (f"ALTER TABLE t ADD COLUMN n INT{'[]' * 55}", "50 types"),
    "lists of a cast": (f"SELECT CAST(NULL AS INT{'[]' * DEEP})", "more than"),
    "few lists of a cast": (f"SELECT CAST(NULL AS INT{'[]' * 100})", "50 types"),
    "lists of arrow_cast": (f"SELECT arrow_cast(NULL, '{'List(' * DEEP}Int32{')' * DEEP}')", "50 brackets"),
    "of arrow_try_cast": (f"SELECT ARROW_TRY_CAST(1, '{'List(' * DEEP}Int32{')' * DEEP}')", "50 brackets"),
    "of a partition expression": (
        f"CREATE TABLE m (a INT) PARTITIONED BY (expr('arrow_cast(col0, ''{'List(' * 5_000}Int32{')' * 5_000}'')', a))",
        "50 brackets",
    ),
    "of a default": (f"CREATE TABLE m (a INT DEFAULT arrow_cast(1, '{'List(' * DEEP}Int32{')' * DEEP}'))", "expected"),
    "of a computed column": (
        f"ALTER TABLE t ADD COLUMN n INT AS (arrow_cast(1, '{'List(' * DEEP}Int32{')' * DEEP}'))",
        "50 brackets",
    ),
    "of a view": (f"CREATE VIEW v AS SELECT arrow_cast(1, '{'List(' * DEEP}Int32{')' * DEEP}') AS a", "50 brackets"),
    "a column's name": (f"CREATE TABLE m ({LONG_NAME} INT)", "at most 1,000"),
    "a field's name": (f"CREATE TABLE m (a STRUCT<{LONG_NAME} INT>)", "at most 1,000"),
    "a table's name": (f"CREATE TABLE {LONG_NAME} (a INT)", "at most 200"),
    "a schema's name": (f"CREATE SCHEMA {LONG_NAME}", "at most 200"),
    "a view's name": (f"CREATE VIEW {LONG_NAME} AS SELECT 1 AS a", "at most 200"),
    "the name of a view's column": (f"CREATE VIEW v AS SELECT 1 AS {LONG_NAME}", "at most 1,000"),
    "a view's column of underscores": (f'CREATE VIEW v AS SELECT 1 AS "{"_" * len(LONG_NAME)}"', "at most 1,000"),
    "a view's column of blanks": (f'CREATE VIEW v AS SELECT 1 AS "a{" " * len(LONG_NAME)}"', "at most 1,000"),
    "a view's column of digits": (f'CREATE VIEW v AS SELECT 1 AS "{"1" * len(LONG_NAME)}"', "at most 1,000"),
    "a new name": (f"ALTER TABLE t RENAME COLUMN a TO {LONG_NAME}", "at most 1,000"),
    "a new table's name": (f"ALTER TABLE t RENAME TO {LONG_NAME}", "at most 200"),
    "a new column's name": (f"ALTER TABLE t ADD COLUMN {LONG_NAME} INT", "at most 1,000"),
    "an index's name": (f"CREATE INDEX {LONG_NAME} ON t (a)", "at most 200"),
    "a tag's name": (f"ALTER TABLE t CREATE TAG {LONG_NAME}", "at most 200"),
    "a branch's name": (f"ALTER TABLE p CREATE BRANCH {LONG_NAME}", "at most 200"),
    "a partition field's name": (f"CREATE TABLE m (a INT) PARTITIONED BY (a AS {LONG_NAME})", "at most 1,000"),
    "a partition field's expression": (
        f"CREATE TABLE m (a INT) PARTITIONED BY (expr('col0 + 0{' ' * LONG}', a))",
        "at most 65,536",
    ),
    "a table's comment": (f"COMMENT ON TABLE t IS {TEXT}", "at most 65536"),
    "a column's comment": (f"COMMENT ON COLUMN t.a IS {TEXT}", "at most 65536"),
    "a new table's comment": (f"CREATE TABLE m (a INT) COMMENT {TEXT}", "at most 65536"),
    "a default": (f"CREATE TABLE m (a VARCHAR DEFAULT {TEXT})", "at most 65,536"),
    "a new column's default": (f"ALTER TABLE t ADD COLUMN n VARCHAR DEFAULT {TEXT}", "at most 65,536"),
}


@pytest.mark.sample(12)
@pytest.mark.parametrize(("sql", "says"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_what_is_too_large_is_refused_by_its_bound(root: Engine, sql: str, says: str) -> None:
    before = told(root, "SHOW TABLES")
    said = told(root, sql)
    assert says in said, said[:500]
    assert said.split(":")[0] in {"LimitExceeded", "SqlError", "SchemaError", "SpecError", "InvalidInput"}
    assert len(said) < 2_000
    assert told(root, "SHOW TABLES") == before


def nested(times: int, *, by_structs: bool) -> pa.DataType:
    kind: pa.DataType = pa.int32()
    for _ in range(times):
        kind = pa.struct([("a", kind)]) if by_structs else pa.list_(kind)
    return kind


SENT = {
    "columns": ([(f"c{n}", pa.int32()) for n in range(WIDE)], "10,000 columns"),
    "fields": ([("a", pa.struct([(f"c{n}", pa.int32()) for n in range(WIDE)]))], "10,000 columns"),
    "lists": ([("a", nested(2_000, by_structs=False))], "50 types"),
    "structs": ([("a", nested(2_000, by_structs=True))], "50 types"),
    "a name": ([("x" * LONG, pa.int32())], "at most 1,000"),
    "a comment": ([pa.field("a", pa.int32(), metadata={"comment": "x" * LONG})], "at most 65,536"),
}


@pytest.mark.parametrize(("fields", "says"), SENT.values(), ids=SENT)
@pytest.mark.parametrize("table", ["new", "t"])
def test_what_an_ingest_sends_is_bounded(root: Engine, table: str, fields: list[Any], says: str) -> None:
    rows = pa.RecordBatchReader.from_batches(pa.schema(fields), [])
    with pytest.raises(LanceFlightError, match=says):
        root.ingest(
            TableName(PUBLIC, table),
            rows,
            create_missing=True,
            existing=IfExists.APPEND,
            options=IngestOptions(),
            scope=Scope(),
        )


def test_a_type_in_a_parameter_or_a_plan_is_bounded(root: Engine) -> None:
    deep = "List(" * DEEP + "Int32" + ")" * DEEP
    with pytest.raises(LanceFlightError, match="50 brackets"):
        root.plan("SELECT arrow_cast(1, $1)", pa.record_batch({"$1": [deep]}))
    text = "List(" * 55 + "Int32" + ")" * 55
    plan = Serde.serialize_bytes(f"SELECT arrow_cast(NULL, '{text}')", SessionContext())
    assert "50 brackets" in told(root, statement_of(plan))


@pytest.mark.full
def test_tables_of_many_columns_are_made(root: Engine) -> None:
    assert told(root, f"CREATE TABLE wide ({', '.join(f'c{n} INT' for n in range(1_000))})") == "0"
    assert told(root, f"ALTER TABLE wide {', '.join(f'ADD COLUMN n{n} INT' for n in range(500))}") == "0"
    assert told(root, "CREATE TABLE lists (a INT" + "[]" * 40 + ")") == "0"
    assert told(root, "SELECT count(*) AS n FROM lists") == "[\"{'n': 0}\"]"
