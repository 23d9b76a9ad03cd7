"""Tables of one statement, each at one snapshot, ready to be scanned, and pruned by their hidden columns.

A partitioned table takes its snapshot when its name is resolved, and keeps it for the whole statement; rows that float
(no pin, or a tag) are resolved to versions when a scan is planned that reads them, once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from threading import Lock
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.manifests.snapshot import NAMESPACE_KEY, FixedPin, PartitionTable, Snapshot, SpecTables
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.catalog.storage.table_versions import map_tables
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.indices import indices_of
from lance_flight.catalog.tables.rows import PARTITION, ROW_NAME_FIELD, RowPlace, place_of
from lance_flight.catalog.tables.sources import PinnedTable, row_counts
from lance_flight.engine.plans.scalar_expressions import has_computed, with_stored_expressions
from lance_flight.engine.query.tables.measured_plans import MeasuredTable
from lance_flight.engine.query.tables.provider import Arrange, JoinedKeys, ScanLog, Work, deal, is_lookup, mix_rows
from lance_flight.errors import Conflict, Corrupt, LanceFlightError, NotFound, QueryFailed, Unsupported, storage_error
from lance_flight.model.index_kinds import COMPARED, Lookup
from lance_flight.model.schema import Path
from lance_flight.model.spec import Evaluate, Expression
from lance_flight.planning.arrow_expression import columns_of, row_filter, terms
from lance_flight.planning.index_filters import IndexFilter, index_filter
from lance_flight.planning.joins import Side
from lance_flight.planning.partitions import Partitions, SpecPartitions
from lance_flight.planning.predicates import ALWAYS, Compare, In, Op, Or, Predicate, all_of, conjuncts
from lance_flight.planning.preimages import with_preimages
from lance_flight.planning.pruning import Pruning, SpecPruning, prune, without_idle

VersionsOf = Callable[[PartitionTable], tuple[int, ...]]
"""Function that returns the versions that names of a partition table's rows hold for; the last one is the one that is read."""


@dataclass(frozen=True, slots=True)
class MadeColumns:
    """Conditions of a scan on the columns that it makes.

    `partitions` is on `_partition` alone, and decided by the partition tables; `rows` are the names of which any row has one (None: any
    name); `others` is the rest, with the condition on the names.
    """

    partitions: Predicate
    rows: tuple[str, ...] | None
    others: Predicate

    @classmethod
    def of(cls, predicate: Predicate, made: Collection[str], names: pa.Schema) -> MadeColumns | None:
        """Return the conditions of a predicate on `made` columns; None if it has none."""
        parts = conjuncts(predicate)
        own = [part for part in parts if PARTITION in made and _speaks_of(part, PARTITION)]
        is_named = ROW_NAME_FIELD.name in made and names.field(ROW_NAME_FIELD.name).equals(ROW_NAME_FIELD)
        listed = [values for part in parts if is_named and (values := _row_names(part)) is not None]
        if not own and not listed:
            return None
        others = [part for part in parts if part not in own]
        return cls(all_of(own), min(listed, key=len, default=None), all_of(others))


def narrow_pruning(snapshot: Snapshot, pruning: Pruning, made: MadeColumns, versions_of: VersionsOf) -> Pruning:
    """Return a pruning without the partition tables that the conditions on made columns exclude.

    Raises `Conflict` for the name of a row at another version of its partition table than the one that is read.
    """
    named = None if made.rows is None else _places(snapshot, made.rows, versions_of)
    return Pruning(
        versions=tuple(
            _narrow_version(snapshot, tables, version, made, named)
            for tables, version in zip(snapshot.tables, pruning.versions, strict=True)
        )
    )


def _narrow_version(
    snapshot: Snapshot, tables: SpecTables, version: SpecPruning, made: MadeColumns, named: Collection[str] | None
) -> SpecPruning:
    ids = tables.rows["object_id"].combine_chunks().take(pa.array(version.kept))
    left: npt.NDArray[np.bool_] = np.ones(len(ids), np.bool_)
    used = [str(predicate) for predicate in conjuncts(made.partitions)]
    if used:
        shown = ids if snapshot.is_partitioned else pa.nulls(len(ids), pa.utf8())
        places = pa.table({PARTITION: shown.cast(pa.utf8()), "place": pa.array(np.arange(len(ids)))})
        left &= np.isin(np.arange(len(ids)), places.filter(row_filter(made.partitions).rest)["place"].to_numpy())
    if named is not None and snapshot.is_partitioned:
        left &= pc.is_in(ids, value_set=pa.array(list(named), ids.type)).to_numpy(zero_copy_only=False)
        used.append(f"the partitions of {ROW_NAME_FIELD.name}")
    kept = version.kept[left]
    return replace(
        version,
        kept=kept,
        used=(*version.used, *used),
        certain=np.intersect1d(version.certain, kept, assume_unique=True),
    )


def _places(snapshot: Snapshot, names: Sequence[str], versions_of: VersionsOf) -> set[str]:
    """Return the partitions of named rows; raise `Conflict` for one whose name holds no longer."""
    places = {name: place for name in names if (place := place_of(name)) is not None}
    tables = _tables(snapshot, {place.partition for place in places.values()})
    for name, place in places.items():
        if place.version is not None:
            _check_version(name, place, tables.get(place.partition), versions_of)
    return {place.partition for place in places.values()}


def _tables(snapshot: Snapshot, partitions: set[str]) -> Mapping[str, PartitionTable]:
    if snapshot.is_partitioned:
        return snapshot.tables_named(sorted(name for name in partitions if name))
    return dict.fromkeys([""], snapshot.all_tables()[0])


def _check_version(name: str, place: RowPlace, table: PartitionTable | None, versions_of: VersionsOf) -> None:
    if table is None:
        now = "is not there any longer"
    elif place.version not in (versions := versions_of(table)):
        now = f"is at version {versions[-1]} here"
    else:
        return
    raise Conflict(
        f"_rowid {name!r} holds for version {place.version} of its partition's table, which {now}; expected one that was"
        " read at the same version: read it again, in the transaction that uses it"
    )


def _speaks_of(predicate: Predicate, column: str) -> bool:
    """Return whether a predicate is on one column alone."""
    try:
        return columns_of(predicate) == (column,)
    except Unsupported:
        return False


def _row_names(predicate: Predicate) -> tuple[str, ...] | None:
    """Return the names of rows, one of which a row must have to fulfil a predicate; None if it says no such names."""
    if not _speaks_of(predicate, ROW_NAME_FIELD.name):
        return None
    match predicate:
        case Compare(_, Op.EQ, value):
            return (str(value.as_py()),)
        case In(_, values, False):
            return tuple(str(value) for value in values.to_pylist())
        case Or(parts):
            names_of_parts = [_row_names(part) for part in parts]
            return (
                None
                if None in names_of_parts
                else tuple(name for names in names_of_parts if names is not None for name in names)
            )
        case _:
            return None


T = TypeVar("T")

_coded: WeakKeyDictionary[Snapshot, Partitions] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Split:
    """One of `of` equal splits of a scan: the one that an endpoint streams."""

    part: int = 0
    of: int = 1

    def pick(self, items: Sequence[T]) -> list[T]:
        """Return the items of this split."""
        return list(items[self.part :: self.of])


@dataclass(frozen=True, slots=True)
class Lanes:
    """A planned scan (`provider.ScanPlan`)."""

    lanes: Sequence[Sequence[Work]]
    index_filter: IndexFilter | None = None
    arrange: Arrange | None = None
    keys: Mapping[str, JoinedKeys] = field(default_factory=dict)
    scanned: MeasuredTable | None = None


class UnpinnedResolver:
    """Resolves the versions of unpinned tables for one statement: each is looked up when first needed, and then cached.

    `known` holds them by object id. Rows keep the names that they have in the snapshot `named_in`. Safe to
    share among the scans of the statement.
    """

    def __init__(
        self, store: Store, snapshot: Snapshot, known: Mapping[str, FixedPin], named_in: Snapshot | None = None
    ) -> None:
        self._named_in = named_in
        self.known = dict(known)
        self._snapshot = snapshot
        self._store = store
        self._lock = Lock()

    def pin_tables(self, tables: Sequence[PartitionTable], numbers: Targets | None = None) -> list[PinnedTable]:
        """Return each table at the version that the statement reads; raise `NotFound` for a missing one."""
        with self._lock:
            self._learn([t for t in tables if not isinstance(t.pin, FixedPin) and t.object_id not in self.known])
        named = {} if self._named_in is None else self._named_in.tables_named([table.object_id for table in tables])
        return [
            PinnedTable(
                self._store.child(table.location),
                table.pin if isinstance(table.pin, FixedPin) else self.known[table.object_id],
                0 if numbers is None else numbers.number(table),
                table.object_id if self._snapshot.is_partitioned else None,
                self._snapshot.context_of(table),
                _naming_pin(table, named.get(table.object_id)),
            )
            for table in tables
        ]

    def _learn(self, tables: Sequence[PartitionTable]) -> None:
        if tables:
            pins = map_tables(
                lambda table: partitions.resolve(self._store.child(table.location), table.pin), tables, "resolver"
            )
            self.known |= {table.object_id: pin for table, pin in zip(tables, pins, strict=True)}


def _naming_pin(table: PartitionTable, before: PartitionTable | None) -> FixedPin | None:
    """Return the pin that a table had `before`, if it is the same table."""
    is_same = before is not None and before.location == table.location
    return before.pin if before is not None and is_same and isinstance(before.pin, FixedPin) else None


Prunings = Mapping[str, Sequence[Pruning]]
"""Pruning results of a query's scans, for each partitioned table by `schema.name`."""
Rows = tuple[npt.NDArray[np.int64], ...]
"""Partition tables of a snapshot: for each spec version the rows of `SpecTables`."""


class Targets:
    """Partition tables whose rows a statement may change, numbered in the order in which its scans find them."""

    def __init__(self) -> None:
        self.tables: list[PartitionTable] = []
        self._numbers: dict[str, int] = {}

    def number(self, table: PartitionTable) -> int:
        """Return the number of a table, which `TABLE_NUMBER` gives for its rows; assign one if it has none."""
        if table.object_id not in self._numbers:
            self._numbers[table.object_id] = len(self.tables)
            self.tables.append(table)
        return self._numbers[table.object_id]

    def number_of(self, object_id: str) -> int | None:
        """Return the number of a table; None if it has none."""
        return self._numbers.get(object_id)


@dataclass(frozen=True, slots=True)
class Pruned:
    """Result of pruning a snapshot for rows where `predicate`, and beyond it `hint`, is TRUE.

    `chosen` are the tables that a whole scan reads then; none before one was planned, or where they are too many to be kept.
    """

    predicate: Predicate
    hint: Predicate
    pruning: Pruning
    chosen: list[tuple[Predicate | None, list[PinnedTable]]] = field(default_factory=list)


MOST_CHOSEN = 256
MOST_PRUNED = 4
"""Most pruning results that are kept for a table, which is pruned once for each of its scans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """Table at one snapshot, as one statement scans it.

    It is scanned in `target_partitions` lanes. `only` are the partition tables that may be read (None: all), and
    `hint` says what the plan requires of every scan beyond its pushed filters, and `keys` the values of columns in rows that find one to join with. `extra_columns` are columns that a scan makes: of
    merged tables it can `_partition` alone. `key` is its name in SQL with its schema, `pruned` what is known of its snapshot.

    `visible` are the stored columns that it has for the principal (None: all). Where it `hides_layout`, nothing tells which rows lie in one
    partition, or how many partitions there are: rows are read in random order, and kept in a `spill_directory` if they are many.
    """

    name: str
    key: str
    table: Table
    snapshot: Snapshot
    floating: UnpinnedResolver
    target_partitions: int
    share: Split
    log: ScanLog
    hint: Callable[[], Predicate]
    keys: Callable[[], Mapping[str, JoinedKeys]]
    evaluate: Evaluate
    pruned: list[Pruned] = field(default_factory=list)
    only: Rows | None = None
    targets: Targets | None = None
    extra_columns: tuple[pa.Field, ...] = ()
    on_read: Callable[[Sequence[str]], None] | None = None
    visible: frozenset[str] | None = None
    hides_layout: bool = False
    spill_directory: str | None = None

    @property
    def store(self) -> Store:
        """Return the store of the table."""
        return self.table.store

    @property
    def schema(self) -> pa.Schema:
        plain, visible = self.snapshot.schema.plain, self.visible
        if visible is not None:
            plain = pa.schema([field for field in plain if field.name in visible])
        return pa.schema([*plain, *self.extra_columns]) if self.extra_columns else plain

    @property
    def ids(self) -> dict[str, int]:
        return self.snapshot.schema.ids

    def plan(self, predicate: Predicate) -> Lanes:
        """Prune and pin the tables, and distribute them over lanes (`provider.Readable`)."""
        pruning = self.prune(predicate)
        self.log.prunings.setdefault(self.key, []).append(pruning)
        index_filter = self._index_filter()
        if self.snapshot.is_partitioned or self._indices(predicate, index_filter):
            self.log.reports.append(partial(self.describe, pruning, predicate, index_filter, self.hint()))
        target_partitions = self.target_partitions
        if self.arrange is not None or is_lookup(predicate, self.snapshot):
            target_partitions = 1
        is_merging = all(column.name == PARTITION for column in self.extra_columns)
        lanes = deal(self._choose_tables(pruning), target_partitions, self.log, merging=is_merging)
        is_told = self.snapshot.is_partitioned and not self.hides_layout
        scanned = MeasuredTable(self.name, (pruning.scanned, pruning.total) if is_told else None)
        return Lanes(lanes, index_filter, self.arrange, self.keys(), scanned)

    @property
    def arrange(self) -> Arrange | None:
        """Return what puts the rows of a scan into random order; None where their order may tell of partitions."""
        # The addresses of rows to change are not shown to anyone.
        is_mixed = self.hides_layout and self.targets is None
        return partial(mix_rows, directory=self.spill_directory) if is_mixed else None

    def _index_filter(self) -> IndexFilter | None:
        """Return what indices answer of the conditions above the scan."""
        hint = self.hint()
        if hint == ALWAYS:
            return None
        names = self.snapshot.schema.names
        lookups: dict[str, frozenset[Lookup]] = {}
        for index in indices_of(self.snapshot):
            name = names.get(index.field_id)
            if name is None:
                continue  # of a field inside a struct, which no condition here is about
            lookups[name] = lookups.get(name, frozenset()) | index.of_kind.lookups
        if self.snapshot.is_partitioned and self.snapshot.has_stable_row_ids:
            # Elements of lists carry field ids there, and no dataset without them has the ids of rows that such an index is about.
            lookups = {name: known - {Lookup.ELEMENT} for name, known in lookups.items()}
        return index_filter(with_preimages(hint, self.snapshot.schema), lookups, self.snapshot.schema.plain)

    def _choose_tables(self, pruning: Pruning) -> list[tuple[Predicate | None, list[PinnedTable]]]:
        """Return the tables that a scan reads, by residual filter; reused if the same pruning was read before."""
        is_whole = self.only is None and self.share.of == 1 and self.targets is None
        known = [pruned.chosen for pruned in self.pruned if pruned.pruning is pruning and is_whole]
        if known and known[0]:
            return known[0]
        chosen = [
            (rest, self.share.pick(tables.tables(rows)))
            for place, (tables, version) in enumerate(zip(self.snapshot.tables, pruning.versions, strict=True))
            for rest, rows in version.by_residual(self._among(version.kept, place))
        ]
        kept = [(rest, self.floating.pin_tables(tables, self.targets)) for rest, tables in chosen]
        if (
            known
            and pruning.scanned <= MOST_CHOSEN
            and all(isinstance(table.pin, FixedPin) for _, tables in chosen for table in tables)
        ):
            known[0].extend(kept)
        return kept

    def _among(self, kept: npt.NDArray[np.int64], version: int) -> npt.NDArray[np.int64]:
        """Return those of the `kept` tables of a spec version that may be read."""
        return kept if self.only is None else np.intersect1d(kept, self.only[version], assume_unique=True)

    def prune(self, predicate: Predicate) -> Pruning:
        """Find the partitions that a scan reads, and record them as read."""
        pruning = self._prune(predicate, self.hint())
        self.record(pruning)
        return pruning

    def record(self, pruning: Pruning) -> None:
        """Record the partitions that a scan reads as read."""
        if self.snapshot.is_partitioned and not self.hides_layout:
            self.log.partitions[self.store.uri, self.snapshot.version] = pruning.scanned, pruning.total
        if self.on_read is not None:
            kept = zip(self.snapshot.tables, pruning.versions, strict=True)
            self.on_read([table.object_id for tables, version in kept for table in tables.tables(version.kept)])

    def _prune(self, predicate: Predicate, hint: Predicate) -> Pruning:
        for known in self.pruned:
            if known.predicate == predicate and known.hint == hint:
                return known.pruning
        made = self._made_columns(predicate)
        rest = predicate if made is None else made.others
        pruning = prune(partitions_of(self.snapshot), self.snapshot.schema, rest, self.evaluate, hint)
        if made is not None:
            pruning = narrow_pruning(self.snapshot, pruning, made, self._versions_of)
        if not self.has_expressions and not has_computed(hint):
            # A custom expression is computed between two rounds, and is known in the second one.
            self.pruned.append(Pruned(predicate, hint, pruning))
            del self.pruned[:-MOST_PRUNED]
        return pruning

    def _made_columns(self, predicate: Predicate) -> MadeColumns | None:
        names = [column.name for column in self.extra_columns]
        return MadeColumns.of(predicate, names, self.schema) if names else None

    def _of_columns(self, predicate: Predicate) -> Predicate:
        """Return what a predicate says of stored columns."""
        made = self._made_columns(predicate)
        return predicate if made is None else made.others

    def with_stored_expressions(self, hint: Predicate) -> Predicate:
        """Return a hint whose conditions on computed values know the expressions that the partition fields store."""
        return with_stored_expressions(hint, self.snapshot.schema, self.snapshot.specs)

    def _versions_of(self, table: PartitionTable) -> tuple[int, ...]:
        """Return the versions that the names of a partition table's rows hold for."""
        (pinned,) = self.floating.pin_tables([table])
        return tuple(pin.version for pin in (pinned.named_by, pinned.pin) if pin is not None)

    @property
    def has_expressions(self) -> bool:
        """True if any spec has a partition field with a custom expression."""
        return any(isinstance(field.rule, Expression) for spec in self.snapshot.specs for field in spec.fields)

    def describe(
        self,
        pruning: Pruning,
        predicate: Predicate,
        index_filter: IndexFilter | None = None,
        hint: Predicate = ALWAYS,
    ) -> str:
        """Return what EXPLAIN tells of a scan: its partitions, and the indices for its conditions.

        Only EXPLAIN itself finds out which conditions exclude no partition.
        """
        indices = [] if self.visible is not None else self._indices(predicate, index_filter)
        if self.hides_layout or not self.snapshot.is_partitioned:
            return "\n".join([f"table {self.name}, snapshot {self.snapshot.version}", *map(_index_line, indices)])
        if self.log.is_explained:
            schema = self.snapshot.schema
            condition = all_of([self._of_columns(predicate), with_preimages(hint, schema)])
            pruning = without_idle(pruning, partitions_of(self.snapshot), schema, condition, self.evaluate)
        full = report(self.name, pruning, self.snapshot.version, indices)
        # The conditions that pruned may be those of masks, over columns that are not granted.
        return full if self.visible is None else full.split("\n", 1)[0]

    def _indices(self, predicate: Predicate, index_filter: IndexFilter | None) -> list[str]:
        """Return the indices that Lance may use for a scan with a pushed filter, and for what they answer beyond it, for EXPLAIN."""
        ids = self.ids
        spoken = {(ids[name], lookup) for name in terms(predicate) if name in ids for lookup in COMPARED}
        spoken |= set() if index_filter is None else {(ids[name], lookup) for name, lookup in index_filter.lookups}
        if not spoken:
            return []
        names = self.snapshot.schema.names
        return [
            f"{index.name} ({index.kind}) of {names[index.field_id]}"
            for index in indices_of(self.snapshot)
            if any((index.field_id, lookup) in spoken for lookup in index.of_kind.lookups)
        ]

    def row_counts(self, rows: Rows) -> list[npt.NDArray[np.int64]]:
        """Return the row counts of partition tables, in the order of `rows`."""
        tables = [mine.tables(kept) for mine, kept in zip(self.snapshot.tables, rows, strict=True)]
        try:
            counted = iter(row_counts(self.floating.pin_tables([table for mine in tables for table in mine])))
        except (LanceFlightError, *UNREADABLE) as exc:
            raise self.failure(exc) from exc
        return [np.fromiter(islice(counted, len(mine)), np.int64, len(mine)) for mine in tables]

    def failure(self, exc: Exception) -> LanceFlightError:
        """Translate an exception of a scan (`provider.Readable`)."""

        def is_unchanged() -> bool:
            return self.table.snapshot(self.snapshot.version).committed_at == self.snapshot.committed_at

        def has_expired() -> bool:
            return self.table.has_expired(self.snapshot.version, self.snapshot.metadata.get(NAMESPACE_KEY))

        error = failure(self.name, self.store, exc, unchanged=is_unchanged, expired=has_expired)
        if self.hides_layout and isinstance(error, Corrupt | QueryFailed):
            # A path names a partition, and the condition of the query the rows that lie in it.
            return type(error)(
                f"reading {self.name!r} failed; which file fails is told to those with SELECT on all columns"
            )
        return error


_NESTED = re.compile(r"has no kernel matching input types \((?:\w*list|struct)")


def failure(
    name: str, store: Store, exc: Exception, *, unchanged: Callable[[], bool], expired: Callable[[], bool]
) -> LanceFlightError:
    """Translate an exception that ended a scan.

    To `Conflict` if the table was dropped or replaced, or its snapshot vacuumed; to `Corrupt` if what the snapshot names is missing or cut short,
    to `QueryFailed` for another foreign one. Data is below the directory
    of its table and is deleted with it: dropping a table ends the scans of its readers. Leases keep snapshots from vacuum, but for a reader whose
    process was stopped for longer than a lease is good for.
    """
    if isinstance(exc, LanceFlightError) and not isinstance(exc, NotFound):
        return exc
    if isinstance(exc, pa.ArrowNotImplementedError) and _NESTED.search(str(exc)):
        return Unsupported(
            f"a condition compares lists or structs of {name!r} with each other; write a IS NOT DISTINCT FROM b for a = b,"
            " or compare their elements"
        )
    refused = storage_error(exc)
    if refused is not None:
        return refused
    try:
        if expired():
            return Conflict(
                f"a snapshot of table {name!r} was vacuumed while it was read: its lease was not renewed in time; expected a new try"
            )
        there = unchanged()
    except NotFound:
        there = False
    if not there:
        return Conflict(f"table {name!r} was dropped or replaced while it was read")
    return store.reading_error(name, exc)


def partitions_of(snapshot: Snapshot) -> Partitions:
    """Return the partition values of a snapshot in planning's form, cached while the snapshot lives."""
    coded = _coded.get(snapshot)
    if coded is None:
        coded = Partitions.together([_partitions_of(version, snapshot.doubtful_fields) for version in snapshot.tables])
        _coded[snapshot] = coded
    return coded


def _partitions_of(tables: SpecTables, doubtful: frozenset[str]) -> SpecPartitions:
    """Return the partition values of one spec version, with the doubtful fields separated."""
    fields = tables.spec.fields
    sure = tuple(field for field in fields if field.field_id not in doubtful)
    left = tuple(field for field in fields if field.field_id in doubtful)
    return SpecPartitions(spec=replace(tables.spec, fields=sure), values=tables.values, doubtful=left)


def side_of(
    name: str,
    snapshot: Snapshot,
    kept: Rows,
    columns: Sequence[Path],
    parts: Mapping[int, frozenset[str]] | None = None,
) -> Side:
    """Return one scan of a table for `planning.joins`: the tables that it reads, and the columns that are its keys."""
    return Side(
        name=name,
        schema=snapshot.schema,
        partitions=partitions_of(snapshot),
        kept=kept,
        keys=tuple(snapshot.schema.source_ids[path] for path in columns),
        parts=parts or {},
    )


def report(name: str, pruning: Pruning, snapshot: int, indices: Sequence[str] = ()) -> str:
    """Describe the pruning of a scan, and the indices for the remaining rows, for EXPLAIN."""
    lines = [f"partitions: {pruning.scanned} / {pruning.total}  table {name}, snapshot {snapshot}"]
    for version in pruning.versions:
        lines.append(f"  v{version.spec_id}: {len(version.kept)} / {version.total}")
        lines += [f"    used: {text}" for text in version.used]
        lines += [f"    not used: {unused.predicate} ({unused.why})" for unused in version.unused]
    lines += map(_index_line, indices)
    return "\n".join(lines)


def _index_line(index: str) -> str:
    return f"  index: {index}"
