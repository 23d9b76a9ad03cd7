"""Rights of one principal: privileges on tables, each on all of their rows or on some."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.query.policies.restrictions import (
    EVERY_COLUMN,
    EVERY_ROW,
    ColumnPolicy,
    Condition,
    GrantedColumn,
    RowPolicy,
    combine_policies,
)
from lance_flight.errors import Refused
from lance_flight.model.schema import NamespaceSchema


class Privilege(Enum):
    """Privilege of a role on a table, by its word in a policy file."""

    SELECT = "SELECT"
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    DDL = "DDL"
    """CREATE, DROP and ALTER TABLE, including columns, tags, branches and partitions."""
    ADMIN = "ADMIN"
    """Maintenance; on `*` also access to the statements and sessions of other principals."""


OF_ROWS = frozenset({Privilege.SELECT, Privilege.INSERT, Privilege.UPDATE, Privilege.DELETE})
"""Privileges that a condition can restrict."""
OVERWRITING = frozenset({Privilege.INSERT, Privilege.DELETE, Privilege.SELECT})
"""Privileges of INSERT OVERWRITE and its kin, which remove and count the rows in whose place they write."""


@dataclass(frozen=True, slots=True)
class GrantedTables:
    """The tables that a grant is about: all of them, all of a schema (`name` None), or one."""

    db_schema: str | None = None
    name: str | None = None

    def __contains__(self, table: TableName) -> bool:
        return self.db_schema in (None, table.db_schema) and self.name in (None, table.name)

    def __str__(self) -> str:
        return "*" if self.db_schema is None else f"{self.db_schema}.{self.name or '*'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Some privileges on some tables; with a condition, on the rows that fulfil it alone, and SELECT with `columns` on these alone."""

    privileges: frozenset[Privilege]
    tables: GrantedTables
    condition: Condition | None = None
    columns: tuple[GrantedColumn, ...] | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """Principal of a statement, with its grants (None: everything).

    It is also the guard of a root (`catalog.roots.table_resolver.Visibility`): tables without any grant are not there. The temporary tables of the
    statement's session are the principal's `own`, which need no grant; the guard is about lasting ones alone. One that `reads_only` changes
    no lasting table, whatever the grants are.
    """

    principal: str = ""
    grants: tuple[Grant, ...] | None = None
    own: frozenset[TableName] = frozenset()
    reads_only: bool = False

    def for_reading(self) -> Access:
        """Return the same access without any privilege but SELECT."""
        return replace(self, reads_only=True)

    def with_temporary_tables(self, tables: frozenset[TableName]) -> Access:
        """Return the same access, with these temporary tables."""
        return replace(self, own=tables) if tables != self.own else self

    @property
    def is_admin(self) -> bool:
        """True if the principal may see and cancel the statements of other principals."""
        return self.grants is None or any(
            grant.tables == GrantedTables() and Privilege.ADMIN in grant.privileges for grant in self.grants
        )

    def sees(self, table: TableName) -> bool:
        """Return whether there is any grant on a table."""
        return self.grants is None or any(table in grant.tables for grant in self.grants)

    def sees_schema(self, db_schema: str) -> bool:
        """Return whether there is any grant on tables of a schema."""
        return (
            db_schema == PUBLIC
            or self.grants is None
            or any(grant.tables.db_schema in (None, db_schema) for grant in self.grants)
        )

    def check_definition(self, table: TableName) -> None:
        """Raise `Refused` if the principal may not create, rename or drop a table of this name."""
        self.check(Privilege.DDL, table)

    def check(self, privilege: Privilege, table: TableName) -> None:
        """Raise `Refused` if the principal has a privilege on no row of a table."""
        self._check_reads(privilege, table)
        if not any(True for _ in self._conditions(privilege, table)):
            raise Refused(
                f"{self.principal!r} has no {privilege.value} on table {table.name!r}; a role in the policy file grants it"
            )

    def rows(self, privileges: Collection[Privilege], table: TableName) -> RowPolicy:
        """Return the policy of the rows on which the principal has all of some privileges; `Refused` if it has one of them on none."""
        if table in self.own:
            return EVERY_ROW
        for privilege in privileges:
            self._check_reads(privilege, table)
        if self.grants is None:
            return EVERY_ROW
        parts = []
        for privilege in privileges:
            self.check(privilege, table)
            conditions = list(self._conditions(privilege, table))
            if None not in conditions:
                parts.append(tuple(dict.fromkeys(condition for condition in conditions if condition is not None)))
        return RowPolicy(table.name, self.principal, tuple(dict.fromkeys(parts)))

    def columns(self, table: TableName) -> ColumnPolicy:
        """Return the policy of the columns that the principal may read; `Refused` if it may read none, or some in some rows and others in others."""
        if self.grants is None or table in self.own:
            return EVERY_COLUMN
        self.check(Privilege.SELECT, table)
        grants = [grant for grant in self.grants if Privilege.SELECT in grant.privileges and table in grant.tables]
        everywhere = [grant.columns for grant in grants if grant.condition is None]
        granted = [
            combine_policies([*everywhere, *(grant.columns for grant in grants if grant.condition == condition)])
            for condition in dict.fromkeys(grant.condition for grant in grants)
        ]
        if combine_policies(everywhere or [()]) is None:
            return EVERY_COLUMN
        if any(columns != granted[0] for columns in granted):
            raise Refused(
                f"{self.principal!r} has SELECT on other columns of table {table.name!r} in some rows than in others;"
                " expected grants of the same columns with each WHERE, or all columns without one"
            )
        return ColumnPolicy(table=table.name, user=self.principal, granted=granted[0])

    @property
    def has_masks(self) -> bool:
        """True if a grant masks a column of any table."""
        return any(column.mask is not None for grant in self.grants or () for column in grant.columns or ())

    def lists_columns(self, table: TableName) -> bool:
        """Return whether the principal has SELECT on listed columns of a table, and no grant of SELECT on all of them."""
        columns = [
            grant.columns
            for grant in self.grants or ()
            if Privilege.SELECT in grant.privileges and table in grant.tables
        ]
        return bool(columns) and None not in columns

    def check_all_columns(self, table: TableName, what: str) -> None:
        """Raise `Refused`, which begins with `what` needs it, unless the principal may read all columns of a table as they are stored."""
        if not self.columns(table).is_everything:
            raise Refused(
                f"{what}: {self.principal!r} has SELECT on some columns of table {table.name!r} alone, or on masked ones;"
                " expected SELECT on all columns without masks"
            )

    def known_columns(self, table: TableName, columns: Iterable[str]) -> list[str]:
        """Return those of a table's columns that the principal may know of: all of them with any grant that lists none."""
        if self.grants is None or table in self.own:
            return list(columns)
        listed = combine_policies([grant.columns for grant in self.grants if table in grant.tables])
        return [name for name in columns if listed is None or name in listed]

    def visible_schema(self, schema: NamespaceSchema, table: TableName) -> NamespaceSchema:
        """Return the schema of a table with the columns alone that the principal may know of.

        What was written about the values of a column is for those who may read them, and for those who define it.
        """
        known = self.known_columns(table, schema.ids)
        shown = schema if len(known) == len(schema.ids) else schema.only(known)
        hidden = self._hidden_values(table, known)
        return shown.without_notes(hidden) if hidden else shown

    def _hidden_values(self, table: TableName, columns: Iterable[str]) -> set[str]:
        """Return those columns whose stored values the principal may not read, and which it does not define."""
        if self.grants is None or table in self.own:
            return set()
        grants = [grant for grant in self.grants if table in grant.tables]
        if any(Privilege.DDL in grant.privileges for grant in grants):
            return set()
        read = combine_policies([grant.columns for grant in grants if Privilege.SELECT in grant.privileges])
        return set() if read is None else {name for name in columns if read.get(name, "") is not None}

    def check_all_rows(self, privilege: Privilege, table: TableName) -> None:
        """Raise `Refused` unless the principal has a privilege on all rows of a table, and SELECT on all columns as well."""
        policy = self.rows([privilege], table)
        if not policy.is_everything:
            raise Refused(
                f"{self.principal!r} has {privilege.value} on some rows of table {table.name!r} alone ({policy}), and"
                " this is done to all of them"
            )
        if privilege is Privilege.SELECT:
            self.check_all_columns(table, "this is done to whole rows")

    def reads_all(self, table: TableName) -> bool:
        """Return whether the principal has SELECT on all rows and all columns of a table, none of them masked."""
        try:
            self.check_all_rows(Privilege.SELECT, table)
        except Refused:
            return False
        return True

    def _check_reads(self, privilege: Privilege, table: TableName) -> None:
        if self.reads_only and privilege is not Privilege.SELECT:
            raise Refused(
                f"the session reads only (SET access = 'read'), and this needs {privilege.value} on table {table.name!r};"
                " expected another session"
            )

    def _conditions(self, privilege: Privilege, table: TableName) -> Iterator[Condition | None]:
        """Yield the conditions of the grants of a privilege; rows that fulfil any of them are granted (None: all rows)."""
        if self.grants is None:
            yield None
            return
        for grant in self.grants:
            if privilege in grant.privileges and table in grant.tables:
                yield grant.condition


UNLIMITED = Access()
"""Access without any restriction, used if there is no policy file."""
