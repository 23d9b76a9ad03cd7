"""Text of a query for DataFusion, with the facts that are needed before planning it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from lance_flight.engine.sql.bounds import is_costly, is_long_by_lists
from lance_flight.engine.sql.growth import Growth, growth_of
from lance_flight.engine.sql.rewriting import for_datafusion
from lance_flight.engine.sql.tokens import tokenize
from lance_flight.engine.sql.typed_calls import TypedCalls

LONGEST_KEPT = 16 << 10
MOST_KEPT = 512


@dataclass(frozen=True, slots=True)
class DataFusionText:
    """SQL text for DataFusion with its `calls` of typed functions, whether planning it may be costly, and whether queries are in it.

    One that is costly and `is_linear` is a single query that is costly by its lists of literals alone.
    """

    calls: TypedCalls
    is_costly: bool
    is_linear: bool
    is_nested: bool
    growth: Growth


def datafusion_text(sql: str) -> DataFusionText:
    """Rewrite a query for DataFusion; the results for short texts are cached."""
    return _remembered(sql) if len(sql) <= LONGEST_KEPT else _rewrite(sql)


def _rewrite(sql: str) -> DataFusionText:
    text = for_datafusion(sql)
    tokens = tokenize(text)
    words = [token.word for token in tokens]
    is_nested = words.count("SELECT") > 1 or words.count("FROM") > 1 or "|>" in text
    is_linear = not is_nested and is_long_by_lists(text, tokens)
    growth = growth_of(text, tokens)
    return DataFusionText(
        TypedCalls.of(text, copies=growth.copies), is_costly(text, tokens), is_linear, is_nested, growth
    )


_remembered = lru_cache(MOST_KEPT)(_rewrite)
