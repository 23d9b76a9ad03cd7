"""Text indices of n-grams: parts of words are found, as looking into every text finds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lance_flight.engine.engine import Engine

from tests.search.collection import Documents, made, query, store

LEAST, MOST = 2, 4
PARTS = ("la", "an", "ce", "ar", "ow", "fl", "ig")


@pytest.fixture(scope="module")
def documents() -> Documents:
    chance = np.random.default_rng(5)
    rows = Documents.random(300, seed=5).rows
    return Documents(
        [
            {
                **row,
                "body": None if row["body"] is None else " ".join("".join(chance.choice(PARTS, 3)) for _ in range(2)),
            }
            for row in rows
        ]
    )


def indexed(root: Path, documents: Documents, options: str) -> Engine:
    """The index is about the first half of the rows alone."""
    half = len(documents.rows) // 2
    of = made(root, Documents(documents.rows[:half]))
    of.update(
        f"CREATE INDEX words ON docs (body) USING inverted WITH (min_rows = 1, base_tokenizer = 'ngram', {options})"
    )
    store(of, Documents(documents.rows[half:]))
    return of


def grams(text: str | None, *, is_prefix: bool = False) -> set[str]:
    text = text or ""
    starts = range(1) if is_prefix else range(len(text))
    return {
        text[start : start + size] for start in starts for size in range(LEAST, MOST + 1) if start + size <= len(text)
    }


def found(of: Engine, words: str, more: str = "") -> set[int]:
    return {
        row["id"] for row in query(of, f"SELECT id FROM full_text_search('docs', 'body', '{words}', k => 1000{more})")
    }


@pytest.mark.parametrize("is_prefix", [False, True], ids=["anywhere", "at the start"])
def test_parts_of_words_are_found(tmp_path: Path, documents: Documents, *, is_prefix: bool) -> None:
    options = f"min_ngram_length = {LEAST}, max_ngram_length = {MOST}, prefix_only = {is_prefix}"
    of = indexed(tmp_path / "root", documents, options)
    texts = {row["id"]: grams(row["body"], is_prefix=is_prefix) for row in documents.rows}
    for asked in ("la", "lan", "wfl", "anc", "LANC", "zz", "l"):
        wanted = grams(asked.lower(), is_prefix=is_prefix)
        assert found(of, asked) == {number for number, has in texts.items() if wanted & has}, asked
    query(of, "REINDEX docs")
    wanted = grams("lan", is_prefix=is_prefix)
    assert found(of, "lan") == {number for number, has in texts.items() if wanted & has}


def test_all_parts_of_one_length_can_be_asked_for(tmp_path: Path, documents: Documents) -> None:
    of = indexed(tmp_path / "root", documents, "min_ngram_length = 3, max_ngram_length = 3")
    for again in (False, True):
        for asked in ("lan", "lanc", "flan", "owlac"):
            parts = [asked[start : start + 3] for start in range(len(asked) - 2)]
            every = {row["id"] for row in documents.rows if row["body"] and all(part in row["body"] for part in parts)}
            assert found(of, asked, ", mode => 'all'") == every, (asked, again)
        query(of, "REINDEX docs")


def test_the_index_keeps_its_options(tmp_path: Path, documents: Documents) -> None:
    of = indexed(tmp_path / "root", documents, f"min_ngram_length = {LEAST}, max_ngram_length = {MOST}")
    (listed,) = query(of, "SHOW INDEXES FROM docs")
    assert "max_ngram_length" in str(listed)
