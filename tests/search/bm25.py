"""BM25 of texts, worked out row by row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

K1, B = 1.2, 0.75


def scores(rows: Sequence[Mapping[str, Any]], words: Sequence[str], parts: Sequence[str] = ()) -> dict[int, float]:
    """BM25 of each row that has any of the words; lengths are compared with those of all rows, or of its own part."""
    texts = {row["id"]: Counter((row["body"] or "").split()) for row in rows}
    lengths: dict[Any, list[int]] = {}
    for row in rows:
        if texts[row["id"]]:
            lengths.setdefault(tuple(row[part] for part in parts), []).append(texts[row["id"]].total())
    count = sum(map(len, lengths.values()))
    having = {word: sum(word in text for text in texts.values()) for word in words}
    found: dict[int, float] = {}
    for row in rows:
        text = texts[row["id"]]
        mean = np.mean(lengths.get(tuple(row[part] for part in parts), [1]))
        for word in words:
            if text[word]:
                idf = math.log(1 + (count - having[word] + 0.5) / (having[word] + 0.5))
                weight = text[word] * (K1 + 1) / (text[word] + K1 * (1 - B + B * text.total() / mean))
                found[row["id"]] = found.get(row["id"], 0.0) + idf * weight
    return found
