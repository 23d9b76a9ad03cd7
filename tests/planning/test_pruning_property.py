"""The pruned answer is the unpruned one, for random specs, rows and predicates; DataFusion is the judge."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from lance_flight.model.schema import NamespaceSchema
from lance_flight.planning.arrow_expression import predicate_from_arrow
from lance_flight.planning.predicates import ALWAYS, Predicate
from lance_flight.planning.pruning import SpecPruning, prune

from tests.examples import examples
from tests.planning.planning_oracle import Split, answer, evaluate, pushed, split
from tests.planning.planning_strategies import (
    Statement,
    rows_of,
    schemas,
    specs_of,
    sql_answer,
    statements,
)

pytestmark = pytest.mark.slow  # a long property


@st.composite
def worlds(draw: st.DrawFn) -> tuple[NamespaceSchema, pa.Table, Split, Statement]:
    schema = draw(schemas())
    rows = draw(rows_of(schema))
    spec = draw(specs_of(schema))
    return schema, rows, split(spec, schema, rows), draw(statements(schema))


@given(worlds())
@examples(100)
def test_every_matching_row_is_in_a_kept_partition_and_all_rows_of_a_certain_one_match(
    world: tuple[NamespaceSchema, pa.Table, Split, Statement],
) -> None:
    schema, rows, parts, statement = world
    note(f"{statement.sql}\n{[(f.rule, f.source_ids) for f in parts.partitions.spec.fields]}\n{rows.to_pydict()}")
    matching = sql_answer(rows, statement)
    certain = set(check(schema, rows, parts, statement.tree, matching).certain.tolist())
    assert {row for row in range(len(rows)) if parts.place[row] in certain} <= matching
    wanted = answer(rows, statement.sql)
    for filter_ in pushed(schema.plain, statement.sql):
        check(schema, rows, parts, ALWAYS if filter_ is None else predicate_from_arrow(filter_), wanted)


def check(schema: NamespaceSchema, rows: pa.Table, parts: Split, predicate: Predicate, wanted: set[int]) -> SpecPruning:
    (found,) = prune([parts.partitions], schema, predicate, evaluate).versions
    kept = set(found.kept.tolist())
    assert parts.kept(wanted) <= kept, f"{predicate}: lost {parts.kept(wanted) - kept}; used {found.used}"
    whole = {row for row, values in enumerate(parts.partitions.values.to_pylist()) if None not in values.values()}
    assert whole <= kept or found.used
    assert list(found.kept) == sorted(kept)
    if found.residual is None:
        inside = {row for row in range(len(rows)) if parts.place[row] in kept}
        assert wanted <= inside
    assert set(found.certain.tolist()) <= kept
    return found


@given(worlds(), st.data())
def test_what_a_scan_does_not_filter_by_holds_in_every_kept_partition(
    world: tuple[NamespaceSchema, pa.Table, Split, Statement], data: st.DataObject
) -> None:
    schema, rows, parts, statement = world
    hint = data.draw(statements(schema))
    note(f"{statement.sql}\n{hint.sql}\n{[(f.rule, f.source_ids) for f in parts.partitions.spec.fields]}")
    (found,) = prune([parts.partitions], schema, statement.tree, evaluate, hint.tree).versions
    wanted = sql_answer(rows, statement)
    kept = set(found.kept.tolist())
    assert parts.kept(wanted & sql_answer(rows, hint)) <= kept
    if found.unfiltered is None:
        assert {row for row in range(len(rows)) if parts.place[row] in kept} <= wanted
