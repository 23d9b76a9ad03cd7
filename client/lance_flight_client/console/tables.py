"""Facts about tables for the pages, asked of the server in SQL, over the connections of one login.

The history of a table is a graph of its snapshots, branches and tags, with what differs between two snapshots.

Each connection has a session that reads only, unless writes are wanted.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight_client.adbc import COOKIES, Credentials, StatementAnswer, connect, execute, query, run_statement
from lance_flight_client.errors import ServerError
from lance_flight_client.parameters import quote_name, text_literal

_MOST_KNOWN_BYTES = 32 << 20
OWN = "/* console */ "
"""What every statement of the console's own begins with, so that pages can leave them out of what users have run."""
_CODED = re.compile(r"\[FlightSQL\] \[\w+\] \[\w+\]")
_NO_SESSION = "finds no session"
_AROUND = re.compile(r"^([A-Z_]+: )?\[FlightSQL\] (\[\w{5}\] )?|\.? Detail: .*|[.;] Vendor code: .*", re.DOTALL)
"""What the driver puts around the words of the server."""
_CODE_FIRST = re.compile(r"\A\[(\w+)\] (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ConsoleLimits:
    """Bounds of what the console asks: rows shown of a query, and seconds that one may take."""

    rows: int = 10_000
    seconds: float = 30.0


class KnownPartitions:
    """Cache of `t$partitions` at snapshots, which never change, up to so many bytes. Safe to share among threads.

    A snapshot is a version and the moment of its commit: a table that is dropped and made again counts from the same versions.
    """

    def __init__(self, most_bytes: int = _MOST_KNOWN_BYTES) -> None:
        self._most_bytes = most_bytes
        self._known: OrderedDict[tuple[str, datetime], pa.Table] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, sql: str, committed: datetime | None, ask: Callable[[str], pa.Table]) -> pa.Table:
        """Return what a query about the snapshot of a moment gives (None: not known, asked for each time)."""
        if committed is None:
            return ask(sql)
        with self._lock:
            found = self._known.get((sql, committed))
            if found is not None:
                self._known.move_to_end((sql, committed))
                return found
        found = ask(sql)
        # Partitions that float with a branch or a tag change without a snapshot.
        is_pinned = not found["read_version"].null_count and found["read_tag"].null_count == found.num_rows
        if is_pinned and found.nbytes <= self._most_bytes:
            with self._lock:
                self._known[sql, committed] = found
                while sum(query.nbytes for query in self._known.values()) > self._most_bytes:
                    self._known.popitem(last=False)
        return found


@dataclass(frozen=True, slots=True)
class ConsoleServer:
    """The server as one login sees it; threads borrow its connections."""

    uri: str
    credentials: Credentials
    limits: ConsoleLimits = field(default_factory=ConsoleLimits)
    writes: bool = False
    partitions: KnownPartitions = field(default_factory=KnownPartitions, repr=False)
    _idle: SimpleQueue[Any] = field(default_factory=SimpleQueue, repr=False)
    _closed: threading.Event = field(default_factory=threading.Event, repr=False)

    def rows(self, sql: str) -> pa.Table:
        """Return all rows of a query of the console's own, on a connection that is kept for the next one."""
        try:
            found = self._rows_of_idle(sql)
            return self._rows_of(self._begun(), sql) if found is None else found
        except ServerError as exc:
            raise _plain(exc) from exc

    @contextmanager
    def answer(
        self,
        sql: str,
        begins: Callable[[Callable[[], None]], None] | None = None,
        *,
        writes: bool | None = None,
        parameters: pa.RecordBatch | None = None,
        before: Sequence[str] = (),
        session: Callable[[str], None] | None = None,
        ended: Callable[[int | None, int], None] = lambda _rows, _affected: None,
    ) -> Iterator[StatementAnswer]:
        """Run a statement of a user in a session of its own, so that no SET or BEGIN reaches another one.

        Its rows come as they are read; `begins` is given what cancels it. `writes` says whether it may change anything (None: as
        the console may). Statements `before` it run first, in the same session; `ended` is given the rows of each (None: it has
        none) and how many it affected. `session` is given the id of the session before anything runs.
        """
        try:
            connection = self._begun(writes=self.writes if writes is None else writes and self.writes)
            try:
                if session is not None:
                    session(_session_of(connection))
                for earlier in before:
                    with run_statement(connection, earlier, begins) as answer:
                        rows = sum(batch.num_rows for batch in answer.batches)
                        ended(rows if len(answer.schema) else None, answer.affected)
                with run_statement(connection, sql, begins, parameters) as answer:
                    yield answer
            finally:
                connection.close()
        except ServerError as exc:
            raise _plain(exc) from exc

    def close(self) -> None:
        """Close the connections, those that are lent once they are given back."""
        self._closed.set()
        self._close_idle()

    def _rows_of_idle(self, sql: str) -> pa.Table | None:
        """Return the rows by a connection that is there; None without one whose session goes on."""
        try:
            return self._rows_of(self._idle.get_nowait(), sql)
        except Empty:
            return None
        except ServerError as exc:
            if _CODED.search(str(exc)) and _NO_SESSION not in str(exc):
                raise
            # It has ended with its server, or by idleness, and so have those of the others.
            self._close_idle()
            return None

    def _rows_of(self, connection: Any, sql: str) -> pa.Table:
        try:
            found = query(connection, OWN + sql)
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)
        if self._closed.is_set():
            self._close_idle()
        return found

    def _close_idle(self) -> None:
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return

    def _begun(self, *, writes: bool = False) -> Any:
        made = connect(self.uri, self.credentials, {COOKIES: "true"})
        try:
            execute(made, f"{OWN}SET statement_timeout = '{self.limits.seconds:g}'")
            if not writes:
                execute(made, f"{OWN}SET access = 'read'")
        except BaseException:
            made.close()
            raise
        return made


def _session_of(connection: Any) -> str:
    """Return the id of a connection's session, where a query finds itself by a word of its own."""
    word = secrets.token_hex(8)
    found = query(connection, f"{OWN}SELECT session FROM system.queries WHERE sql LIKE '%{word}%' LIMIT 1")
    return str(found["session"][0].as_py())


def _plain(error: ServerError) -> ServerError:
    """Return an error in the words of the server alone: the cause, and the code after it."""
    return ServerError(words_of(str(error)))


def words_of(error: str) -> str:
    """Return what a server said of an error: the cause first, for people, and the code last, for those who look it up.

    >>> words_of("NOT_FOUND: [FlightSQL] [42S02] [not_found] no table 't'. Detail: Python exception: Missing (Prepare)")
    "no table 't' (not_found)"
    >>> words_of("UNKNOWN: [FlightSQL] connection refused (Unavailable; Prepare)")
    'connection refused (Unavailable; Prepare)'
    """
    return _CODE_FIRST.sub(r"\2 (\1)", _AROUND.sub("", error), count=1)


SMALL_FILE_BYTES = 1 << 20
MANY_FILES = 8
"""Files of a partition, on average, from which on small ones are worth a compaction."""


@dataclass(frozen=True, slots=True, order=True)
class ConsoleTable:
    """The name of a table or view, as pages and SQL have it."""

    db_schema: str
    name: str
    is_view: bool = False
    is_partitioned: bool = True

    @property
    def label(self) -> str:
        """The name that a person reads: without `public`."""
        return self.name if self.db_schema == "public" else f"{self.db_schema}.{self.name}"

    def sql(self, at: int | None = None, metadata: str = "") -> str:
        """Return the table at a version, or one of its metadata tables, in SQL.

        >>> ConsoleTable("public", "t").sql(3, "partitions")
        '"public"."t@3$partitions"'
        """
        name = f"{self.name}{'' if at is None else f'@{at}'}{metadata and f'${metadata}'}"
        return f"{quote_name(self.db_schema)}.{quote_name(name)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """Sizes of a table; None where the server does not tell them to this user."""

    rows: int | None = None
    size: int | None = None
    files: int | None = None
    partitions: int | None = None
    changed: datetime | None = None
    version: int | None = None
    problem: str | None = None

    @property
    def hint(self) -> str | None:
        """Advice where files are small."""
        if not self.files or self.size is None:
            return None
        many = self.files >= MANY_FILES * max(self.partitions or 1, 1)
        return "small files: compact" if many and self.size / self.files < SMALL_FILE_BYTES else None


def tables_of(server: ConsoleServer, condition: str = "TRUE") -> list[ConsoleTable]:
    """Return the tables and views that the user may see, those that fulfil a condition."""
    found = server.rows(
        "SELECT table_schema, table_name, table_type, partitioned FROM information_schema.tables"
        f" WHERE table_schema <> 'information_schema' AND {condition} ORDER BY table_schema, table_name"
    )
    return [
        ConsoleTable(
            row["table_schema"], row["table_name"], row["table_type"] == "VIEW", row["partitioned"] in (True, "YES")
        )
        for row in found.to_pylist()
    ]


def table_named(server: ConsoleServer, db_schema: str, name: str) -> ConsoleTable | None:
    """Return the table or view of a name, if the user may see it."""
    named = f"table_schema = {text_literal(db_schema)} AND table_name = {text_literal(name)}"
    return next(iter(tables_of(server, named)), None)


@dataclass(frozen=True, slots=True)
class ConsoleSnapshot:
    """A version of a table and the moment of its commit; None where they are not known."""

    version: int | None = None
    committed: datetime | None = None


def snapshot_of(server: ConsoleServer, table: ConsoleTable, version: int | None = None) -> ConsoleSnapshot:
    """Return the snapshot of a version (None: the newest); it knows no more where row policies keep the history from the user."""
    at = "" if version is None else f" WHERE version = {version}"
    sql = f"SELECT version, committed_at FROM {table.sql(metadata='snapshots')}{at} ORDER BY version DESC LIMIT 1"
    found = list_rows(server, "" if table.is_view else sql)[1]
    return ConsoleSnapshot(*found[0]) if found else ConsoleSnapshot(version)


def summary_of(server: ConsoleServer, table: ConsoleTable) -> TableSummary:
    """Return the sizes of a table, from its metadata alone."""
    if table.is_view:
        return TableSummary()
    try:
        snapshot = snapshot_of(server, table)
        if table.is_partitioned:
            found = partitions_at(server, table, snapshot)
            sums = {name: int(pc.sum(found[name]).as_py() or 0) for name in ("rows", "bytes", "files")}
            changed = pc.max(found["last_change"]).as_py() if found.num_rows else snapshot.committed
        else:
            (sums,) = server.rows(
                f"SELECT count(*) AS files, sum(bytes) AS bytes FROM {table.sql(metadata='files')}"
            ).to_pylist()
            sums |= server.rows(f"SELECT count(*) AS rows FROM {table.sql()}").to_pylist()[0]
            changed = snapshot.committed
    except ServerError as exc:
        return TableSummary(problem=str(exc))
    return TableSummary(
        version=snapshot.version,
        rows=sums["rows"],
        size=sums["bytes"],
        files=sums["files"],
        partitions=found.num_rows if table.is_partitioned else None,
        changed=changed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Maintenance that a table may need: files beyond one for each partition, rows in no index, and its snapshots; None where not told."""

    files: int | None
    unindexed_rows: int | None
    indices: int
    snapshots: int | None


def backlog_of(server: ConsoleServer, table: ConsoleTable) -> Backlog:
    """Return the backlog of a table, from its metadata alone."""
    files = (
        f"SELECT coalesce(sum(files) - count(*), 0) FROM {table.sql(metadata='partitions')} WHERE files > 0"
        if table.is_partitioned
        else f"SELECT greatest(count(*) - 1, 0) FROM {table.sql(metadata='files')}"
    )
    indices = f"SELECT count(*), coalesce(sum(stale_rows), 0) FROM {table.sql(metadata='indexes')}"
    found = [list_rows(server, files), list_rows(server, indices)]
    found.append(list_rows(server, f"SELECT count(*) FROM {table.sql(metadata='snapshots')}"))
    spare, (number, stale), snapshots = (rows[0] if rows else [None] * len(names or "ab") for names, rows in found)
    return Backlog(
        files=spare[0], unindexed_rows=stale if number else None, indices=number or 0, snapshots=snapshots[0]
    )


def list_rows(server: ConsoleServer, sql: str) -> tuple[list[str], list[list[Any]]]:
    """Return the columns and rows of a query; without rows where there is none, or where the server refuses it to this user."""
    if not sql:
        return [], []
    try:
        found = server.rows(sql)
    except ServerError:
        return [], []
    return found.column_names, [list(row.values()) for row in found.to_pylist()]


def definition_of(server: ConsoleServer, table: ConsoleTable) -> str:
    """Return the statement that makes the table or view."""
    what = "VIEW" if table.is_view else "TABLE"
    found = server.rows(f"SHOW CREATE {what} {table.sql()}")
    return str(found[found.column_names[-1]][0].as_py())


def partitions_at(server: ConsoleServer, table: ConsoleTable, snapshot: ConsoleSnapshot) -> pa.Table:
    """Return the partition tables of a snapshot."""
    sql = f"SELECT * FROM {table.sql(snapshot.version, 'partitions')}"
    return server.partitions.of(sql, snapshot.committed, server.rows)


def newest_spec(partitions: pa.Table) -> pa.Table:
    """Return the partition tables of the newest spec that has some."""
    return partitions.filter(pc.equal(partitions["spec_id"], pc.max(partitions["spec_id"])))


def read_by(
    server: ConsoleServer, table: ConsoleTable, version: int | None, condition: str
) -> tuple[frozenset[str], list[str]]:
    """Return the partition tables that a query with a condition reads, and the server's reasons."""
    at = table.sql(version)
    read = server.rows(f"SHOW PARTITIONS {at} READ BY {condition}")
    explained = server.rows(f"EXPLAIN SELECT * FROM {at} WHERE ({condition}\n)").to_pylist()
    reasons = [line for row in explained if row["plan_type"] == "partitions" for line in row["plan"].splitlines()]
    return frozenset(read["object_id"].to_pylist()), reasons


def fields_of(partitions: pa.Table) -> Sequence[str]:
    """Return the columns of partition values."""
    names: list[str] = partitions.column_names
    return names[1 : names.index("object_id")]


MOST_SNAPSHOTS = 500
MOST_BRANCHES = 8
"""Branches that are drawn, the newest ones."""
MOST_BRANCH_SNAPSHOTS = 100
_MOST_NAMES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDot:
    """Snapshot in the graph: its place from left to right in percent, its facts, and the tags and branches at it."""

    version: int
    committed: datetime
    operation: str
    added: int
    changed: int
    removed: int
    x: float = 0.0
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLane:
    """The snapshots of a branch (None: the main one), the oldest first, and the version of the main one that they go out from."""

    branch: str | None
    dots: Sequence[SnapshotDot]
    fork: float = 0.0

    def sql(self, table: ConsoleTable) -> str:
        """Return the table as this branch has it, in SQL."""
        return _of_branch(table, self.branch).sql()


def history_of(server: ConsoleServer, table: ConsoleTable) -> list[HistoryLane]:
    """Return the newest snapshots of a table and its branches, placed in the order of their commits; the main lane comes first."""
    if table.is_view:
        return [HistoryLane(branch=None, dots=())]
    forks, names = _names(server, table)
    lanes = {branch: _snapshots(server, table, branch, forks.get(branch)) for branch in [None, *forks]}
    ordered = sorted({dot.committed for dots in lanes.values() for dot in dots})
    place = {moment: round(100 * step / max(len(ordered) - 1, 1), 2) for step, moment in enumerate(ordered)}
    placed = {
        branch: [replace(dot, x=place[dot.committed], names=names.get((branch, dot.version), ())) for dot in dots]
        for branch, dots in lanes.items()
    }
    main = {dot.version: dot.x for dot in placed[None]}
    return [
        HistoryLane(branch=branch, dots=dots, fork=main.get(forks.get(branch, 0), 0.0))
        for branch, dots in placed.items()
    ]


def _of_branch(table: ConsoleTable, branch: str | None) -> ConsoleTable:
    return table if branch is None else replace(table, name=f"{table.name}@{branch}")


def _snapshots(server: ConsoleServer, table: ConsoleTable, branch: str | None, fork: int | None) -> list[SnapshotDot]:
    since, most = ("", MOST_SNAPSHOTS) if branch is None else (f" WHERE version > {fork}", MOST_BRANCH_SNAPSHOTS)
    sql = (
        "SELECT version, committed_at, operation, tables_added, tables_changed, tables_removed"
        f" FROM {_of_branch(table, branch).sql(metadata='snapshots')}{since} ORDER BY version DESC LIMIT {most}"
    )
    # What the main branch has is asked for in the open: a refusal of it is the page's own.
    rows = list_rows(server, sql)[1] if branch else [list(row.values()) for row in server.rows(sql).to_pylist()]
    return [
        SnapshotDot(version=version, committed=at, operation=what or "", added=added, changed=changed, removed=removed)
        for version, at, what, added, changed, removed in reversed(rows)
    ]


def _names(
    server: ConsoleServer, table: ConsoleTable
) -> tuple[dict[str | None, int], dict[tuple[str | None, int], list[str]]]:
    """Return the newest branches with the versions that they go out from, and these and the tags by branch and version."""
    tags = f"SELECT branch, version, name, FALSE AS is_branch FROM {table.sql(metadata='tags')}"
    branches = f"SELECT NULL, forked_at, name, TRUE FROM {table.sql(metadata='branches')}"
    found = f"({branches} ORDER BY version DESC LIMIT {MOST_BRANCHES})"
    sql = f"{tags} UNION ALL {found}" if table.is_partitioned else tags
    forks: dict[str | None, int] = {}
    named: dict[tuple[str | None, int], list[str]] = {}
    rows = list_rows(server, f"SELECT * FROM ({sql}) AS named ORDER BY is_branch, name LIMIT {_MOST_NAMES}")[1]
    for branch, version, name, is_branch in rows:
        named.setdefault((branch, version), []).append(f"{'branch' if is_branch else 'tag'} {name}")
        if is_branch:
            forks[name] = version
    return forks, named


def changed_rows(table: ConsoleTable, first: int, second: int, *, most: int) -> str:
    """Return the query of the rows that were added and removed between two snapshots."""
    return f"SELECT * FROM table_changes({text_literal(table.sql())}, {first}, {second})\nLIMIT {most}"


def order_of(values: Iterable[Any]) -> list[tuple[bool, Any]]:
    """Return what partitions are sorted by, from their values: NULL first."""
    return [(value is not None, 0 if value is None else value) for value in values]


def _spec_and_values(partition: Mapping[str, Any]) -> list[Any]:
    return list(partition.values())[: list(partition).index("object_id")]


@dataclass(frozen=True, slots=True)
class PartitionDifference:
    """A partition of two snapshots: what happened to it between, and its rows before and after (None: it was not there)."""

    what: str
    values: str
    before: int | None
    after: int | None

    @property
    def difference(self) -> int:
        """The rows that it has gained; fewer than 0 if it has lost some."""
        return (self.after or 0) - (self.before or 0)


def differences(before: pa.Table, after: pa.Table) -> list[PartitionDifference]:
    """Return the partitions that differ between two snapshots: added, removed, or with another version."""
    old, new = ({row["object_id"]: row for row in table.to_pylist()} for table in (before, after))
    found = []
    for number in sorted({*old, *new}, key=lambda number: order_of(_spec_and_values(new.get(number) or old[number]))):
        was, now = old.get(number), new.get(number)
        if was is not None and now is not None:
            if (was["read_version"], was["read_branch"], was["location"]) == (
                now["read_version"],
                now["read_branch"],
                now["location"],
            ):
                continue
            what = "changed"
        else:
            what = "added" if was is None else "removed"
        row = now or was or {}
        names = fields_of(after if now is not None else before)
        values = ", ".join(f"{name} = {'NULL' if row[name] is None else row[name]}" for name in names)
        found.append(PartitionDifference(what, values or "the whole table", was and was["rows"], now and now["rows"]))
    # What changed most comes first: that is what people look for.
    return sorted(found, key=lambda each: (each.what != "changed", -abs(each.difference)))
