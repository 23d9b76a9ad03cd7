"""The functions of other systems: their answers, the names of their columns, what they prune, and what is told of wrong calls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from lance_flight.engine.functions.function_table import SYSTEMS, advice, by_family, functions, macros
from lance_flight.engine.functions.routines import MACROS, routines

from tests.documents import TOP, blocks, text_of
from tests.engine.database import Database
from tests.engine.function_cases import (
    AGGREGATED,
    COLUMNS,
    NAMES,
    OF_OTHERS,
    QUERIES,
    REFUSED,
    ROWS,
    SPANS,
    VALUES,
)


@pytest.fixture(scope="module")
def table(database: Database) -> Iterator[Database]:
    """A table `t` of values, with NULL in each column."""
    database.run(f"CREATE TABLE t ({COLUMNS}) PARTITIONED BY (g)")
    database.run(f"INSERT INTO t VALUES {ROWS}")
    yield database
    database.run("DROP TABLE t")


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """The same table in DuckDB."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE t ({COLUMNS})")
        connection.execute(f"INSERT INTO t VALUES {ROWS}")
        yield connection


def alike(value: Any) -> Any:
    """A value without what both systems say in their own ways: digits, dates as timestamps, intervals as days."""
    match value:
        case float() | Decimal():
            return round(float(value), 9)
        case datetime():
            return value.replace(tzinfo=None)
        case date():
            return datetime(value.year, value.month, value.day)
        case timedelta():
            return value
        case dict():
            return {key: alike(each) for key, each in value.items()}
        case list() | tuple() if type(value).__name__ != "MonthDayNano":
            pairs = [tuple(each) for each in value if isinstance(each, tuple)]
            return [alike(each) for each in value] if len(pairs) < len(value) or not value else alike(dict(pairs))
    if type(value).__name__ == "MonthDayNano":
        return timedelta(days=value.months * 30 + value.days, microseconds=value.nanoseconds // 1000)
    return value


def rows_alike(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return [[alike(value) for value in row] for row in rows]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_that_of_duckdb(table: Database, duck: duckdb.DuckDBPyConnection, value: str) -> None:
    sql = f"SELECT {value} FROM t ORDER BY id"
    assert rows_alike(table.rows(sql)) == rows_alike(duck.execute(sql).fetchall())


@pytest.mark.parametrize("sql", [*QUERIES, SPANS])
def test_a_query_is_answered_as_by_duckdb(table: Database, duck: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert rows_alike(table.rows(sql)) == rows_alike(duck.execute(sql).fetchall())


@pytest.mark.parametrize("value", OF_OTHERS)
def test_a_value_is_that_of_the_systems_that_know_it(table: Database, value: str) -> None:
    assert alike(table.value(f"SELECT {value}")) == alike(OF_OTHERS[value])


@pytest.mark.parametrize("sql", AGGREGATED)
def test_an_aggregate_is_that_of_the_systems_that_know_it(table: Database, sql: str) -> None:
    assert alike(table.value(sql)) == alike(AGGREGATED[sql])


@pytest.mark.parametrize("sql", NAMES)
def test_a_column_has_the_name_that_was_written(table: Database, sql: str) -> None:
    assert table.query(sql, [True, 1] if "?" in sql else None).column_names == NAMES[sql]


@pytest.mark.parametrize("sql", REFUSED)
def test_a_wrong_call_is_refused_by_the_name_that_was_written(table: Database, sql: str) -> None:
    assert REFUSED[sql] in table.refuses(sql)


def test_parameters_are_bound_wherever_a_body_repeats_them(table: Database) -> None:
    sql = "SELECT div0(?, ?), iff(? > ?, 'x', 'y'), charindex(?, ?, ?)"
    assert table.rows(sql, [1, 4, 2, 1, "b", "abcb", 3]) == [(0.25, "x", 4)]


def test_a_random_argument_is_computed_once(table: Database) -> None:
    assert table.value("SELECT iff(random() < 2, 1, 0)") == 1
    assert (
        table.value("SELECT count(*) FROM (SELECT iff(random() < 0.5, 1, 0) AS x FROM t) AS q WHERE x IN (0, 1)") == 5
    )


@pytest.mark.parametrize("texts", [VALUES, QUERIES, list(OF_OTHERS), list(AGGREGATED)])
def test_what_is_expanded_is_expanded_to_itself(texts: list[str]) -> None:
    expanded = [MACROS.expand(text) for text in texts]
    assert [MACROS.expand(text) for text in expanded] == expanded


def test_no_macro_has_the_arguments_of_a_function_of_datafusion(table: Database) -> None:
    """A stored expression, which is in the words of DataFusion, means the same where macros are known."""
    theirs = {str(row["routine_name"]) for row in routines() if "_of_table_" not in str(row["specific_name"])}
    other_order_of_nulls = {"array_sort", "list_sort", "list_distinct"}  # stored expressions are read without macros
    of_missing_keys = {"map_extract", "element_at"}  # an empty list
    of_null_elements = {f"{kind}_has_{which}" for kind in ("array", "list") for which in ("all", "any")} | {
        "arrays_overlap"
    }
    of_lists = {"list_sum", "array_sum", "quantile_cont", "percentile_cont"}  # exact sums, and lists of shares
    of_types = {"nvl", "ifnull", "bit_length"}  # values that are no texts
    assert (
        theirs & macros().keys()
        == other_order_of_nulls
        | of_missing_keys
        | of_null_elements
        | of_lists
        | of_types
        | {
            "make_time",
            "date_format",
            "date_part",
            "datepart",
            "date_trunc",
            "datetrunc",
            "decode",
            "encode",
            "log",
            "string_agg",
            "to_date",
            "to_timestamp",
            "trunc",
        }
    )


PAGE = "server/docs/functions.md"


def page() -> str:
    """The page about functions, as the table and DataFusion have them."""
    lines = []
    for family, listed in by_family().items():
        lines += [f"## {family}", "", "| function | gives | known from |", "|---|---|---|"]
        for function in {(each.names, each.signature): each for each in listed}.values():
            names = ", ".join(f"`{name}`" for name in function.names[1:])
            systems = ", ".join(SYSTEMS[letter] for letter in function.systems)
            also = f"; also {names}" if names else ""
            lines.append(f"| `{function.signature}`{also} | {function.meaning} | {systems} |")
        lines.append("")
    lines += ["## Not offered", "", "| function | write |", "|---|---|"]
    lines += [
        f"| {', '.join(f'`{name}`' for name in each.names)} | `{each.instead}` |"
        for each in functions()
        if each.instead
    ]
    lines += ["", "## DataFusion's", "", "| kind | functions |", "|---|---|"]
    theirs = [row for row in routines() if "_of_table_" not in str(row["specific_name"])]
    for kind in ("SCALAR", "AGGREGATE", "WINDOW", "TABLE"):
        names = dict.fromkeys(str(row["routine_name"]) for row in theirs if row["function_type"] == kind)
        lines.append(f"| {kind.lower()} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join([*lines, ""])


def test_the_page_lists_every_function() -> None:
    """With LANCE_FLIGHT_TESTS=write, writes what is below its first section."""
    head, heading, rest = text_of(PAGE).partition(f"## {next(iter(by_family()))}\n")
    written = heading + rest
    if os.environ.get("LANCE_FLIGHT_TESTS") == "write":
        (TOP / PAGE).write_text(head + page())
        return
    assert written == page(), f"LANCE_FLIGHT_TESTS=write pytest {__file__} writes it"


def test_show_functions_lists_every_name(table: Database) -> None:
    listed = {row[0] for row in table.rows("SHOW FUNCTIONS")}
    assert {name for each in functions() if not each.instead for name in each.names} <= listed
    assert listed.isdisjoint(advice())
    assert ("max_by", "AGGREGATE") in [row[:2] for row in table.rows("SHOW FUNCTIONS LIKE 'max%'")]


def test_the_example_of_the_page_is_answered(table: Database) -> None:
    table.run("CREATE TABLE flights (time_hour TIMESTAMP, flight INT, dep_delay DOUBLE)")
    table.run(
        "INSERT INTO flights VALUES ('2013-03-01 05:00:00', 7, 20), ('2013-03-02 05:00:00', 8, NULL), ('2013-04-01', 9, 99)"
    )
    (example,) = blocks(PAGE, "sql")
    answer = table.query(example)
    table.run("DROP TABLE flights")
    assert answer.to_pylist() == [{"y": 2013, "late": 1, "max_by(flight, dep_delay)": 7}]


PRUNED = {
    "year(ts) = 2024": "date_part('year', ts) = 2024",
    "YEAR(e.ts) IN (2023, 2024)": "date_part('year', e.ts) IN (2023, 2024)",
    "year(ts) = 2024 AND month(ts) < 3": "date_part('year', ts) = 2024 AND date_part('month', ts) < 3",
    "date(ts) = DATE '2024-01-16'": "CAST(ts AS DATE) = DATE '2024-01-16'",
    "dateadd(day, 1, ts) > TIMESTAMP '2024-12-01'": "ts + INTERVAL '1 day' > TIMESTAMP '2024-12-01'",
    "time_bucket(INTERVAL '1 day', ts) = TIMESTAMP '2024-01-16'": "date_bin(INTERVAL '1 day', ts) = TIMESTAMP '2024-01-16'",
    "last_day(ts) = DATE '2024-02-29'": "ts >= TIMESTAMP '2024-02-01' AND ts < TIMESTAMP '2024-03-01'",
    "strftime(ts, '%Y-%m') = '2024-03'": "ts >= TIMESTAMP '2024-03-01' AND ts < TIMESTAMP '2024-04-01'",
    "to_char(ts, 'YYYY') > '2023'": "ts >= TIMESTAMP '2024-01-01'",
    "date_format(ts, 'yyyyMM') BETWEEN '202311' AND '202401'": "ts >= TIMESTAMP '2023-11-01' AND ts < TIMESTAMP '2024-02-01'",
    "epoch(ts) >= 1704067200": "ts >= TIMESTAMP '2024-01-01'",
    "epoch_ms(ts) < 1704067200000": "ts < TIMESTAMP '2024-01-01'",
    "date_diff('month', DATE '2024-01-01', ts) = 2": "ts >= TIMESTAMP '2024-03-01' AND ts < TIMESTAMP '2024-04-01'",
    "datediff('day', ts, TIMESTAMP '2024-03-01 12:00:00') < -30": "ts >= TIMESTAMP '2024-04-01'",
    "date_diff('year', ts, DATE '2024-06-01') IN (0, 7)": "date_part('year', ts) = 2024",
    "greatest(s, 'a') = 'b'": "s = 'b'",
    "add_months(ts, 1) > TIMESTAMP '2024-12-01'": "ts > TIMESTAMP '2024-11-01'",
    "time_bucket(INTERVAL '3 months', ts) = TIMESTAMP '2024-01-01'": "ts >= TIMESTAMP '2024-01-01' AND ts < TIMESTAMP '2024-04-01'",
    "trunc(ts, 'YEAR') = DATE '2024-01-01'": "date_part('year', ts) = 2024",
    "bucket(4, id) = 2": "abs(murmur3(id)) % 4 = 2",
    "ucase(s) = 'A' AND quarter(ts) = 2": "upper(s) = 'A' AND date_part('quarter', ts) = 2",
}
"""Conditions, and the same in the words of DataFusion."""
EVENTS = 40
"""Rows of the table `e`, each of which has a partition."""


@pytest.fixture(scope="module")
def events(database: Database) -> Iterator[Database]:
    database.run(
        "CREATE TABLE e (id BIGINT, ts TIMESTAMP, s VARCHAR) PARTITIONED BY (year(ts), month(ts), bucket(4, id), s)"
    )
    database.run(
        "INSERT INTO e SELECT x, TIMESTAMP '2023-01-01' + INTERVAL '20 days' * x, chr(CAST(97 + x % 2 AS BIGINT))"
        f" FROM range(0, {EVENTS}) AS r(x)"
    )
    assert database.value("SELECT count(*) FROM e$partitions") == EVENTS
    yield database
    database.run("DROP TABLE e")


@pytest.mark.parametrize("condition", PRUNED)
def test_a_condition_prunes_as_what_it_stands_for(events: Database, condition: str) -> None:
    read = [events.rows(f"SHOW PARTITIONS e READ BY {each}") for each in (condition, PRUNED[condition])]
    assert sorted(read[0]) == sorted(read[1])
    assert 0 < len(read[0]) < EVENTS
    (count, expected) = (
        events.value(f"SELECT count(*) FROM e WHERE {each}") for each in (condition, PRUNED[condition])
    )
    assert count == expected > 0


def test_changes_of_rows_take_functions(events: Database) -> None:
    with events.client() as client:
        client.run("CREATE TEMPORARY TABLE n AS SELECT id, ts, s FROM e")
        assert client.run("UPDATE n SET s = iff(year(ts) = 2024, ucase(s), s) WHERE month(ts) = 3") > 0
        assert client.value("SELECT count_if(s = 'A' OR s = 'B') FROM n") == client.value(
            "SELECT count(*) FROM e WHERE year(ts) = 2024 AND month(ts) = 3"
        )
        assert client.run("DELETE FROM n WHERE year(ts) = 2023") == 19
        assert client.run("INSERT INTO n VALUES (?, strptime('2023-01-02', '%Y-%m-%d'), lcase('X'))", [99]) == 1
        assert client.rows("SELECT id, s FROM n WHERE year(ts) = 2023") == [(99, "x")]


def test_a_stored_expression_takes_no_macro(events: Database) -> None:
    told = events.refuses("CREATE TABLE x (ts TIMESTAMP) PARTITIONED BY (expr('year(col0)', ts))")
    assert "Invalid function 'year'; write date_part('year', ts)" in told


def test_partition_fields_are_the_transforms_of_the_spec(events: Database) -> None:
    events.run(
        "CREATE TABLE x (id BIGINT, ts TIMESTAMP, s VARCHAR) PARTITIONED BY (year(ts), truncate(1, s), bucket(4, id))"
    )
    events.run("INSERT INTO x SELECT id, ts, s FROM e")
    ((*_, made),) = events.rows("SHOW CREATE TABLE x")
    events.run("DROP TABLE x")
    assert made.endswith(
        "PARTITIONED BY (year(ts) AS ts_year, truncate(1, s) AS s_truncate, bucket(4, id) AS id_bucket)"
    )


NESTED = {
    "brackets": ("year(" * 5_000 + "ts" + ")" * 5_000, "more than 200 brackets within brackets"),
    "an argument that is repeated": ("square(" * 40 + "i" + ")" * 40, "more than 4,194,304 characters"),
}


@pytest.mark.parametrize(("expression", "told"), NESTED.values(), ids=NESTED)
def test_macros_within_one_another_are_bounded(table: Database, expression: str, told: str) -> None:
    assert told in table.refuses(f"SELECT {expression} FROM t")


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("date_format(", ", s)"), ("string_agg(s, ',' ORDER BY ", ")"), ("iff(b, ", ", s)"), ("date_trunc(month, ", ")")],
)
def test_each_call_is_written_once_however_deep(outer: str, inner: str) -> None:
    """Twice at each level would be more than a thousand million times."""
    expanded = MACROS.expand(f"SELECT {outer * 60}s{inner * 60}")
    assert MACROS.expand(expanded) == expanded


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP(9)", "TIMESTAMP(0)", "TIMESTAMPTZ", "DATE"])
@pytest.mark.parametrize("moment", ["2024-02-29 13:04:05.678912", "1969-12-31 00:59:00", "1999-01-03 12:00:59.000001"])
def test_each_letter_of_a_moment_is_written_as_by_to_char(table: Database, kind: str, moment: str) -> None:
    pattern = (
        "%Y %y %m %d %j %b %B %a %A %F %G %V %u %w %U %W %H %I %M %S %p %T %6f %3f %9f %-d %-m %-j %-H %-I %-M %-S %%"
    )
    ((ours, datafusions),) = table.rows(
        f"SELECT moment_text(m, '{pattern}'), to_char(m, '{pattern}') FROM (SELECT CAST('{moment}' AS {kind}) AS m) AS v"
    )
    assert ours == datafusions


@pytest.mark.parametrize(
    ("year", "written"), [(-5, "-0005"), (0, "0000"), (33, "0033"), (9999, "9999"), (12024, "+12024")]
)
def test_years_of_any_width_are_written(table: Database, year: int, written: str) -> None:
    sql = f"SELECT strftime(make_timestamp({year}, 1, 5, 1, 2, 3), '%Y %F %%Y %%T%d')"
    assert table.value(sql) == f"{written} {written}-01-05 %Y %T05"


@pytest.mark.parametrize(
    "pattern",
    ["%Y-%m-%d", "%d.%m.%Y %H-%M-%S", "%H:%M", "%Y%m%d", "%m/%d/%y", "%d %B %Y", "%Y-%m-%d %H:%M:%S.%f", "%%%Y"],
)
def test_moments_are_read_from_texts_as_python_reads_them(table: Database, pattern: str) -> None:
    """Right texts, and ones with another sign, a part beyond its range, or a digit more."""
    moments = [
        datetime(year, month, 28 - month, 23 - month, 5 * month, 9, 7)
        for year in (1000, 1969, 2024)
        for month in range(1, 12)
    ]
    right = [moment.strftime(pattern) for moment in moments]
    changed = [f"{text[:at]}{sign}{text[at + 1 :]}" for text in right[::5] for at in range(len(text)) for sign in "9x"]
    texts = [
        *right,
        *changed,
        *(f"{text}1" for text in right[:3]),
        "",
        "2023-02-29",
        "24:00",
    ]
    listed = ", ".join(f"({number}, '{text}')" for number, text in enumerate(texts))
    found = table.rows(f"SELECT try_strptime(s, '{pattern}') FROM (VALUES {listed}) AS v(n, s) ORDER BY n")
    assert [row[0] for row in found] == [python_moment(text, pattern) for text in texts]


def python_moment(text: str, pattern: str) -> datetime | None:
    try:
        return datetime.strptime(text, pattern)  # noqa: DTZ007 - a local time
    except ValueError:
        return None
