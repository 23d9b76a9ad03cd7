"""Migration of tables: from stock namespaces, and from one version of our formats to the next.

What stands in the other places is left there, and counts no more.

A table goes from version to version, each step in one commit that every concurrent writer conflicts with; what a step demands of the
rows is done before it. A run that dies leaves each table at one version, and the next run goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from lance_flight.catalog.bulk.pieces import PieceWork, Progress
from lance_flight.catalog.maintenance import OperationReport
from lance_flight.catalog.maintenance.rewriting import rewrite
from lance_flight.catalog.manifests.snapshot import DERIVED_VALUES, NAMESPACE_KEY, Misplaced, Snapshot
from lance_flight.catalog.manifests.version_log import Change, Revision, commit
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.formats import FORMAT_KEY, FORMATS, TABLE, version_of
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.errors import Unsupported
from lance_flight.faults import failpoint
from lance_flight.model.spec import Evaluate

MIGRATION_SCHEMA = pa.schema(
    [
        pa.field("key", pa.utf8(), nullable=False),
        pa.field("found_in", pa.utf8(), nullable=False),
        pa.field("value", pa.utf8(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationReport(OperationReport):
    """Report of a migration: properties for the table metadata, where each was, and steps of formats; with `dry_run` nothing changed."""

    dry_run: bool
    moved: tuple[Misplaced, ...]
    changes: tuple[FormatChange, ...] = ()

    @property
    def as_table(self) -> pa.Table:
        """One row for each key."""
        rows = [{"key": p.key, "found_in": p.place.value, "value": compact(p.text)} for p in self.moved]
        rows += [
            {"key": FORMAT_KEY, "found_in": f"{change.place}, format {change.found}", "value": str(change.step.to)}
            for change in self.changes
        ]
        return pa.Table.from_pylist(rows, schema=MIGRATION_SCHEMA)

    @property
    def lines(self) -> list[str]:
        goes, migrated = ("would go", "would be migrated") if self.dry_run else ("went", "migrated")
        lines = [] if self.moved else ["everything is in the table metadata of its __manifest"]
        for misplaced in self.moved:
            lines += [
                f"{misplaced.key} {goes} from {misplaced.place.value} into its table metadata",
                f"  {compact(misplaced.text)}",
            ]
        return [*lines, *(f"{migrated}: {change}" for change in self.changes)]


def migrate(namespace: PartitionedNamespace, *, dry_run: bool = False) -> MigrationReport:
    """Move specs and schema into the table metadata, unless they are there; raise `Corrupt` if they cannot be read.

    A concurrent migration wins or loses as a whole.
    """
    if namespace.branch is not None:
        raise Unsupported(f"branch {namespace.branch.name!r} is not migrated by itself; only its table can be")
    moved: tuple[Misplaced, ...] = ()

    def moving(snapshot: Snapshot) -> Revision | None:
        nonlocal moved
        moved = snapshot.misplaced
        return Revision(operation="migrate", stated=_values(moved)) if moved and not dry_run else None

    commit(namespace.log, moving, namespace.snapshot)
    return MigrationReport(dry_run=dry_run, moved=moved)


def compact(text: str) -> str:
    """Return JSON as it is stored: without spaces, and without members that are `null`.

    >>> compact('{"id": 1, "fields": [{"transform": {"type": "year", "width": null}}]}')
    '{"id":1,"fields":[{"transform":{"type":"year"}}]}'
    """
    return json.dumps(_without_nulls(json.loads(text)), separators=(",", ":"), ensure_ascii=False)


def _values(moved: Sequence[Misplaced]) -> dict[str, str]:
    return {prop.key: compact(prop.text) for prop in moved}


def _without_nulls(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_nulls(member) for key, member in value.items() if member is not None}
        case list():
            return [_without_nulls(member) for member in value]
        case _:
            return value


@dataclass(frozen=True, slots=True)
class FormatStep:
    """One step of a table to the version `to`: what it promises, how that is brought about, and what the table metadata says then."""

    to: int
    promise: str
    prepare: Callable[[PartitionedNamespace, Evaluate, Progress | None], None]
    metadata: Mapping[str, str]


def _move_rows(namespace: PartitionedNamespace, evaluate: Evaluate, progress: Progress | None) -> None:
    if namespace.snapshot().doubtful_fields:
        rewrite(namespace, evaluate, work=PieceWork(progress=progress))


STEPS: tuple[FormatStep, ...] = (
    FormatStep(
        to=2,
        promise="all rows are in the partitions of their values",
        prepare=_move_rows,
        metadata=MappingProxyType({DERIVED_VALUES: str(True)}),
    ),
)
"""Every step, in the order of their versions: the last one is to the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatChange:
    """A step that a branch of a table has made, or would make: None for the main branch."""

    branch: str | None
    found: int
    step: FormatStep

    @property
    def place(self) -> str:
        """The table, or the branch, that has made it."""
        return "the table" if self.branch is None else f"branch {self.branch!r}"

    def __str__(self) -> str:
        where = "" if self.branch is None else f"{self.place}: "
        return f"{where}table format {self.found} to {self.step.to} ({self.step.promise})"


def migrate_table(
    namespace: PartitionedNamespace, evaluate: Evaluate, progress: Progress | None = None, *, dry_run: bool = False
) -> Iterator[FormatChange]:
    """Bring a table and its branches to the newest table format, and yield each step when it is done.

    A table that only other writers have written has no format of ours yet. Branches come first: main alone is published to.
    """
    if NAMESPACE_KEY not in namespace.snapshot().metadata:
        return
    for partitioned_namespace in [*(namespace.on_branch(branch.name) for branch in namespace.branches), namespace]:
        if not dry_run:
            partitioned_namespace.log.follow(partitioned_namespace.snapshot())  # of a run that died after its commit
        for step in STEPS:
            version = TABLE.check(version_of(partitioned_namespace.snapshot().metadata), f"table {namespace.name!r}")
            if version >= step.to:
                continue
            if not dry_run:
                step.prepare(partitioned_namespace, evaluate, progress)
                failpoint("format_rows_moved")
                partitioned_namespace.evolve(_change_to(step))
                failpoint("format_raised")
            change = FormatChange(
                branch=None if partitioned_namespace.branch is None else partitioned_namespace.branch.name,
                found=step.to - 1,
                step=step,
            )
            yield change


def migrate_record(root: Root, *, dry_run: bool = False) -> Mapping[str, int]:
    """Let new things in a root have the newest versions, and return those that its record did not say, by format.

    After all tables: an unfinished migration leaves the record as it was.
    """
    known = root.formats.versions()
    missing = {
        name: kind.newest
        for name, kind in FORMATS.items()
        if name != "backup" and _is_below(known.get(name), kind.newest)
    }
    if missing and not dry_run:
        root.formats.check_now()
        root.formats.write(missing)
        failpoint("formats_recorded")
    return missing


def _change_to(step: FormatStep) -> Change:
    def change(snapshot: Snapshot) -> Revision | None:
        if TABLE.check(version_of(snapshot.metadata), "the table") >= step.to:
            return None  # another run was first
        return Revision(
            operation=f"migrate to table format {step.to}", further={FORMAT_KEY: str(step.to), **step.metadata}
        )

    return change


def _is_below(recorded: object, newest: int) -> bool:
    return not isinstance(recorded, int) or recorded < newest
