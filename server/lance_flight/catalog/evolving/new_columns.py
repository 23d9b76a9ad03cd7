"""New columns of tables that are there: their values, and the files that they are written to.

A column is computed from others, or is one of another type made from itself. Nothing here is part of a version yet.

A commit that comes too late begins again on a newer snapshot. Whatever others have appended meanwhile is new; data files never
change, so the columns that were written for them are good for every later version that has them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
from lance import FragmentMetadata, LanceDataset
from lance.schema import LanceSchema
from lance.udf import BatchUDF

from lance_flight.catalog.manifests.snapshot import IdentityValues
from lance_flight.catalog.storage.blobs import with_documents
from lance_flight.catalog.storage.lance_fields import field_id, least_number
from lance_flight.catalog.storage.names import OFFSETS, ROW_ADDRESS
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.catalog.storage.whole_files import DATA, check_data, sealed
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.rows import aligned, with_one_nan
from lance_flight.catalog.tables.schema_adapter import Fill, cast, identified, missing, namespace_id, partly_stored
from lance_flight.errors import DataError, LanceFlightError
from lance_flight.model.json_documents import is_json
from lance_flight.model.pins import FixedPin
from lance_flight.model.schema import NamespaceSchema

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
        physical = identified(dataset, self.step.before)
        schema = pa.schema([_renamed(each).remove_metadata() for each in self.fresh])
        read = {n for each in self.fresh for n in _sources(each, self.step)}
        sources = [each.name for each in physical if field_id(each) in read] or [physical[0].name]
        documents = {each.name for each in physical if is_json(each.type)}
        failed: list[LanceFlightError] = []

        def compute(lacking: Collection[int], batch: pa.RecordBatch) -> pa.RecordBatch:
            batch = with_documents(batch, documents)
            try:
                columns = [self._values(each, batch, physical, lacking) for each in self.fresh]
            except LanceFlightError as exc:
                failed.append(exc)
                raise
            return aligned(pa.RecordBatch.from_arrays(columns, schema=schema))

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
        return Widened(tuple(sealed(self.place.uri, written, self._known(dataset))), made[0][1])

    def _values(
        self, target: pa.Field, batch: pa.RecordBatch, physical: Sequence[pa.Field], lacking: Collection[int]
    ) -> pa.Array:
        """Return the values of a new column; the files of the batch have NULL in the columns `lacking`."""
        computed = self.step.computed.get(_required(target))
        if computed is None:
            return self._cast(target, batch, physical, lacking)
        columns = [self.step.before.column(number) for number in computed.sources]
        sources = [self._cast(each, batch, physical, lacking) for each in columns if each is not None]
        return with_one_nan(computed.values(sources, batch.num_rows))

    def _cast(
        self, target: pa.Field, batch: pa.RecordBatch, physical: Sequence[pa.Field], lacking: Collection[int]
    ) -> pa.Array:
        stored = {field_id(each) for each in physical}.difference(lacking)
        missed = {number: value for number, value in self.identity.by_source.items() if number not in stored}
        fills = {number: Fill(pa.repeat(value, batch.num_rows)) for number, value in missed.items()}
        there = next((each for each in physical if field_id(each) == namespace_id(target)), None)
        if there is None or namespace_id(target) in lacking:
            return missing(batch.num_rows, target, fills)
        return cast(batch.column(there.name), there, target, self.table.name, fills)

    def _known(self, dataset: LanceDataset) -> set[str]:
        """Return the names of the files that the fragments have had before."""
        return {file.path for n in self.fragments for file in dataset.get_fragment(n).metadata.files}

    def undo(self, result: Widened) -> None:
        """Delete the new files."""
        dataset = partitions.open_at(self.table, self.base)
        known = self._known(dataset)
        found = {file.path for fragment in result.fragments for file in fragment.files}
        self.place.remove_files(f"{DATA}/{name}" for name in found - known)


def _renamed(target: pa.Field) -> pa.Field:
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

    def missing(self, dataset: LanceDataset, fresh: Sequence[pa.Field]) -> list[FragmentMetadata]:
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
    return dataset.uri, tuple(field_id(each) for each in fresh), least_number(dataset)


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
