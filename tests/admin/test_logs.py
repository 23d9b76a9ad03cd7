"""What is written of statements and of anything else: one line each, for people and for programs."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from lance_flight.admin.logs import FIELDS, JsonLines, LogFormat, TextLines, print_line
from lance_flight.admin.work_logs import StatementLog
from lance_flight.engine.runtime.running_statement import StatementKind

from tests.admin.records import RECORD, record

LOGGER = logging.getLogger("lance_flight.statements")
HOSTILE = 'SELECT "ä\n2026-01-01 INFO root: forged"\r\n\x1b[31m\u2028 =x'


@pytest.fixture
def written() -> Iterator[dict[str, io.StringIO]]:
    """What both formats make of what is logged."""
    streams = {"text": io.StringIO(), "json": io.StringIO()}
    handlers = [logging.StreamHandler(stream) for stream in streams.values()]
    for handler, formatter in zip(handlers, (TextLines(), JsonLines()), strict=True):
        handler.setFormatter(formatter)
        LOGGER.addHandler(handler)
    yield streams
    for handler in handlers:
        LOGGER.removeHandler(handler)


def test_a_statement_is_one_json_object(written: dict[str, io.StringIO]) -> None:
    StatementLog(100).log_end(RECORD)
    said = json.loads(written["json"].getvalue())
    assert said.pop("time").endswith("+00:00")
    assert said == {
        "level": "info",
        "logger": "lance_flight.statements",
        "message": "ended",
        "id": "0123456789abcdef",
        "kind": "query",
        "outcome": "ok",
        "principal": "alice",
        "session": "s1",
        "peer": "ipv4:127.0.0.1:4000",
        "snapshots": {"public.t": 7},
        "partitions_scanned": 3,
        "partitions_total": 1200,
        "rows": 10,
        "bytes": 80,
        "queued_ms": 1.0,
        "planning_ms": 12.5,
        "total_ms": 1500.0,
        "sql": "SELECT 1",
    }


def test_a_statement_is_one_line_of_text(written: dict[str, io.StringIO]) -> None:
    StatementLog(100).log_end(RECORD)
    line = written["text"].getvalue()
    assert line.endswith(
        "INFO lance_flight.statements: ended id=0123456789abcdef kind=query outcome=ok principal=alice session=s1"
        ' peer=ipv4:127.0.0.1:4000 snapshots={"public.t":7} partitions_scanned=3 partitions_total=1200 rows=10'
        ' bytes=80 queued_ms=1.0 planning_ms=12.5 total_ms=1500.0 sql="SELECT 1"\n'
    )


@pytest.mark.parametrize("format", ["text", "json"])
def test_no_text_of_a_client_makes_another_line(written: dict[str, io.StringIO], format: str) -> None:
    StatementLog(1000).log_end(record(sql=HOSTILE, principal="mal\nlory", session="\x00"))
    (line,) = written[format].getvalue().splitlines()
    assert line.isascii()
    assert line.isprintable()


@pytest.mark.parametrize(("characters", "shown"), [(0, None), (1, "…"), (5, "SELE…"), (8, "SELECT 1"), (9, "SELECT 1")])
def test_the_text_of_a_statement_is_bounded(
    written: dict[str, io.StringIO], characters: int, shown: str | None
) -> None:
    StatementLog(characters).log_end(RECORD)
    assert json.loads(written["json"].getvalue()).get("sql") == shown
    assert ("sql=" in written["text"].getvalue()) == (shown is not None)


def test_what_was_only_prepared_is_logged_where_it_failed(written: dict[str, io.StringIO]) -> None:
    log = StatementLog(100)
    log.log_end(record(kind=StatementKind.PREPARE))
    assert written["json"].getvalue() == ""
    log.log_end(record(kind=StatementKind.PREPARE, outcome="invalid_sql"))
    assert json.loads(written["json"].getvalue())["outcome"] == "invalid_sql"


def test_a_traceback_stays_within_a_line_of_json(written: dict[str, io.StringIO]) -> None:
    try:
        int("two\nlines")
    except ValueError:
        LOGGER.exception("failed with %s", "x", extra={FIELDS: {"reference": "ab"}})
    said = json.loads(written["json"].getvalue())
    assert (said["message"], said["reference"], said["level"]) == ("failed with x", "ab", "error")
    assert said["exception"].splitlines()[-1].startswith("ValueError: invalid literal")
    first, *rest = written["text"].getvalue().splitlines()
    assert first.endswith("ERROR lance_flight.statements: failed with x reference=ab")
    assert rest[0] == "Traceback (most recent call last):"


class Writes(io.RawIOBase):
    """An output without a buffer, which keeps each write."""

    def __init__(self) -> None:
        self.made: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.made.append(bytes(content))
        return len(content)


@pytest.mark.parametrize("format", LogFormat)
def test_a_line_of_an_output_that_others_share_is_one_write(format: LogFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    output = Writes()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, write_through=True))  # type: ignore[type-var]
    print_line("serving", format)
    (line,) = output.made
    assert line.endswith(b"\n")
    assert (json.loads(line)["message"] if format is LogFormat.JSON else line.decode().strip()) == "serving"
