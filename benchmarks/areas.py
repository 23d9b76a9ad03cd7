"""Every area, in the order of the table. An area is a module with `measure`: a bench in, lines out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from benchmarks import (
    commit,
    concurrency,
    fan_out,
    functions,
    ingest,
    joins,
    lancedb_clients,
    lookup,
    memory,
    observing,
    planning,
    replicas,
    search,
    spark,
    stream_out,
    tenants,
    value_lists,
)
from benchmarks.bench import Bench
from benchmarks.results import Result

AREAS: Mapping[str, Callable[[Bench], list[Result]]] = MappingProxyType(
    {
        "stream-out": stream_out.measure,
        "fan-out": fan_out.measure,
        "ingest": ingest.measure,
        "planning": planning.measure,
        "commit": commit.measure,
        "joins": joins.measure,
        "spark": spark.measure,
        "lookup": lookup.measure,
        "value-lists": value_lists.measure,
        "functions": functions.measure,
        "search": search.measure,
        "lancedb": lancedb_clients.measure,
        "tenants": tenants.measure,
        "memory": memory.measure,
        "concurrency": concurrency.measure,
        "replicas": replicas.measure,
        "observing": observing.measure,
    }
)
