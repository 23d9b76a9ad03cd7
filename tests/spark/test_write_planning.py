"""What is decided before a write, and what its tasks refuse: no Spark runs here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.errors import DataError, InvalidInput, LanceFlightError, NotFound, SchemaError, SpecError
from lance_flight_client.spark.commits import committed
from lance_flight_client.spark.names import matched
from lance_flight_client.spark.writing.options import WriteOptions
from lance_flight_client.spark.writing.planning import new_writer
from lance_flight_client.spark.writing.writer import NothingToWrite
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceArrowWriter

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


def write(made: DataSourceArrowWriter, **columns: list[Any]) -> None:
    """One task and its commit."""
    made.commit([made.write(iter([pa.record_batch(columns)]))])


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        pytest.param(
            [spark.StructField("id", spark.StringType())],
            ["column 'id' is string; expected int64"],
            id="text for a number",
        ),
        pytest.param(
            [ID, spark.StructField("name", spark.DateType())],
            ["column 'name' is date32[day]; expected string"],
            id="a date for text",
        ),
        pytest.param([NAME], ["column 'id' (int64 NOT NULL) is missing"], id="a NOT NULL column is missing"),
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
                "column 'id' (int64 NOT NULL) is missing",
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
    known = committed(str(root), "t", "monday")
    assert known is not None
    assert known.rows == 2
    assert committed(str(root), "t", "tuesday") is None
    assert committed(str(root), "nothing", "monday") is None


def test_of_two_runs_at_once_with_one_id_one_counts(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = (writer(root, ID, commit_id="monday") for _ in range(2))
    done = [made.write(iter([pa.record_batch({"id": [1, 2]})])) for made in (first, second)]
    second.commit([done[1]])
    first.commit([done[0]])
    assert "commit_id 'monday' was committed at" in caplog.text
    assert sorted(stored_rows(root / "t")["id"].to_pylist()) == [1, 2]


def test_an_abort_after_a_commit_deletes_nothing(root: Path) -> None:
    """Spark aborts when `commit` has failed, and it may have failed after all was visible."""
    made = writer(root, ID)
    done = made.write(iter([pa.record_batch({"id": [1, 2, 3]})]))
    made.commit([done])
    made.abort([done])
    assert stored_rows(root / "t").num_rows == 3


def test_an_abort_before_a_commit_deletes_what_is_known(root: Path) -> None:
    before = set(root.rglob("*.lance"))
    made = writer(root, ID)
    done = [made.write(iter([pa.record_batch({"id": [number]})])) for number in range(3)]
    made.abort([done[0], None, done[2]])
    assert set(root.rglob("*.lance")) == before


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
    assert matched(names, known) == meant
