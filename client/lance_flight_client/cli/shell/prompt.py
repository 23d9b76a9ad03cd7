"""The terminal of the shell: a prompt with history, several lines, completion and colours, and a pager for what is long."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from lance_flight.errors import LanceFlightError
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import PostgresLexer

from lance_flight_client.cli.connecting import ChosenServer
from lance_flight_client.cli.running_sql import is_whole, statements_of
from lance_flight_client.cli.shell.commands import COMMAND_WORDS, run_command
from lance_flight_client.cli.shell.completion import KnownNames, NameCompleter
from lance_flight_client.cli.shell.session import ShellSession, warn
from lance_flight_client.errors import ServerError, plain
from lance_flight_client.output import text_width
from lance_flight_client.terminal import printable

_PAGER = "less -FRSX '-Pq goes back to the prompt, arrows move'"


def converse(server: ChosenServer, max_rows: int | None) -> int:
    """Read statements and commands from the terminal and run them, until the user ends it."""
    session = ShellSession(server, page=page_text, max_rows=max_rows)
    # A server that is not there, or lets nobody in, is said before the first prompt.
    session.rows("SELECT 1")
    known = KnownNames(server)
    known.refresh()
    print(f"{server.address}; statements end with a semicolon, help lists commands, Ctrl-D ends")
    prompt: PromptSession[str] = PromptSession(
        history=FileHistory(str(history_file())),
        lexer=PygmentsLexer(PostgresLexer),
        completer=NameCompleter(known),
        complete_while_typing=False,
        multiline=Condition(lambda: not is_complete(get_app().current_buffer.text)),
        prompt_continuation=lambda width, *_: "…> ".rjust(width),
        enable_history_search=True,
        enable_suspend=True,
        key_bindings=_keys(),
    )
    try:
        while not session.is_over:
            with suppress(KeyboardInterrupt):
                _one(session, prompt, known)
    except EOFError:
        pass
    finally:
        session.close()
    return 0


def _keys() -> KeyBindings:
    """Return keys beside the usual ones: colours in a text that is pasted look like a mouse, of which nothing is read."""
    keys = KeyBindings()
    keys.add(Keys.Vt100MouseEvent)(lambda _: None)
    return keys


def _one(session: ShellSession, prompt: Any, known: KnownNames) -> None:
    """Read one input and run it; an interrupt or an error ends what it is about and no more."""
    text = prompt.prompt("lance-flight> ")
    try:
        run_input(session, text)
    except KeyboardInterrupt:
        warn("cancelled")
    except LanceFlightError as exc:
        warn(f"[{exc.code}] {exc}")
    except ServerError as exc:
        warn(plain(exc))
    except EOFError:
        raise
    except Exception as exc:  # noqa: BLE001 - the prompt, with what was typed before, outlives what nobody foresaw
        warn(f"[internal] {type(exc).__name__}: {exc}")
    if text.lstrip()[:6].lower() in {"create", "alter ", "drop t", "drop v"}:
        known.refresh()


def run_input(session: ShellSession, text: str) -> None:
    """Run what was typed: a command, or statements."""
    command = COMMAND_WORDS.get(text.strip().rstrip("; ").lower(), text.lstrip())
    if command.startswith("\\"):
        run_command(session, command)
        return
    for statement in statements_of(_without_go(text)):
        session.run(statement.text)


def _without_go(text: str) -> str:
    r"""Return a text with a semicolon in place of a `\g` at its end."""
    return text.rstrip().removesuffix("\\g") + ";" if text.rstrip().endswith("\\g") else text


def is_complete(text: str) -> bool:
    r"""Return whether an input can be run: nothing, a command, or statements that end with a semicolon.

    >>> [is_complete(text) for text in ("SELECT ';'", "SELECT 1;", r"\dt", "exit", "SELECT 1; SELECT", r"SELECT 1 \g")]
    [False, True, True, True, False, True]
    """
    words = text.strip().lower()
    return not words or words.startswith("\\") or words in COMMAND_WORDS or is_whole(_without_go(text))


def history_file() -> Path:
    """Return the file of what was typed before, which its owner alone may read."""
    place = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "lance-flight"
    place.mkdir(parents=True, exist_ok=True)
    file = place / "history"
    file.touch(mode=0o600)
    return file


def page_text(text: str) -> None:
    """Print a text; through PAGER where it is longer or wider than the terminal."""
    text = printable(text)
    size, lines = shutil.get_terminal_size(), text.splitlines()
    fits = len(lines) < size.lines and max(map(text_width, lines), default=0) <= size.columns
    pager = shlex.split(os.environ.get("PAGER", _PAGER))
    if fits or not sys.stdout.isatty() or not pager or shutil.which(pager[0]) is None:
        print(text)
        return
    # An interrupt is the pager's, which keeps the terminal in a mode of its own until it ends.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        subprocess.run(pager, input=text, text=True, check=False)  # noqa: S603 - the user's own pager
    finally:
        signal.signal(signal.SIGINT, before)
