"""Partition tables: writing invisible data files, and staging them as a version on top of a pin.

Decision 13. Lance rebases an append onto whatever is newest, so after every commit here the version must be
exactly base + 1; otherwise it carries another writer's rows and is left alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import lance
import pyarrow as pa
from lance import DatasetBasePath, FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments
from lance.schema import LanceSchema

from lance_flight.catalog.manifests.snapshot import (
    BranchVersion,
    FixedPin,
    Latest,
    PartitionTable,
    Pin,
    PlainVersion,
    Tag,
    Version,
)
from lance_flight.catalog.manifests.version_log import TRANSACTIONS, find_commit
from lance_flight.catalog.storage.durability import committing, flush, settle_references, take_back
from lance_flight.catalog.storage.formats import check_values, file_version_of
from lance_flight.catalog.storage.lance_columns import (
    all_rows,
    leaves,
    new_schema,
    numbers,
    renumber_fragments,
    seed_of,
)
from lance_flight.catalog.storage.retries import STAGE, conflicts, retry
from lance_flight.catalog.storage.store import FOR_SMALL_FILES, HERE, UNREADABLE, Store, open_branch, shared_session
from lance_flight.catalog.storage.table_versions import LocationGuard, is_followed, kept_tables, write_version
from lance_flight.catalog.storage.whole_files import BRANCHES, DATA, VERSIONS, change_fragments, seal_fragments
from lance_flight.errors import Conflict, NotFound, OutcomeUnknown, SerializationFailure
from lance_flight.faults import failpoint
from lance_flight.model.file_versions import NEWEST

MAX_ROWS_PER_FILE = 4 * 1024 * 1024
FIRST_NUMBERS = 1 << 21
NUMBERS_OF_A_TABLE = 1 << 10
"""Numbers of files stay below 2**31, so that addresses of rows are whole numbers of 64 bits with a sign, too."""


def place_of_files(location: str, base: FixedPin | None) -> str:
    """Return where new data files go, to be committed on `base` of the table at `location`: Lance keeps those of a branch apart."""
    return f"{location}/{BRANCHES}/{base.branch}" if isinstance(base, BranchVersion) else location


def places_of_tables(dataset: LanceDataset, location: str, pin: FixedPin) -> dict[int | None, str] | None:
    """Return the tables whose directories the files of a version lie in, by the base paths that they name (None: its own).

    None where one of the base paths is no table's.
    """
    bases = dataset.base_paths()
    if not all(base.is_dataset_root for base in bases.values()):
        return None
    return {
        None: place_of_files(location, pin),
        **{number: path_of_base(base.path) for number, base in bases.items()},
    }


def places_of_data(dataset: LanceDataset, location: str, pin: FixedPin) -> dict[int | None, str]:
    """Return where the data files of a version of the table at `location` lie, by the base paths that they name (None: its own)."""
    own = place_of_files(location, pin)
    places: dict[int | None, str] = {None: DATA if own == HERE else f"{own}/{DATA}"}
    for number, base in dataset.base_paths().items():
        # Lance names them in full; those of other branches of the table lie below it.
        path = path_of_base(base.path)
        _, found, rest = path.partition(location)
        place = f"{found}{rest}" if found and location != HERE else path
        places[number] = f"{place}/{DATA}" if base.is_dataset_root else place
    return places


def path_of_base(address: str) -> str:
    """Return where a base path lies, which Lance quotes in the addresses of local tables that it writes in the way of small ones."""
    return unquote(address.removeprefix(FOR_SMALL_FILES)) if address.startswith(FOR_SMALL_FILES) else address


def write_new_files(
    store: Store, schema: pa.Schema, rows: pa.RecordBatchReader, file_version: str
) -> list[FragmentMetadata]:
    """Write rows as data files for a new table with this schema, in the numbers that its columns will have."""
    known = numbers(new_schema(schema))
    return renumber_fragments(write_files(store, None, rows, file_version), dict(enumerate(known)))


def write_files(
    store: Store, version: int | None, rows: pa.Table | pa.RecordBatchReader, file_version: str = NEWEST
) -> list[FragmentMetadata]:
    """Write rows as data files for a version of a table, in its numbering of columns and its version of Lance's format.

    For a new table (`version` None) they are of `file_version`. Nothing of them is visible.
    """
    dataset = None if version is None else store.open(version)
    stored = file_version if dataset is None else str(dataset.data_storage_version)
    # A transaction may have staged a new table with fewer columns in its place; Lance warns of one that is not there.
    mode = "append" if dataset is not None else "overwrite" if store.has(VERSIONS) else "create"
    if isinstance(rows, pa.Table):
        check_values(rows, stored, f"table {store.name!r}")
    written: list[FragmentMetadata] = write_fragments(
        rows,
        store.uri if dataset is None else dataset,
        schema=rows.schema,
        data_storage_version=stored,
        mode=mode,
        max_rows_per_file=MAX_ROWS_PER_FILE,
        storage_options=store.options or None,
    )
    return seal_fragments(store.uri, written)


def read_files(
    store: Store, schema: pa.Schema, fragments: Sequence[FragmentMetadata], of: LanceDataset | None
) -> pa.RecordBatchReader:
    """Return the rows of data files that lie at `store`, be they part of a version or of none.

    They were written for the table `of`, or for a new one.
    """
    columns = new_schema(schema) if of is None else of.lance_schema
    return all_rows(in_memory(columns, renumber(under_bases(fragments, {None: 1}), 0), [store.uri], store.options))


def in_memory(
    schema: LanceSchema,
    fragments: Sequence[FragmentMetadata],
    bases: Sequence[str],
    options: Mapping[str, str] | None = None,
) -> LanceDataset:
    """Return a dataset that is stored nowhere.

    Its files lie under `bases`, numbered from 1 on, with columns as `schema` numbers them; `options` are those of the object store
    that the bases are in.

    The fragments keep their numbers, which count upwards.
    """
    place = f"memory://{secrets.token_hex(8)}"
    paths = [DatasetBasePath(uri, id=number, is_dataset_root=True) for number, uri in enumerate(bases, 1)]
    version, storage_options = file_version_of(fragments) or NEWEST, dict(options or {}) or None
    are_new = [fragment.id for fragment in fragments] == list(range(len(fragments)))
    if are_new and not is_evolved(schema, fragments) and all(fragment.deletion_file is None for fragment in fragments):
        overwrite = LanceOperation.Overwrite(schema, list(fragments), initial_bases=paths)
        return LanceDataset.commit(place, overwrite, storage_options=storage_options)
    # A new dataset numbers its columns and fragments anew: only those that are added to one that is there keep the
    # numbers they have.
    empty = (seed_of(schema) or schema.to_pyarrow()).empty_table()
    begun = lance.write_dataset(
        empty,
        place,
        initial_bases=paths,
        session=shared_session(),
        data_storage_version=version,
        storage_options=storage_options,
    )
    merge = LanceOperation.Merge(list(fragments), schema)
    return LanceDataset.commit(begun, merge, read_version=int(begun.version), storage_options=storage_options)


def is_evolved(schema: LanceSchema, fragments: Iterable[FragmentMetadata]) -> bool:
    """Return whether columns have other numbers than those of a new table, or not all files hold all of them."""
    known, expected = numbers(schema), leaves(schema)
    return known != list(range(len(known))) or any(
        sorted(number for file in fragment.files for number in file.fields) != expected for fragment in fragments
    )


def renumber(fragments: Iterable[FragmentMetadata], first: int) -> list[FragmentMetadata]:
    """Return the same fragments with numbers of their own, from `first` on."""
    return [replace(fragment, id=number) for number, fragment in enumerate(fragments, first)]


def under_bases(fragments: Iterable[FragmentMetadata], numbers: Mapping[int | None, int]) -> list[FragmentMetadata]:
    """Return the same fragments, with their files and lists of deleted rows under the base paths that take the place of theirs."""

    def move(fragment: dict[str, Any]) -> None:
        deletions = fragment["deletion_file"]
        for file in [*fragment["files"], *([] if deletions is None else [deletions])]:
            file["base_id"] = numbers[file["base_id"]]

    return change_fragments(fragments, move)


def create(
    store: Store, schema: pa.Schema, fragments: Sequence[FragmentMetadata], *, stable_row_ids: bool = False
) -> Version:
    """Make a version of a new table that has just the rows of its data files and return the pin to it.

    What is written to it later is of their version of Lance's format.

    Its files are numbered from anywhere on, so that those of several tables can be told apart in one dataset (`sources.py`). The
    place is the transaction's own, but what it has staged there before may be there: the version does without it.
    """
    options, columns = store.options or None, new_schema(schema)
    is_positional = numbers(columns) == list(range(len(numbers(columns))))
    seed = schema if is_positional else seed_of(columns) or schema
    # Whatever overwrites is numbered from 0 on, its columns and its files.
    files = renumber(fragments, secrets.randbelow(FIRST_NUMBERS) * NUMBERS_OF_A_TABLE)
    added = LanceOperation.Append(files) if is_positional else LanceOperation.Merge(files, columns)
    with conflicts(f"another writer made table {store.name!r} first"):
        begun = _begun(
            store,
            seed,
            enable_v2_manifest_paths=True,
            enable_stable_row_ids=stable_row_ids,
            data_storage_version=file_version_of(fragments) or NEWEST,
            storage_options=options,
            session=store.session or shared_session(),
        )
        failpoint("table_begun")
        kept_tables.keep(store, begun)
        if is_positional and write_version(store, int(begun.version), added):
            return Version(int(begun.version) + 1)
        dataset = LanceDataset.commit(
            begun, added, read_version=int(begun.version), storage_options=options, max_retries=0
        )
    if int(dataset.version) != int(begun.version) + 1:
        raise Conflict(f"another writer made table {store.name!r} first")
    kept_tables.keep(store, dataset)
    return Version(int(dataset.version))


def _begun(store: Store, schema: pa.Schema, **options: Any) -> LanceDataset:
    """Return a table without rows, in a new version where one is there; Lance logs a warning where it overwrites nothing."""
    try:
        return lance.write_dataset(schema.empty_table(), store.uri, mode="create", **options)
    except OSError as exc:
        if "already exists" not in str(exc):
            raise
    return lance.write_dataset(schema.empty_table(), store.uri, mode="overwrite", **options)


def _open(store: Store, version: int, _: datetime | None = None) -> LanceDataset:
    return store.open(version)


def open_at(
    store: Store, pin: Pin, open_version: Callable[[Store, int, datetime | None], LanceDataset] = _open
) -> LanceDataset:
    """Open the table at its pin; `NotFound` names the table and the pin where the version was removed."""
    try:
        match pin:
            case Latest():
                return store.open()
            case PlainVersion(version, committed_at):
                return _same(store, open_version(store, version, committed_at), committed_at)
            case Version(version):
                return open_version(store, version, None)
            case Tag(tag):
                return store.open(tag)
            case BranchVersion(branch, version):
                return open_branch(store, branch, version)
    except (NotFound, ValueError, OSError) as exc:
        raise NotFound(f"partition table {store.name!r} has no {pin}") from exc


def _same(store: Store, dataset: LanceDataset, committed_at: datetime) -> LanceDataset:
    """Return a version of a plain table that was committed at a moment; `NotFound` for one of a table that took its place."""
    if dataset.get_version()["timestamp"].astimezone(UTC) != committed_at:
        raise NotFound(f"table {store.name!r} was dropped or replaced by another writer")
    return dataset


def open_table(root: Store, table: PartitionTable) -> LanceDataset:
    """Return a table of the namespace at `root`, at its pin."""
    return open_at(root.child(table.location), table.pin)


def open_to_append(store: Store, pin: Pin) -> LanceDataset:
    """Open a table for what neither reads its rows nor moves the dataset, in an object store from memory where it was just committed."""
    if not isinstance(pin, Version):
        return open_at(store, pin)
    try:
        return kept_tables.open_to_commit(
            store, pin.version, pin.committed_at if isinstance(pin, PlainVersion) else None
        )
    except (NotFound, ValueError, OSError) as exc:
        raise NotFound(f"partition table {store.name!r} has no {pin}") from exc


def resolve(store: Store, pin: Pin) -> FixedPin:
    """Return the version that a pin stands for at this moment."""
    match pin:
        case Version() | BranchVersion():
            return pin
        case Latest():
            return Version(int(store.open().version))
        case Tag(tag):
            tag_entry = store.open().tags.list().get(tag)
            if tag_entry is None:
                raise NotFound(f"partition table {store.name!r} has no tag {tag!r}")
            branch = tag_entry.get("branch")
            return (
                Version(int(tag_entry["version"]))
                if branch is None
                else BranchVersion(branch, int(tag_entry["version"]))
            )


def base_of(store: Store, pin: Pin, branch: str | None) -> FixedPin:
    """Return the version that a write goes on top of.

    The pinned one, on a Lance branch of the table where writes go to one.
    """
    base = resolve(store, pin)
    if branch is None or (isinstance(base, BranchVersion) and base.branch == branch):
        return base
    forked = BranchVersion(branch, base.version)
    with suppress(NotFound):
        # A branch begins with the number of the version that it is forked at.
        open_at(store, forked)
        return forked
    parent = base.branch if isinstance(base, BranchVersion) else None
    try:
        open_at(store, base).create_branch(branch, (parent, base.version))
    except (OSError, ValueError):
        try:
            # Another writer forks it at the same moment: it did, or what is wrong shows again.
            open_at(store, forked)
        except NotFound:
            if store.is_remote:
                raise
            # The power was cut when it was forked, and no row has a pin to it.
            settle_references(store.uri)
            open_at(store, base).create_branch(branch, (parent, base.version))
    return forked


def stage(
    store: Store,
    base: FixedPin,
    operation: LanceOperation.BaseOperation,
    properties: Mapping[str, str] = MappingProxyType({}),
    *,
    is_first: bool = False,
) -> FixedPin:
    """Commit an operation on top of exactly `base`, whatever was staged on the table concurrently.

    To a plain table it is committed for everybody, with what its `properties` say of it; of two that are to be there
    `is_first`, one is refused.
    """
    if isinstance(base, PlainVersion):
        return _commit_plain(store, base, operation, properties, is_first=is_first)
    place = place_of_files(store.uri, base)
    try:
        (pin,) = retry(STAGE, store.name, partial(_find_staged, store, base, operation), on=Conflict)
    except UNREADABLE:
        # What was staged when the power was cut is newer than the pin: nobody was told of it.
        if store.is_remote or not take_back(place, base.version):
            raise
        (pin,) = retry(STAGE, store.name, partial(_find_staged, store, base, operation), on=Conflict)
    return pin


def check_same_table(store: Store, newest: PlainVersion, read: Iterable[Pin]) -> None:
    """Raise `SerializationFailure` unless the versions of a plain table that were `read` are of the table with the `newest` one."""
    for pin in read:
        if pin == newest or not isinstance(pin, PlainVersion):
            continue
        try:
            open_at(store, pin)
        except NotFound as exc:
            raise SerializationFailure(f"table {store.name!r} was dropped or replaced by another writer") from exc


def _commit_plain(
    store: Store,
    base: PlainVersion,
    operation: LanceOperation.BaseOperation,
    properties: Mapping[str, str],
    *,
    is_first: bool,
) -> PlainVersion:
    """Commit to a plain table on top of a version; `Conflict` where another commit since then stands against it.

    Where none does, the version is a later one than that after `base`: rows that others have added stay.
    """
    if isinstance(operation, LanceOperation.Append):
        # Lance puts an append on top of a change of columns, too, and then the rows have NULL in columns of another type.
        operation = LanceOperation.Update(new_fragments=operation.fragments)
    dataset, standing = open_to_append(store, base), LocationGuard.of(store, base.version, base.committed_at)
    try:
        _same(store, dataset, base.committed_at)
    except NotFound as exc:
        raise SerializationFailure(str(exc)) from exc
    if is_first and isinstance(operation, LanceOperation.Update):
        # Two changes of one fragment conflict, be it that both leave it as it is.
        kept = [
            fragment.metadata
            for fragment in dataset.get_fragments()[:1]
            if fragment.fragment_id not in _changed_fragments(operation)
        ]
        operation.updated_fragments = [*operation.updated_fragments, *kept]
    transaction = Transaction(base.version, operation, transaction_properties=dict(properties))
    try:
        with (
            committing(store.uri, base.version),
            conflicts(f"another writer changed table {store.name!r} first"),
        ):
            made = LanceDataset.commit(dataset, transaction, max_retries=0, storage_options=store.options or None)
    except (Conflict, OSError) as exc:
        # Whatever went wrong, the table says whether it did so before or after the commit: what is met may be this very one.
        ours = properties.get(TRANSACTIONS, "").split(",")[0]
        committed = find_commit(store.open(), base.version, ours) if ours else None
        if committed is None and store.is_remote and isinstance(exc, OSError):
            raise OutcomeUnknown(f"a commit to {store.name!r} was sent and not answered: {store.words(exc)}") from exc
        if committed is None:
            raise
        flush(store.uri)
        made = store.open(committed)
    standing.check(store.name, int(made.version), transaction.uuid)
    kept_tables.keep(store, made)
    failpoint("plain_committed")
    return PlainVersion(int(made.version), made.get_version()["timestamp"].astimezone(UTC))


def _changed_fragments(operation: LanceOperation.Update) -> set[int]:
    """Return the numbers of the fragments that an operation removes or changes."""
    return {*operation.removed_fragment_ids, *(fragment.id for fragment in operation.updated_fragments)}


def _find_staged(
    store: Store, base: FixedPin, operation: LanceOperation.BaseOperation, attempt: int
) -> tuple[FixedPin] | None:
    if not attempt and type(base) is Version and write_version(store, base.version, operation):
        return (Version(base.version + 1),)
    with conflicts(f"another writer staged on {store.name!r} first"):
        on_top = _base_on_top(store, base, is_first=attempt == 0)
        if on_top is None:
            return None
        expected = int(on_top.version) + 1
        staged = LanceDataset.commit(
            on_top,
            operation,
            read_version=int(on_top.version),
            storage_options=store.options or None,
            max_retries=0,
        )
    if int(staged.version) != expected:
        return None
    pin = _pin_like(base, expected)
    if isinstance(pin, Version):
        kept_tables.keep(store, staged)
    return (pin,)


def _base_on_top(store: Store, base: FixedPin, *, is_first: bool) -> LanceDataset | None:
    """Return the table with the content of `base` as its newest version; None where another writer was faster.

    At first it is enough that no file of a next version lies there, and in an object store even that is not asked for: what is
    committed on top of others shows it by its number.
    """
    dataset = open_to_append(store, base)
    if is_first and isinstance(base, Version) and (store.is_remote or is_followed(store, base.version) is False):
        return dataset
    before = int(dataset.latest_version)
    if before == base.version:
        return dataset
    dataset = open_at(store, base)
    dataset.restore()
    failpoint("pin_restored")
    return dataset if int(dataset.version) == before + 1 else None


def _pin_like(base: FixedPin, version: int) -> FixedPin:
    match base:
        case Version():
            return Version(version)
        case BranchVersion(branch, _):
            return BranchVersion(branch, version)


def dataset_summary(dataset: lance.LanceDataset) -> tuple[int, int, int]:
    """Return rows, bytes and fragments of the version that is open, without reading anything."""
    counted = dataset.get_version()["metadata"]
    return int(dataset.count_rows()), int(counted["total_files_size"]), int(counted["total_fragments"])
