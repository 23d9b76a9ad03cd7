"""Random statements over partitioned tables: against DuckDB, and against themselves in other forms."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from lance_flight.engine.query.partition_wise import division
from lance_flight.errors import LanceFlightError

from tests.differential.comparing import answer, difference, is_explained
from tests.differential.statements import Statements
from tests.differential.tables import KEYS, MATCHED, Peers, filled
from tests.selection import IS_FULL

CHUNKS, IN_CHUNK = (50, 300) if IS_FULL else (4, 30)


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Peers:
    return filled(tmp_path_factory.mktemp("differential") / "root")


@pytest.fixture(scope="module")
def matched(tmp_path_factory: pytest.TempPathFactory) -> Peers:
    return filled(tmp_path_factory.mktemp("matched") / "root", tables=MATCHED)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_queries_answer_as_duckdb_does(peers: Peers, chunk: int) -> None:
    statements = (Statements(seed).query() for seed in range(chunk * IN_CHUNK, (chunk + 1) * IN_CHUNK))
    found = [difference(peers, statement) for statement in statements]
    assert [each for each in found if each is not None] == []


@pytest.mark.parametrize("chunk", range(CHUNKS // 2))
def test_queries_by_partitions_answer_as_duckdb_does(matched: Peers, chunk: int) -> None:
    with matched.database.client() as client:
        client.run("SET group_rows = '0'")
        client.run(f"SET dynamic_pruning = '{'off' if chunk % 2 else 'on'}'")
        peers = Peers(client, matched.peer)
        statements = [Statements(seed, KEYS).query() for seed in range(chunk * IN_CHUNK, (chunk + 1) * IN_CHUNK)]
        found = [difference(peers, statement) for statement in statements]
        assert [each for each in found if each is not None] == []
        in_groups = (statement for statement in statements if is_in_groups(peers, statement))
        assert len(list(islice(in_groups, IN_CHUNK // 8 + 1))) > IN_CHUNK // 8


def is_in_groups(peers: Peers, statement: str) -> bool:
    """Whether any part of a query is run by partitions."""
    explained = answer(peers, f"EXPLAIN {statement}")
    rows = [] if isinstance(explained, LanceFlightError) else explained
    return any(kind == "groups" and "groups: none" not in text for kind, text in rows)


FOUND = {
    "a second attempt at a plan": "SELECT a2.ts FROM v AS a1 LEFT JOIN t AS a2 ON a1.d = a2.d AND a1.i IN (SELECT i FROM u)"
    " RIGHT JOIN v AS a4 ON a2.s = a4.s AND 'a' IN (SELECT s FROM u) WHERE a1.d < a1.ts",
    "one of two conditions over a join moved": "SELECT count(*) FROM p AS a1 LEFT JOIN v AS a2 ON a1.s = a2.s RIGHT JOIN (SELECT k, s, m, ts FROM t"
    " UNION ALL SELECT -1 - k AS k, s, CAST(2 AS DECIMAL(9, 2)) AS m, ts FROM e) AS a3 ON a2.m = a3.m AND (NULL AND a3.ts >= a3.ts)"
    " WHERE concat(a3.s, a2.s) > left(a2.s, 1) AND a1.b IS NULL",
    "a condition moved to those of the join below": "SELECT a3.ts, CAST(a3.ts AS DATE) AS c1 FROM t AS a1 LEFT JOIN u AS a2 ON a1.d = a2.d"
    " LEFT JOIN u AS a3 ON a2.d = a3.d AND (a3.ts NOT IN (a3.ts)) IS NOT FALSE WHERE concat(a3.s, a2.s) IS DISTINCT FROM a3.s AND 'a' IS DISTINCT FROM a2.s",
    "NOT IN of NULL beside EXCEPT": "SELECT b FROM t EXCEPT SELECT a2.b FROM v AS a2 WHERE CAST(NULL AS BIGINT) NOT IN (SELECT i FROM v AS a3)",
    "two constants as conditions of a scan": "WITH q AS (SELECT least(k, j, 2) AS c0, left(substr(s, 1, 0), 1) AS c1 FROM (SELECT k, j, s, d FROM v UNION ALL SELECT -1 - k, j, 'a', d FROM e) AS a"
    " WHERE NOT (s IN (s, 'B')) AND nullif(d, d) IN (SELECT d FROM p WHERE ('ab' >= s) IS FALSE)) SELECT a4.c0 FROM q AS a4 JOIN q AS a5 ON a4.c0 = a5.c0 WHERE reverse(a5.c1) IS NOT NULL",
    "one constant as a condition of a scan that is planned twice": "SELECT a2.d FROM t AS a1 RIGHT JOIN p AS a2 ON a1.i = a2.w"
    " FULL JOIN v AS a3 ON a2.s = a3.s AND ('ab' LIKE '') WHERE a1.b >= (a2.r <> a2.f)",
    **{
        f"NULL is equal to NULL in {name}": f"SELECT a.k, b.k AS c1, c.k AS c2 FROM {joined}"
        for name, joined in {
            "a join within a join": "u AS a JOIN t AS b ON a.d IS NOT DISTINCT FROM b.d JOIN v AS c ON a.k = c.k",
            "a list of tables": "u AS a, t AS b, v AS c WHERE a.d IS NOT DISTINCT FROM b.d AND a.k = c.k",
            "a cross join": "u AS a CROSS JOIN t AS b CROSS JOIN v AS c WHERE a.d IS NOT DISTINCT FROM b.d",
            "a negation": "u AS a JOIN t AS b ON NOT (a.d IS DISTINCT FROM b.d) JOIN v AS c ON a.k = c.k",
        }.items()
    },
    "one of two conditions over two joins moved": "SELECT date_trunc('day', coalesce(a1.ts, a2.ts)) AS c0, length(a3.s) AS c1 FROM t AS a1"
    " RIGHT JOIN (SELECT k, i, j, f, m, h, r, w, 'a' AS s, d, ts, true AS b FROM u) AS a2 ON a1.i = a2.i"
    " LEFT JOIN v AS a3 ON a2.i = a3.i AND (CAST(TIMESTAMP '1970-01-01 00:00:00' AS DATE) <> coalesce(a3.d, a3.d)) WHERE a3.j IS NOT DISTINCT FROM a1.f"
    " AND (a1.b <= a2.b) IS DISTINCT FROM a2.b AND nullif(a2.ts, TIMESTAMP '2024-02-29 12:00:00') <= CAST(DATE '2024-02-29' AS TIMESTAMP)",
    "conditions above one another moved into a union below a join": "SELECT c1 FROM (SELECT a2.ts AS c1 FROM (SELECT k, i, ts, d FROM v UNION ALL"
    " SELECT -1 - k AS k, CAST(2 AS BIGINT) AS i, ts, d FROM v WHERE i > 1) AS a2 JOIN v AS a3 ON a2.i = a3.i WHERE a2.d >= a3.d) AS a1"
    " WHERE -1 <> ANY (SELECT 3 FROM v)",
    "minus zero in a list of columns": "SELECT a1.k, a1.r IN (a1.k, 1, 2, 3) AS c1 FROM u AS a1 WHERE a1.r IN (a1.j, a1.k, a1.k, 100)",
}
"""Statements that were answered wrongly, or not at all."""


@pytest.mark.parametrize("statement", FOUND.values(), ids=FOUND)
def test_a_statement_that_was_found_answers_as_duckdb_does(peers: Peers, statement: str) -> None:
    assert difference(peers, statement) is None


@pytest.mark.parametrize("condition", ["NOT IN (a1.s, a1.s, a1.s, a1.s)", "IN ('a', a1.s, trim(a1.s))"])
def test_a_condition_over_an_outer_join_by_partitions_stays_above_it(matched: Peers, condition: str) -> None:
    statement = (
        "SELECT a1.k, a2.k AS k2 FROM u AS a1 RIGHT JOIN (SELECT k, i, s FROM v UNION ALL SELECT -1 - k AS k, i, s FROM t"
        f" WHERE i > 1) AS a2 ON a1.i = a2.i WHERE trim(a2.s) {condition}"
    )
    assert difference(matched, statement) is None


def test_no_keys_of_merge_joins_are_read(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_MANY", 0), ("_FEWER", 0), ("_SHARE", 1)):
        monkeypatch.setattr(division, name, value)
    assert difference(peers, FOUND["one of two conditions over two joins moved"] + " ") is None


@pytest.mark.parametrize("chunk", range(CHUNKS // 4))
def test_a_condition_divides_the_rows(peers: Peers, chunk: int) -> None:
    """Ternary logic partitioning: the rows where a condition is true, false and NULL are all rows."""
    for seed in range(chunk * IN_CHUNK, (chunk + 1) * IN_CHUNK):
        whole, parts = Statements(seed).partitioned_by_condition()
        answers = [answer(peers, statement) for statement in (whole, *parts)]
        errors = [each for each in answers if isinstance(each, LanceFlightError)]
        assert all(map(is_explained, errors)), (parts, errors)
        if not errors:
            all_rows, *divided = answers
            assert sum(map(Counter, divided), Counter()) == Counter(all_rows), parts


@pytest.mark.parametrize("chunk", range(CHUNKS // 4))
def test_a_filter_keeps_what_its_condition_says(peers: Peers, chunk: int) -> None:
    """NoREC: a condition is planned in another way as a filter than as a value."""
    for seed in range(chunk * IN_CHUNK, (chunk + 1) * IN_CHUNK):
        filtered, computed = (answer(peers, statement) for statement in Statements(seed).counted_twice())
        if not isinstance(filtered, LanceFlightError) or not is_explained(filtered):
            assert str(filtered) == str(computed), Statements(seed).counted_twice()
