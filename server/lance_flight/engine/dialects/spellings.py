"""Words of other systems for what DataFusion has in its own, one edit each, before all other rewrites; and escapes of ODBC and JDBC.

| written | read as |
|---|---|
| `a ISNULL`, `a NOTNULL` | `a IS NULL`, `a IS NOT NULL` |
| `q MINUS SELECT …` | `q EXCEPT SELECT …` |
| `WITH q AS [NOT] MATERIALIZED (…)` | `WITH q AS (…)` |
| `1_000` | `1000` |
| `EXTRACT(EPOCH FROM a)`, also MILLISECONDS and the like | `epoch(a)` |
| `INTERVAL 3 DAYS` | `INTERVAL '3 DAYS'` |
| `list[:2]`, `list[2:]` | `list[1:2]`, `list[2:-1]` |
| `a GLOB 'x*'` | `a LIKE 'x%'` |
| `props:a.b[0]` | `json_extract_string(props, '$."a"."b"[0]')` |
| `s::json ->> 'a'` | `s ->> 'a'` |
| `LATERAL FLATTEN(input => a) f` | `unnest(a) AS f(value)` |
| `LATERAL (SELECT unnest(a) AS x) f` | `unnest(a) AS f(x)` |
| `LATERAL VIEW explode(a) f AS x` | `CROSS JOIN unnest(a) AS f(x)` |
| `[x + 1 FOR x IN a IF x > 1]` | `list_comprehension(lambda x : x + 1, a, lambda x : x > 1)`, a macro |
| `list_filter(a, x -> x > 1)` | `list_filter(a, lambda x : x > 1)`: other arrows are those of documents |
| `l[1].a`, `(s).a` | `l[1]['a']`, `(s)['a']` |
| `list_filter(a, x -> x.b > 1)` | `list_filter(a, lambda x : x['b'] > 1)` |

Escapes are `{fn …}`, `{d '…'}` and the like. They are read with the statement, before it is known whether it is a query.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType

from lance_flight.engine.sql.clause_words import UNITS
from lance_flight.engine.sql.references import relation_places, text_literal
from lance_flight.engine.sql.tokens import Edit, Kind, TextPlaces, Token, closing_places, edit_text, place_in, tokenize
from lance_flight.errors import LimitExceeded, SqlError, Unsupported

LAMBDA = re.compile(r"\blambda\s+\w+\s*:|\)\s*->", re.IGNORECASE)
"""Matches the lambdas of a text, which only DuckDB's dialect of DataFusion's parser reads."""
SHOWN_LAMBDA = re.compile(r"\blambda (\w+) : ")
"""Matches the beginning of a lambda in the name of a column, which was written as an arrow."""
_WITH_LAMBDAS = frozenset(
    [
        *("array_filter", "list_filter", "filter", "array_transform", "list_transform", "transform"),
        *("list_apply", "array_apply", "apply", "array_any_match", "list_any_match", "any_match", "exists"),
    ]
)
_SUSPECTS = re.compile(
    r"\b(?:ISNULL|NOTNULL|MINUS|MATERIALIZED|FLATTEN|LATERAL|EXPLODE|EXPLODE_OUTER|FOR|GLOB|JSONB?|INTERVAL|EXTRACT)\b|\d_|\w:[\w\"]|[)\]}]\s*\.|->|\blambda\b|\[\s*:|:\s*\]",
    re.IGNORECASE,
)
_GROUPS = re.compile(r"(?:_\d+)+")
_NAMES = frozenset({Kind.WORD, Kind.NAME})
_LIKE = str.maketrans({"*": "%", "?": "_", "%": "\\%", "_": "\\_"})
_TESTS = {"ISNULL": "IS NULL", "NOTNULL": "IS NOT NULL"}
_EXTRACTED = {"EPOCH": "epoch"} | {
    word: name for name in ("millisecond", "microsecond", "nanosecond") for word in (name.upper(), f"{name.upper()}S")
}
"""Words of EXTRACT that are functions of their own."""
_OPERATORS = frozenset([*_TESTS, "EXTRACT", "GLOB", "INTERVAL"])
_FLATTEN = "FLATTEN takes input and outer here, and gives value; write FROM t, unnest(t.list) AS f(value)"


def spelling_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    r"""Return the edits that write such words in those of DataFusion.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT props:a, 1_000 FROM t, LATERAL FLATTEN(input => t.l) f WHERE a NOTNULL"
    >>> edit_text(text, spelling_edits(text, tokenize(text)))
    'SELECT json_extract_string(props, \'$."a"\'), 1000 FROM t, unnest(t.l) AS f(value) WHERE a IS NOT NULL'
    """
    return list(_Reader(text, tokens).edits()) if _SUSPECTS.search(text) else []


class _Reader(TextPlaces):
    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        super().__init__(text, tokens)
        self._variables: list[tuple[int, str]] = []
        """Places at which the lambdas around a token end, and their variables."""
        self._named = Counter[str]()
        self._field = -1
        """Place of the point before the last field of a variable."""

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of the whole text."""
        opened = [""]
        for at, token in enumerate(self.tokens):
            while self._variables and at > self._variables[-1][0]:
                self._named[self._variables.pop()[1]] -= 1
            if token.kind is Kind.SIGN and token.text in "([{":
                opened.append(token.text)
                yield from self._comprehension(at) if token.text == "[" else ()
            elif token.kind is Kind.SIGN and token.text in ")]}":
                opened = opened[:-1] or [""]
            elif token.is_sign(":") and opened[-1] in {"", "("}:
                yield from self._path(at)
            elif token.is_sign(":") and opened[-1] == "[":
                first, last = "1" * self.is_sign(at - 1, "["), "-1" * self.is_sign(at + 1, "]")
                yield from [(token.start, token.stop, f"{first}:{last}")] if first or last else []
            elif token.is_sign(".") and (self._is_of_variable(at) or self._is_of_value(at)):
                yield token.start, self.tokens[at + 1].stop, f"[{text_literal(self.text(at + 1))}]"
            elif token.word or token.kind is Kind.NAME:
                yield from self._word(at, token.word)

    def _word(self, at: int, word: str) -> Iterator[Edit]:
        token, before = self.tokens[at], self.word_at(at - 1)
        is_call = self.is_sign(at + 1, "(")
        if word in _OPERATORS:
            yield from self._operator(at, word)
        elif word == "MINUS" and self.ends_operand(at - 1) and self._begins_query(at + 1):
            yield token.start, token.stop, "EXCEPT"
        elif word == "MATERIALIZED" and is_call and "AS" in {before, self.word_at(at - 2)}:
            yield self.tokens[at - (before == "NOT")].start, token.stop, ""
        elif (
            token.text.startswith("_") and self.kind(at - 1) is Kind.NUMBER and self.tokens[at - 1].stop == token.start
        ):
            yield from self._digits(at)
        elif word == "FLATTEN" and is_call and self._begins_relation(at):
            yield from self._flatten(at)
        elif word == "LATERAL":
            yield from self._view(at) if self.word_at(at + 1) == "VIEW" else self._unnest(at)
        elif word in {"JSON", "JSONB"} and self.is_sign(at - 1, "::"):
            is_arrow = self._is_arrow(at + 1)
            yield self.tokens[at - is_arrow].start, token.stop, "" if is_arrow else "VARCHAR"
        elif is_call and token.text.lower() in _WITH_LAMBDAS:
            yield from self._arrow(at)

    def _operator(self, at: int, word: str) -> Iterator[Edit]:
        token, is_infix = self.tokens[at], self.ends_operand(at - 1) and self.word_at(at - 1) != "AS"
        if word in _TESTS and is_infix and not self.is_sign(at + 1, "("):
            yield token.start, token.stop, _TESTS[word]
        elif word == "GLOB" and is_infix and self.kind(at + 1) is Kind.STRING:
            yield from self._glob(at)
        elif word == "EXTRACT" and self.word_at(at + 2) in _EXTRACTED and self.word_at(at + 3) == "FROM":
            yield token.start, self.tokens[at + 3].stop, f"{_EXTRACTED[self.word_at(at + 2)]}("
        elif word == "INTERVAL" and self.kind(at + 1) is Kind.NUMBER and self.word_at(at + 2).rstrip("S") in UNITS:
            number, unit = self.tokens[at + 1 : at + 3]
            yield number.start, unit.stop, f"'{number.text} {unit.text}'"

    def _glob(self, at: int) -> Iterator[Edit]:
        token, pattern = self.tokens[at : at + 2]
        if "[" in pattern.text or "\\" in pattern.text:
            raise self._unsupported(
                f"GLOB takes * and ? here; write a ~ '^[a-c].*$' for the pattern {pattern.text!r}", at
            )
        like = pattern.text.translate(_LIKE)
        yield token.start, pattern.stop, f"LIKE {text_literal(like)}"

    def _digits(self, at: int) -> Iterator[Edit]:
        token, before = self.tokens[at], self.tokens[at - 1]
        if _GROUPS.fullmatch(token.text) is None:
            raise self._unsupported(
                f"{before.text}{token.text} is no number; write its digits without _, or AS before a name", at - 1
            )
        yield token.start, token.stop, token.text.replace("_", "")

    def _unsupported(self, said: str, at: int) -> Unsupported:
        return Unsupported(f"{said}{place_in(self._text, self.tokens[at].start)}")

    def _begins_query(self, at: int) -> bool:
        at += self.word_at(at) in {"ALL", "DISTINCT"}
        return self.word_at(at) in {"SELECT", "WITH", "VALUES", "FROM"} or self.first_word(at) == "SELECT"

    # --- paths

    def _path(self, at: int) -> Iterator[Edit]:
        """Yield the edits of a path behind a column."""
        column, key = self.tokens[at - 1] if at else None, self.tokens[at + 1] if at + 1 < len(self.tokens) else None
        is_path = column is not None and column.kind in _NAMES and column.stop == self.tokens[at].start
        if column is None or key is None or not is_path or key.kind not in _NAMES or key.start != self.tokens[at].stop:
            return
        first = at - 1
        while self.is_sign(first - 1, ".") and self.kind(first - 2) in _NAMES:
            first -= 2
        if self.word_at(first - 1) == "LAMBDA":
            return
        path, place = f"$.{json.dumps(key.text, ensure_ascii=False)}", at + 2
        while True:
            step, inner = self.text(place), self.kind(place + 1)
            if step == "." and inner in _NAMES:
                path += f".{json.dumps(self.text(place + 1), ensure_ascii=False)}"
                place += 2
            elif step == "[" and self.is_sign(place + 2, "]") and inner in {Kind.NUMBER, Kind.STRING}:
                name = self.text(place + 1)
                path += f"[{name}]" if inner is Kind.NUMBER else f"[{json.dumps(name, ensure_ascii=False)}]"
                place += 3
            else:
                break
        yield self.tokens[first].start, self.tokens[first].start, "json_extract_string("
        yield self.tokens[at].start, self.tokens[place - 1].stop, f", {text_literal(path)})"

    # --- lists

    def _is_of_value(self, at: int) -> bool:
        """Return whether a point reads a field of a value: of an element, a literal, or what is in brackets."""
        is_field = self.kind(at + 1) in _NAMES and not self.is_sign(at + 2, "(")
        while self.kind(at - 1) in _NAMES and self.is_sign(at - 2, "."):
            at -= 2
        return is_field and self.kind(at - 1) is Kind.SIGN and self.text(at - 1) in ")]}"

    @cached_property
    def _relations(self) -> frozenset[int]:
        return relation_places(self)

    def _written(self, at: int) -> str:
        """Return a name as it is written, with its quotes."""
        return self._text[self.tokens[at].start : self.tokens[at].stop]

    def _begins_relation(self, at: int) -> bool:
        before = self.word_at(at - 1)
        return before in {"LATERAL", "FROM", "JOIN"} or self.word_at(at - 2) == "TABLE" or at - 1 in self._relations

    def _flatten(self, at: int) -> Iterator[Edit]:
        first, closed = at, self._closing.get(at + 1)
        if closed is None:
            return
        begun, stop, is_outer = at + 2, closed, False
        for option in self._arguments(at + 2, closed)[1:]:
            is_outer = [self.text(each).upper() for each in option] == ["OUTER", "=", ">", "TRUE"]
            if not is_outer:
                raise Unsupported(_FLATTEN)
            stop = option.start - 1
        if self.text(begun + 1) == "=":
            if self.word_at(begun) != "INPUT":
                raise Unsupported(_FLATTEN)
            begun += 3
        last = closed
        if self.is_sign(first - 1, "(") and self.word_at(first - 2) == "TABLE":
            first, last = first - 2, closed + 1
        first -= self.word_at(first - 1) == "LATERAL"
        end = last + 1 + (self.word_at(last + 1) == "AS")
        has_alias = self.kind(end) in _NAMES and not self.is_sign(end + 1, "(") and self.is_alias(end)
        name = self._written(end) if has_alias else "flatten"
        column = "" if self.is_sign(end + 1, "(") else f" AS {name}(value)"
        if is_outer and not self.is_sign(first - 1, ","):
            raise Unsupported(
                "FLATTEN with outer is read behind a comma; write LEFT JOIN unnest(t.list) AS f(value) ON true"
            )
        outer, condition = (" LEFT JOIN ", " ON true") if is_outer else ("", "")
        yield self.tokens[first - is_outer].start, self.tokens[begun].start, f"{outer}unnest("
        yield self.tokens[stop - 1].stop, self.tokens[end if has_alias else last].stop, f"){column}{condition}"

    def _unnest(self, at: int) -> Iterator[Edit]:
        """Yield the edit of `LATERAL (SELECT unnest(a) AS x) f`; none of another query."""
        called, closed = at + 3, self._closing.get(at + 1, 0)
        ends = self._closing.get(called + 1, 0)
        named = ends + 1 + (self.word_at(ends + 1) == "AS")
        if [self.word_at(at + 2), self.word_at(called)] != ["SELECT", "UNNEST"] or closed not in {ends + 1, named + 1}:
            return
        end = closed + 1 + (self.word_at(closed + 1) == "AS")
        has_alias = self.kind(end) in _NAMES and self.is_alias(end)
        column = self._written(named) if named < closed else "unnest"
        name = self._written(end) if has_alias else "unnest"
        last = end if has_alias else closed
        yield self.tokens[at].start, self.tokens[called].start, ""
        if not self.is_sign(last + 1, "("):
            yield self.tokens[ends].stop, self.tokens[last].stop, f" AS {name}({column})"
        else:
            yield self.tokens[ends].stop, self.tokens[closed].stop, ""

    def _view(self, at: int) -> Iterator[Edit]:
        """Yield the edit of `LATERAL VIEW [OUTER] explode(a) f AS x`; none of another function, which is refused by its name."""
        called = at + 2 + (self.word_at(at + 2) == "OUTER")
        closed = self._closing.get(called + 1, 0)
        if self.word_at(called) not in {"EXPLODE", "EXPLODE_OUTER"} or self.word_at(closed + 2) != "AS":
            return
        is_outer = called > at + 2 or self.word_at(called) == "EXPLODE_OUTER"
        join, condition = ("LEFT", " ON true") if is_outer else ("CROSS", "")
        named = f"{self._written(closed + 1)}({self._written(closed + 3)})"
        yield self.tokens[at].start, self.tokens[called + 2].start, f"{join} JOIN unnest("
        yield self.tokens[closed].start, self.tokens[closed + 3].stop, f") AS {named}{condition}"

    def _arguments(self, first: int, closed: int) -> list[range]:
        ranges, begun, at = [], first, first
        while at < closed:
            if self.is_sign(at, ","):
                ranges.append(range(begun, at))
                begun = at + 1
            at = self._closing.get(at, at) + 1
        return [*ranges, range(begun, closed)]

    # --- lambdas

    def _comprehension(self, at: int) -> Iterator[Edit]:
        """Yield the edits of `[f FOR x IN a IF c]`, whose bracket opens at a token."""
        closed = self._closing.get(at, at)
        begun = self._word_before(at + 1, closed, "FOR")
        if (
            self.kind(begun + 1) not in _NAMES
            or self.word_at(begun + 2) != "IN"
            or len(self._arguments(at + 1, begun)) > 1
        ):
            return
        tokens, variable = self.tokens, self._text[self.tokens[begun + 1].start : self.tokens[begun + 1].stop]
        self._begin(begun + 1, closed)
        yield tokens[at].start, tokens[at].stop, f"list_comprehension(lambda {variable} : "
        yield tokens[begun].start, tokens[begun + 2].stop, ", "
        condition = self._word_before(begun + 4, closed, "IF")
        if condition < closed:
            yield tokens[condition].start, tokens[condition].stop, f", lambda {variable} : "
        yield tokens[closed].start, tokens[closed].stop, ")"

    def _word_before(self, at: int, closed: int, word: str) -> int:
        """Return the place of a word outside of any bracket; that of the end where there is none."""
        while at < closed and self.word_at(at) != word:
            at = self._closing.get(at, at) + 1
        return min(at, closed)

    def _arrow(self, at: int) -> Iterator[Edit]:
        arguments = self._arguments(at + 2, self._closing.get(at + 1, at + 2))
        first = arguments[1].start if len(arguments) > 1 else len(self.tokens)
        is_bracketed = self.is_sign(first, "(") and self.is_sign(first + 2, ")")
        name, arrow = first + is_bracketed, first + 1 + 2 * is_bracketed
        if self.kind(name) is Kind.WORD and self._is_arrow(arrow):
            self._begin(name, self._closing.get(at + 1, name))
            yield self.tokens[first].start, self.tokens[arrow + 1].stop, f"lambda {self.text(name)} :"
        elif self.word_at(first) == "LAMBDA" and self.is_sign(first + 2, ":"):
            self._begin(first + 1, self._closing.get(at + 1, first))
        elif not (self.is_sign(first, "(") and self.word_at(first + 1)):
            return
        if self.word_at(at) == "EXISTS":
            yield self.tokens[at].start, self.tokens[at].stop, "array_any_match"

    def _is_of_variable(self, at: int) -> bool:
        """Return whether a point stands behind the variable of a lambda, or behind a field of one."""
        is_first = self._named[self.text(at - 1)] > 0 and not self.is_sign(at - 2, ".")
        if self.kind(at + 1) not in _NAMES or not (is_first or at - 2 == self._field):
            return False
        self._field = at
        return True

    def _begin(self, name: int, closed: int) -> None:
        """Begin a lambda, whose variable is a token."""
        self._variables.append((closed, self.text(name)))
        self._named[self.text(name)] += 1

    def _is_arrow(self, at: int) -> bool:
        return self.is_sign(at, "-") and self.is_sign(at + 1, ">") and self.tokens[at].stop == self.tokens[at + 1].start


MOST_DEPTH = 32
"""Most escapes within one another."""
MOST_GROWTH = 1 << 20
"""Most characters of an escape in the words of DataFusion: some of these say an argument twice."""
_LITERALS = MappingProxyType({"D": "DATE", "T": "TIME", "TS": "TIMESTAMP", "ESCAPE": "ESCAPE"})
_WORDS = frozenset({*_LITERALS, "FN", "OJ"})


def without_escapes(sql: str) -> str:
    """Return a statement whose escapes are in the words of DataFusion; braces that begin none are left alone.

    >>> without_escapes("SELECT {fn TRUNCATE(a, 1)} FROM t WHERE d = {d '2024-01-31'}")
    "SELECT trunc(a, 1) FROM t WHERE d = DATE '2024-01-31'"
    """
    if "{" not in sql:
        return sql
    tokens = tokenize(sql)
    opened: list[tuple[int, bool]] = []
    # Inner escapes come first: an outer one is made of what they have become.
    for place, token in enumerate(tokens):
        if token.is_sign("{"):
            opened.append((place, _is_escape(tokens, place)))
            if sum(is_escape for _, is_escape in opened) > MOST_DEPTH:
                raise LimitExceeded(f"there are more than {MOST_DEPTH} escapes within one another; expected fewer")
        elif token.is_sign("}") and opened:
            opened.pop()
    return _Text(sql, tokens).between(0, len(tokens), 0, len(sql))


def _is_escape(tokens: Sequence[Token], place: int) -> bool:
    word, after = (tokens[at] if at < len(tokens) else None for at in (place + 1, place + 2))
    if word is None or after is None or word.word not in _WORDS:
        return False
    return (
        after.kind is Kind.STRING
        if word.word in _LITERALS
        else after.kind in {Kind.WORD, Kind.NAME} or after.is_sign("(")
    )


class _Text:
    """A statement with escapes, and its tokens."""

    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        self.sql = sql
        self.tokens = tokens
        self.closing = closing_places(tokens, "{", "}")

    def between(self, first: int, last: int, start: int, stop: int) -> str:
        """Return the text from `start` to `stop`, which the tokens from `first` up to before `last` lie in, without escapes."""
        parts, place = [], first
        while place < last:
            end = self.closing.get(place)
            if end is None or not _is_escape(self.tokens, place):
                place += 1
                continue
            parts += [self.sql[start : self.tokens[place].start], self._escape(place, end)]
            start, place = self.tokens[end].stop, end + 1
        return "".join([*parts, self.sql[start:stop]])

    def _escape(self, place: int, end: int) -> str:
        word = self.tokens[place + 1]
        inside = self.between(place + 2, end, self.tokens[place + 2].start, self.tokens[end].start).strip()
        if word.word in _LITERALS:
            return f"{_LITERALS[word.word]} {inside}"
        rewritten = inside if word.word == "OJ" else _function(inside)
        if len(rewritten) > MOST_GROWTH:
            raise LimitExceeded(f"the escape at character {word.start} is longer than {MOST_GROWTH:,} characters")
        return rewritten


def _function(call: str) -> str:
    """Return a call of a function of ODBC's in the words of DataFusion."""
    tokens = tokenize(call)
    name = tokens[0].word
    write = _FUNCTIONS.get(name)
    if write is None or len(tokens) < 3 or not tokens[1].is_sign("(") or not tokens[-1].is_sign(")"):  # noqa: PLR2004
        return call
    return write(name, _arguments(call, tokens))


def _arguments(call: str, tokens: Sequence[Token]) -> list[str]:
    """Return the arguments of a call, as they are written."""
    depth, starts = 0, [tokens[1].stop]
    stops = []
    for token in tokens[2:-1]:
        if token.kind is Kind.SIGN:
            depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0 and token.is_sign(","):
            stops.append(token.start)
            starts.append(token.stop)
    stops.append(tokens[-1].start)
    arguments = [call[start:stop].strip() for start, stop in zip(starts, stops, strict=True)]
    return [] if arguments == [""] else arguments


_Write = Callable[[str, Sequence[str]], str]


def _check(template: str, counts: tuple[int, ...], name: str, arguments: Sequence[str]) -> str:
    if len(arguments) not in counts:
        expected = " or ".join(map(str, counts))
        raise SqlError(f"{{fn {name}(…)}} has {len(arguments)} arguments; expected {expected}")
    # One pass: an argument may have braces of its own.
    return edit_text(template, [(at, at + 2, arguments[int(template[at + 1])]) for at in _marks(template)])


def _marks(template: str) -> list[int]:
    return [at for at, sign in enumerate(template) if sign == "#"]


def _as(template: str, *counts: int) -> _Write:
    """Write a function by a template with `#0`, `#1` … for its arguments."""
    return partial(_check, template, counts or (len(set(_numbers(template))),))


def _numbers(template: str) -> list[str]:
    return [template[at + 1] for at in _marks(template)]


def _rename(to: str) -> _Write:
    return lambda _, arguments: f"{to}({', '.join(arguments)})"


_CONVERTED: Mapping[str, str] = MappingProxyType(
    {
        **{
            name: name
            for name in (
                "BIGINT",
                "SMALLINT",
                "TINYINT",
                "INTEGER",
                "DOUBLE",
                "REAL",
                "FLOAT",
                "DATE",
                "TIME",
                "BOOLEAN",
            )
        },
        **dict.fromkeys(
            ("VARCHAR", "CHAR", "LONGVARCHAR", "WVARCHAR", "WCHAR", "WLONGVARCHAR", "NVARCHAR", "NCHAR"), "VARCHAR"
        ),
        **dict.fromkeys(("DECIMAL", "NUMERIC"), "DECIMAL(38, 10)"),
        **dict.fromkeys(("VARBINARY", "BINARY", "LONGVARBINARY"), "VARBINARY"),
        **dict.fromkeys(("TIMESTAMP", "TYPE_TIMESTAMP"), "TIMESTAMP"),
        "BIT": "BOOLEAN",
        "TYPE_DATE": "DATE",
        "TYPE_TIME": "TIME",
    }
)


def _convert(name: str, arguments: Sequence[str]) -> str:
    value, kind = arguments if len(arguments) == 2 else ("", "")  # noqa: PLR2004
    known = _CONVERTED.get(kind.upper().removeprefix("SQL_"))
    if known is None:
        listed = ", ".join(sorted(f"SQL_{each}" for each in _CONVERTED))
        raise SqlError(
            f"{{fn {name}(…)}} has the type {kind or 'of no argument'}; expected two arguments, the second one of {listed}"
        )
    return f"CAST({value} AS {known})"


_SECONDS = MappingProxyType({"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": 86_400, "WEEK": 604_800})
_MONTHS = MappingProxyType({"MONTH": 1, "QUARTER": 3, "YEAR": 12})


def _unit(name: str, arguments: Sequence[str]) -> str:
    unit = arguments[0].upper().removeprefix("SQL_TSI_") if len(arguments) == 3 else ""  # noqa: PLR2004
    if unit not in _SECONDS and unit not in _MONTHS:
        listed = ", ".join(f"SQL_TSI_{each}" for each in (*_SECONDS, *_MONTHS))
        raise SqlError(f"{{fn {name}(…)}} is not understood; expected three arguments, the first one of {listed}")
    return unit


def _timestamp_add(name: str, arguments: Sequence[str]) -> str:
    unit, (_, count, moment) = _unit(name, arguments), arguments
    days = _SECONDS.get(unit, 0) // _SECONDS["DAY"]
    number, step = (
        (_MONTHS[unit], "months") if unit in _MONTHS else (days or _SECONDS[unit], "days" if days else "seconds")
    )
    # A date has no seconds to add to.
    begin = f"CAST({moment} AS TIMESTAMP)" if step == "seconds" else moment
    return f"({begin} + CAST(CAST(CAST({count} AS BIGINT) * {number} AS VARCHAR) || ' {step}' AS INTERVAL))"


def _timestamp_diff(name: str, arguments: Sequence[str]) -> str:
    unit, (_, begin, end) = _unit(name, arguments), arguments
    if unit in _SECONDS:
        seconds = f"CAST(date_part('epoch', {end}) - date_part('epoch', {begin}) AS BIGINT)"
        return f"({seconds} / {_SECONDS[unit]})"
    months = [f"date_part('year', {value}) * 12 + date_part('month', {value}) - 1" for value in (end, begin)]
    return f"(({months[0]}) / {_MONTHS[unit]} - ({months[1]}) / {_MONTHS[unit]})"


_FUNCTIONS: Mapping[str, _Write] = MappingProxyType(
    {
        "DAYOFWEEK": _as("(date_part('dow', #0) + 1)"),
        "CURRENT_DATE": _as("current_date()", 0),
        "CURRENT_TIME": _as("current_time()", 0, 1),
        "CURRENT_TIMESTAMP": _as("now()", 0, 1),
        "TIMESTAMPADD": _timestamp_add,
        "TIMESTAMPDIFF": _timestamp_diff,
        "LENGTH": _rename("character_length"),
        "TRUNCATE": _rename("trunc"),
        "RAND": _as("random()", 0, 1),
        "LOG": _rename("ln"),
        "USER": _as("current_user", 0),
        "CONVERT": _convert,
    }
)
"""Functions of ODBC whose arguments or meaning are others in SQL here; all others are written as they are."""
