"""Tokenizer of SQL text by the rules of DataFusion's generic dialect: strings, comments, names, parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from lance_flight.errors import LimitExceeded, SqlError


class Kind(StrEnum):
    """Kind of a token; a text, which is hashed in a tenth of the time of a plain member."""

    WORD = "word"
    NAME = "name"
    """An identifier in quotes."""
    STRING = "string"
    """`'…'` or `$$…$$`; a prefix like that of `X'00'` is a word before it."""
    ESCAPED = "escaped"
    """`E'…'`, as it was written: its escapes are DataFusion's to read."""
    NUMBER = "number"
    PARAMETER = "parameter"
    """`?` or `$1`."""
    SIGN = "sign"


MOST_TOKENS = 400_000
"""Most tokens of a statement, except for the rows of a long INSERT; DataFusion's syntax tree takes about 500 bytes for each."""
_KEPT_TEXTS, _KEPT_LONG_TEXTS = 32, 2
_SHORT, _LONG = 64 << 10, 2 << 20
"""Longest short and long texts whose tokens are cached, in characters; tokens take some forty times the memory of their text."""
QUOTED = frozenset({Kind.NAME, Kind.STRING, Kind.ESCAPED})
STRINGS = frozenset({Kind.STRING, Kind.ESCAPED})


class Token(NamedTuple):
    """Token of SQL text: its kind, its text (without quotes), and its offsets."""

    kind: Kind
    text: str
    start: int
    stop: int

    def is_sign(self, sign: str) -> bool:
        """Return whether this is a sign like `(` or `::`."""
        return self.kind is Kind.SIGN and self.text == sign

    @property
    def word(self) -> str:
        """Return the word in capitals; an empty string for any other token."""
        return self.text.upper() if self.kind is Kind.WORD else ""


def folded(token: Token) -> str:
    """Return the name of an identifier: in lower case unless it is quoted."""
    return token.text if token.kind in QUOTED else token.text.lower()


def tokenize(text: str) -> list[Token]:
    """Split a text into tokens, without comments; `SqlError` for an unterminated string, name or comment, `LimitExceeded` for too many.

    >>> [token.text for token in tokenize("SELECT $$it's$$ || ? -- why?")]
    ['SELECT', "it's", '|', '|', '?']
    """
    tokens = list(_tokenize_long(text) if _SHORT < len(text) <= _LONG else islice(tokens_of(text), MOST_TOKENS + 1))
    if len(tokens) > MOST_TOKENS:
        raise LimitExceeded(
            f"the statement has more than {MOST_TOKENS} tokens; expected fewer, as parameters, as rows of an ingest or in a table"
        )
    return tokens


def tokens_of(text: str) -> Iterable[Token]:
    """Return the tokens of a text as an iterable, since those of a long text take much memory together."""
    return _tokenize_short(text) if len(text) <= _SHORT else _tokens(text)


@lru_cache(_KEPT_TEXTS)
def _tokenize_short(text: str) -> tuple[Token, ...]:
    """Return the tokens of a text, cached: one statement is examined many times, and a vector makes it long."""
    return tuple(_tokens(text))


@lru_cache(_KEPT_LONG_TEXTS)
def _tokenize_long(text: str) -> tuple[Token, ...]:
    """Return at most the permitted number of tokens and one more, cached."""
    return tuple(islice(_tokens(text), MOST_TOKENS + 1))


# Possessive quantifiers: a string without an end must not be tried in every other way.
_TOKEN = re.compile(
    r"""
    (?P<blank>     \s++ | --[^\n]*+ )
  | (?P<comment>   /\* )
  | (?P<escaped>   [eE]'(?:[^'\\]|''|\\.)*+' )
  | (?P<string>    '(?:[^']|'')*+' )
  | (?P<dollars>   \$(?P<tag>\w*+)\$ (?P<inside>.*?) \$(?P=tag)\$ )
  | (?P<name>      "(?:[^"]|"")*+" | `(?:[^`]|``)*+` )
  | (?P<open>      [eE]?' | ["`] | \$\w*+\$ )
  | (?P<parameter> \? | \$\w*+ )
  | (?P<number>    (?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)? )
  | (?P<word>      (?:[^\W\d]|[@\#])[\w@\#$]*+ )
  | (?P<sign>      :: | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {kind.value: kind for kind in Kind}
_COMMENT = re.compile(r"/\*|\*/")


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    match = _TOKEN.match
    while at < len(text):
        found = match(text, at)
        group = None if found is None else found.lastgroup
        if found is None or group is None or group == "open":
            raise SqlError(f"the quotes at character {at + 1} have no end")
        start, at = at, found.end()
        if group == "blank":
            continue
        if group == "comment":
            at = _end_of_comment(text, start)
        elif group in {"string", "name"}:
            quote = text[start]
            yield Token(_KINDS[group], text[start + 1 : at - 1].replace(quote * 2, quote), start, at)
        elif group == "dollars":
            yield Token(Kind.STRING, found["inside"], start, at)
        else:
            yield Token(_KINDS[group], text[start:at], start, at)


def _end_of_comment(text: str, start: int) -> int:
    depth = 0
    for found in _COMMENT.finditer(text, start):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    raise SqlError(f"the comment at character {start + 1} has no end")


def edited(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Return `text` with each range (start, end) replaced."""
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(edits, key=itemgetter(0, 1)):
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]]) if parts else text
