"""Moments written as texts: any year, and any form that PostgreSQL reads, compared with columns of microseconds."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pytest
from lance_flight.engine.query.planned_query import QueryPlan, Task

from tests.engine.database import Database, open_engine

MOMENTS = {
    1: "0001-01-01 00:00:00",
    2: "1677-01-01 00:00:00",
    3: "2024-02-29 10:00:00",
    4: "9999-12-31 23:59:59.999999",
}


@pytest.fixture(scope="module", params=["", " PARTITIONED BY (bucket(2, id))"], ids=["plain", "partitioned"])
def moments(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = Database(tmp_path_factory.mktemp("moments"))
    database.run(f"CREATE TABLE t (id BIGINT, ts TIMESTAMP){request.param}")
    for row in MOMENTS.items():
        database.run("INSERT INTO t VALUES (?, ?)", row)
    return database


def test_a_view_compares_moments_of_any_year(moments: Database) -> None:
    moments.run("CREATE OR REPLACE VIEW v AS SELECT id FROM t WHERE ts > '9999-12-31' OR ts = '2024-2-29 10:00'")
    assert moments.rows("SELECT id FROM v ORDER BY id") == [(3,), (4,)]


NANOSECONDS = {1: "1999-12-31 23:59:59", 2: "2024-02-29 10:00:00", 3: "2261-01-01 00:00:00"}


@pytest.fixture(scope="module", params=["", " PARTITIONED BY (year(ts))"], ids=["plain", "partitioned"])
def nanoseconds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = Database(tmp_path_factory.mktemp("nanoseconds"))
    database.run(f"CREATE TABLE t (id BIGINT, ts TIMESTAMP(9)){request.param}")
    for row in NANOSECONDS.items():
        database.run("INSERT INTO t VALUES (?, ?)", row)
    return database


YEARS = {
    "extract(year FROM ts) < 3000": [1, 2, 3],
    "extract(year FROM ts) <= 2262": [1, 2, 3],
    "extract(year FROM ts) <= 2261": [1, 2, 3],
    "extract(year FROM ts) > 1": [1, 2, 3],
    "date_part('year', ts) >= 1000": [1, 2, 3],
    "1000 < extract(YEAR FROM ts)": [1, 2, 3],
    "extract(year FROM ts) > -1": [1, 2, 3],
    "extract(year FROM ts) <> 5000": [1, 2, 3],
    "extract(year FROM ts) = 2024": [2],
    "extract(year FROM ts) BETWEEN 1000 AND 2024": [1, 2],
    "extract(year FROM ts) BETWEEN 2000 AND 5000": [2, 3],
    "extract(year FROM ts) NOT BETWEEN 2000 AND 5000": [1],
    "extract(year FROM ts) IN (1000, 2024, 3000)": [2],
    "extract(year FROM ts) NOT IN (1000, 2024)": [1, 3],
    f"extract(year FROM ts) IN ({', '.join(map(str, range(2020, 2270)))})": [2, 3],
}


@pytest.mark.parametrize(("condition", "expected"), YEARS.items())
def test_a_year_is_compared_though_nanoseconds_do_not_reach_it(
    nanoseconds: Database, condition: str, expected: list[int]
) -> None:
    assert [number for (number,) in nanoseconds.rows(f"SELECT id FROM t WHERE {condition} ORDER BY id")] == expected


@pytest.mark.parametrize("year", [1000, 1999, 2024, 2261, 2262, 9999])
def test_a_bound_year_is_compared_though_nanoseconds_do_not_reach_it(nanoseconds: Database, year: int) -> None:
    found = nanoseconds.rows("SELECT id FROM t WHERE date_part('year', ts) < ? ORDER BY id", [year])
    assert [number for (number,) in found] == [number for number, text in NANOSECONDS.items() if int(text[:4]) < year]


def test_years_that_nanoseconds_reach_prune(nanoseconds: Database) -> None:
    lines = nanoseconds.query("EXPLAIN SELECT id FROM t WHERE extract(year FROM ts) = 2024")["plan"].to_pylist()
    is_partitioned = any("partitions:" in line for line in lines)
    assert is_partitioned == any("partitions: 1 / 3" in line for line in lines)


UNITS = ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"]
STRIDES = ["7 microseconds", "1 second", "15 minutes", "36 hours", "10 days", "1 month", "5 months", "25 years"]


@pytest.fixture(scope="module")
def ages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Database, duckdb.DuckDBPyConnection]:
    """Moments of all years, of microseconds, milliseconds and seconds, here and in DuckDB."""
    chance, first = random.Random(5), datetime(60, 1, 1)  # noqa: S311 - rows, no secret
    whole = (datetime(9999, 12, 30) - first) // timedelta(microseconds=1)
    moments = [first + timedelta(microseconds=chance.randrange(whole)) for _ in range(500)]
    moments += [
        datetime(1970, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(1677, 9, 21),
        datetime(2262, 4, 12),
        None,
    ]
    columns = {"us": pa.array(moments, pa.timestamp("us"))}
    columns |= {unit: columns["us"].cast(pa.timestamp(unit), safe=False) for unit in ("ms", "s")}
    table = pa.table({**columns, "d": columns["us"].cast(pa.date32(), safe=False)})
    database, peer = Database(tmp_path_factory.mktemp("ages")), duckdb.connect()
    database.ingest("t", table)
    peer.execute("SET TimeZone = 'UTC'")
    peer.register("t", table)
    return database, peer


@pytest.mark.parametrize("column", ["us", "ms", "s", "d"])
def test_every_moment_is_cut_as_duckdb_does(ages: tuple[Database, duckdb.DuckDBPyConnection], column: str) -> None:
    database, peer = ages
    for unit in UNITS:
        cut = f"SELECT CAST(date_trunc('{unit}', {column}) AS TIMESTAMP) AS c, count(*) FROM t GROUP BY 1 ORDER BY 1"
        assert database.rows(cut) == peer.execute(cut).fetchall(), unit
    for stride in STRIDES:
        # DuckDB's bins of months begin with months.
        is_of_days = "month" not in stride and "year" not in stride
        for origin in ("1970-01-01", "0001-01-01", *["2024-02-29 12:30:00"] * is_of_days):
            moment = f"INTERVAL '{stride}', CAST({column} AS TIMESTAMP), TIMESTAMP '{origin}'"
            wanted = peer.execute(f"SELECT time_bucket({moment}) AS c FROM t ORDER BY us").fetchall()
            assert database.rows(f"SELECT date_bin({moment}) AS c FROM t ORDER BY us") == wanted, (stride, origin)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Sao_Paulo", "Asia/Tehran", "Pacific/Apia"])
def test_moments_with_a_zone_are_cut_by_its_clock(tmp_path: Path, zone: str) -> None:
    """Around each change of the clocks, where hours are left out and come twice."""
    at, clock = datetime(1995, 1, 1, tzinfo=UTC), ZoneInfo(zone)
    found, moments = [], []
    while at.year < 2030:
        at += timedelta(hours=1)
        found.append(at)
    changes = [b for a, b in pairwise(found) if a.astimezone(clock).utcoffset() != b.astimezone(clock).utcoffset()]
    moments = [change + timedelta(minutes=15 * step) for change in changes for step in range(-12, 30)]
    database, peer = Database(tmp_path), duckdb.connect()
    table = pa.table({"ts": pa.array(moments, pa.timestamp("us", zone))})
    database.ingest("t", table)
    peer.execute(f"SET TimeZone = '{zone}'")
    peer.register("t", table)
    hours = database.rows("SELECT date_trunc('hour', ts) FROM t ORDER BY ts")
    # DuckDB takes the later of two hours of one name, also for moments of the first.
    assert [(each.utcoffset(), each.minute) for (each,) in hours] == [
        (each.astimezone(clock).utcoffset(), 0) for each in sorted(moments)
    ]
    for unit in UNITS[5:]:
        cut = f"SELECT epoch_us(date_trunc('{unit}', ts)) FROM t ORDER BY ts"
        ours = cut.replace("epoch_us(", "arrow_cast(").replace(", ts))", ", ts), 'Int64')")
        assert database.rows(ours) == peer.execute(cut).fetchall(), unit


def test_dates_are_cut_in_every_clause(moments: Database) -> None:
    for value in ("date_trunc('year', ts)", "date_bin(INTERVAL '12 hours', ts)"):
        qualified = value.replace("ts", "t.ts")
        assert (
            len(
                moments.rows(
                    f"SELECT {value}, count(*) FROM t GROUP BY {qualified} HAVING {value} IS NOT NULL ORDER BY {value}"
                )
            )
            == 4
        )
    assert moments.rows("SELECT date_trunc('day', ts) FROM t WHERE NULL AND id >= id") == []
    month_ends = "SELECT date_bin(INTERVAL '1 month', ts, TIMESTAMP '2001-01-31 11:00:00') AS c FROM t WHERE id = 3"
    assert moments.value(month_ends) == datetime(2024, 1, 31, 11)
    mixed = "SELECT date_trunc('day', ts) AS c FROM t WHERE id = 3 UNION ALL SELECT date_trunc('day', ts) FROM (SELECT arrow_cast(ts, 'Timestamp(Microsecond, Some(\"Asia/Tokyo\"))') AS ts FROM t WHERE id = 3) AS x"
    assert [each.isoformat() for (each,) in moments.rows(mixed)] == [
        "2024-02-29T00:00:00+09:00",
        "2024-02-29T00:00:00+09:00",
    ]
    for text, said in {
        "date_bin(INTERVAL '0 days', ts)": "greater than zero",
        "date_bin(INTERVAL '1 month 1 day', ts)": "greater than zero",
        "date_trunc('decade', ts)": "no unit 'decade'",
        "date_trunc('month', id)": "takes a unit and a date, time or timestamp",
    }.items():
        assert said in moments.refuses(f"SELECT {text} FROM t")


# Word → the type of its values, and a column that takes them.
NOW = {
    "now()": ("TIMESTAMPTZ", "z"),
    "current_timestamp": ("TIMESTAMPTZ", "ts"),
    "getdate()": ("TIMESTAMPTZ", "ts"),
    "localtimestamp": ("TIMESTAMP", "ts"),
    "current_date": ("DATE", "d"),
    "today()": ("DATE", "d"),
    "current_time": ("TIME", "t"),
    "localtime": ("TIME", "t"),
}


@pytest.mark.parametrize("word", NOW)
def test_the_moment_of_a_statement_is_stored_as_it_is_selected(database: Database, table: str, word: str) -> None:
    kind, column = NOW[word]
    database.run(f"CREATE TABLE {table} (id BIGINT, ts TIMESTAMP, z TIMESTAMPTZ, d DATE, t TIME)")
    before = datetime.now(UTC)
    database.run(f"INSERT INTO {table} (id, {column}) VALUES (1, {word})")
    database.run(f"INSERT INTO {table} (id, {column}) SELECT 2, {word}")
    database.run(f"INSERT INTO {table} (id) VALUES (3)")
    database.run(f"UPDATE {table} SET {column} = {word} WHERE id = 3")
    after = datetime.now(UTC)
    assert database.value(f"SELECT typeof({word})") == kind
    assert database.value(f"SELECT {word} = {word} AND now() = current_timestamp AND now() = now()")
    for value in database.query(f"SELECT {column} FROM {table}").column(0).to_pylist():
        if kind.startswith("TIMESTAMP"):
            assert before <= value.replace(tzinfo=UTC) <= after
        elif kind == "DATE":
            assert before.date() <= value <= after.date()
        else:
            assert value.tzinfo is None


# Definition of a column → the default that is shown, and a value of it as that of the statement.
MOMENT_DEFAULTS = {
    "TIMESTAMP DEFAULT now()": ("CURRENT_TIMESTAMP", lambda now: now.replace(tzinfo=None)),
    "TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP": ("CURRENT_TIMESTAMP", lambda now: now),
    "TIMESTAMP(0) DEFAULT (getdate())": ("CURRENT_TIMESTAMP", lambda now: now.replace(microsecond=0, tzinfo=None)),
    "DATE DEFAULT now()": ("CURRENT_TIMESTAMP", datetime.date),
    "DATE DEFAULT curdate()": ("CURRENT_DATE", datetime.date),
    "TIMESTAMP DEFAULT CURRENT_DATE": ("CURRENT_DATE", lambda now: datetime(now.year, now.month, now.day)),
    "TIME DEFAULT localtime": ("CURRENT_TIME", datetime.time),
}


@pytest.mark.parametrize("layout", ["", " PARTITIONED BY (bucket(2, id))"], ids=["plain", "partitioned"])
@pytest.mark.parametrize("definition", MOMENT_DEFAULTS)
def test_a_default_is_the_moment_at_which_a_row_is_written(
    database: Database, table: str, definition: str, layout: str
) -> None:
    shown, of_moment = MOMENT_DEFAULTS[definition]
    database.run(f"CREATE TABLE {table} (id BIGINT, at {definition}){layout}")
    ((*_, made),) = database.rows(f"SHOW CREATE TABLE {table}")
    assert f"DEFAULT {shown}" in made
    database.run(f"DROP TABLE {table}")
    database.run(made)
    bounds = [datetime.now(UTC)]
    for number in (1, 2):
        database.run(f"INSERT INTO {table} (id) VALUES ({number})")
        bounds.append(datetime.now(UTC))
    database.run(f"ALTER TABLE {table} ADD COLUMN added {definition}")
    bounds.append(datetime.now(UTC))
    assert database.value(f"SELECT count(DISTINCT added) FROM {table}") == 1
    (first, _), (second, added) = database.rows(f"SELECT at, added FROM {table} ORDER BY id")
    for value, begin, end in zip((first, second, added), bounds, bounds[1:], strict=False):
        if not definition.startswith("TIME "):
            assert of_moment(begin) <= value <= of_moment(end)


@pytest.mark.parametrize("kind", ["BIGINT", "VARCHAR", "INTERVAL DAY TO SECOND"])
def test_a_moment_is_no_default_of_another_column(database: Database, table: str, kind: str) -> None:
    said = database.refuses(f"CREATE TABLE {table} (id BIGINT, at {kind} DEFAULT now())")
    assert "'at'" in said


def test_the_parts_of_a_query_have_one_moment_on_whatever_server_they_run(tmp_path: Path) -> None:
    here, there = (open_engine(tmp_path / "root") for _ in range(2))
    here.update("CREATE TABLE t (id BIGINT) PARTITIONED BY (bucket(4, id))")
    here.update("INSERT INTO t SELECT * FROM range(100)")
    plan = here.plan("SELECT now() AS a, id FROM t WHERE now() = current_timestamp", endpoints=4)
    assert isinstance(plan, QueryPlan)
    tickets = [task.to_bytes() for task in plan.tasks]
    assert len(tickets) == 4
    moments = set[datetime]()
    for engine in (here, there, here):
        rows = [row for ticket in tickets for row in engine.run(Task.from_bytes(ticket)).read_all().to_pylist()]
        assert sorted(row["id"] for row in rows) == list(range(100))
        moments |= {row["a"] for row in rows}
    assert len(moments) == 1


def test_the_moment_that_is_returned_is_the_one_that_is_stored(tmp_path: Path) -> None:
    database = Database(tmp_path)
    database.run("CREATE TABLE t (id INT, s VARCHAR, ts TIMESTAMP DEFAULT now()) PARTITIONED BY (bucket(4, id))")
    for change in (
        "INSERT INTO t (id) VALUES (1), (2), (3)",
        "INSERT INTO t (id) VALUES (3), (4), (5) ON CONFLICT (id) DO NOTHING",
        "INSERT INTO t VALUES (6, 'a', DEFAULT), (7, 'b', DEFAULT)",
        "MERGE INTO t USING (VALUES (8), (9)) AS s(id) ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
    ):
        returned = database.rows(f"{change} RETURNING id, ts")
        ids = ", ".join(str(row[0]) for row in returned)
        assert sorted(returned) == database.rows(f"SELECT id, ts FROM t WHERE id IN ({ids}) ORDER BY id")
