"""Full-text queries of LanceDB's clients, as `full_text_search` takes them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lance_flight.errors import InvalidInput, Unsupported

_SPECIAL = re.compile(r'([-+()"^*~\\])')
_DEBUG_TEXT = re.compile(r"(?:Match|Phrase|MultiMatch|Boolean|Boosting|CombinedFields)\((?:\w+Query \{|\w+=)")
_ONE_QUERY = re.compile(r"(?P<kind>Match|Phrase)\((?:Match|Phrase)Query \{ (?P<fields>.*) \}\)", re.DOTALL)
_DEBUG_FIELD = re.compile(r'(\w+): (?:Some\()?("(?:[^"\\]|\\.)*"|[\w.]+)\)?(?:, |$)')
"""Match a query in the debug text of LanceDB's client, one of a single part, and each of its fields."""
_JSON_WORDS = MappingProxyType({"None": "null", "And": '"and"', "Or": '"or"'})
_OPERATORS = frozenset(["AND", "OR", "NOT"])
_AUTOMATIC = ((2, 0), (5, 1))
"""Longest words with so many letters that may differ, where a query does not say how many; two in longer ones."""
MOST_DEPTH = 16
_EXPANSIONS = 50
"""Words that a word with errors stands for at most, where a query does not say it."""


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Query text with the columns that it searches (none: all indexed ones), and the arguments of its search."""

    query: str
    columns: Sequence[str] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)


def parse_text_query(body: object) -> TextQuery | None:
    """Return the text query of a request: a text with columns, or a structured one; None without one."""
    if body is None:
        return None
    if isinstance(body, str):
        return _read_text(body, ())
    if not isinstance(body, Mapping):
        raise InvalidInput(f"full_text_query is {body!r}; expected an object")
    for name in ("string_query", "structured_query"):
        if body.get(name) is not None:
            return parse_text_query(body[name])
    found = body.get("query")
    if isinstance(found, str):
        return _read_text(found, tuple(body.get("columns") or ()))
    return _read_query(found)


def _read_text(text: str, columns: Sequence[str]) -> TextQuery:
    r"""Return the query that a text says: words, or a query in the debug text of LanceDB's client, which it sends where it pushes QueryTable down.

    >>> _read_text('Phrase(PhraseQuery { column: Some("body"), terms: "a \\"b", slop: 1 })', ())
    TextQuery(query='a "b', columns=('body',), arguments={'syntax': 'words', 'mode': 'phrase', 'slop': 1})
    """
    if not _DEBUG_TEXT.match(text):
        return TextQuery(text, tuple(columns), {"syntax": "words"})
    match = _ONE_QUERY.fullmatch(text)
    refusal = Unsupported(
        f"{text[:40]!r}, a text query of several parts in the words of a client that pushes QueryTable down;"
        " expected one part, or a connection without push-down"
    )
    if match is None:
        raise refusal
    fields = _DEBUG_FIELD.findall(match["fields"])
    try:
        said = {name: json.loads(_JSON_WORDS.get(value, value)) for name, value in fields}
    except ValueError as exc:  # what Rust escapes otherwise than JSON, as \u{e9}
        raise refusal from exc
    return _read_query({match["kind"].lower(): said})


def _read_query(query: object) -> TextQuery:
    kind, said = _only(query)
    match kind:
        case "match" if said.get("fuzziness") is not None and _boost(said) == 1:
            mode = "all" if _is_and(said) else "any"
            arguments = {"syntax": "words", "mode": mode, "fuzziness": _count(said, "fuzziness")}
            return TextQuery(_terms(said), _column(said), arguments)
        case "phrase":
            arguments = {"syntax": "words", "mode": "phrase", "slop": _count(said, "slop")}
            return TextQuery(_terms(said), _column(said), arguments)
        case "multi_match":
            return _multi_match(said)
    columns: set[str] = set()
    text = _text(kind, said, columns, 0)
    if len(columns) > 1:
        raise Unsupported(
            f"a {kind} query over columns {', '.join(sorted(columns))}; expected one column, or multi_match"
        )
    return TextQuery(text, tuple(columns))


def _multi_match(said: Mapping[str, Any]) -> TextQuery:
    """Return one query over several columns, each with its boost."""
    queries = said.get("match_queries")
    if queries is None and isinstance(said.get("query"), str):
        boosts = said.get("boost") or [1.0] * len(said.get("columns") or ())
        queries = [
            {"terms": said["query"], "column": column, "boost": boost, "fuzziness": 0}
            for column, boost in zip(said.get("columns") or (), boosts, strict=False)
        ]
    if not isinstance(queries, list) or not queries or not all(isinstance(query, Mapping) for query in queries):
        raise InvalidInput("multi_match has no match_queries; expected one for each column")
    first = queries[0]
    if any((_terms(query), _is_and(query)) != (_terms(first), _is_and(first)) for query in queries):
        raise Unsupported("multi_match with other terms in each column; expected the same terms")
    columns = [f"{column}^{_boost(query):g}" for query in queries for column in _column(query)]
    mode = "all" if _is_and(first) else "any"
    return TextQuery(_terms(first), columns, {"syntax": "words", "mode": mode, "fuzziness": _count(first, "fuzziness")})


def _text(kind: str, said: Mapping[str, Any], columns: set[str], depth: int) -> str:
    """Return a query in the language of `full_text_search`, and add the columns that it names."""
    if depth > MOST_DEPTH:
        raise InvalidInput(f"a text query nested deeper than {MOST_DEPTH} levels")
    columns.update(_column(said))
    match kind:
        case "match":
            words = [f"{_escape(word)}{_edits(said, word)}" for word in _terms(said).split()]
            joined = (" AND " if _is_and(said) else " ").join(words)
            boost = _boost(said)
            return f"({joined})" if boost == 1 else f"({joined})^{boost:g}"
        case "phrase":
            phrase = _terms(said).replace('"', " ")
            return f'"{phrase}"~{_count(said, "slop")}'
        case "boolean":
            parts = [
                f"{sign}({_text(*_only(each), columns, depth + 1)})"
                for name, sign in (("must", "+"), ("should", ""), ("must_not", "-"))
                for each in said.get(name) or ()
            ]
            return " ".join(parts)
    raise Unsupported(f"a text query of kind {kind!r}; expected match, phrase, multi_match or boolean")


def _only(query: object) -> tuple[str, Mapping[str, Any]]:
    """Return the kind of a query, and what it says."""
    given = {name: value for name, value in query.items() if value is not None} if isinstance(query, Mapping) else {}
    if len(given) != 1:
        raise InvalidInput("full_text_query is no query; expected one of match, phrase, multi_match and boolean")
    ((kind, said),) = given.items()
    if not isinstance(said, Mapping):
        raise InvalidInput(f"{kind} of full_text_query is {said!r}; expected an object")
    return str(kind), said


def _terms(said: Mapping[str, Any]) -> str:
    terms = said.get("terms")
    if not isinstance(terms, str):
        raise InvalidInput(f"terms of full_text_query are {terms!r}; expected a text")
    if said.get("prefix_length"):
        raise Unsupported("prefix_length of full_text_query; expected 0")
    if said.get("max_expansions") not in (None, _EXPANSIONS):
        raise Unsupported(
            f"max_expansions of full_text_query; expected {_EXPANSIONS}, and all words that fit are found"
        )
    return terms


def _column(said: Mapping[str, Any]) -> tuple[str, ...]:
    column = said.get("column")
    if column is not None and not isinstance(column, str):
        raise InvalidInput(f"column of full_text_query is {column!r}; expected a name")
    return () if column is None else (column,)


def _is_and(said: Mapping[str, Any]) -> bool:
    return str(said.get("operator") or "or").lower() == "and"


def _boost(said: Mapping[str, Any]) -> float:
    boost = said.get("boost", 1.0)
    if isinstance(boost, bool) or not isinstance(boost, int | float):
        raise InvalidInput(f"boost of full_text_query is {boost!r}; expected a number")
    return float(boost)


def _count(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name) or 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{name} of full_text_query is {value!r}; expected a whole number")
    return value


def _edits(said: Mapping[str, Any], word: str) -> str:
    """Return how many letters of a word may differ, as the query says it."""
    if said.get("fuzziness") is None:
        count = next((count for longest, count in _AUTOMATIC if len(word) <= longest), 2)
    else:
        count = _count(said, "fuzziness")
    return f"~{count}" if count else ""


def _escape(word: str) -> str:
    return f'"{word}"' if word in _OPERATORS else _SPECIAL.sub(r"\\\1", word)
