"""Highlights: the words of a full-text query marked in texts, which are cut as an index of them cuts them.

Words are marked where Lance would find them: by their tokens (stemmed, in lower case), phrases where they stand together. Words that must not be
there are not marked.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from lance_flight.catalog.search.text_search import cutting
from lance_flight.catalog.search.text_syntax import Cut, Node, Phrase, leaves
from lance_flight.errors import InvalidInput, LimitExceeded
from lance_flight.model.index_kinds import KINDS

_KIND = KINDS["inverted"]
_WORDS = {"whitespace": re.compile(r"\S+"), "raw": re.compile(r".+", re.DOTALL)}
_WORD = re.compile(r"[^\W_]+")
_KNOWN_WORDS = 16_384
MOST_COMPARED = 64
"""Words of a query that each word of a text is compared with, letter by letter: those that may differ, and parts of words."""
ELLIPSIS = "…"

Span = tuple[int, int, str]
"""Where a word to mark begins and ends in a text, and a name for it that other forms of the word share."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks before and after each word, whether all else is escaped as HTML, and the length of a fragment in characters (0: whole)."""

    before: str = "<b>"
    after: str = "</b>"
    is_html: bool = False
    length: int = 0

    def fragment(self, text: str, spans: Sequence[Span]) -> str:
        """Return the part of a text that has most of the words, within `length` characters, with marks."""
        start, stop = _window(text, spans, self.length) if 0 < self.length < len(text) else (0, len(text))
        pieces, at = [ELLIPSIS if start else ""], start
        for first, last, _ in spans:
            if at <= first and last <= stop:
                pieces += [self._plain(text[at:first]), self.before, self._plain(text[first:last]), self.after]
                at = last
        return "".join([*pieces, self._plain(text[at:stop]), ELLIPSIS if stop < len(text) else ""])

    def _plain(self, text: str) -> str:
        return html.escape(text) if self.is_html else text


class Highlighter:
    """Finds the words of one query in texts."""

    def __init__(self, spans: Callable[[str], Iterator[Span]]) -> None:
        self._spans = spans

    @classmethod
    def of(cls, query: Node | None, options: Mapping[str, Any]) -> Self:
        """Return the highlighter of a query for texts that an index with these options is about; `InvalidInput` for wrong options."""
        tokenizer = options.get("base_tokenizer")
        if tokenizer == "ngram":
            return cls(_spans_of_parts(query))
        cut = _cutter(options)
        return cls(_Words(query, cut, _WORDS.get(str(tokenizer), _WORD)).spans)

    def mark(self, text: str, marks: Marks) -> str:
        """Return a text, or the best fragment of it, with its words marked; one without such words as it begins.

        >>> from lance_flight.catalog.search.text_syntax import parse
        >>> Highlighter.of(parse("runs"), {}).mark("He was running there", Marks(length=12))
        '…<b>running</b>…'
        """
        return marks.fragment(text, list(self._spans(text)))


class _Words:
    """Tokens of a query, looked for among the words of a text."""

    def __init__(self, query: Node | None, cut: Cut, word: re.Pattern[str]) -> None:
        self._cut, self._word = cut, word
        self._tokens: set[str] = set()
        self._fuzzy: list[tuple[str, int]] = []
        self._phrases: dict[str, list[list[str | None]]] = {}
        for leaf in leaves(query):
            tokens = cut(leaf.text)
            if isinstance(leaf, Phrase) and leaf.slop == 0:
                self._add_phrase(leaf)
            elif isinstance(leaf, Phrase) or leaf.fuzziness == 0:
                self._tokens.update(tokens)
            else:
                # Lance compares such words as they are with the stems of others.
                self._fuzzy += [(match[0].lower(), leaf.fuzziness) for match in word.finditer(leaf.text)]
        _check_compared(self._fuzzy)
        self._is_wanted = lru_cache(_KNOWN_WORDS)(self._compare)

    def _add_phrase(self, leaf: Phrase) -> None:
        pattern = [next(iter(self._cut(match[0])), None) for match in self._word.finditer(leaf.text)]
        while pattern and pattern[-1] is None:
            pattern.pop()
        while pattern and pattern[0] is None:
            del pattern[0]
        if pattern and pattern[0] is not None:
            self._phrases.setdefault(pattern[0], []).append(pattern)

    def spans(self, text: str) -> Iterator[Span]:
        words: Iterable[tuple[int, int, tuple[str, ...]]] = (
            (match.start(), match.end(), self._cut(match[0])) for match in self._word.finditer(text)
        )
        wanted: Collection[int] = ()
        if self._phrases:
            words = list(words)
            wanted = self._in_phrases(words)
        for place, (start, stop, tokens) in enumerate(words):
            name = next(filter(self._is_wanted, tokens), None)
            if name is None and place in wanted:
                name = tokens[0] if tokens else None
            if name is not None:
                yield start, stop, name

    def _compare(self, token: str) -> bool:
        return token in self._tokens or any(is_near(token, other, most) for other, most in self._fuzzy)

    def _in_phrases(self, words: Sequence[tuple[int, int, tuple[str, ...]]]) -> set[int]:
        places: set[int] = set()
        for place, (_, _, tokens) in enumerate(words):
            for pattern in self._phrases.get(next(iter(tokens), ""), ()):
                following = words[place : place + len(pattern)]
                if len(following) == len(pattern) and all(
                    token is None or token in has for token, (_, _, has) in zip(pattern, following, strict=True)
                ):
                    places.update(range(place, place + len(pattern)))
        return places


def _spans_of_parts(query: Node | None) -> Callable[[str], Iterator[Span]]:
    """Return a function that finds the words of a query anywhere, inside of others too, as an index of n-grams does."""
    wanted = sorted({word for leaf in leaves(query) for word in leaf.text.split()}, key=len, reverse=True)
    _check_compared(wanted)
    pattern = re.compile("|".join(map(re.escape, wanted)) or r"(?!)", re.IGNORECASE)

    def spans(text: str) -> Iterator[Span]:
        return ((match.start(), match.end(), match[0].lower()) for match in pattern.finditer(text))

    return spans


def _check_compared(words: Sequence[object]) -> None:
    if len(words) > MOST_COMPARED:
        raise LimitExceeded(
            f"a query of a highlight has {len(words)} words that may differ, or stand inside of others; expected {MOST_COMPARED} at most"
        )


def _cutter(options: Mapping[str, Any]) -> Cut:
    """Return how an index with some options cuts words, which are kept."""
    cut = cutting({name: value for name, value in _KIND.check_options(options).items() if name != "with_position"})
    try:
        cut("")
    except ValueError as exc:
        raise InvalidInput(f"options {dict(options)} cut no text into words: {str(exc).split(', /')[0]}") from exc
    return lru_cache(_KNOWN_WORDS)(cut)


def _window(text: str, spans: Sequence[Span], length: int) -> tuple[int, int]:
    """Return the bounds of the fragment with most different words, and most words of those, that is whole words long."""
    first, last = _best(spans, length)
    spare = max(length - (last - first), 0)
    start = max(min(first - spare // 2, len(text) - length), 0)
    stop = min(start + length, len(text))
    if start:
        space = text.find(" ", start - 1, first)
        start = first if space < 0 else space + 1
    if stop < len(text) and not text[stop].isspace():
        # A word that is too long by itself is cut.
        stop = max(text.rfind(" ", last, stop), last) or stop
    return start, stop


def _best(spans: Sequence[Span], length: int) -> tuple[int, int]:
    """Return where the best words begin and end, in as many characters."""
    best, stretch, first = (0, 0), (0, 0), 0
    held: Counter[str] = Counter()
    for last, (_, stop, name) in enumerate(spans):
        held[name] += 1
        while stop - spans[first][0] > length and first < last:
            held[spans[first][2]] -= 1
            if not held[spans[first][2]]:
                del held[spans[first][2]]
            first += 1
        worth = (len(held), last - first + 1)
        if worth > best:
            best, stretch = worth, (spans[first][0], min(stop, spans[first][0] + length))
    return stretch


def is_near(one: str, other: str, most: int) -> bool:
    """Return whether at most so many letters have to be put in, left out or changed to make one word of the other.

    >>> is_near("lans", "lance", 2), is_near("lans", "lance", 1)
    (True, False)
    """
    if abs(len(one) - len(other)) > most:
        return False
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        before, row[0] = row[0], place
        for at, theirs in enumerate(other, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (letter != theirs))
    return row[-1] <= most
