"""Restrictions on what a principal may read and write: row policies with their conditions, columns and masks.

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
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self
from weakref import WeakKeyDictionary

import pyarrow as pa

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.tables import rows
from lance_flight.engine.query.tables.table_view import partitions_of
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import enclose, quote_parts
from lance_flight.errors import Refused
from lance_flight.model.arrow_types import is_string
from lance_flight.model.json_documents import texts_of
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
