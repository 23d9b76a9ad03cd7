"""Columns of vectors: of floats of 16 bits and of bytes, and lists that become vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes import ingest as checking
from lance_flight.errors import DataError, LanceFlightError, SqlError, Unsupported

from tests.engine.database import open_engine
from tests.search.collection import distance, literal, query, told

pytestmark = pytest.mark.slow  # every kind of index of every kind of vector

EXACTLY = "nprobes => 100, refine => 100"


def ingest(of: Engine, table: str, *batches: pa.Table) -> int:
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, [b for each in batches for b in each.to_batches()])
    return of.ingest(TableName(PUBLIC, table), reader, create_missing=True, existing=IfExists.APPEND)


def column(of: Engine, table: str, name: str) -> pa.DataType:
    return of.root.read(TableName(PUBLIC, table), lambda found: found.snapshot().schema.plain.field(name).type)


# Other numbers than floats of 32 bits


TYPES = {"HALF[8]": pa.float16(), "FLOAT16[8]": pa.float16(), "DOUBLE[8]": pa.float64()}


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("kind", TYPES)
def test_vectors_of_other_numbers_are_searched(tmp_path: Path, kind: str, metric: str) -> None:
    of = open_engine(tmp_path / "root")
    of.update(f"CREATE TABLE docs (id BIGINT, tenant VARCHAR, v {kind}) PARTITIONED BY (tenant)")
    assert column(of, "docs", "v") == pa.list_(TYPES[kind], 8)
    numbers = np.random.default_rng(3).integers(-40, 40, (60, 8)).astype(np.float64)
    rows = ", ".join(f"({n}, '{'ab'[n % 2]}', {literal(row.tolist())})" for n, row in enumerate(numbers))
    of.update(f"INSERT INTO docs VALUES {rows}")
    asked = np.array([1, 2, 3, 4, 5, 6, 7, 8], np.float64)
    nearest = sorted(round(distance(row, asked, metric), 2) for row in numbers)[:5]
    call = f"vector_search('docs', 'v', {literal(asked.tolist())}, k => 5, metric => '{metric}', {EXACTLY})"
    assert [row["_distance"] for row in query(of, f"SELECT _distance FROM {call}")] == pytest.approx(
        nearest, rel=0.01, abs=0.01
    )


KINDS = ["ivf_flat", "ivf_sq", "ivf_pq", "ivf_rq", "ivf_hnsw_flat", "ivf_hnsw_sq", "ivf_hnsw_pq"]
RECALL = {"ivf_pq": 0.4, "ivf_hnsw_pq": 0.3}
"""Least part of the nearest rows that an index of quantised vectors finds by itself."""


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_index_is_built_of_half_floats(tmp_path: Path, kind: str, metric: str) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE docs (id BIGINT, v HALF[16])")
    numbers = np.random.default_rng(3).normal(size=(600, 16)).astype(np.float16)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), 16)
    ingest(of, "docs", pa.table({"id": range(600), "v": vectors}))
    of.update(f"CREATE INDEX ON docs (v) USING {kind} WITH (metric = '{metric}', min_rows = 1, num_partitions = 2)")
    assert [row["indexed_rows"] for row in query(of, "SHOW INDEXES FROM docs")] == [600]
    hits = 0
    for asked in np.random.default_rng(4).normal(size=(5, 16)):
        far = {n: distance(row.astype(np.float64), asked, metric) for n, row in enumerate(numbers)}
        best = sorted(far, key=far.__getitem__)[:10]
        call = f"vector_search('docs', 'v', {literal(asked.tolist())}, nprobes => 2"
        rows = query(of, f"SELECT id, _distance FROM {call}, refine => 60)")
        assert np.allclose([row["_distance"] for row in rows], [far[n] for n in best], atol=0.05, rtol=0.01)
        hits += len(set(best) & {row["id"] for row in query(of, f"SELECT id FROM {call})")})
    assert hits / 50 >= RECALL.get(kind, 0.8)


@pytest.mark.parametrize("kind", KINDS)
def test_bits_are_indexed_by_the_kinds_that_store_them_as_they_are(tmp_path: Path, kind: str) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE docs (id BIGINT, v TINYINT UNSIGNED[16])")
    is_stored_as_it_is = kind in ("ivf_flat", "ivf_hnsw_flat")
    create = f"CREATE INDEX ON docs (v) USING {kind} WITH (min_rows = 1, num_partitions = 1)"
    if not is_stored_as_it_is:
        with pytest.raises(Unsupported, match=f"no {kind} index of column 'v'"):
            of.update(create)
    numbers = np.random.default_rng(3).integers(0, 256, (600, 16)).astype(np.uint8)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), 16)
    ingest(of, "docs", pa.table({"id": range(600), "v": vectors}))
    if not is_stored_as_it_is:
        with pytest.raises(Unsupported, match=f"no {kind} index of column 'v'"):
            of.update(create)
        return
    of.update(create)
    asked = numbers[7]
    nearest = sorted(int(np.unpackbits(row ^ asked).sum()) for row in numbers)[:10]
    rows = query(of, f"SELECT _distance FROM vector_search('docs', 'v', {literal(asked.tolist())})")
    assert [row["_distance"] for row in rows] == nearest


def test_the_type_of_half_floats_is_named_as_it_is_read(tmp_path: Path) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE t (half HALF, v FLOAT16[3], s STRUCT<half HALF, more BIGINT>)")
    assert of.root.read(TableName(PUBLIC, "t"), lambda found: found.snapshot().schema.plain) == pa.schema(
        {
            "half": pa.float16(),
            "v": pa.list_(pa.float16(), 3),
            "s": pa.struct({"half": pa.float16(), "more": pa.int64()}),
        }
    )
    (row,) = query(of, "SHOW CREATE TABLE t")
    assert '"v" FLOAT16[3]' in str(row) or "v FLOAT16[3]" in str(row)
    of.update("INSERT INTO t (v) VALUES ([0.1, 2, 65504]), (NULL)")
    assert query(of, "SELECT v FROM t ORDER BY v IS NULL")[0]["v"] == pytest.approx([0.1, 2, 65504], rel=1e-3)
    with pytest.raises(DataError, match="column 'v' holds"):
        of.update("INSERT INTO t (v) VALUES ([0.1, 2, 1e6])")


def test_vectors_of_signed_bytes_are_compared_by_distances_alone(tmp_path: Path) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE t (id BIGINT, v TINYINT[2])")
    of.update("INSERT INTO t VALUES (1, [-128, 127]), (2, [3, 4])")
    says = r"column 'v' is fixed_size_list<item: int8>\[2\], which Lance does not search; expected .*HALF\[2\]"
    with pytest.raises(SqlError, match=says):
        query(of, "SELECT * FROM vector_search('t', 'v', [1, 2])")
    with pytest.raises(Unsupported, match="no ivf_flat index of column 'v'"):
        of.update("CREATE INDEX ON t (v) USING ivf_flat")
    assert query(of, "SELECT id FROM t ORDER BY v <-> [1, 2] LIMIT 1") == [{"id": 2}]


def test_bytes_take_whole_numbers_that_fit(tmp_path: Path) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE t (v TINYINT[2])")
    of.update("INSERT INTO t VALUES ([-128, 127])")
    for wrong in ("[1.5, 2]", "[128, 2]"):
        with pytest.raises(DataError, match="column 'v' holds"):
            of.update(f"INSERT INTO t VALUES ({wrong})")
    assert query(of, "SELECT v FROM t") == [{"v": [-128, 127]}]


# Lists that become vectors


LISTS = [pa.list_(pa.float32()), pa.list_(pa.float64()), pa.large_list(pa.float64()), pa.list_(pa.float16())]


def lists(rows: list[list[float] | None], kind: pa.DataType) -> pa.Table:
    values = [
        None if row is None else [np.float16(each) if kind.value_type == pa.float16() else each for each in row]
        for row in rows
    ]
    return pa.table({"id": pa.array(range(len(rows)), pa.int64()), "v": pa.array(values, kind)})


@pytest.mark.parametrize("kind", LISTS, ids=str)
@pytest.mark.parametrize("stored", ["FLOAT[2]", "DOUBLE[2]", "HALF[2]"])
def test_lists_are_stored_in_a_column_of_vectors(tmp_path: Path, kind: pa.DataType, stored: str) -> None:
    of = open_engine(tmp_path / "root")
    of.update(f"CREATE TABLE t (id BIGINT, v {stored}) PARTITIONED BY (bucket(2, id))")
    assert ingest(of, "t", lists([[0.1, 0.5], None, [2.0, -1.0]], kind)) == 3
    rows = [row["v"] for row in query(of, "SELECT v FROM t ORDER BY id")]
    assert rows[1] is None
    assert np.allclose([rows[0], rows[2]], [[0.1, 0.5], [2.0, -1.0]], atol=1e-3)


@pytest.mark.parametrize("kind", LISTS, ids=str)
def test_a_list_of_another_length_is_named_by_its_row(tmp_path: Path, kind: pa.DataType) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE t (id BIGINT, v FLOAT[2])")
    with pytest.raises(
        DataError, match="column 'v' holds 3 numbers in the vector of row 2 of a batch of 3; expected 2, as REAL"
    ):
        ingest(of, "t", lists([None, [1.0, 2.0, 3.0], [1.0]], kind))
    with pytest.raises(DataError, match="NULL inside the vector of row 1"):
        ingest(of, "t", pa.table({"id": [1], "v": pa.array([[None, 2.0]], pa.list_(pa.float32()))}))
    assert query(of, "SELECT count(*) AS n FROM t") == [{"n": 0}]


def test_a_number_that_no_float_holds_is_refused(tmp_path: Path) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE t (id BIGINT, v FLOAT[2], w HALF[2])")
    for name, number in (("v", 1e300), ("w", 1e5)):
        with pytest.raises(DataError, match=f"column '{name}' holds"):
            ingest(of, "t", pa.table({name: pa.array([[1.0, number]], pa.list_(pa.float64()))}))


@pytest.mark.parametrize("kind", LISTS, ids=str)
def test_lists_of_one_length_make_a_column_of_vectors(tmp_path: Path, kind: pa.DataType) -> None:
    of = open_engine(tmp_path / "root")
    assert ingest(of, "t", lists([[0.5, 1.5], None, [2.0, -1.0]], kind), lists([[0.0, 0.0]], kind)) == 4
    assert column(of, "t", "v") == pa.list_(kind.value_type, 2)
    assert query(of, "SELECT id, _distance FROM vector_search('t', 'v', [2, -1], k => 1)") == [
        {"id": 2, "_distance": 0.0}
    ]


STAY = {
    "other lengths": [[1.0, 2.0], [1.0]],
    "NULL inside": [[1.0, None], [1.0, 2.0]],
    "one number each": [[1.0], [2.0]],
    "nothing": [[], None],
    "no list at all": [None],
}


@pytest.mark.parametrize("rows", STAY.values(), ids=STAY)
def test_other_lists_stay_lists(tmp_path: Path, rows: list[list[float] | None]) -> None:
    of = open_engine(tmp_path / "root")
    table = pa.table({"v": pa.array(rows, pa.list_(pa.float32()))})
    # The rows that decide may come in several batches.
    assert ingest(of, "t", table, table) == 2 * len(rows)
    assert column(of, "t", "v") == pa.list_(pa.float32())
    with pytest.raises(SqlError, match="expected vectors"):
        query(of, "SELECT * FROM vector_search('t', 'v', [1.0, 2.0])")


def test_lists_of_whole_numbers_stay_lists(tmp_path: Path) -> None:
    of = open_engine(tmp_path / "root")
    ingest(of, "t", pa.table({"v": pa.array([[1, 2], [3, 4]])}))
    assert column(of, "t", "v") == pa.list_(pa.int64())


def test_a_later_list_of_another_length_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "LOOKED_AT_BYTES", 1)
    of = open_engine(tmp_path / "root")
    first, second = (
        pa.table({"v": pa.array(rows, pa.list_(pa.float32()))}) for rows in ([[1.0, 2.0]], [[1.0, 2.0], [3.0]])
    )
    with pytest.raises(
        LanceFlightError, match="holds 1 numbers in the vector of row 2 of a batch of 2; expected 2, as all rows before"
    ):
        ingest(of, "t", first, second)
    assert "NotFound" in told(of, "SELECT * FROM t")
    assert ingest(of, "t", first, first) == 2


def test_pandas_lists_are_searched_after_an_ingest(tmp_path: Path) -> None:
    """What `pa.Table.from_pandas` makes of a column of Python lists, and of numpy arrays."""
    of, vectors = open_engine(tmp_path / "root"), np.random.default_rng(1).normal(size=(30, 4))
    for name, values in (("lists", [row.tolist() for row in vectors]), ("arrays", list(vectors.astype(np.float32)))):
        ingest(of, name, pa.table({"id": range(30), "v": pa.array(values)}))
        of.update(f"CREATE INDEX ON {name} (v) USING ivf_flat WITH (min_rows = 1, num_partitions = 1)")
        (row,) = query(of, f"SELECT id FROM vector_search('{name}', 'v', {literal(vectors[7].tolist())}, k => 1)")
        assert row == {"id": 7}
