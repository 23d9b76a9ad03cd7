"""Running the statements of a script on a server, and writing their results."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from lance_flight.engine.sql.tokens import tokens_of
from lance_flight.errors import InvalidInput, SqlError

from lance_flight_client.adbc import run_statement
from lance_flight_client.cli.connecting import Begins, ChosenServer, cancellable, content
from lance_flight_client.cli.file_tables import SessionFiles
from lance_flight_client.errors import ServerError
from lance_flight_client.files.writing_errors import written_as
from lance_flight_client.output import outcome, write
from lance_flight_client.terminal import Meter


def run_sql(options: argparse.Namespace) -> int:
    """Run statements one after another, and print their results; on a terminal, without any, ask for them."""
    server, script = ChosenServer.of(options), _script(options)
    if script is None:
        # Only a prompt needs its libraries.
        prompt = importlib.import_module("lance_flight_client.cli.shell.prompt")
        return int(prompt.converse(server, options.max_rows or None))
    where, text = script
    statements = list(statements_of(text))
    if not statements:
        raise InvalidInput(f"{where or 'the statement'} is empty; expected SQL")
    command = next((statement for statement in statements if statement.text.startswith("\\")), None)
    if command is not None:
        place = f"{where}:{command.line}: " if where else ""
        raise InvalidInput(f"{place}{command.text.split()[0]} is a command of the prompt; expected SQL")
    output, files = _output(options), SessionFiles()
    with server.naming(), server.connect() as connection:
        for statement in statements:
            try:
                _run(connection, files.in_tables(connection, statement.text), output)
            except ServerError as exc:
                raise ServerError(f"{where}:{statement.line}: {exc}" if where else str(exc)) from exc
    return 0


def _script(options: argparse.Namespace) -> tuple[str | None, str] | None:
    """Return the statements, and the name of the file that they stand in; None for a prompt."""
    given = options.statement if options.statement is not None else options.text
    if given is not None:
        return None, given
    if options.file is not None:
        return options.file, content(options.file) or ""
    return None if sys.stdin.isatty() else ("<stdin>", sys.stdin.read())


Output: TypeAlias = Callable[[pa.Schema, Iterator[pa.RecordBatch]], None]
"""Function that writes the rows of a statement."""


def _output(options: argparse.Namespace) -> Output:
    format, limit = options.format or "table", options.max_rows or None
    if options.output is not None:
        return _file(options.output, options.format)
    if format == "parquet":
        raise InvalidInput("--format parquet makes a file; expected -o FILE")
    if format == "arrow" and sys.stdout.isatty():
        raise InvalidInput("--format arrow is binary, and a terminal shows text; expected -o FILE, or a pipe")

    def printed(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        with written_as(format):
            write(schema, batches, format, limit=limit, out=sys.stdout)

    return printed


def _file(path: str, format: str | None) -> Output:
    """Return what writes the rows of one statement to a file."""
    # Only a file needs Arrow's datasets.
    writing = importlib.import_module("lance_flight_client.files.writing")
    kind, paths = writing.written_format(path, format), [path]

    def store(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        if not paths:
            raise InvalidInput(f"{path!r} has the rows of a statement before this one; expected one query")
        began, meter = time.perf_counter(), Meter(f"writing {path}", None)
        try:
            writing.write_file(paths.pop(), kind, schema, meter.passing(batches))
        finally:
            meter.close()
        print(f"{path}: {meter.rows:,} rows, {time.perf_counter() - began:.1f} s")

    return store


def _run(connection: Any, statement: str, output: Output) -> None:
    def work(begins: Begins) -> None:
        with run_statement(connection, statement, begins) as answer:
            if len(answer.schema):
                output(answer.schema, answer.batches)
            else:
                print(outcome(statement, answer.affected), file=sys.stderr)

    cancellable(work)
    # Binary output goes past the text layer: what was printed before must be there first.
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class ScriptStatement:
    """One statement of a script, and the line that it begins on."""

    text: str
    line: int


def statements_of(script: str) -> Iterator[ScriptStatement]:
    r"""Yield the statements of a script; semicolons in strings, names and comments separate none.

    >>> [(each.line, each.text) for each in statements_of("SELECT ';';\n-- two;\nSELECT 2")]
    [(1, "SELECT ';'"), (3, 'SELECT 2')]
    """
    start = stop = None
    for token in tokens_of(script):
        if token.is_sign(";"):
            if start is not None:
                yield ScriptStatement(script[start:stop], script.count("\n", 0, start) + 1)
            start = None
            continue
        start, stop = token.start if start is None else start, token.stop
    if start is not None:
        yield ScriptStatement(script[start:stop], script.count("\n", 0, start) + 1)


def is_whole(script: str) -> bool:
    """Return whether the last statement of a script has its semicolon; False within a string or a comment.

    >>> is_whole("SELECT 1; -- done"), is_whole("SELECT 'a;")
    (True, False)
    """
    try:
        last = None
        for token in tokens_of(script):
            last = token
    except SqlError:
        return False
    return last is not None and last.is_sign(";")
