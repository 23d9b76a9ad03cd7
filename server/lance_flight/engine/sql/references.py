"""References to tables and columns in statements, their versions and places, and the cursor by which statements are read.

A reference has a version and a metadata table (`t@12`, `t@tag$files`). Relations are tables, queries and calls of table functions. Queries about the activity of the server alone wait for no other
statement.

The cursor parses the statements that DataFusion does not handle, with their WITH (name = value, …).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from string import ascii_lowercase, ascii_uppercase

from lance_flight.engine.sql.clause_words import AFTER_FROM, FIRST_WORDS, JOINS, SET_OPERATORS
from lance_flight.engine.sql.tokens import (
    MOST_DIGITS,
    QUOTED,
    Kind,
    Token,
    TokenPlaces,
    fold_name,
    spelled_out,
    tokenize,
)
from lance_flight.errors import LimitExceeded, NotFound, SqlError
from lance_flight.model.index_kinds import OptionValue
from lance_flight.model.naming import PUBLIC, TableName

_MOMENTS = {"TIMESTAMP", "TIMESTAMPTZ", "DATETIME"}
_TYPED = ("DATE", "TIME", *sorted(_MOMENTS))
_BOOLEANS = ("TRUE", "FALSE")
_FOLDED = str.maketrans(ascii_uppercase, ascii_lowercase)


@dataclass(slots=True)
class Cursor:
    """Reads a statement token by token; every error names the token found and what was expected.

    `db_schema` is where the tables are that it names without a schema (None: the default one). Errors name positions in `sent`, where that
    is another text: its tokens from the number `first` on are those of the cursor. `queries` are those of a WITH before a change of rows.
    """

    text: str
    tokens: Sequence[Token]
    at: int = 0
    db_schema: str | None = None
    sent: str | None = None
    first: int = 0
    queries: str = ""

    @classmethod
    def over(
        cls,
        text: str,
        db_schema: str | None = None,
        sent: str | None = None,
        first: int = 0,
        *,
        is_spelled_out: bool = False,
    ) -> Cursor:
        """Return a cursor at the first token of one statement; a closing semicolon is dropped.

        A reader of literals in lists asks for them one by one (`is_spelled_out`).
        """
        tokens = spelled_out(text) if is_spelled_out else tokenize(text)
        while tokens and tokens[-1].is_sign(";"):
            tokens.pop()
        if not tokens:
            raise SqlError("the statement is empty")
        return cls(text, tokens, db_schema=db_schema, sent=sent, first=first)

    @property
    def done(self) -> bool:
        """True if every token was read."""
        return self.at >= len(self.tokens)

    @property
    def last(self) -> str:
        """Return the word or sign that was read last, in upper case."""
        return self.tokens[self.at - 1].text.upper()

    def peek(self, *words: str) -> bool:
        """Return whether the next tokens are these words or signs, in any case."""
        coming = self.tokens[self.at : self.at + len(words)]
        texts = [token.text.upper() for token in coming if token.kind not in QUOTED]
        return texts == [word.upper() for word in words]

    def accept(self, *words: str) -> bool:
        """Read these words if they come next, and return whether they did."""
        if not self.peek(*words):
            return False
        self.at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Read these words; raise `SqlError` unless they come next."""
        if not self.accept(*words):
            raise self.error(" ".join(words))

    def error(self, expected: str) -> SqlError:
        """Return an error about the next token."""
        return SqlError(f"expected {expected}, got {self.next_token()}")

    def next_token(self) -> str:
        """Return the next token and its place, for a message."""
        if self.done:
            return "the end of the statement"
        text, tokens = (self.text, self.tokens) if self.sent is None else (self.sent, tokenize(self.sent)[self.first :])
        token = tokens[self.at]
        return f"{text[token.start : token.stop]!r} at character {token.start + 1}"

    def name(self, what: str) -> str:
        """Read one identifier; the ASCII letters of an unquoted one are folded to lower case, as in queries."""
        token = self._read(what, Kind.WORD, Kind.NAME)
        return token.text if token.kind is Kind.NAME else token.text.translate(_FOLDED)

    def number(self, what: str) -> int:
        """Read one whole number, of 64 bits at most."""
        if not self.done and not self.tokens[self.at].is_whole:
            raise self.error(what)
        return int(self._read(what, Kind.NUMBER).text)

    def string(self, what: str) -> str:
        """Read one string literal, `'…'` or `$$…$$`."""
        return self._read(what, Kind.STRING).text

    def text_or_name(self, what: str) -> str:
        """Read one string literal or identifier."""
        if not self.done and self.tokens[self.at].kind is Kind.STRING:
            return self.string(what)
        return self.name(what)

    def word(self, what: str) -> str:
        """Read one identifier, string literal or number, and return its text."""
        token = self._read(what, Kind.WORD, Kind.NAME, Kind.STRING, Kind.NUMBER)
        return token.text.translate(_FOLDED) if token.kind is Kind.WORD else token.text

    @property
    def at_literal(self) -> bool:
        """True if the next token is a number or a quoted text."""
        return not self.done and self.tokens[self.at].kind in (Kind.NUMBER, Kind.STRING)

    def literal(self, what: str) -> str:
        """Read one literal except NULL and bytes (`'…'`, `-1.5`, `TRUE`, `DATE '…'`), and return the text of its value."""
        for word in _BOOLEANS:
            if self.accept(word):
                return word.lower()
        if any(self.accept(word) for word in _TYPED):
            return self.string(what)
        sign = "-" if self.accept("-") else ""
        return sign + self._read(what, Kind.NUMBER, *([] if sign else [Kind.STRING])).text

    def source(self, start: int, stop: int) -> str:
        """Return the text of the tokens `start` to `stop`, as it was written."""
        if start >= stop:
            return ""
        return self.text[self.tokens[start].start : self.tokens[stop - 1].stop]

    def until(self, *stops: str) -> str:
        """Read up to (not including) the first of `stops` outside of any bracket or CASE, and return that text.

        A closing bracket that was not opened here, and a semicolon, end it as well.
        """
        start, depth = self.at, 0
        for token in islice(self.tokens, start, None):
            kind = token.kind
            if kind is Kind.SIGN:
                sign = token.text
                if sign == ";" or (depth == 0 and (sign in ")]}" or sign in stops)):
                    break
                depth += (sign in "([{") - (sign in ")]}")
            elif kind is Kind.WORD:
                word = token.text.upper()
                if depth == 0 and word in stops:
                    break
                depth += (word == "CASE") - (word == "END")
            self.at += 1
        return self.source(start, self.at)

    def type(self, *stops: str) -> str:
        """Read a type up to the first of `stops` outside of any bracket; `<` and `>` are brackets in it."""
        start, depth = self.at, 0
        while not self.done:
            token = self.tokens[self.at]
            is_sign = token.kind is Kind.SIGN
            closes = (token.text.count(">") or token.text in ")]") if is_sign else 0
            if depth == 0 and (closes or (token.kind not in QUOTED and token.text.upper() in stops)):
                break
            depth += ((token.text.count("<") or token.text in "([") if is_sign else 0) - closes
            self.at += 1
        return self.source(start, self.at)

    def read_bracket(self) -> str:
        """Read a bracket with its content."""
        start, depth = self.at, 1
        self.expect("(")
        while not self.done and (depth > 1 or not self.peek(")")):
            depth += self.peek("(") - self.peek(")")
            self.at += 1
        self.expect(")")
        return self.source(start, self.at)

    def rest(self) -> str:
        """Read all remaining tokens."""
        start, self.at = self.at, len(self.tokens)
        return self.source(start, self.at)

    def end(self) -> None:
        """Raise `SqlError` unless all tokens were read."""
        if not self.done:
            raise self.error("the end of the statement")

    def _read(self, what: str, *kinds: Kind) -> Token:
        if self.done or self.tokens[self.at].kind not in kinds:
            raise self.error(what)
        self.at += 1
        return self.tokens[self.at - 1]


def read_bracketed_options(cursor: Cursor) -> dict[str, OptionValue]:
    """Read bracketed options."""
    cursor.expect("(")
    options: dict[str, OptionValue] = {}
    while True:
        name = cursor.name("the name of an option")
        cursor.expect("=")
        options[name] = _value(cursor, name)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return options


def _value(cursor: Cursor, name: str) -> OptionValue:
    text = cursor.literal(f"the value of {name}") if cursor.at_literal else cursor.name(f"the value of {name}")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else text


CATALOG = "lance"
QUALIFIED_PARTS = 3  # catalog.schema.table
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class TableRef:
    """Table reference of a statement: schema (None: the default one) and name."""

    name: str
    db_schema: str | None = None


def table(cursor: Cursor) -> TableRef:
    """Read `[[lance.]schema.]table`; without a schema it is one of the cursor's."""
    parts = [cursor.name("a table name")]
    while cursor.accept("."):
        parts.append(cursor.name("a table name"))
    if len(parts) > QUALIFIED_PARTS or (len(parts) == QUALIFIED_PARTS and parts[0] != CATALOG):
        raise SqlError(f"table {'.'.join(parts)!r} is not there; expected [[lance.]schema.]table")
    return TableRef(parts[-1], parts[-2] if len(parts) > 1 else cursor.db_schema)


def column(cursor: Cursor) -> tuple[TableRef, str]:
    """Read `[[lance.]schema.]table.column`."""
    parts = [cursor.name("a table name")]
    while cursor.accept("."):
        parts.append(cursor.name("a column name"))
    if len(parts) < 2 or len(parts) > QUALIFIED_PARTS + 1 or (len(parts) > QUALIFIED_PARTS and parts[0] != CATALOG):  # noqa: PLR2004 - a table and its column
        raise SqlError(f"column {'.'.join(parts)!r} is not there; expected [[lance.]schema.]table.column")
    *_, name = parts
    *above, table = parts[:-1]
    return TableRef(table, above[-1] if above else cursor.db_schema), name


def table_name(reference: TableRef) -> TableName:
    """Resolve a reference to a table name; the schema defaults to `public`."""
    return TableName(reference.db_schema or PUBLIC, reference.name)


def schema(cursor: Cursor) -> str:
    """Read `[lance.]schema`."""
    name = cursor.name("the name of a schema")
    if cursor.accept("."):
        if name != CATALOG:
            raise SqlError(f"catalog {name!r} is not there; expected [{CATALOG}.]schema")
        name = cursor.name("the name of a schema")
    return name


def catalog(cursor: Cursor) -> str:
    """Read the name of the catalog."""
    name = cursor.name("the name of a catalog")
    if name != CATALOG:
        raise SqlError(f"catalog {name!r} is not there; expected {CATALOG!r}, the only one")
    return name


def names(cursor: Cursor) -> tuple[str, ...]:
    """Read `(column, …)`."""
    cursor.expect("(")
    names = [cursor.name("a column name")]
    while cursor.accept(","):
        names.append(cursor.name("a column name"))
    cursor.expect(")")
    return tuple(names)


def quote_parts(*parts: str) -> str:
    """Quote the parts of a name for SQL.

    >>> quote_parts("public", "my table")
    '"public"."my table"'
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def shown_name(name: str, db_schema: str = PUBLIC) -> str:
    """Write a name for a statement that is typed: quoted where it has to be, and without the schema `public`.

    >>> shown_name("docs"), shown_name("my docs", "a")
    ('docs', 'a."my docs"')
    """
    parts = [name] if db_schema == PUBLIC else [db_schema, name]
    return ".".join(part if _PLAIN.fullmatch(part) else quote_parts(part) for part in parts)


def text_literal(text: str) -> str:
    """Quote a text as a literal of SQL.

    >>> text_literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def enclose(expression: str) -> str:
    """Put an expression into brackets; a line break ends a comment at its end."""
    return f"({expression}\n)"


Point = int | str | datetime
"""Point in a table's history: a version, a tag, or the newest version that is not later than a time."""

_VERSION = re.compile(r"[0-9]{1,20}")
_REFERENCE = re.compile(r"(?P<table>.+?)(?:@(?P<at>[^$@]+))?(?:\$(?P<metadata>[a-z]+))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reference:
    """Table reference in SQL: its newest version (`at` None) or another one, and optionally a metadata table."""

    table: TableName
    at: Point | None = None
    metadata: str | None = None

    @classmethod
    def parse(cls, name: TableName) -> Reference:
        """Parse a reference.

        >>> Reference.parse(TableName("public", "t@12$files")).at
        12
        """
        match = _REFERENCE.fullmatch(name.name)
        if match is None:
            return cls(name)
        at = None if match["at"] is None else point(match["at"])
        return cls(TableName(name.db_schema, match["table"]), at, match["metadata"])


def point(text: str) -> Point:
    """Parse a version number, a point in time (UTC unless it has a zone), or a tag.

    >>> point("12"), point("2026-01-31").isoformat(), point("audited")
    (12, '2026-01-31T00:00:00+00:00', 'audited')
    """
    if _VERSION.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_point(cursor: Cursor) -> Point:
    """Read one point from a cursor."""
    return point(cursor.word("a version, a tag or a time"))


def read_as_of(cursor: Cursor) -> Point | None:
    """Read `[AS OF point]` from a cursor."""
    return read_point(cursor) if cursor.accept("AS", "OF") else None


_CLOCKS = timedelta(minutes=1)
"""How far the clocks of two machines may be apart."""


@contextmanager
def naming(table: TableName, at: Point | None) -> Iterator[None]:
    """Replace an error about a missing version by one that names the table and the point, not the table's location.

    A time that is not over has no version yet: `SqlError`.
    """
    if isinstance(at, datetime) and at > datetime.now(UTC) + _CLOCKS:
        raise SqlError(
            f"table {table.name!r} has no version of {at.isoformat()} yet, which is in the future; leave the time out for the newest one"
        )
    try:
        yield
    except (NotFound, OverflowError) as exc:
        # Lance counts versions in 64 bits, and says so of a number beyond.
        match at:
            case None:
                missing = "is not there"
            case datetime():
                missing = f"has no version as old as {at.isoformat()}"
            case str():
                missing = f"has no tag {at!r}, and no branch of that name"
            case int():
                missing = f"has no version {at}"
        raise NotFound(f"table {table.name!r} {missing}") from exc


_MOST_NESTED = 200
"""Most brackets within one another, each of which copies the text of those in it."""
_RELATIONS = frozenset(["FROM", "JOIN", "LATERAL"])
_VALUE_CALLS = frozenset(["EXTRACT", "SUBSTRING", "TRIM", "OVERLAY", "POSITION"])
"""Calls in which FROM stands before a value."""
_CLAUSES = frozenset(
    [
        *("SELECT", "FROM", "JOIN", "LATERAL", "ON", "USING", "WHERE", "GROUP", "ORDER", "HAVING", "QUALIFY", "WINDOW"),
        *("LIMIT", "OFFSET", "VALUES", "SET", "UNION", "EXCEPT", "INTERSECT"),
    ]
)
_NO_ALIASES = AFTER_FROM | JOINS | SET_OPERATORS | FIRST_WORDS | {"ON", "USING", "WHEN", "FETCH"}
"""Words that follow a table and are not its alias."""


def is_alias(token: Token) -> bool:
    """Return whether the token behind a table begins its alias."""
    return token.kind is Kind.NAME or (token.kind is Kind.WORD and token.word not in _NO_ALIASES)


def relation_places(places: TokenPlaces) -> frozenset[int]:
    """Return the places of the words and commas that relations follow.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> sorted(relation_places(TokenPlaces(tokenize("SELECT trim(BOTH FROM a), b FROM t, u JOIN v ON a IS DISTINCT FROM b"))))
    [9, 11, 13]
    """
    relations, clauses = [], [("", "")]
    for at, token in enumerate(places.tokens):
        if token.kind is Kind.SIGN:
            if token.text in "([{":
                if len(clauses) > _MOST_NESTED:
                    raise LimitExceeded(
                        f"the statement has more than {_MOST_NESTED} brackets within brackets; expected fewer"
                    )
                clauses.append(("", places.word_at(at - 1)))
            elif token.text in ")]}" and len(clauses) > 1:
                clauses.pop()
            elif token.text == "," and clauses[-1][0] in _RELATIONS:
                relations.append(at)
        elif token.word in _CLAUSES and not places.is_name(at):
            opened = clauses[-1][1]
            if token.word == "FROM" and (places.is_comparison(at) or opened in _VALUE_CALLS):
                continue
            clauses[-1] = token.word, opened
            if token.word in _RELATIONS:
                relations.append(at)
    return frozenset(relations)


SYSTEM = "system"
LONGEST = 4096
"""Longest text that is looked at."""
_AFTER = frozenset({"WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH"})
_OTHERS = frozenset({"WITH", "UNION", "INTERSECT", "EXCEPT", "JOIN", "VALUES", "EXPLAIN", "LATERAL", "UNNEST"})


def reads_activity(sql: str) -> bool:
    """Return whether a text is one SELECT over one table of the schema `system`, and over nothing else.

    >>> reads_activity("SELECT id FROM system.queries q WHERE seconds > 9 ORDER BY 1")
    True
    >>> reads_activity("SELECT 1"), reads_activity("SELECT * FROM system.queries, system.queries AS b")
    (False, False)
    """
    if len(sql) > LONGEST or SYSTEM not in sql.lower():
        return False
    tokens = tokenize(sql)
    while tokens and tokens[-1].is_sign(";"):
        tokens.pop()
    words = [token.word for token in tokens]
    if not words or words[0] != "SELECT" or words.count("SELECT") != 1 or words.count("FROM") != 1:
        return False
    if _OTHERS & set(words):
        return False
    after = _after_table(tokens[words.index("FROM") + 1 :])
    if after is None:
        return False
    if after and after[0].word == "AS":
        after = after[2:]
    elif after and after[0].word not in _AFTER:
        after = after[1:]
    return not after or after[0].word in _AFTER


def _after_table(tokens: Sequence[Token]) -> Sequence[Token] | None:
    """Return what follows `[lance.]system.table`; None where something else stands."""
    names = [fold_name(token) for token in tokens[:5:2]]
    dots = [token.is_sign(".") for token in tokens[1:4:2]]
    if names[:2] == [CATALOG, SYSTEM] and dots == [True, True]:
        return tokens[5:]
    return tokens[3:] if names[:1] == [SYSTEM] and dots[:1] == [True] else None
