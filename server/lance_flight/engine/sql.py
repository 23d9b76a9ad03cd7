"""A cursor over SQL text for our own statements, and the few rewrites that DataFusion needs.

Queries reach DataFusion as the client wrote them, but for placeholders, type names and the clauses of `clauses.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from string import ascii_lowercase, ascii_uppercase

from lance_flight.engine.boolean_chains import chain_edits
from lance_flight.engine.bounds import check_bounds
from lance_flight.engine.clauses import clause_edits
from lance_flight.engine.comparisons import comparison_edits
from lance_flight.engine.growth import check_growth
from lance_flight.engine.tokens import QUOTED, Kind, Token, tokenize, tokens_of
from lance_flight.engine.with_expansion import check_expansion
from lance_flight.errors import LimitExceeded, SqlError

MOST_PARAMETERS = 65_535
"""Values of one row that a statement takes: each is a column of a record batch."""
_MOMENTS = {"TIMESTAMP", "TIMESTAMPTZ", "DATETIME"}
_TYPED = ("DATE", "TIME", *sorted(_MOMENTS))
_BOOLEANS = ("TRUE", "FALSE")
_BINARY = {"VARBINARY", "BINARY", "BLOB"}
_FOLDED = str.maketrans(ascii_uppercase, ascii_lowercase)


@dataclass(slots=True)
class Cursor:
    """Reads a statement token by token; every error names what came and what was expected.

    `db_schema` is where the tables are that it names without a schema (None: the default one). Errors name positions in `sent`, where that
    is another text: its tokens from the number `first` on are those of the cursor.
    """

    text: str
    tokens: list[Token]
    at: int = 0
    db_schema: str | None = None
    sent: str | None = None
    first: int = 0

    @classmethod
    def over(cls, text: str, db_schema: str | None = None, sent: str | None = None, first: int = 0) -> Cursor:
        """A cursor at the first token of one statement; a closing semicolon is dropped."""
        tokens = tokenize(text)
        while tokens and tokens[-1].is_sign(";"):
            tokens.pop()
        if not tokens:
            raise SqlError("the statement is empty")
        return cls(text, tokens, db_schema=db_schema, sent=sent, first=first)

    @property
    def done(self) -> bool:
        """Whether every token was read."""
        return self.at >= len(self.tokens)

    def peek(self, *words: str) -> bool:
        """Whether the next tokens are these words or signs, in any case."""
        coming = self.tokens[self.at : self.at + len(words)]
        texts = [token.text.upper() for token in coming if token.kind not in QUOTED]
        return texts == [word.upper() for word in words]

    def accept(self, *words: str) -> bool:
        """Read these words if they come next."""
        if not self.peek(*words):
            return False
        self.at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Read these words, or fail."""
        if not self.accept(*words):
            raise self.error(" ".join(words))

    def error(self, expected: str) -> SqlError:
        """What is wrong here."""
        if self.done:
            return SqlError(f"expected {expected}, got the end of the statement")
        text, tokens = (self.text, self.tokens) if self.sent is None else (self.sent, tokenize(self.sent)[self.first :])
        token = tokens[self.at]
        return SqlError(f"expected {expected}, got {text[token.start : token.stop]!r} at character {token.start + 1}")

    def name(self, what: str) -> str:
        """Read one identifier; the ASCII letters of an unquoted one are folded to lower case, as in queries."""
        token = self._read(what, Kind.WORD, Kind.NAME)
        return token.text if token.kind is Kind.NAME else token.text.translate(_FOLDED)

    def number(self, what: str) -> int:
        """Read one whole number."""
        if not self.done and not self.tokens[self.at].text.isdigit():
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
        """Read one identifier, string literal or number; its text."""
        token = self._read(what, Kind.WORD, Kind.NAME, Kind.STRING, Kind.NUMBER)
        return token.text.translate(_FOLDED) if token.kind is Kind.WORD else token.text

    @property
    def at_literal(self) -> bool:
        """Whether a number or a text in quotes comes next."""
        return not self.done and self.tokens[self.at].kind in (Kind.NUMBER, Kind.STRING)

    def literal(self, what: str) -> str:
        """Read one literal but for NULL and bytes, `'…'`, `-1.5`, `TRUE`, `DATE '…'`; the text of its value."""
        for word in _BOOLEANS:
            if self.accept(word):
                return word.lower()
        if any(self.accept(word) for word in _TYPED):
            return self.string(what)
        sign = "-" if self.accept("-") else ""
        return sign + self._read(what, Kind.NUMBER, *([] if sign else [Kind.STRING])).text

    def source(self, start: int, stop: int) -> str:
        """The text of the tokens `start` to `stop`, as it was written."""
        if start >= stop:
            return ""
        return self.text[self.tokens[start].start : self.tokens[stop - 1].stop]

    def until(self, *stops: str) -> str:
        """Read up to (not including) the first of `stops` outside of any bracket or CASE, and return that text.

        A closing bracket that was not opened here, and a semicolon, end it as well.
        """
        start, depth = self.at, 0
        while not self.done:
            token = self.tokens[self.at]
            word = "" if token.kind in QUOTED else token.text.upper()
            is_closing = token.kind is Kind.SIGN and token.text in ")]}"
            if (depth == 0 and (is_closing or word in stops)) or word == ";":
                break
            is_opening = token.kind is Kind.SIGN and token.text in "([{"
            depth += (is_opening or word == "CASE") - (is_closing or word == "END")
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

    def bracketed(self) -> str:
        """Read a bracket with all that is in it."""
        start, depth = self.at, 1
        self.expect("(")
        while not self.done and (depth > 1 or not self.peek(")")):
            depth += self.peek("(") - self.peek(")")
            self.at += 1
        self.expect(")")
        return self.source(start, self.at)

    def rest(self) -> str:
        """Read everything that is left."""
        start, self.at = self.at, len(self.tokens)
        return self.source(start, self.at)

    def end(self) -> None:
        """Fail unless everything was read."""
        if not self.done:
            raise self.error("the end of the statement")

    def _read(self, what: str, *kinds: Kind) -> Token:
        if self.done or self.tokens[self.at].kind not in kinds:
            raise self.error(what)
        self.at += 1
        return self.tokens[self.at - 1]


def for_datafusion(text: str) -> str:
    """`text` as DataFusion plans it: `?` numbered, type names that it has, no clause that it would drop (`Unsupported`).

    >>> for_datafusion("SELECT CAST(a AS TIMESTAMP), b::varbinary FROM t WHERE c = ?")
    'SELECT CAST(a AS TIMESTAMP(6)), b::BYTEA FROM t WHERE c = $1'
    """
    text = numbered(text)
    tokens = tokenize(text)
    rewrites = clause_edits(text, tokens) + comparison_edits(tokens)
    if rewrites:
        text = edited(text, rewrites)
        tokens = tokenize(text)
    chains = chain_edits(tokens)
    if chains:
        text = edited(text, chains)
        tokens = tokenize(text)
    check_bounds(text, tokens)
    check_expansion(tokens)
    check_growth(text, tokens)
    edits: list[tuple[int, int, str]] = []
    for place in _type_places(tokens):
        edits += _type_edits(tokens, place)
    return edited(text, edits)


def numbered(text: str) -> str:
    """`text` with each `?` as the parameter that it is, so that its parts may be put into another order.

    >>> numbered("UPDATE t SET a = ? WHERE b = ?")
    'UPDATE t SET a = $1 WHERE b = $2'
    """
    if "?" not in text:
        return text
    found = (token for token in tokens_of(text) if token.kind is Kind.PARAMETER and token.text == "?")
    marks = list(islice(found, MOST_PARAMETERS + 1))
    if len(marks) > MOST_PARAMETERS:
        raise LimitExceeded(f"the statement has more than {MOST_PARAMETERS} parameters; expected fewer, or an ingest")
    return edited(text, [(mark.start, mark.stop, _apart(text, mark, f"${n}")) for n, mark in enumerate(marks, 1)])


def _apart(text: str, token: Token, new: str) -> str:
    """`new` in place of a token, kept from becoming one word with what stands beside it."""
    before, after = text[token.start - 1 : token.start], text[token.stop : token.stop + 1]
    return " " * _is_of_word(before) + new + " " * _is_of_word(after)


def _is_of_word(sign: str) -> bool:
    return sign.isalnum() or (bool(sign) and sign in "_$@#")


def sql_type(text: str) -> str:
    """A column type as DataFusion reads it.

    >>> sql_type("timestamptz"), sql_type("VARBINARY(10)"), sql_type("BIGINT UNSIGNED")
    ('timestamptz(6)', 'BYTEA', 'BIGINT UNSIGNED')
    """
    tokens = tokenize(text)
    return edited(text, [edit for place in range(len(tokens)) for edit in _type_edits(tokens, place)])


def _type_edits(tokens: list[Token], place: int) -> list[tuple[int, int, str]]:
    """How the type name at `place` has to be written: TIMESTAMP is microseconds, binary is BYTEA."""
    token, following = tokens[place], tokens[place + 1] if place + 1 < len(tokens) else None
    has_length = following is not None and following.is_sign("(")
    if token.word in _MOMENTS:
        name = "TIMESTAMP" if token.word == "DATETIME" else token.text
        new = name + "(6)" * (not has_length)
        return [(token.start, token.stop, new)] if new != token.text else []
    if token.word in _BINARY:
        closed = [token.stop for token in tokens[place + 2 : place + 4] if has_length and token.is_sign(")")]
        return [(token.start, closed[0] if closed else token.stop, "BYTEA")]
    return []


def _type_places(tokens: list[Token]) -> Iterable[int]:
    """The places of type names: after `::`, after AS inside CAST or TRY_CAST, and before a literal."""
    casts: list[bool] = []
    for place in range(1, len(tokens)):
        before = tokens[place - 1]
        if before.is_sign("("):
            casts.append(place > 1 and tokens[place - 2].word in {"CAST", "TRY_CAST"})
        elif before.is_sign(")") and casts:
            casts.pop()
        elif before.is_sign("::") or (before.word == "AS" and casts and casts[-1]):
            yield place
        elif tokens[place].kind is Kind.STRING and before.word in _MOMENTS:
            yield place - 1


def edited(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """`text` with each stretch (start, end) replaced."""
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(edits, key=itemgetter(0, 1)):
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]]) if parts else text
