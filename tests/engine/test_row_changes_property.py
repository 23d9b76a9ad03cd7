"""Whatever the partitioning, changes leave the rows that the same changes leave of a list in Python."""

# ruff: noqa: ARG005 - the functions of one table take the same arguments

from __future__ import annotations

import math
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import mmh3
import pyarrow as pa
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.statement_context import ALONE, Scope
from lance_flight.engine.runtime.client_sessions import Session
from lance_flight.errors import DataError

from tests.examples import examples
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # a long property

COLUMNS = "n BIGINT, i BIGINT, s VARCHAR, f DOUBLE, d DATE"
SCHEMA = pa.schema({"n": pa.int64(), "i": pa.int64(), "s": pa.utf8(), "f": pa.float64(), "d": pa.date32()})


class Row(NamedTuple):
    """One row of `t`."""

    n: int | None = None
    i: int | None = None
    s: str | None = None
    f: float | None = None
    d: date | None = None


Rows = list[Row]


def comparable(rows: Iterable[Row]) -> Counter[Any]:
    """Rows in no order, NaN equal to itself."""
    return Counter(tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row) for row in rows)


# What is computed: SQL, and the same in Python.


def truncated(value: int | None) -> int | None:
    """`value` without its last digit, toward zero."""
    return None if value is None else value - int(math.fmod(value, 10))


def bucket(value: int | None) -> int | None:
    return None if value is None else abs(mmh3.hash(struct.pack("<q", value))) % 3


FIELDS: dict[str, Callable[[Row], Any]] = {
    "i": lambda row: row.i,
    "s": lambda row: row.s,
    "f": lambda row: "NaN" if row.f is not None and math.isnan(row.f) else row.f,
    "d": lambda row: row.d,
    "bucket(3, i)": lambda row: bucket(row.i),
    "truncate(10, i)": lambda row: truncated(row.i),
    "truncate(1, s)": lambda row: None if row.s is None else row.s[:1],
    "year(d)": lambda row: None if row.d is None else row.d.year,
    "month(d)": lambda row: None if row.d is None else row.d.month,
}

Condition = Callable[[Row, Rows], bool]
CONDITIONS: dict[str, Condition] = {
    "true": lambda row, rows: True,
    "NULL": lambda row, rows: False,
    "i = 3": lambda row, rows: row.i == 3,
    "i < 0": lambda row, rows: row.i is not None and row.i < 0,
    "i IS NULL": lambda row, rows: row.i is None,
    "i IS DISTINCT FROM 3": lambda row, rows: row.i != 3,
    "s = 'a'": lambda row, rows: row.s == "a",
    "s <> 'a'": lambda row, rows: row.s is not None and row.s != "a",
    "s IS NULL": lambda row, rows: row.s is None,
    "s IN ('b', NULL)": lambda row, rows: row.s == "b",
    "s LIKE 'a%'": lambda row, rows: row.s is not None and row.s.startswith("a"),
    "f > 1": lambda row, rows: row.f is not None and (row.f > 1 or math.isnan(row.f)),  # NaN is the greatest
    "d >= DATE '2024-06-01'": lambda row, rows: row.d is not None and row.d >= date(2024, 6, 1),
    "date_part('year', d) = 2024": lambda row, rows: row.d is not None and row.d.year == 2024,
    "d IS NULL OR i = 3": lambda row, rows: row.d is None or row.i == 3,
    "n = (SELECT max(n) FROM t)": lambda row, rows: row.n is not None and row.n == greatest(r.n for r in rows),
    "i IN (SELECT i FROM t WHERE s = 'a')": lambda row, rows: (
        row.i is not None and row.i in {r.i for r in rows if r.s == "a"}
    ),
    "EXISTS (SELECT 1 FROM t x WHERE x.i = t.i AND x.n <> t.n)": lambda row, rows: any(
        row.i is not None and r.i == row.i and None not in {r.n, row.n} and r.n != row.n for r in rows
    ),
}

Value = Callable[[Row, Rows], Any]
ASSIGNMENTS: dict[str, Value] = {
    "i = i + 1": lambda row, rows: None if row.i is None else row.i + 1,
    "i = -i": lambda row, rows: None if row.i is None else -row.i,
    "i = n": lambda row, rows: row.n,
    "i = (SELECT max(i) FROM t)": lambda row, rows: greatest(r.i for r in rows),
    "i = NULL": lambda row, rows: None,
    "s = 'b'": lambda row, rows: "b",
    "s = NULL": lambda row, rows: None,
    "s = concat(s, 'a')": lambda row, rows: (row.s or "") + "a",
    "s = CASE WHEN i IS NULL THEN 'none' ELSE s END": lambda row, rows: "none" if row.i is None else row.s,
    "f = 'NaN'": lambda row, rows: math.nan,
    "f = f * 2": lambda row, rows: None if row.f is None else row.f * 2,
    "f = i": lambda row, rows: None if row.i is None else float(row.i),
    "d = DATE '2024-02-29'": lambda row, rows: date(2024, 2, 29),
    "d = NULL": lambda row, rows: None,
}


def greatest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


# Statements: each knows its SQL, and what it makes of rows.


class Refused(Exception):
    """The statement is refused."""


@dataclass(frozen=True)
class Insert:
    """INSERT INTO or OVERWRITE, its rows sent as parameters."""

    rows: tuple[Row, ...]
    overwrite: bool = False

    @property
    def sql(self) -> str:
        return f"INSERT {'OVERWRITE' if self.overwrite else 'INTO'} t VALUES ($1, $2, $3, $4, $5)"

    @property
    def parameters(self) -> pa.RecordBatch | None:
        return pa.RecordBatch.from_pylist([row._asdict() for row in self.rows], schema=SCHEMA)

    def apply(self, rows: Rows, place: Callable[[Row], Any]) -> tuple[Rows, int]:
        places = {place(row) for row in self.rows} if self.overwrite else set()
        left = [row for row in rows if place(row) not in places]
        return [*left, *self.rows], len(self.rows) + len(rows) - len(left)


@dataclass(frozen=True)
class Update:
    """UPDATE."""

    assignments: tuple[str, ...]
    where: str
    parameters: None = None

    @property
    def sql(self) -> str:
        return f"UPDATE t SET {', '.join(self.assignments)} WHERE {self.where}"

    def apply(self, rows: Rows, place: Callable[[Row], Any]) -> tuple[Rows, int]:
        applies = CONDITIONS[self.where]

        def changed(row: Row) -> Row:
            return row._replace(**{text.split()[0]: ASSIGNMENTS[text](row, rows) for text in self.assignments})

        return [changed(row) if applies(row, rows) else row for row in rows], sum(applies(row, rows) for row in rows)


@dataclass(frozen=True)
class Delete:
    """DELETE."""

    where: str
    parameters: None = None

    @property
    def sql(self) -> str:
        return f"DELETE FROM t WHERE {self.where}"

    def apply(self, rows: Rows, place: Callable[[Row], Any]) -> tuple[Rows, int]:
        left = [row for row in rows if not CONDITIONS[self.where](row, rows)]
        return left, len(rows) - len(left)


@dataclass(frozen=True)
class Truncate:
    """TRUNCATE."""

    sql: str = "TRUNCATE t"
    parameters: None = None

    def apply(self, rows: Rows, place: Callable[[Row], Any]) -> tuple[Rows, int]:
        return [], len(rows)


class Source(NamedTuple):
    """One row of a MERGE's source."""

    n: int | None
    i: int | None
    s: str | None


Pair = tuple[Row | None, Source | None]
ON: dict[str, Callable[[Row, Source], bool]] = {
    "t.n = q.n": lambda t, q: t.n is not None and t.n == q.n,
    "t.s = q.s": lambda t, q: t.s is not None and t.s == q.s,
    "t.i = q.i AND t.s IS NOT DISTINCT FROM q.s": lambda t, q: t.i is not None and t.i == q.i and t.s == q.s,
    "t.n > q.n": lambda t, q: None not in {t.n, q.n} and t.n > q.n,
}
MATCHED: dict[str, Callable[[Row, Source], bool]] = {
    "": lambda t, q: True,
    " AND t.i < q.i": lambda t, q: None not in {t.i, q.i} and t.i < q.i,
    " AND q.s IS NULL": lambda t, q: q.s is None,
    " AND t.s = 'a'": lambda t, q: t.s == "a",
}
CHANGED: dict[str, Callable[[Row, Source], Row | None]] = {
    "DELETE": lambda t, q: None,
    "UPDATE SET *": lambda t, q: t._replace(n=q.n, i=q.i, s=q.s),
    "UPDATE SET s = q.s": lambda t, q: t._replace(s=q.s),
    "UPDATE SET i = t.i + q.i, f = NULL": lambda t, q: t._replace(i=None if None in {t.i, q.i} else t.i + q.i, f=None),
}
MISSING: dict[str, Callable[[Source], bool]] = {
    "": lambda q: True,
    " AND q.i IS NOT NULL": lambda q: q.i is not None,
    " BY TARGET AND q.s = 'a'": lambda q: q.s == "a",
}
INSERTED: dict[str, Callable[[Source], Row]] = {
    "INSERT *": lambda q: Row(q.n, q.i, q.s),
    "INSERT (s, n, f) VALUES (q.s, q.n + 1, 1.5)": lambda q: Row(n=None if q.n is None else q.n + 1, s=q.s, f=1.5),
}
LEFT: dict[str, Callable[[Row], bool]] = {
    "": lambda t: True,
    " AND t.s = 'a'": lambda t: t.s == "a",
    " AND t.i IS NULL": lambda t: t.i is None,
}
LEFT_CHANGED: dict[str, Callable[[Row], Row | None]] = {
    "DELETE": lambda t: None,
    "UPDATE SET s = 'left', d = DATE '2020-01-01'": lambda t: t._replace(s="left", d=date(2020, 1, 1)),
}


@dataclass(frozen=True)
class Clause:
    """One WHEN of a MERGE: its kind, condition and action, keys of the tables above."""

    kind: str
    condition: str
    action: str

    @property
    def sql(self) -> str:
        return f"WHEN {self.kind}{self.condition} THEN {self.action}"

    def applies(self, t: Row | None, q: Source | None) -> bool:
        match self.kind, t, q:
            case "MATCHED", Row(), Source():
                return MATCHED[self.condition](t, q)
            case "NOT MATCHED", None, Source():
                return MISSING[self.condition](q)
            case "NOT MATCHED BY SOURCE", Row(), None:
                return LEFT[self.condition](t)
        return False

    def new(self, t: Any, q: Any) -> Row | None:
        match self.kind:
            case "MATCHED":
                return CHANGED[self.action](t, q)
            case "NOT MATCHED":
                return INSERTED[self.action](q)
        return LEFT_CHANGED[self.action](t)


@dataclass(frozen=True)
class Merge:
    """MERGE from rows of values."""

    source: tuple[Source, ...]
    on: str
    clauses: tuple[Clause, ...]
    parameters: None = None

    @property
    def sql(self) -> str:
        rows = ", ".join(
            f"({literal(q.n, 'BIGINT')}, {literal(q.i, 'BIGINT')}, {literal(q.s, 'VARCHAR')})" for q in self.source
        )
        return f"MERGE INTO t USING (VALUES {rows}) AS q(n, i, s) ON {self.on} " + " ".join(c.sql for c in self.clauses)

    def apply(self, rows: Rows, place: Callable[[Row], Any]) -> tuple[Rows, int]:
        on = ON[self.on]
        new: list[Row] = []
        count = 0
        for t in rows:
            pairs: list[Pair] = [(t, q) for q in self.source if on(t, q)] or [(t, None)]
            hits = [(clause, q) for _, q in pairs if (clause := self._clause(t, q)) is not None]
            if len(hits) > 1:
                raise Refused
            made = [clause.new(t, q) for clause, q in hits] or [t]
            new += [row for row in made if row is not None]
            count += len(hits)
        for q in self.source:
            clause = None if any(on(t, q) for t in rows) else self._clause(None, q)
            if clause is not None:
                new.append(clause.new(None, q) or Row())
                count += 1
        return new, count

    def _clause(self, t: Row | None, q: Source | None) -> Clause | None:
        return next((clause for clause in self.clauses if clause.applies(t, q)), None)


def literal(value: object, kind: str) -> str:
    """A value in SQL, of a type even where it is NULL."""
    return f"CAST({'NULL' if value is None else repr(value)} AS {kind})"


Statement = Insert | Update | Delete | Truncate | Merge

numbers = st.sampled_from([None, -17, -7, 0, 3, 10, 25])
texts = st.sampled_from([None, "a", "ab", "b", "é"])
ids = st.sampled_from([None, 0, 1, 2])
rows = st.builds(
    Row,
    n=ids,
    i=numbers,
    s=texts,
    f=st.sampled_from([None, math.nan, 0.0, 1.5, -2.5, math.inf]),
    d=st.sampled_from([None, date(1960, 3, 1), date(2024, 2, 29), date(2025, 1, 1)]),
)
some_rows = st.lists(rows, min_size=1, max_size=4).map(tuple)
updates = st.builds(
    Update,
    assignments=st.lists(
        st.sampled_from(list(ASSIGNMENTS)), min_size=1, max_size=3, unique_by=lambda text: text.split()[0]
    ).map(tuple),
    where=st.sampled_from(list(CONDITIONS)),
)
clauses = st.one_of(
    st.builds(Clause, st.just("MATCHED"), st.sampled_from(list(MATCHED)), st.sampled_from(list(CHANGED))),
    st.builds(Clause, st.just("NOT MATCHED"), st.sampled_from(list(MISSING)), st.sampled_from(list(INSERTED))),
    st.builds(
        Clause, st.just("NOT MATCHED BY SOURCE"), st.sampled_from(list(LEFT)), st.sampled_from(list(LEFT_CHANGED))
    ),
)
merges = st.builds(
    Merge,
    source=st.lists(st.builds(Source, n=ids, i=numbers, s=texts), min_size=2, max_size=4).map(tuple),
    on=st.sampled_from(list(ON)),
    clauses=st.lists(clauses, min_size=2, max_size=4).map(tuple),
)
statements: st.SearchStrategy[Statement] = st.one_of(
    st.builds(Insert, rows=some_rows),
    st.builds(Insert, rows=some_rows, overwrite=st.just(True)),  # noqa: FBT003
    updates,
    st.builds(Delete, where=st.sampled_from(list(CONDITIONS))),
    merges,
    st.just(Truncate()),
)
specs = st.lists(st.sampled_from(list(FIELDS)), max_size=3, unique=True)
ENDS = ["commit", "rollback"]
AT_ONCE = Clause("MATCHED", "", "UPDATE SET *")


@dataclass(frozen=True)
class Table:
    """A table `t` with some spec, and the same rows in a list."""

    root: Path
    spec: Sequence[str]
    engine: Engine

    def shown(self, scope: Scope = ALONE) -> Counter[Any]:
        """All rows, as a query in `scope` shows them."""
        plan = self.engine.plan("SELECT * FROM t", scope=scope)
        assert plan is not None
        return comparable(Row(*r.values()) for task in plan.tasks for r in self.engine.run(task).read_all().to_pylist())

    def place(self, row: Row) -> Any:
        """The partition of a row; a plain table is one."""
        return tuple(FIELDS[field](row) for field in self.spec)

    def check_stored(self) -> None:
        """Each stored row lies in the one table of its partition."""
        found = [[Row(**r) for r in stored.dataset.to_table().to_pylist()] for stored in stored_tables(self.root / "t")]
        places = [{self.place(row) for row in held} for held in found if held]
        assert all(len(place) == 1 for place in places), places
        assert len(set().union(*places)) == len(places), places
        if self.spec:
            assert sum(map(comparable, found), Counter()) == self.shown()


def created(root: Path, spec: Sequence[str]) -> Table:
    engine = Engine(Root(Store(str(root))), target_partitions=2)
    engine.update(f"CREATE TABLE t ({COLUMNS})" + (f" PARTITIONED BY ({', '.join(spec)})" if spec else ""))
    return Table(root, spec, engine)


def run(table: Table, statement: Statement, held: Rows, scope: Scope = ALONE) -> Rows:
    """Run a statement on the table and on the list; both must agree about the count, or refuse it."""
    try:
        expected, count = statement.apply(held, table.place)
    except Refused:
        event("refused")
        with pytest.raises(DataError, match="several rows of its source"):
            table.engine.update(statement.sql, statement.parameters, scope)
        return held
    assert table.engine.update(statement.sql, statement.parameters, scope) == count, statement.sql
    return expected


@examples(12)
@given(specs, some_rows, st.lists(statements, min_size=1, max_size=5))
def test_statements_leave_what_they_leave_of_a_list(
    spec: list[str], start: tuple[Row, ...], work: list[Statement]
) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        table = created(Path(root), spec)
        held = run(table, Insert(start), [])
        for statement in work:
            held = run(table, statement, held)
            assert table.shown() == comparable(held), (spec, statement.sql)
        if spec:
            table.check_stored()


@examples(20)
@example(["s"], (Row(n=1, s="a"),), Merge((Source(1, 1, None), Source(1, 2, "b")), "t.n = q.n", (AT_ONCE,)))
@given(specs, st.lists(rows, min_size=3, max_size=6).map(tuple), merges)
def test_a_merge_leaves_what_it_leaves_of_a_list(spec: list[str], start: tuple[Row, ...], merge: Merge) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        table = created(Path(root), spec)
        held = run(table, merge, run(table, Insert(start), []))
        assert table.shown() == comparable(held), (spec, merge.sql)


@examples(12)
@given(specs.filter(bool), some_rows, st.lists(statements, min_size=1, max_size=5), st.sampled_from(ENDS))
def test_statements_of_one_transaction_leave_what_they_leave_of_a_list(
    spec: list[str], start: tuple[Row, ...], work: list[Statement], ends: str
) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        table = created(Path(root), spec)
        before = held = run(table, Insert(start), [])
        session = Session()
        scope = Scope(session, table.engine.clients.begin(session))
        for statement in work:
            held = run(table, statement, held, scope)
            assert table.shown(scope) == comparable(held), (spec, statement.sql)
            assert table.shown() == comparable(before), (spec, statement.sql)
        assert scope.transaction is not None
        table.engine.clients.end(scope.transaction, commit=ends == "commit")
        assert table.shown() == comparable(held if ends == "commit" else before)
        table.check_stored()
