"""Rights of one principal: privileges on tables, each on all of their rows or on some, and restrictions of rows, columns and masks.

```text
condition  = conjunction { OR conjunction }
conjunction = part { AND part }
part       = NOT part | ( condition ) | column IS [NOT] NULL | column [NOT] IN ( literal, … ) | column operator literal
literal    = 'text' | number | TRUE | FALSE | DATE 'text' | TIMESTAMP 'text' | CURRENT_USER
```

A column that is not granted is not among the columns of the table's scans. A table with masks is planned as a query over it, which
computes the masks: conditions, joins and aggregates are over their values.

A policy chooses whole partitions. Where a table holds partitions that the policy does not decide, nothing of it can be
read, rather than rows be filtered on one of the many ways to them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Self
from weakref import WeakKeyDictionary

import pyarrow as pa

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.catalog.tables import rows
from lance_flight.engine.query.tables.table_view import partitions_of
from lance_flight.engine.sql.references import Cursor, enclose, quote_parts
from lance_flight.errors import Refused
from lance_flight.model.arrow_types import is_string
from lance_flight.model.json_documents import texts_of
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionSpec
from lance_flight.planning.arrow_expression import columns_of, row_filter
from lance_flight.planning.predicates import Column, Compare, In, IsNull, Op, Predicate, all_of, any_of, negate
from lance_flight.planning.pruning import prune

_OPERATORS: Mapping[tuple[str, ...], Op] = MappingProxyType(
    {
        ("=",): Op.EQ,
        ("<", ">"): Op.NE,
        ("!", "="): Op.NE,
        ("<", "="): Op.LE,
        (">", "="): Op.GE,
        ("<",): Op.LT,
        (">",): Op.GT,
    }
)


@dataclass(frozen=True, slots=True)
class Condition:
    """Text of a row policy condition.

    >>> str(Condition.parse("tenant = CURRENT_USER AND day > '2026-01-31'"))
    "tenant = CURRENT_USER AND day > '2026-01-31'"
    """

    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a condition; raise `SqlError` for an invalid one."""
        _Reader(Cursor.over(text, is_spelled_out=True), None, "").whole()
        return cls(text)

    def __str__(self) -> str:
        return self.text

    def bind(self, columns: pa.Schema, user: str) -> Predicate:
        """Return the condition as a predicate on the columns of a table; raise `Refused` if they cannot be compared so.

        >>> str(Condition("tenant IN ('a', CURRENT_USER)").bind(pa.schema({"tenant": pa.utf8()}), "bob"))
        "tenant IN ('a', 'bob')"
        """
        return _Reader(Cursor.over(self.text, is_spelled_out=True), columns, user).whole()


@dataclass(frozen=True, slots=True)
class _Reader:
    """Parses a condition over some columns (None: over any columns, without checking values)."""

    cursor: Cursor
    columns: pa.Schema | None
    user: str

    def whole(self) -> Predicate:
        predicate = self._any()
        self.cursor.end()
        return predicate

    def _any(self) -> Predicate:
        parts = [self._all()]
        while self.cursor.accept("OR"):
            parts.append(self._all())
        return any_of(parts)

    def _all(self) -> Predicate:
        parts = [self._part()]
        while self.cursor.accept("AND"):
            parts.append(self._part())
        return all_of(parts)

    def _part(self) -> Predicate:
        if self.cursor.accept("NOT"):
            return negate(self._part())
        if self.cursor.accept("("):
            inner = self._any()
            self.cursor.expect(")")
            return inner
        name = self.cursor.name("a column")
        kind = self._type(name)
        if self.cursor.accept("IS"):
            negated = self.cursor.accept("NOT")
            self.cursor.expect("NULL")
            return IsNull(Column(name), negated=negated)
        negated = self.cursor.accept("NOT")
        if negated or self.cursor.peek("IN"):
            self.cursor.expect("IN")
            return In(Column(name), self._list(name, kind), negated=negated)
        for signs, op in _OPERATORS.items():
            if self.cursor.accept(*signs):
                return Compare(Column(name), op, self._literal(name, kind))
        raise self.cursor.error("a comparison, IN or IS")

    def _type(self, name: str) -> pa.DataType:
        if self.columns is None:
            return pa.utf8()
        if name not in self.columns.names:
            raise Refused(f"the row policy speaks of column {name!r}, which the table has not")
        return self.columns.field(name).type

    def _list(self, name: str, kind: pa.DataType) -> pa.Array:
        self.cursor.expect("(")
        values = [self._literal(name, kind)]
        while self.cursor.accept(","):
            values.append(self._literal(name, kind))
        self.cursor.expect(")")
        return pa.array(values, kind)

    def _literal(self, name: str, kind: pa.DataType) -> pa.Scalar:
        text = self._text()
        try:
            return pa.scalar(text).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
            raise Refused(f"the row policy compares column {name!r} ({kind}) with {text!r}") from exc

    def _text(self) -> str:
        return self.user if self.cursor.accept("CURRENT_USER") else self.cursor.literal("a literal")


_ADVICE = re.compile(r"\.? Did you mean|\.?\n")
UNMASKED = "$unmasked"
"""End of the name of the schema in which the query of a masked table, and nothing else, finds the stored table."""


@dataclass(frozen=True, slots=True)
class GrantedColumn:
    """Column that a grant lists; with a `mask`, an SQL expression over the columns of a row, in its place."""

    name: str
    mask: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPolicy:
    """Column policy of a table for one principal: the `granted` columns with their masks (None: all columns, as they are stored)."""

    table: str = ""
    user: str = ""
    granted: Mapping[str, str | None] | None = None

    @property
    def is_everything(self) -> bool:
        """True if all columns are granted, none of them masked."""
        return self.granted is None

    @property
    def masks(self) -> Mapping[str, str]:
        """Return the masks by the names of their columns."""
        return {name: mask for name, mask in (self.granted or {}).items() if mask is not None}

    def visible(self, snapshot: Snapshot, newest: Snapshot, *, for_masks: bool) -> frozenset[str] | None:
        """Return the columns that scans of a snapshot may read (None: all): the granted ones, or `for_masks` those that masks may be over.

        Names are those of the newest schema: a column that had another id under the same name is another column.
        """
        if self.granted is None:
            return None
        known = frozenset(name for name, number in snapshot.schema.ids.items() if newest.schema.ids.get(name) == number)
        if not known & self.granted.keys():
            raise Refused(f"{self.user!r} has no SELECT on any column that table {self.table!r} has at this version")
        return known if for_masks else known & self.granted.keys()

    def hides_layout(self, snapshot: Snapshot, visible: frozenset[str] | None) -> bool:
        """Return whether the values of partitions tell of columns that are masked, or not granted; scans may read the `visible` ones."""
        if self.granted is None or visible is None:
            return False
        plain = (visible & self.granted.keys()) - self.masks.keys()
        paths = snapshot.schema.source_paths
        sources = (number for spec in snapshot.specs for field in spec.fields for number in field.source_ids)
        return any(number not in paths or paths[number][0] not in plain for number in sources)


EVERY_COLUMN = ColumnPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedTable:
    """Table with masked columns under one of its names in SQL, to be planned as a query over its stored `columns`.

    `made` are those of them that a scan makes (addresses of rows …), which no policy is about.
    """

    name: TableName
    policy: ColumnPolicy
    columns: pa.Schema
    made: frozenset[str] = field(default_factory=frozenset)

    @property
    def sql(self) -> str:
        """Return the query that stands for the table."""
        return self._select([self._column(name) for name in self._names])

    @property
    def _names(self) -> list[str]:
        return [name for name in self.columns.names if name in self.made or name in (self.policy.granted or {})]

    def probes(self) -> Iterator[tuple[str, str]]:
        """Yield each masked column with a query of its mask alone."""
        for name in self._names:
            if name in self.policy.masks:
                yield name, self._select([self._column(name)])

    def casts(self, planned: pa.Schema) -> Mapping[str, pa.DataType]:
        """Return the columns of the planned query that are cast to their stored types; raise `Refused` for a mask of another kind of type."""
        kinds = {name: self.columns.field(name).type for name in self.policy.masks if name in planned.names}
        for name, kind in kinds.items():
            if not _fits(planned.field(name).type, kind):
                raise self.error(name, f"which is {planned.field(name).type}")
        return {name: kind for name, kind in kinds.items() if planned.field(name).type != kind}

    def error(self, column: str, problem: object) -> Refused:
        """Return the error about the mask of a column."""
        return Refused(
            f"the mask {self.policy.masks[column]} of column {column!r} of table {self.policy.table!r} cannot stand in its"
            # What follows names the columns that there are.
            f" place: {re.split(_ADVICE, str(problem))[0]}; expected an expression of type {self.columns.field(column).type}"
        )

    def _column(self, name: str) -> str:
        mask = self.policy.masks.get(name)
        return quote_parts(name) if mask is None else f"{enclose(mask)} AS {quote_parts(name)}"

    def _select(self, items: list[str]) -> str:
        stored = quote_parts(self.name.db_schema + UNMASKED, self.name.name)
        return f"SELECT {', '.join(items)} FROM {stored}"  # noqa: S608 - quoted; masks are of the policy file


def unmasked_name(name: TableName) -> TableName:
    """Return the name by which the query of a masked table reads the stored one."""
    return TableName(name.db_schema + UNMASKED, name.name)


def stored_name(name: TableName) -> TableName:
    """Return the name of the stored table that a name of `unmasked_name` stands for; any other as it is."""
    return TableName(name.db_schema.removesuffix(UNMASKED), name.name)


def combine_policies(granting: Collection[Collection[GrantedColumn] | None]) -> Mapping[str, str | None] | None:
    """Return the columns that any of some grants lists (None: all); a column is masked if no grant gives it as it is, by the first mask.

    >>> dict(combine_policies([[GrantedColumn("a"), GrantedColumn("b", "NULL")], [GrantedColumn("b", "0")]]))
    {'a': None, 'b': 'NULL'}
    """
    masks: dict[str, str | None] = {}
    for columns in granting:
        if columns is None:
            return None
        for column in columns:
            if column.mask is None or column.name not in masks:
                masks[column.name] = column.mask
    return MappingProxyType(masks)


def _fits(actual: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether values of a type may be cast to another one: a representation of the same, NULL, or whole numbers."""
    if pa.types.is_dictionary(expected):
        return _fits(actual, expected.value_type)
    same = (is_string, _is_binary, pa.types.is_integer)
    return (
        actual == expected
        or pa.types.is_null(actual)
        or (pa.types.is_integer(actual) and pa.types.is_floating(expected))
        or any(kind(actual) and kind(expected) for kind in same)
    )


def _is_binary(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view))


@dataclass(frozen=True, slots=True)
class RowPolicy:
    """Row policy of a table: allowed rows fulfil all `parts`, each by any of its conditions; all rows without parts."""

    table: str = ""
    user: str = ""
    parts: tuple[tuple[Condition, ...], ...] = ()

    def __str__(self) -> str:
        return " AND ".join(f"({' OR '.join(map(str, part))})" for part in self.parts)

    @property
    def is_everything(self) -> bool:
        """True if the policy allows all rows."""
        return not self.parts

    def predicate(self, columns: pa.Schema) -> Predicate:
        """Return the policy as a predicate on some columns; raise `Refused` if it cannot be expressed."""
        return all_of([any_of([condition.bind(columns, self.user) for condition in part]) for part in self.parts])

    def visible(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot restricted to the partition tables that are allowed.

        Raises `Refused` if a partition of any spec may hold allowed rows and others.
        """
        if self.is_everything:
            return snapshot
        known = _visible.setdefault(snapshot, {})
        if self not in known:
            known[self] = self._restrict(snapshot)
        return known[self]

    def check_rows(
        self, tables: Iterable[pa.Table], target: pa.Schema, defaults: Mapping[str, pa.Scalar] = rows.NO_DEFAULTS
    ) -> Iterator[pa.Table]:
        """Yield the same rows for a table with the columns of `target`; raise `Refused` at the first that is not allowed."""
        if self.is_everything:
            yield from tables
            return
        predicate = self.predicate(target)
        stored = pa.schema([target.field(name).with_nullable(nullable=True) for name in columns_of(predicate)])
        allowed = row_filter(predicate).rest
        for table in rows.in_parts(tables, target, defaults):
            if (
                allowed is not None
                and texts_of(rows.conform(table, stored, defaults)).filter(allowed).num_rows != table.num_rows
            ):
                raise Refused(f"a row for table {self.table!r} lies outside of what {self.user!r} may write: {self}")
            yield table

    def check_unpartitioned(self) -> None:
        """Raise `Refused` unless all rows are allowed: a table without partitions cannot be restricted."""
        if not self.is_everything:
            raise Refused(
                f"table {self.table!r} is not partitioned, and {self.user!r} may have some of its rows alone ({self})"
            )

    def check_whole_partitions(self, snapshot: Snapshot) -> None:
        """Raise `Refused` unless all rows in the partition of an allowed row are allowed, under each spec."""
        if self.is_everything:
            return
        named = {snapshot.schema.ids[name] for name in columns_of(self.predicate(snapshot.schema.plain))}
        if not named <= _identities(snapshot.current_spec):
            raise Refused(
                f"the partitions of table {self.table!r} hold rows of others beside those that {self.user!r} may write"
                f" ({self}); expected a partition field for each column of the row policy"
            )

    def _restrict(self, snapshot: Snapshot) -> Snapshot:
        pruning = prune(partitions_of(snapshot), snapshot.schema, self.predicate(snapshot.schema.plain), None)
        allowed: list[str] = []
        for tables, version in zip(snapshot.tables, pruning.versions, strict=True):
            if len(version.kept) and version.residual is not None:
                raise Refused(
                    f"partition spec v{tables.spec.id} of table {self.table!r} does not decide {version.residual}, which"
                    f" the row policy of {self.user!r} asks for; expected partition fields for its columns, in all specs"
                    " with rows (ALTER TABLE … REWRITE PARTITIONS)"
                )
            allowed += tables.rows["object_id"].take(pa.array(version.kept)).to_pylist()
        return snapshot.only(allowed)


EVERY_ROW = RowPolicy()

_visible: WeakKeyDictionary[Snapshot, dict[RowPolicy, Snapshot]] = WeakKeyDictionary()


def _identities(spec: PartitionSpec) -> set[int]:
    """Return the source columns of a spec's identity fields."""
    return {field.source_ids[0] for field in spec.fields if field.rule.keeps_value}


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
