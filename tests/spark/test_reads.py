"""Direct reads and reads through a server give what the server answers, whatever table it is. No Spark runs here."""

from __future__ import annotations

import csv
import io
import pickle
import shutil
import warnings
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.errors import Conflict, InvalidInput, LanceFlightError, NotFound, SqlError, Unsupported
from lance_flight_client.errors import ServerError
from lance_flight_client.spark.options import ReadOptions
from lance_flight_client.spark.reading import DirectPlan, plan_direct, plan_through_server
from lance_flight_client.spark.source import LanceFlightDataSource, UnfilteredRead
from lance_flight_client.spark.types import carried_batch, carried_schema
from pyspark.sql.types import LongType, StructField, StructType

from tests.catalog.foreign_namespaces import ForeignTable, SpecField, lay_out, with_ids
from tests.service.server_process import Server
from tests.spark.tables import SHAPES, rows
from tests.stock import manifest, stored_tables

WAYS = {"root": plan_direct, "uri": plan_through_server}


def options(server: Server, way: str, **given: Any) -> ReadOptions:
    place = str(server.root) if way == "root" else server.uri
    return ReadOptions.parse({way: place, **{name: str(value) for name, value in given.items()}})


def read(server: Server, way: str, **given: Any) -> pa.Table:
    """The rows of a read, planned here and read as a task would, from what is sent to it."""
    planned = sent(WAYS[way](options(server, way, **given)))
    portions = sent(planned.portions())
    assert portions
    return pa.Table.from_batches(
        [batch for portion in portions for batch in portion.batches()], carried_schema(wanted(planned))
    )


def sent(value: Any) -> Any:
    """What arrives in another process."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - made here


def wanted(planned: Any) -> pa.Schema:
    return planned.wanted if isinstance(planned, DirectPlan) else planned.answer.schema


def answered(server: Server, sql: str) -> pa.Table:
    """What the server answers, in the types of Spark."""
    found = server.query(sql)
    carried = carried_schema(found.schema)
    return pa.Table.from_batches([carried_batch(batch, carried) for batch in found.to_batches()], carried)


def in_order(table: pa.Table) -> list[str]:
    """Rows as text, sorted: NaN is like itself there."""
    return sorted(map(str, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def same(one: pa.Table, other: pa.Table) -> None:
    assert one.schema == other.schema
    assert in_order(one) == in_order(other)


def line(names: tuple[str, ...]) -> str:
    """Names as the option `columns` has them."""
    out = io.StringIO()
    csv.writer(out).writerow(names)
    return out.getvalue().strip()


def selected(names: tuple[str, ...]) -> str:
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def cases() -> Iterator[Any]:
    for name, shape in SHAPES.items():
        for condition in (None, *shape.filters):
            yield pytest.param(name, condition, id=f"{name} where {condition}" if condition else name)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "condition"), list(cases()))
def test_a_read_gives_what_the_server_answers(
    server: Server, shapes: Mapping[str, str], name: str, condition: str | None, way: str
) -> None:
    where, given = (f" WHERE {condition}", {"filter": condition}) if condition else ("", {})
    columns = SHAPES[name].columns
    same(
        read(server, way, table=shapes[name], **given, partitions=3),
        answered(server, f"SELECT * FROM {shapes[name]}{where}"),
    )
    same(
        read(server, way, table=shapes[name], **given, columns=line(columns)),
        answered(server, f"SELECT {selected(columns)} FROM {shapes[name]}{where}"),
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_read_goes_back_in_time(server: Server, shapes: Mapping[str, str], way: str) -> None:
    table = shapes["versions"]
    moments = dict(server.rows(f'SELECT version, committed_at FROM "{table}$snapshots"'))
    newest = max(moments)
    assert isinstance(moments[newest - 1], datetime)
    points = {"snapshot": newest - 2, "tag": "first", "time": moments[newest - 1].isoformat()}
    expected = {"snapshot": list(range(20)), "tag": list(range(20)), "time": list(range(30))}
    for option, point in points.items():
        found = read(server, way, table=table, **{option: point})
        assert sorted(found["id"].to_pylist()) == expected[option], option
        assert sorted(read(server, way, table=table, filter="id >= 15", **{option: point})["id"].to_pylist()) == [
            n for n in expected[option] if n >= 15
        ]
    assert sorted(read(server, way, table=table)["id"].to_pylist()) == list(range(10, 30))


@pytest.mark.parametrize("way", WAYS)
def test_a_read_stays_at_its_version_however_often_it_is_planned(server: Server, table: str, way: str) -> None:
    server.ingest(table, rows(0, 20), partition_by="part")
    planned = WAYS[way](options(server, way, table=table))
    before = [batch for portion in planned.portions() for batch in portion.batches()]
    server.ingest(table, rows(20, 40), "append")
    server.run(f"DELETE FROM {table} WHERE id < 5")
    after = [batch for portion in planned.portions() for batch in portion.batches()]
    same(pa.Table.from_batches(before), pa.Table.from_batches(after))


def test_tables_without_a_fixed_version_are_read_as_they_were_at_load(server: Server, table: str) -> None:
    server.ingest(table, rows(0, 20), partition_by="part")
    manifest(server.root / table).update({"read_version": "NULL"}, where="partition_field_part = 'p1'")
    planned = plan_direct(options(server, "root", table=table))
    (place,) = [t.row["location"] for t in stored_tables(server.root / table) if t.values["part"] == "p1"]
    lance.write_dataset(rows(96, 97), str(server.root / table / place), mode="append")
    found = [n for portion in planned.portions() for batch in portion.batches() for n in batch.column("id").to_pylist()]
    assert sorted(found) == list(range(20))
    assert read(server, "root", table=table).num_rows == 21


@pytest.mark.parametrize(
    ("is_dealt_out", "runs"),
    [
        pytest.param(False, 0, id="before its tasks are planned"),
        pytest.param(True, 0, id="before its first task"),
        # A process keeps what it has found in the files of a version.
        pytest.param(True, 1, id="before its tasks run again"),
    ],
)
@pytest.mark.parametrize("appends", [0, 3], ids=["with fewer versions", "with more versions"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("part", "part", id="partitioned"),
        pytest.param(None, None, id="plain"),
        pytest.param("part", None, id="partitioned, then plain"),
        pytest.param(None, "part", id="plain, then partitioned"),
    ],
)
def test_a_direct_read_of_a_table_that_was_made_again_is_refused(
    server: Server, table: str, before: str | None, after: str | None, *, appends: int, is_dealt_out: bool, runs: int
) -> None:
    server.ingest(table, rows(0, 20), partition_by=before)
    for start in (20, 30):
        server.ingest(table, rows(start, start + 10), "append")
    planned = plan_direct(options(server, "root", table=table))
    portions = sent(planned.portions()) if is_dealt_out else []
    for _ in range(runs):
        assert sum(batch.num_rows for portion in portions for batch in portion.batches()) == 40
    server.run(f"DROP TABLE {table}")
    server.ingest(table, rows(40, 60), partition_by=after)
    for start in range(60, 60 + 10 * appends, 10):
        server.ingest(table, rows(start, start + 10), "append")
    with pytest.raises(Conflict, match=f"table '{table}' .*dropped and made again.*load it again"):
        [list(portion.batches()) for portion in portions or planned.portions()]


@pytest.mark.parametrize("by", ["part", None], ids=["partitioned", "plain"])
def test_tasks_of_a_table_that_was_dropped_name_it(server: Server, table: str, by: str | None) -> None:
    server.ingest(table, rows(0, 20), partition_by=by)
    portions = sent(plan_direct(options(server, "root", table=table)).portions())
    server.run(f"DROP TABLE {table}")
    with pytest.raises(NotFound, match=f"no table '{table}'"):
        [list(portion.batches()) for portion in portions]


def test_files_that_are_missing_in_the_same_table_are_no_conflict(server: Server, table: str) -> None:
    server.ingest(table, rows(0, 20), partition_by="part")
    portions = sent(plan_direct(options(server, "root", table=table)).portions())
    for stored in stored_tables(server.root / table):
        shutil.rmtree(server.root / table / stored.row["location"] / "data")
    with pytest.raises(LanceFlightError, match=f"reading '{table}' failed"):
        [list(portion.batches()) for portion in portions]


def test_a_direct_read_is_pruned_before_any_task_and_divided_by_rows(server: Server, shapes: Mapping[str, str]) -> None:
    def tables(**given: Any) -> list[int]:
        planned = plan_direct(options(server, "root", table=shapes["nulls"], **given))
        return [len(portion.pieces) for portion in planned.portions()]

    everything = sum(tables())
    assert tables() == [everything]
    assert sum(tables(filter="part = 'p1'")) < everything / 4
    assert len(tables(partitions=4)) == 4
    assert max(tables(partitions=4)) - min(tables(partitions=4)) <= 4
    assert tables(filter="part = 'none'") == [0]


def test_a_large_table_is_divided_by_its_fragments(server: Server, shapes: Mapping[str, str]) -> None:
    planned = plan_direct(options(server, "root", table=shapes["plain"], partitions=3))
    counts = [sum(batch.num_rows for batch in portion.batches()) for portion in planned.portions()]
    assert sorted(counts) == [49, 50, 50]


def test_a_query_is_read_through_the_server(server: Server, shapes: Mapping[str, str]) -> None:
    sql = f"SELECT part, count(*) AS n FROM {shapes['nulls']} GROUP BY part"
    same(read(server, "uri", query=sql), answered(server, sql))


WRONG = [
    pytest.param({"table": "nothing"}, NotFound, "no table 'nothing'", id="no such table"),
    pytest.param({"table": "null"}, NotFound, "did you mean 'nulls'", id="nearly a table"),
    pytest.param({"table": "nulls", "columns": "idd"}, NotFound, "idd", id="no such column"),
    pytest.param({"table": "nulls", "filter": "nope = 1"}, SqlError, "nope", id="a filter over no column"),
    pytest.param({"table": "nulls", "filter": "id +"}, SqlError, "Expected", id="a filter that is no SQL"),
    pytest.param({"table": "nulls", "filter": "part"}, SqlError, "BOOLEAN", id="a filter that is no condition"),
    pytest.param({"table": "nulls", "filter": "id > 1 LIMIT 1"}, SqlError, "LIMIT", id="a filter and more"),
    pytest.param({"table": "nulls", "snapshot": "4711"}, NotFound, "4711", id="no such version"),
    pytest.param({"table": "nulls", "tag": "none"}, NotFound, "none", id="no such tag"),
    pytest.param({"table": "nulls", "time": "1999-01-01"}, NotFound, "1999", id="before the table"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("given", "error", "message"), WRONG)
@pytest.mark.usefixtures("shapes")
def test_what_cannot_be_read_is_refused_where_it_is_planned(
    server: Server, given: Mapping[str, str], error: type[LanceFlightError], message: str, way: str
) -> None:
    with pytest.raises(error if way == "root" else ServerError, match=message):
        WAYS[way](options(server, way, **given))


@pytest.mark.usefixtures("shapes")
@pytest.mark.parametrize("condition", ["id = (SELECT max(id) FROM nulls)", "at < now()", "random() < 0.5"])
def test_a_filter_that_may_differ_from_task_to_task_is_refused(server: Server, condition: str) -> None:
    with pytest.raises(SqlError, match="condition"):
        plan_direct(options(server, "root", table="nulls", filter=condition))


def test_a_root_that_is_not_here_is_refused(server: Server) -> None:
    with pytest.raises(InvalidInput, match="no directory here"):
        plan_direct(ReadOptions.parse({"root": str(server.root / "nowhere"), "table": "t"}))


def test_a_branch_is_read_directly_without_a_filter_only(server: Server, table: str) -> None:
    server.ingest(table, rows(0, 20), partition_by="part")
    server.run(f"ALTER TABLE {table} CREATE BRANCH dev")
    server.run(f"ALTER TABLE {table} DROP PARTITION (part = 'p1')")
    assert read(server, "root", table=f"{table}@dev").num_rows == 20
    with pytest.raises(Unsupported, match="is a branch"):
        plan_direct(options(server, "root", table=f"{table}@dev", filter="id = 1"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("condition", [None, "p = 'US'", "upper(p) = 'US'", "p IS NULL", "id % 2 = 0 AND p <> 'US'"])
def test_columns_that_files_lack_have_the_values_of_the_partition(
    server: Server, foreign: str, way: str, condition: str | None
) -> None:
    where, given = (f" WHERE {condition}", {"filter": condition}) if condition else ("", {})
    ids = {"p = 'US'": [0, 1, 2], "upper(p) = 'US'": [0, 1, 2], "p IS NULL": [30, 31, 32]}
    found = read(server, way, table=foreign, partitions=2, **given)
    same(found, answered(server, f"SELECT * FROM {foreign}{where}"))
    if condition in ids:
        assert sorted(found["id"].to_pylist()) == ids[condition]
    assert set(zip(found["id"].to_pylist(), found["p"].to_pylist(), strict=True)) <= {
        (10 * place + n, value) for place, value in enumerate(FOREIGN) for n in range(3)
    }
    assert in_order(read(server, way, table=foreign, columns="p", **given)) == in_order(found.select(["p"]))


FOREIGN = {"US": "2.0", "DE": "2.1", "FR": None, None: "2.0"}
"""The partitions of a namespace of another writer, with the versions of their files."""


@pytest.fixture(scope="module")
def foreign(server: Server) -> str:
    """It leaves its partition column out, of one table in one file of two."""
    schema = with_ids(pa.schema({"id": pa.int64(), "p": pa.utf8(), "n": pa.int64()}))
    tables = []
    for place, (value, version) in enumerate(FOREIGN.items()):
        data = pa.table({"id": [10 * place + n for n in range(3)], "n": [1, 2, 3]})
        whole = data.add_column(1, "p", pa.array([value] * 3, pa.utf8()))
        files = [whole.slice(0, 1), data.slice(1)] if value == "DE" else [data]
        tables.append(ForeignTable(values={"p": value}, files=files, version=version))
    lay_out(server.root / "foreign_one", schema, [[SpecField(name="p", source=1, kind=pa.utf8())]], tables)
    return "foreign_one"


def loaded(**given: str) -> pa.Table:
    """The rows of a `load()` as the format has them."""
    source = LanceFlightDataSource(given)
    reader = source.reader(source.schema())
    return pa.Table.from_batches([batch for part in reader.partitions() for batch in reader.read(part)])


def test_metadata_tables_and_views_are_loaded_by_their_names(server: Server, shapes: Mapping[str, str]) -> None:
    server.run(f"CREATE OR REPLACE VIEW seen AS SELECT id, id + 1 AS next FROM {shapes['nulls']}")
    for place in ({"root": str(server.root)}, {"uri": server.uri}):
        same(loaded(**place, table="nulls$partitions"), answered(server, 'SELECT * FROM "nulls$partitions"'))
        same(loaded(**place, table="seen", filter="next > 3"), answered(server, "SELECT * FROM seen WHERE next > 3"))


def test_a_load_without_a_filter_warns_of_conditions_that_prune_nothing_and_takes_no_schema(
    server: Server, shapes: Mapping[str, str]
) -> None:
    given = {"root": str(server.root), "table": shapes["nulls"]}
    with pytest.warns(UnfilteredRead, match=r"option\('filter'"):
        LanceFlightDataSource(given).schema()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LanceFlightDataSource({**given, "filter": "true"}).schema()
    with pytest.raises(InvalidInput, match="choose with the option 'columns'"):
        LanceFlightDataSource(given).reader(StructType([StructField("id", LongType())]))
