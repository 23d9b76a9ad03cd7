"""EXISTS, IN, NOT IN and comparisons of row values where DataFusion 55 forgets NULL, or plans nothing.

**As a comparison.** DataFusion makes a join of `x IN (SELECT y …)` whose rows match or do not. That is right where nothing but AND and
OR is around it in a condition; NOT IN only beside AND. Elsewhere, and where what is compared is a constant or the subquery is
correlated (`engine.plans.joins`), rows that should be left out are returned. `x = ANY (SELECT …)` and `x <> ALL (SELECT …)` mean the
same, and are right; they take longer. Unnecessary with a release that solves https://github.com/apache/datafusion/issues/14554.

**As a count, in SELECT lists.** It plans EXISTS and IN in conditions alone. `EXISTS (SELECT 1 FROM u WHERE u.k = t.id)` is
`((SELECT count(*) FROM u WHERE u.k = t.id) > 0)`, a subquery that it makes a join of. Unnecessary with a release of
https://github.com/apache/datafusion/pull/24972.

**As a CASE, for lists of one operand side by side.** It makes one list of them: `x NOT IN (1) OR x NOT IN (2)` is TRUE to it where x is
NULL, and `x IN (1, a) AND x NOT IN (a)` has rows where x is a. It does not look into a CASE; subqueries are left as they are.
Unnecessary once its `ShortenInListSimplifier` takes literals alone, and keeps what NULL means.

**As comparisons of parts, for row values** like `(a, b) = (1, 2)`, by which SQL defines them. DataFusion 55 makes structs of row values and compares them as one value, NULL and all: `(a, b) < (1, 3)` is true where `a` is NULL.
`(a, b) IS NULL` stays a question about the struct, as in DuckDB: PostgreSQL asks each part.
Of `(a, b) IN (SELECT …)` it has no plan: unnecessary with a release of https://github.com/apache/datafusion/pull/19857, and of what
https://github.com/apache/datafusion/pull/21054 began.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lance_flight.engine.functions.routines import is_aggregate
from lance_flight.engine.sql.clause_words import QUERIES
from lance_flight.engine.sql.comparisons import SIGNS, Operands, OperandsOfText
from lance_flight.engine.sql.select_lists import items
from lance_flight.engine.sql.tokens import Edit, Kind, Token, closing_places, edit_text, tokenize
from lance_flight.errors import LimitExceeded, SqlError, Unsupported

_CONDITIONS = frozenset(["WHERE", "HAVING", "ON"])
_CONNECTIVES = frozenset(["AND", "OR"])
_CLAUSES = frozenset(["SELECT", "FROM", "BY", "SET", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", "QUALIFY"])
_FOLLOWING = frozenset(
    [
        *("AND", "OR", "GROUP", "ORDER", "HAVING", "QUALIFY", "WINDOW", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT"),
        *("INTERSECT", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "WHERE", "SELECT", "WHEN"),
    ]
)
"""Words that end a condition, or continue it by another one."""


@dataclass(slots=True)
class _Condition:
    """State of the reader inside one condition, or outside of conditions."""

    is_condition: bool = False
    has_or: bool = False
    outer: _Condition | None = None

    @property
    def has_any_or(self) -> bool:
        condition: _Condition | None = self
        while condition is not None and not condition.has_or:
            condition = condition.outer
        return condition is not None


@dataclass(frozen=True, slots=True)
class _Membership:
    """`IN (SELECT …)`: where its left operand begins, its IN or NOT, the bracket, and the condition around it (None: another place)."""

    left: int
    operator: int
    opening: int
    is_negated: bool
    condition: _Condition | None


def membership_edits(tokens: Sequence[Token], *, is_strict: bool = False) -> list[Edit]:
    """Return the edits that make comparisons with ANY or ALL of IN over subqueries; `is_strict` of all of them.

    >>> for text in ["x NOT IN (SELECT y FROM u) OR a", "NOT x IN (SELECT y FROM u)", "x IN (SELECT y FROM u) OR a"]:
    ...     text = f"SELECT 1 FROM t WHERE {text}"
    ...     print(edit_text(text, membership_edits(tokenize(text))))
    SELECT 1 FROM t WHERE (x <> ALL (SELECT y FROM u)) OR a
    SELECT 1 FROM t WHERE NOT (x = ANY (SELECT y FROM u))
    SELECT 1 FROM t WHERE x IN (SELECT y FROM u) OR a
    """
    edits: list[Edit] = []
    if not any(token.word == "IN" for token in tokens):
        return edits
    operands = Operands(tokens)
    for membership in list(_memberships(operands)):
        is_right = membership.condition is not None and not (membership.is_negated and membership.condition.has_any_or)
        if is_strict or not is_right:
            opens, closes = tokens[membership.left].start, tokens[operands.partners[membership.opening]].stop
            edits += [
                (opens, opens, "("),
                (
                    tokens[membership.operator].start,
                    tokens[membership.opening - 1].stop,
                    "<> ALL" if membership.is_negated else "= ANY",
                ),
                (closes, closes, ")"),
            ]
            # After ANY, VALUES is a function to DataFusion's parser.
            if tokens[membership.opening + 1].word == "VALUES":
                inside, end = tokens[membership.opening].stop, tokens[operands.partners[membership.opening]].start
                edits += [(inside, inside, "SELECT * FROM ("), (end, end, ") AS __listed")]
    return edits


def check_negated_exists(tokens: Sequence[Token]) -> None:
    """Refuse `NOT EXISTS (…) IS NULL` and the like: DataFusion binds NOT closer than IS, and SQL does not."""
    places = [at for at in range(1, len(tokens)) if tokens[at].word == "EXISTS" and tokens[at - 1].word == "NOT"]
    closing = closing_places(tokens) if places else {}
    for at in places:
        after = closing.get(at + 1, len(tokens)) + 1
        if after < len(tokens) and (tokens[after].word == "IS" or tokens[after].text in SIGNS):
            raise Unsupported(
                f"NOT EXISTS (…) {tokens[after].text} at character {tokens[at - 1].start + 1} has two meanings;"
                " write (NOT EXISTS (…)) in brackets, or NOT (EXISTS (…) IS …)"
            )


def with_strict_memberships(text: str) -> str:
    """Return a text without IN over a subquery.

    >>> with_strict_memberships("SELECT 1 FROM t WHERE 3 NOT IN (SELECT y FROM u)")
    'SELECT 1 FROM t WHERE (3 <> ALL (SELECT y FROM u))'
    """
    return edit_text(text, membership_edits(tokenize(text), is_strict=True))


def with_apart_names(text: str) -> str:
    """Return a text whose comparisons with ANY and ALL read tables under names of their own.

    >>> with_apart_names("SELECT 1 FROM t WHERE x <> ALL (SELECT x FROM t)")
    'SELECT 1 FROM t WHERE x <> ALL (SELECT * FROM (SELECT x FROM t) AS __compared_0)'
    """
    tokens = tokenize(text)
    closing = closing_places(tokens)
    edits: list[Edit] = []
    for place, token in enumerate(tokens[:-2]):
        closed = closing.get(place + 1)
        if token.word in {"ANY", "ALL", "SOME"} and closed is not None and tokens[place + 2].word in QUERIES:
            edits += [
                (tokens[place + 2].start, tokens[place + 2].start, "SELECT * FROM ("),
                (tokens[closed].start, tokens[closed].start, f") AS __compared_{len(edits)}"),
            ]
    return edit_text(text, sorted(edits))


def _memberships(operands: Operands) -> Iterator[_Membership]:
    """Yield each IN over a subquery; the conditions around are known once all are read."""
    tokens, current = operands.tokens, _Condition()
    outer: list[_Condition] = []
    for at, token in enumerate(tokens):
        word = "" if operands.is_name(at) else token.word
        if token.is_sign("("):
            outer.append(current)
            is_within = (
                current.is_condition
                and _begins(operands, at)
                and ends_condition(operands, operands.partners.get(at, at))
            )
            current = _Condition(is_within, outer=current if is_within else None)
        elif token.is_sign(")") and outer:
            current = outer.pop()
        elif word in _CONDITIONS:
            current = _Condition(is_condition=True)
        elif word in _CLAUSES:
            current = _Condition()
        elif word == "OR":
            current.has_or = True
        elif word == "IN" and operands.is_sign(at + 1, "(") and operands.first_word(at + 1) in QUERIES:
            is_negated = operands.word_at(at - 1) == "NOT"
            operator = at - is_negated
            left = operands.start_of_operand(operator)
            is_plain = current.is_condition and _begins(operands, left)
            is_plain = is_plain and ends_condition(operands, operands.partners.get(at + 1, at + 1))
            if left < operator and at + 1 in operands.partners:
                yield _Membership(left, operator, at + 1, is_negated, current if is_plain else None)


def _begins(operands: Operands, at: int) -> bool:
    """Return whether a part of a condition begins at a token, and not one of another expression."""
    before = at - 1
    return operands.word_at(before) in _CONDITIONS | _CONNECTIVES or operands.is_sign(before, "(")


def ends_condition(operands: Operands, at: int) -> bool:
    """Return whether a part of a condition ends at a token."""
    after = at + 1
    if after >= len(operands.tokens):
        return True
    return operands.word_at(after) in _FOLLOWING or operands.text(after) in {")", ";", ",", "|"}


_AFTER_WHERE = frozenset(
    [
        *("GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT"),
        *("DISTINCT", "TOP"),
    ]
)
_LIST_ENDS = frozenset(["FROM", "WHERE", *_AFTER_WHERE - {"DISTINCT", "TOP"}])
_WITHIN = (
    "EXISTS and IN (SELECT …) of a SELECT list are not offered within each other; name the inner one in a query below:"
    " FROM (SELECT *, id IN (SELECT …) AS known FROM t)"
)
_OF_AGGREGATE = (
    "IN (SELECT …) of an aggregate or a window function in a SELECT list is not offered; name it in a query below:"
    " SELECT n IN (SELECT …) FROM (SELECT count(*) AS n FROM t)"
)
_NO_NAMES = frozenset(["NULL", "TRUE", "FALSE"])
_ALIAS = '"$in"'
_VALUE = '"$in.value"'


def selected_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that count the rows of subqueries of EXISTS and IN in SELECT lists.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT NOT EXISTS (SELECT k FROM u WHERE k = t.id) AS is_new FROM t"
    >>> edit_text(text, selected_edits(text, tokenize(text)))
    'SELECT NOT ((SELECT count(*) + 0 * count(k) FROM u WHERE k = t.id) > 0) AS is_new FROM t'
    """
    if not any(token.word in {"EXISTS", "IN"} for token in tokens):
        return []
    return _Reader(text, tokens).read()


class _Reader(OperandsOfText):
    def read(self) -> list[Edit]:
        """Return the edits of the whole text."""
        edits: list[Edit] = []
        done = -1
        for at in self._places():
            opening = at + 1
            start = at if self.word_at(at) == "EXISTS" else self.start_of_operand(at - (self.word_at(at - 1) == "NOT"))
            if start < done:
                raise Unsupported(_WITHIN)
            done = self.partners[opening] + 1
            new = self._exists(opening) if start == at else self._member(start, at)
            edits.append((self.tokens[start].start, self.tokens[done - 1].stop, new))
        return edits

    def _places(self) -> Iterator[int]:
        """Yield the places of EXISTS and IN over a subquery that stand in a SELECT list."""
        frames: list[tuple[bool, bool]] = [(False, True)]
        for at, token in enumerate(self.tokens):
            word = "" if self.is_name(at) else token.word
            is_listed, is_query = frames[-1]
            if token.is_sign("("):
                starts_query = self.first_word(at) in QUERIES
                frames.append((is_listed and not starts_query, starts_query))
            elif token.is_sign(")") and len(frames) > 1:
                frames.pop()
            elif word == "SELECT":
                frames[-1] = True, True
            elif word in _LIST_ENDS and is_query and not self.is_comparison(at):
                frames[-1] = False, True
            elif word in {"EXISTS", "IN"} and is_listed and self._is_over_query(at + 1):
                yield at

    def _is_over_query(self, opening: int) -> bool:
        return self.is_sign(opening, "(") and opening in self.partners and self.first_word(opening) in QUERIES

    def _exists(self, opening: int) -> str:
        closing = self.partners[opening]
        inside = self._outermost(opening + 1, closing)
        words = [self.word_at(at) for at in inside if not self.is_name(at)]
        start = next((at for at in inside if self.word_at(at) == "FROM" and not self.is_comparison(at)), None)
        is_plain = words[:1] == ["SELECT"] and not _AFTER_WHERE & set(words) and words.count("SELECT") == 1
        if not is_plain or start is None or self._has_aggregate(opening + 1, start):
            return f"((SELECT count(*) FROM {self._text(opening, closing + 1)} AS {_ALIAS}) > 0)"  # noqa: S608 - planned, not run
        return f"((SELECT count(*){self._name_columns(opening + 2)} {self._text(start, closing)}) > 0)"

    def _name_columns(self, start: int) -> str:
        """Return a sum of nothing that names the columns of a list, so that one that is not there is an error."""
        names = [item for item in items(self.tokens, start) if _is_name(item)]
        return "".join(f" + 0 * count({self.sql[item[0].start : item[-1].stop]})" for item in names)

    def _member(self, start: int, at: int) -> str:
        is_negated = self.word_at(at - 1) == "NOT"
        stop = at - is_negated
        if self._has_aggregate(start, stop) or any(self.word_at(place) == "OVER" for place in range(start, stop)):
            raise Unsupported(_OF_AGGREGATE)
        value, query = self._text(start, stop), self._text(at + 1, self.partners[at + 1] + 1)
        rows = f"FROM {query} AS {_ALIAS}({_VALUE})"
        met, other = ("FALSE", "TRUE") if is_negated else ("TRUE", "FALSE")
        # 0: the query has no rows; 1: none of them is NULL; 2: one is.
        kind = f"(SELECT CASE WHEN count(*) = 0 THEN 0 WHEN count({_VALUE}) = count(*) THEN 1 ELSE 2 END {rows})"
        return (
            f"(CASE WHEN (SELECT count(*) {rows} WHERE {_VALUE} = {value}) > 0 THEN {met}"
            f" ELSE CASE {kind} WHEN 0 THEN {other} WHEN 1 THEN CASE WHEN ({value}) IS NOT NULL THEN {other} END END END)"
        )

    def _has_aggregate(self, start: int, stop: int) -> bool:
        return any(
            self.is_sign(at + 1, "(") and is_aggregate(self.text(at)) for at in range(start, stop) if self.word_at(at)
        )

    def _outermost(self, start: int, stop: int) -> list[int]:
        places, at = list[int](), start
        while at < stop:
            places.append(at)
            at = max(at, self.partners.get(at, at)) + 1
        return places

    def _text(self, start: int, stop: int) -> str:
        return self.sql[self.tokens[start].start : self.tokens[stop - 1].stop]


def _is_name(item: Sequence[Token]) -> bool:
    """Return whether an item is the name of a column, as `k` or `u.k`, without an alias."""
    if len(item) % 2 == 0:
        return False
    return all(token.is_sign(".") if place % 2 else _is_of_name(token) for place, token in enumerate(item))


def _is_of_name(token: Token) -> bool:
    return token.kind is Kind.NAME or (token.kind is Kind.WORD and token.word not in _NO_NAMES)


def neighbouring_list_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that keep lists of the same operand, with only AND or OR between them, apart.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT x NOT IN (1) OR x NOT IN (2) FROM t"
    >>> edit_text(text, neighbouring_list_edits(tokenize(text)))
    'SELECT x NOT IN (1) OR (CASE x NOT IN (2) WHEN TRUE THEN TRUE WHEN FALSE THEN FALSE END) FROM t'
    >>> neighbouring_list_edits(tokenize("SELECT 1 FROM t WHERE x IN (SELECT y FROM u) AND x IN (SELECT z FROM u)"))
    []
    """
    places = [place for place, token in enumerate(tokens[:-1]) if token.word == "IN" and tokens[place + 1].is_sign("(")]
    if len(places) < 2:  # noqa: PLR2004 - a pair
        return []
    operands = Operands(tokens)
    places = [place for place in places if operands.first_word(place + 1) not in QUERIES]
    edits: list[Edit] = []
    before: tuple[int, list[str]] | None = None
    for place in places:
        operator = place - (tokens[place - 1].word == "NOT")
        first, closed = operands.start_of_operand(operator), operands.partners.get(place + 1)
        if closed is None:
            continue
        compared = [token.text.lower() for token in tokens[first:operator]]
        if before is not None and before[1] == compared and _are_neighbours(tokens[before[0] + 1 : first]):
            edits += [
                (tokens[first].start, tokens[first].start, "(CASE "),
                (tokens[closed].stop, tokens[closed].stop, " WHEN TRUE THEN TRUE WHEN FALSE THEN FALSE END)"),
            ]
        before = closed, compared
    return edits


def _are_neighbours(between: Sequence[Token]) -> bool:
    """Return whether only brackets, NOT and one AND or OR stand between two lists."""
    words = [token.word or token.text for token in between]
    return sum(word in {"AND", "OR"} for word in words) == 1 and {*words} <= {"AND", "OR", "NOT", "(", ")"}


_OPERATORS = frozenset(["=", "<>", "!=", "<", "<=", ">", ">="])
_BEFORE = frozenset(
    [
        *("WHERE", "AND", "OR", "NOT", "ON", "HAVING", "QUALIFY", "SELECT", "WHEN", "THEN", "ELSE", "BY", "CASE"),
        *("BETWEEN", "DISTINCT", "FILTER", "ALL"),
    ]
)
"""Words before a row value: others, like IN, VALUES and USING, are before lists of another kind."""
_EXISTS = "EXISTS (SELECT 1 FROM … WHERE c = a AND d = b)"
_MOST_QUERIES = 100
_LARGEST = 4 << 20
"""Characters that the comparisons of one statement may take once they are written out."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row value: the texts of its parts, and the tokens from its first one to the one after it."""

    parts: Sequence[str]
    start: int
    stop: int


def row_value_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that write out the comparisons of row values.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> for text in ["(a, b) = (1, 2)", "(a, b) < (1, 2)", "(a, b) NOT IN ((1, 2), (3, 4))"]:
    ...     text = f"SELECT 1 FROM t WHERE {text}"
    ...     print(edit_text(text, row_value_edits(text, tokenize(text))).partition("WHERE ")[2])
    ((a) = (1) AND (b) = (2))
    ((a) < (1) OR ((a) = (1) AND ((b) < (2))))
    (NOT (((a) = (1) AND (b) = (2)) OR ((a) = (3) AND (b) = (4))))
    """
    if not any(_may_begin(tokens, at) for at in range(len(tokens))):
        return []
    reader = _RowValueReader(text, tokens)
    edits = list(reader.read())
    if sum(len(new) for _, _, new in edits) > _LARGEST:
        raise LimitExceeded(
            f"the row values of the statement take more than {_LARGEST} characters once they are compared part by part;"
            " expected fewer, or a join with a table of them"
        )
    return edits


def _may_begin(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a bracket opens at a token where a row value may stand."""
    if not tokens[at].is_sign("("):
        return False
    before = tokens[at - 1] if at else None
    if before is None or before.word in _BEFORE:
        return True
    if before.word == "ROW":
        return True
    return before.kind is Kind.SIGN and before.text in "(,[="


class _RowValueReader(OperandsOfText):
    """Reads the comparisons of row values of a text, from its first token to its last."""

    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        super().__init__(sql, tokens)
        self.queries = 0

    def read(self) -> Iterator[Edit]:
        """Yield the edits of the whole text."""
        at = 0
        while at < len(self.tokens):
            row = self._row(at) if _may_begin(self.tokens, at) else None
            end = None if row is None else self._end_of_comparison(row)
            if end is None or row is None:
                at += 1
                continue
            stop, written = end
            yield self.tokens[row.start].start, self.tokens[stop - 1].stop, f"({written})"
            at = stop

    def _row(self, at: int) -> _Row | None:
        """Return the row value whose bracket opens at a token; None where there is none."""
        closing = self.partners.get(at)
        if closing is None or not self.is_sign(at, "(") or self.first_word(at) in QUERIES:
            return None
        commas, place = [at], at + 1
        while place < closing:
            if self.is_sign(place, ","):
                commas.append(place)
            elif self.kind(place) in {Kind.LITERALS, Kind.PARAMETERS}:
                return None
            place = max(place, self.partners.get(place, place)) + 1
        if len(commas) == 1 or any(second - first == 1 for first, second in pairwise([*commas, closing])):
            return None
        parts = [
            self.sql[self.tokens[first + 1].start : self.tokens[second - 1].stop]
            for first, second in pairwise([*commas, closing])
        ]
        start = at - 1 if self.word_at(at - 1) == "ROW" else at
        return _Row(parts, start, closing + 1)

    def _row_at(self, at: int, like: _Row) -> _Row | None:
        """Return the row value that begins at a token, with as many parts as another one."""
        row = self._row(at + 1 if self.word_at(at) == "ROW" else at)
        if row is not None and len(row.parts) != len(like.parts):
            raise SqlError(
                f"a row value of {len(like.parts)} is compared with one of {len(row.parts)} values; expected as many"
            )
        return row

    def _end_of_comparison(self, row: _Row) -> tuple[int, str] | None:
        """Return the token after the comparison that begins with a row value, and what it is written out as."""
        at = row.stop
        is_negated = self.word_at(at) == "NOT"
        word = self.word_at(at + is_negated)
        if word == "IN":
            return self._member(row, at + is_negated + 1, is_negated=is_negated)
        if word == "BETWEEN":
            return self._between(row, at + is_negated + 1, is_negated=is_negated)
        if word == "IS":
            return self._is(row, at + 1)
        operator, width = self._operator(at)
        if operator not in _OPERATORS:
            return None
        if self.word_at(at + width) in {"ANY", "ALL", "SOME"} or self._is_query(at + width):
            raise Unsupported(
                f"{operator} of a row value and a subquery is not offered; write (a, b) IN (SELECT …), or {_EXISTS}"
            )
        other = self._row_at(at + width, row)
        return None if other is None else (other.stop, _compare(row.parts, operator, other.parts))

    def _operator(self, at: int) -> tuple[str, int]:
        """Return the comparison at a token, and how many tokens it takes."""
        if self.kind(at) is not Kind.SIGN:
            return "", 0
        if self.kind(at + 1) is Kind.SIGN and self.tokens[at].stop == self.tokens[at + 1].start:
            both = self.text(at) + self.text(at + 1)
            if both in _OPERATORS:
                return both, 2
        return self.text(at), 1

    def _is_query(self, at: int) -> bool:
        return self.is_sign(at, "(") and self.first_word(at) in QUERIES

    def _between(self, row: _Row, at: int, *, is_negated: bool) -> tuple[int, str] | None:
        low = self._row_at(at, row)
        high = None if low is None or self.word_at(low.stop) != "AND" else self._row_at(low.stop + 1, row)
        if low is None or high is None:
            return None
        within = f"({_compare(row.parts, '>=', low.parts)}) AND ({_compare(row.parts, '<=', high.parts)})"
        return high.stop, f"NOT ({within})" if is_negated else within

    def _is(self, row: _Row, at: int) -> tuple[int, str] | None:
        is_negated = self.word_at(at) == "NOT"
        at += is_negated
        if self.word_at(at) != "DISTINCT" or self.word_at(at + 1) != "FROM":
            return None
        other = self._row_at(at + 2, row)
        if other is None:
            return None
        word, joint = ("IS NOT DISTINCT FROM", " AND ") if is_negated else ("IS DISTINCT FROM", " OR ")
        pairs = zip(row.parts, other.parts, strict=True)
        return other.stop, joint.join(f"(({mine}) {word} ({theirs}))" for mine, theirs in pairs)

    def _member(self, row: _Row, at: int, *, is_negated: bool) -> tuple[int, str] | None:
        closing = self.partners.get(at)
        if closing is None or not self.is_sign(at, "("):
            return None
        if self.first_word(at) in QUERIES:
            return closing + 1, self._member_of_query(row, at, closing, is_negated=is_negated)
        rows, place = [], at + 1
        while place < closing:
            other = self._row_at(place, row)
            if other is None or not (self.is_sign(other.stop, ",") or other.stop == closing):
                return None
            rows.append(other.parts)
            place = other.stop + 1
        if not rows:
            return None
        if len(rows) * sum(map(len, row.parts)) > _LARGEST:
            raise LimitExceeded(
                f"IN has {len(rows)} row values, too many to compare with each; expected a join with a table of them"
            )
        among = " OR ".join(f"({_compare(row.parts, '=', parts)})" for parts in rows)
        return closing + 1, f"NOT ({among})" if is_negated else among

    def _member_of_query(self, row: _Row, at: int, closing: int, *, is_negated: bool) -> str:
        if any(self.is_sign(place + 1, "(") and is_aggregate(self.text(place)) for place in range(row.start, row.stop)):
            raise Unsupported(
                "a row value of aggregates IN (SELECT …) is not offered; name them in a query below:"
                " FROM (SELECT a, count(*) AS n FROM t GROUP BY a) WHERE (a, n) IN (SELECT …)"
            )
        names = [f'"$row.{number}"' for number in range(len(row.parts))]
        query = self.sql[self.tokens[at].start : self.tokens[closing].stop]
        equal = _compare(names, "=", row.parts)
        self.queries += 1
        if self.queries > _MOST_QUERIES:
            raise LimitExceeded(f"the statement has more than {_MOST_QUERIES} row values IN a query; expected a join")
        rows = f'SELECT 1 FROM {query} AS "$row"({", ".join(names)}) WHERE'  # noqa: S608 - planned, not run
        if self._is_condition(row.start, closing + 1):
            return f"NOT EXISTS ({rows} ({equal}) IS NOT FALSE)" if is_negated else f"EXISTS ({rows} {equal})"
        met, other = ("FALSE", "TRUE") if is_negated else ("TRUE", "FALSE")
        null = f"EXISTS ({rows} ({equal}) IS NULL)"
        return f"CASE WHEN EXISTS ({rows} {equal}) THEN {met} WHEN {null} THEN CAST(NULL AS BOOLEAN) ELSE {other} END"

    def _is_condition(self, start: int, stop: int) -> bool:
        """Return whether an expression is a whole part of a condition, with nothing but AND, OR and brackets around it."""
        while True:
            before, after = start - 1, stop
            if not ends_condition(self, after - 1):
                return False
            while self.word_at(before) in {"AND", "OR"}:
                if self._is_of_between(before - 1):
                    return False
                before = self.left(before - 1) - 1
            if self.word_at(before) in _CONDITIONS:
                return True
            if not self.is_sign(before, "(") or self.partners.get(before) is None:
                return False
            stop = self.right(after) if self.word_at(after) in {"AND", "OR"} else after
            while self.word_at(stop) in {"AND", "OR"}:
                stop = self.right(stop + 1)
            if stop != self.partners[before] or self.ends_operand(before - 1):
                return False
            start, stop = before, stop + 1


def _compare(mine: Sequence[str], operator: str, theirs: Sequence[str]) -> str:
    """Return the comparison of two row values, part by part; from left to right where their order counts."""
    pairs = list(zip(mine, theirs, strict=True))
    if operator == "=":
        return " AND ".join(f"({left}) = ({right})" for left, right in pairs)
    if operator in {"<>", "!="}:
        return " OR ".join(f"({left}) <> ({right})" for left, right in pairs)
    *first, (left, right) = pairs
    written = f"({left}) {operator} ({right})"
    for left, right in reversed(first):
        written = f"({left}) {operator[0]} ({right}) OR (({left}) = ({right}) AND ({written}))"
    return written
