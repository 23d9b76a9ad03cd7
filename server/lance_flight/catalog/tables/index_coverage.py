"""Coverage of a table version by an index: segments, each about some of its files, and the files without one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import lance
from lance import LanceDataset

from lance_flight.catalog.manifests.indices import IndexDefinition
from lance_flight.model.index_kinds import KINDS, Family, IndexKind

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
        return [*self.others, *(each for each in self.segments if not live.intersection(each.fragment_ids))]


def index_of(dataset: LanceDataset, column: str, kind: IndexKind) -> lance.IndexDescription | None:
    """Return the index of a kind that a table has of a column, whatever it is called.

    Of several the oldest, which Lance takes.
    """
    found = filter(_is_of(dataset, column, kind), dataset.describe_indices())
    return min(
        found, key=lambda index: min(segment.created_at or _LONG_AGO for segment in index.segments), default=None
    )


def covered(index: lance.IndexDescription) -> frozenset[int]:
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
            told = dict(index.details or {})
            told |= told.get("compression") or {}
            told["metric"] = str(told.get("metric_type", "")).lower()
            options = {name: told[name] for name, of in kind.options.items() if type(told.get(name)) is of}
            yield IndexDefinition(name=index.name, field_id=int(index.fields[0]), kind=kind.name, options=options)


def _is_of(dataset: LanceDataset, column: str, kind: IndexKind) -> Callable[[lance.IndexDescription], bool]:
    """Return a test for indices of a kind of a column."""
    number = _number_of(dataset.lance_schema.fields(), column.split("."))
    return lambda index: list(index.fields) == [number] and _plain(index.index_type) == _plain(kind.name)


def _number_of(fields: Iterable[Any], path: Sequence[str]) -> int:
    """Return Lance's number of a column, or of a field inside structs."""
    found = next(field for field in fields if field.name() == path[0])
    return int(found.id()) if len(path) == 1 else _number_of(found.children(), path[1:])


def _files(segments: Iterable[lance.Index]) -> frozenset[int]:
    return frozenset(fragment for segment in segments for fragment in segment.fragment_ids)


def _plain(kind: str) -> str:
    return kind.replace("_", "").lower()


_KINDS = {_plain(name): kind for name, kind in KINDS.items()}
"""The kinds of index by the names that Lance has for them, without underscores."""
