"""LangChain vector store over one table of a server (extra `langchain`).

Values are bound to statements, never written into them; names of tables and columns are quoted.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from math import isfinite
from threading import Lock
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from adbc_driver_flightsql import dbapi
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from lance_flight_client.parameters import Parameters, quote_name

_DISTANCE = "_distance"
_ALL: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Metric:
    """Distance of two vectors: its operator in SQL, and the relevance of a distance (1 for equal vectors of length 1)."""

    operator: str
    relevance: Callable[[float], float]


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "cosine": Metric("<=>", lambda distance: 1 - distance),
        "dot": Metric("<#>", lambda distance: -distance),
        "l2": Metric("<->", lambda distance: 1 - distance / 2**0.5),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Columns of a table of documents: three of text, of which `metadata` holds JSON, and one of vectors (`FLOAT[n]`)."""

    id: str = "id"
    text: str = "text"
    vector: str = "embedding"
    metadata: str = "metadata"


class LanceFlightVectorStore(VectorStore):
    """Vector store over a table of a server, which has to be there, partitioned or plain.

    `table` is its name, or `schema.name`. Metadata is kept as JSON, but for the keys in `metadata_columns`, which are columns of the
    table: searches filter by them. Rows are written with the values of `scope`, and no others are read, replaced or deleted:
    `scope={"tenant": "acme"}` makes a store of one partition. `metric` is a key of `METRICS`, that of an index where there is one.
    The connection runs one statement at a time, from any thread, and is not closed. Errors of the server are those of ADBC.
    """

    def __init__(
        self,
        embedding: Embeddings,
        connection: dbapi.Connection,
        table: str,
        *,
        columns: Columns = Columns(),
        metadata_columns: Sequence[str] = (),
        scope: Mapping[str, Any] = _ALL,
        metric: str = "cosine",
    ) -> None:
        if metric not in METRICS:
            raise ValueError(f"metric is {metric!r}; expected one of {', '.join(METRICS)}")
        if None in scope.values():
            raise ValueError(f"scope is {dict(scope)}; expected a value for each column")
        self._embedding, self._connection, self._lock = embedding, connection, Lock()
        self._table = ".".join(quote_name(part) for part in table.rpartition(".")[::2] if part)
        self._columns, self._kept, self._scope = columns, tuple(metadata_columns), dict(scope)
        self._metric = METRICS[metric]

    @classmethod
    def from_texts(
        cls, texts: list[str], embedding: Embeddings, metadatas: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> Self:
        """Make a store of the further arguments, and add texts to it, with `ids` where these are given."""
        ids = kwargs.pop("ids", None)
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @property
    def embeddings(self) -> Embeddings:
        return self._embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Write texts in one commit, and return their ids: random ones where none are given; rows with these ids are replaced."""
        texts = list(texts)
        for given in (metadatas, ids):
            if given and len(given) != len(texts):
                raise ValueError(f"{len(given)} ids or metadatas of {len(texts)} texts; expected one for each")
        written = [identifier or str(uuid.uuid4()) for identifier in ids or repeat(None, len(texts))]
        if texts:
            vectors = self._embedding.embed_documents(texts)
            rows = zip(written, texts, vectors, metadatas or repeat({}), strict=False)
            # Of rows with one id the last counts, as if they had been written one after the other.
            self._merge({row[0]: row for row in rows}.values())
        return written

    def _merge(self, rows: Iterable[tuple[str, str, list[float], dict[str, Any]]]) -> None:
        names, types, values = self._columns, self._types, Parameters()
        ids, texts, vectors, metadatas = zip(*rows, strict=True)
        others = [
            json.dumps({key: metadata[key] for key in metadata if key not in self._kept}) for metadata in metadatas
        ]
        lists = {names.id: ids, names.text: texts, names.vector: vectors, names.metadata: others}
        lists |= {key: [metadata.get(key) for metadata in metadatas] for key in self._kept if key not in self._scope}
        # unnest() wants a type before values are bound; texts are cast to the types of their columns where they are stored.
        source = [
            f"unnest(CAST({values.add(lists[name], pa.list_(types[name]))} AS"
            f" {'FLOAT[][]' if name == names.vector else 'VARCHAR[]'})) AS {quote_name(name)}"
            for name in lists
        ]
        fixed = {name: values.add(value, types[name]) for name, value in self._scope.items()}
        written = {name: f"s.{quote_name(name)}" for name in lists} | fixed
        same = [f"t.{quote_name(name)} = {written[name]}" for name in (names.id, *fixed)]
        changed = [f"{quote_name(name)} = {written[name]}" for name in lists if name != names.id]
        self._run(
            f"MERGE INTO {self._table} AS t USING (SELECT {', '.join(source)}) AS s ON {' AND '.join(same)}"
            f" WHEN MATCHED THEN UPDATE SET {', '.join(changed)} WHEN NOT MATCHED THEN"
            f" INSERT ({', '.join(map(quote_name, written))}) VALUES ({', '.join(written.values())})",
            values,
        )

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete the documents with these ids, or without `ids` all of the store, in one commit; True whether or not there were any."""
        if ids is None or ids:
            values = Parameters()
            self._run(f"DELETE FROM {self._table}{self._where(values, ids=ids)}", values)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        values = Parameters()
        sql = f"SELECT {self._selected} FROM {self._table}{self._where(values, ids=ids)}"
        by_id = {document.id: document for document in map(self._document, self._run(sql, values).to_pylist())}
        return [by_id[identifier] for identifier in dict.fromkeys(ids) if identifier in by_id]

    def similarity_search(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] = _ALL, **kwargs: Any
    ) -> list[Document]:
        """Return the `k` documents nearest to a text, of those whose metadata columns a filter is true of.

        A `filter` says of each column its value, None for NULL, or a list of values of which it has one.
        """
        return self.similarity_search_by_vector(self._embedding.embed_query(query), k, filter=filter)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Mapping[str, Any] = _ALL, **kwargs: Any
    ) -> list[Document]:
        return [self._document(row) for row in self._nearest(embedding, k, filter)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] = _ALL, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return what `similarity_search` does, and the distance of each document, least first."""
        rows = self._nearest(self._embedding.embed_query(query), k, filter)
        return [(self._document(row), row[_DISTANCE]) for row in rows]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return self._metric.relevance

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        rows = self._nearest(embedding, fetch_k, kwargs.get("filter", _ALL), self._columns.vector)
        vectors = [row[self._columns.vector] for row in rows]
        chosen = maximal_marginal_relevance(np.array(embedding), vectors, lambda_mult, k) if rows else []
        return [self._document(rows[place]) for place in chosen]

    def _nearest(self, vector: list[float], k: int, filter: Mapping[str, Any], *more: str) -> list[dict[str, Any]]:
        """Return the rows nearest to a vector, nearest first; rows without a distance are near to nothing."""
        values, column = Parameters(), self._columns.vector
        distance = f"{quote_name(column)} {self._metric.operator} {values.add(vector, self._types[column])}"
        sql = (
            f"SELECT {', '.join([self._selected, *map(quote_name, more)])}, {distance} AS {_DISTANCE}"
            f" FROM {self._table}{self._where(values, filter=filter)} ORDER BY {_DISTANCE} LIMIT {values.add(k)}"
        )
        rows = self._run(sql, values).to_pylist()
        return [row for row in rows if row[_DISTANCE] is not None and isfinite(row[_DISTANCE])]

    def _where(self, values: Parameters, *, ids: Sequence[str] | None = None, filter: Mapping[str, Any] = _ALL) -> str:
        if unknown := filter.keys() - set(self._kept):
            raise ValueError(f"filter has {sorted(unknown)}; expected some of metadata_columns, {list(self._kept)}")
        by_id = [] if ids is None else [(self._columns.id, list(ids))]
        conditions = [values.condition(*condition) for condition in (*self._scope.items(), *filter.items(), *by_id)]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    @property
    def _selected(self) -> str:
        names = self._columns
        return ", ".join(map(quote_name, (names.id, names.text, names.metadata, *self._kept)))

    def _document(self, row: Mapping[str, Any]) -> Document:
        names, others = self._columns, json.loads(row[self._columns.metadata] or "{}")
        columns = {key: row[key] for key in self._kept if row[key] is not None}
        return Document(id=row[names.id], page_content=row[names.text] or "", metadata=others | columns)

    @cached_property
    def _types(self) -> Mapping[str, pa.DataType]:
        """The types of the columns that are written."""
        others = (self._columns.vector, *(name for name in self._scope if name not in self._kept))
        listed = ", ".join([self._selected, *map(quote_name, others)])
        schema = self._run(f"SELECT {listed} FROM {self._table} LIMIT 0", Parameters()).schema
        kind = schema.field(self._columns.vector).type
        if not pa.types.is_fixed_size_list(kind):
            raise ValueError(f"column {self._columns.vector!r} is {kind}; expected vectors, FLOAT[n] in SQL")
        return dict(zip(schema.names, schema.types, strict=True))

    def _run(self, sql: str, values: Parameters) -> pa.Table:
        with self._lock, self._connection.cursor() as cursor:
            cursor.execute(sql, values.row)
            return cursor.fetch_arrow_table()
