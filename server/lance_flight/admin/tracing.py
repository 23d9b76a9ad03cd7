"""OpenTelemetry traces: their exporter, and a span for each statement.

Loaded only where the environment asks for traces, by OpenTelemetry's own variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Thread

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

from lance_flight.admin.work_logs import shorten_text
from lance_flight.engine.runtime.running_statement import Record
from lance_flight.errors import InvalidInput

NAME = "lance-flight"
FLUSH_SECONDS = 3.0
NANOSECONDS = 10**9


def exporter_of(environment: Mapping[str, str]) -> SpanExporter:
    """Return the span exporter that OTEL_TRACES_EXPORTER and OTEL_EXPORTER_OTLP_PROTOCOL select."""
    protocol = environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    match environment.get("OTEL_TRACES_EXPORTER", "otlp"), protocol or "http/protobuf":
        case "console", _:
            return ConsoleSpanExporter()
        case "otlp", "http/protobuf":
            return OTLPSpanExporter()
        case "otlp", other:
            raise InvalidInput(f"OTEL_EXPORTER_OTLP_PROTOCOL is {other!r}; expected http/protobuf")
        case other, _:
            raise InvalidInput(f"OTEL_TRACES_EXPORTER is {other!r}; expected otlp, console or none")


class Tracing:
    """Makes spans and exports them in the background; sampling and other options come from the environment."""

    def __init__(self, exporter: SpanExporter, *, sql_characters: int) -> None:
        self._provider = TracerProvider(resource=_resource())
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self.sql_characters = sql_characters
        self.tracer = self._provider.get_tracer(NAME)

    def record_end(self, record: Record) -> None:
        """Record the span of a statement that has ended, as a child of the span of the call that began it."""
        began = int(record.began.timestamp() * NANOSECONDS)
        span = self.tracer.start_span(
            record.kind.value, context=record.trace, start_time=began, attributes=self._attributes(record)
        )
        if record.outcome not in {"ok", "closed"}:
            span.set_attribute("error.type", str(record.outcome))
            span.set_status(trace.StatusCode.ERROR)
        span.end(began + int(record.seconds * NANOSECONDS))

    def close(self) -> None:
        """Export the remaining spans, without waiting for a collector that does not answer."""
        flushing = Thread(target=self._provider.shutdown, daemon=True)
        flushing.start()
        flushing.join(FLUSH_SECONDS)

    def _attributes(self, record: Record) -> dict[str, str | int | float]:
        attributes: dict[str, str | int | float] = {
            "db.system.name": NAME,
            "db.operation.name": record.kind.value,
            "db.response.returned_rows": record.rows,
            "user.name": record.principal,
            "lance_flight.statement.id": record.id,
            "lance_flight.bytes": record.size,
            "lance_flight.partitions.scanned": record.partitions_scanned,
            "lance_flight.partitions.total": record.partitions_total,
            "lance_flight.queued": record.queued_seconds,
            "lance_flight.planning": record.planning_seconds,
        }
        if self.sql_characters:
            attributes["db.query.text"] = shorten_text(record.sql, self.sql_characters)
        return attributes


def _resource() -> Resource:
    """Return the resource attributes from the environment, with lance-flight as the default service name."""
    resource = Resource.create()
    is_named = not str(resource.attributes[SERVICE_NAME]).startswith("unknown_service")
    return resource if is_named else resource.merge(Resource({SERVICE_NAME: NAME}))
