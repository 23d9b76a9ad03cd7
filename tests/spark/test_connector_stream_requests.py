"""Streams of the connector's tables, batch by batch, asked as their JVM asks: rows are there once, whatever is repeated. No JVM runs here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import pytest
from lance_flight.catalog.commits.once import last_batches
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store

from tests.engine.database import Database
from tests.spark.planner import Catalog, CatalogTable, Refused, Tasks, message

_STREAMS = count(1)


class Reading:
    """A stream that reads a table, with what its checkpoint keeps."""

    def __init__(self, source: CatalogTable, **options: str) -> None:
        self._source = source
        opened = source.ask("open_stream", stream_options=options)
        self._given = {"stream": f"stream {next(_STREAMS)}", "plan": opened["plan"]}
        self.most = opened["versions_per_trigger"]
        self.ends = [opened["initial"]]

    def ask(self, method: str, **arguments: Any) -> Any:
        return self._source.catalog.ask(method, **self._given, **arguments)

    def batch(self) -> list[dict[str, Any]] | None:
        """Plan and read the next batch; None where there is none."""
        until = self.ask("newest_offset")
        end = self.ask("next_offset", start=self.ends[-1], until=until, most=self.most)
        if end == self.ends[-1]:
            return None
        self.ends.append(end)
        return self.repeated(len(self.ends) - 1)

    def repeated(self, number: int) -> list[dict[str, Any]]:
        planned = self.ask("plan_batch", start=self.ends[number - 1], end=self.ends[number])
        rows = Tasks(planned).rows()
        self.ask("release_stream")
        return rows

    def rest(self) -> list[list[int]]:
        """The ids of all batches that are left."""
        found: Iterator[list[dict[str, Any]]] = iter(self.batch, None)
        return [sorted(row["id"] for row in batch) for batch in found]


class Writing:
    """A query that writes batches to a table."""

    def __init__(self, target: CatalogTable, query: str, replaces: str = "nothing", **options: str) -> None:
        self.target, self._given = target, {"query": query, "replaces": replaces, "stream_options": options}

    def write(self, number: int, *ids: int, ends: str = "commit_batch") -> None:
        """Write a batch in two tasks."""
        rows = [{"id": each, "p": each % 3, "label": f"n{each}"} for each in ids]
        begun = self.target.ask("begin_batch", schema=self.target.schema.json(), **self._given)
        messages = [message(begun, self.target.batches(part)) for part in (rows[:1], rows[1:])]
        if ends == "abort_batch":
            messages[1:] = [None]
        self.target.ask(ends, write=begun["write"], messages=messages, batch=number)


@pytest.fixture
def source(catalogs: Mapping[str, Catalog], database: Database, table: str) -> CatalogTable:
    database.run(f"CREATE TABLE {table} (id BIGINT, p BIGINT, label VARCHAR) PARTITIONED BY (p)")
    insert(database, table, 1, 2, 3)
    return catalogs["lake"].table(table)


def insert(database: Database, table: str, *ids: int) -> None:
    """One snapshot more."""
    rows = ", ".join(f"({number}, {number % 3}, 'n{number}')" for number in ids)
    database.run(f"INSERT INTO {table} VALUES {rows}")


def ids(database: Database, table: str) -> list[int]:
    return sorted(number for (number,) in database.rows(f"SELECT id FROM {table}"))


def batches(database: Database, table: str) -> list[tuple[str, int, int]]:
    """The last batch of each stream that a table knows, with its rows."""
    snapshot = Root(Store(str(database.root))).table(TableName("public", table)).snapshot()
    return [(each.stream, each.batch, each.rows) for each in last_batches(snapshot)]


READINGS: Mapping[str, tuple[dict[str, str], list[list[int]]]] = {
    "all": ({}, [[1, 2, 3], [4, 5, 6]]),
    "snapshots": ({"starting": "earliest", "versions_per_trigger": "1"}, [[], [1, 2, 3], [4], [5, 6]]),
    "filter": ({"filter": "id % 2 = 0"}, [[2], [4, 6]]),
    "latest": ({"starting": "latest"}, [[], [4, 5, 6]]),
    "tasks": ({"partitions": "2"}, [[1, 2, 3], [4, 5, 6]]),
}


@pytest.mark.parametrize(("options", "expected"), READINGS.values(), ids=READINGS)
@pytest.mark.usefixtures("source")
def test_a_stream_reads_every_row_once(
    catalog: Catalog, database: Database, table: str, options: dict[str, str], expected: list[list[int]]
) -> None:
    reading = Reading(catalog.table(table), **options)
    before = reading.rest()
    insert(database, table, 4)
    insert(database, table, 5, 6)
    assert before + reading.rest() == expected
    assert json.loads(json.dumps(reading.ends)) == reading.ends
    again = [sorted(row["id"] for row in reading.repeated(number)) for number in range(1, len(reading.ends))]
    assert again == expected
    reading.ask("close_stream")


@pytest.mark.usefixtures("source")
def test_a_snapshot_that_removes_rows_ends_a_stream(catalog: Catalog, database: Database, table: str) -> None:
    source = catalog.table(table)
    reading, lenient = Reading(source), Reading(source, changes="new_rows")
    assert reading.rest() == lenient.rest() == [[1, 2, 3]]
    database.run(f"DELETE FROM {table} WHERE id = 1")
    with pytest.raises(Refused, match="changes"):
        reading.batch()
    assert lenient.rest() in ([], [[]])
    database.run(f"UPDATE {table} SET label = 'new' WHERE id = 2")
    database.run(f"ALTER TABLE {table} COMPACT")
    assert lenient.rest() == [[2]]
    database.run(f"DROP TABLE {table}")
    database.run(f"CREATE TABLE {table} (id BIGINT, p BIGINT, label VARCHAR) PARTITIONED BY (p)")
    with pytest.raises(Refused, match=r"no such version|has no snapshot|made again"):
        lenient.batch()


@pytest.mark.usefixtures("source")
def test_a_stream_of_changes_has_each_of_them_once(catalog: Catalog, database: Database, table: str) -> None:
    feed = catalog.table(f"{table}.changes")
    whole, late = Reading(feed), Reading(feed, starting="latest", filter="id <> 3")

    def changes(reading: Reading) -> list[list[tuple[int, str]]]:
        return [sorted((row["id"], row["_change_type"]) for row in batch) for batch in iter(reading.batch, None)]

    assert changes(whole) == [[(1, "insert"), (2, "insert"), (3, "insert")]]
    assert changes(late) == [[]]
    insert(database, table, 4)
    database.run(f"UPDATE {table} SET label = 'new' WHERE id = 2")
    database.run(f"DELETE FROM {table} WHERE id = 3")
    database.run(f"ALTER TABLE {table} COMPACT")
    expected = [(2, "delete"), (2, "insert"), (3, "delete"), (4, "insert")]
    assert changes(whole) == [expected]
    assert changes(late) == [[pair for pair in expected if pair[0] != 3]]
    versions = [row["_commit_version"] for row in whole.repeated(2)]
    stored = database.rows(f"SELECT _snapshot FROM table_changes('{table}', {min(versions) - 1}, {max(versions)})")
    assert sorted(versions) == sorted(version for (version,) in stored)


@pytest.mark.usefixtures("source")
def test_a_batch_that_is_written_again_counts_once(catalog: Catalog, database: Database, table: str) -> None:
    database.run(f"DELETE FROM {table}")
    source = catalog.table(table)
    writing = Writing(source, "a query")
    writing.write(0, 1, 2, 3)
    writing.write(1, 4)
    writing.write(1, 4)
    assert ids(database, table) == [1, 2, 3, 4]
    assert batches(database, table) == [("a query", 1, 1)]
    Writing(source, "another query").write(0, 1)
    assert ids(database, table) == [1, 1, 2, 3, 4]
    Writing(source, "a query", stream="named").write(0, 9)
    with pytest.raises(Refused, match=r"stream 'named' is that of query .*another name"):
        Writing(source, "a new query", stream="named").write(0, 9)
    assert ids(database, table) == [1, 1, 2, 3, 4, 9]
    Writing(source, "complete", "table").write(0, 7, 8)
    assert ids(database, table) == [7, 8]


@pytest.mark.usefixtures("source")
def test_a_batch_that_is_given_up_leaves_no_file(catalog: Catalog, database: Database, table: str) -> None:
    source = catalog.table(table)
    before = set((database.root / table).rglob("*.lance"))
    Writing(source, "a query").write(0, 10, ends="abort_batch")
    assert ids(database, table) == [1, 2, 3]
    left = set((database.root / table).rglob("*.lance")) - before
    assert not left


def test_streams_that_cannot_run_are_refused(source: CatalogTable, catalogs: Mapping[str, Catalog], table: str) -> None:
    reads = {
        r"readStream of a table: option 'snapshot'; expected starting": {"snapshot": "3"},
        "nope": {"filter": "nope = 1"},
        "'partitions' is '0'": {"partitions": "0"},
        "no snapshot 99": {"starting": "99"},
    }
    for words, options in reads.items():
        with pytest.raises(Refused, match=words):
            Reading(source, **options).batch()
    for place in ("far", "lake"):
        other = catalogs[place].table(f"{table}.files")
        with pytest.raises(Refused, match="not views and other metadata tables"):
            Reading(other)
    with pytest.raises(Refused, match="not to tags, old versions, views and metadata tables"):
        Writing(other, "a query").write(0, 1)
    with pytest.raises(Refused, match=r"writeStream of a table: option 'commit_id'; expected stream"):
        Writing(source, "a query", commit_id="x").write(0, 1)


def test_a_null_of_before_is_an_error_through_a_server_too(
    catalogs: Mapping[str, Catalog], database: Database, table: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, p BIGINT) PARTITIONED BY (p)")
    database.run(f"INSERT INTO {table} VALUES (NULL, 1)")
    database.run(f"DELETE FROM {table} WHERE true")
    database.run(f"INSERT INTO {table} VALUES (1, 1)")
    database.run(f"ALTER TABLE {table} ALTER COLUMN id SET NOT NULL")
    found = catalogs["far"].table(table)
    assert Reading(found).rest() == [[1]]
    with pytest.raises(Refused, match=r"column 'id' of table .* is NOT NULL, and NULL"):
        Reading(found, starting="earliest", changes="new_rows", versions_per_trigger="1").rest()


def test_a_null_of_before_is_an_error_where_spark_takes_a_column_for_not_null(
    catalogs: Mapping[str, Catalog], database: Database, table: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, p BIGINT, s STRUCT<x INT>) PARTITIONED BY (p)")
    database.run(f"INSERT INTO {table} VALUES (NULL, 1, NULL), (2, 1, {{x: CAST(NULL AS INT)}})")
    database.run(f"DELETE FROM {table} WHERE true")
    database.run(f"INSERT INTO {table} VALUES (1, 1, {{x: 1}})")
    database.run(f"ALTER TABLE {table} ADD COLUMN more INT NOT NULL DEFAULT 5")
    database.run(f"INSERT INTO {table} (id, p, s) VALUES (3, 1, {{x: 2}})")
    for changes, column in {
        "ALTER COLUMN id SET NOT NULL": "id",
        "ALTER COLUMN id DROP NOT NULL, ALTER COLUMN s.x SET NOT NULL": "s.x",
        "ALTER COLUMN s.x DROP NOT NULL": "more",
        "ALTER COLUMN more DROP NOT NULL": None,
    }.items():
        database.run(f"ALTER TABLE {table} {changes}")
        found = catalogs["lake"].table(table)
        whole = Reading(found)
        assert sorted(row["id"] for row in whole.batch() or []) == [1, 3]
        early = Reading(found, starting="earliest", changes="new_rows", versions_per_trigger="1")
        if column is None:
            assert sum(len(batch) for batch in iter(early.batch, None)) == 4
            continue
        with pytest.raises(Refused, match=f"column '{column}' of table '{table}' is NOT NULL, and NULL") as raised:
            list(iter(early.batch, None))
        assert raised.value.code == "invalid_data"
