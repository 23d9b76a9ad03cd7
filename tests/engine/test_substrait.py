"""Substrait plans run as the SQL that they stand for, prune as it does, and do nothing else."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pyarrow as pa
import pytest
from datafusion import SessionContext, udf
from datafusion.substrait import Producer, Serde
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.substrait import plan_in, statement_of
from lance_flight.errors import InvalidInput, LanceFlightError, LimitExceeded, NotFound, SqlError, Unsupported
from substrait.plan_pb2 import Plan

from tests.engine.database import open_engine

READINGS = pa.schema([pa.field("at", pa.date32()), pa.field("id", pa.int64()), pa.field("place", pa.utf8())])


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    made = open_engine(tmp_path_factory.mktemp("substrait"))
    made.update("CREATE TABLE readings (at date, id bigint, place varchar) PARTITIONED BY (year(at), bucket(4, id))")
    rows = ", ".join(f"(DATE '{2020 + n % 4}-05-01', {n}, 'place {n % 3}')" for n in range(40))
    made.update(f"INSERT INTO readings VALUES {rows}")
    made.update("CREATE TABLE far (at date, id bigint, place varchar)")
    made.update("INSERT INTO far SELECT DATE '2024-01-01', 9223372036854775807 - n, 'p' FROM (VALUES (0), (1)) AS x(n)")
    return made


@pytest.fixture(scope="module")
def client() -> SessionContext:
    """A client that plans for itself: it knows the columns, and has no rows."""
    context = SessionContext()
    for name in ("readings", "far", "missing"):
        context.register_record_batches(name, [[pa.RecordBatch.from_pylist([], schema=READINGS)]])
    context.register_udf(udf(lambda ids: ids, [pa.int64()], pa.int64(), "immutable", "of_the_client"))
    return context


def planned(client: SessionContext, sql: str) -> str:
    return statement_of(Serde.serialize_bytes(sql, client))


QUERIES = {
    "all of a table": "SELECT * FROM readings",
    "a filter that prunes": "SELECT id, place AS where_it_is FROM readings WHERE at >= DATE '2023-01-01'",
    "a part of a date": "SELECT id FROM readings WHERE date_part('year', at) = 2021",
    "equality in a bucket": "SELECT place FROM readings WHERE id = 7",
    "a list": "SELECT id FROM readings WHERE id IN (1, 2, 39)",
    "LIKE": "SELECT id FROM readings WHERE place LIKE 'place 1%'",
    "NULLs compared": "SELECT id FROM readings WHERE place IS NOT DISTINCT FROM 'place 2'",
    "an aggregate": "SELECT place, count(*) AS n, sum(id) AS s, avg(id) AS a FROM readings GROUP BY place",
    "a window": "SELECT id, CAST(row_number() OVER (PARTITION BY place ORDER BY id) AS BIGINT) AS n FROM readings",
    "a join": "SELECT a.id FROM readings a JOIN readings b ON a.id = b.id AND a.at = b.at WHERE b.id > 30",
    "a subquery": "SELECT id FROM readings WHERE id IN (SELECT id FROM readings WHERE place = 'place 1')",
    "a union": "SELECT id FROM readings WHERE id < 3 UNION ALL SELECT id FROM readings WHERE id > 38",
    "an order and a limit": "SELECT id FROM readings ORDER BY id DESC LIMIT 3",
    "CASE and functions": "SELECT CASE WHEN id = 1 THEN upper(place) ELSE substr(place, 1, 2) END AS x FROM readings",
    "texts": "SELECT lpad(place, 12, '-') || place AS a, "
    + "||".join(["place"] * 12)
    + " AS b, concat(place, 'x') AS c, replace(place, 'place', 'p') AS d FROM readings",
    "EXISTS beside OR": "SELECT id FROM readings a WHERE id < 3 OR EXISTS (SELECT 1 FROM readings b WHERE b.id = a.id AND b.place = 'place 1')",
    "no table": "SELECT 1 AS one, 'x' AS x",
}


@pytest.mark.parametrize("sql", QUERIES.values(), ids=QUERIES.keys())
def test_a_plan_answers_as_its_sql_and_prunes_as_it_does(engine: Engine, client: SessionContext, sql: str) -> None:
    statement = planned(client, sql)
    answered, wanted = engine.query(statement), engine.query(sql)
    assert answered.schema == wanted.schema
    assert in_order(answered) == in_order(wanted)
    assert engine.describe(statement).schema == wanted.schema
    assert pruning(engine, statement) == pruning(engine, sql)


# Query of integers that may leave BIGINT → what is said of those that do; None: of this plan nothing is checked, and it is refused.
WRAPPED = {
    "SELECT sum(id) AS total FROM readings": "beyond BIGINT",
    "SELECT place, sum(id) AS total, count(*) AS n FROM readings GROUP BY place": "beyond BIGINT",
    "SELECT id + id AS twice, id - 1 AS less FROM readings WHERE id * 2 > 10": "beyond BIGINT",
    "SELECT place, max(x) AS m FROM (SELECT place, sum(id * 3) AS x FROM readings GROUP BY place, at) AS q GROUP BY place": None,
    "SELECT sum(a.id) AS s FROM readings a JOIN readings b ON a.id = b.id WHERE b.place <> 'x, y'": "beyond BIGINT",
    "SELECT place, sum(CAST(id AS DECIMAL(38, 19))) AS s FROM readings GROUP BY place": "is too l",
    "SELECT sum(id) AS s FROM readings WHERE EXISTS (SELECT 1 FROM readings u WHERE u.place = readings.place)": None,
}


@pytest.mark.parametrize("sql", WRAPPED)
def test_integers_beyond_bigint_are_an_error(engine: Engine, client: SessionContext, sql: str) -> None:
    if WRAPPED[sql] is None:
        with pytest.raises(Unsupported, match=r"may leave BIGINT or DECIMAL.*cast the operands"):
            engine.query(planned(client, sql))
        return
    answered, wanted = engine.query(planned(client, sql)), engine.query(sql)
    assert answered.schema == wanted.schema
    assert in_order(answered) == in_order(wanted)
    with pytest.raises(LanceFlightError, match=WRAPPED[sql]):
        engine.query(planned(client, sql.replace("readings", "far")))


LARGE = {
    "repeat": "SELECT repeat(place, 1000000) FROM readings",
    "repeat of columns": "SELECT repeat(place, id * 1000000000) FROM readings",
    "repeat of repeat": "SELECT repeat(repeat(repeat(repeat(place, 999), 999), 999), 999) FROM readings",
    "lpad": "SELECT lpad(place, id * 1000000000) FROM readings",
    "rpad in a condition": "SELECT id FROM readings WHERE rpad(place, id * 1000000000) = 'x'",
    "regexp_replace": "SELECT regexp_replace(repeat(place, 1000), '', repeat(place, 1000), 'g') FROM readings",
    "replace in replace": "SELECT " + "replace(" * 5 + "place" + (", 'p', '" + "p" * 900 + "')") * 5 + " FROM readings",
    "levenshtein": "SELECT levenshtein(place, place) FROM readings",
    "array_repeat": "SELECT array_repeat(id, id) FROM readings",
    "range": "SELECT range(id * 1000000000) FROM readings",
    "centroids": "SELECT approx_percentile_cont(id, 0.5, 100000000) FROM readings",
    "a window": "SELECT lag(repeat(place, id * 1000000)) OVER (ORDER BY id) FROM readings",
    "an aggregate": "SELECT max(lpad(place, id * 1000000)) FROM readings GROUP BY id",
    "an order": "SELECT id FROM readings ORDER BY lpad(place, id * 1000000)",
    "a join": "SELECT a.id FROM readings a JOIN readings b ON lpad(a.place, a.id * 1000000) = b.place",
    "a subquery": "SELECT id FROM readings WHERE place IN (SELECT repeat(place, id * 1000000) FROM readings)",
    "concat of concat": "SELECT x FROM "
    + f"(SELECT concat({', '.join('x' * 40)}) AS x FROM " * 7
    + "(SELECT place AS x FROM readings)"
    + ")" * 7,
}


@pytest.mark.parametrize("sql", LARGE.values(), ids=LARGE)
def test_what_may_grow_large_is_refused(engine: Engine, client: SessionContext, sql: str) -> None:
    plan = client.sql(sql).logical_plan()
    statement = statement_of(Producer.to_substrait_plan(plan, client).encode())
    with pytest.raises(
        LimitExceeded, match=r"smaller ones|names of more|send the query as SQL|operators|literal up to 1000"
    ):
        engine.query(statement)


@pytest.mark.parametrize("equality", ["", " AND a.place = b.place"], ids=["", "with an equality"])
def test_a_plan_that_would_go_on_when_its_statement_is_over_is_refused(
    engine: Engine, client: SessionContext, equality: str
) -> None:
    sql = f"SELECT id FROM readings a WHERE id < 3 OR EXISTS (SELECT 1 FROM readings b WHERE sin(a.id) * b.id > 7{equality})"
    assert len(engine.query(sql)) > 3
    with pytest.raises(Unsupported, match="would go on when its statement is over; send the query as SQL"):
        engine.query(planned(client, sql))


def test_pruning_is_seen(engine: Engine, client: SessionContext) -> None:
    said = pruning(engine, planned(client, QUERIES["a filter that prunes"]))
    assert any(line.startswith("partitions: 4 / 16") for line in said)


def in_order(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def pruning(engine: Engine, statement: str) -> list[str]:
    rows = engine.query(f"EXPLAIN {statement}").to_pylist()
    said = (row["plan"] for row in rows if row["plan_type"] not in {"logical_plan", "physical_plan"})
    return [re.sub(r"(?<=Join: )[^;]*", "its aliases", text) for text in said]


def by_hand(root: dict[str, object], **more: object) -> str:
    """A plan as the version 0.20 of Substrait wrote it."""
    value = {"version": {"minorNumber": 20}, "relations": [{"root": {"input": root, "names": ["id"]}}], **more}
    return statement_of(json_format.ParseDict(value, Plan()).SerializeToString())


SCAN = {
    "read": {
        "baseSchema": {
            "names": ["at", "id", "place"],
            "struct": {
                "types": [{"date": {}}, {"i64": {}}, {"string": {}}],
                "nullability": "NULLABILITY_REQUIRED",
            },
        },
        "projection": {"select": {"structItems": [{"field": 1}]}, "maintainSingularStruct": True},
        "namedTable": {"names": ["readings"]},
    }
}
ID = {"selection": {"directReference": {"structField": {"field": 0}}, "rootReference": {}}}
FUNCTIONS = {
    "extensions": [{"extensionFunction": {"functionAnchor": 1, "name": "equal:any_any"}}],
}
FILTERED = {
    "filter": {
        "input": SCAN,
        "condition": {
            "scalarFunction": {
                "functionReference": 1,
                "outputType": {"bool": {"nullability": "NULLABILITY_NULLABLE"}},
                "arguments": [{"value": ID}, {"value": {"literal": {"i64": "7"}}}],
            }
        },
    }
}


def test_an_old_plan_is_read(engine: Engine) -> None:
    assert engine.query(by_hand(FILTERED, **FUNCTIONS)).to_pydict() == {"id": [7]}


WRITE = {
    "write": {
        "namedTable": {"names": ["readings"]},
        "tableSchema": SCAN["read"]["baseSchema"],
        "op": "WRITE_OP_INSERT",
        "input": SCAN,
    }
}
FILES = {"read": {**SCAN["read"], "localFiles": {"items": [{"uriFile": "file:///etc/passwd", "parquet": {}}]}}}
del FILES["read"]["namedTable"]

SPAN = "CASE WHEN id = 1 THEN INTERVAL '1 month' ELSE INTERVAL '40 days' END"
MISREAD = {
    "a date with hours": ("SELECT at + INTERVAL '5 hours' AS x FROM readings", "has a time, which a DATE has not"),
    "the greatest interval": (f"SELECT max({SPAN}) AS m FROM readings", "write max_by"),
    "an order of intervals": (f"SELECT id FROM readings ORDER BY {SPAN}", "write ORDER BY epoch"),
}


@pytest.mark.parametrize(("sql", "words"), MISREAD.values(), ids=MISREAD.keys())
def test_intervals_that_datafusion_misreads_are_refused_as_in_sql(
    engine: Engine, client: SessionContext, sql: str, words: str
) -> None:
    for statement in (sql, planned(client, sql)):
        with pytest.raises(Unsupported, match=words):
            engine.query(statement)


REFUSED = {
    "no plan": (statement_of(b"\xff\xff"), SqlError, "Failed to decode plan"),
    "an empty plan": (statement_of(b""), SqlError, "Number of relation trees: 0"),
    "no base64": ("SUBSTRAIT '!'", SqlError, "SUBSTRAIT takes a plan in base64"),
    "no text": ("SUBSTRAIT readings", SqlError, "expected a plan in base64, in quotes, got 'readings'"),
    "a write": (by_hand(WRITE), SqlError, "^the relation Write of the plan is not offered"),
    "a file": (by_hand(FILES), NotFound, "no table 'passwd'"),
}


@pytest.mark.parametrize(("statement", "kind", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_query_of_tables_is_refused(
    engine: Engine, statement: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        engine.query(statement)
    assert engine.query("SELECT count(*) AS n FROM readings").to_pydict() == {"n": [40]}


FOREIGN = {
    "a table that is not there": ("SELECT id FROM missing", NotFound, "no table 'missing'"),
    "a function that is not there": ("SELECT of_the_client(id) FROM readings", SqlError, "of_the_client"),
}


@pytest.mark.parametrize(("sql", "kind", "words"), FOREIGN.values(), ids=FOREIGN.keys())
def test_what_only_the_client_has_is_refused(
    engine: Engine, client: SessionContext, sql: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        engine.query(planned(client, sql))


def test_columns_of_another_type_are_refused(engine: Engine) -> None:
    other = SessionContext()
    other.register_record_batches("readings", [[pa.record_batch({"id": pa.array([], pa.utf8())})]])
    with pytest.raises(SqlError, match=r"has a different type \(VARCHAR\)"):
        engine.query(planned(other, "SELECT id FROM readings"))


def test_a_plan_that_is_nested_too_deeply_is_refused(engine: Engine) -> None:
    with pytest.raises(SqlError, match="recursion limit"):
        engine.query(statement_of(nested(5000)))


def nested(depth: int) -> bytes:
    """A plan of filters in filters: a Rel whose `filter` (2) has an `input` (2) that is a Rel …, and no condition."""
    relation = b""
    for _ in range(depth):
        relation = _field(2, _field(2, relation))
    return _field(3, _field(2, _field(1, relation)))


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, *_varint(len(content))]) + content


def _varint(number: int) -> Iterator[int]:
    while number > 0x7F:
        yield number & 0x7F | 0x80
        number >>= 7
    yield number


OUT_OF_BOUNDS = {"selection": {"directReference": {"structField": {"field": 9}}, "rootReference": {}}}


def test_a_plan_that_refers_to_no_column_is_refused(engine: Engine) -> None:
    with pytest.raises(SqlError, match="refers to what is not in it"):
        engine.query(by_hand({"project": {"input": SCAN, "expressions": [OUT_OF_BOUNDS]}}))


@given(st.data())
def test_damaged_plans_are_refused_or_run(engine: Engine, client: SessionContext, data: st.DataObject) -> None:
    plan = bytearray(Serde.serialize_bytes(data.draw(st.sampled_from(list(QUERIES.values()))), client))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(plan) - 1))
        plan[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        plan = plan or bytearray(b"\x00")
    with contextlib.suppress(LanceFlightError):
        engine.query(statement_of(bytes(plan)))


@pytest.mark.parametrize("is_plan", [False, True], ids=["SQL", "a plan"])
def test_a_name_that_cannot_be_sent_is_refused(engine: Engine, client: SessionContext, *, is_plan: bool) -> None:
    sql = 'SELECT 1 AS "a_b"'
    statement = statement_of(Serde.serialize_bytes(sql, client).replace(b"a_b", b"a\0b"))
    with pytest.raises(SqlError, match="Null byte"):
        engine.query(statement if is_plan else sql.replace("_", "\0"))


def test_an_update_by_plan_is_refused(engine: Engine, client: SessionContext) -> None:
    with pytest.raises(SqlError, match="returns rows; run it as a query"):
        engine.update(planned(client, "SELECT id FROM readings"))


def test_a_plan_takes_no_parameters(engine: Engine, client: SessionContext) -> None:
    statement = planned(client, "SELECT id FROM readings")
    assert len(engine.describe(statement).parameters) == 0
    with pytest.raises(InvalidInput, match="has 0 parameters"):
        engine.plan(statement, pa.record_batch({"1": [1]}))


def test_sql_that_speaks_of_a_plan_is_none() -> None:
    assert plan_in("SELECT 'SUBSTRAIT ''x'''") is None


def test_columns_have_the_names_of_the_plan(engine: Engine, client: SessionContext) -> None:
    frame = client.sql("SELECT place, count(*) AS n, sum(id), avg(id) FROM readings GROUP BY place")
    answered = engine.query(
        planned(client, "SELECT place, count(*) AS n, sum(id), avg(id) FROM readings GROUP BY place")
    )
    assert answered.schema.names == frame.schema().names
