"""SQL text as tokens, cut where DataFusion's generic dialect cuts it: what is a string, a comment, a name, a parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from lance_flight.errors import SqlError


class Kind(Enum):
    """What a token is."""

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


_KEPT_TEXTS = 32
QUOTED = frozenset({Kind.NAME, Kind.STRING, Kind.ESCAPED})
STRINGS = frozenset({Kind.STRING, Kind.ESCAPED})


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its text (what stands between the quotes, where there are some), and where it stands."""

    kind: Kind
    text: str
    start: int
    stop: int

    def is_sign(self, sign: str) -> bool:
        """Whether this is a sign like `(` or `::`."""
        return self.kind is Kind.SIGN and self.text == sign

    @property
    def word(self) -> str:
        """The word in capitals; nothing for any other token."""
        return self.text.upper() if self.kind is Kind.WORD else ""


def tokenize(text: str) -> list[Token]:
    """The tokens of a text, without its comments; `SqlError` for a string, name or comment that has no end.

    >>> [token.text for token in tokenize("SELECT $$it's$$ || ? -- why?")]
    ['SELECT', "it's", '|', '|', '?']
    """
    return list(_tokenized(text))


@lru_cache(_KEPT_TEXTS)
def _tokenized(text: str) -> tuple[Token, ...]:
    """The same, kept for a while: one statement is looked through many times, and a vector makes it long."""
    return tuple(_tokens(text))


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
_COMMENT = re.compile(r"/\*|\*/")


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found["open"] is not None:
            raise SqlError(f"the quotes at character {at + 1} have no end")
        at = found.end()
        match found.lastgroup:
            case "blank":
                continue
            case "comment":
                at = _end_of_comment(text, found.start())
                continue
            case "string" | "name" as group:
                quote = found[group][0]
                inside = found[group][1:-1].replace(quote * 2, quote)
                yield Token(Kind(group), inside, found.start(), at)
            case "dollars":
                yield Token(Kind.STRING, found["inside"], found.start(), at)
            case group:
                yield Token(Kind(group), found[0], found.start(), at)


def _end_of_comment(text: str, start: int) -> int:
    depth = 0
    for found in _COMMENT.finditer(text, start):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    raise SqlError(f"the comment at character {start + 1} has no end")
