"""Subqueries where DataFusion 55 has no plan for them, and recursive queries that are refused.

**As a column that a condition chooses**: EXISTS and IN, which DataFusion plans in conditions alone.
`SELECT a IN (SELECT …) FROM t` is `SELECT m FROM t CROSS JOIN (VALUES (TRUE), (FALSE), (NULL)) AS m(m) WHERE m IS NOT DISTINCT FROM
(a IN (SELECT …))`: each row once, beside its value. Values of groups are chosen by HAVING, those of the ON of an outer join in a query
in the place of the table that they are about. It is tried where the query has no plan as it is written.
Unnecessary with a release of https://github.com/apache/datafusion/pull/24972.

**As an aggregate**: the value of the first row of a subquery. DataFusion has no plan for a LIMIT in a subquery that names columns around it.

**Recursive queries** are refused whose types lose values, or that cannot end. DataFusion casts the rows of the repeated part to the types of the first part. Where that loses a part of a value, as in
`SELECT 1 AS x UNION ALL SELECT x + 0.5 …`, the query gives wrong rows or never ends. An aggregate without GROUP BY has one row also of
no rows, so a repeated part such as `SELECT max(x) + 1 FROM c WHERE x < 5` never ends. PostgreSQL refuses both. DataFusion 55 casts by design: https://github.com/apache/datafusion/pull/9795.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
from datafusion import DataFrame, LogicalPlan, SessionContext, udf

from lance_flight.arrow_streams import has_open_width
from lance_flight.engine.functions.bounded_functions import Budget, Made
from lance_flight.engine.functions.routines import is_aggregate, volatile_functions
from lance_flight.engine.sql.bounds import with_queries
from lance_flight.engine.sql.clause_words import NO_FUNCTIONS, QUERIES, QUERY_STARTS, SET_OPERATORS
from lance_flight.engine.sql.comparisons import SIGNS, OperandsOfText
from lance_flight.engine.sql.references import quote_parts, relation_places
from lance_flight.engine.sql.select_lists import is_wildcard, is_without_alias, items, own_places
from lance_flight.engine.sql.tokens import (
    Edit,
    Kind,
    TextPlaces,
    Token,
    closing_places,
    edit_text,
    fold_name,
    outer_places,
    tokenize,
)
from lance_flight.errors import SqlError

_CLAUSES = frozenset(
    ["SELECT", "FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH"]
)
_SETS = frozenset(["UNION", "EXCEPT", "INTERSECT", "MINUS"])
_SUSPECTS = re.compile(r"\b(?:EXISTS|IN|ANY|ALL|SOME)\s*[(\s]+(?:SELECT|WITH|VALUES|TABLE)\b", re.IGNORECASE)
_VALUES = frozenset(["SELECT", "GROUP", "QUALIFY", "WINDOW", "ORDER"])
"""Clauses whose subqueries are values of a row."""
_OUTER = frozenset(["LEFT", "RIGHT", "FULL"])
_JOINS = frozenset(["JOIN", "INNER", "CROSS", "NATURAL", *_OUTER])
_AFTER_JOIN = frozenset(["JOIN", "OUTER", "SEMI", "ANTI"])
_SETS_OF_KEYS = frozenset(["ROLLUP", "CUBE", "GROUPING", "ALL"])
SIDES = 3
"""How many tables of an outer join are tried for a condition that names none."""
_MOST = 4
"""Most values of one query: each multiplies its rows by three before they are chosen."""


@dataclass(slots=True)
class _Relation:
    """Table of a FROM: its tokens, and its name; `is_nullable` if an outer join before may leave its columns NULL."""

    start: int
    stop: int
    name: str
    is_nullable: bool = False


@dataclass(slots=True)
class _Member:
    """Comparison with a subquery, or EXISTS: its tokens, the bracket of the subquery, and whether an aggregate is around it."""

    start: int
    opening: int
    stop: int
    is_aggregated: bool
    mark: str = ""


@dataclass(slots=True)
class _Block:
    """SELECT of a query, with the place of each of its clauses."""

    clauses: dict[str, int]
    stop: int
    is_of_set: bool
    is_grouped: bool = False
    members: list[tuple[str, _Member]] = field(default_factory=list)

    def end(self, clause: str) -> int:
        """Return the token after a clause."""
        return min((at for at in self.clauses.values() if at > self.clauses[clause]), default=self.stop)


_Frame = tuple[_Block | None, bool, bool, bool]
"""Of a bracket: its SELECT now, whether it is a query, whether its SELECTs are read, whether an aggregate is around."""


def with_marked_conditions(text: str, side: int = 0) -> str:
    """Return a query with conditions over subqueries as columns; the same text where it has none that can be one.

    `side` tells which table of an outer join those of its ON are about that name no table.

    >>> print(with_marked_conditions("SELECT k IN (SELECT a FROM u) AS x FROM t"))
    SELECT "$in.1" AS x FROM t CROSS JOIN (VALUES (TRUE), (FALSE), (CAST(NULL AS BOOLEAN))) AS "$in.1"("$in.1") \
WHERE "$in.1" IS NOT DISTINCT FROM (k IN (SELECT a FROM u))
    """
    if not _SUSPECTS.search(text) or "|>" in text:
        return text
    tokens = tokenize(text)
    if any(token.word == "RECURSIVE" for token in tokens):
        return text
    return edit_text(text, _Reader(text, tokens, side).read())


class _Reader(OperandsOfText):
    def __init__(self, sql: str, tokens: Sequence[Token], side: int) -> None:
        super().__init__(sql, tokens)
        self.side = side
        self.marks = 0

    def read(self) -> list[Edit]:
        """Return the edits of the whole text."""
        return [edit for block in self._blocks() for edit in self._block(block)]

    # --- what is in the text

    def _blocks(self) -> list[_Block]:
        """Return the SELECTs of the text whose rows may be multiplied: those that name no query around them."""
        blocks: list[_Block] = []
        frames: list[_Frame] = [(None, True, True, False)]
        for at, token in enumerate(self.tokens):
            block, is_query, is_read, is_aggregated = frames[-1]
            word = "" if self.is_name(at) else token.word
            if token.is_sign("("):
                frames.append(self._within(at, frames[-1]))
            elif token.is_sign(")") and len(frames) > 1:
                frames.pop()
                if block is not None and is_query:
                    block.stop = at
            elif word == "SELECT" and is_query:
                block = _Block({"SELECT": at}, len(self.tokens), self.word_at(at - 1) in {*_SETS, "ALL", "DISTINCT"})
                frames[-1] = block, True, is_read, False
                blocks += [block] if is_read else []
            elif block is not None and is_query and (word in _SETS or token.is_sign(";")) and self._is_clause(at):
                block.stop, block.is_of_set = at, block.is_of_set or word in _SETS
                frames[-1] = None, True, is_read, False
            elif block is not None and is_query and word in _CLAUSES and self._is_clause(at):
                block.clauses.setdefault(word, at)
            elif block is not None and word in {"EXISTS", "IN", "ANY", "ALL", "SOME"} and is_read:
                self._note(block, at, is_aggregated=is_aggregated)
            if block is not None and self._is_of_aggregate(at + 1):
                block.is_grouped = True
        return blocks

    def _within(self, opening: int, around: _Frame) -> _Frame:
        block, _, is_read, is_aggregated = around
        if self.first_word(opening) in QUERIES:
            return None, True, is_read and self._is_table(opening, block), False
        return block, False, is_read, is_aggregated or self._is_of_aggregate(opening)

    def _is_clause(self, at: int) -> bool:
        if self.word_at(at) in {"GROUP", "ORDER"}:
            return self.word_at(at + 1) == "BY"
        return not self.is_comparison(at) and not (self.word_at(at) == "EXCEPT" and self.is_sign(at - 1, "*"))

    def _is_table(self, opening: int, around: _Block | None) -> bool:
        """Return whether a query in brackets is one of WITH or FROM."""
        before = self.word_at(opening - 1)
        if around is None:
            return before in {"AS", "MATERIALIZED"}
        is_from = max(around.clauses, key=lambda clause: around.clauses[clause]) == "FROM"
        return is_from and (before in {"FROM", "JOIN"} or self.is_sign(opening - 1, ","))

    def _is_of_aggregate(self, opening: int) -> bool:
        """Return whether a bracket is that of an aggregate's arguments or of its FILTER, and of no window."""
        if not self.is_sign(opening, "(") or opening not in self.partners:
            return False
        after, before = self.partners[opening] + 1, self.word_at(opening - 1)
        if before == "FILTER":
            return self.word_at(after) != "OVER"
        if not before or not is_aggregate(before):
            return False
        if self.word_at(after) == "FILTER" and self.is_sign(after + 1, "("):
            after = self.partners.get(after + 1, after) + 1
        return self.word_at(after) != "OVER"

    def _note(self, block: _Block, at: int, *, is_aggregated: bool) -> None:
        """Note a comparison with a subquery, if it has the form of one."""
        opening = at + 1
        if not self.is_sign(opening, "(") or opening not in self.partners or self.first_word(opening) not in QUERIES:
            return
        start = at
        if self.word_at(at) != "EXISTS":
            operator = at - (self.word_at(at) == "IN" and self.word_at(at - 1) == "NOT")
            while (
                self.word_at(at) != "IN" and self.kind(operator - 1) is Kind.SIGN and self.text(operator - 1) in SIGNS
            ):
                operator -= 1
            if self.word_at(at) != "IN" and operator == at:
                return
            start = self.start_of_operand(operator)
            if start >= operator:
                return
        clause = max(block.clauses, key=lambda item: block.clauses[item])
        block.members.append((clause, _Member(start, opening, self.partners[opening] + 1, is_aggregated)))

    # --- what becomes of it

    def _block(self, block: _Block) -> list[Edit]:
        """Return the edits of one SELECT; none if one of its values can be no column."""
        block.is_grouped |= bool({"GROUP", "HAVING"} & set(block.clauses))
        listed = list(items(self.tokens, block.clauses["SELECT"] + 1))
        chosen_by = [(clause, member) for clause, member in block.members if self._is_value(block, clause, member)]
        values = [member for _, member in chosen_by]
        # What is compared must not be a value of this kind itself.
        if any(second.start < first.stop for first, second in pairwise(values)):
            return []
        aliases = {fold_name(item[-1]) for item in listed if item and not is_without_alias(item)}
        if any(not self._is_plain(member, set() if clause == "SELECT" else aliases) for clause, member in chosen_by):
            return []
        on = self._joined_tables(block)
        marks: dict[str, tuple[_Member, bool]] = {}
        for member in values:
            is_of_group = self._is_of_group(block, member, listed)
            if is_of_group and not self._may_choose_groups(block):
                return []
            text = " ".join(token.text for token in self.tokens[member.start : member.stop])
            if text in marks and marks[text][1] == is_of_group:
                member.mark = marks[text][0].mark
            elif text in marks:
                return []
            else:
                member.mark = self._next_mark()
                marks[text] = member, is_of_group
        if not (marks or on) or len(marks) > _MOST or not self._has_plain_wildcards(listed):
            return []
        chosen = list(marks.values())
        before = [member for member, is_of_group in chosen if not is_of_group]
        groups = [member for member, is_of_group in chosen if is_of_group]
        edits = list(self._names(listed, values))
        edits += [(*self._range(member), member.mark) for member in values]
        edits += self._sources(block, [member for member, _ in chosen])
        edits += self._condition(block, "WHERE", before)
        edits += self._groups(block, groups)
        for relation, members in on:
            edits += self._relation(relation, members)
        hidden = [member.mark for member, _ in chosen]
        edits += self._wildcards(listed, hidden, on)
        return edits

    def _is_value(self, block: _Block, clause: str, member: _Member) -> bool:
        if clause == "HAVING":
            return member.is_aggregated
        return clause in _VALUES and not (clause == "ORDER" and block.is_of_set)

    def _is_plain(self, member: _Member, aliases: set[str]) -> bool:
        """Return whether a value is the same each time it is computed, and names no alias of the SELECT list."""
        for at in range(member.start, member.stop):
            token = self.tokens[at]
            if token.kind not in {Kind.WORD, Kind.NAME}:
                continue
            is_call = self.is_sign(at + 1, "(")
            if is_call and fold_name(token) in volatile_functions():
                return False
            if at < member.opening and (token.word == "OVER" or fold_name(token) == "unnest"):
                return False
            if fold_name(token) in aliases and not self.is_sign(at - 1, ".") and not self.is_sign(at + 1, "."):
                return False
        return True

    def _is_of_group(self, block: _Block, member: _Member, listed: Sequence[Sequence[Token]]) -> bool:
        """Return whether a value is one of a group, and not of the rows in it."""
        if not block.is_grouped or member.is_aggregated:
            return False
        if "GROUP" not in block.clauses:
            return True
        first, stop = block.clauses["GROUP"] + 2, block.end("GROUP")
        if first <= member.start < stop:
            return False
        text = [token.text for token in self.tokens[member.start : member.stop]]
        if any([token.text for token in self.tokens[at : at + len(text)]] == text for at in range(first, stop)):
            return False
        for number, item in enumerate(listed, 1):
            if item and item[0].start <= self.tokens[member.start].start < item[-1].stop:
                keys = {key[0].text if key[0].kind is Kind.NUMBER else fold_name(key[0]) for key in self._keys(block)}
                alias = None if is_without_alias(list(item)) else fold_name(item[-1])
                return str(number) not in keys and alias not in keys
        return True

    def _keys(self, block: _Block) -> Iterator[list[Token]]:
        for item in items(self.tokens[: block.end("GROUP")], block.clauses["GROUP"] + 2):
            if len(item) == 1:
                yield item

    def _may_choose_groups(self, block: _Block) -> bool:
        """Return whether HAVING can choose groups: without GROUP BY there is one of no rows, too."""
        if "GROUP" not in block.clauses:
            return False
        return not any(self.word_at(at) in _SETS_OF_KEYS for at in range(block.clauses["GROUP"], block.end("GROUP")))

    def _next_mark(self) -> str:
        self.marks += 1
        return f'"$in.{self.marks}"'

    def _range(self, member: _Member) -> tuple[int, int]:
        return self.tokens[member.start].start, self.tokens[member.stop - 1].stop

    def _text_of(self, member: _Member) -> str:
        start, stop = self._range(member)
        return f"{member.mark} IS NOT DISTINCT FROM ({self.sql[start:stop]})"

    def _stop(self, at: int) -> int:
        """Return where the token before one ends."""
        return self.tokens[at - 1].stop

    def _sources(self, block: _Block, members: Sequence[_Member]) -> Iterator[Edit]:
        if not members:
            return
        sources = " CROSS JOIN ".join(_source(member.mark) for member in members)
        clause, word = ("FROM", "CROSS JOIN") if "FROM" in block.clauses else ("SELECT", "FROM")
        at = self._stop(block.end(clause))
        yield at, at, f" {word} {sources}"

    def _condition(self, block: _Block, word: str, members: Sequence[_Member]) -> Iterator[Edit]:
        """Yield the edits that add conditions to WHERE, or make one after FROM."""
        if not members:
            return
        conditions = " AND ".join(map(self._text_of, members))
        if word in block.clauses:
            start, stop = self.tokens[block.clauses[word] + 1].start, self._stop(block.end(word))
            yield start, start, "("
            yield stop, stop, f") AND {conditions}"
            return
        before = "GROUP" if word == "HAVING" else "FROM" if "FROM" in block.clauses else "SELECT"
        at = self._stop(block.end(before))
        yield at, at, f" {word} {conditions}"

    def _groups(self, block: _Block, members: Sequence[_Member]) -> Iterator[Edit]:
        if members:
            at = self._stop(block.end("GROUP"))
            yield at, at, "".join(f", {member.mark}" for member in members)
            yield from self._condition(block, "HAVING", members)

    def _names(self, listed: Sequence[list[Token]], values: Sequence[_Member]) -> Iterator[Edit]:
        """Yield the edits that call columns without an alias by what the client wrote."""
        starts = {self.tokens[member.start].start for member in values}
        for item in listed:
            if not item or not any(token.start in starts for token in item) or not is_without_alias(item):
                continue
            stop = item[-1].stop
            yield stop, stop, f" AS {quote_parts(self.sql[item[0].start : stop])}"

    def _has_plain_wildcards(self, listed: Sequence[list[Token]]) -> bool:
        return all(item[-1].is_sign("*") for item in listed if item and is_wildcard(item))

    def _wildcards(
        self, listed: Sequence[list[Token]], hidden: Sequence[str], on: Sequence[tuple[_Relation, list[_Member]]]
    ) -> Iterator[Edit]:
        """Yield the edits that leave the columns of values out of `*`, and out of those of one table."""
        of_tables = {relation.name: [member.mark for member in members] for relation, members in on}
        everywhere = [*hidden, *(mark for marks in of_tables.values() for mark in marks)]
        for item in listed:
            if not item or not is_wildcard(item):
                continue
            marks = everywhere if len(item) == 1 else of_tables.get(fold_name(item[-3]), [])
            if marks:
                stop = item[-1].stop
                yield stop, stop, f" EXCLUDE ({', '.join(marks)})"

    # --- ON of outer joins

    def _joined_tables(self, block: _Block) -> list[tuple[_Relation, list[_Member]]]:
        """Return the tables that conditions of outer joins are about, with these."""
        members = [member for clause, member in block.members if clause == "FROM"]
        joined: list[tuple[_Relation, list[_Member]]] = []
        if not members:
            return joined
        for relation, start, stop in self._conditions(block):
            for member in members:
                if not start <= member.start < stop or not self._is_plain(member, set()):
                    continue
                about = self._about(relation, member)
                if about is None:
                    continue
                member.mark = self._next_mark()
                known = next((each for of, each in joined if of is about), None)
                if known is None:
                    joined.append((about, [member]))
                else:
                    known.append(member)
        return joined

    def _conditions(self, block: _Block) -> Iterator[tuple[list[_Relation], int, int]]:
        """Yield the ON of each outer join: the tables that have a value there, and its tokens."""
        relations: list[_Relation] = []
        at, stop, join = block.clauses["FROM"] + 1, block.end("FROM"), ""
        while at < stop:
            relation = self._relation_at(at, stop)
            if relation is None:
                return
            relations.append(relation)
            at = relation.stop
            end = self._next_join(at, stop)
            if join in _OUTER and self.word_at(at) == "ON":
                yield [each for each in relations if not each.is_nullable], at + 1, end
            for each in relations:
                is_last = each is relation
                each.is_nullable |= join == "FULL" or (join == "LEFT" and is_last) or (join == "RIGHT" and not is_last)
            at, join = end, ""
            while at < stop and (self.word_at(at) in _JOINS | _AFTER_JOIN or self.is_sign(at, ",")):
                word = self.word_at(at)
                if word in {"SEMI", "ANTI"}:
                    return
                join = word if word in _OUTER else join
                at += 1

    def _next_join(self, at: int, stop: int) -> int:
        while at < stop:
            word = self.word_at(at)
            is_join = word in _JOINS and not self.is_name(at) and not self.is_sign(at + 1, "(")
            if is_join or word == "JOIN" or self.is_sign(at, ","):
                return at
            at = max(at, self.partners.get(at, at)) + 1
        return stop

    def _relation_at(self, at: int, stop: int) -> _Relation | None:
        """Return the table at a token; one without a name of its own has an empty one."""
        end = self._next_join(at, stop)
        words = [
            place for place in range(at, end) if self.word_at(place) in {"ON", "USING"} and not self.is_name(place)
        ]
        depth_free = [place for place in words if not self._is_inside(at, place)]
        last = depth_free[0] if depth_free else end
        name = self.tokens[last - 1]
        if last <= at or self.word_at(at) == "LATERAL":
            return None
        is_named = name.kind in {Kind.WORD, Kind.NAME} and (not self.is_sign(at, "(") or self.first_word(at) in QUERIES)
        return _Relation(at, last, fold_name(name) if is_named else "")

    def _is_inside(self, start: int, place: int) -> bool:
        return any(
            start <= opening < place < closing for opening, closing in self.partners.items() if opening < closing
        )

    def _about(self, relations: Sequence[_Relation], member: _Member) -> _Relation | None:
        """Return the one table that a condition names; None if it names several."""
        tables = [relation for relation in relations if relation.name]
        words = [at for at in range(member.start, member.stop) if self.tokens[at].kind in {Kind.WORD, Kind.NAME}]
        before, within = ([at for at in words if (at > member.opening) is is_within] for is_within in (False, True))
        own = {fold_name(self.tokens[at]) for at in within if not self.is_sign(at + 1, ".")}
        compared = {
            fold_name(self.tokens[at]) for at in before if self.is_sign(at + 1, ".") and not self.is_sign(at - 1, ".")
        }
        outer = {fold_name(self.tokens[at]) for at in within if self.is_sign(at + 1, ".")} - own
        about = [relation for relation in tables if relation.name in compared | outer]
        if len(about) == 1:
            return about[0]
        return tables[self.side % len(tables)] if tables and not about else None

    def _relation(self, relation: _Relation, members: Sequence[_Member]) -> Iterator[Edit]:
        """Yield the edits that put a query with the values in the place of a table."""
        name = quote_parts(relation.name)
        start, stop = self.tokens[relation.start].start, self._stop(relation.stop)
        sources = "".join(f" CROSS JOIN {_source(member.mark)}" for member in members)
        conditions = " AND ".join(map(self._text_of, members))
        yield start, start, "(SELECT * FROM "
        yield stop, stop, f"{sources} WHERE {conditions}) AS {name}"
        for member in members:
            yield (*self._range(member), f"{name}.{member.mark}")


def _source(mark: str) -> str:
    return f"(VALUES (TRUE), (FALSE), (CAST(NULL AS BOOLEAN))) AS {mark}({mark})"


_BEFORE_VALUE = frozenset(
    ["SELECT", "DISTINCT", "WHERE", "AND", "OR", "NOT", "CASE", "WHEN", "THEN", "ELSE", "BETWEEN", "ON", "HAVING", "BY"]
)
_SIGNS = frozenset(",+-*/%<>=|")
"""Words and signs before the brackets of a query that is a value."""
_OTHERWISE = frozenset(["DISTINCT", "GROUP", "HAVING", "QUALIFY", "WINDOW", "OFFSET", "FETCH", "OVER", "TOP"])
"""Words of queries that give other rows than those they read."""


def first_value_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that write `(SELECT a FROM t … ORDER BY b LIMIT 1)` in the place of a value as an aggregate.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT (SELECT a FROM u WHERE u.k = t.k ORDER BY b DESC LIMIT 1) FROM t"
    >>> edit_text(text, first_value_edits(text, tokenize(text)))
    'SELECT (SELECT first_value(a ORDER BY b DESC) FROM u WHERE u.k = t.k ) FROM t'
    """
    return list(_FirstValueReader(text, tokens).edits()) if any(token.word == "LIMIT" for token in tokens) else []


MAY_GIVE_SEVERAL = "may give several rows"
"""Part of the refusal of a subquery that names columns of the query around it, and has no aggregate."""


def with_only_values(text: str, refusal: str) -> str | None:
    """Return a query whose subqueries in the place of values give the one row that they have; None where it was refused for something else.

    The rows are counted around the subquery: inside it, those of all keys are.

    >>> with_only_values("SELECT (SELECT a FROM u WHERE u.k = t.k) FROM t", "may give several rows")
    'SELECT only_value((SELECT array_agg(a) FROM u WHERE u.k = t.k)) FROM t'
    """
    if MAY_GIVE_SEVERAL not in refusal:
        return None
    edits = list(_FirstValueReader(text, tokenize(text), is_only=True).edits())
    return edit_text(text, sorted(edits)) if edits else None


class _FirstValueReader(TextPlaces):
    def __init__(self, text: str, tokens: Sequence[Token], *, is_only: bool = False) -> None:
        super().__init__(text, tokens)
        self._is_only = is_only
        self._relations = relation_places(self)

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of all such subqueries; one within another one's list or keys is left as it is."""
        done = -1
        for at, closed in sorted(self._closing.items()):
            is_query = self.is_sign(at, "(") and self.word_at(at + 1) == "SELECT"
            if is_query and at > done and self._is_value(at, closed):
                found = self._subquery(at + 1, closed)
                if found:
                    yield from found
                    done = closed

    def _is_value(self, opened: int, closed: int) -> bool:
        """Return whether a query in brackets is a value: an operand, an item of a list, or an argument of a call."""
        if opened - 1 in self._relations or self.word_at(closed + 1) in SET_OPERATORS:
            return False
        while (
            self.is_sign(opened - 1, "(")
            and self._closing.get(opened - 1) == closed + 1
            and not self.word_at(opened - 2)
        ):
            opened, closed = opened - 1, closed + 1
        called = self.word_at(opened - 2) if self.is_sign(opened - 1, "(") else ""
        is_argument = bool(called) and called not in NO_FUNCTIONS | QUERY_STARTS
        is_operand = self.kind(opened - 1) is Kind.SIGN and self.text(opened - 1) in _SIGNS
        return is_argument or is_operand or self.word_at(opened - 1) in _BEFORE_VALUE

    def _subquery(self, select: int, closed: int) -> list[Edit]:
        own = [place for place in own_places(self.tokens, self._closing, select + 1) if place < closed]
        words = {self.word_at(place): place for place in own if not self.is_name(place)}
        limit, order = words.get("LIMIT"), words.get("ORDER")
        listed = list(items(self.tokens, select + 1))
        if self._is_only:
            has_form = limit is None and order is None and SET_OPERATORS.isdisjoint(words)
        else:
            has_form = (
                limit is not None
                and self.text(limit + 1) == "1"
                and limit + len("1)") == closed
                and (order is None or order < limit)
            )
        if (
            not has_form
            or "FROM" not in words
            or not _OTHERWISE.isdisjoint(words)
            or len(listed) != 1
            or not listed[0]
            or is_wildcard(listed[0])
        ):
            return []
        (item,) = listed
        if item[-2:-1] and item[-2].word == "AS":
            item = item[:-2]
        calls = {one.text for one, after in pairwise(item) if one.word and after.is_sign("(")}
        if any(is_aggregate(name) for name in calls) or (
            item[-1].kind is Kind.NAME and len(item) > 1 and item[-2].kind is Kind.NAME
        ):
            return []
        if any(one.word == "SELECT" for one in item):
            return []
        begun, stop = item[0].start, listed[0][-1].stop
        if limit is None:
            bracket, last = self.tokens[select - 1].start, self.tokens[closed].stop
            aggregate = f"array_agg({self._text[begun : item[-1].stop]})"
            return [(bracket, bracket, "only_value("), (begun, stop, aggregate), (last, last, ")")]
        keys = "" if order is None else f" {self._text[self.tokens[order].start : self.tokens[limit - 1].stop]}"
        cut = limit if order is None else order
        return [
            (begun, stop, f"first_value({self._text[begun : item[-1].stop]}{keys})"),
            (self.tokens[cut].start, self.tokens[limit + 1].stop, ""),
        ]


_OF_ONE_ROW = "Aggregate: groupBy=[[]]"
_OF_AS_MANY_ROWS = ("Projection:", "SubqueryAlias:", "Sort:", "WindowAggr:", "Distinct:")
"""Operators that have a row if their input has one; a sort with a LIMIT is another one."""


class RecursiveQuery(NamedTuple):
    """A query of WITH RECURSIVE: its name, statements that give rows as its `first` and its `repeated` part do, and where the latter stands."""

    name: str
    first: str
    repeated: str
    start: int
    stop: int


def recursive_queries(text: str) -> Iterator[RecursiveQuery]:
    """Yield each query of WITH RECURSIVE that is a union of two parts.

    >>> list(recursive_queries("WITH RECURSIVE c AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM c) SELECT * FROM c"))[0].repeated
    'WITH RECURSIVE c AS (SELECT 1 AS x) SELECT x + 1 FROM c'
    """
    tokens = tokenize(text)
    starts = [
        place - 1
        for place, token in enumerate(tokens)
        if token.word == "RECURSIVE" and tokens[place - 1].word == "WITH"
    ]
    if not starts:
        return
    closing = closing_places(tokens)
    for query in with_queries(tokens):
        union = _union(tokens, query.start, query.stop, closing)
        start = max((start for start in starts if start < query.start), default=None)
        if union is None or start is None:
            continue
        after = union + 1 + (tokens[union + 1].word in {"ALL", "DISTINCT"})
        head = text[tokens[start].start : tokens[union - 1].stop] + ")"
        place = tokens[after].start, tokens[query.stop - 1].stop
        first = f"{head} SELECT * FROM {quote_parts(query.name)}"  # noqa: S608 - quoted
        yield RecursiveQuery(query.name, first, f"{head} {text[slice(*place)]}", *place)


def _union(tokens: Sequence[Token], start: int, stop: int, closing: dict[int, int]) -> int | None:
    """Return the place of the last UNION directly within a bracket; None without one."""
    operators = [
        place for place in outer_places(closing, range(start + 1, stop)) if tokens[place].word in SET_OPERATORS
    ]
    return operators[-1] if operators and tokens[operators[-1]].word == "UNION" else None


def check_recursive_queries(text: str, planned: Callable[[str], DataFrame]) -> None:
    """Refuse a recursive query whose repeated part has values that the types of its first part cannot hold, or always has a row."""
    for query in recursive_queries(text):
        repeated_part = planned(query.repeated)
        if _always_has_a_row(repeated_part.logical_plan(), query.name):
            raise SqlError(
                f"the part that repeats of the recursive query {query.name!r} is an aggregate, which has a row also of no rows, so that"
                " the query never ends; write the aggregate in the query that reads it, or HAVING with a condition that ends it"
            )
        for first, repeated in zip(_schema(planned(query.first)), _schema(repeated_part), strict=False):
            if _loses(repeated.type, first.type):
                raise SqlError(
                    f"column {first.name!r} of the recursive query {query.name!r} is {first.type} in its first part and"
                    f" {repeated.type} in the part that repeats; expected one type: write a CAST in the first part"
                )


def with_bounded_steps(text: str, planned: Callable[[str], DataFrame], context: SessionContext) -> str:
    """Return a text in which each step of a recursive query checks the size of its values: `x || x` doubles them again and again."""
    budget, edits = Budget(), []
    for query in recursive_queries(text):
        columns = []
        for place, result in enumerate(_schema(planned(query.repeated))):
            column = f"c{place}"
            if has_open_width(result.type):
                name = f"__step{query.start}_{place}"
                step = partial(_check_step, budget.of(name), query.name)
                context.register_udf(udf(step, [result.type], result.type, "immutable", name))
                column = f"{name}({column})"
            columns.append(column)
        if any("(" in column for column in columns):
            names = ", ".join(f"c{place}" for place in range(len(columns)))
            edits += [
                (query.start, query.start, f"SELECT {', '.join(columns)} FROM ("),  # noqa: S608 - names made here
                (query.stop, query.stop, f") AS __step({names})"),
            ]
    return edit_text(text, edits)


def _check_step(made: Made, query: str, values: pa.Array) -> pa.Array:
    made.check_bytes(f"a step of the recursive query {query!r}", values.nbytes, len(values))
    return values


def _schema(frame: DataFrame) -> pa.Schema:
    return pa.schema(frame.schema())


def _always_has_a_row(plan: LogicalPlan, name: str) -> bool:
    """Return whether a plan has a row whatever the rows of the relation of a name, which it aggregates."""
    while plan.display().startswith(_OF_AS_MANY_ROWS):
        (plan,) = plan.inputs()
    return plan.display().startswith(_OF_ONE_ROW) and f"SubqueryAlias: {name}\n" in plan.display_indent()


def _loses(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a cast may give another value without an error."""
    if kind == wanted:
        return False
    is_fraction = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if pa.types.is_decimal(wanted):
        return bool(pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and kind.scale > wanted.scale))
    if pa.types.is_integer(wanted):
        return bool(is_fraction)
    if pa.types.is_floating(wanted):
        return bool(pa.types.is_decimal(kind) or (pa.types.is_floating(kind) and kind.bit_width > wanted.bit_width))
    if pa.types.is_date(wanted):
        return bool(pa.types.is_timestamp(kind))
    if pa.types.is_timestamp(wanted):
        units = ("s", "ms", "us", "ns")
        return bool(pa.types.is_timestamp(kind)) and units.index(kind.unit) > units.index(wanted.unit)
    return False
