"""Partition specs: their JSON both ways, every problem at once, and the rules of field ids (Appendices A and E)."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.errors import SpecError
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Expression, PartitionField, PartitionSpec, specs_from_metadata
from lance_flight.model.transforms import Bucket, Identity, MultiBucket, Transform, Truncate, Year

DATA = Path(__file__).parent / "data"
APPENDIX_A = json.loads((DATA / "appendix_a_metadata.json").read_text())
APPENDIX_C = json.loads((DATA / "appendix_c_manifest.json").read_text())
APPENDIX_E = json.loads((DATA / "appendix_e_properties.json").read_text())
SPECS = {key: APPENDIX_A[key] for key in ("partition_spec_v1", "partition_spec_v2")}
SCHEMA = NamespaceSchema.from_json(APPENDIX_A["schema"])


def never(sql: str, columns: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    raise AssertionError(sql, columns, kind)


def field(**changes: Any) -> PartitionField:
    """The year of event_date, with members replaced."""
    usual = {"field_id": "event_year", "source_ids": (1,), "rule": Year(), "result_type": pa.int32()}
    return PartitionField(**(usual | changes))


def spec(number: int, *fields: PartitionField) -> PartitionSpec:
    return PartitionSpec(id=number, fields=fields)


def problems_of(value: Any, **options: Any) -> list[str]:
    with pytest.raises(SpecError) as raised:
        PartitionSpec.from_json(value, **options)
    return list(raised.value.problems)


# The appendices


def test_the_specs_of_appendix_a_are_read() -> None:
    first, second = (PartitionSpec.from_json(value, key=key) for key, value in SPECS.items())
    assert first == spec(1, field(field_id="event_date", rule=Identity(), result_type=pa.date32()))
    country = field(field_id="country", source_ids=(2,), rule=Identity(), result_type=pa.utf8())
    assert second == spec(2, field(), country)


@pytest.mark.parametrize("key", SPECS)
def test_the_specs_of_appendix_a_are_written_back_byte_for_byte(key: str) -> None:
    read = PartitionSpec.from_json(SPECS[key], key=key)
    assert json.dumps(read.to_json()) == json.dumps(SPECS[key])
    assert read.to_text() == json.dumps(SPECS[key], separators=(",", ":"))
    assert read.key == key
    assert PartitionSpec.from_json(read.to_text(), key=key) == read


def test_the_text_of_a_spec_is_that_of_appendix_e() -> None:
    stored = APPENDIX_E[0]["response"]["properties"]["partition_spec"]
    assert PartitionSpec.from_json(stored).to_text() == stored
    assert PartitionSpec.from_json(stored) == PartitionSpec.from_json(SPECS["partition_spec_v1"])


def test_the_fields_of_appendix_a_have_the_columns_of_appendix_c() -> None:
    specs = specs_from_metadata({key: json.dumps(value) for key, value in SPECS.items()})
    assert [each.column for one in specs for each in one.fields] == APPENDIX_C["columns"][-3:]


def test_the_specs_of_appendix_a_fit_their_schema_and_each_other() -> None:
    first, second = (PartitionSpec.from_json(value) for value in SPECS.values())
    first.check(SCHEMA)
    second.check(SCHEMA, [first])


def test_the_rows_of_appendix_c_have_the_values_that_the_specs_compute() -> None:
    dates, countries = pa.array([date(2025, 12, 10), None]), pa.array(["US", None])
    first, second = (PartitionSpec.from_json(value) for value in SPECS.values())
    assert first.fields[0].apply([dates], never).to_pylist() == [date(2025, 12, 10), None]
    assert second.fields[0].apply([dates], never).to_pylist() == [2025, None]
    assert second.fields[1].apply([countries], never).to_pylist() == ["US", None]


# JSON, both ways

RULES: dict[str, tuple[Transform | Expression, dict[str, Any]]] = {
    "identity": (Identity(), {"transform": {"type": "identity"}}),
    "bucket": (Bucket(16), {"transform": {"type": "bucket", "num_buckets": 16}}),
    "multi_bucket": (MultiBucket(16), {"transform": {"type": "multi_bucket", "num_buckets": 16}}),
    "truncate": (Truncate(3), {"transform": {"type": "truncate", "width": 3}}),
    "expression": (Expression("upper(col0)"), {"expression": "upper(col0)"}),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_written_and_read_as_the_spec_says(name: str) -> None:
    rule, members = RULES[name]
    value = {"field_id": "f", "source_ids": [3, 1], **members, "result_type": {"type": "int32"}}
    made = field(field_id="f", source_ids=(3, 1), rule=rule)
    assert json.dumps(made.to_json()) == json.dumps(value)
    assert PartitionField.from_json(value) == made


def test_a_null_member_counts_as_absent_and_an_unknown_one_is_passed_over() -> None:
    value = field().to_json() | {"expression": None, "comment": "x"}
    assert PartitionField.from_json(value) == field()
    value = field(rule=Expression("col0")).to_json() | {"transform": None}
    assert PartitionField.from_json(value) == field(rule=Expression("col0"))


def test_the_type_of_a_transform_is_read_in_any_case() -> None:
    assert PartitionField.from_json(field().to_json() | {"transform": {"type": "Year"}}) == field()


@given(
    st.text(min_size=1, max_size=5), st.lists(st.integers(0, 9), min_size=1, max_size=3), st.sampled_from(list(RULES))
)
def test_every_spec_is_read_back_from_its_text(name: str, sources: list[int], rule: str) -> None:
    one = spec(3, field(field_id=name, source_ids=tuple(sources), rule=RULES[rule][0]))
    assert PartitionSpec.from_json(one.to_text(), key="partition_spec_v3") == one


def test_exact_types_come_from_the_columns_of_the_manifest() -> None:
    exact = pa.timestamp("ns", "UTC")
    stored = PartitionSpec.from_json(spec(1, field(rule=Identity(), result_type=exact)).to_text())
    assert stored.fields[0].result_type == pa.timestamp("us")
    manifest = pa.schema([("object_id", pa.utf8()), ("partition_field_event_year", exact)])
    assert stored.with_stored_types(manifest).fields[0].result_type == exact
    assert stored.with_stored_types(pa.schema([])) == stored


# Problems

ONE = {"field_id": "f", "source_ids": [1], "transform": {"type": "year"}, "result_type": {"type": "int32"}}
NOT_A_TRANSFORM = (
    "expected an object whose type is one of identity, year, month, day, hour, bucket, multi_bucket, truncate"
)
FIELD_PROBLEMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no field_id": ({"field_id": None}, ["field_id is None; expected a non-empty string"]),
    "an empty field_id": ({"field_id": ""}, ["field_id is ''; expected a non-empty string"]),
    "a field_id that is a number": ({"field_id": 3}, ["field_id is 3; expected a non-empty string"]),
    **{
        f"source_ids {value!r}": (
            {"source_ids": value},
            [f"source_ids is {value!r}; expected a non-empty array of field ids (integers ≥ 0)"],
        )
        for value in (None, [], 1, ["1"], [True], [-1], [1.0])
    },
    "neither rule": ({"transform": None}, ["exactly one of transform and expression is expected, got neither"]),
    "both rules": ({"expression": "col0"}, ["exactly one of transform and expression is expected, got both"]),
    "an empty expression": (
        {"transform": None, "expression": " "},
        ["expression is ' '; expected SQL text over col0, col1 …"],
    ),
    "an expression that is no text": (
        {"transform": None, "expression": {}},
        ["expression is {}; expected SQL text over col0, col1 …"],
    ),
    "an unknown transform": ({"transform": {"type": "week"}}, [f"transform is {{'type': 'week'}}; {NOT_A_TRANSFORM}"]),
    "a transform that is a name": ({"transform": "year"}, [f"transform is 'year'; {NOT_A_TRANSFORM}"]),
    "a transform without type": ({"transform": {}}, [f"transform is {{}}; {NOT_A_TRANSFORM}"]),
    **{
        f"{value!r} buckets": (
            {"transform": {"type": "bucket", "num_buckets": value}},
            [f"bucket has num_buckets = {value!r}; expected an integer ≥ 1"],
        )
        for value in (None, 0, -1, "4", 4.0, True)
    },
    "no width": ({"transform": {"type": "truncate"}}, ["truncate has width = None; expected an integer ≥ 1"]),
    "an unknown result_type": ({"result_type": {"type": "int46"}}, ["result_type: unknown type 'int46'"]),
    "a result_type that is a name": (
        {"result_type": "int32"},
        ["result_type: 'int32' is not an object with a type name under 'type'"],
    ),
}


@pytest.mark.parametrize("name", FIELD_PROBLEMS)
def test_a_field_that_breaks_the_spec_is_named_with_its_value(name: str) -> None:
    changes, expected = FIELD_PROBLEMS[name]
    with pytest.raises(SpecError) as raised:
        PartitionField.from_json(ONE | changes)
    assert list(raised.value.problems) == expected
    assert problems_of({"id": 1, "fields": [ONE | {"field_id": "g"}, ONE | changes]}) == [
        f"fields[1]: {problem}" for problem in expected
    ]


def test_every_problem_of_every_field_is_listed_at_once() -> None:
    bad = {"source_ids": [], "transform": {"type": "bucket"}, "result_type": {"type": "list"}}
    found = problems_of({"id": 0, "fields": [ONE, 3, bad, ONE | {"result_type": None}, ONE]}, key="partition_spec_v1")
    assert [problem.partition(";")[0].partition(" is ")[0] for problem in found] == [
        "id",
        "fields[1]: 3",
        "fields[2]: field_id",
        "fields[2]: source_ids",
        "fields[2]: bucket has num_buckets = None",
        "fields[2]: result_type: list",
        "fields[3]: result_type: None",
        "field_id 'f' stands 2 times",
    ]


def test_a_result_type_that_is_missing_is_said_to_be() -> None:
    value = {name: member for name, member in ONE.items() if name != "result_type"}
    assert problems_of({"id": 1, "fields": [value]}) == ["fields[0]: result_type is missing"]


SPEC_PROBLEMS: dict[str, tuple[Any, list[str]]] = {
    "no object": ([], ["[] is not an object"]),
    "no JSON": ("{", ["not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"]),
    "no id": ({"fields": [ONE]}, ["id is None; expected an integer ≥ 1"]),
    "a true id": ({"id": True, "fields": [ONE]}, ["id is True; expected an integer ≥ 1"]),
    "an id that is text": ({"id": "1", "fields": [ONE]}, ["id is '1'; expected an integer ≥ 1"]),
    "another id than the key's": (
        {"id": 2, "fields": [ONE]},
        ["id is 2; expected the number in its key 'partition_spec_v1'"],
    ),
    "no fields": ({"id": 1}, ["fields is None; expected an array of field objects"]),
    "a field that is none": ({"id": 1, "fields": [None]}, ["fields[0]: None is not an object"]),
    "a field_id twice": ({"id": 1, "fields": [ONE, ONE]}, ["field_id 'f' stands 2 times"]),
}


@pytest.mark.parametrize("name", SPEC_PROBLEMS)
def test_a_spec_that_breaks_the_spec_is_refused(name: str) -> None:
    value, expected = SPEC_PROBLEMS[name]
    assert problems_of(value, key="partition_spec_v1") == expected


def test_text_nested_beyond_reason_is_refused() -> None:
    assert problems_of("[" * 100_000)[0].startswith("not JSON")


# Specs in the metadata of the manifest


def test_specs_are_found_by_their_keys_and_ordered_by_number() -> None:
    metadata = {f"partition_spec_v{n}": spec(n, field()).to_text() for n in (10, 2, 1)}
    others = {"schema": "{}", "partition_spec": "x", "partition_spec_vx": "x", "partition_spec_v": "x", "v1": "x"}
    assert [one.id for one in specs_from_metadata(others | metadata)] == [1, 2, 10]
    assert specs_from_metadata(others) == []


def test_the_problems_of_all_stored_specs_are_listed_with_their_keys() -> None:
    metadata = {"partition_spec_v1": "x", "partition_spec_v2": spec(3, field()).to_text(), "partition_spec_v03": "{}"}
    with pytest.raises(SpecError) as raised:
        specs_from_metadata(metadata)
    assert [problem.partition(": ")[::2] for problem in raised.value.problems] == [
        ("partition_spec_v1", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("partition_spec_v2", "id is 3; expected the number in its key 'partition_spec_v2'"),
        ("partition_spec_v03", "id is None; expected an integer ≥ 1"),
        ("partition_spec_v03", "fields is None; expected an array of field objects"),
    ]


# A new spec over a schema


def check_problems(
    new: PartitionSpec, earlier: Sequence[PartitionSpec] = (), schema: NamespaceSchema = SCHEMA
) -> list[str]:
    with pytest.raises(SpecError) as raised:
        new.check(schema, earlier)
    return list(raised.value.problems)


def test_a_source_that_is_no_column_is_refused_and_so_is_a_wrong_type() -> None:
    new = spec(
        3,
        field(field_id="a", source_ids=(9,)),
        field(field_id="b", source_ids=(2,)),
        field(field_id="c", source_ids=(0,), rule=Bucket(4), result_type=pa.int64()),
        field(field_id="d", source_ids=(0, 1), rule=Identity()),
        field(field_id="e", source_ids=(9,), rule=Expression("col0")),
    )
    assert check_problems(new) == [
        "field 'a': source id 9 is no column of the schema, nor a field inside its structs",
        "field 'b': year of a string column; expected a date or timestamp",
        "field 'c': result_type is int64; bucket of int64 gives int32",
        "field 'd': identity takes one source column, got 2",
        "field 'e': source id 9 is no column of the schema, nor a field inside its structs",
    ]


def test_a_field_inside_a_struct_is_a_source_and_an_element_of_a_list_is_not() -> None:
    inside = pa.struct([("d", pa.date32())])
    schema = NamespaceSchema.assign(pa.schema([("s", inside), ("l", pa.list_(inside))]))
    spec(1, field(source_ids=(1,))).check(schema)
    (problem,) = check_problems(spec(1, field(source_ids=(4,))), schema=schema)
    assert problem == (
        "field 'event_year': source id 4 is no column of the schema, nor a field inside its structs: "
        f"{schema.paths[4][0]} is an element of a list or map"
    )


def test_the_sources_of_a_field_follow_their_ids_through_a_renaming() -> None:
    renamed = copy.deepcopy(APPENDIX_A["schema"])
    renamed["fields"][1]["name"] = "day_of_event"
    schema = NamespaceSchema.from_json(renamed)
    PartitionSpec.from_json(SPECS["partition_spec_v1"]).check(schema)
    assert field().source_types(schema) == [pa.date32()]


def test_a_removed_source_counts_as_a_column_of_nulls() -> None:
    """Column removal resistant (requirement 4)."""
    removed = copy.deepcopy(APPENDIX_A["schema"])
    del removed["fields"][1]
    schema = NamespaceSchema.from_json(removed)
    assert field(source_ids=(1, 2)).source_types(schema) == [pa.null(), pa.utf8()]
    for rule, kind in [
        (Year(), pa.int32()),
        (Identity(), pa.date32()),
        (Bucket(4), pa.int32()),
        (Truncate(4), pa.utf8()),
    ]:
        values = field(rule=rule, result_type=kind).apply([pa.nulls(2)], never)
        assert values.type == kind
        assert values.to_pylist() == [None, None]


# Field ids

FIRST = spec(1, field(), field(field_id="b", source_ids=(0,), rule=Bucket(4)))
REUSE: dict[str, tuple[PartitionField, list[str]]] = {
    "the same derivation under its own id": (field(), []),
    "another transform under a new id": (field(field_id="b8", source_ids=(0,), rule=Bucket(8)), []),
    "the same transform of another column under a new id": (field(field_id="c4", source_ids=(2,), rule=Bucket(4)), []),
    "the same derivation under another id": (
        field(field_id="year"),
        ["field 'year' derives what 'event_year' derives; the same field_id must be reused"],
    ),
    "another transform under the same id": (
        field(field_id="b", source_ids=(0,), rule=Bucket(8)),
        ["field_id 'b' belongs to another derivation already; a field_id is never reused"],
    ),
    "another column under the same id": (
        field(field_id="b", source_ids=(2,), rule=Bucket(4)),
        ["field_id 'b' belongs to another derivation already; a field_id is never reused"],
    ),
    "the ids of two fields exchanged": (
        field(field_id="b"),
        [
            "field_id 'b' belongs to another derivation already; a field_id is never reused",
            "field 'b' derives what 'event_year' derives; the same field_id must be reused",
        ],
    ),
    "an expression instead of the transform it equals": (
        field(rule=Expression("date_part('year', col0)")),
        ["field_id 'event_year' belongs to another derivation already; a field_id is never reused"],
    ),
}


@pytest.mark.parametrize("name", REUSE)
def test_a_field_id_is_reused_for_the_same_derivation_and_for_no_other(name: str) -> None:
    new, expected = REUSE[name]
    if expected:
        assert check_problems(spec(2, new), [FIRST]) == expected
    else:
        spec(2, new).check(SCHEMA, [FIRST])


def test_a_field_id_of_any_earlier_spec_is_known() -> None:
    second = spec(2, field(field_id="event_date", rule=Identity(), result_type=pa.date32()))
    assert len(check_problems(spec(3, field(field_id="year")), [FIRST, second])) == 1
    assert len(check_problems(spec(3, field(field_id="event_date")), [FIRST, second])) == 2


def test_expressions_are_the_same_where_their_text_is() -> None:
    upper = field(field_id="u", source_ids=(2,), rule=Expression("upper(col0)"), result_type=pa.utf8())
    lower = field(field_id="l", source_ids=(2,), rule=Expression("lower(col0)"), result_type=pa.utf8())
    spec(2, upper, lower).check(SCHEMA, [spec(1, upper)])
    assert len(check_problems(spec(2, field(field_id="v", source_ids=(2,), rule=upper.rule)), [spec(1, upper)])) == 1


def test_the_order_of_the_sources_belongs_to_the_derivation() -> None:
    both = field(field_id="m", source_ids=(0, 2), rule=MultiBucket(4))
    spec(2, field(field_id="n", source_ids=(2, 0), rule=MultiBucket(4))).check(SCHEMA, [spec(1, both)])


def test_one_spec_derives_nothing_twice() -> None:
    assert check_problems(spec(1, field(field_id="p"), field(field_id="q"))) == [
        "field 'q' derives what 'p' derives; the same field_id must be reused"
    ]


def test_a_number_that_a_spec_has_is_not_given_again() -> None:
    assert check_problems(spec(1, field()), [FIRST]) == ["id 1 is taken"]


# Values


def test_values_have_exactly_the_result_type() -> None:
    """Consistent with result type (requirement 6): the column may have been promoted since."""
    small = field(rule=Identity(), result_type=pa.int32())
    assert small.apply([pa.array([1, None], pa.int64())], never).equals(pa.array([1, None], pa.int32()))
    with pytest.raises(pa.ArrowInvalid):
        small.apply([pa.array([2**40])], never)


def test_an_expression_is_computed_by_who_evaluates_it() -> None:
    def evaluate(sql: str, columns: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
        assert (sql, len(columns), kind) == ("upper(col0)", 1, pa.utf8())
        return pa.array([value and value.upper() for value in columns[0].to_pylist()], pa.large_utf8())

    upper = field(rule=Expression("upper(col0)"), result_type=pa.utf8())
    assert upper.apply([pa.array(["a", None])], evaluate).equals(pa.array(["A", None], pa.utf8()))
