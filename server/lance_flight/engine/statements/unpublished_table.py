"""Tables that a CREATE TABLE defines, and other processes fill before they have their names."""

from __future__ import annotations

from typing import NoReturn

from lance_flight.catalog.roots.directory import Root
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.statements.kinds import Changes, ChangeStatement
from lance_flight.engine.statements.parsing import parse
from lance_flight.errors import SqlError


class UnpublishedTable:
    """An empty table that a CREATE [OR REPLACE] TABLE makes in a private place, until it is published or discarded."""

    def __init__(self, root: Root, sql: str) -> None:
        statement = parse(sql)
        self._transaction = SqlTransaction(root, explicit=True)
        if isinstance(statement, ChangeStatement):
            statement.run(
                Changes(root=root, new_session=_no_query, cancellation=Cancellation(), transaction=self._transaction)
            )
        made = self._transaction.made
        if made is None:
            self.discard()
            raise SqlError(f"{sql!r} makes no table; expected CREATE [OR REPLACE] TABLE t (column type, …)")
        self.table = made

    def publish(self) -> None:
        """Give the table its name, with all that was committed to it; `AlreadyExists` if another one has taken that."""
        self._transaction.commit()

    def discard(self) -> None:
        """Remove the table, which must not be published."""
        self._transaction.rollback()


def _no_query(*_: object) -> NoReturn:
    raise AssertionError("a table that is defined by its columns has no query")
