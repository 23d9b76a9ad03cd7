"""Arguments of a full-text search: the columns with their boosts, and the query."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

from lance_flight.catalog.search.text_search import TextColumn, TextSearch
from lance_flight.catalog.search.text_syntax import MOST_BOOST, MOST_FUZZINESS, MOST_SLOP, SYNTAXES, Mode, Node, parse
from lance_flight.engine.query.search.arguments import Arguments
from lance_flight.engine.query.search.search_target import SearchTarget
from lance_flight.errors import SqlError

MOST_COLUMNS = 16
_STATISTICS: Mapping[str, bool] = MappingProxyType({"global": True, "local": False})


def matching(searched: SearchTarget, arguments: Arguments, column: str, count: int) -> TextSearch:
    """Return the search for the `count` rows that match the query of a call best, in the columns that its argument `column` names."""
    return TextSearch(
        columns=_columns(searched, arguments, column),
        query=_query(arguments),
        count=count,
        is_global=_chosen(arguments, "statistics", _STATISTICS),
    )


def _columns(searched: SearchTarget, arguments: Arguments, argument: str) -> tuple[TextColumn, ...]:
    given = arguments.names(argument)
    found = [_column(searched, arguments, argument, each) for each in given]
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        raise arguments.error(argument, given, "each column once")
    if len(names) > MOST_COLUMNS:
        raise arguments.error(argument, given, f"at most {MOST_COLUMNS} columns")
    return tuple(found)


def _column(searched: SearchTarget, arguments: Arguments, argument: str, given: str) -> TextColumn:
    """Return a column that is given with a boost (`title^2`) or without one."""
    name, sign, factor = given.rpartition("^")
    if not sign or given in searched.columns.names:
        name, factor = given, "1"
    kind = searched.column(name).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise SqlError(f"column {name!r} is {kind}; expected text")
    try:
        boost = float(factor)
    except ValueError:
        boost = math.nan
    if not 0 < boost <= MOST_BOOST:
        raise arguments.error(argument, given, f"a column, ^ and a number above 0, {MOST_BOOST:g} at most (title^2)")
    return TextColumn(name=name, boost=boost, options=searched.texts.get(name, {}))


def _query(arguments: Arguments) -> Node | None:
    words = arguments.text("query")
    if words is None and arguments.is_bound:
        raise SqlError(f"query of {arguments.function} is NULL; expected a text")
    return parse(
        words or "",
        Mode.named(arguments.text("mode") or Mode.ANY.value),
        fuzziness=arguments.number("fuzziness", least=0, most=MOST_FUZZINESS) or 0,
        slop=arguments.number("slop", least=0, most=MOST_SLOP) or 0,
        is_plain=_chosen(arguments, "syntax", SYNTAXES),
    )


def _chosen(arguments: Arguments, name: str, meanings: Mapping[str, bool]) -> bool:
    """Return what the value of an argument means; the first of the values if it is not given."""
    given = arguments.text(name) or next(iter(meanings))
    if given.lower() not in meanings:
        raise arguments.error(name, given, " or ".join(meanings))
    return meanings[given.lower()]
