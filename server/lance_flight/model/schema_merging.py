"""Schemas of two branches merged: what each has changed since they were the same, as far as they have not changed one column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from lance_flight.model.schema import COMMENT, OF_THE_NAMESPACE, NamespaceSchema

T = TypeVar("T")

Columns = Mapping[int, pa.Field]


def merged(base: NamespaceSchema, main: NamespaceSchema, branch: NamespaceSchema) -> NamespaceSchema:
    """Return `main` with what `branch` has changed since `base`, itself where that is nothing.

    New columns of the branch come last. Only for schemas without `merge_problems`.
    """
    old, mine, theirs = _columns(base), _columns(main), _columns(branch)
    kept = [_merged_field(old.get(number), field, theirs.get(number)) for number, field in mine.items()]
    added = [field for number, field in theirs.items() if number not in mine and number not in old]
    comment = _pick(base.comment, main.comment, branch.comment)
    about_table = {key: text for key, text in (main.arrow.metadata or {}).items() if key != COMMENT}
    about_table |= {} if comment is None else {COMMENT: comment.encode()}
    fields = [field for field in [*kept, *added] if field is not None]
    after = replace(main, arrow=pa.schema(fields, about_table or None))
    if after.is_described_as(main):
        return main
    newest, other = sorted((main, branch), key=lambda schema: -schema.version)
    return replace(after, next_field_id=max(main.next_field_id, other.next_field_id)).after(newest)


def merge_problems(base: NamespaceSchema, main: NamespaceSchema, branch: NamespaceSchema) -> Iterator[str]:
    """Yield what keeps two schemas from being merged: what both have changed, and columns of one name."""
    old, mine, theirs = _columns(base), _columns(main), _columns(branch)
    conflicts = []
    for number in dict.fromkeys([*old, *mine, *theirs]):
        before, here, there = (columns.get(number) for columns in (old, mine, theirs))
        if _is_contested(before, here, there):
            shown = " and ".join("dropped" if each is None else _shown(each) for each in (here, there))
            name = next(each.name for each in (before, here, there) if each is not None)
            conflicts.append(f"both have changed column {name!r}: it is {shown}")
    keys = [[schema.ids[name] for name in schema.primary_key] for schema in (base, main, branch)]
    if _differ(*keys):
        conflicts.append("both have changed the primary key")
    if _differ(base.comment, main.comment, branch.comment):
        conflicts.append("both have changed the comment of the table")
    yield from conflicts or _problems(merged(base, main, branch))


def _problems(schema: NamespaceSchema) -> Iterator[str]:
    """Yield what is wrong with a merged schema, whose columns are those of both."""
    names = schema.arrow.names
    yield from (f"both have a column {name!r} of their own" for name in dict.fromkeys(names) if names.count(name) > 1)
    if not names:
        yield "together they have dropped all columns"
    nullable = [name for name in schema.primary_key if schema.arrow.field(name).nullable]
    yield from (f"column {name!r} is in the primary key of one, and may be NULL in the other" for name in nullable)


def stricter(schema: NamespaceSchema, than: NamespaceSchema) -> dict[int, str]:
    """Return the fields that are NOT NULL in a schema where another one lets NULL stand, or gives them no value: their paths by id."""
    defaults = {schema.ids[name] for name in schema.defaults}
    found = {}
    for number, (path, field) in schema.paths.items():
        known = than.paths.get(number)
        lets_null = known[1].nullable if known is not None else number not in defaults
        if not field.nullable and lets_null:
            found[number] = path
    return found


def _merged_field(old: pa.Field | None, main: pa.Field, branch: pa.Field | None) -> pa.Field | None:
    """Return a column of main with what the branch alone has changed of it; None where the branch has dropped it."""
    if old is None or branch is None:
        return branch if _same(old, main) else main
    core = _bare(branch if _same(_bare(old), _bare(main)) else main)
    found = {key: _pick(*((each.metadata or {}).get(key) for each in (old, main, branch))) for key in OF_THE_NAMESPACE}
    kept = {key: value for key, value in found.items() if value is not None}
    return core.with_metadata({**(core.metadata or {}), **kept})


def _is_contested(old: pa.Field | None, main: pa.Field | None, branch: pa.Field | None) -> bool:
    """Return whether both sides have changed a column in the same respect; comments and keys are respects of their own."""
    sides, notes = [old, main, branch], list[bool]()
    if old is not None and main is not None and branch is not None:
        texts = ([(each.metadata or {}).get(key) for each in (old, main, branch)] for key in OF_THE_NAMESPACE)
        sides, notes = [_bare(old), _bare(main), _bare(branch)], [_differ(*each) for each in texts]
    before, here, there = sides
    return any(notes) or not (_same(here, there) or _same(before, here) or _same(before, there))


def _pick(old: T, main: T, branch: T) -> T:
    return branch if old == main else main


def _differ(old: object, main: object, branch: object) -> bool:
    return main not in (old, branch) and old != branch


def _bare(field: pa.Field) -> pa.Field:
    """Return a column without its comment and its place in the primary key."""
    return field.with_metadata({k: v for k, v in (field.metadata or {}).items() if k not in OF_THE_NAMESPACE})


def _columns(schema: NamespaceSchema) -> Columns:
    return {schema.ids[field.name]: field for field in schema.arrow}


def _same(one: pa.Field | None, other: pa.Field | None) -> bool:
    return one is other if one is None or other is None else bool(one.equals(other, check_metadata=True))


def _shown(field: pa.Field) -> str:
    return f"{field.name!r} {field.type}{' NOT NULL' * (not field.nullable)}"
