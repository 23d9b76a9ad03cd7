"""The LangChain vector store against a server: LangChain's own tests of vector stores, and what these do not ask."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adbc_driver_manager import Error
from lance_flight_client.langchain import METRICS, Columns, LanceFlightVectorStore
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests
from langchain_tests.integration_tests.vectorstores import EMBEDDING_SIZE

from tests.service.principals import connect, tokens_file
from tests.service.server_process import Server, serving

_NUMBERS = count(1)
POLICIES = """
[roles.operators]
members = ["operator"]
grants = ["ALL ON *"]

[roles.tenants]
members = ["acme", "globex"]
grants = ["SELECT, WRITE ON notes WHERE tenant = CURRENT_USER"]
"""
LAYOUTS = {
    "plain": ("", {}),
    "one partition of several": (" PARTITIONED BY (tenant)", {"tenant": "acme"}),
}
"""How a table is partitioned, and the scope of a store over it."""


@pytest.fixture
def table() -> str:
    return f"t{next(_NUMBERS)}"


def create(server: Server, name: str, partitioned: str = "", size: int = EMBEDDING_SIZE) -> str:
    server.run(
        f"CREATE TABLE {name} (id VARCHAR NOT NULL, text VARCHAR, embedding FLOAT[{size}], metadata VARCHAR,"
        f" tenant VARCHAR, floor BIGINT){partitioned}"
    )
    return name


@pytest.mark.anyio
class TestConformance(VectorStoreIntegrationTests):
    """LangChain's tests, over a table of each layout."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture(params=LAYOUTS)
    def vectorstore(self, request: pytest.FixtureRequest, server: Server, table: str) -> VectorStore:
        partitioned, scope = LAYOUTS[request.param]
        create(server, table, partitioned)
        return LanceFlightVectorStore(self.get_embeddings(), server.connection, table, scope=scope)


class Listed(Embeddings):
    """Embeddings of texts like `"1,0 comment"`: the numbers that a text begins with."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(number) for number in text.split(" ")[0].split(",")] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def store(server: Server, table: str, **more: Any) -> LanceFlightVectorStore:
    return LanceFlightVectorStore(Listed(), server.connection, table, **more)


TEXTS = ("1,0", "0,1", "-1,0", "3,5", "0.5,0.25")
DISTANCES = {
    "cosine": lambda one, other: 1 - one @ other / np.linalg.norm(one) / np.linalg.norm(other),
    "dot": lambda one, other: -(one @ other),
    "l2": lambda one, other: np.linalg.norm(one - other),
}


@pytest.mark.parametrize("metric", METRICS)
def test_documents_come_by_their_distance(server: Server, table: str, metric: str) -> None:
    create(server, table, size=2)
    found = store(server, table, metric=metric)
    found.add_texts(list(TEXTS), ids=list(TEXTS))
    vectors = dict(zip(TEXTS, map(np.array, Listed().embed_documents(list(TEXTS))), strict=True))
    wanted = np.array([2.0, 1.0])
    expected = sorted((float(DISTANCES[metric](vector, wanted)), text) for text, vector in vectors.items())
    scored = found.similarity_search_with_score("2,1 what is asked", k=4)
    assert [document.id for document, _ in scored] == [text for _, text in expected[:4]]
    assert [score for _, score in scored] == pytest.approx([distance for distance, _ in expected[:4]], abs=1e-6)
    by_vector = found.similarity_search_by_vector([2.0, 1.0], k=4)
    assert by_vector == found.similarity_search("2,1", k=4) == [document for document, _ in scored]


@pytest.mark.parametrize("metric", METRICS)
def test_the_nearest_is_relevant_and_others_are_less(server: Server, table: str, metric: str) -> None:
    create(server, table, size=2)
    found = store(server, table, metric=metric)
    found.add_texts(["0.6,0.8", "0.8,0.6", "1,0"])
    scored = found.similarity_search_with_relevance_scores("0.6,0.8", k=3)
    assert [document.page_content for document, _ in scored] == ["0.6,0.8", "0.8,0.6", "1,0"]
    assert scored[0][1] == pytest.approx(1, abs=1e-6)
    assert 1 > scored[1][1] > scored[2][1] >= 0
    above = found.similarity_search_with_relevance_scores("0.6,0.8", k=3, score_threshold=scored[1][1] - 1e-9)
    assert len(above) == 2


@pytest.fixture(scope="module")
def floors(server: Server) -> LanceFlightVectorStore:
    """Six documents on the floors 0, 1, 2 and none, the nearest to "1,0" first."""
    create(server, "floors", " PARTITIONED BY (floor)", size=2)
    found = store(server, "floors", metadata_columns=["floor"])
    metadatas: list[dict[str, Any]] = [{"floor": number % 3, "n": number} for number in range(5)]
    found.add_texts([f"1,{number}" for number in range(6)], [*metadatas, {"n": 5}])
    return found


FILTERS = {
    "none": ({}, [0, 1, 2, 3, 4, 5]),
    "a value": ({"floor": 1}, [1, 4]),
    "a text that is one": ({"floor": "1"}, [1, 4]),
    "several": ({"floor": [0, 2]}, [0, 2, 3]),
    "none of several": ({"floor": []}, []),
    "NULL": ({"floor": None}, [5]),
    "no such value": ({"floor": 9}, []),
}


@pytest.mark.parametrize(("wanted", "expected"), FILTERS.values(), ids=FILTERS)
def test_filters_count_before_the_search(
    floors: LanceFlightVectorStore, wanted: dict[str, Any], expected: list[int]
) -> None:
    found = floors.similarity_search("1,0", k=10, filter=wanted)
    assert [document.metadata["n"] for document in found] == expected
    assert [document.metadata.get("floor") for document in found] == [n % 3 if n < 5 else None for n in expected]
    nearest = floors.similarity_search("1,0", k=1, filter=wanted)
    assert [document.metadata["n"] for document in nearest] == expected[:1]
    diverse = floors.max_marginal_relevance_search("1,0", k=10, filter=wanted)
    assert sorted(document.metadata["n"] for document in diverse) == expected


def test_a_retriever_gives_diverse_documents(server: Server, table: str) -> None:
    create(server, table, size=2)
    found = store(server, table)
    found.add_texts(["1,0", "1,0.01", "0.7,0.7"])
    retriever = found.as_retriever(search_type="mmr", search_kwargs={"k": 2, "fetch_k": 3, "lambda_mult": 0.1})
    assert [document.page_content for document in retriever.invoke("1,0")] == ["1,0", "0.7,0.7"]
    assert store(server, create(server, f"{table}_empty", size=2)).max_marginal_relevance_search("1,0") == []


def test_stores_of_one_table_have_their_own_documents(server: Server, table: str) -> None:
    create(server, table, " PARTITIONED BY (tenant)", size=2)
    one, other = (store(server, table, scope={"tenant": tenant}) for tenant in ("acme", "globex"))
    one.add_texts(["1,0 of acme", "0,1 of acme"], ids=["a", "b"])
    other.add_texts(["1,0 of globex"], ids=["a"])
    assert [document.page_content for document in other.similarity_search("0,1", k=5)] == ["1,0 of globex"]
    assert [document.page_content for document in one.get_by_ids(["a"])] == ["1,0 of acme"]
    other.add_texts(["1,1 of globex"], ids=["a"])
    assert [document.page_content for document in one.get_by_ids(["b", "a"])] == ["0,1 of acme", "1,0 of acme"]
    one.delete()
    assert one.similarity_search("1,0") == []
    assert server.rows(f"SELECT tenant, id, text FROM {table}") == [("globex", "a", "1,1 of globex")]


def test_names_and_values_are_no_part_of_statements(server: Server) -> None:
    name, columns = 'team.say "x"; --', Columns(id='a "b"', text="$1", vector="v'", metadata="?")
    server.run("CREATE SCHEMA team")
    server.run(
        'CREATE TABLE team."say ""x""; --" ("a ""b""" VARCHAR, "$1" VARCHAR, "v\'" FLOAT[2], "?" VARCHAR, "o\'r" VARCHAR)'
    )
    odd = "x' OR 1 = 1 --"
    found = store(server, name, columns=columns, metadata_columns=["o'r"])
    found.add_texts(["1,0 '; DROP TABLE t; $2 ?", "0,1"], [{"o'r": odd, "é": [1, {"$1": None}]}, {}], ids=[odd, "?"])
    assert (
        found.similarity_search("1,0", filter={"o'r": odd})
        == found.get_by_ids([odd])
        == [Document(id=odd, page_content="1,0 '; DROP TABLE t; $2 ?", metadata={"o'r": odd, "é": [1, {"$1": None}]})]
    )
    found.delete([odd])
    assert [document.id for document in found.similarity_search("1,0")] == ["?"]


def test_a_thousand_documents_are_one_commit(server: Server, table: str) -> None:
    create(server, table, " PARTITIONED BY (bucket(4, id))", size=2)
    found, ids = store(server, table), [f"n{number}" for number in range(1000)]
    found.add_texts([f"{number + 1},1" for number in range(1000)], ids=ids)
    before = server.value(f'SELECT max(version) FROM "{table}$snapshots"')
    assert found.add_texts([f"{number + 2},1" for number in range(1000)], ids=ids) == ids
    assert [document.id for document in found.get_by_ids(ids[::-1])] == ids[::-1]
    assert found.delete(ids[:999])
    assert server.rows(f'SELECT max(version) FROM "{table}$snapshots"') == [(before + 2,)]
    assert server.rows(f"SELECT id, text FROM {table}") == [("n999", "1001,1")]


def test_of_documents_with_one_id_the_last_is_kept(server: Server, table: str) -> None:
    create(server, table, size=2)
    found = store(server, table)
    assert found.add_texts(["1,0", "0,1", "1,1"], ids=["a", "b", "a"]) == ["a", "b", "a"]
    assert [document.page_content for document in found.get_by_ids(["a", "b", "a"])] == ["1,1", "0,1"]


def test_a_store_is_made_of_texts(server: Server, table: str) -> None:
    create(server, table, size=2)
    arguments = {"connection": server.connection, "table": f"public.{table}"}
    found = LanceFlightVectorStore.from_texts(
        ["1,0", "0,1"], Listed(), [{"n": 1}, {"n": 2}], ids=["a", "b"], **arguments
    )
    assert found.similarity_search("1,0", k=1) == [Document(id="a", page_content="1,0", metadata={"n": 1})]
    assert found.embeddings is not None


def test_rows_that_others_wrote_are_documents_as_far_as_they_are_whole(server: Server, table: str) -> None:
    create(server, table, size=2)
    server.run(f"INSERT INTO {table} (id, embedding) VALUES ('bare', [1.0, 0.0]), ('zero', [0.0, 0.0]), ('none', NULL)")
    found = store(server, table)
    assert found.similarity_search("1,0", k=3) == [Document(id="bare", page_content="", metadata={})]
    assert len(found.get_by_ids(["none", "zero", "bare"])) == 3


def test_many_threads_share_a_connection(server: Server, table: str) -> None:
    create(server, table, " PARTITIONED BY (bucket(4, id))", size=2)
    found = store(server, table)

    def work(number: int) -> list[str | None]:
        found.add_texts([f"1,{number}"], ids=[str(number)])
        return [document.id for document in found.get_by_ids([str(number)])]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(12))) == [[str(number)] for number in range(12)]


def refused(act: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        act()


def test_what_cannot_be_is_refused(server: Server, table: str) -> None:
    create(server, table, size=2)
    found = store(server, table, metadata_columns=["floor"])
    refused(lambda: store(server, table, metric="hamming"), ValueError, "'hamming'; expected one of cosine, dot, l2")
    refused(lambda: store(server, table, scope={"tenant": None}), ValueError, "expected a value for each column")
    refused(
        lambda: found.similarity_search("1,0", filter={"tenant": "a"}), ValueError, r"\['tenant'\]; expected some of"
    )
    refused(lambda: found.add_texts(["1,0"], [{}, {}]), ValueError, "2 ids or metadatas of 1 texts")
    refused(lambda: found.add_texts(["1,0"], [{"x": object()}]), TypeError, "JSON")
    refused(lambda: found.add_texts(["1,0,0"]), ValueError, "2")
    refused(lambda: store(server, "nowhere").add_texts(["1,0"]), Error, "nowhere")
    refused(
        lambda: store(server, table, columns=Columns(vector="tenant")).add_texts(["1,0"]),
        ValueError,
        "expected vectors",
    )
    assert server.value(f"SELECT count(*) FROM {table}") == 0


def test_a_row_policy_holds_whatever_the_scope_is(tmp_path: Path) -> None:
    (tmp_path / "policies").write_text(POLICIES)
    tokens = tokens_file(tmp_path / "tokens", ["operator", "acme", "globex"])
    with (
        serving(tmp_path / "root", "--tokens-file", tokens, "--policy-file", str(tmp_path / "policies")) as server,
        connect(server.uri, "operator") as operator,
        connect(server.uri, "acme") as acme,
        connect(server.uri, "globex") as globex,
    ):
        with operator.cursor() as cursor:
            cursor.execute(
                "CREATE TABLE notes (id VARCHAR, text VARCHAR, embedding FLOAT[2], metadata VARCHAR, tenant VARCHAR)"
                " PARTITIONED BY (tenant)"
            )
        own = LanceFlightVectorStore(Listed(), acme, "notes", scope={"tenant": "acme"})
        own.add_texts(["1,0 of acme"], ids=["a"])
        assert len(own.similarity_search("1,0")) == 1
        stranger = LanceFlightVectorStore(Listed(), globex, "notes", scope={"tenant": "acme"})
        assert stranger.similarity_search("1,0") == stranger.get_by_ids(["a"]) == []
        stranger.delete()
        refused(
            lambda: stranger.add_texts(["1,0 of globex"], ids=["a"]), Error, "lies outside of what .globex. may write"
        )
        assert [document.page_content for document in own.get_by_ids(["a"])] == ["1,0 of acme"]
