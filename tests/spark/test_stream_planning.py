"""Streams of rows without Spark: every row that is added comes once, in whatever batches, and again if a batch is repeated."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.storage.leases import leases
from lance_flight.errors import Conflict, InvalidInput, NotFound, QueryFailed, SchemaError
from lance_flight_client.spark import reading
from lance_flight_client.spark.options import (
    ReadOptions,
    StreamReadOptions,
    StreamWriteOptions,
    check_no_stream,
    without_stream,
)
from lance_flight_client.spark.source import Portion
from lance_flight_client.spark.streaming import (
    BEGINNING,
    Offset,
    TableHistory,
    last_version,
    new_stream_reader,
    plan_stream,
)
from lance_flight_client.spark.types import carried_schema

from tests.catalog.aging import age
from tests.catalog.planned_additions import newest, run
from tests.catalog.small_table import opened


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Rows 1 to 4 in two partitions and three snapshots."""
    run(tmp_path / "t", "CREATE TABLE t (id INT NOT NULL, p VARCHAR) PARTITIONED BY (p)")
    for ids in ("(1, 'a')", "(2, 'b')", "(3, 'a'), (4, 'b')"):
        insert(tmp_path / "t", ids)
    return tmp_path / "t"


def insert(place: Path, rows: str) -> None:
    run(place, f"INSERT INTO t (id, p) VALUES {rows}")


class Query:
    """A query as Spark runs it: its checkpoint holds the ends of batches, in JSON."""

    def __init__(self, place: Path, **options: str) -> None:
        self._options = {"root": str(place.parent), "table": "t", **options}
        self.ends: list[str] = []
        self.start()

    def start(self) -> None:
        """Begin, or begin again with the checkpoint."""
        read = reading.plan_direct(ReadOptions.parse(without_stream(self._options)))
        stream = StreamReadOptions.parse(self._options)
        self.most = stream.versions_per_trigger
        self.history = TableHistory(pickle.loads(pickle.dumps(plan_stream(read, stream))))  # noqa: S301 - our own

    def batch(self) -> list[int] | None:
        """The ids of the next batch; None where there is none."""
        begin = self._offset(len(self.ends) - 1)
        end = json.dumps(self.history.following(begin, self.history.newest, self.most).to_json())
        if end == json.dumps(begin.to_json()):
            return None
        self.ends.append(end)
        return self.repeated(len(self.ends) - 1)

    def repeated(self, number: int) -> list[int]:
        """The ids of a batch that was planned before."""
        found = (batch for portion in self.portions(number) for batch in portion.batches())
        return sorted(each for batch in found for each in batch["id"].to_pylist())

    def portions(self, number: int) -> list[Portion]:
        """The tasks of a batch, as executors get them."""
        portions = self.history.portions(self._offset(number - 1), self._offset(number))
        return pickle.loads(pickle.dumps(list(portions)))  # noqa: S301 - our own

    def rest(self) -> list[list[int]]:
        """All batches that are left."""
        batches = []
        while (batch := self.batch()) is not None:
            batches.append(batch)
        return batches

    def _offset(self, number: int) -> Offset:
        return BEGINNING if number < 0 else Offset.from_json(json.loads(self.ends[number]))


BEGINNINGS: list[Any] = [
    pytest.param({}, [[1, 2, 3, 4]], [[5, 6]], id="table"),
    pytest.param({"versions_per_trigger": "1"}, [[1, 2, 3, 4]], [[5], [6]], id="table, one by one"),
    pytest.param({"starting": "earliest"}, [[], [1, 2, 3, 4]], [[5, 6]], id="earliest"),
    pytest.param(
        {"starting": "earliest", "versions_per_trigger": "2"}, [[], [1, 2], [3, 4]], [[5, 6]], id="earliest, two by two"
    ),
    pytest.param({"starting": "latest"}, [[]], [[5, 6]], id="latest"),
    pytest.param({"starting": "{second}"}, [[], [3, 4]], [[5, 6]], id="after a snapshot"),
    pytest.param({"filter": "p = 'a' AND id <> 3"}, [[1]], [[5]], id="some of the rows"),
]


def test_a_run_of_what_there_is_ends_where_rows_ended_when_it_began(place: Path) -> None:
    given = {"root": str(place.parent), "table": "t"}
    reader = new_stream_reader(reading.plan_direct(ReadOptions.parse(given)), StreamReadOptions.parse(given))
    start, limit = BEGINNING.to_json(), reader.getDefaultReadLimit()
    reader.prepareForTriggerAvailableNow()
    ends = reader.latestOffset(start, limit)
    insert(place, "(5, 'a')")
    assert reader.latestOffset(start, limit) == ends != reader.reportLatestOffset()


@pytest.mark.parametrize(("options", "before", "after"), BEGINNINGS)
def test_a_stream_begins_where_it_is_told_to(
    place: Path, options: dict[str, str], before: list[list[int]], after: list[list[int]]
) -> None:
    second = str(newest(place) - 1)
    query = Query(place, **{name: text.format(second=second) for name, text in options.items()})
    assert query.rest() == before
    insert(place, "(5, 'a')")
    insert(place, "(6, 'b')")
    query.start()
    assert query.rest() == after
    assert [query.repeated(number) for number in range(len(query.ends))] == before + after


def test_the_first_batch_is_the_same_when_it_is_repeated(place: Path) -> None:
    """Spark keeps where it ends, and asks again where it begins."""
    for starting, ids in (("table", [1, 2, 3, 4]), ("latest", [])):
        query = Query(place, starting=starting)
        assert query.batch() == ids
        insert(place, "(9, 'a')")
        query.start()
        assert query.repeated(0) == ids
        assert query.rest() == [[9]]
        run(place, "ALTER TABLE t ROLLBACK TO " + str(newest(place) - 1))


@pytest.mark.parametrize(
    ("changes", "statement", "ids"),
    [("fail", "DELETE FROM t WHERE id = 1", None), ("new_rows", "UPDATE t SET id = 10 WHERE id = 1", [10, 5])],
)
def test_changes_fail_or_give_their_rows(place: Path, changes: str, statement: str, ids: list[int] | None) -> None:
    query = Query(place, starting="latest", changes=changes)
    assert query.batch() == []
    run(place, statement)
    insert(place, "(5, 'a')")
    if ids is not None:
        assert query.batch() == sorted(ids)
        return
    with pytest.raises(
        QueryFailed, match=rf"snapshot {newest(place) - 1} of 't' removed .*: delete 1 rows.*'changes' = 'new_rows'"
    ):
        query.batch()
    there = Query(place, starting="latest", filter="p = 'b'")
    assert there.rest() == [[]]
    run(place, "DELETE FROM t WHERE p = 'a'")
    insert(place, "(6, 'b')")
    assert there.rest() == [[6]]


@pytest.mark.parametrize(
    ("statement", "rows", "ids"),
    [
        pytest.param("ALTER TABLE t ADD COLUMN n INTEGER", "(5, 'a')", [5], id="added"),
        pytest.param("ALTER TABLE t RENAME COLUMN p TO q", None, [5], id="renamed"),
        pytest.param("ALTER TABLE t ALTER COLUMN id TYPE BIGINT", "(5, 'a')", None, id="widened"),
        pytest.param("ALTER TABLE t DROP COLUMN id", None, None, id="dropped"),
    ],
)
def test_columns_that_change_meanwhile(place: Path, statement: str, rows: str | None, ids: list[int] | None) -> None:
    query = Query(place, filter="p IS NOT NULL")
    assert query.batch() == [1, 2, 3, 4]
    run(place, statement)
    if ids is not None:
        run(place, f"INSERT INTO t (id, {'q' if rows is None else 'p'}) VALUES (5, 'a')")
        assert query.rest() == [ids]
        return
    with pytest.raises(SchemaError, match=r"the stream of table 't'; run it again: column 'id' was int32"):
        query.batch()


def test_columns_that_came_later_are_null_in_older_rows(place: Path) -> None:
    run(place, "ALTER TABLE t ADD COLUMN n INTEGER")
    run(place, "ALTER TABLE t RENAME COLUMN p TO q")
    insert_more = "INSERT INTO t (id, q, n) VALUES (5, 'a', 50)"
    run(place, insert_more)
    for options, ids in (({}, [[], [1, 2, 3, 4, 5]]), ({"filter": "n IS NULL AND q = 'a'"}, [[], [1, 3]])):
        assert Query(place, starting="earliest", **options).rest() == ids


def test_a_table_that_was_made_again_is_another_one(place: Path) -> None:
    query = Query(place)
    assert query.batch() == [1, 2, 3, 4]
    run(place, "DROP TABLE t")
    run(place, "CREATE TABLE t (id INT NOT NULL, p VARCHAR) PARTITIONED BY (p)")
    for number in range(6):
        with pytest.raises(Conflict, match="made again since the stream had come to it"):
            query.batch()
        query.ends = query.ends[:1]
        insert(place, f"({number}, 'a')")


def test_what_vacuum_removed_is_missed(place: Path) -> None:
    query = Query(place)
    assert query.batch() == [1, 2, 3, 4]
    query.history.release()
    at = newest(place)
    insert(place, "(5, 'a')")
    vacuum_all(place)
    with pytest.raises(NotFound, match=rf"snapshot {at} of 't' is not there any more"):
        query.batch()


def test_what_a_batch_reads_vacuum_leaves(place: Path) -> None:
    query = Query(place, starting="latest")
    assert query.batch() == []
    for number in (5, 6, 7):
        insert(place, f"({number}, 'a')")
    assert query.batch() == [5, 6, 7]
    vacuum_all(place)
    assert query.repeated(1) == [5, 6, 7]


def vacuum_all(place: Path) -> None:
    """Vacuum, a day later, all that nobody holds."""
    leases.publish_all()
    age(place, hours=24)
    leases.publish_all()
    vacuum(opened(place), VacuumRules(retain_hours=0, transaction_hours=0, force=True))


@pytest.mark.parametrize("seed", range(4))
def test_in_whatever_batches_every_row_comes_once(place: Path, seed: int) -> None:
    """Appends, maintenance and restarts in any order, against the rows of the table."""
    chance = random.Random(seed)  # noqa: S311 - a walk, no secret
    query = Query(place, **({"versions_per_trigger": str(chance.randint(1, 3))} if chance.random() < 0.7 else {}))
    batches: list[list[int]] = []
    for number in range(10, 24):
        step = chance.choice(["insert", "insert", "compact", "spec", "rewrite", "batch", "restart", "repeat"])
        match step:
            case "insert":
                insert(place, f"({number}, 'a'), ({100 + number}, 'new {number}')")
            case "spec":
                run(place, f"ALTER TABLE t SET PARTITIONED BY (bucket({number}, id))")
            case "compact" | "rewrite":
                maintain(place, step)
            case "batch":
                batches += [batch] if (batch := query.batch()) is not None else []
            case "restart":
                query.start()
            case "repeat":
                assert [query.repeated(each) for each in range(len(batches))] == batches
    batches += query.rest()
    assert sorted(number for batch in batches for number in batch) == ids(place)


def maintain(place: Path, statement: str) -> None:
    with suppress(AssertionError):
        # There may be nothing to do.
        run(place, statement)


def ids(place: Path) -> list[int]:
    rows = opened(place).rows()
    return sorted(number for table in rows for number in table["id"].to_pylist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"starting": "now"}, "'starting' is 'now'; expected table, earliest, latest or the number of a snapshot"),
        ({"versions_per_trigger": "0"}, "'versions_per_trigger' is '0'; expected a number from 1 on"),
        ({"changes": "ignore"}, "'changes' is 'ignore'; expected fail or new_rows"),
        ({"uri": "grpc://h:1"}, r"'uri' goes with \.read, not with \.readStream"),
        ({"SNAPSHOT": "3"}, r"'snapshot' goes with \.read, not with \.readStream"),
    ],
)
def test_options_that_a_stream_cannot_have_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        StreamReadOptions.parse({"root": "/r", "table": "t", **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected 'stream': a name for this stream"),
        ({"stream": "s", "commit_id": "x"}, r"'commit_id' goes with \.write, not with \.writeStream"),
        ({"stream": "s", "overwrite": "table"}, r"'overwrite' goes with \.write, not with \.writeStream"),
        ({"stream": "s", "path": "x"}, "no option 'path'"),
    ],
)
def test_options_that_a_stream_cannot_write_with_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        StreamWriteOptions.parse({"root": "/r", "table": "t", "checkpointlocation": "/c", **options}, complete=False)


def test_options_of_a_stream_are_none_of_a_read() -> None:
    with pytest.raises(InvalidInput, match=r"'starting' goes with \.readStream, not with \.read"):
        check_no_stream({"root": "/r", "Starting": "latest"})


def test_the_rows_of_a_plain_table_are_streamed_once(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": pa.array([1, 2], pa.int32())}), str(tmp_path / "t.lance"))
    query = Query(tmp_path / "t")
    assert query.rest() == [[1, 2]]
    run(tmp_path / "t", "INSERT INTO t VALUES (3)")
    lance.write_dataset(pa.table({"id": pa.array([4], pa.int32())}), str(tmp_path / "t.lance"), mode="append")
    lance.dataset(str(tmp_path / "t.lance")).optimize.compact_files()
    query.start()
    assert query.rest() == [[3, 4]]
    run(tmp_path / "t", "DELETE FROM t WHERE id = 3")
    with pytest.raises(QueryFailed, match="delete 1 rows"):
        query.batch()


def test_a_snapshot_that_is_not_there_begins_no_stream(place: Path) -> None:
    with pytest.raises(NotFound, match="table 't' has no snapshot 99; the newest is"):
        Query(place, starting="99").batch()


def test_an_offset_of_another_source_is_refused() -> None:
    for found in ({"version": 3}, {"offset": 0}, {"version": "3", "committed_at": "x", "is_whole": False}):
        with pytest.raises(InvalidInput, match="none of lance_flight's"):
            Offset.from_json(found)


def spans(newest: int, most: int | None) -> Sequence[int]:
    ends, at = [], 0
    while (at := last_version(at, newest, most)) != (ends or [0])[-1]:
        ends.append(at)
    return ends


def test_batches_reach_the_newest_snapshot_in_steps_of_a_limit() -> None:
    assert [list(spans(7, most)) for most in (None, 1, 3, 7, 9)] == [[7], [1, 2, 3, 4, 5, 6, 7], [3, 6, 7], [7], [7]]


def test_rows_inside_columns_come_in_the_types_that_spark_was_told(place: Path) -> None:
    """Every batch has one schema, be it of the whole table, of a snapshot, or of one from before a change of columns."""
    made = "SELECT 1 AS id, 'a' AS p, named_struct('x', 1, 'y', 'b') AS s, [named_struct('z', 1)] AS l, arrow_cast(1, 'UInt32') AS u"
    run(place, f"CREATE TABLE nested PARTITIONED BY (p) AS {made}")
    run(place, f"INSERT INTO nested {made}")
    run(place, "ALTER TABLE nested RENAME COLUMN s TO t")
    schemas = []
    for starting in ("table", "earliest"):
        query = Query(place, table="nested", starting=starting)
        query.rest()
        for number in range(len(query.ends)):
            schemas += [batch.schema for portion in query.portions(number) for batch in portion.batches()]
    declared = carried_schema(
        reading.plan_direct(ReadOptions.parse({"root": str(place.parent), "table": "nested"})).wanted
    )
    assert len(schemas) >= 3
    assert all(schema.equals(declared, check_metadata=True) for schema in schemas)
