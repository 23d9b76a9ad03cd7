"""Log lines on standard error, one for each event, as text or JSON."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum

FIELDS = "fields"
"""Attribute of a log record that holds named values beside its message."""

_PLAIN = re.compile(r"[\w./:@+-]+")


class LogFormat(Enum):
    """Format of a log line."""

    TEXT = "text"
    JSON = "json"


class TextLines(logging.Formatter):
    """Formats a record as text: time, level, logger and message, then each value as `name=value`, quoted as in JSON unless it is a word."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name that logging calls
        """Format a record as one line; a traceback follows on lines of its own."""
        values = (f"{name}={_text(value)}" for name, value in _fields(record).items())
        return " ".join([super().formatMessage(record), *values])


class JsonLines(logging.Formatter):
    """Formats a record as a line of JSON: `time` (UTC), `level`, `logger`, `message`, the named values, a traceback as `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line; values that JSON cannot represent are converted by `str`."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def configure(level: str, format: LogFormat) -> None:
    """Write log records from `level` on to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_FORMATTERS[format]())
    logging.basicConfig(level=level.upper(), handlers=[handler])


def reconfigure(level: str, format: LogFormat) -> None:
    """Write log records from another level on from now on, in another format, to where they are written."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    for handler in root.handlers:
        handler.setFormatter(_FORMATTERS[format]())


def print_line(text: str, format: LogFormat) -> None:
    """Write a line to standard output at once: the text as it is, or as JSON like the lines of the log.

    The line and its end are one write: replicas share an output, which may have no buffer (`PYTHONUNBUFFERED`).
    """
    if format is LogFormat.JSON:
        text = JsonLines().format(logging.makeLogRecord({"name": "lance_flight", "levelname": "INFO", "msg": text}))
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


_FORMATTERS: Mapping[LogFormat, type[logging.Formatter]] = {LogFormat.TEXT: TextLines, LogFormat.JSON: JsonLines}


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields: Mapping[str, object] = getattr(record, FIELDS, {})
    return fields


def _text(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return json.dumps(value, separators=(",", ":"), default=str)
