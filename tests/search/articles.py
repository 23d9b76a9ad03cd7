"""A table with two columns of texts, queries of every form, and what each must find, worked out over the rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.engine import Engine

from tests.engine.database import open_engine

K1, B = 1.2, 0.75
WORDS = ("lance", "arrow", "flight", "spark", "index", "vector")
LEAST = 60
SIZES: Mapping[str, int] = {"a": 150, "b": 80, "c": 30, "d": 10}
"""Rows of each tenant; those with `LEAST` and more have an index where some have one."""


@dataclass(frozen=True)
class Articles:
    """Rows; `parts` are the columns that tell which of them are compared in length, since they are searched at once."""

    rows: list[dict[str, Any]]
    parts: tuple[str, ...] = ()

    @classmethod
    def random(cls, seed: int = 0) -> Articles:
        chance = np.random.default_rng(seed)

        def text(most: int) -> str | None:
            return None if chance.random() < 0.1 else " ".join(chance.choice(WORDS, int(chance.integers(1, most))))

        rows: list[dict[str, Any]] = []
        for tenant, size in SIZES.items():
            for _ in range(size):
                rows.append(
                    {
                        "id": len(rows),
                        "tenant": tenant,
                        "price": int(chance.integers(10)),
                        "title": text(4),
                        "body": text(12),
                        "embedding": chance.normal(size=4).astype(np.float32).tolist(),
                        "is_indexed": size >= LEAST,
                    }
                )
        return cls(rows)

    def fill(self, of: Engine) -> None:
        of.update(
            "CREATE TABLE docs (id BIGINT, tenant VARCHAR, price BIGINT, title VARCHAR, body VARCHAR, embedding FLOAT[4])"
            " PARTITIONED BY (tenant)"
        )
        schema = pa.schema(
            {
                "id": pa.int64(),
                "tenant": pa.utf8(),
                "price": pa.int64(),
                "title": pa.utf8(),
                "body": pa.utf8(),
                "embedding": pa.list_(pa.float32(), 4),
            }
        )
        table = pa.Table.from_pylist(self.rows, schema=schema)
        of.ingest(TableName(PUBLIC, "docs"), table.to_reader(), create_missing=False, existing=IfExists.APPEND)

    def scores(self, query: Query, columns: Mapping[str, float]) -> dict[int, float]:
        """The rows that match a query in columns with boosts, and their BM25."""
        words = {word for leaf in query.leaves for word in leaf.words}
        worth = {name: self._worth(name, words) for name in columns}
        found = {}
        for row in self.rows:
            text = Text({name: (row[name] or "").split() for name in columns}, row["id"], columns, worth)
            score = query.score(text)
            if score is not None:
                found[row["id"]] = score
        return found

    def _worth(self, column: str, words: set[str]) -> dict[str, dict[int, float]]:
        """BM25 of each word in each row that has it."""
        texts = {row["id"]: (row[column] or "").split() for row in self.rows}
        lengths: dict[Any, list[int]] = {}
        part = {row["id"]: tuple(row[name] for name in self.parts) for row in self.rows}
        for number, text in texts.items():
            if text:
                lengths.setdefault(part[number], []).append(len(text))
        count = sum(map(len, lengths.values()))
        found: dict[str, dict[int, float]] = {}
        for word in words:
            having = [number for number, text in texts.items() if word in text]
            idf = math.log(1 + (count - len(having) + 0.5) / (len(having) + 0.5))
            found[word] = {}
            for number in having:
                times, mean = texts[number].count(word), float(np.mean(lengths[part[number]]))
                norm = K1 * (1 - B + B * len(texts[number]) / mean)
                found[word][number] = idf * times * (K1 + 1) / (times + norm)
        return found


@dataclass(frozen=True)
class Text:
    """The words of a row in some columns, and what they are worth there."""

    words: Mapping[str, list[str]]
    number: int
    boosts: Mapping[str, float]
    worth: Mapping[str, Mapping[str, Mapping[int, float]]]

    def score(self, words: Sequence[str], column: str) -> float:
        return self.boosts[column] * sum(self.worth[column][word].get(self.number, 0.0) for word in words)


@dataclass(frozen=True)
class Query:
    """A query, and how it is written."""

    text: str = ""

    def score(self, text: Text) -> float | None:
        raise NotImplementedError

    @property
    def leaves(self) -> Iterator[Leaf]:
        raise NotImplementedError


@dataclass(frozen=True)
class Leaf(Query):
    """A word, or a phrase of several."""

    words: tuple[str, ...] = ()
    boost: float = 1.0

    @classmethod
    def of(cls, *words: str, boost: float = 1.0) -> Leaf:
        quoted = f'"{" ".join(words)}"' if len(words) > 1 else words[0]
        return cls(quoted if boost == 1 else f"{quoted}^{boost:g}", words, boost)

    def score(self, text: Text) -> float | None:
        wanted = f" {' '.join(self.words)} "
        found = [column for column, has in text.words.items() if wanted in f" {' '.join(has)} "]
        return self.boost * sum(text.score(self.words, column) for column in found) if found else None

    @property
    def leaves(self) -> Iterator[Leaf]:
        yield self


@dataclass(frozen=True)
class Of(Query):
    """A query of several: those that must be there, may be, or must not."""

    must: tuple[Query, ...] = ()
    may: tuple[Query, ...] = ()
    without: tuple[Query, ...] = ()
    boost: float = 1.0
    inner: tuple[Query, ...] = field(default=(), compare=False)

    def score(self, text: Text) -> float | None:
        must, may = ([each.score(text) for each in some] for some in (self.must, self.may))
        if None in must or any(each.score(text) is not None for each in self.without):
            return None
        if not must and all(score is None for score in may):
            return None
        return self.boost * sum(score for score in (*must, *may) if score is not None)

    @property
    def leaves(self) -> Iterator[Leaf]:
        for each in (*self.must, *self.may, *self.without):
            yield from each.leaves


def all_of(parts: Sequence[Query], without: Sequence[Query] = ()) -> Of:
    written = [bracketed(each) for each in parts] + [f"NOT {bracketed(each)}" for each in without]
    return Of(" AND ".join(written), must=tuple(parts), without=tuple(without))


def any_of(parts: Sequence[Query]) -> Of:
    return Of(" OR ".join(bracketed(each) for each in parts), may=tuple(parts))


def signed(must: Sequence[Query], may: Sequence[Query], without: Sequence[Query]) -> Of:
    written = [f"+{bracketed(each)}" for each in must] + [bracketed(each) for each in may]
    written += [f"-{bracketed(each)}" for each in without]
    return Of(" ".join(written), tuple(must), tuple(may), tuple(without))


def boosted(query: Query, boost: float) -> Of:
    return Of(f"({query.text})^{boost:g}", must=(query,), boost=boost)


def bracketed(query: Query) -> str:
    is_one = isinstance(query, Leaf) or (isinstance(query, Of) and query.boost != 1)
    return query.text if is_one else f"({query.text})"


INDICES = {"none": None, "all": 1, "some": LEAST}


def articles(root: Path, of: Articles, least: int | None) -> Engine:
    """A table of these rows, whose partitions with so many rows have indices of both columns."""
    made = open_engine(root)
    of.fill(made)
    if least is not None:
        for column in ("title", "body"):
            made.update(
                f"CREATE INDEX {column}s ON docs ({column}) USING inverted WITH (min_rows = {least}, with_position = true)"
            )
    return made
