"""The indices of a namespace: what each is of and how it is built, kept in the guard row so that it changes with rows.

Partition tables have Lance's own indices under the same names; the definition is for those that come later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from lance_flight.catalog.manifests.manifest_rows import entries_of, guard_row
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.errors import Corrupt, NotFound, Unsupported
from lance_flight.model.index_kinds import (
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

INDICES = "lance_flight:indices"


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
        raise Corrupt(f"the note {INDICES} of the __manifest has {entry!r}; expected the definition of an index")


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
    return {INDICES: [definition.to_json() for definition in definitions]}


def definitions_of(snapshot: Snapshot) -> Iterator[IndexDefinition]:
    """Return the definitions that the guard row of a snapshot has, those of dropped columns among them."""
    return (IndexDefinition.from_json(entry) for entry in entries_of(guard_row(snapshot), INDICES))
