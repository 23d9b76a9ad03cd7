"""The newest version of a table that can be read, where newer ones are damaged, and what is lost by going back to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.manifests.version_log import OPERATION
from lance_flight.catalog.storage.durability import flush
from lance_flight.catalog.storage.private_directory import PRIVATE
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.catalog.storage.version_content import BYTES, LENGTH, MALFORMED, split_fields
from lance_flight.catalog.storage.version_names import VERSIONS, parse_version
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import partitions
from lance_flight.errors import Corrupt, LanceFlightError, NewerFormat, NotFound, storage_error
from lance_flight.model.naming import is_table_directory
from lance_flight.model.pins import Latest

DAMAGED = "damaged"
"""The directory, in the private one of a table, of the version files that a repair has taken out of the way."""
_TRANSACTIONS = "_transactions"


@dataclass(frozen=True)
class DamagedVersions:
    """Versions of a table that cannot be read, and the newest one below them that can."""

    table: Table
    why: str
    damaged: tuple[int, ...]
    readable: Snapshot

    @classmethod
    def of(cls, table: Table) -> DamagedVersions | None:
        """Find those of a table; None where its newest version can be read, `Corrupt` where none can."""
        numbers = {parse_version(name) for name in table.log.place.child(VERSIONS).files()} - {None}
        damaged: list[int] = []
        first: str | None = None
        for number in sorted(filter(None, numbers), reverse=True):
            why = _problem_of(table, number)
            if why is None:
                return None if first is None else cls(table, first, tuple(damaged), table.log.snapshot(number))
            first = first or why
            damaged.append(number)
        if first is not None:
            raise Corrupt(first)
        return None

    @cached_property
    def operations(self) -> list[str]:
        """The operations of the damaged versions, oldest first, as far as their files say them."""
        found = []
        for number in reversed(self.damaged):
            said = list(dict.fromkeys(self._operations_of(number)))
            found.append(f"version {number}: {' or '.join(said) or 'an operation that is lost as well'}")
        return found

    @cached_property
    def rows(self) -> int | None:
        """Number of rows in partition tables that the readable version does not show, and a damaged one may; None where there is none to ask."""
        if not self.table.is_partitioned:
            return None
        root, pinned = self.table.store, {each.location: each for each in self.readable.all_tables()}
        count = 0
        for location in {*filter(is_table_directory, root.directories()), *pinned}:
            before = pinned.get(location)
            with suppress(LanceFlightError, *UNREADABLE):
                newest = _count(root.child(location))
                count += max(newest - (0 if before is None else partitions.open_table(root, before).count_rows()), 0)
        return count

    def go_back(self) -> str:
        """Take the damaged versions out of the way, and say what was done; their files stay in the private directory of the table."""
        place = self.table.log.place
        kept = place.child(PRIVATE, DAMAGED)
        for name in place.child(VERSIONS).files():
            if parse_version(name) in self.damaged:
                place.child(VERSIONS, name).move_to(kept.child(name))
        flush(place.uri)
        return f"back at version {self.readable.version}; the files are kept in {PRIVATE}/{DAMAGED}"

    def __str__(self) -> str:
        rows = "" if self.rows is None else f", with up to {self.rows:,} rows that only these show"
        return (
            f"{self.why}; going back to version {self.readable.version} of {self.readable.committed_at:%Y-%m-%d %H:%M:%S} UTC gives up"
            f" {'; '.join(self.operations)}{rows}"
        )

    def _operations_of(self, number: int) -> Iterator[str]:
        """Yield what the files of a version, or those of the commits that may have made it, say of the operation."""
        place = self.table.log.place
        for name in place.child(VERSIONS).files():
            if parse_version(name) == number:
                content = place.child(VERSIONS).read(name)
                with suppress(*MALFORMED):
                    (length,) = LENGTH.unpack_from(content)
                    found = _operation(content[LENGTH.size : LENGTH.size + length])
                    if found is not None:
                        yield found
                        return
        transactions = place.child(_TRANSACTIONS)
        for name in transactions.files():
            if name.startswith(f"{number - 1}-"):
                found = _operation(transactions.read(name))
                if found is not None:
                    yield found


def _problem_of(table: Table, number: int) -> str | None:
    """Return why the rows of a version, for a plain table its schema, cannot be read; None where they can."""
    try:
        if table.is_partitioned:
            table.log.rows_at(number)
        else:
            table.log.snapshot(number)
    except NewerFormat:
        raise
    except (Corrupt, NotFound) as exc:
        return str(exc)
    except UNREADABLE as exc:
        refused = storage_error(exc)
        if refused is not None:
            raise refused from exc
        return table.store.words(exc)
    return None


def _count(place: Store) -> int:
    return int(partitions.open_at(place, Latest()).count_rows())


def _operation(transaction: bytes) -> str | None:
    """Return the operation among the properties of a transaction of Lance; None where its bytes do not say it."""
    try:
        for _, kind, _, value in split_fields(transaction):
            if kind != BYTES or OPERATION.encode() not in value:
                continue
            with suppress(*MALFORMED, UnicodeDecodeError, KeyError):
                entry = {number: part for number, _, _, part in split_fields(value)}
                if entry[1] == OPERATION.encode():
                    return entry[2].decode()
    except MALFORMED:
        return None
    return None
