"""OpenTelemetry span of each call, a child of the one in the client's headers (W3C trace context, `traceparent`).

Imported only if tracing is configured. Statements of a call get its context through `Caller.trace`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from pyarrow import flight

SERVICE = "arrow.flight.protocol.FlightService"


class TracingMiddleware(flight.ServerMiddleware):
    """Middleware that traces one call; `context` is that of its span, the parent of its statements' spans."""

    def __init__(self, span: trace.Span) -> None:
        super().__init__()
        self._span = span
        self.context: Context = trace.set_span_in_context(span)

    def call_completed(self, exception: Exception | None) -> None:
        """End the span, with the class of the error; its message may quote data and is left out."""
        if exception is not None:
            self._span.set_attribute("error.type", type(exception).__name__)
            self._span.set_status(trace.StatusCode.ERROR)
        self._span.end()


class TracingMiddlewareFactory(flight.ServerMiddlewareFactory):
    """Factory of the middleware that traces each call."""

    def __init__(self, tracer: trace.Tracer) -> None:
        super().__init__()
        self._tracer = tracer

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Sequence[str]]) -> TracingMiddleware:
        """Begin the span of a call."""
        method = "".join(word.title() for word in info.method.name.split("_"))
        return TracingMiddleware(
            self._tracer.start_span(
                f"{SERVICE}/{method}",
                context=propagate.extract(headers),
                kind=trace.SpanKind.SERVER,
                attributes={"rpc.system": "grpc", "rpc.service": SERVICE, "rpc.method": method},
            )
        )
