"""The connector's catalog without a JVM: requests and answers in JSON, as the classes of its jar send and read them.

What Spark offers a scan (predicates, aggregates) is recorded from a real one: `tests.spark.offers`.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from lance_flight_client.spark.connector import jvm
from lance_flight_client.spark.connector.__main__ import answer_request
from lance_flight_client.spark.connector.jvm import unpickle_handle
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

Nodes = Sequence[Mapping[str, Any]]


class Refused(Exception):
    """An error that the JVM is told of."""

    def __init__(self, code: str, sqlstate: str, message: str) -> None:
        super().__init__(f"[{code}] {message}")
        self.code, self.sqlstate = code, sqlstate


@dataclass(frozen=True)
class Catalog:
    """A catalog of a session, with these options."""

    options: Mapping[str, str]

    def ask(self, method: str, **arguments: Any) -> Any:
        """Send a request; return its result, or raise `Refused`."""
        request = {"id": 1, "method": method, "arguments": {"options": dict(self.options), **arguments}}
        answer = json.loads(json.dumps(answer_request(json.dumps(request))))
        if "error" in answer:
            raise Refused(**answer["error"])
        return answer["result"]

    def named(self, method: str, name: str, **arguments: Any) -> Any:
        """Send a request about a table or a view, whose name may have a schema."""
        *namespace, last = name.split(".")
        return self.ask(method, namespace=namespace, name=last, **arguments)

    def table(self, name: str, **point: Any) -> CatalogTable:
        """Load a table, at a `version` or at `microseconds` where one is given."""
        return CatalogTable(self, self.named("load_table", name, **point))


@dataclass(frozen=True)
class Tasks:
    """The tasks of a scan, as `plan_scan` says them."""

    planned: Mapping[str, Any]

    def parts(self) -> list[pa.Table]:
        """Read each task."""
        return [read(portion) for portion in self.planned["portions"]]

    def rows(self) -> list[dict[str, Any]]:
        """Read all tasks; return rows as Spark's Arrow has them."""
        return [row for part in self.parts() for row in part.to_pylist()]


@dataclass(frozen=True)
class CatalogTable:
    """A table that a catalog has loaded."""

    catalog: Catalog
    loaded: Mapping[str, Any]

    def ask(self, method: str, **arguments: Any) -> Any:
        return self.catalog.ask(method, handle=self.loaded["handle"], **arguments)

    @property
    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self.loaded["schema"]))

    def uses(self, predicates: Nodes) -> list[str]:
        """Return what becomes of each predicate: `whole`, `part` or `none`."""
        found: list[str] = self.ask("push_predicates", predicates=list(predicates))
        return found

    def scan(self, predicates: Nodes = (), *columns: str, limit: int | None = None) -> Tasks:
        """Plan a scan as `LanceFlightScanBuilder` does."""
        uses = self.uses(predicates)
        taken = [each for each, use in zip(predicates, uses, strict=True) if use != "none"]
        table = self if limit is None else self.limited(taken, limit)
        return Tasks(table.ask("plan_scan", columns=list(columns or self.schema.names), predicates=taken))

    def with_options(self, **options: str) -> CatalogTable:
        """Return what a batch reads with these options."""
        found = self.ask("read_with_options", read_options=options, is_pinned=self.loaded["is_pinned"])
        if "refused" in found:
            raise Refused(**found["refused"])
        return CatalogTable(self.catalog, {**self.loaded, **found})

    def limited(self, predicates: Nodes, limit: int) -> CatalogTable:
        """Return the table of which a LIMIT needs so many rows."""
        found = self.ask("push_limit", predicates=list(predicates), limit=limit)
        return self if found is None else CatalogTable(self.catalog, {**self.loaded, **found})

    def aggregate(self, predicates: Nodes, aggregates: Nodes, keys: Nodes) -> Mapping[str, Any] | None:
        """Ask for an aggregation of the rows that predicates leave; None where Spark computes it."""
        found: Mapping[str, Any] | None = self.ask(
            "push_aggregates", predicates=list(predicates), aggregates=list(aggregates), keys=list(keys)
        )
        return found

    def answer(self, aggregated: Mapping[str, Any]) -> list[list[Any]]:
        """Return the rows of an aggregation: those of its answer, or those that its one task reads."""
        if "rows" in aggregated:
            return [list(row) for row in aggregated["rows"]]
        table = CatalogTable(self.catalog, {**self.loaded, **aggregated})
        (part,) = table.scan().parts()
        return [list(row.values()) for row in part.to_pylist()]

    def write(
        self, *parts: Iterable[pa.RecordBatch], schema: StructType | None = None, replaces: str = "nothing", **ends: Any
    ) -> None:
        """Write rows, each of the parts by a task, in place of what `replaces` and `predicates` name, with `options`."""
        asked = {name: ends.pop(name) for name in ("predicates", "options", "compared") if name in ends}
        begun = self.begin(schema, replaces, **asked)
        self.ask("commit_write", write=begun["write"], messages=[message(begun, part) for part in parts], **ends)

    def begin(
        self,
        schema: StructType | None = None,
        replaces: str = "nothing",
        predicates: Nodes = (),
        options: Mapping[str, str] | None = None,
        compared: Nodes | None = None,
    ) -> Any:
        """Begin a write; rows that are added are `compared` with those that fulfil these predicates."""
        kinds = self.schema if schema is None else schema
        return self.ask(
            "begin_write",
            schema=kinds.json(),
            replaces=replaces,
            predicates=list(predicates),
            write_options=dict(options or {}),
            compared=[]
            if compared is None
            else [
                {"handle": self.loaded["handle"], "predicates": list(compared), "is_pinned": self.loaded["is_pinned"]}
            ],
        )

    def change(self, predicates: Nodes, become: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        """Change rows as `RowChanges` does: the rows of partitions that predicates leave are read, and written anew."""
        taken = [each for each, use in zip(predicates, self.uses(predicates), strict=True) if use != "none"]
        names = self.schema.names
        planned = self.ask("plan_whole_partitions", columns=names, predicates=taken)
        parts = Tasks(planned).parts()
        changed = [[row for row in map(become, part.to_pylist()) if row is not None] for part in parts]
        batches = [
            pa.Table.from_pylist(rows, part.schema if part.num_columns else self.arrow).to_batches()
            for rows, part in zip(changed, parts, strict=True)
        ]
        self.write(*batches, replaces="read", read=planned["read"])

    @property
    def arrow(self) -> pa.Schema:
        """The columns as tasks have them."""
        return to_arrow_schema(self.schema, timezone="UTC")

    def batches(self, rows: Sequence[Mapping[str, Any]]) -> list[pa.RecordBatch]:
        """Return rows as a task is given them, with NULL where one names no value."""
        whole = [{name: row.get(name) for name in self.schema.names} for row in rows]
        return pa.Table.from_pylist(whole, self.arrow).to_batches()


def message(begun: Mapping[str, Any], batches: Iterable[pa.RecordBatch]) -> str:
    """Run the task of a write; return what it says to the driver."""
    function, _ = unpickle_handle(begun["function"])
    columns = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(begun["columns"])))
    packed = [pa.record_batch([pa.array([_pack(batch.cast(columns))])], names=["batch"]) for batch in batches]
    (said,) = (row for batch in function(iter(packed)) for row in batch.column("message").to_pylist())
    return base64.b64encode(said).decode()


def _pack(batch: pa.RecordBatch) -> bytes:
    """Return a batch as `RowPacker` packs it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


def read(portion: str) -> pa.Table:
    """Read a task's portion as `PortionReader` does."""
    sent = io.BytesIO()
    jvm.send(base64.b64decode(portion), sent)
    sent.seek(0)
    with pa.ipc.open_stream(sent) as stream:
        rows = stream.read_all()
    ended = json.loads(sent.read())
    if "error" in ended:
        raise Refused(**ended["error"])
    return rows
