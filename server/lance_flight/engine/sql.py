"""SQL text as tokens: a cursor for our own statements, and the few rewrites that DataFusion needs.

Queries reach DataFusion as the client wrote them, but for placeholders and type names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from lance_flight.errors import SqlError

_WORDS = {TokenType.VAR, TokenType.IDENTIFIER}
_QUOTED = {TokenType.IDENTIFIER, TokenType.STRING}
_MOMENTS = {"TIMESTAMP", "TIMESTAMPTZ", "DATETIME"}
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


class _Tokens(Tokenizer):
    """sqlglot's tokens, without its habit of reading the rest of SHOW, EXPLAIN … as one string."""

    COMMANDS: ClassVar[set[TokenType]] = set()


@dataclass(slots=True)
class Cursor:
    """Reads a statement token by token; every error names what came and what was expected."""

    text: str
    tokens: list[Token]
    at: int = 0

    @classmethod
    def over(cls, text: str) -> Cursor:
        """A cursor at the first token of one statement; a closing semicolon is dropped."""
        tokens = tokenize(text)
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        if not tokens:
            raise SqlError("the statement is empty")
        return cls(text, tokens)

    @property
    def done(self) -> bool:
        """Whether every token was read."""
        return self.at >= len(self.tokens)

    def peek(self, *words: str) -> bool:
        """Whether the next tokens are these words or signs, in any case."""
        coming = self.tokens[self.at : self.at + len(words)]
        texts = [token.text.upper() for token in coming if token.token_type not in _QUOTED]
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
        came = "the end of the statement" if self.done else repr(self.source(self.at, self.at + 1))
        return SqlError(
            f"expected {expected}, got {came}"
            + ("" if self.done else f" at character {self.tokens[self.at].start + 1}")
        )

    def name(self, what: str) -> str:
        """Read one identifier; unquoted ones are folded to lower case, as in queries."""
        if self.done or self.tokens[self.at].token_type is TokenType.STRING or not self._is_word(self.tokens[self.at]):
            raise self.error(what)
        token = self.tokens[self.at]
        self.at += 1
        return token.text if token.token_type is TokenType.IDENTIFIER else token.text.lower()

    def number(self, what: str) -> int:
        """Read one whole number."""
        if (
            self.done
            or self.tokens[self.at].token_type is not TokenType.NUMBER
            or not self.tokens[self.at].text.isdigit()
        ):
            raise self.error(what)
        self.at += 1
        return int(self.tokens[self.at - 1].text)

    def string(self, what: str) -> str:
        """Read one string literal."""
        if self.done or self.tokens[self.at].token_type is not TokenType.STRING:
            raise self.error(what)
        self.at += 1
        return self.tokens[self.at - 1].text

    def source(self, start: int, stop: int) -> str:
        """The text of the tokens `start` to `stop`, as it was written."""
        if start >= stop:
            return ""
        return self.text[self.tokens[start].start : self.tokens[stop - 1].end + 1]

    def until(self, *stops: str) -> str:
        """Read up to (not including) the first of `stops` outside of any bracket or CASE, and return that text.

        A closing bracket that was not opened here, and a semicolon, end it as well.
        """
        start, depth = self.at, 0
        while not self.done:
            token = self.tokens[self.at]
            word = "" if token.token_type in _QUOTED else token.text.upper()
            is_over = token.token_type is TokenType.SEMICOLON or (depth == 0 and token.token_type in _CLOSING)
            if is_over or (depth == 0 and word in stops):
                break
            depth += (token.token_type in _OPENING or word == "CASE") - (token.token_type in _CLOSING or word == "END")
            self.at += 1
        return self.source(start, self.at)

    def bracketed(self) -> str:
        """Read a bracket with all that is in it."""
        start = self.at
        self.expect("(")
        while not self.done and not self.peek(")"):
            if self.peek("("):
                self.bracketed()
            else:
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

    @staticmethod
    def _is_word(token: Token) -> bool:
        text = token.text
        return token.token_type in _WORDS or (bool(text) and (text[0].isalpha() or text[0] == "_"))


def tokenize(text: str) -> list[Token]:
    """The tokens of a text; comments are dropped."""
    try:
        return list(_Tokens().tokenize(text))
    except SqlglotError as exc:
        raise SqlError(f"the text is not SQL: {str(exc).splitlines()[0]}") from exc


def for_datafusion(text: str) -> str:
    """`text` with `?` numbered, and with the type names that DataFusion lacks or reads as nanoseconds.

    >>> for_datafusion("SELECT CAST(a AS TIMESTAMP), b::varbinary FROM t WHERE c = ?")
    'SELECT CAST(a AS TIMESTAMP(6)), b::BYTEA FROM t WHERE c = $1'
    """
    text = numbered(text)
    tokens = tokenize(text)
    edits: list[tuple[int, int, str]] = []
    for place in _type_places(tokens):
        edits += _type_edits(tokens, place)
    return edited(text, edits)


def numbered(text: str) -> str:
    """`text` with each `?` as the parameter that it is, so that its parts may be put into another order.

    >>> numbered("UPDATE t SET a = ? WHERE b = ?")
    'UPDATE t SET a = $1 WHERE b = $2'
    """
    marks = [t for t in tokenize(text) if t.token_type is TokenType.PLACEHOLDER and t.text == "?"]
    return edited(text, [(mark.start, mark.end + 1, f"${place}") for place, mark in enumerate(marks, 1)])


def sql_type(text: str) -> str:
    """A column type as DataFusion reads it.

    >>> sql_type("timestamptz"), sql_type("VARBINARY(10)"), sql_type("BIGINT UNSIGNED")
    ('timestamptz(6)', 'BYTEA', 'BIGINT UNSIGNED')
    """
    tokens = tokenize(text)
    return edited(text, [edit for place in range(len(tokens)) for edit in _type_edits(tokens, place)])


def _type_edits(tokens: list[Token], place: int) -> list[tuple[int, int, str]]:
    """How the type name at `place` has to be written: TIMESTAMP is microseconds, binary is BYTEA."""
    token = tokens[place]
    if token.token_type in _QUOTED:
        return []
    word, following = token.text.upper(), tokens[place + 1] if place + 1 < len(tokens) else None
    has_length = following is not None and following.token_type is TokenType.L_PAREN
    if word in _MOMENTS:
        name = "TIMESTAMP" if word == "DATETIME" else token.text
        return (
            [] if has_length and name == token.text else [(token.start, token.end + 1, name + "(6)" * (not has_length))]
        )
    if word in {"VARBINARY", "BINARY", "BLOB"}:
        end = tokens[place + 3].end if has_length else token.end
        return [(token.start, end + 1, "BYTEA")]
    return []


def _type_places(tokens: list[Token]) -> Iterable[int]:
    """The places of type names: after `::`, after AS inside CAST or TRY_CAST, and before a literal."""
    stack: list[bool] = []
    for place, token in enumerate(tokens):
        if token.token_type is TokenType.DCOLON:
            yield place + 1
        elif token.token_type is TokenType.L_PAREN:
            stack.append(place > 0 and tokens[place - 1].text.upper() in {"CAST", "TRY_CAST"})
        elif token.token_type is TokenType.R_PAREN and stack:
            stack.pop()
        elif stack and stack[-1] and token.text.upper() == "AS" and token.token_type not in _QUOTED:
            yield place + 1
        elif token.token_type is TokenType.STRING and place > 0 and tokens[place - 1].text.upper() in _MOMENTS:
            yield place - 1


def edited(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """`text` with each stretch (start, end) replaced."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text
