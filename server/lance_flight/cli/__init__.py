"""The command `lance-flight`: parse, build, run.

Nothing heavy is imported before a command is chosen: `--help` answers at once.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import importlib
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from lance_flight_client.errors import ServerError
from lance_flight_client.index_arguments import add_index_arguments

from lance_flight.config import DEFAULT_PORT, flag, sections, warn_of_old_name
from lance_flight.errors import LanceFlightError, StorageFull

DEFAULT_URI = f"grpc://127.0.0.1:{DEFAULT_PORT}"
OUTPUT_FORMATS = ("table", "csv", "json", "arrow")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0, or 1 with one line on standard error, 2 for arguments that cannot be."""
    top = parser()
    options, rest = top.parse_known_args(arguments)
    if rest:
        top.commands[options.command].refuse_rest(rest)
    command = importlib.import_module(f"lance_flight.cli.{options.command.replace('-', '_')}")
    try:
        return int(command.run(options))
    except LanceFlightError as exc:
        print(f"lance-flight: [{exc.code}] {exc}", file=sys.stderr)
    except ServerError as exc:
        print(f"lance-flight: {exc}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        sys.stderr.close()
    except OSError as exc:
        full = StorageFull.of(exc, "the root")
        if full is None:
            raise
        print(f"lance-flight: [{full.code}] {full}", file=sys.stderr)
    return 1


class Parser(argparse.ArgumentParser):
    """Says what is wrong with arguments in one line, with the nearest option and where to look."""

    commands: Mapping[str, Parser] = MappingProxyType({})

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")

    def refuse_rest(self, rest: Sequence[str]) -> NoReturn:
        """Refuse arguments that are none of this command's, with the nearest option."""
        known = [option for action in self._actions for option in action.option_strings]
        near = difflib.get_close_matches(rest[0].partition("=")[0], known, n=1)
        what = f"no option {rest[0]!r}" if rest[0].startswith("-") else f"one argument too many, {rest[0]!r}"
        self.error(what + (f"; did you mean {near[0]!r}?" if near else ""))


def parser() -> Parser:
    """Every command with its arguments."""
    top = Parser(
        prog="lance-flight",
        description="An Apache Arrow Flight SQL service for Lance Partitioned Namespaces.",
        epilog="Start with `lance-flight demo`; then `lance-flight serve ROOT` on a directory of your own.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    top.commands = commands.choices
    _serve(commands.add_parser("serve", help="serve a directory over Flight SQL"))
    _config(commands.add_parser("config", help="show the configuration that a server would have"))
    _demo(commands.add_parser("demo", help="load a year of flights, query them, and go on serving"))
    _sql(commands.add_parser("sql", help="run one statement on a server and print what it returns"))
    _hash_password(commands.add_parser("hash-password", help="store a password for the users file of a server"))
    _make_token(commands.add_parser("make-token", help="make a token for the tokens file of a server"))
    _inspect(commands.add_parser("inspect", help="show what lies in a root, without a server"))
    _compact(commands.add_parser("compact", help="write small files and deleted rows of partition tables anew"))
    _create_index(commands.add_parser("create-index", help="index a column in every partition table"))
    _reindex(commands.add_parser("reindex", help="index what indices lack of the rows that there are now"))
    _rewrite(commands.add_parser("rewrite", help="move rows under older partition specs to the current one"))
    _vacuum(commands.add_parser("vacuum", help="remove old snapshots and what dead transactions left"))
    _verify(commands.add_parser("verify", help="read every row, and see whether it lies where it belongs"))
    _repair(commands.add_parser("repair", help="find what is wrong with a table, and put it right"))
    _migrate(commands.add_parser("migrate", help="move metadata that others keep elsewhere to where the spec wants it"))
    return top


def _serve(command: argparse.ArgumentParser) -> None:
    command.description = "Serve the tables of a directory (an empty one is fine) until SIGTERM or Ctrl-C."
    command.add_argument("root", metavar="ROOT", help="directory or object-store URI")
    command.add_argument("--create", action="store_true", help="make the directory ROOT if it is not there")
    command.add_argument(
        "--no-supervise",
        action="store_true",
        help="serve in this very process, which nothing starts again after a crash",
    )
    _settings(command)


def _config(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print the configuration that `serve` would have, as a configuration file, with where each value comes from."
    )
    _settings(command)


def _settings(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "Each of these settings may stand in the file as well (port = 4000) and in the environment (LANCE_FLIGHT_PORT=4000)."
        " Options win over the environment, and that over the file. `lance-flight config` shows what comes of it."
    )
    command.add_argument(
        "--config", metavar="FILE", help="TOML file with any of the settings below (or LANCE_FLIGHT_CONFIG)"
    )
    for heading, of_section in sections().items():
        section = command.add_argument_group(heading.lower())
        for setting in of_section:
            _setting(section, setting)


def _setting(section: argparse._ArgumentGroup, setting: dataclasses.Field[Any]) -> None:
    text, kind, old = str(setting.metadata["help"]), type(setting.default), setting.metadata.get("old_name")
    if kind is bool:
        section.add_argument(flag(setting.name), action=argparse.BooleanOptionalAction, default=None, help=text)
        return
    text += f" (default: {setting.default})" if setting.default != "" else ""
    section.add_argument(flag(setting.name), type=kind, default=None, metavar=kind.__name__.upper(), help=text)
    if old is not None:
        section.add_argument(
            flag(old), type=kind, default=None, dest=setting.name, action=_OldName, help=argparse.SUPPRESS
        )


class _OldName(argparse.Action):
    """Takes the old option of a renamed setting, with a warning."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        warn_of_old_name(option or "", flag(self.dest))
        setattr(namespace, self.dest, values)


def _demo(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Load the 336,776 flights that left New York in 2013 into ./lance-flight-demo through the service itself, "
        "run four queries, and go on serving until Ctrl-C. A second run finds the data and does not load it again."
    )
    command.add_argument(
        "--root", default="lance-flight-demo", metavar="DIR", help="where the data goes (default: ./%(default)s)"
    )
    command.add_argument(
        "--port", type=int, default=DEFAULT_PORT, metavar="N", help="port to serve on (default: %(default)s)"
    )
    command.add_argument("--no-serve", action="store_true", help="take any free port and exit after the queries")


def _sql(command: argparse.ArgumentParser) -> None:
    command.description = "Run one SQL statement on a running server."
    command.add_argument(
        "statement", metavar="SQL", help='for example "SELECT origin, count(*) FROM flights GROUP BY origin"'
    )
    command.add_argument(
        "--uri", default=DEFAULT_URI, help="server, grpc://host:port or grpc+tls://host:port (default: %(default)s)"
    )
    _credentials(command)
    command.add_argument(
        "--format", choices=OUTPUT_FORMATS, default="table", help="how to print (default: %(default)s)"
    )
    command.add_argument(
        "--max-rows", type=int, default=100, metavar="N", help="rows of a printed table (default: %(default)s; 0: all)"
    )


def _credentials(command: argparse.ArgumentParser) -> None:
    """Who asks: nothing that is secret, which everybody on the machine could read."""
    command.add_argument(
        "--user", metavar="NAME", help="who asks; the password comes from LANCE_FLIGHT_PASSWORD, or is asked for"
    )
    command.add_argument("--token-file", metavar="FILE", help="file with a bearer token, instead of a user")
    command.add_argument("--tls-ca", metavar="FILE", help="who signs the server's certificate (PEM)")
    command.add_argument(
        "--tls-certificate", metavar="FILE", help="own certificate, where the server asks for one (PEM)"
    )
    command.add_argument("--tls-key", metavar="FILE", help="its key (PEM)")


def _hash_password(command: argparse.ArgumentParser) -> None:
    command.description = "Read a password from the terminal, or a line of standard input, and print how it is stored."
    command.add_argument("user", metavar="USER", nargs="?", help="print a whole entry of this user")


def _make_token(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print a new bearer token on standard output, and its entry of the tokens file on standard error: "
        "`lance-flight make-token etl 2>> tokens.toml > etl.token`."
    )
    command.add_argument("principal", metavar="PRINCIPAL", help="who comes with the token")


def _inspect(command: argparse.ArgumentParser) -> None:
    command.description = (
        "List the tables of a root, or show one: specs, schema with field ids, partitions, pins, rows."
    )
    command.add_argument("root", metavar="ROOT", help="directory or object-store URI")
    command.add_argument("table", metavar="TABLE", nargs="?", help="table to show ([schema.]name)")
    command.add_argument(
        "--where", metavar="CONDITION", help="show which partition tables a query with this WHERE reads, and why"
    )
    command.add_argument(
        "--max-rows", type=int, default=50, metavar="N", help="partitions to list (default: %(default)s; 0: all)"
    )


def _maintained(command: argparse.ArgumentParser) -> None:
    command.add_argument("root", metavar="ROOT", help="directory or object-store URI")
    command.add_argument(
        "table", metavar="TABLE", nargs="?", help="partitioned table ([schema.]name); all of them without"
    )


def _compact(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Write small files, and files with deleted rows, anew, and move the pins of all partition tables concerned in one"
        " commit. Readers and writers go on meanwhile: a table that somebody else changes first stays as it is. The old"
        " files are there for older snapshots until `vacuum` removes them."
    )
    _maintained(command)
    command.add_argument(
        "--files", type=int, default=1, metavar="N", help="only tables with more files than this (default: %(default)s)"
    )
    command.add_argument(
        "--deleted",
        type=float,
        default=10.0,
        metavar="PERCENT",
        help="or with more of their rows deleted than this (default: %(default)s)",
    )
    command.add_argument(
        "--target-rows",
        type=int,
        default=1 << 20,
        metavar="N",
        help="rows of a file that is large enough (default: %(default)s)",
    )
    command.add_argument(
        "--tables-per-commit",
        type=int,
        default=1024,
        metavar="N",
        help="partition tables whose pins move together (default: %(default)s)",
    )


def _create_index(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Give partition tables an index of a column, as CREATE INDEX does, for filters and searches: a part of the tables in"
        " each commit, together with their pins. Readers and writers go on meanwhile; a run that is stopped has done a part,"
        " and the same command goes on with the rest."
    )
    command.add_argument("root", metavar="ROOT", help="directory or object-store URI")
    command.add_argument("table", metavar="TABLE", help="partitioned table ([schema.]name)")
    add_index_arguments(command, "as CREATE INDEX knows them: btree, bitmap, inverted, ivf_pq, …")


def _reindex(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Add to every index what it lacks of the rows that there are now, as REINDEX does. `compact` does so, too, after its"
        " own work."
    )
    _maintained(command)


def _rewrite(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Move the rows of tables under older partition specs to the current one, some tables in each commit. Readers and"
        " writers go on meanwhile; a run that is stopped has done a part, and the next one goes on with the rest."
    )
    _maintained(command)
    command.add_argument(
        "--where", metavar="CONDITION", help="only tables that may hold rows for which this is true, over the columns"
    )
    command.add_argument(
        "--tables-per-commit",
        type=int,
        default=256,
        metavar="N",
        help="partition tables that are moved together at most (default: %(default)s)",
    )
    command.add_argument(
        "--rows-per-commit",
        type=int,
        default=4 << 20,
        metavar="N",
        help="rows that are moved together at most, but for a table that has more (default: %(default)s)",
    )


def _verify(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Read every row of a snapshot, compute its partition values anew, and hold them against those of the table that it"
        " lies in. Prints what is wrong, and for each table how many rows it has and their checksum, which stays the same"
        " while rows are moved, compacted or copied. Exits with 1 if anything is wrong; `repair` mends metadata."
    )
    _maintained(command)
    command.add_argument("--snapshot", type=int, metavar="N", help="this version of the table (default: the newest)")


def _vacuum(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Remove snapshots that were replaced long ago, the versions and files of partition tables that no remaining"
        " snapshot needs, and what transactions that died have left. Never the newest snapshot, one with a tag, one that a"
        " branch begins at, or one that somebody still reads."
    )
    _maintained(command)
    command.add_argument(
        "--retain",
        type=float,
        default=168.0,
        metavar="HOURS",
        help="keep snapshots for so long after they were replaced (default: %(default)s; less with --force alone)",
    )
    command.add_argument(
        "--transactions",
        type=float,
        default=24.0,
        metavar="HOURS",
        help="take what was written so long ago, and never committed, for dead (default: %(default)s)",
    )
    command.add_argument("--force", action="store_true", help="let --retain be less than seven days")
    command.add_argument("--dry-run", action="store_true", help="say what would go, and change nothing")


def _repair(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Find columns of __manifest that a writer without partitions has dropped, rows without a table or without the"
        " version that they pin, and values with several tables. Without --apply nothing is changed. The exit status is 1"
        " where something is wrong and stays so."
    )
    _maintained(command)
    command.add_argument("--apply", action="store_true", help="put right what can be, each kind in a commit of its own")


def _migrate(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Partition specs and schemas that their writer keeps in the rows of __manifest, or in its Arrow schema, are read"
        " there, and such a table is not written to. This puts them into the table metadata, in one commit; where they"
        " were they stay, and count no more."
    )
    _maintained(command)
    command.add_argument(
        "--register",
        action="store_true",
        help="list the plain tables of the root (<name>.lance) in its __manifest instead, which is made if there is none",
    )
    command.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")
