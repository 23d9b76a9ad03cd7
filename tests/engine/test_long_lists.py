"""Long lists of values and long chains of conditions are rewritten: what they give stays the same, NULL included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.compat.boolean_chains import SHORT_CHAIN, chain_edits
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.policy_file import Policies
from lance_flight.engine.runtime.cancellation import PlanningLimits
from lance_flight.engine.sql.tokens import LONG_RUN, MOST_TOKENS, RUNS, Kind, Token, edit_text, spelled_out, tokenize
from lance_flight.engine.translation.evaluation import session_config
from lance_flight.engine.translation.parameters import parameter_count, with_listed_values
from lance_flight.engine.translation.rewriting import datafusion_text
from lance_flight.engine.writes.ingest import IngestOptions
from lance_flight.errors import LanceFlightError, LimitExceeded, SqlError

from tests.engine.database import open_engine
from tests.engine.principals import query

pytestmark = pytest.mark.slow  # every long list in every form

COUNT = 3 * LONG_RUN
ROWS = pa.table(
    {
        "n": pa.array([*range(60), None], pa.int64()),
        "p": pa.array([*(each % 4 for each in range(56)), None, None, 0, 1, 2], pa.int64()),
        "s": pa.array([*(f"it's {each}" for each in range(58)), "", None, "a' OR 'b"]),
        "f": pa.array([*(each / 2 for each in range(60)), None], pa.float64()),
        "v": pa.array([[float(each), 0.0] for each in range(61)], pa.list_(pa.float32(), 2)),
    }
)
Value = int | float | str | None


def written(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            return str(value)


def listed(column: str, values: Sequence[Value]) -> str:
    return f"{column} IN ({', '.join(map(written, values))})"


def negated(column: str, values: Sequence[Value]) -> str:
    return f"{column} NOT IN ({', '.join(map(written, values))})"


def alternatives(column: str, values: Sequence[Value]) -> str:
    return " OR ".join(f"{column} = {written(value)}" for value in values)


def exclusions(column: str, values: Sequence[Value]) -> str:
    return " AND ".join(f"{column} <> {written(value)}" for value in values)


def met(value: Value, values: Sequence[Value]) -> bool | None:
    """What IN is by SQL's logic of three values."""
    if value is None:
        return None
    return True if value in values else None if None in values else False


FORMS: dict[str, tuple[Callable[[str, Sequence[Value]], str], bool]] = {
    "IN": (listed, True),
    "NOT IN": (negated, False),
    "OR": (alternatives, True),
    "AND": (exclusions, False),
}
INTEGERS = list(range(5, 5 + 2 * COUNT, 2))
LISTS: dict[str, tuple[str, list[Value]]] = {
    "integers": ("n", [*INTEGERS]),
    "negative ones": ("n", [-each for each in INTEGERS] + [7]),
    "repeated ones": ("n", [*INTEGERS, *INTEGERS]),
    "with NULL": ("n", [*INTEGERS, None]),
    "integers and decimals": ("f", [*INTEGERS, 0.5, 1.5]),
    "of a partition column": ("p", [2, *range(100, 100 + COUNT)]),
    "texts": ("s", [f"it's {each}" for each in range(3, 3 + COUNT)]),
    "texts like SQL": ("s", [f"a' OR 's = {each}" for each in range(COUNT)] + ["a' OR 'b", ""]),
}


@pytest.fixture(scope="module")
def of_rows(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    made = open_engine(tmp_path_factory.mktemp("lists") / "root")
    made.ingest(
        TableName(PUBLIC, "t"),
        ROWS.to_reader(),
        create_missing=True,
        existing=IfExists.APPEND,
        options=IngestOptions.of({"partition_by": "p"}),
    )
    return made


@pytest.mark.parametrize("indices", ["", "ns"], ids=["unindexed", "indexed"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", LISTS)
def test_a_long_list_gives_what_its_values_give(of_rows: Engine, name: str, form: str, indices: str) -> None:
    (column, values), (write, is_in) = LISTS[name], FORMS[form]
    for indexed in indices:
        of_rows.update(f"CREATE INDEX IF NOT EXISTS by_{indexed} ON t ({indexed}) WITH (min_rows = 1)")
    wanted = [row for row in ROWS.to_pylist() if met(row[column], values) is is_in]
    found = query(of_rows, f"SELECT n, p, s, f FROM t WHERE {write(column, values)}").to_pylist()
    assert sorted(map(repr, found)) == sorted(repr({c: row[c] for c in ("n", "p", "s", "f")}) for row in wanted)


def marks(count: int, sign: str) -> str:
    return ", ".join(sign if sign == "?" else f"{sign}{number}" for number in range(1, count + 1))


def row_of(values: Sequence[Value], kind: pa.DataType | None = None) -> pa.RecordBatch:
    arrays = [pa.array([value], kind) for value in values]
    return pa.RecordBatch.from_arrays(arrays, [str(place) for place in range(len(values))])


@pytest.mark.parametrize("sign", ["?", "$"])
@pytest.mark.parametrize("negated", [False, True], ids=["IN", "NOT IN"])
@pytest.mark.parametrize("name", LISTS)
def test_a_long_list_of_parameters_gives_what_its_values_give(
    of_rows: Engine, *, name: str, negated: bool, sign: str
) -> None:
    column, values = LISTS[name]
    sql = f"SELECT n FROM t WHERE {column} {'NOT ' * negated}IN ({marks(len(values), sign)})"
    wanted = [
        row["n"]
        for row in ROWS.to_pylist()
        if met(row[column], values) is not negated and met(row[column], values) is not None
    ]
    assert sorted(map(repr, of_rows.query(sql, row_of(values))["n"].to_pylist())) == sorted(map(repr, wanted))


@pytest.mark.parametrize("name", ["integers", "texts"])
def test_a_search_is_filtered_by_a_long_list_of_parameters(of_rows: Engine, name: str) -> None:
    column, values = LISTS[name]
    condition = f"{column} IN ({marks(len(values), '$')})"
    sql = f"SELECT n FROM vector_search('t', 'v', [0.0, 0.0], k => 5, filter => '{condition}')"
    wanted = [row["n"] for row in ROWS.to_pylist() if met(row[column], values)][:5]
    assert sorted(of_rows.query(sql, row_of(values))["n"].to_pylist()) == wanted


def test_a_long_list_of_parameters_beside_others(of_rows: Engine) -> None:
    listed = ", ".join(f"${number}" for number in range(COUNT + 1, 1, -1))
    sql = f"SELECT n, $1 AS one, $2 AS two FROM t WHERE n IN ({listed}) AND s <> $1 AND n >= $2"
    found = of_rows.query(sql, row_of(["it's 9", *INTEGERS[:COUNT]]))
    assert set(found["one"].to_pylist()) == {"it's 9"}
    assert set(found["two"].to_pylist()) == {5}
    assert sorted(found["n"].to_pylist()) == [n for n in range(5, 60) if n in INTEGERS and n not in {9, 59}]


def test_parameters_of_a_long_list_have_the_type_of_its_column(of_rows: Engine) -> None:
    sql = f"SELECT n FROM t WHERE s = $1 AND n IN ({', '.join(f'${number}' for number in range(2, COUNT))})"
    assert of_rows.describe(sql).parameters.types == [pa.utf8(), *[pa.int64()] * (COUNT - 2)]


def test_rows_are_changed_by_a_long_list_of_parameters(tmp_path: Path) -> None:
    made = open_engine(tmp_path / "root")
    made.update("CREATE TABLE t (n BIGINT, s VARCHAR) PARTITIONED BY (n)")
    made.update(f"INSERT INTO t VALUES {', '.join(f'({n}, {n})' for n in range(5))}")
    named = f"n IN ({marks(COUNT, '?')})"
    assert made.update(f"UPDATE t SET s = 'x' WHERE {named}", row_of(range(3, 3 + COUNT))) == 2
    assert made.update(f"DELETE FROM t WHERE NOT {named}", row_of(range(1, 1 + COUNT))) == 1
    assert sorted(query(made, "SELECT n, s FROM t").to_pylist(), key=str) == [
        {"n": 1, "s": "1"},
        {"n": 2, "s": "2"},
        {"n": 3, "s": "x"},
        {"n": 4, "s": "x"},
    ]


@pytest.mark.parametrize("mark", ["$0", "$007", f"${COUNT + 1}"])
def test_a_parameter_that_is_none_is_refused_in_a_long_list(of_rows: Engine, mark: str) -> None:
    sql = f"SELECT n FROM t WHERE n IN ({marks(COUNT, '$')}, {mark})"
    with pytest.raises(LanceFlightError):
        of_rows.query(sql, row_of(range(COUNT)))


BOUND: dict[str, tuple[list[Value], pa.DataType | None, str | None]] = {
    "integers": ([*range(COUNT)], pa.int16(), ", ".join(map(str, range(COUNT)))),
    "large ones": ([(1 << 63) - 1] * COUNT, pa.uint64(), ", ".join([str((1 << 63) - 1)] * COUNT)),
    "larger ones": ([1 << 63] * COUNT, pa.uint64(), None),
    "texts": (["it's"] * COUNT, pa.large_utf8(), ", ".join(["'it''s'"] * COUNT)),
    "long texts": (["x" * 65] * COUNT, None, None),
    "one without a value": ([None, *range(COUNT)], pa.int64(), None),
    "decimals": ([0.5] * COUNT, None, None),
    "of two types": ([1, "x"] * COUNT, None, None),
}


@pytest.mark.parametrize("name", BOUND)
def test_values_of_long_lists_are_written_where_they_are_the_same(name: str) -> None:
    values, kind, wanted = BOUND[name]
    row = row_of(values, kind)
    text = with_listed_values(f"SELECT 1 WHERE a IN ({marks(len(values), '$')}) -- $1, $2", row)
    assert text == f"SELECT 1 WHERE a IN ({wanted or marks(len(values), '$')}) -- $1, $2"
    assert parameter_count(text) == (len(values) if wanted is None else 0)


BESIDE = {
    "in brackets": ("({}) AND n < 20", lambda row, is_met: is_met and row["n"] < 20),
    "after BETWEEN": ("n BETWEEN 1 AND 30 AND ({})", lambda row, is_met: is_met and 1 <= row["n"] <= 30),
    "beside a list": ("({}) AND p IN (1, 3)", lambda row, is_met: is_met and row["p"] in (1, 3)),
    "negated": ("NOT ({}) AND n < 20", lambda row, is_met: is_met is False and row["n"] < 20),
    "before a comment": ("({} -- the last = 1\n) AND n < 20", lambda row, is_met: is_met and row["n"] < 20),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("beside", BESIDE)
def test_what_stands_beside_a_long_list_counts(of_rows: Engine, beside: str, form: str) -> None:
    (text, is_wanted), (write, is_in) = BESIDE[beside], FORMS[form]
    rows = [row for row in ROWS.to_pylist() if row["n"] is not None]
    wanted = [row["n"] for row in rows if is_wanted(row, met(row["n"], INTEGERS) is is_in)]
    found = query(of_rows, f"SELECT n FROM t WHERE {text.format(write('n', INTEGERS))}")
    assert sorted(found["n"].to_pylist()) == wanted


def test_exclusions_right_after_between_are_operands_of_their_own(of_rows: Engine) -> None:
    found = query(of_rows, f"SELECT n FROM t WHERE n BETWEEN 1 AND 30 AND {exclusions('n', INTEGERS)}")
    assert sorted(found["n"].to_pylist()) == [n for n in range(1, 31) if n not in INTEGERS]


@pytest.mark.parametrize("form", FORMS)
def test_a_search_is_filtered_by_a_long_list(of_rows: Engine, form: str) -> None:
    write, is_in = FORMS[form]
    condition = write("s", [f"it's {each}" for each in range(3, 3 + COUNT)]).replace("'", "''")
    found = query(of_rows, f"SELECT n FROM vector_search('t', 'v', [0.0, 0.0], k => 5, filter => '{condition}')")
    wanted = range(3, 8) if is_in else [0, 1, 2, 58, 60]
    rows = {row["v"][0]: row["n"] for row in ROWS.to_pylist()}
    assert sorted(map(repr, found["n"].to_pylist())) == sorted(repr(rows[float(each)]) for each in wanted)


def test_a_row_policy_may_list_many_values(tmp_path: Path) -> None:
    made = open_engine(tmp_path / "root")
    made.update("CREATE TABLE t (n BIGINT) PARTITIONED BY (n)")
    made.update(f"INSERT INTO t VALUES {', '.join(f'({n})' for n in range(COUNT - 3, COUNT + 3))}")
    for write in (listed, alternatives):
        policies = Policies.parse(
            f'[roles.r]\nmembers = ["a"]\ngrants = ["SELECT ON t WHERE {write("n", range(COUNT))}"]'
        )
        for asked in (listed, alternatives):
            sql = f"SELECT n FROM t WHERE {asked('n', range(COUNT - 2, 2 * COUNT))}"
            assert sorted(query(made, sql, policies.access("a"))["n"].to_pylist()) == [COUNT - 2, COUNT - 1]


# Tokens.

PIECES = [
    *(
        " OR ",
        " AND ",
        " OR a = ",
        " IN ",
        "(",
        ")",
        ", ",
        " BETWEEN ",
        " -- c\n",
        "/* c */",
        "a",
        '"a b"',
        "t.a",
        "not",
    ),
    *("1", "-2", "'x'", "'it''s'", "NULL", "1.5e3", "$1", "a = 1", "a <> 'x'"),
    *(listed("a", range(COUNT)), listed("a", ["x"] * COUNT), listed("a", [1, "x", None, -1.5] * LONG_RUN)),
    *(alternatives("a", range(COUNT)), alternatives("t.a", ["it's"] * COUNT), exclusions('"a b"', range(COUNT))),
    *(f"a IN ({marks(COUNT, '$')})", f"a in ( {marks(COUNT, '?')} )", f"a IN ({marks(LONG_RUN - 1, '$')}, 1)"),
    *(alternatives("a", range(LONG_RUN)), exclusions("a", range(LONG_RUN + 1)), alternatives("not", range(COUNT))),
]


def parts(token: Token) -> list[Token]:
    if token.kind not in RUNS | {Kind.PARAMETERS}:
        return [token]
    return [
        part._replace(start=part.start + token.start, stop=part.stop + token.start) for part in spelled_out(token.text)
    ]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_runs_stand_for_the_tokens_of_their_text(text: str) -> None:
    try:
        wanted = spelled_out(text)
    except SqlError as error:
        with pytest.raises(SqlError, match=str(error)):
            tokenize(text)
        return
    assert [part for token in tokenize(text) for part in parts(token)] == wanted


LINEAR = {
    "a list": (f"SELECT n FROM t WHERE {listed('n', range(9000))}", True),
    "parameters": (f"SELECT n FROM t WHERE n IN ({marks(9000, '$')})", True),
    "a list beside a call over constants": (
        f"SELECT n FROM t WHERE {listed('n', range(9000))} AND s = repeat('x', 9)",
        False,
    ),
    "a list in a query within": (f"SELECT n FROM (SELECT n FROM t WHERE {listed('n', range(9000))}) AS u", False),
    "a long text beside a list": (f"SELECT n, '{'x' * 20_000}' FROM t WHERE {listed('n', range(COUNT))}", False),
}


@pytest.mark.parametrize("name", LINEAR)
def test_what_is_long_by_its_lists_alone_is_told_from_what_costs_more(name: str) -> None:
    sql, is_linear = LINEAR[name]
    text = datafusion_text(sql)
    assert (text.is_costly, text.is_linear) == (True, is_linear)


MEASURED = {
    "one table": (f"SELECT n FROM t WHERE {listed('n', range(9000))}", 0),
    "a join": (f"SELECT a.n FROM t AS a, t AS b WHERE a.n = b.n AND {listed('a.n', range(9000))}", 1),
    "a union": (f"SELECT n FROM t WHERE {listed('n', range(9000))} UNION SELECT 1", 1),
    "a view": (f"SELECT n FROM long WHERE {listed('n', range(9000))}", 1),
}


@pytest.mark.parametrize("name", MEASURED)
def test_lists_are_optimised_without_a_trial_in_queries_of_one_table_alone(
    of_rows: Engine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    of_rows.update("CREATE OR REPLACE VIEW long AS SELECT n FROM t WHERE length(repeat(s, 2)) > 1")
    sql, trials = MEASURED[name]
    tried: list[object] = []
    check = PlanningLimits.check_cost

    def counted(limits: PlanningLimits, frame: Any) -> None:
        tried.append(frame)
        check(limits, frame)

    monkeypatch.setattr(PlanningLimits, "check_cost", counted)
    of_rows.query(sql)
    assert len(tried) == trials


REFUSED = {
    "a chain in a select list": (f"SELECT {alternatives('a', range(600))} AS b", SqlError, "joined by AND and OR"),
    "more tokens than a statement may have": (
        f"SELECT 1 WHERE {listed('a', range(MOST_TOKENS // 2 + 10))}",
        LimitExceeded,
        "tokens",
    ),
    "more parameters": (f"SELECT 1 WHERE a IN ({marks(MOST_TOKENS // 2 + 10, '$')})", LimitExceeded, "tokens"),
    "more of them in a chain": (
        f"SELECT 1 WHERE {alternatives('a', range(MOST_TOKENS // 4 + 10))}",
        LimitExceeded,
        "tokens",
    ),
    "a long literal that grows": (
        f"SELECT repeat(s, 16000000) || 'x' FROM t WHERE {listed('s', ['x' * 100] * COUNT)}",
        LimitExceeded,
        "bytes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_limits_count_what_a_long_list_stands_for(name: str) -> None:
    sql, error, says = REFUSED[name]
    with pytest.raises(LanceFlightError, match=says) as raised:
        datafusion_text(sql)
    assert isinstance(raised.value, error)


TRUTH_VALUES = pa.record_batch(
    {"a": pa.array([0, 1, 2, 3, -1, None], pa.int64()), "s": ["x", "it's", "", None, "z", "x"]}
)
LONG = SHORT_CHAIN + 8

leaf = st.one_of(
    st.builds("a {} {}".format, st.sampled_from(["=", "<>", "!=", "<", ">="]), st.integers(-3, 4)),
    st.builds("s {} {}".format, st.sampled_from(["=", "<>"]), st.sampled_from(["'x'", "''", "'it''s'"])),
    st.sampled_from(
        ["a BETWEEN 1 AND 2", "NOT a = 1", "a IS NULL", "a IN (1, 5)", "(a = 1 OR s = 'x')", '"a" = 2', "r.a <> 3"]
    ),
    st.sampled_from(["CASE WHEN a = 1 AND s = 'x' THEN true END", "a = NULL", "a + 1 = 2", "true", "s = lower('X')"]),
)


@st.composite
def chains(draw: st.DrawFn) -> str:
    word = draw(st.sampled_from(["AND", "OR"]))
    few = draw(st.lists(leaf, min_size=1, max_size=6))
    terms = [draw(st.sampled_from(few)) for _ in range(draw(st.integers(1, LONG)))]
    if draw(st.booleans()):
        compared = "=" if word == "OR" else "<>"
        terms += [f"a {compared} {value}" for value in range(2, LONG + draw(st.integers(0, LONG)))]
    mixed = draw(st.lists(leaf, max_size=3))
    return f" {word} ".join([*terms, *(f"{term} {draw(st.sampled_from(['AND', 'OR']))} {term}" for term in mixed)])


def rewritten(text: str) -> str:
    return edit_text(text, chain_edits(tokenize(text)))


@given(chains())
def test_the_rewritten_condition_gives_the_same(condition: str) -> None:
    where, value = f"SELECT a, s FROM r WHERE {condition}", f"SELECT ({condition}) AS is_met FROM r"
    context = SessionContext(session_config())
    context.register_record_batches("r", [[TRUTH_VALUES]])
    for text in (where, value):
        assert context.sql(rewritten(text)).to_pydict() == context.sql(text).to_pydict()


def chain(term: str, joined: str, count: int = LONG) -> str:
    return f" {joined} ".join(term.format(i) for i in range(count))


@pytest.mark.parametrize("term", ["a < {}", "a = b + {}", "f({}) = 1"])
def test_what_is_no_list_is_bracketed_as_a_tree(term: str) -> None:
    text = rewritten(f"SELECT 1 WHERE {chain(term, 'OR', 200)}")
    depth = deepest = 0
    for token in tokenize(text):
        depth += token.is_sign("(") - token.is_sign(")")
        deepest = max(deepest, depth)
    assert 7 <= deepest <= 10
