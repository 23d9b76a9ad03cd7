"""Vectors inside structs: searched and indexed by their paths, whatever the fields are called later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.search import running
from lance_flight.errors import NotFound, Unsupported

from tests.engine.database import open_engine
from tests.search.collection import Documents, literal, query, told

VECTOR = [0.25, -1.0, 0.5, 2.0, 0.0, 1.5, -0.75, 1.0]
EXACTLY = "nprobes => 100, refine => 100"


@pytest.fixture(params=["", " PARTITIONED BY (tenant)"], ids=["plain", "partitioned"])
def nested(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Engine, Documents]:
    """A table whose vectors are in a struct, NULL here and there in the place of the struct or of the vector."""
    of, documents = open_engine(tmp_path / "root"), Documents.random(200)
    of.update(
        "CREATE TABLE docs (id BIGINT, tenant VARCHAR, meta STRUCT<title VARCHAR, embedding FLOAT[8], inner STRUCT<v FLOAT[8]>>)"
        + request.param
    )
    name = TableName(PUBLIC, "docs")
    struct = of.root.read(name, lambda found: found.snapshot().schema.plain.field("meta").type)
    rows = [{"id": row["id"], "tenant": row["tenant"], "meta": meta_of(row)} for row in documents.rows]
    stored = pa.Table.from_pylist(rows, pa.schema({"id": pa.int64(), "tenant": pa.utf8(), "meta": struct}))
    of.ingest(name, stored.to_reader(), create_missing=False, existing=IfExists.APPEND)
    return of, documents


def meta_of(row: dict[str, Any]) -> dict[str, Any] | None:
    """What a row has in its struct: none where it has neither a vector nor a text."""
    if row["embedding"] is None and row["body"] is None:
        return None
    return {"title": row["body"], "embedding": row["embedding"], "inner": {"v": row["embedding"]}}


def found(of: Engine, path: str, more: str = "", columns: str = "id, _distance") -> list[dict[str, Any]]:
    return query(
        of, f"SELECT {columns} FROM vector_search('docs', '{path}', {literal(VECTOR)}, k => 9, {EXACTLY}{more})"
    )


def is_same(rows: list[dict[str, Any]], documents: Documents, metric: str = "l2") -> bool:
    nearest = documents.nearest(VECTOR, metric)[:9]
    return [row["id"] for row in rows] == [number for _, number in nearest] and np.allclose(
        [row["_distance"] for row in rows], [far for far, _ in nearest], atol=1e-4
    )


@pytest.mark.parametrize("path", ["meta.embedding", "meta.inner.v"])
def test_vectors_inside_structs_are_searched(nested: tuple[Engine, Documents], path: str) -> None:
    of, documents = nested
    assert is_same(found(of, path), documents)
    of.update(
        f"CREATE INDEX ON docs ({path}) USING ivf_flat WITH (min_rows = 1, num_partitions = 2, metric = 'cosine')"
    )
    (row,) = query(of, "SHOW INDEXES FROM docs")
    assert (row["name"], row["column_name"], row["indexed_rows"]) == (f"{path.replace('.', '_')}_idx", path, 200)
    assert is_same(found(of, path), documents, "cosine")
    few = Documents([row for row in documents.rows if row["tenant"] == "a" and row["id"] % 2])
    assert is_same(found(of, path, ", filter => 'tenant = ''a'' AND id % 2 = 1'"), few, "cosine")
    titles = {row["id"]: row["body"] for row in documents.rows}
    for row in found(of, path, columns="id, _distance, meta['title'] AS title"):
        assert row["title"] == titles[row["id"]]


def test_the_index_of_a_field_follows_its_name_and_goes_with_it(nested: tuple[Engine, Documents]) -> None:
    of, documents = nested
    of.update("CREATE INDEX v ON docs (meta.embedding) USING ivf_flat WITH (min_rows = 1, num_partitions = 2)")
    of.update("ALTER TABLE docs RENAME COLUMN meta.embedding TO vector")
    of.update("DELETE FROM docs WHERE id < 50")
    left = Documents(documents.rows[50:])
    assert is_same(found(of, "meta.vector"), left)
    query(of, "REINDEX docs")
    assert [row["column_name"] for row in query(of, "SHOW INDEXES FROM docs")] == ["meta.vector"]
    of.update("ALTER TABLE docs DROP COLUMN meta.vector")
    assert query(of, "SHOW INDEXES FROM docs") == []


NESTED_ERRORS = {
    "vector_search('docs', 'meta.embeding', [1.0])": "did you mean 'meta.embedding'",
    "vector_search('docs', 'meta.title', [1.0])": "column 'meta.title' is string; expected vectors",
    "vector_search('docs', 'meta', [1.0])": "expected vectors",
    "vector_search('docs', 'id.embedding', [1.0])": "no field 'id.embedding'",
    "vector_search('docs', 'meta.embedding', [1.0])": "has 1 values; expected 8 numbers, as column 'meta.embedding' has",
}


@pytest.mark.parametrize("call", NESTED_ERRORS)
def test_what_is_wrong_with_a_path_is_said(nested: tuple[Engine, Documents], call: str) -> None:
    said = told(nested[0], f"SELECT id FROM {call}")
    assert NESTED_ERRORS[call] in said
    assert not said.startswith("[")


def test_an_index_of_a_path_that_is_none_is_refused(nested: tuple[Engine, Documents]) -> None:
    with pytest.raises(NotFound, match=r"did you mean 'meta\.embedding'"):
        nested[0].update("CREATE INDEX ON docs (meta.embeding) USING ivf_flat")
    with pytest.raises(Unsupported, match=r"'meta\.title', which is inside a struct"):
        nested[0].update("CREATE INDEX ON docs (meta.title) USING inverted")


def test_explain_advises_an_index_of_the_path(
    nested: tuple[Engine, Documents], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MANY_ROWS", 100)
    of, _ = nested
    sql = f"SELECT id FROM vector_search('docs', 'meta.embedding', {literal(VECTOR)}"

    def advised(more: str) -> list[str]:
        plans = query(of, f"EXPLAIN {sql}{more})")
        return [line for row in plans for line in row["plan"].splitlines() if line.startswith("advice: ")]

    (line,) = advised("")
    said, _, create = line.partition("; ")
    assert said == "advice: 200 vectors are compared one by one"
    assert create == "CREATE INDEX ON docs (meta.embedding) USING ivf_pq WITH (metric = 'l2')"
    of.update("CREATE INDEX v ON docs (meta.embedding) USING ivf_flat WITH (min_rows = 1, num_partitions = 8)")
    assert advised("") == []
    assert "nprobes => 1 leaves most of the up to 8 parts" in advised(", nprobes => 1")[0]
