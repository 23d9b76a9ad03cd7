"""Pins: which of the eight ways to fill three columns the spec allows (Transaction, Read Behavior)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lance_flight.errors import Corrupt
from lance_flight.model.pins import BranchVersion, Latest, Pin, Tag, Version, pin_from_columns

ROWS = json.loads((Path(__file__).parent / "data" / "appendix_c_manifest.json").read_text())["rows"]

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
    tables = [row for row in ROWS if row["object_type"] == "table"]
    names = ("read_version", "read_branch", "read_tag")
    pins = [pin_from_columns(*(row[name] for name in names), object_id=row["object_id"]) for row in tables]
    assert pins == [Version(5), Version(3)]
