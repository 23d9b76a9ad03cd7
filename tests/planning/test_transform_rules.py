"""What each transform of the table says about itself, held against what it computes: pruning and joins rely on it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from lance_flight.engine.writes.definitions import parse_partition_by, partition_spec, show_partitioning
from lance_flight.errors import DataError
from lance_flight.model.domains import Domain, ordering, plain
from lance_flight.model.transforms import TRANSFORMS, Nulls, Transform, Truncate

from tests.planning.planning_cases import compare, one_column, partitions, pruned
from tests.planning.planning_oracle import evaluate
from tests.planning.planning_strategies import KINDS, Kind, transforms_of

Rules = Sequence[tuple[Transform, Kind]]


def rules_of(name: str) -> Rules:
    """A transform in several sizes, with each type of column that it takes."""
    found = [(rule, kind) for kind in KINDS.values() for rule in transforms_of(kind.type)]
    return [(rule, kind) for rule, kind in found if rule.type == name]


every_transform = pytest.mark.parametrize("rules", [pytest.param(rules_of(name), id=name) for name in TRANSFORMS])


@st.composite
def domains(draw: st.DrawFn, kind: Kind) -> Domain:
    """Some single values of a type, or a range of them perhaps without some."""
    order = ordering(kind.type)
    assert order is not None
    keys = sorted(set(order.keys(kind.array(list(kind.values)))))
    some = frozenset(draw(st.lists(st.sampled_from(keys), min_size=1, max_size=4)))
    if draw(st.booleans()):
        return Domain(order=order, low=min(keys), high=max(keys), points=some)
    low, high = sorted(draw(st.tuples(st.sampled_from(keys), st.sampled_from(keys))))
    excluded = some if draw(st.booleans()) else frozenset()
    return Domain(order=order, low=low, high=high, excluded=excluded).tighten()


def applied(rule: Transform, values: pa.Array) -> pa.Array:
    return plain(rule.apply([values]).cast(rule.result_type([values.type])))


def same(left: pa.Array, right: pa.Array) -> bool:
    """Return whether two columns are equal; NaN is, too."""
    return repr(left.to_pylist()) == repr(right.to_pylist())


@every_transform
@given(data=st.data())
def test_the_image_of_a_domain_has_the_value_of_each_source_in_it(rules: Rules, data: st.DataObject) -> None:
    rule, kind = data.draw(st.sampled_from(rules))
    domain = data.draw(domains(kind))
    image = rule.image(domain, rule.result_type([kind.type]))
    if not isinstance(image, Domain):
        assert image is None or image
        return
    values = plain(kind.array(list(kind.values)))
    inside = values.filter(pa.array(domain.accepts(values)))
    found = applied(rule, inside).cast(image.order.kind)
    note(f"{inside} {found}")
    assert image.accepts(found).all()
    assert not rule.needs_values


def test_an_image_that_cannot_be_computed_prunes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise DataError("beyond the calendar")

    monkeypatch.setattr(Truncate, "image", fail)
    found = pruned(partitions([Truncate(10)], [pa.int64()], [0, 10]), one_column(pa.int64()), compare(">", 10))
    assert found.kept.tolist() == [0, 1]
    assert [(each.predicate, each.why) for each in found.unused] == [("x > 10", "beyond the calendar")]


@every_transform
def test_a_transform_that_keeps_the_order_never_falls(rules: Rules) -> None:
    for rule, kind in rules:
        if rule.monotonic and not pa.types.is_floating(kind.type):
            values = plain(kind.array(list(kind.values)))
            found = applied(rule, values.take(pc.sort_indices(values)))
            assert same(found, found.take(pc.sort_indices(found))), (rule, kind.type)


@every_transform
def test_a_transform_that_keeps_the_value_gives_it(rules: Rules) -> None:
    for rule, kind in rules:
        values = plain(kind.array(list(kind.values)))
        assert not rule.keeps_value or same(applied(rule, values), values), (rule, kind.type)


@every_transform
def test_a_value_is_null_where_its_source_is(rules: Rules) -> None:
    for rule, kind in rules:
        found = applied(rule, kind.array([None, *kind.values]))
        assert rule.nulls is not Nulls.UNKNOWN
        assert found.is_null().to_pylist() == [True, *[False] * len(kind.values)], (rule, kind.type)


@every_transform
def test_coarser_values_follow_from_finer_ones(rules: Rules) -> None:
    for rule, kind in rules:
        values = kind.array([None, *kind.values])
        for finer in transforms_of(kind.type):
            coarsen = rule.over(1).from_finer(finer.over(1))
            if coarsen is not None:
                assert same(coarsen(applied(finer, values)), applied(rule, values)), (rule, finer, kind.type)


@every_transform
def test_the_simplest_transform_of_one_column_computes_the_same(rules: Rules) -> None:
    for rule, kind in rules:
        values = kind.array([None, *kind.values])
        assert same(applied(rule.over(1), values), applied(rule, values)), (rule, kind.type)


@every_transform
def test_a_transform_that_is_a_date_part_computes_that(rules: Rules) -> None:
    for rule, kind in rules:
        if rule.date_part is not None:
            values = kind.array([None, *kind.values])
            expected = evaluate(f"date_part('{rule.date_part}', col0)", [values], pa.int32())
            assert same(applied(rule, values), expected), (rule, kind.type)


@every_transform
def test_a_field_is_read_as_it_is_shown(rules: Rules) -> None:
    for rule, kind in rules:
        schema = one_column(kind.type)
        text = rule.as_sql(["x"])
        shown = show_partitioning(partition_spec(schema, parse_partition_by(text)), schema)
        assert shown == f"{text} AS {rule.default_name('x')}"
