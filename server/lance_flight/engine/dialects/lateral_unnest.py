"""`FROM t, unnest(t.list) AS x(n)` as a query of `t` that unnests the list beside its columns: DataFusion 55 has no plan of it.

The rows are those of `t` once for each element: `FROM (SELECT t.*, unnest(t.list) AS "n" FROM t) AS t`. Names of `x` become names of
that query. Unnecessary with a release that solves https://github.com/apache/datafusion/issues/10048.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lance_flight.engine.sql.comparisons import OperandsOfText
from lance_flight.engine.sql.references import quote_parts
from lance_flight.engine.sql.tokens import Edit, Kind, Token, fold_name
from lance_flight.errors import LimitExceeded, SqlError, Unsupported

_QUERIES = frozenset(["SELECT", "WITH", "VALUES", "TABLE", "FROM"])
_ENDS = frozenset(
    [
        *("WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT"),
        *("INTERSECT", "SELECT"),
    ]
)
_NO_ALIAS = frozenset(
    ["ON", "USING", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "WITH", "AS", *_ENDS]
)
_MOST = 16
"""Most lists that one FROM unnests: each is a query around the one before it."""
_NESTED = "write it over a query of that table: FROM (SELECT *, unnest(list) AS n FROM t) AS t"


@dataclass(slots=True)
class _Table:
    """An item of FROM: its tokens with its alias, the name by which columns of it are called, and what is unnested of it."""

    start: int
    stop: int
    name: str | None
    join: frozenset[str]
    is_unnest: bool = False
    unnested: list[_Unnest] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Unnest:
    """A call of unnest in FROM: the tokens of its arguments, its alias, its columns, and whether rows without elements stay."""

    first: int
    last: int
    alias: str
    column: str
    is_outer: bool


def unnest_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that unnest lists of a table within a query of that table.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT t.id, x.n FROM t, unnest(t.list) AS x(n) WHERE n > 1"
    >>> edit_text(text, unnest_edits(text, tokenize(text)))
    'SELECT t.id, "t"."n" FROM (SELECT "t".*, unnest(t.list) AS "n" FROM t) AS "t" WHERE n > 1'
    """
    if not any(token.word == "UNNEST" for token in tokens):
        return []
    return _Reader(text, tokens).read()


class _Reader(OperandsOfText):
    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        super().__init__(sql, tokens)
        self.edits: list[Edit] = []

    def read(self) -> list[Edit]:
        """Return the edits of the whole text."""
        starts = [0]
        for at, token in enumerate(self.tokens):
            clause = starts[-1]
            if token.is_sign("("):
                starts.append(at + 1)
            elif token.is_sign(")") and len(starts) > 1:
                starts.pop()
            elif token.word == "SELECT" and not self.is_name(at):
                starts[-1] = at
            elif token.word == "FROM" and self.word_at(clause) == "SELECT" and not self.is_comparison(at):
                self._read_from(clause, at + 1)
        return self.edits

    def _read_from(self, select: int, at: int) -> None:
        """Read the FROM of one query, and rewrite what it unnests."""
        if not self._unnests(at):
            return
        tables, join = list[_Table](), frozenset[str]()
        while at < len(self.tokens):
            words = set[str]()
            while self.word_at(at) in {"CROSS", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "JOIN", "NATURAL"}:
                words.add(self.word_at(at))
                at += 1
            join = frozenset(words)
            at = self._read_item(tables, at, join)
            while at < len(self.tokens) and not self._ends_item(at):
                at = max(at, self.partners.get(at, at)) + 1
            if at >= len(self.tokens) or self.text(at) in {")", ";"} or self._is_end(at):
                break
            at += self.is_sign(at, ",")
        self._rewrite(select, at, tables)

    def _unnests(self, at: int) -> bool:
        """Return whether a FROM has a call of unnest after its first item."""
        place = at
        while place < len(self.tokens) and not self.is_sign(place, ")") and not self._is_end(place):
            if place > at and self.word_at(place) == "UNNEST" and self.is_sign(place + 1, "("):
                return True
            place = max(place, self.partners.get(place, place)) + 1
        return False

    def _ends_item(self, at: int) -> bool:
        is_join = self.word_at(at) in {"CROSS", "INNER", "LEFT", "RIGHT", "FULL", "JOIN", "NATURAL"}
        return self.text(at) in {",", ")", ";"} or (is_join and not self.is_name(at)) or self._is_end(at)

    def _is_end(self, at: int) -> bool:
        """Return whether a word ends FROM."""
        word = self.word_at(at)
        is_word = word in _ENDS or (word == "FROM" and not self.is_comparison(at))
        return is_word and not self.is_name(at)

    def _read_item(self, tables: list[_Table], at: int, join: frozenset[str]) -> int:
        """Read one item of FROM with its alias and its condition; return the token after it."""
        start = at
        if self.word_at(at) == "LATERAL" and self.word_at(at + 1) == "UNNEST":
            at += 1
        is_unnest = self.word_at(at) == "UNNEST" and self.is_sign(at + 1, "(")
        opening = at + 1 if is_unnest else at
        name, columns, stop = self._name_of_item(self._source_end(opening))
        if not (is_unnest and tables and any(map(self._is_column, range(opening + 1, self.partners.get(opening, 0))))):
            tables.append(_Table(start, stop, name, join, is_unnest))
            return stop
        is_outer, at = bool(join & {"LEFT", "RIGHT", "FULL"}), self._after_condition(stop, join)
        closing = self.partners[opening]
        if any(self.is_sign(place, ",") for place in self._outermost(opening + 1, closing)) or len(columns) > 1:
            raise Unsupported(f"unnest of several columns in FROM is not offered; {_NESTED}")
        column = columns[0] if columns else name if name is not None else "unnest"
        unnest = _Unnest(opening + 1, closing, name or "unnest", column, is_outer)
        self._owner(tables, unnest).unnested.append(unnest)
        if sum(len(table.unnested) for table in tables) > _MOST:
            raise LimitExceeded(
                f"a query unnests more than {_MOST} lists in FROM; expected fewer, in queries of their own"
            )
        self.edits.append((self._before(start, join), self.tokens[at - 1].stop, ""))
        return at

    def _source_end(self, at: int) -> int:
        """Return the token after the name of a table, a call or a query in brackets."""
        if self.is_sign(at, "("):
            return self.partners.get(at, at) + 1
        at += 1
        while self.is_sign(at, ".") or self.is_sign(at - 1, ".") or self.is_sign(at, "(") or self.is_sign(at, "@"):
            at = max(at, self.partners.get(at, at)) + 1
        return at

    def _name_of_item(self, at: int) -> tuple[str | None, list[str], int]:
        """Return the name of the item of FROM that ends before a token, those of its columns, and the token after its alias."""
        name = None if self.is_sign(at - 1, ")") else fold_name(self.tokens[at - 1])
        has_as = self.word_at(at) == "AS"
        if has_as or (self.kind(at) in {Kind.WORD, Kind.NAME} and self.word_at(at) not in _NO_ALIAS):
            at += has_as
            name, at = fold_name(self.tokens[min(at, len(self.tokens) - 1)]), at + 1
        if name is None or not self.is_sign(at, "("):
            return name, [], at
        closing = self.partners.get(at, at)
        return (
            name,
            [fold_name(token) for token in self.tokens[at + 1 : closing] if not token.is_sign(",")],
            closing + 1,
        )

    def _after_condition(self, at: int, join: frozenset[str]) -> int:
        """Return the token after the condition of a join with unnest, which is true."""
        is_true = self.word_at(at) == "ON" and self.word_at(at + 1) == "TRUE"
        is_true = is_true and (at + 2 >= len(self.tokens) or self._ends_item(at + 2))
        if join & {"LEFT", "RIGHT", "FULL"} and not (is_true and "LEFT" in join):
            raise Unsupported(
                f"unnest of a column in an outer join is not offered but for LEFT JOIN … ON true; {_NESTED}"
            )
        if self.word_at(at) == "ON" and not is_true:
            raise Unsupported(
                "unnest of a column in a join with a condition is not offered; write the condition in WHERE"
            )
        return at + 2 if is_true else at

    def _before(self, start: int, join: frozenset[str]) -> int:
        """Return where the text of an item begins, with the comma or the words of the join before it."""
        at = start - 1
        while join and self.word_at(at) in join:
            at -= 1
        return self.tokens[at].start if not join else self.tokens[at].stop

    def _outermost(self, start: int, stop: int) -> list[int]:
        places, at = list[int](), start
        while at < stop:
            places.append(at)
            at = max(at, self.partners.get(at, at)) + 1
        return places

    def _is_column(self, at: int) -> bool:
        kind = self.kind(at)
        if kind is Kind.NAME:
            return not self.is_sign(at + 1, "(")
        word = self.word_at(at)
        return (
            bool(word)
            and not self.is_sign(at + 1, "(")
            and word not in {"ARRAY", "NULL", "TRUE", "FALSE", "CAST", "AS", "CASE"}
        )

    def _owner(self, tables: Sequence[_Table], unnest: _Unnest) -> _Table:
        """Return the one table whose columns the argument of unnest names."""
        named = {
            fold_name(self.tokens[at])
            for at in range(unnest.first, unnest.last)
            if self.is_sign(at + 1, ".") and not self.is_sign(at - 1, ".") and self.kind(at) in {Kind.WORD, Kind.NAME}
        }
        owners = [table for table in tables if table.name in named]
        by_alias = [table for table in tables for list_ in table.unnested if list_.alias in named]
        owners += [table for table in by_alias if table not in owners]
        if not owners and len(tables) == 1:
            owners = list(tables)
        if len(owners) != 1 or owners[0].name is None or owners[0].is_unnest:
            raise Unsupported(f"unnest in FROM takes a list of one table, named before it as t.list; {_NESTED}")
        is_first = owners[0] is tables[0]
        if any(table.join & {"RIGHT", "FULL"} for table in tables) or (owners[0].join & {"LEFT"} and not is_first):
            raise Unsupported(f"unnest of a table of an outer join is not offered; {_NESTED}")
        return owners[0]

    def _rewrite(self, select: int, end: int, tables: Sequence[_Table]) -> None:
        unnests = {unnest.alias: (table, unnest) for table in tables for unnest in table.unnested}
        if not unnests:
            return
        moved = set[int]()
        for table in tables:
            if table.unnested:
                moved.update(
                    range(table.start, table.stop), *(range(unnest.first, unnest.last) for unnest in table.unnested)
                )
                self._wrap(table)
        last = self._last(end)
        is_in_order = all(not table.unnested for table in tables[:-1])
        self._check_names(select, last, unnests)
        wrapped = {table.name: table for table in tables if table.unnested}
        for at in range(select, last):
            if at in moved:
                continue
            if self._is_bare_star(at) and not is_in_order:
                raise Unsupported(
                    "* beside unnest of one of several tables is not offered; name the columns, or write t.*"
                )
            if self.kind(at) in {Kind.WORD, Kind.NAME} and self.is_sign(at + 1, ".") and not self.is_sign(at - 1, "."):
                self._rename(at, unnests, wrapped)

    def _rename(
        self, at: int, unnests: Mapping[str, tuple[_Table, _Unnest]], wrapped: Mapping[str | None, _Table]
    ) -> None:
        """Rewrite a name like `x.n` of an unnested column, or `t.*` of the table that it is unnested beside."""
        name = fold_name(self.tokens[at])
        if name in unnests:
            table, unnest = unnests[name]
            if not self.is_sign(at + 2, "*") and fold_name(self.tokens[at + 2]) not in {unnest.column, "unnest"}:
                raise SqlError(f"No field named {name}.{self.text(at + 2)}; the column of {name} is {unnest.column}")
            column = f"{quote_parts(table.name or '')}.{quote_parts(unnest.column)}"
            self.edits.append((self.tokens[at].start, self.tokens[at + 2].stop, column))
        elif name in wrapped and self.is_sign(at + 2, "*"):
            without = ", ".join(quote_parts(list_.column) for list_ in wrapped[name].unnested)
            stop = self.tokens[at + 2].stop
            self.edits.append((stop, stop, f" EXCLUDE ({without})"))

    def _check_names(self, select: int, last: int, unnests: Mapping[str, tuple[_Table, _Unnest]]) -> None:
        """Refuse a query within this one that gives the alias of an unnested list to something else."""
        at = select
        while at < last:
            closing = self.partners.get(at, at)
            if self.is_sign(at, "(") and self.first_word(at) in _QUERIES and not self._is_moved(at, unnests):
                for place in range(at, closing):
                    is_bare = not self.is_sign(place + 1, ".") and not self.is_sign(place - 1, ".")
                    if (
                        is_bare
                        and self.kind(place) in {Kind.WORD, Kind.NAME}
                        and fold_name(self.tokens[place]) in unnests
                    ):
                        raise Unsupported(
                            f"{self.text(place)!r} is the alias of unnest, and stands in a subquery; write another alias"
                        )
                at = closing
            at += 1

    def _is_moved(self, at: int, unnests: Mapping[str, tuple[_Table, _Unnest]]) -> bool:
        return any(table.start <= at < table.stop for table, _ in unnests.values())

    def _wrap(self, table: _Table) -> None:
        """Write the query that unnests beside the columns of a table: one list within the other, since those of one list are paired."""
        opens = closes = ""
        name = quote_parts(table.name or "")
        for place, unnest in enumerate(table.unnested):
            argument = self.sql[self.tokens[unnest.first].start : self.tokens[unnest.last - 1].stop]
            for other in table.unnested[:place]:
                if other.alias in {fold_name(self.tokens[at]) for at in range(unnest.first, unnest.last)}:
                    argument = quote_parts(other.column)
            if unnest.is_outer:
                argument = f"CASE WHEN cardinality({argument}) > 0 THEN {argument} ELSE [NULL] END"
            opens = f"(SELECT {name}.*, unnest({argument}) AS {quote_parts(unnest.column)} FROM {opens}"  # noqa: S608 - planned, not run
            closes += f") AS {name}"
        start, stop = self.tokens[table.start].start, self.tokens[table.stop - 1].stop
        self.edits += [(start, start, opens), (stop, stop, closes)]

    def _last(self, end: int) -> int:
        """Return the token after the clauses of a query whose FROM ends at a token."""
        at = end
        while at < len(self.tokens) and not self.is_sign(at, ")") and not self.is_sign(at, ";"):
            if self.word_at(at) in {"UNION", "EXCEPT", "INTERSECT"} and not self.is_name(at):
                break
            at = max(at, self.partners.get(at, at)) + 1
        return at

    def _is_bare_star(self, at: int) -> bool:
        return self.is_sign(at, "*") and self.text(at - 1).upper() in {"SELECT", ",", "DISTINCT", "ALL"}
