"""The multi-partition commit: stage a version on every table concerned, then one `__manifest` commit.

Spec: Multi-Partition Transaction, Conflict Resolution; decisions 12 to 17. Transactions of one process that are ready at
the same moment share a commit, and one staged version on each table that several of them only add rows to. Data files
are never written again: what is still based on the right pin is kept, the rest is staged once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa
from lance import FragmentMetadata, LanceOperation

from lance_flight.catalog import partitions
from lance_flight.catalog.grouping import match
from lance_flight.catalog.manifest import NAMESPACE_KEY, SCHEMA_KEY, Manifest
from lance_flight.catalog.new_partitions import NewPartitions
from lance_flight.catalog.retries import attempts
from lance_flight.catalog.snapshot import PIN_COLUMNS, PartitionTable, Snapshot
from lance_flight.catalog.store import UNREADABLE, Store
from lance_flight.catalog.transaction import Part, Staged, Transaction
from lance_flight.errors import Conflict, LanceFlightError, NotFound, OutcomeUnknown, SerializationFailure
from lance_flight.faults import reached
from lance_flight.model.naming import spec_namespace
from lance_flight.model.pins import FixedPin, Latest, Pin

STAGERS = 4

_stagers = ThreadPoolExecutor(STAGERS, thread_name_prefix="stager")


@dataclass(slots=True, eq=False)
class _Member:
    """A transaction that waits for its commit, and what came of it."""

    transaction: Transaction
    version: int | None = None
    error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.version is not None or self.error is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """One partition table of a commit: the parts that change it, and the table as it is now (None: not there yet)."""

    object_id: str
    parts: tuple[Part, ...]
    table: PartitionTable | None


_Memo = dict[tuple[str, FixedPin | None, tuple[int, ...]], Staged]


class Commits:
    """Commits the transactions of this process to one namespace. Safe to share among threads."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._root = manifest.store.parent
        self._waiting: list[_Member] = []
        self._lock = Lock()
        self._turn = Lock()

    def commit(self, transaction: Transaction) -> int:
        """Make a transaction visible and return the new snapshot's version.

        `SerializationFailure` where what it read or rewrote has changed, `Conflict` after the last attempt against other
        writers; after both nothing of it is visible. `OutcomeUnknown` where an object store did not say.
        """
        if not transaction.parts:
            return transaction.base.version
        mine = _Member(transaction)
        with self._lock:
            self._waiting.append(mine)
        with self._turn:
            # Whoever had the turn before may have taken this one along.
            if not mine.is_done:
                with self._lock:
                    group, self._waiting = self._waiting, []
                self._commit(group)
        if mine.error is not None:
            raise mine.error
        if mine.version is None:
            raise AssertionError("a commit without an outcome")
        return mine.version

    def stage(self, transaction: Transaction) -> None:
        """Stage what a transaction did last, so that its own snapshot shows it; nobody else's does."""
        rows = self._rows([transaction], transaction.base, {})
        transaction.show(rows)

    def _commit(self, group: Sequence[_Member]) -> None:
        """Settle every member of the group."""
        try:
            self._settle(group)
        except BaseException as exc:  # noqa: BLE001 - each waiting thread raises it
            for member in group:
                if not member.is_done:
                    member.error = exc

    def _settle(self, group: Sequence[_Member]) -> None:
        memo: _Memo = {}
        for _ in attempts(self._root.name):
            snapshot = self._newest()
            _check(group, snapshot)
            group = [member for member in group if not member.is_done]
            if not group:
                return
            try:
                rows = self._rows([member.transaction for member in group], snapshot, memo)
                reached("all_staged")
                version: int | None = self._publish(group, snapshot, rows)
            except OutcomeUnknown:
                raise
            except (LanceFlightError, OSError) as exc:
                if isinstance(exc, Conflict) and not isinstance(exc, SerializationFailure):
                    version = self._found(group, snapshot)
                elif len(group) == 1:
                    raise
                else:
                    # One of them cannot be staged; by itself each gets its own answer.
                    for member in group:
                        self._commit([member])
                    return
            if version is not None:
                for member in group:
                    member.version = version
                return

    def _newest(self) -> Snapshot:
        try:
            return self._manifest.snapshot()
        except NotFound as exc:
            raise SerializationFailure(f"table {self._root.name!r} was dropped by another writer") from exc

    def _publish(self, group: Sequence[_Member], snapshot: Snapshot, rows: pa.Table) -> int:
        transactions = [member.transaction for member in group]
        try:
            committed = self._manifest.commit(
                snapshot, rows, "; ".join(t.operation for t in transactions), [t.id for t in transactions]
            )
            reached("committed")
        except Conflict:
            raise
        except BaseException as exc:
            # Whatever went wrong, the table says whether it did so before or after the commit.
            version = self._found(group, snapshot)
            if version is None and isinstance(exc, OSError) and self._root.is_remote:
                raise OutcomeUnknown(
                    f"a commit to {self._root.name!r} was sent and not answered: {self._root.words(exc)}"
                ) from exc
            if version is None:
                raise
            return version
        return committed.version

    def _found(self, group: Sequence[_Member], snapshot: Snapshot) -> int | None:
        """The version that the group became visible in all the same: its answer was lost, or came twice."""
        try:
            return self._manifest.committed(snapshot, group[0].transaction.id)
        except NotFound:
            return None
        except (LanceFlightError, *UNREADABLE) as exc:
            raise OutcomeUnknown(
                f"a commit to {self._root.name!r} failed, and what came of it cannot be read: {self._root.words(exc)}"
            ) from exc

    def _rows(self, group: Sequence[Transaction], snapshot: Snapshot, memo: _Memo) -> pa.Table:
        """Stage everything on the pins of `snapshot` and return the manifest rows that make it visible."""
        targets = list(_targets(group, snapshot))
        staged = self._staged(targets, memo)
        changed = [snapshot.rows_of(sorted(_written_back(group, snapshot)))]
        old = [(t, s) for t, s in zip(targets, staged, strict=True) if t.table is not None]
        if old:
            rows = snapshot.rows_of([target.object_id for target, _ in old])
            changed.append(_repinned(rows, [place.pin for _, place in old]))
        key = namespace_key(snapshot)
        for spec in snapshot.specs:
            new = [
                (t, s)
                for t, s in zip(targets, staged, strict=True)
                if t.table is None and t.parts[0].added.spec.id == spec.id
            ]
            if new:
                values = pa.concat_tables([target.parts[0].added.values for target, _ in new])
                builder = NewPartitions(snapshot, spec, key)
                changed.append(builder.rows(values, [s.location for _, s in new], [s.pin for _, s in new]))
        return _without_repeats(pa.concat_tables(changed))

    def _staged(self, targets: Sequence[_Target], memo: _Memo) -> list[Staged]:
        if len(targets) == 1:
            return [self._stage(targets[0], memo)]
        running = [_stagers.submit(self._stage, target, memo) for target in targets]
        # Where one fails the others are not left running: what they stage is about to be tried again, or taken away.
        wait(running)
        return [task.result() for task in running]

    def _stage(self, target: _Target, memo: _Memo) -> Staged:
        """A version of the table with the changes of all parts, on top of its newest pin."""
        head, *rest = sorted(target.parts, key=lambda part: not part.rewrites)
        table = target.table
        base = (
            None
            if table is None
            else partitions.base_of(self._root.child(table.location), table.pin, self._manifest.table_branch)
        )
        location = head.added.location if table is None else table.location
        key = target.object_id, base, tuple(map(id, target.parts))
        if key in memo:
            return memo[key]
        store = self._root.child(location)
        place = partitions.place_of_files(location, base)
        for part in target.parts:
            if part.rewrites and part.table is None and table is not None:
                # The new partition was made by somebody who names it otherwise.
                raise SerializationFailure(f"partition table {target.object_id!r} was made by another writer")
            if part.added.place != place:
                _move(self._root, part, location, place)
                head.owns_directory = False
            part.was_staged = True
        kept = (
            head.staged
            if head.staged is not None and (head.staged.location, head.staged.on) == (location, base)
            else None
        )
        pin = base if kept is None else kept.pin
        for operation in _operations(head, rest, is_staged=kept is not None):
            if pin is None:
                pin = partitions.create(store, head.added.schema, _fragments(operation))
            else:
                pin = partitions.stage(store, pin, operation)
            reached("table_staged")
        if pin is None:
            raise AssertionError("a new table without rows")
        staged = Staged(location, base, pin)
        if not rest:
            head.staged, head.waiting = staged, []
        memo[key] = staged
        return staged


def namespace_key(snapshot: Snapshot) -> bytes:
    """The key that names new partitions (decision 4)."""
    return bytes.fromhex(snapshot.metadata[NAMESPACE_KEY])


def pinned_rows(root: Store, snapshot: Snapshot) -> pa.Table:
    """The rows of floating tables, pinned at what they show now: to stage on such a table would publish it."""
    tables = snapshot.floating
    pins = list(_stagers.map(lambda table: partitions.resolve(root.child(table.location), table.pin), tables))
    return _repinned(snapshot.rows_of([table.object_id for table in tables]), pins)


def _operations(head: Part, rest: Sequence[Part], *, is_staged: bool) -> list[LanceOperation.BaseOperation]:
    """What is still to be put on the table: what `head` has not staged, with the rows that the rest adds."""
    operations: list[LanceOperation.BaseOperation]
    if is_staged or head.rewrites:
        operations = [edit.operation for edit in head.waiting]
    else:
        operations = [LanceOperation.Append(list(head.added.fragments))]
    more = [fragment for part in rest for fragment in part.added.fragments]
    match operations[-1] if operations else None:
        case LanceOperation.Append(fragments=fragments) if more:
            operations[-1] = LanceOperation.Append([*fragments, *more])
        case LanceOperation.Update() as update if more:
            update.new_fragments = [*update.new_fragments, *more]
        case None if more:
            operations = [LanceOperation.Append(more)]
    return operations


def _fragments(operation: LanceOperation.BaseOperation) -> list[FragmentMetadata]:
    match operation:
        case LanceOperation.Append(fragments=fragments):
            return list(fragments)
    raise AssertionError(f"{operation} on a table that is not there")


def _move(root: Store, part: Part, location: str, place: str) -> None:
    """Take added rows along to where the table is now.

    Somebody else made it first for the same values, or the row of the table refers to another branch of it.
    """
    if root.is_remote and not part.owns_directory:
        raise SerializationFailure(f"the partition of {part.added.object_id!r} was made by several others at once")
    source = root.child(part.added.place)
    rows = partitions.read_files(source, part.added.schema, part.added.fragments)
    before = part.added.data_files
    part.added.fragments[:] = partitions.write_files(root.child(place), rows)
    reached("files_moved")
    part.added.files.clear()
    if part.owns_directory:
        source.remove()
    elif part.table is None or not part.was_staged:
        source.remove_files(before)
    part.added.location, part.added.place = location, place
    part.waiting = [part.added]
    part.owns_directory = False


def _targets(group: Sequence[Transaction], snapshot: Snapshot) -> Iterator[_Target]:
    """The tables that a group changes; a table that is not there yet is found by its values, however it is called."""
    parts = [part for transaction in group for part in transaction.parts.values()]
    ids = [part.added.object_id for part in parts]
    for spec in snapshot.specs:
        new = [i for i, part in enumerate(parts) if part.table is None and part.added.spec.id == spec.id]
        if not new:
            continue
        values = pa.concat_tables([parts[i].added.values for i in new])
        tables = snapshot.tables_of(spec.id)
        names = NewPartitions(snapshot, spec, namespace_key(snapshot)).object_ids(values)
        for i, row, name in zip(new, match(values, tables.values), names, strict=True):
            ids[i] = tables.table(int(row)).object_id if row >= 0 else name
    together: dict[str, list[Part]] = {}
    for object_id, part in zip(ids, parts, strict=True):
        together.setdefault(object_id, []).append(part)
    found = snapshot.tables_named(list(together))
    for object_id, mine in together.items():
        yield _Target(object_id=object_id, parts=tuple(mine), table=found.get(object_id))


def _written_back(group: Sequence[Transaction], snapshot: Snapshot) -> set[str]:
    """What serialisable transactions read, and the rows of the specs: to write them back shows others' changes as conflicts."""
    readers = [transaction for transaction in group if transaction.serializable and transaction.has_read]
    if not readers:
        return set()
    return {spec_namespace(spec.id) for spec in snapshot.specs}.union(*(reader.reads for reader in readers))


def _check(group: Sequence[_Member], snapshot: Snapshot) -> None:
    """Fail each member that is out of date, by what others have committed or by members before it."""
    touched: set[str] = set()
    created = False
    for member in group:
        transaction = member.transaction
        try:
            _check_namespace(transaction.base, snapshot)
            _check_parts(transaction, snapshot, touched)
            if transaction.serializable and transaction.has_read:
                _check_reads(transaction, snapshot, touched, created=created)
        except SerializationFailure as exc:
            member.error = exc
            continue
        touched.update(transaction.parts)
        created |= any(part.table is None for part in transaction.parts.values())


def _check_namespace(base: Snapshot, newest: Snapshot) -> None:
    """Rows are written for one schema and one spec of one namespace; a namespace made again is another one."""
    same = all(base.metadata.get(key) == newest.metadata.get(key) for key in (NAMESPACE_KEY, SCHEMA_KEY))
    if not same or base.current_spec != newest.current_spec:
        raise SerializationFailure("the table was dropped, replaced or changed in its schema by another writer")


def _check_parts(transaction: Transaction, newest: Snapshot, touched: set[str]) -> None:
    known = {object_id: part for object_id, part in transaction.parts.items() if part.table is not None}
    found = newest.tables_named(list(transaction.parts))
    for object_id, part in transaction.parts.items():
        # What it has taken away again of its own new partition must not come back with the files of others.
        if part.table is None and part.rewrites and (object_id in found or object_id in touched):
            raise SerializationFailure(f"partition table {object_id!r} was made by another writer")
    for object_id, part in known.items():
        table = found.get(object_id)
        if table is None:
            raise SerializationFailure(f"partition table {object_id!r} was dropped by another writer")
        if isinstance(table.pin, Latest):
            raise SerializationFailure(f"partition table {object_id!r} lost its pin to another writer")
        if part.rewrites and (table != part.table or object_id in touched):
            raise SerializationFailure(f"the rows of partition table {object_id!r} were changed by another writer")


def _check_reads(transaction: Transaction, newest: Snapshot, touched: set[str], *, created: bool) -> None:
    read = list(transaction.reads)
    before, now = transaction.base.tables_named(read), newest.tables_named(read)
    changed = sorted(name for name in read if before.get(name) != now.get(name) or name in touched)
    if changed:
        raise SerializationFailure(f"partition table {changed[0]!r}, which was read, was changed by another writer")
    if created or newest.table_ids != transaction.base.table_ids:
        raise SerializationFailure(
            "partitions were created by another writer after this transaction had read the table"
        )


def _repinned(rows: pa.Table, pins: Sequence[Pin]) -> pa.Table:
    """The same manifest rows with other pins."""
    for name in PIN_COLUMNS:
        at = rows.schema.get_field_index(name)
        values = pa.array([getattr(pin.columns, name) for pin in pins], rows.schema.field(at).type)
        rows = rows.set_column(at, rows.schema.field(at), values)
    return rows


def _without_repeats(rows: pa.Table) -> pa.Table:
    """Each object once, as it stands last."""
    last = {object_id: place for place, object_id in enumerate(rows["object_id"].to_pylist())}
    return rows if len(last) == rows.num_rows else rows.take(sorted(last.values()))
