"""Audit log: lines in a file that is moved away, is full, or cannot be made; and what has to be written before it is done."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lance_flight import audit
from lance_flight.admin.work_logs import AuditLog
from lance_flight.audit import MOST_REFUSED_LOGINS, AuditEvent, AuditTrail, Decision, EventKind, Subject
from lance_flight.engine.query.policy_file import changes
from lance_flight.engine.statements.kinds import action_of
from lance_flight.engine.statements.parsing import parse
from lance_flight.errors import InvalidInput, NotFound, QuotaExceeded, Refused, Unavailable

SECONDS = 30.0
FULL = Path("/dev/full")
"""Device whose writes fail as those to a full disk do."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AuditLog]:
    made = AuditLog(str(tmp_path / "audit.jsonl"))
    yield made
    made.close()


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_are_appended_in_order(tmp_path: Path, log: AuditLog) -> None:
    (tmp_path / "audit.jsonl").write_text('"before"\n')
    assert all(log.put(f'"{number}"')(SECONDS) for number in range(3))
    assert lines(tmp_path / "audit.jsonl") == ["before", "0", "1", "2"]
    assert (log.lost, (tmp_path / "audit.jsonl").stat().st_mode & 0o777) == (0, 0o600)


def moved(path: Path) -> Path:
    return path.rename(path.with_suffix(".1"))


def moved_and_made_anew(path: Path) -> Path:
    moved(path)
    path.touch(mode=0o640)
    return path.with_suffix(".1")


def truncated(path: Path) -> Path:
    path.with_suffix(".1").write_text(path.read_text())
    path.write_text("")
    return path.with_suffix(".1")


@pytest.mark.parametrize("rotate", [moved, moved_and_made_anew, truncated])
def test_a_file_that_was_rotated_is_opened_anew(tmp_path: Path, log: AuditLog, rotate: Callable[[Path], Path]) -> None:
    path = tmp_path / "audit.jsonl"
    assert log.put('"old"')(SECONDS)
    older = rotate(path)
    assert log.put('"new"')(SECONDS)
    assert (lines(older), lines(path)) == (["old"], ["new"])


def test_a_full_disk_is_said_once_and_the_file_says_what_it_lacks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.jsonl"
    path.symlink_to(FULL)
    log = AuditLog(str(path))
    assert [log.put('"lost"')(SECONDS) for _ in range(3)] == [False] * 3
    assert log.lost == 3
    errors = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert errors == [f"the audit log {path} cannot be written: No space left on device; events are lost until it can"]
    path.unlink()
    assert log.put('"kept"')(SECONDS)
    gap, kept = lines(path)
    assert (gap["event"], gap["count"], kept) == ("lost", 3, "kept")
    assert caplog.messages[-1] == f"the audit log {path} is written again"
    log.close()


def test_a_line_that_was_written_in_part_is_ended_before_the_next(
    tmp_path: Path, log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    steps = iter([lambda file, data: write(file, data[:4]), _full])

    def step(file: int, data: bytes) -> int:
        return next(steps, write)(file, data)

    monkeypatch.setattr("lance_flight.admin.work_logs.os.write", step)
    assert not log.put('"torn"')(SECONDS)
    assert log.put('"whole"')(SECONDS)
    torn, gap, whole = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert (torn, json.loads(gap)["count"], json.loads(whole)) == ('"tor', 1, "whole")


def _full(file: int, data: bytes) -> int:
    raise OSError(28, "No space left on device")


UNWRITABLE = [
    pytest.param("missing/audit.jsonl", "No such file or directory", id="no directory"),
    pytest.param(".", "Is a directory", id="a directory"),
]


@pytest.mark.parametrize(("name", "why"), UNWRITABLE)
def test_a_file_that_cannot_be_opened_is_refused_at_the_start(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"setting 'audit_log' is '.*', which cannot be written: {why}"):
        AuditLog(str(tmp_path / name))


class Memory:
    """A sink that keeps lines, or fails."""

    def __init__(self, *, is_full: bool = False) -> None:
        self.lines: list[Any] = []
        self.is_full = is_full
        self.lost = 0

    def put(self, line: str) -> Callable[[float], bool]:
        if self.is_full:
            self.lost += 1
        else:
            self.lines.append(json.loads(line))
        is_written = not self.is_full
        return lambda _: is_written


ANN = Subject(principal="ann", roles=("r",), client="ipv4:1.2.3.4:5", session="s", statement="i", sql="SELECT 'hush'")
EVENTS: dict[str, tuple[AuditEvent, bool]] = {
    "a login": (AuditEvent(kind=EventKind.LOGIN), True),
    "a refused login": (AuditEvent(kind=EventKind.LOGIN, decision=Decision.REFUSED), False),
    "a definition": (AuditEvent(kind=EventKind.DDL), True),
    "a definition that failed": (AuditEvent(kind=EventKind.DDL, error="conflict"), False),
    "a refusal": (AuditEvent(kind=EventKind.REFUSAL, decision=Decision.REFUSED), False),
    "a masked read": (AuditEvent(kind=EventKind.MASKED_READ), True),
    "a change of the policy file": (AuditEvent(kind=EventKind.POLICY), False),
}


@pytest.mark.parametrize(("event", "is_needed"), EVENTS.values(), ids=EVENTS)
def test_what_is_allowed_is_written_before_where_that_is_required(event: AuditEvent, is_needed: bool) -> None:  # noqa: FBT001 - the case says it
    trail = AuditTrail()
    trail.begin(Memory(is_full=True))
    trail.record(event)
    trail.begin(Memory(is_full=True), is_required=True)
    if is_needed:
        with pytest.raises(Unavailable, match="the audit log cannot be written"):
            trail.record(event)
    else:
        trail.record(event)
    assert (trail.counts, trail.lost) == ({(event.kind, event.decision): 2}, 1)


@pytest.mark.parametrize("with_sql", [False, True])
def test_a_line_holds_what_was_decided_about_whom(with_sql: bool) -> None:  # noqa: FBT001 - the case says it
    trail, sink = AuditTrail(), Memory()
    trail.begin(sink, with_sql=with_sql)
    trail.record(AuditEvent(kind=EventKind.DDL, subject=ANN, action="DROP TABLE", object="public.t", reason="why"))
    (line,) = sink.lines
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "event": "ddl",
        "decision": "allowed",
        "principal": "ann",
        "roles": ["r"],
        "client": "ipv4:1.2.3.4:5",
        "session": "s",
        "statement": "i",
        "action": "DROP TABLE",
        "object": "public.t",
        "reason": "why",
        "error": None,
        **({"sql": "SELECT 'hush'"} if with_sql else {}),
    }


def test_refused_logins_are_bounded_and_counted() -> None:
    seconds = [5.0]
    trail, sink = AuditTrail(lambda: seconds[0]), Memory()
    trail.begin(sink)
    for _ in range(MOST_REFUSED_LOGINS + 7):
        trail.refuse_login(None, "password", "wrong")
    assert len(sink.lines) == MOST_REFUSED_LOGINS
    seconds[0] += 1
    trail.refuse_login("ann", "password", "wrong")
    assert (sink.lines[-1]["left_out"], sink.lines[-1]["principal"]) == (7, "ann")
    assert "left_out" not in sink.lines[0]


@pytest.fixture
def sink() -> Iterator[Memory]:
    """What the trail of this process records."""
    made = Memory()
    audit.trail.begin(made)
    yield made
    audit.trail.begin(None)


REFUSALS: dict[str, tuple[Exception, list[str]]] = {
    "a refusal": (Refused("not you"), ["refused"]),
    "a quota": (QuotaExceeded("too much"), ["quota_exceeded"]),
    "another error": (NotFound("nothing there"), []),
    "a foreign error": (ValueError("what"), []),
}


@pytest.mark.parametrize(("error", "codes"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_recorded_once(sink: Memory, error: Exception, codes: list[str]) -> None:
    audit.record_refusal(error, ANN)
    audit.record_refusal(error)
    assert [(line["error"], line["principal"]) for line in sink.lines] == [(code, "ann") for code in codes]


def test_a_masked_read_is_recorded_once_for_a_statement_and_a_table(sink: Memory) -> None:
    for subject, table in (
        (ANN, "public.t"),
        (ANN, "public.t"),
        (ANN, "public.u"),
        (Subject(statement="j"), "public.t"),
    ):
        audit.record_masked_read(subject, table, {"b", "a"})
    assert [(line["statement"], line["object"], line["masked"]) for line in sink.lines] == [
        ("i", "public.t", ["a", "b"]),
        ("i", "public.u", ["a", "b"]),
        ("j", "public.t", ["a", "b"]),
    ]
    assert {line["event"] for line in sink.lines} == {"masked_read"}


ACTIONS: dict[str, tuple[str, str] | None] = {
    "CREATE TABLE s.t (a BIGINT)": ("CREATE TABLE", "s.t"),
    "CREATE TABLE t AS SELECT 1 AS a": ("CREATE TABLE", "public.t"),
    "DROP TABLE t": ("DROP TABLE", "public.t"),
    "CREATE VIEW v AS SELECT 1 AS a": ("CREATE VIEW", "public.v"),
    "DROP VIEW v": ("DROP VIEW", "public.v"),
    "CREATE SCHEMA s": ("CREATE SCHEMA", "s"),
    "DROP SCHEMA s": ("DROP SCHEMA", "s"),
    "CREATE INDEX ON t (a)": ("CREATE INDEX", "public.t"),
    "ALTER TABLE t ADD COLUMN b BIGINT": ("ALTER COLUMNS", "public.t"),
    "ALTER TABLE t RENAME TO u": ("RENAME", "public.t"),
    "ALTER TABLE t CREATE BRANCH b": ("CREATE BRANCH", "public.t"),
    "ALTER TABLE t DROP PARTITION (a = 1)": ("DROP PARTITION", "public.t"),
    "ALTER TABLE t COMPACT": ("COMPACT", "public.t"),
    "VACUUM t": ("VACUUM", "public.t"),
    "SELECT 1": None,
    "INSERT INTO t VALUES (1)": None,
    "UPDATE t SET a = 1": None,
    "DELETE FROM t": None,
    "TRUNCATE t": None,
    "SHOW TABLES": None,
    "BEGIN": None,
    "SET access = 'read'": None,
}


@pytest.mark.parametrize(("sql", "expected"), ACTIONS.items(), ids=ACTIONS)
def test_statements_that_define_or_maintain_something_name_it(sql: str, expected: tuple[str, str] | None) -> None:
    statement = parse(sql, "public")
    assert (None if statement.defined is None else (action_of(statement), statement.defined)) == expected


ONE = {"roles": {"r": {"members": ["ann"], "grants": ["SELECT ON t"]}}}
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[str, str, dict[str, Any], dict[str, Any]]]]] = {
    "nothing": (ONE, ONE, []),
    "the first": ({}, ONE, [("r", "added", {"members": ["ann"], "grants": ["SELECT ON t"]}, {})]),
    "removed": (ONE, {}, [("r", "removed", {}, {"members": ["ann"], "grants": ["SELECT ON t"]})]),
    "granted and revoked": (
        ONE,
        {"roles": {"r": {"members": ["ann", "bob"], "grants": ["DDL ON t"]}}},
        [("r", "changed", {"members": ["bob"], "grants": ["DDL ON t"]}, {"grants": ["SELECT ON t"]})],
    ),
    "a quota": (
        {"roles": {"r": {"quota": {"statements": 1, "memory": "2GiB"}}}},
        {"roles": {"r": {"quota": {"statements": 2, "memory": "2GiB"}}}},
        [("r", "changed", {"quota": ["statements = 2"]}, {"quota": ["statements = 1"]})],
    ),
    "outside of roles": (
        ONE,
        {**ONE, "quota": {"statements": 1}},
        [("the file", "added", {"quota": ["statements = 1"]}, {})],
    ),
}


@pytest.mark.parametrize(("before", "after", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_change_of_the_policy_file_names_each_role_and_what_changed(
    before: dict[str, Any], after: dict[str, Any], expected: list[Any]
) -> None:
    found = [
        (each.object, each.action, each.details["added"], each.details["removed"]) for each in changes(before, after)
    ]
    assert found == expected
