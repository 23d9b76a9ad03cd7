"""Audit of the statements that define or maintain tables, views and schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lance_flight import audit
from lance_flight.audit import AuditEvent, EventKind, Subject
from lance_flight.engine.statements.kinds import Statement

INGEST = "INGEST"


@contextmanager
def record_statement(statement: Statement, subject: Subject) -> Iterator[None]:
    """Record a statement that defines or maintains something before the block runs it, and once more with its error if that fails."""
    name = statement.defined
    if name is None or not audit.trail.is_on:
        yield
        return
    event = _definition(action_of(statement), name, subject)
    audit.record(event)
    try:
        yield
    except BaseException as error:
        audit.record(replace(event, error=audit.error_code(error), reason="the statement failed"))
        raise


def record_ingest(name: str, subject: Subject) -> None:
    """Record that an ingest makes or replaces a table."""
    audit.record(_definition(INGEST, name, subject))


def action_of(statement: Statement) -> str:
    """Return the words of a statement's class: `CREATE TABLE`, `ADD COLUMN`, `COMPACT`."""
    words = re.findall("[A-Z][a-z]+", type(statement).__name__.removesuffix("Statement"))
    return " ".join(words).upper()


def _definition(action: str, name: str, subject: Subject) -> AuditEvent:
    reason = "the policy file allows it, as far as that is known before its tables are opened"
    return AuditEvent(kind=EventKind.DDL, subject=subject, action=action, object=name, reason=reason)
