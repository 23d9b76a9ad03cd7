"""Publishing a branch: what it has changed becomes what the main branch shows, in one commit. And the other way round: replacing it.

Columns, specs and indices that one of the two has changed come along. Tables of the branch and of main that lack columns of the
other get a version with all of them first, which nobody sees (`schema_evolution.py`).

An object counts as changed on one side if its `__manifest` row is not that at the fork; after a publication the two have
met again, and the next one begins there.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset
from lance.fragment import DeletionFile

from lance_flight.catalog.commits.transaction import repin_rows
from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.manifests.references import REPLACED, Replacement, replacement_of
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.manifests.version_log import Difference, Revision, back_to, conform_rows
from lance_flight.catalog.schema_evolution import Computed, SchemaStep, StagedSchemas
from lance_flight.catalog.storage.formats import version_of
from lance_flight.catalog.storage.lance_columns import field_id, numbers_of_columns
from lance_flight.catalog.storage.store import BranchRef
from lance_flight.catalog.storage.table_versions import map_tables
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.indices import definitions_of, note_of, published_definitions
from lance_flight.errors import NotFound, SerializationFailure, Unsupported
from lance_flight.model.naming import SEPARATOR, TABLE
from lance_flight.model.schema import DEFAULT, DEFAULT_CHANGED, NamespaceSchema
from lance_flight.model.schema_changes import merge_problems, merge_schemas, stricter
from lance_flight.model.spec import Expression, PartitionSpec

Rows = frozenset[tuple[int, int | None, object, frozenset[str]]]


PUBLISHED = "lance_flight:published"

SameRows = Callable[[PartitionTable, PartitionTable], bool]
"""Function that tells whether two versions of a partition table have the same rows, be it in other columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMerge:
    """A branch at its newest snapshot `tip` and the main one at `main`, with `base`, the snapshot at which they agreed last."""

    ref: BranchRef
    base: Snapshot
    main: Snapshot
    tip: Snapshot

    def merged_schema(self) -> NamespaceSchema:
        """Return the columns of both, or raise `SerializationFailure` for one that both have changed."""
        schemas = self.base.schema, self.main.schema, self.tip.schema
        self.refuse(merge_problems(*schemas))
        return merge_schemas(*schemas)

    def merged_specs(self, schema: NamespaceSchema) -> tuple[PartitionSpec, ...]:
        """Return the specs of both over the merged columns; `SerializationFailure` where both have new ones, or a type breaks one."""
        known = {spec.id for spec in self.base.specs}
        mine, theirs = (
            [spec for spec in side.specs if spec.id not in known and spec not in other.specs]
            for side, other in ((self.main, self.tip), (self.tip, self.main))
        )
        if mine and theirs:
            new = " and ".join(", ".join(spec.to_text() for spec in specs) for specs in (theirs, mine))
            self.refuse([f"both have been given another partitioning: {new}"])
        self.refuse(_find_broken_fields(self.main.specs, self.main.schema, schema))
        self.refuse(_find_broken_fields(theirs, self.tip.schema, schema))
        followed = [
            *_following(self.main.specs, self.main.schema, schema),
            *_following(theirs, self.tip.schema, schema),
        ]
        return tuple(sorted(followed, key=lambda spec: spec.id))

    def difference(self, same_rows: SameRows) -> Difference:
        """Return what makes main equal to the branch in all rows that the branch has changed, each table at the branch's pin.

        `SerializationFailure` names a partition whose rows both have changed. Where the rows of a table are those at the fork
        on the branch and only its columns are others, main's table stays if that is another than at the fork.
        """
        changed = set(Difference.between(self.base, self.tip).object_ids)
        missing = Difference.between(self.main, self.tip).only(changed)
        contested = set(Difference.between(self.base, self.main).object_ids).intersection(missing.object_ids)
        tables = [self._tables_at(side, contested) for side in (self.base, self.main, self.tip)]

        def is_same(object_id: str, place: int) -> bool:
            old, new = tables[0].get(object_id), tables[place].get(object_id)
            return old is not None and new is not None and same_rows(old, new)

        left = {object_id for object_id in contested if is_same(object_id, 2)}
        both = sorted(object_id for object_id in contested - left if not is_same(object_id, 1))
        if both:
            table = next((name for name in both if name.endswith(SEPARATOR + TABLE)), both[0])
            self.refuse([f"{table!r} was changed on the main branch as well"])
        return missing.only(set(missing.object_ids) - left)

    def refuse(self, problems: Iterator[str] | Sequence[str]) -> None:
        """Raise `SerializationFailure` if there is a problem."""
        listed = "; ".join(problems)
        if listed:
            raise SerializationFailure(f"branch {self.ref.name!r} cannot be published: {listed}")

    @staticmethod
    def _tables_at(side: Snapshot, object_ids: set[str]) -> dict[str, PartitionTable]:
        return side.tables_named(sorted(name for name in object_ids if name.endswith(SEPARATOR + TABLE)))


@dataclass(frozen=True, slots=True)
class Beginning:
    """The `version` of the main branch that a branch was made at, or replaced by, and what its publications since then are `marked` with."""

    version: int
    mark: str

    @classmethod
    def of(cls, ref: BranchRef, tip: Snapshot) -> Beginning:
        """Return the beginning of a branch as its newest snapshot tells it."""
        replacement = replacement_of(tip)
        return cls(ref.forked_at, ref.identifier) if replacement is None else cls(replacement.version, replacement.mark)

    def met_at(self, main: Manifest, branch: Manifest) -> Snapshot:
        """Return the snapshot at which a branch and the main one agreed last: its last publication, or the beginning.

        Where the history of the publication has expired it is the beginning, which never does: that refuses more, never less.
        """
        for _, said in main.properties(self.version):
            mark, _, version = said.get(PUBLISHED, "").rpartition("@")
            if mark == self.mark:
                with suppress(NotFound):
                    return branch.snapshot(int(version))
        return main.snapshot(self.version)


def _find_broken_fields(
    specs: Sequence[PartitionSpec], before: NamespaceSchema, after: NamespaceSchema
) -> Iterator[str]:
    """Yield the partition fields by which equal values would lie apart once their columns have other types."""
    for spec in specs:
        for field in spec.fields:
            problems = list(field.problems_of_change(before, after))
            if isinstance(field.rule, Expression) and field.source_types(before) != field.source_types(after):
                problems.append("the other one has changed the columns of its expression")
            yield from (f"v{spec.id}, field {field.field_id!r}: {problem}" for problem in problems)


def _following(
    specs: Sequence[PartitionSpec], before: NamespaceSchema, after: NamespaceSchema
) -> Iterator[PartitionSpec]:
    for spec in specs:
        yield replace(spec, fields=tuple(field.following(before, after) for field in spec.fields))


def publish(namespace: PartitionedNamespace, name: str) -> int:
    """Make the main branch equal to a branch in every partition, column and spec that the branch changed; return its version.

    `SerializationFailure` names what both have changed; nothing is published then.
    """
    namespace.refuse_on_branch("be published to")
    branch = namespace.on_branch(name)
    tip = branch.snapshot()
    with branch.hold(tip, is_newest=True):
        return namespace.evolve(_Publication(namespace, branch, tip))


_MARK_BYTES = 6


def replace_branch(
    namespace: PartitionedNamespace,
    name: str,
    at: int | str | datetime | None = None,
    retain: float | None = None,
) -> None:
    """Make a branch equal to a snapshot of the main one (None: the newest one), in one commit, as if it had been made there.

    What was written to it before is published no more. It is kept for so many seconds (None: for as long as before).
    `Unsupported` for a branch with a partitioning of its own: specs are never taken back.
    """
    branch, old = namespace.on_branch(name), namespace.snapshot_to_branch(at)
    with namespace.hold(old, is_newest=at is None):
        branch.commit_change(partial(_replaced, old, namespace.snapshot().specs, name))
    if retain is not None:
        namespace.retain(next(ref for ref in namespace.branches if ref.name == name), retain)


def _meaning(spec: PartitionSpec) -> tuple[object, ...]:
    """Return what a spec means, whatever types its fields have by now."""
    return spec.id, *((field.field_id, tuple(field.source_ids), field.rule) for field in spec.fields)


def _replaced(old: Snapshot, specs: Sequence[PartitionSpec], name: str, newest: Snapshot) -> Revision:
    """Return the change that makes the newest snapshot of a branch equal to an old one of the main branch, which has these `specs` by now."""
    known = set(map(_meaning, specs))
    own = [spec for spec in newest.specs if _meaning(spec) not in known]
    if own:
        raise Unsupported(
            f"branch {name!r} cannot be replaced by version {old.version}: it has a partitioning of its own,"
            f" {', '.join(spec.to_text() for spec in own)}; expected DROP BRANCH, and CREATE BRANCH"
        )
    missing = old.specs[len(newest.specs) :]
    if missing:
        fields = [field for field in old.rows.schema if field.name not in newest.rows.schema.names]
        rows = conform_rows(newest.rows, pa.schema([*newest.rows.schema, *fields]))
        newest = replace(newest, specs=(*newest.specs, *missing), rows=rows)
    # Where versions of tables of the main branch have the numbers of those that were written here, these must not be met again.
    replacement = Replacement(version=old.version, mark=secrets.token_hex(_MARK_BYTES))
    revision = back_to(old)(newest) or Revision(operation="")
    return replace(
        revision,
        specs=(*revision.specs, *missing),
        operation=f"replace branch {name} by version {old.version}",
        notes={REPLACED: asdict(replacement), **note_of(list(definitions_of(old)))},
    )


class _Publication:
    """The change that publishes a branch, made on one snapshot of main after another (`version_log.Change`)."""

    def __init__(self, namespace: PartitionedNamespace, branch: PartitionedNamespace, tip: Snapshot) -> None:
        if branch.branch is None:
            raise AssertionError("the main branch is published to")
        self._main, self._branch, self._ref, self._tip = namespace.log, branch.log, branch.branch, tip
        self._beginning = Beginning.of(branch.branch, tip)
        self._root = namespace.store
        self._tables = StagedSchemas(namespace.store)
        self._operation = f"publish branch {self._ref.name}"

    def __call__(self, newest: Snapshot) -> Revision | None:
        """Return the rows and the metadata that publish the branch; None where main has all of it."""
        self._check_formats(newest)
        base = self._beginning.met_at(self._main, self._branch)
        merge = BranchMerge(ref=self._ref, base=base, main=newest, tip=self._tip)
        schema = merge.merged_schema()
        specs = merge.merged_specs(schema)
        changed = tuple(spec for spec in specs if spec not in newest.specs)
        definitions, problems = published_definitions(base, newest, self._tip)
        merge.refuse(problems)
        notes = note_of(definitions) if definitions != list(definitions_of(newest)) else {}
        difference = merge.difference(partial(self._is_same, base.schema))
        taken = self._tip.tables_named(difference.tables)
        stays = [table for table in newest.all_tables() if table.object_id not in {*taken, *difference.removed}]
        sides = [(self._tip, list(taken.values())), (newest, stays)]
        merge.refuse([problem for side, tables in sides for problem in self._nulls(side.schema, schema, tables)])
        moved = [self._repin_rows(side, schema, tables, difference.rows.schema) for side, tables in sides]
        rows = pa.concat_tables([_without(difference.rows, moved[0]), *moved])
        is_there = not rows.num_rows and not difference.removed and not changed and schema is newest.schema
        if is_there and not notes:
            return None
        return Revision(
            operation=self._operation,
            specs=changed,
            schema=None if schema is newest.schema else schema,
            rows=rows,
            removed=difference.removed,
            notes=notes,
            properties={PUBLISHED: f"{self._beginning.mark}@{self._tip.version}"},
        )

    def _check_formats(self, newest: Snapshot) -> None:
        """Refuse to mix rows of two table formats, of which the older one promises less."""
        versions = [version_of(side.metadata) for side in (self._tip, newest)]
        if str(versions[0]) != str(versions[1]):
            raise Unsupported(
                f"branch {self._ref.name!r} has table format {versions[0]} and the main branch {versions[1]}; expected"
                f" `lance-flight migrate ROOT {self._root.name}` first, which migrates branches as well"
            )
        if self._tip.doubtful_fields and not newest.doubtful_fields:
            raise Unsupported(
                f"branch {self._ref.name!r} may have rows in partitions of other values, and the main branch no longer has; expected"
                f" `lance-flight migrate ROOT {self._root.name}` first"
            )

    def _repin_rows(
        self, side: Snapshot, schema: NamespaceSchema, tables: Sequence[PartitionTable], columns: pa.Schema
    ) -> pa.Table:
        """Return the rows of the tables of one side that get a version with the merged columns; none where it has them."""
        if not tables or side.schema.table.equals(schema.table, check_metadata=True):
            return columns.empty_table()
        step = SchemaStep(before=side.schema, after=schema, computed=_defaults(side.schema, schema))
        pins = self._tables.pins(step, tables, None, self._operation)
        rows = side.rows_of([table.object_id for table in tables])
        return repin_rows(conform_rows(rows, columns), pins)

    def _is_same(self, known: NamespaceSchema, old: PartitionTable, new: PartitionTable) -> bool:
        """Return whether a version of a table has the rows of an old one, and no values of columns that came since."""
        opened = [partitions.open_table(self._root, table) for table in (old, new)]
        before, after = map(_rows, opened)
        paths = {fragment[0]: fragment[3] for fragment in before}
        same = {fragment[:3] for fragment in before} == {fragment[:3] for fragment in after}
        return (
            same
            and all(fragment[3] & paths[fragment[0]] for fragment in after)
            and not _has_new_values(opened[1], set(known.paths))
        )

    def _nulls(
        self, before: NamespaceSchema, after: NamespaceSchema, tables: Sequence[PartitionTable]
    ) -> Iterator[str]:
        """Yield the columns that are NOT NULL after the merge, and NULL in rows of these tables."""
        required = stricter(after, before) if tables else {}
        for number, path in required.items():
            counts = map_tables(partial(self._count_nulls, before, number), tables, "publication")
            if sum(counts):
                yield f"column {path!r} is NOT NULL in one of the two, and NULL in {sum(counts)} rows of the other one"

    def _count_nulls(self, schema: NamespaceSchema, number: int, table: PartitionTable) -> int:
        """Return in how many rows of a table a column is NULL, or may be: inside others, NULL is not looked for."""
        dataset = partitions.open_table(self._root, table)
        value = table.identity.by_source.get(number)
        name = schema.names.get(number)
        if value is not None:
            return 0 if value.is_valid else int(dataset.count_rows())
        is_there = name is not None and name in dataset.schema.names
        return _count_where(dataset, f"`{name}` IS NULL") if is_there else int(dataset.count_rows())


def _count_where(dataset: LanceDataset, condition: str) -> int:
    """Return how many rows of a version fulfil a condition, whatever its indices say."""
    return int(dataset.scanner(columns=[], filter=condition, with_row_id=True, use_scalar_index=False).count_rows())


def _rows(dataset: LanceDataset) -> Rows:
    """Return what tells the rows of a version: each fragment with its number of rows, its deletions and its files."""
    fragments = (fragment.metadata for fragment in dataset.get_fragments())
    return frozenset(
        (value.id, value.physical_rows, _deletions(value.deletion_file), frozenset(file.path for file in value.files))
        for value in fragments
    )


def _deletions(file: DeletionFile | None) -> tuple[int, ...] | None:
    return None if file is None else (file.read_version, file.id, file.num_deleted_rows)


def _has_new_values(dataset: LanceDataset, known: Collection[int]) -> bool:
    """Return whether rows have values in columns of a namespace with other ids than those known, but for defaults."""
    new = [
        field
        for field in dataset.schema
        if field_id(field) is not None and field_id(field) not in known and not _is_default(field)
    ]
    stored = {number for part in dataset.get_fragments() for file in part.metadata.files for number in file.fields}
    numbers = numbers_of_columns(dataset) if new else {}
    # A column that is NULL, and was widened then, is NULL in files of its own.
    return any(
        not stored.isdisjoint(numbers[field_id(field)]) and _count_where(dataset, f"`{field.name}` IS NOT NULL")
        for field in new
    )


def _is_default(field: pa.Field) -> bool:
    """Return whether the values that rows have had since a column was added are its default."""
    metadata = field.metadata or {}
    return DEFAULT in metadata and DEFAULT_CHANGED not in metadata


def _defaults(before: NamespaceSchema, after: NamespaceSchema) -> dict[int, Computed]:
    """Return the computation of the columns that are new in a schema and have, or had, a default."""
    values = after.defaults | after.first_defaults
    new = {after.ids[name]: value for name, value in values.items() if after.ids[name] not in before.paths}
    return {number: Computed((), partial(_repeat, value)) for number, value in new.items()}


def _repeat(value: pa.Scalar, _: Sequence[pa.Array], rows: int) -> pa.Array:
    return pa.repeat(value, rows)


def _without(rows: pa.Table, others: pa.Table) -> pa.Table:
    """Return the rows of objects that have none among others."""
    return rows.filter(pc.invert(pc.is_in(rows["object_id"], value_set=others["object_id"])))
