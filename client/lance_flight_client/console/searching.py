"""Searches of a table without SQL: words, the rows nearest to one of them, or both, with a filter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance_flight_client.console.exploring import LARGE
from lance_flight_client.console.tables import ConsoleTable
from lance_flight_client.parameters import quote_name, text_literal

MOST_FOUND = 50
WEIGHTS = 100
"""Steps of the slider between vectors and words."""
_TEXT = "VARCHAR"
_VECTOR = re.compile(r"(FLOAT16|REAL|DOUBLE|TINYINT( UNSIGNED)?)\[\d+\]\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchForm:
    """Search that an address asks for; nothing is searched without words and without a row."""

    table: ConsoleTable
    kinds: Mapping[str, str]
    words: str = ""
    text: str = ""
    near: str = ""
    vector: str = ""
    filter: str = ""
    weight: int = WEIGHTS // 2

    @classmethod
    def of(
        cls, table: ConsoleTable, kinds: Mapping[str, str], given: Mapping[str, Any], weight: int | None
    ) -> SearchForm:
        """Return the search of an address; columns that cannot be searched are replaced by the first that can."""
        texts, vectors = searched_columns(kinds)
        text, vector = given.get("text", ""), given.get("vector", "")
        return cls(
            table=table,
            kinds=kinds,
            words=given.get("words", "").strip(),
            text=text if text in texts else next(iter(texts), ""),
            near=given.get("near", "").strip(),
            vector=vector if vector in vectors else next(iter(vectors), ""),
            filter=given.get("filter", "").strip(),
            weight=WEIGHTS // 2 if weight is None else min(weight, WEIGHTS),
        )

    @property
    def sql(self) -> str:
        r"""The query of the search; nothing where there is nothing to search for.

        >>> t = ConsoleTable("public", "t")
        >>> SearchForm(table=t, kinds={"id": "BIGINT", "body": "VARCHAR"}, words="it's", text="body").sql.splitlines()[1]
        'FROM full_text_search(\'"public"."t"\', \'body\', \'it\'\'s\', syntax => \'words\', k => 50)'
        """
        has_words, has_row = bool(self.words and self.text), bool(self.near and self.vector)
        if not has_words and not has_row:
            return ""
        shown = [quote_name(name) for name, kind in self.kinds.items() if not LARGE.search(kind)]
        of = [text_literal(self.table.sql())]
        if has_row:
            row = f"SELECT {quote_name(self.vector)} FROM {self.table.sql()} WHERE {self.near} LIMIT 1"
            of += [text_literal(self.vector), f"({row})"]
        if has_words:
            of += [text_literal(self.text), text_literal(self.words), "syntax => 'words'"]
            # The grid draws what stands between these as marked.
            marked = (
                f"highlight({quote_name(self.text)}, {text_literal(self.words)}, before => '⟦', after => '⟧') AS found"
            )
            shown = [marked, *shown]
        if has_words and has_row:
            share = self.weight / WEIGHTS
            of += ["fusion => 'linear'", f"weights => [{share:g}, {1 - share:g}]"]
            called, score = "hybrid_search", "_score"
        else:
            called, score = ("full_text_search", "_score") if has_words else ("vector_search", "_distance")
        of += [f"filter => {text_literal(self.filter)}"] if self.filter else []
        return f"SELECT {score}, {', '.join(shown)}\nFROM {called}({', '.join(of)}, k => {MOST_FOUND})"


def searched_columns(kinds: Mapping[str, str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the columns of texts, and those of vectors."""
    texts = [name for name, kind in kinds.items() if kind == _TEXT]
    return texts, [name for name, kind in kinds.items() if _VECTOR.match(kind)]
