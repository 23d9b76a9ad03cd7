"""Cursor over SQL text, for parsing the statements that DataFusion does not handle, with their WITH (name = value, …)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from string import ascii_lowercase, ascii_uppercase

from lance_flight.engine.sql.tokens import MOST_DIGITS, QUOTED, Kind, Token, spelled_out, tokenize
from lance_flight.errors import SqlError
from lance_flight.model.index_kinds import OptionValue

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
