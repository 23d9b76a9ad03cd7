"""The command `lance-flight`: parse, build, run.

Nothing heavy is imported before a command is chosen: `lance-flight --help` answers at once.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, NoReturn

from lance_flight.errors import LanceFlightError, StorageDenied, StorageFull, StorageUnauthenticated, Unavailable
from lance_flight.machine import keep_freed_memory, raise_file_limit
from lance_flight.model.operations import OPERATIONS

from lance_flight_client.errors import ServerError, plain

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "serve": "serve a directory over Flight SQL",
        "config": "print the configuration of a server",
        "demo": "load a year of flights, query them, and serve them",
        "ingest": "load files into a table",
        "export": "write a table or a query to files",
        "sql": "run statements on a server, or ask for them at a prompt",
        "console": "serve pages about the tables of a server: partitions, queries, history",
        "mcp": "give an assistant tools over the tables of a server",
        "hash-password": "hash a password for the users file of a server",
        "make-token": "make a bearer token for the tokens file of a server",
        "inspect": "show the tables of a root, without a server",
        **{name: operation.summary for name, operation in OPERATIONS.items()},
        "backup": "copy the tables of a root to a backup, while it is in use",
        "list-backups": "list the backups in a directory or object store",
        "verify-backup": "compare every file of a backup with its checksum",
        "restore": "make a new root of a backup",
        "doctor": "look for what keeps a root from being served well",
    }
)
"""Each command with its line in `--help`; its module declares its `arguments` and has it `run`."""
_MODULES = {"serve": "serve", "config": "config", **dict.fromkeys(OPERATIONS, "maintenance")}
"""Modules of commands, but for those of `commands`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, 1 with one line on standard error, or 2 for invalid arguments."""
    top = parser()
    raise_file_limit()
    keep_freed_memory()
    try:
        top.check_command(sys.argv[1:] if arguments is None else arguments)
        options, rest = top.parse_known_args(arguments)
        if rest:
            top.commands[options.command].refuse_rest(rest)
        return int(_module(options.command).run(options))
    except LanceFlightError as exc:
        print(f"lance-flight: [{exc.code}] {exc}", file=sys.stderr)
    except ServerError as exc:
        print(f"lance-flight: {plain(exc)}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of the output has closed the pipe.
        sys.stderr.close()
    except OSError as exc:
        known: LanceFlightError | None = StorageFull.of(exc, "the root") or StorageUnauthenticated.of(exc)
        known = known or Unavailable.of(exc)
        if exc.filename is None:  # of Lance: a file of the command's own has its name
            known = known or StorageDenied.of(exc, "the root")
        if known is not None:
            print(f"lance-flight: [{known.code}] {known}: {str(exc).splitlines()[0]}", file=sys.stderr)
        elif exc.filename is not None:
            print(f"lance-flight: {exc.filename!r}: {exc.strerror}", file=sys.stderr)
        else:
            raise
    return 1


_OPTION = re.compile(r"--[a-z][a-z-]*$")


class Parser(argparse.ArgumentParser):
    """Argument parser that reports an error in one line, with the nearest option and a pointer to `--help`."""

    commands: Mapping[str, Parser] = MappingProxyType({})
    of_command: str | None = None
    _given: Sequence[str] = ()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:  # type: ignore[override]
        """Parse arguments, after the command of this parser has declared its own."""
        if self.of_command is not None:
            _module(self.of_command).arguments(self)
            self.of_command = None
        self._given = tuple(args or ())
        return super().parse_known_args(args, namespace)

    def check_command(self, arguments: Sequence[str]) -> None:
        """Refuse a command that is not there, with the nearest one."""
        name = arguments[0] if arguments else "-"
        if not name.startswith("-") and name not in self.commands:
            near = difflib.get_close_matches(name, self.commands, n=1)
            self.error(f"no command {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))

    def error(self, message: str) -> NoReturn:
        # The value of an unknown option is taken for an argument, and an error would tell of that.
        given, self._given = self._given, ()
        unknown = [word for word in given if _OPTION.match(word) and word not in self._option_string_actions]
        if unknown and not self.commands:
            self.refuse_rest(unknown)
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")

    def refuse_rest(self, rest: Sequence[str]) -> NoReturn:
        """Refuse arguments that the command does not take, with the nearest option."""
        known = [option for action in self._actions for option in action.option_strings]
        near = difflib.get_close_matches(rest[0].partition("=")[0], known, n=1)
        what = f"no option {rest[0]!r}" if rest[0].startswith("-") else f"one argument too many, {rest[0]!r}"
        self.error(what + (f"; did you mean {near[0]!r}?" if near else ""))


class _ShowVersion(argparse.Action):
    """Prints the installed version; no other command reads the package's metadata for it."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        version = importlib.import_module("importlib.metadata").version("lance-flight")
        print(f"lance-flight {version}")
        parser.exit()


def parser() -> Parser:
    """Build the parser of all commands; a command declares its arguments when it is chosen."""
    top = Parser(
        prog="lance-flight",
        description="An Apache Arrow Flight SQL service for Lance Partitioned Namespaces.",
        epilog="Start with `lance-flight demo`, then `lance-flight serve ROOT` on a directory of your own.",
    )
    top.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text).of_command = name
    top.commands = commands.choices
    return top


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"lance_flight_client.cli.{_MODULES.get(command, 'commands')}")
