"""JsonArrow schemas and the text of exact types: the spec's example, stock Lance's dialect, and every Arrow type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.namespace import DirectoryNamespace
from lance_flight.errors import SchemaError
from lance_flight.model.arrow_json import (
    field_from_json,
    field_to_json,
    schema_from_json,
    schema_to_json,
    type_from_json,
    type_from_text,
    type_to_json,
    type_to_text,
)
from lance_namespace_urllib3_client.models import JsonArrowSchema

from tests.examples import examples

APPENDIX_A = json.loads((Path(__file__).parent / "data" / "appendix_a_metadata.json").read_text())


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# The spec's example


def test_the_schema_of_appendix_a_is_read_as_arrow() -> None:
    expected = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"lance:field_id": "0"}),
            pa.field("event_date", pa.date32(), metadata={"lance:field_id": "1"}),
            pa.field("country", pa.utf8(), metadata={"lance:field_id": "2"}),
        ]
    )
    assert schema_from_json(APPENDIX_A["schema"]).equals(expected, check_metadata=True)


def test_the_schema_of_appendix_a_is_written_back_byte_for_byte() -> None:
    assert compact(schema_to_json(schema_from_json(APPENDIX_A["schema"]))) == compact(APPENDIX_A["schema"])


# What stock Lance writes

ITEM = {"name": "item", "nullable": True, "type": {"type": "int32"}}
ENTRIES = {
    "name": "entries",
    "nullable": False,
    "type": {
        "type": "struct",
        "fields": [
            {"name": "key", "nullable": False, "type": {"type": "utf8"}},
            {"name": "value", "nullable": True, "type": {"type": "int32"}},
        ],
    },
}
SAME: dict[str, tuple[pa.DataType, dict[str, Any]]] = {
    "null": (pa.null(), {"type": "null"}),
    "bool": (pa.bool_(), {"type": "bool"}),
    "int8": (pa.int8(), {"type": "int8"}),
    "uint8": (pa.uint8(), {"type": "uint8"}),
    "int16": (pa.int16(), {"type": "int16"}),
    "uint16": (pa.uint16(), {"type": "uint16"}),
    "int32": (pa.int32(), {"type": "int32"}),
    "uint32": (pa.uint32(), {"type": "uint32"}),
    "int64": (pa.int64(), {"type": "int64"}),
    "uint64": (pa.uint64(), {"type": "uint64"}),
    "float16": (pa.float16(), {"type": "float16"}),
    "float32": (pa.float32(), {"type": "float32"}),
    "float64": (pa.float64(), {"type": "float64"}),
    "date32": (pa.date32(), {"type": "date32"}),
    "date64": (pa.date64(), {"type": "date64"}),
    "utf8": (pa.utf8(), {"type": "utf8"}),
    "large_utf8": (pa.large_utf8(), {"type": "large_utf8"}),
    "binary": (pa.binary(), {"type": "binary"}),
    "large_binary": (pa.large_binary(), {"type": "large_binary"}),
    "fixed_size_binary": (pa.binary(4), {"type": "fixed_size_binary", "length": 4}),
    "timestamp of microseconds without zone": (pa.timestamp("us"), {"type": "timestamp"}),
    "time32 of seconds": (pa.time32("s"), {"type": "time32"}),
    "time64 of microseconds": (pa.time64("us"), {"type": "time64"}),
    "duration of microseconds": (pa.duration("us"), {"type": "duration"}),
    "decimal128": (pa.decimal128(10, 2), {"type": "decimal128", "length": 10002}),
    "decimal128 of negative scale": (pa.decimal128(10, -2), {"type": "decimal128", "length": 9998}),
    "decimal256": (pa.decimal256(50, 3), {"type": "decimal256", "length": 50003}),
    "list": (pa.list_(pa.int32()), {"type": "list", "fields": [ITEM]}),
    "large_list": (pa.large_list(pa.int32()), {"type": "large_list", "fields": [ITEM]}),
    "fixed_size_list": (pa.list_(pa.int32(), 4), {"type": "fixed_size_list", "fields": [ITEM], "length": 4}),
    "struct": (
        pa.struct([pa.field("x", pa.int32(), nullable=False, metadata={"k": "v"})]),
        {
            "type": "struct",
            "fields": [{"name": "x", "nullable": False, "type": {"type": "int32"}, "metadata": {"k": "v"}}],
        },
    ),
    "map": (pa.map_(pa.utf8(), pa.int32()), {"type": "map", "fields": [ENTRIES]}),
}
# Types that stock code turns into another or says less about, with the exact text that we keep beside.
LESS: dict[str, tuple[pa.DataType, dict[str, Any], str]] = {
    "timestamp with zone": (pa.timestamp("ns", "UTC"), {"type": "timestamp"}, "timestamp[ns, tz=UTC]"),
    "timestamp of seconds": (pa.timestamp("s"), {"type": "timestamp"}, "timestamp[s]"),
    "time32 of milliseconds": (pa.time32("ms"), {"type": "time32"}, "time32[ms]"),
    "time64 of nanoseconds": (pa.time64("ns"), {"type": "time64"}, "time64[ns]"),
    "duration of milliseconds": (pa.duration("ms"), {"type": "duration"}, "duration[ms]"),
    "dictionary": (pa.dictionary(pa.int32(), pa.utf8()), {"type": "utf8"}, "dictionary<indices: int32, values: utf8>"),
    "string view": (pa.string_view(), {"type": "utf8"}, "utf8_view"),
}
# Types that Lance has no storage for.
UNSTORED: dict[str, tuple[pa.DataType, dict[str, Any], str | None]] = {
    "decimal32": (pa.decimal32(5, 1), {"type": "decimal32", "length": 5001}, None),
    "decimal64": (pa.decimal64(18, 1), {"type": "decimal64", "length": 18001}, None),
    "interval": (pa.month_day_nano_interval(), {"type": "interval"}, None),
    "empty struct": (pa.struct([]), {"type": "struct", "fields": []}, None),
    "binary of length 0": (pa.binary(0), {"type": "fixed_size_binary", "length": 0}, None),
    "ordered dictionary": (
        pa.dictionary(pa.int8(), pa.int64(), ordered=True),
        {"type": "int64"},
        "dictionary[ordered]<indices: int8, values: int64>",
    ),
    "binary view": (pa.binary_view(), {"type": "binary"}, "binary_view"),
    "list view": (pa.list_view(pa.int32()), {"type": "list", "fields": [ITEM]}, "list_view<item: int32>"),
    "large list view": (
        pa.large_list_view(pa.int32()),
        {"type": "large_list", "fields": [ITEM]},
        "large_list_view<item: int32>",
    ),
    "sorted map": (
        pa.map_(pa.utf8(), pa.int32(), keys_sorted=True),
        {"type": "map", "fields": [ENTRIES]},
        "map[keys_sorted]<key: utf8 not null, value: int32>",
    ),
    "run-end encoding": (
        pa.run_end_encoded(pa.int16(), pa.utf8()),
        {"type": "utf8"},
        "run_end_encoded<run_ends: int16 not null, values: utf8>",
    ),
    "union": (pa.sparse_union([pa.field("item", pa.int32())]), {"type": "union", "fields": [ITEM]}, None),
    "dense union": (
        pa.dense_union([pa.field("item", pa.int32())], [5]),
        {"type": "union", "fields": [ITEM]},
        "dense_union[5]<item: int32>",
    ),
}
EVERY: dict[str, tuple[pa.DataType, dict[str, Any], str | None]] = {
    **{name: (*row, None) for name, row in SAME.items()},
    **LESS,
    **UNSTORED,
}


@pytest.mark.parametrize("name", EVERY)
def test_a_type_is_written_in_the_stock_form(name: str) -> None:
    kind, expected, _ = EVERY[name]
    assert compact(type_to_json(kind)) == compact(expected)


@pytest.mark.parametrize("name", EVERY)
def test_the_exact_type_stands_beside_where_and_only_where_the_stock_form_loses_something(name: str) -> None:
    kind, _, text = EVERY[name]
    written = field_to_json(pa.field("c", kind, metadata={"k": "v"}))
    assert written["metadata"] == {"k": "v"} | ({"lance_flight:arrow_type": text} if text else {})


@pytest.mark.parametrize("name", SAME)
def test_a_stock_form_is_read_as_the_type_it_came_from(name: str) -> None:
    kind, stock = SAME[name]
    assert type_from_json(stock).equals(kind, check_metadata=True)


def test_stock_lance_describes_its_tables_in_the_forms_that_we_write(tmp_path: Path) -> None:
    kinds = {name.replace(" ", "_"): row[:2] for name, row in (SAME | LESS).items()}  # type: ignore[operator]
    schema = pa.schema([(name, kind) for name, (kind, _) in kinds.items()], {"about": "everything"})
    lance.write_dataset(pa.table([pa.nulls(1, kind) for kind in schema.types], schema), tmp_path / "t.lance")
    request = lance_namespace.DescribeTableRequest(id=["t"], load_detailed_metadata=True)
    described = DirectoryNamespace(root=str(tmp_path)).describe_table(request).var_schema.to_dict()
    types = {field["name"]: field["type"] for field in described["fields"]}
    assert types == {name: stock for name, (_, stock) in kinds.items()}
    assert described["metadata"] == {"about": "everything"}
    assert schema_from_json(described).names == schema.names


# What others write

DIALECTS = {
    "timestamp[us, tz=UTC]": pa.timestamp("us", "UTC"),
    "timestamp[us,tz=UTC]": pa.timestamp("us", "UTC"),
    "timestamp[tz=UTC]": pa.timestamp("us", "UTC"),
    "timestamp[ns]": pa.timestamp("ns"),
    "Timestamp[MS, tz=America/New_York]": pa.timestamp("ms", "America/New_York"),
    "timestamp[s, tz=+05:30]": pa.timestamp("s", "+05:30"),
    "decimal(10, 2)": pa.decimal128(10, 2),
    "decimal(50, 2)": pa.decimal256(50, 2),
    "decimal128(9,2)": pa.decimal128(9, 2),
    "decimal128[9, -2]": pa.decimal128(9, -2),
    "DECIMAL256(9, 2)": pa.decimal256(9, 2),
    "boolean": pa.bool_(),
    "Boolean": pa.bool_(),
    "UTF8": pa.utf8(),
    "Utf8": pa.utf8(),
    "string": pa.utf8(),
    "LargeUtf8": pa.large_utf8(),
    "large_string": pa.large_utf8(),
    "largebinary": pa.large_binary(),
    "fixedsizebinary[16]": pa.binary(16),
    "fixed_size_binary[16]": pa.binary(16),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date32[day]": pa.date32(),
    "date64[ms]": pa.date64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "time32[ms]": pa.time32("ms"),
    "duration[ns]": pa.duration("ns"),
    "list<item: int32>": pa.list_(pa.int32()),
    "struct< a : int8 not null , b : list < item : utf8 > >": pa.struct(
        [
            pa.field("a", pa.int8(), nullable=False),
            pa.field("b", pa.list_(pa.utf8())),
        ]
    ),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_a_type_name_of_another_dialect_is_understood(name: str) -> None:
    assert type_from_json({"type": name, "fields": None, "length": None}).equals(DIALECTS[name], check_metadata=True)


def test_lengths_and_children_belong_to_names_in_any_case_too() -> None:
    assert type_from_json({"type": "FixedSizeBinary", "length": 16}) == pa.binary(16)
    assert type_from_json({"type": "Decimal", "length": 10002}) == pa.decimal128(10, 2)
    assert type_from_json({"type": "FixedSizeList", "length": 3, "fields": [ITEM]}) == pa.list_(pa.int32(), 3)
    assert type_from_json({"type": "LARGE_LIST", "fields": [ITEM]}) == pa.large_list(pa.int32())


def test_the_keys_of_a_map_are_never_null_whatever_its_json_says() -> None:
    fields = [{"name": name, "type": {"type": "int8"}} for name in ("key", "value")]
    entries = {"name": "entries", "type": {"type": "struct", "fields": fields}}
    assert type_from_json({"type": "map", "fields": [entries]}).equals(
        pa.map_(pa.int8(), pa.int8()), check_metadata=True
    )


def test_missing_and_null_members_read_alike() -> None:
    least = {"name": "a", "type": {"type": "int8"}}
    nulls = {"name": "a", "nullable": None, "type": {"type": "int8", "fields": None, "length": None}, "metadata": None}
    for value in (least, nulls):
        assert field_from_json(value).equals(pa.field("a", pa.int8()), check_metadata=True)
    assert schema_from_json({"fields": [], "metadata": None}) == pa.schema([])


def test_nothing_absent_is_written_as_null() -> None:
    written = schema_to_json(pa.schema([pa.field("a", pa.list_(pa.int8()))]))
    assert "null" not in compact(written).replace('"nullable"', "")
    assert "metadata" not in compact(written)


# The exact type


def test_the_exact_type_is_preferred_and_leaves_the_metadata() -> None:
    value = {
        "name": "at",
        "nullable": False,
        "type": {"type": "timestamp"},
        "metadata": {"lance:field_id": "3", "lance_flight:arrow_type": "timestamp[ns, tz=Europe/Paris]"},
    }
    expected = pa.field("at", pa.timestamp("ns", "Europe/Paris"), nullable=False, metadata={"lance:field_id": "3"})
    assert field_from_json(value).equals(expected, check_metadata=True)
    assert field_to_json(expected) == value


def test_an_exact_type_that_a_field_already_carries_is_written_anew() -> None:
    field = pa.field("a", pa.int8(), metadata={"lance_flight:arrow_type": "timestamp[ns]"})
    assert "metadata" not in field_to_json(field)


def test_an_exact_type_beside_the_name_of_another_dialect_is_preferred() -> None:
    value = {
        "name": "at",
        "type": {"type": "timestamp[us, tz=UTC]"},
        "metadata": {"lance_flight:arrow_type": "timestamp[ns, tz=UTC]"},
    }
    assert field_from_json(value).type == pa.timestamp("ns", "UTC")


@pytest.mark.parametrize(
    ("stock", "text", "shown"),
    [
        ({"type": "int64"}, "timestamp[ns]", "int64"),
        ({"type": "utf8"}, "dictionary<indices: int8, values: int64>", "utf8"),
        ({"type": "decimal128", "length": 9002}, "decimal128[10, 2]", "decimal128[9, 2]"),
    ],
    ids=str,
)
def test_an_exact_type_that_contradicts_the_type_beside_it_is_refused(
    stock: dict[str, Any], text: str, shown: str
) -> None:
    value = {"name": "a", "type": stock, "metadata": {"lance_flight:arrow_type": text}}
    with pytest.raises(SchemaError) as raised:
        field_from_json(value)
    assert raised.value.problems == (f"metadata: lance_flight:arrow_type is {text!r}, which is no {shown}",)


def test_an_exact_type_that_is_none_is_refused() -> None:
    value = {"name": "a", "type": {"type": "int8"}, "metadata": {"lance_flight:arrow_type": "int46"}}
    with pytest.raises(SchemaError) as raised:
        field_from_json(value)
    assert raised.value.problems == ("metadata: unknown type 'int46'",)


def test_field_ids_inside_a_type_that_json_cannot_say_survive() -> None:
    item = pa.field("item", pa.int8(), metadata={"lance:field_id": "7"})
    field = pa.field("a", pa.list_view(item))
    assert field_from_json(field_to_json(field)).equals(field, check_metadata=True)


EXTENSIONS = {"uuid": pa.uuid(), "json": pa.json_(), "list of uuids": pa.list_(pa.uuid())}


@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_type_is_written_as_arrow_does_and_read_back(name: str) -> None:
    field = pa.field("a", EXTENSIONS[name], metadata={"k": "v"})
    assert field_from_json(field_to_json(field)).equals(field, check_metadata=True)


def test_an_unknown_extension_type_stays_its_storage_type_with_its_metadata() -> None:
    metadata = {"ARROW:extension:name": "acme.colour", "ARROW:extension:metadata": "rgb"}
    field = pa.field("a", pa.int32(), metadata=metadata)
    assert field_from_json(field_to_json(field)).equals(field, check_metadata=True)


def test_a_uuid_looks_to_others_like_a_field_of_its_storage_type() -> None:
    assert field_to_json(pa.field("a", pa.uuid())) == {
        "name": "a",
        "nullable": True,
        "type": {"type": "fixed_size_binary", "length": 16},
        "metadata": {"ARROW:extension:name": "arrow.uuid"},
    }


# Every Arrow type

METADATA = st.none() | st.dictionaries(st.text(min_size=1, max_size=3), st.text(max_size=3), min_size=1, max_size=2)
ZONE = st.none() | st.sampled_from(["UTC", "America/New_York", "+01:00", 'odd]zone, "x"', "Ж"])


def fields_of(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.Field]:
    names = st.sampled_from(["item", "a", "not null", "x<y>", 'q"', ""]) | st.text(max_size=4)
    nullable = st.booleans()
    return st.builds(lambda n, t, b, m: pa.field(n, t, b or t == pa.null(), m), names, types, nullable, METADATA)


def decimals(make: Any, digits: int) -> st.SearchStrategy[pa.DataType]:
    return st.builds(make, st.integers(1, digits), st.integers(-9, 9))


LEAVES = st.deferred(
    lambda: st.one_of(
        st.sampled_from([row[0] for row in EVERY.values() if not pa.types.is_nested(row[0])]),
        st.builds(pa.timestamp, st.sampled_from(["s", "ms", "us", "ns"]), ZONE),
        st.builds(pa.binary, st.integers(0, 2**31 - 1)),
        decimals(pa.decimal32, 9),
        decimals(pa.decimal64, 18),
        decimals(pa.decimal128, 38),
        decimals(pa.decimal256, 76),
    )
)


def nested(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    field = fields_of(types)
    key = field.filter(lambda one: one.type != pa.null()).map(lambda one: one.with_nullable(nullable=False))
    some = st.lists(field, min_size=1, max_size=3)
    codes = st.sampled_from([None, [5, 0, 127]])
    return st.one_of(
        st.sampled_from([pa.list_, pa.large_list, pa.list_view, pa.large_list_view]).flatmap(
            lambda f: st.builds(f, field)
        ),
        st.builds(pa.list_, field, st.integers(0, 2**31 - 1)),
        st.builds(pa.struct, st.lists(field, max_size=3)),
        st.builds(pa.map_, key, field, st.booleans()),
        st.builds(pa.dictionary, st.sampled_from([pa.int8(), pa.int64(), pa.uint16()]), types, st.booleans()),
        st.builds(pa.run_end_encoded, st.sampled_from([pa.int16(), pa.int32(), pa.int64()]), types),
        *(
            st.builds(lambda f, of, c: f(of, c and c[: len(of)]), st.just(make), some, codes)
            for make in (pa.sparse_union, pa.dense_union)
        ),
    )


TYPES = st.deferred(lambda: st.recursive(LEAVES, nested, max_leaves=6))


@given(TYPES)
@examples(100)
def test_every_type_is_read_back_from_its_text(kind: pa.DataType) -> None:
    assert type_from_text(type_to_text(kind)).equals(kind, check_metadata=True)


FIELDS = st.deferred(lambda: st.lists(fields_of(TYPES), max_size=3))


@given(FIELDS, METADATA)
@examples(100)
def test_every_schema_is_read_back_from_its_json(fields: list[pa.Field], metadata: dict[str, str] | None) -> None:
    schema = pa.schema(fields, metadata)
    written = schema_to_json(schema)
    assert schema_from_json(json.loads(compact(written))).equals(schema, check_metadata=True)


@given(TYPES)
@examples(50)
def test_what_is_written_is_what_a_client_of_stock_lance_accepts(kind: pa.DataType) -> None:
    written = schema_to_json(pa.schema([pa.field("a", kind)]))
    assert JsonArrowSchema.from_dict(written).to_dict() is not None


@given(st.text(max_size=30) | st.from_regex(r"(list|struct|timestamp|decimal)[\[(<][a-z0-9:, =]*[\])>]"))
@examples(100)
def test_any_text_is_a_type_or_a_clear_refusal(text: str) -> None:
    try:
        kind = type_from_text(text)
    except SchemaError:
        return
    assert type_from_text(type_to_text(kind)).equals(kind, check_metadata=True)


# Problems

BAD_TYPES = {
    "": "'' is not a type: expected a name or value at character 0",
    "int46": "unknown type 'int46'",
    "int8[3]": "int8[3] is no type; expected int8",
    "int8 x": "'int8 x' is not a type: expected the end at character 5",
    "timestamp[fs]": "timestamp[fs] is no type; expected timestamp[unit, tz=zone]",
    "timestamp[us, ns]": "timestamp[us, ns] is no type; expected timestamp[unit, tz=zone]",
    "timestamp[us": "'timestamp[us' is not a type: expected ',' or ']' at character 12",
    "time32[ns]": "time32[ns] is no type; expected time32[s or ms]",
    "decimal": "decimal is no type; expected decimal[precision, scale]",
    "decimal(99, 1)": "decimal[99, 1] is no type; expected decimal[precision, scale]",
    "decimal128(39, 1)": "decimal128[39, 1] is no type; expected decimal128[precision from 1 to 38, scale]",
    "fixed_size_binary": "fixed_size_binary is no type; expected fixed_size_binary[length]",
    "fixed_size_binary[-1]": "fixed_size_binary[-1] is no type; expected fixed_size_binary[length]",
    "fixed_size_list<a: int8>": "fixed_size_list of 1 fields is no type; expected fixed_size_list[length]<one field>",
    "list": "list is no type; expected list<one field>",
    "list[3]<a: int8>": "list[3] of 1 fields is no type; expected list<one field>",
    "list<a: int8, b: int8>": "list of 2 fields is no type; expected list<one field>",
    "struct<a>": "'struct<a>' is not a type: expected ':' at character 8",
    'list<"a: int8>': "'list<\"a: int8>' is not a type: expected JSON at character 5",
    "map<a: int8>": "map of 1 fields is no type; expected map<key, value> or map[keys_sorted]<key, value>",
}


@pytest.mark.parametrize("text", BAD_TYPES)
def test_a_name_that_is_no_type_is_named_with_what_was_expected(text: str) -> None:
    with pytest.raises(SchemaError) as raised:
        type_from_json({"type": text})
    assert raised.value.problems == (BAD_TYPES[text],)


def test_every_problem_of_a_schema_is_listed_with_its_place() -> None:
    deep = {"name": "x", "type": {"type": "list", "fields": [{"name": "y", "type": {"type": "int46"}}]}}
    with pytest.raises(SchemaError) as raised:
        schema_from_json(
            {
                "fields": [
                    {"name": "ok", "nullable": False, "type": {"type": "int8"}},
                    {
                        "name": 1,
                        "nullable": "yes",
                        "type": {"type": "int46", "length": "3"},
                        "metadata": {"k": 1, "l": None},
                    },
                    {"name": "s", "type": {"type": "struct", "fields": [deep, 3, {}]}},
                    {"name": "t", "type": "int8"},
                    {"name": "u", "type": {"type": "list", "fields": {}}, "metadata": []},
                    {
                        "name": "v",
                        "type": {"type": "int8", "length": True},
                        "metadata": {"lance_flight:arrow_type": "int46"},
                    },
                ],
                "metadata": "none",
            }
        )
    assert raised.value.problems == (
        "fields[1].name: 1 is not a string",
        "fields[1].nullable: 'yes' is not true or false",
        "fields[1].type: unknown type 'int46'",
        "fields[1].type.length: '3' is not an integer",
        "fields[1].metadata: k: 1 is not a string",
        "fields[1].metadata: l: None is not a string",
        "fields[2].type.fields[0].type.fields[0].type: unknown type 'int46'",
        "fields[2].type.fields[1]: 3 is not an object",
        "fields[2].type.fields[2].name: None is not a string",
        "fields[2].type.fields[2].type: None is not an object with a type name under 'type'",
        "fields[3].type: 'int8' is not an object with a type name under 'type'",
        "fields[4].type.fields: {} is not an array",
        "fields[4].metadata: [] is not an object",
        "fields[5].type.length: True is not an integer",
        "metadata: 'none' is not an object",
    )


def test_a_field_of_the_null_type_must_be_nullable() -> None:
    with pytest.raises(SchemaError) as raised:
        schema_from_json({"fields": [{"name": "a", "nullable": False, "type": {"type": "null"}}]})
    assert raised.value.problems == ("fields[0].nullable: a field of the null type cannot be without nulls",)
    with pytest.raises(SchemaError, match="null type"):
        type_from_text("struct<a: null not null>")


@pytest.mark.parametrize("value", [None, [], "x", 3], ids=str)
def test_what_is_no_object_is_no_schema_and_no_field_and_no_type(value: Any) -> None:
    for read in (schema_from_json, field_from_json, type_from_json):
        with pytest.raises(SchemaError, match="is not an object"):
            read(value)


def test_a_schema_without_fields_is_refused() -> None:
    with pytest.raises(SchemaError, match="fields: None is not an array"):
        schema_from_json({"metadata": {}})


def test_metadata_that_json_cannot_hold_is_refused_wherever_it_stands() -> None:
    bad = {b"k": b"\xff"}
    inner = pa.list_(pa.field("item", pa.int8(), metadata=bad))
    with pytest.raises(SchemaError) as raised:
        schema_to_json(pa.schema([pa.field("a", pa.int8(), metadata=bad), pa.field("b", inner)], bad))
    places = [problem.partition(": ")[0] for problem in raised.value.problems]
    assert places == ["fields[0].metadata", "fields[1].type.fields[0].metadata", "metadata"]
