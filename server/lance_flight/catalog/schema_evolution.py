"""A new schema for a namespace and all its tables.

Names, order, nullability and new columns that are NULL cost no data: the fields that stay keep Lance's numbers
(`storage/lance_columns.py`). Columns of another type, and those that are computed, are written anew, the others are not.

Every partition table gets a version with the new schema first, which nobody sees; the commit moves the pins and says
the schema. A commit that comes too late begins again on a newer snapshot: a table that somebody has written to meanwhile is staged
again, with new columns for its new files alone. Data files never change, so the columns that were written for them are good for
every later version that has them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from types import MappingProxyType
from typing import Self

import numpy as np
import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance.schema import LanceSchema
from lance.udf import BatchUDF

from lance_flight.catalog.bulk.pieces import BY_THREADS, PieceWork
from lance_flight.catalog.commits.transaction import repin_rows
from lance_flight.catalog.manifests.snapshot import (
    NAMESPACE_KEY,
    NO_VALUES,
    FixedPin,
    IdentityValues,
    PartitionTable,
    Snapshot,
)
from lance_flight.catalog.manifests.version_log import Revision, said_of
from lance_flight.catalog.storage.lance_columns import (
    Key,
    chosen_numbers,
    field_id,
    least_number,
    numbers,
    renumber_fragments,
    stored_children,
    walk,
    with_documents,
    with_numbers,
)
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.catalog.storage.whole_files import DATA, OFFSETS, ROW_ADDRESS, check_data, seal_fragments
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.rows import with_one_nan
from lance_flight.catalog.tables.schema_adapter import (
    Fill,
    cast,
    identify_columns,
    missing_column,
    namespace_id,
    partly_stored,
)
from lance_flight.errors import DataError, LanceFlightError, NotFound, SchemaError, SerializationFailure, SpecError
from lance_flight.faults import failpoint
from lance_flight.model.arrow_types import align_buffers, children, rebuilt
from lance_flight.model.json_documents import is_json
from lance_flight.model.schema import NamespaceSchema, descriptions_of, without_ids
from lance_flight.model.spec import PartitionSpec

_NEW = "_lance_flight_new_"


@dataclass(frozen=True, slots=True)
class Computed:
    """Computation of the values of a new column from the columns `sources` of the schema before it, in their order."""

    sources: tuple[int, ...]
    values: Callable[[Sequence[pa.Array], int], pa.Array]
    """Takes the columns and the number of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaStep:
    """Step from one schema of a namespace to the next; `computed` has, by id, the computation of new columns."""

    before: NamespaceSchema
    after: NamespaceSchema
    computed: Mapping[int, Computed] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Widened:
    """Fragments with the new columns in a file of their own, and the schema of both."""

    fragments: tuple[FragmentMetadata, ...]
    schema: LanceSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumns:
    """A piece of work: the columns `fresh` of some fragments of the table `object_id`, at its version `base`."""

    object_id: str
    table: Store
    base: FixedPin
    place: Store
    fragments: tuple[int, ...]
    fresh: tuple[pa.Field, ...]
    step: SchemaStep
    identity: IdentityValues

    def run(self) -> Widened:
        """Write the new columns; `DataError` names the table, and what cannot be computed."""
        dataset = partitions.open_at(self.table, self.base)
        physical = identify_columns(dataset, self.step.before)
        schema = pa.schema([_rename(field).remove_metadata() for field in self.fresh])
        read = {n for field in self.fresh for n in _sources(field, self.step)}
        sources = [field.name for field in physical if field_id(field) in read] or [physical[0].name]
        documents = {field.name for field in physical if is_json(field.type)}
        failed: list[LanceFlightError] = []

        def compute(lacking: Collection[int], batch: pa.RecordBatch) -> pa.RecordBatch:
            batch = with_documents(batch, documents)
            try:
                columns = [self._values(field, batch, physical, lacking) for field in self.fresh]
            except LanceFlightError as exc:
                failed.append(exc)
                raise
            return align_buffers(pa.RecordBatch.from_arrays(columns, schema=schema))

        partly = partly_stored(dataset, physical, self.identity.by_source)
        try:
            made = []
            for number in self.fragments:
                lacking = {column for column, fragments in partly.items() if number in fragments}
                # By itself Lance would call the function one more time to see what it returns.
                computed = BatchUDF(partial(compute, lacking), output_schema=schema)
                made.append(dataset.get_fragment(number).merge_columns(computed, columns=sources))
        except UNREADABLE:
            # Lance keeps no more than the text of what is raised inside it.
            if failed and isinstance(failed[0], DataError):
                raise DataError(f"partition table {self.object_id!r}: {failed[0]}") from None
            if failed:
                raise failed[0] from None
            raise
        written = [fragment for fragment, _ in made]
        check_data(self.table.uri, written)
        return Widened(tuple(seal_fragments(self.place.uri, written, self._earlier_files(dataset))), made[0][1])

    def _values(
        self, target: pa.Field, batch: pa.RecordBatch, physical: Sequence[pa.Field], lacking: Collection[int]
    ) -> pa.Array:
        """Return the values of a new column; the files of the batch have NULL in the columns `lacking`."""
        computed = self.step.computed.get(_required(target))
        if computed is None:
            return self._cast(target, batch, physical, lacking)
        columns = [self.step.before.column(number) for number in computed.sources]
        sources = [self._cast(column, batch, physical, lacking) for column in columns if column is not None]
        return with_one_nan(computed.values(sources, batch.num_rows))

    def _cast(
        self, target: pa.Field, batch: pa.RecordBatch, physical: Sequence[pa.Field], lacking: Collection[int]
    ) -> pa.Array:
        stored = {field_id(field) for field in physical}.difference(lacking)
        missed = {number: value for number, value in self.identity.by_source.items() if number not in stored}
        fills = {number: Fill(pa.repeat(value, batch.num_rows)) for number, value in missed.items()}
        there = next((field for field in physical if field_id(field) == namespace_id(target)), None)
        if there is None or namespace_id(target) in lacking:
            return missing_column(batch.num_rows, target, fills)
        return cast(batch.column(there.name), there, target, self.table.name, fills)

    def _earlier_files(self, dataset: LanceDataset) -> set[str]:
        """Return the names of the files that the fragments have had before."""
        return {file.path for n in self.fragments for file in dataset.get_fragment(n).metadata.files}

    def undo(self, result: Widened) -> None:
        """Delete the new files."""
        dataset = partitions.open_at(self.table, self.base)
        known = self._earlier_files(dataset)
        paths = {file.path for fragment in result.fragments for file in fragment.files}
        self.place.remove_files(f"{DATA}/{name}" for name in paths - known)


def _rename(target: pa.Field) -> pa.Field:
    return target.with_name(f"{_NEW}{field_id(target)}")


def _sources(target: pa.Field, step: SchemaStep) -> Sequence[int]:
    """Return the ids of the columns that the values of one are made from."""
    mine = _required(target)
    return step.computed[mine].sources if mine in step.computed else (mine,)


def _required(target: pa.Field) -> int:
    number = field_id(target)
    if number is None:
        raise AssertionError(f"column {target.name!r} has no id")
    return number


_Key = tuple[str, tuple[int | None, ...], int, tuple[str, ...]]
"""A table's place, the ids of the columns, Lance's number of the first of them, and the files of a fragment."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A fragment with its new columns, as it was at the version that the `work` read."""

    work: NewColumns
    widened: FragmentMetadata
    schema: LanceSchema


class WrittenColumns:
    """The new columns that were written so far. Filled between attempts, and read by many threads."""

    def __init__(self) -> None:
        self._written: dict[_Key, _Written] = {}

    def add(self, work: NewColumns, result: Widened) -> None:
        """Remember what a piece of work has written."""
        dataset = partitions.open_at(work.table, work.base)
        columns = _columns(dataset, work.fresh)
        for number, widened in zip(work.fragments, result.fragments, strict=True):
            key = *columns, _paths(dataset.get_fragment(number).metadata)
            self._written[key] = _Written(work, widened, result.schema)

    def fragments_to_write(self, dataset: LanceDataset, fresh: Sequence[pa.Field]) -> list[FragmentMetadata]:
        """Return the fragments of a version whose columns `fresh` have to be written."""
        return [fragment for fragment, written in self._match_written(dataset, fresh) if written is None]

    def of(self, dataset: LanceDataset, fresh: Sequence[pa.Field]) -> Widened | None:
        """Return all fragments of a version with their new columns, none of which is missing.

        None for a version without fragments.
        """
        fragments, schema = [], None
        for now, written in self._match_written(dataset, fresh):
            if written is None:
                raise AssertionError(f"fragment {now.id} has no new columns")
            added = [file for file in written.widened.files if file.path not in _paths(now)]
            fragments.append(replace(now, files=[*now.files, *added]))
            schema = written.schema
        return None if schema is None else Widened(tuple(fragments), schema)

    def _match_written(
        self, dataset: LanceDataset, fresh: Sequence[pa.Field]
    ) -> Iterator[tuple[FragmentMetadata, _Written | None]]:
        """Yield each fragment with what was written for its files, if all rows that it has now have values there."""
        columns = _columns(dataset, fresh)
        for fragment in dataset.get_fragments():
            now = fragment.metadata
            written = self._written.get((*columns, _paths(now)))
            yield now, written if written is not None and _has_values(written, dataset, now) else None


def _columns(dataset: LanceDataset, fresh: Sequence[pa.Field]) -> tuple[str, tuple[int | None, ...], int]:
    return dataset.uri, tuple(field_id(field) for field in fresh), least_number(dataset)


def _paths(fragment: FragmentMetadata) -> tuple[str, ...]:
    return tuple(file.path for file in fragment.files)


def _has_values(written: _Written, dataset: LanceDataset, now: FragmentMetadata) -> bool:
    """Return whether no row is back that was deleted when the values were computed: deleted rows got none."""
    then = written.widened.deletion_file
    if then is None or then.asdict() == (now.deletion_file.asdict() if now.deletion_file is not None else None):
        return True
    before = partitions.open_at(written.work.table, written.work.base)
    return bool(np.isin(_offsets(dataset, now.id), _offsets(before, written.widened.id)).all())


def _offsets(dataset: LanceDataset, number: int) -> np.ndarray:
    """Return where the rows of a fragment lie that are not deleted."""
    rows = dataset.get_fragment(number).scanner(columns=[], with_row_address=True).to_table()
    offsets: np.ndarray = rows[ROW_ADDRESS].to_numpy() & np.uint64(OFFSETS)
    return offsets


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
        physical = identify_columns(dataset, step.before)
        stored = {field_id(field) for field in physical}
        lacking = {number for number in identity.by_source if number not in stored}
        return cls(dataset=dataset, physical=physical, target=_target(physical, step, lacking), step=step)

    @property
    def stored(self) -> pa.Schema:
        """The columns that it is to have, as it keeps them: without ids where Lance's numbers serve as such."""
        if not self.step.after.is_numbered_by_lance:
            return self.target
        said = descriptions_of(self.dataset.schema)
        kept = {key: value for key, value in (self.dataset.schema.metadata or {}).items() if key not in said}
        metadata = kept | descriptions_of(self.step.after.arrow)
        return pa.schema([without_ids(field) for field in self.target], metadata or None)

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
        return [field for field in self.target if _is_written(field, self.physical, self.step, files)]


def new_columns(
    root: Store, table: PartitionTable, base: FixedPin, step: SchemaStep, written: WrittenColumns
) -> list[NewColumns]:
    """Return the values to write for a new schema beside what is `written`, in pieces of about `ROWS_PER_PIECE` rows."""
    store = root.child(table.location)
    staged_table = _Table.at(store, base, step, table.identity)
    fresh = tuple(staged_table.fresh)
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
        for numbers in _divide_fragments(written.fragments_to_write(staged_table.dataset, fresh))
    ]


def stage_schema(
    store: Store,
    base: FixedPin,
    step: SchemaStep,
    written: WrittenColumns,
    identity: IdentityValues = NO_VALUES,
    *,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> FixedPin:
    """Stage a version with the new schema on `base`, and return the pin to it; `base` itself where nothing differs.

    `properties` is what a plain table keeps of the change.

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
        fragments = [_renumber_file(fragment, old, moved) for fragment in widened.fragments]
    operation = LanceOperation.Merge(fragments, with_numbers(table.target, known, stored))
    return partitions.stage(store, base, operation, properties)


def _renumber_file(fragment: FragmentMetadata, old: Collection[str], moved: Mapping[int, int]) -> FragmentMetadata:
    """Return a fragment whose new file has its columns under other numbers than Lance gave them."""
    (renamed,) = renumber_fragments([fragment], moved)
    files = [mine if mine.path in old else new for mine, new in zip(fragment.files, renamed.files, strict=True)]
    return replace(fragment, files=files)


def _divide_fragments(fragments: Sequence[FragmentMetadata]) -> list[list[int]]:
    """Return the numbers of fragments that lie side by side, about as many rows in each group."""
    ends = accumulate(fragment.physical_rows for fragment in fragments)
    groups: dict[int, list[int]] = {}
    for fragment, end in zip(fragments, ends, strict=True):
        groups.setdefault((end - 1) // ROWS_PER_PIECE, []).append(fragment.id)
    return list(groups.values())


def _target(physical: Sequence[pa.Field], step: SchemaStep, lacking: Collection[int]) -> pa.Schema:
    """Return the namespace's columns but those `lacking`, then what the table has beyond those of before."""
    before = set(step.before.paths)
    extra = [field for field in physical if field_id(field) not in before]
    clash = [field.name for field in extra if field.name in step.after.table.names]
    if clash:
        raise SchemaError("table", [f"column {clash[0]!r} is there already in a partition table, as one of its own"])
    kept = [field for field in step.after.table if field_id(field) not in lacking]
    return pa.schema([*(_as_stored(field, physical) for field in kept), *extra])


def _as_stored(target: pa.Field, physical: Sequence[pa.Field]) -> pa.Field:
    """Return a column as nullable where its data may hold NULL.

    Lance takes no NOT NULL back without writing, nor says it later.
    """
    there = next((field for field in physical if field_id(field) == field_id(target)), None)
    inner = [_as_stored(child, [] if there is None else children(there.type)) for child in children(target.type)]
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
    there = next((field for field in physical if field_id(field) == mine and mine is not None), None)
    return there is not None and (not _fits(there, target) or any(file.loses(there, target) for file in files))


def _takes_name(target: pa.Field, siblings: Sequence[pa.Field]) -> bool:
    """Return whether a column, or a field inside it, has the name that another one has now: Lance gives no name to other data."""
    mine = field_id(target)
    if any(sibling.name == target.name and field_id(sibling) != mine for sibling in siblings):
        return True
    there = next((sibling for sibling in siblings if field_id(sibling) == mine), None)
    return there is not None and any(_takes_name(child, children(there.type)) for child in children(target.type))


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
        by_id = {field_id(child): child for child in children(there.type)}
        return any(
            self.loses(by_id[field_id(child)], child) for child in children(target.type) if field_id(child) in by_id
        )

    def _plain(self, field: pa.Field) -> list[Key | None]:
        """Return the fields that hold data themselves."""
        return [key for key, node in walk([field]) if not stored_children(node.type)]


def _fits(there: pa.Field, target: pa.Field) -> bool:
    """Return whether the data of a column can be read as another one: the same types at every depth, whatever their names."""
    inner, wanted = children(there.type), children(target.type)
    if target.nullable != there.nullable:
        return False
    if not wanted or not inner:
        return bool(there.type == target.type)
    by_id = {field_id(field): field for field in inner}
    return there.type.id == target.type.id and all(
        field_id(field) not in by_id or _fits(by_id[field_id(field)], field) for field in wanted
    )


def _numbers(fields: Sequence[pa.Field], schema: LanceSchema) -> dict[Key, int]:
    """Return Lance's number of each field; `schema` may begin with other columns."""
    listed = [key for key, _ in walk(fields)]
    new_numbers = numbers(schema)[-len(listed) :] if listed else []
    return dict(zip(listed, new_numbers, strict=True))


WORKERS = 8
INSTEAD = "a new column (ADD COLUMN … AS) can have the wider type, and be partitioned by"

_Place = tuple[str, FixedPin]
"""A table by its location, and the version of it that is changed."""

Decide = Callable[[Snapshot], tuple[SchemaStep, str]]
"""Function from a snapshot to the step of its schema, and the name of the operation in the history."""


class StagedSchemas:
    """Versions of partition tables with another schema, staged on their pins; what one attempt has staged the next one finds.

    `work` is how the values of new columns are written.
    """

    def __init__(
        self,
        root: Store,
        work: PieceWork = BY_THREADS,
        after: NamespaceSchema | None = None,
        staged: Mapping[_Place, FixedPin] = MappingProxyType({}),
    ) -> None:
        self._root = root
        self._work = work
        self._after = after
        self._staged = dict(staged)
        self._written = WrittenColumns()

    @property
    def staged(self) -> dict[_Place, FixedPin]:
        """The versions that were staged, by the versions that they are on top of."""
        return dict(self._staged)

    def pins(
        self, step: SchemaStep, tables: Sequence[PartitionTable], branch: str | None, operation: str
    ) -> list[FixedPin]:
        """Return a pin to a version of each table with the columns after a step, on a Lance branch where writes go to one."""
        if step.after != self._after:
            self._after, self._staged, self._written = step.after, {}, WrittenColumns()
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="schema") as pool:
            bases = list(pool.map(partial(self._base, branch), tables))
            todo = {
                (table.location, base): table
                for table, base in zip(tables, bases, strict=True)
                if (table.location, base) not in self._staged
            }
            self._write(pool, step, todo)
            properties = said_of(operation, ())
            list(pool.map(lambda key: self._stage(step, key, todo[key], properties), todo))
        return [self._staged[table.location, base] for table, base in zip(tables, bases, strict=True)]

    def _base(self, branch: str | None, table: PartitionTable) -> FixedPin:
        return partitions.base_of(self._root.child(table.location), table.pin, branch)

    def _write(self, pool: Executor, step: SchemaStep, todo: Mapping[_Place, PartitionTable]) -> None:
        """Write what the files of these tables lack of new columns; an earlier attempt may have written most of it."""
        written = pool.map(lambda key: new_columns(self._root, todo[key], key[1], step, self._written), todo)
        work: list[NewColumns] = [piece for pieces in written for piece in pieces]
        results = self._work.do(work, 0, len(todo), len(todo))
        for piece, result in zip(work, results, strict=True):
            self._written.add(piece, result)

    def _stage(self, step: SchemaStep, key: _Place, table: PartitionTable, properties: Mapping[str, str]) -> None:
        location, base = key
        self._staged[key] = stage_schema(
            self._root.child(location), base, step, self._written, table.identity, properties=properties
        )
        failpoint("table_staged")


class SchemaEvolution:
    """One change of schema, made on one snapshot after another until it is committed (`version_log.Change`)."""

    def __init__(
        self, root: Store, decide: Decide, work: PieceWork = BY_THREADS, tables: StagedSchemas | None = None
    ) -> None:
        self._decide = decide
        self._tables = tables or StagedSchemas(root, work)

    def __call__(self, snapshot: Snapshot) -> Revision | None:
        """Return the rows and the metadata that make the change visible; None where there is nothing to change."""
        step, operation = self._decide(snapshot)
        if step.before == step.after:
            return None
        check_specs(snapshot, step)
        if snapshot.is_partitioned and step.before.table.equals(step.after.table, check_metadata=True):
            return Revision(operation=operation, schema=step.after)
        tables = snapshot.all_tables()
        pins = self._tables.pins(step, tables, snapshot.table_branch, operation)
        rows: pa.Table | None = None
        if tables:
            rows = repin_rows(snapshot.rows_of([table.object_id for table in tables]), pins)
        return Revision(operation=operation, specs=retyped_specs(snapshot, step), schema=step.after, rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEvolution:
    """A change of columns that is committed together with rows, which are written on top of what it has `staged`.

    It is plain, and pickled: tasks in other processes write the rows.
    """

    step: SchemaStep
    operation: str
    staged: Mapping[_Place, FixedPin]

    @property
    def before(self) -> NamespaceSchema:
        """The columns that it changes."""
        return self.step.before

    @property
    def after(self) -> NamespaceSchema:
        """The columns that the rows have."""
        return self.step.after

    @classmethod
    def plan(cls, root: Store, snapshot: Snapshot, decide: Decide) -> Self | None:
        """Stage a change of columns on a snapshot; None for one that has to be committed before the rows.

        That is one of a plain table, of values that are computed, and of the types of partition values.
        """
        step, operation = decide(snapshot)
        is_later = step.before != step.after and not step.computed and not retyped_specs(snapshot, step)
        is_ready = snapshot.is_partitioned and snapshot.is_pinned and NAMESPACE_KEY in snapshot.metadata
        if not is_later or not is_ready:
            return None
        tables = StagedSchemas(root)
        SchemaEvolution(root, lambda _: (step, operation), tables=tables)(snapshot)
        return cls(step=step, operation=operation, staged=tables.staged)

    def on(self, root: Store, snapshot: Snapshot) -> Revision:
        """Return the change on a snapshot; `SerializationFailure` where its columns are others by now.

        Tables that others have changed since it was planned are staged anew.
        """
        if snapshot.schema.version != self.step.before.version:
            raise SerializationFailure(f"the columns of table {root.name!r} were changed by another writer")
        tables = StagedSchemas(root, after=self.step.after, staged=self.staged)
        revision = SchemaEvolution(root, lambda _: (self.step, self.operation), tables=tables)(snapshot)
        if revision is None:
            raise AssertionError("a change of columns that changes nothing")
        return revision

    def check_kept(self, root: Store) -> None:
        """Raise `SerializationFailure` where vacuum has removed a version that was staged."""
        for (location, _), pin in self.staged.items():
            try:
                partitions.open_at(root.child(location), pin)
            except NotFound as exc:
                raise SerializationFailure(
                    f"columns that were staged for partition table {location!r} were vacuumed before their commit: the write began too long ago"
                ) from exc


def retyped_specs(snapshot: Snapshot, step: SchemaStep) -> tuple[PartitionSpec, ...]:
    """Return the specs of a snapshot whose fields get other result types from a change of columns, with these."""
    if not snapshot.is_partitioned:
        return ()
    retyped = (
        replace(spec, fields=tuple(field.following(step.before, step.after) for field in spec.fields))
        for spec in snapshot.specs
    )
    return tuple(spec for spec, known in zip(retyped, snapshot.specs, strict=True) if spec != known)


def check_specs(snapshot: Snapshot, step: SchemaStep) -> None:
    """Raise `SpecError`, naming every partition field that a column's new type would break."""
    problems = [
        f"v{spec.id}, field {field.field_id!r}: {problem}; {INSTEAD}"
        for spec in snapshot.specs
        for field in spec.fields
        for problem in field.problems_of_change(step.before, step.after)
    ]
    if problems:
        raise SpecError("partition specs", problems)
