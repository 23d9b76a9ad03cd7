"""A table of ids by a text column: its schema and spec, its rows, and transactions on it that have not committed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from lance_flight.catalog.commits.transaction import Staging, Transaction
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionField, PartitionSpec
from lance_flight.model.transforms import Identity

from tests.stock import stored_rows

SCHEMA = NamespaceSchema.assign(pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("p", pa.utf8())]))

SPEC = PartitionSpec(
    id=1, fields=(PartitionField(field_id="p", source_ids=(1,), rule=Identity(), result_type=pa.utf8()),)
)


def opened(place: Path) -> PartitionedNamespace:
    return PartitionedNamespace.open(Store(str(place)))


def rows(*pairs: tuple[int, str | None]) -> pa.Table:
    return pa.Table.from_pylist([{"id": number, "p": value} for number, value in pairs], schema=SCHEMA.plain)


@dataclass
class Written:
    """A transaction whose files are written and that has not begun to commit."""

    namespace: PartitionedNamespace
    transaction: Transaction

    def commit(self) -> int:
        """Make it visible."""
        return self.namespace.commits.commit(self.transaction)

    def stage(self) -> None:
        """Put its rows on the tables, and commit nothing."""
        self.namespace.commits.stage(self.transaction)

    def rows(self) -> pa.Table:
        """Stage, and return what would be committed."""
        return Staging(self.namespace.store).rows([self.transaction], self.transaction.base)

    def abort(self) -> None:
        """Give up."""
        self.transaction.abort(self.namespace.store)


def written(place: Path, *pairs: tuple[int, str | None]) -> Written:
    """Write rows, and do not commit them."""
    namespace = opened(place)
    transaction = namespace.begin()
    namespace.write(transaction, [rows(*pairs)], evaluate)
    return Written(namespace, transaction)


def ids(place: Path) -> list[int]:
    return sorted(stored_rows(place)["id"].to_pylist())
