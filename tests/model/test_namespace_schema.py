"""NamespaceSchema: field ids that are never reused, and nothing read that breaks the spec (Schema, Appendix A)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.errors import NotFound, SchemaError
from lance_flight.model.schema import NamespaceSchema

APPENDIX_A = json.loads((Path(__file__).parent / "data" / "appendix_a_metadata.json").read_text())["schema"]


def altered(**changes: Any) -> dict[str, Any]:
    """The schema of Appendix A with members of its second field replaced."""
    value = copy.deepcopy(APPENDIX_A)
    value["fields"][1] |= changes
    return value


# Reading and writing


def test_the_schema_of_appendix_a_has_its_ids() -> None:
    schema = NamespaceSchema.from_json(APPENDIX_A)
    assert schema.ids == {"id": 0, "event_date": 1, "country": 2}
    assert schema.next_field_id == 3
    assert schema.id_of("country") == 2
    assert schema.column(1).type == pa.date32()


def test_the_schema_of_appendix_a_is_written_back_byte_for_byte() -> None:
    assert json.dumps(NamespaceSchema.from_json(APPENDIX_A).to_json()) == json.dumps(APPENDIX_A)


def test_the_next_id_is_stored_only_once_it_is_not_implied() -> None:
    schema = NamespaceSchema.from_json(APPENDIX_A)
    assert "metadata" not in schema.to_json()
    later = NamespaceSchema(schema.arrow, 4)
    assert later.to_json()["metadata"] == {"lance_flight:next_field_id": "4"}
    assert NamespaceSchema.from_json(later.to_json()) == later


@pytest.mark.parametrize(("stored", "expected"), [("7", 7), ("2", 3), ("0", 3)])
def test_the_next_id_is_never_one_that_a_field_has(stored: str, expected: int) -> None:
    value = APPENDIX_A | {"metadata": {"lance_flight:next_field_id": stored}}
    assert NamespaceSchema.from_json(value).next_field_id == expected


def test_other_metadata_of_the_schema_is_kept() -> None:
    value = APPENDIX_A | {"metadata": {"owner": "x", "lance_flight:next_field_id": "7"}}
    assert NamespaceSchema.from_json(value).to_json() == value


PROBLEMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no id": (altered(metadata={}), ["field 'event_date' has no lance:field_id in its metadata"]),
    "no metadata": (altered(metadata=None), ["field 'event_date' has no lance:field_id in its metadata"]),
    "an id that is no number": (
        altered(metadata={"lance:field_id": "-3"}),
        ["field 'event_date' has no lance:field_id in its metadata"],
    ),
    "an id twice": (
        altered(metadata={"lance:field_id": "0"}),
        ["field 'event_date' has lance:field_id 0, which 'id' has already"],
    ),
    "an id twice at different depths": (
        altered(
            type={
                "type": "list",
                "fields": [{"name": "item", "type": {"type": "int8"}, "metadata": {"lance:field_id": "2"}}],
            }
        ),
        ["field 'country' has lance:field_id 2, which 'event_date.item' has already"],
    ),
    "a nested field without id": (
        altered(type={"type": "list", "fields": [{"name": "item", "type": {"type": "int8"}}]}),
        ["field 'event_date.item' has no lance:field_id in its metadata"],
    ),
    "a name twice and an id twice": (
        altered(name="id", metadata={"lance:field_id": "0"}),
        ["column 'id' stands 2 times", "field 'id' has lance:field_id 0, which 'id' has already"],
    ),
    "an empty name": (altered(name=""), ["a column has an empty name"]),
    "a next id that is no number": (
        APPENDIX_A | {"metadata": {"lance_flight:next_field_id": "soon"}},
        ["lance_flight:next_field_id is 'soon'; expected an integer ≥ 0"],
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_stored_schema_that_breaks_the_spec_is_refused_with_every_problem(name: str) -> None:
    value, expected = PROBLEMS[name]
    with pytest.raises(SchemaError) as raised:
        NamespaceSchema.from_json(value)
    assert list(raised.value.problems) == expected


# Giving ids

DEEP = pa.schema(
    [
        pa.field("a", pa.struct([pa.field("b", pa.map_(pa.utf8(), pa.list_(pa.int8())), nullable=False)])),
        pa.field("a.b", pa.large_list(pa.list_(pa.float32(), 2)), metadata={"lance:field_id": "77", "k": "v"}),
        pa.field("z", pa.dictionary(pa.int8(), pa.utf8()), nullable=False),
    ]
)
PATHS = {
    0: "a",
    1: "a.b",
    2: "a.b.key",
    3: "a.b.value",
    4: "a.b.value.item",
    5: "a.b",
    6: "a.b.item",
    7: "a.b.item.item",
    8: "z",
}


def test_new_ids_are_given_depth_first_and_old_ones_forgotten() -> None:
    schema = NamespaceSchema.assign(DEEP)
    assert {number: path for number, (path, _) in schema.paths.items()} == PATHS
    assert schema.ids == {"a": 0, "a.b": 5, "z": 8}
    assert schema.next_field_id == 9
    assert schema.arrow.field("a.b").metadata == {b"k": b"v", b"lance:field_id": b"5"}


def test_ids_change_neither_types_nor_nullability_nor_order() -> None:
    schema = NamespaceSchema.assign(DEEP)
    assert schema.arrow.equals(DEEP)
    assert schema.plain.equals(DEEP.remove_metadata())


def test_a_schema_with_ids_at_every_depth_survives_its_json() -> None:
    schema = NamespaceSchema.assign(DEEP)
    assert NamespaceSchema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


def test_columns_and_fields_inside_structs_are_sources_and_elements_of_lists_are_not() -> None:
    schema = NamespaceSchema.assign(DEEP)
    assert schema.names == {0: "a", 5: "a.b", 8: "z"}
    inside = {n: path.split(".") for n, (path, _) in schema.paths.items() if n not in schema.names}
    expected = {0: ("a",), 5: ("a.b",), 8: ("z",)}
    assert {n: path for n, path in schema.source_paths.items() if n in expected} == expected
    assert all(path == tuple(inside[n]) for n, path in schema.source_paths.items() if n in inside)
    assert schema.column(5).name == "a.b"
    lists = NamespaceSchema.assign(pa.schema([("l", pa.list_(pa.struct([("x", pa.int8())])))]))
    assert lists.source_paths == {0: ("l",)}


def test_a_field_inside_a_struct_is_another_one_than_the_column_of_its_name() -> None:
    schema = NamespaceSchema.assign(pa.schema([("a", pa.struct([("b", pa.int16())])), ("b", pa.int8())]))
    assert schema.source_ids == {("a",): 0, ("a", "b"): 1, ("b",): 2}
    assert [schema.column(number).type for number in (1, 2)] == [pa.int16(), pa.int8()]


def test_a_partition_table_carries_the_ids_under_its_own_key() -> None:
    table = NamespaceSchema.assign(DEEP).table
    # What clients have noted stands in the schema of the namespace alone.
    assert table.field("a.b").metadata == {b"lance_flight:field_id": b"5"}
    assert table.field("a").type.field(0).metadata == {b"lance_flight:field_id": b"1"}
    assert b"lance:field_id" not in table.serialize().to_pybytes()


def test_what_a_client_sees_has_no_metadata_at_any_depth() -> None:
    assert b"field_id" not in NamespaceSchema.assign(DEEP).plain.serialize().to_pybytes()


def test_an_unknown_column_is_not_found_and_the_nearest_is_named() -> None:
    with pytest.raises(NotFound, match="no column 'contry'; did you mean 'country'"):
        NamespaceSchema.from_json(APPENDIX_A).id_of("contry")


def test_two_schemas_with_other_ids_are_not_equal() -> None:
    schema = NamespaceSchema.from_json(APPENDIX_A)
    other = altered(metadata={"lance:field_id": "9"})
    assert schema == NamespaceSchema.from_json(APPENDIX_A)
    assert hash(schema) == hash(NamespaceSchema.from_json(APPENDIX_A))
    assert schema != NamespaceSchema(NamespaceSchema.from_json(other).arrow, 3)
    assert schema != NamespaceSchema(schema.arrow, 4)
    assert schema != APPENDIX_A


def test_names_that_cannot_be_told_apart_are_refused_together() -> None:
    with pytest.raises(SchemaError) as raised:
        NamespaceSchema.assign(pa.schema([("a", pa.int8()), ("a", pa.int8()), ("", pa.int8())]))
    assert raised.value.problems == ("column 'a' stands 2 times", "a column has an empty name")


UNSTORABLE = [
    pa.list_view(pa.int8()),
    pa.sparse_union([pa.field("a", pa.int8())]),
    pa.run_end_encoded(pa.int16(), pa.int8()),
]


@pytest.mark.parametrize("kind", UNSTORABLE, ids=str)
def test_a_nested_type_that_lance_does_not_store_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="cannot be stored"):
        NamespaceSchema.assign(pa.schema([("a", kind)]))


@given(st.lists(st.text(min_size=1, max_size=3), unique=True, max_size=5))
def test_ids_are_the_numbers_from_0_on(names: list[str]) -> None:
    schema = NamespaceSchema.assign(pa.schema([(name, pa.int8()) for name in names]))
    assert schema.ids == {name: number for number, name in enumerate(names)}
    assert NamespaceSchema.from_json(schema.to_json()) == schema
