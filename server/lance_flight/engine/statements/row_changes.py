"""UPDATE, DELETE, MERGE and TRUNCATE, which change rows of one table within a transaction."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Self

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.catalog.bulk.shared_writes import Replaces
from lance_flight.catalog.commits.once import CommitToken, Once, StreamBatch, checked_id, checked_stream
from lance_flight.catalog.roots.directory import Table, TableName
from lance_flight.catalog.storage.retries import ONCE
from lance_flight.engine.dialects.clauses import read_version
from lance_flight.engine.query.access import OVERWRITING, Privilege, RowPolicy
from lance_flight.engine.query.session import QuerySession, parameter_schema
from lance_flight.engine.runtime.transactions import SqlTransaction, autocommit
from lance_flight.engine.sql import references
from lance_flight.engine.sql.references import Cursor, TableRef, enclose, quote_parts, table_name
from lance_flight.engine.statements.kinds import REMOVING, Changes, ReturningStatement, TableStatement
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.engine.writes.change_clauses import RETURNING, Returning, read_returning, with_defaults
from lance_flight.engine.writes.ingest import Find, WritableTable
from lance_flight.engine.writes.row_changes import (
    BEHIND,
    Assignment,
    Matched,
    MergeClause,
    Merging,
    RowDelta,
    RowQuery,
    Target,
    Where,
    alias,
    assignments,
    delete_query,
    matched_rows,
    merge_query,
    source_query,
    target,
    text,
    unique,
    update_query,
    where,
    with_default_values,
)
from lance_flight.errors import NotFound, SqlError, Unsupported
from lance_flight.model.schema import NamespaceSchema


class TargetChange(ReturningStatement):
    """A statement that changes the rows of one table."""

    __slots__ = ()
    is_cancellable = True

    @property
    @abstractmethod
    def writing(self) -> frozenset[Privilege]:
        """Return the privileges that the rows it writes require."""

    @abstractmethod
    def change(
        self,
        table: Table,
        transaction: SqlTransaction,
        changes: Changes,
        policy: RowPolicy,
        parameters: pa.RecordBatch | None,
    ) -> int:
        """Run the statement once and return the number of rows inserted, changed and removed; `policy` restricts the written rows."""

    def apply(self, changes: Changes, transaction: SqlTransaction) -> int:
        """Apply the change for each binding, each to the result of the ones before it; return the number of rows."""
        policy = changes.policy(self.writing, self.target_name)
        if changes.parameters is not None and changes.parameters.num_rows > 1:
            self._check_repeated(transaction)
        count = 0
        for place, binding in enumerate(changes.bindings()):
            try:
                if place:
                    transaction.stage(changes.cancellation)
                count += self.change(transaction.table(self.target_name), transaction, changes, policy, binding)
            except Exception as exc:
                if place:
                    transaction.torn = exc
                raise
        return count

    def _check_repeated(self, transaction: SqlTransaction) -> None:
        """Refuse several rows of parameters if each would be a visible commit of its own: for a plain table that is no draft."""
        table = transaction.table(self.target_name)
        if not table.is_partitioned and not transaction.is_draft(table):
            raise Unsupported(
                f"table {self.target_name.name!r} is not partitioned: {self.label.upper()} takes one row of"
                " parameters at a time there, as several could not become visible together"
            )


class RowChange(TargetChange):
    """A statement that changes the rows that a query finds: UPDATE, DELETE, MERGE."""

    __slots__ = ()

    rewrites: ClassVar[bool] = True
    """True if the columns that the statement does not name are read and written again."""
    remembers_reads: ClassVar[bool] = False
    """True if the statement fails where another writer adds rows that it would have found."""
    target: Target

    @property
    def target_name(self) -> TableName:
        return table_name(self.target.table)

    @property
    @abstractmethod
    def changing(self) -> frozenset[Privilege]:
        """Return the privileges that the existing rows it changes require."""

    @abstractmethod
    def query(self, session: QuerySession, schema: pa.Schema, *, keeps_ids: bool) -> RowQuery:
        """Build the query that finds the rows to change in a target of these columns, whose rows may keep their ids."""

    def narrow(self, session: QuerySession, frame: DataFrame) -> None:
        """Restrict what `frame`, its query, reads of the target, before it is run."""

    def resolve(self, session: QuerySession) -> Self:
        """Return the statement with what it leaves to the definition of its target."""
        return self

    def query_in(self, session: QuerySession) -> RowQuery:
        """Build the query that finds the rows to change, in a session that has the target registered."""
        target = self.writable(session)
        return self.query(session, target.columns, keeps_ids=target.keeps_row_ids)

    def writable(self, session: QuerySession) -> WritableTable:
        """Return the target as the transaction of a session sees it; `Refused` where its rows cannot be written as they were."""
        transaction = session.transaction or SqlTransaction(session.root)
        table = transaction.table(self.target_name)
        if self.rewrites:
            what = f"{self.label.upper()} writes whole rows"
            session.access.check_all_columns(session.root.governing_table(self.target_name), what)
        return WritableTable(table, transaction)

    def described(self, session: QuerySession) -> NamespaceSchema:
        """Return the schema of the target."""
        return self.writable(session).schema

    def change(
        self,
        table: Table,
        transaction: SqlTransaction,
        changes: Changes,
        policy: RowPolicy,
        parameters: pa.RecordBatch | None,
    ) -> int:
        if self.remembers_reads:
            transaction.remember_reads()
        session = changes.new_session(transaction, self.target_name, self.changing)
        statement = self.resolve(session)
        find = partial(RowDelta, session, statement, statement.query_in(session), parameters, returned=changes.returned)
        return WritableTable(table, transaction, policy).change(find)

    def parameters(self, sql: str, changes: Changes) -> pa.Schema:
        session = changes.new_session(
            changes.transaction or SqlTransaction(changes.root), self.target_name, self.changing
        )
        query = self.resolve(session).query_in(session)
        session.frame(query.sql)
        return parameter_schema(sql, {**session.wanted_types(), **query.parameter_types})


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(RowChange):
    """DELETE FROM t [[AS] a] [USING table, …] [WHERE condition] [RETURNING items]."""

    forms = ("DELETE",)
    frees_room = True
    rewrites = False

    target: Target
    where: Where
    returning: Returning | None = None

    @classmethod
    def read(cls, cursor: Cursor) -> Delete:
        cursor.expect("FROM")
        changed = target(cursor)
        found = where(cursor, "USING")
        return cls(target=changed, where=found, returning=read_returning(cursor, changed.alias))

    @property
    def changing(self) -> frozenset[Privilege]:
        return frozenset({Privilege.DELETE})

    @property
    def writing(self) -> frozenset[Privilege]:
        return frozenset()

    def query(self, session: QuerySession, schema: pa.Schema, *, keeps_ids: bool) -> RowQuery:
        returned = () if self.returning is None else schema.names
        return delete_query(self.target, self.where, self.target_name.db_schema, returned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(RowChange):
    """UPDATE t [[AS] a] SET column = expression, … [FROM table, …] [WHERE condition] [RETURNING items]."""

    forms = ("UPDATE",)

    target: Target
    assignments: tuple[Assignment, ...]
    where: Where
    returning: Returning | None = None

    @classmethod
    def read(cls, cursor: Cursor) -> Update:
        changed = target(cursor)
        if not cursor.accept("SET"):
            raise cursor.error("SET; of other tables write UPDATE t SET a = u.a FROM u WHERE t.id = u.id")
        assigned = assignments(cursor, "FROM", "WHERE", *BEHIND)
        found = where(cursor, "FROM")
        returning = read_returning(cursor, changed.alias)
        return cls(target=changed, assignments=assigned, where=found, returning=returning)

    @property
    def changing(self) -> frozenset[Privilege]:
        return frozenset({Privilege.UPDATE})

    @property
    def writing(self) -> frozenset[Privilege]:
        return frozenset({Privilege.UPDATE})

    def resolve(self, session: QuerySession) -> Update:
        return replace(self, assignments=with_default_values(self.assignments, partial(self.described, session)))

    def query(self, session: QuerySession, schema: pa.Schema, *, keeps_ids: bool) -> RowQuery:
        return update_query(
            self.target, self.assignments, self.where, self.target_name.db_schema, schema, keeps_ids=keeps_ids
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Merging, RowChange):
    """MERGE INTO t [[AS] a] USING source [[AS] s [(column, …)]] [ON condition] WHEN … [RETURNING items]; without ON by the primary key."""

    forms = ("MERGE",)

    @classmethod
    def read(cls, cursor: Cursor) -> Merge:
        cursor.expect("INTO")
        into = target(cursor)
        cursor.expect("USING")
        source, called = _source(cursor)
        columns = references.names(cursor) if cursor.peek("(") else ()
        if not (cursor.peek("ON") or cursor.peek("WHEN")):
            raise cursor.error("ON, or WHEN for a MERGE by the primary key")
        on = text(cursor, "the condition", "WHEN") if cursor.accept("ON") else ""
        clauses = [_clause(cursor)]
        while not cursor.done and not cursor.peek(RETURNING):
            clauses.append(_clause(cursor))
        return cls(
            target=into,
            source=source,
            source_alias=called,
            source_columns=columns,
            on=on,
            clauses=tuple(clauses),
            returning=read_returning(cursor, into.alias),
        )

    @property
    def changing(self) -> frozenset[Privilege]:
        acting = (clause for clause in self.clauses if not clause.does_nothing)
        on_the_target = [clause for clause in acting if clause.matched is not Matched.SOURCE_ONLY]
        deletes = {Privilege.DELETE for clause in on_the_target if clause.assignments is None}
        updates = {Privilege.UPDATE for clause in on_the_target if clause.assignments is not None}
        return frozenset(deletes | updates)

    @property
    def writing(self) -> frozenset[Privilege]:
        inserts = any(clause.matched is Matched.SOURCE_ONLY and not clause.does_nothing for clause in self.clauses)
        return (self.changing - {Privilege.DELETE}) | ({Privilege.INSERT} if inserts else frozenset())

    def resolve(self, session: QuerySession) -> Merge:
        described = partial(self.described, session)
        clauses = tuple(_resolved(clause, described) for clause in self.clauses)
        return replace(self, on=self.on or self._equal_keys(session), clauses=clauses)

    def _equal_keys(self, session: QuerySession) -> str:
        """Return the condition that rows of the source and the target have one primary key."""
        key = self.writable(session).primary_key
        if not key:
            raise SqlError(
                f"table {self.target_name.name!r} has no primary key; expected ON condition, or ALTER TABLE … ADD PRIMARY KEY"
            )
        equal = [f"{quote_parts(self.target.alias, name)} = {quote_parts(self.source_alias, name)}" for name in key]
        return " AND ".join(equal)

    def query(self, session: QuerySession, schema: pa.Schema, *, keeps_ids: bool) -> RowQuery:
        source = pa.schema(session.frame(source_query(self)).schema())
        return merge_query(self, self.target_name.db_schema, schema, source, keeps_ids=keeps_ids)

    def narrow(self, session: QuerySession, frame: DataFrame) -> None:
        session.narrow(matched_rows(session, self, frame))


def _resolved(clause: MergeClause, described: Callable[[], NamespaceSchema]) -> MergeClause:
    """Return a clause with the columns of INSERT VALUES, and with defaults in the place of DEFAULT."""
    assigned = _by_position(described().plain.names, clause.values) if clause.values else clause.assignments
    return (
        clause if assigned is None else replace(clause, assignments=with_default_values(assigned, described), values=())
    )


EXCLUDED = "excluded"
"""Alias of the rows that an INSERT … ON CONFLICT would insert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert(RowChange):
    """INSERT INTO t [(columns)] query ON CONFLICT [(keys)] DO NOTHING | DO UPDATE SET column = expression, … [WHERE condition].

    A row conflicts with the rows of equal keys, none of which is NULL; without `keys` these are the primary key. Assignments
    of None do nothing then, those of () take every column over. `columns` None means all, by position.
    """

    forms = ()
    remembers_reads = True  # of two that find no row of a key, one runs again and finds it

    target: Target
    columns: tuple[str, ...] | None
    query_sql: str
    keys: tuple[str, ...]
    assignments: tuple[Assignment, ...] | None
    where: str | None = None
    returning: Returning | None = None

    @property
    def label(self) -> str:
        return "Insert"

    @property
    def changing(self) -> frozenset[Privilege]:
        return frozenset() if self.assignments is None else frozenset({Privilege.UPDATE})

    @property
    def writing(self) -> frozenset[Privilege]:
        return self.changing | {Privilege.INSERT}

    def query(self, session: QuerySession, schema: pa.Schema, *, keeps_ids: bool) -> RowQuery:
        width = len(session.frame(self.query_sql).schema())
        merge = self._merge(session, schema)
        if width != len(merge.source_columns):
            raise SqlError(
                f"INSERT INTO {self.target_name.name} has {width} values for {len(merge.source_columns)} columns"  # noqa: S608 - a message
                f" ({', '.join(merge.source_columns)})"
            )
        row_query = merge.query(session, schema, keeps_ids=keeps_ids)
        return row_query if self.assignments is None else replace(row_query, unique=self._keys(session))

    def narrow(self, session: QuerySession, frame: DataFrame) -> None:
        self._merge(session, self.writable(session).columns).narrow(session, frame)

    def resolve(self, session: QuerySession) -> Upsert:
        described = partial(self.described, session)
        return replace(
            self,
            query_sql=with_defaults(self.query_sql, self.columns, described),
            assignments=None if self.assignments is None else with_default_values(self.assignments, described),
        )

    def _keys(self, session: QuerySession) -> tuple[str, ...]:
        keys = self.keys or self.writable(session).primary_key
        if not keys:
            raise SqlError(f"table {self.target_name.name!r} has no primary key; expected ON CONFLICT (column, …)")
        return keys

    def _merge(self, session: QuerySession, schema: pa.Schema) -> Merge:
        """Return the MERGE that does the same."""
        keys, columns = self._keys(session), self.columns or tuple(schema.names)
        for name in (*columns, *keys):
            if name not in schema.names:
                raise NotFound.named("column", name, schema.names)
        left_out = [name for name in keys if name not in columns]
        if left_out:
            raise SqlError(
                f"the key {left_out[0]!r} of ON CONFLICT is not among the columns of the INSERT: {', '.join(columns)}"
            )
        source, named = enclose(self.query_sql), ", ".join(map(quote_parts, columns))
        if self.assignments is None:
            # Of new rows with one key the first is kept; NULL is equal to no key.
            unknown = " OR ".join(f"{quote_parts(key)} IS NULL" for key in keys)
            place = f"row_number() OVER (PARTITION BY {', '.join(map(quote_parts, keys))})"
            source = f"(SELECT * FROM {source} AS {quote_parts(EXCLUDED)} ({named}) QUALIFY {unknown} OR {place} = 1)"  # noqa: S608 - quoted
        insert = tuple(Assignment(name, quote_parts(EXCLUDED, name)) for name in columns)
        update = insert if self.assignments == () else self.assignments
        clauses = [MergeClause(matched=Matched.SOURCE_ONLY, condition=None, assignments=insert)]
        if update is not None:
            clauses.append(MergeClause(matched=Matched.BOTH, condition=self.where, assignments=update))
        return Merge(
            target=self.target,
            source=source,
            source_alias=EXCLUDED,
            source_columns=columns,
            on=" AND ".join(f"{quote_parts(self.target.alias, key)} = {quote_parts(EXCLUDED, key)}" for key in keys),
            clauses=tuple(clauses),
            returning=self.returning,
        )


def read_conflict(cursor: Cursor, into: TableRef, columns: tuple[str, ...] | None, query: str) -> Upsert:
    """Read `ON CONFLICT …` behind the query of an INSERT."""
    cursor.expect("ON", "CONFLICT")
    keys = references.names(cursor) if cursor.peek("(") else ()
    cursor.expect("DO")
    assigned = None
    if not cursor.accept("NOTHING"):
        cursor.expect("UPDATE", "SET")
        assigned = () if cursor.accept("*") else assignments(cursor, "WHERE", RETURNING)
    return Upsert(
        target=Target(table=into, alias=into.name),
        columns=columns,
        query_sql=query,
        keys=keys,
        assignments=assigned,
        where=where(cursor).condition,
    )


def _source(cursor: Cursor) -> tuple[str, str]:
    """Read the source of a MERGE: its text without the alias, and the name by which the statement refers to it."""
    if cursor.peek("("):
        relation = cursor.read_bracket()
        called = alias(cursor, "ON", "WHEN")
        if called is None:
            raise cursor.error("a name for the source")
        return relation, called
    start = cursor.at
    reference = references.table(cursor)
    read_version(cursor)  # which the query over the source reads again
    relation = cursor.source(start, cursor.at)
    return relation, alias(cursor, "ON", "WHEN") or reference.name


def _clause(cursor: Cursor) -> MergeClause:
    cursor.expect("WHEN")
    matched = _read_matched(cursor)
    condition = text(cursor, "a condition", "THEN") if cursor.accept("AND") else None
    cursor.expect("THEN")
    if cursor.accept("DO", "NOTHING"):
        return MergeClause(matched=matched, condition=condition, assignments=(), does_nothing=True)
    if matched is Matched.SOURCE_ONLY:
        cursor.expect("INSERT")
        if cursor.accept("*"):
            return MergeClause(matched=matched, condition=condition, assignments=(), takes_all=True)
        if cursor.peek("VALUES"):
            return MergeClause(matched=matched, condition=condition, assignments=(), values=_values(cursor))
        return MergeClause(matched=matched, condition=condition, assignments=_read_insert(cursor))
    if cursor.accept("DELETE"):
        return MergeClause(matched=matched, condition=condition, assignments=None)
    cursor.expect("UPDATE", "SET")
    if cursor.accept("*"):
        if matched is Matched.TARGET_ONLY:
            raise SqlError("UPDATE SET * takes the columns of the source, and WHEN NOT MATCHED BY SOURCE has none")
        return MergeClause(matched=matched, condition=condition, assignments=(), takes_all=True)
    return MergeClause(matched=matched, condition=condition, assignments=assignments(cursor, "WHEN", RETURNING))


def _read_matched(cursor: Cursor) -> Matched:
    if cursor.accept("MATCHED"):
        return Matched.BOTH
    cursor.expect("NOT", "MATCHED")
    if cursor.accept("BY", "SOURCE"):
        return Matched.TARGET_ONLY
    cursor.accept("BY", "TARGET")
    return Matched.SOURCE_ONLY


def _read_insert(cursor: Cursor) -> tuple[Assignment, ...]:
    return _by_position(references.names(cursor), _values(cursor))


def _values(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("VALUES")
    cursor.expect("(")
    values = [text(cursor, "a value", ",", ")")]
    while cursor.accept(","):
        values.append(text(cursor, "a value", ",", ")"))
    cursor.expect(")")
    return tuple(values)


def _by_position(columns: Sequence[str], values: Sequence[str]) -> tuple[Assignment, ...]:
    if len(values) != len(columns):
        raise SqlError(
            f"{len(values)} values for {len(columns)} columns ({', '.join(columns)}) in the INSERT of a MERGE"
        )
    return unique([Assignment(*pair) for pair in zip(columns, values, strict=True)])


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWrite(TargetChange):
    """COMMIT WRITE 'name' INTO t [VERSION n] PARTS ('part', …) [ONCE 'id' [BATCH n [QUERY 'q']]] and how it replaces rows.

    It ends with [OVERWRITE PARTITIONS | REPLACING [WHERE …] | READING [WHERE …]]. It makes parts of a shared ingest visible, on top
    of the version that the ingest began with: in place of the rows that fulfil the condition there, or beside rows that were compared
    with them. It fails where these have changed since. With ONCE it is a commit with an id, or a batch of a stream of that name,
    which the table has once.
    """

    forms = ("COMMIT WRITE",)

    name: str
    target: Target
    version: int | None
    parts: tuple[str, ...]
    once: Callable[[int], Once] | None
    replaces: Replaces
    where: Where
    returning: Returning | None = None

    @classmethod
    def read(cls, cursor: Cursor) -> CommitWrite:
        name = cursor.string("the name of a shared ingest")
        cursor.expect("INTO")
        into = references.table(cursor)
        version = cursor.number("a version") if cursor.accept("VERSION") else None
        cursor.expect("PARTS", "(")
        parts = []
        while not cursor.accept(")"):
            parts.append(cursor.string("the name of a part"))
            if not cursor.peek(")"):
                cursor.expect(",")
        once = _read_once(cursor) if cursor.accept("ONCE") else None
        replaces = next((kind for words, kind in _REPLACED.items() if cursor.accept(*words)), Replaces.NOTHING)
        found = where(cursor) if replaces in _FINDING else Where(None)
        return cls(
            name=name,
            target=Target(table=into, alias=into.name),
            version=version,
            parts=tuple(parts),
            once=once,
            replaces=replaces,
            where=found,
        )

    @property
    def target_name(self) -> TableName:
        return table_name(self.target.table)

    @property
    def writing(self) -> frozenset[Privilege]:
        return OVERWRITING if self.replaces is Replaces.PARTITIONS else frozenset({Privilege.INSERT})

    def run(self, changes: Changes) -> int:
        if changes.transaction is not None:
            return self.apply(changes, changes.transaction)
        # The files go with a commit that fails.
        work, is_serializable = partial(self.apply, changes), self.replaces is not Replaces.NOTHING
        return autocommit(changes.root, work, changes.cancellation, serializable=is_serializable, policy=ONCE)

    def change(
        self,
        table: Table,
        transaction: SqlTransaction,
        changes: Changes,
        policy: RowPolicy,
        parameters: pa.RecordBatch | None,
    ) -> int:
        ingests = changes.shared()
        if not self.parts:
            ingests.find(self.name, table, self.version)
        ingest = ingests.take(self.name, table)
        files = ingest.updates(self.parts)
        if transaction.is_draft(table):
            ingest.shared.commit(files, evaluate)
            return sum(part.rows for part in files)
        if transaction.explicit:
            ingest.discard()
            changes.check_alone("COMMIT WRITE into a table that the transaction has not made,")
        writable = WritableTable(table, transaction, policy)
        try:
            serializable = self.replaces is not Replaces.NOTHING
            inner = ingest.shared.begin_commit(table, ingest.snapshot, serializable=serializable)
            transaction.change_by(table, inner, ingest.lease)
            if self.once is not None:
                inner.once = self.once(sum(part.rows for part in files))
            if self.replaces is Replaces.PARTITIONS:
                return writable.overwrite_by(files)
            if self.replaces is Replaces.NOTHING:
                return writable.take(files)
            if self.replaces is Replaces.NOTHING_OF_READ:
                deque(self._find(transaction, changes, frozenset())(writable.columns), maxlen=0)
                return writable.take(files)
            if self.where.condition is None:
                # What others add meanwhile, be it a new partition, belongs to the table that is replaced.
                inner.read(ingest.snapshot.table_ids)
            return writable.take(files, self._find(transaction, changes, frozenset({Privilege.DELETE})))
        except BaseException:
            ingest.discard()
            raise

    def _find(self, transaction: SqlTransaction, changes: Changes, changing: frozenset[Privilege]) -> Find:
        """Return the search for the rows that fulfil the condition, which the transaction has read then."""
        finding = Delete(target=self.target, where=self.where)
        session = changes.new_session(transaction, self.target_name, changing)
        return partial(RowDelta, session, finding, finding.query_in(session), None)


def _read_once(cursor: Cursor) -> Callable[[int], Once]:
    """Read an id, or a stream's batch; return what is remembered of a commit of so many rows."""
    name = cursor.string("an id")
    if not cursor.accept("BATCH"):
        return partial(CommitToken.now, checked_id(name))
    number = cursor.number("the number of a batch")
    query = cursor.string("the id of a query") if cursor.accept("QUERY") else None
    stream = checked_stream(name)
    return lambda rows: StreamBatch.now(stream, number, query=query, rows=rows)


_REPLACED: Mapping[tuple[str, ...], Replaces] = MappingProxyType(
    {
        ("OVERWRITE", "PARTITIONS"): Replaces.PARTITIONS,
        ("REPLACING",): Replaces.READ,
        ("READING",): Replaces.NOTHING_OF_READ,
    }
)
_FINDING = frozenset({Replaces.READ, Replaces.NOTHING_OF_READ})


@dataclass(frozen=True, slots=True)
class Truncate(TableStatement, TargetChange):
    """TRUNCATE [TABLE] t."""

    forms = ("TRUNCATE",)
    frees_room = True
    needs = REMOVING

    table: TableRef
    returning: Returning | None = None

    @property
    def defined(self) -> None:
        return None

    @classmethod
    def read(cls, cursor: Cursor) -> Truncate:
        cursor.accept("TABLE")
        table = references.table(cursor)
        return cls(table)

    @property
    def target_name(self) -> TableName:
        return table_name(self.table)

    @property
    def writing(self) -> frozenset[Privilege]:
        return frozenset()

    def change(
        self,
        table: Table,
        transaction: SqlTransaction,
        changes: Changes,
        policy: RowPolicy,
        parameters: pa.RecordBatch | None,
    ) -> int:
        return WritableTable(table, transaction).truncate()
