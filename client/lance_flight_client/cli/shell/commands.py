"""Commands of the prompt, which begin with a backslash."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa
from lance_flight.engine.sql.tokens import closing_places, tokenize
from lance_flight.errors import InvalidInput

from lance_flight_client.adbc import execute, ingest, run_statement
from lance_flight_client.cli.connecting import Begins, cancellable, content
from lance_flight_client.cli.running_sql import statements_of
from lance_flight_client.cli.shell.session import ShellSession
from lance_flight_client.errors import ServerError
from lance_flight_client.files.sniffing import TextOptions
from lance_flight_client.files.sources import FileStream, open_files
from lance_flight_client.files.writing import write_file, written_format
from lance_flight_client.output import align_table, document, is_document
from lance_flight_client.parameters import text_literal
from lance_flight_client.partition_map import partition_map
from lance_flight_client.terminal import Meter, counted

Does: TypeAlias = Callable[[ShellSession, Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command: its arguments as help says them, how many there may be, and what it does."""

    arguments: str
    help: str
    does: Does
    fewest: int = 0
    most: int = 1


def run_command(session: ShellSession, line: str) -> None:
    """Run a line that begins with a backslash; `InvalidInput` for an unknown one, or other arguments than it takes."""
    name, *arguments = _words(line.strip().removesuffix(";").removeprefix("\\"))
    if name not in COMMANDS:
        raise InvalidInput(f"no command \\{name}; \\? lists them")
    command = COMMANDS[name]
    if not command.fewest <= len(arguments) <= command.most:
        raise InvalidInput(f"\\{name} takes {command.arguments or 'no arguments'}, got {len(arguments)} of them")
    command.does(session, arguments)


def _words(line: str) -> list[str]:
    """Split a line; a query in brackets is one word, as in psql's copy."""
    tokens = tokenize(line) if _QUERY.match(line) else []
    closed = closing_places(tokens).get(1)
    if closed is not None:
        first, query, last = tokens[0], tokens[2:closed], tokens[closed]
        return [first.text, line[query[0].start : last.start] if query else "", *_words(line[last.stop :])]
    try:
        return shlex.split(line) or [""]
    except ValueError as exc:
        raise InvalidInput(f"\\{line}: {exc}") from exc


_QUERY = re.compile(r"\w+\s*\(")


def run_script(session: ShellSession, path: str) -> None:
    """Run the statements of a file; the first that fails ends it, and is named by its line."""
    for statement in statements_of(content(path) or ""):
        try:
            session.run(statement.text)
        except ServerError as exc:
            raise ServerError(f"{path}:{statement.line}: {exc}") from exc


def _describe(session: ShellSession, arguments: Sequence[str]) -> None:
    _show(session, f"DESCRIBE {arguments[0]}" if arguments else "SHOW TABLES")


def _describe_more(session: ShellSession, arguments: Sequence[str]) -> None:
    """Show the columns of a table and the statement that makes it, or the tables with their kinds and comments."""
    if not arguments:
        _show(session, _TABLES)
        return
    results = [
        execute(session.connection, f"{words} {arguments[0]}").rows for words in ("DESCRIBE", "SHOW CREATE TABLE")
    ]
    session.show(
        "\n\n".join(document(rows) if is_document(rows.schema) else align_table(rows) for rows in results if rows)
    )


def _functions(session: ShellSession, arguments: Sequence[str]) -> None:
    # As in psql, * stands for any characters, too.
    pattern = text_literal(arguments[0].replace("*", "%")) if arguments else "'%'"
    _show(session, f"SHOW FUNCTIONS LIKE {pattern}")


_SCHEMAS = "SELECT catalog_name, schema_name FROM information_schema.schemata"
_TABLES = "SELECT table_schema, table_name, table_type, partitioned, table_comment FROM information_schema.tables"


def _partitions(session: ShellSession, arguments: Sequence[str]) -> None:
    rows = execute(session.connection, f"SHOW PARTITIONS {arguments[0]}").rows
    assert rows is not None  # noqa: S101 - a query
    specs = rows["spec_id"].unique().to_pylist()
    picture = f"{partition_map(rows)}\n\n" if len(specs) == 1 else ""
    names = rows.column_names
    # The values of partition fields stand between these two, in the order of the picture.
    fields = names[names.index("spec_id") : names.index("object_id")]
    listed = rows.drop_columns(["location"]).sort_by([(name, "ascending") for name in fields])
    session.show(f"{picture}{align_table(listed, session.max_rows)}")


def _show(session: ShellSession, sql: str) -> None:
    rows = execute(session.connection, sql).rows
    session.show(align_table(pa.table({}) if rows is None else rows))


def _switch(name: str, label: str) -> Does:
    def does(session: ShellSession, arguments: Sequence[str]) -> None:
        if arguments and arguments[0] not in _SWITCHES:
            raise InvalidInput(f"{arguments[0]!r} is no switch; expected on or off")
        setattr(session, name, _SWITCHES[arguments[0]] if arguments else not getattr(session, name))
        print(f"{label}: {'on' if getattr(session, name) else 'off'}")

    return does


_SWITCHES = {"on": True, "off": False}


def _copy(session: ShellSession, arguments: Sequence[str]) -> None:
    what, way, path = arguments
    if way.lower() == "from":
        source = open_files([path], None, TextOptions(), io.BytesIO())
        for note in source.notes:
            print(note)
        db_schema, _, name = what.rpartition(".")
        into = partial(ingest, session.connection, name, mode="create_append", db_schema=db_schema or None)
        with FileStream(source, source.schema, f"loading {what}").reader(_HINT) as rows:
            count = cancellable(lambda begins: into(rows, begins=begins))
        print(f"{counted(count)} stored in {what}")
    elif way.lower() == "to":
        sql = what if any(map(str.isspace, what)) else f"SELECT * FROM {what}"  # noqa: S608 - the user's own
        sql = session.files.in_tables(session.connection, sql)
        format, meter = written_format(path, None), Meter(f"writing {path}", None)

        def work(begins: Begins) -> None:
            with run_statement(session.connection, sql, begins) as answer:
                write_file(path, format, answer.schema, meter.passing(answer.batches))

        try:
            cancellable(work)
        finally:
            meter.close()
        print(f"{path} written, {meter.rows:,} rows")
    else:
        raise InvalidInput(f"\\copy takes TO or FROM, got {way!r}")


_HINT = "name the types in INSERT INTO … SELECT … FROM read_csv('FILE', types = {'column': 'VARCHAR'})"


def _edit(session: ShellSession, arguments: Sequence[str]) -> None:
    """Have the user's editor change a file, or the last statement, and run what it holds then."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(arguments[0] if arguments else f"{place}/statement.sql")
        if not arguments:
            file.write_text(f"{session.last or ''}\n", encoding="utf-8")
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
        try:
            subprocess.run([*editor, str(file)], check=True)  # noqa: S603 - the user's own editor
        except (OSError, subprocess.CalledProcessError) as exc:
            raise InvalidInput(f"the editor {editor[0]!r} failed: {exc}; expected one in EDITOR") from exc
        run_script(session, str(file))


def _again(session: ShellSession, _: Sequence[str]) -> None:
    session.run(_last(session, "g"))


def _last(session: ShellSession, name: str) -> str:
    if session.last is None:
        raise InvalidInput(f"\\{name} repeats the last statement; there is none")
    return session.last


def _watch(session: ShellSession, arguments: Sequence[str]) -> None:
    statement = _last(session, "watch")
    seconds = _seconds(arguments[0] if arguments else "2")
    try:
        while True:
            session.run(statement)
            time.sleep(seconds)
    except KeyboardInterrupt:
        print()


def _seconds(text: str) -> float:
    try:
        return max(float(text), 0.1)
    except ValueError:
        raise InvalidInput(f"{text!r} is no number of seconds") from None


def _quit(session: ShellSession, _: Sequence[str]) -> None:
    session.is_over = True


def _help(session: ShellSession, _: Sequence[str]) -> None:
    lines = [("\\" + f"{name} {command.arguments}".strip(), command.help) for name, command in COMMANDS.items()]
    width = max(len(form) for form, _ in lines if len(form) <= _WIDEST_FORM)
    shown = [
        f"{form:{width}}  {text}" if len(form) <= width else f"{form}\n{'':{width}}  {text}" for form, text in lines
    ]
    session.show("\n".join(shown) + f"\n\n{_OTHERWISE}")


_WIDEST_FORM = 20
_OTHERWISE = (
    "Statements end with a semicolon, and may have several lines.\nCtrl-C cancels a statement, Ctrl-D ends the shell."
)

COMMANDS: Mapping[str, ShellCommand] = MappingProxyType(
    {
        "d": ShellCommand("[TABLE]", "list the tables, or the columns of one", _describe),
        "d+": ShellCommand("[TABLE]", "the same with comments, or the statement that makes it", _describe_more),
        "df": ShellCommand("[PATTERN]", "list the functions", _functions),
        "l": ShellCommand("", "list the catalogs and schemas", lambda s, _: _show(s, _SCHEMAS), most=0),
        "dt": ShellCommand("", "list the tables", _describe, most=0),
        "dp": ShellCommand("TABLE", "draw and list the partitions of a table", _partitions, fewest=1),
        "x": ShellCommand("[on|off]", "show each value on a line of its own", _switch("is_expanded", "expanded")),
        "timing": ShellCommand("[on|off]", "show how long statements take", _switch("is_timed", "timing")),
        "o": ShellCommand(
            "[FILE]", "write results to a file, or to the terminal again", lambda s, a: s.write_to(a[0] if a else None)
        ),
        "i": ShellCommand("FILE", "run the statements of a file", lambda s, a: run_script(s, a[0]), fewest=1),
        "copy": ShellCommand(
            "TABLE FROM FILE | TABLE|(QUERY) TO FILE", "load a file of this machine, or write one", _copy, 3, 3
        ),
        "e": ShellCommand("[FILE]", "edit the last statement, or a file, and run it", _edit),
        "g": ShellCommand("", "run the last statement again, or the one before it", _again, most=0),
        "watch": ShellCommand("[SECONDS]", "run the last statement again and again, until Ctrl-C", _watch),
        "q": ShellCommand("", "end the shell", _quit, most=0),
        "?": ShellCommand("", "list these commands", _help, most=0),
    }
)
"""Commands by what follows the backslash."""

COMMAND_WORDS: Mapping[str, str] = MappingProxyType({"help": r"\?", "?": r"\?", "exit": r"\q", "quit": r"\q"})
"""Commands that are typed as words."""
