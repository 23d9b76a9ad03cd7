"""CREATE SCHEMA and DROP SCHEMA."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.query.names.information_schema import INFORMATION_SCHEMA
from lance_flight.engine.query.search.search_target import SEARCHES
from lance_flight.engine.sql import references
from lance_flight.engine.sql.activity import SYSTEM
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.statements.changes import Changes
from lance_flight.engine.statements.kinds import ChangeStatement, Required
from lance_flight.errors import AlreadyExists, InvalidInput, SqlError

_COMPUTED = frozenset([SYSTEM, INFORMATION_SCHEMA, SEARCHES])


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchema(ChangeStatement):
    """CREATE SCHEMA [IF NOT EXISTS] s; `"a.b"` is a namespace b within a."""

    forms = ("CREATE SCHEMA",)
    is_cancellable = True

    db_schema: str
    if_not_exists: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> CreateSchema:
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        return cls(db_schema=references.schema(cursor), if_not_exists=if_not_exists)

    @property
    def defined(self) -> str:
        return self.db_schema

    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        return ()

    def run(self, changes: Changes) -> int:
        """Make the schema, which the root checks the privilege for."""
        changes.check_alone("CREATE SCHEMA")
        if self.db_schema in _COMPUTED:
            raise InvalidInput(f"schema name {self.db_schema!r} is that of computed tables; expected another one")
        try:
            changes.root.create_schema(self.db_schema, changes.cancellation.begin_commit)
        except AlreadyExists:
            if not self.if_not_exists or self.db_schema not in changes.root.schemas():
                raise
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DropSchema(ChangeStatement):
    """DROP SCHEMA [IF EXISTS] s [RESTRICT]."""

    forms = ("DROP SCHEMA",)
    is_cancellable = True
    frees_room = True

    db_schema: str
    if_exists: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> DropSchema:
        if_exists = cursor.accept("IF", "EXISTS")
        db_schema = references.schema(cursor)
        if cursor.accept("CASCADE"):
            raise SqlError(f"DROP SCHEMA {db_schema} CASCADE is not offered; expected DROP TABLE of its tables first")
        cursor.accept("RESTRICT")
        return cls(db_schema=db_schema, if_exists=if_exists)

    @property
    def defined(self) -> str:
        return self.db_schema

    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        return ()

    def run(self, changes: Changes) -> int:
        """Remove the schema, which the root checks the privilege for, if nothing is in it."""
        changes.check_alone("DROP SCHEMA")
        if not (self.if_exists and self.db_schema not in changes.root.schemas()):
            changes.root.drop_schema(self.db_schema, changes.cancellation.begin_commit)
        return 0
