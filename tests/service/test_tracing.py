"""Traces of a real server, as a collector receives them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.service.operated import PATIENCE, operated
from tests.service.server_process import Server, serving

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADER = "adbc.flight.sql.rpc.call_header.traceparent"
CALL = "arrow.flight.protocol.FlightService/"


@dataclass
class Collector:
    """Takes spans over HTTP."""

    url: str = ""
    spans: list[Span] = field(default_factory=list)

    def named(self, name: str) -> list[Span]:
        """Those of a name in the client's trace; drivers ask for more on their own."""
        return [span for span in self.spans if span.name == name and span.trace_id.hex() == TRACE]


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            for resource in request.resource_spans:
                collector.spans += [span for scope in resource.scope_spans for span in scope.spans]
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *values: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        collector.url = f"http://127.0.0.1:{http.server_port}"
        yield collector
        http.shutdown()


def environment(**changes: str) -> Mapping[str, str]:
    """Ours, with some variables of OpenTelemetry."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | changes


def query(server: Server, sql: str, flags: str = "01") -> None:
    """Run a query in the trace of its client."""
    with server.connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{HEADER: f"00-{TRACE}-{PARENT}-{flags}"})
        cursor.execute(sql)
        cursor.fetch_arrow_table()


def test_a_query_is_part_of_its_clients_trace_if_there_is_one_and_an_error_is_told_without_its_words(
    tmp_path: Path,
) -> None:
    with collecting() as collector:
        variables = environment(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, LANCE_FLIGHT_LOG_SQL="13")
        with serving(tmp_path / "root", environment=variables) as server:
            query(server, "SELECT 41 + 1")
            query(server, "SELECT 1", flags="00")
            server.refuses("SELECT nothing, hush FROM nowhere")
    failed = [span for span in collector.spans if span.status.code == 2]
    assert {span.name for span in failed} == {CALL + "DoAction", "prepare"}
    assert "hush" not in str(collector.spans)
    (planned,) = collector.named(CALL + "GetFlightInfo")
    (read,) = collector.named(CALL + "DoGet")
    (statement,) = collector.named("query")
    for span in (planned, read):
        assert span.parent_span_id.hex() == PARENT
        assert span.kind == Span.SPAN_KIND_SERVER
    assert statement.parent_span_id == planned.span_id
    assert statement.end_time_unix_nano > statement.start_time_unix_nano
    said = {attribute.key: attribute.value for attribute in statement.attributes}
    assert said["db.query.text"].string_value == "SELECT 41 + 1"
    assert said["db.response.returned_rows"].int_value == 1


@pytest.mark.parametrize("variables", [{}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true"}], ids=str)
def test_nothing_is_traced_unless_it_is_asked_for(tmp_path: Path, variables: dict[str, str]) -> None:
    with collecting() as collector:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url} if variables else {}
        with serving(tmp_path / "root", environment=environment(**endpoint, **variables)) as server:
            query(server, "SELECT 1")
    assert collector.spans == []


def test_a_collector_that_is_not_there_harms_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with operated(tmp_path / "root") as running:
        query(running.server, "SELECT 1")
        running.server.close()
        running.server.process.terminate()
        assert running.server.process.wait(PATIENCE) == 0
