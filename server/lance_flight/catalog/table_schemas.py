"""A partition table brought to another schema of its namespace, as one more version on top of its pin.

Names, order, nullability and new columns that are NULL cost no data: the fields that stay keep Lance's numbers
(`lance_fields.py`). Columns of another type, and those that are computed, are written anew, the others are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance.schema import LanceSchema
from lance.udf import BatchUDF

from lance_flight.catalog import partitions
from lance_flight.catalog.adapting import matching, namespace_id
from lance_flight.catalog.disagreeing import cast
from lance_flight.catalog.lance_fields import Key, field_id, free_number, numbers, walk, with_numbers
from lance_flight.catalog.rows import aligned
from lance_flight.catalog.store import UNREADABLE, Store
from lance_flight.catalog.whole_files import check_data
from lance_flight.errors import LanceFlightError, SchemaError
from lance_flight.model.nested import children, rebuilt
from lance_flight.model.pins import FixedPin
from lance_flight.model.schema import TABLE_FIELD_ID, NamespaceSchema

_NEW = "_lance_flight_new_"


@dataclass(frozen=True, slots=True)
class Computed:
    """How the values of a new column are made from the columns `sources` of the schema before it, in their order."""

    sources: tuple[int, ...]
    values: Callable[[Sequence[pa.Array], int], pa.Array]
    """Takes the columns and the number of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaStep:
    """From one schema of a namespace to the next; `computed` holds, by id, how the values of new columns are made."""

    before: NamespaceSchema
    after: NamespaceSchema
    computed: Mapping[int, Computed] = field(default_factory=dict)


def stage_schema(root: Store, location: str, base: FixedPin, step: SchemaStep) -> FixedPin:
    """Stage a version with the new schema on `base`, and return the pin to it; `base` itself where nothing differs."""
    store = root.child(location)
    dataset = partitions.open_at(store, base)
    physical = _identified(dataset.schema, step.before)
    target = _target(physical, step)
    if target.equals(dataset.schema, check_metadata=True):
        return base
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    known = _numbers(physical, dataset.lance_schema)
    files = [_Stored(known, fragment) for fragment in fragments]
    fresh = [f for f in target if _is_written(f, physical, step, files)]
    inside = {key for key, _ in walk(fresh)}
    known = {key: n for key, n in known.items() if key not in inside}
    free = free_number(dataset)
    if fresh and fragments:
        fragments, made = _written(dataset, physical, fresh, step)
        check_data(store.uri, fragments)
        known |= _numbers(fresh, made)
        free = max(free, *numbers(made)) + 1
    operation = LanceOperation.Merge(fragments, with_numbers(target, known, free))
    return partitions.stage(store, base, operation)


def _identified(schema: pa.Schema, namespace: NamespaceSchema) -> list[pa.Field]:
    """The columns of a table with the ids of the namespace's that they hold, found by name where the table keeps none."""
    return _with_ids(list(schema), list(namespace.arrow))


def _with_ids(physical: Sequence[pa.Field], namespace: Sequence[pa.Field]) -> list[pa.Field]:
    held = {place: each for each in namespace if (place := matching(each, physical)) is not None}
    return [_with_id(each, held[place]) if place in held else each for place, each in enumerate(physical)]


def _with_id(physical: pa.Field, of: pa.Field) -> pa.Field:
    inner = _with_ids(children(physical.type), children(of.type))
    metadata = {**(physical.metadata or {}), TABLE_FIELD_ID: str(namespace_id(of)).encode()}
    return pa.field(
        physical.name, rebuilt(physical.type, inner) if inner else physical.type, physical.nullable, metadata
    )


def _target(physical: Sequence[pa.Field], step: SchemaStep) -> pa.Schema:
    """The columns of the namespace, and after them what the table has beyond those of before."""
    before = set(step.before.paths)
    extra = [each for each in physical if field_id(each) not in before]
    clash = [each.name for each in extra if each.name in step.after.table.names]
    if clash:
        raise SchemaError("table", [f"column {clash[0]!r} is there already in a partition table, as one of its own"])
    return pa.schema([*(_as_stored(each, physical) for each in step.after.table), *extra])


def _as_stored(target: pa.Field, physical: Sequence[pa.Field]) -> pa.Field:
    """A column that may hold NULL where its data may: Lance takes no NOT NULL back without writing, nor says it later."""
    there = next((each for each in physical if field_id(each) == field_id(target)), None)
    inner = [_as_stored(each, [] if there is None else children(there.type)) for each in children(target.type)]
    kind = rebuilt(target.type, inner) if inner else target.type
    is_nullable = target.nullable or (there is not None and there.nullable)
    return pa.field(target.name, kind, is_nullable, target.metadata)


def _is_written(target: pa.Field, physical: Sequence[pa.Field], step: SchemaStep, files: Sequence[_Stored]) -> bool:
    """Whether the values of a column have to be written.

    That is so for new ones that are computed, for those of another type, and where what is left would not tell them.
    """
    mine = field_id(target)
    if mine in step.computed:
        return True
    there = next((each for each in physical if field_id(each) == mine and mine is not None), None)
    return there is not None and (not _fits(there, target) or any(file.loses(there, target) for file in files))


class _Stored:
    """Which fields of a table have data in the files of one fragment."""

    def __init__(self, known: Mapping[Key, int], fragment: FragmentMetadata) -> None:
        held = {number for file in fragment.files for number in file.fields}
        self._held = {key for key, number in known.items() if number in held}

    def loses(self, there: pa.Field, target: pa.Field) -> bool:
        """Whether nothing with data is left inside a column, or inside a part of it.

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
        """The fields that hold data themselves."""
        return [key for key, each in walk([field]) if not children(each.type)]


def _fits(there: pa.Field, target: pa.Field) -> bool:
    """Whether the data of a column can be read as another one: the same types at every depth, whatever their names."""
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
    """Lance's number of each field; `schema` may begin with other columns."""
    listed = [key for key, _ in walk(fields)]
    found = numbers(schema)[-len(listed) :] if listed else []
    return dict(zip(listed, found, strict=True))


def _renamed(target: pa.Field) -> pa.Field:
    return target.with_name(f"{_NEW}{field_id(target)}")


def _written(
    dataset: LanceDataset, physical: Sequence[pa.Field], fresh: Sequence[pa.Field], step: SchemaStep
) -> tuple[list[FragmentMetadata], LanceSchema]:
    """Each fragment with the new columns in a file of their own, and the schema of both."""
    schema = pa.schema([_renamed(each).remove_metadata() for each in fresh])
    read = {n for each in fresh for n in _sources(each, step)}
    sources = [each.name for each in physical if field_id(each) in read] or [physical[0].name]

    table = Store(dataset.uri).name
    failed: list[LanceFlightError] = []

    def compute(batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            columns = [_values(each, batch, physical, step, table) for each in fresh]
        except LanceFlightError as exc:
            failed.append(exc)
            raise
        return aligned(pa.RecordBatch.from_arrays(columns, schema=schema))

    try:
        # By itself Lance would call the function one more time to see what it returns.
        computed = BatchUDF(compute, output_schema=schema)
        made = [fragment.merge_columns(computed, columns=sources) for fragment in dataset.get_fragments()]
    except UNREADABLE:
        # Lance keeps no more than the text of what is raised inside it.
        if failed:
            raise failed[0] from None
        raise
    return [fragment for fragment, _ in made], made[0][1]


def _sources(target: pa.Field, step: SchemaStep) -> Sequence[int]:
    """The ids of the columns that the values of one are made from."""
    mine = _required(target)
    return step.computed[mine].sources if mine in step.computed else (mine,)


def _values(
    target: pa.Field, batch: pa.RecordBatch, physical: Sequence[pa.Field], step: SchemaStep, table: str
) -> pa.Array:
    computed = step.computed.get(_required(target))
    if computed is None:
        return _cast(target, batch, physical, table)
    columns = [step.before.column(number) for number in computed.sources]
    sources = [_cast(each, batch, physical, table) for each in columns if each is not None]
    return computed.values(sources, batch.num_rows)


def _cast(target: pa.Field, batch: pa.RecordBatch, physical: Sequence[pa.Field], table: str) -> pa.Array:
    there = next((each for each in physical if field_id(each) == namespace_id(target)), None)
    if there is None:
        return pa.nulls(batch.num_rows, target.type)
    return cast(batch.column(there.name), there, target, table)


def _required(target: pa.Field) -> int:
    number = field_id(target)
    if number is None:
        raise AssertionError(f"column {target.name!r} has no id")
    return number
