"""Full-text queries as Lance takes them: over one column or several, and by the statistics of other texts than those that an index is about.

A word is looked for in each column, and its score is the sum of what it is worth in them. The score of a text is the sum over the
words and phrases of the query. A query may give words other weights than Lance would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from lance.query import BooleanQuery, FullTextOperator, FullTextQuery, MatchQuery, Occur, PhraseQuery

from lance_flight.catalog.search.text_syntax import Node, Phrase, QueryGroup, Words, all_leaves, leaves

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
    found = (word for leaf in exact for word in words_of(leaf.text, cut))
    return tuple({word.token: word for word in found if word.token is not None}.values())


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
        found = None if node is None else self._scored(node)
        return found, self.scale

    def _scored(self, node: Node) -> FullTextQuery | None:
        match node:
            case QueryGroup():
                return self._group(node)
            case Words(is_every=True) if len(self.columns) > 1:
                words = (replace(node, text=word) for word in node.text.split())
                return _joined([(Occur.MUST, self._in_any(word)) for word in words])
            case _:
                return self._in_any(node)

    def _group(self, node: QueryGroup) -> FullTextQuery | None:
        clauses = []
        for occur, each in node.clauses:
            compiled = self._plain(each) if occur is Occur.MUST_NOT else self._scored(each)
            clauses.append((occur, compiled))
        return _joined(clauses)

    def _in_any(self, leaf: Words | Phrase) -> FullTextQuery | None:
        return _joined([(Occur.SHOULD, self._leaf(leaf, column)) for column in self.columns])

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
        return _joined(
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
        return _Compiler(unweighed, 1.0).of(_unboosted(node))[0]


def _unboosted(node: Node) -> Node:
    match node:
        case QueryGroup():
            return QueryGroup(tuple((occur, _unboosted(each)) for occur, each in node.clauses))
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
        if all(len(each) <= 1 for each in cuts) and tuple(token for each in cuts for token in each) == tokens:
            return [Word(piece, *each) for piece, each in zip(pieces, cuts, strict=True) if each]
    return [Word(text, None)]


def _joined(clauses: Iterable[tuple[Occur, FullTextQuery | None]]) -> FullTextQuery | None:
    """Join several queries to one, without those that no text can match; a single one stays as it is."""
    kept = [(occur, query) for occur, query in clauses if query is not None]
    if all(occur is Occur.MUST_NOT for occur, _ in kept):
        return None
    return kept[0][1] if len(kept) == 1 else BooleanQuery(kept)
