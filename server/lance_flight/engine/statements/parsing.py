"""SQL text → one statement, of the registry of all statements in the order in which errors list them.

DataFusion only ever sees queries: its `ctx.sql` would run DDL while planning it (decision 22). Everything else is
read here, token by token, and carried out by us.

Tables that a CREATE TABLE defines, and other processes fill before they have their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MappingProxyType
from typing import NoReturn, TypeAlias

from lance_flight.catalog.roots.directory import Root
from lance_flight.engine.dialects.clauses import without_into, without_table_queries
from lance_flight.engine.dialects.spellings import without_escapes
from lance_flight.engine.functions import foreign_functions
from lance_flight.engine.functions.foreign_functions import instead_of, instead_of_clause
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql import references
from lance_flight.engine.sql.references import Cursor
from lance_flight.engine.sql.tokens import insert_head
from lance_flight.engine.statements.alter_columns import (
    AddPrimaryKey,
    AlterColumns,
    BeginWrite,
    CommentStatement,
    DropPrimaryKey,
    SetMetadata,
)
from lance_flight.engine.statements.alter_table import (
    AttachTable,
    ChangePartitionFields,
    CreateBranch,
    CreateOrReplaceBranch,
    CreateOrReplaceTag,
    CreateTag,
    DetachPartition,
    DropBranch,
    DropPartition,
    DropTag,
    PublishBranch,
    Rename,
    ReplaceBranch,
    ReplaceTag,
    Rollback,
    SetOptions,
    SetPartitionedBy,
)
from lance_flight.engine.statements.create_table import (
    CreateSchema,
    CreateTable,
    CreateView,
    DropSchema,
    DropTable,
    DropView,
)
from lance_flight.engine.statements.insert import Insert
from lance_flight.engine.statements.kinds import Changes, ChangeStatement, Statement
from lance_flight.engine.statements.maintenance import OPERATION_STATEMENTS, CreateIndex, DropIndex
from lance_flight.engine.statements.queries import Explain, Query, SubstraitPlan, Summarize
from lance_flight.engine.statements.row_changes import CommitWrite, Delete, Merge, Truncate, Update
from lance_flight.engine.statements.sessions import Begin, EndTransaction, Kill, SetOption
from lance_flight.engine.statements.show import (
    Describe,
    DescribeNamespace,
    ShowColumns,
    ShowCreateTable,
    ShowCreateView,
    ShowListing,
    ShowMetadata,
    ShowSettings,
)
from lance_flight.engine.translation.rewriting import number_parameters
from lance_flight.engine.writes.change_clauses import WITH, place_of_change
from lance_flight.errors import SqlError
from lance_flight.threads import STATEMENTS as LONG_TEXTS
from lance_flight.threads import going_on

STATEMENTS: tuple[type[Statement], ...] = (
    Query,
    SubstraitPlan,
    Explain,
    ShowListing,
    ShowColumns,
    ShowCreateTable,
    ShowCreateView,
    ShowSettings,
    ShowMetadata,
    Summarize,
    Describe,
    DescribeNamespace,
    CreateTable,
    CreateIndex,
    CreateView,
    CreateSchema,
    DropTable,
    DropIndex,
    DropView,
    DropSchema,
    Insert,
    SetOption,
    Kill,
    Begin,
    EndTransaction,
    AlterColumns,
    AddPrimaryKey,
    DropPrimaryKey,
    CommentStatement,
    SetMetadata,
    Rename,
    ChangePartitionFields,
    SetPartitionedBy,
    SetOptions,
    DropPartition,
    AttachTable,
    DetachPartition,
    CreateTag,
    DropTag,
    ReplaceTag,
    CreateOrReplaceTag,
    Rollback,
    CreateBranch,
    ReplaceBranch,
    CreateOrReplaceBranch,
    DropBranch,
    PublishBranch,
    Update,
    Delete,
    Merge,
    Truncate,
    BeginWrite,
    CommitWrite,
    *OPERATION_STATEMENTS,
)


TABLE = "t"
"""Placeholder for the name of a table in a form."""

_COLUMN = "COLUMN"
"""Word that may be left out behind ADD, DROP, RENAME and ALTER."""

LONGEST_KEPT = 16 << 10
MOST_KEPT = 512

Reader: TypeAlias = Callable[[Cursor], Statement]


def parse(
    sql: str,
    db_schema: str | None = None,
    sent: str | None = None,
    first: int = 0,
    check: Callable[[], None] = going_on,
) -> Statement:
    """Parse one statement; the results for short texts are cached.

    Tables without a schema are those of `db_schema`; `sent` and `first` are as those of `Cursor`. A long text waits for its turn until
    `check` raises an error.

    >>> parse("DROP TABLE IF EXISTS flights")
    DropTable(table=TableRef(name='flights', db_schema=None), if_exists=True)
    """
    if len(sql) <= LONGEST_KEPT and sent is None:
        return _remembered(sql, db_schema)
    with LONG_TEXTS.turn(len(sql), check):
        return _parse(sql, db_schema, sent, first)


def _parse(sql: str, db_schema: str | None, sent: str | None = None, first: int = 0) -> Statement:
    sql = without_escapes(sql)
    text = without_into(without_table_queries(number_parameters(sql)))
    if text.startswith("CREATE") and not sql.startswith("CREATE"):
        sent, first = text, 0
    head = insert_head(text)
    cursor = (
        Cursor.over(text, db_schema, sent or sql, first) if head is None else Cursor(text, head, db_schema=db_schema)
    )
    instead = instead_of(cursor.tokens, _BEGINNINGS)
    if instead is not None:
        raise SqlError(f"'{cursor.source(0, min(2, len(cursor.tokens)))}' begins no statement here: {instead}")
    read = _READERS.get(cursor.tokens[0].text.upper())
    if read is None:
        expected = ", ".join(word for word in _READERS if word != "(")
        raise SqlError(f"a statement may not begin with {cursor.tokens[0].text!r}; expected one of {expected}")
    cursor.at = 1
    change = place_of_change(cursor.tokens) if cursor.last == WITH else None
    if change is not None:
        read, cursor.at, cursor.queries = _READERS[cursor.tokens[change].word], change + 1, cursor.source(0, change)
    try:
        statement = read(cursor)
        cursor.end()
    except SqlError as exc:
        instead = instead_of_clause(cursor.tokens, cursor.at)
        if instead is None:
            raise
        raise SqlError(f"{cursor.next_token()} is not offered: {instead}") from exc
    return statement


_remembered = lru_cache(MOST_KEPT)(_parse)
"""Cache of parsed statements: one is parsed several times, to be described, planned, and read."""


@dataclass(frozen=True, slots=True)
class _Form:
    """Words of one form from its second on, those before a table (`head`) and those after it, and the parser of the rest."""

    head: tuple[str, ...]
    words: tuple[str, ...]
    names_table: bool
    read: Callable[..., Statement]


def _read_form(longest_first: Sequence[_Form], listed: str, cursor: Cursor) -> Statement:
    """Parse a statement whose first word begins several forms."""
    for form in longest_first:
        if cursor.accept(*form.words):
            return form.read(cursor)
    raise cursor.error(listed)


def _read_form_of_table(head: tuple[str, ...], forms: Sequence[_Form], listed: str, cursor: Cursor) -> Statement:
    """Parse a statement in whose forms the name of a table follows the first words."""
    cursor.expect(*head)
    if cursor.peek("IF", "EXISTS"):
        raise cursor.error("the name of a table")
    table = references.table(cursor)
    for form in forms:
        if cursor.accept(*form.words):
            return form.read(cursor, table)
    for form in forms:
        if form.words[-1:] == (_COLUMN,) and cursor.accept(*form.words[:-1]):
            return form.read(cursor, table)
    raise cursor.error(listed)


def _readers(statements: Iterable[type[Statement]]) -> Mapping[str, Reader]:
    """Map the first word of each statement to its parser."""
    forms: dict[str, list[_Form]] = {}
    for statement in statements:
        read = partial(statement.read, parse=parse) if statement.nests else statement.read
        for text in statement.forms:
            word, *words = text.split()
            forms.setdefault(word, []).append(_form(words, read))
    return MappingProxyType({word: _reader(form) for word, form in forms.items()})


def _form(words: list[str], read: Callable[..., Statement]) -> _Form:
    names_table = TABLE in words
    place = words.index(TABLE) if names_table else 0
    return _Form(tuple(words[:place]), tuple(words[place + names_table :]), names_table, read)


def _reader(forms: Sequence[_Form]) -> Reader:
    if len(forms) == 1 and not forms[0].words:
        return forms[0].read
    names = [" ".join(form.words) for form in forms]
    # Where a form has no words of its own, it is read last, and says what it expects.
    listed = f"{', '.join(names[:-1])} or {names[-1]}"
    if forms[0].names_table:
        return partial(_read_form_of_table, forms[0].head, forms, listed)
    return partial(_read_form, sorted(forms, key=lambda form: -len(form.words)), listed)


_READERS = _readers(STATEMENTS)
_BEGINNINGS = frozenset(
    tuple(form.split(f" {TABLE} ")[0].split()[: foreign_functions.LONGEST])
    for statement in STATEMENTS
    for form in statement.forms
)
"""First words of the supported statements, which are not mistaken for statements of another system."""


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
