"""What is decided before a write, and what its tasks refuse: no Spark runs here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.errors import (
    DataError,
    InvalidInput,
    LanceFlightError,
    NotFound,
    SchemaError,
    SpecError,
)
from lance_flight_client.spark.commits import find_commit
from lance_flight_client.spark.options import WriteOptions
from lance_flight_client.spark.types import match_columns
from lance_flight_client.spark.writing import NothingToWrite, Report, new_writer
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceArrowWriter

from tests.engine.database import Database
from tests.service.server_process import files
from tests.stock import stored_rows

ID = spark.StructField("id", spark.LongType())
NAME = spark.StructField("name", spark.StringType())
LIMITED = spark.StructField("n", spark.IntegerType())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    engine = Engine(Root(Store(str(tmp_path))), target_partitions=2)
    engine.update("CREATE TABLE t (id BIGINT NOT NULL, name VARCHAR, n SMALLINT) PARTITIONED BY (bucket(2, id))")
    engine.update("CREATE TABLE plain (id BIGINT)")
    return tmp_path


def writer(root: Path, *fields: spark.StructField, table: str = "t", **options: str) -> DataSourceArrowWriter:
    given = {"root": str(root), "table": table, **options}
    return new_writer(WriteOptions.parse(given, overwrite=False), spark.StructType(list(fields)))


def write(made: DataSourceArrowWriter, **columns: Any) -> None:
    """One task and its commit."""
    made.commit([made.write(iter([pa.record_batch(columns)]))])


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        pytest.param(
            [spark.StructField("id", spark.StringType())],
            ["column 'id' is VARCHAR; expected BIGINT"],
            id="text for a number",
        ),
        pytest.param(
            [ID, spark.StructField("name", spark.DateType())],
            ["column 'name' is DATE; expected VARCHAR"],
            id="a date for text",
        ),
        pytest.param([NAME], ["column 'id' (BIGINT NOT NULL) is missing"], id="a NOT NULL column is missing"),
        pytest.param(
            [ID, spark.StructField("more", spark.LongType())],
            ["column 'more' is not in the table"],
            id="a column too many",
        ),
        pytest.param(
            [ID, spark.StructField("ID", spark.LongType())],
            ["column 'ID' is not in the table"],
            id="one name in two cases",
        ),
        pytest.param(
            [spark.StructField("x", spark.LongType()), NAME, NAME],
            [
                "column 'name' stands 2 times",
                "column 'x' is not in the table",
                "column 'id' (BIGINT NOT NULL) is missing",
            ],
            id="everything at once",
        ),
    ],
)
def test_columns_that_cannot_be_stored_are_all_named(
    root: Path, fields: list[spark.StructField], problems: list[str]
) -> None:
    before = files(root)
    with pytest.raises(SchemaError) as raised:
        writer(root, *fields)
    assert list(raised.value.problems) == problems
    assert files(root) == before


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        pytest.param({"id": [1, None], "n": [1, 1]}, "column 'id' is NOT NULL and has NULL in row 2", id="NULL"),
        pytest.param({"id": [1, 2], "n": [1, 40_000]}, "column 'n' .*40000", id="out of range"),
    ],
)
def test_values_that_cannot_be_stored_are_named(root: Path, columns: dict[str, list[Any]], message: str) -> None:
    made, before = writer(root, ID, LIMITED), set(root.rglob("*.lance"))
    with pytest.raises(DataError, match=message):
        write(made, **columns)
    assert set(root.rglob("*.lance")) == before


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        pytest.param({"table": "tt"}, NotFound, "no table 'tt'; did you mean 't'.*'partition_by'", id="no table"),
        pytest.param(
            {"table": "plain", "partition_by": "id"},
            SpecError,
            "'plain' is there already and not partitioned",
            id="a plain table",
        ),
        pytest.param(
            {"partition_by": "id"}, SpecError, r"partitioned by bucket\(2, id\) .*; got id", id="another spec"
        ),
        pytest.param({"table": "u", "partition_by": "x"}, SpecError, "no column 'x'", id="a column that is not there"),
        pytest.param({"comit_id": "x"}, InvalidInput, "did you mean 'commit_id'", id="misspelt"),
        pytest.param({"uri": "grpc://x:1"}, InvalidInput, "no option 'uri'", id="through a server"),
        pytest.param({"commit_id": "x" * 300}, InvalidInput, "300 characters", id="a long id"),
        pytest.param({"commit_id": ""}, InvalidInput, "0 characters", id="an empty id"),
        pytest.param({"snapshot": "no"}, InvalidInput, "'snapshot' is 'no'", id="no version"),
    ],
)
def test_what_cannot_be_asked_for(
    root: Path, options: dict[str, str], error: type[LanceFlightError], message: str
) -> None:
    before = files(root)
    with pytest.raises(error, match=message):
        writer(root, ID, **options)
    assert files(root) == before


def test_what_to_overwrite_is_partitions_or_the_table(root: Path) -> None:
    given = {"root": str(root), "table": "t", "overwrite": "all"}
    with pytest.raises(InvalidInput, match="'overwrite' is 'all'; expected partitions or table"):
        WriteOptions.parse(given, overwrite=True)
    with pytest.raises(InvalidInput, match=r"'overwrite' goes with \.mode.*, and the mode is append"):
        WriteOptions.parse(given, overwrite=False)


def test_a_write_with_an_id_that_is_known_does_nothing_and_says_so(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(writer(root, ID, commit_id="monday"), id=[1, 2])
    before = files(root)
    again = writer(root, ID, NAME, commit_id="monday")
    assert isinstance(again, NothingToWrite)
    write(again, id=[1, 2])
    assert files(root) == before
    assert "commit_id 'monday' was committed at" in caplog.text
    assert "with 2 rows; nothing was written" in caplog.text
    known = find_commit(str(root), "t", "monday")
    assert known is not None
    assert known.rows == 2
    assert find_commit(str(root), "t", "tuesday") is None
    assert find_commit(str(root), "nothing", "monday") is None


def test_a_write_says_what_it_came_to(root: Path, tmp_path: Path) -> None:
    expected = Report(version=int(newest(root)) + 1, rows=2, partitions=1)
    for name, found in {"first": expected, "again": Report()}.items():
        write(writer(root, ID, commit_id="more", report=str(tmp_path / name)), id=[1, 2])
        assert Report.read(tmp_path / name) == found
    # What is committed stays so, wherever it can be said.
    write(writer(root, ID, report=str(tmp_path / "nowhere" / "report")), id=[3])
    assert sorted(stored_rows(root / "t")["id"].to_pylist()) == [1, 2, 3]


def newest(root: Path) -> int:
    return int(Database(root).value("SELECT max(version) FROM t$snapshots"))


def test_vectors_keep_their_length_and_have_no_null_inside(root: Path) -> None:
    database = Database(root)
    vectors = pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2))
    database.ingest("v", pa.table({"id": [1, 2], "v": vectors}), partition_by="bucket(2, id)")
    fields = [ID, spark.StructField("v", spark.ArrayType(spark.FloatType()))]
    write(writer(root, *fields, table="v"), id=[10], v=pa.array([[0.0, 0.5]], pa.list_(pa.float32())))
    assert stored_rows(root / "v").schema.field("v").type == vectors.type
    with pytest.raises(DataError, match="has NULL inside the vector of row 1"):
        write(writer(root, *fields, table="v"), id=[3], v=pa.array([[1.0, None]], pa.list_(pa.float32())))
    assert database.rows("SELECT id, v FROM v WHERE id > 2") == [(10, [0.0, 0.5])]


def test_an_abort_after_a_commit_deletes_nothing(root: Path) -> None:
    """Spark aborts when `commit` has failed, and it may have failed after all was visible."""
    made = writer(root, ID)
    done = made.write(iter([pa.record_batch({"id": [1, 2, 3]})]))
    made.commit([done])
    made.abort([done])
    assert stored_rows(root / "t").num_rows == 3


@pytest.mark.parametrize(
    ("names", "known", "meant"),
    [
        pytest.param(["ID"], ["id"], ["id"], id="in another case"),
        pytest.param(["id"], ["id", "ID"], ["id"], id="as it is"),
        pytest.param(["Id"], ["id", "ID"], ["Id"], id="either of two"),
        pytest.param(["id", "ID"], ["id"], ["id", "ID"], id="two for one"),
        pytest.param(["ÉTÉ"], ["été"], ["été"], id="beyond ASCII"),
    ],
)
def test_columns_are_meant_in_whatever_case(names: list[str], known: list[str], meant: list[str]) -> None:
    assert match_columns(names, known) == meant


def test_a_table_is_made_whose_rows_keep_their_ids(root: Path) -> None:
    database = Database(root)
    write(writer(root, ID, table="kept", partition_by="bucket(2, id)", stable_row_ids="true"), id=[1, 2, 3, 4])
    lineage = "SELECT id, _partition, _rowid FROM kept$lineage ORDER BY id"
    before = database.rows(lineage)
    assert len({row[1:] for row in before}) == 4
    write(writer(root, ID, table="kept"), id=[5, 6])
    database.run("UPDATE kept SET id = id WHERE id IN (1, 5)")
    assert [row for row in database.rows(lineage) if row in before] == before
