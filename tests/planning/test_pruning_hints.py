"""What is known of the rows of a scan beyond its own filters: it prunes as they do, and is none of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.transforms import Identity, Truncate
from lance_flight.planning.predicates import ALWAYS, NEVER, And, Opaque, Or, Predicate, StartsWith
from lance_flight.planning.pruning import SpecPartitions, prune

from tests.planning.planning_cases import X, compare, one_column, partitions
from tests.planning.planning_oracle import Split, evaluate, split
from tests.planning.planning_strategies import Statement, rows_of, schemas, specs_of, sql_answer, statements

LETTERS = partitions([Identity()], [pa.utf8()], ["a", "b", "c", None])
INITIALS = partitions([Truncate(1)], [pa.utf8()], ["a", "b", "c", None])
NOT_A = compare("!=", "a")
A_WORD = compare("=", "bee")
OTHER = Opaque("length(x) = 3", "it says nothing")
A_OR_OTHER = Or((compare("=", "a"), OTHER))
A_OR_B = Or((compare("=", "a"), compare("=", "b")))


@pytest.mark.parametrize(
    ("parts", "predicate", "hint", "expected"),
    [
        pytest.param(LETTERS, NOT_A, StartsWith(X, "b"), ([1], None, None), id="both guaranteed"),
        pytest.param(LETTERS, NOT_A, OTHER, ([1, 2], OTHER, None), id="a hint that says nothing"),
        pytest.param(INITIALS, A_WORD, OTHER, ([1], And((A_WORD, OTHER)), A_WORD), id="neither guaranteed"),
        pytest.param(INITIALS, ALWAYS, A_WORD, ([1], A_WORD, None), id="a hint alone"),
        pytest.param(LETTERS, NOT_A, NEVER, ([], None, None), id="no row counts"),
        pytest.param(LETTERS, A_OR_OTHER, NOT_A, ([1, 2], A_OR_OTHER, A_OR_OTHER), id="an alternative that is left"),
        pytest.param(LETTERS, A_OR_B, NOT_A, ([1], None, None), id="an alternative that is not"),
    ],
)
def test_a_hint_prunes_and_is_not_filtered_by(
    parts: SpecPartitions,
    predicate: Predicate,
    hint: Predicate,
    expected: tuple[list[int], Predicate | None, Predicate | None],
) -> None:
    (found,) = prune([parts], one_column(pa.utf8()), predicate, None, hint).versions
    assert (found.kept.tolist(), found.residual, found.unfiltered) == expected


@st.composite
def worlds(draw: st.DrawFn) -> tuple[NamespaceSchema, pa.Table, Split, Statement, Statement]:
    schema = draw(schemas())
    rows = draw(rows_of(schema))
    return schema, rows, split(draw(specs_of(schema)), schema, rows), draw(statements(schema)), draw(statements(schema))


@given(worlds())
def test_what_a_scan_does_not_filter_by_holds_in_every_kept_partition(
    world: tuple[NamespaceSchema, pa.Table, Split, Statement, Statement],
) -> None:
    schema, rows, parts, statement, hint = world
    note(f"{statement.sql}\n{hint.sql}\n{[(f.rule, f.source_ids) for f in parts.partitions.spec.fields]}")
    (found,) = prune([parts.partitions], schema, statement.tree, evaluate, hint.tree).versions
    wanted = sql_answer(rows, statement)
    kept = set(found.kept.tolist())
    assert parts.kept(wanted & sql_answer(rows, hint)) <= kept
    if found.unfiltered is None:
        assert {row for row in range(len(rows)) if parts.place[row] in kept} <= wanted
