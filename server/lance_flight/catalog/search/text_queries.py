"""Full-text queries: words, phrases and what must or must not be there, as Lance takes them.

```text
query = part { part }          part = [+|-] ( word | "several words" )
```
A row matches where it has any of the parts; `+` ones must be there, `-` ones must not. Its score is the sum of what each of
its words is worth, and a query may give words other weights than Lance would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Self

from lance.query import BooleanQuery, FullTextOperator, FullTextQuery, MatchQuery, Occur, PhraseQuery

from lance_flight.errors import InvalidInput

_PART = re.compile(r"""(?P<sign>[+-]?)(?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+))""")
MOST_FUZZINESS = 2
"""Lance cannot look for long words of which more letters may differ."""

_WORD = re.compile(r"\w+")

Cut = Callable[[str], tuple[str, ...]]
"""Function by which an index cuts a text into tokens."""


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
class Word:
    """A piece of a query, and the token that an index makes of it; None where it makes several inseparable ones."""

    text: str
    token: str | None


@dataclass(frozen=True, slots=True)
class _Part:
    """Some words, all of which or any of which, or a phrase: whether it must be there, may be, or must not."""

    occur: Occur
    text: str
    operator: FullTextOperator = FullTextOperator.OR
    is_phrase: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TextQuery:
    """A query; `fuzziness` letters of a word, and `slop` words of a phrase, may differ.

    >>> type(TextQuery(words='lance +"open format"').of("body")).__name__
    'BooleanQuery'
    """

    words: str
    mode: Mode = Mode.ANY
    fuzziness: int = 0
    slop: int = 0

    @property
    def only_excludes(self) -> bool:
        """True if the query only excludes words."""
        return bool(parts := self._parts()) and all(part.occur == Occur.MUST_NOT for part in parts)

    @property
    def needs_index(self) -> bool:
        """True if Lance answers the query from an index alone: phrases, or words that may differ."""
        return self.mode is Mode.PHRASE or self.fuzziness > 0 or '"' in self.words

    def of(self, column: str) -> FullTextQuery:
        """Return the query for Lance, over a column."""
        return _joined([(part.occur, self._plain(part, column)) for part in self._parts()])

    def weighed(self, cut: Cut) -> tuple[Word, ...]:
        """Return the words that a weight can be given to, each cut off by itself.

        Words that may differ have none: which ones Lance finds for them is not known before.
        """
        if self.fuzziness:
            return ()
        found = [word for part in self._parts() if part.occur != Occur.MUST_NOT for word in words_of(part.text, cut)]
        return tuple({word.token: word for word in found if word.token is not None}.values())

    def weighted(self, column: str, cut: Cut, weight: Callable[[str], float]) -> tuple[FullTextQuery, float]:
        """Return the same query with a weight for each token, and what its scores are to be divided by.

        Lance takes no weight for a phrase. A phrase is worth what its words are, so what they lack is added to it; since
        that must not be less than nothing, all is scaled up until the least of it is not.
        """
        parts = self._parts()
        in_phrases = [word.token for part in parts if part.is_phrase for word in words_of(part.text, cut)]
        scale = max([1.0, *(1 / weight(token) for token in in_phrases if token is not None)])

        def worth(word: Word, operator: FullTextOperator, has: float = 0.0) -> MatchQuery:
            boost = scale * (1.0 if word.token is None else weight(word.token)) - has
            return MatchQuery(word.text, column, operator=operator, boost=max(boost, 0.0))

        def one(part: _Part) -> FullTextQuery:
            words = words_of(part.text, cut)
            if part.occur == Occur.MUST_NOT or not words:
                return self._plain(part, column)
            if part.is_phrase:
                lacking = [(Occur.SHOULD, worth(word, part.operator, has=1.0)) for word in words]
                return BooleanQuery([(Occur.MUST, self._plain(part, column)), *lacking])
            occur = Occur.MUST if part.operator is FullTextOperator.AND else Occur.SHOULD
            return _joined([(occur, worth(word, part.operator)) for word in words])

        return _joined([(part.occur, one(part)) for part in parts]), scale

    def _plain(self, part: _Part, column: str) -> FullTextQuery:
        if part.is_phrase:
            return PhraseQuery(part.text, column, slop=self.slop)
        return MatchQuery(part.text, column, operator=part.operator, fuzziness=self.fuzziness)

    def _parts(self) -> Sequence[_Part]:
        if self.mode is Mode.PHRASE:
            return [_Part(Occur.MUST, self.words, is_phrase=True)]
        found = list(_PART.finditer(self.words))
        if not any(part["sign"] or part["phrase"] is not None for part in found):
            operator = FullTextOperator.AND if self.mode is Mode.ALL else FullTextOperator.OR
            return [_Part(Occur.MUST, self.words, operator)]
        signs = {"+": Occur.MUST, "-": Occur.MUST_NOT, "": Occur.MUST if self.mode is Mode.ALL else Occur.SHOULD}
        return list(_read(found, signs))


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


def _read(found: Sequence[re.Match[str]], signs: dict[str, Occur]) -> Iterator[_Part]:
    for part in found:
        is_phrase = part["phrase"] is not None
        yield _Part(signs[part["sign"]], part["phrase"] if is_phrase else part["word"], is_phrase=is_phrase)


def _joined(parts: list[tuple[Occur, FullTextQuery]]) -> FullTextQuery:
    """Join several queries to one; a single one stays as it is."""
    if len(parts) == 1 and parts[0][0] != Occur.MUST_NOT:
        return parts[0][1]
    return BooleanQuery(parts)
