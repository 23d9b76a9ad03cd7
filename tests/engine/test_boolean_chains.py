"""Long chains of AND and OR are rewritten: what they give stays the same, NULL included."""

from __future__ import annotations

import pyarrow as pa
import pytest
from datafusion import SessionContext
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.engine.sql.boolean_chains import SHORT_CHAIN, chain_edits
from lance_flight.engine.sql.functions import session_config
from lance_flight.engine.sql.tokens import edited, tokenize

ROWS = pa.record_batch({"a": pa.array([0, 1, 2, 3, -1, None], pa.int64()), "s": ["x", "it's", "", None, "z", "x"]})
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
    return edited(text, chain_edits(tokenize(text)))


@given(chains())
def test_the_rewritten_condition_gives_the_same(condition: str) -> None:
    where, value = f"SELECT a, s FROM r WHERE {condition}", f"SELECT ({condition}) AS is_met FROM r"
    context = SessionContext(session_config())
    context.register_record_batches("r", [[ROWS]])
    for text in (where, value):
        assert context.sql(rewritten(text)).to_pydict() == context.sql(text).to_pydict()


def chain(term: str, joined: str, count: int = LONG) -> str:
    return f" {joined} ".join(term.format(i) for i in range(count))


LISTED = ", ".join(map(str, range(LONG)))
REWRITTEN = [
    pytest.param(f"SELECT 1 WHERE {chain('a = {}', 'OR')}", f"SELECT 1 WHERE a IN ({LISTED})", id="= to IN"),
    pytest.param(f"SELECT 1 WHERE {chain('a <> {}', 'AND')}", f"SELECT 1 WHERE a NOT IN ({LISTED})", id="<> to NOT IN"),
    pytest.param(f"SELECT 1 WHERE {chain('a != {}', 'AND')}", f"SELECT 1 WHERE a NOT IN ({LISTED})", id="!= to NOT IN"),
]
KEPT = [
    pytest.param(f"SELECT 1 WHERE {chain('a = {}', 'OR', SHORT_CHAIN)}", id="a short chain"),
    pytest.param(f"SELECT {chain('a = {}', 'OR')} AS x", id="a select list, whose last operand may have an alias"),
    pytest.param(f"SELECT 1 WHERE x BETWEEN 1 AND 2 OR '{chain('a = {}', 'OR')}' = s", id="a text"),
]


@pytest.mark.parametrize(("text", "expected"), REWRITTEN)
def test_comparisons_of_one_column_become_a_list(text: str, expected: str) -> None:
    assert rewritten(text) == expected


@pytest.mark.parametrize("text", KEPT)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert rewritten(text) == text


@pytest.mark.parametrize("term", ["a < {}", "a = b + {}", "f({}) = 1"])
def test_what_is_no_list_is_bracketed_as_a_tree(term: str) -> None:
    text = rewritten(f"SELECT 1 WHERE {chain(term, 'OR', 200)}")
    depth = deepest = 0
    for token in tokenize(text):
        depth += token.is_sign("(") - token.is_sign(")")
        deepest = max(deepest, depth)
    assert 7 <= deepest <= 10
