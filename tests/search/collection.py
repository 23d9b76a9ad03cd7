"""A table of documents with vectors and texts, and what a search of it must find, worked out row by row."""

from __future__ import annotations

import atexit
import shutil
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import UNLIMITED, Access
from lance_flight.engine.query.planned_query import Task
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.session_registry import QueryOptions, Session
from lance_flight.errors import LanceFlightError

from tests.engine.database import open_engine

DIMENSIONS = 8
VECTOR = np.random.default_rng(7).normal(size=DIMENSIONS).round(3).tolist()
"""What most searches are for."""
EXACTLY = QueryOptions(exact_search=True)
TENANTS = ("a", "b", "c", "d", None)
WORDS = ("lance", "arrow", "flight", "spark", "format", "table", "open", "file", "index", "vector")


@dataclass(frozen=True)
class Documents:
    """Rows, some of them without a vector or a text, and the same as columns."""

    rows: list[dict[str, Any]]

    @classmethod
    def random(cls, count: int, seed: int = 0, start: int = 0) -> Documents:
        chance = np.random.default_rng(seed)
        vectors = chance.normal(size=(count, DIMENSIONS)).astype(np.float32)
        return cls(
            [
                {
                    "id": start + number,
                    "tenant": TENANTS[int(chance.integers(len(TENANTS)))],
                    "price": int(chance.integers(10)),
                    "embedding": None if chance.random() < 0.1 else vectors[number].tolist(),
                    "body": None if chance.random() < 0.1 else " ".join(chance.choice(WORDS, 6)),
                }
                for number in range(count)
            ]
        )

    @property
    def table(self) -> pa.Table:
        schema = pa.schema(
            {
                "id": pa.int64(),
                "tenant": pa.utf8(),
                "price": pa.int64(),
                "embedding": pa.list_(pa.float32(), DIMENSIONS),
                "body": pa.utf8(),
            }
        )
        return pa.Table.from_pylist(self.rows, schema=schema)

    def nearest(self, vector: list[float], metric: str = "l2") -> list[tuple[float, int]]:
        """(distance, id) of every row with a vector, nearest first."""
        found = [
            (distance(np.array(row["embedding"], np.float32), np.array(vector, np.float32), metric), row["id"])
            for row in self.rows
            if row["embedding"] is not None
        ]
        return sorted(found)


def distance(one: np.ndarray, other: np.ndarray, metric: str) -> float:
    match metric:
        case "l2":
            return float(((one - other) ** 2).sum())
        case "cosine":
            return float(1 - one @ other / np.linalg.norm(one) / np.linalg.norm(other))
        case _:
            return float(1 - one @ other)


def store(of: Engine, documents: Documents, name: str = "docs") -> None:
    of.ingest(TableName(PUBLIC, name), documents.table.to_reader(), create_missing=False, existing=IfExists.APPEND)


def made(
    root: Path,
    documents: Documents,
    partitioned_by: str = "tenant",
    *,
    stable_row_ids: bool = False,
    vector_index: str | None = None,
) -> Engine:
    """A table with these rows, which keep their ids or not: a copy of the first one that was made of them."""
    key = repr((documents.rows, partitioned_by, stable_row_ids))
    template = _templates() / sha256(key.encode()).hexdigest()
    if not template.exists():
        fill(open_engine(template), documents, partitioned_by, stable_row_ids=stable_row_ids)
    shutil.copytree(template, root, dirs_exist_ok=True)
    engine = open_engine(root)
    if vector_index is not None:
        engine.update(f"CREATE INDEX v ON docs (embedding) USING {vector_index}")
    return engine


@cache
def _templates() -> Path:
    """Where a process keeps the tables that its tests copy."""
    place = Path(mkdtemp(prefix="tables-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def fill(of: Engine, documents: Documents, partitioned_by: str = "tenant", *, stable_row_ids: bool = False) -> None:
    of.update(
        f"CREATE TABLE docs (id BIGINT, tenant VARCHAR, price BIGINT, embedding FLOAT[{DIMENSIONS}], body VARCHAR)"
        f" PARTITIONED BY ({partitioned_by}) WITH (stable_row_ids = {stable_row_ids})"
    )
    store(of, documents)


def query(
    of: Engine, sql: str, parameters: pa.RecordBatch | None = None, access: Access = UNLIMITED
) -> list[dict[str, Any]]:
    plan = of.plan(sql, parameters, scope=Scope(access=access))
    assert plan is not None
    parts = [of.run(Task.from_bytes(task.to_bytes()), access=access).read_all() for task in plan.tasks]
    rows: list[dict[str, Any]] = pa.concat_tables(parts).to_pylist()
    return rows


def told(of: Engine, sql: str, access: Access = UNLIMITED) -> str:
    """The rows of a query, or the error that it gives."""
    try:
        return str(query(of, sql, access=access))
    except LanceFlightError as error:
        return f"{type(error).__name__}: {error}"


def same(rows: list[dict[str, Any]], expected: list[tuple[float, int]]) -> bool:
    """Tell whether rows are these, in this order, with these distances."""
    return [row["id"] for row in rows] == [number for _, number in expected] and bool(
        np.allclose([row["_distance"] for row in rows], [distance for distance, _ in expected], atol=1e-4)
    )


def literal(vector: list[float]) -> str:
    return "[" + ", ".join(map(str, vector)) + "]"


def searches(of: Engine, sql: str, options: QueryOptions | None = None, access: Access = UNLIMITED) -> list[str]:
    """What EXPLAIN says of the searches of a query, and of their absence."""
    scope = Scope(Session(execution=options or QueryOptions()), access=access)
    plan = of.plan(f"EXPLAIN {sql}", None, scope=scope)
    assert plan is not None
    rows = of.run(Task.from_bytes(plan.tasks[0].to_bytes()), access=access).read_all().to_pylist()
    return [row["plan"] for row in rows if row["plan"].startswith("search: ") or row["plan_type"] == "search"]
