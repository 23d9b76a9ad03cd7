"""Spec versions that share fields: they are pruned as if each were alone, and what they share is worked out once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Expression, PartitionSpec
from lance_flight.model.transforms import Bucket, Identity
from lance_flight.planning.partitions import FEW_VALUES, DictionaryColumn
from lance_flight.planning.partitions import rows_of as rows_of_points
from lance_flight.planning.predicates import And, Column, Or
from lance_flight.planning.pruning import Partitions, Pruning, SpecPartitions, prune

from tests.planning.planning_cases import among, compare, null
from tests.planning.planning_oracle import Split, evaluate, field, split
from tests.planning.planning_strategies import Statement, rows_of, schemas, specs_of, statements

SALES = NamespaceSchema.assign(pa.schema({"tenant": pa.utf8(), "number": pa.int64()}))
TENANT, NUMBER = Column("tenant"), Column("number")
TEXT, WHOLE = SALES.ids["tenant"], SALES.ids["number"]
BY_TENANT = field("tenant", Identity(), TEXT, result=pa.utf8())
EIGHTS, NINTHS = (field(f"of_{n}", Bucket(n), WHOLE, result=pa.int32()) for n in (8, 9))
MODULO = field("modulo", Expression("col0 % 7"), WHOLE, result=pa.int64())
ROWS = pa.table({"tenant": ["a", "b", None, "a"], "number": pa.array([1, 2, 3, None], pa.int64())})


def version(number: int, *fields: Any, rows: pa.Table = ROWS) -> SpecPartitions:
    return split(PartitionSpec(id=number, fields=fields), SALES, rows).partitions


VERSIONS = [
    version(1, BY_TENANT, EIGHTS),
    version(2, NINTHS, BY_TENANT, rows=ROWS.slice(1)),
    version(3, BY_TENANT, rows=ROWS.slice(0, 0)),
    version(4, EIGHTS, rows=ROWS.slice(2)),
]


def outcome(found: Pruning) -> list[tuple[Any, ...]]:
    return [
        (each.spec_id, each.total, each.kept.tolist(), each.used, each.unused, each.residual) for each in found.versions
    ]


@pytest.mark.parametrize(
    "predicate",
    [
        compare("=", "a", TENANT),
        compare(">", "a", TENANT),
        null(term=TENANT),
        And((compare("=", "a", TENANT), compare("=", 1, NUMBER))),
        Or((compare("=", "b", TENANT), compare("=", 3, NUMBER))),
        And((among("a", "b", term=TENANT), Or((null(term=NUMBER), compare("=", 2, NUMBER))))),
        compare("<", 3, NUMBER),
    ],
    ids=str,
)
def test_versions_together_are_pruned_as_each_alone(predicate: Any) -> None:
    alone = [outcome(prune([each], SALES, predicate, None))[0] for each in VERSIONS]
    assert outcome(prune(VERSIONS, SALES, predicate, None)) == alone
    assert outcome(prune(Partitions.together(VERSIONS), SALES, predicate, None)) == alone


def test_a_field_of_several_versions_is_one_column_with_the_rows_of_all() -> None:
    whole = Partitions.together(VERSIONS)
    by_fields = {component.fields: component for component in whole.components}
    assert {fields: len(component) for fields, component in by_fields.items()} == {
        (BY_TENANT,): 4 + 3 + 0,
        (EIGHTS,): 4 + 2,
        (NINTHS,): 3,
    }
    found = by_fields[BY_TENANT,].column_of(BY_TENANT)
    stored = [[*found.values.to_pylist(), None][code] for code in found.codes]
    for each, parts in zip(VERSIONS, whole.parts, strict=True):
        for part in parts:
            if part.component is by_fields[BY_TENANT,]:
                assert stored[part.rows] == each.values[BY_TENANT.column].to_pylist()


def test_an_expression_of_several_versions_is_computed_once_for_them() -> None:
    calls = []

    def counting(sql: str, columns: Sequence[pa.Array], result: pa.DataType) -> pa.Array:
        calls.append(len(columns[0]))
        return evaluate(sql, columns, result)

    whole = Partitions.together([version(1, MODULO, BY_TENANT), version(2, MODULO), version(3, MODULO, EIGHTS)])
    found = prune(whole, SALES, among(1, 2, term=NUMBER), counting)
    assert [len(each.kept) for each in found.versions] == [2, 2, 2]
    assert calls == [2 * 2]


@st.composite
def evolved(draw: st.DrawFn) -> tuple[NamespaceSchema, list[Split], Statement]:
    """Versions of which each has some of the same fields, in any order."""
    schema = draw(schemas())
    fields = draw(specs_of(schema)).fields
    chosen = st.lists(st.sampled_from(fields), min_size=1, unique_by=lambda each: each.field_id)
    specs = [PartitionSpec(id=number, fields=tuple(draw(chosen))) for number in range(1, draw(st.integers(2, 4)) + 1)]
    return schema, [split(spec, schema, draw(rows_of(schema))) for spec in specs], draw(statements(schema))


@given(evolved())
def test_any_versions_together_keep_what_each_keeps_alone(
    world: tuple[NamespaceSchema, list[Split], Statement],
) -> None:
    schema, splits, statement = world
    versions = [each.partitions for each in splits]
    note(f"{statement.sql}\n{[[(f.rule, f.source_ids) for f in each.spec.fields] for each in versions]}")
    together = prune(Partitions.together(versions), schema, statement.tree, evaluate)
    for mine, each in zip(versions, together.versions, strict=True):
        (alone,) = prune([mine], schema, statement.tree, evaluate).versions
        assert (each.kept.tolist(), each.residual) == (alone.kept.tolist(), alone.residual)
        # A date part may narrow the choice in another version only.
        assert set(alone.used) <= set(each.used)


@pytest.mark.sample(30)
@pytest.mark.parametrize("distinct", [3, FEW_VALUES, FEW_VALUES + 1], ids="{} values".format)
@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        pytest.param(pa.int32(), pa.int32(), id="integers"),
        pytest.param(pa.int32(), pa.int64(), id="integers widened since"),
        pytest.param(pa.utf8(), pa.int64(), id="text that is compared with integers"),
        pytest.param(pa.utf8(), pa.utf8(), id="text"),
        pytest.param(pa.large_utf8(), pa.string_view(), id="text in other layouts"),
        pytest.param(pa.float64(), pa.float64(), id="floats"),
        pytest.param(pa.timestamp("ns"), pa.timestamp("ns"), id="instants"),
    ],
)
@pytest.mark.parametrize("wanted", [(1,), (1, 2, 5_000), (1, None), (None,), (5_000,), ()], ids=str)
def test_values_are_found_however_many_there_are(
    distinct: int, stored: pa.DataType, asked: pa.DataType, wanted: tuple[int | None, ...]
) -> None:
    numbers = [None, *range(distinct), 1]
    coded = DictionaryColumn.of(pa.array(numbers, pa.int64()).cast(stored))
    rows = rows_of_points([(coded, pa.array(wanted, pa.int64()).cast(asked))])
    assert np.flatnonzero(rows).tolist() == [row for row, number in enumerate(numbers) if number in wanted]
