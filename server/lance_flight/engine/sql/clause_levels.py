"""The open brackets of a query while its clauses are read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lance_flight.engine.sql.row_limits import RowLimit


class BracketContent(Enum):
    """Content of a bracket."""

    QUERY = "query"
    TABLES = "tables"
    """Joined tables, in a FROM."""
    CALL = "call"
    """The arguments of a function."""
    NAMES = "names"
    """The columns of an alias, or of a WITH query."""
    OTHER = "other"


@dataclass(slots=True)
class QueryLevel:
    """Open bracket, or the whole text; places are those of tokens.

    `clause` is the one that is being read, or the one that the bracket stands in. `function` is the one that is called.
    `top` is its TOP, `is_limited` tells that it has a LIMIT, an OFFSET or a FETCH, `has_set` a set operator.
    `join` are the words before the last JOIN.
    `has_recursion` tells that the query begins with WITH RECURSIVE, `is_recursive` that it is named by one.
    """

    kind: BracketContent
    start: int
    clause: str = ""
    function: str = ""
    has_recursion: bool = False
    is_recursive: bool = False
    has_union: bool = False
    has_set: bool = False
    is_limited: bool = False
    top: RowLimit | None = None
    lone_from: int | None = None
    table: int = 0
    join: frozenset[str] = frozenset()
    group: int = 0
