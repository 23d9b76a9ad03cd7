"""A partition table brought to another schema of its namespace, as one more version on top of its pin.

Names, order, nullability and new columns that are NULL cost no data: the fields that stay keep Lance's numbers
(`lance_fields.py`). Columns of another type, and those that are computed, are written anew, the others are not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType
from typing import Self

import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance.schema import LanceSchema

from lance_flight.catalog.evolving.new_columns import NewColumns, SchemaStep
from lance_flight.catalog.evolving.written_columns import WrittenColumns
from lance_flight.catalog.manifests.partition_context import NO_VALUES, IdentityValues
from lance_flight.catalog.manifests.snapshot import PartitionTable
from lance_flight.catalog.storage.lance_fields import (
    Key,
    chosen_numbers,
    field_id,
    least_number,
    numbers,
    renumbered,
    stored_children,
    walk,
    with_numbers,
)
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.schema_adapter import identified
from lance_flight.errors import SchemaError
from lance_flight.model.arrow_types import children, rebuilt
from lance_flight.model.pins import FixedPin
from lance_flight.model.schema import COMMENT, without_ids

ROWS_PER_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """A version of a partition table, and the columns that it is to have.

    Those that it lacks, while the manifest says what all its rows have there, it goes on lacking.
    """

    dataset: LanceDataset
    physical: Sequence[pa.Field]
    target: pa.Schema
    step: SchemaStep

    @classmethod
    def at(cls, store: Store, base: FixedPin, step: SchemaStep, identity: IdentityValues) -> Self:
        dataset = partitions.open_at(store, base)
        physical = identified(dataset, step.before)
        stored = {field_id(each) for each in physical}
        lacking = {number for number in identity.by_source if number not in stored}
        return cls(dataset=dataset, physical=physical, target=_target(physical, step, lacking), step=step)

    @property
    def stored(self) -> pa.Schema:
        """The columns that it is to have, as it keeps them: without ids where Lance's numbers serve as such."""
        if not self.step.after.is_numbered_by_lance:
            return self.target
        kept = {key: value for key, value in (self.dataset.schema.metadata or {}).items() if key != COMMENT}
        said = {} if self.step.after.comment is None else {COMMENT: self.step.after.comment.encode()}
        return pa.schema([without_ids(each) for each in self.target], kept | said or None)

    @property
    def numbers(self) -> dict[Key, int]:
        """Lance's number of each of its fields."""
        return _numbers(self.physical, self.dataset.lance_schema)

    @property
    def fragments(self) -> list[FragmentMetadata]:
        return [fragment.metadata for fragment in self.dataset.get_fragments()]

    @property
    def fresh(self) -> list[pa.Field]:
        """The columns whose values have to be written."""
        known = self.numbers
        files = [_Stored(known, fragment) for fragment in self.fragments]
        return [each for each in self.target if _is_written(each, self.physical, self.step, files)]


def new_columns(
    root: Store, table: PartitionTable, base: FixedPin, step: SchemaStep, written: WrittenColumns
) -> list[NewColumns]:
    """Return the values to write for a new schema beside what is `written`, in pieces of about `ROWS_PER_PIECE` rows."""
    store = root.child(table.location)
    found = _Table.at(store, base, step, table.identity)
    fresh = tuple(found.fresh)
    if not fresh:
        return []
    place = root.child(partitions.place_of_files(table.location, base))
    return [
        NewColumns(
            object_id=table.object_id,
            table=store,
            base=base,
            place=place,
            fragments=tuple(numbers),
            fresh=fresh,
            step=step,
            identity=table.identity,
        )
        for numbers in _divided(written.missing(found.dataset, fresh))
    ]


def stage_schema(
    store: Store,
    base: FixedPin,
    step: SchemaStep,
    written: WrittenColumns,
    identity: IdentityValues = NO_VALUES,
    *,
    said: Mapping[str, str] = MappingProxyType({}),
) -> FixedPin:
    """Stage a version with the new schema on `base`, and return the pin to it; `base` itself where nothing differs.

    `said` is what a plain table keeps of the change.

    All values that `new_columns` has found missing are `written`.
    """
    table = _Table.at(store, base, step, identity)
    stored = table.stored
    if stored.equals(table.dataset.schema, check_metadata=True):
        return base
    fresh, fragments = table.fresh, table.fragments
    inside = {key for key, _ in walk(fresh)}
    known = {key: n for key, n in table.numbers.items() if key not in inside}
    known |= chosen_numbers(table.target, known, least_number(table.dataset))
    widened = written.of(table.dataset, fresh) if fresh else None
    if widened is not None:
        given = _numbers(fresh, widened.schema)
        moved = {number: known[key] for key, number in given.items()}
        old = {file.path for fragment in fragments for file in fragment.files}
        fragments = [_moved(fragment, old, moved) for fragment in widened.fragments]
    operation = LanceOperation.Merge(fragments, with_numbers(table.target, known, stored))
    return partitions.stage(store, base, operation, said)


def _moved(fragment: FragmentMetadata, old: Collection[str], moved: Mapping[int, int]) -> FragmentMetadata:
    """Return a fragment whose new file has its columns under other numbers than Lance gave them."""
    (renamed,) = renumbered([fragment], moved)
    files = [mine if mine.path in old else new for mine, new in zip(fragment.files, renamed.files, strict=True)]
    return replace(fragment, files=files)


def _divided(fragments: Sequence[FragmentMetadata]) -> list[list[int]]:
    """Return the numbers of fragments that lie side by side, about as many rows in each group."""
    ends = accumulate(fragment.physical_rows for fragment in fragments)
    groups: dict[int, list[int]] = {}
    for fragment, end in zip(fragments, ends, strict=True):
        groups.setdefault((end - 1) // ROWS_PER_PIECE, []).append(fragment.id)
    return list(groups.values())


def _target(physical: Sequence[pa.Field], step: SchemaStep, lacking: Collection[int]) -> pa.Schema:
    """Return the namespace's columns but those `lacking`, then what the table has beyond those of before."""
    before = set(step.before.paths)
    extra = [each for each in physical if field_id(each) not in before]
    clash = [each.name for each in extra if each.name in step.after.table.names]
    if clash:
        raise SchemaError("table", [f"column {clash[0]!r} is there already in a partition table, as one of its own"])
    kept = [each for each in step.after.table if field_id(each) not in lacking]
    return pa.schema([*(_as_stored(each, physical) for each in kept), *extra])


def _as_stored(target: pa.Field, physical: Sequence[pa.Field]) -> pa.Field:
    """Return a column as nullable where its data may hold NULL.

    Lance takes no NOT NULL back without writing, nor says it later.
    """
    there = next((each for each in physical if field_id(each) == field_id(target)), None)
    inner = [_as_stored(each, [] if there is None else children(there.type)) for each in children(target.type)]
    kind = rebuilt(target.type, inner) if inner else target.type
    is_nullable = target.nullable or (there is not None and there.nullable)
    return pa.field(target.name, kind, is_nullable, target.metadata)


def _is_written(target: pa.Field, physical: Sequence[pa.Field], step: SchemaStep, files: Sequence[_Stored]) -> bool:
    """Return whether the values of a column have to be written.

    That is so for new ones that are computed, for those of another type, for those that take the name of another one, and where what
    is left would not tell them.
    """
    mine = field_id(target)
    if mine in step.computed or _takes_name(target, physical):
        return True
    there = next((each for each in physical if field_id(each) == mine and mine is not None), None)
    return there is not None and (not _fits(there, target) or any(file.loses(there, target) for file in files))


def _takes_name(target: pa.Field, siblings: Sequence[pa.Field]) -> bool:
    """Return whether a column, or a field inside it, has the name that another one has now: Lance gives no name to other data."""
    mine = field_id(target)
    if any(each.name == target.name and field_id(each) != mine for each in siblings):
        return True
    there = next((each for each in siblings if field_id(each) == mine), None)
    return there is not None and any(_takes_name(each, children(there.type)) for each in children(target.type))


class _Stored:
    """Fields of a table that have data in the files of one fragment."""

    def __init__(self, known: Mapping[Key, int], fragment: FragmentMetadata) -> None:
        held = {number for file in fragment.files for number in file.fields}
        self._held = {key for key, number in known.items() if number in held}

    def loses(self, there: pa.Field, target: pa.Field) -> bool:
        """Return whether nothing with data is left inside a column, or inside a part of it.

        Lance keeps with the plain fields which structs are NULL and how long lists are; and it reads a map only if all
        that is inside has data.
        """
        inner, wanted = self._plain(there), self._plain(target)
        had, has = (self._held.intersection(fields) for fields in (inner, wanted))
        if not had or not children(target.type):
            return False
        if not has or (pa.types.is_map(target.type) and len(has) < len(wanted)):
            return True
        by_id = {field_id(each): each for each in children(there.type)}
        return any(self.loses(by_id[field_id(each)], each) for each in children(target.type) if field_id(each) in by_id)

    def _plain(self, field: pa.Field) -> list[Key | None]:
        """Return the fields that hold data themselves."""
        return [key for key, each in walk([field]) if not stored_children(each.type)]


def _fits(there: pa.Field, target: pa.Field) -> bool:
    """Return whether the data of a column can be read as another one: the same types at every depth, whatever their names."""
    inner, wanted = children(there.type), children(target.type)
    if target.nullable != there.nullable:
        return False
    if not wanted or not inner:
        return bool(there.type == target.type)
    by_id = {field_id(each): each for each in inner}
    return there.type.id == target.type.id and all(
        field_id(each) not in by_id or _fits(by_id[field_id(each)], each) for each in wanted
    )


def _numbers(fields: Sequence[pa.Field], schema: LanceSchema) -> dict[Key, int]:
    """Return Lance's number of each field; `schema` may begin with other columns."""
    listed = [key for key, _ in walk(fields)]
    found = numbers(schema)[-len(listed) :] if listed else []
    return dict(zip(listed, found, strict=True))
