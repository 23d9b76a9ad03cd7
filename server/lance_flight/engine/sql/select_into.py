"""SELECT … INTO t FROM …, which other dialects write for CREATE TABLE t AS SELECT …."""

from __future__ import annotations

from collections.abc import Sequence

from lance_flight.engine.sql.tokens import Kind, Token, tokenize

TEMPORARY_SIGN = "#"
"""First sign of the names of temporary tables, as Transact-SQL has it."""
_NAMES = frozenset({Kind.WORD, Kind.NAME})


def without_into(sql: str) -> str:
    """Return a SELECT with INTO as the CREATE TABLE that it is; any other statement as it is.

    >>> without_into('SELECT a INTO "#x" FROM t')
    'CREATE TEMPORARY TABLE "#x" AS SELECT a FROM t'
    """
    if sql[:6].upper() != "SELECT" and sql.lstrip()[:6].upper() != "SELECT":
        return sql
    tokens = tokenize(sql)
    into = _place(tokens)
    if into is None:
        return sql
    name = into + 1
    is_temporary = tokens[name].word in {"TEMP", "TEMPORARY"} and tokens[name + 1].kind in _NAMES
    name += is_temporary
    end = name + 1
    while end + 1 < len(tokens) and tokens[end].is_sign(".") and tokens[end + 1].kind in _NAMES:
        end += 2
    is_temporary |= tokens[end - 1].text.startswith(TEMPORARY_SIGN)
    table = sql[tokens[name].start : tokens[end - 1].stop]
    query = sql[: tokens[into].start].strip() + " " + sql[tokens[end - 1].stop :].strip()
    return f"CREATE {'TEMPORARY ' * is_temporary}TABLE {table} AS {query.strip()}"


def _place(tokens: Sequence[Token]) -> int | None:
    """Return the place of the INTO between the list of a SELECT and its FROM."""
    depth = 0
    for at, token in enumerate(tokens[:-1]):
        if token.kind is Kind.SIGN:
            depth += (token.text in "([{") - (token.text in ")]}")
        before, after = tokens[at - 1], tokens[at + 1]
        if depth == 0 and token.word in {"FROM", "UNION", "WHERE"} and before.word != "DISTINCT":
            return None
        is_clause = at > 1 and not before.is_sign(",") and not before.is_sign(".") and before.word != "AS"
        if depth == 0 and token.word == "INTO" and is_clause and after.kind in _NAMES:
            return at if after.word != "FROM" else None
    return None
