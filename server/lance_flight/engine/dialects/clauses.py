"""Clauses that DataFusion parses and drops: simple ones are rewritten, others refused by name; TOP, FETCH FIRST, SELECT INTO and FOR VERSION.

sqlparser's generic dialect reads more clauses than DataFusion plans. A clause counts by its position alone: where a name may stand
(as a column, after AS or a dot, as an alias), its word is a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from types import MappingProxyType

from lance_flight.engine.dialects.pivots import Around, begins_pivot, pivot_clause, pivot_query, unpivot_clause
from lance_flight.engine.functions.routines import is_aggregate
from lance_flight.engine.sql.clause_words import (
    AFTER_CALL,
    AFTER_FROM,
    AFTER_TABLE,
    AFTER_UNION,
    AT,
    DIRECTIONS,
    FIRST_WORDS,
    FOLLOWED,
    IN_CALL,
    INSTEAD,
    JOINS,
    NAMED,
    NEVER_COLUMN_ALIASES,
    NO_FUNCTIONS,
    NO_SETS,
    PERCENT,
    QUERY_STARTS,
    SAMPLE,
    SET_OPERATORS,
    SUSPECTS,
    TABLE,
    TWO_WORDS,
    VERSION_OF,
    WILDCARD_OPTIONS,
    WINDOW_WORDS,
    WITHIN,
)
from lance_flight.engine.sql.references import Cursor, Point, is_alias, point
from lance_flight.engine.sql.select_lists import is_wildcard, items
from lance_flight.engine.sql.tokens import Edit, Kind, Token, TokenPlaces, edit_text, fold_name, place_in, tokenize
from lance_flight.errors import SqlError, Unsupported
from lance_flight.model.naming import check_label

_COUNTS = frozenset({Kind.NUMBER, Kind.PARAMETER})


@dataclass(frozen=True, slots=True)
class RowLimit:
    """A limit of rows: how many, as it is written, and the places of its first token and of the first one behind it."""

    count: str
    at: int
    end: int


def is_top(places: TokenPlaces, at: int) -> bool:
    """Return whether a word TOP begins a limit; else it is a name."""
    return places.kind(at + 1) in _COUNTS or places.text(at + 1) == "("


def read_top(places: TokenPlaces, at: int) -> RowLimit | None:
    """Return the limit of `TOP n` or `TOP (n)`; None for PERCENT, WITH TIES and computed numbers."""
    is_bracketed = places.text(at + 1) == "("
    number = at + 1 + is_bracketed
    end = number + 1 + is_bracketed
    if places.kind(number) not in _COUNTS or (is_bracketed and places.text(number + 1) != ")"):
        return None
    return None if places.word_at(end) in {"PERCENT", "WITH"} else RowLimit(places.text(number), at, end)


def read_fetch(places: TokenPlaces, at: int) -> RowLimit | None:
    """Return the limit of `FETCH FIRST [n] ROWS ONLY`; None for PERCENT and WITH TIES."""
    has_number = places.kind(at + 2) in _COUNTS
    rows = at + 2 + has_number
    if places.word_at(rows) not in {"ROW", "ROWS"} or places.word_at(rows + 1) != "ONLY":
        return None
    return RowLimit(places.text(at + 2) if has_number else "1", at, rows + 2)


class BracketContent(Enum):
    """Content of a bracket."""

    QUERY = "query"
    TABLES = "tables"
    """Joined tables, in a FROM."""
    CALL = "call"
    """The arguments of a function."""
    NAMES = "names"
    """The columns of an alias, or of a WITH query."""
    OTHER = "other"


@dataclass(slots=True)
class QueryLevel:
    """Open bracket, or the whole text; places are those of tokens.

    `clause` is the one that is being read, or the one that the bracket stands in. `function` is the one that is called.
    `top` is its TOP, `is_limited` tells that it has a LIMIT, an OFFSET or a FETCH, `has_set` a set operator.
    `join` are the words before the last JOIN. The SELECT list begins at `list_start`.
    `has_recursion` tells that the query begins with WITH RECURSIVE, `is_recursive` that it is named by one.
    """

    kind: BracketContent
    start: int
    clause: str = ""
    function: str = ""
    has_recursion: bool = False
    is_recursive: bool = False
    has_union: bool = False
    has_set: bool = False
    is_limited: bool = False
    top: RowLimit | None = None
    lone_from: int | None = None
    table: int = 0
    join: frozenset[str] = frozenset()
    group: int = 0
    list_start: int = 0


_VERSION, _TIME, _TAG = "VERSION", "TIMESTAMP", "TAG"
_FORMS: Mapping[tuple[str, ...], str] = MappingProxyType(
    {
        ("FOR", "VERSION", "AS", "OF"): _VERSION,
        ("FOR", "SYSTEM_VERSION", "AS", "OF"): _VERSION,
        ("VERSION", "AS", "OF"): _VERSION,
        ("FOR", "TIMESTAMP", "AS", "OF"): _TIME,
        ("FOR", "SYSTEM_TIME", "AS", "OF"): _TIME,
        ("TIMESTAMP", "AS", "OF"): _TIME,
        ("FOR", "TAG"): _TAG,
        **{("AT", "(", kind, "=", ">"): kind for kind in (_VERSION, _TIME, _TAG)},
    }
)
"""Words of each form, and what follows them."""
_EXPECTED = {
    _VERSION: "the number of a version, or the name of a tag or branch in quotes",
    _TIME: "a time in quotes, as in '2026-01-31 12:00:00'",
    _TAG: "the name of a tag",
}
_TIME_TYPES = ("TIMESTAMP", "TIMESTAMPTZ", "DATE")
_KEY = "$order"
"""Column by which a sample of rows is ordered; no column of a table has this name."""
_NAME = re.compile(r"(?P<table>[^$@]+)(?P<metadata>\$[a-z]+)?", re.DOTALL)


def read_version(cursor: Cursor) -> Point | None:
    """Read a version clause from a cursor; None where none begins."""
    words = next((words for words in _FORMS if cursor.accept(*words)), None)
    if words is None:
        return None
    moment = _point(cursor, _FORMS[words])
    if "(" in words:
        cursor.expect(")")
    return moment


def _point(cursor: Cursor, kind: str) -> Point:
    """Read what a version clause says after its words."""
    if not cursor.done and cursor.tokens[cursor.at].kind is Kind.PARAMETER:
        raise SqlError(
            "the version of a table is no parameter: it decides which columns the query has, before values are bound;"
            f" expected {_EXPECTED[kind]}"
        )
    match kind:
        case "VERSION":
            return _version(cursor)
        case "TIMESTAMP":
            return _time(cursor)
        case _:
            return check_label("tag", cursor.text_or_name(_EXPECTED[kind]))


def version_edits(cursor: Cursor, table: int, named_queries: Collection[str]) -> list[Edit] | None:
    """Rewrite `t FOR VERSION AS OF 12` as `"t@12" AS t`, from the token `table` on; the cursor, which is at the clause, moves past it.

    None where there is no table of the root: a function, a query in brackets, or one of the `named_queries` of WITH.
    """
    first, clause = cursor.tokens[table], cursor.at
    named = TABLE.fullmatch(cursor.text, first.start, cursor.tokens[clause - 1].stop)
    parts = [] if named is None else [token for token in cursor.tokens[table:clause] if token.stop <= named.end("name")]
    if named is None or (len(parts) == 1 and fold_name(parts[0]) in named_queries):
        return None
    if _NAME.fullmatch(fold_name(parts[-1])) is None:
        raise SqlError(f"{parts[-1].text!r} has a version already; expected one of the two")
    at = read_version(cursor)
    if at is None:
        return None
    versioned = _quote(versioned_name(fold_name(parts[-1]), at))
    has_alias = named["alias"] is not None or (not cursor.done and is_alias(cursor.tokens[cursor.at]))
    alias = "" if has_alias else f" AS {named['last']}"
    return [
        (parts[-1].start, parts[-1].stop, versioned),
        (cursor.tokens[clause].start, cursor.tokens[cursor.at - 1].stop, alias),
    ]


def _version(cursor: Cursor) -> Point:
    if cursor.done or cursor.tokens[cursor.at].kind is not Kind.STRING:
        return cursor.number(_EXPECTED[_VERSION])
    text = cursor.string(_EXPECTED[_VERSION])
    moment = point(text)
    return moment if isinstance(moment, int) else check_label("tag", text)


def _time(cursor: Cursor) -> datetime:
    for word in _TIME_TYPES:
        cursor.accept(word)
    text = cursor.string(_EXPECTED[_TIME])
    try:
        moment = datetime.fromisoformat(text.removesuffix(" UTC"))
    except ValueError as exc:
        raise SqlError(f"{text!r} is no time; expected {_EXPECTED[_TIME]}") from exc
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def versioned_name(name: str, at: Point) -> str:
    """Return the name of a table, or of a metadata table, at a version.

    >>> versioned_name("t$files", 12)
    't@12$files'
    """
    table, sign, metadata = name.partition("$")
    return f"{table}@{at.isoformat() if isinstance(at, datetime) else at}{sign}{metadata}"


def _quote(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def clause_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that make DataFusion plan every clause of a text; raise `Unsupported` for a clause that it would drop."""
    return _Reader(text, tokens).read() if SUSPECTS.search(text) else []


_PIVOTS = {"PIVOT": pivot_clause, "UNPIVOT": unpivot_clause}
_JOIN_WORDS = frozenset(["NATURAL", "RIGHT", "FULL", "LEFT", "INNER", "OUTER", "SEMI", "ANTI", "CROSS"])


class _Reader(TokenPlaces):
    """Reads a text from its first token to its last, tracking the open brackets."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self.sql = text
        self.edits: list[Edit] = []
        self.levels = [QueryLevel(BracketContent.QUERY, 0)]
        self.call: tuple[int, str] = (-1, "")
        """The place where the call ended that was read last, and its function."""
        self.wildcard = -1
        """The place where the options of a wildcard ended, as in `* EXCLUDE (a)`."""
        self.resume = 0
        self.skipped = range(0)
        self.named_queries: set[str] = set()
        """Names of the queries of WITH that were read."""

    def read(self) -> list[Edit]:
        """Return the edits of the whole text."""
        for at, token in enumerate(self.tokens):
            if at < self.resume or at in self.skipped:
                continue
            if token.kind is Kind.WORD:
                self._word(at, token.word)
            elif token.kind is not Kind.SIGN:
                continue
            elif token.text in "([{":
                self._open(at)
            elif token.text in ")]}":
                self._close(at)
            elif token.text == ",":
                self.levels[-1].table = at + 1
            elif token.text == "|" and self.is_pipe(at):
                self._pipe(at)
            elif token.text == "%" and self.levels[-1].clause == "LIMIT" and self.text(at + 1) in {"", ")", ";"}:
                raise self._unsupported(at, "LIMIT … PERCENT")
        self._end(self.levels[0])
        self._limit(self.levels[0], len(self.tokens))
        return self.edits

    # Brackets.

    def _open(self, at: int) -> None:
        outer = self.levels[-1]
        before, word = self.text(at - 1), self.word_at(at - 1)
        level = QueryLevel(BracketContent.OTHER, at + 1, outer.clause, table=at + 1)
        is_of_tables = outer.clause == "FROM" and outer.kind in {BracketContent.QUERY, BracketContent.TABLES}
        is_alias = outer.clause == "WITH" or (is_of_tables and self.is_alias(at - 1))
        is_name = (
            at > 0 and self.ends_operand(at - 1) and before not in ")]}" and (is_alias or word not in NO_FUNCTIONS)
        )
        if self.tokens[at].text != "(":
            pass
        elif before == ")" and self.call[0] == at - 1:
            raise self._unsupported(at, "a second list of arguments", "write one list")
        elif (self.first_word(at) in QUERY_STARTS or begins_pivot(self, at + 1)) and not (
            is_name and not is_alias and self.is_sign(at + 1, "(")
        ):
            is_of_table = outer.clause == "FROM" and not is_name and self.text(at + 1) == "("
            level.kind, level.clause = BracketContent.QUERY, "FROM" if is_of_table else ""
            level.is_recursive = outer.has_recursion and outer.clause == "WITH"
        elif word in {"FILTER", "GROUP"} and self.call[0] in {at - 2, at - 3}:
            level.function = self.call[1]
            if word == "FILTER" and self.word_at(at + 1) != "WHERE":
                self.edits.append((self.tokens[at].stop, self.tokens[at].stop, "WHERE "))
        elif is_of_tables and not is_name:
            level.kind = BracketContent.TABLES
        elif is_name:
            level.kind = BracketContent.NAMES if is_alias else BracketContent.CALL
            level.function = "" if is_alias else self.tokens[at - 1].text
            self._check_first_argument(level)
        elif word in {"OVER", "AS"} and (word == "OVER" or outer.clause == "WINDOW"):
            self._check_window(at + 1)
        self.levels.append(level)

    def _close(self, at: int) -> None:
        if len(self.levels) == 1:
            return  # DataFusion says what is wrong
        level = self.levels.pop()
        self._end(level)
        self._limit(level, at)
        if level.kind is BracketContent.NAMES:
            self._check_names(level.start, at)
        if self.word_at(level.start - 2) in WILDCARD_OPTIONS:
            self.wildcard = at
        if level.function:
            self.call = at, level.function
        outer = self.levels[-1]
        if outer.clause == "WITH" and level.kind is BracketContent.QUERY:
            self.named_queries.add(self.query_name(level.start - 1))
            if self.word_at(at + 1) == "FROM":
                self._name_query(level)

    def _end(self, level: QueryLevel) -> None:
        """Finish a query, or one part of it: `FROM t` alone selects all columns."""
        if level.lone_from is not None:
            start = self.tokens[level.lone_from].start
            self.edits.append((start, start, "SELECT * "))
            level.lone_from = None

    def _name_query(self, level: QueryLevel) -> None:
        """Insert the AS that a query of WITH lacks: without it, a FROM that follows would be taken for its own, and be dropped."""
        opening = level.start - 1
        if self.word_at(opening - 1) != "AS":
            start = self.tokens[opening].start
            self.edits.append((start, start, " AS "))

    def _pipe(self, at: int) -> None:
        level = self.levels[-1]
        if level.kind is BracketContent.QUERY:
            self._end(level)
            self._check_recursion(level, at, "|>")
            word = self.word_at(at + 2)
            level.clause = "FROM" if word in JOINS else "SELECT" if word == "EXTEND" else word
            if word == "TABLESAMPLE":
                raise self._unsupported(at + 2, word)

    # Words.

    def _word(self, at: int, word: str) -> None:
        if self.is_name(at):
            return
        level = self.levels[-1]
        if self.call[0] == at - 1 and self._after_call(level, at, word):
            return
        match level.kind:
            case BracketContent.QUERY:
                self._query_word(level, at, word)
            case BracketContent.TABLES if self.ends_operand(at - 1):
                self._clause(level, at, word)
            case BracketContent.CALL:
                self._argument_word(level, at, word)
            case _:
                pass
        if word == "JOIN":
            level.table = at + 1
            level.join = self._join_words(at)
            self._check_shared_columns(level, at, is_natural="NATURAL" in level.join)
        elif word == "USING" and self.is_sign(at + 1, "("):
            self._check_shared_columns(level, at, is_natural=True)

    def _join_words(self, at: int) -> frozenset[str]:
        """Return the words of a join before JOIN, like NATURAL, FULL and OUTER."""
        first = at
        while self.word_at(first - 1) in _JOIN_WORDS:
            first -= 1
        return frozenset(self.word_at(place) for place in range(first, at))

    def _check_shared_columns(self, level: QueryLevel, at: int, *, is_natural: bool) -> None:
        """Refuse columns that both sides of a RIGHT or FULL join share: DataFusion gives the left side's, which may be NULL.

        https://github.com/apache/datafusion/issues/22881
        """
        outer = next((word for word in ("RIGHT", "FULL") if word in level.join), None)
        if is_natural and outer is not None and not level.join & {"SEMI", "ANTI"}:
            raise self._unsupported(at, f"{outer} JOIN … USING")

    def _query_word(self, level: QueryLevel, at: int, word: str) -> None:
        if (at == level.start or level.clause in {"", "WITH"}) and begins_pivot(self, at):
            self._rewrite_pivot_query(level, at)
        elif word == "SELECT":
            level.clause, level.lone_from = word, None
            level.list_start = at + 1
        elif word == "FROM" and not self.is_comparison(at):
            level.lone_from = at if level.clause in {"", "WITH"} else None
            level.clause, level.table = word, at + 1
        elif word == "VALUES" and level.clause in {"", "WITH"}:
            level.clause = word
        elif word == "TOP" and self.word_at(at - 1) in {"SELECT", "DISTINCT", "ALL"}:
            self._read_top(level, at)
        elif at == level.start or not self.ends_operand(at - 1):
            if at == level.start and word == "WITH":
                level.clause, level.has_recursion = word, self.word_at(at + 1) == "RECURSIVE"
        elif not self._clause(level, at, word):
            self._next_part(level, at, word)

    def _next_part(self, level: QueryLevel, at: int, word: str) -> None:
        if word in SET_OPERATORS and not self.is_sign(at - 1, "*"):
            if word != "UNION" and self.word_at(at + 1) == "ALL":
                raise self._unsupported(at, f"{word} ALL")  # DataFusion keeps or removes all of equal rows
            self._end(level)
            level.has_union |= word == "UNION"
            level.has_set = True
            level.clause = ""
            if self.word_at(level.start) == "WITH":
                self._check_recursion(level, at, "WITH")
        elif word in AFTER_FROM and not (
            word == "GROUP" and (level.clause == "AGGREGATE" or self.word_at(at - 1) == "WITHIN")
        ):
            self._check_recursion(level, at, word)
            level.is_limited |= word in {"LIMIT", "OFFSET"}
            level.clause, level.group = word, at + 2
            if word == "ORDER" and self.word_at(at + 2) == "ALL" and self.text(at + 3) not in {".", "("}:
                self._order_by_all(level, at + 2)

    def _clause(self, level: QueryLevel, at: int, word: str) -> bool:
        """Rewrite or refuse the clause that begins after an operand; return whether there is one."""
        clause = self._clause_at(level, at, word)
        if clause is None:
            return False
        edits: list[Edit] | None = None
        if clause in {"WITH ROLLUP", "WITH CUBE"}:
            edits = self._rewrite_grouping(level, at)
        elif clause in {"TABLESAMPLE", "USING SAMPLE"}:
            edits = self._rewrite_sample(level, at)
        elif clause == "FETCH":
            edits = self._rewrite_fetch(level, at)
        elif clause in {VERSION_OF, AT}:
            edits = self._rewrite_version(level, at)
        elif clause in {"SEMI JOIN", "ANTI JOIN"}:
            has_side = self.word_at(at - 1) in {"LEFT", "RIGHT"}
            edits = [] if has_side else [(self.tokens[at].start, self.tokens[at].start, "LEFT ")]
        elif clause in _PIVOTS:
            edits = self._rewrite_pivot(level, at, _PIVOTS[clause])
        if edits is None:
            raise self._unsupported(at, clause)
        self.edits += edits
        return True

    def _clause_at(self, level: QueryLevel, at: int, word: str) -> str | None:
        if word == "ILIKE" and level.clause == "SELECT" and self.is_sign(at - 1, "*"):
            return "ILIKE after *"
        if word not in FIRST_WORDS or (level.clause == "SELECT" and not self._ends_item(at - 1, word)):
            return None
        follower = "" if self.kind(at + 1) is Kind.NAME else self.text(at + 1).upper()
        for clauses in (FOLLOWED, AFTER_TABLE) if level.clause == "FROM" else (FOLLOWED,):
            for followers, clause in clauses.get(word, ()):
                if follower in followers:
                    return clause
        is_one = {
            "FORMAT": self.kind(at + 1) in {Kind.WORD, Kind.NAME},
            "SETTINGS": self.text(at + 2) == "=",
        }.get(word, level.clause in WITHIN.get(word, ()))
        return NAMED.get(word, word) if word == "PREWHERE" or is_one else None

    def _ends_item(self, at: int, following: str) -> bool:
        """Return whether an item of a SELECT list ends here, so that the following word is no alias."""
        return following in NEVER_COLUMN_ALIASES or self.is_sign(at, "*") or at == self.wildcard or self.is_alias(at)

    # Rewrites.

    def _rewrite_grouping(self, level: QueryLevel, at: int) -> list[Edit] | None:
        """Rewrite `GROUP BY a, b WITH ROLLUP` as `GROUP BY ROLLUP (a, b)`."""
        items = _items(self.tokens, level.group, at)
        is_simple = all(
            item
            and item[0].word not in NO_SETS
            and not item[0].is_sign("(")
            and (len(item) > 1 or item[0].kind is not Kind.NUMBER)
            for item in items
        )
        if level.clause != "GROUP" or not is_simple or self.word_at(at + 2) == "WITH":
            return None
        start, modifier = self.tokens[level.group].start, self.tokens[at + 1]
        self.resume = at + 2
        return [(start, start, f"{modifier.word} ("), (self.tokens[at].start, modifier.stop, ")")]

    def _read_top(self, level: QueryLevel, at: int) -> None:
        """Take TOP n out of a query, which ends with LIMIT n instead."""
        if is_top(self, at):
            level.top = read_top(self, at)
            if level.top is None or level.has_set:
                raise self._unsupported(at, "TOP")
            self.resume = level.top.end
            self.edits.append((self.tokens[at].start, self.tokens[self.resume].start, ""))

    def _limit(self, level: QueryLevel, end: int) -> None:
        """End a query with the LIMIT that its TOP stands for."""
        if level.top is not None:
            if level.has_set or level.is_limited:
                raise self._unsupported(level.top.at, "TOP")
            last = next(at for at in range(end - 1, -1, -1) if not self.is_sign(at, ";"))
            self.edits.append((self.tokens[last].stop, self.tokens[last].stop, f" LIMIT {level.top.count}"))

    def _rewrite_fetch(self, level: QueryLevel, at: int) -> list[Edit] | None:
        """Rewrite `FETCH FIRST n ROWS ONLY` as `LIMIT n`."""
        limit = None if level.clause == "LIMIT" else read_fetch(self, at)
        if limit is None:
            return None
        self.resume, level.is_limited = limit.end, True
        return [(self.tokens[at].start, self.tokens[limit.end - 1].stop, f"LIMIT {limit.count}")]

    def _rewrite_sample(self, level: QueryLevel, at: int) -> list[Edit] | None:
        """Rewrite `t AS x TABLESAMPLE BERNOULLI (10)` as a query over `t` that keeps each row with that probability, or so many rows."""
        named = TABLE.fullmatch(self.sql, self.tokens[level.table].start, self.tokens[at - 1].stop)
        sample = SAMPLE.match(self.sql, self.tokens[at].start)
        is_whole = self.word_at(level.table - 1) == "FROM" or self.word_at(at) != "USING"
        if named is None or sample is None or not is_whole or level.clause != "FROM":
            return None
        count, unit = Decimal(sample["count"]), (sample["unit"] or "").upper()
        method = (sample["method"] or sample["after"] or "").upper()
        is_of_rows = unit == "ROWS" or (
            not unit and (method == "RESERVOIR" or sample["word"].upper().startswith("USING"))
        )
        if not (unit or method or is_of_rows or self.tokens[at].word == "SAMPLE"):
            return None
        after = next((place for place in range(at, len(self.tokens)) if self.tokens[place].start >= sample.end()), -1)
        is_odd = after > 0 and (self.tokens[after].word in {"REPEATABLE", "SEED", "OFFSET"} or self.is_sign(after, "("))
        if is_odd or (count % 1 if is_of_rows else count > PERCENT):
            return None
        self.resume = len(self.tokens) if after < 0 else after
        # DataFusion 55 has no plan that sorts rows without columns, as those of count(*).
        rows = (
            f'(SELECT * EXCLUDE ("{_KEY}") FROM (SELECT *, random() AS "{_KEY}" FROM ',  # noqa: S608 - the client's own text
            f' ORDER BY "{_KEY}" LIMIT {count})',
        )
        begin, chosen = rows if is_of_rows else ("(SELECT * FROM ", f" WHERE random() < {count / PERCENT}")
        filtered = f"{chosen}) AS {named['alias'] or named['last']}"
        return [(named.start(), named.start(), begin), (named.end("name"), sample.end(), filtered)]

    def _rewrite_version(self, level: QueryLevel, at: int) -> list[Edit] | None:
        """Rewrite `t FOR VERSION AS OF 12` as `"t@12" AS t`."""
        if self.word_at(at) == "FOR" and self.word_at(at + 1) != "TAG" and self.word_at(at + 2) != "AS":
            raise self._unsupported(at, "a range of versions")
        cursor = Cursor(self.sql, self.tokens, at)
        edits = version_edits(cursor, level.table, self.named_queries)
        self.resume = cursor.at
        return edits

    def _rewrite_pivot_query(self, level: QueryLevel, at: int) -> None:
        """Rewrite `PIVOT t ON …` as a query over `t`, whose own clauses are read as those of any source."""
        cursor = Cursor(self.sql, self.tokens, at)
        first, stop, around = pivot_query(cursor, self)
        begin, end = self.tokens[first].start, self.tokens[cursor.at - 1].stop
        self.edits += [
            (self.tokens[at].start, begin, around.begin),
            (self.tokens[stop].start, end, around.end),
        ]
        level.clause, level.table = "FROM", first
        self.skipped = range(stop, cursor.at)

    def _order_by_all(self, level: QueryLevel, at: int) -> None:
        """Rewrite `ORDER BY ALL DESC` as `ORDER BY 1 DESC, 2 DESC, …`."""
        listed = list(items(self.tokens, level.list_start))
        if level.lone_from is not None or any(not item or is_wildcard(item) for item in listed):
            raise self._unsupported(at, "ORDER BY ALL after *")
        end = at + 1
        while self.word_at(end) in DIRECTIONS:
            end += 1
        direction = self.sql[self.tokens[at].stop : self.tokens[end - 1].stop]
        keys = ", ".join(f"{place}{direction}" for place in range(1, len(listed) + 1))
        self.edits.append((self.tokens[at].start, self.tokens[end - 1].stop, keys))
        self.resume = end

    def _rewrite_pivot(self, level: QueryLevel, at: int, read: Callable[[Cursor], Around]) -> list[Edit] | None:
        """Rewrite `t PIVOT (…)` as a query over `t` with an aggregate for each value."""
        if level.table >= at:
            return None
        cursor = Cursor(self.sql, self.tokens, at + 1)
        around = read(cursor)
        self.resume = cursor.at
        begin, end = self.tokens[level.table].start, self.tokens[cursor.at - 1].stop
        return [(begin, begin, around.begin), (self.tokens[at].start, end, around.end)]

    # Calls.

    def _after_call(self, level: QueryLevel, at: int, word: str) -> bool:
        """Read the clauses after a call; refuse them for a scalar function, for which DataFusion ignores them silently."""
        follower = self.text(at + 1).upper()
        is_name = word == "OVER" and follower != "(" and self.kind(at + 1) in {Kind.WORD, Kind.NAME}
        if is_name and level.clause in {"FROM", ""}:
            return False
        if not is_name and follower not in AFTER_CALL.get(word, ()):
            return False
        self._check_aggregate(at, word)
        if is_name and level.clause != "SELECT":
            raise self._unsupported(at, "the name of a window, beyond the SELECT list")
        if follower == "NULLS":
            self.call = at + 1, self.call[1]
        return True

    def _argument_word(self, level: QueryLevel, at: int, word: str) -> None:
        if word == "SETTINGS" and level.clause == "FROM" and self.text(at + 2) == "=":
            raise self._unsupported(at, word)
        if self.ends_operand(at - 1) and self.text(at + 1).upper() in IN_CALL.get(word, ()):
            self._check_aggregate(at, word, level.function)

    def _check_aggregate(self, at: int, word: str, function: str = "") -> None:
        function = function or self.call[1]
        if not is_aggregate(function):
            words = f"{word} {self.word_at(at + 1)}" if word in TWO_WORDS else word
            raise self._unsupported(at, f"{words} in a call of {function}", "leave it out: the function takes one row")

    # Checks.

    def _check_first_argument(self, level: QueryLevel) -> None:
        if level.kind is BracketContent.CALL and self.word_at(level.start) == "DISTINCT":
            self._check_aggregate(level.start, "DISTINCT", level.function)

    def _check_window(self, at: int) -> None:
        word = self.word_at(at)
        if self.kind(at) is Kind.NAME or (word and word not in WINDOW_WORDS):
            raise self._unsupported(at, "the name of a window in OVER (…)")

    def _check_names(self, start: int, stop: int) -> None:
        if any(len(item) > 1 for item in _items(self.tokens, start, stop)):
            raise self._unsupported(start, "a type in a list of column aliases")

    def _check_recursion(self, level: QueryLevel, at: int, clause: str) -> None:
        if level.is_recursive and level.has_union and clause in AFTER_UNION:
            raise self._unsupported(at, "a clause after the UNION of WITH RECURSIVE")

    def _unsupported(self, at: int, clause: str, instead: str = "") -> Unsupported:
        words = f"FOR {self.word_at(at + 1)}" if clause == "FOR" else clause
        place = place_in(self.sql, self.tokens[at].start)
        return Unsupported(f"{words} is not offered: {instead or INSTEAD[clause]}{place}")


def _items(tokens: Sequence[Token], start: int, stop: int) -> list[list[Token]]:
    """Split tokens at the commas outside of any bracket."""
    items: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[start:stop]:
        if token.kind is Kind.SIGN:
            depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0 and token.is_sign(","):
            items.append([])
        else:
            items[-1].append(token)
    return items


TEMPORARY_SIGN = "#"
"""First sign of the names of temporary tables, as Transact-SQL has it."""
_NAMES = frozenset({Kind.WORD, Kind.NAME})


def without_into(sql: str) -> str:
    """Return a SELECT with INTO as the CREATE TABLE that it is; any other statement as it is.

    >>> without_into('SELECT a INTO "#x" FROM t')
    'CREATE TEMPORARY TABLE "#x" AS SELECT a FROM t'
    """
    if sql[:6].upper() != "SELECT" and sql.lstrip()[:6].upper() != "SELECT":
        return sql
    tokens = tokenize(sql)
    into = _place(tokens)
    if into is None:
        return sql
    name = into + 1
    is_temporary = tokens[name].word in {"TEMP", "TEMPORARY"} and tokens[name + 1].kind in _NAMES
    name += is_temporary
    end = name + 1
    while end + 1 < len(tokens) and tokens[end].is_sign(".") and tokens[end + 1].kind in _NAMES:
        end += 2
    is_temporary |= tokens[end - 1].text.startswith(TEMPORARY_SIGN)
    table = sql[tokens[name].start : tokens[end - 1].stop]
    query = sql[: tokens[into].start].strip() + " " + sql[tokens[end - 1].stop :].strip()
    return f"CREATE {'TEMPORARY ' * is_temporary}TABLE {table} AS {query.strip()}"


def without_table_queries(sql: str) -> str:
    """Return a statement with `SELECT * FROM t` in place of each query `TABLE t`.

    >>> without_table_queries("(TABLE a ORDER BY x) UNION ALL TABLE s.b"), without_table_queries("DROP TABLE a")
    ('(SELECT * FROM a ORDER BY x) UNION ALL SELECT * FROM s.b', 'DROP TABLE a')
    """
    if _TABLE_QUERY.search(sql) is None:
        return sql
    places = TokenPlaces(tokenize(sql))
    return edit_text(
        sql,
        [
            (token.start, token.stop, "SELECT * FROM")
            for at, token in enumerate(places.tokens)
            if token.word == "TABLE" and _is_table_query(places, at)
        ],
    )


def _is_table_query(places: TokenPlaces, at: int) -> bool:
    """Return whether a word TABLE begins a query: where a query begins, and before the name of a table that ends it."""
    table, end = at - 1, at + 1
    while places.is_sign(table - 1, "."):
        table -= 2
    begins = at == 0 or places.word_at(at - 1) in _BEFORE_TABLE or places.text(at - 1) in {"(", ")"}
    if not (begins or (table > 1 and places.word_at(table - 1) == "INTO")) or places.kind(end) not in _NAMES:
        return False
    while places.is_sign(end + 1, ".") and places.kind(end + 2) in _NAMES:
        end += 2
    return places.text(end + 1) in {"", ")", ";", ","} or places.word_at(end + 1) in _AFTER_TABLE


_TABLE_QUERY = re.compile(
    r"(?:^|[()]|\b(?:AS|UNION|ALL|EXCEPT|INTERSECT|DISTINCT|NAME|INTO\s+\S+))\s*TABLE\b", re.IGNORECASE
)
_BEFORE_TABLE = frozenset(["AS", "UNION", "ALL", "EXCEPT", "INTERSECT", "DISTINCT", "NAME"])
_AFTER_TABLE = frozenset(["UNION", "EXCEPT", "INTERSECT", "MINUS", "ORDER", "LIMIT", "OFFSET", "FETCH", "RETURNING"])


def _place(tokens: Sequence[Token]) -> int | None:
    """Return the place of the INTO between the list of a SELECT and its FROM."""
    depth = 0
    for at, token in enumerate(tokens[:-1]):
        if token.kind is Kind.SIGN:
            depth += (token.text in "([{") - (token.text in ")]}")
        before, after = tokens[at - 1], tokens[at + 1]
        if depth == 0 and token.word in {"FROM", "UNION", "WHERE"} and before.word != "DISTINCT":
            return None
        is_clause = at > 1 and not before.is_sign(",") and not before.is_sign(".") and before.word != "AS"
        if depth == 0 and token.word == "INTO" and is_clause and after.kind in _NAMES:
            return at if after.word != "FROM" else None
    return None
