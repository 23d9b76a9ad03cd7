"""Milliseconds of statements of one tenant beside 64 larger ones ÷ the same statements where it has the root for itself.

Both roots have the tenant's rows in the same files, indices included, and serve it by a policy that leaves it its own rows. What differs is what
others have: what a statement of the tenant takes must not tell of that. The texts have words of Zipf's frequencies, and each search asks for others.
The two servers take turns, in the other order every other round, and have to give the same rows and scores.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import data, servers
from benchmarks.bench import Bench
from benchmarks.client import SqlClient
from benchmarks.results import FINE_MILLISECONDS, Aim, Result
from benchmarks.timing import interleaved, timed

OTHERS, LARGER = 64, 10
"""The other tenants, and how many times as many rows as ours each of them has, where there are enough to measure."""
WORDS, WORDS_OF_TEXT, DIMENSIONS, STATEMENTS, COUNT = 5_000, 12, 32, 24, 10
ROWS = 20_000
TENANT = 7
POLICY = f"""
[roles.tenants]
members = ["*"]
grants = ["SELECT ON docs WHERE tenant = {TENANT}"]
"""
ALIKE = Aim("ratio", "≤", 1.1)
Statement = Callable[[np.random.Generator], str]


def measure(bench: Bench) -> list[Result]:
    """Searches by words and by vectors, and a count."""
    rows = max(min(ROWS, bench.options.rows // (OTHERS * LARGER)), 500)
    place = bench.scratch("tenants")
    policy = place / "policy.toml"
    policy.write_text(POLICY)
    roots = {"alone": place / "alone", "beside": place / "beside"}
    _store(roots["alone"], rows)
    shutil.copytree(roots["alone"], roots["beside"])
    _add_others(roots["beside"], LARGER * rows)
    with ExitStack() as stack:
        clients = {
            name: stack.enter_context(
                SqlClient(stack.enter_context(servers.ours(root, "--policy-file", str(policy), "--maintenance", "off")))
            )
            for name, root in roots.items()
        }
        chance = np.random.default_rng(data.SEED)
        texts = {what: [statement(chance) for _ in range(STATEMENTS)] for what, statement in _STATEMENTS.items()}
        for statements in texts.values():
            for sql in statements:
                data.expect(sql, clients["beside"].rows(sql), clients["alone"].rows(sql))
        cases = {
            f"{name} {what}": timed(_run, client, statements)
            for what, statements in texts.items()
            for name, client in clients.items()
        }
        seconds = interleaved(cases, 4 * bench.options.rounds)
    return [
        Result(
            what=f"{what} of a tenant with {rows:,} rows beside {OTHERS} with {LARGER * rows:,} each, limit alone",
            ours=seconds[f"beside {what}"] / STATEMENTS,
            limit=seconds[f"alone {what}"] / STATEMENTS,
            unit=FINE_MILLISECONDS,
            aims=(ALIKE,),
        )
        for what in texts
    ]


def _run(client: SqlClient, statements: list[str]) -> None:
    for sql in statements:
        client.rows(sql)


def _store(root: Path, rows: int) -> None:
    """Store the rows of the tenant, under an index of texts and one of vectors."""
    parts = max(rows // 1000, 1)
    with servers.ours(root) as server, SqlClient(server) as client:
        data.expect("rows stored", client.ingest("docs", _rows(TENANT, rows), partition_by="tenant"), rows)
        client.update("CREATE INDEX words ON docs (body) USING inverted")
        client.update(f"CREATE INDEX near ON docs (v) USING ivf_sq WITH (num_partitions = {parts}, min_rows = 1)")


def _add_others(root: Path, rows: int) -> None:
    with servers.ours(root) as server, SqlClient(server) as client:
        for number in range(OTHERS + 1):
            if number != TENANT:
                data.expect("rows stored", client.ingest("docs", _rows(number, rows)), rows)
        client.rows("REINDEX docs")


def _rows(tenant: int, count: int) -> pa.Table:
    chance = np.random.default_rng([data.SEED, tenant])
    words = np.minimum(chance.zipf(1.3, size=(count, WORDS_OF_TEXT)), WORDS)
    vectors = chance.normal(size=(count, DIMENSIONS)).astype(np.float32)
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "tenant": pa.array([tenant] * count, pa.int64()),
            "body": [" ".join(f"word{word}" for word in text) for text in words.tolist()],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSIONS),
        }
    )


def _words(chance: np.random.Generator) -> str:
    words = " ".join(f"word{word}" for word in np.minimum(chance.zipf(1.3, size=3), WORDS).tolist())
    return f"SELECT id, _score FROM full_text_search('docs', 'body', '{words}', k => {COUNT})"


def _vector(chance: np.random.Generator) -> str:
    values = ", ".join(map(str, chance.normal(size=DIMENSIONS).round(4).tolist()))
    return f"SELECT id, _distance FROM vector_search('docs', 'v', [{values}], k => {COUNT}, nprobes => 4)"


def _count(chance: np.random.Generator) -> str:
    return f"SELECT count(*) AS n FROM docs WHERE id % 97 = {chance.integers(97)}"


_STATEMENTS: Mapping[str, Statement] = {
    f"full-text top {COUNT}": _words,
    f"vector top {COUNT}": _vector,
    "count": _count,
}
