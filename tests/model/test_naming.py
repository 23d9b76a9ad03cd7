"""Names of namespaces, columns and directories (Physical Layout and Naming, Appendices B and C), and the pins that the spec allows."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.catalog.manifests.snapshot import BranchVersion, Latest, Pin, Tag, Version, pin_from_columns
from lance_flight.errors import Corrupt, InvalidInput
from lance_flight.model.naming import (
    MANIFEST,
    TABLE,
    check_directory_name,
    check_sql_name,
    directory_name,
    namespace_name,
    new_key,
    object_id,
    partition_column,
    spec_id_of,
    spec_namespace,
)

DATA = Path(__file__).parent / "data"
LAYOUT = json.loads((DATA / "appendix_b_layout.json").read_text())
ROWS = json.loads((DATA / "appendix_c_manifest.json").read_text())
KEY = bytes(range(32))


def test_the_manifest_and_the_tables_have_the_names_of_appendix_b() -> None:
    assert f"├── {MANIFEST}/" in LAYOUT["tree"][2]
    assert TABLE == "dataset"


@pytest.mark.parametrize("table", LAYOUT["tables"], ids=lambda table: table["directory"])
def test_a_table_of_appendix_b_lies_under_its_spec_and_in_a_directory_that_ends_in_its_object_id(
    table: dict[str, Any],
) -> None:
    path = table["object_id"].split("$")
    assert any(f"── {table['directory']}/" in line for line in LAYOUT["tree"])
    assert object_id(path) == table["object_id"]
    assert path[0] == spec_namespace(table["spec_id"])
    assert spec_id_of(table["object_id"]) == table["spec_id"]
    assert re.fullmatch(r"[0-9a-f]{8}_" + re.escape(table["object_id"]), table["directory"])


def test_a_new_directory_has_the_form_of_appendix_b_and_no_name_twice() -> None:
    name = LAYOUT["tables"][0]["object_id"]
    made = {directory_name(name) for _ in range(50)}
    assert len(made) == 50
    assert all(re.fullmatch(r"[0-9a-f]{8}_" + re.escape(name), each) for each in made)


def test_the_columns_of_appendix_c_are_named_after_their_fields() -> None:
    columns = [partition_column(name) for name in ("event_date", "event_year", "country")]
    assert columns == ROWS["columns"][-3:]


@pytest.mark.parametrize("row", ROWS["rows"], ids=lambda row: row["object_id"])
def test_every_object_id_of_appendix_c_tells_its_spec_version(row: dict[str, Any]) -> None:
    assert spec_id_of(row["object_id"]) == (1 if row["object_id"].startswith("v1") else 2)


@pytest.mark.parametrize("name", ["", "v", "v0", "v01", "V1", "v1x", "x$v1", "v-1", "v1.5", " v1", "v1\n", "other$v1"])
def test_what_is_not_under_a_spec_version_has_none(name: str) -> None:
    assert spec_id_of(name) is None


@given(st.integers(1, 2**31))
def test_the_namespace_of_a_spec_is_found_again(number: int) -> None:
    assert spec_id_of(spec_namespace(number)) == number
    assert spec_id_of(object_id([spec_namespace(number), "a", TABLE])) == number


# Partition namespaces

VALUES: dict[str, pa.Scalar] = {
    "date": pa.scalar(date(2025, 12, 10)),
    "another date": pa.scalar(date(2025, 12, 11)),
    "null date": pa.scalar(None, pa.date32()),
    "number": pa.scalar(1, pa.int32()),
    "wider number": pa.scalar(1, pa.int64()),
    "bool": pa.scalar(True),
    "text of a number": pa.scalar("1"),
    "bytes of a number": pa.scalar(b"1"),
    "fixed bytes": pa.scalar(b"1", pa.binary(1)),
    "empty text": pa.scalar(""),
    "empty bytes": pa.scalar(b""),
    "large text": pa.scalar("1", pa.large_utf8()),
    "reserved": pa.scalar("v1$a/b=c é😀"),
    "text that looks like null": pa.scalar("null"),
    "float": pa.scalar(1.0),
    "float32": pa.scalar(1.0, pa.float32()),
    "half": pa.scalar(1.0, pa.float16()),
    "nan": pa.scalar(math.nan),
    "infinity": pa.scalar(math.inf),
    "decimal": pa.scalar(Decimal("1.00"), pa.decimal128(9, 2)),
    "decimal of another scale": pa.scalar(Decimal("1.000"), pa.decimal128(9, 3)),
    "instant": pa.scalar(datetime(2025, 12, 10, tzinfo=UTC)),
    "wall clock": pa.scalar(datetime(2025, 12, 10)),
    "nanosecond": pa.scalar(1, pa.int64()).cast(pa.timestamp("ns")),
    "time": pa.scalar(time(1, 2, 3)),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_partition_name_is_16_characters_of_base36(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9]{16}", namespace_name(KEY, 1, [VALUES[name]]))


def test_different_values_have_different_names() -> None:
    names = {name: namespace_name(KEY, 1, [value]) for name, value in VALUES.items()}
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize("name", VALUES)
def test_two_writers_of_one_partition_choose_one_name(name: str) -> None:
    value = VALUES[name]
    again = pa.array([value.as_py()], value.type)[0] if name != "nanosecond" else pa.array([1]).view(value.type)[0]
    assert namespace_name(KEY, 1, [value]) == namespace_name(bytes(KEY), 1, (again,))


def test_without_the_key_a_name_says_nothing() -> None:
    value = VALUES["date"]
    assert len({namespace_name(new_key(), 1, [value]) for _ in range(20)}) == 20
    assert len(new_key()) == 32


def test_the_spec_and_every_level_above_take_part_in_a_name() -> None:
    a, b, null = pa.scalar("a"), pa.scalar("b"), pa.scalar(None, pa.utf8())
    paths = [(1, [a]), (2, [a]), (1, [a, b]), (1, [b, a]), (1, [b]), (1, [a, null]), (1, [null, a]), (1, [])]
    assert len({namespace_name(KEY, spec, values) for spec, values in paths}) == len(paths)


def test_the_border_between_two_values_takes_part_in_a_name() -> None:
    pairs = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")]
    assert len({namespace_name(KEY, 1, [pa.scalar(x), pa.scalar(y)]) for x, y in pairs}) == 4


def test_names_never_change() -> None:
    """Namespaces that exist were named so: another name for their values would make a second partition."""
    assert namespace_name(KEY, 1, [VALUES["date"]]) == "p30oc72ip9siz40a"
    assert namespace_name(KEY, 2, [pa.scalar(2025, pa.int32()), pa.scalar("US")]) == "pa628l38h61kra03"


@given(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(["", "a", "b", None])), max_size=3, unique=True))
def test_no_two_paths_share_a_name(paths: list[tuple[int, str | None]]) -> None:
    def named(number: int, text: str | None) -> str:
        return namespace_name(KEY, 1, [pa.scalar(number, pa.int32()), pa.scalar(text, pa.utf8())])

    assert len({named(*path) for path in paths}) == len(paths)


# Names in SQL


@pytest.mark.parametrize("name", ["a", "A1", "_x", "flights_2025"])
def test_a_plain_name_may_be_created(name: str) -> None:
    assert check_sql_name("index", name) == name
    assert check_directory_name("table", name) == name


@pytest.mark.parametrize("name", ["", "1a", "a b", "a$b", "a.b", "é", "a\n", "__manifest/", "a-b"])
def test_any_other_name_of_an_index_is_refused_with_its_kind(name: str) -> None:
    with pytest.raises(InvalidInput, match="index name") as raised:
        check_sql_name("index", name)
    assert repr(name) in str(raised.value)


@pytest.mark.parametrize(
    "name",
    ["Sales 2024", "naïve-τ", "#x", "select", "100%", "a%20b", 'say "x"', "it's", "a?*[b]:c", "~", "🦆", "x" * 200],
)
def test_a_directory_may_have_any_text_for_a_name(name: str) -> None:
    assert check_directory_name("table", name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("", "it is empty", id="empty"),
        pytest.param("a/b", "it has '/'; expected none of", id="a path"),
        pytest.param("..", "it has '.'", id="the directory above"),
        pytest.param("a\\b", "it has '", id="a path of Windows"),
        pytest.param("a@b", "it has '@'", id="a version"),
        pytest.param("a$b", "it has '$'", id="a metadata table"),
        pytest.param("a.b", "it has '.'", id="a schema"),
        pytest.param(" a", "without blanks at its ends", id="a blank before"),
        pytest.param("a\u00a0", "without blanks at its ends", id="a blank that is none of ASCII"),
        pytest.param("a\nb", "control character", id="a line"),
        pytest.param("a\0b", "control character", id="zero"),
        pytest.param("a\u2028b", "control character", id="a line of Unicode"),
        pytest.param("a\ud800", "control character", id="half a character"),
        pytest.param("a%2Fb", "who reads it as a URL finds '/'", id="a path in a URL"),
        pytest.param("%252e%252e", "who reads it as a URL finds '.'", id="the directory above in a URL of a URL"),
        pytest.param("a%00b", "control character", id="zero in a URL"),
        pytest.param("é" * 101, "it has 202 bytes of UTF-8; expected at most 200", id="long"),
        pytest.param("__manifest", "namespaces call their own table", id="the manifest"),
    ],
)
def test_any_other_name_of_a_directory_is_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(InvalidInput, match="schema name") as raised:
        check_directory_name("schema", name)
    assert why in str(raised.value)


FILLED = json.loads((Path(__file__).parent / "data" / "appendix_c_manifest.json").read_text())["rows"]

LEGAL: dict[str, tuple[int | None, str | None, str | None, Pin]] = {
    "nothing": (None, None, None, Latest()),
    "a version": (5, None, None, Version(5)),
    "a branch and a version": (5, "b", None, BranchVersion("b", 5)),
    "a tag": (None, None, "t", Tag("t")),
}
ILLEGAL: dict[str, tuple[int | None, str | None, str | None]] = {
    "a branch": (None, "b", None),
    "a branch and a tag": (None, "b", "t"),
    "a version and a tag": (5, None, "t"),
    "a version, a branch and a tag": (5, "b", "t"),
}


def test_every_combination_is_either_legal_or_not() -> None:
    combinations = [tuple(value is not None for value in row[:3]) for row in [*LEGAL.values(), *ILLEGAL.values()]]
    assert len(set(combinations)) == len(combinations) == 8


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_combination_is_its_pin_and_back(name: str) -> None:
    version, branch, tag, pin = LEGAL[name]
    assert pin_from_columns(version, branch, tag, object_id="v1$x$dataset") == pin
    assert pin.columns == (version, branch, tag)
    assert (pin.columns.read_version, pin.columns.read_branch, pin.columns.read_tag) == (version, branch, tag)


@pytest.mark.parametrize("name", ILLEGAL)
def test_any_other_combination_is_corrupt_and_names_the_row_and_the_values(name: str) -> None:
    version, branch, tag = ILLEGAL[name]
    with pytest.raises(Corrupt) as raised:
        pin_from_columns(version, branch, tag, object_id="v1$x$dataset")
    expected = f"'v1$x$dataset' has read_version={version!r}, read_branch={branch!r}, read_tag={tag!r}"
    assert expected in str(raised.value)


def test_an_empty_name_is_a_name_and_version_0_a_version() -> None:
    assert pin_from_columns(0, None, None, object_id="x") == Version(0)
    assert pin_from_columns(1, "", None, object_id="x") == BranchVersion("", 1)
    assert pin_from_columns(None, None, "", object_id="x") == Tag("")


def test_the_tables_of_appendix_c_are_pinned_to_versions() -> None:
    tables = [row for row in FILLED if row["object_type"] == "table"]
    names = ("read_version", "read_branch", "read_tag")
    pins = [pin_from_columns(*(row[name] for name in names), object_id=row["object_id"]) for row in tables]
    assert pins == [Version(5), Version(3)]
