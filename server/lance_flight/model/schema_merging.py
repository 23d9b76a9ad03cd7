"""Schemas of two branches merged: what each has changed since they were the same, as far as they have not changed one column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from lance_flight.model.schema import NamespaceSchema

Columns = Mapping[int, pa.Field]


def merged(base: NamespaceSchema, main: NamespaceSchema, branch: NamespaceSchema) -> NamespaceSchema:
    """Return `main` with what `branch` has changed since `base`, itself where that is nothing.

    New columns of the branch come last. Only for schemas without `merge_problems`.
    """
    old, mine, theirs = _columns(base), _columns(main), _columns(branch)
    kept = [_chosen(old.get(number), field, theirs.get(number)) for number, field in mine.items()]
    added = [field for number, field in theirs.items() if number not in mine and number not in old]
    fields = [field for field in [*kept, *added] if field is not None]
    after = replace(main, arrow=pa.schema(fields, main.arrow.metadata))
    if after.has_columns_of(main):
        return main
    newest, other = sorted((main, branch), key=lambda schema: -schema.version)
    return replace(after, next_field_id=max(main.next_field_id, other.next_field_id)).after(newest)


def merge_problems(base: NamespaceSchema, main: NamespaceSchema, branch: NamespaceSchema) -> Iterator[str]:
    """Yield the columns that keep two schemas from being merged: those that both have changed, or called the same."""
    old, mine, theirs = _columns(base), _columns(main), _columns(branch)
    for number in dict.fromkeys([*old, *mine, *theirs]):
        before, here, there = (columns.get(number) for columns in (old, mine, theirs))
        if not (_same(here, there) or _same(before, here) or _same(before, there)):
            shown = " and ".join("dropped" if each is None else _shown(each) for each in (here, there))
            name = next(each.name for each in (before, here, there) if each is not None)
            yield f"both have changed column {name!r}: it is {shown}"
            return
    names = [field.name for field in merged(base, main, branch).arrow]
    yield from (f"both have a column {name!r} of their own" for name in dict.fromkeys(names) if names.count(name) > 1)
    if not names:
        yield "together they have dropped all columns"


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


def _chosen(old: pa.Field | None, main: pa.Field, branch: pa.Field | None) -> pa.Field | None:
    """Return a column of main as the branch has it where only the branch has changed it; None where that dropped it."""
    return branch if old is not None and _same(old, main) else main


def _columns(schema: NamespaceSchema) -> Columns:
    return {schema.ids[field.name]: field for field in schema.arrow}


def _same(one: pa.Field | None, other: pa.Field | None) -> bool:
    return one is other if one is None or other is None else bool(one.equals(other, check_metadata=True))


def _shown(field: pa.Field) -> str:
    return f"{field.name!r} {field.type}{' NOT NULL' * (not field.nullable)}"
