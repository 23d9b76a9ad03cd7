"""Partition tables without the columns of their identity fields, or with these under other names: rows are told the values.

Other writers leave such columns out, since the manifest has them, or rename columns in the namespace's schema alone.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.maintenance.rewriting import rewrite
from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate

from tests.catalog.foreign_namespaces import ForeignTable, SpecField, lay_out, with_ids
from tests.engine.database import open_engine
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # every statement over odd tables

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.utf8(), "n": pa.int64(), "word": pa.utf8()})
BY_P = [SpecField(name="p", source=1, kind=pa.utf8())]
VALUES = ("US", "DE", "FR", None)


def engine(root: Path, target_partitions: int = 1) -> Engine:
    return open_engine(root, target_partitions=target_partitions)


def values(root: Path, sql: str, target_partitions: int = 1) -> list[Any]:
    found: list[Any] = engine(root, target_partitions).query(sql).columns[0].to_pylist()
    return found


def opened(root: Path) -> PartitionedNamespace:
    return PartitionedNamespace.open(Store(str(root / "t")))


def rows(place: int, value: str | None, count: int = 2) -> pa.Table:
    """Rows of one partition, whole."""
    ids = range(10 * place, 10 * place + count)
    data = [{"id": n, "p": value, "n": n % 2, "word": f"w{n % 2}"} for n in ids]
    return pa.Table.from_pylist(data, schema=SCHEMA)


def without(table: pa.Table) -> list[pa.Table]:
    return [table.drop_columns(["p"])]


def in_one_file(table: pa.Table) -> list[pa.Table]:
    """The table has the column, and one of its two files."""
    return [table.slice(0, 1), table.slice(1).drop_columns(["p"])]


def in_no_file(table: pa.Table) -> list[pa.Table]:
    return [table.slice(0, 0), table.drop_columns(["p"])]


def renamed(table: pa.Table) -> list[pa.Table]:
    return [table.rename_columns(["id", "old_p", "n", "word"])]


FORMS = [
    pytest.param(without, id="without the column"),
    pytest.param(in_one_file, id="in one file of two"),
    pytest.param(in_no_file, id="in no file"),
    pytest.param(renamed, id="under an older name"),
]


def made(root: Path, form: Any, *, some: int = len(VALUES), version: str | None = None) -> Path:
    """A namespace by `p`; the first `some` tables have that form, the others are whole."""
    tables = [
        ForeignTable(
            values={"p": value},
            files=form(rows(place, value)) if place < some else [rows(place, value)],
            version=version,
        )
        for place, value in enumerate(VALUES)
    ]
    lay_out(root / "t", with_ids(SCHEMA), [BY_P], tables)
    return root


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Any:
    return request.param


ALL = [(0, "US"), (1, "US"), (10, "DE"), (11, "DE"), (20, "FR"), (21, "FR"), (30, None), (31, None)]
QUERIES = [
    pytest.param("p = 'US'", [0, 1], id="equal"),
    pytest.param("upper(p) = 'US'", [0, 1], id="a function"),
    pytest.param("p LIKE '%R'", [20, 21], id="LIKE"),
    pytest.param("p IS NULL", [30, 31], id="IS NULL"),
    pytest.param("p IS NOT NULL AND n = 1", [1, 11, 21], id="IS NOT NULL, with another column"),
    pytest.param("p || word = 'DEw0' OR id = 31", [10, 31], id="with another column"),
    pytest.param("p IN ('US', 'FR') AND id % 10 = 1", [1, 21], id="IN"),
    pytest.param("p <> 'US'", [10, 11, 20, 21], id="unequal"),
    pytest.param("concat(p, '') IN (SELECT p FROM t WHERE id = 11)", [10, 11], id="a subquery"),
]


@pytest.mark.parametrize("some", [1, 4], ids=["one of the tables", "all tables"])
def test_rows_have_the_values_of_their_partition(tmp_path: Path, form: Any, some: int) -> None:
    mine = engine(made(tmp_path, form, some=some), target_partitions=3)

    def answer(sql: str) -> list[Any]:
        found: list[Any] = mine.query(sql).columns[0].to_pylist()
        return found

    found = mine.query("SELECT id, p FROM t ORDER BY id")
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == ALL
    for query in QUERIES:
        condition, expected = query.values
        assert answer(f"SELECT id FROM t WHERE {condition} ORDER BY id") == expected, condition
        assert answer(f"SELECT count(*) FROM t WHERE {condition}") == [len(expected)], condition
    grouped = mine.query("SELECT p, count(*) AS n FROM t GROUP BY p ORDER BY p NULLS LAST").to_pylist()
    assert grouped == [{"p": p, "n": 2} for p in ("DE", "FR", "US", None)]
    assert answer("SELECT max(p) FROM t") == ["US"]
    assert answer("SELECT DISTINCT p FROM t WHERE id < 10") == ["US"]
    assert answer("SELECT a.id FROM t a JOIN t b ON a.p = b.p AND a.n = b.n WHERE b.id = 11") == [11]


WRITES = [
    pytest.param("INSERT INTO t VALUES (100, 'US', 0, 'x')", [*ALL, (100, "US")], id="INSERT"),
    pytest.param("INSERT INTO t VALUES (100, 'IT', 0, 'x')", [*ALL, (100, "IT")], id="INSERT of a new partition"),
    pytest.param("UPDATE t SET n = 7 WHERE p = 'US'", ALL, id="UPDATE"),
    pytest.param("UPDATE t SET p = lower(p) WHERE id = 10", [(i, "de" if i == 10 else p) for i, p in ALL], id="moved"),
    ("UPDATE t SET id = id + 100 WHERE upper(p) = 'US'", [(i + 100 * (p == "US"), p) for i, p in ALL]),
    pytest.param("DELETE FROM t WHERE concat(p, 'x') = 'FRx'", [(i, p) for i, p in ALL if p != "FR"], id="DELETE"),
    pytest.param("DELETE FROM t WHERE p IS NULL", [(i, p) for i, p in ALL if p], id="DELETE of NULL"),
    pytest.param(
        "MERGE INTO t USING (SELECT 10 AS id, 'DE' AS p UNION ALL SELECT 99, 'DE') s ON t.id = s.id AND t.p = s.p"
        " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, p, n) VALUES (s.id, s.p, 0)",
        [*(row for row in ALL if row[0] != 10), (99, "DE")],
        id="MERGE",
    ),
    ("INSERT OVERWRITE t SELECT id + 100, p, n, word FROM t WHERE p = 'US'", [*ALL[2:], (100, "US"), (101, "US")]),
    pytest.param("ALTER TABLE t DROP PARTITION (p = 'US')", ALL[2:], id="DROP PARTITION"),
    pytest.param("ALTER TABLE t ADD COLUMN more BIGINT", ALL, id="ADD COLUMN"),
    pytest.param("ALTER TABLE t ADD COLUMN lower_p VARCHAR AS (lower(p))", ALL, id="ADD COLUMN of it"),
    pytest.param("ALTER TABLE t RENAME COLUMN n TO m", ALL, id="RENAME COLUMN"),
    pytest.param("ALTER TABLE t SET PARTITIONED BY (bucket(2, p))", ALL, id="another spec"),
]


def stored(root: Path) -> list[tuple[int, str | None]]:
    found = engine(root).query("SELECT id, p FROM t ORDER BY id")
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.sample(5)
@pytest.mark.parametrize(("sql", "expected"), WRITES)
def test_rows_are_changed_by_the_values_of_their_partition(
    tmp_path: Path, form: Any, sql: str, expected: list[tuple[int, str | None]]
) -> None:
    root = made(tmp_path, form)
    engine(root).update(sql)
    assert stored(root) == sorted(expected, key=lambda row: row[0])
    report = verify(opened(root), evaluate)
    assert [str(table) for table in report.tables if not table.is_sound] == []
    compact(opened(root))
    rewrite(opened(root), evaluate)
    assert stored(root) == sorted(expected, key=lambda row: row[0])
    report = verify(opened(root), evaluate)
    assert [str(table) for table in report.tables if not table.is_sound] == []
    engine(root).update("DELETE FROM t WHERE concat(p, '') = 'DE'")
    assert stored(root) == sorted((row for row in expected if row[1] != "DE"), key=lambda row: row[0])


def test_a_computed_column_is_made_of_the_values(tmp_path: Path, form: Any) -> None:
    root = made(tmp_path, form)
    engine(root).update("ALTER TABLE t ADD COLUMN lower_p VARCHAR AS (lower(p))")
    assert values(root, "SELECT DISTINCT lower_p FROM t ORDER BY 1") == ["de", "fr", "us", None]


def test_the_column_is_renamed_and_partitions_are_rewritten(tmp_path: Path, form: Any) -> None:
    root = made(tmp_path, form)
    engine(root).update("ALTER TABLE t RENAME COLUMN p TO country")
    assert values(root, "SELECT id FROM t WHERE lower(country) = 'us' ORDER BY id") == [0, 1]
    engine(root).update("INSERT INTO t VALUES (100, 'US', 0, 'x')")
    engine(root).update("ALTER TABLE t SET PARTITIONED BY (bucket(2, id))")
    engine(root).query("ALTER TABLE t REWRITE PARTITIONS")
    assert values(root, "SELECT country FROM t ORDER BY id") == [*(p for _, p in ALL), "US"]
    assert {table.spec_id for table in stored_tables(root / "t")} == {2}


def test_not_null_holds_where_the_manifest_says_so(tmp_path: Path, form: Any) -> None:
    root = made(tmp_path, form)
    with pytest.raises(Exception, match="NULL"):
        engine(root).update("ALTER TABLE t ALTER COLUMN p SET NOT NULL")
    engine(root).update("DELETE FROM t WHERE p IS NULL")
    engine(root).update("ALTER TABLE t ALTER COLUMN p SET NOT NULL")
    assert stored(root) == ALL[:6]


@pytest.mark.parametrize("by", ["INSERT INTO t VALUES (100, 'US', 0, 'x')", "UPDATE t SET n = 9 WHERE id = 0"])
def test_what_came_and_went_has_the_values(tmp_path: Path, form: Any, by: str) -> None:
    root = made(tmp_path, form)
    first = opened(root).begin().base.version
    engine(root).update(by)
    changes = engine(root).query(f"SELECT DISTINCT p FROM table_changes('t', {first}, {first + 1})")
    assert changes["p"].to_pylist() == ["US"]


def test_a_detached_partition_brings_its_values_along(tmp_path: Path, form: Any) -> None:
    root = made(tmp_path, form)
    engine(root).update("ALTER TABLE t DETACH PARTITION (p = 'US') TO apart")
    assert values(root, "SELECT p FROM apart") == ["US", "US"]


SEARCHED = pa.schema({**{field.name: field.type for field in SCHEMA}, "v": pa.list_(pa.float32(), 2)})


@pytest.mark.parametrize("indexed", [False, True], ids=["without indices", "with indices"])
@pytest.mark.parametrize("form", [without, in_one_file], ids=["without the column", "in one file of two"])
def test_searches_have_the_values(tmp_path: Path, form: Any, *, indexed: bool) -> None:
    tables = []
    for place, value in enumerate(VALUES):
        table = rows(place, value)
        vectors = pa.array([[float(n), 0.0] for n in table["id"].to_pylist()], pa.list_(pa.float32(), 2))
        tables.append(ForeignTable(values={"p": value}, files=form(table.append_column("v", vectors))))
    lay_out(tmp_path / "t", with_ids(SEARCHED), [BY_P], tables)
    mine = engine(tmp_path, 2)
    if indexed:
        mine.update("CREATE INDEX vectors ON t (v) USING ivf_flat WITH (num_partitions = 1)")
        mine.update("CREATE INDEX words ON t (word) USING inverted")
    nearest = "SELECT id, p FROM vector_search('t', 'v', [11.0, 0.0], k => {k}{more}) ORDER BY _distance"
    assert mine.query(nearest.format(k=3, more="")).to_pylist() == [
        {"id": 11, "p": "DE"},
        {"id": 10, "p": "DE"},
        {"id": 20, "p": "FR"},
    ]
    for condition, expected in (
        ("upper(p) <> ''DE''", [20, 1]),
        ("p = ''US''", [1, 0]),
        ("p IS NULL", [30, 31]),
        ("p > ''EE'' AND n = 1", [21, 1]),
    ):
        found = mine.query(nearest.format(k=2, more=f", filter => '{condition}'"))
        assert sorted(found["id"].to_pylist()) == sorted(expected), condition
    text = (
        "SELECT id, p FROM full_text_search('t', 'word', 'w1', k => 9, filter => 'p || ''x'' <> ''USx''') ORDER BY id"
    )
    assert mine.query(text).to_pylist() == [{"id": 11, "p": "DE"}, {"id": 21, "p": "FR"}]
    by_value = mine.query("SELECT id FROM full_text_search('t', 'p', 'us', k => 9) ORDER BY id")["id"].to_pylist()
    assert by_value == [0, 1]


def test_fields_are_found_by_their_numbers_where_names_do_not_say_otherwise(tmp_path: Path) -> None:
    before = pa.schema({"id": pa.int64(), "p": pa.utf8(), "s": pa.struct([("a", pa.int64()), ("b", pa.utf8())])})
    after = pa.schema(
        {"number": pa.int64(), "country": pa.utf8(), "pair": pa.struct([("x", pa.int64()), ("b", pa.utf8())])}
    )
    data = pa.Table.from_pylist([{"id": 1, "p": "US", "s": {"a": 2, "b": "c"}}], schema=before)
    lay_out(tmp_path / "t", with_ids(after), [BY_P], [ForeignTable(values={"p": "US"}, files=[data])])
    expected = {"number": 1, "country": "US", "pair": {"x": 2, "b": "c"}}
    assert engine(tmp_path).query("SELECT * FROM t").to_pylist() == [expected]
    assert values(tmp_path, "SELECT number FROM t WHERE upper(country) = 'US' AND pair['x'] = 2") == [1]
    engine(tmp_path).update("INSERT INTO t SELECT number + 1, country, pair FROM t")
    assert engine(tmp_path).query("SELECT * FROM t ORDER BY number").to_pylist() == [expected, expected | {"number": 2}]
    (table,) = stored_tables(tmp_path / "t")
    assert table.dataset.schema.names == ["id", "p", "s"]
    engine(tmp_path).update("ALTER TABLE t RENAME COLUMN pair TO both")
    assert engine(tmp_path).query("SELECT both FROM t").to_pylist() == [{"both": {"x": 2, "b": "c"}}] * 2


CONTRADICTIONS = [
    ({"id": [1], "n": [5], "word": ["a"]}, {"id": 1, "p": "US", "n": 5, "word": "a"}),
    pytest.param({"word": ["a"], "n": [5], "id": [1]}, {"id": 1, "p": "US", "n": 5, "word": "a"}, id="another order"),
    pytest.param({"n": [5], "id": [1]}, {"id": 1, "p": "US", "n": 5, "word": None}, id="two left out, another order"),
    ({"id": [1], "p": ["US"], "m": ["x"]}, {"id": 1, "p": "US", "n": None, "word": None}),
    ({"a": [1], "b": ["US"], "c": [5], "d": ["a"]}, {"id": 1, "p": "US", "n": 5, "word": "a"}),
    ({"id": [1], "old": ["US"], "n": [5]}, {"id": 1, "p": "US", "n": 5, "word": None}),
]


@pytest.mark.parametrize(("columns", "expected"), CONTRADICTIONS)
def test_names_count_before_numbers(tmp_path: Path, columns: dict[str, list[Any]], expected: dict[str, Any]) -> None:
    table = ForeignTable(values={"p": "US"}, files=[pa.table(columns)])
    lay_out(tmp_path / "t", with_ids(SCHEMA), [BY_P], [table])
    assert engine(tmp_path).query("SELECT * FROM t").to_pylist() == [expected]
    condition = " AND ".join(f"{n} IS NULL" if v is None else f"{n} = {v!r}" for n, v in expected.items())
    assert engine(tmp_path).query(f"SELECT * FROM t WHERE {condition}").num_rows == 1


TYPES = [
    pytest.param(pa.timestamp("ns"), "2025-01-01T00:00:00.000000001", id="ns"),
    pytest.param(pa.time64("ns"), "", id="time"),
    pytest.param(pa.decimal128(10, 2), "12.50", id="decimal"),
    pytest.param(pa.date32(), "2025-01-01", id="date"),
    pytest.param(pa.bool_(), "true", id="bool"),
    pytest.param(pa.float64(), "1.5", id="float"),
    pytest.param(pa.int64(), "-7", id="int"),
]


@pytest.mark.parametrize(("kind", "text"), TYPES)
def test_values_of_all_types_are_filled_and_travel_with_the_work(tmp_path: Path, kind: pa.DataType, text: str) -> None:
    value = pa.scalar(36_000_000_000_007, kind) if pa.types.is_time(kind) else pa.scalar(text).cast(kind)
    schema = pa.schema({"id": pa.int64(), "p": kind})
    spec = [SpecField(name="p", source=1, kind=kind)]
    tables = [ForeignTable(values={"p": value}, files=[pa.table({"id": [1]})])]
    lay_out(tmp_path / "t", with_ids(schema), [spec], tables)
    expected = pa.chunked_array([pa.array([value], kind)])
    assert engine(tmp_path).query("SELECT p FROM t")["p"].equals(expected)
    snapshot = opened(tmp_path).snapshot()
    (table,) = snapshot.all_tables()
    again = pickle.loads(pickle.dumps(snapshot.context_of(table)))  # noqa: S301 - our own
    assert again.identity.by_source[1].equals(value)


def test_a_value_that_cannot_be_of_the_type_is_named(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "p": pa.int64()})
    tables = [ForeignTable(values={"p": "x1"}, files=[pa.table({"id": [1]})])]
    lay_out(tmp_path / "t", with_ids(schema), [BY_P], tables)
    with pytest.raises(Exception, match="partition value of column 'p', which the files lack, is no int64"):
        engine(tmp_path).query("SELECT p FROM t")
    assert values(tmp_path, "SELECT id FROM t") == [1]


@pytest.mark.parametrize("target_partitions", [1, 3])
def test_a_field_inside_a_struct_is_filled_where_the_struct_or_the_field_is_missing(
    tmp_path: Path, target_partitions: int
) -> None:
    pair, rest = pa.struct([("x", pa.int32()), ("y", pa.utf8())]), pa.struct([("y", pa.utf8())])
    files = {
        1: pa.table({"id": [1, 2], "s": pa.array([{"y": "a"}, None], rest)}),
        2: pa.table({"id": [3]}),
        None: pa.table({"id": [4]}),
        3: pa.table({"id": [5], "s": pa.array([{"x": 3, "y": "b"}], pair)}),
    }
    tables = [ForeignTable(values={"x": value}, files=[data]) for value, data in files.items()]
    schema = with_ids(pa.schema({"id": pa.int64(), "s": pair}))
    lay_out(tmp_path / "t", schema, [[SpecField(name="x", source=2, kind=pa.int32())]], tables)
    assert values(tmp_path, "SELECT s FROM t ORDER BY id", target_partitions) == [
        {"x": 1, "y": "a"},
        {"x": 1, "y": None},
        {"x": 2, "y": None},
        None,
        {"x": 3, "y": "b"},
    ]
    assert values(tmp_path, "SELECT id FROM t WHERE s['x'] >= 2 ORDER BY id", target_partitions) == [3, 5]
    assert values(tmp_path, "SELECT id FROM t WHERE s IS NULL", target_partitions) == [4]
