"""Spans of statements, and where they are sent."""

from __future__ import annotations

import pytest
from lance_flight.admin.tracing import Tracing, exporter_of
from lance_flight.errors import InvalidInput
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import ConsoleSpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.admin.records import RECORD, record


class Spans:
    """Makes spans and keeps them."""

    def __init__(self, sql_characters: int = 100) -> None:
        self._kept = InMemorySpanExporter()
        self.tracing = Tracing(self._kept, sql_characters=sql_characters)

    def ended(self) -> list[ReadableSpan]:
        """Those that have ended."""
        self.tracing.close()
        return list(self._kept.get_finished_spans())


def test_a_statement_is_a_span_below_the_one_of_its_call() -> None:
    spans = Spans()
    call = spans.tracing.tracer.start_span("call")
    spans.tracing.record_end(record(trace=trace.set_span_in_context(call)))
    (span,) = spans.ended()
    assert span.parent is not None
    assert (span.parent.span_id, span.context.trace_id) == (
        call.get_span_context().span_id,
        call.get_span_context().trace_id,
    )
    assert (span.name, span.status.status_code) == ("query", trace.StatusCode.UNSET)
    assert (span.start_time, span.end_time) == (1769860800 * 10**9, 1769860801_500_000_000)
    assert span.resource.attributes["service.name"] == "lance-flight"
    assert dict(span.attributes or {}) == {
        "db.system.name": "lance-flight",
        "db.operation.name": "query",
        "db.query.text": "SELECT 1",
        "db.response.returned_rows": 10,
        "user.name": "alice",
        "lance_flight.statement.id": "0123456789abcdef",
        "lance_flight.bytes": 80,
        "lance_flight.partitions.scanned": 3,
        "lance_flight.partitions.total": 1200,
        "lance_flight.queued": 0.001,
        "lance_flight.planning": 0.0125,
    }


@pytest.mark.parametrize(
    ("outcome", "error"), [("ok", None), ("closed", None), ("abandoned", "abandoned"), ("conflict", "conflict")]
)
def test_what_failed_has_the_code_of_its_error(outcome: str, error: str | None) -> None:
    spans = Spans()
    spans.tracing.record_end(record(outcome=outcome))
    (span,) = spans.ended()
    assert (span.attributes or {}).get("error.type") == error
    assert (span.status.status_code is trace.StatusCode.ERROR) == (error is not None)


def test_a_text_is_left_out_when_asked() -> None:
    spans = Spans(sql_characters=0)
    spans.tracing.record_end(RECORD)
    (span,) = spans.ended()
    assert "SELECT" not in span.to_json()


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "flights")
    spans = Spans()
    spans.tracing.record_end(RECORD)
    assert [span.resource.attributes["service.name"] for span in spans.ended()] == ["flights"]


def test_spans_go_where_the_environment_says() -> None:
    assert isinstance(exporter_of({"OTEL_TRACES_EXPORTER": "console"}), ConsoleSpanExporter)
    for environment, says in [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "'zipkin'; expected otlp, console or none"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "'grpc'; expected http/protobuf"),
    ]:
        with pytest.raises(InvalidInput, match=says):
            exporter_of(environment)
