"""Every kind of write there is: what a client does, what it makes of a table, and the points that it passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import lance
import pyarrow as pa
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import AdbcStatusCode, Error
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.session_registry import Session
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.faults import POINTS
from lance_flight_client.errors import ServerError
from lance_flight_client.spark.connector.server_writes import SharedSession
from lance_flight_client.spark.options import NamedTable, ReadOptions

from tests.engine.database import Database
from tests.faults.failpoints import elsewhere
from tests.selection import covering
from tests.service.server_process import Server
from tests.stock import manifest

Asked = Database | Server
"""What a client asks: an engine in this process, or a server."""

Row = tuple[int, str | None, int]
Rows = list[Row]
SCHEMA = pa.schema({"id": pa.int64(), "p": pa.utf8(), "n": pa.int64()})
BY = "p"
AS_MADE = "id int64, p string, n int64"

FIRST: Rows = [(number, ("a", "b", None)[number % 3], 0) for number in range(6)]
SECOND: Rows = [(number, ("a", "b", None)[number % 3], 0) for number in range(6, 12)]
START = FIRST + SECOND
"""What is in a table before: three partitions, each with two fragments, each of them with an even and an odd id."""

MORE: Rows = [(100 + number, ("a", "b", None, "x", "y")[number % 5], 1) for number in range(10)]
RIVAL: Rows = [(200, "x", 2), (201, "y", 2)]
ONLY_ONCE = {"data_written": 1, "all_staged": 1, "manifest_written": 1, "committed": 1}


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Rows as a client sends them."""
    return pa.Table.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


@dataclass(frozen=True, kw_only=True, eq=False)
class Write:
    """One kind of write.

    `passes` says how often it comes by each point; at `visible_at` all of it is there, and before nothing. `before` is
    what the table holds when it begins (None: there is no table), `then` what it holds when it is done. One that `forgets` takes
    older snapshots away. `layouts` are its columns and partition fields before and afterwards.
    """

    name: str
    run: Callable[[Asked, str], object]
    then: Rows | None
    passes: Mapping[str, int]
    before: Rows | None
    visible_at: str = "committed"
    partition_by: str | None = BY
    prepare: Callable[[Path], object] | None = None
    forgets: bool = False
    layouts: tuple[str, str] | None = None

    def set_up(self, asked: Asked, table: str) -> None:
        """The table as it is before."""
        if self.before is not None:
            asked.ingest(table, table_of(FIRST), partition_by=self.partition_by)
            asked.ingest(table, table_of(SECOND), "append")
            if self.prepare is not None:
                self.prepare(asked.root / table)

    def after(self, point: str) -> Rows | None:
        """What the table holds when the write has stopped at a point."""
        return self.then if self.is_visible_at(point) or self.then == self.before else self.before

    def is_visible_at(self, point: str) -> bool:
        """Whether a write that has stopped at a point is done."""
        return list(POINTS).index(point) >= list(POINTS).index(self.visible_at)


@dataclass(frozen=True)
class Stop:
    """One write, stopped at one of the points that it passes."""

    write: Write
    point: str

    def __str__(self) -> str:
        return f"{self.write.name} at {self.point}"

    @property
    def times(self) -> int:
        """How often the write passes the point."""
        return self.write.passes[self.point]

    @property
    def then(self) -> Rows | None:
        """What the table must hold afterwards."""
        return self.write.after(self.point)

    @property
    def is_done(self) -> bool:
        """Whether the write is visible by then."""
        return self.write.is_visible_at(self.point)


def sql(*statements: str) -> Callable[[Asked, str], object]:
    """Run statements one by one; `{t}` is the table."""
    return lambda asked, table: [asked.run(statement.format(t=table)) for statement in statements]


@dataclass(frozen=True)
class Transaction:
    """Statements that are committed together, or taken back: `run(sql)`, and `end(commit=...)`."""

    run: Callable[[str], object]
    end: Callable[..., object]


@contextmanager
def transaction(asked: Asked) -> Iterator[Transaction]:
    """A transaction, until it is ended."""
    if isinstance(asked, Database):
        session, clients = Session(), asked.engine.clients
        mine = clients.begin(session)
        yield Transaction(partial(asked.engine.update, scope=Scope(session, mine)), partial(clients.end, mine))
        return
    connection = dbapi.connect(asked.uri)
    try:
        with connection.cursor() as cursor:
            yield Transaction(cursor.execute, lambda commit: connection.commit() if commit else connection.rollback())
    finally:
        with suppress(Error):
            connection.close()


def _in_a_transaction(asked: Asked, table: str) -> None:
    with transaction(asked) as mine:
        mine.run(f"INSERT INTO {table} VALUES (100, 'a', 1), (101, 'x', 1)")
        mine.run(f"UPDATE {table} SET n = n + 10 WHERE id % 2 = 0")
        mine.run(f"DELETE FROM {table} WHERE id < 2")
        mine.end(commit=True)


def _rolled_back(asked: Asked, table: str) -> None:
    with transaction(asked) as mine:
        mine.run(f"INSERT INTO {table} VALUES (100, 'a', 1), (101, 'x', 1)")
        mine.run(f"DELETE FROM {table} WHERE id < 2")
        mine.end(commit=False)


def _beaten(asked: Asked, table: str) -> None:
    with transaction(asked) as mine:
        mine.run(f"INSERT INTO {table} VALUES (100, 'a', 1), (101, 'x', 1), (102, 'y', 1)")
        with elsewhere():
            PartitionedNamespace.open(Store(str(asked.root / table))).append([table_of(RIVAL)], evaluate)
        mine.end(commit=True)


def _columns_with_rows(asked: Asked, table: str) -> None:
    """Add a column together with rows that have it, in place of others."""
    rows = table_of([(100, "a", 1), (101, "x", 1)]).append_column("more", pa.array([5, None], pa.int32()))
    begin = f"BEGIN WRITE 'w' INTO {table} ADD COLUMN more INT"
    commit = f"COMMIT WRITE 'w' INTO {table} PARTS ('p') REPLACING WHERE id % 2 = 0"
    if isinstance(asked, Database):
        with asked.client() as client:
            client.run(begin)
            client.ingest(table, rows, "append", shared="w", part="p")
            client.run(commit)
        return
    session = SharedSession.begin(ReadOptions.parse({"uri": asked.uri, "table": table}))
    try:
        session.run(begin)
        session.send(NamedTable("public", table), {"shared": "w", "part": "p"}, rows.schema, iter(rows.to_batches()))
        session.run(commit)
    except (ServerError, pa.ArrowException) as exc:
        raise Error(f"Unavailable: {exc}", status_code=AdbcStatusCode.IO) from exc
    finally:
        session.close()


def _to_the_version_before(asked: Asked, table: str) -> None:
    asked.run(f"ALTER TABLE {table} ROLLBACK TO {manifest(asked.root / table).version - 1}")


def _stage_and_die(place: Path) -> None:
    """Leave what a writer leaves that staged rows on every table and never came to its commit."""
    namespace = PartitionedNamespace.open(Store(str(place)))
    for _ in range(2):
        dead = namespace.begin()
        namespace.write(dead, [table_of([(666, "a", 0), (667, "b", 0), (668, None, 0)])], evaluate)
        namespace.commits.stage(dead)


def _beside(place: Path) -> None:
    """A plain table of one row beside a partitioned one."""
    lance.write_dataset(table_of(RIVAL[:1]), str(place.with_name(f"{place.name}_out.lance")))


def _with_one_more(place: Path) -> None:
    """Another column, of which the rows of other writes say nothing."""
    table = f"ALTER TABLE {place.name}"
    Engine(Root(Store(str(place.parent))), target_partitions=1).update(f"{table} ADD COLUMN more INT DEFAULT 1")


def _ingest(mode: str, rows: Rows, partition_by: str | None = None) -> Callable[[Asked, str], object]:
    return lambda asked, table: asked.ingest(table, table_of(rows), mode, partition_by=partition_by)


MERGE = """
    MERGE INTO {t} USING (SELECT column1 AS id, column2 AS p FROM (VALUES (0, 'a'), (1, 'x'), (2, 'y'), (100, 'z'))) AS s
    ON {t}.id = s.id WHEN MATCHED AND s.id = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET p = s.p, n = 5
    WHEN NOT MATCHED THEN INSERT (id, p, n) VALUES (s.id, s.p, 7)
"""
MOVE = "UPDATE {t} SET p = CASE p WHEN 'a' THEN 'b' WHEN 'b' THEN 'x' ELSE 'a' END WHERE id % 2 = 0"
MOVED: Mapping[str | None, str] = {"a": "b", "b": "x", None: "a"}

WRITES = (
    Write(
        name="ingest",
        run=_ingest("append", MORE),
        before=START,
        then=START + MORE,
        passes=ONLY_ONCE | {"rows_received": 1, "file_written": 5, "table_staged": 5},
    ),
    Write(
        name="insert",
        run=sql("INSERT INTO {t} VALUES (100, 'a', 1), (101, 'x', 1)"),
        before=START,
        then=[*START, (100, "a", 1), (101, "x", 1)],
        passes=ONLY_ONCE | {"rows_received": 1, "file_written": 2, "table_begun": 1, "table_staged": 2},
    ),
    Write(
        name="update",
        run=sql("UPDATE {t} SET n = n + 10 WHERE id % 2 = 0"),
        before=START,
        then=[(i, p, n + 10 * (i % 2 == 0)) for i, p, n in START],
        passes=ONLY_ONCE | {"rows_received": 1, "rows_removed": 6, "file_written": 3, "table_staged": 3},
    ),
    Write(
        name="move",
        run=sql(MOVE),
        before=START,
        then=[(i, p if i % 2 else MOVED[p], n) for i, p, n in START],
        passes=ONLY_ONCE | {"rows_received": 1, "rows_removed": 6, "file_written": 3, "table_staged": 4},
    ),
    Write(
        name="delete",
        run=sql("DELETE FROM {t} WHERE id % 2 = 0"),
        before=START,
        then=[row for row in START if row[0] % 2],
        passes=ONLY_ONCE | {"rows_removed": 6, "table_staged": 3},
    ),
    Write(
        name="merge",
        run=sql(MERGE),
        before=START,
        then=[*START[3:], (1, "x", 5), (2, "y", 5), (100, "z", 7)],
        passes=ONLY_ONCE | {"rows_received": 1, "rows_removed": 3, "file_written": 3, "table_staged": 6},
    ),
    Write(
        name="overwrite",
        run=sql("INSERT OVERWRITE {t} VALUES (100, 'a', 1), (101, 'x', 1)"),
        before=START,
        then=[*(row for row in START if row[1] != "a"), (100, "a", 1), (101, "x", 1)],
        passes=ONLY_ONCE | {"rows_received": 1, "file_written": 2, "table_staged": 2},
    ),
    Write(
        name="truncate",
        run=sql("TRUNCATE TABLE {t}"),
        before=START,
        then=[],
        passes={"table_staged": 3, "all_staged": 1, "manifest_written": 1, "committed": 1},
    ),
    Write(
        name="drop_partition",
        run=sql("ALTER TABLE {t} DROP PARTITION (p = 'a')"),
        before=START,
        then=[row for row in START if row[1] != "a"],
        passes={"all_staged": 1, "manifest_written": 1, "committed": 1},
    ),
    Write(
        name="attach",
        run=sql("ALTER TABLE {t} ATTACH TABLE '{t}_out' PARTITION (p = 'x')"),
        prepare=_beside,
        before=START,
        then=START + RIVAL[:1],
        passes={"table_linked": 1, "all_staged": 1, "manifest_written": 1, "committed": 1, "table_dropped": 1},
    ),
    Write(
        name="detach",
        run=sql("ALTER TABLE {t} DETACH PARTITION (p = 'a') TO {t}_out"),
        before=START,
        then=[row for row in START if row[1] != "a"],
        passes={"all_staged": 1, "manifest_written": 1, "committed": 1},
    ),
    Write(
        name="transaction",
        run=_in_a_transaction,
        before=START,
        then=[*((i, p, n + 10 * (i % 2 == 0)) for i, p, n in START[2:]), (100, "a", 11), (101, "x", 1)],
        passes=ONLY_ONCE
        | {"rows_received": 2, "data_written": 3, "rows_removed": 9, "file_written": 5, "table_staged": 7},
    ),
    Write(name="rollback", run=_rolled_back, before=START, then=START, passes={"table_staged": 4, "part_removed": 3}),
    Write(
        name="behind_the_dead",
        run=_ingest("append", MORE),
        prepare=_stage_and_die,
        before=START,
        then=START + MORE,
        passes={"pin_restored": 3, "table_staged": 5, "committed": 1},
    ),
    Write(
        name="beaten",
        run=_beaten,
        before=START + RIVAL,
        then=[*START, *RIVAL, (100, "a", 1), (101, "x", 1), (102, "y", 1)],
        passes={"files_moved": 2, "all_staged": 1, "manifest_written": 1, "committed": 1},
    ),
    Write(
        name="roll_back_to",
        run=_to_the_version_before,
        before=START,
        then=FIRST,
        passes={"manifest_written": 1, "committed": 1},
    ),
    Write(
        name="compact",
        run=lambda asked, table: asked.rows(f"ALTER TABLE {table} COMPACT"),
        before=START,
        then=START,
        passes={"data_written": 1, "table_staged": 3, "all_staged": 1, "manifest_written": 1, "committed": 1},
    ),
    Write(
        name="create_index",
        run=sql("CREATE INDEX ON {t} (n) WITH (min_rows = 1)"),
        before=START,
        then=START,
        passes={
            "segment_built": 3,
            "data_written": 1,
            "table_staged": 3,
            "manifest_written": 1,
            "committed": 1,
            "evolved": 1,
        },
    ),
    Write(
        name="vacuum",
        run=lambda asked, table: asked.rows(f"VACUUM {table} RETAIN 0 HOURS FORCE"),
        before=START,
        then=START,
        forgets=True,
        passes={"expiry_announced": 1, "tables_trimmed": 1, "snapshots_removed": 1},
    ),
    Write(
        name="set_partitioned_by",
        run=sql("ALTER TABLE {t} SET PARTITIONED BY (bucket(2, n), p)"),
        before=START,
        then=START,
        layouts=(f"{AS_MADE} by p", f"{AS_MADE} by n_bucket, p"),
        passes={"manifest_written": 1, "committed": 1, "columns_added": 1, "evolved": 1},
    ),
    Write(
        name="add_column",
        run=sql("ALTER TABLE {t} ADD COLUMN more INT"),
        before=START,
        then=START,
        layouts=(f"{AS_MADE} by p", f"{AS_MADE}, more int32 by p"),
        passes={"table_staged": 3, "manifest_written": 1, "committed": 1, "evolved": 1},
    ),
    Write(
        name="add_column_with_rows",
        run=_columns_with_rows,
        before=START,
        then=[*(row for row in START if row[0] % 2), (100, "a", 1), (101, "x", 1)],
        layouts=(f"{AS_MADE} by p", f"{AS_MADE}, more int32 by p"),
        passes=ONLY_ONCE
        | {"rows_received": 1, "file_written": 2, "rows_removed": 6, "table_begun": 1, "table_staged": 7},
    ),
    Write(
        name="add_computed",
        run=sql("ALTER TABLE {t} ADD COLUMN more BIGINT AS (id + n)"),
        before=START,
        then=START,
        layouts=(f"{AS_MADE} by p", f"{AS_MADE}, more int64 by p"),
        passes={"table_staged": 3, "manifest_written": 1, "committed": 1, "evolved": 1},
    ),
    *(
        Write(
            name=name,
            run=sql(statement),
            prepare=_with_one_more,
            before=START,
            then=START,
            layouts=(f"{AS_MADE}, more int32 by p", f"{AS_MADE}{after} by p"),
            passes={"table_staged": 3, "manifest_written": 1, "committed": 1, "evolved": 1},
        )
        for name, statement, after in (
            ("drop_column", "ALTER TABLE {t} DROP COLUMN more", ""),
            ("rename_column", "ALTER TABLE {t} RENAME COLUMN more TO less", ", less int32"),
            ("widen", "ALTER TABLE {t} ALTER COLUMN more TYPE BIGINT", ", more int64"),
        )
    ),
    Write(
        name="create",
        run=_ingest("create", MORE, BY),
        before=None,
        then=MORE,
        visible_at="table_moved",
        passes=ONLY_ONCE
        | {"manifest_made": 1, "rows_received": 1, "file_written": 5, "table_staged": 5}
        | {"namespace_made": 1, "table_moved": 1},
    ),
    Write(
        name="replace",
        run=_ingest("replace", MORE, BY),
        before=START,
        then=MORE,
        visible_at="table_moved",
        passes=ONLY_ONCE
        | {"manifest_made": 1, "rows_received": 1, "file_written": 5, "table_staged": 5}
        | {"namespace_made": 1, "table_replaced": 1, "table_moved": 1},
    ),
    Write(
        name="drop",
        run=sql("DROP TABLE {t}"),
        before=START,
        then=None,
        visible_at="table_dropped",
        passes={"table_dropped": 1},
    ),
    Write(
        name="create_plain",
        run=_ingest("create", MORE),
        before=None,
        then=MORE,
        partition_by=None,
        visible_at="table_moved",
        passes={"rows_received": 1, "namespace_made": 1, "table_moved": 1},
    ),
    Write(
        name="replace_plain",
        run=_ingest("replace", MORE),
        before=START,
        then=MORE,
        partition_by=None,
        visible_at="table_moved",
        passes={"rows_received": 1, "namespace_made": 1, "table_replaced": 1, "table_moved": 1},
    ),
    Write(
        name="drop_plain",
        run=sql("DROP TABLE {t}"),
        before=START,
        then=None,
        partition_by=None,
        visible_at="table_dropped",
        passes={"table_dropped": 1},
    ),
)

STOPS = [Stop(write, point) for write in WRITES for point in write.passes]
"""Every write at every point that it passes."""
SOME_STOPS = [STOPS[place] for place in covering([(stop.write.name, stop.point) for stop in STOPS], len(STOPS))]
"""Each write and each point once."""

TIMES: Mapping[str, Callable[[Stop], int]] = {"first": lambda _: 1, "last": lambda stop: stop.times}
"""At which of its passes a write is stopped."""
