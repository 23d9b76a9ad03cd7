r"""Queries of full-text searches: their grammar, and what Lance is asked for them.

```text
query   = { clause }
clause  = signed { AND signed } | chain { OR chain }         chain  = signed { AND signed }
signed  = [ + | - | NOT ] part                               part   = atom [ ^boost ]
atom    = word [ ~edits ] | "several words" [ ~slop ] | ( query )
```
AND binds closer than OR, and both closer than a space: clauses beside each other are alternatives, or all wanted (`Mode.ALL`). A text
matches where it has any of the alternatives; `+` clauses must be there, `-` ones must not. Operators are in capitals. A backslash
takes the meaning from one of `+ - ( ) " ^ * ~ \`.

A word is looked for in each column, and its score is the sum of what it is worth in them. The score of a text is the sum over the
words and phrases of the query. A query may give words other weights than Lance would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Self, TypeAlias

from lance.query import BooleanQuery, FullTextOperator, FullTextQuery, MatchQuery, Occur, PhraseQuery

from lance_flight.errors import InvalidInput, LimitExceeded

MOST_PARTS = 1024
MOST_CHARACTERS = 64 << 10
MOST_DEPTH = 16
MOST_BOOST = 1000.0
MOST_FUZZINESS = 2
"""Lance cannot look for long words of which more letters may differ."""
MOST_SLOP = 1000
SYNTAXES: Mapping[str, bool] = MappingProxyType({"query": False, "words": True})
"""Values of the argument `syntax`, and whether a query is taken as words alone (`is_plain`)."""
_DIGITS = 8
"""Digits of a number that are read: more are too many for any."""
_SHOWN = 100
"""Characters of a query that errors repeat."""

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
    | "(?P<phrase>[^"]*)"
    | (?P<boost>\^\d+(?:\.\d+)?)(?![^\s)])
    | (?P<near>~\d*)(?![^\s)^])
    | (?P<open>\()
    | (?P<close>\))
    | (?P<word>(?:\\[-+()"^*~\\]|~(?!\d*(?:[\s)^]|$))|[^\s"()^*~])+)
    | (?P<wrong>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\([-+()\"^*~\\])")
_OPERATORS = ("AND", "OR", "NOT")
_PLAINLY = r"a backslash before it (\{}), quotes around the word, or syntax => 'words' search for it as it is"


class Mode(Enum):
    """Mode of a query without signs: any of its words, all of them, or all of them side by side."""

    ANY = "any"
    ALL = "all"
    PHRASE = "phrase"

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the mode of a name, in any case; `InvalidInput` lists what there is."""
        try:
            return cls(name.lower())
        except ValueError:
            raise InvalidInput(
                f"mode of a full-text search is {name!r}; expected {', '.join(mode.value for mode in cls)}"
            ) from None


@dataclass(frozen=True, slots=True)
class Words:
    """Some words, any of which or every one of which is looked for; `fuzziness` letters of each may differ."""

    text: str
    is_every: bool = False
    fuzziness: int = 0
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words side by side, with as many others between them as `slop` says."""

    text: str
    slop: int = 0
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """Several queries: which of them must be there, may be, or must not; one of them at least is wanted."""

    clauses: tuple[tuple[Occur, Node], ...]

    @property
    def boosted(self) -> Iterator[Node]:
        """Return the queries that a score is made of."""
        return (node for occur, node in self.clauses if occur != Occur.MUST_NOT)


Node: TypeAlias = Words | Phrase | QueryGroup


def leaves(node: Node | None) -> Iterator[Words | Phrase]:
    """Yield the words and phrases that a score is made of."""
    if isinstance(node, QueryGroup):
        for clause in node.boosted:
            yield from leaves(clause)
    elif node is not None:
        yield node


def all_leaves(node: Node | None) -> Iterator[Words | Phrase]:
    """Yield all words and phrases, those that must not be there among them."""
    if isinstance(node, QueryGroup):
        for _, clause in node.clauses:
            yield from all_leaves(clause)
    elif node is not None:
        yield node


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    stop: int


def parse(
    text: str, mode: Mode = Mode.ANY, *, fuzziness: int = 0, slop: int = 0, is_plain: bool = False
) -> Node | None:
    """Parse a query; None for one without words. `InvalidInput` names the character that is wrong, and what to type instead.

    `LimitExceeded` for one of more than `MOST_CHARACTERS`. A text of words alone is one `Words`; so is any text that `is_plain`. `fuzziness` and `slop` are those of parts that have none of their own.

    >>> parse("lance arrow")
    Words(text='lance arrow', is_every=False, fuzziness=0, boost=1.0)
    >>> [(occur.value, node.text) for occur, node in parse('lance AND "open format"^2 -csv').clauses[0][1].clauses]
    [('MUST', 'lance'), ('MUST', 'open format')]
    """
    if len(text) > MOST_CHARACTERS:
        raise LimitExceeded(
            f"query of a full-text search has {len(text)} characters; expected at most {MOST_CHARACTERS}"
        )
    if mode is Mode.PHRASE:
        return Phrase(text, slop) if text.strip() else None
    is_every = mode is Mode.ALL
    tokens = [] if is_plain else _tokens(text)
    if is_plain or all(token.kind in ("word", "space") and not _has_sign(token) for token in tokens):
        plain = text if is_plain else _ESCAPED.sub(r"\1", text)
        return Words(plain, is_every, fuzziness) if plain.strip() else None
    return _Parser(text, tokens, is_every, fuzziness, slop).whole()


def _tokens(text: str) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        tokens.append(_Token(kind, match[kind], match.start(), match.end()))
    return tokens


def _has_sign(token: _Token) -> bool:
    """Return whether a word is an operator, or begins with a sign."""
    return token.text in _OPERATORS or (token.text[:1] in ("+", "-") and len(token.text) > 1)


class _Parser:
    """Recursive-descent parser of one query."""

    def __init__(self, text: str, tokens: list[_Token], is_every: bool, fuzziness: int, slop: int) -> None:  # noqa: FBT001
        self._text, self._tokens, self._at = text, tokens, 0
        self._is_every, self._fuzziness, self._slop = is_every, fuzziness, slop
        self._depth = self._parts = 0

    def whole(self) -> Node | None:
        query = self._query(None)
        if self._next is not None:
            raise self._error("has a bracket that is closed and was not opened", _PLAINLY.format(")"))
        return query

    @property
    def _next(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    @property
    def _is_at_end(self) -> bool:
        """True if a bracket is closed next, or nothing is left but space."""
        self._skip_space()
        return self._next is None or self._next.kind == "close"

    def _skip_space(self) -> None:
        while self._next is not None and self._next.kind == "space":
            self._at += 1

    def _query(self, opened: _Token | None) -> Node | None:
        """Read clauses until the bracket that closes them, or the end."""
        usual = Occur.MUST if self._is_every else Occur.SHOULD
        clauses: list[tuple[Occur, Node]] = []
        while not self._is_at_end:
            occur, node = self._clause()
            if node is not None:
                clauses.append((occur or usual, node))
        if clauses and all(occur is Occur.MUST_NOT for occur, _ in clauses):
            raise self._error(
                "only excludes words" if opened is None else "only excludes words in the brackets",
                "expected a word or a phrase that is to be there, beside those with -",
                at=opened or self._tokens[0],
            )
        return _join_clauses(clauses)

    def _clause(self) -> tuple[Occur | None, Node | None]:
        start = self._at
        first = self._chain()
        if not self._accept("OR"):
            return first
        alternatives = [first]
        while True:
            alternatives.append(self._chain())
            if not self._accept("OR"):
                break
        if any(occur is not None for occur, _ in alternatives):
            self._at = start
            raise self._error(
                "has a sign or NOT beside OR", "expected brackets that say what it is about: +(a OR b), (a -b) OR c"
            )
        return None, _join_clauses([(Occur.SHOULD, node) for _, node in alternatives if node is not None])

    def _chain(self) -> tuple[Occur | None, Node | None]:
        start = self._at
        first = self._parse_signed()
        if not self._accept("AND"):
            return first
        parts = [first]
        while True:
            parts.append(self._parse_signed())
            if not self._accept("AND"):
                break
        if all(occur is Occur.MUST_NOT for occur, _ in parts):
            self._at = start
            raise self._error("only excludes words", "expected a word or a phrase that is to be there, beside AND NOT")
        return None, _join_clauses([(occur or Occur.MUST, node) for occur, node in parts if node is not None])

    def _is_at(self, *operators: str) -> bool:
        token = self._next
        return token is not None and token.kind == "word" and token.text in operators

    def _accept(self, operator: str) -> bool:
        """Read an operator if it comes next; one without anything to its right is refused."""
        self._skip_space()
        token = self._next
        if not self._is_at(operator):
            return False
        self._at += 1
        if self._is_at_end or self._is_at("AND", "OR"):
            raise self._error(f"has {operator} with nothing to its right", self._as_word(operator), at=token)
        return True

    def _parse_signed(self) -> tuple[Occur | None, Node | None]:
        self._skip_space()
        if self._accept("NOT"):
            if self._is_at("NOT") or self._sign() is not None:
                raise self._error("has a sign after NOT", "expected a word, a phrase or brackets after NOT")
            return Occur.MUST_NOT, self._part()
        for operator in ("AND", "OR"):
            if self._is_at(operator):
                raise self._error(f"has {operator} with nothing to its left", self._as_word(operator))
        return self._sign(), self._part()

    def _sign(self) -> Occur | None:
        """Read a sign that stands right before a part."""
        token = self._next
        if token is None or token.kind != "word" or token.text[0] not in ("+", "-"):
            return None
        if len(token.text) > 1:
            rest = replace(token, text=token.text[1:], start=token.start + 1)
            self._tokens[self._at] = rest
        elif self._at + 1 < len(self._tokens) and self._tokens[self._at + 1].kind in ("phrase", "open"):
            self._at += 1
        else:
            return None
        return Occur.MUST if token.text[0] == "+" else Occur.MUST_NOT

    def _part(self) -> Node | None:
        token = self._next
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise LimitExceeded(
                f"query of a full-text search has more than {MOST_PARTS:,} parts; expected fewer, or syntax => 'words'"
            )
        if token is None or token.kind == "close":
            raise self._error("has a sign with nothing to its right", "expected a word, a phrase or brackets")
        if token.kind == "open":
            return self._parse_boost(self._group(token))
        if token.kind not in ("word", "phrase"):
            raise self._wrong(token)
        self._at += 1
        near = self._near(token)
        if token.kind == "phrase":
            node: Node = Phrase(token.text, self._slop if near is None else near)
        else:
            self._check_end(token)
            words = _ESCAPED.sub(r"\1", token.text)
            node = Words(words, self._is_every, self._fuzziness if near is None else near)
        return self._parse_boost(node)

    def _group(self, opened: _Token) -> Node | None:
        if self._depth == MOST_DEPTH:
            raise LimitExceeded(
                f"query of a full-text search has brackets {MOST_DEPTH + 1} deep; expected {MOST_DEPTH} at most"
            )
        self._at += 1
        self._depth += 1
        node = self._query(opened)
        self._depth -= 1
        if self._next is None:
            raise self._error("has a bracket that is not closed", _PLAINLY.format("("), at=opened)
        self._at += 1
        return node

    def _near(self, token: _Token) -> int | None:
        """Read how many letters of a word, or words of a phrase, may differ."""
        following = self._next
        if following is None or following.kind != "near":
            return None
        self._at += 1
        most = MOST_SLOP if token.kind == "phrase" else MOST_FUZZINESS
        distance = int(following.text[1 : 1 + _DIGITS] or 1)
        if distance > most:
            raise self._error(f"has {following.text!r}", f"expected ~ and a number up to {most}", at=following)
        return distance

    def _parse_boost(self, node: Node | None) -> Node | None:
        token = self._next
        if token is None or token.kind != "boost":
            if token is not None and token.kind == "wrong":
                raise self._wrong(token)
            return node
        self._at += 1
        boost = float(token.text[1:])
        if not 0 < boost <= MOST_BOOST:
            raise self._error(
                f"has {token.text!r}", f"expected ^ and a number above 0, {MOST_BOOST:g} at most", at=token
            )
        return None if node is None else _multiply_scores(node, boost)

    def _check_end(self, token: _Token) -> None:
        """Refuse a word that goes on with a bracket."""
        following = self._next
        if following is not None and following.kind == "open":
            raise self._error(
                f"has a bracket right after {token.text!r}", f"expected a space between them; {_PLAINLY.format('(')}"
            )

    def _wrong(self, token: _Token) -> InvalidInput:
        match token.text:
            case "*":
                before = self._tokens[self._at - 1].text if self._at else ""
                what = f"has * after {before!r}" if before.strip() else "has *"
                hint = (
                    "words are looked for whole; expected the word, word~1 for others like it, an index with base_tokenizer ="
                    " 'ngram' for parts of words, or filter => 'body LIKE ''%hel%'''; " + _PLAINLY.format("*")
                )
            case "^":
                what, hint = "has ^", f"expected a word, ^ and a number (lance^3); {_PLAINLY.format('^')}"
            case '"':
                what, hint = "has a quote that is not closed", _PLAINLY.format('"')
            case other:
                what, hint = f"has {other!r}", f"expected it after a word or a phrase; {_PLAINLY.format(other[:1])}"
        return self._error(what, hint, at=token)

    def _as_word(self, operator: str) -> str:
        return f'expected words on both sides of it; {operator.lower()} or "{operator}" is a word'

    def _error(self, what: str, hint: str, at: _Token | None = None) -> InvalidInput:
        token = at or self._next
        place = "" if token is None else f" at character {token.start + 1}"
        shown = self._text if len(self._text) <= _SHOWN else f"{self._text[:_SHOWN]}…"
        return InvalidInput(f"query {shown!r} of a full-text search {what}{place}; {hint}")


def _join_clauses(clauses: Sequence[tuple[Occur, Node]]) -> Node | None:
    """Join several queries to one; a single one stays as it is."""
    if not clauses:
        return None
    if len(clauses) == 1 and clauses[0][0] is not Occur.MUST_NOT:
        return clauses[0][1]
    return QueryGroup(tuple(clauses))


def _multiply_scores(node: Node, boost: float) -> Node:
    """Return a query whose every score is multiplied."""
    if isinstance(node, QueryGroup):
        return QueryGroup(tuple((occur, _multiply_scores(clause, boost)) for occur, clause in node.clauses))
    return replace(node, boost=node.boost * boost)


_WORD = re.compile(r"\w+")

Cut = Callable[[str], tuple[str, ...]]
"""Function by which an index cuts a text into tokens."""


@dataclass(frozen=True, slots=True)
class Word:
    """A piece of a query, and the token that an index makes of it; None where it makes several inseparable ones."""

    text: str
    token: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedColumn:
    """A column as a table names it, how its index cuts texts, and what its words are worth.

    `weight` is that of a token against the one that Lance gives it; None: the same.
    """

    name: str
    cut: Cut
    boost: float = 1.0
    weight: Callable[[str], float] | None = None

    def factor(self, word: Word) -> float:
        """Return what the scores of a word are multiplied by."""
        known = self.weight is not None and word.token is not None
        return self.boost * (self.weight(word.token) if known else 1.0)  # type: ignore[misc,arg-type]


def needs_index(node: Node | None) -> bool:
    """Return whether Lance answers a query from an index alone: phrases, or words that may differ."""
    return any(isinstance(leaf, Phrase) or leaf.fuzziness > 0 for leaf in all_leaves(node))


def weighed_words(node: Node | None, cut: Cut) -> tuple[Word, ...]:
    """Return the words that a weight can be given to, each cut off by itself.

    Words that may differ have none: which ones Lance finds for them is not known before.
    """
    exact = (leaf for leaf in leaves(node) if isinstance(leaf, Phrase) or not leaf.fuzziness)
    words = (word for leaf in exact for word in words_of(leaf.text, cut))
    return tuple({word.token: word for word in words if word.token is not None}.values())


def query_of(node: Node | None, columns: Sequence[SearchedColumn]) -> tuple[FullTextQuery | None, float]:
    """Return a query for Lance, and what its scores are to be divided by; None if no text can match.

    Parts that an index makes no token of (stop words) are left out. Lance takes no weight for a phrase. A phrase is worth what its words
    are, so what they lack is added to it; since that must not be less than nothing, all is scaled up until the least of it is not.
    """
    return _Compiler(columns, _scale(node, columns)).of(node)


def _scale(node: Node | None, columns: Sequence[SearchedColumn]) -> float:
    phrases = [leaf for leaf in leaves(node) if isinstance(leaf, Phrase)]
    least = [
        1 / (phrase.boost * column.factor(word))
        for phrase in phrases
        for column in columns
        for word in words_of(phrase.text, column.cut)
    ]
    return max([1.0, *least])


@dataclass(frozen=True, slots=True)
class _Compiler:
    columns: Sequence[SearchedColumn]
    scale: float

    def of(self, node: Node | None) -> tuple[FullTextQuery | None, float]:
        score = None if node is None else self._score(node)
        return score, self.scale

    def _score(self, node: Node) -> FullTextQuery | None:
        match node:
            case QueryGroup():
                return self._group(node)
            case Words(is_every=True) if len(self.columns) > 1:
                words = (replace(node, text=word) for word in node.text.split())
                return _join_parts([(Occur.MUST, self._in_any(word)) for word in words])
            case _:
                return self._in_any(node)

    def _group(self, node: QueryGroup) -> FullTextQuery | None:
        clauses = []
        for occur, clause in node.clauses:
            compiled = self._plain(clause) if occur is Occur.MUST_NOT else self._score(clause)
            clauses.append((occur, compiled))
        return _join_parts(clauses)

    def _in_any(self, leaf: Words | Phrase) -> FullTextQuery | None:
        return _join_parts([(Occur.SHOULD, self._leaf(leaf, column)) for column in self.columns])

    def _leaf(self, leaf: Words | Phrase, column: SearchedColumn) -> FullTextQuery | None:
        tokens = column.cut(leaf.text)
        if not tokens:
            return None
        boost = self.scale * leaf.boost
        if isinstance(leaf, Phrase):
            return self._phrase(leaf, column)
        operator = _operator(leaf)
        # Lance takes n-grams for forms of one word, any of which will do.
        if leaf.fuzziness or (column.weight is None and not leaf.is_every):
            # Lance 14 stems no words of a fuzzy query, and compares them with the stems that an index has.
            text = " ".join(tokens) if leaf.fuzziness else leaf.text
            return MatchQuery(
                text, column.name, operator=operator, fuzziness=leaf.fuzziness, boost=boost * column.boost
            )
        occur = Occur.MUST if leaf.is_every else Occur.SHOULD
        words = words_of(leaf.text, column.cut)
        worth = [boost * column.factor(word) for word in words]
        return _join_parts(
            [
                (occur, MatchQuery(word.text, column.name, operator=operator, boost=factor))
                for word, factor in zip(words, worth, strict=True)
            ]
        )

    def _phrase(self, leaf: Phrase, column: SearchedColumn) -> FullTextQuery:
        query = PhraseQuery(leaf.text, column.name, slop=leaf.slop)
        lacking = [
            (Occur.SHOULD, MatchQuery(word.text, column.name, boost=more))
            for word in words_of(leaf.text, column.cut)
            if (more := self.scale * leaf.boost * column.factor(word) - 1.0) > 0
        ]
        return BooleanQuery([(Occur.MUST, query), *lacking]) if lacking else query

    def _plain(self, node: Node) -> FullTextQuery | None:
        """Return a query whose scores do not count."""
        unweighed = [SearchedColumn(name=column.name, cut=column.cut) for column in self.columns]
        return _Compiler(unweighed, 1.0).of(_drop_boosts(node))[0]


def _drop_boosts(node: Node) -> Node:
    match node:
        case QueryGroup():
            return QueryGroup(tuple((occur, _drop_boosts(clause)) for occur, clause in node.clauses))
        case _:
            return replace(node, boost=1.0)


def _operator(leaf: Words) -> FullTextOperator:
    return FullTextOperator.AND if leaf.is_every else FullTextOperator.OR


def words_of(text: str, cut: Cut) -> list[Word]:
    """Return the words of a text, each of which is one token to an index.

    One without a token where it cannot be so divided.

    >>> words_of("open wi-fi", lambda text: tuple(text.replace("-", " ").split()))
    [Word(text='open', token='open'), Word(text='wi', token='wi'), Word(text='fi', token='fi')]
    """
    tokens = cut(text)
    # A token is not always its own: stemmed once more it may be another one.
    for pieces in ([text], text.split(), _WORD.findall(text), tokens):
        cuts = [cut(piece) for piece in pieces]
        if all(len(word) <= 1 for word in cuts) and tuple(token for word in cuts for token in word) == tokens:
            return [Word(piece, *word) for piece, word in zip(pieces, cuts, strict=True) if word]
    return [Word(text, None)]


def _join_parts(clauses: Iterable[tuple[Occur, FullTextQuery | None]]) -> FullTextQuery | None:
    """Join several queries to one, without those that no text can match; a single one stays as it is."""
    kept = [(occur, query) for occur, query in clauses if query is not None]
    if all(occur is Occur.MUST_NOT for occur, _ in kept):
        return None
    return kept[0][1] if len(kept) == 1 else BooleanQuery(kept)
