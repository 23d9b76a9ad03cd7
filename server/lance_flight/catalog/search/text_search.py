"""Full-text searches over many tables, ranked by statistics of all of them.

A word that `frequency` of `documents` texts have is worth `ln(1 + (documents - frequency + ½) / (frequency + ½))` in Lance, times
what a text makes of it. So a table's scores become those of any other statistics by a factor for each word.

Lance cuts texts into words by their index, and where there is none by rules of its own. It scores each part by the
statistics of that part; to be compared, words are given the weights that those of all parts together would give them.
"""

from __future__ import annotations

import html
import re
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from threading import Lock
from typing import Any, Self, TypeAlias

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceFragment
from lance.query import FullTextQuery, MatchQuery

from lance_flight.catalog.search import row_ranking
from lance_flight.catalog.search.row_ranking import SAME_SCORE, SCORE, TABLE, RowSearch, best_rows
from lance_flight.catalog.search.text_syntax import (
    Cut,
    Node,
    Phrase,
    SearchedColumn,
    Word,
    leaves,
    needs_index,
    query_of,
    weighed_words,
)
from lance_flight.catalog.tables import indices
from lance_flight.catalog.tables.indices import covered_files, index_of, is_outdated
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, Scan
from lance_flight.catalog.tables.schema_adapter import physical
from lance_flight.catalog.tables.sources import Open, Source
from lance_flight.errors import InvalidInput, LimitExceeded, Unsupported
from lance_flight.lru_cache import LruCache
from lance_flight.model.index_kinds import KINDS, OptionValue

KEPT_COUNTS = 65_536
_HALF = np.float32(0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Number of texts, and of those with each token."""

    documents: float = 0
    frequencies: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def together(cls, parts: Iterable[Self]) -> Self:
        """Return the statistics of several sets of texts together.

        >>> round(Statistics.together([Statistics(documents=2, frequencies={"a": 1}), Statistics(documents=3)]).idf("a"), 6)
        1.386294
        """
        documents, frequencies = 0.0, dict[str, float]()
        for part in parts:
            documents += part.documents
            for token, count in part.frequencies.items():
                frequencies[token] = frequencies.get(token, 0) + count
        return cls(documents=documents, frequencies=frequencies)

    def idf(self, token: str) -> float:
        """Return what a token is worth: the less, the more texts have it; in float32, as Lance does, which costs a common one some digits."""
        documents, frequency = np.float32(self.documents), np.float32(self.frequencies.get(token, 0))
        others = np.maximum(documents - frequency, np.float32(0)) + _HALF
        return float(np.log(others / (frequency + _HALF) + np.float32(1)))


_NO_CUTTING = frozenset({"lance_tokenizer", "with_position", "block_size", "document_granularity"})
"""Parameters of an index beside those of its tokenizer."""

_counts = LruCache[tuple[str, ...], int](KEPT_COUNTS)
"""Numbers that never change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedTexts:
    """The texts that an index is about, as Lance counts them: `documents`, rows that were deleted since among them.

    Of these it finds a part, `live`. `key` names them for good, where that is worth something.
    """

    dataset: LanceDataset
    column: str
    cut: Cut
    documents: float
    live: float
    key: tuple[str, ...] | None

    @classmethod
    def of(cls, dataset: LanceDataset, column: str, index: lance.IndexDescription, *, is_lasting: bool = True) -> Self:
        """Return the statistics of a column's index; not `is_lasting` if the counts need not be remembered."""
        segments = dataset.stats.index_stats(index.name)["segments"]
        documents = sum(segment["num_docs"] for segment in segments)
        covered = indices.covered_files(index)
        here = [file for file in dataset.get_fragments() if file.fragment_id in covered]
        rows, stored = sum(file.count_rows() for file in here), sum(file.physical_rows for file in here)
        # How many rows removed files had is not known any more: as many as the other files, it is assumed.
        live = documents * rows * len(here) / (stored * len(covered)) if stored else 0.0
        options = {name: value for name, value in segments[0]["params"].items() if name not in _NO_CUTTING}
        return cls(
            dataset=dataset,
            column=column,
            cut=cutting(options),
            documents=documents,
            live=live,
            key=(dataset.uri, str(dataset.version), *(str(segment.uuid) for segment in index.segments))
            if is_lasting
            else None,
        )

    def statistics(self, words: Iterable[Word]) -> Statistics:
        """Return the statistics that Lance scores some words by, from its counts; deleted rows are taken to be like the rest."""
        share = self.documents / self.live if self.live else 1.0
        frequencies = {str(word.token): min(share * self._frequency(word), self.documents) for word in words}
        return Statistics(documents=self.documents, frequencies=frequencies)

    def _frequency(self, word: Word) -> int:
        if self.key is None:
            return self._count_word(word)
        return _counts.find((*self.key, self.column, word.text), lambda: self._count_word(word))

    def _count_word(self, word: Word) -> int:
        scanner = self.dataset.scanner(
            columns=[],
            with_row_id=True,
            full_text_query=MatchQuery(word.text, self.column),
            fast_search=True,
            disable_scoring_autoprojection=True,
        )
        return int(scanner.to_table().num_rows)


def cutting(options: Mapping[str, Any]) -> Cut:
    """Return how an index with some options cuts texts into tokens."""

    @lru_cache(64)
    def cut(text: str) -> tuple[str, ...]:
        return tuple(token.text for token in lance.tokenize(text, **options))

    return cut


MOST_UNINDEXED = 200_000
_PLACE = "_place"
_KIND = KINDS["inverted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumn:
    """A column that is searched: scores of its words are multiplied by `boost`; `options` are those of its index."""

    name: str
    boost: float = 1.0
    options: Mapping[str, OptionValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextSearch(RowSearch):
    """The `count` rows whose texts, in one column or several, match a query best.

    Texts without an index are cut into words by the options of the one that the column has elsewhere. `is_global` says that words are worth
    what they are in all tables together. `is_indexed` says that indexed rows alone are asked for, and `asked` how, of one table.
    Rows that are not `among` some, by the numbers of their tables, do not count.
    """

    columns: tuple[TextColumn, ...]
    query: Node | None
    is_global: bool = True
    is_indexed: bool = False
    asked: FullTextQuery | None = None
    result: pa.Field = SCORE
    is_ascending: bool = False
    precision: float = SAME_SCORE

    @property
    def column(self) -> str:
        """The first of the columns."""
        return self.columns[0].name

    @property
    def is_merging(self) -> bool:
        """True if several tables may be searched as one: then they have the same statistics."""
        return self.is_global

    def arguments(self, column: str, rows: int | None) -> Mapping[str, Any]:
        limit = {"limit": self.count} if rows is None else {}
        return {
            "full_text_query": self.asked,
            "prefilter": True,
            "disable_scoring_autoprojection": True,
            "fast_search": self.is_indexed,
            **limit,
        }


Worth: TypeAlias = Mapping[str, Statistics]
"""How rare the words of a query are in each column."""


def search_tables(
    search: TextSearch, work: Sequence[tuple[Scan, Open]], pool: Executor, check: Callable[[], None]
) -> pa.Table:
    """Return the best rows of each table; `check` may end it between two."""
    room = _Room(MOST_UNINDEXED)

    def opened(scan: Scan, table: Open) -> list[_Part]:
        check()
        return [part for source in table() for part in _parts(search, scan, source, room)]

    def known(part: _Part) -> Worth:
        check()
        return part.statistics()

    def best(part: _Part) -> pa.Table:
        check()
        return best_rows(search, part.scan, part.source, partial(part.find, every))

    parts = [part for each in pool.map(opened, *zip(*work, strict=True)) for part in each]
    every: Worth | None = None
    if search.is_global and len(parts) > 1:
        counted = list(pool.map(known, parts))
        every = {
            column.name: Statistics.together(
                statistic[column.name] for statistic in counted if column.name in statistic
            )
            for column in search.columns
        }
    return pa.concat_tables([work[0][0].schema.append(TABLE).empty_table(), *pool.map(best, parts)])


def _parts(search: TextSearch, scan: Scan, source: Source, room: _Room) -> list[_Part]:
    """Return what a table has, with an index of each column and without."""
    files = source.dataset.get_fragments()
    columns = source.columns if files else ()
    held = [_Stored.of(column, scan, source, columns) for column in search.columns] if files else []
    present = [part for part in held if part.field is not None or part.is_filled]
    if not present or search.query is None:
        return []
    search = replace(search, columns=tuple(part.column for part in present))
    numbers = frozenset(file.fragment_id for file in files)
    covers = {part.covered & numbers for part in present}
    # Files that the index of one column alone is about would be found by half of the query.
    known = covers.pop() if len(covers) == 1 else frozenset()
    missing = [file for file in files if file.fragment_id not in known]
    unindexed = [_Unindexed(search, scan, replace(source, fragments=portion), room) for portion in _portions(missing)]
    if not known:
        return [*unindexed]
    texts = tuple((part.column, part.texts(source)) for part in present)
    is_more = not source.tables and len(unindexed) > 1
    if missing and len(texts) == 1 and not needs_index(search.query) and (is_more or not search.is_global):
        return [_Indexed(search, scan, source, texts, is_mixed=True)]
    return [_Indexed(search, scan, source, texts), *unindexed]


@dataclass(frozen=True, slots=True)
class _Stored:
    """A column that is searched, as a table has it: its own column, whether values fill it, and its index."""

    column: TextColumn
    field: pa.Field | None
    is_filled: bool
    index: lance.IndexDescription | None

    @classmethod
    def of(cls, column: TextColumn, scan: Scan, source: Source, columns: Sequence[pa.Field]) -> Self:
        number = scan.ids.get(column.name)
        mine = physical(columns, column.name, number)
        is_filled = number is not None and bool(source.filling(columns, [number]))
        index = None if mine is None or is_filled else index_of(source.dataset, mine.name, _KIND)
        if index is not None and is_outdated(source.dataset, index):
            index = None
        return cls(column, mine, is_filled, index)

    @property
    def covered(self) -> frozenset[int]:
        """The files that its index is about."""
        return frozenset() if self.index is None else covered_files(self.index)

    def texts(self, source: Source) -> IndexedTexts:
        """Return what its index is about."""
        if self.field is None or self.index is None:
            raise ValueError(f"column {self.column.name!r} has no index")
        return IndexedTexts.of(source.dataset, self.field.name, self.index)


Texts: TypeAlias = Sequence[tuple[TextColumn, IndexedTexts]]
"""The columns of a part that are searched, and what their indices are about."""


def _statistics(texts: Texts, query: Node | None) -> Worth:
    return {column.name: indexed.statistics(weighed_words(query, indexed.cut)) for column, indexed in texts}


def _read_query(texts: Texts, query: Node | None, every: Worth | None) -> tuple[FullTextQuery | None, float]:
    """Return a query by the statistics of all parts, and what its scores are to be divided by."""
    own = None if every is None else _statistics(texts, query)

    def weight(column: str) -> Callable[[str], float] | None:
        if every is None or own is None:
            return None
        return lambda token: every[column].idf(token) / own[column].idf(token)

    searched = [
        SearchedColumn(name=indexed.column, cut=indexed.cut, boost=column.boost, weight=weight(column.name))
        for column, indexed in texts
    ]
    return query_of(query, searched)


def _portions(files: Sequence[LanceFragment]) -> list[tuple[LanceFragment, ...]]:
    """Return files in groups that have `MOST_UNINDEXED` rows at most, as far as no file has more by itself."""
    portions: list[tuple[LanceFragment, ...]] = []
    room = 0
    for file in files:
        rows = file.count_rows()
        if rows > room:
            portions.append(())
            room = MOST_UNINDEXED
        portions[-1] += (file,)
        room -= rows
    return portions


@dataclass(frozen=True, slots=True)
class _Indexed:
    """The files of a table that its indices are about; where it `is_mixed` all of them, as Lance searches these: by its own statistics alone."""

    search: TextSearch
    scan: Scan
    source: Source
    texts: Texts
    is_mixed: bool = False

    def statistics(self) -> Worth:
        """Return how rare the words of the query are in them."""
        return {} if self.is_mixed else _statistics(self.texts, self.search.query)

    def find(self, every: Worth | None, count: int, schema: pa.Schema) -> pa.Table:
        """Return `count` of the best rows by statistics (None: by their own), with some columns."""
        asked, scale = _read_query(self.texts, self.search.query, None if self.is_mixed else every)
        if asked is None:
            return schema.empty_table()
        search = replace(self.search, is_indexed=not self.is_mixed, count=count, asked=asked)
        rows = row_ranking.search_table(search, replace(self.scan, schema=schema), self.source)
        return _scale_scores(rows, search.result, scale)


@dataclass(slots=True)
class _Unindexed:
    """Files without an index: their rows that count get one in memory, cached while there is room."""

    search: TextSearch
    scan: Scan
    source: Source
    room: _Room
    kept: _Held | None = None

    def statistics(self) -> Worth:
        held = self._field_lengths()
        if self.room.take(held.rows.num_rows):
            self.kept = held
        return _statistics(held.texts, self.search.query)

    def find(self, every: Worth | None, count: int, schema: pa.Schema) -> pa.Table:
        held = self.kept or self._field_lengths()
        return held.find(replace(self.search, count=count), every).select(schema.names)

    def _field_lengths(self) -> _Held:
        names = [name for name in self.scan.schema.names if name != self.search.result.name]
        searched = [column.name for column in self.search.columns]
        made = {field.name: field for field in (*self.scan.source, *ADDRESS_FIELDS)}
        schema = pa.schema([made[name] for name in dict.fromkeys([*names, *searched])])
        rows = row_ranking.rows_among(self.search.among, replace(self.scan, search=None, schema=schema), self.source)
        if rows.num_rows > MOST_UNINDEXED:
            raise Unsupported(
                f"partition table {self.source.name!r} has {rows.num_rows:,} rows without a text index of column"
                f" {' and '.join(map(repr, searched))}; expected {MOST_UNINDEXED:,} at most: CREATE INDEX … USING inverted, or REINDEX"
            )
        return _Held.of(rows, self.search)


_Part: TypeAlias = _Indexed | _Unindexed
"""Some texts of a table that are searched in one way."""


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows with indices of their texts in memory."""

    rows: pa.Table
    texts: Texts

    @classmethod
    def of(cls, rows: pa.Table, search: TextSearch) -> Self:
        if not rows.num_rows:
            return cls(rows, ())
        names = [column.name for column in search.columns]
        texts = rows.select(names).append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
        held = lance.write_dataset(texts, f"memory://{secrets.token_hex(8)}")
        for column in search.columns:
            options = {**column.options, "with_position": needs_index(search.query)}
            held.create_scalar_index(column.name, "INVERTED", **options)
        indices = [(column, index_of(held, column.name, _KIND)) for column in search.columns]
        return cls(
            rows,
            tuple(
                (column, IndexedTexts.of(held, column.name, index, is_lasting=False))
                for column, index in indices
                if index is not None
            ),
        )

    def find(self, search: TextSearch, every: Worth | None) -> pa.Table:
        asked, scale = _read_query(self.texts, search.query, every) if self.texts else (None, 1.0)
        if asked is None:
            return self.rows.slice(0, 0).append_column(search.result, pa.array([], search.result.type))
        search = replace(search, asked=asked)
        columns = [_PLACE, search.result.name]
        dataset = self.texts[0][1].dataset
        best = dataset.scanner(columns=columns, **search.arguments(search.column, None)).to_table()
        rows = self.rows.take(best[_PLACE]).append_column(search.result, best[search.result.name])
        return _scale_scores(rows, search.result, scale)


class _Room:
    """Limit of the rows that are kept in memory at a time."""

    def __init__(self, rows: int) -> None:
        self._left = rows
        self._lock = Lock()

    def take(self, rows: int) -> bool:
        """Return whether there is room for so many more."""
        with self._lock:
            if rows > self._left:
                return False
            self._left -= rows
            return True


def _scale_scores(rows: pa.Table, result: pa.Field, scale: float) -> pa.Table:
    if scale == 1.0:
        return rows
    worth = pc.divide(rows[result.name], scale).cast(result.type)
    return rows.set_column(rows.schema.get_field_index(result.name), result, worth)


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
