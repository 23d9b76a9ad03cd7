"""Advice of EXPLAIN: a search that will be slow, or miss rows, says which statement or argument helps, and others say nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import UNLIMITED, Access
from lance_flight.engine.query.policy_file import Policies
from lance_flight.engine.query.search import running

from tests.search.collection import Documents, literal, made, query, store

ROWS = 600
NEAR = literal([0.5] * 8)


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Two partitions of some hundred rows, which count as many."""
    monkeypatch.setattr(running, "MANY_ROWS", 100)
    return made(tmp_path / "root", Documents.random(ROWS), "bucket(2, id)")


def advised(docs: Engine, sql: str, access: Access = UNLIMITED) -> list[str]:
    """The lines of advice for a query."""
    plans = query(docs, f"EXPLAIN {sql}", access=access)
    return [line.removeprefix("advice: ") for row in plans for line in row["plan"].splitlines() if "advice: " in line]


def near(more: str = "") -> str:
    return f"SELECT id FROM vector_search('docs', 'embedding', {NEAR}{more})"


ORDERED = f"SELECT id FROM docs ORDER BY array_distance(embedding, {NEAR}) LIMIT 5"
WORDS = "SELECT id FROM full_text_search('docs', 'body', 'lance')"
BOTH = f"SELECT id FROM hybrid_search('docs', 'embedding', {NEAR}, 'body', 'lance')"
COMPARED = "600 vectors are compared one by one; CREATE INDEX ON docs (embedding) USING ivf_pq WITH (metric = '{}')"
CUT = "600 texts are cut into words for this search; CREATE INDEX ON docs (body) USING inverted"
FLAT = "CREATE INDEX v ON docs (embedding) USING ivf_flat WITH (min_rows = 1, num_partitions = 8)"
TEXTS = "CREATE INDEX w ON docs (body) USING inverted"
PQ = "CREATE INDEX v ON docs (embedding) USING ivf_pq WITH (min_rows = 1, num_bits = 4)"
COSINE = "CREATE INDEX v ON docs (embedding) USING ivf_flat WITH (min_rows = 1, metric = 'cosine')"
PROBES = "nprobes => 1 leaves most of the up to 8 parts of each index out; nprobes => 2 or more finds more of the nearest rows"
SHORT = "index v (ivf_pq) measures shortened vectors; refine => 4 compares the stored ones of the best rows"
UNUSED = "600 vectors are compared one by one, though there is index v (ivf_flat)"
ADVICE = {
    "no index": ((), near(), [COMPARED.format("l2")]),
    "no index, another metric": ((), near(", metric => 'dot'"), [COMPARED.format("dot")]),
    "no index, by ORDER BY": ((), ORDERED, [COMPARED.format("l2")]),
    "no index of texts": ((), WORDS, [CUT]),
    "no index at all": ((), BOTH, [COMPARED.format("l2"), CUT]),
    "an index": ([FLAT], near(), []),
    "an index, by ORDER BY": ([FLAT], ORDERED, []),
    "an index of texts": ([TEXTS], WORDS, []),
    "another metric": (
        [COSINE],
        near(", metric => 'l2'"),
        [f"{COMPARED.format('l2')}, or search by cosine, as an index does"],
    ),
    "that of the index": ([COSINE], near(), []),
    "an index that is not used": ([FLAT], near(", use_index => false"), [UNUSED]),
    "few probes": ([FLAT], near(", nprobes => 1"), [PROBES]),
    "enough probes": ([FLAT], near(", nprobes => 2"), []),
    "shortened vectors": ([PQ], near(), [SHORT]),
    "refined ones": ([PQ], near(", refine => 2"), []),
    "those of ORDER BY": ([PQ], ORDERED, []),
}


@pytest.mark.parametrize(("indices", "sql", "expected"), ADVICE.values(), ids=ADVICE)
def test_explain_advises(docs: Engine, indices: list[str], sql: str, expected: list[str]) -> None:
    for index in indices:
        docs.update(index)
    assert advised(docs, sql) == expected


def test_advice_can_be_typed_and_then_is_gone(docs: Engine) -> None:
    for sql in (near(", refine => 2"), WORDS):
        (line,) = advised(docs, sql)
        docs.update(re.sub(r".*; (?=CREATE)", "", line).replace("metric = 'l2'", "metric = 'l2', min_rows = 1"))
        assert advised(docs, sql) == []


def test_a_stale_index_is_to_be_renewed(docs: Engine) -> None:
    docs.update(FLAT)
    docs.update(TEXTS)
    store(docs, Documents.random(200, seed=4, start=5000))
    for name, sql in (("v", near()), ("w", WORDS)):
        (line,) = advised(docs, sql)
        statement = f"REINDEX TABLE docs INDEX {name}"
        assert line == f"200 rows of 2 tables are not in index {name}, and looked at one by one; {statement}"
        query(docs, statement)
        assert advised(docs, sql) == []


def test_tables_that_are_too_small_for_an_index_do_not_count(docs: Engine) -> None:
    docs.update(FLAT.replace("min_rows = 1,", "min_rows = 1000,"))
    assert advised(docs, near()) == []


def test_many_tables_ask_for_a_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MANY_TABLES", 5)
    docs = made(tmp_path / "root", Documents.random(50), "tenant")
    assert advised(docs, near()) == ["5 partition tables are searched; a filter on tenant leaves fewer"]
    assert advised(docs, near(", filter => 'tenant = ''a'''")) == []


def test_nothing_is_said_of_a_hidden_layout(docs: Engine) -> None:
    policies = Policies.parse(
        '[roles.r]\nmembers = ["ann", "bob"]\ngrants = ["SELECT (tenant, embedding) ON docs"]\n'
        '[roles.s]\nmembers = ["bob"]\ngrants = ["SELECT (id) ON docs"]'
    )
    sql = near().replace("id FROM", "tenant FROM")
    assert advised(docs, sql, policies.access("bob")) == [COMPARED.format("l2")]
    assert advised(docs, sql, policies.access("ann")) == []


def test_no_advice_is_worked_out_where_nobody_asks(docs: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "map_tables", None)
    assert len(query(docs, near())) == 10
