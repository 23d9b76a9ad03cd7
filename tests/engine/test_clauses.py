"""Clauses that DataFusion's parser reads and its planner drops: refused by name, or rewritten; all others are left alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from datafusion import SessionContext
from lance_flight.engine.sql.functions import QUERIES_ONLY, session_config
from lance_flight.engine.sql.rewriting import for_datafusion
from lance_flight.errors import Unsupported

from tests.engine.clause_corpus import NAMES, PLANNED, REFUSED, REWRITTEN, WORDS


@pytest.fixture(scope="module")
def context() -> SessionContext:
    context = SessionContext(session_config())
    tables = {
        "t": {"a": [1, 2], "b": ["x", "y"], "id": [1, 2]},
        "u": {"a": [1, 3], "c": [1, 3]},
        "w": {word: [1, 2] for word in WORDS},
    }
    for name, columns in tables.items():
        context.register_record_batches(name, [[pa.record_batch(columns)]])
    return context


def plan(context: SessionContext, text: str) -> str | None:
    """What DataFusion makes of a text by itself; None for one that it refuses."""
    try:
        frame = context.sql_with_options(text, QUERIES_ONLY)
        return f"{frame.logical_plan().display_indent()}\n{frame.execution_plan().display_indent()}"
    except Exception:  # noqa: BLE001 - DataFusion has no class of its own for what it refuses
        return None


@pytest.mark.parametrize(("text", "without", "name"), REFUSED)
def test_a_clause_that_would_be_dropped_is_refused_by_name(text: str, without: str, name: str) -> None:
    with pytest.raises(Unsupported) as raised:
        for_datafusion(text)
    assert name in str(raised.value)
    assert "is not offered: " in str(raised.value)
    for_datafusion(without)


@pytest.mark.parametrize(("text", "without", "name"), REFUSED)
def test_datafusion_drops_or_refuses_it(context: SessionContext, text: str, without: str, name: str) -> None:
    # What it begins to plan one day need not be refused any more.
    assert plan(context, text) in {None, plan(context, without)}


@pytest.mark.parametrize(("text", "rewritten"), REWRITTEN)
def test_a_clause_with_a_simple_rewrite_is_rewritten(text: str, rewritten: str) -> None:
    assert "".join(for_datafusion(text).split()) == "".join(rewritten.split())


@pytest.mark.parametrize(("text", "without"), PLANNED)
def test_a_clause_that_datafusion_plans_is_left_alone(context: SessionContext, text: str, without: str) -> None:
    assert for_datafusion(text) == text
    assert plan(context, text) not in {None, plan(context, without)}


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize("word", WORDS)
def test_words_of_clauses_are_names_where_names_stand(context: SessionContext, text: str, word: str) -> None:
    query = text.format(word)
    assert for_datafusion(query) == query
    assert for_datafusion(query.upper()) == query.upper()
    assert plan(context, query) is not None
