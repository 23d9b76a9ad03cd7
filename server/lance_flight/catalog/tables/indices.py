"""The indices of a namespace, as the guard row defines them, and those that the partition tables have, with the rows that these cover.

Partition tables have Lance's own indices under the same names; the definition is for those that come later. A segment names rows by their
addresses, so that tables whose files have the same numbers cannot bring theirs both.

A row that is changed keeps its id, and an index that has the id with the old value keeps that as well. Lance skips such an entry while no
segment covers the file with the new value. Where one does, a bitmap, a list of labels or an index of texts finds the row by both values, and
not where one of them is NULL (https://github.com/lance-format/lance/issues/7795, seen with 14.0.2, which is right about B-trees, n-grams and
vectors). Older releases merged segments of all kinds like this (https://github.com/lance-format/lance/pull/7359). A segment, a merged one as
well, names the oldest version of the table that it was made of. Unnecessary with a release that skips old entries in every kind of index.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Self
from weakref import WeakKeyDictionary

import lance
import pyarrow as pa
from lance import LanceDataset
from lance.dataset import IndexFile

from lance_flight.catalog.manifests.manifest_rows import entries_of, guard_row
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.storage.lance_columns import number_at
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import INDICES
from lance_flight.catalog.tables.rows import LINEAGE_FIELDS
from lance_flight.errors import Corrupt, NotFound, Unsupported
from lance_flight.model.index_kinds import (
    KINDS,
    METRICS,
    Family,
    IndexKind,
    OptionValue,
    fitting_metric,
    index_kind,
    index_metrics_of,
)
from lance_flight.model.json_documents import is_json
from lance_flight.model.naming import check_sql_name, index_name_of
from lance_flight.model.operations import check_least

INDICES_NOTE = "lance_flight:indices"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDefinition:
    """One index: its name in every table, the field id of its column, its kind with options.

    Tables with fewer than `min_rows` rows do without.
    """

    name: str
    field_id: int
    kind: str
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    min_rows: int = 0

    @property
    def of_kind(self) -> IndexKind:
        """The kind of the index, with its options."""
        return index_kind(self.kind)

    def to_json(self) -> list[Any]:
        """Return the definition as the entry of a note."""
        return [self.name, self.field_id, self.kind, dict(self.options), self.min_rows]

    @classmethod
    def from_json(cls, entry: Any) -> Self:
        """Read what `to_json` wrote; `Corrupt` for anything else."""
        match entry:
            case [str(name), int(field_id), str(kind), dict(options), int(min_rows)]:
                return cls(name=name, field_id=field_id, kind=kind, options=options, min_rows=min_rows)
        raise Corrupt(f"the note {INDICES_NOTE} of the __manifest has {entry!r}; expected the definition of an index")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRules:
    """An index to be made: of a column, by its name in the namespace, or of a field inside structs, by its dotted path.

    `min_rows` None is what is good for its kind.
    """

    column: str
    kind: str = "btree"
    name: str | None = None
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    min_rows: int | None = None

    @property
    def called(self) -> str:
        """The name of the index in every table."""
        return self.name or index_name_of(self.column)

    def define(self, snapshot: Snapshot) -> IndexDefinition:
        """Return the definition over the columns of a snapshot, or an error that names what cannot be."""
        path = tuple(self.column.split("."))
        _check_not_json(snapshot.schema.source_ids.get(path), snapshot, self.column)
        kind = index_kind(self.kind)
        if path not in snapshot.schema.source_ids:
            raise NotFound.named("column", self.column, snapshot.schema.source_names.values())
        if kind.family is Family.TEXT and len(path) > 1:
            raise Unsupported(
                f"no index of texts of {self.column!r}, which is inside a struct; expected a column itself"
            )
        number = snapshot.schema.source_ids[path]
        options = kind.check_options(self.options)
        if kind.family is Family.VECTOR:
            options |= _metric(snapshot.schema.sources[number].field.with_name(self.column), options)
        least = kind.least_rows if self.min_rows is None else self.min_rows
        check_least(0, min_rows=least)
        return IndexDefinition(
            name=check_sql_name("index", self.called),
            field_id=number,
            kind=kind.name,
            options=options,
            min_rows=least,
        )


def _check_not_json(number: int | None, snapshot: Snapshot, column: str) -> None:
    if number is not None and is_json(snapshot.schema.sources[number].field.type):
        raise Unsupported(
            f"no index of {column!r}, which is JSON; expected one of a column made of it, as by"
            f" ADD COLUMN kind VARCHAR AS (json_get_string({column}, 'kind'))"
        )


def _metric(column: pa.Field, options: Mapping[str, OptionValue]) -> Mapping[str, OptionValue]:
    """Return the metric by which the vectors of a column are compared, where it must be given."""
    metric = options.get("metric")
    if metric is None:
        fitting = index_metrics_of(column.type)
        return {"metric": fitting[0]} if fitting and METRICS[0] not in fitting else {}
    return {"metric": fitting_metric(column, str(metric), index_metrics_of)}


def indices_of(snapshot: Snapshot) -> list[IndexDefinition]:
    """Return the indices that a snapshot has, but for those of columns, or of fields inside structs, that were dropped."""
    columns = set(snapshot.schema.sources)
    return [definition for definition in definitions_of(snapshot) if definition.field_id in columns]


def index_named(snapshot: Snapshot, name: str) -> IndexDefinition:
    """Return the index with a name, or `NotFound` with the nearest names."""
    by_name = {definition.name: definition for definition in indices_of(snapshot)}
    if name not in by_name:
        raise NotFound.named("index", name, by_name)
    return by_name[name]


def published_definitions(base: Snapshot, main: Snapshot, tip: Snapshot) -> tuple[list[IndexDefinition], list[str]]:
    """Return the indices of the main branch with what a branch has made and dropped since both agreed, and what stands against it."""
    known, mine, theirs = (
        {definition.name: definition for definition in definitions_of(side)} for side in (base, main, tip)
    )
    changed = [name for name in {**known, **theirs} if known.get(name) != theirs.get(name)]
    both = [name for name in changed if mine.get(name) not in (known.get(name), theirs.get(name))]
    kept = [definition for name, definition in mine.items() if name not in changed]
    return (
        [*kept, *(theirs[name] for name in changed if name in theirs)],
        [f"index {name!r} was made or dropped on the main branch as well" for name in both],
    )


def note_of(definitions: Sequence[IndexDefinition]) -> dict[str, object]:
    """Return what the guard row says of indices."""
    return {INDICES_NOTE: [definition.to_json() for definition in definitions]}


def definitions_of(snapshot: Snapshot) -> Iterator[IndexDefinition]:
    """Return the definitions that the guard row of a snapshot has, those of dropped columns among them."""
    return (IndexDefinition.from_json(entry) for entry in entries_of(guard_row(snapshot), INDICES_NOTE))


_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Coverage:
    """The segments that a version of a table has of an index, and the files that none of them is about.

    `others` have the name and are of another column or kind.
    """

    segments: tuple[lance.Index, ...]
    others: tuple[lance.Index, ...]
    covered: frozenset[int]
    missing: frozenset[int]

    @classmethod
    def of(cls, dataset: LanceDataset, name: str, column: str, kind: IndexKind) -> Coverage:
        """Return what `dataset` has of the index."""
        named = [index for index in dataset.describe_indices() if index.name == name]
        is_mine = _is_of(dataset, column, kind)
        mine = tuple(segment for index in named if is_mine(index) for segment in segments(index))
        others = tuple(segment for index in named if not is_mine(index) for segment in segments(index))
        fragments = frozenset(fragment.fragment_id for fragment in dataset.get_fragments())
        covered = fragments & _files(mine)
        return cls(mine, others, covered, fragments - covered)

    def replaced_by(self, fragments: frozenset[int]) -> list[lance.Index]:
        """Return the segments that a new one over some files makes useless."""
        live = self.covered - fragments
        return [*self.others, *(segment for segment in self.segments if not live.intersection(segment.fragment_ids))]


def index_of(dataset: LanceDataset, column: str, kind: IndexKind) -> lance.IndexDescription | None:
    """Return the index of a kind that a table has of a column, whatever it is called.

    Of several the oldest, which Lance takes.
    """
    indices = filter(_is_of(dataset, column, kind), dataset.describe_indices())
    return min(
        indices, key=lambda index: min(segment.created_at or _LONG_AGO for segment in index.segments), default=None
    )


def covered_files(index: lance.IndexDescription) -> frozenset[int]:
    """Return the files that an index covers, removed ones among them."""
    return _files(segments(index))


def segments(index: lance.IndexDescription) -> Iterator[lance.Index]:
    """Yield the segments of an index, as what takes their place must name them."""
    for segment in index.segments:
        yield lance.Index(
            uuid=segment.uuid,
            name=index.name,
            fields=index.fields,
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
            created_at=segment.created_at,
            base_id=segment.base_id,
        )


def is_of_vectors(index: lance.IndexDescription) -> bool:
    """Return whether an index is one of vectors."""
    kind = _KINDS.get(_plain(index.index_type))
    return kind is not None and kind.family is Family.VECTOR


def all_segments(dataset: LanceDataset) -> Iterator[lance.Index]:
    """Return the segments of all indices of a table."""
    return (segment for index in dataset.describe_indices() for segment in segments(index))


def definitions(dataset: LanceDataset) -> Iterator[IndexDefinition]:
    """Return the definitions of the indices of a plain table, as far as Lance tells them; those of other kinds are left out.

    An index that another writer has made is kept up to date whatever the number of rows.
    """
    for index in dataset.describe_indices():
        kind = _KINDS.get(_plain(index.index_type))
        if kind is not None and len(index.fields) == 1:
            details = dict(index.details or {})
            details |= details.get("compression") or {}
            details["metric"] = str(details.get("metric_type", "")).lower()
            options = {name: details[name] for name, of in kind.options.items() if type(details.get(name)) is of}
            yield IndexDefinition(name=index.name, field_id=int(index.fields[0]), kind=kind.name, options=options)


def _is_of(dataset: LanceDataset, column: str, kind: IndexKind) -> Callable[[lance.IndexDescription], bool]:
    """Return a test for indices of a kind of a column."""
    number = number_at(dataset.lance_schema, column.split("."))
    return lambda index: list(index.fields) == [number] and _plain(index.index_type) == _plain(kind.name)


def _files(segments: Iterable[lance.Index]) -> frozenset[int]:
    return frozenset(fragment for segment in segments for fragment in segment.fragment_ids)


def _plain(kind: str) -> str:
    return kind.replace("_", "").lower()


_KINDS = {_plain(name): kind for name, kind in KINDS.items()}
"""The kinds of index by the names that Lance has for them, without underscores."""


_OF_TEXTS = "Inverted"
_NO_OPTIONS = frozenset({"lance_tokenizer", "document_granularity"})
"""Details of a text index that are not options of its creation."""

Signature = tuple[tuple[int, ...], str, str | None]
"""Signature that indices of one name must share: columns, kind, and how they measure vectors or cut texts."""


@dataclass(frozen=True, slots=True)
class CarriedIndices:
    """The segments of one version of a table, and by the name of each index what it is."""

    segments: tuple[lance.Index, ...] = ()
    kinds: tuple[tuple[str, Signature], ...] = ()

    @classmethod
    def of(cls, dataset: LanceDataset, places: Mapping[int | None, Store]) -> CarriedIndices:
        """Return the indices of a table whose files lie at `places`, by the base paths that they name."""
        described = dataset.describe_indices()
        carried = [
            replace(
                segment,
                # A reader that does not know their sizes requests them in each search.
                files=[
                    IndexFile(file.path, file.size)
                    for file in places[segment.base_id].child(INDICES, segment.uuid).tree()
                ],
                index_details=_details(index),
            )
            for index in described
            for segment in segments(index)
        ]
        kinds = [(index.name, _signature(index)) for index in described]
        # Texts of a column are searched by one index, whatever others there are.
        kinds += [
            (f"{index.fields}", (tuple(index.fields), index.name, None)) for index in described if _is_of_texts(index)
        ]
        return cls(tuple(carried), tuple(kinds))

    def under_bases(self, numbers: Mapping[int | None, int], version: int) -> list[lance.Index]:
        """Return the same for a version of another dataset, under the base paths that take the place of theirs."""
        return [
            replace(segment, base_id=numbers[segment.base_id], dataset_version=version) for segment in self.segments
        ]


def _signature(index: lance.IndexDescription) -> Signature:
    details = str(sorted(index.details.items())) if _is_of_texts(index) else index.details.get("metric_type")
    return tuple(index.fields), index.index_type, details


def _is_of_texts(index: lance.IndexDescription) -> bool:
    return bool(index.index_type == _OF_TEXTS)


def _details(index: lance.IndexDescription) -> tuple[str, bytes]:
    """Return the type and details of an index for a manifest: Lance uses those of text indices, and reads files else."""
    if not _is_of_texts(index):
        return index.type_url, b""
    options = {name: value for name, value in index.details.items() if name not in _NO_OPTIONS and value is not None}
    return _text_details(json.dumps(options, sort_keys=True))


@lru_cache(64)
def _text_details(options: str) -> tuple[str, bytes]:
    """Return what Lance writes down of an index of texts with some options (as JSON): found out by making one."""
    empty = pa.table({"text": pa.array([""])})
    dataset = lance.write_dataset(empty, f"memory://{secrets.token_hex(8)}")
    dataset.create_scalar_index("text", "INVERTED", **json.loads(options))
    (made,) = dataset.read_transaction(dataset.version).operation.new_indices
    details: tuple[str, bytes] = made.index_details
    return details


_, _CREATED, _UPDATED = (field.name for field in LINEAGE_FIELDS)


def holds_old_values(dataset: LanceDataset, index: Sequence[lance.Index], fragments: Collection[int]) -> bool:
    """Return whether the segments of an index may hold old values of rows in some fragments that they cover, or would cover."""
    if not (dataset.has_stable_row_ids and index and fragments):
        return False
    made = min(segment.dataset_version for segment in index)
    scanner = dataset.scanner(
        columns=[_UPDATED],
        filter=f"{_UPDATED} > {made} AND {_UPDATED} > {_CREATED}",
        fragments=[file for file in dataset.get_fragments() if file.fragment_id in fragments],
        limit=1,
    )
    return bool(scanner.to_table().num_rows)


def is_outdated(dataset: LanceDataset, index: lance.IndexDescription) -> bool:
    """Return whether an index may hold old values of rows that it covers."""
    mine = list(segments(index))
    covered = frozenset[int]().union(*(segment.fragment_ids for segment in mine))
    return holds_old_values(dataset, mine, covered)


def has_outdated_index(dataset: LanceDataset) -> bool:
    """Return whether conditions must not be looked up in the indices of a version."""
    if not (dataset.has_stable_row_ids and dataset.has_index):
        return False
    known = _known.get(dataset)
    if known is None:
        indices = [index for index in dataset.describe_indices() if not is_of_vectors(index)]
        known = _known[dataset] = any(is_outdated(dataset, index) for index in indices)
    return known


_known: WeakKeyDictionary[LanceDataset, bool] = WeakKeyDictionary()
"""Answers for the versions that are open, which never change."""
