"""LanceDB's Python client on an embedded database and on the server: one script, whose answers are the same at each step."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pytest
from lancedb.db import DBConnection
from lancedb.embeddings import TextEmbeddingFunction, get_registry, register
from lancedb.index import FTS, BTree, IvfFlat
from lancedb.pydantic import LanceModel, Vector
from lancedb.query import BooleanQuery, MatchQuery, MultiMatchQuery, Occur, PhraseQuery
from lancedb.rerankers import LinearCombinationReranker, RRFReranker
from lancedb.table import Table

from tests.lancedb.rest_server import connect, serving_rest

warnings.filterwarnings("ignore", category=DeprecationWarning)

ROWS, DIMENSIONS = 400, 4
VECTORS = np.random.default_rng(11).normal(size=(ROWS, DIMENSIONS)).astype(np.float32)
WORDS = ("lance", "format", "open", "table", "search", "vector", "fast")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("tenant", pa.string()),
        pa.field("price", pa.float64(), metadata={"unit": "EUR"}),
        pa.field("At", pa.timestamp("us")),
        pa.field("body", pa.string()),
        pa.field("vector", pa.list_(pa.float32(), DIMENSIONS)),
    ],
    {"owner": "somebody"},
)


def documents(first: int = 0, count: int = ROWS) -> pa.Table:
    """Rows with a vector, a text and a time."""
    numbers = range(first, first + count)
    texts = [" ".join(WORDS[(n * step) % len(WORDS)] for step in range(1, 3 + n % 4)) + f" n{n}" for n in numbers]
    return pa.table(
        {
            "id": list(numbers),
            "tenant": ["abc"[n % 3] for n in numbers],
            "price": [n / 4 for n in numbers],
            "At": [datetime(2026, 1 + n % 12, 1, tzinfo=UTC).replace(tzinfo=None) for n in numbers],
            "body": texts,
            "vector": VECTORS[[n % ROWS for n in numbers]].tolist(),
        },
        schema=SCHEMA,
    )


@dataclass
class Scene:
    """A connection, and its table of documents; `say` collects the answers."""

    db: DBConnection
    table: Table
    answers: list[tuple[str, Any]] = field(default_factory=list)


Step = Callable[[Scene], Any]
QUERY = (VECTORS[7] + np.float32(0.01)).tolist()


def shown(value: Any) -> Any:
    """An answer as it is compared: rows with rounded scores, and without numbers of rows that only one server knows."""
    if isinstance(value, pa.Table):
        return [{name: shown(row[name]) for name in sorted(row) if name != "_rowid"} for row in value.to_pylist()]
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    return value


def ids(value: pa.Table) -> list[int]:
    """The ids of rows in no order."""
    return sorted(value["id"].to_pylist())


def raised(work: Callable[[], Any]) -> Exception:
    """The exception that a call raises."""
    with pytest.raises(Exception) as found:  # noqa: PT011 - which one it is is compared
        work()
    return found.value


def failure(work: Callable[[], Any]) -> str:
    """The class of the exception that a call raises."""
    return type(raised(work)).__name__


@register("letters")
class Letters(TextEmbeddingFunction):
    """Vectors of texts: how many letters of each kind they have."""

    def generate_embeddings(self, texts: list[str]) -> list[list[float]]:
        """The vectors of some texts."""
        return [[float(text.count(letter)) for letter in "abcd"] for text in texts]

    def ndims(self) -> int:
        """The size of each."""
        return 4


LETTERS = get_registry().get("letters").create()


class Embedded(LanceModel):
    """A text, whose vector is computed when it is added and when it is searched."""

    text: str = LETTERS.SourceField()
    vector: Vector(4) = LETTERS.VectorField()


NAMED = pa.table(
    {
        "id": [1, 2, 3],
        **{name: [1, 5, 9] for name in ("end", "when", "and", "is", "between", "value", "Case")},
        "not": [True, False, True],
        "like": ["x", "y", "z"],
        "null": [1, None, 3],
        "meta": [{"ID": n, "end": n, "fileName": f"f{n}"} for n in range(3)],
        "source": [{"ID": n} for n in range(3)],
    }
)
CONDITIONS = (
    "end > 1 AND end < 9",
    "and = 5 AND id > 1",
    "is IS NOT NULL AND `null` IS NULL",
    "between BETWEEN 2 AND 6 OR when IN (9)",
    "NOT `not` AND like LIKE 'y%'",
    "value NOT IN (1) AND `like` NOT LIKE 'z'",
    "Case = 5 OR `Case` = 9",
    "meta.ID = 1 AND META.end < 2",
    "meta.fileName = 'f2' OR source.ID = 0",
    "-end + abs(when) = 0 AND cast(end as string) = '5'",
)
"""Conditions over columns whose names are words of SQL, and fields with capital letters."""


def odd_names(scene: Scene) -> Any:
    """Rows that conditions find, values that expressions have, and what merges and updates do with them."""
    table = scene.db.create_table("named", NAMED, mode="overwrite")
    found: list[Any] = [ids(table.search().where(condition).limit(9).to_arrow()) for condition in CONDITIONS]
    found.append(sorted(row["x"] for row in table.search().select({"x": "meta.ID + end"}).limit(9).to_list()))
    table.update(where="id = 2 AND end > 1", values_sql={"end": "end + meta.ID", "and": "and - 1"})
    condition = "target.end > 1 AND source.and = 5 AND target.meta.ID = source.meta.ID"
    merged = table.merge_insert("id").when_matched_update_all(where=condition).execute(NAMED)
    found.append((merged.num_updated_rows, ids(table.search().where("end = 5 AND and = 5").limit(9).to_arrow())))
    scene.db.drop_table("named")
    return found


def embedded(scene: Scene) -> Any:
    """Rows of a table with an embedding function, found by a text once it is opened again."""
    scene.db.create_table("embedded", schema=Embedded, mode="overwrite").add([{"text": "abba"}, {"text": "dada"}])
    table = scene.db.open_table("embedded")
    table.add([{"text": "cab"}])
    found = table.search("dad", vector_column_name="vector").limit(2).to_pydantic(Embedded)
    scene.db.drop_table("embedded")
    return [each.text for each in found]


def two_columns(scene: Scene) -> Any:
    """The ids that are found by a vector, whose size tells which column is meant; and fixed-size bytes."""
    short, long = pa.list_(pa.float32(), 2), pa.list_(pa.float32(), 3)
    columns = {"id": [1, 2], "a": pa.array([[1, 2], [2, 1]], short), "b": pa.array([[9] * 3, [1] * 3], long)}
    table = scene.db.create_table("two", pa.table(columns | {"c": pa.array([b"xy", None], pa.binary(2))}))
    found = [table.search(vector).limit(1).to_arrow()["id"].to_pylist() for vector in ([1.0, 2.0], [1.0] * 3)]
    scene.db.drop_table("two")
    return found, table.schema.field("c").type


def two_rows() -> pa.Table:
    """A row that the table has, and one whose tenant alone it has."""
    rows = documents(20, 2)
    return rows.set_column(1, SCHEMA.field("tenant"), pa.array([rows["tenant"][0].as_py(), "c"]))


STEPS: dict[str, Step] = {
    # Tables
    "schema": lambda s: s.table.schema,
    "count": lambda s: s.table.count_rows(),
    "count with a filter": lambda s: s.table.count_rows("price < 10 AND tenant = 'a'"),
    "names": lambda s: list(s.db.table_names()),
    "a table that exists": lambda s: failure(lambda: s.db.create_table("docs", documents())),
    "exist_ok": lambda s: s.db.create_table("docs", schema=SCHEMA, exist_ok=True).count_rows(),
    "a table that is absent": lambda s: failure(lambda: s.db.open_table("absent")),
    "metadata": lambda s: (s.table.schema.metadata, s.table.schema.field("price").metadata),
    "metadata of a column": lambda s: (
        s.table.update_field_metadata({"path": "price", "metadata": {"unit": None, "of": "a"}}, {"path": "id", "metadata": {"b": "1"}, "replace": True}),
        [s.db.open_table("docs").schema.field(name).metadata for name in ("price", "id", "body")],
    )[1],
    "embeddings": embedded,
    # Queries
    "a filter": lambda s: ids(s.table.search().where("price > 90").to_arrow()),
    "a name with a capital": lambda s: ids(s.table.search().where("At > timestamp '2026-11-15 00:00:00'").limit(50).to_arrow()),
    "names in another case": lambda s: s.table.count_rows("TENANT = 'a' AND at > timestamp '2026-06-15 00:00:00' AND \"id\" < 90"),
    "a name in backticks": lambda s: ids(s.table.search().where("`At` IS NOT NULL AND `id` IN (1, 2)").to_arrow()),
    "limit and offset": lambda s: len(s.table.search().limit(7).offset(3).to_arrow()),
    "select": lambda s: s.table.search().select(["body", "id"]).where("id = 5").to_arrow(),
    "select expressions": lambda s: s.table.search().select({"twice": "price * 2", "id": "id"}).where("id = 5").to_arrow(),
    "casts cut numbers off": lambda s: [s.table.count_rows(f"id < 40 AND {each}") for each in ("cast(price as int) = 2", "price::int = 2", "(price + 0.5)::bigint = 3")],
    "regexp_match": lambda s: [s.table.count_rows(f"regexp_match(body, 'n[12]$'){each}") for each in ("", " is not null")],
    "take offsets": lambda s: [s.table.take_offsets(each).select(["id"]).to_arrow() for each in ([9, 4], [3, 3, 1], [100_000], [])],
    "take row ids": lambda s: ids(s.table.take_row_ids(s.table.search().where("id IN (3, 8)").with_row_id(with_row_id=True).to_arrow()["_rowid"].to_pylist()).to_arrow()),
    "a row id of no row": lambda s: s.table.take_row_ids([10**15]).to_arrow(),
    # Vectors
    "vector": lambda s: s.table.search(QUERY).limit(5).to_arrow(),
    "vector by default": lambda s: len(s.table.search(QUERY).to_arrow()),
    "vector, prefilter": lambda s: s.table.search(QUERY).where("tenant = 'b'", prefilter=True).limit(4).to_arrow(),
    "vector, postfilter": lambda s: s.table.search(QUERY).where("tenant = 'b'", prefilter=False).limit(9).to_arrow(),
    "vector, select": lambda s: s.table.search(QUERY).select(["id", "_distance"]).limit(3).to_arrow(),
    "vector, select without distance": lambda s: s.table.search(QUERY).select(["id"]).limit(3).to_arrow(),
    "cosine": lambda s: s.table.search(QUERY).distance_type("cosine").limit(5).to_arrow(),
    "dot": lambda s: s.table.search(QUERY).distance_type("dot").limit(5).to_arrow(),
    "distance range": lambda s: s.table.search(QUERY).distance_range(0.2, 1.5).limit(50).to_arrow(),
    "vector, offset": lambda s: s.table.search(QUERY).limit(4).offset(2).to_arrow(),
    "several vectors": lambda s: s.table.search([QUERY, VECTORS[9].tolist()]).limit(2).to_arrow().schema.names,
    "of two columns of vectors the one that fits": two_columns,
    "another length": lambda s: failure(lambda: s.table.search([1.0, 2.0]).to_arrow()),
    "another metric": lambda s: failure(lambda: s.table.search(QUERY).distance_type("nope").to_arrow()),
    # Indices
    "index of vectors": lambda s: s.table.create_index("vector", config=IvfFlat(distance_type="l2", num_partitions=1)),
    "index of texts": lambda s: s.table.create_index("body", config=FTS(with_position=True, stem=False, remove_stop_words=False)),
    "index of numbers": lambda s: s.table.create_index("id", config=BTree()),
    "indices": lambda s: sorted((each.name, each.index_type, tuple(each.columns)) for each in s.table.list_indices()),
    "an index that is there": lambda s: failure(lambda: s.table.create_index("id", config=BTree(), replace=False)),
    "an index that cannot be made": lambda s: (failure(lambda: s.table.create_index("body", config=IvfFlat())), s.table.index_stats("body_idx").index_type)[1],
    "index statistics": lambda s: s.table.index_stats("vector_idx").num_unindexed_rows,
    "an absent index": lambda s: s.table.index_stats("absent"),
    "prewarm": lambda s: [s.table.prewarm_index(name) for name in ("vector_idx", "body_idx", "id_idx")],
    "indexed vector": lambda s: s.table.search(QUERY).nprobes(1).refine_factor(2).limit(5).to_arrow(),
    "bypass the index": lambda s: s.table.search(QUERY).bypass_vector_index().limit(5).to_arrow(),
    "fast search": lambda s: s.table.search(QUERY).fast_search().limit(5).to_arrow(),
    # Texts
    "text": lambda s: sorted(shown(s.table.search("n7 n9", query_type="fts").limit(5).select(["id"]).to_arrow()), key=str),
    "text, filter": lambda s: ids(s.table.search("n7 n9 n12", query_type="fts").where("id > 8", prefilter=True).limit(5).to_arrow()),
    "match": lambda s: ids(s.table.search(MatchQuery("n17", "body")).limit(5).to_arrow()),
    "match all": lambda s: len(s.table.search(MatchQuery("fast vector", "body", operator="AND")).limit(400).to_arrow()),
    "match with errors": lambda s: ids(s.table.search(MatchQuery("lnace", "body", fuzziness=2)).limit(400).to_arrow()),
    "phrase": lambda s: ids(s.table.search(PhraseQuery("lance format", "body")).limit(400).to_arrow()),
    "several columns": lambda s: ids(s.table.search(MultiMatchQuery("n17", ["body"])).limit(5).to_arrow()),
    "boolean": lambda s: ids(
        s.table.search(BooleanQuery([(Occur.MUST, MatchQuery("fast", "body")), (Occur.MUST_NOT, MatchQuery("open", "body"))]))
        .limit(400)
        .to_arrow()
    ),
    # Hybrid
    "hybrid, RRF": lambda s: s.table.search(query_type="hybrid").vector(QUERY).text("n7").rerank(RRFReranker()).limit(3).select(["id"]).to_arrow()["id"].to_pylist()[:1],
    "hybrid, linear": lambda s: s.table.search(query_type="hybrid").vector(QUERY).text("n7").rerank(LinearCombinationReranker()).limit(3).to_arrow()["id"].to_pylist()[:1],
    # Changes
    "add": lambda s: (s.table.add(documents(ROWS, 10)), s.table.count_rows())[1],
    "update": lambda s: s.table.update(where="id < 3", values={"tenant": "z"}).rows_updated,
    "update by expressions": lambda s: s.table.update(where="id = 9", values_sql={"price": "price + 1"}).rows_updated,
    "updated": lambda s: sorted(shown(s.table.search().where("tenant = 'z' OR id = 9").select(["id", "tenant", "price"]).to_arrow()), key=str),
    "delete": lambda s: (s.table.delete("id = 11"), s.table.count_rows())[1],
    "merge": lambda s: [
        getattr(s.table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(documents(405, 10)), name)
        for name in ("num_inserted_rows", "num_updated_rows", "num_deleted_rows")
    ],
    "merge, insert alone": lambda s: s.table.merge_insert("id").when_not_matched_insert_all().execute(documents(410, 8)).num_inserted_rows,
    "merge, delete": lambda s: s.table.merge_insert("id").when_matched_update_all().when_not_matched_by_source_delete("id >= 416").execute(documents(416, 1)).num_deleted_rows,
    "merge by two columns": lambda s: [
        getattr(s.table.merge_insert(["ID", "tenant"]).when_matched_update_all().when_not_matched_insert_all().execute(two_rows()), name)
        for name in ("num_inserted_rows", "num_updated_rows")
    ],
    "rows after merges": lambda s: s.table.count_rows(),
    "a value that does not fit": lambda s: failure(lambda: s.table.add([{"id": "x"}])),
    # Columns
    "add columns": lambda s: (s.table.add_columns({"twice": "cast(price * 2 as int)"}), s.table.schema.names)[1],
    "computed": lambda s: s.table.search().where("id = 6").select(["twice"]).to_arrow(),
    "columns without values": lambda s: (s.table.add_columns([pa.field("n", pa.int32()), pa.field("v", pa.list_(pa.float32(), 3))]), s.table.schema.field("v"), s.table.count_rows("n IS NULL"), s.table.drop_columns(["n", "v"]))[1:3],
    "rename a column": lambda s: (s.table.alter_columns({"path": "twice", "rename": "double"}), s.table.schema.names)[1],
    "widen a column": lambda s: (s.table.alter_columns({"path": "double", "data_type": pa.int64()}), s.table.schema.field("double"))[1],
    "drop columns": lambda s: (s.table.drop_columns(["double"]), s.table.schema.names)[1],
    "an absent column": lambda s: failure(lambda: s.table.drop_columns(["absent"])),
    "a filter by an absent column": lambda s: failure(lambda: s.table.count_rows("absent = 1")),
    # Versions
    "tags": lambda s: (s.table.tags.create("before", s.table.version), list(s.table.tags.list()))[1],
    "a tag that is there": lambda s: failure(lambda: s.table.tags.create("before", s.table.version)),
    "rows at a tag": lambda s: (s.table.delete("id < 100"), s.table.checkout("before"), s.table.count_rows(), s.table.checkout_latest())[2],
    "a change of an old version": lambda s: (s.table.checkout("before"), failure(lambda: s.table.delete("id = 1")), s.table.checkout_latest())[1],
    "restore": lambda s: (s.table.checkout("before"), s.table.restore(), s.table.count_rows())[2],
    "move a tag": lambda s: (s.table.tags.update("before", s.table.version), s.table.tags.get_version("before") == s.table.version)[1],
    "drop a tag": lambda s: (s.table.tags.delete("before"), list(s.table.tags.list()))[1],
    "versions grow": lambda s: [each["version"] for each in s.table.list_versions()] == sorted(each["version"] for each in s.table.list_versions()),
    "a tag that is absent": lambda s: (failure(lambda: s.table.checkout("absent")), [isinstance(raised(change), RuntimeError) for change in (lambda: s.table.tags.delete("absent"), lambda: s.table.tags.create("late", 10_000))]),
    "an absent version": lambda s: failure(lambda: s.table.checkout(10_000)),
    "rows of statistics": lambda s: s.table.stats()["num_rows"],
    "names that are words of SQL": odd_names,
    "no specification of LSM writes": lambda s: s.table.get_lsm_write_spec(),
    "drop an index": lambda s: (s.table.drop_index("id_idx"), sorted(each.name for each in s.table.list_indices()))[1],
    "overwrite": lambda s: (s.table.add(documents(0, 5), mode="overwrite"), s.table.count_rows())[1],
    "drop": lambda s: (s.db.drop_table("docs"), list(s.db.table_names()))[1],
}  # fmt: skip

DIFFERENT = {
    **dict.fromkeys(
        (
            "another length",
            "an absent column",
            "a filter by an absent column",
            "an index that is there",
            "a tag that is there",
        ),
        "the client raises HttpError",
    ),
    "a change of an old version": "the client raises NotImplementedError",
}
"""Steps whose answers differ, with the reason that client/docs/lancedb.md gives."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_rest(tmp_path_factory.mktemp("rest") / "root") as (_, found):
        yield found


def answers(db: DBConnection) -> dict[str, Any]:
    """What each step answers, or the error that it raises."""
    found: dict[str, Any] = {}
    scene = Scene(db, db.create_table("docs", documents()))
    for name, step in STEPS.items():
        try:
            found[name] = shown(step(scene))
        except Exception as error:  # noqa: BLE001 - an error is an answer
            found[name] = error
    return found


def test_each_step_has_the_answer_of_embedded_lancedb(address: str, tmp_path: Path) -> None:
    wanted = answers(lancedb.connect(tmp_path / "embedded"))
    found = answers(connect(address))
    different = {name: (wanted[name], found[name]) for name in STEPS if repr(wanted[name]) != repr(found[name])}
    assert different.keys() == DIFFERENT.keys(), "\n".join(f"{name}: {pair}" for name, pair in different.items())


async def asked_asynchronously(db: lancedb.AsyncConnection) -> list[Any]:
    """Answers of the asynchronous client: one vector, several, and a hybrid search."""
    table = await db.create_table("asynchronous", documents())
    await table.create_index("body", config=FTS(stem=False, remove_stop_words=False))
    one = await (await table.search(QUERY)).limit(3).to_arrow()
    several = await (await table.search([QUERY, VECTORS[9].tolist()])).limit(3).to_arrow()
    hybrid = await table.query().nearest_to(QUERY).nearest_to_text("n7").limit(3).to_arrow()
    await db.drop_table("asynchronous")
    pairs = zip(several["query_index"].to_pylist(), several["id"].to_pylist(), strict=True)
    return [one["id"].to_pylist(), sorted(pairs), hybrid["id"].to_pylist()[:1]]


def test_the_asynchronous_client(address: str, tmp_path: Path) -> None:
    async def work() -> tuple[list[Any], list[Any]]:
        remote = await lancedb.connect_async("db://flights", api_key="any", host_override=address)
        embedded = await lancedb.connect_async(tmp_path / "embedded")
        return await asked_asynchronously(remote), await asked_asynchronously(embedded)

    found, wanted = asyncio.run(work())
    assert found == wanted
