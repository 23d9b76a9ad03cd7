"""Schemas of two branches merged by the ids of their columns, and why they cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import pyarrow as pa
import pytest
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.schema_changes import (
    AddColumn,
    CommentOn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetNullable,
    SetPrimaryKey,
    WidenColumn,
    apply_changes,
    merge_problems,
    merge_schemas,
    stricter,
)

BASE = NamespaceSchema.assign(
    pa.schema(
        [
            pa.field("a", pa.int32(), nullable=False),
            pa.field("b", pa.utf8()),
            pa.field("s", pa.struct({"x": pa.int16()})),
        ]
    )
)
Change = Callable[[NamespaceSchema], NamespaceSchema]


def to(*changes: object) -> Change:
    def apply(schema: NamespaceSchema) -> NamespaceSchema:
        return reduce(lambda now, one: one(now) if callable(one) else apply_changes(now, one), changes, schema)  # type: ignore[arg-type]

    return apply


def shown(schema: NamespaceSchema) -> list[str]:
    return [f"{field.name} {field.type}{' !' * (not field.nullable)}" for field in schema.plain]


ADD_C, ADD_D = AddColumn(path=("c",), type=pa.int8()), AddColumn(path=("d",), type=pa.int8())
MERGED = [
    pytest.param(to(), to(), ["a int32 !", "b string", "s struct<x: int16>"], id="nothing"),
    pytest.param(to(ADD_C), to(), ["a int32 !", "b string", "s struct<x: int16>", "c int8"], id="added on main"),
    pytest.param(to(), to(ADD_C), ["a int32 !", "b string", "s struct<x: int16>", "c int8"], id="added on the branch"),
    pytest.param(to(DropColumn(("b",))), to(ADD_C), ["a int32 !", "s struct<x: int16>", "c int8"], id="dropped and added"),
    pytest.param(
        to(RenameColumn(("a",), "n")), to(WidenColumn(("s", "x"), pa.int64())),
        ["n int32 !", "b string", "s struct<x: int64>"], id="two columns",
    ),
    pytest.param(
        to(WidenColumn(("a",), pa.int64())), to(WidenColumn(("a",), pa.int64())),
        ["a int64 !", "b string", "s struct<x: int16>"], id="the same",
    ),
    pytest.param(
        to(CommentOn("a", "main"), SetPrimaryKey(("a",))), to(RenameColumn(("a",), "n"), CommentOn(None, "branch")),
        ["n int32 !", "b string", "s struct<x: int16>"], id="comments and names",
    ),
    pytest.param(
        to(ADD_C), to(MoveColumn(("s",), None), MoveColumn(("a",), "b")),
        ["s struct<x: int16>", "b string", "a int32 !", "c int8"], id="moved on the branch",
    ),
    pytest.param(
        to(MoveColumn(("s",), None)), to(ADD_C), ["s struct<x: int16>", "a int32 !", "b string", "c int8"], id="moved on main"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("main", "branch", "columns"), MERGED)
def test_what_each_has_changed_is_in_the_merged_schema(main: Change, branch: Change, columns: list[str]) -> None:
    here, there = main(BASE), branch(BASE)
    assert list(merge_problems(BASE, here, there)) == []
    found = merge_schemas(BASE, here, there)
    assert shown(found) == columns
    assert found.next_field_id == max(here.next_field_id, there.next_field_id)
    assert found.version > here.version or found is here
    assert merge_schemas(BASE, here, BASE) is here
    assert merge_schemas(there, found, there) is found


def test_comments_and_the_key_come_along() -> None:
    here = to(CommentOn("a", "main"), SetPrimaryKey(("a",)))(BASE)
    there = to(CommentOn("b", "branch"), CommentOn(None, "all"))(BASE)
    found = merge_schemas(BASE, here, there)
    assert (found.comments, found.comment, found.primary_key) == ({"a": "main", "b": "branch"}, "all", ("a",))
    back = merge_schemas(here, here, to(CommentOn("a", None))(here))
    assert (back.comments, back.primary_key) == ({}, ("a",))


PROBLEMS = [
    pytest.param(
        to(RenameColumn(("a",), "m")), to(WidenColumn(("a",), pa.int64())),
        "both have changed column 'a': it is 'm' int32 NOT NULL and 'a' int64 NOT NULL", id="one column",
    ),
    pytest.param(
        to(DropColumn(("b",))), to(RenameColumn(("b",), "m")),
        "both have changed column 'b': it is dropped and 'm' string", id="dropped",
    ),
    pytest.param(to(ADD_C), to(ADD_D), "both have changed column 'c': it is 'c' int8 and 'd' int8", id="one id"),
    pytest.param(
        to(RenameColumn(("a",), "n")), to(RenameColumn(("b",), "n")), "both have a column 'n' of their own", id="one name"
    ),
    pytest.param(to(DropColumn(("a",)), DropColumn(("b",))), to(DropColumn(("s",))), "dropped all columns", id="nothing left"),
    pytest.param(
        to(SetPrimaryKey(("a",))), to(SetNullable(("a",), nullable=True)), "'a' is in the primary key of one", id="nullable key"
    ),
    pytest.param(
        to(SetPrimaryKey(("a",))), to(SetNullable(("b",), nullable=False), SetPrimaryKey(("b",))),
        "both have changed the primary key", id="two keys",
    ),
    pytest.param(to(MoveColumn(("s",), None)), to(MoveColumn(("b",), None)), "both have moved columns", id="two places"),
    pytest.param(to(CommentOn("a", "x")), to(CommentOn("a", "y")), "both have changed column 'a'", id="two comments"),
    pytest.param(to(CommentOn(None, "x")), to(CommentOn(None, "y")), "the comment of the table", id="of the table"),
]  # fmt: skip


@pytest.mark.parametrize(("main", "branch", "problem"), PROBLEMS)
def test_what_both_have_changed_is_named(main: Change, branch: Change, problem: str) -> None:
    (found,) = merge_problems(BASE, main(BASE), branch(BASE))
    assert problem in found


def test_columns_that_must_have_values_are_told() -> None:
    strict = to(SetNullable(("b",), nullable=False), AddColumn(path=("c",), type=pa.int8(), nullable=False))(BASE)
    assert stricter(strict, BASE) == {1: "b", 4: "c"}
    assert stricter(BASE, strict) == {}
    default = to(AddColumn(path=("c",), type=pa.int8(), nullable=False, default="7"))(BASE)
    assert stricter(default, BASE) == {}
    assert stricter(replace(BASE, next_field_id=9), BASE) == {}
