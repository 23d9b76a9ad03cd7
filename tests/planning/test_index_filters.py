"""What scalar indices answer of a condition, in Lance's SQL; it never leaves out a row for which the condition is TRUE."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from datafusion import SessionContext
from lance_flight.engine.plans.scalar_expressions import logical_scans
from lance_flight.model.index_kinds import KINDS, Lookup
from lance_flight.model.schema import NamespaceSchema
from lance_flight.planning.index_filters import index_filter, lance_condition
from lance_flight.planning.predicates import NEVER, And, Column, Compare, In, IsNull, Op, Or, Predicate, StartsWith
from lance_flight.planning.preimages import with_preimages

COLUMNS = pa.schema(
    {
        "id": pa.int64(),
        "n": pa.int32(),
        "tags": pa.list_(pa.utf8()),
        "small": pa.list_(pa.int16()),
        "big": pa.list_(pa.uint64()),
        "fractions": pa.list_(pa.float64()),
        "body": pa.utf8(),
        "name": pa.utf8(),
        "both": pa.utf8(),
        "other": pa.utf8(),
    }
)
SCHEMA = NamespaceSchema.assign(COLUMNS)
INDEXED = {
    "id": "btree",
    "n": "bloomfilter",
    "tags": "label_list",
    "small": "label_list",
    "big": "label_list",
    "fractions": "label_list",
    "body": "ngram",
    "name": "zonemap",
}
LOOKUPS = {name: KINDS[kind].lookups for name, kind in INDEXED.items()}
LOOKUPS["both"] = KINDS["btree"].lookups | KINDS["ngram"].lookups


def beyond(condition: str) -> Predicate:
    """What stays above the scan of a condition, as DataFusion plans it."""
    context = SessionContext()
    context.register_dataset("t", pads.dataset(COLUMNS.empty_table()))
    plan = context.sql(f"SELECT id FROM t WHERE {condition}").optimized_logical_plan()
    (scan,) = logical_scans(plan, "public") or ()
    return scan.beyond


ANSWERED = {
    "an element": ("array_has(tags, 'x')", "array_has(`tags`, 'x')"),
    "an element of either name": ("list_contains(tags, 'it''s')", "array_has(`tags`, 'it''s')"),
    "ANY": ("'x' = ANY(tags)", "array_has(`tags`, 'x')"),
    "any of some elements": ("array_has_any(tags, ['x', 'y'])", "array_has_any(`tags`, ['x', 'y'])"),
    "any, the other way round": ("array_has_any(['x', 'y'], tags)", "array_has_any(`tags`, ['x', 'y'])"),
    "all of some elements": ("tags @> ['x', 'y']", "array_has_all(`tags`, ['x', 'y'])"),
    "all, without NULL": ("array_has_all(tags, ['x', NULL])", "array_has_all(`tags`, ['x'])"),
    "a cast of lists to wider integers": ("array_has(small, 3)", "array_has(`small`, arrow_cast('3', 'Int16'))"),
    "some of them": (
        "array_has_any(small, [3, -4])",
        "array_has_any(`small`, [arrow_cast('3', 'Int16'), arrow_cast('-4', 'Int16')])",
    ),
    "a text within": ("contains(body, 'abc')", "contains(`body`, 'abc')"),
    "LIKE with a text within": ("body LIKE '%lance%'", "contains(`body`, 'lance')"),
    "LIKE with several": ("body LIKE '%lance_d_open%'", "(contains(`body`, 'lance') AND contains(`body`, 'open'))"),
    "LIKE with an escape": (r"body LIKE '%open\_file%'", "(contains(`body`, 'open') AND contains(`body`, 'file'))"),
    "a beginning, by parts of texts": ("body LIKE 'lance%'", "contains(`body`, 'lance')"),
    "a beginning, by a range": ("starts_with(name, 'ab')", "(`name` >= 'ab' AND `name` < 'ac')"),
    "LIKE with a beginning": ("name LIKE 'a_b%'", "(`name` >= 'a' AND `name` < 'b')"),
    "a beginning and a text within": (
        "both LIKE 'ab%lance%'",
        "((`both` >= 'ab' AND `both` < 'ac') AND contains(`both`, 'lance'))",
    ),
    "the first letters": ("left(name, 2) = 'ab'", "(`name` >= 'ab' AND `name` < 'ac')"),
    "a sum": ("id + 1 > 4", "(`id` >= 4 AND `id` <= 9223372036854775806)"),
    "one part of AND": ("array_has(tags, 'x') AND other LIKE '%abc%'", "array_has(`tags`, 'x')"),
    "both parts of AND": (
        "array_has(tags, 'x') AND contains(body, 'abc')",
        "(array_has(`tags`, 'x') AND contains(`body`, 'abc'))",
    ),
    "both parts of OR": ("array_has(tags, 'x') OR id < 3", "(array_has(`tags`, 'x') OR `id` < 3)"),
    "OR of AND": (
        "(array_has(tags, 'x') AND other LIKE '%a%') OR id IN (1, 2, 5, 9)",
        "(array_has(`tags`, 'x') OR `id` IN (1, 2, 5, 9))",
    ),
}


@pytest.mark.parametrize(("condition", "expected"), ANSWERED.values(), ids=ANSWERED)
def test_what_an_index_answers(condition: str, expected: str) -> None:
    found = index_filter(with_preimages(beyond(condition), SCHEMA), LOOKUPS, COLUMNS)
    assert found is not None
    assert found.condition == expected
    assert all(lookup in LOOKUPS[name] for name, lookup in found.lookups)


UNANSWERED = {
    "a column without an index": "other LIKE '%lance%'",
    "NOT": "NOT array_has(tags, 'x')",
    "NOT LIKE": "body NOT LIKE '%lance%'",
    "NULL": "array_has(tags, NULL)",
    "any, with NULL": "array_has_any(tags, ['x', NULL])",
    "all of nothing": "array_has_all(tags, [])",
    "all of NULL": "array_has_all(tags, [NULL])",
    "lists of a list": "array_has_all(['x', 'y'], tags)",
    "an element beyond its type": "array_has(small, 70000)",
    "a cast that not all elements have": "array_has(arrow_cast(big, 'List(Int64)'), 1)",
    "an element that is a column": "array_has(tags, name)",
    "floats": "array_has(fractions, 0.0)",
    "integers as floats": "array_has(small, 3.0)",
    "a text that is too short": "body LIKE '%ab%'",
    "a text without letters": "body LIKE '%---%'",
    "whatever the case": "body ILIKE '%lance%'",
    "another escape": "body LIKE '%open!_file%' ESCAPE '!'",
    "a pattern that is a column": "body LIKE name",
    "a computed text": "upper(body) LIKE '%LANCE%'",
    "a part of OR without an index": "array_has(tags, 'x') OR other LIKE '%lance%'",
    "a range of a bloom filter": "array_has(tags, 'x') OR n > 3",
    "another value": "array_has(tags, 'x') OR id <> 3",
    "not a null": "array_has(tags, 'x') OR id IS NOT NULL",
    "too many": " OR ".join(f"contains(body, 'text{number}')" for number in range(100)),
}


@pytest.mark.parametrize("condition", UNANSWERED.values(), ids=UNANSWERED)
def test_what_no_index_answers(condition: str) -> None:
    assert index_filter(with_preimages(beyond(condition), SCHEMA), LOOKUPS, COLUMNS) is None


def test_a_name_that_lance_cannot_quote_is_not_looked_up() -> None:
    equal = Compare(Column("a`b"), Op.EQ, pa.scalar(3))
    assert index_filter(equal, {"a`b": frozenset(Lookup)}, pa.schema({"a`b": pa.int64()})) is None
    assert lance_condition(equal) is None


A, B = Column("a"), Column("B c")
SAID: dict[str, tuple[Predicate, str | None]] = {
    "an integer": (Compare(A, Op.NE, pa.scalar(-3)), "`a` != -3"),
    "the least integer": (Compare(A, Op.GE, pa.scalar(-(2**63))), "`a` >= arrow_cast('-9223372036854775808', 'Int64')"),
    "a large integer": (
        Compare(A, Op.EQ, pa.scalar(2**63, pa.uint64())),
        "`a` = arrow_cast('9223372036854775808', 'UInt64')",
    ),
    "a text": (Compare(B, Op.LT, pa.scalar("it's")), "`B c` < 'it''s'"),
    "NULL": (Compare(A, Op.EQ, pa.scalar(None, pa.int64())), "FALSE"),
    "a float": (Compare(A, Op.GT, pa.scalar(0.5)), "`a` > arrow_cast('0.5', 'Float64')"),
    "a moment": (
        Compare(A, Op.GT, pa.scalar(5, pa.timestamp("us", "UTC"))),
        "`a` > arrow_cast(arrow_cast('5', 'Int64'), 'Timestamp(Microsecond, Some(\"UTC\"))')",
    ),
    "a list": (In(A, pa.array([1, None, 2])), "`a` IN (1, 2)"),
    "not a list": (In(A, pa.array([1, 2]), negated=True), "`a` NOT IN (1, 2)"),
    "not a list with NULL": (In(A, pa.array([1, None]), negated=True), "FALSE"),
    "a list of large integers": (
        In(A, pa.array([2**63], pa.uint64())),
        "`a` IN (arrow_cast('9223372036854775808', 'UInt64'))",
    ),
    "the least integer in a list": (
        In(A, pa.array([3, -(2**63)])),
        "`a` IN (3, arrow_cast('-9223372036854775808', 'Int64'))",
    ),
    "no value": (In(A, pa.array([None], pa.int64())), "FALSE"),
    "NOT NULL": (IsNull(A, negated=True), "`a` IS NOT NULL"),
    "a beginning": (StartsWith(A, "x%"), "starts_with(`a`, 'x%')"),
    "never": (NEVER, "FALSE"),
    "both": (And((IsNull(A), Or((IsNull(B), IsNull(A))))), "(`a` IS NULL AND (`B c` IS NULL OR `a` IS NULL))"),
    "a field inside": (IsNull(Column("a", ("b",))), None),
    "bytes": (Compare(A, Op.EQ, pa.scalar(b"x")), None),
    "too many": (Or(tuple(Compare(A, Op.LT, pa.scalar(number)) for number in range(100))), None),
    "what DataFusion keeps": (beyond("upper(body) = 'A'"), None),
}


@pytest.mark.parametrize(("predicate", "expected"), SAID.values(), ids=SAID)
def test_what_a_pushed_filter_is_in_lances_words(predicate: Predicate, expected: str | None) -> None:
    assert lance_condition(predicate) == expected
